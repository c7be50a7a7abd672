//! `vmap` against a loop.

use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::{DType, Value, transform};

use crate::cases;
use crate::support::{Sequence, assert_close, leaf_of};

const SIZE: usize = 3;

/// Several tensors like `tensor`: floats vary, integers and bools are turned around.
fn variants(tensor: &HostTensor, seed: u64) -> Vec<HostTensor> {
    let mut s = Sequence::new(seed);
    (0..SIZE)
        .map(|turn| {
            if tensor.ty().dtype.is_float() {
                let moved: Vec<f64> = tensor.to_f64().iter().map(|x| x * s.uniform(0.8, 1.2)).collect();
                return HostTensor::from_f64(tensor.ty().dtype, tensor.shape(), &moved).unwrap();
            }
            let mut elements = tensor.to_i64();
            match tensor.ty().dtype {
                DType::U64 => elements[1] += turn as i64,
                _ => {
                    let by = turn % elements.len().max(1);
                    elements.rotate_left(by);
                }
            }
            HostTensor::from_i64(tensor.ty().dtype, tensor.shape(), &elements).unwrap()
        })
        .collect()
}

fn stacked(tensors: &[HostTensor]) -> HostTensor {
    let mut shape = vec![SIZE];
    shape.extend_from_slice(tensors[0].shape());
    let elements = tensors.iter().flat_map(|t| t.data().iter());
    HostTensor::collect(&lanthorn_ir::TensorType::new(tensors[0].ty().dtype, &shape), elements).unwrap()
}

#[test]
fn vmap_agrees_with_a_loop() {
    for case in cases::all() {
        let n = case.inputs.len();
        // All inputs mapped, then each one alone.
        let mut selections = vec![vec![true; n]];
        if n > 1 {
            selections.extend((0..n).map(|only| (0..n).map(|i| i == only).collect()));
        }
        for selection in selections {
            let what = format!("{} with {selection:?} mapped", case.name);
            let columns: Vec<Vec<HostTensor>> = (0..n)
                .map(|i| {
                    let varied = selection[i].then(|| variants(&case.inputs[i], 40 + i as u64));
                    varied.unwrap_or_else(|| vec![case.inputs[i].clone(); SIZE])
                })
                .collect();
            let arguments: Vec<HostTensor> = (0..n)
                .map(|i| if selection[i] { stacked(&columns[i]) } else { case.inputs[i].clone() })
                .collect();
            let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
            let roots = transform::vmap(|v| (case.f)(v), &leaves, &selection);
            let roots = roots.unwrap_or_else(|e| panic!("{what}: {e}"));
            let bindings: Vec<_> = leaves.into_iter().zip(arguments).collect();
            let found = eval(&roots, &bindings).unwrap_or_else(|e| panic!("{what}: {e}"));
            for turn in 0..SIZE {
                let inputs: Vec<HostTensor> = columns.iter().map(|column| column[turn].clone()).collect();
                let expected = crate::support::run(&case.f, &inputs);
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(found.shape()[1..], *expected.shape(), "{what}");
                    let n = expected.to_f64().len();
                    assert_close(&what, &found.to_f64()[turn * n..(turn + 1) * n], &expected.to_f64(), 1e-12);
                }
            }
        }
    }
}

/// Per-sample gradients: `vmap` of `grad`, and back.
#[test]
fn vmap_of_grad_gives_gradients_per_sample() {
    use lanthorn_ir::{Lazy, ops};
    let mut s = Sequence::new(3);
    let (x, w) = (s.away_from_zero(&[SIZE, 4]), s.away_from_zero(&[4]));
    let (lx, lw) = (leaf_of(&x), leaf_of(&w));
    let loss = |x: &Value, w: &Value| ops::square(&Lazy, &ops::tanh(&Lazy, &ops::dot(&Lazy, x, w)?)?);
    let per_sample = transform::vmap(
        |v| transform::grad(&loss(&v[0], &v[1])?, std::slice::from_ref(&v[1])),
        &[lx.clone(), lw.clone()],
        &[true, false],
    )
    .unwrap();
    let total = ops::sum(&Lazy, &per_sample[0], &[0], false).unwrap();
    let losses =
        transform::vmap(|v| Ok(vec![loss(&v[0], &v[1])?]), &[lx.clone(), lw.clone()], &[true, false]);
    let whole = ops::sum(&Lazy, &losses.unwrap()[0], &[], false).unwrap();
    let whole = transform::grad(&whole, std::slice::from_ref(&lw)).unwrap();
    let values = eval(&[total, whole[0].clone()], &[(lx, x), (lw, w)]).unwrap();
    assert_close("per-sample gradients", &values[0].to_f64(), &values[1].to_f64(), 1e-12);
}
