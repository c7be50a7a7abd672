//! Control over how a graph is differentiated and ordered; nothing here computes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity};
use crate::builder::{Builder, Lazy};
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::graph::{Subgraph, Value};
use crate::layout::TensorType;

/// Checkpointing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Control {
    /// A function whose intermediate values are computed again for its backward instead of kept
    /// (Chen et al. 2016). Its decomposition is its body.
    Checkpoint { body: Arc<Subgraph> },
    /// `(x, after) -> x`, not computed before `after` is: keeps a recomputation apart from its first run.
    Barrier,
    /// `x -> x`, through which no derivative flows, in either direction.
    StopGradient,
    /// `(x, history) -> x`, through which derivatives flow as if it were `history`, in either direction: elements that
    /// were written over others, outside of what derivatives see.
    Written,
}

impl Rules for Control {
    fn name(&self) -> &'static str {
        match self {
            Control::Checkpoint { .. } => "checkpoint",
            Control::Barrier => "barrier",
            Control::StopGradient => "stop_gradient",
            Control::Written => "written",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        match self {
            Control::Checkpoint { body } => body.infer(inputs),
            Control::Barrier => {
                expect_arity("barrier", inputs, 2)?;
                Ok(smallvec![inputs[0].clone()])
            }
            Control::StopGradient => {
                expect_arity("stop_gradient", inputs, 1)?;
                Ok(smallvec![inputs[0].clone()])
            }
            Control::Written => {
                expect_arity("written", inputs, 2)?;
                if inputs[0] != inputs[1] {
                    let message = format!("{} is written over {}, expected its type", inputs[0], inputs[1]);
                    return Err(Error::shape("written", message));
                }
                Ok(smallvec![inputs[0].clone()])
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
            Control::Checkpoint { body } => {
                // The body runs again, kept apart from its first run until the backward gets here.
                let Some(after) = cotangents.iter().flatten().next() else { return Ok(at.no_cotangents()) };
                let inputs = at
                    .inputs
                    .iter()
                    .map(|x| b.apply1(Prim::Control(Control::Barrier), &[x.clone(), after.clone()]))
                    .collect::<Result<Vec<_>>>()?;
                let at = Applied { inputs: &inputs, outputs: at.outputs, wanted: at.wanted };
                derived::vjp_through(b, body, &at, cotangents)
            }
            Control::Barrier => Ok(vec![cotangents[0].clone(), None]),
            Control::StopGradient => Ok(at.no_cotangents()),
            Control::Written => Ok(vec![None, cotangents[0].clone()]),
        }
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        match self {
            Control::Checkpoint { body } => derived::jvp_through(b, body, at.inputs, tangents),
            Control::Barrier => Ok(vec![tangents[0].clone()]),
            Control::StopGradient => Ok(vec![None]),
            Control::Written => Ok(vec![tangents[1].clone()]),
        }
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        match self {
            Control::Checkpoint { body } => {
                // The mapped body is a checkpoint again, so that its backward still computes it anew.
                let leaves =
                    inputs.iter().map(|x| Value::leaf(b.ty(&x.value).clone())).collect::<Result<Vec<_>>>()?;
                let pairs = leaves.iter().zip(inputs);
                let elements: Vec<Batched<Value>> =
                    pairs.map(|(leaf, x)| Batched { value: leaf.clone(), mapped: x.mapped }).collect();
                let roots = derived::batch_through(&Lazy, body, size, &elements)?;
                let values: Vec<Value> = roots.iter().map(|root| root.value.clone()).collect();
                let body = Subgraph::capture(&leaves, &values).shared();
                let operands: Vec<B::Value> = inputs.iter().map(|x| x.value.clone()).collect();
                let outputs = b.apply(Prim::Control(Control::Checkpoint { body }), &operands)?;
                let outputs = outputs.into_iter().zip(&roots);
                Ok(outputs.map(|(value, root)| Batched { value, mapped: root.mapped }).collect())
            }
            Control::Barrier => {
                let operands = [inputs[0].value.clone(), inputs[1].value.clone()];
                let value = b.apply1(Prim::Control(Control::Barrier), &operands)?;
                Ok(vec![Batched { value, mapped: inputs[0].mapped }])
            }
            Control::StopGradient => {
                let operand = std::slice::from_ref(&inputs[0].value);
                let value = b.apply1(Prim::Control(Control::StopGradient), operand)?;
                Ok(vec![Batched { value, mapped: inputs[0].mapped }])
            }
            Control::Written => {
                let operands = derived::all_mapped(b, size, inputs)?;
                let value = b.apply1(Prim::Control(Control::Written), &operands)?;
                Ok(derived::with_axis([value]))
            }
        }
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        match self {
            Control::Checkpoint { body } => body.inline(b, inputs).map(Some),
            Control::Barrier => Ok(None),
            Control::StopGradient | Control::Written => Ok(Some(vec![inputs[0].clone()])),
        }
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
