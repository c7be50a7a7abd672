//! Identities of pointwise ops and reductions.

use lanthorn_ir::expr::{BinaryOp, Scalar, UnaryOp};
use lanthorn_ir::prim::{Elementwise, Reduce};
use lanthorn_ir::{DType, Prim};

use super::{Rewriter, Rule};
use crate::indexed::{IndexedNode, ValueRef};

pub(super) const RULES: &[Rule] = &[
    Rule { name: "neutral_operand", rewrite: neutral_operand },
    Rule { name: "power", rewrite: power },
    Rule { name: "equal_operands", rewrite: equal_operands },
    Rule { name: "unary_of_unary", rewrite: unary_of_unary },
    Rule { name: "cast", rewrite: cast },
    Rule { name: "select", rewrite: select },
    Rule { name: "fold_of_nothing", rewrite: fold_of_nothing },
    Rule { name: "fold_of_fold", rewrite: fold_of_fold },
];

fn binary(node: &IndexedNode) -> Option<(BinaryOp, ValueRef, ValueRef)> {
    match (&node.prim, &node.inputs[..]) {
        (Prim::Elementwise(Elementwise::Binary(op)), &[x, y]) => Some((*op, x, y)),
        _ => None,
    }
}

/// Whether the scalar is exactly this number; zeros are told apart by sign for floats.
fn is(scalar: Option<Scalar>, number: f64, dtype: DType) -> bool {
    match scalar {
        Some(scalar) if dtype.is_float() => scalar.as_f64().to_bits() == number.to_bits(),
        Some(scalar) => scalar.as_f64() == number,
        None => false,
    }
}

/// `x * 1`, `x / 1`, `x - 0`, `x + -0.0`, `x && true`, `x || false`. For floats `x + 0.0` stays, for it turns
/// `-0.0` into `0.0`; `x * 0` stays because of NaN and infinities.
fn neutral_operand(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (op, x, y) = binary(node)?;
    let dtype = r.ty(x).dtype;
    let (left, right) = (r.splat(x), r.splat(y));
    let zero = if dtype.is_float() { -0.0 } else { 0.0 };
    let (neutral, commutes) = match op {
        BinaryOp::Mul | BinaryOp::And => (1.0, true),
        BinaryOp::Div => (1.0, false),
        BinaryOp::Add => (zero, true),
        BinaryOp::Or => (0.0, true),
        BinaryOp::Sub => (0.0, false),
        _ => return None,
    };
    if is(right, neutral, dtype) {
        return Some(x);
    }
    (commutes && is(left, neutral, dtype)).then_some(y)
}

/// `x^1`, `x^2`, `x^-1`.
fn power(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (BinaryOp::Pow, x, y) = binary(node)? else { return None };
    let exponent = r.splat(y)?.as_f64();
    if exponent == 1.0 {
        return Some(x);
    }
    if exponent == 2.0 {
        return r.apply(Prim::Elementwise(Elementwise::Binary(BinaryOp::Mul)), &[x, x]);
    }
    if exponent == -1.0 && r.ty(x).dtype.is_float() {
        return r.apply(Prim::Elementwise(Elementwise::Unary(UnaryOp::Recip)), &[x]);
    }
    None
}

/// `max(x, x)`, `min(x, x)`, `x && x`, `x || x`.
fn equal_operands(_: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (op, x, y) = binary(node)?;
    let idempotent = matches!(op, BinaryOp::Max | BinaryOp::Min | BinaryOp::And | BinaryOp::Or);
    (idempotent && x == y).then_some(x)
}

/// `--x`, `!!x`, `|-x|`, `||x||`, `relu(relu(x))`.
fn unary_of_unary(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Prim::Elementwise(Elementwise::Unary(outer)), &[x]) = (&node.prim, &node.inputs[..]) else {
        return None;
    };
    let (Prim::Elementwise(Elementwise::Unary(inner)), &[operand]) = r.def(x) else { return None };
    match (*outer, *inner) {
        (UnaryOp::Neg, UnaryOp::Neg) | (UnaryOp::Not, UnaryOp::Not) => Some(operand),
        (UnaryOp::Abs, UnaryOp::Abs) | (UnaryOp::Relu, UnaryOp::Relu) => Some(x),
        // An unsigned number has no sign to drop: its negation is another number.
        (UnaryOp::Abs, UnaryOp::Neg) if !is_unsigned(r.ty(operand).dtype) => {
            r.apply(node.prim.clone(), &[operand])
        }
        _ => None,
    }
}

fn is_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64)
}

/// A cast to the same dtype, and a cast of a cast that lost nothing.
fn cast(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Prim::Elementwise(Elementwise::Cast(to)), &[x]) = (&node.prim, &node.inputs[..]) else {
        return None;
    };
    let middle = r.ty(x).dtype;
    if middle == *to {
        return Some(x);
    }
    let (Prim::Elementwise(Elementwise::Cast(_)), &[operand]) = r.def(x) else { return None };
    let from = r.ty(operand).dtype;
    match holds_all(middle, from) {
        true => r.apply(node.prim.clone(), &[operand]),
        false => None,
    }
}

/// Whether every value of `from` is one of `to`.
fn holds_all(to: DType, from: DType) -> bool {
    let bits = |dtype: DType| dtype.size() * 8;
    match (from, to) {
        (DType::Bool, _) => !to.is_complex(),
        (DType::F8E4M3 | DType::F8E5M2, DType::F16 | DType::BF16 | DType::F32 | DType::F64) => true,
        (DType::F16 | DType::BF16, DType::F32 | DType::F64) | (DType::F32, DType::F64) => true,
        (DType::I8 | DType::U8 | DType::I16 | DType::U16, DType::F32 | DType::F64)
        | (DType::I32 | DType::U32, DType::F64) => true,
        (DType::I8 | DType::I16 | DType::I32, DType::I16 | DType::I32 | DType::I64) => bits(to) >= bits(from),
        (DType::U8 | DType::U16 | DType::U32, to) if to.is_int() => bits(to) > bits(from),
        _ => false,
    }
}

/// A choice between equal arms, or by a constant.
fn select(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Prim::Elementwise(Elementwise::Select), &[condition, x, y]) = (&node.prim, &node.inputs[..]) else {
        return None;
    };
    if x == y {
        return Some(x);
    }
    let condition = r.splat(condition)?.as_i64() != 0;
    Some(if condition { x } else { y })
}

/// A fold over axes of size 1.
fn fold_of_nothing(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Prim::Reduce(Reduce::Fold { axes, .. }), &[x]) = (&node.prim, &node.inputs[..]) else {
        return None;
    };
    axes.iter().all(|&axis| r.ty(x).shape[axis] == 1).then_some(x)
}

/// A fold of a fold by the same op: one fold over the axes of both.
fn fold_of_fold(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Prim::Reduce(Reduce::Fold { op, axes }), &[x]) = (&node.prim, &node.inputs[..]) else {
        return None;
    };
    let (Prim::Reduce(Reduce::Fold { op: inner, axes: inner_axes }), &[operand]) = r.def(x) else {
        return None;
    };
    if op != inner {
        return None;
    }
    let mut all = axes.clone();
    all.extend_from_slice(inner_axes);
    all.sort_unstable();
    all.dedup();
    r.apply(Prim::Reduce(Reduce::Fold { op: *op, axes: all }), &[operand])
}
