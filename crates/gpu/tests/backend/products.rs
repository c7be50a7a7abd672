//! Matrix products: sizes around the tiles, batches, strided factors, what follows them.

use lanthorn_compiler::kernel::KernelKind;
use lanthorn_compiler::pipeline::Options;
use lanthorn_interp::HostTensor;
use lanthorn_ir::prim::Contract;
use lanthorn_ir::{DType, Lazy, Prim, Result, Value, ops};

use crate::harness::{Sequence, assert_close, build, check, check_prim, leaf_of};

const SIZES: [(usize, usize, usize); 13] = [
    (1, 1, 1),
    (5, 7, 3),
    (4, 0, 5),
    (0, 3, 4),
    (3, 4, 0),
    (1, 64, 100),
    (100, 64, 1),
    (16, 16, 16),
    (17, 33, 15),
    (64, 16, 64),
    (65, 20, 66),
    (33, 70, 129),
    (7, 500, 9),
];

fn operands((m, k, n): (usize, usize, usize), batch: &[usize]) -> Vec<HostTensor> {
    let mut s = Sequence::new((m * 31 + k * 7 + n) as u64);
    let shape = |rows, cols| [batch, &[rows, cols]].concat();
    vec![s.within(DType::F32, &shape(m, k), 0.0, 1.0), s.within(DType::F32, &shape(k, n), -0.2, 1.0)]
}

#[test]
fn products_of_strided_operands_agree() {
    let prim = Prim::Contract(Contract::MatMul { out: DType::F32 });
    for size in SIZES {
        check_prim(&format!("{size:?}"), &prim, &operands(size, &[]), 2e-5);
    }
    for (batch, size) in
        [(&[2, 3][..], (5, 9, 20)), (&[4], (33, 17, 40)), (&[0], (2, 3, 4)), (&[3, 1], (1, 40, 70))]
    {
        check_prim(&format!("{batch:?} {size:?}"), &prim, &operands(size, batch), 2e-5);
    }
}

type Tail = fn(&[Value]) -> Result<Vec<Value>>;

/// `v` is the two factors, a bias `[n]`, and a residual `[m, n]`.
const TAILS: [(&str, Tail); 5] = [
    ("gelu of bias, residual", |v| {
        let y = ops::add(&Lazy, &ops::matmul(&Lazy, &v[0], &v[1])?, &v[2])?;
        Ok(vec![ops::add(&Lazy, &ops::gelu(&Lazy, &y, Default::default())?, &v[3])?])
    }),
    ("product, activation, comparison", |v| {
        let y = ops::matmul(&Lazy, &v[0], &v[1])?;
        Ok(vec![y.clone(), ops::tanh(&Lazy, &y)?, ops::gt_scalar(&Lazy, &y, -1e30)?])
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
        for (m, k, n) in SIZES {
            let mut s = Sequence::new(5);
            let mut arguments = operands((m, k, n), &[]);
            arguments.extend([s.tensor(DType::F32, &[n]), s.tensor(DType::F32, &[m, n])]);
            check(&format!("{name}, {:?}", (m, k, n)), &tail, &arguments, 5e-5);
        }
    }
}

#[test]
fn batches_have_tails() {
    let mut s = Sequence::new(6);
    let shapes: [&[usize]; 4] = [&[2, 3, 9, 16], &[3, 16, 20], &[3, 1, 20], &[2, 3, 9, 20]];
    let arguments = shapes.map(|shape| s.tensor(DType::F32, shape));
    let f = |v: &[Value]| {
        let y = ops::add(&Lazy, &ops::matmul(&Lazy, &v[0], &v[1])?, &v[2])?;
        let y = ops::add(&Lazy, &ops::silu(&Lazy, &y)?, &v[3])?;
        // The heads' way back into one axis.
        Ok(vec![ops::reshape(&Lazy, &ops::permute(&Lazy, &y, &[0, 2, 1, 3])?, &[2, 9, 60])?])
    };
    check("batches", &f, &arguments, 8e-5);
}

#[test]
fn a_residual_takes_the_result_in_place() {
    for (m, k, n) in [(5, 7, 3), (64, 40, 64)] {
        let mut s = Sequence::new(7);
        let mut arguments = operands((m, k, n), &[]);
        arguments.extend([
            s.tensor(DType::F32, &[n]),
            s.tensor(DType::F32, &[m, n]),
            s.tensor(DType::F32, &[m, n]),
        ]);
        let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
        let y = ops::add(&Lazy, &ops::matmul(&Lazy, &leaves[0], &leaves[1]).unwrap(), &leaves[2]).unwrap();
        // Two residuals, each replaced.
        let roots = [ops::add(&Lazy, &y, &leaves[3]).unwrap(), ops::sub(&Lazy, &leaves[4], &y).unwrap()];
        let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
        let expected = lanthorn_interp::eval(&roots, &bindings).unwrap();
        let options = Options { donated: vec![(3, 0), (4, 1)], ..Options::default() };
        let program = build(&leaves, &roots, &options).unwrap();
        let [kernel] = &program.compiled.plan.kernels[..] else { panic!("{}", program.compiled.plan) };
        assert!(matches!(kernel.kind, KernelKind::MatMul { .. }));
        for (found, expected) in program.run(&arguments).unwrap().iter().zip(&expected) {
            assert_close(&format!("{:?}", (m, k, n)), found, expected, 5e-5);
        }
    }
}
