//! Where keys and values lie, and how many of them each sequence of a batch has.

use std::marker::PhantomData;

use super::operands::{Geometry, Heads};

/// Keys or values: rows of one head, `head_dim` adjacent elements each. A row is found by its number, which
/// [`Source::rows`] tells for consecutive keys of a sequence.
pub(super) struct Source<'a, E> {
    ptr: *const E,
    /// Elements from one row number to the next.
    row: isize,
    /// From one head to the next.
    head: isize,
    heads: usize,
    order: Order<'a>,
    /// A factor of each row and head, dense.
    scales: Option<&'a [f32]>,
    life: PhantomData<&'a [E]>,
}

/// Which rows belong to a sequence.
#[derive(Clone, Copy)]
enum Order<'a> {
    /// The number of a row is that of its key; sequences are so many elements apart.
    Whole(isize),
    Blocks(Blocks<'a>),
}

/// The tables of a pool: key `p` of sequence `s` is row `p % size` of block `tables[s, p / size % slots]`. Every entry of a
/// table is the number of a block.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    pub tables: &'a [i32],
    pub slots: usize,
    pub size: usize,
}

impl Blocks<'_> {
    /// The slot and the row in its block of a position.
    #[inline(always)]
    pub fn place(&self, position: usize) -> (usize, usize) {
        (position / self.size % self.slots, position % self.size)
    }

    /// The row number of what a slot of a sequence holds at `within`.
    #[inline(always)]
    pub fn row(&self, sequence: usize, slot: usize, within: usize) -> usize {
        let block = self.tables.get(sequence * self.slots + slot).copied().unwrap_or(0);
        block as usize * self.size + within
    }
}

impl<E> Clone for Source<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Source<'_, E> {}

// SAFETY: like `&[E]`, under the promises of those who make it.
unsafe impl<E: Sync> Send for Source<'_, E> {}
// SAFETY: as above.
unsafe impl<E: Sync> Sync for Source<'_, E> {}

impl<'a, E> Source<'a, E> {
    /// All of a tensor.
    pub fn whole(tensor: Heads<'a, E>) -> Self {
        let [batch, row, head] = tensor.strides();
        let heads = tensor.shape()[2];
        let order = Order::Whole(batch);
        Source { ptr: tensor.pointer(), row, head, heads, order, scales: None, life: PhantomData }
    }

    /// What tables say of a dense pool `[blocks, size, heads, head_dim]`.
    pub fn blocks(
        pool: &'a [E],
        heads: usize,
        head_dim: usize,
        scales: Option<&'a [f32]>,
        blocks: Blocks<'a>,
    ) -> Self {
        Source {
            ptr: pool.as_ptr(),
            row: (heads * head_dim) as isize,
            head: head_dim as isize,
            heads,
            order: Order::Blocks(blocks),
            scales,
            life: PhantomData,
        }
    }

    /// The row numbers of the keys `key ..` of a sequence.
    #[inline(always)]
    pub fn rows(&self, sequence: usize, key: usize, rows: &mut [usize]) {
        match &self.order {
            Order::Whole(_) => {
                for (at, row) in rows.iter_mut().enumerate() {
                    *row = key + at;
                }
            }
            Order::Blocks(blocks) => {
                let (mut slot, mut within) = blocks.place(key);
                for row in rows {
                    *row = blocks.row(sequence, slot, within);
                    within += 1;
                    if within == blocks.size {
                        within = 0;
                        slot = if slot + 1 == blocks.slots { 0 } else { slot + 1 };
                    }
                }
            }
        }
    }

    /// The beginning of the row of a head, readable for `head_dim` elements where the row number is one of the
    /// sequence's.
    #[inline(always)]
    pub fn at(&self, sequence: usize, row: usize, head: usize) -> *const E {
        let begin = match self.order {
            Order::Whole(batch) => sequence as isize * batch,
            Order::Blocks(_) => 0,
        };
        self.ptr.wrapping_offset(begin + row as isize * self.row + head as isize * self.head)
    }

    /// What the row of a head is multiplied with.
    #[inline(always)]
    pub fn scale(&self, row: usize, head: usize) -> Option<f32> {
        self.scales.map(|scales| scales.get(row * self.heads + head).copied().unwrap_or(0.0))
    }
}

/// The sequences of a batch, each as a problem of its own.
#[derive(Clone, Copy)]
pub(super) struct Sequences<'a> {
    /// Of the longest sequence that the shapes allow.
    pub most: Geometry,
    pub ragged: Option<Ragged<'a>>,
}

/// Sequences of their own lengths: `counts` queries stand at `starts ..`, and their keys are the last ones.
#[derive(Clone, Copy)]
pub(super) struct Ragged<'a> {
    pub starts: &'a [i32],
    pub counts: &'a [i32],
    /// The most keys that are held.
    pub room: usize,
}

impl Sequences<'_> {
    pub fn of(&self, sequence: usize) -> Geometry {
        let Some(ragged) = &self.ragged else { return self.most };
        let number = |of: &[i32]| of.get(sequence).map_or(0, |&x| x as usize);
        let queries = number(ragged.counts);
        let keys = number(ragged.starts) + queries;
        Geometry { queries, keys, oldest: keys.saturating_sub(ragged.room), ..self.most }
    }
}
