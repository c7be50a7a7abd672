//! Numbers of examples in order or in random order.

use lanthorn_ir::philox::Philox;
use lanthorn_ir::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{SamplerState, Source, shuffle};
use crate::data::Dataset;

/// The order of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Sequential,
    /// Another one each epoch.
    #[default]
    Shuffled,
}

/// Draws batches of numbers from `0..len`, each once an epoch.
///
/// ```
/// use lanthorn_nn::sampler::{IndexSampler, Order};
///
/// let mut sampler = IndexSampler::new(10, Order::Shuffled, 42)?;
/// let first = sampler.next_rows(4);
/// let mut again = IndexSampler::restore(10, Order::Shuffled, sampler.state())?;
/// assert_eq!(again.next_rows(4), sampler.next_rows(4));
/// assert_eq!(sampler.next_rows(4).len(), 2); // the last ones of the epoch
/// assert_eq!(sampler.state().epoch, 1);
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct IndexSampler {
    order: Order,
    state: SamplerState,
    permutation: Vec<usize>,
}

impl IndexSampler {
    /// A sampler at its beginning.
    ///
    /// Errors: nothing to draw from.
    pub fn new(len: usize, order: Order, seed: u64) -> Result<IndexSampler> {
        IndexSampler::restore(len, order, SamplerState { seed, epoch: 0, cursor: 0 })
    }

    /// The sampler of as many numbers that had this state.
    ///
    /// Errors: as [`IndexSampler::new`]; a cursor beyond the numbers.
    pub fn restore(len: usize, order: Order, state: SamplerState) -> Result<IndexSampler> {
        if len == 0 {
            return Err(Error::shape("sampler", "there are no examples to draw from"));
        }
        if state.cursor >= len as u64 {
            let message = format!("the cursor is {} of {len} examples; it is of other ones", state.cursor);
            return Err(Error::shape("sampler", message));
        }
        let mut sampler = IndexSampler { order, state, permutation: (0..len).collect() };
        sampler.permute();
        Ok(sampler)
    }

    /// Where the sampler stands.
    pub fn state(&self) -> SamplerState {
        self.state
    }

    /// This epoch's order.
    pub fn permutation(&self) -> &[usize] {
        &self.permutation
    }

    /// The next `count` numbers, or what is left of the epoch where that is fewer.
    pub fn next_rows(&mut self, count: usize) -> Vec<usize> {
        let rest = self.permutation.get(self.state.cursor as usize..).unwrap_or_default();
        let rows: Vec<usize> = rest.iter().take(count).copied().collect();
        self.state.cursor += rows.len() as u64;
        if self.state.cursor == self.permutation.len() as u64 {
            self.state.epoch = self.state.epoch.saturating_add(1);
            self.state.cursor = 0;
            self.permute();
        }
        rows
    }

    fn permute(&mut self) {
        let SamplerState { seed, epoch, .. } = self.state;
        self.permutation.sort_unstable();
        if self.order == Order::Shuffled {
            shuffle(&Philox::new(seed, epoch, Philox::stream_of("indices")), &mut self.permutation);
        }
    }
}

/// Batches of the examples of a [`Dataset`], by an [`IndexSampler`].
#[derive(Clone, Debug)]
pub struct Batches {
    data: Dataset,
    rows: usize,
    sampler: IndexSampler,
}

impl Batches {
    /// Batches of `rows` examples, the last one of an epoch of what is left.
    ///
    /// Errors: no examples, 0 rows, examples of another number than the sampler's.
    pub fn new(data: Dataset, rows: usize, sampler: IndexSampler) -> Result<Batches> {
        if rows == 0 || sampler.permutation().len() != data.len() {
            let (len, drawn) = (data.len(), sampler.permutation().len());
            let message = format!("batches of {rows} of {len} examples from a sampler of {drawn}");
            return Err(Error::shape("sampler", message));
        }
        Ok(Batches { data, rows, sampler })
    }

    /// Batches in random order, another one each epoch.
    ///
    /// Errors: as [`Batches::new`].
    pub fn shuffled(data: Dataset, rows: usize, seed: u64) -> Result<Batches> {
        let sampler = IndexSampler::new(data.len(), Order::Shuffled, seed)?;
        Batches::new(data, rows, sampler)
    }

    /// The batches from where those stood whose state this is.
    ///
    /// Errors: as [`Batches::new`]; a state of other examples.
    pub fn restored(mut self, state: SamplerState) -> Result<Batches> {
        self.seek(state)?;
        Ok(self)
    }

    /// The examples.
    pub fn data(&self) -> &Dataset {
        &self.data
    }
}

impl Source for Batches {
    type Batch = Dataset;

    fn next_batch(&mut self) -> Result<Dataset> {
        self.data.rows(&self.sampler.next_rows(self.rows))
    }

    fn state(&self) -> SamplerState {
        self.sampler.state()
    }

    fn seek(&mut self, state: SamplerState) -> Result<()> {
        self.sampler = IndexSampler::restore(self.data.len(), self.sampler.order, state)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostTensor;

    #[test]
    fn an_epoch_shows_every_number_once_in_an_order_of_its_own() {
        let mut sampler = IndexSampler::new(103, Order::Shuffled, 5).unwrap();
        let mut epochs = Vec::new();
        for epoch in 0..3 {
            assert_eq!(sampler.state().epoch, epoch);
            let order: Vec<usize> = (0..11).flat_map(|_| sampler.next_rows(10)).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..103).collect::<Vec<_>>());
            epochs.push(order);
        }
        assert!(epochs[0] != epochs[1] && epochs[1] != epochs[2] && epochs[0] != epochs[2]);
        let other = IndexSampler::new(103, Order::Shuffled, 6).unwrap();
        assert_ne!(other.permutation(), &epochs[0]);
    }

    #[test]
    fn in_order_where_asked() {
        let mut sampler = IndexSampler::new(5, Order::Sequential, 1).unwrap();
        let rows: Vec<Vec<usize>> = (0..4).map(|_| sampler.next_rows(3)).collect();
        assert_eq!(rows, [vec![0, 1, 2], vec![3, 4], vec![0, 1, 2], vec![3, 4]]);
    }

    #[test]
    fn a_restored_sampler_goes_on_where_it_was() {
        let mut whole = IndexSampler::new(29, Order::Shuffled, 77).unwrap();
        for steps in 0..20 {
            let text = serde_json::to_string(&whole.state()).unwrap();
            let state = serde_json::from_str(&text).unwrap();
            let mut restored = IndexSampler::restore(29, Order::Shuffled, state).unwrap();
            assert_eq!(restored.permutation(), whole.permutation());
            assert_eq!(restored.next_rows(4), whole.next_rows(4), "after {steps} steps");
        }
        assert!(whole.state().epoch >= 2);
    }

    #[test]
    fn batches_keep_inputs_and_targets_together() {
        let inputs = HostTensor::from_f32(&[7, 2], (0..14).map(|x| x as f32)).unwrap();
        let targets = HostTensor::from_i64(&[7], 0..7).unwrap();
        let mut batches = Batches::shuffled(Dataset::new(inputs, targets).unwrap(), 3, 1).unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let batch = batches.next_batch().unwrap();
            let inputs = batch.inputs().to_f32().unwrap();
            let targets = batch.targets().bytes().chunks(8).map(|x| i64::from(x[0])).collect::<Vec<_>>();
            for (pair, target) in inputs.chunks(2).zip(&targets) {
                assert_eq!(pair, [2.0 * *target as f32, 2.0 * *target as f32 + 1.0]);
            }
            seen.extend(targets);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..7).collect::<Vec<_>>());
        assert_eq!(batches.state(), SamplerState { seed: 1, epoch: 1, cursor: 0 });
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        assert!(IndexSampler::new(0, Order::Shuffled, 1).is_err());
        let state = SamplerState { seed: 1, epoch: 0, cursor: 5 };
        let error = IndexSampler::restore(5, Order::Shuffled, state).unwrap_err().to_string();
        assert_eq!(error, "sampler: the cursor is 5 of 5 examples; it is of other ones");
        let inputs = HostTensor::from_f32(&[2, 1], [1.0, 2.0]).unwrap();
        let data = Dataset::new(inputs.clone(), inputs.clone()).unwrap();
        assert!(Batches::shuffled(data.clone(), 0, 1).is_err());
        assert!(data.rows(&[2]).is_err());
        assert!(data.split(3).is_err());
        let three = HostTensor::from_f32(&[3], [1.0, 2.0, 3.0]).unwrap();
        assert!(Dataset::new(inputs, three).is_err());
    }
}
