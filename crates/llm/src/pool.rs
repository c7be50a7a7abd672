//! The memory of a paged cache: blocks of keys and values of all layers, slots for the state of recurrent ones, and the
//! sequences that own them.
//!
//! A [`Pool`] is a handle that clones share, and so is a [`Sequence`], so that many programs and threads may use one
//! cache. Programs take the tensors of a pool one after the other and replace them by what they give; who owns which
//! block is decided under a lock that no program holds, so lengths can be read while one runs.
//!
//! Blocks of the same beginning are shared as long as the weights stay the same ([`Pool::forget`]). Where layers keep
//! running state nothing is shared: a block tells nothing about the state at its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lanthorn_ir::{Error, ErrorKind, Result, TensorType};
use lanthorn_nn::{HostTensor, KeyValueShape};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable};

use crate::blocks::{Blocks, Content};
use crate::cache::KvDtype;
use crate::sequence::{Held, Sequence};
use crate::states::{Pairs, StateShapes};

/// Where nothing is said, sequences whose running state a pool holds, or as many as it has blocks if those are fewer.
const SEQUENCES: usize = 64;

/// The sizes of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Keys, or values, of one position in each attention layer.
    pub layers: Vec<KeyValueShape>,
    /// Tokens that the pool holds, of all sequences together; rounded up to whole blocks.
    pub max_tokens: usize,
    /// Tokens of a block: what is shared and freed at a time.
    pub block_size: usize,
    /// How keys and values are kept.
    pub kv_dtype: KvDtype,
    /// What recurrent layers keep of a sequence.
    pub states: StateShapes,
    /// Sequences with tokens, at a time, whose state the pool holds; 0 where no layer keeps state.
    pub sequences: usize,
}

impl PoolOptions {
    /// A pool for attention layers of these shapes.
    pub fn new(
        layers: Vec<KeyValueShape>,
        max_tokens: usize,
        block_size: usize,
        kv_dtype: KvDtype,
    ) -> PoolOptions {
        let states = StateShapes::default();
        PoolOptions { layers, max_tokens, block_size, kv_dtype, states, sequences: 0 }
    }

    /// The same with the running state of so many sequences; of 64, or of as many as there are blocks, where nothing is
    /// said.
    pub fn with_states(self, states: StateShapes, sequences: Option<usize>) -> PoolOptions {
        let default = self.blocks().min(SEQUENCES);
        let sequences = if states.is_empty() { 0 } else { sequences.unwrap_or(default) };
        PoolOptions { states, sequences, ..self }
    }

    /// A pool for layers that are all alike.
    pub fn uniform(
        layers: usize,
        kv_heads: usize,
        head_dim: usize,
        max_tokens: usize,
        block_size: usize,
        kv_dtype: KvDtype,
    ) -> PoolOptions {
        let layers = vec![KeyValueShape { heads: kv_heads, head_dim }; layers];
        PoolOptions::new(layers, max_tokens, block_size, kv_dtype)
    }

    /// Blocks in all.
    pub fn blocks(&self) -> usize {
        self.max_tokens.div_ceil(self.block_size.max(1))
    }

    /// Blocks that one sequence can have at a time, under a window and with so many tokens in one call.
    pub(crate) fn slots(&self, window: Option<usize>, length: usize) -> usize {
        let all = self.blocks();
        match window {
            // The first token of a piece sees a window, and a block may begin at any of its tokens.
            Some(window) => {
                (window.saturating_add(length)).div_ceil(self.block_size.max(1)).saturating_add(1).min(all)
            }
            None => all,
        }
    }

    /// The tensors of each attention layer.
    pub(crate) fn types(&self) -> Vec<Vec<TensorType>> {
        let types = |&shape| self.kv_dtype.types(shape, self.blocks(), self.block_size);
        self.layers.iter().map(types).collect()
    }

    /// The tensors of running state, behind those of attention layers.
    pub(crate) fn state_types(&self) -> Vec<TensorType> {
        self.states.types(self.kv_dtype.state_dtype(), self.sequences)
    }

    /// Bytes of keys and values.
    pub fn block_bytes(&self) -> usize {
        self.types().iter().flatten().map(TensorType::bytes).sum()
    }

    /// Bytes of running state.
    pub fn state_bytes(&self) -> usize {
        self.state_types().iter().map(TensorType::bytes).sum()
    }

    /// Bytes of the tensors.
    pub fn bytes(&self) -> usize {
        self.block_bytes() + self.state_bytes()
    }

    /// Refuses sizes that make no pool.
    pub fn check(&self) -> Result<()> {
        let heads = (self.layers.iter())
            .flat_map(|shape| [("kv_heads", shape.heads, 1), ("head_dim", shape.head_dim, 1)]);
        // Without layers that keep state there must be some with keys and values.
        let (least, keeps) = (usize::from(self.states.is_empty()), usize::from(!self.states.is_empty()));
        let sizes = [
            ("layers", self.layers.len(), least),
            ("max_tokens", self.max_tokens, 1),
            ("block_size", self.block_size, 1),
            ("sequences", self.sequences, keeps),
        ];
        for (name, size, least) in sizes.into_iter().chain(heads).chain(self.states.sizes()) {
            let limit = i32::MAX as usize / 4;
            if size < least || size > limit {
                return Err(Error::shape("pool", format!("{name} is {size}, expected {least} to {limit}")));
            }
        }
        Ok(())
    }

    /// The first size in which a pool is another than this one, with what was found and what is here.
    pub(crate) fn difference(&self, found: &PoolOptions) -> Option<(&'static str, String, String)> {
        let differs = |name, found: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
            let (found, expected) = (found.to_string(), expected.to_string());
            (found != expected).then_some((name, found, expected))
        };
        let attention = |name, of: fn(&KeyValueShape) -> usize| {
            let mut pairs = found.layers.iter().map(of).zip(self.layers.iter().map(of));
            pairs.find_map(|(found, expected)| differs(name, &found, &expected))
        };
        let state = || {
            let mut pairs = found.states.sizes().zip(self.states.sizes());
            pairs.find_map(|((name, found, _), (_, expected, _))| differs(name, &found, &expected))
        };
        let (states, other) = (&self.states, &found.states);
        differs("layers", &found.layers.len(), &self.layers.len())
            .or_else(|| attention("kv_heads", |shape| shape.heads))
            .or_else(|| attention("head_dim", |shape| shape.head_dim))
            .or_else(|| differs("kda_layers", &other.deltas.len(), &states.deltas.len()))
            .or_else(|| differs("conv_layers", &other.convs.len(), &states.convs.len()))
            .or_else(state)
            .or_else(|| differs("block_size", &found.block_size, &self.block_size))
            .or_else(|| differs("max_tokens", &found.room(), &self.room()))
            .or_else(|| differs("kv_dtype", &found.kv_dtype, &self.kv_dtype))
            .or_else(|| differs("sequences", &found.sequences, &self.sequences))
    }

    /// Tokens of all blocks.
    fn room(&self) -> usize {
        self.blocks().saturating_mul(self.block_size)
    }
}

impl std::fmt::Display for PoolOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first = self.layers.first().copied().unwrap_or(KeyValueShape { heads: 0, head_dim: 0 });
        let (layers, blocks, size) = (self.layers.len(), self.blocks(), self.block_size);
        let KeyValueShape { heads, head_dim } = first;
        write!(f, "{layers} layers of {heads} heads of {head_dim} in {}", self.kv_dtype)?;
        if self.layers.iter().any(|&shape| shape != first) {
            write!(f, " (others differ)")?;
        }
        write!(f, ", {blocks} blocks of {size} tokens")?;
        let StateShapes { deltas, convs } = &self.states;
        if !self.states.is_empty() {
            let (deltas, convs, sequences) = (deltas.len(), convs.len(), self.sequences);
            write!(f, ", state of {deltas} delta rules and {convs} convolutions for {sequences} sequences")?;
        }
        Ok(())
    }
}

/// What a pool holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Sequences that have not been released.
    pub sequences: usize,
    /// Blocks in all.
    pub blocks: usize,
    /// Blocks that a sequence uses.
    pub used_blocks: usize,
    /// Blocks that no sequence uses and that keep what they hold until they are needed.
    pub kept_blocks: usize,
    /// Sequences whose running state it holds.
    pub used_states: usize,
    /// Bytes of keys, values and running state.
    pub bytes: usize,
}

/// A cache of keys and values for many sequences; clones are handles to the same one.
///
/// ```
/// # fn main() -> lanthorn_ir::Result<()> {
/// use lanthorn_llm::{KvDtype, Pool, PoolOptions};
/// let device = lanthorn_runtime::Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
/// let pool = Pool::new(&device, PoolOptions::uniform(2, 4, 16, 100, 8, KvDtype::F16))?;
/// // 13 blocks of 8 tokens, keys and values.
/// assert_eq!(pool.stats().bytes, 2 * 2 * 13 * 8 * 4 * 16 * 2);
/// let sequence = pool.sequence();
/// assert_eq!(sequence.length()?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    options: PoolOptions,
    /// Keys and values of all layers, and running state. A program holds this lock while it runs.
    tensors: Mutex<Vec<EagerTensor>>,
    /// Never held while a program runs, nor taken before `tensors`.
    owners: Mutex<Owners>,
}

/// Who owns which block, and which slots.
#[derive(Debug)]
pub(crate) struct Owners {
    pub blocks: Blocks,
    pub pairs: Pairs,
    /// Sequences keep running state: each has a pair, and shares nothing.
    pub keeps_state: bool,
    pub sequences: BTreeMap<u64, Held>,
    next_sequence: u64,
    /// What is before all tokens under the weights at hand.
    pub root: Content,
    /// Tells those weights apart; `None` before the first call.
    weights: Option<u64>,
}

impl Owners {
    /// What a sequence without tokens goes on from, if others may share what it will hold.
    fn beginning(&self) -> Option<Content> {
        (!self.keeps_state).then_some(self.root)
    }

    fn forget(&mut self) {
        self.root = self.blocks.root();
        let beginning = self.beginning();
        for held in self.sequences.values_mut() {
            // What has not begun yet begins under the new weights.
            held.content = beginning.filter(|_| held.length == 0 && !held.is_in_call);
        }
    }

    /// Says under which weights what follows is; where those are others than before, nothing of before is shared.
    pub fn expect_weights(&mut self, weights: u64) {
        if self.weights.replace(weights).is_some_and(|before| before != weights) {
            self.forget();
        }
    }

    /// A call about this sequence has ended.
    pub fn end_call(&mut self, id: u64) {
        let beginning = self.beginning();
        let Some(held) = self.sequences.get_mut(&id) else { return };
        held.is_in_call = false;
        if held.length == 0 {
            held.content = beginning;
        }
        if held.is_released {
            self.remove(id);
        }
    }

    /// Forgets a sequence, and gives back what it has; false where there is none.
    pub fn remove(&mut self, id: u64) -> bool {
        let Some(held) = self.sequences.remove(&id) else { return false };
        if let Some(pair) = held.state {
            self.pairs.give_back(pair);
        }
        held.give_back(&mut self.blocks);
        true
    }
}

impl Pool {
    /// An empty pool.
    ///
    /// Errors: sizes that make no pool; memory.
    pub fn new(device: &Device, options: PoolOptions) -> Result<Pool> {
        options.check()?;
        // Zeros and not unspecified memory: what is not read should not be NaN either.
        let zeros = |ty: TensorType| HostTensor::zeros(ty)?.to_device(device);
        let types = options.types().into_iter().flatten().chain(options.state_types());
        let tensors = types.map(zeros).collect::<Result<Vec<_>>>()?;
        let mut blocks = Blocks::new(options.blocks());
        let root = blocks.root();
        let owners = Owners {
            blocks,
            pairs: Pairs::new(options.sequences),
            keeps_state: !options.states.is_empty(),
            sequences: BTreeMap::new(),
            next_sequence: 0,
            root,
            weights: None,
        };
        let inner = Inner {
            device: device.clone(),
            options,
            tensors: Mutex::new(tensors),
            owners: Mutex::new(owners),
        };
        Ok(Pool { inner: Arc::new(inner) })
    }

    /// Where the keys and values lie.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The sizes.
    pub fn options(&self) -> &PoolOptions {
        &self.inner.options
    }

    /// True if both are handles to one pool.
    pub fn is_same(&self, other: &Pool) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A sequence without tokens.
    pub fn sequence(&self) -> Sequence {
        let mut owners = self.owners();
        let id = owners.next_sequence;
        owners.next_sequence += 1;
        let held = Held::new(owners.beginning());
        owners.sequences.insert(id, held);
        Sequence::new(self.clone(), id)
    }

    /// Shares nothing of what there is with sequences to come. Sequences that there are go on.
    pub fn forget(&self) {
        self.owners().forget();
    }

    /// What the pool holds.
    pub fn stats(&self) -> PoolStats {
        let owners = self.owners();
        PoolStats {
            sequences: owners.sequences.len(),
            blocks: owners.blocks.count(),
            used_blocks: owners.blocks.count() - owners.blocks.available(),
            kept_blocks: owners.blocks.kept(),
            used_states: owners.pairs.used(),
            bytes: self.inner.options.bytes(),
        }
    }

    pub(crate) fn owners(&self) -> MutexGuard<'_, Owners> {
        self.inner.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a program with `first`, the tensors of the pool (donated to its first results) and `last`; gives the other
    /// results. After a call that fails, the pool is as it was.
    pub(crate) fn run(
        &self,
        program: &Executable,
        first: &[&EagerTensor],
        last: &[EagerTensor],
        cancel: &CancelToken,
    ) -> Result<Vec<EagerTensor>> {
        let mut tensors = self.inner.tensors.lock().unwrap_or_else(PoisonError::into_inner);
        let arguments: Vec<&EagerTensor> = first.iter().copied().chain(tensors.iter()).chain(last).collect();
        let mut results = program.call(&arguments, cancel)?;
        if results.len() < tensors.len() {
            let message = "a program gave fewer results than the pool has tensors";
            return Err(Error::new(ErrorKind::Execute, "pool", message));
        }
        let others = results.split_off(tensors.len());
        *tensors = results;
        Ok(others)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool of {} on {}", self.inner.options, self.inner.device)
    }
}

/// Changes with every write to a tensor, and with the tensors themselves; in which order they are does not matter.
pub(crate) fn weights_of<'a>(tensors: impl IntoIterator<Item = &'a EagerTensor>) -> u64 {
    let one = |tensor: &EagerTensor| {
        let storage = tensor.storage();
        let [serial, version, offset] = [storage.serial(), storage.version(), tensor.layout().offset as u64];
        mixed(mixed(mixed(serial) ^ version) ^ offset)
    };
    tensors.into_iter().map(one).fold(0, u64::wrapping_add)
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
