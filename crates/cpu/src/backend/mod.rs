//! The CPU as a [`Backend`]: memory, kernels with their operands prepared, and programs of them.

mod arg;
mod attention;
mod contract;
mod conv;
mod flat;
mod linalg;
mod memory;
mod paged;
mod prims;
mod quantized;
mod recurrent;
mod select;
mod support;

use std::ptr::NonNull;
use std::sync::Arc;

use lanthorn_compiler::backend::{
    Backend, BackendCaps, Call, Fails, FlatKernel, MemRef, Memory, PreparedKernel, Program, Requirements,
    Support,
};
use lanthorn_compiler::kernel::{Kernel, KernelKind, Operand};
use lanthorn_compiler::plan::{Place, Plan};
use lanthorn_ir::prim::Window;
use lanthorn_ir::{DType, Error, ErrorKind, Prim, Result, TensorType};
use lanthorn_kernels::interrupt::interruptible;
use smallvec::SmallVec;

use crate::pool::{self, pool};
use crate::region::map::MapKernel;
use crate::region::reduce::ReduceKernel;
use crate::simd;
use contract::MatMulKernel;
use conv::ConvKernel;
use memory::HostMemory;
use prims::PrimKernel;

/// The CPU backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend;

/// A kernel whose operands have been analysed: all that is left is addresses.
#[expect(
    clippy::large_enum_variant,
    reason = "maps are most of all kernels, and small calls reach theirs without a step"
)]
enum Prepared {
    Map(MapKernel),
    Reduce(Box<ReduceKernel>),
    MatMul(Box<MatMulKernel>),
    Conv(Box<ConvKernel>),
    Prim(Box<PrimKernel>),
}

fn prepare(kernel: &Kernel) -> Result<Prepared> {
    let no_body = || {
        let dtypes: Vec<&str> =
            kernel.inputs.iter().chain(&kernel.outputs).map(|operand| operand.dtype.name()).collect();
        Error::dtype("cpu", format!("no kernel computes in all of {}; cast to f32 first", dtypes.join(", ")))
    };
    let (inputs, outputs) = (&kernel.inputs[..], &kernel.outputs[..]);
    Ok(match &kernel.kind {
        KernelKind::Map { domain, body } => {
            Prepared::Map(MapKernel::new(domain, body, inputs, outputs).ok_or_else(no_body)?)
        }
        KernelKind::Reduce { domain, folded, body, folds, epilogue } => Prepared::Reduce(Box::new(
            ReduceKernel::new(domain, folded, body, folds, epilogue, inputs, outputs).ok_or_else(no_body)?,
        )),
        KernelKind::MatMul { epilogue } => {
            Prepared::MatMul(Box::new(MatMulKernel::new(epilogue, inputs, outputs).ok_or_else(no_body)?))
        }
        KernelKind::Prim(Prim::Window(Window::Conv(conv))) => {
            Prepared::Conv(Box::new(ConvKernel::new(conv, inputs, outputs)?))
        }
        KernelKind::Prim(prim) => Prepared::Prim(Box::new(PrimKernel::new(prim, inputs, outputs)?)),
    })
}

impl Prepared {
    fn scratch_bytes(&self) -> usize {
        match self {
            Prepared::Map(_) => 0,
            Prepared::Reduce(kernel) => kernel.scratch_bytes(),
            Prepared::MatMul(kernel) => kernel.scratch_bytes(),
            Prepared::Conv(kernel) => kernel.scratch_bytes(),
            Prepared::Prim(kernel) => kernel.scratch_bytes(),
        }
    }

    /// # Safety
    /// Addresses are the beginnings of buffers that hold the operands, nobody else writes them meanwhile, and
    /// outputs overlap inputs only as [`Backend::requirements`] allows. `scratch` holds the scratch bytes.
    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], scratch: *mut u8) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Prepared::Map(kernel) => kernel.run(inputs, outputs),
                Prepared::Reduce(kernel) => kernel.run(inputs, outputs, scratch),
                Prepared::MatMul(kernel) => kernel.run(inputs, outputs, scratch),
                Prepared::Conv(kernel) => kernel.run(inputs, outputs, scratch),
                Prepared::Prim(kernel) => return kernel.run(inputs, outputs, scratch),
            }
        }
        Ok(())
    }
}

fn address(place: &MemRef<'_>) -> Result<NonNull<u8>> {
    let base = place.memory.host().ok_or_else(|| {
        Error::new(ErrorKind::Device, "cpu", "an operand lies in memory that the host cannot address")
    })?;
    if place.offset > place.memory.bytes() {
        return Err(Error::new(ErrorKind::Execute, "cpu", "an operand begins beyond its memory"));
    }
    // SAFETY: the offset lies in the memory, as was checked.
    Ok(unsafe { base.add(place.offset) })
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn check_environment(&self) -> Result<()> {
        let named = |name: &str| {
            let name = name.to_owned();
            move |message: String| Error::new(ErrorKind::Device, name, message)
        };
        pool::threads_of_environment().map_err(named(pool::THREADS))?;
        simd::isa_of_environment().map_err(named(simd::ISA))?;
        Ok(())
    }

    fn threads(&self) -> usize {
        pool().threads()
    }

    fn set_threads(&self, threads: usize) -> Result<()> {
        pool().set_threads(threads);
        Ok(())
    }

    fn is_deterministic(&self) -> bool {
        true
    }

    fn caps(&self) -> BackendCaps {
        BackendCaps { region_operands: 64, region_steps: 256 }
    }

    fn support(&self, prim: &Prim, inputs: &[&TensorType]) -> Result<Support> {
        support::support(prim, inputs)
    }

    fn requirements(&self, kernel: &Kernel) -> Requirements {
        let scratch = prepare(kernel).map(|prepared| prepared.scratch_bytes()).unwrap_or(0);
        let in_place = match &kernel.kind {
            KernelKind::Prim(prim) => support::in_place(prim),
            _ => Vec::new(),
        };
        let fails = match &kernel.kind {
            KernelKind::Prim(prim) => support::fails(prim),
            _ => Fails::Never,
        };
        Requirements { scratch, in_place, fails }
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Memory>> {
        Ok(Arc::new(HostMemory::new(bytes)?))
    }

    fn lower(&self, plan: &Arc<Plan>) -> Result<Box<dyn Program>> {
        let kernels = plan.kernels.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        for (kernel, &(_, reserved)) in kernels.iter().zip(&plan.scratch) {
            if kernel.scratch_bytes() > reserved {
                return Err(Error::new(ErrorKind::Compile, "cpu", "the plan reserves too little scratch"));
            }
        }
        Ok(Box::new(CpuProgram { plan: plan.clone(), kernels }))
    }

    fn prepare(&self, kernel: &Kernel) -> Result<Arc<dyn PreparedKernel>> {
        Ok(Arc::new(CpuKernel {
            prepared: prepare(kernel)?,
            inputs: kernel.inputs.iter().map(end_of).collect(),
            outputs: kernel.outputs.iter().map(end_of).collect(),
        }))
    }

    fn prepare_flat(&self, kernel: &Kernel) -> Result<Option<Arc<dyn FlatKernel>>> {
        flat::prepare(kernel)
    }
}

/// A kernel that runs by itself, with the bytes up to which each operand reaches.
struct CpuKernel {
    prepared: Prepared,
    inputs: SmallVec<[usize; 4]>,
    outputs: SmallVec<[usize; 2]>,
}

/// The end of what an operand touches, in bytes from its buffer's beginning.
fn end_of(operand: &Operand) -> usize {
    operand.layout.extent().map_or(0, |(_, last)| (last + 1) * operand.dtype.size())
}

/// The addresses of operands, each of which must lie in its memory.
fn addresses<A: smallvec::Array<Item = *mut u8>>(
    ends: &[usize],
    places: &[MemRef<'_>],
) -> Result<SmallVec<A>> {
    if ends.len() != places.len() {
        return Err(Error::new(ErrorKind::Execute, "cpu", "operands and memories differ in number"));
    }
    let mut found = SmallVec::new();
    for (&end, place) in ends.iter().zip(places) {
        found.push(address_of(place, end)?);
    }
    Ok(found)
}

/// The address of an operand that reaches to `end`.
#[inline]
fn address_of(place: &MemRef<'_>, end: usize) -> Result<*mut u8> {
    #[cold]
    fn fails(place: &MemRef<'_>, end: usize) -> Error {
        let found = place.memory.bytes();
        let message = match place.memory.host() {
            Some(_) => format!("an operand needs {} bytes of a memory of {found}", place.offset + end),
            None => "an operand lies in memory that the host cannot address".into(),
        };
        Error::new(ErrorKind::Execute, "cpu", message)
    }
    match place.memory.host() {
        Some(base) if place.offset + end <= place.memory.bytes() => {
            // SAFETY: the offset lies in the memory, as was checked.
            Ok(unsafe { base.add(place.offset) }.as_ptr())
        }
        _ => Err(fails(place, end)),
    }
}

impl PreparedKernel for CpuKernel {
    fn scratch(&self) -> usize {
        self.prepared.scratch_bytes()
    }

    fn run(&self, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>], scratch: MemRef<'_>) -> Result<()> {
        if self.prepared.scratch_bytes() + scratch.offset > scratch.memory.bytes() {
            return Err(Error::new(ErrorKind::Execute, "cpu", "the scratch memory is too small"));
        }
        // The usual case, without lists.
        if let (Prepared::Map(kernel), [x_end, y_end], [end], [x, y], [output]) =
            (&self.prepared, &self.inputs[..], &self.outputs[..], inputs, outputs)
        {
            let inputs = [address_of(x, *x_end)?.cast_const(), address_of(y, *y_end)?.cast_const()];
            // SAFETY: extents were checked against the memories; aliasing is the trait's contract.
            unsafe { kernel.run(&inputs, &[address_of(output, *end)?]) };
            return Ok(());
        }
        let mut sources: SmallVec<[*const u8; 8]> = SmallVec::new();
        for address in addresses::<[*mut u8; 8]>(&self.inputs, inputs)? {
            sources.push(address);
        }
        let (inputs, outputs) = (sources, addresses::<[*mut u8; 4]>(&self.outputs, outputs)?);
        // SAFETY: extents were checked against the memories; aliasing is the trait's contract.
        unsafe { self.prepared.run(&inputs, &outputs, address(&scratch)?.as_ptr()) }
    }
}

/// A plan with every kernel prepared.
struct CpuProgram {
    plan: Arc<Plan>,
    kernels: Vec<Prepared>,
}

impl CpuProgram {
    /// The address of every buffer for one call, each checked to hold its buffer.
    fn addresses(&self, call: &Call<'_>) -> Result<Vec<*mut u8>> {
        let plan = &self.plan;
        if call.workspace.memory.bytes() < call.workspace.offset + plan.workspace_bytes {
            return Err(Error::new(ErrorKind::Execute, "cpu", "the workspace is too small"));
        }
        let workspace = address(&call.workspace)?;
        let mut addresses = Vec::with_capacity(plan.places.len());
        for (place, ty) in plan.places.iter().zip(&plan.buffers) {
            let memory = match *place {
                Place::Workspace(offset) => {
                    // SAFETY: the plan's offsets lie in its workspace, whose size was checked.
                    addresses.push(unsafe { workspace.add(offset) }.as_ptr());
                    continue;
                }
                Place::Input(at) => call.inputs.get(at as usize),
                Place::Output(at) => call.outputs.get(at as usize),
            };
            let memory = memory.ok_or_else(|| {
                Error::new(ErrorKind::Execute, "cpu", "the call has fewer operands than the program")
            })?;
            if memory.offset + ty.bytes() > memory.memory.bytes() {
                let found = memory.memory.bytes().saturating_sub(memory.offset);
                let message = format!("an operand of type {ty} lies in memory of {found} bytes");
                return Err(Error::new(ErrorKind::Execute, "cpu", message));
            }
            addresses.push(address(memory)?.as_ptr());
        }
        Ok(addresses)
    }

    /// Every result that must be finite is.
    fn check_finite(&self, addresses: &[*mut u8]) -> Result<()> {
        for &output in &self.plan.finite {
            let Some(planned) = self.plan.outputs.get(output as usize) else { continue };
            let at = addresses[planned.buffer as usize];
            // SAFETY: the buffer holds one value of its dtype, written before the commit point.
            let value = unsafe {
                match self.plan.buffers[planned.buffer as usize].dtype {
                    DType::F32 => (at as *const f32).read_unaligned() as f64,
                    DType::F64 => (at as *const f64).read_unaligned(),
                    DType::BF16 => (at as *const half::bf16).read_unaligned().to_f64(),
                    DType::F16 => (at as *const half::f16).read_unaligned().to_f64(),
                    _ => 0.0,
                }
            };
            if !value.is_finite() {
                let message = format!("result {output} is {value}; it must be finite, nothing was updated");
                return Err(Error::new(ErrorKind::Execute, "finite", message));
            }
        }
        Ok(())
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cpu", "the call was cancelled")
}

impl Program for CpuProgram {
    fn run(&self, call: &Call<'_>) -> Result<()> {
        let addresses = self.addresses(call)?;
        let workspace = address(&call.workspace)?.as_ptr();
        let plan = &self.plan;
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (at, (kernel, prepared)) in plan.kernels.iter().zip(&self.kernels).enumerate() {
            if at == plan.commit {
                self.check_finite(&addresses)?;
            }
            if at <= plan.commit && (call.cancelled)() {
                return Err(cancelled());
            }
            inputs.clear();
            inputs.extend(kernel.inputs.iter().map(|o| addresses[o.buffer as usize] as *const u8));
            outputs.clear();
            outputs.extend(kernel.outputs.iter().map(|o| addresses[o.buffer as usize]));
            if let Some(observer) = call.observer {
                observer.begin(at);
            }
            // SAFETY: every buffer was checked to lie in its memory, layouts lie in their buffers (`infer` made
            // them), the plan lets live buffers overlap only as requirements allow, and the workspace holds the
            // scratch at its offset.
            let run = || unsafe { prepared.run(&inputs, &outputs, workspace.add(plan.scratch[at].0)) };
            // A kernel that writes donated arguments is not left half done. One that was stopped may have failed for
            // that very reason: what it says is not asked.
            let done = if at < plan.commit {
                interruptible(call.cancelled, run).unwrap_or_else(|| Err(cancelled()))
            } else {
                run()
            };
            if let Some(observer) = call.observer {
                observer.end(at);
            }
            done?;
        }
        if plan.commit >= plan.kernels.len() {
            self.check_finite(&addresses)?;
        }
        Ok(())
    }
}
