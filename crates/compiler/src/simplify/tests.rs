//! Each rule: what fires, what it leaves, and that the results stay.

use lanthorn_ir::expr::{BinaryOp, Scalar, UnaryOp};
use lanthorn_ir::prim::{Control, Elementwise, Movement, Random, Reduce, ReduceOp};
use lanthorn_ir::{DType, Dims, Lazy, Prim, TensorType, Value, ops};

use super::simplify;
use crate::testing::{apply, check, indexed, leaf};

/// The primitives that are left, leaves and constants aside.
fn left(parameters: &[Value], root: &Value) -> (Vec<&'static str>, Vec<&'static str>) {
    let (simple, fired) = simplify(indexed(parameters, std::slice::from_ref(root)));
    let names = simple.nodes.iter().map(|node| node.prim.name());
    (names.filter(|name| !["leaf", "const"].contains(name)).collect(), fired.iter().map(|f| f.0).collect())
}

/// Checks what is left of a graph over `parameters`, that `rule` did it, and the results.
fn expect(rule: &str, parameters: &[&Value], root: Value, names: &[&str]) {
    let parameters: Vec<Value> = parameters.iter().map(|&p| p.clone()).collect();
    let (found, fired) = left(&parameters, &root);
    assert_eq!(found, names, "{fired:?}");
    assert!(fired.contains(&rule) || names.len() > 1 && rule.is_empty(), "{rule} did not fire: {fired:?}");
    check(&parameters, &[root]);
}

fn untouched(parameters: &[&Value], root: Value) {
    let parameters: Vec<Value> = parameters.iter().map(|&p| p.clone()).collect();
    let before = indexed(&parameters, std::slice::from_ref(&root));
    let (after, fired) = simplify(before.clone());
    assert_eq!(after, before.prune(), "{fired:?}");
}

fn full(value: f64, like: &Value) -> Value {
    let scalar = Value::constant(Scalar::float(value), like.ty().dtype).unwrap();
    apply(Prim::Movement(Movement::Broadcast { shape: like.ty().shape.clone() }), &[&scalar])
}

fn binary(op: BinaryOp, x: &Value, y: &Value) -> Value {
    apply(Prim::Elementwise(Elementwise::Binary(op)), &[x, y])
}

fn unary(op: UnaryOp, x: &Value) -> Value {
    apply(Prim::Elementwise(Elementwise::Unary(op)), &[x])
}

fn moved(movement: Movement, x: &Value) -> Value {
    apply(Prim::Movement(movement), &[x])
}

fn dims(sizes: &[usize]) -> Dims {
    Dims::from_slice(sizes)
}

#[test]
fn neutral_operands_vanish_only_where_that_is_exact() {
    let x = leaf(&[2, 3]);
    for (op, neutral) in
        [(BinaryOp::Mul, 1.0), (BinaryOp::Div, 1.0), (BinaryOp::Sub, 0.0), (BinaryOp::Add, -0.0)]
    {
        expect("neutral_operand", &[&x], unary(UnaryOp::Exp, &binary(op, &x, &full(neutral, &x))), &["exp"]);
    }
    expect(
        "neutral_operand",
        &[&x],
        unary(UnaryOp::Exp, &binary(BinaryOp::Mul, &full(1.0, &x), &x)),
        &["exp"],
    );
    untouched(&[&x], binary(BinaryOp::Add, &x, &full(0.0, &x)));
    untouched(&[&x], binary(BinaryOp::Sub, &x, &full(-0.0, &x)));
    untouched(&[&x], binary(BinaryOp::Mul, &x, &full(0.0, &x)));
    untouched(&[&x], binary(BinaryOp::Div, &full(1.0, &x), &x));
}

#[test]
fn small_powers_are_products() {
    let x = leaf(&[4]);
    let exp = |power: f64| unary(UnaryOp::Exp, &binary(BinaryOp::Pow, &x, &full(power, &x)));
    expect("power", &[&x], exp(1.0), &["exp"]);
    expect("power", &[&x], exp(2.0), &["mul", "exp"]);
    expect("power", &[&x], exp(-1.0), &["reciprocal", "exp"]);
    untouched(&[&x], exp(0.5));
}

#[test]
fn unary_pairs_cancel() {
    let x = leaf(&[4]);
    let twice = |outer: UnaryOp, inner: UnaryOp| unary(UnaryOp::Exp, &unary(outer, &unary(inner, &x)));
    expect("unary_of_unary", &[&x], twice(UnaryOp::Neg, UnaryOp::Neg), &["exp"]);
    expect("unary_of_unary", &[&x], twice(UnaryOp::Relu, UnaryOp::Relu), &["relu", "exp"]);
    expect("unary_of_unary", &[&x], twice(UnaryOp::Abs, UnaryOp::Neg), &["abs", "exp"]);
    untouched(&[&x], twice(UnaryOp::Exp, UnaryOp::Neg));
    let bytes = Value::leaf(TensorType::new(DType::U8, [4])).unwrap();
    untouched(&[&bytes], unary(UnaryOp::Abs, &unary(UnaryOp::Neg, &bytes)));
    let same = unary(UnaryOp::Exp, &binary(BinaryOp::Max, &x, &x));
    expect("equal_operands", &[&x], same, &["exp"]);
}

#[test]
fn casts_that_lose_nothing_vanish() {
    let half = Value::leaf(TensorType::new(DType::F16, [3])).unwrap();
    let cast = |x: &Value, to: DType| apply(Prim::Elementwise(Elementwise::Cast(to)), &[x]);
    let there_and_back = unary(UnaryOp::Tanh, &cast(&cast(&half, DType::F32), DType::F16));
    expect("cast", &[&half], there_and_back, &["tanh"]);
    let x = leaf(&[3]);
    untouched(&[&x], unary(UnaryOp::Tanh, &cast(&cast(&x, DType::F16), DType::F32)));
}

#[test]
fn a_choice_between_equals_is_no_choice() {
    let x = leaf(&[3]);
    let condition = binary(BinaryOp::Lt, &x, &full(0.0, &x));
    let y = unary(UnaryOp::Exp, &x);
    let select = apply(Prim::Elementwise(Elementwise::Select), &[&condition, &y, &y]);
    expect("select", &[&x], select, &["exp"]);
}

#[test]
fn folds_merge_and_vanish() {
    let x = leaf(&[2, 1, 3]);
    let fold = |x: &Value, axes: &[usize]| {
        apply(Prim::Reduce(Reduce::Fold { op: ReduceOp::Sum, axes: dims(axes) }), &[x])
    };
    expect("fold_of_nothing", &[&x], unary(UnaryOp::Exp, &fold(&x, &[1])), &["exp"]);
    expect("fold_of_fold", &[&x], fold(&fold(&x, &[0]), &[2]), &["sum"]);
}

#[test]
fn constants_are_computed_at_once() {
    let x = leaf(&[3]);
    let sum = binary(BinaryOp::Add, &full(0.5, &x), &full(2.0, &x));
    let root = binary(BinaryOp::Mul, &x, &unary(UnaryOp::Sqrt, &sum));
    expect("constant", &[&x], root, &["broadcast_to", "mul"]);
}

#[test]
fn what_is_broadcast_is_computed_before() {
    let (x, lr) = (leaf(&[3, 4]), Value::leaf(TensorType::scalar(DType::F32)).unwrap());
    let wide = |v: &Value| moved(Movement::Broadcast { shape: dims(&[3, 4]) }, v);
    let scaled = binary(BinaryOp::Mul, &wide(&lr), &full(0.5, &x));
    expect(
        "before_broadcast",
        &[&x, &lr],
        binary(BinaryOp::Add, &x, &scaled),
        &["mul", "broadcast_to", "add"],
    );
    let (simple, _) = simplify(indexed(&[x.clone(), lr.clone()], &[binary(BinaryOp::Add, &x, &scaled)]));
    let product = simple.nodes.iter().find(|node| node.prim.name() == "mul").unwrap();
    assert_eq!(product.types[0].rank(), 0);
}

#[test]
fn movements_of_movements_are_one() {
    let x = leaf(&[2, 3, 4]);
    let exp = |v: &Value| unary(UnaryOp::Exp, v);
    let permute = |v: &Value, axes: &[usize]| moved(Movement::Permute { axes: dims(axes) }, v);
    let reshape = |v: &Value, shape: &[usize]| moved(Movement::Reshape { shape: dims(shape) }, v);
    let flip = |v: &Value, axes: &[usize]| moved(Movement::Flip { axes: dims(axes) }, v);
    let broadcast = |v: &Value, shape: &[usize]| moved(Movement::Broadcast { shape: dims(shape) }, v);
    expect("permute", &[&x], exp(&permute(&permute(&x, &[1, 2, 0]), &[2, 0, 1])), &["exp"]);
    expect("reshape", &[&x], exp(&reshape(&reshape(&x, &[6, 4]), &[2, 3, 4])), &["exp"]);
    expect("flip", &[&x], exp(&flip(&flip(&x, &[0, 1]), &[1, 2])), &["flip", "exp"]);
    let one = leaf(&[1, 4]);
    let twice = broadcast(&broadcast(&one, &[3, 4]), &[2, 3, 4]);
    expect("broadcast", &[&one], exp(&twice), &["exp", "broadcast_to"]);
    let slice = |v: &Value, starts: &[usize], stops: &[usize], steps: &[usize]| {
        moved(Movement::Slice { starts: dims(starts), stops: dims(stops), steps: dims(steps) }, v)
    };
    let inner = slice(&x, &[0, 1, 0], &[2, 3, 4], &[1, 1, 2]);
    let outer = slice(&inner, &[1, 0, 1], &[2, 2, 2], &[1, 1, 1]);
    expect("slice_of_slice", &[&x], exp(&outer), &["slice", "exp"]);
    // A permutation of axes of size 1 moves nothing.
    let flat = leaf(&[1, 5]);
    expect("permute", &[&flat], exp(&permute(&flat, &[1, 0])), &["reshape", "exp"]);
}

#[test]
fn parts_that_were_split_are_whole_again() {
    let x = leaf(&[2, 6]);
    let parts = ops::chunk(&Lazy, &x, 3, 1).unwrap();
    let whole = ops::concat(&Lazy, &parts, 1).unwrap();
    expect("concat", &[&x], unary(UnaryOp::Exp, &whole), &["exp"]);
    let (a, b) = (leaf(&[2, 2]), leaf(&[2, 3]));
    let both = ops::concat(&Lazy, &[a.clone(), b.clone()], 1).unwrap();
    let second = ops::slice(&Lazy, &both, 1, 2, None, 1).unwrap();
    expect("slice_of_concat", &[&a, &b], unary(UnaryOp::Exp, &second), &["exp"]);
}

/// The cotangent of `x[.., start..stop]` for `x` of width `width`.
fn padded(part: &Value, start: usize, width: usize) -> Value {
    let size = part.ty().shape[1];
    let (low, high) = (dims(&[0, start]), dims(&[0, width - start - size]));
    moved(Movement::Pad { low, high, interior: dims(&[0, 0]) }, part)
}

#[test]
fn the_backward_of_a_split_is_one_concatenation() {
    let parts: Vec<Value> = [2, 3, 4].iter().map(|&width| leaf(&[2, width])).collect();
    let (a, b, c) = (padded(&parts[0], 0, 9), padded(&parts[1], 2, 9), padded(&parts[2], 5, 9));
    let all: Vec<&Value> = parts.iter().collect();
    for [x, y, z] in [[&a, &b, &c], [&c, &b, &a], [&a, &c, &b], [&b, &a, &c]] {
        let sum = binary(BinaryOp::Add, &binary(BinaryOp::Add, x, y), z);
        expect("sum_of_pads", &all, sum, &["concat"]);
    }
    // Fewer parts leave zeros around them.
    expect("sum_of_pads", &all, binary(BinaryOp::Add, &b, &c), &["concat", "pad"]);
    // Parts that overlap are added.
    untouched(&[&parts[0]], binary(BinaryOp::Add, &a, &padded(&parts[0], 1, 9)));
}

#[test]
fn equal_nodes_are_one_but_not_across_barriers_or_streams() {
    let x = leaf(&[3]);
    let twice = binary(BinaryOp::Mul, &unary(UnaryOp::Exp, &x), &unary(UnaryOp::Exp, &x));
    expect("common_subexpression", &[&x], twice, &["exp", "mul"]);
    let held = apply(Prim::Control(Control::Barrier), &[&x, &unary(UnaryOp::Neg, &x)]);
    untouched(&[&x], binary(BinaryOp::Mul, &unary(UnaryOp::Exp, &x), &unary(UnaryOp::Exp, &held)));

    let key = Value::leaf(TensorType::new(DType::U64, [2])).unwrap();
    let uniform = |stream: u64| apply(Prim::Random(Random::Uniform { shape: dims(&[3]), stream }), &[&key]);
    let count = |a: u64, b: u64| {
        let root = binary(BinaryOp::Add, &uniform(a), &uniform(b));
        left(std::slice::from_ref(&key), &root).0.iter().filter(|&&name| name == "uniform").count()
    };
    assert_eq!((count(1, 1), count(1, 2)), (1, 2));
}

#[test]
fn a_product_that_is_only_read_transposed_is_computed_transposed() {
    let (x, dy, w) = (leaf(&[5, 3]), leaf(&[5, 4]), leaf(&[4, 3]));
    let turned = ops::transpose(&Lazy, &x, 0, 1).unwrap();
    let product = ops::matmul(&Lazy, &turned, &dy).unwrap();
    let grad = ops::transpose(&Lazy, &product, 0, 1).unwrap();
    let updated = ops::sub(&Lazy, &w, &grad).unwrap();
    expect("transposed_product", &[&x, &dy, &w], updated, &["permute", "matmul", "sub"]);
    untouched(&[&x, &dy], ops::matmul(&Lazy, &product, &grad).unwrap());
}
