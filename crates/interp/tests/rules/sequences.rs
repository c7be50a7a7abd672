//! Attention and recurrences: what no table of values shows.

use lanthorn_interp::{HostTensor, Interp, eval};
use lanthorn_ir::transform::{grad, jvp};
use lanthorn_ir::{DType, Error, ErrorKind, Lazy, Result, Value, ops};

use crate::support::{Sequence, assert_close, floats, leaf, leaf_of, run};

#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, text: &str) {
    let error: Error = result.unwrap_err();
    assert_eq!((error.kind, error.to_string().as_str()), (kind, text));
}

/// An attention of which only the named operands are given.
#[derive(Default)]
struct Call<'a> {
    causal: bool,
    past: Option<&'a Value>,
    mask: Option<&'a Value>,
    dropout: f64,
    key: Option<&'a Value>,
    left: Option<isize>,
    softcap: Option<f64>,
    slopes: Option<&'a Value>,
    lengths: Option<&'a Value>,
}

impl Call<'_> {
    fn on(&self, q: &Value, k: &Value, v: &Value) -> Result<Value> {
        ops::scaled_dot_product_attention(
            &Lazy,
            q,
            k,
            v,
            self.causal,
            None,
            self.past,
            self.mask,
            self.dropout,
            self.key,
            self.left,
            None,
            self.softcap,
            self.slopes,
            None,
            self.lengths,
            0,
        )
    }
}

fn f64s(shape: &[usize]) -> Value {
    leaf(DType::F64, shape)
}

#[test]
fn attention_says_what_does_not_fit() {
    use ErrorKind::{Dtype, Shape};
    let (q, k) = (f64s(&[2, 4, 3, 8]), f64s(&[2, 2, 5, 8]));
    let plain = Call::default();
    says(
        plain.on(&q, &f64s(&[2, 3, 5, 8]), &f64s(&[2, 3, 5, 8])),
        Shape,
        "scaled_dot_product_attention: query [2, 4, 3, 8], key [2, 3, 5, 8], value [2, 3, 5, 8] do not fit; expected \
         [batch.., heads, tq, d], [batch.., kv_heads, tk, d], [batch.., kv_heads, tk, dv] with kv_heads dividing heads",
    );
    says(
        plain.on(&q, &f64s(&[5, 8]), &k),
        Shape,
        "scaled_dot_product_attention: key has shape [5, 8], expected [batch.., heads, seq, head_dim] as query \
         [2, 4, 3, 8]",
    );
    says(
        plain.on(&q, &leaf(DType::F32, &[2, 2, 5, 8]), &k),
        Dtype,
        "scaled_dot_product_attention: k is f32 but the first operand is f64; cast one of them",
    );
    says(
        Call { mask: Some(&f64s(&[3, 4])), ..Default::default() }.on(&q, &k, &k),
        Shape,
        "scaled_dot_product_attention: attn_mask [3, 4] does not broadcast to [2, 4, 3, 5]",
    );
    says(
        Call { mask: Some(&leaf(DType::I64, &[3, 5])), ..Default::default() }.on(&q, &k, &k),
        Dtype,
        "scaled_dot_product_attention: the mask is i64, expected bool or the dtype of q, f64; cast it",
    );
    says(
        Call { left: Some(-1), ..Default::default() }.on(&q, &k, &k),
        Shape,
        "scaled_dot_product_attention: window_left is -1, expected 0 or more, or none",
    );
    for (cap, expected) in [
        (0.0, "a positive number"),
        (-1.0, "a positive number"),
        (f64::NAN, "a finite number of f64"),
        (f64::INFINITY, "a finite number of f64"),
    ] {
        let text = format!("scaled_dot_product_attention: the soft cap is {cap:?}, expected {expected}");
        says(Call { softcap: Some(cap), ..Default::default() }.on(&q, &k, &k), Shape, &text);
    }
    says(
        Call { dropout: 0.5, ..Default::default() }.on(&q, &k, &k),
        Shape,
        "scaled_dot_product_attention: dropout_p is not 0, so dropout_key (u64[2]) is needed",
    );
    says(
        Call { dropout: 1.5, ..Default::default() }.on(&q, &k, &k),
        Shape,
        "scaled_dot_product_attention: dropout_p is 1.5, expected 0 to 1",
    );
    says(
        Call { slopes: Some(&f64s(&[3])), ..Default::default() }.on(&q, &k, &k),
        Shape,
        "scaled_dot_product_attention: alibi_slopes [3] do not fit; expected [heads] or [batch, heads], here [4] or [2, 4]",
    );
    says(
        Call { lengths: Some(&f64s(&[2])), ..Default::default() }.on(&q, &k, &k),
        Dtype,
        "scaled_dot_product_attention: key_lengths is f64, expected an integer dtype",
    );
    says(
        Call { past: Some(&leaf(DType::I64, &[1])), ..Default::default() }.on(&q, &k, &k),
        Shape,
        "scaled_dot_product_attention: past is i64[1], expected an integer of rank 0",
    );
}

#[test]
fn recurrences_say_what_does_not_fit() {
    use ErrorKind::{Dtype, Shape};
    let (q, v, beta) = (f64s(&[1, 4, 2, 3]), f64s(&[1, 4, 2, 5]), f64s(&[1, 4, 2]));
    let rule = |log_decay: &Value, state: Option<&Value>, chunk: usize| {
        ops::gated_delta_rule(&Lazy, &q, &q, &v, log_decay, &beta, state, None, chunk)
    };
    assert!(rule(&beta, None, usize::MAX).is_ok());
    says(
        rule(&beta, None, 0),
        Shape,
        "gated_delta_rule: chunks of 0 steps do not divide 4 steps into 1 to 65536",
    );
    says(
        rule(&f64s(&[1, 4, 2, 5]), None, 64),
        Shape,
        "gated_delta_rule: q [1, 4, 2, 3], k [1, 4, 2, 3], v [1, 4, 2, 5], log_decay [1, 4, 2, 5], beta [1, 4, 2] do not fit; \
         expected [batch, seq, heads, d] twice, [batch, seq, heads, dv], [batch, seq, heads] with or without d, \
         [batch, seq, heads]",
    );
    says(
        rule(&beta, Some(&f64s(&[1, 2, 3, 4])), 64),
        Shape,
        "gated_delta_rule: the state is f64[1, 2, 3, 4], expected f64[1, 2, 3, 5]",
    );
    says(
        rule(&leaf(DType::F16, &[1, 4, 2]), None, 64),
        Dtype,
        "gated_delta_rule: log_decay is f16, expected f64 as q, or f64; cast it",
    );
    let conv = |x: &Value, weight: &Value, state: Option<&Value>| ops::short_conv1d(&Lazy, x, weight, state);
    let (x, weight) = (f64s(&[2, 5, 3]), f64s(&[3, 4]));
    assert_eq!(conv(&x, &weight, Some(&f64s(&[2, 3, 3]))).unwrap()[1].ty().shape[..], [2, 3, 3]);
    says(
        conv(&x, &f64s(&[5, 4]), None),
        Shape,
        "short_conv1d: x [2, 5, 3] and weight [5, 4] do not fit; expected [n, t, c] and [c, k] with k of at least 1",
    );
    says(
        conv(&x, &weight, Some(&f64s(&[2, 4, 3]))),
        Shape,
        "short_conv1d: state has shape [2, 4, 3], expected [2, 3, 3]",
    );
    says(
        conv(&x, &leaf(DType::F32, &[3, 4]), None),
        Dtype,
        "short_conv1d: weight is f32 but the first operand is f64; cast one of them",
    );
    let x = f64s(&[3, 4]);
    says(
        ops::linear_scan(&Lazy, &x, &x, Some(&f64s(&[4])), 1, false),
        Shape,
        "linear_scan: initial has shape [4], expected [3]",
    );
    says(
        ops::linear_scan(&Lazy, &x, &leaf(DType::F32, &[3, 4]), None, 1, false),
        Dtype,
        "linear_scan: x is f32 but the first operand is f64; cast one of them",
    );
    says(
        ops::linear_scan(&Lazy, &x, &x, None, 2, false),
        Shape,
        "linear_scan: axis 2 is out of range for rank 2; it must lie in -2..2",
    );
    let (w, h) = (f64s(&[8, 4]), f64s(&[2, 2]));
    says(
        ops::lstm_cell(&Lazy, &f64s(&[2, 3]), &h, &h, &w, &f64s(&[8, 2]), None, None),
        Shape,
        "lstm_cell: weight_ih has shape [8, 4], expected [8, 3]",
    );
    says(
        ops::gru_cell(&Lazy, &f64s(&[3, 4]), &h, &f64s(&[6, 4]), &f64s(&[6, 2]), None, None),
        Shape,
        "gru_cell: x is f64[3, 4] and h is f64[2, 2], expected [.., input] and [.., hidden]",
    );
    says(
        ops::gru(&Lazy, &f64s(&[5, 1, 4]), None, None, &[w], true, 1, false, false, 0.0, 0),
        Shape,
        "gru: takes 4 weights for each of 1 layers and directions, so 4, got 1",
    );
}

/// Dropped probabilities: zeros or scaled, by the key alone, and right on average.
#[test]
fn dropout_of_probabilities_keeps_the_mean() {
    let mut s = Sequence::new(1);
    let (q, k) = (s.tensor(&[1, 1, 64, 4], -1.0, 1.0), s.tensor(&[1, 1, 256, 4], -1.0, 1.0));
    let v = floats(&[1, 1, 256, 1], &[1.0; 256]);
    let key = HostTensor::from_i64(DType::U64, &[2], &[5, 9]).unwrap();
    let f = |x: &[Value]| {
        Ok(vec![Call { dropout: 0.25, key: Some(&x[3]), ..Default::default() }.on(&x[0], &x[1], &x[2])?])
    };
    let inputs = [q, k, v, key];
    let out = run(f, &inputs).remove(0).to_f64();
    assert_eq!(out, run(f, &inputs).remove(0).to_f64());
    // Probabilities sum to 1, so each row is a mean of 256 draws of 0 or 4/3.
    let mean = out.iter().sum::<f64>() / 64.0;
    assert!((mean - 1.0).abs() < 0.02, "{mean}");
    assert!(out.iter().all(|&x| (x - 1.0).abs() < 0.25) && out.iter().any(|&x| (x - 1.0).abs() > 1e-3));
}

/// The log-sum-exp keeps f32 exact where scores are far from 0, over many keys.
#[test]
fn attention_is_stable_over_long_sequences() {
    let n = 3000;
    let mut s = Sequence::new(2);
    let q = HostTensor::from_f64(DType::F32, &[1, 1, 1, 1], &[1.0]).unwrap();
    let scores: Vec<f64> = (0..n).map(|_| s.uniform(9990.0, 10000.0)).collect();
    let k = HostTensor::from_f64(DType::F32, &[1, 1, n, 1], &scores).unwrap();
    let v =
        HostTensor::from_f64(DType::F32, &[1, 1, n, 1], &scores.iter().map(|x| x.sin()).collect::<Vec<_>>())
            .unwrap();
    let (ks, vs) = (k.to_f64(), v.to_f64());
    let found = run(|x| Ok(vec![Call::default().on(&x[0], &x[1], &x[2])?]), &[q, k, v]).remove(0).to_f64()[0];
    let peak = ks.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = ks.iter().map(|k| (k - peak).exp()).collect();
    let expected = weights.iter().zip(&vs).map(|(w, v)| w * v).sum::<f64>() / weights.iter().sum::<f64>();
    assert_close("attention", &[found], &[expected], 1e-5);
}

fn delta_inputs(seed: u64, steps: usize, channels: bool) -> Vec<HostTensor> {
    let mut s = Sequence::new(seed);
    let decay: &[usize] = if channels { &[2, steps, 2, 3] } else { &[2, steps, 2] };
    vec![
        s.tensor(&[2, steps, 2, 3], -1.0, 1.0),
        s.tensor(&[2, steps, 2, 3], -0.6, 0.6),
        s.tensor(&[2, steps, 2, 4], -1.0, 1.0),
        s.tensor(decay, -0.5, 0.0),
        s.tensor(&[2, steps, 2], 0.1, 0.9),
    ]
}

fn delta(x: &[Value], state: Option<&Value>) -> Result<Vec<Value>> {
    ops::gated_delta_rule(&Lazy, &x[0], &x[1], &x[2], &x[3], &x[4], state, None, 4)
}

/// A state that is handed on continues the sequence, in values and in gradients.
#[test]
fn two_halves_of_a_delta_rule_are_the_whole() {
    for channels in [false, true] {
        let inputs = delta_inputs(3, 11, channels);
        let whole = |x: &[Value]| delta(x, None);
        let halves = |x: &[Value]| {
            let cut = |start: isize, stop: isize| {
                x.iter().map(|x| ops::slice(&Lazy, x, 1, start, Some(stop), 1)).collect::<Result<Vec<_>>>()
            };
            let first = delta(&cut(0, 6)?, None)?;
            let second = delta(&cut(6, 11)?, Some(&first[1]))?;
            Ok(vec![ops::concat(&Lazy, &[first[0].clone(), second[0].clone()], 1)?, second[1].clone()])
        };
        let with_grads = |f: &dyn Fn(&[Value]) -> Result<Vec<Value>>, x: &[Value]| {
            let mut outputs = f(x)?;
            let terms = outputs.iter().map(|y| ops::sum(&Lazy, &ops::sin(&Lazy, y)?, &[], false));
            let terms = terms.collect::<Result<Vec<_>>>()?;
            outputs.extend(grad(&ops::add(&Lazy, &terms[0], &terms[1])?, x)?);
            Ok(outputs)
        };
        let expected = run(|x| with_grads(&whole, x), &inputs);
        let found = run(|x| with_grads(&halves, x), &inputs);
        for (found, expected) in found.iter().zip(&expected) {
            assert_close("halves", &found.to_f64(), &expected.to_f64(), 1e-12);
        }
    }
}

/// After strong decays and resets nothing is NaN: values, gradients, second derivatives.
#[test]
fn strong_decays_give_finite_derivatives() {
    for (channels, decay) in
        [(false, -1e3), (true, -1e3), (false, f64::NEG_INFINITY), (true, f64::NEG_INFINITY)]
    {
        let mut inputs = delta_inputs(4, 9, channels);
        let mut decays = inputs[3].to_f64();
        (0..decays.len()).filter(|at| at % 3 == 1).for_each(|at| decays[at] = decay);
        inputs[3] = floats(inputs[3].shape(), &decays);
        let f = |x: &[Value]| {
            let mut outputs = delta(x, None)?;
            let total = ops::sum(&Lazy, &ops::square(&Lazy, &outputs[0])?, &[], false)?;
            let total =
                ops::add(&Lazy, &total, &ops::sum(&Lazy, &ops::square(&Lazy, &outputs[1])?, &[], false)?)?;
            let grads = grad(&total, x)?;
            let size = ops::sum(&Lazy, &ops::square(&Lazy, &grads[0])?, &[], false)?;
            outputs.extend(grad(&size, x)?);
            let tangents = x.iter().map(|x| ops::ones_like(&Lazy, x)).collect::<Result<Vec<_>>>()?;
            outputs.extend(jvp(&outputs[..2], x, &tangents)?.into_iter().flatten());
            outputs.extend(grads);
            Ok(outputs)
        };
        for (at, output) in run(f, &inputs).iter().enumerate() {
            assert!(output.to_f64().iter().all(|x| x.is_finite()), "{decay}, result {at}: {output:?}");
        }
    }
}

/// Hidden scores, blind queries and infinite masks leave no NaN in gradients of any operand, to second order.
#[test]
fn hidden_keys_give_finite_derivatives() {
    let mut s = Sequence::new(5);
    let (q, k, v) = (
        s.tensor(&[1, 2, 3, 2], -1.0, 1.0),
        s.tensor(&[1, 1, 4, 2], -1.0, 1.0),
        s.tensor(&[1, 1, 4, 2], -1.0, 1.0),
    );
    let infinite = f64::NEG_INFINITY;
    let mask = floats(
        &[3, 4],
        &[0.3, infinite, 0.0, 0.5, infinite, infinite, infinite, infinite, 1.0, 2.0, infinite, 0.1],
    );
    let f = |x: &[Value]| {
        let call =
            Call { causal: true, mask: Some(&x[3]), softcap: Some(2.0), left: Some(1), ..Default::default() };
        let y = call.on(&x[0], &x[1], &x[2])?;
        let grads = grad(&ops::sum(&Lazy, &ops::square(&Lazy, &y)?, &[], false)?, x)?;
        let mut size = ops::scalar(&Lazy, 0.0, DType::F64)?;
        for g in &grads {
            size = ops::add(&Lazy, &size, &ops::sum(&Lazy, &ops::square(&Lazy, g)?, &[], false)?)?;
        }
        let mut outputs = vec![y];
        outputs.extend(grad(&size, x)?);
        outputs.extend(grads);
        Ok(outputs)
    };
    let outputs = run(f, &[q, k, v, mask]);
    assert!(outputs.iter().all(|output| output.to_f64().iter().all(|x| x.is_finite())), "{outputs:?}");
    // The second query of each head sees nothing.
    for head in 0..2 {
        assert_eq!(outputs[0].to_f64()[head * 6 + 2..head * 6 + 4], [0.0, 0.0]);
    }
}

/// A scan in half precision carries its state in f32: 4096 ones do not stop at 256.
#[test]
fn a_half_precision_scan_carries_f32() {
    let n = 4096;
    let ones = HostTensor::from_f64(DType::BF16, &[n], &vec![1.0; n]).unwrap();
    let found = ops::linear_scan(&Interp, &ones, &ones, None, 0, false).unwrap();
    assert_eq!(found.to_f64()[n - 1], 4096.0);
    let x = leaf_of(&ones);
    let y = ops::linear_scan(&Lazy, &x, &x, None, 0, true).unwrap();
    assert_eq!(eval(&[y], &[(x, ones)]).unwrap()[0].to_f64()[0], 4096.0);
}
