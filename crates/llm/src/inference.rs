//! Causal inference over many sequences with one cache of keys and values.
//!
//! The cache is a pool of *blocks* of `block_size` tokens (Kwon et al. 2023, "PagedAttention"), and a sequence a list of
//! blocks, so that sequences of any lengths share the memory without gaps. Which blocks and positions a call is about are
//! arguments of few programs, so decoding never compiles again, and the pools are donated from call to call and written in
//! place.
//!
//! - A prompt is read in *pieces* of at most `prefill_chunk` tokens ([`Inference::add`]). Whole blocks at its beginning that
//!   another sequence has computed under the same weights are shared instead of computed, also those of finished sequences
//!   as long as nobody has needed their room. They are found by all tokens up to their end, compared one by one.
//! - A *step* appends one token to each of some sequences, however long each of them is ([`Inference::step`]). It is one
//!   call for at most `max_batch` of them; batches are filled up to powers of two.
//! - Under a *window* a token sees the last so many tokens, its own included, and blocks that fall out of it are free
//!   again. A model without learned positions then goes on for ever in bounded memory.
//! - What a call writes lies behind the sequences' ends, so a call that fails or is cancelled changes nothing.
//!
//! Keys and values may be kept in fewer bits than the model computes in ([`KvDtype`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_nn::{CachedModel, Params};
use lanthorn_runtime::{CancelToken, Device, EagerTensor};
use serde::{Deserialize, Serialize};

use crate::cache::KvDtype;
use crate::pieces::{Piece, batch_size, piece_length};
use crate::pool::{Pool, PoolStats, weights_of};
use crate::programs::{Programs, dtype_of};
use crate::reservation::Reservation;
use crate::sequence::Sequence;

/// The sizes of a cache and of calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferenceOptions {
    /// Tokens that the pool holds, of all sequences together; rounded up to whole blocks.
    pub max_tokens: usize,
    /// Tokens of a block: what is shared and freed at a time.
    pub block_size: usize,
    /// The most tokens of a prompt in one call; no more than a context.
    pub prefill_chunk: usize,
    /// A token sees the last so many tokens, its own included.
    pub window: Option<usize>,
    /// How keys and values are kept; as the parameters where absent.
    pub kv_dtype: Option<KvDtype>,
    /// The most sequences in one call.
    pub max_batch: usize,
}

impl InferenceOptions {
    /// Blocks of 16 tokens, pieces of 1,024, batches of 8, no window.
    pub fn new(max_tokens: usize) -> InferenceOptions {
        InferenceOptions {
            max_tokens,
            block_size: 16,
            prefill_chunk: 1024,
            window: None,
            kv_dtype: None,
            max_batch: 8,
        }
    }

    /// Refuses sizes that make no cache.
    pub(crate) fn check(&self, context: usize) -> Result<()> {
        let most = i32::MAX as usize / 4;
        for (name, size, limit) in [
            ("max_tokens", self.max_tokens, most),
            ("block_size", self.block_size, most),
            ("prefill_chunk", self.prefill_chunk, most),
            ("window", self.window.unwrap_or(1), context),
            ("max_batch", self.max_batch, most),
        ] {
            if size == 0 || size > limit {
                let message = format!("{name} is {size}, expected 1 to {limit}");
                return Err(Error::shape("inference", message));
            }
        }
        Ok(())
    }
}

/// A sequence of one [`Inference`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(u64);

/// What a cache holds and has saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InferenceStats {
    /// Sequences that have not been finished.
    pub sequences: usize,
    /// Blocks in all.
    pub blocks: usize,
    /// Blocks that a sequence uses.
    pub used_blocks: usize,
    /// Blocks that no sequence uses and that keep what they hold until they are needed.
    pub kept_blocks: usize,
    /// Bytes of the pools.
    pub bytes: usize,
    /// Tokens of prompts that were found in the cache, since the beginning.
    pub reused_tokens: u64,
    /// Tokens that were computed, since the beginning.
    pub computed_tokens: u64,
}

/// A model with its parameters on a device and a cache for many sequences.
///
/// ```
/// # fn main() -> lanthorn_ir::Result<()> {
/// use lanthorn_ir::DType;
/// use lanthorn_llm::{Inference, InferenceOptions, Sampling};
/// use lanthorn_nn::{Gpt, GptConfig, Model, params};
/// use lanthorn_runtime::{CancelToken, Device};
///
/// let device = Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
/// let gpt = Gpt::new(GptConfig { layers: 1, width: 16, heads: 2, ..GptConfig::small(50) })?;
/// let params = params::initial(&gpt.specs(), 1, DType::F32)?.try_map(|_, x| x.to_device(&device))?;
/// let mut inference = Inference::new(&device, gpt, params, InferenceOptions::new(256))?;
///
/// let never = CancelToken::never();
/// let (first, logits) = inference.add(&[3, 1, 4], &never)?;
/// let (second, _) = inference.add(&[2, 7, 1, 8], &never)?;
/// let token = Sampling::greedy().choose(&logits, &[], 0)?;
/// let logits = inference.step(&[(first, token), (second, 28)], &never)?;
/// assert_eq!((logits.len(), logits[0].len()), (2, 50));
/// inference.finish(first)?;
/// assert_eq!(inference.length(second)?, 5);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Inference<M> {
    programs: Arc<Programs<M>>,
    params: Params<EagerTensor>,
    pool: Pool,
    sequences: BTreeMap<u64, Sequence>,
    next_sequence: u64,
    reused_tokens: u64,
    computed_tokens: u64,
}

impl<M: CachedModel> Inference<M> {
    /// A model with these parameters, which it shares with whoever else holds them.
    ///
    /// Errors: sizes that make no cache; a parameter that is missing, superfluous, or of another type than the model's;
    /// memory.
    pub fn new(
        device: &Device,
        model: M,
        params: Params<EagerTensor>,
        options: InferenceOptions,
    ) -> Result<Inference<M>> {
        let programs = Programs::new(device, model, dtype_of(&params), options)?;
        let params = programs.matched("inference", params)?;
        Inference::of_programs(Arc::new(programs), params)
    }

    /// A cache of its own for programs and parameters in the model's order.
    pub(crate) fn of_programs(programs: Arc<Programs<M>>, params: Params<EagerTensor>) -> Result<Self> {
        Ok(Inference {
            pool: Pool::new(&programs.device, programs.pool.clone())?,
            programs,
            params,
            sequences: BTreeMap::new(),
            next_sequence: 0,
            reused_tokens: 0,
            computed_tokens: 0,
        })
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.programs.model
    }

    /// Puts other parameters in place. Sequences that there are go on with them; what was computed before is not shared
    /// with sequences that begin afterwards. Parameters that are written where they lie are noticed without this.
    ///
    /// Errors: a parameter that is missing, superfluous, or of another type.
    pub fn set_params(&mut self, params: Params<EagerTensor>) -> Result<()> {
        self.params = self.programs.matched("inference", params)?;
        Ok(())
    }

    /// Reads a prompt; gives the sequence and the logits `[vocab]` after its last token.
    ///
    /// Errors: an empty prompt, one that exceeds the context, a token that the model does not know; a pool that is full;
    /// [`ErrorKind::Cancelled`]; memory. There is no sequence then, but what has been read is kept for another try while
    /// there is room.
    pub fn add(&mut self, prompt: &[u32], cancel: &CancelToken) -> Result<(SequenceId, Vec<f32>)> {
        let fail = |message: String| Err(Error::shape("inference", message));
        if prompt.is_empty() {
            return fail("the prompt is empty, expected at least one token".into());
        }
        if prompt.len() > self.programs.longest {
            let longest = self.programs.longest;
            return fail(format!("the prompt has {} tokens, expected at most {longest}", prompt.len()));
        }
        self.check_tokens(prompt)?;
        self.pool.owners().expect_weights(weights_of(self.params.values()));
        let sequence = self.pool.sequence();
        let reused = sequence.share_within(prompt, self.programs.options.window)?;
        let logits = self.read(&sequence, &prompt[reused.min(prompt.len())..], cancel)?;
        self.reused_tokens += reused as u64;
        let id = self.next_sequence;
        self.next_sequence += 1;
        self.sequences.insert(id, sequence);
        Ok((SequenceId(id), logits))
    }

    /// Appends a token to each of some sequences; gives the logits `[vocab]` after each, in the same order.
    ///
    /// Errors: a sequence that is unknown, finished, named twice, or as long as the context; a token that the model does not
    /// know; a pool that is full; [`ErrorKind::Cancelled`]; memory. Nothing has changed then.
    pub fn step(&mut self, tokens: &[(SequenceId, u32)], cancel: &CancelToken) -> Result<Vec<Vec<f32>>> {
        self.check_step(tokens)?;
        let max_batch = self.programs.options.max_batch;
        let entries = (tokens.iter())
            .map(|(id, token)| Ok((self.sequence(*id)?, std::slice::from_ref(token))))
            .collect::<Result<Vec<_>>>()?;
        let room = self.reserve(&self.pool, &entries)?;
        let vocab = self.programs.model.vocab();
        let mut all = Vec::with_capacity(tokens.len());
        for pieces in room.pieces(self.programs.slots).chunks(max_batch) {
            let logits = self.call(pieces, batch_size(pieces.len(), max_batch), 1, cancel)?;
            all.extend(logits.chunks(vocab).take(pieces.len()).map(<[f32]>::to_vec));
        }
        room.commit();
        self.computed_tokens += tokens.len() as u64;
        Ok(all)
    }

    fn check_tokens(&self, tokens: &[u32]) -> Result<()> {
        let vocab = self.programs.model.vocab();
        match tokens.iter().find(|&&token| token as usize >= vocab) {
            None => Ok(()),
            Some(token) => {
                let message = format!("there is a token {token}, the model knows those below {vocab}");
                Err(Error::shape("inference", message))
            }
        }
    }

    fn check_step(&self, tokens: &[(SequenceId, u32)]) -> Result<()> {
        let longest = self.programs.longest;
        let mut seen = std::collections::BTreeSet::new();
        for (id, token) in tokens {
            let sequence = self.sequence(*id)?;
            if !seen.insert(id.0) {
                let message = format!("sequence {} is named twice in one step", id.0);
                return Err(Error::shape("inference", message));
            }
            if sequence.length()? >= longest {
                let message = format!("sequence {} has {longest} tokens, which is all that fit", id.0);
                return Err(Error::shape("inference", message));
            }
            self.check_tokens(std::slice::from_ref(token))?;
        }
        Ok(())
    }

    /// Reads the tokens of a prompt that are not in the cache yet; gives the logits after the last.
    fn read(&mut self, sequence: &Sequence, mut rest: &[u32], cancel: &CancelToken) -> Result<Vec<f32>> {
        let prefill_chunk = self.programs.options.prefill_chunk;
        let pool = self.pool.clone();
        loop {
            let length = piece_length(rest.len(), prefill_chunk);
            let (tokens, after) = rest.split_at(length.min(rest.len()));
            let room = self.reserve(&pool, &[(sequence, tokens)])?;
            let logits = self.call(&room.pieces(self.programs.slots), 1, length, cancel)?;
            room.commit();
            self.computed_tokens += tokens.len() as u64;
            if after.is_empty() {
                return Ok(logits);
            }
            rest = after;
        }
    }

    fn reserve<'a>(&self, pool: &'a Pool, entries: &[(&'a Sequence, &'a [u32])]) -> Result<Reservation<'a>> {
        let weights = weights_of(self.params.values());
        Reservation::new("inference", pool, entries, self.programs.options.window, weights)
    }

    /// Logits `[batch * vocab]` after the last token of each piece, whose keys and values are then in the pool.
    fn call(
        &self,
        pieces: &[Piece<'_>],
        batch: usize,
        length: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<f32>> {
        let program = self.programs.program(&self.params, batch, length)?;
        let integers = self.programs.sizes(batch, length).arguments(&self.programs.device, pieces)?;
        let params: Vec<&EagerTensor> = self.params.values().collect();
        let results = self.pool.run(&program, &params, &integers, cancel)?;
        let missing = || Error::new(ErrorKind::Execute, "inference", "the program gave no logits");
        results.first().ok_or_else(missing)?.to_vec()
    }
}

impl<M> Inference<M> {
    /// Ends a sequence; its blocks are free, and keep what they hold until they are needed.
    ///
    /// Errors: a sequence that is unknown or has been finished.
    pub fn finish(&mut self, id: SequenceId) -> Result<()> {
        match self.sequences.remove(&id.0) {
            Some(sequence) => sequence.release(),
            None => Err(no_sequence(id)),
        }
    }

    /// The number of tokens of a sequence.
    ///
    /// Errors: a sequence that is unknown or has been finished.
    pub fn length(&self, id: SequenceId) -> Result<usize> {
        self.sequence(id)?.length()
    }

    fn sequence(&self, id: SequenceId) -> Result<&Sequence> {
        self.sequences.get(&id.0).ok_or_else(|| no_sequence(id))
    }
}

impl<M: CachedModel> Inference<M> {
    /// What the cache holds and has saved.
    pub fn stats(&self) -> InferenceStats {
        let PoolStats { blocks, used_blocks, kept_blocks, bytes, .. } = self.pool.stats();
        InferenceStats {
            sequences: self.sequences.len(),
            blocks,
            used_blocks,
            kept_blocks,
            bytes,
            reused_tokens: self.reused_tokens,
            computed_tokens: self.computed_tokens,
        }
    }
}

fn no_sequence(id: SequenceId) -> Error {
    let message = format!("there is no sequence {}, or it has been finished", id.0);
    Error::new(ErrorKind::InvalidHandle, "inference", message)
}
