//! Handles over graphs that never change.

use std::sync::Arc;

use lanthorn_compiler::slot;
use lanthorn_ir::Lazy;
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType, Value, ops};
use lanthorn_llm::{Pool, Sequence};
use lanthorn_runtime::{Device, EagerTensor};
use lanthorn_session::arena::Arena;
use lanthorn_session::random::Distribution;
use lanthorn_session::session::check_type;
use lanthorn_session::{Engine, EngineStats, Handle};

use crate::decode::Decode;
use crate::executable::Executable;
use crate::leaf::{self, Leaf, elements};

/// What a handle stands for.
pub(crate) enum Entry {
    /// A value of a graph; a concrete one is a leaf with its elements.
    Tensor(Value),
    Executable(Arc<Executable>),
    Decode(Arc<Decode>),
    Pool(Pool),
    Sequence(Arc<Sequence>),
}

impl Entry {
    /// What it is called in errors.
    fn name(&self) -> &'static str {
        match self {
            Entry::Tensor(_) => "a tensor",
            Entry::Executable(_) => "an executable",
            Entry::Decode(_) => "a decode program",
            Entry::Pool(_) => "a pool",
            Entry::Sequence(_) => "a sequence",
        }
    }

    /// The error of a handle of another kind than `expected`.
    pub fn expected(&self, op: &str, expected: &str) -> Error {
        let message = format!("the handle is that of {}, expected {expected}", self.name());
        Error::new(ErrorKind::InvalidHandle, op, message)
    }
}

/// Lazy and concrete tensors and executables of one device by handle. Used by one thread at a time.
///
/// ```
/// # use std::sync::Arc;
/// # use lanthorn_graph::{Graph, Outcome};
/// # use lanthorn_ir::{DType, Result, TensorType, ops::table::id_of};
/// # use lanthorn_runtime::CancelToken;
/// # fn main() -> Result<()> {
/// let mut graph = Graph::new(lanthorn_runtime::Device::new(Arc::new(lanthorn_cpu::CpuBackend)));
/// let bytes: Vec<u8> = [3f32, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
/// let w = graph.create(&TensorType::new(DType::F32, [2]), &bytes)?;
/// let square = graph.op(id_of("square").unwrap(), &[Some(w)], &[])?[0];
/// let loss = graph.op(id_of("sum").unwrap(), &[Some(square)], &[])?[0];
/// let gradient = graph.grad(loss, &[w])?[0];
/// let mut job = graph.begin_compute(&[gradient])?;
/// let output = job.run(&CancelToken::never());
/// let Outcome::Handles(computed) = graph.finish(job, output, &CancelToken::never())? else { unreachable!() };
/// assert_eq!(graph.elements("read", computed[0])?.to_f64_vec()?, [6.0, 8.0]);
/// # Ok(())
/// # }
/// ```
pub struct Graph {
    pub(crate) device: Device,
    pub(crate) entries: Arena<Entry>,
    /// Seed and number of the next draw.
    pub(crate) random: [u64; 2],
}

/// The counters of a graph and its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Handles that have not been released.
    pub handles: u64,
    /// The device's counters.
    pub engine: EngineStats,
}

impl Graph {
    /// No handles, and the random sequence of seed 0.
    pub fn new(device: Device) -> Graph {
        Graph { device, entries: Arena::default(), random: [0, 0] }
    }

    /// Where programs run.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A concrete tensor of the elements in row-major order, in the machine's byte order.
    ///
    /// Errors: a number of bytes that is not the type's.
    pub fn create(&mut self, ty: &TensorType, bytes: &[u8]) -> Result<Handle> {
        check_type("create", ty)?;
        if ty.bytes() != bytes.len() {
            let (found, expected) = (bytes.len(), ty.bytes());
            return Err(Error::shape("create", format!("{ty} takes {expected} bytes, got {found}")));
        }
        self.adopt(EagerTensor::from_bytes(&self.device, ty, bytes)?)
    }

    /// A concrete tensor; it is never written to.
    pub fn adopt(&mut self, tensor: EagerTensor) -> Result<Handle> {
        let ty = tensor.ty().clone();
        check_type("create", &ty)?;
        self.insert(slot::leaf(&ty, tensor)?)
    }

    /// A tensor whose elements every execution draws anew; all roots of one execution see one draw.
    ///
    /// Errors: a dtype that is no floating-point type; an empty range, a negative deviation.
    pub fn random(&mut self, ty: &TensorType, distribution: Distribution) -> Result<Handle> {
        check_type("random", ty)?;
        let key = Leaf::Key.value(key_type())?;
        let value = match distribution {
            Distribution::Uniform { low, high } => {
                ops::uniform(&Lazy, &key, &ty.shape, low, high, ty.dtype, 0)?
            }
            Distribution::Normal { mean, deviation } => {
                ops::normal(&Lazy, &key, &ty.shape, mean, deviation, ty.dtype, 0)?
            }
        };
        self.insert(value)
    }

    /// The key of a draw, `u64 [2]`, for ops that take one; new in every execution.
    pub fn random_key(&mut self) -> Result<Handle> {
        self.insert(Leaf::Key.value(key_type())?)
    }

    /// Starts the sequence of draws of `seed` anew.
    pub fn seed(&mut self, seed: u64) {
        self.random = [seed, 0];
    }

    /// The binding number `slot` of an execution.
    pub fn input(&mut self, slot: usize, ty: TensorType) -> Result<Handle> {
        check_type("input", &ty)?;
        check_slot("input", slot)?;
        self.insert(Leaf::Input(slot).value(ty)?)
    }

    /// The scalar number `slot` of an execution.
    pub fn scalar_input(&mut self, slot: usize, dtype: DType) -> Result<Handle> {
        check_slot("scalar_input", slot)?;
        if dtype.is_complex() {
            let message = format!("the dtype is {dtype}, expected a real one");
            return Err(Error::dtype("scalar_input", message));
        }
        self.insert(Leaf::Scalar(slot).value(TensorType::scalar(dtype))?)
    }

    /// `i32 [length]`: 0, 1, 2 and on; in a decode program the positions of the tokens in their sequence.
    pub fn positions(&mut self, length: usize) -> Result<Handle> {
        let ty = TensorType::new(DType::I32, [length]);
        check_type("positions", &ty)?;
        if i32::try_from(length).is_err() {
            return Err(Error::shape("positions", format!("{length} positions are more than i32 counts")));
        }
        self.insert(Leaf::Positions.value(ty)?)
    }

    /// Dtype and shape of a tensor, and whether it is concrete.
    pub fn describe(&self, tensor: Handle) -> Result<(TensorType, bool)> {
        let value = self.value("describe", tensor)?;
        Ok((value.ty().clone(), elements("describe", value)?.is_some()))
    }

    /// The elements of a concrete tensor.
    ///
    /// Errors: a lazy one.
    pub fn elements(&self, op: &str, tensor: Handle) -> Result<EagerTensor> {
        let value = self.value(op, tensor)?;
        elements(op, value)?.ok_or_else(|| {
            let message =
                format!("the tensor {} is lazy, expected a concrete one; compute it first", value.ty());
            Error::new(ErrorKind::InvalidHandle, op, message)
        })
    }

    /// Gives up a handle to a concrete tensor and its elements with it: nodes over the tensor cannot be computed any more.
    /// Jobs that have begun and executables keep what they took, and results that share memory with it keep that.
    ///
    /// Errors: a handle of another kind, a lazy tensor.
    pub fn clear(&mut self, tensor: Handle) -> Result<()> {
        self.elements("clear", tensor)?;
        leaf::clear(self.value("clear", tensor)?)?;
        self.release(tensor)
    }

    /// Gives up a handle. What nobody else refers to goes with it.
    pub fn release(&mut self, handle: Handle) -> Result<()> {
        self.entries.remove(handle).map(drop)
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        Stats { handles: self.entries.len() as u64, engine: Engine::stats(&self.device) }
    }

    /// A handle to a value.
    pub(crate) fn insert(&mut self, value: Value) -> Result<Handle> {
        self.entries.insert(Entry::Tensor(value))
    }

    /// Handles to values: to all of them, or to none.
    pub(crate) fn insert_all(&mut self, values: impl IntoIterator<Item = Value>) -> Result<Vec<Handle>> {
        let mut handles = Vec::new();
        for value in values {
            match self.insert(value) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    handles.into_iter().try_for_each(|handle| self.release(handle))?;
                    return Err(error);
                }
            }
        }
        Ok(handles)
    }

    /// The value of a tensor.
    pub(crate) fn value(&self, op: &str, tensor: Handle) -> Result<&Value> {
        match self.entries.get(tensor)? {
            Entry::Tensor(value) => Ok(value),
            other => Err(other.expected(op, "a tensor")),
        }
    }

    /// The values of tensors.
    pub(crate) fn values(&self, op: &str, tensors: &[Handle]) -> Result<Vec<Value>> {
        tensors.iter().map(|&tensor| self.value(op, tensor).cloned()).collect()
    }
}

/// The type of keys.
pub(crate) fn key_type() -> TensorType {
    TensorType::new(DType::U64, [2])
}

/// The most bindings, and scalars, that an executable takes.
const MAX_SLOTS: usize = 1 << 16;

fn check_slot(op: &str, slot: usize) -> Result<()> {
    if slot < MAX_SLOTS {
        return Ok(());
    }
    Err(Error::shape(op, format!("the slot is {slot}, expected less than {MAX_SLOTS}")))
}
