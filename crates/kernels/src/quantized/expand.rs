//! Blocks as f32: to memory, and as panels of the right operand of a product.

use lanthorn_blocks::Encoding;

use super::formats::{Format, GROUPS, STRETCH, with_format};
use super::row_bytes;
use crate::matmul::kernel::tile_cols;
use crate::matmul::pack::{Matrix, pack_b_transposed};
use crate::pool::pool;
use crate::simd::{Isa, MAX_LANES, Simd, SimdOp, dispatch_on};

/// Places for the scales and the minima of a stretch.
pub(super) struct Scales {
    scale: [f32; GROUPS],
    minimum: [f32; GROUPS],
}

impl Scales {
    pub(super) fn new() -> Scales {
        Scales { scale: [0.0; GROUPS], minimum: [0.0; GROUPS] }
    }
}

/// The elements of `count` blocks, at most a stretch, to the bits of [`Encoding::unpack`].
///
/// # Safety
/// The blocks are readable and `elements` takes what they hold.
#[inline(always)]
pub(super) unsafe fn expand<S: Simd, F: Format>(
    blocks: *const u8,
    count: usize,
    scales: &mut Scales,
    elements: *mut f32,
) {
    // SAFETY: the caller's promise; a stretch has no more groups than the arrays.
    unsafe {
        F::scales::<S>(blocks, count, &mut scales.scale, &mut scales.minimum);
        for block in 0..count {
            for part in 0..F::BLOCK / 32 {
                let integers = F::integers::<S>(blocks.add(block * F::BYTES), part);
                let first = block * F::BLOCK + part * 32;
                expand_part::<S, F>(integers, scales, first, elements.add(first));
            }
        }
    }
}

/// 32 elements of a stretch, from its element `first` on.
#[inline(always)]
unsafe fn expand_part<S: Simd, F: Format>(integers: S::B, scales: &Scales, first: usize, elements: *mut f32) {
    let wide = if F::SIGNED { S::widen_signed(integers) } else { S::widen_unsigned(integers) };
    for vector in 0..32 / S::LANES {
        let group = (first + vector * S::LANES) / F::GROUP;
        let mut value = S::from_int(S::integers(wide, vector));
        if F::OFFSET != 0.0 {
            value = S::sub(value, S::splat(F::OFFSET));
        }
        // Rounded twice, as `unpack` does.
        value = S::mul(value, S::splat(scales.scale[group]));
        if F::MINIMUM {
            value = S::add(value, S::splat(scales.minimum[group]));
        }
        // SAFETY: the caller's promise.
        unsafe { S::store(elements.add(vector * S::LANES), value) };
    }
}

/// Blocks in memory and the place of their elements.
#[derive(Clone, Copy)]
struct Expand {
    encoding: Encoding,
    blocks: *const u8,
    count: usize,
    elements: *mut f32,
}

// SAFETY: the blocks are only read, and tasks write distinct elements.
unsafe impl Sync for Expand {}

impl SimdOp for Expand {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Expand { encoding, blocks, count, elements } = self;
        let mut scales = Scales::new();
        with_format!(encoding, F => {
            for first in (0..count).step_by(STRETCH / F::BLOCK) {
                let count = (count - first).min(STRETCH / F::BLOCK);
                // SAFETY: whoever makes the operation vouches for blocks and elements.
                unsafe {
                    let (blocks, elements) = (blocks.add(first * F::BYTES), elements.add(first * F::BLOCK));
                    expand::<S, F>(blocks, count, &mut scales, elements);
                }
            }
        }, ())
    }
}

/// Elements that one task unpacks.
const TASK: usize = 1 << 14;

/// As [`dequantize`](super::dequantize), on a named instruction set.
///
/// # Safety
/// As there.
pub(super) unsafe fn dequantize(
    isa: Isa,
    encoding: Encoding,
    blocks: *const u8,
    bytes: usize,
    elements: *mut f32,
) {
    let count = bytes / encoding.block_bytes();
    let per_task = TASK / encoding.block_elements();
    let all = &Expand { encoding, blocks, count, elements };
    pool().run(count.div_ceil(per_task), &|task, _| {
        let first = task * per_task;
        // SAFETY: these blocks are among those promised.
        let (blocks, elements) = unsafe {
            let elements = all.elements.add(first * encoding.block_elements());
            (all.blocks.add(first * encoding.block_bytes()), elements)
        };
        dispatch_on(isa, Expand { encoding, blocks, count: per_task.min(count - first), elements });
    });
}

/// Elements of a column that are unpacked at a time: a block of any encoding.
const LONG: usize = 256;

/// Packs rows `k..k + depth` of columns `first..first + cols` of the matrix whose columns are the rows of a packed weight,
/// `inner` elements each, as [`pack_b`](crate::matmul::pack::pack_b) does. `k` and `depth` are multiples of the block.
pub(crate) struct PackPanels {
    pub encoding: Encoding,
    pub blocks: *const u8,
    pub inner: usize,
    pub k: usize,
    pub depth: usize,
    pub first: usize,
    pub cols: usize,
    pub target: *mut f32,
}

impl SimdOp for PackPanels {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let PackPanels { encoding, blocks, inner, k, depth, first, cols, target } = self;
        let row = row_bytes(encoding, inner);
        let mut columns = [0.0f32; 2 * MAX_LANES * LONG];
        let columns = columns.as_mut_ptr();
        let mut scales = Scales::new();
        with_format!(encoding, F => {
            for col in (0..cols).step_by(tile_cols::<S>()) {
                let width = (cols - col).min(tile_cols::<S>());
                for part in (0..depth).step_by(LONG) {
                    let long = (depth - part).min(LONG);
                    // SAFETY: the rows and blocks exist; the panel of column `col` lies at `col · depth`.
                    unsafe {
                        for j in 0..width {
                            let blocks = blocks.add((first + col + j) * row + (k + part) / F::BLOCK * F::BYTES);
                            expand::<S, F>(blocks, long / F::BLOCK, &mut scales, columns.add(j * LONG));
                        }
                        let columns = Matrix { data: columns.cast_const(), row_stride: 1, col_stride: LONG as isize };
                        let panel = target.add(col * depth + part * tile_cols::<S>());
                        pack_b_transposed::<S, f32>(columns, long, width, panel);
                    }
                }
            }
        }, ())
    }
}
