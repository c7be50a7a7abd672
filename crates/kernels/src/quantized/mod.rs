//! Products with weights that stay packed in ggml's blocks ([`lanthorn_blocks`]), as language models have them.
//!
//! `out[rows, outputs] = x[rows, inner] · weight[outputs, inner]ᵀ`, all row-major and f32 but for the weight, whose rows are
//! whole blocks. Two ways, chosen by shape alone:
//!
//! - *few rows*, as when tokens are generated: bound by reading the weight, which is read once, packed. The rows of x become
//!   integers of 16 bits, and products of integers are added up ([`dots`]). A result is within `2⁻¹⁶ · Σ largest · |w|`
//!   of the exact one, and the rounding of f32 sums, where `largest` is the largest `|x|` among the 32 neighbours of an
//!   element. A row with a number that is not finite is multiplied as f32.
//! - *many rows*, as in a prompt: the blocks are unpacked into the panels of the f32 product ([`matmul`](crate::matmul)),
//!   which computes as ever; no more of the weight is ever in memory as f32 than it packs at a time.
//!
//! Neither depends on the number of threads.

mod activations;
mod dots;
mod expand;
mod formats;
#[cfg(test)]
mod tests;

use lanthorn_blocks::Encoding;
use smallvec::SmallVec;

pub(crate) use expand::PackPanels;
use formats::with_format;

use crate::matmul::{Element, MatmulPlan, MatmulShape, OperandLayout, Store};
use crate::pool::pool;
use crate::simd::{Isa, isa};

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
///
/// ```
/// use lanthorn_blocks::Encoding;
/// use lanthorn_kernels::quantized::{QuantizedPlan, QuantizedShape};
///
/// // Two rows of 32 elements: all ones, and 0, 1, .. 31 in steps that 8 bits hold.
/// let weight: Vec<f32> = (0..64).map(|at| if at < 32 { 1.0 } else { (at - 32) as f32 * 127.0 / 31.0 }).collect();
/// let blocks = Encoding::Q8_0.pack(&weight)?;
/// let plan = QuantizedPlan::new(Encoding::Q8_0, QuantizedShape { rows: 1, inner: 32, outputs: 2 });
///
/// let (x, mut out) = ([1.0f32; 32], [0.0f32; 2]);
/// let mut scratch = vec![0u32; plan.scratch_bytes().div_ceil(4)];
/// // SAFETY: all have the sizes of the shape.
/// unsafe { plan.run(x.as_ptr(), blocks.as_ptr(), out.as_mut_ptr(), scratch.as_mut_ptr().cast()) };
/// assert!((out[0] - 32.0).abs() < 0.01);
/// # Ok::<(), lanthorn_error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuantizedPlan {
    encoding: Encoding,
    shape: QuantizedShape,
    isa: Isa,
    threads: usize,
    method: Method,
}

#[derive(Clone, Debug)]
enum Method {
    Dots,
    Product(Box<MatmulPlan>),
}

/// Rows up to which integers beat unpacking to f32: both take as long at some 18 with AVX-512, at 25 with others.
const MOST_ROWS: usize = 16;
/// Products of elements below which the calling thread works alone: about the cost of waking another.
const SERIAL_WORK: usize = 1 << 16;

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
        let QuantizedShape { rows, inner, outputs } = shape;
        assert!(
            is_supported(encoding) && inner.is_multiple_of(encoding.block_elements()),
            "rows of {inner} elements of {encoding} are not whole blocks"
        );
        let work = rows.saturating_mul(inner).saturating_mul(outputs);
        let threads = if work < SERIAL_WORK { 1 } else { threads.max(1) };
        let method = if rows <= MOST_ROWS {
            Method::Dots
        } else {
            let product = MatmulShape {
                batch: SmallVec::new(),
                rows,
                cols: outputs,
                inner,
                a: OperandLayout::matrix(Element::F32, inner as isize, 1),
                b: OperandLayout::matrix(Element::F32, 1, inner as isize),
            };
            Method::Product(Box::new(MatmulPlan::of_blocks(product, encoding, isa, threads)))
        };
        QuantizedPlan { encoding, shape, isa, threads, method }
    }

    /// Exactly how many bytes of scratch memory a run needs.
    pub fn scratch_bytes(&self) -> usize {
        match &self.method {
            Method::Dots => with_format!(self.encoding, F => dots::scratch_bytes::<F>(&self.shape), 0),
            Method::Product(plan) => plan.scratch_bytes(),
        }
    }

    /// Runs the product.
    ///
    /// # Safety
    /// `x` holds `rows · inner` values, row after row, and `blocks` as many rows of whole blocks as there are `outputs`.
    /// `out` takes `rows · outputs` values and `scratch`, aligned to f32, [`QuantizedPlan::scratch_bytes`]; nobody else uses
    /// these two meanwhile.
    pub unsafe fn run(&self, x: *const f32, blocks: *const u8, out: *mut f32, scratch: *mut u8) {
        match &self.method {
            // SAFETY: the caller's promise.
            Method::Dots => unsafe {
                with_format!(self.encoding, F => dots::linear::<F>(self, x, blocks, out, scratch), ());
            },
            // SAFETY: as above.
            Method::Product(plan) => unsafe {
                let layout = OperandLayout::matrix(Element::F32, self.shape.outputs as isize, 1);
                plan.run(x.cast(), blocks, scratch, &Store::new(out.cast(), layout, &[]));
            },
        }
    }
}

/// Bytes of a row of `inner` elements.
fn row_bytes(encoding: Encoding, inner: usize) -> usize {
    inner / encoding.block_elements() * encoding.block_bytes()
}

/// Unpacks `bytes` bytes of whole blocks, as [`Encoding::unpack`] does and to the same bits, on all threads.
///
/// # Safety
/// `blocks` holds so many bytes, and `elements` takes their elements and is used by nobody else.
pub unsafe fn dequantize(encoding: Encoding, blocks: *const u8, bytes: usize, elements: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { expand::dequantize(isa(), encoding, blocks, bytes, elements) }
}
