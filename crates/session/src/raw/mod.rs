//! The session as calls over numbers, which is all that Node's addon and the page's module offer.
//!
//! Arguments travel in a scratch array of `f64` that both sides see; `docs/faces.md` describes the calls. What is
//! in scratch and in a handle may be anything at all: it gives a result or an error.

mod capture;
mod failure;
mod words;

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_ir::ops::table::{Attribute, OPS, Op, Returns};
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType};
use smallvec::SmallVec;

use crate::arena::Handle;
use crate::commit::Pending;
use crate::engine::Engine;
use crate::random::{Distribution, Fan, Spread};
use crate::session::Session;
use crate::support::Support;

pub use capture::CAPTURE_STATS;
pub use failure::Failure;
pub use words::Words;

/// How many numbers the scratch array holds.
pub const SCRATCH: usize = 4096;

/// The order of the counters that `stats` gives.
pub const STATS: &[&str] = &[
    "handles",
    "captures",
    "cells",
    "written",
    "commits",
    "programs",
    "draws",
    "live_bytes",
    "peak_bytes",
    "pooled_bytes",
    "executables",
    "compiles",
    "calls",
    "kernels",
];

/// Kinds of errors by number; a call that failed gives `-1 -` its place here.
pub const ERROR_KINDS: &[ErrorKind] = &[
    ErrorKind::Shape,
    ErrorKind::Dtype,
    ErrorKind::Device,
    ErrorKind::InvalidHandle,
    ErrorKind::ForeignHandle,
    ErrorKind::Closed,
    ErrorKind::Unsupported,
    ErrorKind::Compile,
    ErrorKind::Execute,
    ErrorKind::Transfer,
    ErrorKind::Cancelled,
    ErrorKind::Io,
    ErrorKind::Format,
    ErrorKind::OutOfMemory,
    ErrorKind::Argument,
];

/// Flag of `create`: the tensor requires gradients.
pub const REQUIRES_GRAD: u32 = 1;
/// Flag of `describe`: gradients pass through the tensor.
pub const TRACKED: u32 = 2;
/// Flag of `describe`: the tensor shares its elements with another.
pub const VIEW: u32 = 4;

/// Tells op tables apart (FNV-1a over the names of ops and parameters): the methods of a package go by an op's number.
pub fn fingerprint() -> u32 {
    let mut hash = 0x811C_9DC5_u32;
    let mut mix = |text: &str| {
        for byte in text.bytes() {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    };
    for op in OPS {
        mix(op.name);
        for parameter in op.parameters {
            mix(",");
            mix(parameter.name);
        }
        mix(";");
    }
    hash
}

/// The number of an error: negative, by its kind.
pub fn error_number(error: &Error) -> f64 {
    let place = ERROR_KINDS.iter().position(|kind| *kind == error.kind).unwrap_or(ERROR_KINDS.len());
    -1.0 - place as f64
}

/// A session behind numbers.
pub struct Raw<E: Engine> {
    session: Session<E>,
    failed: Failure,
}

impl<E: Engine> Raw<E> {
    /// A new session on an engine.
    pub fn new(engine: E) -> Raw<E> {
        Raw { session: Session::new(engine), failed: Failure::default() }
    }

    /// The session.
    pub fn session(&mut self) -> &mut Session<E> {
        &mut self.session
    }

    /// A result as the number that a caller without exceptions gets; the error is kept for [`Raw::error`].
    pub fn number(&mut self, result: Result<f64>) -> f64 {
        self.failed.number(result)
    }

    /// The error of the call that failed last.
    pub fn error(&self) -> Option<&Error> {
        self.failed.error()
    }

    /// Applies op `id`; gives the handle of its result. An op of several gives their count, the handles in scratch.
    pub fn op(&mut self, scratch: &mut [f64], id: f64) -> Result<f64> {
        let (id, op) = op_of(id)?;
        // Arguments that are not as many as they should be are refused below, where all others are read.
        match (op.elementwise, &*scratch) {
            (Some(Elementwise::Unary(function)), &[1.0, x, ..]) if x != 0.0 => {
                return Ok(self.session.unary(op, function, Handle::from_f64(x)?)?.to_f64());
            }
            (Some(Elementwise::Binary(function)), &[2.0, x, y, ..]) if x != 0.0 && y != 0.0 => {
                let (x, y) = (Handle::from_f64(x)?, Handle::from_f64(y)?);
                return Ok(self.session.binary(op, function, x, y)?.to_f64());
            }
            _ => {}
        }
        let (tensors, attributes) = arguments(op, scratch)?;
        let handles = self.session.op(id, &tensors, &attributes)?;
        if op.returns == Returns::Tensor
            && let [handle] = handles[..]
        {
            return Ok(handle.to_f64());
        }
        if handles.len() > scratch.len() {
            let (count, room) = (handles.len(), scratch.len());
            handles.into_iter().try_for_each(|handle| self.session.release(handle))?;
            return Err(Error::shape(op.name, format!("gives {count} results; there is room for {room}")));
        }
        for (place, handle) in scratch.iter_mut().zip(&handles) {
            *place = handle.to_f64();
        }
        Ok(handles.len() as f64)
    }

    /// Writes the result of op `id`, with arguments as in [`Raw::op`], over a tensor or a view.
    pub fn assign(&mut self, scratch: &mut [f64], target: f64, id: f64) -> Result<f64> {
        let (id, op) = op_of(id)?;
        let target = Handle::from_f64(target)?;
        let (tensors, attributes) = arguments(op, scratch)?;
        self.session.assign(target, id, &tensors, &attributes)?;
        Ok(0.0)
    }

    /// Writes the elements of `source`, converted and broadcast, over a tensor or a view.
    pub fn copy(&mut self, target: f64, source: f64) -> Result<f64> {
        self.session.copy(Handle::from_f64(target)?, Handle::from_f64(source)?)?;
        Ok(0.0)
    }

    /// A tensor of the elements in row-major order.
    pub fn create(&mut self, scratch: &mut [f64], dtype: f64, flags: f64, bytes: &[u8]) -> Result<f64> {
        let ty =
            TensorType { dtype: dtype_of("create", dtype)?, shape: Words::new("create", scratch).sizes()? };
        let requires_grad = match flags {
            0.0 => false,
            1.0 => true,
            other => {
                return Err(Error::unsupported("create", format!("the flags are {other}, expected 0 or 1")));
            }
        };
        if requires_grad && !ty.dtype.is_float() {
            let message =
                format!("the tensor is {}, and only floating-point tensors have gradients", ty.dtype);
            return Err(Error::dtype("create", message));
        }
        let handle = self.session.create(&ty, bytes)?;
        if requires_grad {
            self.session.requires_grad(handle, true)?;
        }
        Ok(handle.to_f64())
    }

    /// Adds the gradients of a loss to those of the variables that led to it; `seed` is a handle or 0.
    pub fn backward(&mut self, loss: f64, seed: f64) -> Result<f64> {
        self.session.backward(Handle::from_f64(loss)?, optional(seed)?)?;
        Ok(0.0)
    }

    /// The gradients of a loss with respect to the variables whose count and handles are in scratch, as new tensors
    /// through which derivatives pass; puts their handles into scratch and gives their number.
    pub fn gradients(&mut self, scratch: &mut [f64], loss: f64, seed: f64) -> Result<f64> {
        let of = Words::new("grad", scratch).handles()?;
        let found = self.session.gradients(Handle::from_f64(loss)?, optional(seed)?, &of)?;
        put("grad", scratch, found.into_iter().map(Handle::to_f64))
    }

    /// A handle to the gradient of a tensor, or 0.
    pub fn grad(&mut self, tensor: f64) -> Result<f64> {
        Ok(self.session.grad(Handle::from_f64(tensor)?)?.map_or(0.0, Handle::to_f64))
    }

    /// Makes `gradient`, a handle or 0, the gradient of a tensor.
    pub fn set_grad(&mut self, tensor: f64, gradient: f64) -> Result<f64> {
        self.session.set_grad(Handle::from_f64(tensor)?, optional(gradient)?)?;
        Ok(0.0)
    }

    /// Makes a tensor a variable (`on` is 1) or an ordinary one (0).
    pub fn requires_grad(&mut self, tensor: f64, on: f64) -> Result<f64> {
        let on = match on {
            0.0 => false,
            1.0 => true,
            other => {
                return Err(Error::unsupported("requires_grad", format!("got {other}, expected 0 or 1")));
            }
        };
        self.session.requires_grad(Handle::from_f64(tensor)?, on)?;
        Ok(0.0)
    }

    /// A tensor over the same elements through which no gradient passes.
    pub fn detach(&mut self, tensor: f64) -> Result<f64> {
        Ok(self.session.detach(Handle::from_f64(tensor)?)?.to_f64())
    }

    /// Opens (1) or closes (-1) a scope without gradients; 0 asks. Gives 1 inside of one, else 0.
    pub fn no_grad(&mut self, change: f64) -> Result<f64> {
        match change {
            1.0 => self.session.enter_no_grad(),
            -1.0 => self.session.leave_no_grad()?,
            0.0 => {}
            other => return Err(Error::unsupported("no_grad", format!("got {other}, expected 1, -1 or 0"))),
        }
        Ok(f64::from(u8::from(!self.session.is_grad_enabled())))
    }

    /// Puts dtype, flags, rank and sizes into scratch; gives how many numbers that are.
    pub fn describe(&mut self, scratch: &mut [f64], tensor: f64) -> Result<f64> {
        let about = self.session.describe(Handle::from_f64(tensor)?)?;
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        let flags = flag(about.requires_grad, REQUIRES_GRAD)
            | flag(about.is_tracked, TRACKED)
            | flag(about.is_view, VIEW);
        let head = [f64::from(about.ty.dtype.code()), f64::from(flags), about.ty.rank() as f64];
        put("describe", scratch, head.into_iter().chain(about.ty.shape.iter().map(|&size| size as f64)))
    }

    /// A tensor of random elements; `kind` 0 is uniform from `a` to `b`, 1 normal of mean `a` and deviation `b`, and
    /// 2 the key of the next draw, for ops that take one (dtype, `a`, `b` and sizes are not looked at). The first values
    /// of weights: 3 and 4 are Kaiming's uniform and normal ones of slope `a`, by the fan out where `b` is 1; 5 and 6
    /// Xavier's of gain `a`.
    pub fn random(&mut self, scratch: &mut [f64], kind: f64, dtype: f64, a: f64, b: f64) -> Result<f64> {
        if kind == 2.0 {
            return Ok(self.session.random_key()?.to_f64());
        }
        let ty =
            TensorType { dtype: dtype_of("random", dtype)?, shape: Words::new("random", scratch).sizes()? };
        let kaiming = Spread::Kaiming { slope: a, fan: if b == 1.0 { Fan::Out } else { Fan::In } };
        let xavier = Spread::Xavier { gain: a };
        let distribution = match kind {
            0.0 => Distribution::Uniform { low: a, high: b },
            1.0 => Distribution::Normal { mean: a, deviation: b },
            3.0 => kaiming.uniform(&ty.shape)?,
            4.0 => kaiming.normal(&ty.shape)?,
            5.0 => xavier.uniform(&ty.shape)?,
            6.0 => xavier.normal(&ty.shape)?,
            other => {
                let message = format!("there is no kind {other}; they are 0 to 6");
                return Err(Error::unsupported("random", message));
            }
        };
        Ok(self.session.random(&ty, distribution)?.to_f64())
    }

    /// Starts the random sequence of a seed, a whole number below 2^53, anew.
    pub fn seed(&mut self, seed: f64) -> Result<f64> {
        self.session.seed(seed_of(seed)?)?;
        Ok(0.0)
    }

    /// Gives up a handle.
    pub fn release(&mut self, tensor: f64) -> Result<f64> {
        self.session.release(Handle::from_f64(tensor)?)?;
        Ok(0.0)
    }

    /// Puts the counters into scratch in the order of [`STATS`]; gives their number.
    pub fn stats(&mut self, scratch: &mut [f64]) -> Result<f64> {
        let stats = self.session.stats();
        let engine = stats.engine;
        let counters = [
            stats.handles,
            stats.captures,
            stats.cells,
            stats.written,
            stats.commits,
            stats.programs,
            stats.draws,
            engine.live_bytes,
            engine.peak_bytes,
            engine.pooled_bytes,
            engine.executables,
            engine.compiles,
            engine.calls,
            engine.kernels,
        ];
        put("stats", scratch, counters.into_iter().map(|counter| counter as f64))
    }

    /// Computes the tensors whose count and handles are in scratch, and all that was written, in one program.
    pub fn commit(&mut self, scratch: &mut [f64]) -> Result<f64> {
        let tensors = Words::new("commit", scratch).handles()?;
        self.session.commit(&tensors)?;
        Ok(0.0)
    }

    /// Whether the engine can apply op `id` to tensors of that dtype and the sizes in scratch, all other arguments left
    /// out: 2 for yes, 1 if that alone does not say, 0 for no. [`Raw::error`] then has the reason, but for a yes.
    pub fn can_run(&mut self, scratch: &mut [f64], id: f64, dtype: f64) -> Result<f64> {
        let (id, _) = op_of(id)?;
        let ty =
            TensorType { dtype: dtype_of("can_run", dtype)?, shape: Words::new("can_run", scratch).sizes()? };
        let (answer, reason) = match self.session.can_run(id, &ty) {
            Support::Yes => return Ok(2.0),
            Support::Unknown(reason) => (1.0, reason),
            Support::No(reason) => (0.0, reason),
        };
        self.failed.keep(reason);
        Ok(answer)
    }

    /// Commits; gives the tensor with its type, for the engine to read.
    pub fn read(&mut self, tensor: f64) -> Result<(TensorType, E::Concrete)> {
        self.session.read(Handle::from_f64(tensor)?)
    }

    /// The first half of a read whose program runs elsewhere; [`Session::finish_commit`] gives the tensor.
    pub fn begin_read(&mut self, tensor: f64) -> Result<(TensorType, Pending<E::Concrete>)> {
        let handle = Handle::from_f64(tensor)?;
        let ty = self.session.describe(handle)?.ty;
        Ok((ty, self.session.begin_commit(&[handle])?))
    }

    /// The first half of a read of several tensors, whose count and handles are in scratch;
    /// [`Session::finish_commit`] gives them in that order.
    pub fn begin_commit(&mut self, scratch: &mut [f64]) -> Result<Pending<E::Concrete>> {
        let tensors = Words::new("commit", scratch).handles()?;
        self.session.begin_commit(&tensors)
    }

    /// The second half of a read or a commit.
    pub fn finish_commit(
        &mut self,
        pending: Pending<E::Concrete>,
        results: Result<Vec<E::Concrete>>,
    ) -> Result<Vec<E::Concrete>> {
        self.session.finish_commit(pending, results)
    }

    /// Runs a commit that has begun on the session's own engine.
    pub fn run(&self, pending: &mut Pending<E::Concrete>, cancel: &CancelToken) -> Result<Vec<E::Concrete>> {
        pending.run(self.session.engine(), cancel)
    }
}

/// The op of that number, which comes from outside.
pub fn op_of(id: f64) -> Result<(usize, &'static Op)> {
    let place = id as u32;
    match OPS.get(place as usize) {
        Some(op) if f64::from(place) == id => Ok((place as usize, op)),
        _ => Err(Error::unsupported("op", format!("there is no op number {id}"))),
    }
}

/// The dtype of that [code](DType::code), which comes from outside.
pub fn dtype_of(op: &str, code: f64) -> Result<DType> {
    let whole = code as u8;
    let dtype = if f64::from(whole) == code { DType::from_code(whole) } else { None };
    dtype.ok_or_else(|| Error::dtype(op, format!("there is no dtype number {code}")))
}

/// A handle; 0 is none.
#[inline]
pub fn optional(handle: f64) -> Result<Option<Handle>> {
    if handle == 0.0 { Ok(None) } else { Handle::from_f64(handle).map(Some) }
}

/// A seed, a whole number below 2^53.
pub fn seed_of(seed: f64) -> Result<u64> {
    let whole = seed as u64;
    if whole as f64 != seed || whole >= 1 << 53 {
        return Err(Error::unsupported("seed", format!("{seed} is no whole number from 0 to 2^53 - 1")));
    }
    Ok(whole)
}

/// Puts numbers into scratch; gives how many.
pub fn put(call: &str, scratch: &mut [f64], numbers: impl Iterator<Item = f64>) -> Result<f64> {
    let mut places = scratch.iter_mut();
    let mut count = 0;
    for number in numbers {
        let Some(place) = places.next() else {
            return Err(Error::shape(call, "the result does not fit scratch"));
        };
        *place = number;
        count += 1;
    }
    Ok(f64::from(count))
}

/// The tensors of a call, `None` for an optional one that is absent.
pub type Operands = SmallVec<[Option<Handle>; 4]>;

/// The attributes of a call, of which most ops have few.
pub type Attributes = SmallVec<[Attribute; 4]>;

/// The tensors and attributes of a call of `op`.
pub fn arguments(op: &Op, scratch: &[f64]) -> Result<(Operands, Attributes)> {
    let mut words = Words::new(op.name, scratch);
    let tensors = words.optional_handles()?;
    let mut attributes = Attributes::new();
    for parameter in op.parameters {
        if !parameter.kind.is_tensor() {
            attributes.push(words.attribute(parameter.kind)?);
        }
    }
    Ok((tensors, attributes))
}
