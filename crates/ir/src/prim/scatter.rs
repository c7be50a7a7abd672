//! Rules of gather and scatter along an axis, as compositions. See [`super::Index`].

use super::{Applied, Index, Optional, Prim, ScatterOp, derived};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Dims, numel};
use crate::ops;

pub(crate) fn apply<B: Builder>(
    b: &B,
    axis: usize,
    op: ScatterOp,
    base: &B::Value,
    ids: &B::Value,
    source: &B::Value,
) -> Result<B::Value> {
    let scatter = Prim::Index(Index::Scatter { axis, op });
    b.apply1(scatter, &[base.clone(), ids.clone(), source.clone()])
}

pub(crate) fn gather<B: Builder>(b: &B, axis: usize, x: &B::Value, ids: &B::Value) -> Result<B::Value> {
    b.apply1(Prim::Index(Index::Gather { axis }), &[x.clone(), ids.clone()])
}

pub(super) fn vjp<B: Builder>(
    b: &B,
    axis: usize,
    op: ScatterOp,
    at: &Applied<'_, B::Value>,
    t: &B::Value,
) -> Result<Optional<B::Value>> {
    let (base, ids, source) = (&at.inputs[0], &at.inputs[1], &at.inputs[2]);
    let mut found = at.no_cotangents();
    match op {
        ScatterOp::Set => {
            if at.wants(0) {
                found[0] = Some(apply(b, axis, op, t, ids, &ops::zeros_like(b, source)?)?);
            }
            if at.wants(2) {
                // What a later element overwrote has no influence.
                let kept = last_writers(b, axis, base, ids)?;
                let zero = ops::scalar(b, 0i64, b.ty(t).dtype)?;
                found[2] = Some(ops::where_(b, &kept, &gather(b, axis, t, ids)?, &zero)?);
            }
        }
        ScatterOp::Add => {
            found[0] = at.wants(0).then(|| t.clone());
            if at.wants(2) {
                found[2] = Some(gather(b, axis, t, ids)?);
            }
        }
        ScatterOp::Mul => {
            let graph =
                derived::capture(b, at.inputs, |lazy, leaves| Ok(vec![product(lazy, axis, leaves)?]))?;
            found = derived::vjp_through(b, &graph, at, &[Some(t.clone())])?;
        }
        ScatterOp::Min | ScatterOp::Max => {
            let chosen = chosen(b, axis, at)?;
            let zero = ops::scalar(b, 0i64, b.ty(t).dtype)?;
            let share = ops::div(b, t, &chosen.count)?;
            if at.wants(0) {
                found[0] = Some(ops::where_(b, &chosen.base, &share, &zero)?);
            }
            if at.wants(2) {
                found[2] = Some(ops::where_(b, &chosen.source, &gather(b, axis, &share, ids)?, &zero)?);
            }
        }
    }
    Ok(found)
}

pub(super) fn jvp<B: Builder>(
    b: &B,
    axis: usize,
    op: ScatterOp,
    at: &Applied<'_, B::Value>,
    tangents: &[Option<B::Value>],
) -> Result<Option<B::Value>> {
    if tangents[0].is_none() && tangents[2].is_none() {
        return Ok(None);
    }
    let ids = &at.inputs[1];
    let of = |operand: usize| match &tangents[operand] {
        Some(t) => Ok(t.clone()),
        None => ops::zeros_like(b, &at.inputs[operand]),
    };
    Ok(match op {
        // Linear: the tangents scatter as the values do.
        ScatterOp::Set | ScatterOp::Add => Some(apply(b, axis, op, &of(0)?, ids, &of(2)?)?),
        ScatterOp::Mul => {
            let graph =
                derived::capture(b, at.inputs, |lazy, leaves| Ok(vec![product(lazy, axis, leaves)?]))?;
            derived::jvp_through(b, &graph, at.inputs, tangents)?.pop().flatten()
        }
        ScatterOp::Min | ScatterOp::Max => {
            let chosen = chosen(b, axis, at)?;
            let zero = ops::scalar(b, 0i64, b.ty(&at.inputs[0]).dtype)?;
            let base = ops::where_(b, &chosen.base, &of(0)?, &zero)?;
            let source = ops::where_(b, &chosen.source, &of(2)?, &zero)?;
            let total = apply(b, axis, ScatterOp::Add, &base, ids, &source)?;
            Some(ops::div(b, &total, &chosen.count)?)
        }
    })
}

/// Which source elements stay when several are written to one place: the last along the axis.
fn last_writers<B: Builder>(b: &B, axis: usize, base: &B::Value, ids: &B::Value) -> Result<B::Value> {
    let shape = ops::shape_of(b, ids);
    let order = ops::positions(b, &shape, axis)?;
    let board = ops::zeros(b, &ops::shape_of(b, base), DType::I64)?;
    let board = apply(b, axis, ScatterOp::Set, &board, ids, &order)?;
    ops::eq(b, &gather(b, axis, &board, ids)?, &order)
}

/// The elements that equal the extremum of their place, and how many do; they share its derivative evenly, as in
/// torch `scatter_reduce`.
struct Chosen<V> {
    base: V,
    source: V,
    /// Of the base's shape and dtype, at least 1.
    count: V,
}

fn chosen<B: Builder>(b: &B, axis: usize, at: &Applied<'_, B::Value>) -> Result<Chosen<B::Value>> {
    let (base, ids, source, out) = (&at.inputs[0], &at.inputs[1], &at.inputs[2], &at.outputs[0]);
    let dtype = b.ty(base).dtype;
    let hits_base = ops::eq(b, base, out)?;
    let hits_source = ops::eq(b, source, &gather(b, axis, out, ids)?)?;
    // Counted in the wide type: a half type stops counting at 2048 or 256.
    let ones = |hits: &B::Value| ops::cast(b, hits, dtype.wide());
    let count = apply(b, axis, ScatterOp::Add, &ones(&hits_base)?, ids, &ones(&hits_source)?)?;
    // 0 where NaN won, which equals nothing.
    let count = ops::cast(b, &ops::maximum_scalar(b, &count, 1i64)?, dtype)?;
    Ok(Chosen { base: hits_base, source: hits_source, count })
}

/// Scatter by products as a tree of pairwise products, whose derivatives of any order are exact at zeros too: the
/// elements are sorted by place, multiplied along each run of one place by doubling distances (Hillis and Steele
/// 1986, "Data parallel algorithms", with the segments of Schwartz), and the last of each run is the product.
pub(super) fn product<B: Builder>(b: &B, axis: usize, operands: &[B::Value]) -> Result<B::Value> {
    let (base, ids, source) = (&operands[0], &operands[1], &operands[2]);
    let dtype = b.ty(base).dtype;
    let wide = dtype.wide();
    let order = ops::argsort(b, ids, axis as isize, false)?;
    let ids = gather(b, axis, ids, &order)?;
    let mut x = gather(b, axis, &ops::cast(b, source, wide)?, &order)?;
    let size = b.ty(&x).shape[axis];
    let one = ops::scalar(b, 1i64, wide)?;
    let mut distance = 1;
    while distance < size {
        let part = |v: &B::Value, start, stop| ops::slice_axis(b, v, axis, start, stop, 1);
        let same = ops::eq(b, &part(&ids, 0, size - distance)?, &part(&ids, distance, size)?)?;
        let before = ops::where_(b, &same, &part(&x, 0, size - distance)?, &one)?;
        let joined = ops::mul(b, &before, &part(&x, distance, size)?)?;
        x = ops::concat(b, &[part(&x, 0, distance)?, joined], axis as isize)?;
        distance = distance.saturating_mul(2);
    }
    let ones = ops::ones(b, &ops::shape_of(b, base), wide)?;
    let factors = apply(b, axis, ScatterOp::Set, &ones, &ids, &x)?;
    ops::cast(b, &ops::mul(b, &ops::cast(b, base, wide)?, &factors)?, dtype)
}

/// Gather as reading rows of width 1 out of one table.
pub(super) fn gather_rows<B: Builder>(b: &B, axis: usize, x: &B::Value, ids: &B::Value) -> Result<B::Value> {
    let places = ops::shape_of(b, ids);
    let mut x = x.clone();
    for (other, &size) in places.iter().enumerate().filter(|(other, _)| *other != axis) {
        x = ops::slice_axis(b, &x, other, 0, size, 1)?;
    }
    let shape = ops::shape_of(b, &x);
    let mut last: Dims = (0..shape.len()).collect();
    last.remove(axis);
    let rows = numel(&last.iter().map(|&a| shape[a]).collect::<Dims>());
    last.push(axis);
    let table = ops::reshape_to(b, &ops::permute_to(b, &x, &last)?, &[rows * shape[axis], 1])?;
    let ids = ops::reshape_to(b, &ops::permute_to(b, ids, &last)?, &[rows, places[axis]])?;
    let taken = ops::embedding(b, &table, &ops::offset_ids(b, "gather", &ids, rows, shape[axis])?)?;
    let moved: Dims = last.iter().map(|&a| places[a]).collect();
    let mut back: Dims = (0..shape.len() - 1).collect();
    back.insert(axis, shape.len() - 1);
    ops::permute_to(b, &ops::reshape_to(b, &taken, &moved)?, &back)
}
