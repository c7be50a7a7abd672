//! Products with few rows (decoding one token) or one column: bound by reading B, so B is streamed once,
//! in the order of memory, in its own type, by all threads.
//!
//! A row-major B is read in chunks of columns, four rows at a time, the sums staying in L1. A transposed B (the
//! weight of a linear layer) is read as dot products along its contiguous columns.

use super::element::{Memory, with_element};
use super::pack::{Matrix, copy};
use super::plan::{MatmulPlan, Skinny, batch_offset};
use super::{Epilogue, OperandLayout};
use crate::pool::pool;
use crate::simd::{Simd, SimdOp, dispatch_on};

/// One product `C[rows, cols] = A[rows, inner] · B[inner, cols]` as this module computes it: operands already
/// exchanged where there is one column.
struct Run<'a> {
    plan: &'a MatmulPlan,
    skinny: &'a Skinny,
    a: *const u8,
    b: *const u8,
    a_layout: OperandLayout,
    b_layout: OperandLayout,
    rows: usize,
    cols: usize,
    scratch: *mut f32,
    epilogue: &'a dyn Epilogue,
}

// SAFETY: the operands are only read and every worker writes its own part of the scratch memory.
unsafe impl Sync for Run<'_> {}

/// # Safety
/// As for [`MatmulPlan::run`].
pub(super) unsafe fn run(
    plan: &MatmulPlan,
    skinny: &Skinny,
    a: *const u8,
    b: *const u8,
    scratch: *mut f32,
    epilogue: &dyn Epilogue,
) {
    let shape = &plan.shape;
    let (a_layout, b_layout) = (shape.a.clone(), shape.b.clone());
    let (rows, cols) = (shape.rows, shape.cols);
    let run = if skinny.swapped {
        let (a_layout, b_layout) = (transposed(b_layout), transposed(a_layout));
        Run { plan, skinny, a: b, b: a, a_layout, b_layout, rows: cols, cols: rows, scratch, epilogue }
    } else {
        Run { plan, skinny, a, b, a_layout, b_layout, rows, cols, scratch, epilogue }
    };
    let chunks = run.cols.div_ceil(skinny.chunk);
    pool().run_on(plan.threads, shape.batch_len() * chunks, &|task, worker| {
        let (batch, first) = (task / chunks, task % chunks * skinny.chunk);
        dispatch_on(plan.isa, Chunk { run: &run, batch, first, worker });
    });
}

fn transposed(layout: OperandLayout) -> OperandLayout {
    OperandLayout { row_stride: layout.col_stride, col_stride: layout.row_stride, ..layout }
}

/// A chunk of columns of one batch entry.
struct Chunk<'a> {
    run: &'a Run<'a>,
    batch: usize,
    first: usize,
    worker: usize,
}

impl SimdOp for Chunk<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Chunk { run, batch, first, worker } = self;
        let (rows, inner) = (run.rows, run.plan.shape.inner);
        let cols = run.skinny.chunk.min(run.cols - first);
        let (a_layout, b_layout) = (&run.a_layout, &run.b_layout);
        let sizes = &run.plan.shape.batch;
        // SAFETY: the batch entry and its columns exist; the worker's scratch memory holds A and the sums.
        unsafe {
            let own = run.scratch.add(worker * run.plan.worker_floats());
            let sums = own.add(rows * inner);
            let offset = batch_offset(sizes, &a_layout.batch_strides, batch);
            with_element!(a_layout.element, T => {
                let a = Matrix::<T> {
                    data: run.a.cast::<T>().offset(offset),
                    row_stride: a_layout.row_stride,
                    col_stride: a_layout.col_stride,
                };
                gather_rows::<S, T>(a, rows, inner, own);
            });

            let target = if run.skinny.swapped { None } else { run.epilogue.target(batch, 0, first) };
            let (c, c_row) = target.unwrap_or((sums, cols));
            let offset = batch_offset(sizes, &b_layout.batch_strides, batch);
            with_element!(b_layout.element, T => {
                let b = Matrix::<T> {
                    data: run.b.cast::<T>().offset(offset),
                    row_stride: b_layout.row_stride,
                    col_stride: b_layout.col_stride,
                };
                let b = b.from(0, first);
                if b.col_stride == 1 {
                    rows_of_b::<S, T>(own, b, rows, cols, inner, c, c_row);
                } else {
                    columns_of_b::<S, T>(own, b, rows, cols, inner, c, c_row);
                }
            });
            if run.skinny.swapped {
                run.epilogue.tile(batch, first, 0, cols, 1, c, 1, worker);
            } else {
                run.epilogue.tile(batch, 0, first, rows, cols, c, c_row, worker);
            }
        }
    }
}

/// A as f32 with contiguous rows.
#[inline(always)]
unsafe fn gather_rows<S: Simd, T: Memory>(a: Matrix<T>, rows: usize, inner: usize, target: *mut f32) {
    for i in 0..rows {
        // SAFETY: the caller vouches for A and for `rows · inner` floats at the target.
        unsafe {
            let (a, target) = (a.from(i, 0), target.add(i * inner));
            if a.col_stride == 1 {
                copy::<S, T>(a.data, inner, target);
            } else {
                for k in 0..inner {
                    *target.add(k) = T::get(a.at(0, k));
                }
            }
        }
    }
}

/// Rows of B taken together, so that the sums are read and written once for so many.
const TOGETHER: usize = 4;

/// B with contiguous rows: `C += a[k] · B[k, :]`, a few k at a time.
#[inline(always)]
unsafe fn rows_of_b<S: Simd, T: Memory>(
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
        let mut k = 0;
        while k + TOGETHER <= inner {
            add_rows::<S, T, TOGETHER>(a.add(k), b.from(k, 0), rows, cols, inner, c, c_row);
            k += TOGETHER;
        }
        while k < inner {
            add_rows::<S, T, 1>(a.add(k), b.from(k, 0), rows, cols, inner, c, c_row);
            k += 1;
        }
    }
}

#[inline(always)]
unsafe fn add_rows<S: Simd, T: Memory, const COUNT: usize>(
    a: *const f32,
    b: Matrix<T>,
    rows: usize,
    cols: usize,
    a_row: usize,
    c: *mut f32,
    c_row: usize,
) {
    let mut j = 0;
    while j < cols {
        let lanes = (cols - j).min(S::LANES);
        let whole = lanes == S::LANES;
        // SAFETY: the caller's promise; only the `lanes` remaining columns are touched.
        unsafe {
            let mut vectors = [S::splat(0.0); COUNT];
            for (k, vector) in vectors.iter_mut().enumerate() {
                let b = b.at(k, j);
                *vector = if whole { T::load::<S>(b) } else { T::load_partial::<S>(b, lanes) };
            }
            for i in 0..rows {
                let (a, c) = (a.add(i * a_row), c.add(i * c_row + j));
                let mut sum = if whole { S::load(c) } else { S::load_partial(c, lanes) };
                for (k, vector) in vectors.iter().enumerate() {
                    sum = S::mul_add(S::splat(*a.add(k)), *vector, sum);
                }
                if whole {
                    S::store(c, sum);
                } else {
                    S::store_partial(c, lanes, sum);
                }
            }
        }
        j += S::LANES;
    }
}

/// B with contiguous columns: dot products, four columns and up to four rows at a time.
#[inline(always)]
unsafe fn columns_of_b<S: Simd, T: Memory>(
    a: *const f32,
    b: Matrix<T>,
    rows: usize,
    cols: usize,
    inner: usize,
    c: *mut f32,
    c_row: usize,
) {
    let mut j = 0;
    // SAFETY: the caller vouches for the operands; all offsets stay inside of them.
    unsafe {
        while j + 4 <= cols {
            dots_of_rows::<S, T, 4>(a, b.from(0, j), rows, inner, c.add(j), c_row);
            j += 4;
        }
        while j < cols {
            dots_of_rows::<S, T, 1>(a, b.from(0, j), rows, inner, c.add(j), c_row);
            j += 1;
        }
    }
}

#[inline(always)]
unsafe fn dots_of_rows<S: Simd, T: Memory, const COLS: usize>(
    a: *const f32,
    b: Matrix<T>,
    rows: usize,
    inner: usize,
    c: *mut f32,
    c_row: usize,
) {
    let mut i = 0;
    // SAFETY: the caller's promise.
    unsafe {
        // Sixteen sums fit only where there are more registers than that.
        while S::REGISTERS > 16 && i + 4 <= rows {
            dots::<S, T, 4, COLS>(a.add(i * inner), b, inner, c.add(i * c_row), c_row);
            i += 4;
        }
        while i + 2 <= rows {
            dots::<S, T, 2, COLS>(a.add(i * inner), b, inner, c.add(i * c_row), c_row);
            i += 2;
        }
        while i < rows {
            dots::<S, T, 1, COLS>(a.add(i * inner), b, inner, c.add(i * c_row), c_row);
            i += 1;
        }
    }
}

#[inline(always)]
unsafe fn dots<S: Simd, T: Memory, const ROWS: usize, const COLS: usize>(
    a: *const f32,
    b: Matrix<T>,
    inner: usize,
    c: *mut f32,
    c_row: usize,
) {
    let mut sums = [[S::splat(0.0); COLS]; ROWS];
    let mut k = 0;
    // SAFETY: the caller's promise; partial loads stop at the end of K.
    unsafe {
        while k + S::LANES <= inner {
            let mut columns = [S::splat(0.0); COLS];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = T::load::<S>(b.at(k, j));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let row = S::load(a.add(i * inner + k));
                for (sum, column) in sums.iter_mut().zip(&columns) {
                    *sum = S::mul_add(row, *column, *sum);
                }
            }
            k += S::LANES;
        }
        if k < inner {
            let lanes = inner - k;
            for (i, sums) in sums.iter_mut().enumerate() {
                let row = S::load_partial(a.add(i * inner + k), lanes);
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = S::mul_add(row, T::load_partial::<S>(b.at(k, j), lanes), *sum);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                *c.add(i * c_row + j) = S::reduce_add(*sum);
            }
        }
    }
}
