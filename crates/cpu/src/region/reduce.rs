//! Reductions with a pointwise body before and a pointwise epilogue after.
//!
//! Axes are reordered so that memory is walked in order: where the innermost axis is folded, each kept
//! index owns a run of the flat range (*rows*); where it is kept, or what is folded are small windows, whole rows
//! are added to a row of accumulators (*columns*). Work is cut by shape alone and partial results are combined
//! in order, so the result does not depend on the number of threads.

use lanthorn_compiler::kernel::{self, Operand, Phase};
use lanthorn_ir::Dims;
use lanthorn_ir::expr::Step;
use smallvec::SmallVec;

use super::TILE;
use super::access::Access;
use super::fold::{Fold, Wide};
use super::map::{Bases, Slots, TileLoop, run_tiles, with_slots};
use super::program::SLOT_BYTES;
use crate::pool::pool;

/// Folded elements of one partial result in the rows order.
const ROW_CHUNK: usize = TILE * 64;
/// A run shorter than this is not worth a vector loop.
const SHORT: usize = 16;
/// Folded rows of one partial result in the columns order.
const COLUMN_CHUNK: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Flat range: `[kept, folded]`.
    Rows,
    /// Flat range: `[outer kept, folded, inner kept]`.
    Columns { inner: usize },
}

/// A reduction kernel.
#[derive(Debug)]
pub(crate) struct ReduceKernel {
    body: TileLoop,
    folds: Vec<Fold>,
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
        folds: &[kernel::Fold],
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
        let mut inner_axes: Vec<usize> = match last_folded {
            Some(last) => kept_axes.iter().copied().filter(|&a| a > last).collect(),
            None => Vec::new(),
        };
        if size(&inner_axes) <= 1 && folded > 1 {
            inner_axes = kept_under_windows(domain, &kept_axes, &folded_axes, body, inputs).to_vec();
        }
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
        let accumulators: Vec<Fold> = folds
            .iter()
            .map(|fold| Fold {
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
                    Access::dense(fold.result_dtype(), kept)
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
                    unsafe { fold.write(target, k, fold.identity()) };
                }
            }
        }
        if self.chunks > 1 {
            for (at, fold) in self.folds.iter().enumerate() {
                let (source, target) = (partial_of(at), result_of(at));
                for k in 0..self.kept {
                    // SAFETY: both hold what is indexed.
                    unsafe {
                        let mut total = fold.identity();
                        for chunk in 0..self.chunks {
                            total = fold.combine(total, fold.read(source, self.partial_index(k, chunk)));
                        }
                        fold.write(target, k, total);
                    }
                }
            }
        }
        for (at, fold) in self.folds.iter().enumerate() {
            // SAFETY: the results are `kept` elements of the body.
            unsafe { fold.wrap(result_of(at), self.kept) };
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
            let slot_bytes = self.body.program.slot_bytes();
            // The slots and, after them, a tile of accumulators for each fold.
            with_slots(slot_bytes + self.folds.len() * SLOT_BYTES, |memory| {
                // SAFETY: the memory is as large; targets hold all results; units are distinct.
                unsafe {
                    let slots = Slots::new(&self.body, bases, memory);
                    let accumulators = memory.add(slot_bytes);
                    let mut units_of_task = RunUnits { kernel: self, targets, slots, accumulators };
                    for unit in task * per_task..units.min((task + 1) * per_task) {
                        units_of_task.run(unit);
                    }
                }
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

/// The innermost kept axes, a tile of them, where windows are folded: what is folded lies in short runs, and what is kept
/// in long ones. Otherwise none.
fn kept_under_windows<'a>(
    domain: &[usize],
    kept: &'a [usize],
    folded: &[usize],
    body: &Phase,
    inputs: &[Operand],
) -> &'a [usize] {
    let shortest = |axes: Vec<usize>| {
        let loads = body.expr.steps.iter().filter_map(|step| match step {
            Step::Load(source) => inputs.get(*source as usize),
            _ => None,
        });
        let accesses = loads.filter_map(|load| Access::new(load.dtype, &load.layout.permute(&axes)));
        accesses.map(|access| access.run_length()).min().unwrap_or(usize::MAX)
    };
    if shortest([kept, folded].concat()) >= SHORT || shortest([folded, kept].concat()) < SHORT {
        return &[];
    }
    let mut at = kept.len();
    while at > 0 && kept[at..].iter().map(|&axis| domain[axis]).product::<usize>() < TILE {
        at -= 1;
    }
    &kept[at..]
}

/// Where the folds' (partial) results go.
struct Targets(Vec<*mut u8>);
// SAFETY: units write disjoint elements.
unsafe impl Sync for Targets {}

/// Units of work on one thread.
struct RunUnits<'a> {
    kernel: &'a ReduceKernel,
    targets: &'a Targets,
    slots: Slots<'a>,
    /// A tile for each fold.
    accumulators: *mut u8,
}

impl RunUnits<'_> {
    /// # Safety
    /// The targets hold all (partial) results, and nobody else works on the unit.
    unsafe fn run(&mut self, unit: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.kernel.order {
                Order::Rows if self.kernel.folded <= TILE => self.short_rows(unit),
                Order::Rows => self.long_row(unit),
                Order::Columns { inner } => self.columns(unit, inner),
            }
        }
    }

    /// Several rows to a tile.
    unsafe fn short_rows(&mut self, unit: usize) {
        let (kernel, width) = (self.kernel, self.kernel.folded);
        let per_tile = TILE / width;
        let first = unit * kernel.rows_per_task();
        let last = kernel.kept.min(first + kernel.rows_per_task());
        for row in (first..last).step_by(per_tile) {
            let rows = per_tile.min(last - row);
            // SAFETY: these rows lie in the range, and each result is written by this unit alone.
            unsafe {
                self.slots.run(row * width, rows * width);
                for (fold, &target) in kernel.folds.iter().zip(&self.targets.0) {
                    fold.rows(self.slots.at[fold.slot as usize], rows, width, target, row);
                }
            }
        }
    }

    /// A chunk of one long row.
    unsafe fn long_row(&mut self, unit: usize) {
        let kernel = self.kernel;
        let (row, chunk) = (unit / kernel.chunks, unit % kernel.chunks);
        let stop = kernel.folded.min((chunk + 1) * ROW_CHUNK);
        let mut totals: SmallVec<[Wide; 4]> = kernel.folds.iter().map(Fold::identity).collect();
        let first = chunk * ROW_CHUNK;
        // SAFETY: the chunk lies in the row.
        let whole = unsafe { self.slots.point(row * kernel.folded + first, stop - first) };
        let step = if whole { ROW_CHUNK } else { TILE };
        for at in (first..stop).step_by(step) {
            let n = step.min(stop - at);
            // SAFETY: the tile lies in the row.
            unsafe {
                if !whole {
                    self.slots.run(row * kernel.folded + at, n);
                }
                for (fold, total) in kernel.folds.iter().zip(&mut totals) {
                    *total = fold.combine(*total, fold.row(self.slots.at[fold.slot as usize], n));
                }
            }
        }
        for ((fold, &target), &total) in kernel.folds.iter().zip(&self.targets.0).zip(&totals) {
            // SAFETY: this unit alone writes the element.
            unsafe { fold.write(target, row * kernel.chunks + chunk, total) };
        }
    }

    /// A block of columns over a chunk of folded rows.
    unsafe fn columns(&mut self, unit: usize, inner: usize) {
        let kernel = self.kernel;
        let blocks = inner.div_ceil(TILE);
        let (block, rest) = (unit % blocks, unit / blocks);
        let (outer, chunk) = (rest / kernel.chunks, rest % kernel.chunks);
        let (column, width) = (block * TILE, TILE.min(inner - block * TILE));
        let (first, last) = (chunk * COLUMN_CHUNK, kernel.folded.min((chunk + 1) * COLUMN_CHUNK));
        // Narrow rows share a tile, wide ones are cut. Tiles are added to a tile, whose rows are added in the end.
        let per_tile = if blocks == 1 { TILE / width } else { 1 };
        for row in (first..last).step_by(per_tile) {
            let n = per_tile.min(last - row) * width;
            // SAFETY: the rows lie in the range; accumulators hold a tile for each fold.
            unsafe {
                self.slots.run((outer * kernel.folded + row) * inner + column, n);
                for (at, fold) in kernel.folds.iter().enumerate() {
                    let (slot, sums) = (self.slots.at[fold.slot as usize], self.accumulator(at));
                    if row == first {
                        std::ptr::copy_nonoverlapping(slot, sums, n * fold.body.size());
                    } else {
                        fold.into(slot, sums, n);
                    }
                }
            }
        }
        let rows = per_tile.min(last - first);
        for (at, (fold, &target)) in kernel.folds.iter().zip(&self.targets.0).enumerate() {
            let (sums, size) = (self.accumulator(at), fold.body.size());
            // SAFETY: this unit alone writes these columns of the chunk.
            unsafe {
                for row in 1..rows {
                    fold.into(sums.add(row * width * size), sums, width);
                }
                let target = target.add(((outer * kernel.chunks + chunk) * inner + column) * size);
                std::ptr::copy_nonoverlapping(sums, target, width * size);
            }
        }
    }

    fn accumulator(&self, fold: usize) -> *mut u8 {
        self.accumulators.wrapping_add(fold * SLOT_BYTES)
    }
}
