//! Folds over every set of axes: short ones, shared ones, empty ones, with bodies and epilogues.

use lanthorn_interp::HostTensor;
use lanthorn_ir::layout::Dims;
use lanthorn_ir::prim::{Reduce, ReduceOp};
use lanthorn_ir::{DType, Lazy, Prim, Value, ops};

use crate::harness::{Sequence, check, check_prim};

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];

fn operand(dtype: DType, shape: &[usize], op: ReduceOp) -> HostTensor {
    let mut s = Sequence::new(shape.iter().sum::<usize>() as u64);
    match op {
        ReduceOp::Sum if dtype.is_float() => s.within(dtype, shape, 0.0, 1.0),
        ReduceOp::Prod if dtype.is_float() => s.within(dtype, shape, 0.99, 1.01),
        _ => s.tensor(dtype, shape),
    }
}

fn check_folds(dtypes: &[DType], ops: &[ReduceOp], shapes: &[&[usize]]) {
    for (&shape, &dtype) in shapes.iter().flat_map(|shape| dtypes.iter().map(move |dtype| (shape, dtype))) {
        for &op in ops {
            let x = operand(dtype, shape, op);
            for bits in 0..1usize << shape.len() {
                let axes: Dims = (0..shape.len()).filter(|axis| bits >> axis & 1 == 1).collect();
                let chooses = matches!(op, ReduceOp::Max | ReduceOp::Min);
                if chooses && axes.iter().any(|&axis| shape[axis] == 0) {
                    continue;
                }
                let what = format!("{op:?} of {dtype}{shape:?} over {axes:?}");
                let within = if op == ReduceOp::Prod { 1e-4 } else { 2e-5 };
                check_prim(&what, &Prim::Reduce(Reduce::Fold { op, axes }), &[x.clone()], within);
            }
        }
    }
}

#[test]
fn folds_over_all_axes_agree() {
    let shapes: [&[usize]; 7] = [&[], &[7], &[0], &[2, 0, 3], &[3, 1], &[2, 3, 4], &[40, 3]];
    check_folds(&[DType::F32, DType::I32, DType::U32], &OPS, &shapes);
}

#[test]
fn folds_that_a_workgroup_shares_agree() {
    check_folds(&[DType::F32], &[ReduceOp::Sum, ReduceOp::Max], &[&[600], &[3, 130, 5]]);
    check_folds(&[DType::I32], &[ReduceOp::Sum, ReduceOp::Min], &[&[2, 5000]]);
    // Many results, each folded by one invocation.
    check_folds(&[DType::F32], &[ReduceOp::Sum], &[&[16_500, 33]]);
}

#[test]
fn nan_and_infinity_are_met_wherever_they_stand() {
    for (n, at, value) in
        [(70, 0, f64::NAN), (70, 69, f64::NAN), (9, 4, f64::INFINITY), (500, 300, f64::NEG_INFINITY)]
    {
        for op in OPS {
            let mut elements = operand(DType::F32, &[n, 2], op).to_f64();
            elements[at * 2 + 1] = value;
            let x = HostTensor::from_f64(DType::F32, &[n, 2], &elements).unwrap();
            let prim = Prim::Reduce(Reduce::Fold { op, axes: Dims::from_slice(&[0]) });
            check_prim(&format!("{op:?} with {value} at {at}"), &prim, &[x], 2e-5);
        }
    }
    let all = HostTensor::from_f64(DType::F32, &[3], &[f64::NEG_INFINITY; 3]).unwrap();
    let prim = Prim::Reduce(Reduce::Fold { op: ReduceOp::Max, axes: Dims::from_slice(&[0]) });
    check_prim("nothing but -inf", &prim, &[all], 0.0);
}

#[test]
fn bodies_and_epilogues_agree() {
    for shape in [&[4, 6][..], &[3, 100], &[0, 5], &[5, 0]] {
        let mut s = Sequence::new(5);
        let arguments = [
            s.tensor(DType::F32, shape),
            s.tensor(DType::F32, &[shape[1]]),
            s.tensor(DType::F32, &[shape[0], 1]),
        ];
        let f = |v: &[Value]| {
            let y = ops::mul(&Lazy, &ops::exp(&Lazy, &v[0])?, &v[1])?;
            let total = ops::sum(&Lazy, &y, &[1], true)?;
            let squares = ops::sum(&Lazy, &ops::square(&Lazy, &y)?, &[1], true)?;
            let both = ops::div(&Lazy, &total, &ops::add_scalar(&Lazy, &squares, 1.0)?)?;
            Ok(vec![
                y,
                ops::add(&Lazy, &ops::tanh(&Lazy, &both)?, &v[2])?,
                ops::gt_scalar(&Lazy, &total, 0.0)?,
            ])
        };
        check(&format!("body and epilogue {shape:?}"), &f, &arguments, 5e-5);
        let f = |v: &[Value]| Ok(vec![ops::softmax(&Lazy, &v[0], -1)?, ops::log_softmax(&Lazy, &v[0], -1)?]);
        if shape[1] > 0 {
            check(&format!("softmax {shape:?}"), &f, &arguments[..1], 2e-5);
        }
    }
}
