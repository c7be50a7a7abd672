//! The kernels of the skinny method: one pass over a chunk of B.
//!
//! A B with contiguous rows is read a few rows at a time, the sums of one or two rows of C staying in L1; more rows have
//! theirs in registers, tile by tile. A B with contiguous columns (the
//! weight of a linear layer, transposed) is read as dot products.

use super::element::Memory;
use super::pack::Matrix;
use crate::simd::Simd;

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
        match rows {
            1 => by_strips::<S, T, 1>(a, b, cols, inner, c, c_row),
            2 => by_strips::<S, T, 2>(a, b, cols, inner, c, c_row),
            _ => by_tiles::<S, T>(a, b, rows, cols, inner, c, c_row),
        }
    }
}

/// Rows of B of a strip, so that the sums are read and written once for so many.
const STRIP: usize = 4;

/// One or two rows: all columns of a few rows of B at a time, the sums in L1.
#[inline(always)]
unsafe fn by_strips<S: Simd, T: Memory, const ROWS: usize>(
    a: *const f32,
    b: Matrix<T>,
    cols: usize,
    inner: usize,
    c: *mut f32,
    c_row: usize,
) {
    let whole = inner - inner % STRIP;
    // SAFETY: the caller's promise.
    unsafe {
        for k in (0..whole).step_by(STRIP) {
            add_strip::<S, T, STRIP, ROWS>(a.add(k), inner, b.from(k, 0), cols, c, c_row);
        }
        for k in whole..inner {
            add_strip::<S, T, 1, ROWS>(a.add(k), inner, b.from(k, 0), cols, c, c_row);
        }
    }
}

/// `C[ROWS, width] += A[ROWS, COUNT] · B`, the factors in registers.
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
                // The rows after these.
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

/// Rows of B taken together: their pages fit into the first level of the TLB, and the sums of a tile stay in registers
/// for so many steps.
const TOGETHER: usize = 64;

/// More rows: as many sums as registers hold, the columns of [`TOGETHER`] rows of B at a time.
#[inline(always)]
unsafe fn by_tiles<S: Simd, T: Memory>(
    a: *const f32,
    b: Matrix<T>,
    rows: usize,
    cols: usize,
    inner: usize,
    c: *mut f32,
    c_row: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for k in (0..inner).step_by(TOGETHER) {
            let depth = TOGETHER.min(inner - k);
            let b = Matrix { data: b.near(k, 0), ..b };
            let mut ahead = Ahead { at: b.near(depth, 0), row: b.row_stride, cols: cols as isize, col: 0 };
            let mut j = 0;
            while j < cols {
                let width = (cols - j).min(WIDTH * S::LANES);
                let block = Matrix { data: b.near(0, j), ..b };
                let mut i = 0;
                macro_rules! tiles {
                    ($rows:literal) => {
                        while rows - i >= $rows {
                            let (a, c) = (a.add(i * inner + k), c.add(i * c_row + j));
                            if width == WIDTH * S::LANES {
                                let ahead = if i == 0 { Some(&mut ahead) } else { None };
                                add_tile::<S, T, $rows>(a, inner, block, depth, c, c_row, ahead);
                            } else {
                                add_partial_tile::<S, T, $rows>(a, inner, block, width, depth, c, c_row);
                            }
                            i += $rows;
                        }
                    };
                }
                // Sixteen sums fit only where there are more registers than that.
                if S::REGISTERS > 16 {
                    tiles!(8);
                }
                tiles!(4);
                tiles!(2);
                tiles!(1);
                j += width;
            }
        }
    }
}

/// Vectors of columns of a tile.
const WIDTH: usize = 2;

/// The rows of B after those at hand, of which the cache is told in the order of memory. Where there is more to do per
/// value than to add it, the processor does not look that far ahead by itself.
struct Ahead<T> {
    at: *const T,
    row: isize,
    cols: isize,
    col: isize,
}

impl<T> Ahead<T> {
    /// Goes on by a tile's width.
    #[inline(always)]
    fn step<S: Simd>(&mut self) {
        let width = (WIDTH * S::LANES) as isize;
        for v in 0..WIDTH {
            S::prefetch_far(self.at.wrapping_offset(self.col + (v * S::LANES) as isize).cast());
        }
        self.col += width;
        if self.col >= self.cols {
            self.at = self.at.wrapping_offset(self.row);
            self.col = 0;
        }
    }
}

/// `C[ROWS, WIDTH · LANES] += A[ROWS, depth] · B`, the sums in registers.
#[inline(always)]
unsafe fn add_tile<S: Simd, T: Memory, const ROWS: usize>(
    a: *const f32,
    a_row: usize,
    b: Matrix<T>,
    depth: usize,
    c: *mut f32,
    c_row: usize,
    mut ahead: Option<&mut Ahead<T>>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[S::splat(0.0); WIDTH]; ROWS];
        for (i, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = S::load(c.add(i * c_row + v * S::LANES));
            }
        }
        for k in 0..depth {
            if let Some(ahead) = &mut ahead {
                ahead.step::<S>();
            }
            let mut vectors = [S::splat(0.0); WIDTH];
            for (v, vector) in vectors.iter_mut().enumerate() {
                *vector = T::load::<S>(b.near(k, v * S::LANES));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let factor = S::splat(*a.add(i * a_row + k));
                for (sum, vector) in sums.iter_mut().zip(&vectors) {
                    *sum = S::mul_add(factor, *vector, *sum);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                S::store(c.add(i * c_row + v * S::LANES), *sum);
            }
        }
    }
}

/// As [`add_tile`] for fewer columns than a tile has.
#[inline(always)]
unsafe fn add_partial_tile<S: Simd, T: Memory, const ROWS: usize>(
    a: *const f32,
    a_row: usize,
    b: Matrix<T>,
    width: usize,
    depth: usize,
    c: *mut f32,
    c_row: usize,
) {
    for j in (0..width).step_by(S::LANES) {
        let lanes = S::LANES.min(width - j);
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [S::splat(0.0); ROWS];
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = S::load_partial(c.add(i * c_row + j), lanes);
            }
            for k in 0..depth {
                let vector = T::load_partial::<S>(b.near(k, j), lanes);
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = S::mul_add(S::splat(*a.add(i * a_row + k)), vector, *sum);
                }
            }
            for (i, sum) in sums.iter().enumerate() {
                S::store_partial(c.add(i * c_row + j), lanes, *sum);
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
