//! Linear algebra beyond its cases: what errors say, ties, higher derivatives, the order of products.

use lanthorn_interp::{HostTensor, Interp, eval};
use lanthorn_ir::graph::topological;
use lanthorn_ir::ops::{QrMode, Triangle};
use lanthorn_ir::{DType, Error, ErrorKind, Lazy, Result, Value, ops, transform};

use crate::support::{Sequence, floats, ints, leaf, leaf_of};

#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, text: &str) {
    let error: Error = result.unwrap_err();
    assert_eq!((error.kind, error.to_string().as_str()), (kind, text));
}

fn f64s(shape: &[usize]) -> Value {
    leaf(DType::F64, shape)
}

#[test]
fn what_a_graph_refuses() {
    use ErrorKind::{Dtype, Shape, Unsupported};
    let oblong = f64s(&[3, 2]);
    let square = "the operand is f64[3, 2], expected square matrices [.., n, n]";
    says(ops::cholesky(&Lazy, &oblong, false), Shape, &format!("cholesky: {square}"));
    says(ops::eigvalsh(&Lazy, &oblong, Triangle::Both), Shape, &format!("eigvalsh: {square}"));
    says(ops::inverse(&Lazy, &oblong), Shape, &format!("inverse: {square}"));
    says(ops::det(&Lazy, &oblong), Shape, &format!("det: {square}"));
    says(ops::matrix_power(&Lazy, &oblong, -1), Shape, &format!("matrix_power: {square}"));
    let text = "svdvals: the operand is f64[3], expected matrices [.., m, n]";
    says(ops::svdvals(&Lazy, &f64s(&[3])), Shape, text);
    let text =
        "solve: the matrix [2, 2] and the right side [3, 1] do not fit; expected [.., n, n] and [.., n, k]";
    says(ops::solve(&Lazy, &f64s(&[2, 2]), &f64s(&[3, 1]), true), Shape, text);
    let half = leaf(DType::BF16, &[2, 2]);
    let text = "qr: the operand is bf16, expected f32 or f64; cast to f32 first";
    says(ops::qr(&Lazy, &half, QrMode::Reduced), Dtype, text);
    let complex = leaf(DType::C64, &[2, 2]);
    let text = "eigh: the operand is c64, complex matrices are not supported yet";
    says(ops::eigh(&Lazy, &complex, Triangle::Both), Dtype, text);
    // As torch: the norm of a matrix without elements is 0.
    assert!(ops::matrix_norm(&Lazy, &f64s(&[2, 0]), ops::MatrixNorm::Two, &[], false).is_ok());

    let factors = ops::qr(&Lazy, &oblong, QrMode::Complete).unwrap();
    let loss = ops::sum(&Lazy, &factors[0], &[], false).unwrap();
    let text = "qr: the complete q of matrices with more rows (3) than columns (2) has no derivative: its last \
                columns are any basis; use the reduced mode";
    says(transform::grad(&loss, std::slice::from_ref(&oblong)), Unsupported, text);
    // What is left of the triangle is determined.
    let loss = ops::sum(&Lazy, &factors[1], &[], false).unwrap();
    transform::grad(&loss, std::slice::from_ref(&oblong)).unwrap();
}

#[test]
fn what_only_a_run_can_see() {
    use ErrorKind::Execute;
    let batch = floats(&[2, 2, 2], &[2.0, 1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 1.0]);
    let text = "cholesky: (batch element 1): the factorization could not be completed because the input is not \
                positive-definite (the leading minor of order 2 is not positive-definite)";
    says(ops::cholesky(&Interp, &batch, false), Execute, text);
    let batch = floats(&[3, 2, 2], &[1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    let singular = |op: &str, at: usize, place: usize| {
        format!(
            "{op}: (batch element {at}): the input is singular: element {place} of the diagonal of u is zero"
        )
    };
    says(ops::inverse(&Interp, &batch), Execute, &singular("inverse", 1, 1));
    says(ops::lu_factor(&Interp, &batch), Execute, &singular("lu_factor", 1, 1));
    says(ops::matrix_power(&Interp, &batch, -3), Execute, &singular("matrix_power", 1, 1));
    let ones = floats(&[2, 2], &[1.0; 4]);
    says(ops::solve(&Interp, &ones, &floats(&[2], &[1.0, 2.0]), true), Execute, &singular("solve", 0, 2));
    let text = "lstsq: (batch element 0): the least squares solution could not be computed because the input matrix \
                does not have full rank (column 2 depends on those before it); pinv takes such matrices";
    let deficient = floats(&[3, 2], &[1.0, 2.0, 2.0, 4.0, 3.0, 6.0]);
    says(ops::lstsq(&Interp, &deficient, &floats(&[3], &[1.0, 2.0, 3.0])), Execute, text);
    let nan = floats(&[1, 2, 2], &[1.0, f64::NAN, 0.0, 1.0]);
    let text =
        "svd: (batch element 0): the algorithm cannot converge because the input contains non-finite values";
    says(ops::svd(&Interp, &nan, false), Execute, text);
    let pivots = HostTensor::from_i64(DType::I32, &[2], &[1, 3]).unwrap();
    let text = "permutation: (batch element 0): the pivot 3 is out of range; pivots are rows, counted from 1";
    says(ops::lu_unpack(&Interp, &ones, &pivots), Execute, text);
    // These take what is singular.
    assert_eq!(ops::det(&Interp, &ones).unwrap().to_f64(), [0.0]);
    assert_eq!(ops::matrix_rank(&Interp, &ones, None, None).unwrap().to_i64(), [1]);
}

#[test]
fn what_einsum_refuses() {
    use ErrorKind::{Dtype, Shape};
    let (x, y) = (f64s(&[2, 3]), f64s(&[4, 5]));
    let fails = |equation: &str, operands: &[Value], text: &str| {
        says(ops::einsum(&Lazy, operands, equation), Shape, text);
    };
    fails("ij,jk", std::slice::from_ref(&x), "einsum: \"ij,jk\" has 2 terms for 1 operands");
    fails("ij,jk", &[x.clone(), y.clone()], "einsum: \"j\" stands for 3 and for 4 elements");
    fails(
        "i",
        std::slice::from_ref(&x),
        "einsum: the term \"i\" names 1 axes of operand 0, which is f64[2, 3]",
    );
    fails(
        "ii",
        std::slice::from_ref(&x),
        "einsum: \"i\" stands twice in the term of operand 0, on axes of 2 and 3 elements",
    );
    let text = "einsum: the result of \"ij->k\" names \"k\", which no operand has";
    fails("ij->k", std::slice::from_ref(&x), text);
    fails("ij->ii", std::slice::from_ref(&x), "einsum: the result of \"ij->ii\" names \"i\" twice");
    let text = "einsum: \"i1\" has \"1\", expected letters, \"...\" and \"->\"";
    fails("i1", std::slice::from_ref(&x), text);
    fails(
        "...->->",
        std::slice::from_ref(&x),
        "einsum: \"...->->\" has \"-\", expected letters, \"...\" and \"->\"",
    );
    fails(
        "i...j...",
        std::slice::from_ref(&x),
        "einsum: \"i...j...\" has \".\", expected letters, \"...\" and \"->\"",
    );
    fails("", &[], "einsum: takes at least one operand, got none");
    let other = leaf(DType::F32, &[3, 2]);
    let text = "einsum: operands are f64 and f32; cast one of them";
    says(ops::einsum(&Lazy, &[x, other], "ij,jk"), Dtype, text);
}

/// The largest result of any primitive between operands and result.
fn largest(root: &Value) -> usize {
    let nodes = topological(std::slice::from_ref(root), |_| false);
    let computed = nodes.iter().filter(|node| !node.inputs().is_empty());
    computed.flat_map(|node| node.types().iter().map(|ty| ty.numel()).collect::<Vec<_>>()).max().unwrap_or(0)
}

/// A product of two matrices and a vector never makes the product of the matrices.
#[test]
fn what_shrinks_is_multiplied_first() {
    let (x, y, v) = (f64s(&[50, 2]), f64s(&[2, 60]), f64s(&[60]));
    let operands = [x, y, v];
    assert!(largest(&ops::einsum(&Lazy, &operands, "ij,jk,k->i").unwrap()) < 3000);
    assert!(largest(&ops::multi_dot(&Lazy, &operands).unwrap()) < 3000);
    let chain = [f64s(&[2, 60]), f64s(&[60, 2]), f64s(&[2, 60]), f64s(&[60, 2])];
    assert!(largest(&ops::multi_dot(&Lazy, &chain).unwrap()) <= 120);
    let (found, expected) = (
        ops::multi_dot(&Interp, &numbers()).unwrap(),
        ops::einsum(&Interp, &numbers(), "ab,bc,cd,de->ae").unwrap(),
    );
    crate::support::assert_close("multi_dot", &found.to_f64(), &expected.to_f64(), 1e-13);
}

fn numbers() -> Vec<HostTensor> {
    let mut s = Sequence::new(4);
    [[2, 5], [5, 3], [3, 4], [4, 2]].iter().map(|shape| s.tensor(shape, -1.0, 1.0)).collect()
}

fn gradient(x: &HostTensor, f: impl Fn(&Value) -> Result<Value>) -> Vec<f64> {
    let leaf = leaf_of(x);
    let value = f(&leaf).unwrap();
    let loss = ops::sum(&Lazy, &value, &[], false).unwrap();
    let grads = transform::grad(&loss, std::slice::from_ref(&leaf)).unwrap();
    eval(&grads, &[(leaf, x.clone())]).unwrap()[0].to_f64()
}

/// At equal eigenvalues and singular values, and at zero ones, what is smooth has its derivative and nothing is NaN.
#[test]
fn ties_give_no_nan() {
    let identity = floats(&[3, 3], &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let trace = gradient(&identity, |x| ops::eigvalsh(&Lazy, x, Triangle::Both));
    assert_eq!(trace, identity.to_f64());
    let nuclear = gradient(&identity, |x| ops::matrix_norm(&Lazy, x, ops::MatrixNorm::Nuclear, &[], false));
    assert_eq!(nuclear, identity.to_f64());
    let finite =
        |what: &str, grads: Vec<f64>| assert!(grads.iter().all(|g| g.is_finite()), "{what}: {grads:?}");
    let low_rank = floats(&[3, 3], &[1.0, 2.0, 3.0, 2.0, 4.0, 6.0, 3.0, 6.0, 9.0]);
    for x in [&identity, &low_rank, &floats(&[3, 3], &[0.0; 9])] {
        finite(
            "eigh",
            gradient(x, |x| {
                let parts = ops::eigh(&Lazy, x, Triangle::Both)?;
                ops::add(&Lazy, &ops::matmul(&Lazy, &parts[1], &parts[0])?, &parts[0])
            }),
        );
        finite(
            "svd",
            gradient(x, |x| {
                let parts = ops::svd(&Lazy, x, true)?;
                let product = ops::matmul(&Lazy, &parts[0], &parts[2])?;
                ops::add(&Lazy, &product, &parts[1])
            }),
        );
        finite("fro", gradient(x, |x| ops::matrix_norm(&Lazy, x, ops::MatrixNorm::Frobenius, &[], false)));
        finite("cdist", gradient(x, |x| ops::cdist(&Lazy, x, x, 1.5)));
    }
}

/// Third derivatives of the determinant and the inverse against differences of second ones.
#[test]
fn third_derivatives() {
    let x = floats(&[2, 2], &[1.3, 0.4, -0.7, 0.9]);
    type Function = fn(&Value) -> Result<Value>;
    let functions: [(&str, Function); 3] = [
        ("det", |x| {
            let det = ops::det(&Lazy, x)?;
            ops::mul(&Lazy, &det, &ops::square(&Lazy, &det)?)
        }),
        ("inverse", |x| ops::inverse(&Lazy, x)),
        ("cholesky", |x| {
            let square = ops::matmul(&Lazy, x, &ops::transpose(&Lazy, x, 0, 1)?)?;
            ops::cholesky(&Lazy, &square, false)
        }),
    ];
    for (name, f) in functions {
        let leaf = leaf_of(&x);
        let mut value = f(&leaf).unwrap();
        let weighted = |value: &Value| {
            let n = value.ty().numel();
            let weights: Value = ops::reshape(&Lazy, &ops::iota(&Lazy, n, DType::F64)?, &shape_of(value))?;
            ops::sum(&Lazy, &ops::mul(&Lazy, value, &ops::add_scalar(&Lazy, &weights, 1.0)?)?, &[], false)
        };
        let mut orders = Vec::new();
        for _ in 0..3 {
            let loss = weighted(&value).unwrap();
            orders.push(loss.clone());
            value = transform::grad(&loss, std::slice::from_ref(&leaf)).unwrap().remove(0);
        }
        let at = |root: &Value, place: usize, step: f64| {
            let mut moved = x.to_f64();
            moved[place] += step;
            eval(std::slice::from_ref(root), &[(leaf.clone(), floats(&[2, 2], &moved))]).unwrap()[0].to_f64()
        };
        for place in 0..4 {
            let slope = (at(&orders[2], place, 1e-5)[0] - at(&orders[2], place, -1e-5)[0]) / 2e-5;
            let found = at(&value, place, 0.0)[place];
            assert!(
                (found - slope).abs() <= 1e-5 * (1.0 + slope.abs()),
                "{name}, {place}: {found} for {slope}"
            );
        }
    }
}

fn shape_of(value: &Value) -> Vec<isize> {
    value.ty().shape.iter().map(|&size| size as isize).collect()
}

#[test]
fn weights_of_observations_are_checked() {
    let x = floats(&[2, 3], &[1.0, 2.0, 4.0, 0.5, 1.0, 3.0]);
    let counts = ints(&[2], &[1, 2]);
    let text = "cov: fweights has shape [2], expected [3]";
    says(ops::cov(&Interp, &x, 1, Some(&counts), None), ErrorKind::Shape, text);
    let text = "cov: fweights is f64, expected an integer dtype";
    let floats = floats(&[3], &[1.0; 3]);
    says(ops::cov(&Interp, &x, 1, Some(&floats), None), ErrorKind::Dtype, text);
}
