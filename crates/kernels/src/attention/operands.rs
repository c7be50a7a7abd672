//! Operands of attention, and the view of them that kernels take: query rows against keys.

use std::marker::PhantomData;

use lanthorn_error::{Error, ErrorKind, Result};

use super::TILE;
use crate::simd::MAX_LANES;

/// A tensor `[batch, seq, heads, head_dim]` whose last axis is contiguous; strides are in elements.
pub struct Heads<'a, E> {
    ptr: *const E,
    shape: [usize; 4],
    strides: [isize; 3],
    life: PhantomData<&'a [E]>,
}

/// As [`Heads`], written to.
pub struct HeadsMut<'a, E> {
    ptr: *mut E,
    shape: [usize; 4],
    strides: [isize; 3],
    life: PhantomData<&'a mut [E]>,
}

// SAFETY: like `&[E]`, under the promises of `from_raw`.
unsafe impl<E: Sync> Send for Heads<'_, E> {}
// SAFETY: as above.
unsafe impl<E: Sync> Sync for Heads<'_, E> {}
// SAFETY: kernels hand every row to one task.
unsafe impl<E: Send> Send for HeadsMut<'_, E> {}
// SAFETY: as above.
unsafe impl<E: Send> Sync for HeadsMut<'_, E> {}

impl<E> Clone for Heads<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Heads<'_, E> {}

impl<'a, E> Heads<'a, E> {
    /// # Safety
    /// Every element that shape and strides reach is readable, aligned and initialised for `'a`, and nothing writes
    /// it. Of keys and values that a `past` leaves invalid, only the memory need be there.
    pub unsafe fn from_raw(ptr: *const E, shape: [usize; 4], strides: [isize; 3]) -> Self {
        Heads { ptr, shape, strides, life: PhantomData }
    }

    /// A contiguous tensor. Panics if the slice does not hold the shape.
    pub fn new(elements: &'a [E], shape: [usize; 4]) -> Self {
        assert_eq!(elements.len(), shape.iter().product::<usize>(), "elements of {shape:?}");
        // SAFETY: the slice holds them all and is borrowed for `'a`.
        unsafe { Self::from_raw(elements.as_ptr(), shape, contiguous(shape)) }
    }

    pub(super) fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// In elements, of the first three axes.
    pub(super) fn strides(&self) -> [isize; 3] {
        self.strides
    }

    /// The first element.
    pub(super) fn pointer(&self) -> *const E {
        self.ptr
    }

    /// The beginning of a row, readable for `head_dim` elements. Indices are inside the shape.
    #[inline(always)]
    pub(super) fn at(&self, batch: usize, seq: usize, head: usize) -> *const E {
        debug_assert!(batch < self.shape[0] && seq < self.shape[1] && head < self.shape[2]);
        self.ptr.wrapping_offset(offset(self.strides, batch, seq, head))
    }
}

impl<'a, E> HeadsMut<'a, E> {
    /// # Safety
    /// Every element that shape and strides reach is writable and aligned for `'a`, no two are the same, and
    /// nothing else accesses them.
    pub unsafe fn from_raw(ptr: *mut E, shape: [usize; 4], strides: [isize; 3]) -> Self {
        HeadsMut { ptr, shape, strides, life: PhantomData }
    }

    /// A contiguous tensor. Panics if the slice does not hold the shape.
    pub fn new(elements: &'a mut [E], shape: [usize; 4]) -> Self {
        assert_eq!(elements.len(), shape.iter().product::<usize>(), "elements of {shape:?}");
        // SAFETY: the slice holds them all and is borrowed for `'a`.
        unsafe { Self::from_raw(elements.as_mut_ptr(), shape, contiguous(shape)) }
    }

    pub(super) fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// The beginning of a row, writable for `head_dim` elements. Indices are inside the shape, and each
    /// row belongs to one task.
    #[inline(always)]
    pub(super) fn at(&self, batch: usize, seq: usize, head: usize) -> *mut E {
        debug_assert!(batch < self.shape[0] && seq < self.shape[1] && head < self.shape[2]);
        self.ptr.wrapping_offset(offset(self.strides, batch, seq, head))
    }
}

fn contiguous([_, seq, heads, width]: [usize; 4]) -> [isize; 3] {
    [(seq * heads * width) as isize, (heads * width) as isize, width as isize]
}

#[inline(always)]
fn offset(strides: [isize; 3], batch: usize, seq: usize, head: usize) -> isize {
    batch as isize * strides[0] + seq as isize * strides[1] + head as isize * strides[2]
}

/// The attributes of the primitive and its argument `past`.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOptions {
    /// The query at position `p` sees keys `0..=p`.
    pub causal: bool,
    /// What scores are multiplied with.
    pub scale: f64,
    /// How many keys of the cache precede the queries; `None`: all keys are valid.
    pub past: Option<i64>,
}

/// The problem in terms of query rows: row `r` of a key head is query `r % queries` of its query head
/// `r / queries`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub batch: usize,
    /// Keys heads.
    pub kv_heads: usize,
    /// Query heads per key head.
    pub group: usize,
    /// Queries per head.
    pub queries: usize,
    /// Valid keys.
    pub keys: usize,
    pub head_dim: usize,
    pub causal: bool,
    /// A row sees the last so many of the keys up to its own.
    pub window: usize,
    /// The first key that is there.
    pub oldest: usize,
}

/// Where a query row lies.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub query: usize,
    pub head: usize,
}

impl Geometry {
    /// Panics if the shapes do not fit; fails if `past` does not.
    pub fn new(
        op: &str,
        q: [usize; 4],
        k: [usize; 4],
        v: [usize; 4],
        options: &AttentionOptions,
    ) -> Result<Self> {
        let fits =
            k == v && q[0] == k[0] && q[3] == k[3] && (q[2] == k[2] || k[2] > 0 && q[2].is_multiple_of(k[2]));
        assert!(fits, "{op}: q {q:?}, k {k:?}, v {v:?}");
        let (queries, room) = (q[1], k[1]);
        let keys = match options.past {
            None => room,
            Some(past) => match usize::try_from(past).ok().and_then(|past| past.checked_add(queries)) {
                Some(keys) if keys <= room => keys,
                _ => {
                    let message = format!(
                        "past is {past} with {queries} queries and room for {room} keys; past + queries must fit"
                    );
                    return Err(Error::new(ErrorKind::Execute, op, message));
                }
            },
        };
        Ok(Geometry {
            batch: q[0],
            kv_heads: k[2],
            group: q[2].checked_div(k[2]).unwrap_or(0),
            queries,
            keys,
            head_dim: q[3],
            causal: options.causal,
            window: usize::MAX,
            oldest: 0,
        })
    }

    /// Query rows per key head.
    pub fn rows(&self) -> usize {
        self.group * self.queries
    }

    #[inline(always)]
    pub fn place(&self, kv_head: usize, row: usize) -> Place {
        Place { query: row % self.queries, head: kv_head * self.group + row / self.queries }
    }

    /// How many keys, from the first on, a row sees.
    #[inline(always)]
    pub fn visible(&self, row: usize) -> usize {
        if !self.causal {
            return self.keys;
        }
        // The last query stands at the last key.
        (row % self.queries + 1 + self.keys).saturating_sub(self.queries).min(self.keys)
    }

    /// The first key that a row sees, where it sees any.
    #[inline(always)]
    pub fn first(&self, row: usize) -> usize {
        self.visible(row).saturating_sub(self.window).max(self.oldest)
    }

    /// The first key that any row sees.
    pub fn begin(&self) -> usize {
        // The first query of a head stands before the others.
        if self.rows() == 0 { 0 } else { self.first(0) }
    }

    /// The index of a row in `lse`, `[batch, queries, heads]`.
    #[inline(always)]
    pub fn statistic(&self, batch: usize, place: Place) -> usize {
        (batch * self.queries + place.query) * self.group * self.kv_heads + place.head
    }
}

/// Query rows of a triangular tile are treated in groups of so many, each with the keys that it sees.
pub(super) const GROUP: usize = MAX_LANES;

/// A block of query rows of one key head.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub first: usize,
    pub rows: usize,
    /// How many keys each row sees; those of the last row beyond the block.
    visible: [usize; TILE],
    /// The first key that each row sees, likewise.
    first_seen: [usize; TILE],
    begin: usize,
    least: usize,
    most: usize,
}

/// Rows `row..row + rows` of a block against the first `keys` keys of a tile.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub row: usize,
    pub rows: usize,
    pub keys: usize,
}

/// Which part of a tile of keys the rows of a block see.
pub(super) struct Seen {
    /// So many keys, from the first on, every row of the group sees.
    pub by_all: [usize; TILE / GROUP],
    /// Behind so many keys, from the first on, no row of the group sees any.
    pub by_any: [usize; TILE / GROUP],
}

impl Block {
    pub fn new(geometry: &Geometry, first: usize) -> Block {
        let rows = TILE.min(geometry.rows() - first);
        let mut visible = [geometry.visible(first + rows - 1); TILE];
        let mut first_seen = [geometry.first(first + rows - 1); TILE];
        for (row, (visible, begin)) in visible.iter_mut().zip(&mut first_seen).enumerate().take(rows) {
            *visible = geometry.visible(first + row);
            *begin = geometry.first(first + row);
        }
        let least = visible.iter().copied().min().unwrap_or(0);
        let most = visible.iter().copied().max().unwrap_or(0);
        let begin = first_seen.iter().copied().min().unwrap_or(0);
        Block { first, rows, visible, first_seen, begin, least, most }
    }

    /// The first key that some row sees.
    pub fn begin(&self) -> usize {
        self.begin
    }

    /// How many of the keys `key..key + keys` a row does not see yet.
    pub fn unseen(&self, row: usize, key: usize, keys: usize) -> usize {
        self.first_seen[row].saturating_sub(key).min(keys)
    }

    /// Keys that some row sees.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Groups of rows.
    pub fn groups(&self) -> usize {
        self.rows.div_ceil(GROUP)
    }

    /// How many of the keys `key..key + keys` a row sees.
    pub fn visible(&self, row: usize, key: usize, keys: usize) -> usize {
        self.visible[row].saturating_sub(key).min(keys)
    }

    /// `None` where all rows see all of the keys.
    pub fn seen(&self, key: usize, keys: usize) -> Option<Seen> {
        let last_begin = self.first_seen.iter().copied().max().unwrap_or(0);
        if self.least >= key + keys && last_begin <= key {
            return None;
        }
        let mut seen = Seen { by_all: [keys; TILE / GROUP], by_any: [0; TILE / GROUP] };
        for row in 0..TILE {
            let visible = self.visible(row, key, keys);
            let by_all = if self.unseen(row, key, keys) == 0 { visible } else { 0 };
            seen.by_all[row / GROUP] = seen.by_all[row / GROUP].min(by_all);
            seen.by_any[row / GROUP] = seen.by_any[row / GROUP].max(visible);
        }
        Some(seen)
    }
}
