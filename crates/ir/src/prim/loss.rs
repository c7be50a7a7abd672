//! Cross-entropy over class logits, without a copy of the logits.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, expect_arity, expect_float, expect_shape};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{ShowShape, TensorType};

/// Losses with a fused kernel. `ignore`: rows with this target give loss 0 and no gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Loss {
    /// `(logits [rows, classes], targets [rows] int) -> (loss [rows], lse [rows])`, both in the wide type:
    /// `lse = log sum exp(logits)`, `loss = lse - logits[target]`. A target out of range is an error when
    /// the op runs.
    CrossEntropy { ignore: Option<i64> },
    /// `(logits, targets, lse [rows], dloss [rows]) -> dlogits = (exp(logits - lse) - onehot) * dloss`.
    CrossEntropyGrad { ignore: Option<i64> },
}

impl Rules for Loss {
    fn name(&self) -> &'static str {
        match self {
            Loss::CrossEntropy { .. } => "cross_entropy",
            Loss::CrossEntropyGrad { .. } => "cross_entropy_grad",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        expect_arity(name, inputs, if matches!(self, Loss::CrossEntropy { .. }) { 2 } else { 4 })?;
        let (logits, targets) = (inputs[0], inputs[1]);
        expect_float(name, "logits", logits)?;
        if !targets.dtype.is_int() {
            return Err(Error::dtype(
                name,
                format!("targets are {}, expected an integer dtype", targets.dtype),
            ));
        }
        if logits.rank() != 2 || targets.rank() != 1 || targets.shape[0] != logits.shape[0] {
            return Err(Error::shape(
                name,
                format!(
                    "logits {} and targets {} do not fit; expected [rows, classes] and [rows]",
                    ShowShape(&logits.shape),
                    ShowShape(&targets.shape)
                ),
            ));
        }
        let row = TensorType::new(logits.dtype.wide(), &logits.shape[..1]);
        match self {
            Loss::CrossEntropy { .. } => Ok(smallvec![row.clone(), row]),
            Loss::CrossEntropyGrad { .. } => {
                expect_shape(name, "lse", inputs[2], &row.shape)?;
                expect_shape(name, "dloss", inputs[3], &row.shape)?;
                Ok(smallvec![logits.clone()])
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

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
