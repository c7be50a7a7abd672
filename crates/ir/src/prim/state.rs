//! State: updates of what lives longer than one call. The memory plan runs them in place where it can.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Optional, Prim, Rules, Types, expect_arity, expect_float, expect_same_dtype,
    expect_shape,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, F64, KernelExpr, Scalar, StepId, UnaryOp};
use crate::layout::{ShowShape, TensorType};

/// Updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// `(base, source, start: i64[]) -> base` with `source` written over `start..` along `axis`. A range
    /// that leaves the base is an error when the op runs.
    UpdateSlice { axis: usize },
    /// One AdamW step, pointwise: `(p, g, m, v, lr, bias1, bias2) -> (p', m', v')`, all of one shape (scalars
    /// are broadcast), where `bias_i = 1 - beta_i^t`:
    /// `m' = beta1 m + (1 - beta1) g`, `v' = beta2 v + (1 - beta2) g^2`,
    /// `p' = p (1 - lr wd) - lr (m' / bias1) / (sqrt(v' / bias2) + eps)`
    /// (Loshchilov and Hutter 2019, algorithm 2, as in torch).
    AdamW { beta1: F64, beta2: F64, eps: F64, weight_decay: F64 },
}

impl Rules for State {
    fn name(&self) -> &'static str {
        match self {
            State::UpdateSlice { .. } => "update_slice",
            State::AdamW { .. } => "adamw",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        match self {
            State::UpdateSlice { axis } => {
                expect_arity(name, inputs, 3)?;
                let (base, source, start) = (inputs[0], inputs[1], inputs[2]);
                expect_same_dtype(name, base, "the source", source)?;
                if start.rank() != 0 || !start.dtype.is_int() {
                    return Err(Error::shape(
                        name,
                        format!("start is {start}, expected an integer of rank 0"),
                    ));
                }
                let fits = *axis < base.rank()
                    && source.rank() == base.rank()
                    && (0..base.rank()).all(|a| {
                        if a == *axis {
                            source.shape[a] <= base.shape[a]
                        } else {
                            source.shape[a] == base.shape[a]
                        }
                    });
                if !fits {
                    return Err(Error::shape(
                        name,
                        format!(
                            "source {} does not fit into {} along axis {axis}",
                            ShowShape(&source.shape),
                            ShowShape(&base.shape)
                        ),
                    ));
                }
                Ok(smallvec![base.clone()])
            }
            State::AdamW { .. } => {
                expect_arity(name, inputs, 7)?;
                let p = inputs[0];
                expect_float(name, "the parameter", p)?;
                let operands = ["p", "g", "m", "v", "lr", "bias1", "bias2"];
                for (operand, ty) in operands.iter().zip(inputs) {
                    expect_shape(name, operand, ty, &p.shape)?;
                    expect_same_dtype(name, p, operand, ty)?;
                }
                Ok(smallvec![p.clone(), p.clone(), p.clone()])
            }
        }
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

    fn body(&self, expr: &mut KernelExpr, inputs: &[&TensorType], args: &[StepId]) -> Option<Vec<StepId>> {
        let State::AdamW { beta1, beta2, eps, weight_decay } = *self else { return None };
        let dtype = inputs[0].dtype;
        let &[p, g, m, v, lr, bias1, bias2] = args else { return None };
        let constant = |expr: &mut KernelExpr, x: f64| expr.constant(Scalar::float(x), dtype);
        let (b1, c1) = (constant(expr, beta1.0), constant(expr, 1.0 - beta1.0));
        let (b2, c2) = (constant(expr, beta2.0), constant(expr, 1.0 - beta2.0));
        let (eps, decay, one) = (constant(expr, eps.0), constant(expr, weight_decay.0), constant(expr, 1.0));
        let (kept, fresh) = (expr.binary(BinaryOp::Mul, m, b1), expr.binary(BinaryOp::Mul, g, c1));
        let m = expr.binary(BinaryOp::Add, kept, fresh);
        let square = expr.binary(BinaryOp::Mul, g, g);
        let (kept, fresh) = (expr.binary(BinaryOp::Mul, v, b2), expr.binary(BinaryOp::Mul, square, c2));
        let v = expr.binary(BinaryOp::Add, kept, fresh);
        let shrink = expr.binary(BinaryOp::Mul, lr, decay);
        let shrink = expr.binary(BinaryOp::Sub, one, shrink);
        let shrunk = expr.binary(BinaryOp::Mul, p, shrink);
        let variance = expr.binary(BinaryOp::Div, v, bias2);
        let deviation = expr.unary(UnaryOp::Sqrt, variance);
        let denominator = expr.binary(BinaryOp::Add, deviation, eps);
        let rate = expr.binary(BinaryOp::Div, lr, bias1);
        let update = expr.binary(BinaryOp::Mul, rate, m);
        let update = expr.binary(BinaryOp::Div, update, denominator);
        let p = expr.binary(BinaryOp::Sub, shrunk, update);
        Some(vec![p, m, v])
    }
}
