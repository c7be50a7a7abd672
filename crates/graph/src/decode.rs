//! Decode programs, and the pools and sequences over which they run.

use std::sync::Arc;

use lanthorn_compiler::pipeline::index;
use lanthorn_ir::{Error, ErrorKind, Result, TensorType, Value};
use lanthorn_llm::{
    ConvShape, DecodeProgram, DecodeRequest, DeltaShape, Draw, KeyValueShape, KvDtype, Pool, PoolOptions,
    Sequence, StateShapes, Traced,
};
use lanthorn_runtime::{CancelToken, EagerTensor, Options};
use lanthorn_session::Handle;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use crate::graph::{Entry, Graph};
use crate::job::{Job, Output, Work};
use crate::leaf::{Leaf, elements};
use crate::report::{self, type_of};

/// A program over a paged cache with the slot of each of its bindings.
pub struct Decode {
    program: DecodeProgram,
    slots: Vec<usize>,
    /// The types of the bindings by slot, that of the traced tokens among them.
    inputs: Vec<Option<TensorType>>,
    token_slot: usize,
}

/// A call of a decode program.
pub(crate) struct DecodeCall {
    decode: Arc<Decode>,
    bindings: Vec<EagerTensor>,
    sequences: Vec<Arc<Sequence>>,
    tokens: Vec<Vec<u32>>,
    /// One for each sequence, if a token of each is asked for and not the results.
    draws: Option<Vec<Draw>>,
}

/// What a call of a decode program is about.
pub struct Invocation<'a> {
    /// By slot; `None` for one that the roots do not read, such as that of the tokens.
    pub bindings: &'a [Option<Handle>],
    pub sequences: &'a [Handle],
    /// The new tokens of each sequence.
    pub tokens: Vec<Vec<u32>>,
    /// How a token is drawn for each sequence, as JSON, if tokens are asked for.
    pub sampling: Option<&'a str>,
}

impl Graph {
    /// Compiles the forward of one sequence over a paged cache. `request` is JSON: the fields of [`DecodeRequest`], and
    /// `tokenSlot`, the slot of the input of the token ids.
    ///
    /// Errors: JSON that is no request; roots that draw or read scalars; what [`DecodeProgram::new`] reports.
    pub fn compile_decode(&mut self, roots: &[Handle], request: &str) -> Result<Handle> {
        let roots = self.values("compile_decode", roots)?;
        let decode = Decode::new(&self.device, &roots, request)?;
        self.entries.insert(Entry::Decode(decode.into()))
    }

    /// A pool of keys and values, and of the running state of recurrent layers. `geometry` is JSON: `{ layers, kvHeads,
    /// headDim, maxTokens, blockSize, dtype }`, and, 0 where left out, `{ kdaLayers, kdaHeads, kdaHeadDim, kdaValueDim,
    /// convLayers, convChannels, convKernel }` with `sequences`, of which the state is held.
    pub fn pool(&mut self, geometry: &str) -> Result<Handle> {
        let pool = Pool::new(&self.device, pool_options(geometry)?)?;
        self.entries.insert(Entry::Pool(pool))
    }

    /// A sequence without tokens; releasing its handle gives its blocks back, at the end of a call about it.
    pub fn sequence(&mut self, pool: Handle) -> Result<Handle> {
        let sequence = match self.entries.get(pool)? {
            Entry::Pool(pool) => pool.sequence(),
            other => return Err(other.expected("sequence", "a pool")),
        };
        self.entries.insert(Entry::Sequence(sequence.into()))
    }

    /// Shares whole blocks at the beginning of a prompt that others have computed; gives how many tokens those hold.
    pub fn prefill_match(&mut self, sequence: Handle, tokens: &[u32]) -> Result<usize> {
        self.sequence_of("prefill_match", sequence)?.share(tokens)
    }

    /// The number of tokens of a sequence.
    pub fn cursor(&self, sequence: Handle) -> Result<usize> {
        self.sequence_of("cursor", sequence)?.length()
    }

    /// A token out of concrete logits `[.., vocab]`, of which the last row counts. `sampling` is JSON.
    pub fn sample(&self, logits: Handle, sampling: &str) -> Result<u32> {
        let draw: Draw = parse("sample", sampling)?;
        draw.token_of(&self.elements("sample", logits)?)
    }

    /// A call of a decode program.
    ///
    /// Errors: lazy or missing bindings, handles of other things, other JSON. What the program itself refuses comes
    /// when it runs.
    pub fn begin_decode(&mut self, program: Handle, call: Invocation<'_>) -> Result<Job> {
        let decode = match self.entries.get(program)? {
            Entry::Decode(decode) => decode.clone(),
            other => return Err(other.expected("execute", "a decode program")),
        };
        let binding = |&slot: &usize| match call.bindings.get(slot) {
            Some(Some(tensor)) => self.elements("execute", *tensor),
            _ => Err(Error::shape("execute", format!("binding {slot} is missing"))),
        };
        let bindings = decode.slots.iter().map(binding).collect::<Result<Vec<_>>>()?;
        let sequence = |&sequence: &Handle| self.sequence_of("execute", sequence).cloned();
        let sequences = call.sequences.iter().map(sequence).collect::<Result<Vec<_>>>()?;
        let draws =
            call.sampling.map(|sampling| parse::<Vec<Draw>>("execute_sampled", sampling)).transpose()?;
        let results = if draws.is_some() { 0 } else { decode.program.results().len() };
        let call = DecodeCall { decode, bindings, sequences, tokens: call.tokens, draws };
        Ok(Job::new(Work::Decode(Box::new(call)), results, self.random))
    }

    /// Whether a handle is that of a decode program.
    pub fn is_decode(&self, handle: Handle) -> Result<bool> {
        Ok(matches!(self.entries.get(handle)?, Entry::Decode(_)))
    }

    fn sequence_of(&self, op: &str, handle: Handle) -> Result<&Arc<Sequence>> {
        match self.entries.get(handle)? {
            Entry::Sequence(sequence) => Ok(sequence),
            other => Err(other.expected(op, "a sequence")),
        }
    }
}

impl Decode {
    fn new(device: &lanthorn_runtime::Device, roots: &[Value], request: &str) -> Result<Decode> {
        let mut request: Map<String, Json> = parse("compile_decode", request)?;
        let token_slot = match request.remove("tokenSlot") {
            Some(slot) => from_json("compile_decode", slot)?,
            None => 0,
        };
        let request: DecodeRequest = from_json("compile_decode", Json::Object(request))?;
        let leaves = Leaves::of(roots, token_slot)?;
        let traced = Traced {
            roots,
            tokens: &leaves.tokens,
            positions: &leaves.positions,
            bindings: &leaves.bindings,
        };
        let program = DecodeProgram::new(device, traced, &request, &Options::default())?;
        Ok(Decode { program, slots: leaves.slots, inputs: leaves.inputs, token_slot })
    }

    /// What is known about it, as JSON.
    pub fn report(&self) -> Json {
        let executable = self.program.executable();
        let (pool, request) = (self.program.pool(), self.program.request());
        let state_bytes = pool.bytes();
        let capacity = (pool.blocks() * pool.block_size).max(1);
        let rows = self.program.length().saturating_mul(pool.block_bytes() / capacity);
        // Two slots for each sequence, of which one is written.
        let slot = pool.state_bytes() / pool.sequences.saturating_mul(2).max(1);
        let written = request.batch.saturating_mul(rows.saturating_add(slot));
        let memory = report::Memory {
            external: bytes_of(executable.parameters()).saturating_sub(state_bytes),
            persistent: bytes_of(executable.bound().iter().map(EagerTensor::ty)),
            state: state_bytes,
            output: bytes_of(self.program.results()),
            transaction: written,
        };
        let mut report = report::of_program(executable, &memory);
        let layer = pool.layers.first();
        let (delta, conv) = (pool.states.deltas.first(), pool.states.convs.first());
        report["inputs"] = json!(self.inputs.iter().map(|ty| ty.as_ref().map(type_of)).collect::<Vec<_>>());
        report["scalars"] = json!(0);
        report["outputs"] = json!(self.program.results().iter().map(type_of).collect::<Vec<_>>());
        report["state"] = json!({
            "maxTokens": request.max_tokens,
            "blockSize": request.block_size,
            "kvDtype": request.kv_dtype.to_string(),
            "window": request.window,
            "batch": request.batch,
            "lastTokenRow": request.last_token_row,
            "tokenSlot": self.token_slot,
            "length": self.program.length(),
            "longest": self.program.longest(),
            "layers": pool.layers.len(),
            "kvHeads": layer.map_or(0, |layer| layer.heads),
            "headDim": layer.map_or(0, |layer| layer.head_dim),
            "kdaLayers": pool.states.deltas.len(),
            "kdaHeads": delta.map_or(0, |delta| delta.heads),
            "kdaHeadDim": delta.map_or(0, |delta| delta.head_dim),
            "kdaValueDim": delta.map_or(0, |delta| delta.value_dim),
            "convLayers": pool.states.convs.len(),
            "convChannels": conv.map_or(0, |conv| conv.channels),
            "convKernel": conv.map_or(0, |conv| conv.kernel),
            "sequences": pool.sequences,
            "attention": pool.layers.iter().map(|layer| [layer.heads, layer.head_dim]).collect::<Vec<_>>(),
        });
        report
    }
}

/// The leaves of a forward by what they stand for.
struct Leaves {
    tokens: Value,
    positions: Vec<Value>,
    bindings: Vec<Value>,
    slots: Vec<usize>,
    inputs: Vec<Option<TensorType>>,
}

impl Leaves {
    fn of(roots: &[Value], token_slot: usize) -> Result<Leaves> {
        let refused = |what: &str| {
            let message =
                format!("the roots read {what}, which a decode program does not take; bind a tensor");
            Err(Error::unsupported("compile_decode", message))
        };
        let (mut tokens, mut positions, mut bindings, mut slots) = (None, Vec::new(), Vec::new(), Vec::new());
        let mut inputs: Vec<Option<TensorType>> = Vec::new();
        for leaf in index(&[], roots, |_| false).1 {
            match Leaf::of(&leaf) {
                None if elements("compile_decode", &leaf)?.is_some() => {}
                None => return refused("a leaf without elements"),
                Some(Leaf::Key) => return refused("the key of a draw"),
                Some(Leaf::Scalar(slot)) => return refused(&format!("scalar {slot}")),
                Some(Leaf::Positions) => positions.push(leaf),
                Some(Leaf::Input(slot)) => {
                    *crate::executable::place(&mut inputs, slot) = Some(leaf.ty().clone());
                    if slot != token_slot {
                        slots.push(slot);
                        bindings.push(leaf);
                    } else if tokens.replace(leaf).is_some() {
                        let message = format!("input {slot}, the tokens, is there twice; make it once");
                        return Err(Error::new(ErrorKind::Compile, "compile_decode", message));
                    }
                }
            }
        }
        let tokens = tokens.ok_or_else(|| {
            let message = format!("the roots do not read input {token_slot}, the tokens");
            Error::new(ErrorKind::Compile, "compile_decode", message)
        })?;
        Ok(Leaves { tokens, positions, bindings, slots, inputs })
    }
}

impl DecodeCall {
    pub fn run(&self, cancel: &CancelToken) -> Result<Output> {
        let Some(first) = self.sequences.first() else {
            return Err(Error::shape(
                "execute",
                "there are no sequences; a decode program takes at least one",
            ));
        };
        let program = &self.decode.program;
        let bindings: Vec<&EagerTensor> = self.bindings.iter().collect();
        let sequences: Vec<&Sequence> = self.sequences.iter().map(|sequence| &**sequence).collect();
        let tokens: Vec<&[u32]> = self.tokens.iter().map(Vec::as_slice).collect();
        let pool = first.pool();
        match &self.draws {
            Some(draws) => {
                program.call_sampled(pool, &bindings, &sequences, &tokens, draws, cancel).map(Output::Tokens)
            }
            None => program.call(pool, &bindings, &sequences, &tokens, cancel).map(Output::Tensors),
        }
    }
}

fn bytes_of<'a>(types: impl IntoIterator<Item = &'a TensorType>) -> usize {
    types.into_iter().map(TensorType::bytes).sum()
}

fn pool_options(geometry: &str) -> Result<PoolOptions> {
    let mut geometry: Map<String, Json> = parse("pool", geometry)?;
    let missing = |name: &str| Error::new(ErrorKind::Format, "pool", format!("{name} is missing"));
    let dtype: KvDtype = from_json("pool", geometry.remove("dtype").ok_or_else(|| missing("dtype"))?)?;
    // Heads and their size of each layer, where they differ.
    let attention: Option<Vec<[usize; 2]>> =
        geometry.remove("attention").map_or(Ok(None), |given| from_json("pool", given))?;
    let mut size = |name: &str| -> Result<Option<usize>> {
        match geometry.remove(name) {
            None | Some(Json::Null) => Ok(None),
            Some(given) => {
                let refused = || Error::shape("pool", format!("{name} is {given}, expected a size"));
                given.as_u64().and_then(|size| usize::try_from(size).ok()).ok_or_else(refused).map(Some)
            }
        }
    };
    let mut needed = |name: &str| size(name)?.ok_or_else(|| missing(name));
    let [layers, kv_heads, head_dim] = [needed("layers")?, needed("kvHeads")?, needed("headDim")?];
    let [max_tokens, block_size] = [needed("maxTokens")?, needed("blockSize")?];
    let sequences = size("sequences")?;
    let mut state = |name: &str| size(name).map(|size| size.unwrap_or(0));
    let delta_layers = state("kdaLayers")?;
    let delta = DeltaShape {
        heads: state("kdaHeads")?,
        head_dim: state("kdaHeadDim")?,
        value_dim: state("kdaValueDim")?,
    };
    let conv_layers = state("convLayers")?;
    let conv = ConvShape { channels: state("convChannels")?, kernel: state("convKernel")? };
    if let Some(name) = geometry.keys().next() {
        return Err(Error::new(ErrorKind::Format, "pool", format!("{name} is no size of a pool")));
    }
    for (name, count) in [("layers", layers), ("kdaLayers", delta_layers), ("convLayers", conv_layers)] {
        if count > MOST_LAYERS {
            let message = format!("{name} is {count}, expected at most {MOST_LAYERS}");
            return Err(Error::shape("pool", message));
        }
    }
    let attention = match attention {
        None => vec![KeyValueShape { heads: kv_heads, head_dim }; layers],
        Some(shapes) if shapes.len() == layers => {
            shapes.into_iter().map(|[heads, head_dim]| KeyValueShape { heads, head_dim }).collect()
        }
        Some(shapes) => {
            let message = format!("attention has the sizes of {} layers, layers is {layers}", shapes.len());
            return Err(Error::shape("pool", message));
        }
    };
    let states = StateShapes { deltas: vec![delta; delta_layers], convs: vec![conv; conv_layers] };
    let options = PoolOptions::new(attention, max_tokens, block_size, dtype);
    Ok(options.with_states(states, sequences))
}

/// More layers than any model has, of which a list is no burden.
const MOST_LAYERS: usize = 1 << 16;

fn parse<T: DeserializeOwned>(op: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::new(ErrorKind::Format, op, error.to_string()))
}

fn from_json<T: DeserializeOwned>(op: &str, value: Json) -> Result<T> {
    serde_json::from_value(value).map_err(|error| Error::new(ErrorKind::Format, op, error.to_string()))
}
