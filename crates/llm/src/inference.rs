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

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_nn::{CachedModel, Params};
use lanthorn_runtime::{CancelToken, Device, EagerTensor};
use serde::{Deserialize, Serialize};

use crate::blocks::{Block, Blocks, Content};
use crate::cache::KvDtype;
use crate::pieces::{batch_size, piece_length};
use crate::programs::{Piece, Programs, dtype_of, split_logits};

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

#[derive(Debug)]
struct Sequence {
    /// Tokens whose keys and values are in the cache.
    length: usize,
    /// The tokens since the last full block.
    tail: Vec<u32>,
    /// The blocks that are not out of the window yet.
    blocks: VecDeque<Block>,
    /// How many blocks were before them.
    dropped: usize,
    /// What the full blocks hold; `None` after the weights have changed.
    content: Option<Content>,
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
    /// The writes to the parameters when their contents got `root`.
    version: u64,
    /// What is before all tokens under these weights.
    root: Content,
    pools: Vec<EagerTensor>,
    blocks: Blocks,
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
        let mut blocks = Blocks::new(programs.blocks);
        Ok(Inference {
            pools: programs.pools()?,
            version: version_of(&params),
            root: blocks.root(),
            programs,
            params,
            blocks,
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
        self.forget();
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
        if version_of(&self.params) != self.version {
            self.forget();
        }
        let mut sequence = self.begin(prompt);
        let reused = sequence.length;
        match self.read(&mut sequence, prompt, cancel) {
            Ok(logits) => {
                self.reused_tokens += reused as u64;
                let id = self.next_sequence;
                self.next_sequence += 1;
                self.sequences.insert(id, sequence);
                Ok((SequenceId(id), logits))
            }
            Err(error) => {
                self.give_back(sequence);
                Err(error)
            }
        }
    }

    /// Appends a token to each of some sequences; gives the logits `[vocab]` after each, in the same order.
    ///
    /// Errors: a sequence that is unknown, finished, named twice, or as long as the context; a token that the model does not
    /// know; a pool that is full; [`ErrorKind::Cancelled`]; memory. Nothing has changed then.
    pub fn step(&mut self, tokens: &[(SequenceId, u32)], cancel: &CancelToken) -> Result<Vec<Vec<f32>>> {
        self.check_step(tokens)?;
        if version_of(&self.params) != self.version {
            self.forget();
        }
        let mut taken = Vec::new();
        let result = self.reserve_step(tokens, &mut taken).and_then(|()| self.run_step(tokens, cancel));
        match result {
            Ok(logits) => {
                for (id, token) in tokens {
                    if let Some(sequence) = self.sequences.get_mut(&id.0) {
                        sequence.append(&[*token], &self.programs.options, &mut self.blocks);
                    }
                }
                Ok(logits)
            }
            Err(error) => {
                for id in taken {
                    let sequence = self.sequences.get_mut(&id);
                    if let Some(block) = sequence.and_then(|sequence| sequence.blocks.pop_back()) {
                        self.blocks.give_back(block);
                    }
                }
                Err(error)
            }
        }
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
            if sequence.length >= longest {
                let message = format!("sequence {} has {longest} tokens, which is all that fit", id.0);
                return Err(Error::shape("inference", message));
            }
            self.check_tokens(std::slice::from_ref(token))?;
        }
        Ok(())
    }

    /// Makes room for one token of each sequence; `taken` are those that have got a block.
    fn reserve_step(&mut self, tokens: &[(SequenceId, u32)], taken: &mut Vec<u64>) -> Result<()> {
        let size = self.programs.options.block_size;
        let full: Vec<u64> = (tokens.iter().map(|(id, _)| id.0))
            .filter(|id| self.sequences.get(id).is_some_and(|sequence| sequence.missing(1, size) > 0))
            .collect();
        self.expect_blocks(full.len())?;
        for id in full {
            if let Some(sequence) = self.sequences.get_mut(&id) {
                sequence.blocks.push_back(self.blocks.take()?);
                taken.push(id);
            }
        }
        Ok(())
    }

    fn run_step(&mut self, tokens: &[(SequenceId, u32)], cancel: &CancelToken) -> Result<Vec<Vec<f32>>> {
        let vocab = self.programs.model.vocab();
        let largest = self.programs.options.max_batch;
        let programs = self.programs.clone();
        let mut all = Vec::with_capacity(tokens.len());
        for tokens in tokens.chunks(largest) {
            let mut pieces = Vec::with_capacity(tokens.len());
            for (id, token) in tokens {
                let sequence = self.sequence(*id)?;
                pieces.push(Piece {
                    tokens: std::slice::from_ref(token),
                    start: sequence.length,
                    table: sequence.table(programs.slots),
                });
            }
            let logits = self.call(&pieces, batch_size(tokens.len(), largest), 1, cancel)?;
            all.extend(logits.chunks(vocab).take(tokens.len()).map(<[f32]>::to_vec));
        }
        Ok(all)
    }

    /// A sequence with as many whole blocks of the prompt as there are in the cache, but for its last token.
    fn begin(&mut self, prompt: &[u32]) -> Sequence {
        let InferenceOptions { block_size, window, .. } = self.programs.options;
        let mut content = self.root;
        let mut blocks = VecDeque::new();
        for tokens in prompt.chunks_exact(block_size) {
            if (blocks.len() + 1) * block_size >= prompt.len() {
                break;
            }
            let Some((block, next)) = self.blocks.share(content, tokens) else { break };
            blocks.push_back(block);
            content = next;
        }
        let length = blocks.len() * block_size;
        let mut sequence = Sequence { length, tail: Vec::new(), blocks, dropped: 0, content: Some(content) };
        sequence.drop_unseen(window, block_size, &mut self.blocks);
        sequence
    }

    /// Reads the tokens of a prompt that are not in the cache yet; gives the logits after the last.
    fn read(&mut self, sequence: &mut Sequence, prompt: &[u32], cancel: &CancelToken) -> Result<Vec<f32>> {
        let InferenceOptions { block_size, prefill_chunk, .. } = self.programs.options;
        loop {
            let rest = prompt.get(sequence.length..).unwrap_or_default();
            let length = piece_length(rest.len(), prefill_chunk);
            let tokens = rest.get(..length).unwrap_or(rest);
            let missing = sequence.missing(tokens.len(), block_size);
            self.expect_blocks(missing)?;
            for _ in 0..missing {
                sequence.blocks.push_back(self.blocks.take()?);
            }
            let table = sequence.table(self.programs.slots);
            let piece = Piece { tokens, start: sequence.length, table };
            let logits = self.call(&[piece], 1, length, cancel)?;
            sequence.append(tokens, &self.programs.options, &mut self.blocks);
            if sequence.length == prompt.len() {
                return Ok(logits);
            }
        }
    }

    fn expect_blocks(&self, needed: usize) -> Result<()> {
        let free = self.blocks.available();
        if needed <= free {
            return Ok(());
        }
        let (count, size) = (self.blocks.count(), self.programs.options.block_size);
        let message = format!(
            "the cache is full: {needed} more of its {count} blocks of {size} tokens are needed and {free} are free; finish a sequence, or give it more max_tokens"
        );
        Err(Error::new(ErrorKind::OutOfMemory, "inference", message))
    }

    /// Logits `[batch * vocab]` after the last token of each piece, whose keys and values are then in the pools.
    fn call(
        &mut self,
        pieces: &[Piece<'_>],
        batch: usize,
        length: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<f32>> {
        let program = self.programs.program(&self.params, batch, length)?;
        let integers = self.programs.integers(pieces, batch, length)?;
        let arguments: Vec<&EagerTensor> = self.params.values().chain(&self.pools).chain(&integers).collect();
        let (pools, logits) = split_logits(program.call(&arguments, cancel)?)?;
        self.pools = pools;
        let logits = logits.to_vec()?;
        self.computed_tokens += pieces.iter().map(|piece| piece.tokens.len() as u64).sum::<u64>();
        Ok(logits)
    }

    /// Shares nothing of what there is with sequences to come.
    fn forget(&mut self) {
        self.version = version_of(&self.params);
        self.root = self.blocks.root();
        self.sequences.values_mut().for_each(|sequence| sequence.content = None);
    }
}

impl<M> Inference<M> {
    /// Ends a sequence; its blocks are free, and keep what they hold until they are needed.
    ///
    /// Errors: a sequence that is unknown or has been finished.
    pub fn finish(&mut self, id: SequenceId) -> Result<()> {
        match self.sequences.remove(&id.0) {
            Some(sequence) => {
                self.give_back(sequence);
                Ok(())
            }
            None => Err(no_sequence(id)),
        }
    }

    /// The number of tokens of a sequence.
    ///
    /// Errors: a sequence that is unknown or has been finished.
    pub fn length(&self, id: SequenceId) -> Result<usize> {
        Ok(self.sequence(id)?.length)
    }

    fn sequence(&self, id: SequenceId) -> Result<&Sequence> {
        self.sequences.get(&id.0).ok_or_else(|| no_sequence(id))
    }

    /// The last block first: without those before it, it is of no use to another.
    fn give_back(&mut self, sequence: Sequence) {
        sequence.blocks.into_iter().rev().for_each(|block| self.blocks.give_back(block));
    }
}

impl<M: CachedModel> Inference<M> {
    /// What the cache holds and has saved.
    pub fn stats(&self) -> InferenceStats {
        InferenceStats {
            sequences: self.sequences.len(),
            blocks: self.blocks.count(),
            used_blocks: self.blocks.count() - self.blocks.available(),
            kept_blocks: self.blocks.kept(),
            bytes: self.programs.pool_bytes(),
            reused_tokens: self.reused_tokens,
            computed_tokens: self.computed_tokens,
        }
    }
}

impl Sequence {
    /// Blocks that are missing for so many more tokens.
    fn missing(&self, tokens: usize, size: usize) -> usize {
        (self.length + tokens).div_ceil(size).saturating_sub(self.dropped + self.blocks.len())
    }

    /// Counts tokens whose keys and values have been written.
    fn append(&mut self, tokens: &[u32], options: &InferenceOptions, blocks: &mut Blocks) {
        let size = options.block_size;
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
        self.drop_unseen(options.window, size, blocks);
    }

    /// Gives back the blocks of which the next token sees nothing.
    fn drop_unseen(&mut self, window: Option<usize>, size: usize, blocks: &mut Blocks) {
        let Some(window) = window else { return };
        // The next token sees `window - 1` of those that there are.
        let unseen = (self.length + 1).saturating_sub(window) / size;
        let count = unseen.saturating_sub(self.dropped).min(self.blocks.len());
        self.dropped += count;
        self.blocks.drain(..count).for_each(|block| blocks.give_back(block));
    }

    /// The block of each slot of the ring; 0 where nothing is read.
    fn table(&self, slots: usize) -> Vec<i32> {
        let mut table = vec![0; slots];
        for (&block, at) in self.blocks.iter().zip(self.dropped..) {
            if let Some(slot) = table.get_mut(at.checked_rem(slots).unwrap_or(0)) {
                *slot = block as i32;
            }
        }
        table
    }
}

fn no_sequence(id: SequenceId) -> Error {
    let message = format!("there is no sequence {}, or it has been finished", id.0);
    Error::new(ErrorKind::InvalidHandle, "inference", message)
}

/// Changes with every write to a parameter.
fn version_of(params: &Params<EagerTensor>) -> u64 {
    params.values().map(|tensor| tensor.storage().version()).fold(0, u64::wrapping_add)
}
