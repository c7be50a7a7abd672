//! How a product of a given shape is run: method, blocking and scratch memory, from the shape alone.

use lanthorn_blocks::Encoding;
use smallvec::SmallVec;

use super::element::Element;
use super::kernel::{depth_of, packed_a_floats, packed_b_floats, tile_cols_of, tile_rows_of};
use super::windows::Windows;
use crate::pool::pool;
use crate::simd::{Isa, isa};

/// Where the elements of an operand are. Strides count elements; they may be zero or negative.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperandLayout {
    /// Type of the elements.
    pub element: Element,
    /// From one row to the next.
    pub row_stride: isize,
    /// From one column to the next.
    pub col_stride: isize,
    /// From one entry to the next, per batch axis; zero where the operand is broadcast.
    pub batch_strides: SmallVec<[isize; 4]>,
}

impl OperandLayout {
    /// A matrix without batch axes.
    pub fn matrix(element: Element, row_stride: isize, col_stride: isize) -> OperandLayout {
        OperandLayout { element, row_stride, col_stride, batch_strides: SmallVec::new() }
    }
}

/// `C[batch.., rows, cols] = A[batch.., rows, inner] · B[batch.., inner, cols]`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatmulShape {
    /// Sizes of the batch axes; none for a single product.
    pub batch: SmallVec<[usize; 4]>,
    /// M
    pub rows: usize,
    /// N
    pub cols: usize,
    /// K
    pub inner: usize,
    /// A
    pub a: OperandLayout,
    /// B
    pub b: OperandLayout,
}

impl MatmulShape {
    /// Products in the batch.
    pub fn batch_len(&self) -> usize {
        self.batch.iter().product()
    }

    /// True if the products have no element.
    fn is_empty(&self) -> bool {
        self.batch_len() * self.rows * self.cols == 0
    }
}

/// A product, ready to run any number of times.
#[derive(Clone, Debug)]
pub struct MatmulPlan {
    pub(super) shape: MatmulShape,
    pub(super) isa: Isa,
    pub(super) threads: usize,
    pub(super) method: Method,
    pub(super) columns: Columns,
}

/// What the columns of B are.
#[derive(Clone, Debug)]
pub(super) enum Columns {
    /// Those of a matrix in memory.
    Matrix,
    /// Windows of images.
    Windows(Box<Windows>),
    /// Rows of a weight whose elements are packed in blocks.
    Blocks(Encoding),
}

#[derive(Clone, Debug)]
pub(super) enum Method {
    /// No element in the result.
    Nothing,
    Tiled(Tiling),
    Skinny(Skinny),
}

#[derive(Clone, Debug)]
pub(super) struct Tiling {
    /// Rows and columns of a tile, the unit of work and of the epilogue.
    pub rows: usize,
    pub cols: usize,
    /// Consecutive tiles (rows fastest, then columns, then batch) that make up one task.
    pub tiles_per_task: usize,
    pub b: SourceB,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceB {
    /// Read where it is.
    InPlace,
    /// Packed by the task that needs it, all of K.
    PerTask,
    /// Packed by the task that needs it, which has all rows of a strip of columns: a block of K, multiplied by all rows
    /// before the next.
    PerBlock,
    /// Packed by all threads before the product, for `cols` columns of `batches` entries at a time.
    Shared { batches: usize, cols: usize },
    /// Packed by the caller.
    Prepacked,
}

#[derive(Clone, Debug)]
pub(super) struct Skinny {
    /// One column instead of few rows: computed as Bᵀ·Aᵀ.
    pub swapped: bool,
    /// Columns per task.
    pub chunk: usize,
    /// Parts of K that are computed apart and then added up.
    pub slabs: usize,
}

impl Skinny {
    /// Rows and columns of the product as it is computed.
    pub(super) fn sizes(&self, shape: &MatmulShape) -> (usize, usize) {
        if self.swapped { (shape.cols, shape.rows) } else { (shape.rows, shape.cols) }
    }
}

/// Multiply-adds below which the calling thread works alone: about the cost of waking another.
const SERIAL_WORK: usize = 1 << 16;
/// Floats that a shared packed B may take: a last-level cache's worth.
const SHARED_FLOATS: usize = 4 << 20;
/// Floats that a task may pack of B for itself: half an L2.
const PER_TASK_FLOATS: usize = 1 << 17;
/// Rows up to which streaming B beats packing it.
const SKINNY_ROWS: usize = 8;
/// Floats of B that a task of a product with few rows reads, at least, if there are then tasks for four threads.
const TASK_FLOATS: usize = 1 << 14;
/// A B this small (in floats, gaps included) is as good in place as packed.
const IN_PLACE_FLOATS: usize = 1 << 14;
/// The same where its rows are no further apart than [`NEAR_ROWS`]: an eighth of an L2.
const NEAR_IN_PLACE_FLOATS: usize = 1 << 16;
/// Floats from row to row: few rows are in one page, or in one set of the L1, beyond.
const NEAR_ROWS: usize = 512;

impl MatmulPlan {
    /// Plans for the detected instruction set and the threads of the pool.
    pub fn new(shape: MatmulShape) -> MatmulPlan {
        MatmulPlan::with(shape, isa(), pool().threads())
    }

    /// Plans for a named instruction set (supported by this machine) and number of threads.
    pub fn with(shape: MatmulShape, isa: Isa, threads: usize) -> MatmulPlan {
        let method = choose_method(&shape, isa, threads);
        MatmulPlan::finish(shape, isa, threads, method)
    }

    /// Plans for a B that is packed beforehand ([`PackedB`](super::PackedB)); the layout of B in
    /// `shape` is not looked at.
    pub fn prepacked(shape: MatmulShape) -> MatmulPlan {
        let isa = isa();
        let method =
            Method::tiled(&shape, || tiling(&shape, isa, pool().threads(), |_, _| SourceB::Prepacked));
        MatmulPlan::finish(shape, isa, pool().threads(), method)
    }

    /// Plans for a B whose columns are windows; of its layout in `shape` only the batch strides count.
    pub fn of_windows(shape: MatmulShape, windows: Windows) -> MatmulPlan {
        let (isa, threads) = (isa(), pool().threads());
        let method = Method::tiled(&shape, || packing_tiling(&shape, isa, threads));
        let plan = MatmulPlan::finish(shape, isa, threads, method);
        MatmulPlan { columns: Columns::Windows(Box::new(windows)), ..plan }
    }

    /// Plans for a B whose columns are the rows of a weight that is packed in blocks: `b` of a run is the first block. The
    /// layout of B in `shape` is that of the unpacked weight.
    pub(crate) fn of_blocks(shape: MatmulShape, encoding: Encoding, isa: Isa, threads: usize) -> MatmulPlan {
        let method = Method::tiled(&shape, || packing_tiling(&shape, isa, threads));
        let plan = MatmulPlan::finish(shape, isa, threads, method);
        MatmulPlan { columns: Columns::Blocks(encoding), ..plan }
    }

    fn finish(shape: MatmulShape, isa: Isa, threads: usize, method: Method) -> MatmulPlan {
        let work = shape.batch_len() * shape.rows * shape.cols * shape.inner.max(1);
        let threads = if work < SERIAL_WORK { 1 } else { threads.max(1) };
        MatmulPlan { shape, isa, threads, method, columns: Columns::Matrix }
    }

    /// The most threads that take part; worker numbers are below it.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The depth of all blocks of K but the last: whole blocks of a packed weight.
    #[inline(always)]
    pub(super) fn depth_block(&self) -> usize {
        match self.columns {
            Columns::Blocks(encoding) => depth_block(self.isa, self.shape.inner, encoding.block_elements()),
            _ => depth_block(self.isa, self.shape.inner, 8),
        }
    }

    /// How K is divided into blocks. Yields offset and depth.
    #[inline(always)]
    pub(super) fn depth_blocks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        blocks_of(self.shape.inner, self.depth_block())
    }

    /// The shape that this plan is for.
    pub fn shape(&self) -> &MatmulShape {
        &self.shape
    }

    /// Exactly how many bytes of scratch memory a run needs.
    pub fn scratch_bytes(&self) -> usize {
        (self.shared_floats() + self.threads * self.worker_floats()) * size_of::<f32>()
    }

    /// Floats at the start of scratch memory for the shared packed B.
    pub(super) fn shared_floats(&self) -> usize {
        match &self.method {
            Method::Tiled(Tiling { b: SourceB::Shared { batches, cols }, .. }) => {
                batches * packed_b_floats(self.isa, self.shape.inner, *cols)
            }
            Method::Skinny(skinny) if skinny.slabs > 1 => {
                let (rows, cols) = skinny.sizes(&self.shape);
                let cols = cols.next_multiple_of(skinny.chunk);
                (self.shape.batch_len() * skinny.slabs * rows * cols).next_multiple_of(16)
            }
            _ => 0,
        }
    }

    /// Floats that each worker has for itself, after the shared ones.
    pub(super) fn worker_floats(&self) -> usize {
        match &self.method {
            Method::Nothing => 0,
            Method::Tiled(tiling) => {
                self.packed_a_floats(tiling) + self.sums_floats(tiling) + self.own_b_floats(tiling)
            }
            Method::Skinny(skinny) => {
                let (rows, _) = skinny.sizes(&self.shape);
                (rows * (slab_depth(self.shape.inner, skinny.slabs) + skinny.chunk)).next_multiple_of(16)
            }
        }
    }

    pub(super) fn packed_a_floats(&self, tiling: &Tiling) -> usize {
        packed_a_floats(self.isa, tiling.rows)
    }

    pub(super) fn sums_floats(&self, tiling: &Tiling) -> usize {
        let rows = if tiling.b == SourceB::PerBlock { self.shape.rows } else { tiling.rows };
        (rows * tiling.cols).next_multiple_of(16)
    }

    fn own_b_floats(&self, tiling: &Tiling) -> usize {
        match tiling.b {
            SourceB::PerTask => packed_b_floats(self.isa, self.shape.inner, tiling.cols),
            SourceB::PerBlock => {
                packed_b_floats(self.isa, self.depth_block().min(self.shape.inner), tiling.cols)
            }
            // The last, partial panel is packed, because the kernel reads whole panels.
            SourceB::InPlace => packed_b_floats(self.isa, self.shape.inner.min(depth_of(self.isa)), 1),
            SourceB::Shared { .. } | SourceB::Prepacked => 0,
        }
    }
}

impl Method {
    /// By tiles, if there is an element to compute.
    fn tiled(shape: &MatmulShape, tiling: impl FnOnce() -> Tiling) -> Method {
        if shape.is_empty() { Method::Nothing } else { Method::Tiled(tiling()) }
    }
}

fn choose_method(shape: &MatmulShape, isa: Isa, threads: usize) -> Method {
    if shape.is_empty() {
        return Method::Nothing;
    }
    let (a, b) = (&shape.a, &shape.b);
    let batch = shape.batch_len();
    if shape.inner > 0 && shape.rows <= SKINNY_ROWS && (b.row_stride == 1 || b.col_stride == 1) {
        return skinny(false, b.col_stride == 1, batch, shape.rows, shape.cols, shape.inner);
    }
    if shape.inner > 0 && shape.cols == 1 && (a.row_stride == 1 || a.col_stride == 1) {
        return skinny(true, a.row_stride == 1, batch, 1, shape.rows, shape.inner);
    }
    if !reads_in_place(shape, isa)
        && let Some(strips) = strips(shape, isa, threads)
    {
        return Method::Tiled(strips);
    }
    Method::Tiled(tiling(shape, isa, threads, |rows, cols| source_of_b(shape, isa, rows, cols)))
}

/// Tasks enough for balance, each reading memory in long runs: where the columns of B are contiguous
/// any split of them does; where its rows are, few wide chunks of columns, and K in slabs instead.
fn skinny(
    swapped: bool,
    contiguous_rows: bool,
    batch: usize,
    rows: usize,
    cols: usize,
    inner: usize,
) -> Method {
    if !contiguous_rows {
        // Handing out a task costs as much as reading some kilobytes.
        let worthwhile = (TASK_FLOATS / inner).min(cols / 4);
        let chunk = cols.div_ceil(32).max(worthwhile).next_multiple_of(16).min(cols);
        return Method::Skinny(Skinny { swapped, chunk, slabs: 1 });
    }
    // The sums of a chunk stay in L1.
    let most = 8192 / rows;
    let chunk = cols.div_ceil(cols.div_ceil(most)).next_multiple_of(64).min(cols);
    let tasks = batch * cols.div_ceil(chunk);
    let slabs = (16 / tasks.min(16)).min(inner / 128).max(1);
    // No empty slab.
    let slabs = inner.div_ceil(slab_depth(inner, slabs));
    Method::Skinny(Skinny { swapped, chunk, slabs })
}

/// The depth of all slabs but the last.
pub(super) fn slab_depth(inner: usize, slabs: usize) -> usize {
    inner.div_ceil(slabs).next_multiple_of(4)
}

/// Tiles of all columns, so that each row of A is packed once, as long as the threads get enough of them; then of fewer
/// rows, and only then of fewer columns. The packed rows of A and the sums fit into an L2 beside a few panels of B.
fn tiling(shape: &MatmulShape, isa: Isa, threads: usize, source: impl Fn(usize, usize) -> SourceB) -> Tiling {
    let (unit_rows, unit_cols) = (tile_rows_of(isa), tile_cols_of(isa));
    let (batch, threads) = (shape.batch_len(), threads.max(1));
    let mut row_tiles = shape.rows.div_ceil(MOST_ROWS);
    let mut col_tiles = shape.cols.div_ceil(MOST_COLS);
    // The more tiles there are for each thread, the less is waited for at the end; the fewer panels of rows a tile has,
    // the more often B is read.
    for (tiles_each, panels) in [(16, 8), (8, 4), (4, 2)] {
        let least = panels * unit_rows.max(12);
        while batch * row_tiles * col_tiles < tiles_each * threads && shape.rows / (row_tiles + 1) >= least {
            row_tiles += 1;
        }
    }
    while batch * row_tiles * col_tiles < 4 * threads && shape.cols / col_tiles >= 4 * unit_cols {
        col_tiles += 1;
    }
    // As many for one thread as for another, where there are few.
    let is_uneven = |row_tiles: usize| {
        let tiles = batch * row_tiles * col_tiles;
        tiles > threads && tiles < 16 * threads && !tiles.is_multiple_of(threads)
    };
    while is_uneven(row_tiles) && shape.rows / (row_tiles + 1) >= 2 * unit_rows {
        row_tiles += 1;
    }
    let rows = shape.rows.div_ceil(row_tiles);
    let cols = shape.cols.div_ceil(col_tiles).next_multiple_of(unit_cols).min(shape.cols);
    let b = source(rows, cols);

    // One column of tiles shares what a task packs; beyond that, small products travel together.
    let row_tiles = shape.rows.div_ceil(rows);
    let work = rows * cols * shape.inner.max(1);
    let mut tiles_per_task = (SERIAL_WORK / work).clamp(1, 64);
    if b == SourceB::PerTask {
        tiles_per_task = tiles_per_task.next_multiple_of(row_tiles);
    }
    Tiling { rows, cols, tiles_per_task, b }
}

/// The most rows and columns of a tile: the packed rows of A and the sums, where they are kept apart, fit into the L2.
const MOST_ROWS: usize = 168;
const MOST_COLS: usize = 1024;

/// The most rows of A that a strip packs at once.
fn most_rows(isa: Isa) -> usize {
    let unit = tile_rows_of(isa);
    224 / unit * unit
}

/// Columns of a strip, at least.
const STRIP_COLS: usize = 64;

/// Tiles of rows for each of which a strip packs its rows of A anew, where a task cannot pack all of K.
const STRIP_TILES: usize = 3;

/// A strip of columns for each task, of which it packs a block of K and multiplies it by all rows before the next, so that
/// no packed value leaves the cache before it is used. None where there are too few columns to share out.
fn strips(shape: &MatmulShape, isa: Isa, threads: usize) -> Option<Tiling> {
    let batch = shape.batch_len();
    let unit = tile_cols_of(isa);
    let tiles = if 3 * unit * shape.inner > PER_TASK_FLOATS { STRIP_TILES } else { 1 };
    if shape.rows > tiles * most_rows(isa) || batch * shape.cols < 2 * STRIP_COLS * threads {
        return None;
    }
    let most = PER_TASK_FLOATS / shape.inner.clamp(1, depth_of(isa)) / unit * unit;
    let widest = most.min(shape.cols.next_multiple_of(unit));
    // What the busiest thread does, in columns: its strips, the packing of A for each, and half a strip, since not all
    // threads are equally fast.
    let cost = |cols: usize| {
        let strips = (batch * shape.cols.div_ceil(cols)).div_ceil(threads);
        2 * strips * (cols + 4) + cols
    };
    let cols = (STRIP_COLS.min(widest)..=widest).step_by(unit).min_by_key(|cols| cost(*cols))?;
    let rows = shape.rows.div_ceil(shape.rows.div_ceil(most_rows(isa))).next_multiple_of(tile_rows_of(isa));
    let (rows, cols) = (rows.min(shape.rows), cols.min(shape.cols));
    Some(Tiling { rows, cols, tiles_per_task: shape.rows.div_ceil(rows), b: SourceB::PerBlock })
}

/// As [`tiling`] for a B that is always packed: with tiles narrow enough that a task can pack all of their columns for
/// itself, unless A would be packed too often for it.
fn packing_tiling(shape: &MatmulShape, isa: Isa, threads: usize) -> Tiling {
    if let Some(strips) = strips(shape, isa, threads) {
        return strips;
    }
    let unit = tile_cols_of(isa);
    let most = PER_TASK_FLOATS / shape.inner.max(1) / unit * unit;
    if most < 3 * unit {
        let source = |_, cols| SourceB::Shared { batches: 1, cols: shared_cols(shape, cols) };
        return tiling(shape, isa, threads, source);
    }
    let narrow = MatmulShape { cols: shape.cols.min(most), ..shape.clone() };
    tiling(&narrow, isa, threads, |_, _| SourceB::PerTask)
}

/// Whether packing B would cost more than reading it with gaps.
fn reads_in_place(shape: &MatmulShape, isa: Isa) -> bool {
    let b = &shape.b;
    let worthless = shape.rows <= 3 * tile_rows_of(isa) || is_small_in_place(shape);
    b.element == Element::F32 && b.col_stride == 1 && worthless
}

/// Whether all of B, as it lies in memory, is small beside an L2.
pub(super) fn is_small_in_place(shape: &MatmulShape) -> bool {
    let apart = shape.b.row_stride.unsigned_abs().max(shape.cols);
    let most = if apart <= NEAR_ROWS { NEAR_IN_PLACE_FLOATS } else { IN_PLACE_FLOATS };
    shape.inner.saturating_mul(apart) <= most
}

fn source_of_b(shape: &MatmulShape, isa: Isa, tile_rows: usize, tile_cols: usize) -> SourceB {
    let b = &shape.b;
    if reads_in_place(shape, isa) {
        return SourceB::InPlace;
    }
    let row_tiles = shape.rows.div_ceil(tile_rows);
    let columns_of_tiles = shape.batch_len() * shape.cols.div_ceil(tile_cols);
    let fits = packed_b_floats(isa, shape.inner, tile_cols) <= PER_TASK_FLOATS;
    if fits && (row_tiles == 1 || columns_of_tiles >= 16) {
        return SourceB::PerTask;
    }

    let whole = packed_b_floats(isa, shape.inner, shape.cols).max(1);
    if b.batch_strides.iter().all(|stride| *stride == 0) {
        // One B serves the whole batch.
        let cols = shared_cols(shape, tile_cols);
        return SourceB::Shared { batches: 1, cols };
    }
    if whole <= SHARED_FLOATS {
        let batches = (SHARED_FLOATS / whole).min(shape.batch_len());
        return SourceB::Shared { batches, cols: shape.cols };
    }
    SourceB::Shared { batches: 1, cols: shared_cols(shape, tile_cols) }
}

/// As many columns as the shared buffer takes, in whole tiles.
fn shared_cols(shape: &MatmulShape, tile_cols: usize) -> usize {
    let tiles = SHARED_FLOATS / (shape.inner.max(1) * tile_cols.max(1));
    (tiles.max(1) * tile_cols).min(shape.cols)
}

/// How K is divided into blocks: evenly, none deeper than [`depth_of`] says. Yields offset and depth.
#[inline(always)]
pub(super) fn depth_blocks(isa: Isa, inner: usize) -> impl Iterator<Item = (usize, usize)> {
    blocks_of(inner, depth_block(isa, inner, 8))
}

#[inline(always)]
fn blocks_of(inner: usize, depth: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..inner.div_ceil(depth)).map(move |i| (i * depth, depth.min(inner - i * depth)))
}

/// The depth of all blocks but the last, a multiple of `unit`.
#[inline(always)]
fn depth_block(isa: Isa, inner: usize, unit: usize) -> usize {
    let blocks = inner.div_ceil(depth_of(isa)).max(1);
    inner.div_ceil(blocks).next_multiple_of(unit).max(unit)
}

// Packed blocks of up to 256 elements divide it.
const _: () = assert!(depth_of(Isa::Avx512).is_multiple_of(256) && depth_of(Isa::Avx2).is_multiple_of(256));

/// The offset of batch entry `index`, in elements.
pub(super) fn batch_offset(batch: &[usize], strides: &[isize], mut index: usize) -> isize {
    let mut offset = 0;
    for (size, stride) in batch.iter().zip(strides).rev() {
        offset += (index % size) as isize * stride;
        index /= size;
    }
    offset
}
