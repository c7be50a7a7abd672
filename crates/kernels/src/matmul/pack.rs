//! Packing: bringing blocks of A and B into the order in which the kernel reads them, as f32.

use std::ops::Range;

use super::element::Memory;
use super::kernel::{Panels, depth_of, panel_floats, panel_row, row_panels, tile_cols, tile_rows};
use crate::simd::{MAX_LANES, Simd};

/// A strided matrix in memory.
#[derive(Clone, Copy)]
pub struct Matrix<T> {
    /// Element (0, 0).
    pub data: *const T,
    /// Elements from one row to the next; may be zero or negative.
    pub row_stride: isize,
    /// Elements from one column to the next; may be zero or negative.
    pub col_stride: isize,
}

impl<T> Matrix<T> {
    /// # Safety
    /// Element (row, col) exists.
    #[inline(always)]
    pub unsafe fn at(&self, row: usize, col: usize) -> *const T {
        // SAFETY: the caller's promise.
        unsafe { self.data.offset(row as isize * self.row_stride + col as isize * self.col_stride) }
    }

    /// The address where element (row, col) is or would be.
    #[inline(always)]
    pub fn near(&self, row: usize, col: usize) -> *const T {
        self.data.wrapping_offset(row as isize * self.row_stride + col as isize * self.col_stride)
    }

    /// The matrix that begins at element (row, col).
    ///
    /// # Safety
    /// Element (row, col) exists.
    #[inline(always)]
    pub unsafe fn from(&self, row: usize, col: usize) -> Matrix<T> {
        // SAFETY: the caller's promise.
        Matrix { data: unsafe { self.at(row, col) }, ..*self }
    }
}

/// Packs `A[rows, depth]` into row panels for [`block_product`](super::kernel::block_product) and says in which form.
///
/// # Safety
/// The matrix has that many rows and columns, `depth` is at most [`depth_of`], and `target` holds
/// [`packed_a_floats`](super::kernel::packed_a_floats) values.
#[inline(always)]
pub unsafe fn pack_a<S: Simd, T: Memory>(
    a: Matrix<T>,
    rows: usize,
    depth: usize,
    target: *mut f32,
) -> Panels {
    debug_assert!(depth <= depth_of(S::ISA));
    if a.row_stride == 1 && a.col_stride != 1 {
        // Some columns at a time: neighbouring panels share their lines, which stay in L1 meanwhile.
        for first in (0..depth).step_by(COLUMNS) {
            let count = COLUMNS.min(depth - first);
            for (i, (row, height)) in row_panels::<S>(rows).enumerate() {
                // SAFETY: the caller's promise.
                unsafe {
                    let target = target.add(i * panel_floats::<S>() + first * tile_rows::<S>());
                    pack_panel::<S, T>(a.from(row, first), height, rows - row, count, target);
                }
            }
        }
        return Panels::Columns;
    }
    for (i, (row, height)) in row_panels::<S>(rows).enumerate() {
        for r in 0..height {
            // SAFETY: the caller's promise; row `r` of panel `i` of the target belongs to this row.
            unsafe {
                let source = a.from(row + r, 0);
                let target = target.add(i * panel_floats::<S>() + r * panel_row::<S>());
                if a.col_stride == 1 {
                    copy::<S, T>(source.data, depth, target);
                } else {
                    for k in 0..depth {
                        *target.add(k) = T::get(source.at(0, k));
                    }
                }
            }
        }
    }
    Panels::Rows
}

/// Columns of A that are packed together: their lines fit into one set of any L1 cache.
const COLUMNS: usize = 8;

/// Copies `count` contiguous columns of A of `height` rows into a panel; `below` rows of A begin here.
///
/// A whole vector is copied where that many rows are left: what it writes beyond its own rows is the place of the
/// panel's next column, which is packed later, except for the last.
#[inline(always)]
unsafe fn pack_panel<S: Simd, T: Memory>(
    a: Matrix<T>,
    height: usize,
    below: usize,
    count: usize,
    target: *mut f32,
) {
    let whole = if height <= S::LANES && below >= S::LANES { count.saturating_sub(1) } else { 0 };
    // SAFETY: the caller vouches for the columns on both sides.
    unsafe {
        for k in 0..whole {
            S::store(target.add(k * tile_rows::<S>()), T::load::<S>(a.at(0, k)));
        }
        for k in whole..count {
            copy::<S, T>(a.at(0, k), height, target.add(k * tile_rows::<S>()));
        }
    }
}

/// Panels of B that are packed together: their lines fit into one set of any L1 cache.
const PANELS: usize = 8;

/// Packs `B[depth, cols]` into panels of [`tile_cols`] columns, the last padded with zeros.
///
/// # Safety
/// The matrix has that many rows and columns, and `target` holds
/// [`packed_b_floats`](super::kernel::packed_b_floats) values.
#[inline(always)]
pub unsafe fn pack_b<S: Simd, T: Memory>(b: Matrix<T>, depth: usize, cols: usize, target: *mut f32) {
    let panel_width = tile_cols::<S>();
    if b.col_stride == 1 {
        // SAFETY: the caller's promise.
        unsafe { pack_rows_of_b::<S, T>(b, 0..depth, depth, cols, target) };
        return;
    }
    let mut col = 0;
    while col < cols {
        let width = (cols - col).min(panel_width);
        // SAFETY: the caller's promise; the panel of column `col` lies at `col · depth`.
        unsafe {
            let (source, panel) = (b.from(0, col), target.add(col * depth));
            if b.row_stride == 1 {
                pack_b_transposed::<S, T>(source, depth, width, panel);
            } else {
                for k in 0..depth {
                    for j in 0..panel_width {
                        let value = if j < width { T::get(source.at(k, j)) } else { 0.0 };
                        *panel.add(k * panel_width + j) = value;
                    }
                }
            }
        }
        col += panel_width;
    }
}

/// Packs some of the rows of a B whose rows are contiguous.
///
/// # Safety
/// As for [`pack_b`]; the rows are among the `depth`.
#[inline(always)]
pub(super) unsafe fn pack_rows_of_b<S: Simd, T: Memory>(
    b: Matrix<T>,
    rows: Range<usize>,
    depth: usize,
    cols: usize,
    target: *mut f32,
) {
    // Row by row, so that memory is read in order; few panels at a time, because they may be a power of two apart.
    let most = PANELS * tile_cols::<S>();
    for first in (0..cols).step_by(most) {
        let stop = cols.min(first + most);
        for k in rows.clone() {
            // SAFETY: the caller's promise.
            unsafe { pack_row::<S, T>(b.at(k, first), stop - first, first, depth, k, target) };
        }
    }
}

/// Row `k` of the `depth` that are packed, columns `first..first + cols` of it: `first` begins a panel.
///
/// # Safety
/// `source` holds the columns, and the panel of column `col` lies at `col · depth` of the target.
#[inline(always)]
pub(super) unsafe fn pack_row<S: Simd, T: Memory>(
    source: *const T,
    cols: usize,
    first: usize,
    depth: usize,
    k: usize,
    target: *mut f32,
) {
    let panel_width = tile_cols::<S>();
    for col in (0..cols).step_by(panel_width) {
        let width = (cols - col).min(panel_width);
        // SAFETY: the caller's promise.
        unsafe {
            let place = target.add((first + col) * depth + k * panel_width);
            copy_padded::<S, T>(source.add(col), width, place);
        }
    }
}

/// One panel of a B whose columns are contiguous, by transposing squares of vectors.
#[inline(always)]
pub(crate) unsafe fn pack_b_transposed<S: Simd, T: Memory>(
    b: Matrix<T>,
    depth: usize,
    width: usize,
    panel: *mut f32,
) {
    let panel_width = tile_cols::<S>();
    let mut left = 0;
    while left < panel_width {
        let columns = width.saturating_sub(left).min(S::LANES);
        let mut k = 0;
        while k < depth {
            let steps = (depth - k).min(S::LANES);
            let mut square = [S::splat(0.0); MAX_LANES];
            // SAFETY: the caller's promise; only existing elements are read, and rows below
            // `depth` of the panel written.
            unsafe {
                if steps == S::LANES && columns == S::LANES {
                    for (j, row) in square.iter_mut().enumerate().take(S::LANES) {
                        *row = T::load::<S>(b.at(k, left + j));
                    }
                } else {
                    for (j, row) in square.iter_mut().enumerate().take(columns) {
                        *row = T::load_partial::<S>(b.at(k, left + j), steps);
                    }
                }
                S::transpose(&mut square);
                if steps == S::LANES {
                    for (i, row) in square.iter().enumerate().take(S::LANES) {
                        S::store(panel.add((k + i) * panel_width + left), *row);
                    }
                } else {
                    for (i, row) in square.iter().enumerate().take(steps) {
                        S::store(panel.add((k + i) * panel_width + left), *row);
                    }
                }
            }
            k += S::LANES;
        }
        left += S::LANES;
    }
}

/// Copies `count` contiguous elements as f32.
#[inline(always)]
pub(crate) unsafe fn copy<S: Simd, T: Memory>(source: *const T, count: usize, target: *mut f32) {
    let mut i = 0;
    // SAFETY: the caller vouches for `count` elements on both sides.
    unsafe {
        while i + S::LANES <= count {
            S::store(target.add(i), T::load::<S>(source.add(i)));
            i += S::LANES;
        }
        if i < count {
            S::store_partial(target.add(i), count - i, T::load_partial::<S>(source.add(i), count - i));
        }
    }
}

/// Copies `width` contiguous elements as f32 and pads with zeros to the width of a panel.
#[inline(always)]
unsafe fn copy_padded<S: Simd, T: Memory>(source: *const T, width: usize, target: *mut f32) {
    // SAFETY: the caller vouches for `width` elements at the source and a panel's row at the target.
    unsafe {
        if width == tile_cols::<S>() {
            S::store(target, T::load::<S>(source));
            S::store(target.add(S::LANES), T::load::<S>(source.add(S::LANES)));
        } else {
            let first = width.min(S::LANES);
            S::store(target, T::load_partial::<S>(source, first));
            let rest = width - first;
            let tail =
                if rest > 0 { T::load_partial::<S>(source.add(S::LANES), rest) } else { S::splat(0.0) };
            S::store(target.add(S::LANES), tail);
        }
    }
}
