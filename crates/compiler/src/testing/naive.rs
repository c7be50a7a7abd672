//! A backend that runs plans element by element on host memory, in the order that the forms promise.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use lanthorn_ir::layout::numel;
use lanthorn_ir::prim::{Index, Source};
use lanthorn_ir::{Dims, Error, ErrorKind, Layout, Prim, Result, TensorType};

use super::scalar::{Number, combine, decode, encode, evaluate, neutral};
use crate::backend::{
    Backend, BackendCaps, Call, Fails, MemRef, Memory, PreparedKernel, Program, Requirements, Support,
};
use crate::kernel::{Kernel, KernelKind, Operand, Phase};
use crate::plan::{Place, Plan};

pub struct Naive {
    pub caps: BackendCaps,
    /// Scratch that every kernel of a primitive asks for; it is overwritten with garbage.
    pub scratch: usize,
    /// Claims a kernel for every primitive; such plans are for looking at, not for running.
    pub capable: bool,
}

impl Default for Naive {
    fn default() -> Self {
        Naive { caps: BackendCaps { region_operands: 32, region_steps: 512 }, scratch: 100, capable: false }
    }
}

pub struct HostMemory {
    words: Box<[std::cell::UnsafeCell<u64>]>,
}

// SAFETY: tests touch a memory from one thread at a time.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Memory full of a pattern that is a NaN in every float type.
    pub fn new(bytes: usize) -> HostMemory {
        HostMemory { words: (0..bytes.div_ceil(8)).map(|_| std::cell::UnsafeCell::new(u64::MAX)).collect() }
    }

    pub fn with(ty: &TensorType, values: &[Number]) -> HostMemory {
        let memory = HostMemory::new(ty.bytes());
        let size = ty.dtype.size();
        for (i, &value) in values.iter().enumerate() {
            let mut bytes = [0; 16];
            encode(value, ty.dtype, &mut bytes);
            memory.write(i * size, &bytes[..size]);
        }
        memory
    }

    pub fn values(&self, ty: &TensorType) -> Vec<Number> {
        let size = ty.dtype.size();
        (0..ty.numel()).map(|i| decode(ty.dtype, &self.read(i * size, size))).collect()
    }

    fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        assert!(offset + bytes <= self.words.len() * 8);
        // SAFETY: the range lies inside the allocation.
        unsafe { std::slice::from_raw_parts((self.words.as_ptr() as *const u8).add(offset), bytes).to_vec() }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.words.len() * 8);
        // SAFETY: the range lies inside the allocation, whose words may change behind a shared reference.
        unsafe {
            let to = (self.words.as_ptr() as *mut u8).add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }
}

impl Memory for HostMemory {
    fn bytes(&self) -> usize {
        self.words.len() * 8
    }
    fn host(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.words.as_ptr() as *mut u8)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Backend for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }
    fn caps(&self) -> BackendCaps {
        self.caps
    }
    fn support(&self, prim: &Prim, _: &[&TensorType]) -> Result<Support> {
        Ok(match prim {
            Prim::Source(_) | Prim::Reduce(_) | Prim::Contract(_) | Prim::Elementwise(_) => Support::Kernel,
            Prim::Index(Index::Embedding) => Support::Kernel,
            _ if self.capable => Support::Kernel,
            _ => Support::Decompose,
        })
    }
    fn requirements(&self, kernel: &Kernel) -> Requirements {
        let scratch = if matches!(kernel.kind, KernelKind::Map { .. }) { 0 } else { self.scratch };
        Requirements { scratch, fails: fails(kernel), ..Requirements::default() }
    }
    fn writes_views(&self, prim: &Prim) -> bool {
        self.capable || matches!(prim, Prim::Index(Index::Embedding))
    }
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Memory>> {
        Ok(Arc::new(HostMemory::new(bytes)))
    }
    fn lower(&self, plan: &Arc<Plan>) -> Result<Box<dyn Program>> {
        Ok(Box::new(NaiveProgram { plan: plan.clone() }))
    }
    fn prepare(&self, kernel: &Kernel) -> Result<Arc<dyn PreparedKernel>> {
        let scratch = self.requirements(kernel).scratch;
        Ok(Arc::new(NaiveKernel { kernel: kernel.clone(), scratch }))
    }
}

/// Results are computed before the first is written.
fn fails(kernel: &Kernel) -> Fails {
    match &kernel.kind {
        KernelKind::Prim(prim) if prim.can_fail() => Fails::BeforeWriting,
        _ => Fails::Never,
    }
}

struct NaiveKernel {
    kernel: Kernel,
    scratch: usize,
}

impl PreparedKernel for NaiveKernel {
    fn scratch(&self) -> usize {
        self.scratch
    }
    fn run(&self, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>], _: MemRef<'_>) -> Result<()> {
        run(&self.kernel, inputs, outputs)
    }
}

struct NaiveProgram {
    plan: Arc<Plan>,
}

impl Program for NaiveProgram {
    fn run(&self, call: &Call<'_>) -> Result<()> {
        let plan = &*self.plan;
        let place = |operand: &Operand| match plan.places[operand.buffer as usize] {
            Place::Input(at) => call.inputs[at as usize],
            Place::Output(at) => call.outputs[at as usize],
            Place::Workspace(at) => {
                MemRef { memory: call.workspace.memory, offset: call.workspace.offset + at }
            }
        };
        for (at, kernel) in plan.kernels.iter().enumerate() {
            if at == plan.commit {
                self.check_finite(call)?;
            }
            if at <= plan.commit && (call.cancelled)() {
                return Err(Error::new(ErrorKind::Cancelled, "run", "cancelled"));
            }
            let (offset, bytes) = plan.scratch[at];
            host(call.workspace.memory).write(call.workspace.offset + offset, &vec![0xff; bytes]);
            let inputs: Vec<MemRef<'_>> = kernel.inputs.iter().map(place).collect();
            let outputs: Vec<MemRef<'_>> = kernel.outputs.iter().map(place).collect();
            run(kernel, &inputs, &outputs)?;
        }
        if plan.commit == plan.kernels.len() {
            self.check_finite(call)?;
        }
        Ok(())
    }
}

impl NaiveProgram {
    fn check_finite(&self, call: &Call<'_>) -> Result<()> {
        for &result in &self.plan.finite {
            let ty = &self.plan.buffers[self.plan.outputs[result as usize].buffer as usize];
            let out = call.outputs[result as usize];
            let bytes = host(out.memory).read(out.offset, ty.dtype.size());
            if !decode(ty.dtype, &bytes).f().is_finite() {
                return Err(Error::new(ErrorKind::Execute, "run", "not finite"));
            }
        }
        Ok(())
    }
}

fn host(memory: &dyn Memory) -> &HostMemory {
    memory.as_any().downcast_ref().unwrap()
}

fn address(layout: &Layout, mut flat: usize) -> usize {
    let mut at = layout.offset as isize;
    for axis in (0..layout.rank()).rev() {
        at += (flat % layout.shape[axis]) as isize * layout.strides[axis];
        flat /= layout.shape[axis];
    }
    at as usize
}

fn load(memory: MemRef<'_>, operand: &Operand, flat: usize) -> Number {
    let size = operand.dtype.size();
    let at = memory.offset + address(&operand.layout, flat) * size;
    decode(operand.dtype, &host(memory.memory).read(at, size))
}

fn store(memory: MemRef<'_>, operand: &Operand, flat: usize, value: Number) {
    let size = operand.dtype.size();
    let mut bytes = [0; 16];
    encode(value, operand.dtype, &mut bytes);
    let at = memory.offset + address(&operand.layout, flat) * size;
    host(memory.memory).write(at, &bytes[..size]);
}

fn run(kernel: &Kernel, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>]) -> Result<()> {
    let phase = |phase: &Phase, flat: usize, accumulators: &[Number]| {
        let values = evaluate(&phase.expr, |at| match kernel.inputs.get(at as usize) {
            Some(operand) => load(inputs[at as usize], operand, flat),
            None => accumulators[at as usize - kernel.inputs.len()],
        });
        for each in &phase.stores {
            let output = each.output as usize;
            store(outputs[output], &kernel.outputs[output], flat, values[each.step as usize]);
        }
        values
    };
    match &kernel.kind {
        KernelKind::Map { domain, body } => {
            for flat in 0..numel(domain) {
                phase(body, flat, &[]);
            }
        }
        KernelKind::Reduce { domain, folded, body, folds, epilogue } => {
            let kept: Dims = domain.iter().zip(folded).map(|(&d, &f)| if f { 1 } else { d }).collect();
            let strides = Layout::contiguous(&kept);
            let into = Layout {
                shape: domain.clone(),
                strides: strides.strides.iter().zip(folded).map(|(&s, &f)| if f { 0 } else { s }).collect(),
                offset: 0,
            };
            let start: Vec<Option<Number>> =
                folds.iter().map(|fold| neutral(fold.op, body.expr.dtype(fold.step))).collect();
            let mut totals = vec![start; numel(&kept)];
            for flat in 0..numel(domain) {
                let values = phase(body, flat, &[]);
                for (total, fold) in totals[address(&into, flat)].iter_mut().zip(folds) {
                    let value = values[fold.step as usize];
                    *total = Some(total.map_or(value, |total| combine(fold.op, total, value)));
                }
            }
            for (flat, totals) in totals.iter().enumerate() {
                let totals: Vec<Number> = totals.iter().map(|total| total.unwrap()).collect();
                phase(epilogue, flat, &totals);
            }
        }
        KernelKind::MatMul { epilogue } => {
            let (a, b) = (&kernel.inputs[0], &kernel.inputs[1]);
            let rank = a.layout.rank();
            let (m, k, n) = (a.layout.shape[rank - 2], a.layout.shape[rank - 1], b.layout.shape[rank - 1]);
            let batch = numel(&a.layout.shape[..rank - 2]);
            for flat in 0..batch * m * n {
                let (batch, row, column) = (flat / (m * n), flat / n % m, flat % n);
                let pairs = (0..k).map(|at| {
                    let x = load(inputs[0], a, (batch * m + row) * k + at);
                    (x, load(inputs[1], b, (batch * k + at) * n + column))
                });
                let sum = if a.dtype.is_int() {
                    Number::I(pairs.fold(0, |sum, (x, y)| x.i().wrapping_mul(y.i()).wrapping_add(sum)))
                } else {
                    Number::F(pairs.map(|(x, y)| x.f() * y.f()).sum())
                };
                phase(epilogue, flat, &[sum]);
            }
        }
        KernelKind::Prim(Prim::Source(Source::Iota { len, .. })) => {
            for at in 0..*len {
                store(outputs[0], &kernel.outputs[0], at, Number::I(at as i64));
            }
        }
        KernelKind::Prim(Prim::Index(Index::Embedding)) => {
            let width = kernel.inputs[0].layout.shape[1];
            for flat in 0..kernel.outputs[0].layout.numel() {
                let row = load(inputs[1], &kernel.inputs[1], flat / width).i() as usize;
                let value = load(inputs[0], &kernel.inputs[0], row * width + flat % width);
                store(outputs[0], &kernel.outputs[0], flat, value);
            }
        }
        KernelKind::Prim(other) => return Err(Error::unsupported("naive", other.to_string())),
    }
    Ok(())
}
