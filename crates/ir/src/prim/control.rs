//! Control over how a graph is differentiated and ordered; nothing here computes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, expect_arity};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::graph::Subgraph;
use crate::layout::TensorType;

/// Checkpointing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Control {
    /// A function whose intermediate values are computed again for its backward instead of kept
    /// (Chen et al. 2016). Its decomposition is its body.
    Checkpoint { body: Arc<Subgraph> },
    /// `(x, after) -> x`, not computed before `after` is: keeps a recomputation apart from its first run.
    Barrier,
}

impl Rules for Control {
    fn name(&self) -> &'static str {
        match self {
            Control::Checkpoint { .. } => "checkpoint",
            Control::Barrier => "barrier",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        match self {
            Control::Checkpoint { body } => body.infer(inputs),
            Control::Barrier => {
                expect_arity("barrier", inputs, 2)?;
                Ok(smallvec![inputs[0].clone()])
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
