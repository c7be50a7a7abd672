//! The suite of the ops on the GPU backend. What has no shader is refused by name; `docs/ops.md` lists it.

use std::sync::OnceLock;

use lanthorn_gpu::GpuBackend;
use lanthorn_ir::DType;
use lanthorn_optest::device::Device;
use lanthorn_optest::op_suite;

fn device() -> Device {
    static GPU: OnceLock<GpuBackend> = OnceLock::new();
    let gpu = GPU.get_or_init(|| match GpuBackend::open() {
        Ok(gpu) => gpu,
        Err(error) => panic!("{error}; tools/gpu-setup.sh installs a software one"),
    });
    let (floats, ints) = (&[DType::F32], &[DType::I32, DType::U32]);
    Device { floats, ints, may_refuse: true, is_unchecked: true, ..Device::whole(gpu) }
}

op_suite!(gpu, device());
