//! Errors name the op, the operand and what would be right.

use lanthorn_interp::{HostTensor, Interp, eval};
use lanthorn_ir::transform::Tape;
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

/// A shape that depends on values is refused in a graph, by the op's name and with the way out.
#[test]
fn sizes_that_values_decide() {
    let (x, mask) = (f32s(&[3]), leaf(DType::Bool, &[3]));
    let hint = "its shape depends on values, which a graph does not know; give `size`, or call it on computed tensors";
    let refused = [
        ("nonzero", ops::nonzero(&Lazy, &x, None, -1).map(|v| vec![v])),
        ("masked_select", ops::masked_select(&Lazy, &x, &mask, None, 0.0).map(|v| vec![v])),
        ("unique", ops::unique(&Lazy, &x, None, None, 0.0)),
        ("unique_consecutive", ops::unique_consecutive(&Lazy, &x, None, None, 0.0)),
        ("bincount", ops::bincount(&Lazy, &leaf(DType::I64, &[3]), None, None).map(|v| vec![v])),
        ("repeat_counts", ops::repeat_counts(&Lazy, &x, &leaf(DType::I64, &[3]), 0, None).map(|v| vec![v])),
    ];
    for (name, result) in refused {
        says(result, ErrorKind::Unsupported, &format!("{name}: {hint}"));
    }
    assert_eq!(ops::nonzero(&Lazy, &x, Some(5), -1).unwrap().ty().shape[..], [5, 1]);
    // A tape over computed values knows them.
    let tape = Tape::new(Interp);
    let x = tape.watch(HostTensor::from_f64(DType::F64, &[4], &[1.0, 0.0, -2.0, 3.0]).unwrap());
    let kept = ops::gt_scalar(&tape, &x, 0.0).unwrap();
    let chosen = ops::masked_select(&tape, &x, &kept, None, 0.0).unwrap();
    let loss = ops::sum(&tape, &ops::square(&tape, &chosen).unwrap(), &[], false).unwrap();
    let grads = tape.grad(&loss, std::slice::from_ref(&x)).unwrap();
    assert_eq!(
        (chosen.value().to_f64(), grads[0].value().to_f64()),
        (vec![1.0, 3.0], vec![2.0, 0.0, 0.0, 6.0])
    );
}

#[test]
fn selection() {
    let (x, ids) = (f32s(&[2, 3]), leaf(DType::I64, &[3, 1]));
    says(
        ops::gather(&Lazy, &x, 1, &ids),
        ErrorKind::Shape,
        "gather: ids have shape [3, 1], expected the 2 axes of [2, 3], none but axis 1 larger",
    );
    says(
        ops::scatter(&Lazy, &x, 0, &leaf(DType::I64, &[2, 2]), &f32s(&[2, 1])),
        ErrorKind::Shape,
        "scatter: the source is f32[2, 1], expected at least the ids' [2, 2]",
    );
    says(
        ops::index(&Lazy, &x, &[leaf(DType::I64, &[2])], &[0, 1]),
        ErrorKind::Shape,
        "index: axes [0, 1] are not one axis for each of 1 index tensors",
    );
    says(
        ops::topk(&Lazy, &x, 4, 1, true, true),
        ErrorKind::Shape,
        "topk: k is 4 but axis 1 of [2, 3] is shorter",
    );
    says(
        ops::median(&Lazy, &f32s(&[2, 0]), Some(1), false),
        ErrorKind::Shape,
        "median: axis 1 of [2, 0] holds no element to choose",
    );
    says(
        ops::cumsum(&Lazy, &f32s(&[]), 0),
        ErrorKind::Shape,
        "cumsum: axis 0 is out of range for rank 0, which has no axes",
    );
    let at = |places: &[i64]| HostTensor::from_i64(DType::I64, &[places.len()], places).unwrap();
    let x = HostTensor::from_f64(DType::F32, &[3], &[1.0, 2.0, 3.0]).unwrap();
    says(
        ops::gather(&Interp, &x, 0, &at(&[-1])),
        ErrorKind::Execute,
        "gather: the id -1 is out of range for 3 rows",
    );
    says(
        ops::scatter_add(&Interp, &x, 0, &at(&[3]), &x_part(&x)),
        ErrorKind::Execute,
        "scatter_add: the id 3 is out of range for 3 rows",
    );
    assert_eq!(ops::take(&Interp, &x, &at(&[-1, 0])).unwrap().to_f64(), [3.0, 1.0]);
    assert!(ops::take(&Interp, &x, &at(&[-4])).is_err());
}

/// The first element.
fn x_part(x: &HostTensor) -> HostTensor {
    ops::narrow(&Interp, x, 0, 0, 1).unwrap()
}
