//! Pointwise primitives: each output element depends on the same element of each operand.
//!
//! Operands have exactly one shape; broadcasting is an explicit movement before, made by the ops.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Optional, Prim, Rules, Types, derivative, derived, expect_arity, expect_same_dtype,
    expect_shape,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, KernelExpr, StepId, UnaryOp};
use crate::layout::TensorType;
use crate::ops;

/// Functions of single elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Elementwise {
    Unary(UnaryOp),
    Binary(BinaryOp),
    /// `(condition: bool, then, otherwise)`.
    Select,
    /// Conversion to another dtype. A float becomes the integer towards zero, the nearest one of the dtype where out
    /// of range, 0 for NaN; an integer wraps to an integer; a float rounds to nearest even, to the dtypes narrower than
    /// f32 by way of f32; anything but 0 (NaN too) is a true `bool`.
    Cast(DType),
}

impl Elementwise {
    /// The type of the result for operands of one type in which functions compute; `None` leaves everything else,
    /// errors too, to [`Prim::infer`].
    #[inline]
    pub(crate) fn plain(&self, inputs: &[&TensorType]) -> Option<TensorType> {
        let (dtype, x) = match (*self, inputs) {
            (Elementwise::Unary(op), [x]) => (unary_dtype(op, x.dtype), x),
            (Elementwise::Binary(op), [x, y]) if x == y => (binary_dtype(op, x.dtype), x),
            _ => return None,
        };
        if x.dtype.is_f8() || x.dtype.is_complex() {
            return None;
        }
        Some(TensorType { dtype: dtype.ok()?, ..TensorType::clone(x) })
    }
}

impl Rules for Elementwise {
    fn name(&self) -> &'static str {
        match self {
            Elementwise::Unary(op) => op.name(),
            Elementwise::Binary(op) => op.name(),
            Elementwise::Select => "where",
            Elementwise::Cast(_) => "cast",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        let arity = match self {
            Elementwise::Unary(_) | Elementwise::Cast(_) => 1,
            Elementwise::Binary(_) => 2,
            Elementwise::Select => 3,
        };
        expect_arity(name, inputs, arity)?;
        let first = inputs[0];
        for (i, other) in inputs.iter().enumerate().skip(1) {
            // The name of the operand is made only for an error: this runs for every op that is built.
            if other.shape != first.shape {
                expect_shape(name, &format!("operand {i}"), other, &first.shape)?;
            }
        }
        let dtype = match self {
            Elementwise::Unary(op) => unary_dtype(*op, first.dtype)?,
            Elementwise::Binary(op) => {
                expect_same_dtype(name, first, "the second operand", inputs[1])?;
                binary_dtype(*op, first.dtype)?
            }
            Elementwise::Select => {
                if first.dtype != DType::Bool {
                    return Err(Error::dtype(
                        name,
                        format!("the condition is {}, expected bool", first.dtype),
                    ));
                }
                expect_same_dtype(name, inputs[1], "the third operand", inputs[2])?;
                inputs[1].dtype
            }
            Elementwise::Cast(to) => {
                if to.is_complex() || first.dtype.is_complex() {
                    return Err(Error::dtype(name, format!("no cast from {} to {to}", first.dtype)));
                }
                *to
            }
        };
        Ok(smallvec![TensorType { dtype, ..first.clone() }])
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
        Ok(match *self {
            Elementwise::Unary(op) => vec![derivative::unary(b, op, &at.inputs[0], &at.outputs[0], t)?],
            Elementwise::Binary(op) => {
                let mut found = at.no_cotangents();
                for (operand, slot) in found.iter_mut().enumerate() {
                    if at.wants(operand) {
                        *slot = derivative::binary(b, op, operand, at.inputs, &at.outputs[0], t)?;
                    }
                }
                found
            }
            Elementwise::Select => {
                let zero = ops::scalar(b, 0i64, b.ty(t).dtype)?;
                let mut found = at.no_cotangents();
                if at.wants(1) {
                    found[1] = Some(ops::where_(b, &at.inputs[0], t, &zero)?);
                }
                if at.wants(2) {
                    found[2] = Some(ops::where_(b, &at.inputs[0], &zero, t)?);
                }
                found
            }
            Elementwise::Cast(to) => {
                let from = b.ty(&at.inputs[0]).dtype;
                let differentiable = from.is_float() && to.is_float();
                vec![if differentiable { Some(ops::cast(b, t, from)?) } else { None }]
            }
        })
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Ok(vec![match *self {
            Elementwise::Unary(op) => match &tangents[0] {
                Some(t) => derivative::unary(b, op, &at.inputs[0], &at.outputs[0], t)?,
                None => None,
            },
            Elementwise::Binary(op) => {
                let mut total = None;
                for (operand, tangent) in tangents.iter().enumerate() {
                    if let Some(t) = tangent {
                        let term = derivative::binary(b, op, operand, at.inputs, &at.outputs[0], t)?;
                        total = derived::add_optional(b, total, term)?;
                    }
                }
                total
            }
            Elementwise::Select => match (&tangents[1], &tangents[2]) {
                (None, None) => None,
                (x, y) => {
                    let zero = ops::scalar(b, 0i64, b.ty(&at.outputs[0]).dtype)?;
                    let (x, y) = (x.as_ref().unwrap_or(&zero), y.as_ref().unwrap_or(&zero));
                    Some(ops::where_(b, &at.inputs[0], x, y)?)
                }
            },
            Elementwise::Cast(to) => match &tangents[0] {
                Some(t) if to.is_float() => Some(ops::cast(b, t, to)?),
                _ => None,
            },
        }])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let operands = derived::all_mapped(b, size, inputs)?;
        Ok(derived::with_axis(b.apply(Prim::Elementwise(*self), &operands)?))
    }

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, expr: &mut KernelExpr, _: &[&TensorType], args: &[StepId]) -> Option<Vec<StepId>> {
        Some(vec![match *self {
            Elementwise::Unary(op) => expr.unary(op, args[0]),
            Elementwise::Binary(op) => expr.binary(op, args[0], args[1]),
            Elementwise::Select => expr.select(args[0], args[1], args[2]),
            Elementwise::Cast(to) => expr.cast(args[0], to),
        }])
    }
}

fn unary_dtype(op: UnaryOp, dtype: DType) -> Result<DType> {
    let fits = match op {
        UnaryOp::Not => dtype == DType::Bool,
        UnaryOp::BitNot => dtype.is_int(),
        UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sign | UnaryOp::Relu => dtype.is_float() || dtype.is_int(),
        _ => dtype.is_float(),
    };
    if !fits {
        let wanted = match op {
            UnaryOp::Not => "bool",
            UnaryOp::BitNot => "an integer dtype",
            _ if op.takes_ints() => "a number",
            _ => "a floating-point dtype",
        };
        return Err(Error::dtype(op.name(), format!("the operand is {dtype}, expected {wanted}")));
    }
    Ok(if op == UnaryOp::IsFinite { DType::Bool } else { dtype })
}

fn binary_dtype(op: BinaryOp, dtype: DType) -> Result<DType> {
    let (fits, wanted) = if op.is_logical() {
        (dtype == DType::Bool, "bool")
    } else if op.is_bitwise() {
        (dtype.is_int(), "an integer dtype")
    } else if op.is_of_floats() {
        (dtype.is_float(), "a floating-point dtype")
    } else if op.is_comparison() || matches!(op, BinaryOp::Max | BinaryOp::Min) {
        (!dtype.is_complex(), "a real dtype")
    } else {
        (dtype.is_float() || dtype.is_int(), "a number")
    };
    if !fits {
        return Err(Error::dtype(op.name(), format!("the operands are {dtype}, expected {wanted}")));
    }
    Ok(if op.is_comparison() { DType::Bool } else { dtype })
}
