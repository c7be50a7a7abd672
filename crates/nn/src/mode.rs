//! Training or evaluation, and where dropout gets its randomness.

use std::cell::Cell;

use lanthorn_ir::{Error, Result};

/// How a model runs.
#[derive(Clone, Debug)]
pub enum Mode<V> {
    /// Nothing is random and no statistics change.
    Eval,
    /// Dropout is on.
    Train(Draws<V>),
}

impl<V> Mode<V> {
    /// Training. `key` (`u64[2]`: seed and draw number, another for each step) may be absent where nothing is random.
    pub fn train(key: Option<V>) -> Mode<V> {
        Mode::Train(Draws { key, next_stream: Cell::new(0) })
    }
}

/// Gives each random place of one forward a stream of its own, in the order in which the forward comes to them.
#[derive(Clone, Debug)]
pub struct Draws<V> {
    key: Option<V>,
    next_stream: Cell<u64>,
}

impl<V: Clone> Draws<V> {
    /// The key and the stream for the next random place.
    ///
    /// Errors: there is no key. `op` says who wants it.
    pub fn next(&self, op: &str) -> Result<(V, u64)> {
        let Some(key) = &self.key else {
            return Err(Error::unsupported(op, "is random in training and the mode has no key"));
        };
        let stream = self.next_stream.get();
        self.next_stream.set(stream + 1);
        Ok((key.clone(), stream))
    }
}
