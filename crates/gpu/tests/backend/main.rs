//! The GPU backend, held against the reference. The harness and the random programs are those of the CPU backend.
//!
//! Software Vulkan computes about as fast as a pocket calculator of the nineties: shapes here are small.

mod maps;
mod prims;
mod products;
mod programs;
#[path = "../../../cpu/tests/backend/random.rs"]
mod random;
mod reductions;
mod refusals;
mod transfer;

// What only the CPU's tests use.
#[allow(dead_code)]
#[path = "../../../cpu/tests/backend/harness.rs"]
mod harness;

use std::sync::OnceLock;

use lanthorn_compiler::backend::Backend;
use lanthorn_gpu::GpuBackend;
use lanthorn_ir::DType;

/// What random programs compute in.
pub const RANDOM_DTYPES: [DType; 3] = [DType::F32, DType::I32, DType::U32];
pub const RANDOM_PROGRAMS: u32 = 60;

/// The GPU of this machine; a machine without one fails its tests, it does not skip them.
pub fn gpu() -> &'static GpuBackend {
    static GPU: OnceLock<GpuBackend> = OnceLock::new();
    GPU.get_or_init(|| match GpuBackend::open() {
        Ok(gpu) => gpu,
        Err(error) => panic!("{error}; tools/gpu-setup.sh installs a software one"),
    })
}

pub fn backend() -> &'static dyn Backend {
    gpu()
}
