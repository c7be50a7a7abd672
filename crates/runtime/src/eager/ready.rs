//! Kernels made ready once for a primitive on operands of given layouts, and kept.
//!
//! Preparing a kernel costs more than running a small one, and programs repeat themselves. What is kept depends on
//! layouts alone: where the operands lie is said in each run, so a moving slice finds the same entry.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_compiler::backend::{Backend, PreparedKernel};
use lanthorn_compiler::kernel::{BufferId, Kernel, KernelKind, Operand};
use lanthorn_compiler::single::single;
use lanthorn_ir::layout::{Dims, Strides};
use lanthorn_ir::prim::{Source, Types};
use lanthorn_ir::{DType, Layout, Prim, Result};
use smallvec::SmallVec;

use super::EagerTensor;

/// How many kernels a device keeps. A power of two.
const SLOTS: usize = 1024;

/// Layouts without the place where they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Form {
    dtype: DType,
    shape: Dims,
    strides: Strides,
}

impl Form {
    fn of(tensor: &EagerTensor) -> Form {
        let layout = tensor.layout();
        Form { dtype: tensor.dtype(), shape: layout.shape.clone(), strides: layout.strides.clone() }
    }

    fn is_of(&self, tensor: &EagerTensor) -> bool {
        let layout = tensor.layout();
        self.dtype == tensor.dtype() && self.shape == layout.shape && self.strides == layout.strides
    }

    /// The layout with its lowest element at 0.
    fn layout(&self) -> Layout {
        let low: isize = reach_below(&self.shape, &self.strides);
        Layout { shape: self.shape.clone(), strides: self.strides.clone(), offset: low.unsigned_abs() }
    }
}

/// How far a view reaches below its first element, 0 or negative.
fn reach_below(shape: &[usize], strides: &[isize]) -> isize {
    if shape.contains(&0) {
        return 0;
    }
    let below = shape.iter().zip(strides).map(|(&size, &stride)| (size as isize - 1) * stride.min(0));
    below.sum()
}

/// The byte at which a tensor's lowest element lies.
pub(super) fn start(tensor: &EagerTensor) -> usize {
    let layout = tensor.layout();
    let low = layout.offset as isize + reach_below(&layout.shape, &layout.strides);
    low.unsigned_abs() * tensor.dtype().size()
}

/// A kernel with the numbers of its operands' buffers.
pub(super) struct ReadyKernel {
    pub kernel: Arc<dyn PreparedKernel>,
    pub inputs: SmallVec<[BufferId; 4]>,
    pub outputs: SmallVec<[BufferId; 4]>,
}

/// The kernels of one primitive: buffer `i` is operand `i`, buffer `inputs + j` output `j`, both from their lowest
/// element.
pub(crate) struct Ready {
    prim: Prim,
    inputs: SmallVec<[Form; 2]>,
    /// `None` for an output of its own, contiguous.
    targets: SmallVec<[Option<Form>; 1]>,
    pub types: Types,
    pub kernels: SmallVec<[ReadyKernel; 1]>,
    /// For each target whether the kernels write it where it lies.
    pub direct: SmallVec<[bool; 1]>,
    /// `(input, output)` pairs that may share memory under one layout.
    pub in_place: SmallVec<[(u32, u32); 2]>,
    /// True if any number of inputs may share the memory of an output.
    pub is_map: bool,
    /// True for a single kernel that takes the operands in their order and writes the one output.
    pub is_plain: bool,
}

impl Ready {
    /// The primitive that the kernels apply.
    pub fn prim(&self) -> &Prim {
        &self.prim
    }

    fn is_for(&self, prim: &Prim, inputs: &[&EagerTensor], targets: &[Option<&EagerTensor>]) -> bool {
        self.inputs.len() == inputs.len()
            && self.targets.len() == targets.len()
            && self.inputs.iter().zip(inputs).all(|(form, input)| form.is_of(input))
            && self.targets.iter().zip(targets).all(|(form, target)| match (form, target) {
                (Some(form), Some(target)) => form.is_of(target),
                (None, None) => true,
                _ => false,
            })
            && self.prim == *prim
    }

    /// Prepares the kernels that apply `prim`, whose results have `types`. `targets` are tensors to be written where
    /// the kernels can; fewer than outputs, or `None`: memory of its own.
    pub fn new(
        backend: &dyn Backend,
        prim: &Prim,
        inputs: &[&EagerTensor],
        types: Types,
        targets: &[Option<&EagerTensor>],
    ) -> Result<Ready> {
        let inputs: SmallVec<[Form; 2]> = inputs.iter().copied().map(Form::of).collect();
        let targets: SmallVec<[Option<Form>; 1]> =
            targets.iter().map(|target| target.map(Form::of)).collect();
        let operands: SmallVec<[(DType, Layout); 4]> =
            inputs.iter().map(|form| (form.dtype, form.layout())).collect();
        let mut kernels = single(prim, &operands)?;
        let first = inputs.len() as BufferId;
        let retarget_one = |kernels: &mut [Kernel], at: usize, form: &Form| {
            let (buffer, layout) = (first + at as BufferId, form.layout());
            kernels.iter_mut().all(|kernel| retarget(backend, kernel, buffer, &types[at].shape, &layout))
        };
        let mut direct: SmallVec<[bool; 1]> = SmallVec::new();
        for (at, target) in targets.iter().enumerate() {
            direct.push(target.as_ref().is_some_and(|form| retarget_one(&mut kernels, at, form)));
        }
        if direct.iter().zip(&targets).any(|(direct, target)| !direct && target.is_some()) {
            // Layouts of the others may have been adapted halfway: begin anew.
            kernels = single(prim, &operands)?;
            for (at, target) in targets.iter().enumerate().filter(|(at, _)| direct[*at]) {
                if let Some(form) = target {
                    retarget_one(&mut kernels, at, form);
                }
            }
        }
        let (in_place, is_map) = shareable(backend, &kernels);
        let prepare = |kernel: &Kernel| -> Result<ReadyKernel> {
            let (inputs, outputs) = (buffers(&kernel.inputs), buffers(&kernel.outputs));
            Ok(ReadyKernel { kernel: backend.prepare(kernel)?, inputs, outputs })
        };
        let kernels: SmallVec<[ReadyKernel; 1]> = kernels.iter().map(prepare).collect::<Result<_>>()?;
        let is_plain = matches!(&kernels[..], [one]
            if one.inputs.iter().copied().eq(0..first) && one.outputs[..] == [first]);
        Ok(Ready { prim: prim.clone(), inputs, targets, types, kernels, direct, in_place, is_map, is_plain })
    }
}

fn buffers(operands: &[Operand]) -> SmallVec<[BufferId; 4]> {
    operands.iter().map(|operand| operand.buffer).collect()
}

/// Which inputs and outputs of a single kernel may be one memory.
fn shareable(backend: &dyn Backend, kernels: &[Kernel]) -> (SmallVec<[(u32, u32); 2]>, bool) {
    let [kernel] = kernels else { return (SmallVec::new(), false) };
    // A map reads each element before it writes the same.
    if matches!(kernel.kind, KernelKind::Map { .. }) {
        return (SmallVec::new(), true);
    }
    let pairs = backend.requirements(kernel).in_place.into_iter().filter_map(|(input, output)| {
        let (input, output) = (kernel.inputs.get(input as usize)?, kernel.outputs.get(output as usize)?);
        Some((input.buffer, output.buffer))
    });
    (pairs.collect(), false)
}

/// Lets a kernel that writes `buffer` as a contiguous whole of that shape, or a part of it, write `target` instead;
/// false if it cannot.
fn retarget(
    backend: &dyn Backend,
    kernel: &mut Kernel,
    buffer: BufferId,
    shape: &[usize],
    target: &Layout,
) -> bool {
    let needs_contiguous = match &kernel.kind {
        KernelKind::Prim(prim) => !backend.writes_views(prim),
        _ => false,
    };
    let whole = Layout::contiguous(shape);
    kernel.outputs.iter_mut().filter(|operand| operand.buffer == buffer).all(|operand| {
        if needs_contiguous && !target.is_contiguous() {
            return false;
        }
        if operand.layout == whole {
            operand.layout = target.clone();
        } else if target.is_contiguous() {
            operand.layout.offset += target.offset;
        } else {
            return false;
        }
        true
    })
}

/// The ready kernels of a device. A newcomer takes the place of whoever has its slot.
pub(crate) struct ReadyKernels {
    slots: Box<[Mutex<Option<Arc<Ready>>>]>,
}

impl Default for ReadyKernels {
    fn default() -> Self {
        ReadyKernels { slots: (0..SLOTS).map(|_| Mutex::default()).collect() }
    }
}

impl ReadyKernels {
    fn slot(
        &self,
        prim: &Prim,
        inputs: &[&EagerTensor],
        targets: &[Option<&EagerTensor>],
    ) -> &Mutex<Option<Arc<Ready>>> {
        let mut hasher = Mixer(targets.len() as u64);
        prim.hash(&mut hasher);
        for tensor in inputs.iter().chain(targets.iter().flatten()) {
            hasher.add(tensor.dtype() as u64);
            let layout = tensor.layout();
            for (&size, &stride) in layout.shape.iter().zip(&layout.strides) {
                hasher.add(size as u64);
                hasher.add(stride as u64);
            }
        }
        &self.slots[(hasher.finish() >> (64 - SLOTS.ilog2())) as usize]
    }

    /// What is kept for the primitive on these operands.
    pub(super) fn find(
        &self,
        prim: &Prim,
        inputs: &[&EagerTensor],
        targets: &[Option<&EagerTensor>],
    ) -> Option<Arc<Ready>> {
        let slot = self.slot(prim, inputs, targets).lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().filter(|ready| ready.is_for(prim, inputs, targets)).cloned()
    }

    /// Keeps it for the next time.
    pub(super) fn keep(
        &self,
        prim: &Prim,
        inputs: &[&EagerTensor],
        targets: &[Option<&EagerTensor>],
        ready: &Arc<Ready>,
    ) {
        // Constants differ each time.
        if matches!(prim, Prim::Source(Source::Const { .. })) {
            return;
        }
        let slot = self.slot(prim, inputs, targets);
        let replaced = slot.lock().unwrap_or_else(PoisonError::into_inner).replace(ready.clone());
        drop(replaced);
    }
}

/// A multiplicative hash, good enough for a table whose entries are compared whole.
struct Mixer(u64);

impl Mixer {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_ne_bytes(word));
        }
    }
    fn write_u32(&mut self, word: u32) {
        self.add(u64::from(word));
    }
    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }
    fn write_usize(&mut self, word: usize) {
        self.add(word as u64);
    }
    fn write_isize(&mut self, word: isize) {
        self.add(word as u64);
    }
}
