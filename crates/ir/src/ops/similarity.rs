//! Distances and similarities of vectors, and the losses made of them.

use super::distance::norm_of_last;
use super::loss::{Reduction, at_least_zero, wide_floats};
use super::{
    add_scalar, cast, div, eq_scalar, gt_scalar, minimum, mul, neg, rsub_scalar, scalar, shape_of, sqrt,
    square, sub, sub_scalar, sum, unsqueeze, where_,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::layout::{broadcast_shapes, resolve_axis};
use crate::prim::expect_shape;

/// `x y / (max(|x|, eps) max(|y|, eps))` of vectors along `axis`; `x` and `y` broadcast. The derivative of the size
/// of a vector shorter than `eps` is 0.
pub fn cosine_similarity<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    axis: isize,
    eps: f64,
) -> Result<B::Value> {
    const OP: &str = "cosine_similarity";
    let ([x, y], dtype) = wide_floats(b, OP, [("x", x), ("y", y)])?;
    let shape = broadcast_shapes(OP, &b.ty(&x).shape, &b.ty(&y).shape)?;
    resolve_axis(OP, axis, shape.len())?;
    let (x, y) = (super::broadcast_to(b, &x, &shape)?, super::broadcast_to(b, &y, &shape)?);
    let size = |v: &B::Value| {
        let total = sum(b, &square(b, v)?, &[axis], true)?;
        let least = scalar(b, eps * eps, dtype.wide())?;
        // Masked before the root, whose slope at 0 is infinite.
        sqrt(b, &where_(b, &gt_scalar(b, &total, eps * eps)?, &total, &least)?)
    };
    let product = mul(b, &div(b, &x, &size(&x)?)?, &div(b, &y, &size(&y)?)?)?;
    cast(b, &sum(b, &product, &[axis], false)?, dtype)
}

/// The `p`-norm of `x - y + eps` along the last axis; `x` and `y` broadcast. The derivative at distance 0 is 0.
///
/// Errors: a `p` below 0.
pub fn pairwise_distance<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    p: f64,
    eps: f64,
    keepdim: bool,
) -> Result<B::Value> {
    const OP: &str = "pairwise_distance";
    let ([x, y], dtype) = wide_floats(b, OP, [("x", x), ("y", y)])?;
    cast(b, &distance(b, OP, &x, &y, p, eps, keepdim)?, dtype)
}

fn distance<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    y: &B::Value,
    p: f64,
    eps: f64,
    keepdim: bool,
) -> Result<B::Value> {
    broadcast_shapes(op, &b.ty(x).shape, &b.ty(y).shape)?;
    let difference = add_scalar(b, &sub(b, x, y)?, eps)?;
    if b.ty(&difference).rank() == 0 {
        return Err(Error::shape(op, "the operands have rank 0, expected vectors along the last axis"));
    }
    let distance = norm_of_last(b, op, &difference, p)?;
    if keepdim { unsqueeze(b, &distance, -1) } else { Ok(distance) }
}

/// `1 - cos(x, y)` where the target is 1, `max(0, cos(x, y) - margin)` where it is -1, for vectors along the last axis:
/// `x`, `y` `[.., n]`, targets `[..]`. As in torch, 1e-12 is added to the square of each size.
pub fn cosine_embedding_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    targets: &B::Value,
    margin: f64,
    reduction: Reduction,
) -> Result<B::Value> {
    const OP: &str = "cosine_embedding_loss";
    expect_shape(OP, "y", b.ty(y), &b.ty(x).shape)?;
    let shape = shape_of(b, x);
    let Some((_, rows)) = shape.split_last() else {
        return Err(Error::shape(OP, "the operands have rank 0, expected vectors along the last axis"));
    };
    expect_shape(OP, "the target", b.ty(targets), rows)?;
    let ([x, y, target], dtype) = wide_floats(b, OP, [("x", x), ("y", y), ("the target", targets)])?;
    let dot = |u: &B::Value, v: &B::Value| sum(b, &mul(b, u, v)?, &[-1], false);
    let squares = mul(b, &add_scalar(b, &dot(&x, &x)?, 1e-12)?, &add_scalar(b, &dot(&y, &y)?, 1e-12)?)?;
    let cosine = div(b, &dot(&x, &y)?, &sqrt(b, &squares)?)?;
    let zero = scalar(b, 0.0, dtype.wide())?;
    let like = where_(b, &eq_scalar(b, &target, 1.0)?, &rsub_scalar(b, &cosine, 1.0)?, &zero)?;
    let unlike = at_least_zero(b, &sub_scalar(b, &cosine, margin)?)?;
    reduction.finish(b, &where_(b, &eq_scalar(b, &target, -1.0)?, &unlike, &like)?, dtype)
}

/// `max(0, -target (x - y) + margin)` for targets of -1 and 1: 1 asks that `x` ranks above `y`.
pub fn margin_ranking_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    targets: &B::Value,
    margin: f64,
    reduction: Reduction,
) -> Result<B::Value> {
    const OP: &str = "margin_ranking_loss";
    expect_shape(OP, "y", b.ty(y), &b.ty(x).shape)?;
    expect_shape(OP, "the target", b.ty(targets), &b.ty(x).shape)?;
    let ([x, y, target], dtype) = wide_floats(b, OP, [("x", x), ("y", y), ("the target", targets)])?;
    let lead = mul(b, &neg(b, &target)?, &sub(b, &x, &y)?)?;
    reduction.finish(b, &at_least_zero(b, &add_scalar(b, &lead, margin)?)?, dtype)
}

/// `max(0, d(anchor, positive) - d(anchor, negative) + margin)` for the [`pairwise_distance`] `d` along the last axis
/// (Schroff et al. 2015). With `swap` the negative's distance is the smaller one of those to the anchor and the
/// positive.
pub fn triplet_margin_loss<B: Builder>(
    b: &B,
    anchor: &B::Value,
    positive: &B::Value,
    negative: &B::Value,
    margin: f64,
    p: f64,
    eps: f64,
    swap: bool,
    reduction: Reduction,
) -> Result<B::Value> {
    const OP: &str = "triplet_margin_loss";
    expect_shape(OP, "positive", b.ty(positive), &b.ty(anchor).shape)?;
    expect_shape(OP, "negative", b.ty(negative), &b.ty(anchor).shape)?;
    let operands = [("anchor", anchor), ("positive", positive), ("negative", negative)];
    let ([anchor, positive, negative], dtype) = wide_floats(b, OP, operands)?;
    let near = distance(b, OP, &anchor, &positive, p, eps, false)?;
    let mut far = distance(b, OP, &anchor, &negative, p, eps, false)?;
    if swap {
        far = minimum(b, &far, &distance(b, OP, &positive, &negative, p, eps, false)?)?;
    }
    let losses = at_least_zero(b, &add_scalar(b, &sub(b, &near, &far)?, margin)?)?;
    reduction.finish(b, &losses, dtype)
}
