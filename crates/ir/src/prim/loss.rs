//! Cross-entropy over class logits, without a copy of the logits.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_float, expect_shape,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{ShowShape, TensorType};
use crate::ops;

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
                expect_row_dtype(name, "lse", inputs[2], &row)?;
                expect_row_dtype(name, "dloss", inputs[3], &row)?;
                Ok(smallvec![logits.clone()])
            }
        }
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        match *self {
            Loss::CrossEntropy { ignore } => {
                let (logits, targets, lse) = (&at.inputs[0], &at.inputs[1], &at.outputs[1]);
                let from_loss = match &cotangents[0] {
                    Some(t) => {
                        let operands = [logits.clone(), targets.clone(), lse.clone(), t.clone()];
                        Some(b.apply1(Prim::Loss(Loss::CrossEntropyGrad { ignore }), &operands)?)
                    }
                    None => None,
                };
                let from_lse = match &cotangents[1] {
                    Some(t) => {
                        let dtype = b.ty(logits).dtype;
                        let probabilities = probabilities(b, logits, lse)?;
                        let dlogits = ops::mul(b, &probabilities, &ops::unsqueeze(b, t, -1)?)?;
                        Some(ops::cast(b, &dlogits, dtype)?)
                    }
                    None => None,
                };
                Ok(vec![derived::add_optional(b, from_loss, from_lse)?, None])
            }
            Loss::CrossEntropyGrad { .. } => {
                let graph = derived::decomposition(b, &Prim::Loss(*self), at.inputs)?;
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
        let graph = derived::decomposition(b, &Prim::Loss(*self), at.inputs)?;
        derived::jvp_through(b, &graph, at.inputs, tangents)
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        // Rows are independent: the new axis folds into them.
        let mut operands = Vec::with_capacity(inputs.len());
        let mut rows = 0;
        for input in inputs {
            let whole = derived::mapped(b, size, input)?;
            rows = b.ty(&whole).shape[1];
            operands.push(derived::fold_axis(b, &whole)?);
        }
        let outputs = b.apply(Prim::Loss(*self), &operands)?;
        let outputs = outputs.iter().map(|output| derived::unfold_axis(b, output, size, rows));
        Ok(derived::with_axis(outputs.collect::<Result<Vec<_>>>()?))
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let (logits, targets) = (&inputs[0], &inputs[1]);
        let (Loss::CrossEntropy { ignore } | Loss::CrossEntropyGrad { ignore }) = *self;
        let dtype = b.ty(logits).dtype;
        let ignored = match ignore.filter(|&ignore| b.ty(targets).dtype.holds(ignore)) {
            Some(ignore) => Some(ops::eq_scalar(b, targets, ignore)?),
            None => None,
        };
        // Per row, 0 where the target is ignored.
        let counted = |row: &B::Value| match &ignored {
            Some(ignored) => ops::where_(b, ignored, &ops::scalar(b, 0i64, b.ty(row).dtype)?, row),
            None => Ok(row.clone()),
        };
        Ok(Some(match self {
            Loss::CrossEntropy { .. } => {
                let wide = ops::cast(b, logits, dtype.wide())?;
                let lse = ops::logsumexp(b, &wide, &[-1], false)?;
                // A read by index, so that a target out of range is an error here too.
                let places = ops::unsqueeze(b, &counted(targets)?, -1)?;
                let picked = ops::squeeze(b, &ops::gather(b, &wide, -1, &places)?, &[-1])?;
                vec![counted(&ops::sub(b, &lse, &picked)?)?, lse]
            }
            Loss::CrossEntropyGrad { .. } => {
                let classes = b.ty(logits).shape[1];
                let chosen = ops::one_hot(b, targets, classes, dtype.wide())?;
                let difference = ops::sub(b, &probabilities(b, logits, &inputs[2])?, &chosen)?;
                let dloss = ops::unsqueeze(b, &counted(&inputs[3])?, -1)?;
                vec![ops::cast(b, &ops::mul(b, &difference, &dloss)?, dtype)?]
            }
        }))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

/// Checks that a row statistic has the wide dtype.
fn expect_row_dtype(op: &str, operand: &str, found: &TensorType, row: &TensorType) -> Result<()> {
    if found.dtype == row.dtype {
        return Ok(());
    }
    Err(Error::dtype(op, format!("{operand} is {}, expected {}", found.dtype, row.dtype)))
}

/// `exp(logits - lse)`, in the wide type.
fn probabilities<B: Builder>(b: &B, logits: &B::Value, lse: &B::Value) -> Result<B::Value> {
    let wide = ops::cast(b, logits, b.ty(logits).dtype.wide())?;
    ops::exp(b, &ops::sub(b, &wide, &ops::unsqueeze(b, lse, -1)?)?)
}
