//! Pointwise primitives: each output element depends on the same element of each operand.
//!
//! Operands have exactly one shape; broadcasting is an explicit movement before, made by the ops.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, expect_arity, expect_same_dtype, expect_shape};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, KernelExpr, StepId, UnaryOp};
use crate::layout::TensorType;

/// Functions of single elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Elementwise {
    Unary(UnaryOp),
    Binary(BinaryOp),
    /// `(condition: bool, then, otherwise)`.
    Select,
    /// Conversion to another dtype; float to integer truncates towards zero and saturates, NaN gives 0.
    Cast(DType),
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
            expect_shape(name, &format!("operand {i}"), other, &first.shape)?;
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
        Ok(smallvec![TensorType { dtype, shape: first.shape.clone() }])
    }

    fn vjp<B: Builder>(
        &self,
        _: &B,
        _: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Err(Error::unsupported(self.name(), "PENDING"))
    }

    fn jvp<B: Builder>(
        &self,
        _: &B,
        _: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Err(Error::unsupported(self.name(), "PENDING"))
    }

    fn batch<B: Builder>(&self, _: &B, _: usize, _: &[Batched<B::Value>]) -> Result<Vec<Batched<B::Value>>> {
        Err(Error::unsupported(self.name(), "PENDING"))
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
        UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sign | UnaryOp::Relu => dtype.is_float() || dtype.is_int(),
        _ => dtype.is_float(),
    };
    if !fits {
        let wanted = match op {
            UnaryOp::Not => "bool",
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
    } else if matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
        (!dtype.is_complex(), "a real dtype")
    } else {
        (dtype.is_float() || dtype.is_int(), "a number")
    };
    if !fits {
        return Err(Error::dtype(op.name(), format!("the operands are {dtype}, expected {wanted}")));
    }
    Ok(if op.is_comparison() { DType::Bool } else { dtype })
}
