//! Normalisations over the last axis, each with its backward as a primitive of its own.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, expect_arity, expect_float, expect_shape};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{F64, KernelExpr, StepId};
use crate::layout::TensorType;

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

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

/// The dtype of row statistics: the wide type.
fn statistics_dtype(dtype: DType) -> DType {
    dtype.wide()
}
