//! Weights packed in blocks, as GGUF files have them, and products with them.

pub use lanthorn_blocks::Encoding;

use crate::builder::Builder;
use crate::error::Result;
use crate::prim::{Prim, Quantized};

/// The elements of packed `blocks`, rows `u8 [.., bytes]` of whole blocks: `f32 [.., elements]`, bit for bit as ggml
/// unpacks them (`ggml-quants.c` of llama.cpp).
///
/// Errors: blocks of another dtype, rows that are no whole blocks.
pub fn dequantize<B: Builder>(b: &B, blocks: &B::Value, encoding: Encoding) -> Result<B::Value> {
    b.apply1(Prim::Quantized(Quantized::Dequantize(encoding)), &[blocks.clone()])
}

/// The product of `x [.., inner]` with the transpose of packed weights `blocks u8 [outputs, bytes]`: `[.., outputs]`, in
/// the dtype of `x`. A device may round `x` to 16-bit integers that share a scale, which changes a result by some 1e-5
/// of the sum of its terms without their signs.
///
/// Derivatives flow to `x` alone. Errors: blocks of another dtype or rank, rows that are no whole blocks or hold another
/// number of elements than `inner`.
pub fn quantized_linear<B: Builder>(
    b: &B,
    x: &B::Value,
    blocks: &B::Value,
    encoding: Encoding,
) -> Result<B::Value> {
    b.apply1(Prim::Quantized(Quantized::Linear(encoding)), &[x.clone(), blocks.clone()])
}
