//! A backend that runs kernels by the reference interpreter, one step of a body at a time over whole tensors.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use lanthorn_compiler::backend::{
    Backend, BackendCaps, Call, Fails, MemRef, Memory, PreparedKernel, Program, Requirements, Support,
};
use lanthorn_compiler::kernel::{Kernel, KernelKind, Operand, Phase};
use lanthorn_compiler::plan::{Place, Plan};
use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::expr::{KernelExpr, Step};
use lanthorn_ir::prim::{Contract, Elementwise, Reduce, Source, State};
use lanthorn_ir::{Builder, DType, Dims, Error, ErrorKind, Layout, Prim, Result, TensorType, ops};

/// Decomposes every compound primitive but AdamW.
pub struct Reference;

struct Words {
    address: NonNull<u64>,
    words: usize,
}

// SAFETY: plain memory; the run-time's locks say who touches it.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    fn new(bytes: usize) -> Words {
        let words = vec![u64::MAX; bytes.div_ceil(8).max(1)].into_boxed_slice();
        let words_len = words.len();
        Words { address: NonNull::new(Box::into_raw(words).cast()).unwrap(), words: words_len }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let words = std::ptr::slice_from_raw_parts_mut(self.address.as_ptr(), self.words);
        // SAFETY: the address and length of the box that `new` has leaked.
        drop(unsafe { Box::from_raw(words) });
    }
}

impl Memory for Words {
    fn bytes(&self) -> usize {
        self.words * 8
    }
    fn host(&self) -> Option<NonNull<u8>> {
        Some(self.address.cast())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Backend for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }
    fn caps(&self) -> BackendCaps {
        BackendCaps { region_operands: 16, region_steps: 256 }
    }
    fn support(&self, prim: &Prim, inputs: &[&TensorType]) -> Result<Support> {
        if inputs.iter().any(|ty| ty.dtype == DType::F8E4M3) {
            return Err(Error::dtype(prim.name(), "the reference device has no f8e4m3"));
        }
        Ok(match prim {
            Prim::Norm(_) | Prim::Attention(_) | Prim::Loss(_) => Support::Decompose,
            _ => Support::Kernel,
        })
    }
    fn requirements(&self, kernel: &Kernel) -> Requirements {
        let in_place = match &kernel.kind {
            KernelKind::Map { .. } => (0..kernel.inputs.len() as u32).map(|input| (input, 0)).collect(),
            KernelKind::Prim(Prim::State(State::UpdateSlice { .. })) => vec![(0, 0)],
            _ => Vec::new(),
        };
        let scratch = if matches!(kernel.kind, KernelKind::Map { .. }) { 0 } else { 8 };
        // Results are computed before the first is written.
        let fails = match &kernel.kind {
            KernelKind::Prim(prim) if prim.can_fail() => Fails::BeforeWriting,
            _ => Fails::Never,
        };
        Requirements { scratch, in_place, fails }
    }
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Memory>> {
        Ok(Arc::new(Words::new(bytes)))
    }
    fn lower(&self, plan: &Arc<Plan>) -> Result<Box<dyn Program>> {
        Ok(Box::new(Planned(plan.clone())))
    }
    fn prepare(&self, kernel: &Kernel) -> Result<Arc<dyn PreparedKernel>> {
        Ok(Arc::new(Ready { kernel: kernel.clone(), scratch: self.requirements(kernel).scratch }))
    }
}

struct Ready {
    kernel: Kernel,
    scratch: usize,
}

impl PreparedKernel for Ready {
    fn scratch(&self) -> usize {
        self.scratch
    }
    fn run(&self, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>], _: MemRef<'_>) -> Result<()> {
        run(&self.kernel, inputs, outputs)
    }
}

struct Planned(Arc<Plan>);

impl Program for Planned {
    fn run(&self, call: &Call<'_>) -> Result<()> {
        let plan = &*self.0;
        let place = |operand: &Operand| match plan.places[operand.buffer as usize] {
            Place::Input(at) => call.inputs[at as usize],
            Place::Output(at) => call.outputs[at as usize],
            Place::Workspace(at) => MemRef { offset: call.workspace.offset + at, ..call.workspace },
        };
        for at in 0..=plan.kernels.len() {
            if at <= plan.commit && (call.cancelled)() {
                return Err(Error::new(ErrorKind::Cancelled, "run", "cancelled before it took effect"));
            }
            if at == plan.commit {
                check_finite(plan, call)?;
            }
            if let Some(kernel) = plan.kernels.get(at) {
                let inputs: Vec<MemRef<'_>> = kernel.inputs.iter().map(place).collect();
                let outputs: Vec<MemRef<'_>> = kernel.outputs.iter().map(place).collect();
                run(kernel, &inputs, &outputs)?;
            }
        }
        Ok(())
    }
}

fn check_finite(plan: &Plan, call: &Call<'_>) -> Result<()> {
    for &result in &plan.finite {
        let ty = &plan.buffers[plan.outputs[result as usize].buffer as usize];
        let layout = Layout::contiguous(&ty.shape);
        let value = load(call.outputs[result as usize], &Operand { buffer: 0, dtype: ty.dtype, layout })?;
        if !value.to_f64()[0].is_finite() {
            return Err(Error::new(ErrorKind::Execute, "run", format!("result {result} is not finite")));
        }
    }
    Ok(())
}

/// The bytes at which the elements of a view lie, in row-major order.
fn addresses(memory: MemRef<'_>, operand: &Operand) -> Vec<*mut u8> {
    let size = operand.dtype.size();
    let base = memory.memory.host().unwrap().as_ptr();
    (0..operand.layout.numel())
        .map(|mut flat| {
            let layout = &operand.layout;
            let mut at = layout.offset as isize;
            for axis in (0..layout.rank()).rev() {
                at += (flat % layout.shape[axis]) as isize * layout.strides[axis];
                flat /= layout.shape[axis];
            }
            let byte = memory.offset + at as usize * size;
            assert!(byte + size <= memory.memory.bytes(), "a view leaves its memory");
            // SAFETY: checked just above.
            unsafe { base.add(byte) }
        })
        .collect()
}

fn load(memory: MemRef<'_>, operand: &Operand) -> Result<HostTensor> {
    let size = operand.dtype.size();
    let mut bytes = Vec::new();
    for address in addresses(memory, operand) {
        // SAFETY: the element lies inside the memory, which the run-time has locked for this call.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(address, size) });
    }
    HostTensor::from_bytes(&TensorType::new(operand.dtype, &operand.layout.shape), &bytes)
}

fn store(memory: MemRef<'_>, operand: &Operand, value: &HostTensor) {
    assert_eq!((value.ty().dtype, value.shape()), (operand.dtype, &operand.layout.shape[..]));
    let bytes = value.to_bytes();
    let size = operand.dtype.size();
    for (address, element) in addresses(memory, operand).into_iter().zip(bytes.chunks(size)) {
        // SAFETY: the element lies inside the memory, which the run-time has locked for this call.
        unsafe { std::ptr::copy_nonoverlapping(element.as_ptr(), address, size) };
    }
}

fn cast(x: HostTensor, dtype: DType) -> Result<HostTensor> {
    ops::cast(&Interp, &x, dtype)
}

/// All steps of a body over `domain`; `loads` beyond the inputs are the accumulators.
fn steps(expr: &KernelExpr, domain: &[usize], loads: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let mut values: Vec<HostTensor> = Vec::new();
    for (step, &dtype) in expr.steps.iter().zip(&expr.dtypes) {
        let of = |step: u32| values[step as usize].clone();
        let apply = |op: Elementwise, inputs: &[HostTensor]| Interp.apply1(Prim::Elementwise(op), inputs);
        let value = match *step {
            Step::Load(at) => loads[at as usize].clone(),
            Step::Const(value) => ops::full(&Interp, domain, value, dtype)?,
            Step::Unary(op, a) => apply(Elementwise::Unary(op), &[of(a)])?,
            Step::Binary(op, a, b) => apply(Elementwise::Binary(op), &[of(a), of(b)])?,
            Step::Select(c, a, b) => apply(Elementwise::Select, &[of(c), of(a), of(b)])?,
            Step::Cast(a) => of(a),
            Step::Round(a, to) => cast(of(a), to)?,
        };
        values.push(cast(value, dtype)?);
    }
    Ok(values)
}

fn run(kernel: &Kernel, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>]) -> Result<()> {
    let loads = kernel
        .inputs
        .iter()
        .zip(inputs)
        .map(|(operand, &at)| load(at, operand))
        .collect::<Result<Vec<_>>>()?;
    let phase = |phase: &Phase, domain: &[usize], accumulators: &[HostTensor]| -> Result<Vec<HostTensor>> {
        let loads: Vec<HostTensor> = loads.iter().chain(accumulators).cloned().collect();
        let values = steps(&phase.expr, domain, &loads)?;
        for each in &phase.stores {
            let at = each.output as usize;
            let value = cast(values[each.step as usize].clone(), kernel.outputs[at].dtype)?;
            store(outputs[at], &kernel.outputs[at], &value);
        }
        Ok(values)
    };
    match &kernel.kind {
        KernelKind::Map { domain, body } => {
            phase(body, domain, &[])?;
        }
        KernelKind::Reduce { domain, folded, body, folds, epilogue } => {
            let values = phase(body, domain, &[])?;
            let axes: Dims = (0..domain.len()).filter(|&axis| folded[axis]).collect();
            let totals = folds
                .iter()
                .map(|fold| {
                    let x = &values[fold.step as usize];
                    Interp
                        .apply1(Prim::Reduce(Reduce::Fold { op: fold.op, axes: axes.clone() }), &[x.clone()])
                })
                .collect::<Result<Vec<_>>>()?;
            let kept: Dims = domain.iter().zip(folded).map(|(&size, &f)| if f { 1 } else { size }).collect();
            phase(epilogue, &kept, &totals)?;
        }
        KernelKind::MatMul { epilogue } => {
            let dtype = loads[0].ty().dtype;
            // The epilogue of a product of integers wraps them.
            let out = if dtype.is_int() { DType::I64 } else { dtype.wide() };
            let product = Prim::Contract(Contract::MatMul { out });
            let product = Interp.apply1(product, &[loads[0].clone(), loads[1].clone()])?;
            let shape = product.shape().to_vec();
            phase(epilogue, &shape, &[product])?;
        }
        KernelKind::Prim(prim) => {
            let results = match prim {
                Prim::Source(Source::Iota { .. }) => Interp.apply(prim.clone(), &[])?,
                prim => Interp.apply(prim.clone(), &loads)?,
            };
            for (at, result) in results.iter().enumerate() {
                store(outputs[at], &kernel.outputs[at], result);
            }
        }
    }
    Ok(())
}
