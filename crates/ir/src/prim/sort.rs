//! Sorting along an axis.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Optional, Prim, ReduceOp, Rules, ScatterOp, Types, derived, expect_arity, scatter,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, TensorType};
use crate::ops;

/// Sorts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sort {
    /// `x -> (values, places)` of its shape: the elements of `axis` in order and their i64 places in `x`. Equal
    /// elements keep their order in both directions; NaN counts as largest; -0 equals 0; `false` comes before `true`.
    Stable { axis: usize, descending: bool },
}

impl Rules for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        expect_arity("sort", inputs, 1)?;
        let x = inputs[0];
        let Sort::Stable { axis, .. } = self;
        if *axis >= x.rank() {
            return Err(Error::shape(
                "sort",
                format!("axis {axis} is out of range for {}", ShowShape(&x.shape)),
            ));
        }
        if x.dtype.is_complex() {
            return Err(Error::dtype("sort", format!("the operand is {}, which has no order", x.dtype)));
        }
        Ok(smallvec![x.clone(), TensorType { dtype: DType::I64, shape: x.shape.clone() }])
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
        let Sort::Stable { axis, .. } = *self;
        let zeros = ops::zeros_like(b, &at.inputs[0])?;
        // Every place is written once, so nothing has to be added.
        Ok(vec![Some(scatter::apply(b, axis, ScatterOp::Set, &zeros, &at.outputs[1], t)?)])
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Some(t) = &tangents[0] else { return Ok(vec![None, None]) };
        let Sort::Stable { axis, .. } = *self;
        Ok(vec![Some(scatter::gather(b, axis, t, &at.outputs[1])?), None])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let operands = derived::all_mapped(b, size, inputs)?;
        let Sort::Stable { axis, descending } = *self;
        let sort = Sort::Stable { axis: axis + 1, descending };
        Ok(derived::with_axis(b.apply(Prim::Sort(sort), &operands)?))
    }

    /// The rank of an element is the number of elements that come before it: `n^2` comparisons for an axis of size
    /// `n`, so a specification and a form for small axes rather than a way to sort large ones.
    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let Sort::Stable { axis, descending } = *self;
        let x = &inputs[0];
        let keys = if b.ty(x).dtype == DType::Bool { ops::cast(b, x, DType::U8)? } else { x.clone() };
        let keys = ops::move_axis(b, &keys, axis as isize, -1)?;
        let size = b.ty(x).shape[axis];
        let (mine, other) = (ops::unsqueeze(b, &keys, -1)?, ops::unsqueeze(b, &keys, -2)?);
        let mut before = if descending { ops::gt(b, &other, &mine)? } else { ops::lt(b, &other, &mine)? };
        let mut same = ops::eq(b, &other, &mine)?;
        if b.ty(x).dtype.is_float() {
            let (nan, others) = (ops::isnan(b, &mine)?, ops::isnan(b, &other)?);
            let (first, second) = if descending { (&others, &nan) } else { (&nan, &others) };
            // NaN lies beyond every number.
            let beyond = ops::logical_and(b, first, &ops::logical_not(b, second)?)?;
            before = ops::logical_or(b, &before, &beyond)?;
            same = ops::logical_or(b, &same, &ops::logical_and(b, &nan, &others)?)?;
        }
        let place = ops::iota(b, size, DType::I64)?;
        let column = ops::unsqueeze(b, &place, -1)?;
        let earlier = ops::logical_and(b, &same, &ops::lt(b, &place, &column)?)?;
        let before = ops::cast(b, &ops::logical_or(b, &before, &earlier)?, DType::I64)?;
        let last = b.ty(&before).rank() - 1;
        // [.., n]: where each element goes.
        let rank = ops::fold(b, ReduceOp::Sum, &before, &[last])?;
        let mut shape: Dims = ops::shape_of(b, &keys);
        let rank = ops::reshape_to(b, &rank, &shape)?;
        // [.., k, i]: element i goes to k.
        let goes = ops::eq(b, &ops::unsqueeze(b, &rank, -2)?, &column)?;
        let chosen = ops::where_(b, &goes, &place, &ops::scalar(b, 0i64, DType::I64)?)?;
        let places = ops::fold(b, ReduceOp::Sum, &chosen, &[last])?;
        shape[last - 1] = size;
        let places = ops::move_axis(b, &ops::reshape_to(b, &places, &shape)?, -1, axis as isize)?;
        Ok(Some(vec![scatter::gather(b, axis, x, &places)?, places]))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
