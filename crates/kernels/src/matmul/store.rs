//! The plain epilogue: the product goes to memory as f32, bf16 or f16.

use smallvec::SmallVec;

use super::element::{Memory, with_element};
use super::plan::batch_offset;
use super::{Element, Epilogue, OperandLayout};
use crate::simd::{Simd, SimdOp, dispatch};

/// Stores the product at `data` with the strides of a layout; see [`Store::new`].
pub struct Store {
    data: *mut u8,
    layout: OperandLayout,
    batch: SmallVec<[usize; 4]>,
}

// SAFETY: distinct blocks of the product are distinct elements of the output, by the promise of `new`.
unsafe impl Sync for Store {}

impl Store {
    /// An output for batch axes of the given sizes.
    ///
    /// # Safety
    /// `data` points at element (0, 0) of the first batch entry; every element that the layout names is
    /// writable, aligned to its type, distinct from the others and used by nobody else during a product.
    pub unsafe fn new(data: *mut u8, layout: OperandLayout, batch: &[usize]) -> Store {
        Store { data, layout, batch: SmallVec::from_slice(batch) }
    }

    fn at(&self, batch: usize, row: usize, col: usize) -> *mut u8 {
        let layout = &self.layout;
        let offset = batch_offset(&self.batch, &layout.batch_strides, batch)
            + row as isize * layout.row_stride
            + col as isize * layout.col_stride;
        // SAFETY: the element is one that the layout names.
        unsafe { self.data.offset(offset * layout.element.bytes() as isize) }
    }

    /// Whether sums can be kept in the output itself.
    fn is_direct(&self) -> bool {
        self.layout.element == Element::F32 && self.layout.col_stride == 1 && self.layout.row_stride >= 0
    }
}

impl Epilogue for Store {
    fn target(&self, batch: usize, row: usize, col: usize) -> Option<(*mut f32, usize)> {
        self.is_direct().then(|| (self.at(batch, row, col).cast(), self.layout.row_stride.unsigned_abs()))
    }

    fn tile(
        &self,
        batch: usize,
        row: usize,
        col: usize,
        rows: usize,
        cols: usize,
        acc: *mut f32,
        ld: usize,
        _worker: usize,
    ) {
        let data = self.at(batch, row, col);
        if data.cast() == acc {
            return;
        }
        dispatch(StoreBlock { data, layout: &self.layout, rows, cols, acc, ld });
    }
}

struct StoreBlock<'a> {
    data: *mut u8,
    layout: &'a OperandLayout,
    rows: usize,
    cols: usize,
    acc: *const f32,
    ld: usize,
}

impl SimdOp for StoreBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let StoreBlock { data, layout, rows, cols, acc, ld } = self;
        with_element!(layout.element, T => {
            for i in 0..rows {
                // SAFETY: row `i` of the block exists in the sums and in the output.
                unsafe {
                    let target = data.cast::<T>().offset(i as isize * layout.row_stride);
                    store_row::<S, T>(target, layout.col_stride, acc.add(i * ld), cols);
                }
            }
        });
    }
}

#[inline(always)]
unsafe fn store_row<S: Simd, T: Memory>(target: *mut T, stride: isize, acc: *const f32, cols: usize) {
    // SAFETY: the caller vouches for `cols` elements on both sides.
    unsafe {
        if stride != 1 {
            for j in 0..cols {
                T::put(target.offset(j as isize * stride), *acc.add(j));
            }
            return;
        }
        let mut j = 0;
        while j + S::LANES <= cols {
            T::store::<S>(target.add(j), S::load(acc.add(j)));
            j += S::LANES;
        }
        if j < cols {
            T::store_partial::<S>(target.add(j), cols - j, S::load_partial(acc.add(j), cols - j));
        }
    }
}
