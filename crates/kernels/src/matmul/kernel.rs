//! The register-blocked kernel and products of cache-resident blocks built on it.
//!
//! A block of A is packed in *row panels* of at most [`tile_rows`] rows, [`panel_floats`] apart. Inside a panel,
//! either each row is contiguous, [`panel_row`] apart ([`Panels::Rows`]: packing a row-major A is a copy), or each
//! column is, [`tile_rows`] apart ([`Panels::Columns`]: the same for a transposed A). The strides are
//! constants, so the kernel's loads need no address arithmetic. A block of B is read in panels of
//! [`tile_cols`] columns, packed (see [`pack`](super::pack)) or in place.
//!
//! Every element of the product is one chain of multiply-adds in the order of k, however it is blocked, so
//! blocking never changes results.

use crate::simd::{Isa, Simd, SimdOp};

/// The most columns of A (rows of B) in one packed block. Deep enough that reading and writing the sums once per
/// block costs little; a panel of B, which is read from the L2 as fast as the kernel needs it, is then 32 KiB for AVX2
/// and 128 KiB for AVX-512, whose machines have an L2 of 1 MiB or more.
pub const fn depth_of(isa: Isa) -> usize {
    match isa {
        Isa::Avx512 => 1024,
        Isa::Avx2 | Isa::Neon | Isa::Wasm128 | Isa::Scalar => 512,
    }
}

/// From one row of a panel to the next: not a power of two, so that the rows of a panel, and the same column of several
/// panels while they are packed, lie in different sets of the L1 cache.
pub const fn panel_row<S: Simd>() -> usize {
    panel_row_of(S::ISA)
}

const fn panel_row_of(isa: Isa) -> usize {
    depth_of(isa) + 16
}

/// How many rows of C the kernel keeps in registers.
pub const fn tile_rows<S: Simd>() -> usize {
    tile_rows_of(S::ISA)
}

/// [`tile_rows`] by value.
pub const fn tile_rows_of(isa: Isa) -> usize {
    match isa {
        Isa::Avx512 => 14,
        Isa::Avx2 => 6,
        Isa::Neon => 10,
        Isa::Wasm128 | Isa::Scalar => 4,
    }
}

/// How many columns of C the kernel keeps in registers, and so the width of a packed panel of B.
pub const fn tile_cols<S: Simd>() -> usize {
    tile_cols_of(S::ISA)
}

/// [`tile_cols`] by value.
pub const fn tile_cols_of(isa: Isa) -> usize {
    VECTORS * isa.lanes()
}

/// From one row panel of a packed A to the next.
pub const fn panel_floats<S: Simd>() -> usize {
    tile_rows::<S>() * panel_row::<S>()
}

/// How many f32 values a packed block of A with this many rows takes.
pub const fn packed_a_floats(isa: Isa, rows: usize) -> usize {
    rows.div_ceil(tile_rows_of(isa)) * tile_rows_of(isa) * panel_row_of(isa)
}

/// How many f32 values a packed block of B takes.
pub const fn packed_b_floats(isa: Isa, depth: usize, cols: usize) -> usize {
    cols.next_multiple_of(tile_cols_of(isa)) * depth
}

const VECTORS: usize = 2;

/// What is contiguous inside a row panel of packed A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panels {
    /// Rows, [`panel_row`] values apart.
    Rows,
    /// Columns, [`tile_rows`] values apart.
    Columns,
}

/// How far from the processor a block of B is, and so whether the kernel tells the L2 of the next panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// In the L2: this thread packed it just now, or it is small.
    Near,
    /// In another thread's cache, in the last level or in memory.
    Far,
}

/// A block of B in memory: panel `j` begins at `data + j · panel`, its rows are `row` apart.
#[derive(Clone, Copy)]
pub struct BlockB {
    /// The first value.
    pub data: *const f32,
    /// From one panel to the next.
    pub panel: usize,
    /// From one row of a panel to the next.
    pub row: isize,
    /// Where it is.
    pub distance: Distance,
}

impl BlockB {
    /// A packed block of the given depth.
    pub const fn packed<S: Simd>(data: *const f32, depth: usize, distance: Distance) -> BlockB {
        BlockB { data, panel: depth * tile_cols::<S>(), row: tile_cols::<S>() as isize, distance }
    }

    /// A row-major matrix read in place; only whole panels of it may be multiplied.
    pub const fn in_place<S: Simd>(data: *const f32, row_stride: isize, distance: Distance) -> BlockB {
        BlockB { data, panel: tile_cols::<S>(), row: row_stride, distance }
    }
}

/// Whether a product replaces what is in C or adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onto {
    /// C = A·B
    Zero,
    /// C = C + A·B
    Sum,
}

/// Memory that will be wanted later, of which the kernel tells the L2 while it multiplies, a few bytes in each step of K:
/// what is multiplied or packed next comes from memory meanwhile. All at once it would take the places in which the
/// L1 keeps what it waits for, and the kernel would wait with it.
#[derive(Clone, Copy)]
pub struct Ahead {
    at: *const u8,
    /// Bytes for each pair of steps of K of each tile.
    step: usize,
    /// Pairs of steps until the next row begins.
    pairs: usize,
    /// Rows that have not begun.
    rows: usize,
    row: Row,
}

/// A row of what is [`Ahead`].
#[derive(Clone, Copy)]
struct Row {
    start: *const u8,
    /// From one row to the next.
    stride: isize,
    /// As in [`Ahead`].
    step: usize,
    pairs: usize,
}

impl Ahead {
    /// Nothing: the same line, which is near anyway, again and again.
    pub const fn nothing(near: *const f32) -> Ahead {
        Ahead::line(near.cast(), 0)
    }

    /// `bytes` from `at` on, in the course of `steps` steps of K of tiles.
    pub const fn of(at: *const u8, bytes: usize, steps: usize) -> Ahead {
        let pairs = steps / 2;
        Ahead::line(at, bytes.div_ceil(if pairs > 0 { pairs } else { 1 }))
    }

    const fn line(at: *const u8, step: usize) -> Ahead {
        let row = Row { start: at, stride: 0, step, pairs: usize::MAX };
        Ahead { at, step, pairs: usize::MAX, rows: 0, row }
    }

    /// `rows` rows of `bytes` each, `stride` bytes apart, towards the end of `pairs` pairs of steps of K of tiles: what came
    /// earlier might have left the L2 again. As many rows as there are steps for.
    pub fn rows(at: *const u8, stride: isize, rows: usize, bytes: usize, pairs: usize) -> Ahead {
        let lines = rows * bytes.div_ceil(LINE_BYTES);
        // A line for every four steps at most, if there are so many.
        let window = (pairs / 4).max(2 * lines).min(pairs);
        let for_row = (window / rows.max(1)).max(1);
        let step = bytes.div_ceil(for_row).clamp(1, LINE_BYTES);
        let row = Row { start: at, stride, step, pairs: bytes.div_ceil(step).max(1) };
        Ahead { at, step: 0, pairs: pairs - window, rows, row }
    }

    /// How many of the next `pairs` pairs of steps come before a new row.
    #[inline(always)]
    fn until_row(&mut self, pairs: usize) -> usize {
        if self.pairs == 0 {
            self.next_row();
        }
        let run = pairs.min(self.pairs);
        self.pairs -= run;
        run
    }

    #[inline(always)]
    fn next_row(&mut self) {
        if self.rows == 0 {
            (self.step, self.pairs) = (0, usize::MAX);
            return;
        }
        self.rows -= 1;
        (self.at, self.step, self.pairs) = (self.row.start, self.row.step, self.row.pairs);
        self.row.start = self.row.start.wrapping_offset(self.row.stride);
    }
}

/// Tiles of the kernel in a product of blocks.
pub fn tiles<S: Simd>(rows: usize, cols: usize) -> usize {
    rows.div_ceil(tile_rows::<S>()) * cols.div_ceil(tile_cols::<S>())
}

/// How `rows` rows are divided into row panels: as evenly as possible, none above [`tile_rows`], so that
/// no panel is too small to fill the multipliers. Yields the first row and the row count.
#[inline(always)]
pub fn row_panels<S: Simd>(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = rows.div_ceil(tile_rows::<S>()).max(1);
    let (least, longer) = (rows / count, rows % count);
    (0..count).map(move |i| (i * least + i.min(longer), least + usize::from(i < longer)))
}

/// `C[rows, cols] = (C +) A[rows, depth] · B[depth, cols]` for blocks that caches hold.
///
/// C is row-major with rows `c_row` apart; nothing beyond its `cols` columns is touched.
///
/// # Safety
/// `a` was packed with the same `rows` and `depth` up to [`depth_of`] in the form `panels`; `b` has
/// `depth` rows and `cols` columns and, where `cols` is no multiple of [`tile_cols`], its last
/// panel is padded to full width; C is writable and, for [`Onto::Sum`], initialised.
#[inline(always)]
pub unsafe fn block_product<S: Simd>(
    rows: usize,
    cols: usize,
    depth: usize,
    a: *const f32,
    panels: Panels,
    b: BlockB,
    c: *mut f32,
    c_row: usize,
    onto: Onto,
    ahead: &mut Ahead,
) {
    debug_assert!(depth <= depth_of(S::ISA));
    let count = rows.div_ceil(tile_rows::<S>());
    let panel_bytes = depth * tile_cols::<S>() * size_of::<f32>();
    let mut col = 0;
    while col < cols {
        let width = (cols - col).min(tile_cols::<S>());
        let b_panel = b.data.wrapping_add(col / tile_cols::<S>() * b.panel);
        let has_next = col + tile_cols::<S>() < cols;
        for (i, (row, height)) in row_panels::<S>(rows).enumerate() {
            // While this tile is computed, bring the sums of the tile below into L1, and a share of
            // the next panel of B into L2.
            if onto == Onto::Sum || (c_row >= WIDE_C && depth >= DEEP) {
                prefetch_rows::<S>(c.wrapping_add((row + height) * c_row + col), c_row as isize, height);
            }
            let mut next = (a.cast(), 0);
            if has_next && b.distance == Distance::Far && b.row == tile_cols::<S>() as isize {
                let share = b_panel.wrapping_add(b.panel).cast::<u8>().wrapping_add(i * panel_bytes / count);
                next = (share, panel_bytes.div_ceil(count * depth.max(1)));
            } else if has_next && b.distance == Distance::Far {
                // Rows that do not follow one another, of a product that has not many tiles to spread them over.
                let (from, to) = (i * depth / count, (i + 1) * depth / count);
                let next = b_panel.wrapping_add(b.panel).wrapping_offset(from as isize * b.row);
                prefetch_rows_far::<S>(next, b.row, to - from);
            }
            // SAFETY: the caller's promise; `i` and `col` walk over existing panels.
            unsafe {
                let a = a.add(i * panel_floats::<S>());
                let c = c.add(row * c_row + col);
                let tile = Tile { depth, a, b: b_panel, b_row: b.row, c, c_row, width, onto, next };
                match panels {
                    Panels::Rows => by_height::<S, true>(height, tile, ahead),
                    Panels::Columns => by_height::<S, false>(height, tile, ahead),
                }
            }
        }
        col += width;
    }
}

/// Floats from one row of C to the next from which on its lines are brought even if they are only written: the rows of a
/// tile lie in one set of the L1 then, and what waits to be written waits for one line after the other.
const WIDE_C: usize = 2048;

/// Steps of K in the course of which the lines of a tile of C arrive; in fewer, they would be in the way of A and B.
const DEEP: usize = 256;

/// Floats in a cache line.
const LINE: usize = 16;

const LINE_BYTES: usize = LINE * size_of::<f32>();

#[inline(always)]
fn prefetch_rows<S: Simd>(first: *const f32, stride: isize, rows: usize) {
    for i in 0..rows {
        let row = first.wrapping_offset(i as isize * stride);
        for line in (0..tile_cols::<S>()).step_by(LINE) {
            S::prefetch(row.wrapping_add(line));
        }
    }
}

#[inline(always)]
fn prefetch_rows_far<S: Simd>(first: *const f32, stride: isize, rows: usize) {
    for i in 0..rows {
        let row = first.wrapping_offset(i as isize * stride);
        for line in (0..tile_cols::<S>()).step_by(LINE) {
            S::prefetch_far(row.wrapping_add(line));
        }
    }
}

/// The operands of one run of the kernel.
#[derive(Clone, Copy)]
struct Tile {
    depth: usize,
    a: *const f32,
    b: *const f32,
    b_row: isize,
    c: *mut f32,
    c_row: usize,
    width: usize,
    onto: Onto,
    /// What to tell the L2 of the next panel of B: from where, and how many bytes for each step of K.
    next: (*const u8, usize),
}

#[inline(always)]
unsafe fn by_height<S: Simd, const ROWS: bool>(height: usize, tile: Tile, ahead: &mut Ahead) {
    macro_rules! kernels {
        ($($height:literal)*) => {
            match height {
                // A function for each height, which all products share.
                $($height => S::apart(Panel::<$height, ROWS> { tile, ahead }),)*
                _ => debug_assert!(height == 0),
            }
        };
    }
    kernels!(1 2 3 4 5 6 7 8 9 10 11 12 13 14)
}

/// The kernel of one height. Whoever makes one vouches for the operands of the tile.
struct Panel<'a, const HEIGHT: usize, const ROWS: bool> {
    tile: Tile,
    ahead: &'a mut Ahead,
}

impl<const HEIGHT: usize, const ROWS: bool> SimdOp for Panel<'_, HEIGHT, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        // Taller kernels than this instruction set has are compiled to nothing.
        if HEIGHT > tile_rows::<S>() {
            return;
        }
        // SAFETY: the promise of whoever made it.
        unsafe {
            if self.tile.width > S::LANES {
                kernel::<S, HEIGHT, 2, ROWS>(self.tile, self.ahead);
            } else {
                kernel::<S, HEIGHT, 1, ROWS>(self.tile, self.ahead);
            }
        }
    }
}

/// One tile of C in registers: `HEIGHT` rows of `WIDTH` vectors.
#[inline(always)]
unsafe fn kernel<S: Simd, const HEIGHT: usize, const WIDTH: usize, const ROWS: bool>(
    tile: Tile,
    ahead: &mut Ahead,
) {
    let a_step = if ROWS { 1 } else { tile_rows::<S>() };
    let Tile { depth, mut a, mut b, b_row, c, c_row, width, onto, next: (mut next, next_step) } = tile;
    let whole = width == WIDTH * S::LANES;
    let last = width - (WIDTH - 1) * S::LANES;
    let mut sums = [[S::splat(0.0); WIDTH]; HEIGHT];

    // SAFETY: the caller vouches for the operands of `block_product`; the loops stay inside of them.
    unsafe {
        if onto == Onto::Sum {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let c = c.add(i * c_row + j * S::LANES);
                    *sum = if whole || j + 1 < WIDTH { S::load(c) } else { S::load_partial(c, last) };
                }
            }
        }
        let mut pairs = depth / 2;
        while pairs > 0 {
            let run = ahead.until_row(pairs);
            pairs -= run;
            let (mut far, far_step) = (ahead.at, ahead.step);
            for _ in 0..run {
                S::prefetch_far(next.cast());
                S::prefetch_far(next.wrapping_add(next_step).cast());
                S::prefetch_far(far.cast());
                next = next.wrapping_add(2 * next_step);
                far = far.wrapping_add(far_step);
                step::<S, HEIGHT, WIDTH, ROWS>(&mut sums, a, b);
                step::<S, HEIGHT, WIDTH, ROWS>(&mut sums, a.wrapping_add(a_step), b.wrapping_offset(b_row));
                // Wrapping: the last step may leave the operand by more than one element.
                a = a.wrapping_add(2 * a_step);
                b = b.wrapping_offset(2 * b_row);
            }
            ahead.at = far;
        }
        if depth % 2 == 1 {
            step::<S, HEIGHT, WIDTH, ROWS>(&mut sums, a, b);
        }
        for (i, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                let c = c.add(i * c_row + j * S::LANES);
                if whole || j + 1 < WIDTH {
                    S::store(c, *sum);
                } else {
                    S::store_partial(c, last, *sum);
                }
            }
        }
    }
}

/// One step of K: a column of A times a row of B.
#[inline(always)]
unsafe fn step<S: Simd, const HEIGHT: usize, const WIDTH: usize, const ROWS: bool>(
    sums: &mut [[S::F; WIDTH]; HEIGHT],
    a: *const f32,
    b: *const f32,
) {
    let a_row = if ROWS { panel_row::<S>() } else { 1 };
    // SAFETY: the caller vouches for a column of A and a row of B.
    unsafe {
        let mut b_vectors = [S::splat(0.0); WIDTH];
        for (j, vector) in b_vectors.iter_mut().enumerate() {
            *vector = S::load(b.add(j * S::LANES));
        }
        for (i, sums) in sums.iter_mut().enumerate() {
            let factor = S::splat(*a.add(i * a_row));
            for (sum, vector) in sums.iter_mut().zip(&b_vectors) {
                *sum = S::mul_add(factor, *vector, *sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets that are named in the course of so many tiles.
    fn named(mut ahead: Ahead, start: *const u8, tiles: usize, depth: usize) -> Vec<isize> {
        let mut offsets = Vec::new();
        for _ in 0..tiles {
            let mut pairs = depth / 2;
            while pairs > 0 {
                let run = ahead.until_row(pairs);
                pairs -= run;
                for _ in 0..run {
                    if ahead.step > 0 {
                        offsets.push(ahead.at as isize - start as isize);
                    }
                    ahead.at = ahead.at.wrapping_add(ahead.step);
                }
            }
        }
        offsets
    }

    #[test]
    fn rows_ahead_are_named_line_by_line_towards_the_end() {
        let start = std::ptr::without_provenance::<u8>(1 << 20);
        for (rows, bytes, stride, tiles, depth) in [
            (64, 4096, 8192, 160, 1024),
            (3, 100, 100, 24, 33),
            (40, 512, -1024, 12, 256),
            (200, 2048, 4096, 9, 16),
        ] {
            let pairs = tiles * (depth / 2);
            let offsets = named(Ahead::rows(start, stride, rows, bytes, pairs), start, tiles, depth);
            // Where there are too few steps for all rows, the first ones.
            let possible = (pairs / bytes.div_ceil(LINE_BYTES)).min(rows);
            for row in 0..possible {
                for line in (0..bytes).step_by(LINE_BYTES) {
                    let first = row as isize * stride + line as isize;
                    let is_named = offsets.iter().any(|at| (first..first + LINE_BYTES as isize).contains(at));
                    assert!(is_named, "row {row} of {rows}, line {line} of {bytes}");
                }
            }
        }
    }
}
