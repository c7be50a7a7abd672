//! Constants, and what is the same for many elements: computed once.

use lanthorn_ir::expr::{BinaryOp, Scalar, UnaryOp};
use lanthorn_ir::prim::{Elementwise, Movement};
use lanthorn_ir::{DType, Prim};
use smallvec::SmallVec;

use super::{Rewriter, Rule};
use crate::indexed::{IndexedNode, ValueRef};

pub(super) const RULES: &[Rule] = &[
    Rule { name: "constant", rewrite: constant },
    Rule { name: "before_broadcast", rewrite: before_broadcast },
    Rule { name: "moved_constant", rewrite: moved_constant },
];

/// Arithmetic on constants, rounded as the kernel would round it: 53 bits are enough for one operation on
/// 24 bits, whatever the dtype's own precision.
fn constant(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let Prim::Elementwise(op) = &node.prim else { return None };
    let operands: SmallVec<[Scalar; 3]> = node.inputs.iter().map(|&v| r.splat(v)).collect::<Option<_>>()?;
    let from = r.ty(node.inputs[0]).dtype;
    let ty = &node.types[0];
    let value = match (op, &operands[..]) {
        (Elementwise::Cast(to), &[x]) => cast(x, from, *to)?,
        (Elementwise::Unary(op), &[x]) => unary(*op, x, from)?,
        (Elementwise::Binary(op), &[x, y]) => binary(*op, x, y, from)?,
        _ => return None,
    };
    r.constant(value, ty.dtype, &ty.shape)
}

/// The number that a kernel computes with.
fn wide(x: f64, dtype: DType) -> Option<f64> {
    match dtype.wide() {
        DType::F32 => Some(x as f32 as f64),
        DType::F64 => Some(x),
        _ => None,
    }
}

fn cast(x: Scalar, from: DType, to: DType) -> Option<Scalar> {
    match (from, to) {
        (from, to) if from.is_float() && to.is_float() => {
            Some(Scalar::float(to.round(wide(x.as_f64(), from)?)))
        }
        (DType::Bool | DType::I32, DType::F32 | DType::F64 | DType::BF16 | DType::F16) => {
            Some(Scalar::float(x.as_i64() as f64))
        }
        (DType::Bool, DType::I32 | DType::I64) => Some(Scalar::Int(x.as_i64())),
        (DType::I32, DType::I64) => Some(Scalar::Int(x.as_i64())),
        _ => None,
    }
}

fn unary(op: UnaryOp, x: Scalar, dtype: DType) -> Option<Scalar> {
    if dtype == DType::Bool {
        return (op == UnaryOp::Not).then_some(Scalar::Bool(x.as_i64() == 0));
    }
    let x = wide(x.as_f64(), dtype)?;
    let value = match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Recip => 1.0 / x,
        _ => return None,
    };
    Some(Scalar::float(wide(value, dtype)?))
}

fn binary(op: BinaryOp, x: Scalar, y: Scalar, dtype: DType) -> Option<Scalar> {
    if matches!(dtype, DType::I32 | DType::I64) {
        let (x, y) = (x.as_i64(), y.as_i64());
        let value = match op {
            BinaryOp::Add => x.checked_add(y)?,
            BinaryOp::Sub => x.checked_sub(y)?,
            BinaryOp::Mul => x.checked_mul(y)?,
            BinaryOp::Lt => return Some(Scalar::Bool(x < y)),
            BinaryOp::Le => return Some(Scalar::Bool(x <= y)),
            BinaryOp::Gt => return Some(Scalar::Bool(x > y)),
            BinaryOp::Ge => return Some(Scalar::Bool(x >= y)),
            BinaryOp::Eq => return Some(Scalar::Bool(x == y)),
            BinaryOp::Ne => return Some(Scalar::Bool(x != y)),
            _ => return None,
        };
        let fits = dtype == DType::I64 || i32::try_from(value).is_ok();
        return fits.then_some(Scalar::Int(value));
    }
    let (x, y) = (wide(x.as_f64(), dtype)?, wide(y.as_f64(), dtype)?);
    let value = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Lt => return Some(Scalar::Bool(x < y)),
        BinaryOp::Le => return Some(Scalar::Bool(x <= y)),
        BinaryOp::Gt => return Some(Scalar::Bool(x > y)),
        BinaryOp::Ge => return Some(Scalar::Bool(x >= y)),
        BinaryOp::Eq => return Some(Scalar::Bool(x == y)),
        BinaryOp::Ne => return Some(Scalar::Bool(x != y)),
        _ => return None,
    };
    Some(Scalar::float(wide(value, dtype)?))
}

/// A pointwise op of values that are all broadcast from one shape is computed in that shape.
fn before_broadcast(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let Prim::Elementwise(_) = &node.prim else { return None };
    let mut inner = None;
    for &operand in &node.inputs {
        if r.splat(operand).is_some() {
            continue;
        }
        let (Movement::Broadcast { .. }, &[source]) = r.movement(operand)? else { return None };
        let shape = &r.ty(source).shape;
        if inner.as_ref().is_some_and(|inner| inner != shape) {
            return None;
        }
        inner = Some(shape.clone());
    }
    let inner = inner?;
    let mut operands: SmallVec<[ValueRef; 3]> = SmallVec::new();
    for &operand in &node.inputs {
        let small = match r.splat(operand) {
            Some(value) => r.constant(value, r.ty(operand).dtype, &inner)?,
            None => *r.def(operand).1.first()?,
        };
        operands.push(small);
    }
    let small = r.apply(node.prim.clone(), &operands)?;
    r.move_by(Movement::Broadcast { shape: node.types[0].shape.clone() }, small)
}

/// Any movement of equal elements that adds no others.
fn moved_constant(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let Prim::Movement(movement) = &node.prim else { return None };
    if let (Movement::Broadcast { .. }, Prim::Source(_)) = (movement, r.def(*node.inputs.first()?).0) {
        return None;
    }
    let value = r.splat(*node.inputs.first()?)?;
    let same = |other: &ValueRef| r.splat(*other) == Some(value);
    let keeps = match movement {
        Movement::Pad { .. } => value.as_f64() == 0.0 && value.as_f64().is_sign_positive(),
        _ => node.inputs.iter().all(same),
    };
    let ty = &node.types[0];
    if keeps { r.constant(value, ty.dtype, &ty.shape) } else { None }
}
