//! The page of the ops with the columns of all devices. No device is opened for it.

use lanthorn_compiler::backend::Backend;
use lanthorn_optest::page::{self, Column};

pub const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ops.md");

pub fn page() -> String {
    let cpu = |prim: &_, types: &[&_]| lanthorn_cpu::CpuBackend.support(prim, types);
    page::page(&[
        Column { name: "cpu", supports: &cpu, narrow: false },
        Column { name: "gpu", supports: &lanthorn_gpu::support, narrow: true },
    ])
}
