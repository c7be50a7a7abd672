//! State: updates of what lives longer than one call. The memory plan runs them in place where it can.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_float, expect_same_dtype,
    expect_shape,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, F64, KernelExpr, Scalar, StepId, UnaryOp};
use crate::layout::{ShowShape, TensorType};
use crate::ops;

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
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        match self {
            State::UpdateSlice { axis } => {
                let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
                let (source, start) = (&at.inputs[1], &at.inputs[2]);
                let mut found = at.no_cotangents();
                if at.wants(0) {
                    let hole = ops::zeros_like(b, source)?;
                    found[0] = Some(ops::update_slice(b, t, &hole, start, *axis as isize)?);
                }
                if at.wants(1) {
                    let places = ops::iota(b, b.ty(source).shape[*axis], b.ty(start).dtype)?;
                    let places = ops::add(b, &places, start)?;
                    found[1] = Some(ops::index_select(b, t, *axis as isize, &places)?);
                }
                Ok(found)
            }
            State::AdamW { .. } => {
                let graph = derived::decomposition(b, &Prim::State(*self), at.inputs)?;
                derived::vjp_through(b, &graph, at, cotangents)
            }
        }
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        match self {
            State::UpdateSlice { axis } => {
                if tangents[0].is_none() && tangents[1].is_none() {
                    return Ok(vec![None]);
                }
                let tangent = |operand: usize| {
                    tangents[operand].clone().map_or_else(|| ops::zeros_like(b, &at.inputs[operand]), Ok)
                };
                let (base, source) = (tangent(0)?, tangent(1)?);
                Ok(vec![Some(ops::update_slice(b, &base, &source, &at.inputs[2], *axis as isize)?)])
            }
            State::AdamW { .. } => {
                let graph = derived::decomposition(b, &Prim::State(*self), at.inputs)?;
                derived::jvp_through(b, &graph, at.inputs, tangents)
            }
        }
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        match self {
            State::UpdateSlice { .. } if inputs[2].mapped => {
                derived::batch_unrolled(b, &Prim::State(*self), size, inputs)
            }
            State::UpdateSlice { axis } => {
                let mut operands = derived::all_mapped(b, size, &inputs[..2])?;
                operands.push(inputs[2].value.clone());
                let update = State::UpdateSlice { axis: axis + 1 };
                Ok(derived::with_axis(b.apply(Prim::State(update), &operands)?))
            }
            State::AdamW { .. } => {
                let operands = derived::all_mapped(b, size, inputs)?;
                Ok(derived::with_axis(b.apply(Prim::State(*self), &operands)?))
            }
        }
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let State::AdamW { beta1, beta2, eps, weight_decay } = *self else { return Ok(None) };
        // Step for step what `body` says.
        let dtype = b.ty(&inputs[0]).dtype;
        let wide = inputs.iter().map(|x| ops::cast(b, x, dtype.wide())).collect::<Result<Vec<_>>>()?;
        let [p, g, m, v, lr, bias1, bias2] = &wide[..] else { return Ok(None) };
        let fresh = ops::mul_scalar(b, g, 1.0 - beta1.0)?;
        let m = ops::add(b, &ops::mul_scalar(b, m, beta1.0)?, &fresh)?;
        let fresh = ops::mul_scalar(b, &ops::square(b, g)?, 1.0 - beta2.0)?;
        let v = ops::add(b, &ops::mul_scalar(b, v, beta2.0)?, &fresh)?;
        let shrink = ops::rsub_scalar(b, &ops::mul_scalar(b, lr, weight_decay.0)?, 1.0)?;
        let shrunk = ops::mul(b, p, &shrink)?;
        let denominator = ops::add_scalar(b, &ops::sqrt(b, &ops::div(b, &v, bias2)?)?, eps.0)?;
        let update = ops::mul(b, &ops::div(b, lr, bias1)?, &m)?;
        let p = ops::sub(b, &shrunk, &ops::div(b, &update, &denominator)?)?;
        let outputs = [p, m, v].iter().map(|x| ops::cast(b, x, dtype)).collect::<Result<Vec<_>>>()?;
        Ok(Some(outputs))
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
