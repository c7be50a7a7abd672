//! What the tests of several passes share: a naive backend, a reference, and ways to build programs.

pub mod naive;
mod random;
pub mod reference;
pub mod scalar;
mod transformer;

use std::sync::Arc;

use lanthorn_ir::{DType, Lazy, Prim, TensorType, Value, builder::Builder};

use crate::backend::{Backend, Call, MemRef, Memory};
use crate::indexed::Indexed;
use crate::pipeline::{Compiled, Options, compile, index};
use naive::{HostMemory, Naive};
use reference::Tensor;
use scalar::Number;

/// An f32 leaf.
pub fn leaf(shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(DType::F32, shape)).unwrap()
}

/// The one output of a primitive.
pub fn apply(prim: Prim, inputs: &[&Value]) -> Value {
    let inputs: Vec<Value> = inputs.iter().map(|&v| v.clone()).collect();
    Lazy.apply1(prim, &inputs).unwrap()
}

pub fn indexed(parameters: &[Value], roots: &[Value]) -> Indexed {
    let (indexed, further) = index(parameters, roots, |_| false);
    assert!(further.is_empty(), "a test names all its leaves");
    indexed
}

pub fn build(parameters: &[Value], roots: &[Value]) -> Compiled {
    build_with(parameters, roots, &Options::default())
}

pub fn build_with(parameters: &[Value], roots: &[Value], options: &Options) -> Compiled {
    compile(&Naive::default(), indexed(parameters, roots), options).unwrap()
}

/// Numbers that differ from element to element, small enough for any dtype.
pub fn sample(ty: &TensorType, seed: usize) -> Tensor {
    (0..ty.numel())
        .map(|i| {
            let x = ((i * 7 + seed * 13) % 23) as i64 - 11;
            match ty.dtype {
                DType::Bool => Number::I((x > 0) as i64),
                dtype if dtype.is_float() => Number::F(x as f64 / 8.0),
                DType::U64 | DType::U8 => Number::I(x.abs()),
                _ => Number::I(x),
            }
        })
        .collect()
}

pub fn samples(indexed: &Indexed) -> Vec<Tensor> {
    (indexed.inputs.iter().enumerate())
        .map(|(seed, &node)| sample(&indexed.nodes[node as usize].types[0], seed))
        .collect()
}

/// The memories of a call.
pub struct Memories {
    pub inputs: Vec<Arc<HostMemory>>,
    pub outputs: Vec<Arc<HostMemory>>,
}

/// Runs a program; a donated result is its argument's memory.
pub fn call(
    compiled: &Compiled,
    arguments: &[Tensor],
    cancelled: &(dyn Fn() -> bool + Sync),
) -> (lanthorn_ir::Result<()>, Memories) {
    let plan = &compiled.plan;
    let ty = |buffer: u32| &plan.buffers[buffer as usize];
    let inputs: Vec<Arc<HostMemory>> = (plan.inputs.iter().zip(arguments))
        .map(|(&buffer, values)| Arc::new(HostMemory::with(ty(buffer), values)))
        .collect();
    let outputs: Vec<Arc<HostMemory>> = (plan.outputs.iter())
        .map(|output| match output.donated {
            Some(argument) => inputs[argument as usize].clone(),
            None => Arc::new(HostMemory::new(ty(output.buffer).bytes())),
        })
        .collect();
    let workspace = Naive::default().allocate(plan.workspace_bytes).unwrap();
    fn refs(memories: &[Arc<HostMemory>]) -> Vec<MemRef<'_>> {
        memories.iter().map(|memory| MemRef { memory: &**memory as &dyn Memory, offset: 0 }).collect()
    }
    let result = compiled.program.run(&Call {
        inputs: &refs(&inputs),
        outputs: &refs(&outputs),
        workspace: MemRef { memory: &*workspace, offset: 0 },
        cancelled,
        observer: None,
    });
    (result, Memories { inputs, outputs })
}

/// The results of a call that must succeed.
pub fn results(compiled: &Compiled, arguments: &[Tensor]) -> Vec<Tensor> {
    let (result, memories) = call(compiled, arguments, &|| false);
    result.unwrap();
    (compiled.plan.outputs.iter().zip(&memories.outputs))
        .map(|(output, memory)| memory.values(&compiled.plan.buffers[output.buffer as usize]))
        .collect()
}

/// Compiles in every way and holds the results against the reference.
pub fn check(parameters: &[Value], roots: &[Value]) {
    let indexed = indexed(parameters, roots);
    check_indexed(&indexed, &Options::default());
}

pub fn check_indexed(indexed: &Indexed, options: &Options) {
    let arguments = samples(indexed);
    let legal = crate::legalize::legalize(&Naive::default(), indexed).unwrap();
    let (expected, magnitude) = reference::run(&legal, &arguments);
    // An error is relative to what was computed on the way, not to what a difference left of it.
    let tolerance = tolerance(&legal) * magnitude.max(1.0);
    let overflows = magnitude > 3e4;
    let mut small = Naive::default();
    small.caps.region_operands = 5;
    small.caps.region_steps = 12;
    for backend in [Naive::default(), small] {
        for optimize in [false, true] {
            let options = Options { optimize, ..options.clone() };
            let compiled = compile(&backend, indexed.clone(), &options).unwrap();
            let found = results(&compiled, &arguments);
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let ty = indexed.ty(indexed.roots[at]);
                let close = overflows
                    || found.len() == expected.len()
                        && found.iter().zip(expected).all(|(&a, &b)| is_close(a, b, tolerance));
                assert!(
                    close,
                    "result {at} ({ty}), optimize {optimize}:\n{found:?}\nexpected\n{expected:?}\n{indexed}{}",
                    compiled.plan
                );
            }
        }
    }
}

/// How far a fused program may be from the reference, which rounds half values at every node.
fn tolerance(indexed: &Indexed) -> f64 {
    let halves = [DType::F16, DType::BF16];
    let rounds = indexed.nodes.iter().any(|node| node.types.iter().any(|ty| halves.contains(&ty.dtype)));
    if rounds { 4e-2 } else { 1e-4 }
}

fn is_close(a: Number, b: Number, tolerance: f64) -> bool {
    let (Number::F(a), Number::F(b)) = (a, b) else { return a == b };
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance
}
