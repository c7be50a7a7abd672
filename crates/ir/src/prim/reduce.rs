//! Reductions over axes; reduced axes stay with size 1.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, expect_arity};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, TensorType};

/// How elements combine. Half types accumulate in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReduceOp {
    /// 0 when empty.
    Sum,
    /// 1 when empty.
    Prod,
    /// Propagates NaN; empty is an error.
    Max,
    /// Propagates NaN; empty is an error.
    Min,
}

/// Reductions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reduce {
    /// Combines the elements of `axes` (ascending, no repeats).
    Fold { op: ReduceOp, axes: Dims },
    /// The i64 index along `axis` of the first largest element; NaN counts as largest.
    ArgMax { axis: usize },
    /// The i64 index along `axis` of the first smallest element; NaN counts as smallest.
    ArgMin { axis: usize },
}

impl Rules for Reduce {
    fn name(&self) -> &'static str {
        match self {
            Reduce::Fold { op: ReduceOp::Sum, .. } => "sum",
            Reduce::Fold { op: ReduceOp::Prod, .. } => "prod",
            Reduce::Fold { op: ReduceOp::Max, .. } => "max",
            Reduce::Fold { op: ReduceOp::Min, .. } => "min",
            Reduce::ArgMax { .. } => "argmax",
            Reduce::ArgMin { .. } => "argmin",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        expect_arity(name, inputs, 1)?;
        let x = inputs[0];
        let single;
        let axes = match self {
            Reduce::Fold { axes, .. } => &axes[..],
            Reduce::ArgMax { axis } | Reduce::ArgMin { axis } => {
                single = [*axis];
                &single[..]
            }
        };
        if !(x.dtype.is_float() || x.dtype.is_int()) {
            return Err(Error::dtype(name, format!("the operand is {}, expected a number", x.dtype)));
        }
        let ascending = axes.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || axes.last().is_some_and(|&a| a >= x.rank()) {
            return Err(Error::shape(
                name,
                format!("axes {} are not ascending axes of {}", ShowShape(axes), ShowShape(&x.shape)),
            ));
        }
        let needs_elements = !matches!(self, Reduce::Fold { op: ReduceOp::Sum | ReduceOp::Prod, .. });
        if needs_elements && axes.iter().any(|&a| x.shape[a] == 0) {
            return Err(Error::shape(
                name,
                format!("axes {} of {} hold no element to choose", ShowShape(axes), ShowShape(&x.shape)),
            ));
        }
        let mut shape = x.shape.clone();
        for &axis in axes {
            shape[axis] = 1;
        }
        let dtype = if matches!(self, Reduce::Fold { .. }) { x.dtype } else { DType::I64 };
        Ok(smallvec![TensorType { dtype, shape }])
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
