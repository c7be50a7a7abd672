//! Folds in every order of memory: short and long rows, narrow and wide columns, partial results.

use lanthorn_compiler::kernel::KernelKind;
use lanthorn_compiler::pipeline::Options;
use lanthorn_interp::HostTensor;
use lanthorn_ir::layout::Dims;
use lanthorn_ir::prim::{Reduce, ReduceOp};
use lanthorn_ir::{DType, Lazy, Prim, Result, Value, ops};

use crate::harness::{Sequence, build, check, check_prim, leaf_of, tolerance};

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];

fn axis_subsets(rank: usize) -> impl Iterator<Item = Dims> {
    (0..1usize << rank).map(move |bits| (0..rank).filter(|axis| bits >> axis & 1 == 1).collect())
}

/// Values whose sums and products stay in range and lose nothing to cancellation.
fn operand(dtype: DType, shape: &[usize], op: ReduceOp) -> HostTensor {
    let mut s = Sequence::new(shape.iter().sum::<usize>() as u64);
    match op {
        _ if !dtype.is_float() => s.tensor(dtype, shape),
        ReduceOp::Sum => s.within(dtype, shape, 0.0, 1.0),
        ReduceOp::Prod => s.within(dtype, shape, 0.99, 1.01),
        ReduceOp::Max | ReduceOp::Min => s.tensor(dtype, shape),
    }
}

fn check_folds(dtypes: &[DType], ops: &[ReduceOp], shapes: &[&[usize]]) {
    for &shape in shapes {
        for &dtype in dtypes {
            for &op in ops {
                let x = operand(dtype, shape, op);
                for axes in axis_subsets(shape.len()) {
                    let needs_elements = matches!(op, ReduceOp::Max | ReduceOp::Min);
                    if needs_elements && axes.iter().any(|&a| shape[a] == 0) {
                        continue;
                    }
                    let prim = Prim::Reduce(Reduce::Fold { op, axes: axes.clone() });
                    let within = match op {
                        ReduceOp::Prod => 50.0 * tolerance(dtype),
                        _ => tolerance(dtype),
                    };
                    check_prim(
                        &format!("{op:?} of {dtype}{shape:?} over {axes:?}"),
                        &prim,
                        std::slice::from_ref(&x),
                        within,
                    );
                }
            }
        }
    }
}

const NUMBERS: [DType; 12] = [
    DType::F32,
    DType::F64,
    DType::BF16,
    DType::F16,
    DType::I32,
    DType::I64,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::I16,
    DType::U8,
    DType::I8,
];

#[test]
fn folds_over_all_axes_agree() {
    check_folds(
        &NUMBERS,
        &OPS,
        &[
            &[],
            &[1],
            &[7],
            &[0],
            &[2, 0, 3],
            &[3, 1],
            &[1, 1, 1],
            &[7, 1, 5],
            &[2, 3, 4, 5],
            &[16, 17],
            &[100, 3],
        ],
    );
}

#[test]
fn long_folds_agree() {
    let shapes: [&[usize]; 6] = [&[600], &[7, 600], &[600, 7], &[3, 130, 9], &[513, 2], &[140, 530]];
    check_folds(&[DType::F32, DType::BF16, DType::I64], &[ReduceOp::Sum, ReduceOp::Max], &shapes);
    check_folds(&[DType::F64, DType::U8], &[ReduceOp::Sum, ReduceOp::Min], &shapes);
}

#[test]
fn folds_in_partial_results_agree() {
    let shapes: [&[usize]; 3] = [&[40_000], &[2, 40_000], &[40_000, 2]];
    check_folds(&[DType::F32, DType::F64, DType::I32], &[ReduceOp::Sum, ReduceOp::Max], &shapes);
    check_folds(&[DType::F16, DType::U64], &[ReduceOp::Min], &shapes);
    check_folds(&[DType::F32], &[ReduceOp::Prod], &[&[300, 4]]);
}

#[test]
fn nan_and_infinity_are_met_wherever_they_stand() {
    for (dtype, n) in [(DType::F32, 70), (DType::F64, 9), (DType::BF16, 33), (DType::F16, 600)] {
        for (at, value) in [(0, f64::NAN), (n / 2, f64::NAN), (n - 1, f64::NAN), (n - 1, f64::INFINITY)] {
            for op in OPS {
                let mut elements = operand(dtype, &[n, 3], op).to_f64();
                elements[at * 3 + 1] = value;
                elements[at * 3 + 2] = -value;
                let x = HostTensor::from_f64(dtype, &[n, 3], &elements).unwrap();
                for axes in axis_subsets(2) {
                    let prim = Prim::Reduce(Reduce::Fold { op, axes: axes.clone() });
                    let what = format!("{op:?} of {n} {dtype} with {value} at {at} over {axes:?}");
                    check_prim(&what, &prim, std::slice::from_ref(&x), 50.0 * tolerance(dtype));
                }
            }
            for largest in [true, false] {
                let mut elements = operand(dtype, &[n, 3], ReduceOp::Max).to_f64();
                elements[at * 3 + 1] = value;
                let x = HostTensor::from_f64(dtype, &[n, 3], &elements).unwrap();
                for axis in [0, 1] {
                    let prim = if largest { Reduce::ArgMax { axis } } else { Reduce::ArgMin { axis } };
                    check_prim("arg", &Prim::Reduce(prim), std::slice::from_ref(&x), 0.0);
                }
            }
        }
    }
}

#[test]
fn indices_of_extremes_agree_in_every_type() {
    for dtype in NUMBERS {
        for shape in [&[7][..], &[1], &[3, 5, 2], &[600, 3], &[3, 600], &[0, 4]] {
            let x = operand(dtype, shape, ReduceOp::Max);
            for (axis, _) in shape.iter().enumerate().filter(|&(_, &size)| size > 0) {
                for prim in [Reduce::ArgMax { axis }, Reduce::ArgMin { axis }] {
                    check_prim(&format!("{prim:?}"), &Prim::Reduce(prim), std::slice::from_ref(&x), 0.0);
                }
            }
        }
    }
}

/// A prologue that is itself a result, several folds of it, and an epilogue that reads a further operand.
fn fused(v: &[Value], axis: isize) -> Result<Vec<Value>> {
    let y = ops::mul(&Lazy, &v[0], &v[1])?;
    let sum = ops::sum(&Lazy, &y, &[axis], true)?;
    let max = ops::max(&Lazy, &y, &[axis], true)?;
    let min = ops::min(&Lazy, &ops::abs(&Lazy, &y)?, &[axis], true)?;
    let scaled = ops::add(&Lazy, &ops::mul_scalar(&Lazy, &sum, 0.5)?, &v[2])?;
    Ok(vec![y, sum, max, ops::sub(&Lazy, &scaled, &min)?])
}

#[test]
fn several_folds_with_stores_run_as_one_kernel() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32, DType::U8] {
        for (rows, cols) in [(5, 7), (3, 600), (600, 3), (130, 513), (2, 40_000), (700, 16)] {
            for axis in [0, 1] {
                let mut s = Sequence::new(3);
                let kept = if axis == 0 { [1, cols] } else { [rows, 1] };
                let mut arguments =
                    vec![s.within(dtype, &[rows, cols], 0.0, 1.0), s.within(dtype, &[cols], 0.0, 1.0)];
                if !dtype.is_float() {
                    arguments = vec![s.tensor(dtype, &[rows, cols]), s.tensor(dtype, &[cols])];
                    arguments.push(s.tensor(dtype, &kept));
                } else {
                    arguments.push(s.tensor(dtype, &kept));
                }
                let f = move |v: &[Value]| {
                    if v[0].ty().dtype.is_float() {
                        return fused(v, axis);
                    }
                    let y = ops::mul(&Lazy, &v[0], &v[1])?;
                    let sum = ops::sum(&Lazy, &y, &[axis], true)?;
                    let max = ops::max(&Lazy, &y, &[axis], true)?;
                    // Reads the sum as a number of its type, not as what was accumulated.
                    let float = ops::cast(&Lazy, &sum, DType::F64)?;
                    Ok(vec![y, ops::add(&Lazy, &max, &v[2])?, float])
                };
                let what = format!("folds of {dtype}[{rows}, {cols}] over {axis}");
                check(&what, &f, &arguments, 2.0 * tolerance(dtype));
                let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
                let program = build(&leaves, &f(&leaves).unwrap(), &Options::default()).unwrap();
                let folds = program.compiled.plan.kernels.iter().map(|kernel| match &kernel.kind {
                    KernelKind::Reduce { folds, body, .. } => folds.len() * (1 + body.stores.len()),
                    _ => 0,
                });
                assert!(folds.max().unwrap() >= 4, "{what}: not fused\n{}", program.compiled.plan);
            }
        }
    }
}
