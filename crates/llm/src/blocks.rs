//! Which sequence owns which block of a pool, and what finished ones have left there.
//!
//! A full block has a content: the tokens of its rows behind those of all blocks before, under one version of the
//! weights. Whoever begins with the same content shares the block instead of computing it, so a block counts its users
//! (Kwon et al. 2023, section 4.4). A block without users keeps its content until its room is needed; the one that was
//! used the longest ago goes first, and of one sequence the last block, for the others are of no use without those
//! before them.

use std::collections::{BTreeMap, HashMap};

use lanthorn_ir::{Error, ErrorKind, Result};

/// A block's number.
pub type Block = u32;
/// What the rows up to the end of some full block hold.
pub type Content = u64;

/// The tokens of a full block, behind those of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    before: Content,
    tokens: Box<[u32]>,
}

#[derive(Debug, Default)]
struct State {
    users: u32,
    key: Option<Key>,
    /// When it was last given back, where it has a content and no users.
    idle_since: u64,
}

/// The blocks of a pool.
#[derive(Debug)]
pub struct Blocks {
    states: Vec<State>,
    free: Vec<Block>,
    /// Blocks without users that have a content, by when they were given back.
    idle: BTreeMap<u64, Block>,
    known: HashMap<Key, (Block, Content)>,
    next_content: Content,
    clock: u64,
}

impl Blocks {
    pub fn new(count: usize) -> Blocks {
        Blocks {
            states: (0..count).map(|_| State::default()).collect(),
            free: (0..count as Block).rev().collect(),
            idle: BTreeMap::new(),
            known: HashMap::new(),
            next_content: 0,
            clock: 0,
        }
    }

    /// Blocks in all.
    pub fn count(&self) -> usize {
        self.states.len()
    }

    /// Blocks that may be taken: those without users.
    pub fn available(&self) -> usize {
        self.free.len() + self.idle.len()
    }

    /// Blocks without users that keep a content.
    pub fn kept(&self) -> usize {
        self.idle.len()
    }

    /// A content before all tokens, different from any other.
    pub fn root(&mut self) -> Content {
        self.next_content += 1;
        self.next_content
    }

    /// A block of which the caller is the only user.
    ///
    /// Errors: all have users.
    pub fn take(&mut self) -> Result<Block> {
        let block = match self.free.pop() {
            Some(block) => block,
            None => match self.idle.pop_first() {
                Some((_, block)) => block,
                None => return Err(Error::new(ErrorKind::OutOfMemory, "inference", "no block is free")),
            },
        };
        if let Some(state) = self.states.get_mut(block as usize) {
            if let Some(key) = state.key.take() {
                self.known.remove(&key);
            }
            state.users = 1;
        }
        Ok(block)
    }

    /// The block with these tokens behind `before`, with one more user.
    pub fn share(&mut self, before: Content, tokens: &[u32]) -> Option<(Block, Content)> {
        let key = Key { before, tokens: tokens.into() };
        let &(block, content) = self.known.get(&key)?;
        let state = self.states.get_mut(block as usize)?;
        if state.users == 0 {
            self.idle.remove(&state.idle_since);
        }
        state.users += 1;
        Some((block, content))
    }

    /// One user of a block less.
    pub fn give_back(&mut self, block: Block) {
        let Some(state) = self.states.get_mut(block as usize) else { return };
        state.users = state.users.saturating_sub(1);
        if state.users > 0 {
            return;
        }
        if state.key.is_some() {
            self.clock += 1;
            state.idle_since = self.clock;
            self.idle.insert(self.clock, block);
        } else {
            self.free.push(block);
        }
    }

    /// Tells that a block is full of these tokens behind `before`, and gives its content. Where another block has them
    /// already, that one stays the one which is found.
    pub fn fill(&mut self, block: Block, before: Content, tokens: &[u32]) -> Content {
        let key = Key { before, tokens: tokens.into() };
        if let Some(&(_, content)) = self.known.get(&key) {
            return content;
        }
        let content = self.root();
        if let Some(state) = self.states.get_mut(block as usize) {
            state.key = Some(key.clone());
            self.known.insert(key, (block, content));
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_found_by_all_tokens_before_it() {
        let mut blocks = Blocks::new(4);
        let root = blocks.root();
        let (a, b) = (blocks.take().unwrap(), blocks.take().unwrap());
        let first = blocks.fill(a, root, &[1, 2]);
        let second = blocks.fill(b, first, &[3, 4]);
        assert_eq!(blocks.share(root, &[1, 2]), Some((a, first)));
        assert_eq!(blocks.share(first, &[3, 4]), Some((b, second)));
        assert_eq!(blocks.share(root, &[3, 4]), None);
        assert_eq!(blocks.share(first, &[3, 5]), None);
        let other = blocks.root();
        assert_eq!(blocks.share(other, &[1, 2]), None, "other weights");
        // A second block of the same content has the same successors.
        let c = blocks.take().unwrap();
        assert_eq!(blocks.fill(c, root, &[1, 2]), first);
        assert_eq!(blocks.share(root, &[1, 2]), Some((a, first)));
    }

    #[test]
    fn blocks_with_users_stay_and_the_longest_unused_goes_first() {
        let mut blocks = Blocks::new(3);
        let root = blocks.root();
        let taken: Vec<Block> = (0..3).map(|_| blocks.take().unwrap()).collect();
        assert_eq!(blocks.take().unwrap_err().kind, ErrorKind::OutOfMemory);
        for (&block, token) in taken.iter().zip(0..) {
            blocks.fill(block, root, &[token]);
        }
        for &block in &taken {
            blocks.give_back(block);
        }
        assert_eq!((blocks.available(), blocks.kept()), (3, 3));
        // The first is used once more, so the second is the oldest.
        let (again, _) = blocks.share(root, &[0]).unwrap();
        assert_eq!((again, blocks.available()), (taken[0], 2));
        assert_eq!(blocks.take().unwrap(), taken[1]);
        assert_eq!(blocks.share(root, &[1]), None, "it has lost its content");
        assert_eq!(blocks.take().unwrap(), taken[2]);
        assert!(blocks.take().is_err());
        blocks.give_back(taken[1]);
        assert_eq!((blocks.available(), blocks.kept()), (1, 0));
        // A block that two use is free when both have given it back.
        blocks.share(root, &[0]).unwrap();
        blocks.give_back(taken[0]);
        assert_eq!(blocks.available(), 1);
        blocks.give_back(taken[0]);
        assert_eq!((blocks.available(), blocks.kept()), (2, 1));
    }
}
