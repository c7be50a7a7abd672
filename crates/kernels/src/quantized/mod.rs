//! Products with weights that stay packed in ggml's blocks ([`lanthorn_blocks`]).

use lanthorn_blocks::Encoding;

use crate::pool::pool;
use crate::simd::{Isa, isa};

mod plain;
#[cfg(test)]
mod tests;

/// Whether elements of that encoding are packed in blocks that share a scale, which is what this module computes with.
pub fn is_supported(encoding: Encoding) -> bool {
    encoding.block_elements() > 1
}

/// `out[rows, outputs] = x[rows, inner] · weight[outputs, inner]ᵀ`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizedShape {
    /// Rows of `x` and of the result.
    pub rows: usize,
    /// Elements that each result sums over: a multiple of the encoding's block.
    pub inner: usize,
    /// Rows of the weight, columns of the result.
    pub outputs: usize,
}

/// A product with a packed weight, ready to run any number of times.
#[derive(Clone, Debug)]
pub struct QuantizedPlan {
    encoding: Encoding,
    shape: QuantizedShape,
    isa: Isa,
    threads: usize,
}

impl QuantizedPlan {
    /// Plans for the detected instruction set and the threads of the pool.
    ///
    /// # Panics
    /// Where the encoding is not packed or `inner` holds no whole blocks.
    pub fn new(encoding: Encoding, shape: QuantizedShape) -> QuantizedPlan {
        QuantizedPlan::with(encoding, shape, isa(), pool().threads())
    }

    /// Plans for a named instruction set (supported by this machine) and number of threads.
    ///
    /// # Panics
    /// As [`QuantizedPlan::new`].
    pub fn with(encoding: Encoding, shape: QuantizedShape, isa: Isa, threads: usize) -> QuantizedPlan {
        assert!(
            is_supported(encoding) && shape.inner.is_multiple_of(encoding.block_elements()),
            "rows of {} elements of {encoding} are not whole blocks",
            shape.inner
        );
        QuantizedPlan { encoding, shape, isa, threads: threads.max(1) }
    }

    /// Exactly how many bytes of scratch memory a run needs.
    pub fn scratch_bytes(&self) -> usize {
        plain::scratch_floats(&self.shape, self.threads) * size_of::<f32>()
    }

    /// Runs the product.
    ///
    /// # Safety
    /// `x` holds `rows · inner` values, row after row, and `blocks` as many rows of whole blocks as there are `outputs`.
    /// `out` takes `rows · outputs` values and `scratch`, aligned to f32, [`QuantizedPlan::scratch_bytes`]; nobody else uses
    /// these two meanwhile.
    pub unsafe fn run(&self, x: *const f32, blocks: *const u8, out: *mut f32, scratch: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { plain::linear(self, x, blocks, out, scratch.cast()) }
    }
}

/// Scratch memory for [`linear`], with the threads that the pool has now.
///
/// # Panics
/// As [`QuantizedPlan::new`].
pub fn scratch_bytes(encoding: Encoding, shape: &QuantizedShape) -> usize {
    QuantizedPlan::new(encoding, *shape).scratch_bytes()
}

/// `out[rows, outputs] = x[rows, inner] · unpacked(blocks)[outputs, inner]ᵀ`
///
/// # Panics
/// As [`QuantizedPlan::new`].
///
/// # Safety
/// As for [`QuantizedPlan::run`]; the pool has as many threads as when [`scratch_bytes`] was asked.
pub unsafe fn linear(
    encoding: Encoding,
    shape: &QuantizedShape,
    x: *const f32,
    blocks: *const u8,
    out: *mut f32,
    scratch: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe { QuantizedPlan::new(encoding, *shape).run(x, blocks, out, scratch) }
}

/// Unpacks `bytes` bytes of whole blocks, as [`Encoding::unpack`] does and to the same bits, on all threads.
///
/// # Safety
/// `blocks` holds so many bytes, and `elements` takes their elements and is used by nobody else.
pub unsafe fn dequantize(encoding: Encoding, blocks: *const u8, bytes: usize, elements: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { plain::dequantize(encoding, blocks, bytes, elements) }
}
