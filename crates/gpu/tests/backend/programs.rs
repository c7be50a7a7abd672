//! Whole programs: training steps in place, the commit point, buffers of few bindings.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lanthorn_compiler::pipeline::Options;
use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::expr::F64;
use lanthorn_ir::prim::State;
use lanthorn_ir::{Builder, DType, ErrorKind, Lazy, Prim, Result, Value, ops, transform};

use crate::harness::{Sequence, assert_close, build, leaf_of, read, to_bytes};

/// A training step of a small network: `(w, m, v, x, y, lr) -> (w', m', v', loss)`.
fn step(v: &[Value]) -> Result<Vec<Value>> {
    let [w, m, second, x, y, lr] = v else { panic!("six arguments") };
    let prediction = ops::tanh(&Lazy, &ops::matmul(&Lazy, x, w)?)?;
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

fn arguments(first: f64) -> Vec<HostTensor> {
    let (mut s, dtype) = (Sequence::new(21), DType::F32);
    let mut x = s.tensor(dtype, &[6, 4]).to_f64();
    x[0] = first;
    vec![
        s.tensor(dtype, &[4, 7]),
        s.tensor(dtype, &[4, 7]),
        s.within(dtype, &[4, 7], 0.0, 1.0),
        HostTensor::from_f64(dtype, &[6, 4], &x).unwrap(),
        s.tensor(dtype, &[6, 7]),
        HostTensor::from_f64(dtype, &[], &[0.01]).unwrap(),
    ]
}

fn options(optimize: bool) -> Options {
    Options { optimize, donated: vec![(0, 0), (1, 1), (2, 2)], finite: vec![3], ..Options::default() }
}

#[test]
fn a_training_step_updates_its_parameters_in_place() {
    let arguments = arguments(1.0);
    let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
    let roots = step(&leaves).unwrap();
    let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
    let expected = eval(&roots, &bindings).unwrap();
    for optimize in [false, true] {
        let program = build(&leaves, &roots, &options(optimize)).unwrap();
        for (found, expected) in program.run(&arguments).unwrap().iter().zip(&expected) {
            assert_close(&format!("optimize {optimize}"), found, expected, 1e-4);
        }
    }
}

#[test]
fn a_loss_that_is_not_finite_leaves_donated_memory_untouched() {
    for first in [f64::NAN, f64::INFINITY] {
        let arguments = arguments(first);
        let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
        let mut roots = step(&leaves).unwrap();
        if first.is_infinite() {
            // tanh makes it finite again; the product itself is not.
            let product = ops::matmul(&Lazy, &leaves[3], &leaves[0]).unwrap();
            roots[3] = ops::sum(&Lazy, &product, &[], false).unwrap();
        }
        let program = build(&leaves, &roots, &options(true)).unwrap();
        let (result, memories) = program.call(&arguments, &|| false);
        let error = result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Execute, "{error}");
        for (memory, argument) in memories.inputs.iter().zip(&arguments) {
            assert_eq!(read(&**memory, argument.ty().bytes()), to_bytes(argument));
        }
    }
}

#[test]
fn a_cancelled_call_updates_all_or_nothing() {
    let arguments = arguments(1.0);
    let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
    let program = build(&leaves, &step(&leaves).unwrap(), &options(true)).unwrap();
    let updated = program.run(&arguments).unwrap();
    let mut cancelled = 0;
    for asked in 0..4 {
        let count = AtomicUsize::new(0);
        let (result, memories) = program.call(&arguments, &|| count.fetch_add(1, Ordering::Relaxed) >= asked);
        for at in 0..3 {
            let found = read(&*memories.inputs[at], arguments[at].ty().bytes());
            let expected = if result.is_ok() { &updated[at] } else { &arguments[at] };
            assert_eq!(found, to_bytes(expected), "asked {asked} times");
        }
        cancelled += usize::from(result.is_err_and(|error| error.kind == ErrorKind::Cancelled));
    }
    assert!(cancelled > 0 && cancelled < 4);
}

#[test]
fn calls_of_one_program_from_several_threads_do_not_mix() {
    use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable};
    let device = Device::new(Arc::new(lanthorn_gpu::GpuBackend::open().unwrap()));
    let x = Value::leaf(lanthorn_ir::TensorType::new(DType::F32, [64])).unwrap();
    let root = ops::sum(&Lazy, &ops::mul(&Lazy, &x, &x).unwrap(), &[], false).unwrap();
    let program = Executable::new(&device, &[x], &[root], &lanthorn_runtime::Options::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 1..4u8 {
            let (program, device) = (&program, &device);
            scope.spawn(move || {
                for call in 0..10 {
                    let value = f32::from(thread) + call as f32;
                    let x = EagerTensor::from_slice(device, &[64], &[value; 64]).unwrap();
                    let result = program.call(&[&x], &CancelToken::never()).unwrap();
                    assert_eq!(result[0].item().unwrap(), f64::from(64.0 * value * value));
                }
            });
        }
    });
}
