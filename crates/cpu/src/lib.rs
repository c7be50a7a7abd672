//! The CPU backend: SIMD kernels, the thread pool and the executor of regions.

pub mod attention;
pub mod backend;
pub mod matmul;
#[cfg(not(target_arch = "wasm32"))]
pub mod measure;
pub mod pool;
mod region;
pub mod rows;
pub mod simd;

pub use backend::CpuBackend;
