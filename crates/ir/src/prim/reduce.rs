//! Reductions over axes; reduced axes stay with size 1.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::graph::Subgraph;
use crate::layout::{Dims, ShowShape, TensorType};
use crate::ops;

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
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
        let Reduce::Fold { op, axes } = self else { return Ok(at.no_cotangents()) };
        let x = &at.inputs[0];
        let shape = ops::shape_of(b, x);
        Ok(match op {
            ReduceOp::Sum => vec![Some(ops::broadcast_to(b, t, &shape)?)],
            ReduceOp::Prod => {
                let graph = product_tree(b, at.inputs, axes)?;
                derived::vjp_through(b, &graph, at, cotangents)?
            }
            ReduceOp::Max | ReduceOp::Min => {
                let (chosen, count) = chosen(b, x, &at.outputs[0], axes)?;
                let share = ops::broadcast_to(b, &ops::div(b, t, &count)?, &shape)?;
                // NaN equals nothing: nobody was chosen, and the derivative is NaN.
                let dtype = b.ty(x).dtype;
                let nobody = ops::eq_scalar(b, &count, 0.0)?;
                let nan = ops::scalar(b, f64::NAN, dtype)?;
                let rest = ops::where_(b, &nobody, &nan, &ops::scalar(b, 0i64, dtype)?)?;
                vec![Some(ops::where_(b, &chosen, &share, &ops::broadcast_to(b, &rest, &shape)?)?)]
            }
        })
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Some(t) = &tangents[0] else { return Ok(vec![None]) };
        let Reduce::Fold { op, axes } = self else { return Ok(vec![None]) };
        Ok(match op {
            ReduceOp::Sum => vec![Some(ops::fold(b, ReduceOp::Sum, t, axes)?)],
            ReduceOp::Prod => {
                let graph = product_tree(b, at.inputs, axes)?;
                derived::jvp_through(b, &graph, at.inputs, tangents)?
            }
            ReduceOp::Max | ReduceOp::Min => {
                let (chosen, count) = chosen(b, &at.inputs[0], &at.outputs[0], axes)?;
                let zero = ops::scalar(b, 0i64, b.ty(t).dtype)?;
                let total = ops::fold(b, ReduceOp::Sum, &ops::where_(b, &chosen, t, &zero)?, axes)?;
                vec![Some(ops::div(b, &total, &count)?)]
            }
        })
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let operands = derived::all_mapped(b, size, inputs)?;
        let reduce = match self {
            Reduce::Fold { op, axes } => Reduce::Fold { op: *op, axes: axes.iter().map(|a| a + 1).collect() },
            Reduce::ArgMax { axis } => Reduce::ArgMax { axis: axis + 1 },
            Reduce::ArgMin { axis } => Reduce::ArgMin { axis: axis + 1 },
        };
        Ok(derived::with_axis(b.apply(Prim::Reduce(reduce), &operands)?))
    }

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

/// Which elements equal the extremum, and how many; they share its derivative evenly, as in torch `amax`.
fn chosen<B: Builder>(b: &B, x: &B::Value, y: &B::Value, axes: &[usize]) -> Result<(B::Value, B::Value)> {
    let chosen = ops::eq(b, x, y)?;
    // Counted in the wide type: a half type stops counting at 2048 or 256.
    let dtype = b.ty(x).dtype;
    let ones = ops::cast(b, &chosen, dtype.wide())?;
    let count = ops::cast(b, &ops::fold(b, ReduceOp::Sum, &ones, axes)?, dtype)?;
    Ok((chosen, count))
}

/// The product as a tree of pairwise products, whose derivatives of any order are exact at zeros too.
fn product_tree<B: Builder>(b: &B, inputs: &[B::Value], axes: &[usize]) -> Result<Subgraph> {
    derived::capture(b, inputs, |lazy, leaves| {
        let x = &leaves[0];
        let shape = ops::shape_of(lazy, x);
        let mut order: Dims = (0..shape.len()).filter(|a| !axes.contains(a)).collect();
        let kept: Dims = order.iter().map(|&a| shape[a]).collect();
        let mut size: usize = axes.iter().map(|&a| shape[a]).product();
        order.extend_from_slice(axes);
        let mut flat = kept.clone();
        flat.push(size);
        let axis = kept.len();
        let mut x = ops::reshape_to(lazy, &ops::permute_to(lazy, x, &order)?, &flat)?;
        let mut reduced = shape.clone();
        for &axis in axes {
            reduced[axis] = 1;
        }
        if size == 0 {
            return Ok(vec![ops::ones(lazy, &reduced, x.ty().dtype)?]);
        }
        while size > 1 {
            let half = size / 2;
            let low = ops::slice_axis(lazy, &x, axis, 0, half, 1)?;
            let high = ops::slice_axis(lazy, &x, axis, half, 2 * half, 1)?;
            let mut product = ops::mul(lazy, &low, &high)?;
            if size % 2 == 1 {
                let odd = ops::slice_axis(lazy, &x, axis, size - 1, size, 1)?;
                product = ops::concat(lazy, &[product, odd], axis as isize)?;
            }
            x = product;
            size = half + size % 2;
        }
        Ok(vec![ops::reshape_to(lazy, &x, &reduced)?])
    })
}
