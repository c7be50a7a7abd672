//! The CPU backend: SIMD kernels, the thread pool and the executor of regions.

pub mod pool;
pub mod rows;
pub mod simd;
