//! Eager execution: each primitive runs as it is applied, on strided views.
//!
//! Movements are views and move nothing. What the backend has no kernel for is decomposed through the same
//! builder. [`Eager::apply_into`] writes to existing tensors: in-place updates and ops with an `out` argument.

mod flat;
mod into;
mod ready;
mod tensor;

use std::sync::Arc;

use lanthorn_compiler::backend::{MemRef, Memory, PreparedKernel, Support};
use lanthorn_compiler::clock::Moment;
use lanthorn_compiler::cost::single_info;
use lanthorn_compiler::kernel::BufferId;
use lanthorn_compiler::single::copy;
use lanthorn_ir::builder::{Outputs, count_of, only};
use lanthorn_ir::prim::Control;
use lanthorn_ir::{Builder, Error, Layout, Prim, Result, TensorType};
use smallvec::SmallVec;

pub(crate) use flat::FlatKernels;
pub(crate) use ready::ReadyKernels;
pub use tensor::EagerTensor;

use ready::{Ready, start};

use crate::device::Device;
use crate::non_finite;
use crate::storage::{Access, Storage};

/// Runs primitives now. All operands of one call live on its device.
///
/// ```
/// # use std::sync::Arc;
/// # fn example(device: lanthorn_runtime::Device) -> lanthorn_ir::Result<()> {
/// use lanthorn_ir::ops;
/// use lanthorn_runtime::{Eager, EagerTensor};
/// let eager = Eager::new(&device);
/// let x = EagerTensor::from_slice(&device, &[2, 2], &[1f32, 2.0, 3.0, 4.0])?;
/// let y = ops::sum(&eager, &ops::transpose(&eager, &x, 0, 1)?, &[0], false)?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 7.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Eager {
    device: Device,
}

impl Eager {
    /// The eager builder of a device.
    pub fn new(device: &Device) -> Eager {
        Eager { device: device.clone() }
    }

    /// The device on which it runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies the elements of `from` to `to`, which has the same type.
    pub fn copy_into(&self, from: &EagerTensor, to: &EagerTensor) -> Result<()> {
        if from.ty() != to.ty() {
            let message = format!("{} cannot be copied into {}", from.ty(), to.ty());
            return Err(Error::shape("copy", message));
        }
        self.check_devices("copy", &[from, to])?;
        into::check_target("copy", to)?;
        if from.storage().is_same(to.storage()) && into::overlap(from, to) {
            if from.layout() == to.layout() {
                // The elements stay, but it counts as a write.
                to.storage().bump_version();
                return Ok(());
            }
            let apart = from.copy()?;
            return self.copy_apart(&apart, to);
        }
        self.copy_apart(from, to)
    }

    fn copy_apart(&self, from: &EagerTensor, to: &EagerTensor) -> Result<()> {
        let kernel = copy(from.dtype(), from.layout().clone(), to.layout().clone());
        let kernel = self.device.backend().prepare(&kernel)?;
        let access = Access::lock(&[from.storage()], &[to.storage()])?;
        let memories: [&dyn Memory; 2] = [access.memory(from.storage())?, access.memory(to.storage())?];
        self.run(&*kernel, &[0], &[1], |buffer| MemRef { memory: memories[buffer as usize], offset: 0 })?;
        to.storage().bump_version();
        Ok(())
    }

    /// As [`Builder::apply`], of operands that stay where they are.
    pub fn apply_ref(&self, prim: Prim, inputs: &[&EagerTensor]) -> Result<Outputs<EagerTensor>> {
        if self.device.traces_non_finite() && computes(&prim) {
            let operands = non_finite::extents(inputs)?;
            let outputs = self.apply_quietly(prim.clone(), inputs)?;
            return match non_finite::at_fault(&prim, operands, &outputs)? {
                Some(found) => Err(found.into_error()),
                None => Ok(outputs),
            };
        }
        self.apply_quietly(prim, inputs)
    }

    /// As [`Eager::apply_ref`], whatever numbers come of it.
    pub(crate) fn apply_quietly(&self, prim: Prim, inputs: &[&EagerTensor]) -> Result<Outputs<EagerTensor>> {
        let owned = || inputs.iter().copied().cloned().collect::<SmallVec<[EagerTensor; 4]>>();
        if let Prim::Control(Control::Checkpoint { body }) = &prim {
            return Ok(body.inline(self, &owned())?.into());
        }
        let only_looks = matches!(prim, Prim::Movement(_) | Prim::Complex(_))
            || matches!(prim, Prim::Control(Control::Barrier | Control::StopGradient | Control::Written));
        if only_looks {
            let operands: SmallVec<[&TensorType; 4]> = inputs.iter().map(|input| input.ty()).collect();
            prim.infer(&operands)?;
            self.check_devices(prim.name(), inputs)?;
            if let Some(view) = as_view(&prim, inputs) {
                return Ok(SmallVec::from_iter([view]));
            }
        }
        let ready = self.ready(&prim, inputs, &[])?;
        self.check_devices(prim.name(), inputs)?;
        match ready {
            Some(ready) => self.run_fresh(&ready, inputs),
            None => prim.decompose_or_fail(self, &owned()),
        }
    }

    fn check_devices(&self, op: &str, operands: &[&EagerTensor]) -> Result<()> {
        operands.iter().try_for_each(|operand| self.device.expect(op, operand.device()))
    }

    /// True if the backend runs the primitive itself; an error if it lacks a dtype.
    fn has_kernel(&self, prim: &Prim, inputs: &[&TensorType], outputs: usize) -> Result<bool> {
        if matches!(prim, Prim::Movement(_) | Prim::Complex(_))
            || matches!(prim, Prim::Source(lanthorn_ir::prim::Source::Const { .. }))
        {
            return Ok(true);
        }
        let support = self.device.backend().support(prim, inputs)?;
        if prim.is_pointwise() {
            let operands = inputs.len() + outputs;
            let fits = operands <= self.device.backend().caps().region_operands;
            return Ok(fits || matches!(prim, Prim::Elementwise(_)));
        }
        Ok(support == Support::Kernel)
    }

    /// The kernels of a primitive, made ready now or before; `None` if it runs by its decomposition.
    fn ready(
        &self,
        prim: &Prim,
        inputs: &[&EagerTensor],
        targets: &[Option<&EagerTensor>],
    ) -> Result<Option<Arc<Ready>>> {
        if let Some(ready) = self.device.ready().find(prim, inputs, targets) {
            return Ok(Some(ready));
        }
        let operands: SmallVec<[&TensorType; 4]> = inputs.iter().map(|input| input.ty()).collect();
        let types = prim.infer(&operands)?;
        if !targets.is_empty() {
            check_targets(prim.name(), &types, targets)?;
        }
        if !self.has_kernel(prim, &operands, types.len())? {
            return Ok(None);
        }
        let ready = Arc::new(Ready::new(self.device.backend(), prim, inputs, types, targets)?);
        self.device.ready().keep(prim, inputs, targets, &ready);
        Ok(Some(ready))
    }

    /// Runs one kernel, whose buffers lie where `place` says.
    fn run<'a>(
        &self,
        kernel: &dyn PreparedKernel,
        inputs: &[BufferId],
        outputs: &[BufferId],
        place: impl Fn(BufferId) -> MemRef<'a>,
    ) -> Result<()> {
        let mut lease = self.device.lease(kernel.scratch())?;
        let places = |buffers: &[BufferId]| -> SmallVec<[MemRef<'a>; 4]> {
            buffers.iter().map(|&buffer| place(buffer)).collect()
        };
        kernel.run(&places(inputs), &places(outputs), self.device.leased(&mut lease)?)?;
        self.device.counters().count_kernels(1);
        Ok(())
    }

    /// The short way of small operations: one kernel of up to two operands, one output. `None` for all others.
    fn plain(&self, prim: &Prim, inputs: &[&EagerTensor]) -> Result<Option<EagerTensor>> {
        if !matches!(prim, Prim::Elementwise(_)) || inputs.len() > 2 || self.device.is_watched() {
            return Ok(None);
        }
        if let Some(output) = self.flat(prim, inputs)? {
            return Ok(Some(output));
        }
        let Some(ready) = self.device.ready().find(prim, inputs, &[]) else { return Ok(None) };
        let ([ty], [one], true) = (&ready.types[..], &ready.kernels[..], ready.is_plain) else {
            return Ok(None);
        };
        self.check_devices(prim.name(), inputs)?;
        let mut storage = Storage::allocate(&self.device, ty.bytes())?;
        self.run_plain(&*one.kernel, inputs, &mut storage)?;
        Ok(Some(EagerTensor::of_parts(storage, ty.dtype, Layout::contiguous(&ty.shape))))
    }

    /// Runs one kernel of up to two operands, which takes them as they come.
    fn run_plain(
        &self,
        kernel: &dyn PreparedKernel,
        inputs: &[&EagerTensor],
        result: &mut Storage,
    ) -> Result<()> {
        let output = [MemRef { memory: result.own_memory()?, offset: 0 }];
        let mut lease = self.device.lease(kernel.scratch())?;
        let scratch = self.device.leased(&mut lease)?;
        match *inputs {
            [] => kernel.run(&[], &output, scratch)?,
            [x] => {
                let x_held = x.storage().hold();
                kernel.run(&[MemRef { memory: x_held.memory()?, offset: start(x) }], &output, scratch)?
            }
            [x, y, ..] => {
                let (x_held, y_held) = Storage::hold_both(x.storage(), y.storage());
                let second = y_held.as_ref().unwrap_or(&x_held);
                let places = [
                    MemRef { memory: x_held.memory()?, offset: start(x) },
                    MemRef { memory: second.memory()?, offset: start(y) },
                ];
                kernel.run(&places, &output, scratch)?
            }
        }
        self.device.counters().count_kernels(1);
        Ok(())
    }

    /// Does the work of a primitive, and records it while a profile is on.
    fn recorded(
        &self,
        prim: &Prim,
        inputs: &[&EagerTensor],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(recorder) = self.device.recorder() else { return work() };
        let start = Moment::now();
        work()?;
        let end = Moment::now();
        let operands: Vec<_> = inputs.iter().map(|input| (input.dtype(), input.layout().clone())).collect();
        recorder.ran_eagerly(single_info(prim, &operands)?, start, end);
        Ok(())
    }

    /// Runs ready kernels into fresh storages.
    fn run_fresh(&self, ready: &Ready, inputs: &[&EagerTensor]) -> Result<Outputs<EagerTensor>> {
        let types = &ready.types;
        let mut results: SmallVec<[Storage; 1]> =
            types.iter().map(|ty| Storage::allocate(&self.device, ty.bytes())).collect::<Result<_>>()?;
        let storages: SmallVec<[&Storage; 4]> = inputs.iter().map(|input| input.storage()).collect();
        {
            let access = Access::lock(&storages, &[])?;
            let mut places: SmallVec<[MemRef<'_>; 4]> = SmallVec::new();
            for (storage, input) in storages.iter().zip(inputs) {
                places.push(MemRef { memory: access.memory(storage)?, offset: start(input) });
            }
            for result in &mut results {
                places.push(MemRef { memory: result.own_memory()?, offset: 0 });
            }
            self.recorded(ready.prim(), inputs, || {
                (ready.kernels.iter()).try_for_each(|one| {
                    self.run(&*one.kernel, &one.inputs, &one.outputs, |buffer| places[buffer as usize])
                })
            })?;
        }
        let outputs = types
            .iter()
            .zip(results)
            .map(|(ty, storage)| EagerTensor::of_parts(storage, ty.dtype, Layout::contiguous(&ty.shape)));
        Ok(outputs.collect())
    }
}

/// False for what only moves elements.
pub(crate) fn computes(prim: &Prim) -> bool {
    !matches!(prim, Prim::Movement(_) | Prim::Control(_) | Prim::Complex(_))
}

/// Checks the tensors to be written against the types of the results.
fn check_targets(op: &str, types: &[TensorType], targets: &[Option<&EagerTensor>]) -> Result<()> {
    if types.len() != targets.len() {
        let (n, m) = (types.len(), targets.len());
        return Err(Error::shape(op, format!("gives {n} results, got {m} tensors to write to")));
    }
    let differs = |(ty, target): (&TensorType, &Option<&EagerTensor>)| {
        target.filter(|target| target.ty() != ty).map(|target| (ty.clone(), target.ty().clone()))
    };
    match types.iter().zip(targets).find_map(differs) {
        Some((ty, found)) => Err(Error::shape(op, format!("the result is {ty}, the output {found}"))),
        None => Ok(()),
    }
}

/// The result of a primitive that only looks at its operand in another way.
fn as_view(prim: &Prim, inputs: &[&EagerTensor]) -> Option<EagerTensor> {
    match (prim, inputs) {
        (Prim::Control(Control::Barrier | Control::Written), &[x, _]) => Some(x.clone()),
        (Prim::Control(Control::StopGradient), &[x]) => Some(x.clone()),
        (Prim::Movement(movement), &[x]) => {
            let layout = movement.view(x.layout())?;
            Some(EagerTensor::of_parts(x.storage().clone(), x.dtype(), layout))
        }
        (Prim::Complex(complex), &[x]) => {
            let layout = complex.view(x.layout())?;
            let ty = prim.infer(&[x.ty()]).ok()?.pop()?;
            Some(EagerTensor::of_parts(x.storage().clone(), ty.dtype, layout))
        }
        _ => None,
    }
}

impl Builder for Eager {
    type Value = EagerTensor;

    fn apply(&self, prim: Prim, inputs: &[EagerTensor]) -> Result<Outputs<EagerTensor>> {
        let inputs: SmallVec<[&EagerTensor; 4]> = inputs.iter().collect();
        self.apply_ref(prim, &inputs)
    }

    fn apply_refs(&self, prim: Prim, inputs: &[&EagerTensor]) -> Result<Outputs<EagerTensor>> {
        self.apply_ref(prim, inputs)
    }

    fn apply1_refs(&self, prim: Prim, inputs: &[&EagerTensor]) -> Result<EagerTensor> {
        if let Some(output) = self.plain(&prim, inputs)? {
            return Ok(output);
        }
        let name = prim.name();
        only(name, self.apply_ref(prim, inputs)?)
    }

    fn ty<'a>(&self, value: &'a EagerTensor) -> &'a TensorType {
        value.ty()
    }

    fn is_same(&self, one: &EagerTensor, other: &EagerTensor) -> bool {
        one.storage().is_same(other.storage())
            && one.layout() == other.layout()
            && one.dtype() == other.dtype()
    }

    fn count(&self, op: &str, value: &EagerTensor) -> Result<usize> {
        let found = value.to_vec::<i64>()?.first().copied().unwrap_or(0);
        count_of(op, found)
    }
}
