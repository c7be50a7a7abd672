//! Matrix products with what follows them.

use lanthorn_compiler::kernel::KernelKind;
use lanthorn_compiler::pipeline::Options;
use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::prim::Contract;
use lanthorn_ir::{DType, Lazy, Prim, Result, Value, ops};

use crate::harness::{Sequence, assert_close, build, check, check_prim, leaf_of, tolerance};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];
const SIZES: [(usize, usize, usize); 14] = [
    (1, 1, 1),
    (5, 7, 3),
    (4, 0, 5),
    (0, 3, 4),
    (3, 4, 0),
    (1, 64, 300),
    (300, 64, 1),
    (2, 130, 33),
    (64, 64, 64),
    (33, 70, 129),
    (17, 300, 16),
    (100, 20, 600),
    (7, 5000, 9),
    (150, 150, 150),
];

fn operands(dtype: DType, (m, k, n): (usize, usize, usize), batch: &[usize]) -> Vec<HostTensor> {
    let mut s = Sequence::new((m * 31 + k * 7 + n) as u64);
    let shape = |rows, cols| [batch, &[rows, cols]].concat();
    vec![s.within(dtype, &shape(m, k), 0.0, 1.0), s.within(dtype, &shape(k, n), -0.2, 1.0)]
}

#[test]
fn products_of_strided_operands_agree() {
    for dtype in FLOATS {
        for size in SIZES {
            let prim = Prim::Contract(Contract::MatMul { out: dtype });
            check_prim(&format!("{dtype} {size:?}"), &prim, &operands(dtype, size, &[]), tolerance(dtype));
        }
        for (batch, size) in
            [(&[2, 3][..], (5, 9, 20)), (&[4], (33, 17, 40)), (&[0], (2, 3, 4)), (&[3, 1], (1, 40, 70))]
        {
            let prim = Prim::Contract(Contract::MatMul { out: dtype });
            let what = format!("{dtype} {batch:?} {size:?}");
            check_prim(&what, &prim, &operands(dtype, size, batch), tolerance(dtype));
        }
    }
}

#[test]
fn half_operands_give_wide_products() {
    for dtype in [DType::BF16, DType::F16] {
        for size in SIZES {
            let prim = Prim::Contract(Contract::MatMul { out: DType::F32 });
            let what = format!("{dtype} to f32 {size:?}");
            check_prim(&what, &prim, &operands(dtype, size, &[]), tolerance(DType::F32));
        }
    }
}

type Tail = fn(&[Value]) -> Result<Vec<Value>>;

/// `v` is the two factors, a bias `[n]`, and a residual `[m, n]`.
const TAILS: [(&str, Tail); 8] = [
    ("bias", |v| Ok(vec![ops::add(&Lazy, &ops::matmul(&Lazy, &v[0], &v[1])?, &v[2])?])),
    ("gelu of bias, residual", |v| {
        let y = ops::add(&Lazy, &ops::matmul(&Lazy, &v[0], &v[1])?, &v[2])?;
        Ok(vec![ops::add(&Lazy, &ops::gelu(&Lazy, &y, Default::default())?, &v[3])?])
    }),
    ("product and activation", |v| {
        let y = ops::matmul(&Lazy, &v[0], &v[1])?;
        Ok(vec![y.clone(), ops::tanh(&Lazy, &y)?, ops::add(&Lazy, &y, &v[3])?])
    }),
    ("narrow output", |v| {
        let y = ops::matmul(&Lazy, &v[0], &v[1])?;
        Ok(vec![ops::cast(&Lazy, &ops::mul_scalar(&Lazy, &y, 0.25)?, DType::BF16)?])
    }),
    ("comparison", |v| {
        let y = ops::matmul(&Lazy, &v[0], &v[1])?;
        Ok(vec![ops::gt_scalar(&Lazy, &y, -1e30)?])
    }),
    ("slices of a concatenation", |v| {
        let y = ops::matmul(&Lazy, &v[0], &v[1])?;
        Ok(vec![ops::concat(&Lazy, &[v[3].clone(), y, ops::neg(&Lazy, &v[3])?], 1)?])
    }),
    ("transposed afterwards", |v| {
        let y = ops::transpose(&Lazy, &ops::matmul(&Lazy, &v[0], &v[1])?, 0, 1)?;
        Ok(vec![ops::relu(&Lazy, &y)?, ops::sum(&Lazy, &y, &[0], false)?])
    }),
    ("transposed factors and residual", |v| {
        let (a, b) = (ops::transpose(&Lazy, &v[1], 0, 1)?, ops::transpose(&Lazy, &v[0], 0, 1)?);
        let y = ops::matmul(&Lazy, &a, &b)?;
        Ok(vec![ops::add(&Lazy, &y, &ops::flip(&Lazy, &ops::transpose(&Lazy, &v[3], 0, 1)?, &[1])?)?])
    }),
];

#[test]
fn tails_of_products_agree() {
    for (name, tail) in TAILS {
        for dtype in FLOATS {
            for (m, k, n) in SIZES {
                let mut s = Sequence::new(5);
                let mut arguments = operands(dtype, (m, k, n), &[]);
                arguments.extend([s.tensor(dtype, &[n]), s.tensor(dtype, &[m, n])]);
                let within = 2.0 * tolerance(if name == "narrow output" { DType::BF16 } else { dtype });
                check(&format!("{name} in {dtype}, {:?}", (m, k, n)), &tail, &arguments, within);
            }
        }
    }
}

#[test]
fn batches_have_tails() {
    for dtype in FLOATS {
        let mut s = Sequence::new(6);
        let arguments = vec![
            s.tensor(dtype, &[2, 3, 9, 16]),
            s.tensor(dtype, &[3, 16, 20]),
            s.tensor(dtype, &[3, 1, 20]),
            s.tensor(dtype, &[2, 3, 9, 20]),
        ];
        let f = |v: &[Value]| {
            let y = ops::add(&Lazy, &ops::matmul(&Lazy, &v[0], &v[1])?, &v[2])?;
            let y = ops::add(&Lazy, &ops::silu(&Lazy, &y)?, &v[3])?;
            // The heads' way back into one axis.
            Ok(vec![ops::reshape(&Lazy, &ops::permute(&Lazy, &y, &[0, 2, 1, 3])?, &[2, 9, 60])?])
        };
        check(&format!("batches in {dtype}"), &f, &arguments, 4.0 * tolerance(dtype));
    }
}

#[test]
fn a_residual_takes_the_result_in_place() {
    for dtype in FLOATS {
        for (m, k, n) in [(5, 7, 3), (64, 64, 64), (33, 70, 129), (1, 64, 300)] {
            let mut s = Sequence::new(7);
            let mut arguments = operands(dtype, (m, k, n), &[]);
            arguments.extend([s.tensor(dtype, &[n]), s.tensor(dtype, &[m, n]), s.tensor(dtype, &[m, n])]);
            let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
            let f = |v: &[Value]| -> Result<Vec<Value>> {
                let y = ops::add(&Lazy, &ops::matmul(&Lazy, &v[0], &v[1])?, &v[2])?;
                // Two residuals, each replaced.
                Ok(vec![ops::add(&Lazy, &y, &v[3])?, ops::sub(&Lazy, &v[4], &y)?])
            };
            let roots = f(&leaves).unwrap();
            let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
            let expected = eval(&roots, &bindings).unwrap();
            for optimize in [false, true] {
                let options = Options { optimize, donated: vec![(3, 0), (4, 1)], ..Options::default() };
                let program = build(&leaves, &roots, &options).unwrap();
                let kernels = &program.compiled.plan.kernels;
                if optimize {
                    assert_eq!(kernels.len(), 1, "{}", program.compiled.plan);
                    assert!(matches!(kernels[0].kind, KernelKind::MatMul { .. }));
                }
                let found = program.run(&arguments).unwrap();
                for (found, expected) in found.iter().zip(&expected) {
                    let what = format!("{dtype} {:?}, optimize {optimize}", (m, k, n));
                    assert_close(&what, found, expected, 2.0 * tolerance(dtype));
                }
            }
        }
    }
}
