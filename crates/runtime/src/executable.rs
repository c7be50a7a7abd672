//! Executables: programs with a calling convention.
//!
//! An [`Executable`] is made of parameters and roots of a graph. A call takes one concrete tensor for each
//! parameter, leases a workspace from the pool, runs, and gives one tensor for each root. What the graph reads
//! besides its parameters (leaves that have a storage) is bound when the executable is made. Nothing is
//! traversed, compiled or allocated per node in a call.

use std::sync::Arc;

use lanthorn_compiler::backend::{Call, MemRef, Memory, Observer};
use lanthorn_compiler::indexed::{Indexed, ValueRef};
use lanthorn_compiler::pipeline::{Compiled, Report};
use lanthorn_compiler::plan::Plan;
use lanthorn_ir::{Error, ErrorKind, Layout, Result, TensorType, Value};
use smallvec::SmallVec;

pub use lanthorn_compiler::cost::KernelInfo;
pub use lanthorn_compiler::pipeline::Options;

use crate::cancel::CancelToken;
use crate::device::Device;
use crate::eager::{Eager, EagerTensor};
use crate::non_finite::{self, NonFinite};
use crate::profile::Watch;
use crate::slot;
use crate::storage::{Access, Storage};

/// A compiled program of one device; cloning is cheap.
#[derive(Clone)]
pub struct Executable {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    compiled: Arc<Compiled>,
    parameters: Vec<TensorType>,
    /// Arguments after the parameters.
    bound: Vec<EagerTensor>,
    results: Vec<TensorType>,
    options: Options,
}

impl Executable {
    /// Compiles the graph from `parameters` to `roots`, or finds the program in the device's cache.
    ///
    /// `options.donated` lists `(parameter, root)` pairs: the argument's memory receives the result.
    /// `options.finite` lists roots, floats of rank 0, that must be finite for a call to take effect.
    ///
    /// Errors: a leaf that is no parameter and has no value; what the device lacks.
    pub fn new(
        device: &Device,
        parameters: &[Value],
        roots: &[Value],
        options: &Options,
    ) -> Result<Executable> {
        let out_of_range = |what: &str, at: u32| {
            Err(Error::new(ErrorKind::Compile, "compile", format!("there is no {what} {at} in the options")))
        };
        for &(parameter, root) in &options.donated {
            if parameter as usize >= parameters.len() {
                return out_of_range("parameter", parameter);
            }
            if root as usize >= roots.len() {
                return out_of_range("result", root);
            }
        }
        if let Some(&root) = options.finite.iter().find(|&&root| root as usize >= roots.len()) {
            return out_of_range("result", root);
        }
        let (indexed, bound) = slot::resolve(device, parameters, roots)?;
        let compiled = device.program(indexed, options)?;
        let types = |values: &[Value]| values.iter().map(|value| value.ty().clone()).collect();
        let inner = Inner {
            device: device.clone(),
            compiled,
            parameters: types(parameters),
            bound,
            results: types(roots),
            options: options.clone(),
        };
        Ok(Executable { inner: Arc::new(inner) })
    }

    /// Compiles a program that is in dense tables already, or finds it in the device's cache. Its inputs are the
    /// parameters.
    pub fn of_program(device: &Device, program: Indexed) -> Result<Executable> {
        Executable::of_program_with(device, program, Options::default())
    }

    /// [`Executable::of_program`] with options; see [`Executable::new`].
    pub fn of_program_with(device: &Device, program: Indexed, options: Options) -> Result<Executable> {
        let types =
            |values: &mut dyn Iterator<Item = ValueRef>| values.map(|v| program.ty(v).clone()).collect();
        let parameters = types(&mut program.inputs.iter().map(|&node| ValueRef { node, output: 0 }));
        let results = types(&mut program.roots.iter().copied());
        let compiled = device.program(program, &options)?;
        let inner =
            Inner { device: device.clone(), compiled, parameters, bound: Vec::new(), results, options };
        Ok(Executable { inner: Arc::new(inner) })
    }

    /// The device that runs it.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The types of the arguments.
    pub fn parameters(&self) -> &[TensorType] {
        &self.inner.parameters
    }

    /// The tensors that the graph read besides its parameters: arguments of every call.
    pub fn bound(&self) -> &[EagerTensor] {
        &self.inner.bound
    }

    /// The types of the results.
    pub fn results(&self) -> &[TensorType] {
        &self.inner.results
    }

    /// What it took to compile.
    pub fn report(&self) -> &Report {
        &self.inner.compiled.report
    }

    /// Its kernels and where their operands lie.
    pub fn plan(&self) -> &Plan {
        &self.inner.compiled.plan
    }

    /// Name and cost of every kernel in the order of execution; [`cost`](lanthorn_compiler::cost) says how it is
    /// counted.
    ///
    /// ```
    /// # fn main() -> lanthorn_ir::Result<()> {
    /// # let device = lanthorn_runtime::Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
    /// use lanthorn_ir::{DType, Lazy, TensorType, Value, ops};
    /// use lanthorn_runtime::{Executable, Options};
    /// let x = Value::leaf(TensorType::new(DType::F32, [8, 16]))?;
    /// let w = Value::leaf(TensorType::new(DType::F32, [16, 4]))?;
    /// let y = ops::gelu(&Lazy, &ops::matmul(&Lazy, &x, &w)?, Default::default())?;
    /// let program = Executable::new(&device, &[x, w], &[y], &Options::default())?;
    /// let [kernel] = program.kernels() else { panic!("one kernel does it all") };
    /// assert_eq!(kernel.name, "matmul + gelu");
    /// assert_eq!(kernel.bytes_read, 4 * (8 * 16 + 16 * 4));
    /// assert_eq!(kernel.bytes_written, 4 * 8 * 4);
    /// assert_eq!(kernel.flops, 2 * 8 * 16 * 4 + 8 * 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn kernels(&self) -> &[KernelInfo] {
        self.inner.compiled.kernel_infos()
    }

    /// The op that first gives a number that is not finite from operands that are, if one does. Runs the program as it
    /// was before any optimisation, one primitive at a time, on any device that can be waited for; no argument is
    /// changed.
    ///
    /// ```
    /// # fn main() -> lanthorn_ir::Result<()> {
    /// # let device = lanthorn_runtime::Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
    /// use lanthorn_ir::{DType, Lazy, TensorType, Value, ops};
    /// use lanthorn_runtime::{EagerTensor, Executable, Options};
    /// let x = Value::leaf(TensorType::new(DType::F32, [3]))?;
    /// let y = ops::sum(&Lazy, &ops::log(&Lazy, &ops::sub(&Lazy, &x, &x)?)?, &[], false)?;
    /// let program = Executable::new(&device, &[x], &[y], &Options::default())?;
    /// let x = EagerTensor::from_slice(&device, &[3], &[1f32, 2.0, 3.0])?;
    /// let found = program.first_non_finite(&[&x])?.unwrap();
    /// assert_eq!(found.op, "log");
    /// assert_eq!(
    ///     found.to_string(),
    ///     "log gave -inf at [0] of result 0, f32[3] (3 of 3 elements are not finite), \
    ///      from operand 0: f32[3] of 0e0 to 0e0"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: as [`Executable::call`].
    pub fn first_non_finite(&self, arguments: &[&EagerTensor]) -> Result<Option<NonFinite>> {
        self.check(arguments)?;
        let Inner { device, compiled, bound, .. } = &*self.inner;
        let operands: Vec<&EagerTensor> = arguments.iter().copied().chain(bound).collect();
        non_finite::first(&Eager::new(device), &compiled.source, &operands)
    }

    /// Runs the program.
    ///
    /// A donated argument gives up its memory to its result if it is the only handle to a pooled storage;
    /// otherwise it is copied first and stays as it is. After a call that succeeded, a donated argument that
    /// was not copied is an invalid handle. After one that failed, every argument is as it was; where a kernel that may
    /// fail comes after the argument would be overwritten, the result has memory of its own and the argument stays as it
    /// is (but for those of [`Options::half_written`]).
    ///
    /// Errors: arguments of another number, type or device; [`ErrorKind::Cancelled`] before the commit point;
    /// a result that is not finite but must be; what kernels report, such as an id out of range.
    ///
    /// Under [`Device::set_trace_non_finite`], an error names the op that first gave a number that is not finite.
    pub fn call(&self, arguments: &[&EagerTensor], cancel: &CancelToken) -> Result<Vec<EagerTensor>> {
        if self.inner.device.traces_non_finite() {
            return self.call_traced(arguments, cancel);
        }
        self.run(arguments, cancel)
    }

    fn call_traced(&self, arguments: &[&EagerTensor], cancel: &CancelToken) -> Result<Vec<EagerTensor>> {
        // Handles of our own, so that donated arguments are copied and stay for a second run.
        let kept: Vec<EagerTensor> = arguments.iter().copied().cloned().collect();
        let results = self.run(arguments, cancel);
        let is_at_fault = match &results {
            Ok(results) => {
                let finite = results.iter().map(non_finite::is_finite).collect::<Result<Vec<bool>>>()?;
                finite.contains(&false)
            }
            Err(error) => error.kind == ErrorKind::Execute && !self.inner.options.finite.is_empty(),
        };
        if is_at_fault {
            let kept: Vec<&EagerTensor> = kept.iter().collect();
            if let Some(found) = self.first_non_finite(&kept)? {
                return Err(found.into_error());
            }
        }
        results
    }

    fn run(&self, arguments: &[&EagerTensor], cancel: &CancelToken) -> Result<Vec<EagerTensor>> {
        let Inner { device, compiled, .. } = &*self.inner;
        self.check(arguments)?;
        let (operands, donated) = self.operands(arguments)?;
        let mut fresh: SmallVec<[Option<Storage>; 4]> = (0..self.inner.results.len())
            .map(|result| match self.donor(result) {
                Some(_) => Ok(None),
                None => Storage::allocate(device, self.inner.results[result].bytes()).map(Some),
            })
            .collect::<Result<_>>()?;
        let mut workspace = device.lease(compiled.plan.workspace_bytes)?;
        let mut access = {
            let reads: SmallVec<[&Storage; 16]> = operands.iter().map(|operand| operand.storage()).collect();
            let writes: SmallVec<[&Storage; 16]> =
                donated.iter().map(|&argument| operands[argument].storage()).collect();
            Access::lock(&reads, &writes)?
        };
        {
            let place = |operand: &EagerTensor| -> Result<MemRef<'_>> {
                let offset = operand.layout().offset * operand.dtype().size();
                Ok(MemRef { memory: access.memory(operand.storage())?, offset })
            };
            let inputs: SmallVec<[MemRef<'_>; 16]> =
                operands.iter().map(|operand| place(operand.get())).collect::<Result<_>>()?;
            let outputs: SmallVec<[MemRef<'_>; 8]> = fresh
                .iter_mut()
                .enumerate()
                .map(|(result, fresh)| match (fresh, self.donor(result)) {
                    (Some(fresh), _) => Ok(whole(fresh.own_memory()?)),
                    (None, Some(argument)) => place(operands[argument].get()),
                    (None, None) => Err(Error::new(ErrorKind::Execute, "call", "a result has no memory")),
                })
                .collect::<Result<_>>()?;
            let cancelled = || cancel.is_cancelled();
            let _span = tracing::trace_span!("run", kernels = compiled.plan.kernels.len()).entered();
            let recorder = device.recorder();
            let watch = recorder.as_ref().map(|_| Watch::start(compiled.plan.kernels.len()));
            let done = compiled.program.run(&Call {
                inputs: &inputs,
                outputs: &outputs,
                workspace: device.leased(&mut workspace)?,
                cancelled: &cancelled,
                observer: watch.as_ref().map(|watch| watch as &dyn Observer),
            });
            if let (Some(recorder), Some(watch)) = (recorder, watch) {
                recorder.ran(watch, compiled);
            }
            done?;
        }
        device.counters().count_call(compiled.plan.kernels.len());
        let mut results = Vec::with_capacity(fresh.len());
        for (result, fresh) in fresh.into_iter().enumerate() {
            let ty = &self.inner.results[result];
            let mut layout = Layout::contiguous(&ty.shape);
            let storage = match (fresh, self.donor(result)) {
                (Some(fresh), _) => Some(fresh),
                (None, Some(argument)) => {
                    let storage = operands[argument].storage();
                    layout.offset = operands[argument].layout().offset;
                    let block = access.take(storage);
                    storage.bump_version();
                    block.map(|block| Storage::of_block(device, storage.bytes(), block))
                }
                (None, None) => None,
            };
            let storage = storage
                .ok_or_else(|| Error::new(ErrorKind::Execute, "call", "a result has lost its memory"))?;
            results.push(EagerTensor::of_parts(storage, ty.dtype, layout));
        }
        Ok(results)
    }

    /// The argument whose memory receives a result.
    fn donor(&self, result: usize) -> Option<usize> {
        let output = self.inner.compiled.plan.outputs.get(result)?;
        output.donated.map(|argument| argument as usize)
    }

    fn check(&self, arguments: &[&EagerTensor]) -> Result<()> {
        let expected = &self.inner.parameters;
        if arguments.len() != expected.len() {
            let (n, m) = (expected.len(), arguments.len());
            return Err(Error::shape("call", format!("takes {n} arguments, got {m}")));
        }
        for (at, (argument, ty)) in arguments.iter().zip(expected).enumerate() {
            self.inner.device.expect("call", argument.device())?;
            if argument.ty() != ty {
                let found = argument.ty();
                return Err(Error::shape("call", format!("argument {at} is {found}, expected {ty}")));
            }
        }
        Ok(())
    }

    /// The operands as the program takes them, contiguous, and which of them are written: the donated
    /// arguments, copied where they may not be.
    fn operands<'a>(&'a self, arguments: &[&'a EagerTensor]) -> Result<(Vec<Operand<'a>>, Vec<usize>)> {
        let borrowed = arguments.iter().copied().chain(&self.inner.bound);
        let mut operands = Vec::with_capacity(arguments.len() + self.inner.bound.len());
        for operand in borrowed {
            operands.push(if operand.layout().is_contiguous() {
                Operand::Borrowed(operand)
            } else {
                Operand::Owned(operand.copy()?)
            });
        }
        let outputs = &self.inner.compiled.plan.outputs;
        let mut written = Vec::with_capacity(outputs.len());
        for argument in outputs.iter().filter_map(|output| output.donated) {
            let argument = argument as usize;
            if let Operand::Borrowed(tensor) = operands[argument] {
                let storage = tensor.storage();
                let shared =
                    |(at, other): (usize, &Operand<'_>)| at != argument && other.storage().is_same(storage);
                if !storage.is_unique() || operands.iter().enumerate().any(shared) {
                    operands[argument] = Operand::Owned(tensor.copy()?);
                }
            }
            written.push(argument);
        }
        Ok((operands, written))
    }
}

/// An operand of a call: the caller's, or a copy for this call.
enum Operand<'a> {
    Borrowed(&'a EagerTensor),
    Owned(EagerTensor),
}

impl Operand<'_> {
    fn get(&self) -> &EagerTensor {
        match self {
            Operand::Borrowed(tensor) => tensor,
            Operand::Owned(tensor) => tensor,
        }
    }

    fn storage(&self) -> &Storage {
        self.get().storage()
    }

    fn layout(&self) -> &Layout {
        self.get().layout()
    }
}

fn whole(memory: &dyn Memory) -> MemRef<'_> {
    MemRef { memory, offset: 0 }
}

impl std::fmt::Debug for Executable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kernels = self.inner.compiled.plan.kernels.len();
        write!(f, "Executable of {kernels} kernels on {}", self.inner.device)
    }
}
