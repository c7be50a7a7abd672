//! Pointwise regions: every function, every layout, every dtype.

use lanthorn_compiler::kernel::KernelKind;
use lanthorn_compiler::pipeline::Options;
use lanthorn_interp::HostTensor;
use lanthorn_ir::expr::{BinaryOp, UnaryOp};
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{DType, Lazy, Prim, Value, ops};

use crate::harness::{Sequence, build, check, check_prim, leaf_of};

const NUMBERS: [DType; 3] = [DType::F32, DType::I32, DType::U32];
const TOLERANCE: f64 = 2e-5;

fn elementwise(op: Elementwise) -> Prim {
    Prim::Elementwise(op)
}

/// Edges of the functions, then some of each size.
fn floats() -> HostTensor {
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        1e-30,
        -1e-10,
        1e-4,
        3.0,
        -3.0,
        20.0,
        -20.0,
        100.0,
        -100.0,
        1e30,
        -1e30,
        6000.0,
        -8000.0,
        1e-20,
        0.9277344,
        -0.93,
        4.2,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let mut s = Sequence::new(3);
    values.extend((0..35).map(|_| s.uniform(-6.0, 6.0)));
    HostTensor::from_f64(DType::F32, &[values.len()], &values).unwrap()
}

/// Functions that the GPU does not have.
fn refused(op: UnaryOp) -> bool {
    matches!(
        op,
        UnaryOp::Erfc
            | UnaryOp::Erfcx
            | UnaryOp::LogErfcx
            | UnaryOp::Erfinv
            | UnaryOp::Erfcinv
            | UnaryOp::Ndtr
            | UnaryOp::LogNdtr
            | UnaryOp::Ndtri
            | UnaryOp::NdtriExp
            | UnaryOp::Lgamma
            | UnaryOp::Digamma
            | UnaryOp::BesselI0
            | UnaryOp::BesselI0e
            | UnaryOp::BesselI1
            | UnaryOp::BesselI1e
    )
}

#[test]
fn every_unary_function_agrees_at_its_edges() {
    for op in UnaryOp::ALL {
        let x = match op {
            UnaryOp::Not => Sequence::new(1).tensor(DType::Bool, &[13]),
            UnaryOp::BitNot => HostTensor::from_i64(DType::I32, &[3], &[0, 5, -7]).unwrap(),
            // Refused by name.
            op if refused(op) => continue,
            _ => floats(),
        };
        check_prim(op.name(), &elementwise(Elementwise::Unary(op)), &[x], TOLERANCE);
        if op.takes_ints() {
            for dtype in [DType::I32, DType::U32] {
                let x =
                    HostTensor::from_i64(dtype, &[5], &[0, 1, -7, i32::MAX.into(), i32::MIN.into()]).unwrap();
                check_prim(op.name(), &elementwise(Elementwise::Unary(op)), &[x], 0.0);
            }
        }
    }
}

#[test]
fn every_binary_function_agrees_at_its_edges() {
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        3.0,
        -2.0,
        0.5,
        7.25,
        -7.25,
        1e-3,
        1e5,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let pairs: Vec<(f64, f64)> = edges.iter().flat_map(|&x| edges.map(|y| (x, y))).collect();
    let integers = [0i64, 1, -1, 2, 7, -7, 31, i32::MAX.into(), i32::MIN.into()];
    let whole: Vec<(i64, i64)> = integers.iter().flat_map(|&x| integers.map(|y| (x, y))).collect();
    for op in BinaryOp::ALL {
        if matches!(op, BinaryOp::Polygamma | BinaryOp::ErfcIntegral) {
            // Refused by name.
            continue;
        }
        let prim = elementwise(Elementwise::Binary(op));
        if op.is_logical() {
            let x = HostTensor::from_i64(DType::Bool, &[4], &[0, 0, 1, 1]).unwrap();
            let y = HostTensor::from_i64(DType::Bool, &[4], &[0, 1, 0, 1]).unwrap();
            check_prim(op.name(), &prim, &[x, y], 0.0);
            continue;
        }
        let column = |at: fn(&(f64, f64)) -> f64| {
            let values: Vec<f64> = pairs.iter().map(at).collect();
            HostTensor::from_f64(DType::F32, &[values.len()], &values).unwrap()
        };
        if !op.is_bitwise() {
            check_prim(op.name(), &prim, &[column(|p| p.0), column(|p| p.1)], TOLERANCE);
        }
        if op.is_of_floats() {
            continue;
        }
        for dtype in [DType::I32, DType::U32] {
            let column = |at: fn(&(i64, i64)) -> i64| {
                let values: Vec<i64> = whole.iter().map(at).collect();
                HostTensor::from_i64(dtype, &[values.len()], &values).unwrap()
            };
            check_prim(&format!("{} of {dtype}", op.name()), &prim, &[column(|p| p.0), column(|p| p.1)], 0.0);
        }
    }
}

#[test]
fn casts_agree_and_saturate() {
    let x = HostTensor::from_f64(
        DType::F32,
        &[9],
        &[0.0, 1.9, -1.9, 3e9, -3e9, 5e9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
    )
    .unwrap();
    let integers = |dtype| HostTensor::from_i64(dtype, &[4], &[0, 1, -1, i32::MIN.into()]).unwrap();
    let truths = HostTensor::from_i64(DType::Bool, &[3], &[0, 1, 1]).unwrap();
    for x in [x, integers(DType::I32), integers(DType::U32), truths] {
        for to in [DType::F32, DType::I32, DType::U32, DType::Bool] {
            let what = format!("{} to {to}", x.ty().dtype);
            check_prim(&what, &elementwise(Elementwise::Cast(to)), &[x.clone()], 0.0);
        }
    }
}

#[test]
fn strided_operands_of_several_ranks_agree() {
    for shape in [&[][..], &[1], &[300], &[3, 5], &[2, 3, 4], &[2, 1, 3, 2, 2], &[0], &[2, 0, 3]] {
        for dtype in NUMBERS {
            let mut s = Sequence::new(7);
            let operands = [s.tensor(dtype, shape), s.tensor(dtype, shape)];
            let prim = elementwise(Elementwise::Binary(BinaryOp::Sub));
            check_prim(&format!("sub of {dtype}{shape:?}"), &prim, &operands, 1e-6);
            // Truth values are bytes: neighbours of one word are written by several invocations.
            let less = elementwise(Elementwise::Binary(BinaryOp::Lt));
            check_prim(&format!("lt of {dtype}{shape:?}"), &less, &operands, 0.0);
        }
        let mut s = Sequence::new(8);
        let (c, a, b) =
            (s.tensor(DType::Bool, shape), s.tensor(DType::F32, shape), s.tensor(DType::F32, shape));
        check_prim("select", &elementwise(Elementwise::Select), &[c, a, b], 0.0);
    }
}

#[test]
fn a_chain_with_broadcasts_is_one_kernel() {
    let mut s = Sequence::new(9);
    let arguments =
        [s.tensor(DType::F32, &[7, 1, 9]), s.tensor(DType::F32, &[5, 9]), s.tensor(DType::F32, &[])];
    let f = |v: &[Value]| {
        let y = ops::tanh(&Lazy, &ops::mul(&Lazy, &v[0], &v[1])?)?;
        let y = ops::exp(&Lazy, &ops::neg(&Lazy, &ops::square(&Lazy, &y)?)?)?;
        let y = ops::add(&Lazy, &ops::mul(&Lazy, &y, &v[2])?, &ops::flip(&Lazy, &v[1], &[0])?)?;
        let positive = ops::gt_scalar(&Lazy, &y, 0.0)?;
        Ok(vec![ops::permute(&Lazy, &y, &[2, 0, 1])?, positive])
    };
    check("chain", &f, &arguments, TOLERANCE);
    let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
    let y = ops::exp(&Lazy, &ops::tanh(&Lazy, &ops::mul(&Lazy, &leaves[0], &leaves[1]).unwrap()).unwrap())
        .unwrap();
    let y = ops::mul(&Lazy, &y, &leaves[2]).unwrap();
    let program = build(&leaves, &[y], &Options::default()).unwrap();
    let [kernel] = &program.compiled.plan.kernels[..] else { panic!("{}", program.compiled.plan) };
    assert!(matches!(kernel.kind, KernelKind::Map { .. }));
}

#[test]
fn constants_of_every_kind_agree() {
    let x = Sequence::new(2).tensor(DType::F32, &[6]);
    let f = |v: &[Value]| {
        let with = |value: f64| ops::maximum(&Lazy, &v[0], &ops::scalar(&Lazy, value, DType::F32)?);
        let tiny = ops::add(&Lazy, &v[0], &ops::scalar(&Lazy, 1e-38, DType::F32)?)?;
        Ok(vec![
            with(f64::INFINITY)?,
            with(f64::NEG_INFINITY)?,
            with(f64::NAN)?,
            with(-0.0)?,
            with(3.4e38)?,
            tiny,
        ])
    };
    check("constants", &f, &[x], 1e-6);
    let x = Sequence::new(2).tensor(DType::I32, &[6]);
    let f = |v: &[Value]| {
        let least = ops::scalar(&Lazy, i64::from(i32::MIN), DType::I32)?;
        Ok(vec![ops::add(&Lazy, &v[0], &least)?, ops::maximum(&Lazy, &v[0], &least)?])
    };
    check("integer constants", &f, &[x], 0.0);
}

#[test]
fn kernels_of_one_structure_share_a_pipeline() {
    let run = |shape: &[usize]| {
        let x = Sequence::new(4).tensor(DType::F32, shape);
        let f = |v: &[Value]| {
            Ok(vec![ops::erf(&Lazy, &ops::cos(&Lazy, &ops::log1p(&Lazy, &ops::abs(&Lazy, &v[0])?)?)?)?])
        };
        check("shared", &f, &[x], TOLERANCE);
    };
    run(&[3, 4]);
    run(&[7, 6]);
    run(&[4097]);
    // Other tests make pipelines meanwhile, but none with these functions; unfused, each has a kernel of its own.
    let names = ["log1p_of", "cos_of", "erf_of"];
    let found = crate::gpu().texts().into_iter().filter(|text| names.iter().all(|name| text.contains(name)));
    assert_eq!(found.count(), 1);
}
