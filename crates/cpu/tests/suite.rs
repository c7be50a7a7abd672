//! The suite of the ops on the CPU backend.

use lanthorn_optest::device::Device;
use lanthorn_optest::op_suite;

fn device() -> Device {
    Device::whole(&lanthorn_cpu::CpuBackend)
}

op_suite!(cpu, device());
