//! Normalisations over the last axis, each with its backward as a primitive of its own.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Optional, Prim, ReduceOp, Rules, Types, derived, expect_arity, expect_float,
    expect_shape,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{F64, KernelExpr, StepId};
use crate::layout::TensorType;
use crate::ops;

/// Compound primitives over the last axis (`width`); statistics keep the leading axes with width 1 and
/// are f32 for half types. `weight` and `bias` have shape `[width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Norm {
    /// `x -> y`.
    Softmax,
    /// `(y, dy) -> dx = y * (dy - sum(dy * y))`.
    SoftmaxGrad,
    /// `x -> y`.
    LogSoftmax,
    /// `(y, dy) -> dx = dy - exp(y) * sum(dy)`.
    LogSoftmaxGrad,
    /// `(x, weight, bias) -> (y, mean, rstd)`, biased variance.
    LayerNorm { eps: F64 },
    /// `(x, weight, mean, rstd, dy) -> (dx, dweight, dbias)`.
    LayerNormGrad,
    /// `(x, weight) -> (y, rstd)`.
    RmsNorm { eps: F64 },
    /// `(x, weight, rstd, dy) -> (dx, dweight)`.
    RmsNormGrad,
}

impl Rules for Norm {
    fn name(&self) -> &'static str {
        match self {
            Norm::Softmax => "softmax",
            Norm::SoftmaxGrad => "softmax_grad",
            Norm::LogSoftmax => "log_softmax",
            Norm::LogSoftmaxGrad => "log_softmax_grad",
            Norm::LayerNorm { .. } => "layer_norm",
            Norm::LayerNormGrad => "layer_norm_grad",
            Norm::RmsNorm { .. } => "rms_norm",
            Norm::RmsNormGrad => "rms_norm_grad",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        let arity = match self {
            Norm::Softmax | Norm::LogSoftmax => 1,
            Norm::SoftmaxGrad | Norm::LogSoftmaxGrad | Norm::RmsNorm { .. } => 2,
            Norm::LayerNorm { .. } => 3,
            Norm::RmsNormGrad => 4,
            Norm::LayerNormGrad => 5,
        };
        expect_arity(name, inputs, arity)?;
        let x = inputs[0];
        expect_float(name, "the operand", x)?;
        if x.rank() == 0 {
            return Err(Error::shape(name, "the operand has rank 0, expected at least one axis"));
        }
        let width = x.shape[x.rank() - 1];
        let mut rows = x.shape.clone();
        rows[x.rank() - 1] = 1;
        let statistic = TensorType { dtype: statistics_dtype(x.dtype), shape: rows };
        let vector = TensorType::new(x.dtype, [width]);
        let expect = |at: usize, what: &str, ty: &TensorType| -> Result<()> {
            expect_shape(name, what, inputs[at], &ty.shape)?;
            if inputs[at].dtype != ty.dtype {
                let found = inputs[at].dtype;
                return Err(Error::dtype(name, format!("{what} is {found}, expected {}", ty.dtype)));
            }
            Ok(())
        };
        Ok(match self {
            Norm::Softmax | Norm::LogSoftmax => smallvec![x.clone()],
            Norm::SoftmaxGrad | Norm::LogSoftmaxGrad => {
                expect(1, "the cotangent", x)?;
                smallvec![x.clone()]
            }
            Norm::LayerNorm { .. } => {
                expect(1, "weight", &vector)?;
                expect(2, "bias", &vector)?;
                smallvec![x.clone(), statistic.clone(), statistic]
            }
            Norm::LayerNormGrad => {
                expect(1, "weight", &vector)?;
                expect(2, "mean", &statistic)?;
                expect(3, "rstd", &statistic)?;
                expect(4, "the cotangent", x)?;
                smallvec![x.clone(), vector.clone(), vector]
            }
            Norm::RmsNorm { .. } => {
                expect(1, "weight", &vector)?;
                smallvec![x.clone(), statistic]
            }
            Norm::RmsNormGrad => {
                expect(1, "weight", &vector)?;
                expect(2, "rstd", &statistic)?;
                expect(3, "the cotangent", x)?;
                smallvec![x.clone(), vector]
            }
        })
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let inputs = at.inputs;
        let apply = |prim: Norm, operands: &[&B::Value]| {
            b.apply(Prim::Norm(prim), &operands.iter().map(|&v| v.clone()).collect::<Vec<_>>())
        };
        match self {
            Norm::Softmax | Norm::LogSoftmax => {
                let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
                let grad = if *self == Norm::Softmax { Norm::SoftmaxGrad } else { Norm::LogSoftmaxGrad };
                Ok(apply(grad, &[&at.outputs[0], t])?.into_iter().map(Some).collect())
            }
            Norm::LayerNorm { .. } => {
                let mut found = at.no_cotangents();
                if let Some(t) = &cotangents[0] {
                    let (mean, rstd) = (&at.outputs[1], &at.outputs[2]);
                    let grads = apply(Norm::LayerNormGrad, &[&inputs[0], &inputs[1], mean, rstd, t])?;
                    found = grads.into_iter().map(Some).collect();
                }
                let statistics = (&cotangents[1], &cotangents[2]);
                let (mean, rstd) = (Some(&at.outputs[1]), &at.outputs[2]);
                let extra = statistics_vjp(b, &inputs[0], mean, rstd, statistics.0, statistics.1)?;
                found[0] = derived::add_optional(b, found[0].take(), extra)?;
                Ok(found)
            }
            Norm::RmsNorm { .. } => {
                let mut found = at.no_cotangents();
                if let Some(t) = &cotangents[0] {
                    let grads = apply(Norm::RmsNormGrad, &[&inputs[0], &inputs[1], &at.outputs[1], t])?;
                    found = grads.into_iter().map(Some).collect();
                }
                let extra = statistics_vjp(b, &inputs[0], None, &at.outputs[1], &None, &cotangents[1])?;
                found[0] = derived::add_optional(b, found[0].take(), extra)?;
                Ok(found)
            }
            Norm::SoftmaxGrad | Norm::LogSoftmaxGrad | Norm::LayerNormGrad | Norm::RmsNormGrad => {
                let graph = derived::decomposition(b, &Prim::Norm(*self), inputs)?;
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
        match (self, &tangents[0]) {
            // The Jacobian of softmax is symmetric; that of log-softmax is written out.
            (Norm::Softmax, Some(t)) => {
                let operands = [at.outputs[0].clone(), t.clone()];
                Ok(vec![Some(b.apply1(Prim::Norm(Norm::SoftmaxGrad), &operands)?)])
            }
            (Norm::LogSoftmax, Some(t)) => {
                let wide = Wide::of(b, t);
                let (y, t) = (wide.widen(&at.outputs[0])?, wide.widen(t)?);
                let mean = wide.row_sum(&ops::mul(b, &ops::exp(b, &y)?, &t)?)?;
                Ok(vec![Some(wide.narrow(&ops::sub(b, &t, &mean)?)?)])
            }
            _ => {
                let graph = derived::decomposition(b, &Prim::Norm(*self), at.inputs)?;
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
        let prim = Prim::Norm(*self);
        // Leading axes are free; parameters and their gradients are not.
        let free = match self {
            Norm::Softmax | Norm::SoftmaxGrad | Norm::LogSoftmax | Norm::LogSoftmaxGrad => true,
            Norm::LayerNorm { .. } | Norm::RmsNorm { .. } => inputs[1..].iter().all(|input| !input.mapped),
            Norm::LayerNormGrad | Norm::RmsNormGrad => false,
        };
        if !free {
            return derived::batch_decomposed(b, &prim, size, inputs);
        }
        let mut operands: Vec<B::Value> = inputs.iter().map(|input| input.value.clone()).collect();
        let rows =
            if matches!(self, Norm::LayerNorm { .. } | Norm::RmsNorm { .. }) { 1 } else { inputs.len() };
        for (operand, input) in operands.iter_mut().zip(&inputs[..rows]) {
            *operand = derived::mapped(b, size, input)?;
        }
        Ok(derived::with_axis(b.apply(prim, &operands)?))
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let wide = Wide::of(b, &inputs[0]);
        let operands = inputs.iter().map(|x| wide.widen(x)).collect::<Result<Vec<_>>>()?;
        let x = &operands[0];
        let outputs = match self {
            Norm::Softmax => {
                let e = ops::exp(b, &wide.shifted(x)?)?;
                vec![wide.narrow(&ops::div(b, &e, &wide.row_sum(&e)?)?)?]
            }
            Norm::LogSoftmax => {
                let shifted = wide.shifted(x)?;
                let total = ops::log(b, &wide.row_sum(&ops::exp(b, &shifted)?)?)?;
                vec![wide.narrow(&ops::sub(b, &shifted, &total)?)?]
            }
            Norm::SoftmaxGrad => {
                let (y, dy) = (x, &operands[1]);
                let mean = wide.row_sum(&ops::mul(b, dy, y)?)?;
                vec![wide.narrow(&ops::mul(b, y, &ops::sub(b, dy, &mean)?)?)?]
            }
            Norm::LogSoftmaxGrad => {
                let (y, dy) = (x, &operands[1]);
                let share = ops::mul(b, &ops::exp(b, y)?, &wide.row_sum(dy)?)?;
                vec![wide.narrow(&ops::sub(b, dy, &share)?)?]
            }
            Norm::LayerNorm { eps } => {
                let mean = wide.row_mean(x)?;
                let centred = ops::sub(b, x, &mean)?;
                let variance = wide.row_mean(&ops::square(b, &centred)?)?;
                let rstd = ops::rsqrt(b, &ops::add_scalar(b, &variance, eps.0)?)?;
                let y = ops::mul(b, &ops::mul(b, &centred, &rstd)?, &operands[1])?;
                vec![wide.narrow(&ops::add(b, &y, &operands[2])?)?, mean, rstd]
            }
            Norm::RmsNorm { eps } => {
                let square = wide.row_mean(&ops::square(b, x)?)?;
                let rstd = ops::rsqrt(b, &ops::add_scalar(b, &square, eps.0)?)?;
                let y = ops::mul(b, &ops::mul(b, x, &rstd)?, &operands[1])?;
                vec![wide.narrow(&y)?, rstd]
            }
            Norm::LayerNormGrad => {
                let [_, weight, mean, rstd, dy] = &operands[..] else { return Ok(None) };
                let normal = ops::mul(b, &ops::sub(b, x, mean)?, rstd)?;
                let g = ops::mul(b, dy, weight)?;
                let along = ops::mul(b, &normal, &wide.row_mean(&ops::mul(b, &g, &normal)?)?)?;
                let dx = ops::sub(b, &ops::sub(b, &g, &wide.row_mean(&g)?)?, &along)?;
                let dweight = wide.column_sum(&ops::mul(b, dy, &normal)?)?;
                let dx = wide.narrow(&ops::mul(b, &dx, rstd)?)?;
                vec![dx, wide.narrow(&dweight)?, wide.narrow(&wide.column_sum(dy)?)?]
            }
            Norm::RmsNormGrad => {
                let [_, weight, rstd, dy] = &operands[..] else { return Ok(None) };
                let normal = ops::mul(b, x, rstd)?;
                let g = ops::mul(b, dy, weight)?;
                let along = ops::mul(b, &normal, &wide.row_mean(&ops::mul(b, &g, &normal)?)?)?;
                let dx = wide.narrow(&ops::mul(b, &ops::sub(b, &g, &along)?, rstd)?)?;
                vec![dx, wide.narrow(&wide.column_sum(&ops::mul(b, dy, &normal)?)?)?]
            }
        };
        Ok(Some(outputs))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

/// The dtype of row statistics: the wide type.
fn statistics_dtype(dtype: DType) -> DType {
    dtype.wide()
}

/// What row statistics give back to `x`: a cotangent of the mean spreads evenly, and
/// `d rstd / dx = -rstd^3 (x - mean) / width` (the mean is absent in RMS norm).
fn statistics_vjp<B: Builder>(
    b: &B,
    x: &B::Value,
    mean: Option<&B::Value>,
    rstd: &B::Value,
    dmean: &Option<B::Value>,
    drstd: &Option<B::Value>,
) -> Result<Option<B::Value>> {
    let wide = Wide::of(b, x);
    let shape = ops::shape_of(b, x);
    let share = 1.0 / wide.width(x) as f64;
    let from_mean = match dmean {
        Some(t) => Some(ops::broadcast_to(b, &ops::mul_scalar(b, t, share)?, &shape)?),
        None => None,
    };
    let from_rstd = match drstd {
        Some(t) => {
            let x = wide.widen(x)?;
            let centred = mean.map_or_else(|| Ok(x.clone()), |mean| ops::sub(b, &x, mean))?;
            let cube = ops::mul(b, &ops::square(b, rstd)?, rstd)?;
            let slope = ops::mul(b, t, &ops::mul_scalar(b, &cube, -share)?)?;
            Some(ops::mul(b, &centred, &slope)?)
        }
        None => None,
    };
    match derived::add_optional(b, from_mean, from_rstd)? {
        Some(dx) => Ok(Some(wide.narrow(&dx)?)),
        None => Ok(None),
    }
}

/// Row arithmetic in the wide type of an operand.
struct Wide<'a, B> {
    b: &'a B,
    dtype: DType,
}

impl<'a, B: Builder> Wide<'a, B> {
    fn of(b: &'a B, x: &B::Value) -> Self {
        Wide { b, dtype: b.ty(x).dtype }
    }

    fn widen(&self, x: &B::Value) -> Result<B::Value> {
        ops::cast(self.b, x, self.dtype.wide())
    }

    fn narrow(&self, x: &B::Value) -> Result<B::Value> {
        ops::cast(self.b, x, self.dtype)
    }

    fn width(&self, x: &B::Value) -> usize {
        self.b.ty(x).shape.last().copied().unwrap_or(1)
    }

    /// The sum over the last axis, which stays.
    fn row_sum(&self, x: &B::Value) -> Result<B::Value> {
        ops::fold(self.b, ReduceOp::Sum, x, &[self.b.ty(x).rank() - 1])
    }

    fn row_mean(&self, x: &B::Value) -> Result<B::Value> {
        ops::mul_scalar(self.b, &self.row_sum(x)?, 1.0 / self.width(x) as f64)
    }

    /// The sum over all axes but the last: shape `[width]`.
    fn column_sum(&self, x: &B::Value) -> Result<B::Value> {
        let leading: Vec<usize> = (0..self.b.ty(x).rank() - 1).collect();
        ops::reshape_to(self.b, &ops::fold(self.b, ReduceOp::Sum, x, &leading)?, &[self.width(x)])
    }

    /// `x` minus its row's maximum; an empty row has none.
    fn shifted(&self, x: &B::Value) -> Result<B::Value> {
        if self.width(x) == 0 {
            return Ok(x.clone());
        }
        ops::sub(self.b, x, &ops::fold(self.b, ReduceOp::Max, x, &[self.b.ty(x).rank() - 1])?)
    }
}
