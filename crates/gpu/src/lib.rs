//! GPUs as a backend: WGSL text from kernels, run by a driver.
//!
//! | module | what it holds |
//! |---|---|
//! | [`driver`] | what a GPU is to this crate: buffers, pipelines, submissions and reads by number; one driver over wgpu for this machine, one over imported functions for a browser |
//! | `wgsl` | text from kernels; knows no device |
//! | `launch`, `kernel`, `program` | kernels and plans as dispatches with their parameters |
//! | [`GpuBackend`] | the compiler's contract |
//!
//! What has no shader is refused by name when a program is compiled. Nothing ever runs on the CPU instead.

mod backend;
pub mod driver;
mod kernel;
mod launch;
mod memory;
mod program;
mod support;
pub mod trial;
mod wgsl;

pub use backend::GpuBackend;
pub use support::support;
