//! The register-blocked kernel and products of cache-resident blocks built on it.
//!
//! A block of A is packed in *row panels* of at most [`tile_rows`] rows, [`panel_floats`] apart. Inside a panel,
//! either each row is contiguous, [`ROW`] apart ([`Panels::Rows`]: packing a row-major A is a copy), or each
//! column is, [`tile_rows`] apart ([`Panels::Columns`]: the same for a transposed A). The strides are
//! constants, so the kernel's loads need no address arithmetic. A block of B is read in panels of
//! [`tile_cols`] columns, packed (see [`pack`](super::pack)) or in place.
//!
//! Every element of the product is one chain of multiply-adds in the order of k, however it is blocked, so
//! blocking never changes results.

use crate::simd::{Isa, Simd};

/// The most columns of A (rows of B) in one packed block. Deep enough that reading and writing the sums once per
/// block costs little; a panel of B is then 32 KiB for AVX2 and 64 KiB for AVX-512, which reads its 128 bytes per
/// step from L2 as fast as it needs them.
pub const DEPTH: usize = 512;

/// From one row of a panel to the next: not a power of two, so that the rows of a panel, and the same column of several
/// panels while they are packed, lie in different sets of the L1 cache.
pub const ROW: usize = DEPTH + 16;

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
    tile_rows::<S>() * ROW
}

/// How many f32 values a packed block of A with this many rows takes.
pub const fn packed_a_floats(isa: Isa, rows: usize) -> usize {
    rows.div_ceil(tile_rows_of(isa)) * tile_rows_of(isa) * ROW
}

/// How many f32 values a packed block of B takes.
pub const fn packed_b_floats(isa: Isa, depth: usize, cols: usize) -> usize {
    cols.next_multiple_of(tile_cols_of(isa)) * depth
}

const VECTORS: usize = 2;

/// What is contiguous inside a row panel of packed A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panels {
    /// Rows, [`ROW`] values apart.
    Rows,
    /// Columns, [`tile_rows`] values apart.
    Columns,
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
}

impl BlockB {
    /// A packed block of the given depth.
    pub const fn packed<S: Simd>(data: *const f32, depth: usize) -> BlockB {
        BlockB { data, panel: depth * tile_cols::<S>(), row: tile_cols::<S>() as isize }
    }

    /// A row-major matrix read in place; only whole panels of it may be multiplied.
    pub const fn in_place<S: Simd>(data: *const f32, row_stride: isize) -> BlockB {
        BlockB { data, panel: tile_cols::<S>(), row: row_stride }
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

/// Memory that will be wanted later, of which the kernel tells the L2 while it multiplies: what is packed next comes from
/// memory meanwhile.
#[derive(Clone, Copy)]
pub struct Ahead {
    at: *const u8,
    /// Bytes for each step of K of each tile.
    step: usize,
}

impl Ahead {
    /// Nothing: the same line, which is near anyway, again and again.
    pub const fn nothing(near: *const f32) -> Ahead {
        Ahead { at: near.cast(), step: 0 }
    }

    /// `bytes` from `at` on, in the course of `steps` steps of K of tiles.
    pub const fn of(at: *const u8, bytes: usize, steps: usize) -> Ahead {
        Ahead { at, step: bytes.div_ceil(if steps > 0 { steps } else { 1 }) }
    }

    #[inline(always)]
    fn go_on(&mut self, steps: usize) {
        self.at = self.at.wrapping_add(steps * self.step);
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
/// `a` was packed with the same `rows` and `depth <= DEPTH` in the form `panels`; `b` has
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
    debug_assert!(depth <= DEPTH);
    let count = rows.div_ceil(tile_rows::<S>());
    let mut col = 0;
    while col < cols {
        let width = (cols - col).min(tile_cols::<S>());
        let b_panel = b.data.wrapping_add(col / tile_cols::<S>() * b.panel);
        for (i, (row, height)) in row_panels::<S>(rows).enumerate() {
            // While this tile is computed, bring the sums of the tile below into L1, and a share of
            // the next panel of B into L2.
            if onto == Onto::Sum {
                prefetch_rows::<S>(c.wrapping_add((row + height) * c_row + col), c_row as isize, height);
            }
            if col + tile_cols::<S>() < cols {
                let (from, to) = (i * depth / count, (i + 1) * depth / count);
                let next = b_panel.wrapping_add(b.panel).wrapping_offset(from as isize * b.row);
                prefetch_rows_far::<S>(next, b.row, to - from);
            }
            // SAFETY: the caller's promise; `i` and `col` walk over existing panels.
            unsafe {
                let a = a.add(i * panel_floats::<S>());
                let c = c.add(row * c_row + col);
                let ahead = *ahead;
                let tile = Tile { depth, a, b: b_panel, b_row: b.row, c, c_row, width, onto, ahead };
                match panels {
                    Panels::Rows => by_height::<S, true>(height, tile),
                    Panels::Columns => by_height::<S, false>(height, tile),
                }
            }
            ahead.go_on(depth);
        }
        col += width;
    }
}

/// Floats in a cache line.
const LINE: usize = 16;

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
    ahead: Ahead,
}

#[inline(always)]
unsafe fn by_height<S: Simd, const ROWS: bool>(height: usize, tile: Tile) {
    macro_rules! kernels {
        ($($height:literal)*) => {
            match height {
                // SAFETY: the caller's promise.
                $($height => unsafe { by_width::<S, $height, ROWS>(tile) },)*
                _ => debug_assert!(height == 0),
            }
        };
    }
    kernels!(1 2 3 4 5 6 7 8 9 10 11 12 13 14)
}

#[inline(always)]
unsafe fn by_width<S: Simd, const HEIGHT: usize, const ROWS: bool>(tile: Tile) {
    // Taller kernels than this instruction set has are compiled to nothing.
    if HEIGHT > tile_rows::<S>() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if tile.width > S::LANES {
            kernel::<S, HEIGHT, 2, ROWS>(tile);
        } else {
            kernel::<S, HEIGHT, 1, ROWS>(tile);
        }
    }
}

/// One tile of C in registers: `HEIGHT` rows of `WIDTH` vectors.
#[inline(always)]
unsafe fn kernel<S: Simd, const HEIGHT: usize, const WIDTH: usize, const ROWS: bool>(tile: Tile) {
    let (a_row, a_step) = if ROWS { (ROW, 1) } else { (1, tile_rows::<S>()) };
    let Tile { depth, mut a, mut b, b_row, c, c_row, width, onto, mut ahead } = tile;
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
        for _ in 0..depth {
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
            S::prefetch_far(ahead.at.cast());
            ahead.go_on(1);
            // Wrapping: the last step may leave the operand by more than one element.
            a = a.wrapping_add(a_step);
            b = b.wrapping_offset(b_row);
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
