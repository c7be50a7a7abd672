//! Kernels of the CPU over plain slices and strides: what is vectorised by hand, and the thread pool.
//!
//! They know nothing of graphs, so a change of the program's meaning does not build them again. The CPU backend
//! hands them operands.

pub mod attention;
pub mod depthwise;
pub mod interrupt;
pub mod matmul;
#[cfg(not(target_arch = "wasm32"))]
pub mod measure;
pub mod plain;
pub mod pool;
pub mod quantized;
pub mod rows;
pub mod simd;
