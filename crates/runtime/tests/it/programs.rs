//! Random programs give the same numbers lazily, compiled, eagerly and in the reference interpreter.

use lanthorn_interp::HostTensor;
use lanthorn_ir::{Builder, DType, Lazy, Result, Value, ops, transform};
use lanthorn_runtime::executable::Options;
use lanthorn_runtime::{CancelToken, Eager, EagerTensor, Executable, Tensor};
use proptest::prelude::*;

use super::device;

/// One step over the values so far: which op, and which operands.
type Step = (u8, usize, usize);

/// Applies steps to two matrices; what does not fit is left out, by the same rule for every builder.
fn build<B: Builder>(b: &B, x: &B::Value, y: &B::Value, steps: &[Step]) -> Result<Vec<B::Value>> {
    let mut values = vec![x.clone(), y.clone()];
    for &(op, i, j) in steps {
        let (a, c) = (values[i % values.len()].clone(), values[j % values.len()].clone());
        let rank = b.ty(&a).rank();
        let result = match op {
            0 => ops::add(b, &a, &c),
            1 => ops::mul(b, &a, &ops::tanh(b, &c)?),
            2 => ops::sigmoid(b, &a),
            3 => ops::sub_scalar(b, &a, 0.75),
            4 if rank >= 2 => ops::transpose(b, &a, 0, 1),
            5 if rank >= 1 => ops::flip(b, &a, &[0]),
            6 if rank >= 1 => ops::mean(b, &a, &[-1], true),
            7 if rank >= 1 => ops::max(b, &a, &[0], false),
            8 if rank >= 1 => ops::slice(b, &a, 0, 0, None, 2),
            9 => ops::matmul(b, &a, &c),
            10 if rank >= 1 => ops::softmax(b, &a, -1),
            11 if rank >= 1 => ops::concat(b, &[a.clone(), a.clone()], -1),
            12 => ops::flatten(b, &a, 0, -1),
            13 if rank == 2 => ops::layer_norm(b, &a, None, None, 1e-3),
            14 => ops::gt(b, &a, &c).and_then(|greater| ops::where_(b, &greater, &a, &c)),
            15 if rank >= 1 => ops::pad(b, &a, &vec![1; rank], &vec![0; rank], 0i64),
            _ => continue,
        };
        if let Ok(value) = result
            && b.ty(&value).numel() <= 4096
        {
            values.push(value);
        }
    }
    Ok(values)
}

fn close(found: &[f64], expected: &[f64], what: &str) -> std::result::Result<(), TestCaseError> {
    prop_assert_eq!(found.len(), expected.len());
    for (at, (f, e)) in found.iter().zip(expected).enumerate() {
        prop_assert!((f - e).abs() <= 2e-4 * (1.0 + e.abs()), "{what}: element {at} is {f}, expected {e}");
    }
    Ok(())
}

fn elements(count: usize, seed: u64) -> Vec<f32> {
    (0..count as u64).map(|i| ((i * 7 + seed * 13) % 23) as f32 / 11.0 - 1.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_way_of_running_a_program_agrees(
        rows in 1usize..5,
        columns in 1usize..5,
        seed in 0u64..100,
        steps in proptest::collection::vec((0u8..16, 0usize..64, 0usize..64), 1..14),
    ) {
        let device = device();
        let shape = [rows, columns];
        let data = [elements(rows * columns, seed), elements(rows * columns, seed + 1)];

        let host: Vec<HostTensor> =
            data.iter().map(|d| HostTensor::new(&shape, d.clone()).unwrap()).collect();
        let expected = build(&lanthorn_interp::Interp, &host[0], &host[1], &steps).unwrap();
        let expected: Vec<Vec<f64>> = expected.iter().map(HostTensor::to_f64).collect();

        let concrete: Vec<EagerTensor> =
            data.iter().map(|d| EagerTensor::from_slice(&device, &shape, d).unwrap()).collect();
        let eager = build(&Eager::new(&device), &concrete[0], &concrete[1], &steps).unwrap();
        prop_assert_eq!(eager.len(), expected.len());
        for (value, expected) in eager.iter().zip(&expected) {
            close(&value.to_f64_vec().unwrap(), expected, "eagerly")?;
        }

        let leaves: Vec<Value> = concrete.iter().map(|t| Value::leaf(t.ty().clone()).unwrap()).collect();
        let roots = build(&Lazy, &leaves[0], &leaves[1], &steps).unwrap();
        let arguments: Vec<&EagerTensor> = concrete.iter().collect();
        for optimize in [true, false] {
            let options = Options { optimize, ..Options::default() };
            let program = Executable::new(&device, &leaves, &roots, &options).unwrap();
            let results = program.call(&arguments, &CancelToken::never()).unwrap();
            for (value, expected) in results.iter().zip(&expected) {
                close(&value.to_f64_vec().unwrap(), expected, "compiled")?;
            }
        }

        let bound: Vec<Value> = concrete.iter().map(|t| t.leaf().unwrap()).collect();
        let lazy = build(&Lazy, &bound[0], &bound[1], &steps).unwrap();
        let lazy: Vec<Tensor> = lazy.into_iter().map(|v| Tensor::from_value(&device, v)).collect();
        // Some are read alone, and so computed before the others that need them.
        for (value, expected) in lazy.iter().zip(&expected).skip(2).step_by(3).chain(lazy.iter().zip(&expected)) {
            close(&value.to_f64_vec().unwrap(), expected, "lazily")?;
        }
        drop((lazy, eager));
    }

    #[test]
    fn gradients_of_a_program_agree_lazily_and_on_a_tape(
        seed in 0u64..100,
        steps in proptest::collection::vec((0u8..14, 0usize..64, 0usize..64), 1..8),
    ) {
        let device = device();
        let shape = [3, 2];
        let x = EagerTensor::from_slice(&device, &shape, &elements(6, seed)).unwrap();
        let y = EagerTensor::from_slice(&device, &shape, &elements(6, seed + 1)).unwrap();

        fn loss<B: Builder>(b: &B, x: &B::Value, y: &B::Value, steps: &[Step]) -> Result<B::Value> {
            let last = build(b, x, y, steps)?.pop().unwrap_or_else(|| x.clone());
            ops::sum(b, &ops::square(b, &last)?, &[], false)
        }

        let tape = transform::Tape::new(Eager::new(&device));
        let (tx, ty) = (tape.watch(x.clone()), tape.watch(y.clone()));
        let eager = tape.grad(&loss(&tape, &tx, &ty, &steps).unwrap(), &[tx, ty]).unwrap();

        let leaves = [x.leaf().unwrap(), y.leaf().unwrap()];
        let root = loss(&Lazy, &leaves[0], &leaves[1], &steps).unwrap();
        let grads = transform::grad(&root, &leaves).unwrap();
        for (value, expected) in grads.into_iter().zip(eager) {
            let found = Tensor::from_value(&device, value).to_f64_vec().unwrap();
            close(&found, &expected.into_value().to_f64_vec().unwrap(), "gradient")?;
        }
    }
}

#[test]
fn half_types_round_where_the_reference_does() {
    let device = device();
    let eager = Eager::new(&device);
    let x = EagerTensor::from_slice(&device, &[4], &[0.1f32, 0.2, 0.3, 0.4]).unwrap();
    let half = ops::cast(&eager, &x, DType::BF16).unwrap();
    let total = ops::sum(&eager, &half, &[], false).unwrap();
    let bf16 = |v: f32| half::bf16::from_f32(v);
    let wide: f32 = [0.1, 0.2, 0.3, 0.4].iter().map(|&v| bf16(v).to_f32()).sum();
    assert_eq!(total.to_vec::<half::bf16>().unwrap(), [bf16(wide)]);
}
