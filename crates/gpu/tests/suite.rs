//! The suite of the ops on the GPU backend. What has no shader is refused by name; `docs/ops.md` lists it.

use std::sync::OnceLock;

use lanthorn_gpu::GpuBackend;
use lanthorn_optest::device::Device;
use lanthorn_optest::op_suite;

fn device() -> Device {
    static GPU: OnceLock<GpuBackend> = OnceLock::new();
    let gpu = GPU.get_or_init(|| match GpuBackend::open() {
        Ok(gpu) => gpu,
        Err(error) => panic!("{error}; tools/gpu-setup.sh installs a software one"),
    });
    Device { floats: &[DType::F32], ints: &[DType::I32, DType::U32], may_refuse: true, ..Device::whole(gpu) }
}

use lanthorn_ir::DType;

op_suite!(gpu, device());
