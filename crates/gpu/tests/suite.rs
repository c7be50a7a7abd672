//! The suite of the ops on the GPU backend. What has no shader is refused by name; `docs/ops.md` lists it.

use std::sync::OnceLock;

use lanthorn_gpu::GpuBackend;
use lanthorn_ir::DType;
use lanthorn_optest::device::{Device, suite};

fn device() -> Device {
    static GPU: OnceLock<GpuBackend> = OnceLock::new();
    let gpu = GPU.get_or_init(|| match GpuBackend::open() {
        Ok(gpu) => gpu,
        Err(error) => panic!("{error}; tools/gpu-setup.sh installs a software one"),
    });
    // A software device takes tens of minutes for all cases, since each makes shaders: LANTHORN_ALL=1 runs them.
    let every = if std::env::var_os("LANTHORN_ALL").is_some() { 1 } else { 23 };
    let (floats, ints) = (&[DType::F32], &[DType::I32, DType::U32]);
    Device { floats, ints, may_refuse: true, every, ..Device::whole(gpu) }
}

/// Values and derivatives. Refusals at run time and the accuracy of single primitives are the reference's and the CPU's:
/// what has no shader here runs by its decomposition, which checks no arguments and adds in f32.
#[test]
fn values_in_f32() {
    suite::values(&device(), DType::F32);
}

#[test]
fn values_in_integers() {
    suite::integers(&device());
}

#[test]
fn values_of_other_types() {
    suite::other_types(&device());
}

#[test]
fn derivatives_in_f32() {
    suite::derivatives(&device(), DType::F32);
}
