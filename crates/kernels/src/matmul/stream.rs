//! The kernels of the skinny method: one pass over a chunk of B.
//!
//! A B with contiguous rows is read a few rows at a time, the sums staying in L1. A B with contiguous columns (the
//! weight of a linear layer, transposed) is read as dot products.

use super::element::Memory;
use super::pack::Matrix;
use crate::simd::Simd;

/// Rows of B taken together, so that the sums are read and written once for so many.
const TOGETHER: usize = 4;

/// Columns taken together, so that they are in L1 when a second block of rows of A wants them.
const STRIP: usize = 1024;

/// `C[rows, cols] = A[rows, inner] · B[inner, cols]`, rows of A contiguous, rows of B too.
///
/// # Safety
/// The operands have these sizes; nothing else uses C.
#[inline(always)]
pub(super) unsafe fn rows_of_b<S: Simd, T: Memory>(
    a: *const f32,
    b: Matrix<T>,
    rows: usize,
    cols: usize,
    inner: usize,
    c: *mut f32,
    c_row: usize,
) {
    // SAFETY: the caller vouches for the operands; all offsets stay inside of them.
    unsafe {
        for i in 0..rows {
            c.add(i * c_row).write_bytes(0, cols);
        }
        let whole = inner - inner % TOGETHER;
        for k in (0..whole).step_by(TOGETHER) {
            add_rows::<S, T, TOGETHER>(a.add(k), inner, b.from(k, 0), rows, cols, c, c_row);
        }
        for k in whole..inner {
            add_rows::<S, T, 1>(a.add(k), inner, b.from(k, 0), rows, cols, c, c_row);
        }
    }
}

/// `COUNT` rows of B times as many columns of A, added to C.
#[inline(always)]
unsafe fn add_rows<S: Simd, T: Memory, const COUNT: usize>(
    a: *const f32,
    a_row: usize,
    b: Matrix<T>,
    rows: usize,
    cols: usize,
    c: *mut f32,
    c_row: usize,
) {
    for j in (0..cols).step_by(STRIP) {
        let width = STRIP.min(cols - j);
        // SAFETY: the caller's promise.
        unsafe {
            let b = b.from(0, j);
            let mut i = 0;
            while i + 4 <= rows {
                add_strip::<S, T, COUNT, 4>(a.add(i * a_row), a_row, b, width, c.add(i * c_row + j), c_row);
                i += 4;
            }
            while i + 2 <= rows {
                add_strip::<S, T, COUNT, 2>(a.add(i * a_row), a_row, b, width, c.add(i * c_row + j), c_row);
                i += 2;
            }
            while i < rows {
                add_strip::<S, T, COUNT, 1>(a.add(i * a_row), a_row, b, width, c.add(i * c_row + j), c_row);
                i += 1;
            }
        }
    }
}

#[inline(always)]
unsafe fn add_strip<S: Simd, T: Memory, const COUNT: usize, const ROWS: usize>(
    a: *const f32,
    a_row: usize,
    b: Matrix<T>,
    width: usize,
    c: *mut f32,
    c_row: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut factors = [[0.0f32; COUNT]; ROWS];
        for (i, factors) in factors.iter_mut().enumerate() {
            for (k, factor) in factors.iter_mut().enumerate() {
                *factor = *a.add(i * a_row + k);
            }
        }
        let mut j = 0;
        while j + S::LANES <= width {
            let mut vectors = [S::splat(0.0); COUNT];
            for (k, vector) in vectors.iter_mut().enumerate() {
                *vector = T::load::<S>(b.at(k, j));
                // The rows after these, for the reason given in `add_dots`.
                S::prefetch(b.near(k + COUNT, j).cast());
            }
            for (i, factors) in factors.iter().enumerate() {
                let c = c.add(i * c_row + j);
                let mut sum = S::load(c);
                for (factor, vector) in factors.iter().zip(&vectors) {
                    sum = S::mul_add(S::splat(*factor), *vector, sum);
                }
                S::store(c, sum);
            }
            j += S::LANES;
        }
        if j < width {
            let lanes = width - j;
            for (i, factors) in factors.iter().enumerate() {
                let c = c.add(i * c_row + j);
                let mut sum = S::load_partial(c, lanes);
                for (k, factor) in factors.iter().enumerate() {
                    let vector = T::load_partial::<S>(b.at(k, j), lanes);
                    sum = S::mul_add(S::splat(*factor), vector, sum);
                }
                S::store_partial(c, lanes, sum);
            }
        }
    }
}

/// K taken together where A has several rows, so that they stay in L1 while columns of B pass.
const DOT_DEPTH: usize = 1024;

/// `C[rows, cols] = A[rows, inner] · B[inner, cols]`, rows of A contiguous, columns of B too.
///
/// # Safety
/// The operands have these sizes; nothing else uses C.
#[inline(always)]
pub(super) unsafe fn columns_of_b<S: Simd, T: Memory>(
    a: *const f32,
    b: Matrix<T>,
    rows: usize,
    cols: usize,
    inner: usize,
    c: *mut f32,
    c_row: usize,
) {
    let most = if rows > 1 { DOT_DEPTH } else { inner };
    // SAFETY: the caller vouches for the operands; all offsets stay inside of them.
    unsafe {
        for i in 0..rows {
            c.add(i * c_row).write_bytes(0, cols);
        }
        for k in (0..inner).step_by(most) {
            let depth = most.min(inner - k);
            let (a, b) = (a.add(k), b.from(k, 0));
            let whole = cols - cols % 4;
            for j in (0..whole).step_by(4) {
                add_dots_of_rows::<S, T, 4>(a, inner, b.from(0, j), rows, depth, c.add(j), c_row);
            }
            for j in whole..cols {
                add_dots_of_rows::<S, T, 1>(a, inner, b.from(0, j), rows, depth, c.add(j), c_row);
            }
        }
    }
}

#[inline(always)]
unsafe fn add_dots_of_rows<S: Simd, T: Memory, const COLS: usize>(
    a: *const f32,
    a_row: usize,
    b: Matrix<T>,
    rows: usize,
    depth: usize,
    c: *mut f32,
    c_row: usize,
) {
    let mut i = 0;
    // SAFETY: the caller's promise.
    unsafe {
        // Sixteen sums fit only where there are more registers than that.
        while S::REGISTERS > 16 && i + 4 <= rows {
            add_dots::<S, T, 4, COLS>(a.add(i * a_row), a_row, b, depth, c.add(i * c_row), c_row);
            i += 4;
        }
        while i + 2 <= rows {
            add_dots::<S, T, 2, COLS>(a.add(i * a_row), a_row, b, depth, c.add(i * c_row), c_row);
            i += 2;
        }
        while i < rows {
            add_dots::<S, T, 1, COLS>(a.add(i * a_row), a_row, b, depth, c.add(i * c_row), c_row);
            i += 1;
        }
    }
}

#[inline(always)]
unsafe fn add_dots<S: Simd, T: Memory, const ROWS: usize, const COLS: usize>(
    a: *const f32,
    a_row: usize,
    b: Matrix<T>,
    depth: usize,
    c: *mut f32,
    c_row: usize,
) {
    let mut sums = [[S::splat(0.0); COLS]; ROWS];
    let mut k = 0;
    // SAFETY: the caller's promise; partial loads stop at the end of K.
    unsafe {
        while k + S::LANES <= depth {
            let mut columns = [S::splat(0.0); COLS];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = T::load::<S>(b.at(k, j));
                // The columns after these: where there is more to do per value than to add it, the
                // processor does not look that far ahead by itself.
                S::prefetch(b.near(k, j + COLS).cast());
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let row = S::load(a.add(i * a_row + k));
                for (sum, column) in sums.iter_mut().zip(&columns) {
                    *sum = S::mul_add(row, *column, *sum);
                }
            }
            k += S::LANES;
        }
        if k < depth {
            let lanes = depth - k;
            for (i, sums) in sums.iter_mut().enumerate() {
                let row = S::load_partial(a.add(i * a_row + k), lanes);
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = S::mul_add(row, T::load_partial::<S>(b.at(k, j), lanes), *sum);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                *c.add(i * c_row + j) += S::reduce_add(*sum);
            }
        }
    }
}
