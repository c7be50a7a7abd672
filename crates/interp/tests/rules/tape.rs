//! The tape over eager values against the lazy graph, and derivatives of derivatives.

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::transform::{Tape, grad};
use lanthorn_ir::{Builder, DType, ErrorKind, Lazy, Result, Value, ops};

use crate::support::{Sequence, assert_close, floats, ints, leaf_of};

/// Two layers and a loss.
fn network<B: Builder>(b: &B, v: &[B::Value]) -> Result<B::Value> {
    let h = ops::layer_norm(b, &v[0], Some(&v[1]), None, 1e-3)?;
    let h = ops::gelu(b, &ops::linear(b, &h, &v[2], None)?, ops::GeluApproximate::Tanh)?;
    let h = ops::add(b, &h, &ops::softmax(b, &h, -1)?)?;
    ops::cross_entropy(b, &h, &v[3], ops::Reduction::Mean, None, None, 0.0, -1)
}

fn inputs() -> Vec<HostTensor> {
    let mut s = Sequence::new(12);
    vec![s.away_from_zero(&[3, 4]), s.away_from_zero(&[4]), s.away_from_zero(&[5, 4]), ints(&[3], &[1, 4, 0])]
}

#[test]
fn eager_gradients_equal_lazy_ones() {
    let inputs = inputs();
    let tape = Tape::new(Interp);
    let watched: Vec<_> = inputs.iter().map(|x| tape.watch(x.clone())).collect();
    let loss = network(&tape, &watched).unwrap();
    let eager = tape.grad(&loss, &watched[..3]).unwrap();

    let leaves: Vec<Value> = inputs.iter().map(leaf_of).collect();
    let loss = network(&Lazy, &leaves).unwrap();
    let lazy = grad(&loss, &leaves[..3]).unwrap();
    let bindings: Vec<_> = leaves.into_iter().zip(inputs).collect();
    let lazy = lanthorn_interp::eval(&lazy, &bindings).unwrap();
    for (eager, lazy) in eager.iter().zip(&lazy) {
        assert_close("gradient", &eager.value().to_f64(), &lazy.to_f64(), 0.0);
    }
}

#[test]
fn a_tape_differentiates_its_own_derivatives() {
    // d^3/dx^3 x^5 = 60 x^2
    let tape = Tape::new(Interp);
    let x = tape.watch(floats(&[], &[1.5]));
    let mut y = ops::pow_scalar(&tape, &x, 5.0).unwrap();
    for _ in 0..3 {
        y = tape.grad(&y, std::slice::from_ref(&x)).unwrap().remove(0);
    }
    assert_close("third derivative", &y.value().to_f64(), &[60.0 * 1.5 * 1.5], 1e-12);
}

#[test]
fn only_what_a_watched_value_reaches_is_recorded() {
    let tape = Tape::new(Interp);
    let constant = tape.constant(floats(&[2], &[1.0, 2.0]));
    let x = tape.watch(floats(&[2], &[3.0, 4.0]));
    let scale = ops::exp(&tape, &constant).unwrap();
    assert!(tape.is_empty());
    let y = ops::mul(&tape, &scale, &x).unwrap();
    let chosen = ops::argmax(&tape, &y, Some(0), false).unwrap();
    assert_eq!((tape.len(), chosen.value().to_i64()), (1, vec![1]));
    let error = tape.grad(&ops::sum(&tape, &y, &[], false).unwrap(), &[constant]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[test]
fn a_value_without_influence_gets_zeros() {
    let tape = Tape::new(Interp);
    let (x, unused) = (tape.watch(floats(&[], &[3.0])), tape.watch(floats(&[2], &[3.0, 4.0])));
    let y = ops::square(&tape, &x).unwrap();
    assert_eq!(tape.grad(&y, &[unused]).unwrap()[0].value().to_f64(), [0.0, 0.0]);
    let rounded = ops::cast(&tape, &ops::cast(&tape, &x, DType::I32).unwrap(), DType::F64).unwrap();
    assert_eq!(tape.grad(&rounded, &[x]).unwrap()[0].value().to_f64(), [0.0]);
}
