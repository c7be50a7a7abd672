//! Room in a pool for the new tokens of a call.
//!
//! A call first reserves what it needs, then runs, and commits. Without a commit everything is as before: what a program
//! has written lies behind the ends of the sequences, or in the other slots of their state, where nobody reads.

use std::collections::BTreeSet;

use lanthorn_ir::{Error, ErrorKind, Result};

use crate::pieces::Piece;
use crate::pool::Pool;
use crate::sequence::{Sequence, in_call, released};
use crate::states::Pair;

/// Blocks for new tokens of some sequences, which no other call can be about meanwhile. Rolls back when dropped.
pub(crate) struct Reservation<'a> {
    pool: &'a Pool,
    window: Option<usize>,
    entries: Vec<Entry<'a>>,
}

struct Entry<'a> {
    id: u64,
    tokens: &'a [u32],
    start: usize,
    /// Blocks that were added.
    taken: usize,
    /// It has got a pair of slots for its state.
    has_begun: bool,
}

impl<'a> Reservation<'a> {
    /// Room for `tokens` behind each sequence, for `op`, under whose window old blocks are dropped when it commits. The
    /// call is under `weights`.
    ///
    /// Errors: a sequence of another pool, that is named twice, in a call, released, or has dropped what this window shows,
    /// or that begins with tokens of other weights; too few free blocks, or slots of state.
    pub fn new(
        op: &str,
        pool: &'a Pool,
        sequences: &[(&'a Sequence, &'a [u32])],
        window: Option<usize>,
        weights: u64,
    ) -> Result<Reservation<'a>> {
        let mut owners = pool.owners();
        let owners = &mut *owners;
        owners.expect_weights(weights);
        let size = pool.options().block_size;
        let (mut seen, mut needed, mut beginning) = (BTreeSet::new(), 0, 0);
        for (sequence, tokens) in sequences {
            let id = sequence.id();
            if !sequence.pool().is_same(pool) {
                let message = format!("sequence {id} belongs to another pool");
                return Err(Error::new(ErrorKind::ForeignHandle, op, message));
            }
            let held = match owners.sequences.get(&id) {
                Some(held) if !held.is_released => held,
                _ => return Err(released(op, id)),
            };
            if !seen.insert(id) {
                return Err(Error::shape(op, format!("sequence {id} is named twice in one call")));
            }
            if held.is_in_call {
                return Err(in_call(op, id));
            }
            if !held.has_all_of(window, size) {
                let message = format!(
                    "sequence {id} has dropped tokens that this program's window shows; use programs of one window"
                );
                return Err(Error::shape(op, message));
            }
            if held.is_shared && held.content.is_none() {
                let message = format!(
                    "sequence {id} begins with shared tokens that were computed under other weights; begin another"
                );
                return Err(Error::shape(op, message));
            }
            needed += held.missing(tokens.len(), size);
            beginning += usize::from(owners.keeps_state && held.state.is_none());
        }
        owners.pairs.expect_free(op, beginning)?;
        let free = owners.blocks.available();
        if needed > free {
            let count = owners.blocks.count();
            let message = format!(
                "the cache is full: {needed} more of its {count} blocks of {size} tokens are needed and {free} are free; finish a sequence, or give it more max_tokens"
            );
            return Err(Error::new(ErrorKind::OutOfMemory, op, message));
        }
        let mut entries = Vec::with_capacity(sequences.len());
        for (sequence, tokens) in sequences {
            let Some(held) = owners.sequences.get_mut(&sequence.id()) else { continue };
            let taken = held.missing(tokens.len(), size);
            for _ in 0..taken {
                // There are as many as were counted.
                held.blocks.extend(owners.blocks.take().ok());
            }
            held.is_in_call = true;
            let has_begun = owners.keeps_state && held.state.is_none();
            if has_begun {
                held.state = owners.pairs.take();
            }
            entries.push(Entry { id: sequence.id(), tokens, start: held.length, taken, has_begun });
        }
        Ok(Reservation { pool, window, entries })
    }

    /// What a program is to read, for tables of so many slots.
    pub fn pieces(&self, slots: usize) -> Vec<Piece<'a>> {
        let owners = self.pool.owners();
        let piece = |entry: &Entry<'a>| {
            let held = owners.sequences.get(&entry.id);
            Piece {
                tokens: entry.tokens,
                start: entry.start,
                table: held.map(|held| held.table(slots)).unwrap_or_default(),
                state: held.and_then(|held| held.state).map(Pair::slots).unwrap_or_default(),
            }
        };
        self.entries.iter().map(piece).collect()
    }

    /// The new tokens are in the cache.
    pub fn commit(mut self) {
        let mut owners = self.pool.owners();
        let owners = &mut *owners;
        let size = self.pool.options().block_size;
        for entry in self.entries.drain(..) {
            if let Some(held) = owners.sequences.get_mut(&entry.id) {
                held.append(entry.tokens, self.window, size, &mut owners.blocks);
                if let Some(pair) = &mut held.state {
                    pair.advance();
                }
            }
            owners.end_call(entry.id);
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut owners = self.pool.owners();
        let owners = &mut *owners;
        for entry in self.entries.drain(..) {
            if let Some(held) = owners.sequences.get_mut(&entry.id) {
                for block in (0..entry.taken).filter_map(|_| held.blocks.pop_back()) {
                    owners.blocks.give_back(block);
                }
                if entry.has_begun
                    && let Some(pair) = held.state.take()
                {
                    owners.pairs.give_back(pair);
                }
            }
            owners.end_call(entry.id);
        }
    }
}
