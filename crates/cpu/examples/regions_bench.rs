//! Fused regions beside the bandwidth of this machine: GB/s that a program moves, counting each operand once.
//!
//! ```text
//! cargo run --release -p lanthorn-cpu --example regions_bench [part of a name]
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanthorn_compiler::backend::{Backend, Call, MemRef, Memory};
use lanthorn_compiler::pipeline::{Options, compile, index};
use lanthorn_compiler::single::single;
use lanthorn_cpu::CpuBackend;
use lanthorn_cpu::{measure, pool::pool};
use lanthorn_ir::expr::F64;
use lanthorn_ir::prim::State;
use lanthorn_ir::{Builder, DType, Layout, Lazy, Prim, Result, TensorType, Value, ops};

const TRIAL: Duration = Duration::from_millis(400);

fn leaf(dtype: DType, shape: &[usize]) -> Result<Value> {
    Value::leaf(TensorType::new(dtype, shape))
}

/// Memory whose elements are small positive numbers in every float type.
fn memory(ty: &TensorType) -> Result<Arc<dyn Memory>> {
    let memory = CpuBackend.allocate(ty.bytes().max(64))?;
    if let Some(start) = memory.host() {
        for i in 0..ty.bytes() / ty.dtype.size() {
            let at = i * ty.dtype.size();
            // SAFETY: the memory holds the type's elements.
            unsafe {
                let start = start.as_ptr().add(at);
                let value = (i % 13) as f32 * 0.1;
                match ty.dtype {
                    DType::F32 => (start as *mut f32).write(value),
                    DType::F64 => (start as *mut f64).write(value as f64),
                    DType::BF16 => (start as *mut half::bf16).write(half::bf16::from_f32(value)),
                    _ => start.write(0),
                }
            }
        }
    }
    Ok(memory)
}

fn refs(memories: &[Arc<dyn Memory>]) -> Vec<MemRef<'_>> {
    memories.iter().map(|memory| MemRef { memory: &**memory, offset: 0 }).collect()
}

/// Seconds of the fastest call.
fn fastest(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    while begin.elapsed() < TRIAL {
        let start = Instant::now();
        call()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

struct Bench {
    bandwidth: f64,
    wanted: String,
}

impl Bench {
    fn program(&self, name: &str, leaves: &[Value], roots: &[Value], donated: &[(u32, u32)]) -> Result<()> {
        if !name.contains(&self.wanted) {
            return Ok(());
        }
        let (indexed, _) = index(leaves, roots, |_| false);
        let options = Options { donated: donated.to_vec(), ..Options::default() };
        let compiled = compile(&CpuBackend, indexed, &options)?;
        let plan = &compiled.plan;
        let inputs = leaves.iter().map(|leaf| memory(leaf.ty())).collect::<Result<Vec<_>>>()?;
        let outputs = (plan.outputs.iter().zip(roots))
            .map(|(output, root)| match output.donated {
                Some(argument) => Ok(inputs[argument as usize].clone()),
                None => memory(root.ty()),
            })
            .collect::<Result<Vec<_>>>()?;
        let workspace = CpuBackend.allocate(plan.workspace_bytes)?;
        let call = Call {
            inputs: &refs(&inputs),
            outputs: &refs(&outputs),
            workspace: MemRef { memory: &*workspace, offset: 0 },
            cancelled: &|| false,
            observer: None,
        };
        let seconds = fastest(|| compiled.program.run(&call))?;
        let bytes: usize = leaves.iter().chain(roots).map(|value| value.ty().bytes()).sum();
        let rate = bytes as f64 * 1e-9 / seconds;
        println!(
            "{name:<34} {:>2} kernels {:>9.1} us {rate:>7.1} GB/s {:>5.0} % of reading",
            plan.kernels.len(),
            seconds * 1e6,
            100.0 * rate / self.bandwidth
        );
        Ok(())
    }

    /// One primitive at once, its kernel prepared anew in each call.
    fn eager(&self, name: &str, prim: &Prim, types: &[TensorType]) -> Result<()> {
        if !name.contains(&self.wanted) {
            return Ok(());
        }
        let mut memories = types.iter().map(memory).collect::<Result<Vec<_>>>()?;
        for ty in prim.infer(&types.iter().collect::<Vec<_>>())? {
            memories.push(memory(&ty)?);
        }
        let operands: Vec<_> = types.iter().map(|ty| (ty.dtype, Layout::contiguous(&ty.shape))).collect();
        let scratch = CpuBackend.allocate(1 << 20)?;
        let seconds = fastest(|| {
            for kernel in single(prim, &operands)? {
                let at = |buffer: u32| MemRef { memory: &*memories[buffer as usize], offset: 0 };
                let inputs: Vec<_> = kernel.inputs.iter().map(|o| at(o.buffer)).collect();
                let outputs: Vec<_> = kernel.outputs.iter().map(|o| at(o.buffer)).collect();
                let prepared = CpuBackend.prepare(&kernel)?;
                prepared.run(&inputs, &outputs, MemRef { memory: &*scratch, offset: 0 })?;
            }
            Ok(())
        })?;
        println!("{name:<34}            {:>9.2} us", seconds * 1e6);
        Ok(())
    }
}

fn main() -> Result<()> {
    let threads = pool().threads();
    let bench = Bench {
        bandwidth: measure::read_bandwidth_gbps(threads),
        wanted: std::env::args().nth(1).unwrap_or_default(),
    };
    println!("{threads} threads, {:.1} GB/s of reading", bench.bandwidth);
    let (f32, shape) = (DType::F32, [4096, 1024]);
    let (x, r) = (leaf(f32, &shape)?, leaf(f32, &shape)?);
    let (w, b) = (leaf(f32, &[1024])?, leaf(f32, &[1024])?);

    bench.program("copy", std::slice::from_ref(&x), std::slice::from_ref(&x), &[])?;
    bench.program("x + r", &[x.clone(), r.clone()], &[ops::add(&Lazy, &x, &r)?], &[])?;
    bench.program("x + r in place", &[x.clone(), r.clone()], &[ops::add(&Lazy, &x, &r)?], &[(0, 0)])?;
    let y = ops::add(&Lazy, &ops::mul(&Lazy, &x, &w)?, &b)?;
    let y = ops::add(&Lazy, &ops::gelu(&Lazy, &y, Default::default())?, &r)?;
    let leaves = [x.clone(), w.clone(), b.clone(), r.clone()];
    bench.program("gelu(x * w + b) + r", &leaves, &[y], &[])?;
    let y = ops::add(&Lazy, &ops::mul(&Lazy, &x, &w)?, &b)?;
    bench.program("x * w + b", &leaves[..3], &[y], &[])?;
    let halves = [leaf(DType::BF16, &shape)?, leaf(DType::BF16, &shape)?];
    bench.program("x + r in bf16", &halves, &[ops::add(&Lazy, &halves[0], &halves[1])?], &[])?;
    let doubles = [leaf(DType::F64, &shape)?, leaf(DType::F64, &shape)?];
    bench.program("x + r in f64", &doubles, &[ops::add(&Lazy, &doubles[0], &doubles[1])?], &[])?;
    for axis in [0, 1] {
        let only = std::slice::from_ref(&x);
        bench.program(
            &format!("sum over axis {axis}"),
            only,
            &[ops::sum(&Lazy, &x, &[axis], false)?],
            &[],
        )?;
        bench.program(
            &format!("max over axis {axis}"),
            only,
            &[ops::max(&Lazy, &x, &[axis], false)?],
            &[],
        )?;
        let norm = ops::sum(&Lazy, &ops::square(&Lazy, &ops::mul(&Lazy, &x, &r)?)?, &[axis], false)?;
        bench.program(
            &format!("sum of (x * r)^2 over axis {axis}"),
            &[x.clone(), r.clone()],
            &[norm],
            &[],
        )?;
    }
    let only = std::slice::from_ref(&x);
    bench.program("sum over all", only, &[ops::sum(&Lazy, &x, &[], false)?], &[])?;
    bench.program("transposed copy", only, &[ops::transpose(&Lazy, &x, 0, 1)?], &[])?;
    let heads = leaf(f32, &[8, 512, 16, 64])?;
    let swapped = ops::permute(&Lazy, &heads, &[0, 2, 1, 3])?;
    bench.program("heads copy", std::slice::from_ref(&heads), &[swapped], &[])?;

    let parameters: Vec<Value> = (0..4).map(|_| leaf(f32, &shape)).collect::<Result<_>>()?;
    let lr = leaf(f32, &[])?;
    let spread = |value: &Value| ops::broadcast_to(&Lazy, value, &shape);
    let bias = spread(&ops::scalar(&Lazy, 0.5, f32)?)?;
    let mut operands = parameters.clone();
    operands.extend([spread(&lr)?, bias.clone(), bias]);
    let adamw = State::AdamW { beta1: F64(0.9), beta2: F64(0.99), eps: F64(1e-8), weight_decay: F64(0.1) };
    let updated = Lazy.apply(Prim::State(adamw), &operands)?.into_vec();
    let leaves = [&parameters[..], &[lr]].concat();
    bench.program("AdamW in place", &leaves, &updated, &[(0, 0), (2, 1), (3, 2)])?;

    let small = TensorType::new(f32, [16]);
    let add = Prim::Elementwise(lanthorn_ir::prim::Elementwise::Binary(lanthorn_ir::expr::BinaryOp::Add));
    bench.eager("eager add of 16", &add, &[small.clone(), small])?;
    let sum = lanthorn_ir::prim::Reduce::Fold {
        op: lanthorn_ir::prim::ReduceOp::Sum,
        axes: std::iter::once(1).collect(),
    };
    bench.eager("eager sum of [4, 16]", &Prim::Reduce(sum), &[TensorType::new(f32, [4, 16])])?;
    let tiny = [leaf(f32, &[16])?, leaf(f32, &[16])?];
    bench.program("a program that adds 16", &tiny, &[ops::add(&Lazy, &tiny[0], &tiny[1])?], &[])
}
