//! Operand blocks brought into the order in which [`product`](super::product) reads them, in the wide type.
//!
//! Two forms, both with constant strides, so that kernels need no address arithmetic:
//! - *blocked* `[TILE, padded_dim]`: vector `v` of row `r` lies at `(v * TILE + r) * lanes`;
//! - *by query* `[.., TILE]`: row after row, `TILE` values each, the queries of a block in the columns.
//!
//! The head dimension is padded with zeros to whole vectors.

use super::TILE;
use crate::rows::element::Element;
use crate::rows::pass::{First, Span};
use crate::rows::wide::{Vector, Wide};
use crate::simd::{MAX_LANES, Simd};

/// The head dimension as tiles hold it, for any instruction set.
pub(super) fn padded_dim(head_dim: usize) -> usize {
    head_dim.next_multiple_of(MAX_LANES)
}

/// Vectors that hold a head dimension.
#[inline(always)]
pub(super) fn dim_vectors<W: Wide, S: Simd>(head_dim: usize) -> usize {
    head_dim.div_ceil(W::lanes::<S>())
}

/// Loads vector `at` of a row of `width` elements, zeros beyond.
///
/// # Safety
/// `width` elements at `row` are readable.
#[inline(always)]
pub(super) unsafe fn load_vector<E: Element, S: Simd>(
    row: *const E,
    width: usize,
    at: usize,
) -> Vector<E::Wide, S> {
    let lanes = E::Wide::lanes::<S>();
    let begin = at * lanes;
    // SAFETY: the vector or what of it lies inside the row is read.
    unsafe {
        if begin + lanes <= width {
            E::load::<S>(row.add(begin))
        } else {
            First(width.saturating_sub(begin)).load::<E, S>(row.wrapping_add(begin))
        }
    }
}

/// Stores vector `at` of a row of `width` elements, nothing beyond.
///
/// # Safety
/// `width` elements at `row` are writable.
#[inline(always)]
pub(super) unsafe fn store_vector<E: Element, S: Simd>(
    row: *mut E,
    width: usize,
    at: usize,
    value: Vector<E::Wide, S>,
) {
    let lanes = E::Wide::lanes::<S>();
    let begin = at * lanes;
    // SAFETY: the vector or what of it lies inside the row is written.
    unsafe {
        if begin + lanes <= width {
            E::store::<S>(row.add(begin), value);
        } else {
            First(width.saturating_sub(begin)).store::<E, S>(row.wrapping_add(begin), value);
        }
    }
}

/// Where vector `at` of row `row` lies in a blocked tile.
#[inline(always)]
pub(super) fn blocked<W: Wide, S: Simd>(row: usize, at: usize) -> usize {
    (at * TILE + row) * W::lanes::<S>()
}

/// Packs one row into a blocked tile.
///
/// # Safety
/// `width` elements at `source` are readable; `target` holds a tile of that width.
#[inline(always)]
pub(super) unsafe fn pack_row<E: Element, S: Simd>(
    source: *const E,
    width: usize,
    target: *mut E::Wide,
    row: usize,
) {
    for at in 0..dim_vectors::<E::Wide, S>(width) {
        // SAFETY: the caller's promise.
        unsafe { load_vector::<E, S>(source, width, at).store(target.add(blocked::<E::Wide, S>(row, at))) };
    }
}

/// [`pack_row`], times a factor.
///
/// # Safety
/// As [`pack_row`].
#[inline(always)]
pub(super) unsafe fn pack_row_times<E: Element, S: Simd>(
    source: *const E,
    width: usize,
    factor: f32,
    target: *mut E::Wide,
    row: usize,
) {
    let factor = Vector::<E::Wide, S>::splat(E::Wide::from_f64(factor.into()));
    for at in 0..dim_vectors::<E::Wide, S>(width) {
        // SAFETY: the caller's promise.
        unsafe {
            let vector = load_vector::<E, S>(source, width, at) * factor;
            vector.store(target.add(blocked::<E::Wide, S>(row, at)));
        }
    }
}

/// Transposes a square of rows, times `factor`, into a tile by query: the elements from vector `at` on of `count <= lanes`
/// rows into columns from `column` on. Rows beyond `count` become zeros.
///
/// # Safety
/// `width` elements at each of the rows are readable; `target` holds `TILE` columns of
/// [`dim_vectors`] whole vectors and `column + lanes <= TILE`.
#[inline(always)]
pub(super) unsafe fn pack_square<E: Element, S: Simd>(
    rows: &[*const E; MAX_LANES],
    count: usize,
    width: usize,
    at: usize,
    factor: E::Wide,
    target: *mut E::Wide,
    column: usize,
) {
    let lanes = E::Wide::lanes::<S>();
    let factor = Vector::<E::Wide, S>::splat(factor);
    let mut square = [Vector::<E::Wide, S>::zero().0; MAX_LANES];
    for (vector, row) in square.iter_mut().zip(rows).take(count) {
        // SAFETY: the caller's promise.
        *vector = (unsafe { load_vector::<E, S>(*row, width, at) } * factor).0;
    }
    E::Wide::transpose::<S>(&mut square);
    for (i, vector) in square.iter().enumerate().take(lanes) {
        // SAFETY: the caller's promise.
        unsafe { Vector::<E::Wide, S>::new(*vector).store(target.add((at * lanes + i) * TILE + column)) };
    }
}
