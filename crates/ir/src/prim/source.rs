//! Where values come from: leaves, structural constants, index ramps.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Rules, Types, expect_arity};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, Scalar, StepId};
use crate::layout::TensorType;

/// Values without operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Source {
    /// A value from outside the graph.
    Leaf { ty: TensorType },
    /// A rank-0 constant that is part of the structure.
    Const { value: Scalar, dtype: DType },
    /// `0, 1, ..., len - 1`, shape `[len]`.
    Iota { len: usize, dtype: DType },
}

impl Rules for Source {
    fn name(&self) -> &'static str {
        match self {
            Source::Leaf { .. } => "leaf",
            Source::Const { .. } => "const",
            Source::Iota { .. } => "iota",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        expect_arity(self.name(), inputs, 0)?;
        Ok(match self {
            Source::Leaf { ty } => smallvec![ty.clone()],
            Source::Const { dtype, .. } => smallvec![TensorType::scalar(*dtype)],
            Source::Iota { len, dtype } => {
                if !(dtype.is_int() || dtype.is_float()) {
                    return Err(Error::dtype("iota", format!("dtype {dtype} does not count; use a number")));
                }
                smallvec![TensorType::new(*dtype, [*len])]
            }
        })
    }

    fn vjp<B: Builder>(
        &self,
        _: &B,
        _: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Ok(Vec::new())
    }

    fn jvp<B: Builder>(
        &self,
        _: &B,
        _: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Ok(vec![None])
    }

    fn batch<B: Builder>(&self, _: &B, _: usize, _: &[Batched<B::Value>]) -> Result<Vec<Batched<B::Value>>> {
        // A source has no operand that could be mapped; see `Prim::batch`.
        Err(Error::unsupported(self.name(), "has no operand to map over"))
    }

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
