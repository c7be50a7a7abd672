//! The random state of a device: a seed and the number of the next draw.
//!
//! Random primitives take a key `u64[2]` of seed and draw number as an operand. Every key is handed out once,
//! so each draw differs, and the same seed gives the same sequence on every device.

use std::sync::{Mutex, PoisonError};

/// Seed and draw number; two words.
pub type Key = [u64; 2];

/// Hands out keys.
#[derive(Debug, Default)]
pub struct RandomState {
    next: Mutex<Key>,
}

impl RandomState {
    /// Starts the sequence of `seed` anew.
    pub fn seed(&self, seed: u64) {
        *self.lock() = [seed, 0];
    }

    /// The key of the next draw.
    pub fn next_key(&self) -> Key {
        let mut next = self.lock();
        let key = *next;
        next[1] = next[1].wrapping_add(1);
        key
    }

    /// The key that [`RandomState::next_key`] will give: what a checkpoint stores.
    pub fn get(&self) -> Key {
        *self.lock()
    }

    /// Continues where a checkpoint left off.
    pub fn set(&self, key: Key) {
        *self.lock() = key;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Key> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
