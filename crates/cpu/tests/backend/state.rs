//! Donated memory: updated in place after the commit point, and otherwise left alone.

use std::sync::atomic::{AtomicUsize, Ordering};

use lanthorn_compiler::backend::{Backend, MemRef};
use lanthorn_compiler::kernel::{Kernel, KernelKind, Operand, Phase, Store};
use lanthorn_compiler::pipeline::Options;
use lanthorn_cpu::CpuBackend;
use lanthorn_interp::{HostTensor, Interp, eval};
use lanthorn_ir::expr::{BinaryOp, F64, KernelExpr, Step};
use lanthorn_ir::prim::{Elementwise, State};
use lanthorn_ir::{Builder, DType, ErrorKind, Layout, Lazy, Prim, Result, Value, ops, transform};

use crate::harness::{Sequence, assert_close, build, from_bytes, leaf_of, memory, read, to_bytes, tolerance};

/// A training step of a linear model: `(w, m, v, x, y, lr) -> (w', m', v', loss)`.
fn step(v: &[Value]) -> Result<Vec<Value>> {
    let [w, m, second, x, y, lr] = v else { panic!("six arguments") };
    let prediction = ops::matmul(&Lazy, x, w)?;
    let loss = ops::mse_loss(&Lazy, &prediction, y, ops::Reduction::Mean)?;
    let gradient = transform::grad(&loss, std::slice::from_ref(w))?.remove(0);
    let adamw = State::AdamW { beta1: F64(0.9), beta2: F64(0.99), eps: F64(1e-3), weight_decay: F64(0.1) };
    let shape = w.ty().shape.to_vec();
    let spread = |value: &Value| ops::broadcast_to(&Lazy, value, &shape);
    let bias = spread(&ops::scalar(&Lazy, 0.5, w.ty().dtype)?)?;
    let operands = [w.clone(), gradient, m.clone(), second.clone(), spread(lr)?, bias.clone(), bias];
    let mut roots = Lazy.apply(Prim::State(adamw), &operands)?.into_vec();
    roots.push(loss);
    Ok(roots)
}

fn arguments(dtype: DType, inner: usize, cols: usize, first: f64) -> Vec<HostTensor> {
    let mut s = Sequence::new(21);
    let mut x = s.tensor(dtype, &[6, inner]).to_f64();
    x[0] = first;
    vec![
        s.tensor(dtype, &[inner, cols]),
        s.tensor(dtype, &[inner, cols]),
        s.within(dtype, &[inner, cols], 0.0, 1.0),
        HostTensor::from_f64(dtype, &[6, inner], &x).unwrap(),
        s.tensor(dtype, &[6, cols]),
        HostTensor::from_f64(dtype, &[], &[0.01]).unwrap(),
    ]
}

fn options(optimize: bool) -> Options {
    Options { optimize, donated: vec![(0, 0), (1, 1), (2, 2)], finite: vec![3], ..Options::default() }
}

#[test]
fn a_training_step_updates_its_parameters_in_place() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for (inner, cols) in [(3, 5), (64, 100), (16, 1030)] {
            let arguments = arguments(dtype, inner, cols, 1.0);
            let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
            let roots = step(&leaves).unwrap();
            let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
            let expected = eval(&roots, &bindings).unwrap();
            for optimize in [false, true] {
                let what = format!("{dtype} {inner} {cols}, optimize {optimize}");
                let program = build(&leaves, &roots, &options(optimize)).unwrap();
                let found = program.run(&arguments).unwrap();
                for (found, expected) in found.iter().zip(&expected) {
                    assert_close(&what, found, expected, 8.0 * tolerance(dtype));
                }
            }
        }
    }
}

#[test]
fn a_loss_that_is_not_finite_leaves_donated_memory_untouched() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for first in [f64::NAN, f64::INFINITY] {
            for optimize in [false, true] {
                let arguments = arguments(dtype, 4, 7, first);
                let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
                let program = build(&leaves, &step(&leaves).unwrap(), &options(optimize)).unwrap();
                let (result, memories) = program.call(&arguments, &|| false);
                let error = result.unwrap_err();
                assert_eq!(error.kind, ErrorKind::Execute, "{error}");
                for (memory, argument) in memories.inputs.iter().zip(&arguments) {
                    assert_eq!(read(&**memory, argument.ty().bytes()), to_bytes(argument));
                }
            }
        }
    }
}

#[test]
fn a_call_cancelled_at_any_kernel_updates_all_or_nothing() {
    let arguments = arguments(DType::F32, 4, 7, 1.0);
    let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
    for optimize in [false, true] {
        let program = build(&leaves, &step(&leaves).unwrap(), &options(optimize)).unwrap();
        let updated = program.run(&arguments).unwrap();
        let mut cancelled = 0;
        for asked in 0..program.compiled.plan.kernels.len() + 2 {
            let count = AtomicUsize::new(0);
            let (result, memories) =
                program.call(&arguments, &|| count.fetch_add(1, Ordering::Relaxed) >= asked);
            for at in 0..3 {
                let ty = arguments[at].ty();
                let found = from_bytes(ty, &read(&*memories.inputs[at], ty.bytes()));
                let expected = if result.is_ok() { &updated[at] } else { &arguments[at] };
                assert_eq!(&found, expected, "asked {asked} times, optimize {optimize}");
            }
            if let Err(error) = result {
                assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
                cancelled += 1;
            }
        }
        assert!(cancelled > 0);
    }
}

/// `(cache, new rows, start) -> cache'`.
fn append(v: &[Value]) -> Result<Vec<Value>> {
    Ok(vec![ops::update_slice(&Lazy, &v[0], &ops::tanh(&Lazy, &v[1])?, &v[2], 1)?])
}

#[test]
fn a_cache_grows_in_place_and_a_start_out_of_range_leaves_it() {
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        for start in [0, 5, 9, 10, -1] {
            let mut s = Sequence::new(22);
            let arguments = [
                s.tensor(dtype, &[3, 11, 4]),
                s.tensor(dtype, &[3, 2, 4]),
                HostTensor::from_i64(DType::I64, &[], &[start]).unwrap(),
            ];
            let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
            let roots = append(&leaves).unwrap();
            for optimize in [false, true] {
                let options = Options { optimize, donated: vec![(0, 0)], ..Options::default() };
                let program = build(&leaves, &roots, &options).unwrap();
                if (0..=9).contains(&start) {
                    let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
                    let expected = eval(&roots, &bindings).unwrap();
                    let found = program.run(&arguments).unwrap();
                    assert_close("update", &found[0], &expected[0], tolerance(dtype));
                } else {
                    let (result, memories) = program.call(&arguments, &|| false);
                    assert_eq!(result.unwrap_err().kind, ErrorKind::Execute);
                    let bytes = arguments[0].ty().bytes();
                    assert_eq!(read(&*memories.inputs[0], bytes), to_bytes(&arguments[0]));
                }
            }
        }
    }
}

#[test]
fn a_value_that_is_also_stored_survives_its_memory() {
    // Both results read the argument whose memory the first one takes.
    let mut s = Sequence::new(23);
    for shape in [&[16][..], &[33, 64], &[5]] {
        for dtype in [DType::F32, DType::F64, DType::I32] {
            let arguments = [s.tensor(dtype, shape), s.tensor(dtype, shape)];
            let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
            let sum = ops::add(&Lazy, &leaves[0], &leaves[1]).unwrap();
            let roots = [sum, leaves[0].clone(), leaves[1].clone()];
            let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
            let expected = eval(&roots, &bindings).unwrap();
            for donated in [vec![(0, 0)], vec![(1, 0)], vec![(0, 2), (1, 1)], vec![(1, 2), (0, 0)]] {
                for optimize in [false, true] {
                    let options = Options { optimize, donated: donated.clone(), ..Options::default() };
                    let program = build(&leaves, &roots, &options).unwrap();
                    let found = program.run(&arguments).unwrap();
                    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                        let what = format!("result {at} of {dtype}{shape:?}, donated {donated:?}");
                        assert_close(&what, found, expected, 0.0);
                    }
                }
            }
        }
    }
}

/// A map of two operands, whose steps are the loads 0 and 1 and what `more` adds; each named step is stored, the
/// first over operand 0.
fn map_over_its_operand(n: usize, more: &[(BinaryOp, u32, u32)], stored: &[u32]) {
    let mut expr = KernelExpr::default();
    (0..2).for_each(|at| _ = expr.push(Step::Load(at), DType::F32));
    for &(op, a, b) in more {
        expr.binary(op, a, b);
    }
    let operand = |buffer| Operand { buffer, dtype: DType::F32, layout: Layout::contiguous([n]) };
    let stores = stored.iter().zip(0..).map(|(&step, output)| Store { step, output }).collect();
    let kernel = Kernel {
        kind: KernelKind::Map { domain: [n].into_iter().collect(), body: Phase { expr, stores } },
        inputs: vec![operand(0), operand(1)],
        // Output `j` beyond the first has a buffer of its own.
        outputs: (0..stored.len() as u32).map(|at| operand(if at == 0 { 0 } else { at + 1 })).collect(),
        after: Vec::new(),
        ops: Vec::new(),
    };
    let mut s = Sequence::new(24);
    let (x, y) = (s.tensor(DType::F32, &[n]), s.tensor(DType::F32, &[n]));
    let mut memories = vec![memory(&to_bytes(&x)), memory(&to_bytes(&y))];
    memories.extend(stored.iter().skip(1).map(|_| memory(&vec![0xff; 4 * n])));
    let at = |operands: &[Operand]| -> Vec<MemRef<'_>> {
        operands.iter().map(|o| MemRef { memory: &*memories[o.buffer as usize], offset: 0 }).collect()
    };
    let scratch = MemRef { memory: &*memories[0], offset: 0 };
    let prepared = CpuBackend.prepare(&kernel).unwrap();
    prepared.run(&at(&kernel.inputs), &at(&kernel.outputs), scratch).unwrap();
    let mut steps = vec![x, y];
    for &(op, a, b) in more {
        let operands = [steps[a as usize].clone(), steps[b as usize].clone()];
        steps.push(Interp.apply1(Prim::Elementwise(Elementwise::Binary(op)), &operands).unwrap());
    }
    for (output, &step) in kernel.outputs.iter().zip(stored) {
        let expected = &steps[step as usize];
        let found = from_bytes(expected.ty(), &read(&*memories[output.buffer as usize], 4 * n));
        assert_close(&format!("step {step} of {n}"), &found, expected, 1e-6);
    }
}

#[test]
fn a_map_reads_all_of_a_tile_before_it_writes_over_an_operand() {
    use BinaryOp::{Add, Mul, Sub};
    for n in [5, 16, 512, 1040, 40_000] {
        // The operand is stored elsewhere after its memory has been written.
        map_over_its_operand(n, &[(Add, 0, 1)], &[2, 0]);
        // It is read by a later step.
        map_over_its_operand(n, &[(Add, 0, 1), (Mul, 0, 1)], &[2, 3]);
        map_over_its_operand(n, &[(Add, 0, 1), (Mul, 2, 0), (Sub, 3, 0)], &[2, 4, 3]);
        // The last step goes over it.
        map_over_its_operand(n, &[(Add, 0, 1), (Mul, 2, 0)], &[3, 2, 1]);
    }
}
