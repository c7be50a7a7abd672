//! A constant right operand, packed once.

use half::{bf16, f16};

use super::element::with_element;
use super::kernel::packed_b_floats;
use super::pack::{Matrix, pack_b};
use super::plan::depth_blocks;
use super::{Element, OperandLayout};
use crate::simd::{Isa, Simd, SimdOp, dispatch_on, isa};

/// A cache line of f32, for alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// `B[K, N]` in the order in which the kernel reads it, as f32. Made for one instruction set.
pub struct PackedB {
    lines: Vec<Line>,
    inner: usize,
    cols: usize,
    isa: Isa,
}

impl PackedB {
    /// Packs a matrix without batch axes.
    ///
    /// # Safety
    /// `data` points at element (0, 0), and the `inner` by `cols` elements that the layout names are
    /// readable and aligned to their type.
    pub unsafe fn new(data: *const u8, layout: &OperandLayout, inner: usize, cols: usize) -> PackedB {
        let isa = isa();
        let floats = packed_b_floats(isa, inner, cols);
        let mut packed = PackedB { lines: vec![Line([0.0; 16]); floats.div_ceil(16)], inner, cols, isa };
        let target = packed.lines.as_mut_ptr().cast();
        dispatch_on(isa, Pack { data, layout, inner, cols, target });
        packed
    }

    /// K
    pub fn inner(&self) -> usize {
        self.inner
    }

    /// N
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The instruction set whose panels these are.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    pub(super) fn data(&self) -> *const f32 {
        self.lines.as_ptr().cast()
    }
}

struct Pack<'a> {
    data: *const u8,
    layout: &'a OperandLayout,
    inner: usize,
    cols: usize,
    target: *mut f32,
}

impl SimdOp for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Pack { data, layout, inner, cols, target } = self;
        let (row_stride, col_stride) = (layout.row_stride, layout.col_stride);
        for (k, depth) in depth_blocks(S::ISA, inner) {
            // SAFETY: the promise of `PackedB::new`; the target was sized for this.
            unsafe {
                let target = target.add(packed_b_floats(S::ISA, k, cols));
                with_element!(layout.element, T => {
                    let b = Matrix::<T> { data: data.cast(), row_stride, col_stride };
                    pack_b::<S, T>(b.from(k, 0), depth, cols, target);
                });
            }
        }
    }
}

const _: () = assert!(size_of::<bf16>() == 2 && size_of::<f16>() == 2 && Element::F16.bytes() == 2);
