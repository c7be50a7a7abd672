//! Errors name the op, the operand and what would be right.

use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::{DType, Error, ErrorKind, Lazy, Value, ops, transform};

use crate::support::{ints, leaf, leaf_of};

fn f32s(shape: &[usize]) -> Value {
    leaf(DType::F32, shape)
}

#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind, text: &str) {
    let error = result.unwrap_err();
    assert_eq!((error.kind, error.to_string().as_str()), (kind, text));
}

#[test]
fn shapes() {
    use ErrorKind::Shape;
    let (a, b) = (f32s(&[2, 3]), f32s(&[4]));
    let text = "add: shapes [2, 3] and [4] do not broadcast: axis -1 has 3 and 4; sizes must be equal or 1";
    says(ops::add(&Lazy, &a, &b), Shape, text);
    let text = "matmul: shapes [2, 3] and [2, 3] do not multiply; expected [.., m, k] and [.., k, n]";
    says(ops::matmul(&Lazy, &a, &a), Shape, text);
    let text = "reshape: [2, 3] has 6 elements, which the other sizes (4) do not divide";
    says(ops::reshape(&Lazy, &a, &[4, -1]), Shape, text);
    says(ops::reshape(&Lazy, &a, &[-1, -1]), Shape, "reshape: only one size may be -1");
    let text = "sum: axis 2 is out of range for rank 2; it must lie in -2..2";
    says(ops::sum(&Lazy, &a, &[2], false), Shape, text);
    let text = "linear: x [2, 3] and weight [5, 4] do not fit; expected [.., in] and [out, in]";
    says(ops::linear(&Lazy, &a, &f32s(&[5, 4]), None), Shape, text);
    says(
        ops::max(&Lazy, &f32s(&[2, 0]), &[1], false),
        Shape,
        "max: axes [1] of [2, 0] hold no element to choose",
    );
    says(
        ops::slice(&Lazy, &a, 0, 0, None, -1),
        Shape,
        "slice: the step is -1, expected at least 1; flip reverses",
    );
    says(ops::narrow(&Lazy, &a, 1, 2, 2), Shape, "narrow: 2 elements from 2 leave axis 1 of [2, 3]");
    says(ops::concat::<Lazy>(&Lazy, &[], 0), Shape, "concat: takes at least one operand, got none");
    let text = "cross_entropy: logits [2, 3] and targets [3] do not fit; expected [.., classes] and [..]";
    let targets = leaf(DType::I64, &[3]);
    says(ops::cross_entropy(&Lazy, &a, &targets, ops::Reduction::Mean, None, None, 0.0, -1), Shape, text);
    let text = "grad: the loss is f32[2, 3], expected one floating-point element";
    says(transform::grad(&a, std::slice::from_ref(&a)), Shape, text);
    let text = "vmap: argument 1 has 4 elements on axis 0, others have 2";
    says(transform::vmap(|v| Ok(v.to_vec()), &[a, b], &[true, true]), Shape, text);
}

#[test]
fn dtypes() {
    use ErrorKind::Dtype;
    let (float, int, half) = (f32s(&[2]), leaf(DType::I64, &[2]), leaf(DType::F16, &[2]));
    let text = "mul: the second operand is f16 but the first operand is f32; cast one of them";
    says(ops::mul(&Lazy, &float, &half), Dtype, text);
    says(ops::exp(&Lazy, &int), Dtype, "exp: the operand is i64, expected a floating-point dtype");
    says(ops::logical_not(&Lazy, &float), Dtype, "logical_not: the operand is f32, expected bool");
    let text = "where: the condition is f32, expected bool";
    says(ops::where_(&Lazy, &float, &float, &float), Dtype, text);
    let text = "add_scalar: the scalar 0.5 is not a whole number but the operand is i64; cast it";
    says(ops::add_scalar(&Lazy, &int, 0.5), Dtype, text);
    let byte = leaf(DType::U8, &[2]);
    says(ops::eq_scalar(&Lazy, &byte, -1i64), Dtype, "eq_scalar: the scalar -1 does not fit u8");
    let text = "vjp: value 0 is i64[2], expected a floating-point dtype";
    says(transform::vjp(std::slice::from_ref(&float), std::slice::from_ref(&float), &[int]), Dtype, text);
}

#[test]
fn a_float_of_rank_0_takes_the_other_dtype() {
    let (half, scalar) = (leaf(DType::F16, &[2]), f32s(&[]));
    assert_eq!(ops::add(&Lazy, &half, &scalar).unwrap().ty().dtype, DType::F16);
    assert_eq!(ops::sub(&Lazy, &scalar, &half).unwrap().ty().dtype, DType::F16);
    assert!(ops::add(&Lazy, &scalar, &leaf(DType::F16, &[])).is_err());
    assert!(ops::add(&Lazy, &scalar, &leaf(DType::I32, &[2])).is_err());
}

#[test]
fn what_only_a_run_can_see() {
    let table = HostTensor::from_f64(DType::F32, &[2, 1], &[1.0, 2.0]).unwrap();
    let run = |f: &dyn Fn(&Value, &Value) -> Value, data: &HostTensor, ids: HostTensor| {
        let (a, b) = (leaf_of(data), leaf_of(&ids));
        eval(&[f(&a, &b)], &[(a, data.clone()), (b, ids)])
    };
    let embedding = |a: &Value, b: &Value| ops::embedding(&Lazy, a, b).unwrap();
    let text = "embedding: the id 2 is out of range for 2 rows";
    says(run(&embedding, &table, ints(&[1], &[2])), ErrorKind::Execute, text);
    let loss = |a: &Value, b: &Value| {
        ops::cross_entropy(&Lazy, a, b, ops::Reduction::Sum, Some(-1), None, 0.0, -1).unwrap()
    };
    assert!(run(&loss, &table, ints(&[2], &[0, -1])).is_ok());
    assert_eq!(run(&loss, &table, ints(&[2], &[0, 1])).unwrap_err().kind, ErrorKind::Execute);
    let update = |a: &Value, b: &Value| ops::update_slice(&Lazy, a, a, b, 0).unwrap();
    let text = "update_slice: 2 elements from 1 leave axis 0 of size 2";
    says(run(&update, &table, ints(&[], &[1])), ErrorKind::Execute, text);
}
