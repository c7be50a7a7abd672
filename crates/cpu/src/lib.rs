//! The CPU backend: SIMD kernels, the thread pool and the executor of regions.

pub mod simd;
