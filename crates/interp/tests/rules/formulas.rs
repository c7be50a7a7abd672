//! Decompositions against formulas written out element by element.

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::expr::{F64, KernelExpr, Step};
use lanthorn_ir::prim::attention::{Attend, Position};
use lanthorn_ir::prim::{Attention, Loss, Norm, State};
use lanthorn_ir::{Builder, DType, Prim, ops};

use crate::support::{Sequence, assert_close, floats, ints};

fn apply(prim: Prim, inputs: &[HostTensor]) -> Vec<HostTensor> {
    Interp.apply(prim, inputs).unwrap().into_vec()
}

/// Attention as the documentation of the primitive words it, one query at a time.
#[test]
fn attention_is_the_documented_formula() {
    let (batch, width, scale) = (2, 3, 0.6);
    for (tq, tk, heads, key_heads, causal, past) in [
        (2, 4, 2, 2, false, None),
        (3, 3, 4, 2, true, None),
        (2, 5, 2, 1, true, None),
        (4, 2, 2, 2, true, None),
        (2, 6, 4, 2, true, Some(3)),
        (2, 6, 2, 1, false, Some(1)),
        (1, 4, 2, 2, true, Some(0)),
    ] {
        let mut s = Sequence::new(4);
        let q = s.tensor(&[batch, tq, heads, width], -1.0, 1.0);
        let k = s.tensor(&[batch, tk, key_heads, width], -1.0, 1.0);
        let v = s.tensor(&[batch, tk, key_heads, width], -1.0, 1.0);
        let at = |x: &HostTensor, b: usize, t: usize, h: usize, d: usize| {
            let shape = x.shape();
            x.to_f64()[((b * shape[1] + t) * shape[2] + h) * shape[3] + d]
        };
        let (mut o, mut lse) = (Vec::new(), Vec::new());
        for (b, i, h) in
            (0..batch).flat_map(|b| (0..tq).flat_map(move |i| (0..heads).map(move |h| (b, i, h))))
        {
            let kv = h / (heads / key_heads);
            let keys = past.map_or(tk, |past| past + tq);
            let stands = past.map_or(i as isize + tk as isize - tq as isize, |past| (past + i) as isize);
            let seen: Vec<usize> = (0..keys).filter(|&j| !causal || j as isize <= stands).collect();
            let dot = |j: usize| (0..width).map(|d| at(&q, b, i, h, d) * at(&k, b, j, kv, d)).sum::<f64>();
            let weights: Vec<f64> = seen.iter().map(|&j| (scale * dot(j)).exp()).collect();
            let total: f64 = weights.iter().sum();
            lse.push(total.ln());
            for d in 0..width {
                let mixed: f64 = seen.iter().zip(&weights).map(|(&j, w)| w * at(&v, b, j, kv, d)).sum();
                o.push(if seen.is_empty() { 0.0 } else { mixed / total });
            }
        }
        // What lies in the cache beyond the valid keys must not count.
        let poison = |x: HostTensor| match past {
            Some(past) => {
                let row = key_heads * width;
                let mut elements = x.to_f64();
                for (at, element) in elements.iter_mut().enumerate() {
                    if at / row % tk >= past + tq {
                        *element = f64::NAN;
                    }
                }
                floats(x.shape(), &elements)
            }
            None => x,
        };
        let mut inputs = vec![q, poison(k), poison(v)];
        inputs.extend(past.map(|past| ints(&[], &[past as i64])));
        let position = if past.is_some() { Position::Past } else { Position::Last };
        let attend = Attend { causal, position, ..Attend::new(scale) };
        let prim = Attention::Forward(attend);
        let found = apply(Prim::Attention(prim), &inputs);
        let what =
            format!("{tq} queries, {tk} keys, {heads}/{key_heads} heads, causal {causal}, past {past:?}");
        assert_close(&what, &found[0].to_f64(), &o, 1e-12);
        assert_close(&format!("{what}: lse"), &found[1].to_f64(), &lse, 1e-12);

        // The poison must not reach the gradients either.
        let mut operands = inputs[..3].to_vec();
        operands.extend([found[0].clone(), found[1].clone(), found[0].clone()]);
        operands.extend_from_slice(&inputs[3..]);
        let prim = Attention::Grad { attend, mask_grad: false };
        for grad in apply(Prim::Attention(prim), &operands) {
            assert!(grad.to_f64().iter().all(|x| x.is_finite()), "{what}: {grad:?}");
        }
    }
}

#[test]
fn cross_entropy_is_lse_minus_the_target_logit() {
    let logits = floats(&[3, 3], &[1.0, 2.0, 3.0, 0.5, f64::NEG_INFINITY, 0.0, 1000.0, 999.0, 0.0]);
    let targets = ints(&[3], &[2, -100, 1]);
    let found =
        apply(Prim::Loss(Loss::CrossEntropy { ignore: Some(-100) }), &[logits.clone(), targets.clone()]);
    let first = (1f64.exp() + 2f64.exp() + 3f64.exp()).ln();
    let second = (0.5f64.exp() + 1.0).ln();
    let third = 1000.0 + (1.0 + (-1f64).exp()).ln();
    assert_close("lse", &found[1].to_f64(), &[first, second, third], 1e-14);
    assert_close("loss", &found[0].to_f64(), &[first - 3.0, 0.0, third - 999.0], 1e-12);
    let mean =
        ops::cross_entropy(&Interp, &logits, &targets, ops::Reduction::Mean, Some(-100), None, 0.0, -1)
            .unwrap();
    assert_close("mean", &mean.to_f64(), &[(first - 3.0 + third - 999.0) / 2.0], 1e-12);
}

#[test]
fn norms_are_their_formulas() {
    let x = [1.0, 2.0, 4.0, -1.0, 0.0, 0.5];
    let (weight, bias) = ([0.5, 1.0, 2.0], [0.1, 0.2, 0.3]);
    let (eps, mut layer, mut rms) = (0.01, Vec::new(), Vec::new());
    for row in x.chunks(3) {
        let mean = row.iter().sum::<f64>() / 3.0;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 3.0;
        let square = row.iter().map(|v| v * v).sum::<f64>() / 3.0;
        for (i, v) in row.iter().enumerate() {
            layer.push((v - mean) / (variance + eps).sqrt() * weight[i] + bias[i]);
            rms.push(v / (square + eps).sqrt() * weight[i]);
        }
    }
    let (x, w, b) = (floats(&[2, 3], &x), floats(&[3], &weight), floats(&[3], &bias));
    let found = apply(Prim::Norm(Norm::LayerNorm { eps: F64(eps) }), &[x.clone(), w.clone(), b]);
    assert_close("layer_norm", &found[0].to_f64(), &layer, 1e-14);
    let found = apply(Prim::Norm(Norm::RmsNorm { eps: F64(eps) }), &[x, w]);
    assert_close("rms_norm", &found[0].to_f64(), &rms, 1e-14);
}

#[test]
fn softmax_takes_large_logits() {
    let x = floats(&[3], &[1e4, 1e4, 0.0]);
    assert_eq!(ops::softmax(&Interp, &x, 0).unwrap().to_f64(), [0.5, 0.5, 0.0]);
    let infinite = floats(&[2], &[f64::NEG_INFINITY, f64::NEG_INFINITY]);
    assert_eq!(ops::logsumexp(&Interp, &infinite, &[], false).unwrap().to_f64(), [f64::NEG_INFINITY]);
}

/// Half types compute in f32 and round once: a mean of many ones is 1 though f16 stops counting at 2048.
#[test]
fn half_types_round_once() {
    for dtype in [DType::F16, DType::BF16] {
        let ones = HostTensor::from_f64(dtype, &[1, 5000], &vec![1.0; 5000]).unwrap();
        assert_eq!(ops::mean(&Interp, &ones, &[], false).unwrap().to_f64(), [1.0]);
        let normed = ops::rms_norm(&Interp, &ones, None, 0.0).unwrap();
        assert_eq!((normed.ty().dtype, normed.to_f64()[7]), (dtype, 1.0));
        let soft = ops::softmax(&Interp, &ones, -1).unwrap();
        assert_close("softmax", &soft.to_f64()[..1], &[1.0 / 5000.0], 1e-6);
    }
}

/// The decomposition of AdamW against its body, evaluated as a kernel does: in f64, bit by bit.
#[test]
fn adamw_decomposes_into_its_body() {
    let prim = Prim::State(State::AdamW {
        beta1: F64(0.9),
        beta2: F64(0.99),
        eps: F64(1e-8),
        weight_decay: F64(0.01),
    });
    let mut s = Sequence::new(6);
    let inputs: Vec<HostTensor> = (0..7).map(|_| s.tensor(&[], 0.1, 1.0)).collect();
    let found: Vec<f64> = apply(prim.clone(), &inputs).iter().flat_map(HostTensor::to_f64).collect();

    let mut expr = KernelExpr::default();
    let args: Vec<u32> = (0..7).map(|i| expr.push(Step::Load(i), DType::F64)).collect();
    let types: Vec<_> = inputs.iter().map(HostTensor::ty).collect();
    let outputs = prim.body(&mut expr, &types, &args).unwrap();
    let mut values: Vec<f64> = Vec::new();
    for step in &expr.steps {
        use lanthorn_ir::expr::{BinaryOp, UnaryOp};
        let at = |id: u32| values[id as usize];
        values.push(match *step {
            Step::Load(i) => inputs[i as usize].to_f64()[0],
            Step::Const(value) => value.as_f64(),
            Step::Unary(UnaryOp::Sqrt, a) => at(a).sqrt(),
            Step::Binary(BinaryOp::Add, a, b) => at(a) + at(b),
            Step::Binary(BinaryOp::Sub, a, b) => at(a) - at(b),
            Step::Binary(BinaryOp::Mul, a, b) => at(a) * at(b),
            Step::Binary(BinaryOp::Div, a, b) => at(a) / at(b),
            other => panic!("{other:?} in the body of adamw"),
        });
    }
    let expected: Vec<f64> = outputs.iter().map(|&id| values[id as usize]).collect();
    assert_eq!(found, expected);
}

/// At a tie the derivative is shared; at the kinks it is that of torch.
#[test]
fn derivatives_at_kinks() {
    use lanthorn_ir::transform::Tape;
    let tape = Tape::new(Interp);
    let x = tape.watch(floats(&[4], &[0.0, 2.0, 2.0, -1.0]));
    let grad = |y| tape.grad(&ops::sum(&tape, &y, &[], false).unwrap(), std::slice::from_ref(&x)).unwrap();
    let found = |y| grad(y)[0].value().to_f64();
    assert_eq!(found(ops::relu(&tape, &x).unwrap()), [0.0, 1.0, 1.0, 0.0]);
    assert_eq!(found(ops::abs(&tape, &x).unwrap()), [0.0, 1.0, 1.0, -1.0]);
    assert_eq!(found(ops::max(&tape, &x, &[], false).unwrap()), [0.0, 0.5, 0.5, 0.0]);
    assert_eq!(found(ops::maximum_scalar(&tape, &x, 0.0).unwrap()), [0.5, 1.0, 1.0, 0.0]);
    assert_eq!(found(ops::pow_scalar(&tape, &x, 0.0).unwrap()), [0.0; 4]);
}
