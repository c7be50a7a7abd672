//! The Python face of the engine: what upstream PyTorch keeps in `torch._C`, begun.
//!
//! | module | what it owns |
//! |---|---|
//! | [`tensor`] | [`Tensor`]: strided views of storages with the state that autograd needs; type promotion; indices |
//! | [`ops`] | dispatched ops: promotion, broadcasting, a kernel, a node of the tape |
//! | [`autograd`] | nodes, saved tensors, the engine of `backward`, in-place history |
//! | `python` | CPython objects over all of it (feature `extension`) |
//!
//! Nothing but `python` knows Python: the rest is `Send + Sync`, holds no lock while a kernel or a hook runs, and is
//! tested without an interpreter. No kernel, shape rule of a primitive or random generator is written here: they are
//! the engine's.

pub mod autograd;
pub mod error;
pub mod ops;
pub mod tensor;

#[cfg(feature = "extension")]
mod python;

pub use error::{Error, Exception, Result};
pub use tensor::Tensor;

use std::sync::{Arc, OnceLock};

use lanthorn_cpu::CpuBackend;
use lanthorn_runtime::{Device, Eager, register_backend};

/// Eager execution on this machine's processor.
pub fn cpu() -> &'static Eager {
    static CPU: OnceLock<Eager> = OnceLock::new();
    CPU.get_or_init(|| Eager::new(&register_backend(Arc::new(CpuBackend))))
}

/// This machine's processor.
pub fn device() -> &'static Device {
    cpu().device()
}
