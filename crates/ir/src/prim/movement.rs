//! Movement: the same elements under another shape or order. All but `Pad` and `Concat` are views.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, expect_arity, expect_same_dtype};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, Layout, ShowShape, TensorType, numel};

/// Rearrangements of elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Movement {
    /// Row-major order under another shape of as many elements.
    Reshape { shape: Dims },
    /// Output axis `i` is input axis `axes[i]`.
    Permute { axes: Dims },
    /// NumPy broadcasting to `shape`.
    Broadcast { shape: Dims },
    /// `starts..stops` by `steps` (at least 1) on every axis.
    Slice { starts: Dims, stops: Dims, steps: Dims },
    /// Reverses the given axes.
    Flip { axes: Dims },
    /// Zeros before and after, and `interior` zeros between neighbours, on every axis.
    Pad { low: Dims, high: Dims, interior: Dims },
    /// One or more operands, end to end along `axis`.
    Concat { axis: usize },
}

impl Movement {
    /// The view that this movement makes of `layout`; `None` where elements must be copied.
    pub fn view(&self, layout: &Layout) -> Option<Layout> {
        match self {
            Movement::Reshape { shape } => layout.reshape(shape),
            Movement::Permute { axes } => Some(layout.permute(axes)),
            Movement::Broadcast { shape } => Some(layout.broadcast(shape)),
            Movement::Slice { starts, stops, steps } => Some(layout.slice(starts, stops, steps)),
            Movement::Flip { axes } => Some(layout.flip(axes)),
            Movement::Pad { .. } | Movement::Concat { .. } => None,
        }
    }
}

impl Rules for Movement {
    fn name(&self) -> &'static str {
        match self {
            Movement::Reshape { .. } => "reshape",
            Movement::Permute { .. } => "permute",
            Movement::Broadcast { .. } => "broadcast_to",
            Movement::Slice { .. } => "slice",
            Movement::Flip { .. } => "flip",
            Movement::Pad { .. } => "pad",
            Movement::Concat { .. } => "concat",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        let Some(&x) = inputs.first() else {
            return Err(Error::shape(name, "takes at least one operand, got none"));
        };
        if !matches!(self, Movement::Concat { .. }) {
            expect_arity(name, inputs, 1)?;
        }
        let fail = |message: String| Err(Error::shape(name, message));
        let rank = x.rank();
        let show = ShowShape(&x.shape);
        let shape = match self {
            Movement::Reshape { shape } => {
                if numel(shape) != x.numel() {
                    return fail(format!(
                        "{show} has {} elements, {} has {}; they must be equal",
                        x.numel(),
                        ShowShape(shape),
                        numel(shape)
                    ));
                }
                shape.clone()
            }
            Movement::Permute { axes } => {
                let mut sorted = axes.clone();
                sorted.sort_unstable();
                if sorted.len() != rank || sorted.iter().enumerate().any(|(i, &a)| i != a) {
                    return fail(format!("{} is not an order of the {rank} axes of {show}", ShowShape(axes)));
                }
                axes.iter().map(|&a| x.shape[a]).collect()
            }
            Movement::Broadcast { shape } => {
                let lead = shape.len().wrapping_sub(rank);
                let fits = shape.len() >= rank
                    && (0..rank).all(|a| x.shape[a] == shape[a + lead] || x.shape[a] == 1);
                if !fits {
                    return fail(format!("{show} does not broadcast to {}", ShowShape(shape)));
                }
                shape.clone()
            }
            Movement::Slice { starts, stops, steps } => {
                let fits = starts.len() == rank
                    && stops.len() == rank
                    && steps.len() == rank
                    && (0..rank).all(|a| starts[a] <= stops[a] && stops[a] <= x.shape[a] && steps[a] >= 1);
                if !fits {
                    return fail(format!(
                        "{}..{} by {} does not lie in {show}",
                        ShowShape(starts),
                        ShowShape(stops),
                        ShowShape(steps)
                    ));
                }
                (0..rank).map(|a| (stops[a] - starts[a]).div_ceil(steps[a])).collect()
            }
            Movement::Flip { axes } => {
                if let Some(axis) = axes.iter().find(|&&a| a >= rank) {
                    return fail(format!("axis {axis} is out of range for {show}"));
                }
                x.shape.clone()
            }
            Movement::Pad { low, high, interior } => {
                if low.len() != rank || high.len() != rank || interior.len() != rank {
                    return fail(format!("padding is for {} axes, {show} has {rank}", low.len()));
                }
                (0..rank)
                    .map(|a| {
                        let gaps = x.shape[a].saturating_sub(1) * interior[a];
                        low[a] + x.shape[a] + gaps + high[a]
                    })
                    .collect()
            }
            Movement::Concat { axis } => {
                if *axis >= rank {
                    return fail(format!("axis {axis} is out of range for {show}"));
                }
                let mut shape = x.shape.clone();
                for (i, other) in inputs.iter().enumerate().skip(1) {
                    expect_same_dtype(name, x, &format!("operand {i}"), other)?;
                    let fits =
                        other.rank() == rank && (0..rank).all(|a| a == *axis || other.shape[a] == x.shape[a]);
                    if !fits {
                        return fail(format!(
                            "operand {i} has shape {}, which differs from {show} off axis {axis}",
                            ShowShape(&other.shape)
                        ));
                    }
                    shape[*axis] += other.shape[*axis];
                }
                shape
            }
        };
        Ok(smallvec![TensorType { dtype: x.dtype, shape }])
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
