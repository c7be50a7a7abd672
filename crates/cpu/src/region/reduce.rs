//! Reductions with a pointwise body before and a pointwise epilogue after.
//!
//! Axes are reordered so that memory is walked in order: where the innermost axis is folded, each kept
//! index owns a run of the flat range (*rows*); where it is kept, whole rows are added to a row of
//! accumulators (*columns*). Work is cut by shape alone and partial results are combined in order, so the
//! result does not depend on the number of threads.

use lanthorn_compiler::kernel::{Fold, Operand, Phase};
use lanthorn_ir::prim::ReduceOp;
use lanthorn_ir::{DType, Dims};

use super::TILE;
use super::access::Access;
use super::map::{Bases, Slots, TileLoop, run_tiles, with_slots};
use super::program::Body;
use super::steps::wrap;
use crate::pool::pool;
use crate::simd::{Simd, SimdOp, dispatch};

/// Folded elements of one partial result in the rows order.
const ROW_CHUNK: usize = TILE * 64;
/// Folded rows of one partial result in the columns order.
const COLUMN_CHUNK: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Flat range: `[kept, folded]`.
    Rows,
    /// Flat range: `[outer kept, folded, inner kept]`.
    Columns { inner: usize },
}

/// A fold as the loop sees it.
#[derive(Clone, Copy, Debug)]
struct Accumulate {
    op: ReduceOp,
    slot: u16,
    body: Body,
    /// Of the results.
    dtype: DType,
}

/// A reduction kernel.
#[derive(Debug)]
pub(crate) struct ReduceKernel {
    body: TileLoop,
    folds: Vec<Accumulate>,
    epilogue: TileLoop,
    order: Order,
    /// Kept and folded elements.
    kept: usize,
    folded: usize,
    /// Partial results for each kept element.
    chunks: usize,
    /// The kernel's own inputs; loads beyond them are folds.
    inputs: usize,
}

impl ReduceKernel {
    pub(crate) fn new(
        domain: &[usize],
        is_folded: &[bool],
        body: &Phase,
        folds: &[Fold],
        epilogue: &Phase,
        inputs: &[Operand],
        outputs: &[Operand],
    ) -> Option<Self> {
        let rank = domain.len();
        let kept_axes: Vec<usize> = (0..rank).filter(|&a| !is_folded[a]).collect();
        let folded_axes: Vec<usize> = (0..rank).filter(|&a| is_folded[a]).collect();
        let size = |axes: &[usize]| axes.iter().map(|&a| domain[a]).product::<usize>();
        let (kept, folded) = (size(&kept_axes), size(&folded_axes));
        // The kept axes inside of the innermost folded one.
        let last_folded = (0..rank).rev().find(|&a| is_folded[a] && domain[a] != 1);
        let inner_axes: Vec<usize> = match last_folded {
            Some(last) => kept_axes.iter().copied().filter(|&a| a > last).collect(),
            None => Vec::new(),
        };
        let inner = size(&inner_axes);
        let (order, axes): (Order, Dims) = if inner > 1 {
            let outer = kept_axes.iter().copied().filter(|a| !inner_axes.contains(a));
            let axes = outer.chain(folded_axes.iter().copied()).chain(inner_axes.iter().copied()).collect();
            (Order::Columns { inner }, axes)
        } else {
            (Order::Rows, kept_axes.iter().chain(&folded_axes).copied().collect())
        };
        let permuted = |operand: &Operand| Access::new(operand.dtype, &operand.layout.permute(&axes));
        let kept_steps: Vec<u32> = folds.iter().map(|fold| fold.step).collect();
        let body_loop = TileLoop::new(
            body,
            &kept_steps,
            domain,
            |source| inputs.get(source as usize).and_then(permuted),
            |output| outputs.get(output as usize).and_then(permuted),
        )?;
        let accumulators: Vec<Accumulate> = folds
            .iter()
            .map(|fold| Accumulate {
                op: fold.op,
                dtype: body.expr.dtype(fold.step),
                slot: body_loop.program.slot_of_step[fold.step as usize],
                body: body_loop.program.body_of_step[fold.step as usize],
            })
            .collect();
        let kept_domain: Dims = (0..rank).map(|a| if is_folded[a] { 1 } else { domain[a] }).collect();
        let epilogue_loop = TileLoop::new(
            epilogue,
            &[],
            &kept_domain,
            |source| match inputs.get(source as usize) {
                Some(operand) => Access::new(operand.dtype, &operand.layout),
                None => {
                    let fold = accumulators.get(source as usize - inputs.len())?;
                    Access::dense(result_dtype(fold.body), kept)
                }
            },
            |output| outputs.get(output as usize).and_then(|o| Access::new(o.dtype, &o.layout)),
        )?;
        let chunks = match order {
            Order::Rows => folded.div_ceil(ROW_CHUNK).max(1),
            Order::Columns { .. } => folded.div_ceil(COLUMN_CHUNK).max(1),
        };
        Some(ReduceKernel {
            body: body_loop,
            folds: accumulators,
            epilogue: epilogue_loop,
            order,
            kept,
            folded,
            chunks,
            inputs: inputs.len(),
        })
    }

    /// Bytes of scratch: the results of the folds, and their partial results where there are several.
    pub(crate) fn scratch_bytes(&self) -> usize {
        let results = (self.kept * 8).next_multiple_of(64);
        let partials = if self.chunks > 1 { (self.kept * self.chunks * 8).next_multiple_of(64) } else { 0 };
        self.folds.len() * (results + partials)
    }

    /// # Safety
    /// As [`run_tiles`]; `scratch` holds [`ReduceKernel::scratch_bytes`], 64-byte aligned.
    pub(crate) unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], scratch: *mut u8) {
        let results = (self.kept * 8).next_multiple_of(64);
        let partials = (self.kept * self.chunks * 8).next_multiple_of(64);
        // SAFETY: scratch holds results and, after them, partial results of every fold.
        let result_of = |fold: usize| unsafe { scratch.add(fold * results) };
        let partial_of = |fold: usize| unsafe {
            if self.chunks > 1 {
                scratch.add(self.folds.len() * results + fold * partials)
            } else {
                result_of(fold)
            }
        };
        let targets = Targets((0..self.folds.len()).map(partial_of).collect());
        let bases = Bases::of(&self.body, inputs, outputs);
        if self.folded > 0 {
            self.accumulate(&bases, &targets);
        } else {
            for (fold, &target) in self.folds.iter().zip(&targets.0) {
                for k in 0..self.kept {
                    // SAFETY: the target holds the kept elements.
                    unsafe { write_value(fold.body, target, k, identity(fold)) };
                }
            }
        }
        if self.chunks > 1 {
            for (at, fold) in self.folds.iter().enumerate() {
                let (source, target) = (partial_of(at), result_of(at));
                for k in 0..self.kept {
                    // SAFETY: both hold what is indexed.
                    unsafe {
                        let mut total = identity(fold);
                        for chunk in 0..self.chunks {
                            let part = read_value(fold.body, source, self.partial_index(k, chunk));
                            total = combine(fold, total, part);
                        }
                        write_value(fold.body, target, k, total);
                    }
                }
            }
        }
        for (at, fold) in self.folds.iter().enumerate() {
            // SAFETY: the results are `kept` elements of the body.
            unsafe { wrap(fold.dtype, result_of(at), self.kept) };
        }
        let mut sources = inputs.to_vec();
        sources.truncate(self.inputs);
        sources.extend((0..self.folds.len()).map(|fold| result_of(fold) as *const u8));
        let bases = Bases::of(&self.epilogue, &sources, outputs);
        // SAFETY: the folds' results are dense arrays of their body.
        unsafe { run_tiles(&self.epilogue, &bases) };
    }

    /// Where the partial result of `kept` element and chunk lies.
    fn partial_index(&self, kept: usize, chunk: usize) -> usize {
        match self.order {
            Order::Rows => kept * self.chunks + chunk,
            Order::Columns { inner } => {
                let (outer, column) = (kept / inner, kept % inner);
                (outer * self.chunks + chunk) * inner + column
            }
        }
    }

    fn accumulate(&self, bases: &Bases, targets: &Targets) {
        let (units, cost) = match self.order {
            Order::Rows if self.folded <= TILE => {
                (self.kept.div_ceil(self.rows_per_task()), self.rows_per_task() * self.folded)
            }
            Order::Rows => (self.kept * self.chunks, self.folded.min(ROW_CHUNK)),
            Order::Columns { inner } => {
                let blocks = inner.div_ceil(TILE);
                (self.kept / inner * self.chunks * blocks, self.folded.min(COLUMN_CHUNK) * inner.min(TILE))
            }
        };
        // Tasks of some ten thousand elements; the grouping has no influence on the result.
        let per_task = (16 * 1024 / cost.max(1)).max(1);
        let run = |task: usize| {
            let (first, last) = (task * per_task, units.min((task + 1) * per_task));
            let slot_bytes = self.body.program.slot_bytes();
            // The slots and, after them, a tile of accumulators for each fold.
            with_slots(slot_bytes + self.folds.len() * TILE * 8, |memory| {
                let accumulators = memory.wrapping_add(slot_bytes);
                dispatch(RunUnits { kernel: self, bases, targets, first, last, memory, accumulators });
            });
        };
        let tasks = units.div_ceil(per_task);
        if tasks <= 1 {
            (0..tasks).for_each(run);
        } else {
            pool().run(tasks, &|task, _| run(task));
        }
    }

    /// Short rows share a tile; this many rows make a unit of work.
    fn rows_per_task(&self) -> usize {
        (TILE / self.folded.max(1)).max(1) * 8
    }
}

/// Where the folds' (partial) results go.
struct Targets(Vec<*mut u8>);
// SAFETY: units write disjoint elements.
unsafe impl Sync for Targets {}

struct RunUnits<'a> {
    kernel: &'a ReduceKernel,
    bases: &'a Bases,
    targets: &'a Targets,
    first: usize,
    last: usize,
    memory: *mut u8,
    accumulators: *mut u8,
}

impl SimdOp for RunUnits<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: the memory holds what `accumulate` says.
        unsafe {
            let mut slots = Slots::new::<S>(&self.kernel.body, self.bases, self.memory);
            for unit in self.first..self.last {
                match self.kernel.order {
                    Order::Rows if self.kernel.folded <= TILE => self.short_rows::<S>(&mut slots, unit),
                    Order::Rows => self.long_row::<S>(&mut slots, unit),
                    Order::Columns { inner } => self.columns::<S>(&mut slots, self.accumulators, unit, inner),
                }
            }
        }
    }
}

impl RunUnits<'_> {
    /// # Safety
    /// The range lies in the iteration range.
    #[inline(always)]
    unsafe fn tile<S: Simd>(&self, slots: &mut Slots, start: usize, n: usize) {
        let body = &self.kernel.body;
        // SAFETY: the caller's promise.
        unsafe {
            slots.fetch::<S>(body, self.bases, start, n);
            slots.compute::<S>(&body.program, n);
            slots.write::<S>(body, self.bases, start, n);
        }
    }

    /// Several rows to a tile.
    #[inline(always)]
    unsafe fn short_rows<S: Simd>(&self, slots: &mut Slots, unit: usize) {
        let (kernel, width) = (self.kernel, self.kernel.folded);
        let per_tile = TILE / width;
        let first = unit * kernel.rows_per_task();
        let last = kernel.kept.min(first + kernel.rows_per_task());
        let mut row = first;
        while row < last {
            let rows = per_tile.min(last - row);
            // SAFETY: these rows lie in the range, and each result is written by this unit alone.
            unsafe {
                self.tile::<S>(slots, row * width, rows * width);
                for (fold, &target) in kernel.folds.iter().zip(&self.targets.0) {
                    let slot = slots.at[fold.slot as usize];
                    for r in 0..rows {
                        let value = fold_run::<S>(fold, slot.add(r * width * fold.body.size()), width);
                        write_value(fold.body, target, row + r, value);
                    }
                }
            }
            row += rows;
        }
    }

    /// A chunk of one long row.
    #[inline(always)]
    unsafe fn long_row<S: Simd>(&self, slots: &mut Slots, unit: usize) {
        let kernel = self.kernel;
        let (row, chunk) = (unit / kernel.chunks, unit % kernel.chunks);
        let stop = kernel.folded.min((chunk + 1) * ROW_CHUNK);
        let mut totals: smallvec::SmallVec<[Wide; 4]> = kernel.folds.iter().map(identity).collect();
        let mut at = chunk * ROW_CHUNK;
        while at < stop {
            let n = TILE.min(stop - at);
            // SAFETY: the tile lies in the row.
            unsafe {
                self.tile::<S>(slots, row * kernel.folded + at, n);
                for (fold, total) in kernel.folds.iter().zip(&mut totals) {
                    let part = fold_run::<S>(fold, slots.at[fold.slot as usize], n);
                    *total = combine(fold, *total, part);
                }
            }
            at += n;
        }
        for ((fold, &target), &total) in kernel.folds.iter().zip(&self.targets.0).zip(&totals) {
            // SAFETY: this unit alone writes the element.
            unsafe { write_value(fold.body, target, row * kernel.chunks + chunk, total) };
        }
    }

    /// A block of columns over a chunk of folded rows.
    #[inline(always)]
    unsafe fn columns<S: Simd>(&self, slots: &mut Slots, accumulators: *mut u8, unit: usize, inner: usize) {
        let kernel = self.kernel;
        let blocks = inner.div_ceil(TILE);
        let (block, rest) = (unit % blocks, unit / blocks);
        let (outer, chunk) = (rest / kernel.chunks, rest % kernel.chunks);
        let (column, width) = (block * TILE, TILE.min(inner - block * TILE));
        let (first, last) = (chunk * COLUMN_CHUNK, kernel.folded.min((chunk + 1) * COLUMN_CHUNK));
        // Narrow rows share a tile, wide ones are cut.
        let per_tile = if blocks == 1 { TILE / width } else { 1 };
        let mut row = first;
        while row < last {
            let rows = per_tile.min(last - row);
            // SAFETY: the rows lie in the range; accumulators hold a tile for each fold.
            unsafe {
                self.tile::<S>(slots, (outer * kernel.folded + row) * inner + column, rows * width);
                for (at, fold) in kernel.folds.iter().enumerate() {
                    let accumulator = accumulators.add(at * TILE * 8);
                    let slot = slots.at[fold.slot as usize];
                    for r in 0..rows {
                        let source = slot.add(r * width * fold.body.size());
                        if row + r == first {
                            std::ptr::copy_nonoverlapping(source, accumulator, width * fold.body.size());
                        } else {
                            fold_into::<S>(fold, source, accumulator, width);
                        }
                    }
                }
            }
            row += rows;
        }
        for (at, (fold, &target)) in kernel.folds.iter().zip(&self.targets.0).enumerate() {
            let size = fold.body.size();
            // SAFETY: this unit alone writes these columns of the chunk.
            unsafe {
                let target = target.add(((outer * kernel.chunks + chunk) * inner + column) * size);
                std::ptr::copy_nonoverlapping(accumulators.add(at * TILE * 8), target, width * size);
            }
        }
    }
}

/// An accumulator between tiles: floats in f64, integers in i64 (u64 by its bits).
#[derive(Clone, Copy)]
enum Wide {
    Float(f64),
    Int(i64),
}

fn result_dtype(body: Body) -> DType {
    match body {
        Body::F32 | Body::Bool => DType::F32,
        Body::F64 => DType::F64,
        Body::I32 => DType::I32,
        Body::I64 => DType::I64,
        Body::U64 => DType::U64,
    }
}

fn identity(fold: &Accumulate) -> Wide {
    match (fold.body, fold.op) {
        (Body::F32 | Body::F64 | Body::Bool, op) => Wide::Float(match op {
            ReduceOp::Sum => 0.0,
            ReduceOp::Prod => 1.0,
            ReduceOp::Max => f64::NEG_INFINITY,
            ReduceOp::Min => f64::INFINITY,
        }),
        (Body::U64, ReduceOp::Max) => Wide::Int(0),
        (Body::U64, ReduceOp::Min) => Wide::Int(-1),
        (_, op) => Wide::Int(match op {
            ReduceOp::Sum => 0,
            ReduceOp::Prod => 1,
            ReduceOp::Max => i64::MIN,
            ReduceOp::Min => i64::MAX,
        }),
    }
}

fn combine(fold: &Accumulate, a: Wide, b: Wide) -> Wide {
    match (a, b) {
        (Wide::Float(a), Wide::Float(b)) => Wide::Float(match fold.op {
            ReduceOp::Sum => a + b,
            ReduceOp::Prod => a * b,
            ReduceOp::Max if a.is_nan() || a > b => a,
            ReduceOp::Min if a.is_nan() || a < b => a,
            ReduceOp::Max | ReduceOp::Min => b,
        }),
        (Wide::Int(a), Wide::Int(b)) => Wide::Int(match fold.op {
            ReduceOp::Sum => a.wrapping_add(b),
            ReduceOp::Prod => a.wrapping_mul(b),
            ReduceOp::Max if fold.body == Body::U64 => (a as u64).max(b as u64) as i64,
            ReduceOp::Min if fold.body == Body::U64 => (a as u64).min(b as u64) as i64,
            ReduceOp::Max => a.max(b),
            ReduceOp::Min => a.min(b),
        }),
        (a, _) => a,
    }
}

/// # Safety
/// `base` holds body elements up to `index`.
unsafe fn write_value(body: Body, base: *mut u8, index: usize, value: Wide) {
    // SAFETY: the caller's promise.
    unsafe {
        match (body, value) {
            (Body::F32 | Body::Bool, Wide::Float(x)) => (base as *mut f32).add(index).write(x as f32),
            (Body::F64, Wide::Float(x)) => (base as *mut f64).add(index).write(x),
            (Body::I32, Wide::Int(x)) => (base as *mut i32).add(index).write(x as i32),
            (_, Wide::Int(x)) => (base as *mut i64).add(index).write(x),
            (_, Wide::Float(_)) => debug_assert!(false, "a float in an integer fold"),
        }
    }
}

/// # Safety
/// `base` holds body elements up to `index`.
unsafe fn read_value(body: Body, base: *const u8, index: usize) -> Wide {
    // SAFETY: the caller's promise.
    unsafe {
        match body {
            Body::F32 | Body::Bool => Wide::Float((base as *const f32).add(index).read() as f64),
            Body::F64 => Wide::Float((base as *const f64).add(index).read()),
            Body::I32 => Wide::Int((base as *const i32).add(index).read() as i64),
            Body::I64 | Body::U64 => Wide::Int((base as *const i64).add(index).read()),
        }
    }
}

/// Folds `n` dense elements.
///
/// # Safety
/// `source` holds them.
#[inline(always)]
unsafe fn fold_run<S: Simd>(fold: &Accumulate, source: *const u8, n: usize) -> Wide {
    // SAFETY: the caller's promise.
    unsafe {
        match fold.body {
            Body::F32 | Body::Bool => Wide::Float(fold_run_f32::<S>(fold.op, source as *const f32, n) as f64),
            body => {
                let mut total = identity(fold);
                for i in 0..n {
                    total = combine(fold, total, read_value(body, source, i));
                }
                total
            }
        }
    }
}

#[inline(always)]
unsafe fn fold_run_f32<S: Simd>(op: ReduceOp, source: *const f32, n: usize) -> f32 {
    macro_rules! fold {
        ($start:expr, $combine:path, $finish:path, $one:expr) => {{
            // Four chains hide the latency of the addition.
            let mut lanes = [S::splat($start); 4];
            let mut i = 0;
            while i + 4 * S::LANES <= n {
                for (chain, lane) in lanes.iter_mut().enumerate() {
                    *lane = $combine(*lane, S::load(source.add(i + chain * S::LANES)));
                }
                i += 4 * S::LANES;
            }
            while i + S::LANES <= n {
                lanes[0] = $combine(lanes[0], S::load(source.add(i)));
                i += S::LANES;
            }
            let pair = $combine($combine(lanes[0], lanes[1]), $combine(lanes[2], lanes[3]));
            let mut total = $finish(pair);
            while i < n {
                total = $one(total, *source.add(i));
                i += 1;
            }
            total
        }};
    }
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            ReduceOp::Sum => fold!(0.0, S::add, S::reduce_add, |a: f32, b: f32| a + b),
            ReduceOp::Max => {
                fold!(f32::NEG_INFINITY, S::max, S::reduce_max, |a: f32, b: f32| if a.is_nan() || a > b {
                    a
                } else {
                    b
                })
            }
            ReduceOp::Min => {
                fold!(f32::INFINITY, S::min, S::reduce_min, |a: f32, b: f32| if a.is_nan() || a < b {
                    a
                } else {
                    b
                })
            }
            ReduceOp::Prod => {
                let mut total = 1.0f32;
                for i in 0..n {
                    total *= *source.add(i);
                }
                total
            }
        }
    }
}

/// `accumulator[i] = combine(accumulator[i], source[i])` for `n` elements.
///
/// # Safety
/// Both hold them.
#[inline(always)]
unsafe fn fold_into<S: Simd>(fold: &Accumulate, source: *const u8, accumulator: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if !matches!(fold.body, Body::F32 | Body::Bool) {
            for i in 0..n {
                let total =
                    combine(fold, read_value(fold.body, accumulator, i), read_value(fold.body, source, i));
                write_value(fold.body, accumulator, i, total);
            }
            return;
        }
        let (source, accumulator) = (source as *const f32, accumulator as *mut f32);
        macro_rules! each {
            ($combine:path) => {{
                let mut i = 0;
                while i + S::LANES <= n {
                    let total = $combine(S::load(accumulator.add(i)), S::load(source.add(i)));
                    S::store(accumulator.add(i), total);
                    i += S::LANES;
                }
                if i < n {
                    let (rest, a) = (n - i, accumulator.add(i));
                    let total = $combine(S::load_partial(a, rest), S::load_partial(source.add(i), rest));
                    S::store_partial(a, rest, total);
                }
            }};
        }
        match fold.op {
            ReduceOp::Sum => each!(S::add),
            ReduceOp::Prod => each!(S::mul),
            ReduceOp::Max => each!(S::max),
            ReduceOp::Min => each!(S::min),
        }
    }
}
