//! One tensor and machine-learning engine that carries the PyTorch way of working wherever a program runs.

use std::sync::{Arc, OnceLock};

use lanthorn_cpu::CpuBackend;
use lanthorn_runtime::{Device, register_backend};

/// This machine's processor.
pub fn cpu() -> Device {
    static CPU: OnceLock<Device> = OnceLock::new();
    CPU.get_or_init(|| register_backend(Arc::new(CpuBackend))).clone()
}
