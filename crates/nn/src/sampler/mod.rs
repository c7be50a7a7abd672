//! The order in which examples are seen. Exactly restorable: permutation and offset are functions of seed and epoch, so
//! three numbers are all of a sampler's state.

mod indices;
mod windows;

pub use indices::{Batches, IndexSampler, Order};
pub use windows::{TokenBatches, WindowSampler, split};

use lanthorn_ir::Result;
use lanthorn_ir::philox::Philox;
use serde::{Deserialize, Serialize};

use crate::data::Examples;

/// Where a sampler stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerState {
    pub seed: u64,
    /// How many times all examples have been seen.
    pub epoch: u64,
    /// The next example of this epoch's order.
    pub cursor: u64,
}

/// Batches without end.
pub trait Source {
    type Batch: Examples;

    /// The next batch.
    ///
    /// Errors: what there is no batch of.
    fn next_batch(&mut self) -> Result<Self::Batch>;

    /// Where the source stands.
    fn state(&self) -> SamplerState;

    /// Goes to where it stood.
    ///
    /// Errors: a state of other examples, and then the source stays where it is.
    fn seek(&mut self, state: SamplerState) -> Result<()>;
}

/// Shuffles (Fisher and Yates, as in Knuth, volume 2, algorithm P).
fn shuffle(words: &Philox, order: &mut [usize]) {
    for last in (1..order.len()).rev() {
        order.swap(last, words.below(last as u64, last as u64 + 1) as usize);
    }
}
