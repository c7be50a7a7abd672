//! Primitives with kernels of their own, over layouts that need staging.

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::expr::{F64, UnaryOp};
use lanthorn_ir::layout::Dims;
use lanthorn_ir::prim::attention::{Attend, Mask, Position};
use lanthorn_ir::prim::{Attention, Index, Loss, Movement, Norm, Random, Recurrent, Source, State};
use lanthorn_ir::{Builder, DType, ErrorKind, Prim};

use crate::harness::{DTYPES, Eager, Lie, Sequence, Strided, assert_close, check_prim, tolerance};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

/// The dtype of statistics.
fn wide(dtype: DType) -> DType {
    dtype.wide()
}

fn check_norms(dtype: DType, shape: &[usize]) {
    let mut s = Sequence::new(11);
    let width = *shape.last().unwrap();
    let mut kept = shape.to_vec();
    *kept.last_mut().unwrap() = 1;
    let (x, dy) = (s.tensor(dtype, shape), s.tensor(dtype, shape));
    let y = s.within(dtype, shape, 0.0, 0.9);
    let (weight, bias) = (s.tensor(dtype, &[width]), s.tensor(dtype, &[width]));
    let (mean, rstd) = (s.tensor(wide(dtype), &kept), s.within(wide(dtype), &kept, 0.5, 1.5));
    let eps = F64(1e-2);
    let of = |tensors: &[&HostTensor]| tensors.iter().map(|&t| t.clone()).collect::<Vec<_>>();
    let cases = [
        (Norm::Softmax, of(&[&x])),
        (Norm::LogSoftmax, of(&[&x])),
        (Norm::SoftmaxGrad, of(&[&y, &dy])),
        (Norm::LogSoftmaxGrad, of(&[&y, &dy])),
        (Norm::LayerNorm { eps }, of(&[&x, &weight, &bias])),
        (Norm::LayerNormGrad, of(&[&x, &weight, &mean, &rstd, &dy])),
        (Norm::RmsNorm { eps }, of(&[&x, &weight])),
        (Norm::RmsNormGrad, of(&[&x, &weight, &rstd, &dy])),
    ];
    for (norm, arguments) in cases {
        let what = format!("{norm:?} of {dtype}{shape:?}");
        // Gradients of the weight sum over all rows what half types rounded in the reference.
        let within = 8.0 * tolerance(dtype) * (shape.iter().product::<usize>() as f64).sqrt().max(1.0);
        let within = if norm == Norm::LayerNormGrad || norm == Norm::RmsNormGrad {
            within
        } else {
            4.0 * tolerance(dtype)
        };
        check_prim(&what, &Prim::Norm(norm), &arguments, within);
    }
}

#[test]
fn norms_of_strided_rows_agree() {
    for dtype in FLOATS {
        for shape in [&[5][..], &[3, 1], &[2, 3, 16], &[4, 100], &[0, 7], &[2, 70, 3], &[3, 1030]] {
            check_norms(dtype, shape);
        }
    }
}

#[test]
fn losses_of_strided_logits_agree() {
    for dtype in FLOATS {
        for ids in [DType::I64, DType::I32, DType::U8, DType::I8, DType::U64] {
            for (rows, classes) in [(1, 1), (5, 7), (33, 100), (0, 4)] {
                let mut s = Sequence::new(12);
                let (logits, targets) = (s.tensor(dtype, &[rows, classes]), s.ids(ids, &[rows], classes));
                let (lse, dloss) = (s.tensor(wide(dtype), &[rows]), s.tensor(wide(dtype), &[rows]));
                let ignore = (classes > 3).then_some(2);
                let what = format!("{dtype}[{rows}, {classes}] by {ids}");
                let forward = Prim::Loss(Loss::CrossEntropy { ignore });
                check_prim(&what, &forward, &[logits.clone(), targets.clone()], 4.0 * tolerance(dtype));
                let grad = Prim::Loss(Loss::CrossEntropyGrad { ignore });
                check_prim(&what, &grad, &[logits, targets, lse, dloss], 8.0 * tolerance(dtype));
            }
        }
    }
}

#[test]
fn rows_by_id_agree_in_every_type() {
    for dtype in DTYPES {
        for ids in [DType::I64, DType::I32, DType::U8, DType::U16] {
            for (rows, width, shape) in [(4, 3, &[2, 2][..]), (1, 1, &[]), (9, 130, &[70]), (5, 2, &[0, 3])] {
                let mut s = Sequence::new(13);
                let at = s.ids(ids, shape, rows);
                let table = s.tensor(dtype, &[rows, width]);
                let what = format!("{dtype}[{rows}, {width}] by {ids}{shape:?}");
                check_prim(&what, &Prim::Index(Index::Embedding), &[table, at.clone()], 0.0);
                if !dtype.is_float() {
                    continue;
                }
                let grad = s.tensor(dtype, &[shape, &[width]].concat());
                let prim = Prim::Index(Index::EmbeddingGrad { rows });
                check_prim(&what, &prim, &[grad, at], 4.0 * tolerance(dtype));
            }
        }
    }
}

#[test]
fn attention_over_strided_heads_agrees() {
    for dtype in FLOATS {
        for (batch, tq, tk, heads, key_heads, width, causal, past) in [
            (2, 5, 5, 4, 2, 8, true, None),
            (1, 70, 70, 2, 1, 16, true, None),
            (2, 1, 40, 4, 4, 32, true, Some(20)),
            (1, 3, 9, 2, 2, 5, false, Some(4)),
            (1, 66, 130, 1, 1, 4, false, None),
        ] {
            let mut s = Sequence::new(14);
            let q = s.tensor(dtype, &[batch, tq, heads, width]);
            let k = s.tensor(dtype, &[batch, tk, key_heads, width]);
            let v = s.tensor(dtype, &[batch, tk, key_heads, width]);
            let position = past.map(|past| HostTensor::from_i64(DType::I64, &[], &[past]).unwrap());
            let position_of = if past.is_some() { Position::Past } else { Position::Last };
            let attend = Attend { causal, position: position_of, ..Attend::new(0.4) };
            let mut arguments = vec![q, k, v];
            arguments.extend(position.clone());
            let forward = Prim::Attention(Attention::Forward(attend));
            let what = format!("{dtype} {:?}", (batch, tq, tk, heads, key_heads, width, causal, past));
            check_prim(&what, &forward, &arguments, 4.0 * tolerance(dtype));
            // The forward's own results, so that the probabilities are ones.
            let mut found = Interp.apply(forward, &arguments).unwrap();
            let (lse, o) = (found.pop().unwrap(), found.pop().unwrap());
            arguments.truncate(3);
            arguments.extend([o, lse, s.tensor(dtype, &[batch, tq, heads, width])]);
            arguments.extend(position);
            let backward = Prim::Attention(Attention::Grad { attend, mask_grad: false });
            check_prim(&format!("{what}, backward"), &backward, &arguments, 20.0 * tolerance(dtype));
        }
    }
}

/// The plain kernel: masks, windows, soft caps, values of another width.
#[test]
fn masked_attention_agrees() {
    let base = Attend::new(0.4);
    let causal = Attend { causal: true, position: Position::First, ..base };
    let window = Attend { left: Some(7), right: Some(3), ..base };
    let capped = Attend { softcap: Some(F64(1.5)), causal: true, left: Some(20), ..base };
    for dtype in FLOATS {
        for (attend, shape, mask, past) in [
            (causal, [2, 9, 5, 4, 2, 8, 8], None, None),
            (causal, [1, 5, 9, 2, 2, 3, 5], None, None),
            (window, [1, 70, 90, 2, 1, 4, 4], None, None),
            (capped, [2, 33, 40, 4, 2, 8, 6], Some([2, 1, 33, 40]), None),
            (base, [2, 5, 6, 4, 2, 4, 4], Some([1, 4, 1, 6]), None),
            (base, [1, 1, 80, 4, 2, 16, 16], Some([1, 1, 1, 80]), Some(30)),
            (window, [1, 3, 50, 2, 2, 4, 4], None, Some(20)),
            (base, [2, 3, 0, 2, 2, 4, 4], Some([2, 1, 1, 0]), None),
            (window, [0, 3, 4, 2, 2, 4, 4], None, None),
            (window, [2, 3, 4, 0, 0, 4, 4], None, None),
            (window, [1, 3, 4, 2, 1, 0, 3], None, None),
        ] {
            let [batch, tq, tk, heads, key_heads, width, value_width] = shape;
            let mut s = Sequence::new(17);
            for kind in [Mask::Visible, Mask::Additive]
                .into_iter()
                .filter(|kind| mask.is_some() || *kind == Mask::Additive)
            {
                let attend = Attend { mask: mask.map(|_| kind), ..attend };
                let attend = match past {
                    Some(_) => Attend { position: Position::Past, ..attend },
                    None => attend,
                };
                let mut extra: Vec<HostTensor> = past
                    .iter()
                    .map(|&past| HostTensor::from_i64(DType::I64, &[], &[past]).unwrap())
                    .collect();
                extra.extend(mask.map(|mask| match kind {
                    Mask::Visible => {
                        let numbers = s.within(DType::F64, &mask, 0.0, 1.0).to_f64();
                        let bools: Vec<bool> = numbers.iter().map(|x| *x < 0.7).collect();
                        HostTensor::new(&mask, bools).unwrap()
                    }
                    Mask::Additive => {
                        let hidden = |x: f64| if x > 0.8 { f64::NEG_INFINITY } else { x };
                        let numbers: Vec<f64> =
                            s.within(DType::F64, &mask, -1.0, 1.0).to_f64().into_iter().map(hidden).collect();
                        HostTensor::from_f64(dtype.wide(), &mask, &numbers).unwrap()
                    }
                }));
                let mut arguments = vec![
                    s.tensor(dtype, &[batch, tq, heads, width]),
                    s.tensor(dtype, &[batch, tk, key_heads, width]),
                    s.tensor(dtype, &[batch, tk, key_heads, value_width]),
                ];
                arguments.extend(extra.clone());
                let forward = Prim::Attention(Attention::Forward(attend));
                let what = format!("{dtype} {shape:?} {attend:?}");
                check_prim(&what, &forward, &arguments, 4.0 * tolerance(dtype));
                let mut found = Interp.apply(forward, &arguments).unwrap();
                let (lse, o) = (found.pop().unwrap(), found.pop().unwrap());
                arguments.truncate(3);
                arguments.extend([o, lse, s.tensor(dtype, &[batch, tq, heads, value_width])]);
                arguments.extend(extra);
                let backward = Prim::Attention(Attention::Grad { attend, mask_grad: false });
                check_prim(&format!("{what}, backward"), &backward, &arguments, 20.0 * tolerance(dtype));
            }
        }
    }
}

#[test]
fn recurrences_agree() {
    for dtype in FLOATS {
        let mut s = Sequence::new(16);
        for (shape, axis) in
            [(&[7][..], 0), (&[2, 5, 3], 1), (&[3, 9, 70], 1), (&[4, 6], 1), (&[0, 3], 1), (&[3, 0, 2], 1)]
        {
            for reverse in [false, true] {
                let arguments = [s.within(dtype, shape, -1.0, 1.0), s.tensor(dtype, shape)];
                let prim = Prim::Recurrent(Recurrent::LinearScan { axis, reverse });
                check_prim(&format!("{dtype}{shape:?} {prim}"), &prim, &arguments, 4.0 * tolerance(dtype));
            }
        }
        for (batch, steps, heads, width, value_width, channels, state) in [
            (2, 9, 2, 3, 4, false, true),
            (1, 20, 1, 4, 40, true, false),
            (2, 5, 3, 1, 33, true, true),
            (1, 0, 2, 3, 2, false, true),
            (0, 3, 1, 2, 2, true, false),
            (1, 3, 2, 2, 0, false, true),
            (1, 3, 2, 0, 2, true, true),
        ] {
            for beside in [dtype, dtype.wide()] {
                let (rows, keys) = ([batch, steps, heads], [batch, steps, heads, width]);
                let decays = if channels { &keys[..] } else { &rows[..] };
                let mut arguments = vec![
                    s.within(dtype, &keys, -0.6, 0.6),
                    s.within(dtype, &keys, -0.6, 0.6),
                    s.within(dtype, &[batch, steps, heads, value_width], -1.0, 1.0),
                    s.within(beside, decays, -1.0, 0.0),
                    s.within(beside, &rows, 0.2, 0.8),
                ];
                if state {
                    arguments.push(s.tensor(dtype.wide(), &[batch, heads, width, value_width]));
                }
                let prim = Prim::Recurrent(Recurrent::DeltaRule { scale: F64(0.5), chunk: 4, state });
                let what =
                    format!("{dtype} {:?} {beside}", (batch, steps, heads, width, value_width, channels));
                check_prim(&what, &prim, &arguments, 20.0 * tolerance(dtype));
            }
        }
        for (batch, steps, channels, taps, state) in [
            (2, 9, 3, 4, true),
            (1, 2, 5, 4, false),
            (3, 1, 2, 3, true),
            (1, 4, 2, 1, true),
            (0, 3, 2, 2, false),
            (2, 3, 0, 2, true),
        ] {
            let mut arguments =
                vec![s.tensor(dtype, &[batch, steps, channels]), s.tensor(dtype, &[channels, taps])];
            if state {
                arguments.push(s.tensor(dtype, &[batch, taps - 1, channels]));
            }
            let prim = Prim::Recurrent(Recurrent::ShortConv { state });
            let what = format!("{dtype} {:?}", (batch, steps, channels, taps));
            check_prim(&what, &prim, &arguments, 4.0 * tolerance(dtype));
        }
    }
}

#[test]
fn slices_are_updated_in_every_type() {
    for dtype in DTYPES {
        for (base, source, axis, start) in [
            (&[2, 7, 3][..], &[2, 2, 3][..], 1, 4),
            (&[5], &[5], 0, 0),
            (&[3, 40], &[3, 1], 1, 39),
            (&[4, 2], &[0, 2], 0, 4),
        ] {
            let mut s = Sequence::new(15);
            let arguments = [
                s.tensor(dtype, base),
                s.tensor(dtype, source),
                HostTensor::from_i64(DType::I64, &[], &[start]).unwrap(),
            ];
            let prim = Prim::State(State::UpdateSlice { axis });
            check_prim(&format!("{dtype}{base:?} at {start} of {axis}"), &prim, &arguments, 0.0);
        }
    }
}

#[test]
fn movements_of_strided_operands_agree_in_every_type() {
    let dims = |sizes: &[usize]| Dims::from_slice(sizes);
    for dtype in DTYPES {
        let mut s = Sequence::new(16);
        let x = s.tensor(dtype, &[3, 4, 5]);
        let pad = Movement::Pad { low: dims(&[1, 0, 2]), high: dims(&[0, 2, 1]), interior: dims(&[1, 0, 3]) };
        check_prim(&format!("pad of {dtype}"), &Prim::Movement(pad), std::slice::from_ref(&x), 0.0);
        let reshape = Movement::Reshape { shape: dims(&[6, 10]) };
        check_prim(&format!("reshape of {dtype}"), &Prim::Movement(reshape), std::slice::from_ref(&x), 0.0);
        let parts = [x.clone(), s.tensor(dtype, &[3, 0, 5]), s.tensor(dtype, &[3, 2, 5]), x];
        let prim = Prim::Movement(Movement::Concat { axis: 1 });
        check_prim(&format!("concat of {dtype}"), &prim, &parts, 0.0);
    }
}

#[test]
fn ramps_agree_in_every_number_type() {
    for dtype in DTYPES.into_iter().filter(|&dtype| dtype != DType::Bool) {
        for len in [0, 1, 300] {
            check_prim("iota", &Prim::Source(Source::Iota { len, dtype }), &[], 0.0);
        }
    }
}

#[test]
fn random_values_are_those_of_the_reference() {
    for (seed, draw, stream) in [(0, 0, 0), (7, 1, 3), (-1, i64::MAX, 1 << 40)] {
        let key = HostTensor::from_i64(DType::U64, &[2], &[seed, draw]).unwrap();
        for shape in [&[][..], &[1], &[3, 7], &[0], &[70_001]] {
            let shape = Dims::from_slice(shape);
            let uniform = Prim::Random(Random::Uniform { shape: shape.clone(), stream });
            check_prim("uniform", &uniform, std::slice::from_ref(&key), 0.0);
            let normal = Prim::Random(Random::Normal { shape, stream });
            check_prim("normal", &normal, std::slice::from_ref(&key), 1e-6);
        }
    }
}

#[test]
fn values_out_of_range_are_errors_of_execution() {
    let mut s = Sequence::new(17);
    let int = |value: i64, dtype| HostTensor::from_i64(dtype, &[], &[value]).unwrap();
    let table = s.tensor(DType::F32, &[4, 3]);
    for id in [-1, 4, i64::MAX, i64::MIN] {
        let ids = HostTensor::from_i64(DType::I64, &[1], &[id]).unwrap();
        let cases = [
            (Prim::Index(Index::Embedding), vec![table.clone(), ids.clone()]),
            (Prim::Index(Index::EmbeddingGrad { rows: 4 }), vec![s.tensor(DType::F32, &[1, 3]), ids.clone()]),
            (
                Prim::Loss(Loss::CrossEntropy { ignore: None }),
                vec![s.tensor(DType::F32, &[1, 4]), ids.clone()],
            ),
            (
                Prim::State(State::UpdateSlice { axis: 0 }),
                vec![table.clone(), s.tensor(DType::F32, &[2, 3]), int(id, DType::I64)],
            ),
        ];
        for (prim, arguments) in cases {
            for lie in [Lie::Contiguous, Lie::Transposed] {
                let operands: Vec<Strided> = arguments.iter().map(|t| Strided::new(t, lie)).collect();
                let error = Eager.apply(prim.clone(), &operands).err();
                let error = error.unwrap_or_else(|| panic!("{prim} took {id}"));
                assert_eq!(error.kind, ErrorKind::Execute, "{prim}: {error}");
            }
        }
    }
    let huge = HostTensor::from_i64(DType::U64, &[1], &[-1]).unwrap();
    let operands = [&table, &huge].map(|t| Strided::new(t, Lie::Contiguous));
    assert!(Eager.apply(Prim::Index(Index::Embedding), &operands).is_err());
}

#[test]
fn a_dtype_without_a_kernel_is_refused_by_name() {
    use lanthorn_ir::prim::Elementwise;
    let x = HostTensor::from_f64(DType::F8E4M3, &[3], &[1.0, 2.0, 3.0]).unwrap();
    let x = Strided::new(&x, Lie::Contiguous);
    let error = Eager.apply(Prim::Elementwise(Elementwise::Unary(UnaryOp::Neg)), &[x]).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Dtype, "{error}");
    assert!(error.to_string().contains("f8e4m3"), "{error}");
}

#[test]
fn adamw_of_strided_operands_agrees() {
    for dtype in FLOATS {
        let mut s = Sequence::new(18);
        let mut arguments =
            vec![s.tensor(dtype, &[7, 90]), s.tensor(dtype, &[7, 90]), s.tensor(dtype, &[7, 90])];
        arguments.push(s.within(dtype, &[7, 90], 0.0, 1.0));
        for value in [0.1, 0.5, 0.3] {
            arguments.push(HostTensor::from_f64(dtype, &[7, 90], &vec![value; 630]).unwrap());
        }
        let adamw =
            State::AdamW { beta1: F64(0.9), beta2: F64(0.99), eps: F64(1e-3), weight_decay: F64(0.1) };
        check_prim(&format!("adamw in {dtype}"), &Prim::State(adamw), &arguments, 4.0 * tolerance(dtype));
    }
}

#[test]
fn half_results_round_once() {
    // 1 + 2^-8 is halfway between two bf16 numbers; the sum of the three is not.
    let x = HostTensor::from_f64(DType::BF16, &[1, 3], &[1.0, 0.00390625, 0.00390625]).unwrap();
    let prim = Prim::Reduce(lanthorn_ir::prim::Reduce::Fold {
        op: lanthorn_ir::prim::ReduceOp::Sum,
        axes: Dims::from_slice(&[1]),
    });
    let found = Eager.apply(prim, &[Strided::new(&x, Lie::Contiguous)]).unwrap()[0].tensor();
    let expected = HostTensor::from_f64(DType::BF16, &[1, 1], &[1.0078125]).unwrap();
    assert_close("sum", &found, &expected, 0.0);
}
