//! Sequences of a pool: how far each is, which blocks it owns, and what of it others may share.

use std::collections::VecDeque;

use lanthorn_ir::{Error, ErrorKind, Result};

use crate::blocks::{Block, Blocks, Content};
use crate::pool::Pool;
use crate::states::Pair;

/// What a pool knows of a sequence.
#[derive(Debug)]
pub(crate) struct Held {
    /// Tokens whose keys and values are in the cache.
    pub length: usize,
    /// The tokens since the last full block.
    tail: Vec<u32>,
    /// The blocks that are not out of the window yet.
    pub blocks: VecDeque<Block>,
    /// How many blocks were before them.
    dropped: usize,
    /// What the full blocks hold; `None` after the weights have changed, and where nothing is shared.
    pub content: Option<Content>,
    /// Where its running state is, if the pool keeps some and it has tokens.
    pub state: Option<Pair>,
    /// All of its tokens are shared; no call has been about it.
    pub is_shared: bool,
    /// A call that has not ended yet is about it.
    pub is_in_call: bool,
    /// It goes when that call ends.
    pub is_released: bool,
}

impl Held {
    /// No tokens, behind this content.
    pub fn new(content: Option<Content>) -> Held {
        Held {
            length: 0,
            tail: Vec::new(),
            blocks: VecDeque::new(),
            dropped: 0,
            content,
            state: None,
            is_shared: false,
            is_in_call: false,
            is_released: false,
        }
    }

    /// Takes the whole blocks at the beginning of `tokens` that there are, but for the last token.
    fn share(&mut self, tokens: &[u32], size: usize, blocks: &mut Blocks) {
        let Some(mut content) = self.content else { return };
        for tokens in tokens.get(..tokens.len().saturating_sub(1)).unwrap_or_default().chunks_exact(size) {
            let Some((block, next)) = blocks.share(content, tokens) else { break };
            self.blocks.push_back(block);
            content = next;
        }
        self.content = Some(content);
        self.length = self.blocks.len() * size;
        self.is_shared = self.length > 0;
    }

    /// Blocks that are missing for so many more tokens.
    pub fn missing(&self, tokens: usize, size: usize) -> usize {
        (self.length + tokens).div_ceil(size).saturating_sub(self.dropped + self.blocks.len())
    }

    /// Counts tokens whose keys and values have been written.
    pub fn append(&mut self, tokens: &[u32], window: Option<usize>, size: usize, blocks: &mut Blocks) {
        self.is_shared = false;
        for &token in tokens {
            self.tail.push(token);
            self.length += 1;
            if self.tail.len() == size {
                let block = self.blocks.get(self.length / size - 1 - self.dropped);
                if let (Some(&block), Some(content)) = (block, self.content) {
                    self.content = Some(blocks.fill(block, content, &self.tail));
                }
                self.tail.clear();
            }
        }
        self.drop_unseen(window, size, blocks);
    }

    /// Whole blocks of which the next token sees nothing.
    fn unseen(&self, window: Option<usize>, size: usize) -> usize {
        // The next token sees `window - 1` of those that there are.
        window.map_or(0, |window| (self.length + 1).saturating_sub(window) / size)
    }

    /// Gives back the blocks of which the next token sees nothing.
    fn drop_unseen(&mut self, window: Option<usize>, size: usize, blocks: &mut Blocks) {
        let count = self.unseen(window, size).saturating_sub(self.dropped).min(self.blocks.len());
        self.dropped += count;
        self.blocks.drain(..count).for_each(|block| blocks.give_back(block));
    }

    /// False if something that the next token sees under this window has been dropped.
    pub fn has_all_of(&self, window: Option<usize>, size: usize) -> bool {
        self.dropped <= self.unseen(window, size)
    }

    /// The block of each slot of the ring; 0 where nothing is read.
    pub fn table(&self, slots: usize) -> Vec<i32> {
        let mut table = vec![0; slots];
        for (&block, at) in self.blocks.iter().zip(self.dropped..) {
            if let Some(slot) = table.get_mut(at.checked_rem(slots).unwrap_or(0)) {
                *slot = block as i32;
            }
        }
        table
    }

    /// The last block first: without those before it, it is of no use to another.
    pub fn give_back(self, blocks: &mut Blocks) {
        self.blocks.into_iter().rev().for_each(|block| blocks.give_back(block));
    }
}

/// Some tokens whose keys and values are in a [`Pool`]. Dropping it releases it.
#[derive(Debug)]
pub struct Sequence {
    pool: Pool,
    id: u64,
}

impl Sequence {
    pub(crate) fn new(pool: Pool, id: u64) -> Sequence {
        Sequence { pool, id }
    }

    /// The pool to which it belongs.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Tells it from every other sequence that the pool has or had.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The number of its tokens; also the position of the next one.
    ///
    /// Errors: a sequence that has been released.
    pub fn length(&self) -> Result<usize> {
        let owners = self.pool.owners();
        match owners.sequences.get(&self.id) {
            Some(held) if !held.is_released => Ok(held.length),
            _ => Err(released("sequence", self.id)),
        }
    }

    /// Takes whole blocks at the beginning of `tokens` that others have computed under the same weights, instead of
    /// computing them anew; the last token always remains to be computed. Gives the new length: how many tokens need not
    /// be read any more: 0 for a pool with running state, which is not known at the ends of blocks.
    ///
    /// Errors: a sequence that has tokens already, is in a call, or has been released.
    pub fn share(&self, tokens: &[u32]) -> Result<usize> {
        self.share_within(tokens, None)
    }

    /// As [`Sequence::share`], without the blocks that no token to come sees under a window.
    pub(crate) fn share_within(&self, tokens: &[u32], window: Option<usize>) -> Result<usize> {
        let mut owners = self.pool.owners();
        let owners = &mut *owners;
        let held = match owners.sequences.get_mut(&self.id) {
            Some(held) if !held.is_released => held,
            _ => return Err(released("share", self.id)),
        };
        if held.is_in_call {
            return Err(in_call("share", self.id));
        }
        if held.length > 0 {
            let message = format!(
                "sequence {} has {} tokens already; only a sequence without tokens can begin with shared ones",
                self.id, held.length
            );
            return Err(Error::shape("share", message));
        }
        let size = self.pool.options().block_size;
        held.share(tokens, size, &mut owners.blocks);
        held.drop_unseen(window, size, &mut owners.blocks);
        Ok(held.length)
    }

    /// Gives its blocks back; they keep what they hold until they are needed. Where a call is about it, that happens at
    /// the end of the call.
    ///
    /// Errors: a sequence that has been released before.
    pub fn release(&self) -> Result<()> {
        if self.let_go() { Ok(()) } else { Err(released("release", self.id)) }
    }

    fn let_go(&self) -> bool {
        let mut owners = self.pool.owners();
        let owners = &mut *owners;
        match owners.sequences.get_mut(&self.id) {
            Some(held) if held.is_released => false,
            Some(held) if held.is_in_call => {
                held.is_released = true;
                true
            }
            _ => owners.remove(self.id),
        }
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        self.let_go();
    }
}

pub(crate) fn released(op: &str, id: u64) -> Error {
    Error::new(ErrorKind::InvalidHandle, op, format!("sequence {id} has been released"))
}

pub(crate) fn in_call(op: &str, id: u64) -> Error {
    let message = format!("sequence {id} is in a call that has not ended; wait for it");
    Error::new(ErrorKind::InvalidHandle, op, message)
}
