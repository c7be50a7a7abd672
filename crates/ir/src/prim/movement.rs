//! Movement: the same elements under another shape or order. All but `Pad` and `Concat` are views.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Optional, Prim, ReduceOp, Rules, Types, derived, expect_arity, expect_same_dtype,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, Layout, ShowShape, TensorType, numel, window_count};
use crate::ops;

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
    /// Overlapping windows as a view. In a box: it is rare and would make every node larger.
    Window(Box<Windows>),
}

/// Windows over `axes` (ascending): of `sizes` places, `dilations` apart, each beginning `steps` after the one before
/// (all at least 1). Each axis becomes the number of windows that fit, and the places within them are new last
/// axes, in the order of `axes`: `[.., n, .., size]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Windows {
    pub axes: Dims,
    pub sizes: Dims,
    pub steps: Dims,
    pub dilations: Dims,
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
            Movement::Window(windows) => {
                let Windows { axes, sizes, steps, dilations } = &**windows;
                Some(layout.window(axes, sizes, steps, dilations))
            }
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
            Movement::Window(_) => "window",
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
            Movement::Window(windows) => {
                let Windows { axes, sizes, steps, dilations } = &**windows;
                let ascending = axes.windows(2).all(|pair| pair[0] < pair[1]);
                if !ascending || axes.last().is_some_and(|&axis| axis >= rank) {
                    return fail(format!("axes {} are not ascending axes of {show}", ShowShape(axes)));
                }
                for (what, list) in [("sizes", sizes), ("steps", steps), ("dilations", dilations)] {
                    if list.len() != axes.len() || list.contains(&0) {
                        return fail(format!(
                            "{what} {} are for {} axes, expected as many numbers, each at least 1",
                            ShowShape(list),
                            axes.len()
                        ));
                    }
                }
                let mut shape = x.shape.clone();
                for (at, &axis) in axes.iter().enumerate() {
                    shape[axis] = window_count(shape[axis], sizes[at], steps[at], dilations[at]);
                }
                shape.extend_from_slice(sizes);
                shape
            }
            Movement::Pad { low, high, interior } => {
                if low.len() != rank || high.len() != rank || interior.len() != rank {
                    return fail(format!("padding is for {} axes, {show} has {rank}", low.len()));
                }
                (0..rank)
                    .map(|a| {
                        let gaps = x.shape[a].saturating_sub(1).saturating_mul(interior[a]);
                        [x.shape[a], gaps, high[a]].into_iter().fold(low[a], usize::saturating_add)
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
                    shape[*axis] = shape[*axis].saturating_add(other.shape[*axis]);
                }
                shape
            }
        };
        Ok(smallvec![TensorType { dtype: x.dtype, shape }])
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
        let x = ops::shape_of(b, &at.inputs[0]);
        let rank = x.len();
        let through = |movement: Movement, value: &B::Value| {
            b.apply1(Prim::Movement(movement), std::slice::from_ref(value))
        };
        Ok(vec![match self {
            Movement::Reshape { .. } => Some(ops::reshape_to(b, t, &x)?),
            Movement::Permute { axes } => Some(ops::permute_to(b, t, &inverse(axes))?),
            Movement::Broadcast { shape } => {
                let lead = shape.len() - rank;
                let repeated: Dims =
                    (0..shape.len()).filter(|&a| a < lead || (x[a - lead] == 1 && shape[a] != 1)).collect();
                Some(ops::reshape_to(b, &ops::fold(b, ReduceOp::Sum, t, &repeated)?, &x)?)
            }
            Movement::Slice { starts, stops, steps } => {
                let sizes = &b.ty(t).shape;
                if sizes.contains(&0) {
                    return Ok(vec![None]);
                }
                // The last element read on axis `a` lies at `starts + (size - 1) * steps`.
                let high =
                    (0..rank).map(|a| x[a] - (starts[a] + (sizes[a] - 1) * steps[a] + 1)).collect::<Dims>();
                debug_assert!((0..rank).all(|a| starts[a] + (sizes[a] - 1) * steps[a] < stops[a]));
                let interior = steps.iter().map(|step| step - 1).collect();
                Some(through(Movement::Pad { low: starts.clone(), high, interior }, t)?)
            }
            Movement::Flip { .. } => Some(through(self.clone(), t)?),
            Movement::Window(windows) => {
                let Windows { axes, sizes, steps, dilations } = &**windows;
                Some(ops::overlap_add(b, t, &x, axes, sizes, steps, dilations)?)
            }
            Movement::Pad { low, interior, .. } => {
                if x.contains(&0) {
                    return Ok(vec![None]);
                }
                let stops = (0..rank).map(|a| low[a] + (x[a] - 1) * (interior[a] + 1) + 1).collect();
                let steps = interior.iter().map(|gap| gap + 1).collect();
                Some(through(Movement::Slice { starts: low.clone(), stops, steps }, t)?)
            }
            Movement::Concat { axis } => {
                let mut found = at.no_cotangents();
                let mut start = 0;
                for (operand, slot) in found.iter_mut().enumerate() {
                    let size = b.ty(&at.inputs[operand]).shape[*axis];
                    if at.wants(operand) {
                        *slot = Some(ops::slice_axis(b, t, *axis, start, start + size, 1)?);
                    }
                    start += size;
                }
                return Ok(found);
            }
        }])
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        // Movement is linear: the tangent moves as the value does.
        if tangents.iter().all(Option::is_none) {
            return Ok(vec![None]);
        }
        let moved = tangents
            .iter()
            .zip(at.inputs)
            .map(|(tangent, x)| tangent.clone().map_or_else(|| ops::zeros_like(b, x), Ok))
            .collect::<Result<Vec<_>>>()?;
        Ok(vec![Some(b.apply1(Prim::Movement(self.clone()), &moved)?)])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let raise = |dims: &Dims, first: usize| {
            let mut raised = Dims::from_slice(&[first]);
            raised.extend_from_slice(dims);
            raised
        };
        let shifted = |axes: &Dims| axes.iter().map(|a| a + 1).collect::<Dims>();
        let mut operands = derived::all_mapped(b, size, inputs)?;
        let movement = match self {
            Movement::Reshape { shape } => Movement::Reshape { shape: raise(shape, size) },
            Movement::Permute { axes } => Movement::Permute { axes: raise(&shifted(axes), 0) },
            Movement::Broadcast { shape } => {
                // New axes of the value stand between the mapped axis and its own.
                let mut own = ops::shape_of(b, &operands[0]);
                for _ in own.len()..shape.len() + 1 {
                    own.insert(1, 1);
                }
                operands[0] = ops::reshape_to(b, &operands[0], &own)?;
                Movement::Broadcast { shape: raise(shape, size) }
            }
            Movement::Slice { starts, stops, steps } => Movement::Slice {
                starts: raise(starts, 0),
                stops: raise(stops, size),
                steps: raise(steps, 1),
            },
            Movement::Flip { axes } => Movement::Flip { axes: shifted(axes) },
            Movement::Window(windows) => {
                Movement::Window(Box::new(Windows { axes: shifted(&windows.axes), ..(**windows).clone() }))
            }
            Movement::Pad { low, high, interior } => {
                Movement::Pad { low: raise(low, 0), high: raise(high, 0), interior: raise(interior, 0) }
            }
            Movement::Concat { axis } => Movement::Concat { axis: axis + 1 },
        };
        Ok(derived::with_axis(b.apply(Prim::Movement(movement), &operands)?))
    }

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

/// The order that undoes `axes`.
fn inverse(axes: &[usize]) -> Dims {
    let mut inverse = Dims::from_slice(axes);
    for (to, &from) in axes.iter().enumerate() {
        inverse[from] = to;
    }
    inverse
}
