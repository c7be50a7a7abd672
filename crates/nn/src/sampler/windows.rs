//! Windows of a token stream in random order.
//!
//! An epoch cuts the stream into windows that do not overlap, beginning at a random offset, and goes through them in
//! random order, so every token is seen once an epoch and never twice at the same place of a window. Offset and order
//! are functions of seed and epoch (Philox), so three numbers restore a sampler exactly.

use lanthorn_ir::philox::Philox;
use lanthorn_ir::{Error, Result};

use super::{SamplerState, Source, shuffle};
use crate::batch::{Batch, batch_size, check_tokens, room};

/// The tokens to train on and the last tenth, held out to judge by.
pub fn split(tokens: &[u32]) -> (&[u32], &[u32]) {
    tokens.split_at(tokens.len() - tokens.len() / 10)
}

/// Draws batches of windows of `context + 1` tokens: inputs, and the same one place on as targets.
///
/// ```
/// use lanthorn_nn::WindowSampler;
///
/// let mut sampler = WindowSampler::new((0..1000).collect(), 8, 42)?;
/// let batch = sampler.next_batch(4)?;
/// assert_eq!(batch.targets[0], batch.ids[0] + 1);
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct WindowSampler {
    tokens: Vec<u32>,
    context: usize,
    state: SamplerState,
    /// The starts of this epoch's windows, in the order in which they are drawn.
    starts: Vec<usize>,
}

impl WindowSampler {
    /// A sampler at its beginning.
    ///
    /// Errors: fewer than `context + 1` tokens, a context of 0, a token beyond 31 bits.
    pub fn new(tokens: Vec<u32>, context: usize, seed: u64) -> Result<WindowSampler> {
        WindowSampler::restore(tokens, context, SamplerState { seed, epoch: 0, cursor: 0 })
    }

    /// The sampler of the same tokens that had this state.
    ///
    /// Errors: as [`WindowSampler::new`]; a cursor beyond the epoch's windows.
    pub fn restore(tokens: Vec<u32>, context: usize, state: SamplerState) -> Result<WindowSampler> {
        let count = tokens.len();
        if context == 0 || count <= context {
            let message = format!("{count} tokens have no window of {context} and one more");
            return Err(Error::shape("sampler", message));
        }
        check_tokens(&tokens)?;
        let starts = checked_starts(count, context, state)?;
        Ok(WindowSampler { tokens, context, state, starts })
    }

    /// Goes to where it stood.
    ///
    /// Errors: a cursor beyond the epoch's windows, and then the sampler stays where it is.
    pub fn seek(&mut self, state: SamplerState) -> Result<()> {
        self.starts = checked_starts(self.tokens.len(), self.context, state)?;
        self.state = state;
        Ok(())
    }

    /// Where the sampler stands.
    pub fn state(&self) -> SamplerState {
        self.state
    }

    /// The next `rows` windows. The last batch of an epoch is filled from the next one.
    ///
    /// Errors: 0 rows, or so many that there is no memory for a batch.
    pub fn next_batch(&mut self, rows: usize) -> Result<Batch> {
        let size = batch_size(rows, self.context)?;
        let room = || room(rows, self.context, size);
        let (mut ids, mut targets) = (room()?, room()?);
        for _ in 0..rows {
            let start = self.next_start();
            let window = self.tokens.iter().skip(start).take(self.context + 1).map(|&token| token as i32);
            ids.extend(window.clone().take(self.context));
            targets.extend(window.skip(1));
        }
        Ok(Batch { rows, context: self.context, ids, targets })
    }

    fn next_start(&mut self) -> usize {
        loop {
            if let Some(&start) = self.starts.get(self.state.cursor as usize) {
                self.state.cursor += 1;
                return start;
            }
            // There is at least one window in each epoch.
            self.state.epoch = self.state.epoch.saturating_add(1);
            self.state.cursor = 0;
            self.starts = starts(self.tokens.len(), self.context, self.state.seed, self.state.epoch);
        }
    }
}

/// Batches of `rows` windows of a sampler.
#[derive(Clone, Debug)]
pub struct TokenBatches {
    pub sampler: WindowSampler,
    pub rows: usize,
}

impl Source for TokenBatches {
    type Batch = Batch;

    fn next_batch(&mut self) -> Result<Batch> {
        self.sampler.next_batch(self.rows)
    }

    fn state(&self) -> SamplerState {
        self.sampler.state()
    }

    fn seek(&mut self, state: SamplerState) -> Result<()> {
        self.sampler.seek(state)
    }
}

/// The windows of the state's epoch, if the state can be of these tokens.
fn checked_starts(count: usize, context: usize, state: SamplerState) -> Result<Vec<usize>> {
    let starts = starts(count, context, state.seed, state.epoch);
    if state.cursor > starts.len() as u64 {
        let (cursor, windows) = (state.cursor, starts.len());
        let message = format!("the cursor is {cursor} of {windows} windows; it is of other tokens");
        return Err(Error::shape("sampler", message));
    }
    Ok(starts)
}

/// The windows of one epoch in random order. There are more than `context` tokens.
fn starts(count: usize, context: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let words = Philox::new(seed, epoch, Philox::stream_of("sampler"));
    let offset = words.below(0, context.min(count - context) as u64) as usize;
    let windows = (count - 1 - offset) / context;
    let mut starts: Vec<usize> = (0..windows).map(|window| offset + window * context).collect();
    shuffle(&words, &mut starts);
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(count: u32, context: usize, seed: u64) -> WindowSampler {
        WindowSampler::new((0..count).collect(), context, seed).unwrap()
    }

    #[test]
    fn an_epoch_shows_every_window_once() {
        let mut sampler = sampler(1003, 10, 1);
        let windows = sampler.starts.len();
        let mut seen: Vec<i32> = sampler.next_batch(windows).unwrap().ids;
        assert_eq!(sampler.state(), SamplerState { seed: 1, epoch: 0, cursor: windows as u64 });
        let order = seen.clone();
        seen.sort_unstable();
        assert_ne!(order, seen, "the order is random");
        assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]), "no token is left out or seen twice");
        assert!(seen.len() > 1003 - 20);
    }

    #[test]
    fn targets_follow_their_ids() {
        let mut sampler = sampler(500, 7, 2);
        for _ in 0..40 {
            let batch = sampler.next_batch(3).unwrap();
            assert_eq!((batch.rows, batch.context, batch.ids.len()), (3, 7, 21));
            assert!(batch.ids.iter().zip(&batch.targets).all(|(id, target)| id + 1 == *target));
        }
        assert_eq!(sampler.state().epoch, 1);
    }

    #[test]
    fn epochs_and_seeds_differ_in_offset_and_order() {
        let all: Vec<Vec<usize>> =
            [(1, 0), (1, 1), (2, 0), (2, 1)].map(|(seed, epoch)| starts(5000, 16, seed, epoch)).to_vec();
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| x != y));
        }
        let offsets: std::collections::BTreeSet<usize> =
            (0..200).map(|epoch| starts(5000, 16, 1, epoch).into_iter().min().unwrap()).collect();
        assert_eq!(offsets.len(), 16);
    }

    #[test]
    fn a_restored_sampler_goes_on_where_it_was() {
        let mut whole = sampler(300, 9, 77);
        for steps in 0..30 {
            let text = serde_json::to_string(&whole.state()).unwrap();
            let state = serde_json::from_str(&text).unwrap();
            let mut restored = WindowSampler::restore((0..300).collect(), 9, state).unwrap();
            assert_eq!(restored.next_batch(4).unwrap(), whole.next_batch(4).unwrap(), "after {steps} steps");
        }
        assert!(whole.state().epoch > 2);
    }

    #[test]
    fn the_smallest_stream_has_one_window() {
        let mut sampler = sampler(5, 4, 0);
        let batch = sampler.next_batch(2).unwrap();
        assert_eq!(batch.ids, [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(batch.targets, [1, 2, 3, 4, 1, 2, 3, 4]);
    }

    #[test]
    fn what_cannot_be_sampled_is_refused() {
        let fault =
            |tokens: Vec<u32>, context| WindowSampler::new(tokens, context, 0).unwrap_err().to_string();
        assert_eq!(fault(vec![1; 4], 4), "sampler: 4 tokens have no window of 4 and one more");
        assert_eq!(fault(vec![], 0), "sampler: 0 tokens have no window of 0 and one more");
        assert_eq!(fault(vec![u32::MAX; 9], 4), "batch: the token 4294967295 exceeds 31 bits");
        assert!(sampler(9, 4, 0).next_batch(0).is_err());
        assert!(sampler(9, 4, 0).next_batch(usize::MAX / 2).is_err());
        // 2^48 tokens are more than any address space holds.
        let none = sampler(9, 4, 0).next_batch(1 << 46).unwrap_err();
        assert_eq!(none.kind, lanthorn_ir::ErrorKind::OutOfMemory);
        let state = SamplerState { seed: 0, epoch: 0, cursor: 99 };
        assert!(WindowSampler::restore((0..50).collect(), 5, state).is_err());
    }

    #[test]
    fn the_last_tenth_is_held_out() {
        let tokens: Vec<u32> = (0..105).collect();
        let (train, held_out) = split(&tokens);
        assert_eq!((train.len(), held_out), (95, &tokens[95..]));
        assert_eq!(split(&[1, 2, 3]), (&[1, 2, 3][..], &[][..]));
    }
}
