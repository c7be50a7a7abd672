//! What runs away from the graph: computations, calls, reads.
//!
//! `begin` says what is to be run, [`Job::run`] runs it on any thread while the graph goes on, and [`Graph::finish`]
//! takes what came out. Until then nothing has changed.

use std::collections::HashMap;
use std::sync::Arc;

use lanthorn_compiler::indexed::Indexed;
use lanthorn_compiler::slot;
use lanthorn_ir::graph::ValueKey;
use lanthorn_ir::{Error, ErrorKind, Result, Value};
use lanthorn_runtime::{CancelToken, Device, EagerTensor};
use lanthorn_session::commit::cost_bound;
use lanthorn_session::{Engine, Handle};

use crate::decode::DecodeCall;
use crate::executable::Executable;
use crate::graph::Graph;
use crate::leaf::elements;
use crate::trace::{Argument, trace};

/// Work that has begun.
pub struct Job {
    work: Work,
    asked: Vec<Asked>,
    /// Seed and number of the next draw, before and after the job took its keys.
    drawn: [[u64; 2]; 2],
    /// It has changed sequences, and cannot be undone.
    has_committed: bool,
}

pub(crate) enum Work {
    /// All was concrete already.
    Nothing,
    Program {
        device: Device,
        program: Indexed,
        arguments: Vec<EagerTensor>,
    },
    Call {
        executable: Arc<Executable>,
        arguments: Vec<EagerTensor>,
    },
    Decode(Box<DecodeCall>),
    Read(EagerTensor),
}

/// A tensor that was asked for.
enum Asked {
    Known(EagerTensor),
    /// The result of that number.
    Result(usize),
}

/// What came out of a run.
pub enum Output {
    Tensors(Vec<EagerTensor>),
    Bytes(Vec<u8>),
    Tokens(Vec<u32>),
}

/// What a job has led to.
#[derive(Debug)]
pub enum Outcome {
    /// New concrete tensors.
    Handles(Vec<Handle>),
    Bytes(Vec<u8>),
    /// One of each sequence.
    Tokens(Vec<u32>),
}

impl Job {
    /// Work that gives so many tensors and draws nothing.
    pub(crate) fn new(work: Work, results: usize, random: [u64; 2]) -> Job {
        Job {
            work,
            asked: (0..results).map(Asked::Result).collect(),
            drawn: [random; 2],
            has_committed: false,
        }
    }

    /// Runs the work, once.
    ///
    /// Errors: what compiling and running report; cancelled work.
    pub fn run(&mut self, cancel: &CancelToken) -> Result<Output> {
        if cancel.is_cancelled() {
            return Err(cancelled());
        }
        match std::mem::replace(&mut self.work, Work::Nothing) {
            Work::Nothing => Ok(Output::Tensors(Vec::new())),
            Work::Program { device, program, arguments } => {
                device.run(program, arguments, cancel).map(Output::Tensors)
            }
            Work::Call { executable, arguments } => executable.call(&arguments, cancel).map(Output::Tensors),
            Work::Decode(call) => call.run(cancel).inspect(|_| self.has_committed = true),
            Work::Read(tensor) => tensor.to_bytes().map(Output::Bytes),
        }
    }

    /// How much there is to do at most, in bytes and operations.
    pub fn cost(&self) -> u64 {
        /// A program may have to be compiled, which takes some microseconds a node.
        const NODE: u64 = 1 << 10;
        /// To copy bytes takes a fraction of what it takes to compute them.
        const COPIED: u64 = 16;
        match &self.work {
            Work::Nothing => 0,
            Work::Program { program, .. } => {
                cost_bound(program).saturating_add(NODE.saturating_mul(program.nodes.len() as u64))
            }
            Work::Call { executable, .. } => executable.cost(),
            // It may wait for another call over the same pool.
            Work::Decode(_) => u64::MAX,
            Work::Read(tensor) => tensor.ty().bytes() as u64 / COPIED,
        }
    }
}

impl Graph {
    /// What it takes to compute tensors in one program. Of one that is concrete the job gives a further handle.
    ///
    /// Errors: a tensor that depends on an input.
    pub fn begin_compute(&mut self, tensors: &[Handle]) -> Result<Job> {
        let mut roots: Vec<Value> = Vec::new();
        let mut places: HashMap<ValueKey, usize> = HashMap::new();
        let mut asked = Vec::with_capacity(tensors.len());
        for value in self.values("compute", tensors)? {
            if let Some(tensor) = elements("compute", &value)? {
                asked.push(Asked::Known(tensor));
                continue;
            }
            let place = *places.entry(value.key()).or_insert(roots.len());
            if place == roots.len() {
                roots.push(value);
            }
            asked.push(Asked::Result(place));
        }
        let before = self.random;
        if roots.is_empty() {
            return Ok(Job { work: Work::Nothing, asked, drawn: [before; 2], has_committed: false });
        }
        let traced = trace("compute", &roots)?;
        for argument in &traced.arguments {
            let (what, slot) = match argument {
                Argument::Input(slot) => ("input", slot),
                Argument::Scalar(slot, _) => ("scalar", slot),
                Argument::Elements(_) | Argument::Key => continue,
            };
            let message =
                format!("the tensor depends on {what} {slot}, which is bound where an executable is called");
            return Err(Error::new(ErrorKind::Compile, "compute", message));
        }
        let mut arguments = Vec::with_capacity(traced.arguments.len());
        for argument in traced.arguments {
            arguments.push(match argument {
                Argument::Elements(tensor) => tensor,
                _ => next_key(&self.device, &mut self.random)?,
            });
        }
        let work = Work::Program { device: self.device.clone(), program: traced.program, arguments };
        Ok(Job { work, asked, drawn: [before, self.random], has_committed: false })
    }

    /// A call of an executable.
    ///
    /// Errors: too few bindings or scalars, or such of another type; lazy bindings.
    pub fn begin_execute(&mut self, executable: Handle, bindings: &[Handle], scalars: &[f64]) -> Result<Job> {
        self.begin_execute_taking(executable, bindings, scalars, &[])
    }

    /// As [`Graph::begin_execute`]; the bindings of the slots `taken` are given up once the call has begun, also if it fails
    /// later. The results that update them ([`Graph::compile_updating`]) take their memory where nobody else has it.
    ///
    /// Errors: a slot that has no binding.
    pub fn begin_execute_taking(
        &mut self,
        executable: Handle,
        bindings: &[Handle],
        scalars: &[f64],
        taken: &[usize],
    ) -> Result<Job> {
        let handles = bindings;
        if let Some(slot) = taken.iter().find(|slot| **slot >= handles.len()) {
            let message = format!("slot {slot} is to be taken, and there are {} bindings", handles.len());
            return Err(Error::shape("execute", message));
        }
        let executable = self.executable("execute", executable)?.clone();
        let bindings =
            bindings.iter().map(|&tensor| self.elements("execute", tensor)).collect::<Result<Vec<_>>>()?;
        let before = self.random;
        let Graph { device, random, .. } = self;
        let arguments = executable.bind(&bindings, scalars, || next_key(device, random))?;
        let asked = (0..executable.results().len()).map(Asked::Result).collect();
        let work = Work::Call { executable, arguments };
        for handle in taken.iter().filter_map(|&slot| handles.get(slot)) {
            // One tensor may be bound to several of the slots.
            let _ = self.entries.remove(*handle);
        }
        Ok(Job { work, asked, drawn: [before, self.random], has_committed: false })
    }

    /// A read of the bytes of a concrete tensor in row-major order.
    ///
    /// Errors: a lazy one.
    pub fn begin_read(&mut self, tensor: Handle) -> Result<Job> {
        let tensor = self.elements("read", tensor)?;
        Ok(Job::new(Work::Read(tensor), 0, self.random))
    }

    /// Takes what came out of a job.
    ///
    /// Errors: that of the run, or that it was cancelled meanwhile; nothing has changed then. A call that has read tokens
    /// into a cache is not cancelled any more.
    pub fn finish(&mut self, job: Job, output: Result<Output>, cancel: &CancelToken) -> Result<Outcome> {
        let outcome = match output {
            Ok(_) if cancel.is_cancelled() && !job.has_committed => Err(cancelled()),
            Ok(Output::Tensors(tensors)) => self.take(job.asked, tensors).map(Outcome::Handles),
            Ok(Output::Bytes(bytes)) => Ok(Outcome::Bytes(bytes)),
            Ok(Output::Tokens(tokens)) => Ok(Outcome::Tokens(tokens)),
            Err(error) => Err(error),
        };
        let [before, after] = job.drawn;
        if outcome.is_err() && self.random == after {
            // Nobody has drawn since: the keys are the next ones again.
            self.random = before;
        }
        outcome
    }

    /// Handles of what was asked for. Each is a leaf of its own, so that one may be cleared and others stay.
    fn take(&mut self, asked: Vec<Asked>, tensors: Vec<EagerTensor>) -> Result<Vec<Handle>> {
        let lost = || Error::new(ErrorKind::Execute, "compute", "a result is missing");
        let value = |asked| {
            let tensor = match asked {
                Asked::Known(tensor) => tensor,
                Asked::Result(at) => tensors.get(at).cloned().ok_or_else(lost)?,
            };
            slot::leaf(&tensor.ty().clone(), tensor)
        };
        let values = asked.into_iter().map(value).collect::<Result<Vec<Value>>>()?;
        self.insert_all(values)
    }
}

/// The key of the next draw.
fn next_key(device: &Device, random: &mut [u64; 2]) -> Result<EagerTensor> {
    let key = EagerTensor::from_slice(device, &[2], random)?;
    random[1] = random[1].wrapping_add(1);
    Ok(key)
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "compute", "the work was cancelled by its caller")
}
