//! Programs over a paged cache, of a forward that somebody has traced.
//!
//! The graph is the uncached forward of one sequence: token ids `[1, length]` and their `positions [length]` to logits. A
//! [`DecodeProgram`] is the same graph over the sequences of a batch ([`transform::vmap_graph`](lanthorn_ir::transform)),
//! in which every causal attention writes its keys and values into a [`Pool`] and reads those of all tokens before, and
//! every gated delta rule and short convolution goes on from the state that its sequence has there. So one forward serves
//! training, reading a prompt in pieces, and steps of one token.
//!
//! - `rows` follows the tokens through the graph and refuses what would not give the uncached forward's numbers;
//! - `kept` says which recurrences have a state that can be kept;
//! - `cached` maps it over the batch and puts the cache in the place of attention, and `recurrent` the state in the place of
//!   what a recurrence begins with;
//! - `widen` has it look at two tokens where the graph was traced for one;
//! - `last` takes the row of the last token before the map to the logits.
//!
//! Layers are counted in the graph's topological order, so programs of one model, traced for different lengths, agree on
//! them and take the same pool.

mod cached;
mod kept;
mod last;
mod recurrent;
mod rows;
mod widen;

use lanthorn_ir::{DType, Error, ErrorKind, Lazy, Result, TensorType, Value, ops};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};
use serde::{Deserialize, Serialize};

use crate::cache::{KvDtype, PagedCache};
use crate::draw::Draw;
use crate::pieces::CallSizes;
use crate::pool::{Pool, PoolOptions, weights_of};
use crate::reservation::Reservation;
use crate::sequence::Sequence;
use cached::{Caches, narrower, over_batch, without_checkpoints};
use last::{LastRow, of_sequences};
use recurrent::{Places, RunningStates};
use rows::{Analysis, Layer};
use widen::check_two;

const OP: &str = "decode";

/// A traced forward of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Traced<'a> {
    /// What a call gives, logits first.
    pub roots: &'a [Value],
    /// The leaf of the token ids, `[1, length]`, of an integer dtype.
    pub tokens: &'a Value,
    /// Leaves of the tokens' positions, each `i32[length]`.
    pub positions: &'a [Value],
    /// The other leaves that a call binds, such as parameters, in the order in which it does. Leaves that have elements
    /// need not be among them.
    pub bindings: &'a [Value],
}

/// The sizes of a cache and of the calls of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecodeRequest {
    /// Tokens that the pool holds, of all sequences together; rounded up to whole blocks.
    pub max_tokens: usize,
    /// Tokens of a block.
    pub block_size: usize,
    pub kv_dtype: KvDtype,
    /// A token sees the last so many tokens, its own included; fewer in layers whose attention has a narrower window.
    #[serde(default)]
    pub window: Option<usize>,
    /// The most sequences in one call.
    pub batch: usize,
    /// Results have the row of the last token alone.
    #[serde(default)]
    pub last_token_row: bool,
    /// Sequences with tokens, at a time, of which the pool holds the state of recurrent layers, where there are some; as
    /// many as there are blocks, up to 64, if absent.
    #[serde(default)]
    pub sequences: Option<usize>,
}

impl DecodeRequest {
    fn check(&self) -> Result<()> {
        let limit = i32::MAX as usize / 4;
        for (name, size) in [
            ("max_tokens", self.max_tokens),
            ("block_size", self.block_size),
            ("window", self.window.unwrap_or(1)),
            ("batch", self.batch),
            ("sequences", self.sequences.unwrap_or(1)),
        ] {
            if size == 0 || size > limit {
                return Err(Error::shape(OP, format!("{name} is {size}, expected 1 to {limit}")));
            }
        }
        Ok(())
    }
}

/// A compiled program for a batch of sequences of a pool.
#[derive(Debug)]
pub struct DecodeProgram {
    executable: Executable,
    request: DecodeRequest,
    pool: PoolOptions,
    sizes: CallSizes,
    bindings: usize,
    /// Of which the blocks are dropped that no token to come sees.
    window: Option<usize>,
    /// The most tokens of a sequence.
    longest: usize,
    /// The first result's tokens stand in its last but one axis.
    is_logits: bool,
}

impl DecodeProgram {
    /// The program of a graph. `options` say how it is compiled; what is donated is the program's business.
    ///
    /// Errors: sizes that make no cache; leaves of other types; a graph without causal attention, gated delta rule or short
    /// convolution, or in which anything else brings tokens together, by the name of the op, also where it was traced for
    /// one token; what the device lacks.
    pub fn new(
        device: &Device,
        traced: Traced<'_>,
        request: &DecodeRequest,
        options: &Options,
    ) -> Result<DecodeProgram> {
        request.check()?;
        let length = check_leaves(&traced)?;
        let roots = without_checkpoints(traced.roots)?;
        let analysis = Analysis::of(&roots, traced.tokens, traced.positions)?;
        if length == 1 {
            check_two(&roots, traced.tokens, traced.positions)?;
        }
        let shapes = analysis.layers.iter().map(|layer| layer.shape).collect();
        let pool = PoolOptions::new(shapes, request.max_tokens, request.block_size, request.kv_dtype)
            .with_states(analysis.states.widest(), request.sequences);
        pool.check()?;
        check_state_dtypes(&analysis.state_dtypes, request.kv_dtype)?;
        let window = shown(&analysis.layers, request.window);
        let sizes = CallSizes {
            batch: request.batch,
            length,
            slots: pool.slots(window, length),
            keeps_state: !pool.states.is_empty(),
        };
        let leaves = sizes.leaves()?;
        let tensors = (pool.types().into_iter())
            .map(|types| types.into_iter().map(Value::leaf).collect::<Result<Vec<_>>>())
            .collect::<Result<Vec<_>>>()?;
        let states = pool.state_types().into_iter().map(Value::leaf).collect::<Result<Vec<_>>>()?;

        let mut parameters = traced.bindings.to_vec();
        let first = parameters.len() as u32;
        parameters.extend(tensors.iter().flatten().chain(&states).cloned());
        let kept = first..parameters.len() as u32;
        parameters.extend(sizes.parameters(&leaves));

        let lasts: Option<Vec<LastRow>> = (request.last_token_row && length > 1)
            .then(|| roots.iter().map(|root| LastRow::of(&analysis, root)).collect());
        let cuts: Vec<Value> = match &lasts {
            Some(lasts) => lasts.iter().map(|last| last.cut.clone()).collect(),
            None => roots.clone(),
        };
        let mut replaced = vec![(traced.tokens.clone(), ids_of(traced.tokens, &leaves.ids)?)];
        replaced.extend(traced.positions.iter().map(|leaf| (leaf.clone(), leaves.positions.clone())));
        let [from, to] = leaves.states;
        let (starts, counts) = (leaves.tables.starts.clone(), leaves.tables.counts.clone());
        let places = Places { starts, counts, from, to };
        let mut caches = Caches {
            attention: PagedCache::new(tensors, leaves.tables, request.window),
            states: (sizes.keeps_state).then(|| RunningStates::new(states, pool.states.deltas.len(), places)),
        };
        let mut found = over_batch(&cuts, &replaced, request.batch, &analysis, request.window, &mut caches)
            .map_err(|error| explained(error, request.kv_dtype))?;
        if let Some(lasts) = &lasts {
            for (last, value) in lasts.iter().zip(&mut found) {
                *value = last.take(&analysis, value, &leaves.last, request.batch)?;
            }
        }
        let mut results = caches.into_tensors();
        for (root, value) in roots.iter().zip(&found) {
            let axis = analysis.own_axis(root);
            results.push(of_sequences(value, root.ty(), axis, request.last_token_row)?);
        }
        // Nobody reads the rows and states of a call that failed: a sequence counts its tokens, and goes on with another
        // state, when one has ended.
        let (donated, half_written) = (kept.clone().zip(0..).collect(), kept.collect());
        let options = Options { donated, half_written, ..options.clone() };
        let executable = Executable::new(device, &parameters, &results, &options)?;
        let is_logits = roots.first().is_some_and(|root| {
            analysis.own_axis(root).is_some_and(|axis| axis + 2 == root.ty().rank())
                && root.ty().dtype.is_float()
        });
        Ok(DecodeProgram {
            executable,
            request: request.clone(),
            bindings: traced.bindings.len(),
            longest: analysis.longest.unwrap_or(usize::MAX).min(i32::MAX as usize),
            pool,
            sizes,
            window,
            is_logits,
        })
    }

    /// The pool that it takes.
    pub fn pool(&self) -> &PoolOptions {
        &self.pool
    }

    /// What was asked for.
    pub fn request(&self) -> &DecodeRequest {
        &self.request
    }

    /// The most tokens of a sequence in one call.
    pub fn length(&self) -> usize {
        self.sizes.length
    }

    /// The most tokens that a sequence can ever have, where a table of positions bounds them.
    pub fn longest(&self) -> Option<usize> {
        (self.longest < i32::MAX as usize).then_some(self.longest)
    }

    /// The types of the results for a whole batch: the leading axis is that of the sequences, in the place of the one of
    /// the traced sequence if its roots had one. Under `last_token_row` the axis of the tokens is gone.
    pub fn results(&self) -> &[TensorType] {
        self.executable.results().get(self.tensors()..).unwrap_or_default()
    }

    /// What is run. Arguments: bindings, the pool's tensors, ids, positions, tables, starts, counts, slots of running state
    /// to read and to write if there is some, and last rows of more than one token; results: the pool's tensors, then those
    /// of the roots.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    fn tensors(&self) -> usize {
        self.pool.types().iter().map(Vec::len).sum::<usize>() + self.pool.state_types().len()
    }

    /// Reads 1 to `length` tokens behind each of at most `batch` sequences, which then are so much longer. Gives the
    /// roots, with the sequences along the leading axis; rows behind a sequence's tokens hold nothing of use.
    ///
    /// Where the bindings are other tensors than in the calls before, or have been written to, blocks of those calls are
    /// not shared with sequences to come; sequences that have been read go on.
    ///
    /// Errors: a pool of other sizes, bindings of other types; sequences that are of another pool, named twice, released
    /// or in another call; no tokens or too many; a pool that is full; positions that the model does not have;
    /// [`ErrorKind::Cancelled`]; what kernels report, such as an id out of range. Nothing has changed then.
    pub fn call(
        &self,
        pool: &Pool,
        bindings: &[&EagerTensor],
        sequences: &[&Sequence],
        tokens: &[&[u32]],
        cancel: &CancelToken,
    ) -> Result<Vec<EagerTensor>> {
        self.call_then(pool, bindings, sequences, tokens, cancel, Ok)
    }

    /// As [`DecodeProgram::call`], but draws a token of each sequence from the last row of the first root, the logits.
    ///
    /// Errors: as those of `call` and [`Draw::token`]; a first root that is no logits. Nothing has changed then.
    pub fn call_sampled(
        &self,
        pool: &Pool,
        bindings: &[&EagerTensor],
        sequences: &[&Sequence],
        tokens: &[&[u32]],
        draws: &[Draw],
        cancel: &CancelToken,
    ) -> Result<Vec<u32>> {
        if draws.len() != sequences.len() {
            let (n, m) = (sequences.len(), draws.len());
            return Err(Error::shape(OP, format!("{m} draws for {n} sequences, expected one for each")));
        }
        if !self.is_logits {
            let message = "the first root is no logits, floats [1, length, vocab], so no token can be drawn";
            return Err(Error::shape(OP, message));
        }
        for draw in draws {
            draw.sampling().check()?;
        }
        self.call_then(pool, bindings, sequences, tokens, cancel, |results| {
            let missing = || Error::new(ErrorKind::Execute, OP, "the program gave no logits");
            let logits = results.into_iter().next().ok_or_else(missing)?;
            let vocab = logits.shape().last().copied().unwrap_or(0);
            let rows: Vec<f32> = logits.to_f64_vec()?.into_iter().map(|logit| logit as f32).collect();
            let each = if self.request.last_token_row { 1 } else { self.sizes.length };
            let row = |(at, draw): (usize, &Draw)| {
                let count = tokens.get(at).map_or(1, |tokens| tokens.len()).min(each);
                let start = (at * each + count.saturating_sub(1)) * vocab;
                draw.token(rows.get(start..start + vocab).ok_or_else(missing)?)
            };
            draws.iter().enumerate().map(row).collect()
        })
    }

    /// Calls the program, and counts the tokens as read if `then` succeeds with the results.
    fn call_then<R>(
        &self,
        pool: &Pool,
        bindings: &[&EagerTensor],
        sequences: &[&Sequence],
        tokens: &[&[u32]],
        cancel: &CancelToken,
        then: impl FnOnce(Vec<EagerTensor>) -> Result<R>,
    ) -> Result<R> {
        self.check_call(pool, bindings, sequences, tokens)?;
        let weights = weights_of(bindings.iter().copied().chain(self.executable.bound()));
        let entries: Vec<(&Sequence, &[u32])> =
            sequences.iter().copied().zip(tokens.iter().copied()).collect();
        let room = Reservation::new(OP, pool, &entries, self.window, weights)?;
        let pieces = room.pieces(self.sizes.slots);
        for (piece, sequence) in pieces.iter().zip(sequences) {
            let (id, start, more, longest) = (sequence.id(), piece.start, piece.tokens.len(), self.longest);
            if start.saturating_add(more) > longest {
                let message = format!(
                    "sequence {id} has {start} tokens and {more} more come, but the model's table of positions ends at {longest}"
                );
                return Err(Error::shape(OP, message));
            }
        }
        let integers = self.sizes.arguments(self.executable.device(), &pieces)?;
        let results = pool.run(&self.executable, bindings, &integers, cancel)?;
        let real =
            results.iter().map(|result| first_rows(result, pieces.len())).collect::<Result<Vec<_>>>()?;
        let found = then(real)?;
        room.commit();
        Ok(found)
    }

    fn check_call(
        &self,
        pool: &Pool,
        bindings: &[&EagerTensor],
        sequences: &[&Sequence],
        tokens: &[&[u32]],
    ) -> Result<()> {
        let fail = |message: String| Err(Error::shape(OP, message));
        if let Some((name, found, expected)) = self.pool.difference(pool.options()) {
            let (has, takes) = (pool.options(), &self.pool);
            return fail(format!(
                "{name} of the pool is {found}, expected {expected}: the pool has {has}, but the program takes one of {takes}"
            ));
        }
        if bindings.len() != self.bindings {
            return fail(format!("{} bindings, expected {}", bindings.len(), self.bindings));
        }
        for (at, (binding, ty)) in bindings.iter().zip(self.executable.parameters()).enumerate() {
            if binding.ty() != ty {
                return fail(format!("binding {at} is {}, expected {ty}", binding.ty()));
            }
        }
        let (batch, length) = (self.sizes.batch, self.sizes.length);
        if sequences.is_empty() || sequences.len() > batch {
            return fail(format!("{} sequences, expected 1 to {batch}", sequences.len()));
        }
        if tokens.len() != sequences.len() {
            let (n, m) = (sequences.len(), tokens.len());
            return fail(format!("{m} lists of tokens for {n} sequences, expected one for each"));
        }
        match tokens.iter().position(|tokens| tokens.is_empty() || tokens.len() > length) {
            Some(at) => {
                let count = tokens.get(at).map_or(0, |tokens| tokens.len());
                fail(format!("list {at} has {count} tokens, expected 1 to {length}"))
            }
            None => Ok(()),
        }
    }
}

/// The length for which the graph was traced.
///
/// Errors: leaves of other types, or that are none.
fn check_leaves(traced: &Traced<'_>) -> Result<usize> {
    let Traced { roots, tokens, positions, bindings } = *traced;
    let fail = |message: String| Err(Error::shape(OP, message));
    if roots.is_empty() {
        return fail("there is nothing to compute: no roots".into());
    }
    let ty = tokens.ty();
    let length = match ty.shape[..] {
        [1, length] if length > 0 && ty.dtype.is_int() && tokens.is_leaf() => length,
        _ => return fail(format!("the tokens are {ty}, expected a leaf [1, length] of an integer dtype")),
    };
    let expected = TensorType::new(DType::I32, [length]);
    if let Some(leaf) = positions.iter().find(|leaf| *leaf.ty() != expected || !leaf.is_leaf()) {
        return fail(format!("positions are {}, expected a leaf {expected}", leaf.ty()));
    }
    match bindings.iter().position(|leaf| !leaf.is_leaf() || leaf == tokens || positions.contains(leaf)) {
        Some(at) => {
            fail(format!("binding {at} is no leaf of its own; tokens and positions are bound by the call"))
        }
        None => Ok(length),
    }
}

/// Ids `i32[batch, length]` in the dtype of the traced leaf, `[batch, 1, length]`.
fn ids_of(tokens: &Value, ids: &Value) -> Result<Value> {
    ops::cast(&Lazy, &ops::unsqueeze(&Lazy, ids, 1)?, tokens.ty().dtype)
}

/// What some layer shows of the past, where all are bounded.
fn shown(layers: &[Layer], window: Option<usize>) -> Option<usize> {
    let windows = layers.iter().map(|layer| narrower(layer.window(), window));
    windows.collect::<Option<Vec<usize>>>()?.into_iter().max()
}

/// Refuses a cache whose running state is of another dtype than that in which it is computed.
fn check_state_dtypes(computed: &[(&'static str, DType)], kv_dtype: KvDtype) -> Result<()> {
    let kept = kv_dtype.state_dtype();
    let Some((name, dtype)) = computed.iter().find(|(_, dtype)| *dtype != kept) else { return Ok(()) };
    let message = format!(
        "a cache of {kv_dtype} does not fit the model: the state of {name} is {dtype}, and the cache keeps {kept}"
    );
    Err(Error::dtype(OP, message))
}

/// Says which dtype of the cache did not fit.
fn explained(error: Error, kv_dtype: KvDtype) -> Error {
    if error.kind != ErrorKind::Dtype || error.op != "paged_attention" {
        return error;
    }
    Error::dtype(OP, format!("a cache of {kv_dtype} does not fit the model: {}", error.message))
}

/// The first `count` of the leading axis, as a view.
fn first_rows(tensor: &EagerTensor, count: usize) -> Result<EagerTensor> {
    if tensor.shape().first() == Some(&count) {
        return Ok(tensor.clone());
    }
    let rank = tensor.shape().len();
    let mut stops = tensor.shape().to_vec();
    if let Some(first) = stops.first_mut() {
        *first = count.min(*first);
    }
    tensor.with_layout(tensor.layout().slice(&vec![0; rank], &stops, &vec![1; rank]))
}
