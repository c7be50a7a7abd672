//! One tensor and machine-learning engine that carries the PyTorch way of working wherever a program runs.
//!
//! This crate is a door: it holds no logic, names the rooms of the house and makes the devices of this machine
//! known.
//!
//! ```
//! use lanthorn::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let device = Device::cpu();
//! let x = Tensor::from_slice(&device, &[3], &[1f32, 2.0, 3.0])?;
//! let (loss, grads) = value_and_grad(|x| x[0].square()?.sum(&[], false), &[&x])?;
//! assert_eq!(loss.item()?, 14.0);
//! println!("{}", grads[0]); // tensor([2., 4., 6.])
//! # Ok(())
//! # }
//! ```

use std::sync::{Arc, OnceLock};
#[cfg(feature = "gpu")]
use std::sync::{Mutex, PoisonError};

use lanthorn_cpu::CpuBackend;

pub use lanthorn_compiler as compiler;
pub use lanthorn_io as io;
pub use lanthorn_ir as ir;
pub use lanthorn_llm as llm;
pub use lanthorn_nn as nn;
pub use lanthorn_runtime as runtime;

pub use lanthorn_ir::{DType, Error, ErrorKind, Result, ops};
pub use lanthorn_runtime::{
    CancelToken, Compiled, Device, Eager, EagerTensor, Executable, KernelInfo, NonFinite, Profile, Stats,
    Tensor, compile, differentiable_grad, grad, realise, register_backend, value_and_grad,
};

/// This machine's processor.
pub fn cpu() -> Device {
    static CPU: OnceLock<Device> = OnceLock::new();
    CPU.get_or_init(|| register_backend(Arc::new(CpuBackend))).clone()
}

/// This machine's GPU.
///
/// Errors: [`ErrorKind::Device`] if there is none.
#[cfg(feature = "gpu")]
pub fn gpu() -> Result<Device> {
    static GPU: Mutex<Option<Device>> = Mutex::new(None);
    // Held while the device is opened, so that two threads do not open two.
    let mut gpu = GPU.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = &*gpu {
        return Ok(device.clone());
    }
    Ok(gpu.insert(register_backend(Arc::new(lanthorn_gpu::GpuBackend::open()?))).clone())
}

/// The devices of this machine by their names: `Device::cpu()`.
pub trait Devices {
    /// This machine's processor.
    fn cpu() -> Device {
        cpu()
    }

    /// This machine's GPU.
    ///
    /// Errors: [`ErrorKind::Device`] if there is none.
    #[cfg(feature = "gpu")]
    fn gpu() -> Result<Device> {
        gpu()
    }
}

impl Devices for Device {}

/// The examples of `docs/observing.md`, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/observing.md")]
struct Observing;

/// The examples of `docs/training.md`, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/training.md")]
struct Training;

/// The examples of `docs/models.md`, which are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/models.md")]
struct Models;

/// What most programs use.
pub mod prelude {
    pub use crate::ops::Reduction;
    pub use crate::{DType, Device, Devices, Error, Result, Tensor, compile, grad, realise, value_and_grad};
}
