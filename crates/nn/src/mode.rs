//! Training or evaluation, and where dropout gets its randomness.

use std::cell::Cell;

use lanthorn_ir::{Error, Result};

/// How a model runs.
#[derive(Clone, Debug)]
pub enum Mode<V> {
    /// Nothing is random and no statistics change.
    Eval,
    /// Dropout is on, and running statistics move.
    Train(Draws<V>),
}

impl<V> Mode<V> {
    /// Training. `key` (`u64[2]`: seed and draw number, another for each step) may be absent where nothing is random.
    pub fn train(key: Option<V>) -> Mode<V> {
        Mode::Train(Draws { key, next_stream: Cell::new(0) })
    }

    /// True in training.
    pub fn is_train(&self) -> bool {
        matches!(self, Mode::Train(_))
    }

    /// The same with another value for the key.
    pub(crate) fn try_map<W>(&self, f: impl FnOnce(&V) -> Result<W>) -> Result<Mode<W>> {
        match self {
            Mode::Eval => Ok(Mode::Eval),
            Mode::Train(draws) => Ok(Mode::Train(Draws {
                key: draws.key.as_ref().map(f).transpose()?,
                next_stream: draws.next_stream.clone(),
            })),
        }
    }

    /// Counts the streams that a part of this pass has drawn from.
    pub(crate) fn go_on_after<W>(&self, part: &Mode<W>) {
        if let (Mode::Train(draws), Mode::Train(part)) = (self, part) {
            draws.next_stream.set(part.next_stream.get());
        }
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
        self.next_streams(op, 1)
    }

    /// The key and the first of `count` streams, for a place that draws so many times.
    ///
    /// Errors: as [`Draws::next`].
    pub fn next_streams(&self, op: &str, count: u64) -> Result<(V, u64)> {
        let Some(key) = &self.key else {
            return Err(Error::unsupported(op, "is random in training and the mode has no key"));
        };
        let stream = self.next_stream.get();
        self.next_stream.set(stream + count);
        Ok((key.clone(), stream))
    }
}
