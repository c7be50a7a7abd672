//! The CPU backend: regions, primitives with their operands prepared, and programs of them.
//!
//! The kernels themselves are in `lanthorn-kernels`, which this crate shows as its own.

pub mod backend;
mod region;

#[cfg(not(target_arch = "wasm32"))]
pub use lanthorn_kernels::measure;
pub use lanthorn_kernels::{attention, matmul, plain, pool, quantized, rows, simd};

pub use backend::CpuBackend;
