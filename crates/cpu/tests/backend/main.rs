//! The CPU backend, held against the reference: every op and primitive, compiled and eager.

use lanthorn_compiler::backend::Backend;
use lanthorn_ir::DType;

/// What the shared tests run on, and what random programs compute in.
pub fn backend() -> &'static dyn Backend {
    &lanthorn_cpu::CpuBackend
}
pub const RANDOM_DTYPES: [DType; 5] = [DType::F32, DType::F64, DType::I32, DType::I64, DType::U8];
pub const RANDOM_PROGRAMS: u32 = 400;

mod convolutions;
mod dtypes;
mod harness;
mod isa;
mod paged;
mod prims;
mod products;
mod random;
mod reductions;
mod rules;
mod state;

#[allow(dead_code)]
#[path = "../../../interp/tests/rules/cases.rs"]
mod cases;
#[allow(dead_code)]
#[path = "../../../interp/tests/rules/support.rs"]
mod support;
