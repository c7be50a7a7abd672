//! Running the tiled method: packing B where the plan says so, then tiles in parallel.

use super::element::with_element;
use super::kernel::{
    Ahead, BlockB, Distance, Onto, Panels, block_product, packed_b_floats, tile_cols, tiles,
};
use super::pack::{Matrix, pack_a, pack_b, pack_rows_of_b};
use super::plan::{Columns, MatmulPlan, Method, SourceB, Tiling, batch_offset, is_small_in_place};
use super::{Element, Epilogue, PackedB, skinny};
use crate::pool::pool;
use crate::quantized::PackPanels;
use crate::simd::{Simd, SimdOp, dispatch_on};

impl MatmulPlan {
    /// Runs the product.
    ///
    /// # Safety
    /// `a` and `b` point at element (0, 0) of the first batch entry, and every element that the
    /// shape's layouts name is readable and aligned to its type. `scratch` is aligned to f32,
    /// [`MatmulPlan::scratch_bytes`] are writable there, and nobody else uses them during the run. What the
    /// epilogue returns as its target is writable for the block and apart from all of these.
    pub unsafe fn run(&self, a: *const u8, b: *const u8, scratch: *mut u8, epilogue: &dyn Epilogue) {
        let scratch = scratch.cast::<f32>();
        match &self.method {
            Method::Nothing => {}
            // SAFETY: the caller's promise.
            Method::Tiled(tiling) => unsafe { run(self, tiling, a, b, scratch, epilogue) },
            // SAFETY: the caller's promise.
            Method::Skinny(skinny) => unsafe { skinny::run(self, skinny, a, b, scratch, epilogue) },
        }
    }

    /// Runs the product of a plan made by [`MatmulPlan::prepacked`].
    ///
    /// # Panics
    /// If `b` was packed for another K, N or instruction set than the plan's.
    ///
    /// # Safety
    /// As for [`MatmulPlan::run`].
    pub unsafe fn run_packed(&self, a: *const u8, b: &PackedB, scratch: *mut u8, epilogue: &dyn Epilogue) {
        assert!(
            b.inner() == self.shape.inner && b.cols() == self.shape.cols && b.isa() == self.isa,
            "the packed operand is not the one that the product was planned for"
        );
        if let Method::Tiled(tiling) = &self.method {
            assert!(tiling.b == SourceB::Prepacked, "the product was not planned for a packed operand");
            // SAFETY: the caller's promise.
            unsafe { run(self, tiling, a, b.data().cast(), scratch.cast(), epilogue) }
        }
    }
}

/// The operands of one run, shared by its tasks.
struct Run<'a> {
    plan: &'a MatmulPlan,
    tiling: &'a Tiling,
    a: *const u8,
    b: *const u8,
    shared: *mut f32,
    workers: *mut f32,
    epilogue: &'a dyn Epilogue,
}

// SAFETY: the operands are only read; every worker writes its own part of the scratch memory and, while
// packing, every task its own panels.
unsafe impl Sync for Run<'_> {}

/// The part of the product that shares one packed B.
#[derive(Clone, Copy)]
struct Group {
    first_batch: usize,
    batches: usize,
    first_col: usize,
    cols: usize,
}

unsafe fn run(
    plan: &MatmulPlan,
    tiling: &Tiling,
    a: *const u8,
    b: *const u8,
    scratch: *mut f32,
    epilogue: &dyn Epilogue,
) {
    let batch = plan.shape.batch_len();
    // SAFETY: the scratch memory begins with the shared floats.
    let workers = unsafe { scratch.add(plan.shared_floats()) };
    let run = Run { plan, tiling, a, b, shared: scratch, workers, epilogue };
    let (batches, cols) = match tiling.b {
        // One B for the whole batch is packed once for it.
        SourceB::Shared { cols, .. } if run.b_is_broadcast() => (batch, cols),
        SourceB::Shared { batches, cols } => (batches, cols),
        _ => (batch, plan.shape.cols),
    };
    for first_batch in (0..batch).step_by(batches) {
        for first_col in (0..plan.shape.cols).step_by(cols) {
            let group = Group {
                first_batch,
                batches: batches.min(batch - first_batch),
                first_col,
                cols: cols.min(plan.shape.cols - first_col),
            };
            if matches!(tiling.b, SourceB::Shared { .. }) {
                run.pack_shared(group);
            }
            run.multiply(group);
        }
    }
}

/// Floats of B that one task packs, at least, if all threads have tasks.
const PACK_FLOATS: usize = 1 << 14;

/// Rows or columns of B that one task packs are a multiple of this, which every panel width divides.
const PACK_UNIT: usize = 32;

impl Run<'_> {
    fn b_is_broadcast(&self) -> bool {
        self.plan.shape.b.batch_strides.iter().all(|stride| *stride == 0)
    }

    fn pack_shared(&self, group: Group) {
        let (plan, depth) = (self.plan, self.plan.depth_block());
        let blocks = plan.shape.inner.div_ceil(depth);
        let matrices = if self.b_is_broadcast() { 1 } else { group.batches };
        let (share, length, worthwhile) = match &plan.columns {
            // Rows that are contiguous are packed as a whole: memory is read in order.
            Columns::Matrix if plan.shape.b.col_stride == 1 => (Share::Rows, depth, PACK_FLOATS / group.cols),
            // Long runs of the images.
            Columns::Windows(_) => (Share::Columns, group.cols, 256),
            Columns::Matrix | Columns::Blocks(_) => (Share::Columns, group.cols, PACK_FLOATS / depth),
        };
        let fair = length * matrices * blocks / (8 * plan.threads);
        let most = worthwhile.min(fair).max(1).next_multiple_of(PACK_UNIT);
        let parts = length.div_ceil(most);
        pool().run_on(plan.threads, matrices * blocks * parts, &|task, _| {
            let (task, part) = (task / parts, task % parts);
            let (matrix, block) = (task / blocks, task % blocks);
            let op = PackShared { run: self, group, matrix, block, share, first: part * most, most };
            dispatch_on(plan.isa, op);
        });
    }

    fn multiply(&self, group: Group) {
        let tiling = self.tiling;
        let row_tiles = self.plan.shape.rows.div_ceil(tiling.rows);
        let col_tiles = group.cols.div_ceil(tiling.cols);
        let tiles = group.batches * row_tiles * col_tiles;
        let tasks = tiles.div_ceil(tiling.tiles_per_task);
        pool().run_on(self.plan.threads, tasks, &|task, worker| {
            let first = task * tiling.tiles_per_task;
            let last = (first + tiling.tiles_per_task).min(tiles);
            dispatch_on(self.plan.isa, Tiles { run: self, group, first, last, worker });
        });
    }

    /// The strip after this one that the same thread is likely to get, where its columns follow one another in memory.
    fn next_strip<S: Simd>(&self, b: *const u8, col: usize, cols: usize) -> Option<Ahead> {
        let (shape, tile) = (&self.plan.shape, self.tiling.rows);
        let column = match &self.plan.columns {
            Columns::Matrix if shape.b.row_stride == 1 && shape.b.col_stride == shape.inner as isize => {
                shape.inner * shape.b.element.bytes()
            }
            Columns::Blocks(encoding) => encoding.byte_length(&[shape.inner])?,
            _ => return None,
        };
        let next = col + self.plan.threads * cols;
        let count = cols.min(shape.cols.checked_sub(next)?);
        let heights = (0..shape.rows).step_by(tile).map(|row| tile.min(shape.rows - row));
        let steps: usize = heights.map(|rows| tiles::<S>(rows, cols) * shape.inner).sum();
        Some(Ahead::of(b.wrapping_add(next * column), count * column, steps))
    }

    /// The block of A at (row, k) of the batch entry at `a`, for a product of so many pairs of steps of K; none where
    /// its elements are contiguous in neither direction.
    #[inline(always)]
    fn next_a(&self, a: *const u8, row: usize, k: usize, pairs: usize) -> Option<Ahead> {
        let shape = &self.plan.shape;
        let (layout, bytes) = (&shape.a, shape.a.element.bytes() as isize);
        let rows = self.tiling.rows.min(shape.rows - row);
        let depth = self.plan.depth_block().min(shape.inner - k);
        let (count, length, stride) = match (layout.row_stride, layout.col_stride) {
            (stride, 1) => (rows, depth, stride),
            (1, stride) => (depth, rows, stride),
            _ => return None,
        };
        let offset = row as isize * layout.row_stride + k as isize * layout.col_stride;
        let at = a.wrapping_offset(offset * bytes);
        Some(Ahead::rows(at, stride * bytes, count, length * bytes as usize, pairs))
    }

    /// Element (0, 0) of an operand's batch entry.
    ///
    /// # Safety
    /// The entry exists.
    unsafe fn entry(&self, data: *const u8, of_b: bool, batch: usize) -> *const u8 {
        let shape = &self.plan.shape;
        let layout = if of_b { &shape.b } else { &shape.a };
        let offset = batch_offset(&shape.batch, &layout.batch_strides, batch);
        // SAFETY: the caller's promise.
        unsafe { data.offset(offset * layout.element.bytes() as isize) }
    }
}

/// What a task has of a block of B that all threads pack.
#[derive(Clone, Copy)]
enum Share {
    Rows,
    Columns,
}

/// Packs a share of one depth block of one matrix of the group: up to `most` rows or columns from the `first` on.
struct PackShared<'a> {
    run: &'a Run<'a>,
    group: Group,
    matrix: usize,
    block: usize,
    share: Share,
    /// Counted in the block or in the group.
    first: usize,
    most: usize,
}

impl SimdOp for PackShared<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let PackShared { run, group, matrix, block, share, first, most } = self;
        let (plan, b) = (run.plan, &run.plan.shape.b);
        let (inner, depth) = (plan.shape.inner, plan.depth_block());
        let k = block * depth;
        let depth = depth.min(inner - k);
        // SAFETY: block, rows, columns and batch entry exist; what is written is this task's alone, because
        // whole rows are and columns come in whole panels.
        unsafe {
            let target = run
                .shared
                .add(matrix * packed_b_floats(S::ISA, inner, group.cols))
                .add(packed_b_floats(S::ISA, k, group.cols));
            let data = run.entry(run.b, true, group.first_batch + matrix);
            match share {
                Share::Rows => with_element!(b.element, T => {
                    // The last block is less deep.
                    let rows = first.min(depth)..(first + most).min(depth);
                    let b = Matrix::<T> { data: data.cast(), row_stride: b.row_stride, col_stride: 1 };
                    pack_rows_of_b::<S, T>(b.from(k, group.first_col), rows, depth, group.cols, target);
                }),
                Share::Columns => {
                    let (cols, target) = (most.min(group.cols - first), target.add(first * depth));
                    pack_columns::<S>(run, data, k, depth, group.first_col + first, cols, target);
                }
            }
        }
    }
}

/// Consecutive tiles of a group: rows fastest, then columns, then batch.
struct Tiles<'a> {
    run: &'a Run<'a>,
    group: Group,
    first: usize,
    last: usize,
    worker: usize,
}

impl SimdOp for Tiles<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Tiles { run, group, first, last, worker } = self;
        let (plan, tiling, shape) = (run.plan, run.tiling, &run.plan.shape);
        let row_tiles = shape.rows.div_ceil(tiling.rows);
        let col_tiles = group.cols.div_ceil(tiling.cols);

        // SAFETY: the worker's part of the scratch memory is laid out as the plan counted it.
        let (packed_a, sums, own_b) = unsafe {
            let own = run.workers.add(worker * plan.worker_floats());
            let sums = own.add(plan.packed_a_floats(tiling));
            (own, sums, sums.add(plan.sums_floats(tiling)))
        };
        let mut packed_for = None;
        for tile in first..last {
            let (column_of_tiles, row_tile) = (tile / row_tiles, tile % row_tiles);
            let batch = group.first_batch + column_of_tiles / col_tiles;
            let (row, col) = (row_tile * tiling.rows, column_of_tiles % col_tiles * tiling.cols);
            let rows = tiling.rows.min(shape.rows - row);
            let cols = tiling.cols.min(group.cols - col);
            let out_col = group.first_col + col;
            if tiling.b == SourceB::PerBlock {
                if row_tile == 0 {
                    // SAFETY: as below; a task has whole strips.
                    unsafe { strip::<S>(run, batch, out_col, cols, packed_a, sums, own_b, worker) };
                }
                continue;
            }

            // SAFETY: all blocks addressed below exist in their operands or buffers.
            unsafe {
                if tiling.b == SourceB::PerTask && packed_for != Some(column_of_tiles) {
                    pack_own_b::<S>(run, batch, out_col, cols, own_b);
                    packed_for = Some(column_of_tiles);
                }
                let (c, c_row) = run.epilogue.target(batch, row, out_col).unwrap_or((sums, cols));
                let a = run.entry(run.a, false, batch);
                let mut onto = Onto::Zero;
                for (k, depth) in plan.depth_blocks() {
                    let panels = pack_own_a::<S>(run, a, row, rows, k, depth, packed_a);
                    let pairs = tiles::<S>(rows, cols) * (depth / 2);
                    // What is packed next: of this tile, or of the one that this thread is likely to get.
                    let mut ahead = if k + depth < shape.inner {
                        run.next_a(a, row, k + depth, pairs)
                    } else {
                        let next = if tile + 1 < last { tile + 1 } else { tile + plan.threads };
                        let row = next % row_tiles * tiling.rows;
                        run.next_a(a, row, 0, pairs)
                    }
                    .unwrap_or(Ahead::nothing(packed_a));
                    for part in parts_of_b::<S>(run, group, batch, col, cols, k, depth, own_b) {
                        let (c, cols, b) = (c.add(part.col), part.cols, part.b);
                        block_product::<S>(
                            rows, cols, depth, packed_a, panels, b, c, c_row, onto, &mut ahead,
                        );
                    }
                    onto = Onto::Sum;
                }
                if shape.inner == 0 {
                    for i in 0..rows {
                        c.add(i * c_row).write_bytes(0, cols);
                    }
                }
                run.epilogue.tile(batch, row, out_col, rows, cols, c, c_row, worker);
            }
        }
    }
}

/// All rows of columns `col..col + cols`: each block of K is packed and multiplied by all of them before the next.
#[inline(always)]
unsafe fn strip<S: Simd>(
    run: &Run<'_>,
    batch: usize,
    col: usize,
    cols: usize,
    packed_a: *mut f32,
    sums: *mut f32,
    own_b: *mut f32,
    worker: usize,
) {
    let (plan, rows, tile) = (run.plan, run.plan.shape.rows, run.tiling.rows);
    // SAFETY: the caller's promise; there is a row of sums for each row of the product.
    unsafe {
        let place =
            |row: usize| run.epilogue.target(batch, row, col).unwrap_or_else(|| (sums.add(row * cols), cols));
        let (a, b) = (run.entry(run.a, false, batch), run.entry(run.b, true, batch));
        let mut onto = Onto::Zero;
        let mut ahead = run.next_strip::<S>(b, col, cols).unwrap_or(Ahead::nothing(packed_a));
        for (k, depth) in plan.depth_blocks() {
            pack_columns::<S>(run, b, k, depth, col, cols, own_b);
            let block = BlockB::packed::<S>(own_b, depth, Distance::Near);
            for row in (0..rows).step_by(tile) {
                let (height, (c, c_row)) = (tile.min(rows - row), place(row));
                let panels = pack_own_a::<S>(run, a, row, height, k, depth, packed_a);
                block_product::<S>(height, cols, depth, packed_a, panels, block, c, c_row, onto, &mut ahead);
            }
            onto = Onto::Sum;
        }
        for row in (0..rows).step_by(tile) {
            let (height, (c, c_row)) = (tile.min(rows - row), place(row));
            if plan.shape.inner == 0 {
                for i in 0..height {
                    c.add(i * c_row).write_bytes(0, cols);
                }
            }
            run.epilogue.tile(batch, row, col, height, cols, c, c_row, worker);
        }
    }
}

#[inline(always)]
unsafe fn pack_own_a<S: Simd>(
    run: &Run<'_>,
    data: *const u8,
    row: usize,
    rows: usize,
    k: usize,
    depth: usize,
    target: *mut f32,
) -> Panels {
    let a = &run.plan.shape.a;
    with_element!(a.element, T => {
        let a = Matrix::<T> { data: data.cast(), row_stride: a.row_stride, col_stride: a.col_stride };
        // SAFETY: the caller's promise.
        unsafe { pack_a::<S, T>(a.from(row, k), rows, depth, target) }
    })
}

/// Packs all of K for one column of tiles, in the layout of a shared pack of `cols` columns.
#[inline(always)]
unsafe fn pack_own_b<S: Simd>(run: &Run<'_>, batch: usize, col: usize, cols: usize, target: *mut f32) {
    for (k, depth) in run.plan.depth_blocks() {
        // SAFETY: the caller's promise.
        unsafe {
            let data = run.entry(run.b, true, batch);
            let target = target.add(packed_b_floats(S::ISA, k, cols));
            pack_columns::<S>(run, data, k, depth, col, cols, target);
        }
    }
}

/// Packs rows `k..k + depth` of columns `col..col + cols` of B, of which `data` is element (0, 0).
#[inline(always)]
unsafe fn pack_columns<S: Simd>(
    run: &Run<'_>,
    data: *const u8,
    k: usize,
    depth: usize,
    col: usize,
    cols: usize,
    target: *mut f32,
) {
    let (b, inner) = (&run.plan.shape.b, run.plan.shape.inner);
    match &run.plan.columns {
        // SAFETY: the caller's promise.
        Columns::Windows(windows) => with_element!(b.element, T => unsafe {
            windows.pack::<S, T>(data.cast::<T>(), k, depth, col, cols, target);
        }),
        // Dispatched anew, so that there is one copy of this code and not one for each of the callers.
        Columns::Blocks(encoding) => {
            let (encoding, blocks) = (*encoding, data);
            dispatch_on(S::ISA, PackPanels { encoding, blocks, inner, k, depth, first: col, cols, target });
        }
        // SAFETY: the caller's promise.
        Columns::Matrix => with_element!(b.element, T => unsafe {
            let b = Matrix::<T> { data: data.cast(), row_stride: b.row_stride, col_stride: b.col_stride };
            pack_b::<S, T>(b.from(k, col), depth, cols, target);
        }),
    }
}

/// Columns of a tile and the block of B that belongs to them.
#[derive(Clone, Copy)]
struct Part {
    col: usize,
    cols: usize,
    b: BlockB,
}

/// The block of B for one tile and depth block: one part, or two where it is read in place and its last
/// panel is partial.
#[inline(always)]
unsafe fn parts_of_b<S: Simd>(
    run: &Run<'_>,
    group: Group,
    batch: usize,
    col: usize,
    cols: usize,
    k: usize,
    depth: usize,
    own_b: *mut f32,
) -> impl Iterator<Item = Part> {
    let shape = &run.plan.shape;
    let packed = |data: *const f32, of_cols: usize, col: usize, distance: Distance| {
        // SAFETY: block (k, col) lies there in a pack of `of_cols` columns.
        let data = unsafe { data.add(packed_b_floats(S::ISA, k, of_cols) + col * depth) };
        let whole = Part { col: 0, cols, b: BlockB::packed::<S>(data, depth, distance) };
        [whole, Part { cols: 0, ..whole }]
    };
    let parts = match run.tiling.b {
        // Of strips see `strip`.
        SourceB::PerTask | SourceB::PerBlock => packed(own_b, cols, 0, Distance::Near),
        SourceB::Prepacked => packed(run.b.cast(), shape.cols, col, Distance::Far),
        SourceB::Shared { .. } => {
            let matrix = if run.b_is_broadcast() { 0 } else { batch - group.first_batch };
            // SAFETY: that matrix of the group was packed.
            let data = unsafe { run.shared.add(matrix * packed_b_floats(S::ISA, shape.inner, group.cols)) };
            packed(data, group.cols, col, Distance::Far)
        }
        SourceB::InPlace => {
            let whole = cols - cols % tile_cols::<S>();
            let distance = if is_small_in_place(shape) { Distance::Near } else { Distance::Far };
            // SAFETY: in place means f32 with unit column stride; block (k, col) exists.
            unsafe {
                let data = run.entry(run.b, true, batch).cast::<f32>();
                let b = Matrix { data, row_stride: shape.b.row_stride, col_stride: 1 };
                let b = b.from(k, group.first_col + col);
                if whole < cols {
                    pack_b::<S, f32>(b.from(0, whole), depth, cols - whole, own_b);
                }
                [
                    Part { col: 0, cols: whole, b: BlockB::in_place::<S>(b.data, b.row_stride, distance) },
                    Part {
                        col: whole,
                        cols: cols - whole,
                        b: BlockB::packed::<S>(own_b, depth, Distance::Near),
                    },
                ]
            }
        }
    };
    parts.into_iter().filter(|part| part.cols > 0)
}

const _: () = assert!(Element::F32.bytes() == size_of::<f32>());
