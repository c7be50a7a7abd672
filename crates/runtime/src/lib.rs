//! The run-time: everything a front end talks to.
//!
//! | module | what it holds |
//! |---|---|
//! | [`device`] | a backend with its memory pool, executable cache, random state and counters |
//! | [`pool`], [`storage`] | memory: size classes with reuse, reference-counted storages |
//! | [`eager`] | [`EagerTensor`]: a strided view of a storage; [`Eager`]: runs each primitive as it is applied |
//! | [`executable`], [`cache`] | compiled programs: called many times, made once for each structure |
//! | [`tensor`] | [`Tensor`]: lazy values, evaluated when they are read |
//! | `counted`, `per_thread` | shared values and counters without locked instructions, for small eager calls |
//! | `engine` | devices as engines of [sessions](lanthorn_session::Session), programs as bytes |
//! | [`stats`], [`profile`], [`non_finite`], [`settings`] | what a device does, and how it is set |
//! | [`compiled`] | [`compile`]: a Rust function over tensors as compiled programs |
//!
//! The run-time knows backends only by the [`Backend`](lanthorn_compiler::backend::Backend) trait and
//! depends on none of them. It starts no thread, and reads a clock
//! only for profiles.

pub mod cache;
pub mod compiled;
mod counted;
pub mod device;
pub mod eager;
pub mod element;
mod engine;
pub mod executable;
pub mod host;
pub mod non_finite;
mod per_thread;
pub mod pool;
pub mod profile;
pub mod random;
pub mod settings;
mod slot;
pub mod stats;
pub mod storage;
pub mod tensor;

pub use compiled::{Compiled, compile};
pub use device::{Device, register_backend};
pub use eager::{Eager, EagerTensor};
pub use element::Element;
pub use executable::{Executable, KernelInfo, Options};
pub use lanthorn_compiler::backend::Readback;
pub use lanthorn_compiler::cancel::{self, CancelToken};
pub use lanthorn_ir::{DType, Error, ErrorKind, Result};
pub use non_finite::NonFinite;
pub use profile::Profile;
pub use stats::Stats;
pub use storage::Storage;
pub use tensor::{Tensor, differentiable_grad, grad, realise, value_and_grad};
