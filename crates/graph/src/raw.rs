//! The graph as calls over numbers, which is all that an addon offers.
//!
//! Arguments travel in a scratch array of `f64` as those of [`lanthorn_session::raw`]; `js/effect/src/raw.ts` describes
//! the calls. What is in scratch and in a handle may be anything at all: it gives a result or an error.

use lanthorn_ir::ops::table::Returns;
use lanthorn_ir::{Error, ErrorKind, Result, TensorType};
use lanthorn_runtime::{Device, EagerTensor};
use lanthorn_session::Handle;
use lanthorn_session::random::Distribution;
use lanthorn_session::raw::{Failure, Words, arguments, dtype_of, op_of, put, seed_of};

use crate::decode::Invocation;
use crate::executable::CompileOptions;
use crate::graph::{Graph, Stats};
use crate::job::Job;

/// Flag of `compile`: the program is optimised.
pub const OPTIMIZE: u32 = 1;
/// Flag of `compile`: the elements of concrete tensors are constants.
pub const CONSTANT_WEIGHTS: u32 = 2;

/// Flag of `compile`: behind the roots is a list of slots, each with the root that may be written over its binding.
pub const UPDATES: u32 = 4;

/// The order of the counters that `stats` gives.
pub const STATS: &[&str] =
    &["handles", "live_bytes", "peak_bytes", "pooled_bytes", "executables", "compiles", "calls"];

/// A graph behind numbers.
pub struct Raw {
    graph: Graph,
    failed: Failure,
}

impl Raw {
    /// A new graph on a device.
    pub fn new(device: Device) -> Raw {
        Raw { graph: Graph::new(device), failed: Failure::default() }
    }

    /// The graph.
    pub fn graph(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// A result as the number that a caller without exceptions gets; the error is kept for [`Raw::error`].
    pub fn number(&mut self, result: Result<f64>) -> f64 {
        self.failed.number(result)
    }

    /// The error of the call that failed last.
    pub fn error(&self) -> Option<&Error> {
        self.failed.error()
    }

    /// Applies op `id`; gives the handle of its result, which scratch then describes. An op of several gives their count,
    /// the handles in scratch.
    pub fn op(&mut self, scratch: &mut [f64], id: f64) -> Result<f64> {
        let (id, op) = op_of(id)?;
        let (tensors, attributes) = arguments(op, scratch)?;
        let handles = self.graph.op(id, &tensors, &attributes)?;
        match (op.returns, &handles[..]) {
            (Returns::Tensor, &[handle]) => match self.describe(scratch, handle.to_f64()) {
                Ok(_) => Ok(handle.to_f64()),
                Err(error) => {
                    self.graph.release(handle)?;
                    Err(error)
                }
            },
            _ => self.put(op.name, scratch, handles),
        }
    }

    /// A concrete tensor of the elements in row-major order; its sizes are in scratch.
    pub fn create(&mut self, scratch: &[f64], dtype: f64, bytes: &[u8]) -> Result<f64> {
        let ty = type_of("create", scratch, dtype)?;
        Ok(self.graph.create(&ty, bytes)?.to_f64())
    }

    /// A tensor of random elements; its sizes are in scratch. `kind` 0 is uniform between `a` and `b`, 1 normal of mean
    /// `a` and deviation `b`, 2 the key of a draw (dtype, `a`, `b` and sizes are not looked at).
    pub fn random(&mut self, scratch: &[f64], kind: f64, dtype: f64, a: f64, b: f64) -> Result<f64> {
        let distribution = match kind {
            0.0 => Distribution::Uniform { low: a, high: b },
            1.0 => Distribution::Normal { mean: a, deviation: b },
            2.0 => return Ok(self.graph.random_key()?.to_f64()),
            other => {
                return Err(Error::unsupported(
                    "random",
                    format!("there is no kind {other}; they are 0 to 2"),
                ));
            }
        };
        let ty = type_of("random", scratch, dtype)?;
        Ok(self.graph.random(&ty, distribution)?.to_f64())
    }

    /// Starts the sequence of draws of a seed, a whole number below 2^53, anew.
    pub fn seed(&mut self, seed: f64) -> Result<f64> {
        self.graph.seed(seed_of(seed)?);
        Ok(0.0)
    }

    /// A binding of an execution; its sizes are in scratch.
    pub fn input(&mut self, scratch: &[f64], slot: f64, dtype: f64) -> Result<f64> {
        let ty = type_of("input", scratch, dtype)?;
        Ok(self.graph.input(whole("input", "slot", slot)?, ty)?.to_f64())
    }

    /// A scalar of an execution.
    pub fn scalar_input(&mut self, slot: f64, dtype: f64) -> Result<f64> {
        let slot = whole("scalar_input", "slot", slot)?;
        Ok(self.graph.scalar_input(slot, dtype_of("scalar_input", dtype)?)?.to_f64())
    }

    /// The positions of tokens.
    pub fn positions(&mut self, length: f64) -> Result<f64> {
        Ok(self.graph.positions(whole("positions", "length", length)?)?.to_f64())
    }

    /// Puts dtype, 1 if concrete else 0, rank and sizes into scratch; gives how many numbers that are.
    pub fn describe(&mut self, scratch: &mut [f64], tensor: f64) -> Result<f64> {
        let (ty, is_concrete) = self.graph.describe(Handle::from_f64(tensor)?)?;
        let head = [f64::from(ty.dtype.code()), f64::from(u8::from(is_concrete)), ty.rank() as f64];
        put("describe", scratch, head.into_iter().chain(ty.shape.iter().map(|&size| size as f64)))
    }

    /// The gradients of a loss in the tensors whose count and handles are in scratch; puts theirs there and gives their
    /// number.
    pub fn grad(&mut self, scratch: &mut [f64], loss: f64) -> Result<f64> {
        let variables = Words::new("grad", scratch).handles()?;
        let gradients = self.graph.grad(Handle::from_f64(loss)?, &variables)?;
        self.put("grad", scratch, gradients)
    }

    /// See [`Graph::vjp`].
    pub fn vjp(&mut self, y: f64, x: f64, v: f64) -> Result<f64> {
        let [y, x, v] = three([y, x, v])?;
        Ok(self.graph.vjp(y, x, v)?.to_f64())
    }

    /// See [`Graph::jvp`].
    pub fn jvp(&mut self, y: f64, x: f64, v: f64) -> Result<f64> {
        let [y, x, v] = three([y, x, v])?;
        Ok(self.graph.jvp(y, x, v)?.to_f64())
    }

    /// See [`Graph::vmap`].
    pub fn vmap(&mut self, y: f64, x: f64, batched: f64, axis: f64) -> Result<f64> {
        let [y, x, batched] = three([y, x, batched])?;
        let whole = axis as isize;
        if whole as f64 != axis {
            return Err(Error::shape("vmap", format!("{axis} is no axis")));
        }
        Ok(self.graph.vmap(y, x, batched, whole)?.to_f64())
    }

    /// See [`Graph::checkpoint`].
    pub fn checkpoint(&mut self, x: f64) -> Result<f64> {
        Ok(self.graph.checkpoint(Handle::from_f64(x)?)?.to_f64())
    }

    /// An executable of the roots whose count and handles are in scratch, and the list of updates behind them.
    pub fn compile(&mut self, scratch: &[f64], flags: f64) -> Result<f64> {
        let bits = whole("compile", "flags", flags)? as u32;
        if f64::from(bits) != flags || bits & !(OPTIMIZE | CONSTANT_WEIGHTS | UPDATES) != 0 {
            return Err(Error::unsupported("compile", format!("the flags are {flags}, expected 0 to 7")));
        }
        let is_set = |flag| bits & flag != 0;
        let options =
            CompileOptions { optimize: is_set(OPTIMIZE), constant_weights: is_set(CONSTANT_WEIGHTS) };
        let mut words = Words::new("compile", scratch);
        let roots = words.handles()?;
        let updates = if is_set(UPDATES) { slots("compile", words.list("updates")?)? } else { Vec::new() };
        let (pairs, []) = updates.as_chunks::<2>() else {
            let message =
                format!("the updates are {} numbers, expected pairs of slot and root", updates.len());
            return Err(Error::unsupported("compile", message));
        };
        let updates: Vec<(usize, usize)> = pairs.iter().map(|&[slot, root]| (slot, root)).collect();
        Ok(self.graph.compile_updating(&roots, options, &updates)?.to_f64())
    }

    /// About an executable, as JSON.
    pub fn executable(&mut self, executable: f64) -> Result<String> {
        Ok(self.graph.report(Handle::from_f64(executable)?)?.to_string())
    }

    /// A computation of the roots whose count and handles are in scratch.
    pub fn begin_compute(&mut self, scratch: &[f64]) -> Result<Job> {
        let roots = Words::new("compute", scratch).handles()?;
        self.graph.begin_compute(&roots)
    }

    /// A call of an executable; in scratch are the lists of bindings and scalars, of the slots whose bindings the call takes,
    /// and of sequences, then one of tokens for each sequence. `sampling` is JSON where tokens are asked for and not results.
    pub fn begin_execute(&mut self, scratch: &[f64], executable: f64, sampling: Option<&str>) -> Result<Job> {
        let op = if sampling.is_some() { "execute_sampled" } else { "execute" };
        let executable = Handle::from_f64(executable)?;
        let mut words = Words::new(op, scratch);
        let bindings = words.optional_handles()?;
        let scalars = words.list("scalars")?;
        let taken = slots(op, words.list("taken slots")?)?;
        let sequences = words.handles()?;
        if self.graph.is_decode(executable)? {
            if let Some(slot) = taken.first() {
                let message =
                    format!("the binding of slot {slot} is to be taken, which a decode program does not");
                return Err(Error::unsupported(op, message));
            }
            let tokens = sequences.iter().map(|_| tokens(op, &mut words)).collect::<Result<Vec<_>>>()?;
            let call = Invocation { bindings: &bindings, sequences: &sequences, tokens, sampling };
            return self.graph.begin_decode(executable, call);
        }
        if sampling.is_some() || !sequences.is_empty() {
            let message = "the executable is no decode program, and takes no sequences";
            return Err(Error::unsupported(op, message));
        }
        let absent = |slot: usize| {
            Error::new(ErrorKind::InvalidHandle, op, format!("binding {slot} is 0, expected a tensor"))
        };
        let bindings = bindings.iter().enumerate().map(|(slot, tensor)| tensor.ok_or_else(|| absent(slot)));
        let bindings = bindings.collect::<Result<Vec<Handle>>>()?;
        self.graph.begin_execute_taking(executable, &bindings, scalars, &taken)
    }

    /// See [`Graph::compile_decode`]; the count and handles of the roots are in scratch.
    pub fn compile_decode(&mut self, scratch: &[f64], request: &str) -> Result<f64> {
        let roots = Words::new("compile_decode", scratch).handles()?;
        Ok(self.graph.compile_decode(&roots, request)?.to_f64())
    }

    /// See [`Graph::pool`].
    pub fn pool(&mut self, geometry: &str) -> Result<f64> {
        Ok(self.graph.pool(geometry)?.to_f64())
    }

    /// See [`Graph::sequence`].
    pub fn sequence(&mut self, pool: f64) -> Result<f64> {
        Ok(self.graph.sequence(Handle::from_f64(pool)?)?.to_f64())
    }

    /// See [`Graph::prefill_match`]; the tokens are a list in scratch.
    pub fn prefill_match(&mut self, scratch: &[f64], sequence: f64) -> Result<f64> {
        let tokens = tokens("prefill_match", &mut Words::new("prefill_match", scratch))?;
        Ok(self.graph.prefill_match(Handle::from_f64(sequence)?, &tokens)? as f64)
    }

    /// See [`Graph::cursor`].
    pub fn cursor(&mut self, sequence: f64) -> Result<f64> {
        Ok(self.graph.cursor(Handle::from_f64(sequence)?)? as f64)
    }

    /// See [`Graph::sample`].
    pub fn sample(&mut self, logits: f64, sampling: &str) -> Result<f64> {
        Ok(f64::from(self.graph.sample(Handle::from_f64(logits)?, sampling)?))
    }

    /// The elements of a concrete tensor.
    pub fn elements(&mut self, op: &str, tensor: f64) -> Result<EagerTensor> {
        self.graph.elements(op, Handle::from_f64(tensor)?)
    }

    /// The elements of the concrete tensors whose count and handles are in scratch.
    pub fn all_elements(&mut self, op: &str, scratch: &[f64]) -> Result<Vec<EagerTensor>> {
        let tensors = Words::new(op, scratch).handles()?;
        tensors.into_iter().map(|tensor| self.graph.elements(op, tensor)).collect()
    }

    /// A read of a concrete tensor.
    pub fn begin_read(&mut self, tensor: f64) -> Result<Job> {
        self.graph.begin_read(Handle::from_f64(tensor)?)
    }

    /// Gives up a handle to a concrete tensor, and its elements.
    pub fn clear(&mut self, tensor: f64) -> Result<f64> {
        self.graph.clear(Handle::from_f64(tensor)?)?;
        Ok(0.0)
    }

    /// Gives up a handle of any kind.
    pub fn release(&mut self, handle: f64) -> Result<f64> {
        self.graph.release(Handle::from_f64(handle)?)?;
        Ok(0.0)
    }

    /// Puts the counters into scratch in the order of [`STATS`]; gives the bytes that the device holds.
    pub fn stats(&mut self, scratch: &mut [f64]) -> Result<f64> {
        let Stats { handles, engine } = self.graph.stats();
        let counters = [
            handles,
            engine.live_bytes,
            engine.peak_bytes,
            engine.pooled_bytes,
            engine.executables,
            engine.compiles,
            engine.calls,
        ];
        put("stats", scratch, counters.into_iter().map(|counter| counter as f64))?;
        Ok(engine.live_bytes as f64)
    }

    /// Puts handles into scratch; gives their number. Handles that find no room are released.
    fn put(&mut self, op: &str, scratch: &mut [f64], handles: Vec<Handle>) -> Result<f64> {
        if handles.len() > scratch.len() {
            let (count, room) = (handles.len(), scratch.len());
            handles.into_iter().try_for_each(|handle| self.graph.release(handle))?;
            return Err(Error::shape(op, format!("gives {count} results; there is room for {room}")));
        }
        put(op, scratch, handles.into_iter().map(Handle::to_f64))
    }
}

/// A list of tokens.
fn tokens(op: &str, words: &mut Words<'_>) -> Result<Vec<u32>> {
    let token = |&number: &f64| {
        let token = number as u32;
        if f64::from(token) == number {
            Ok(token)
        } else {
            Err(Error::shape(op, format!("a token is {number}, expected a whole number from 0 to 2^32 - 1")))
        }
    };
    words.list("tokens")?.iter().map(token).collect()
}

fn three(handles: [f64; 3]) -> Result<[Handle; 3]> {
    let [a, b, c] = handles.map(Handle::from_f64);
    Ok([a?, b?, c?])
}

/// A whole number that is not negative.
fn whole(op: &str, what: &str, number: f64) -> Result<usize> {
    let whole = number as usize;
    // Beyond 2^53 a number stands for several.
    if whole as f64 == number && number < 9_007_199_254_740_992.0 {
        return Ok(whole);
    }
    Err(Error::shape(op, format!("the {what} is {number}, expected a whole number that is not negative")))
}

fn slots(op: &str, numbers: &[f64]) -> Result<Vec<usize>> {
    numbers.iter().map(|&number| whole(op, "slot", number)).collect()
}

fn type_of(op: &str, scratch: &[f64], dtype: f64) -> Result<TensorType> {
    Ok(TensorType { dtype: dtype_of(op, dtype)?, shape: Words::new(op, scratch).sizes()? })
}
