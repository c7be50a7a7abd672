//! Products with few rows (decoding one token) or one column: bound by reading B, so B is streamed once,
//! in the order of memory, in its own type, by all threads.
//!
//! Columns are divided among tasks. Where the rows of B are contiguous, narrow pieces of rows would be read badly, so
//! there are few wide chunks and K is divided into slabs as well, whose sums are added in a second step.
//! How it is divided depends on the shape alone.

use super::element::{Memory, with_element};
use super::pack::{Matrix, copy};
use super::plan::{MatmulPlan, Skinny, batch_offset, slab_depth};
use super::stream::{columns_of_b, rows_of_b};
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
    let (rows, cols) = skinny.sizes(shape);
    let run = if skinny.swapped {
        let (a_layout, b_layout) = (transposed(b_layout), transposed(a_layout));
        Run { plan, skinny, a: b, b: a, a_layout, b_layout, rows, cols, scratch, epilogue }
    } else {
        Run { plan, skinny, a, b, a_layout, b_layout, rows, cols, scratch, epilogue }
    };
    let chunks = run.cols.div_ceil(skinny.chunk);
    let blocks = shape.batch_len() * chunks;
    let chunk = |block: usize, worker| Chunk {
        run: &run,
        batch: block / chunks,
        first: block % chunks * skinny.chunk,
        worker,
    };
    pool().run_on(plan.threads, blocks * skinny.slabs, &|task, worker| {
        let (block, slab) = (task / skinny.slabs, task % skinny.slabs);
        dispatch_on(plan.isa, Multiply { chunk: chunk(block, worker), slab });
    });
    if skinny.slabs > 1 {
        pool().run_on(plan.threads, blocks, &|block, worker| {
            dispatch_on(plan.isa, AddSlabs { chunk: chunk(block, worker) });
        });
    }
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

impl Chunk<'_> {
    fn cols(&self) -> usize {
        self.run.skinny.chunk.min(self.run.cols - self.first)
    }

    /// The sums of one slab, in scratch memory, rows a chunk apart: rows of C that are a power of two apart would
    /// share a few sets of the cache with rows of B that are.
    ///
    /// # Safety
    /// There are several slabs, this among them.
    unsafe fn partial(&self, slab: usize) -> *mut f32 {
        let run = self.run;
        let chunk = self.first / run.skinny.chunk + self.batch * run.cols.div_ceil(run.skinny.chunk);
        // SAFETY: the shared floats hold the sums of every slab of every chunk.
        unsafe { run.scratch.add((chunk * run.skinny.slabs + slab) * run.rows * run.skinny.chunk) }
    }

    /// Where the epilogue wants the sums, if not in scratch memory.
    fn target(&self) -> Option<(*mut f32, usize)> {
        // With operands exchanged, a row of sums here is a column of the product.
        if self.run.skinny.swapped { None } else { self.run.epilogue.target(self.batch, 0, self.first) }
    }

    fn finish(&self, sums: *mut f32, row: usize) {
        let Chunk { run, batch, first, worker } = *self;
        if run.skinny.swapped {
            run.epilogue.tile(batch, first, 0, self.cols(), 1, sums, 1, worker);
        } else {
            run.epilogue.tile(batch, 0, first, run.rows, self.cols(), sums, row, worker);
        }
    }
}

/// One slab of a chunk.
struct Multiply<'a> {
    chunk: Chunk<'a>,
    slab: usize,
}

impl SimdOp for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Multiply { chunk, slab } = self;
        let Chunk { run, batch, first, worker } = chunk;
        let (rows, cols) = (run.rows, chunk.cols());
        let inner = run.plan.shape.inner;
        let depth = slab_depth(inner, run.skinny.slabs);
        let k = slab * depth;
        let depth = depth.min(inner - k);
        let (a_layout, b_layout) = (&run.a_layout, &run.b_layout);
        let sizes = &run.plan.shape.batch;
        // SAFETY: the batch entry, its columns and its slab exist; the worker's scratch memory holds a slab of
        // A and the sums.
        unsafe {
            let own = run.scratch.add(run.plan.shared_floats() + worker * run.plan.worker_floats());
            let sums = own.add(rows * depth);
            let offset = batch_offset(sizes, &a_layout.batch_strides, batch);
            with_element!(a_layout.element, T => {
                let a = Matrix::<T> {
                    data: run.a.cast::<T>().offset(offset),
                    row_stride: a_layout.row_stride,
                    col_stride: a_layout.col_stride,
                };
                gather_rows::<S, T>(a.from(0, k), rows, depth, own);
            });

            let c = if run.skinny.slabs > 1 { chunk.partial(slab) } else { sums };
            let c_row = run.skinny.chunk;
            let offset = batch_offset(sizes, &b_layout.batch_strides, batch);
            with_element!(b_layout.element, T => {
                let b = Matrix::<T> {
                    data: run.b.cast::<T>().offset(offset),
                    row_stride: b_layout.row_stride,
                    col_stride: b_layout.col_stride,
                };
                let b = b.from(k, first);
                if b.col_stride == 1 {
                    rows_of_b::<S, T>(own, b, rows, cols, depth, c, c_row);
                } else {
                    columns_of_b::<S, T>(own, b, rows, cols, depth, c, c_row);
                }
            });
            if run.skinny.slabs == 1 {
                chunk.finish(c, c_row);
            }
        }
    }
}

/// Adds up the slabs of a chunk, in their order.
struct AddSlabs<'a> {
    chunk: Chunk<'a>,
}

impl SimdOp for AddSlabs<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let AddSlabs { chunk } = self;
        let (run, cols) = (chunk.run, chunk.cols());
        // SAFETY: every slab of the chunk has been computed, and this task alone reads or writes them now.
        unsafe {
            let (c, c_row) = chunk.target().unwrap_or((chunk.partial(0), run.skinny.chunk));
            for i in 0..run.rows {
                let mut j = 0;
                while j < cols {
                    let lanes = (cols - j).min(S::LANES);
                    let at = i * run.skinny.chunk + j;
                    let mut sum = S::load_partial(chunk.partial(0).add(at), lanes);
                    for slab in 1..run.skinny.slabs {
                        sum = S::add(sum, S::load_partial(chunk.partial(slab).add(at), lanes));
                    }
                    S::store_partial(c.add(i * c_row + j), lanes, sum);
                    j += S::LANES;
                }
            }
            chunk.finish(c, c_row);
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
