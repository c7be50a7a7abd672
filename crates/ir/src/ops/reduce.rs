//! Reductions over axes. An empty list of axes means all; `keepdim` leaves reduced axes with size 1.

use super::{
    add, cast, div, eq_scalar, exp, isfinite, log, mul_scalar, ne_scalar, require_float, reshape_to, scalar,
    shape_of, sqrt, square, sub, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Dims, resolve_axis};
use crate::prim::{Prim, Reduce, ReduceOp};

/// Ascending axes without repeats; all for an empty list.
fn resolve_axes(op: &str, axes: &[isize], rank: usize) -> Result<Dims> {
    if axes.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut resolved: Dims = axes.iter().map(|&a| resolve_axis(op, a, rank)).collect::<Result<_>>()?;
    resolved.sort_unstable();
    resolved.dedup();
    Ok(resolved)
}

/// `shape` without `axes`.
fn without(shape: &[usize], axes: &[usize]) -> Dims {
    (0..shape.len()).filter(|a| !axes.contains(a)).map(|a| shape[a]).collect()
}

/// Folds resolved axes, which stay with size 1. Folding nothing gives `x`.
pub(crate) fn fold<B: Builder>(b: &B, op: ReduceOp, x: &B::Value, axes: &[usize]) -> Result<B::Value> {
    if axes.is_empty() {
        return Ok(x.clone());
    }
    b.apply1(Prim::Reduce(Reduce::Fold { op, axes: Dims::from_slice(axes) }), std::slice::from_ref(x))
}

fn reduce<B: Builder>(
    b: &B,
    op: ReduceOp,
    name: &str,
    x: &B::Value,
    axes: &[isize],
    keepdim: bool,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axes = resolve_axes(name, axes, shape.len())?;
    let kept = fold(b, op, x, &axes)?;
    if keepdim { Ok(kept) } else { reshape_to(b, &kept, &without(&shape, &axes)) }
}

/// The sum over axes, in the operand's dtype; 0 over no elements.
pub fn sum<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    reduce(b, ReduceOp::Sum, "sum", x, axes, keepdim)
}

/// The product over axes, in the operand's dtype; 1 over no elements.
pub fn prod<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    reduce(b, ReduceOp::Prod, "prod", x, axes, keepdim)
}

/// The largest element over axes; NaN propagates. No elements are an error.
pub fn max<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    reduce(b, ReduceOp::Max, "max", x, axes, keepdim)
}

/// The smallest element over axes; NaN propagates. No elements are an error.
pub fn min<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    reduce(b, ReduceOp::Min, "min", x, axes, keepdim)
}

/// The mean over axes, of a floating-point operand; half types compute in f32.
pub fn mean<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    require_float("mean", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let count = count_of(b, "mean", x, axes)?;
    let total = sum(b, &cast(b, x, dtype.wide())?, axes, keepdim)?;
    let mean = if count == 1 { total } else { mul_scalar(b, &total, 1.0 / count as f64)? };
    cast(b, &mean, dtype)
}

/// The variance over axes, with divisor `n - correction`; half types compute in f32.
pub fn var<B: Builder>(
    b: &B,
    x: &B::Value,
    axes: &[isize],
    correction: f64,
    keepdim: bool,
) -> Result<B::Value> {
    require_float("var", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let wide = cast(b, x, dtype.wide())?;
    let divisor = (count_of(b, "var", x, axes)? as f64 - correction).max(0.0);
    let deviation = sub(b, &wide, &mean(b, &wide, axes, true)?)?;
    let total = sum(b, &square(b, &deviation)?, axes, keepdim)?;
    cast(b, &mul_scalar(b, &total, 1.0 / divisor)?, dtype)
}

/// The standard deviation over axes, with divisor `n - correction`.
pub fn std<B: Builder>(
    b: &B,
    x: &B::Value,
    axes: &[isize],
    correction: f64,
    keepdim: bool,
) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let variance = var(b, &cast(b, x, dtype.wide())?, axes, correction, keepdim)?;
    cast(b, &sqrt(b, &variance)?, dtype)
}

/// The Euclidean norm over axes; half types compute in f32.
pub fn norm<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let total = sum(b, &square(b, &cast(b, x, dtype.wide())?)?, axes, keepdim)?;
    cast(b, &sqrt(b, &total)?, dtype)
}

fn arg<B: Builder>(
    b: &B,
    make: impl Fn(usize) -> Reduce,
    name: &str,
    x: &B::Value,
    axis: isize,
    keepdim: bool,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axis = resolve_axis(name, axis, shape.len())?;
    let kept = b.apply1(Prim::Reduce(make(axis)), std::slice::from_ref(x))?;
    if keepdim { Ok(kept) } else { reshape_to(b, &kept, &without(&shape, &[axis])) }
}

/// The i64 index of the first largest element along an axis.
pub fn argmax<B: Builder>(b: &B, x: &B::Value, axis: isize, keepdim: bool) -> Result<B::Value> {
    arg(b, |axis| Reduce::ArgMax { axis }, "argmax", x, axis, keepdim)
}

/// The i64 index of the first smallest element along an axis.
pub fn argmin<B: Builder>(b: &B, x: &B::Value, axis: isize, keepdim: bool) -> Result<B::Value> {
    arg(b, |axis| Reduce::ArgMin { axis }, "argmin", x, axis, keepdim)
}

/// `log(sum(exp(x)))` over axes, shifted by the maximum; half types compute in f32.
pub fn logsumexp<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    require_float("logsumexp", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let wide = cast(b, x, dtype.wide())?;
    let peak = max(b, &wide, axes, true)?;
    // An infinite maximum would make NaN of `inf - inf`; there the shift is 0.
    let peak = where_(b, &isfinite(b, &peak)?, &peak, &scalar(b, 0.0, dtype.wide())?)?;
    let total = sum(b, &exp(b, &sub(b, &wide, &peak)?)?, axes, true)?;
    let kept = add(b, &log(b, &total)?, &peak)?;
    let kept = cast(b, &kept, dtype)?;
    if keepdim {
        return Ok(kept);
    }
    let shape = shape_of(b, x);
    reshape_to(b, &kept, &without(&shape, &resolve_axes("logsumexp", axes, shape.len())?))
}

/// True where any element over the axes is true, of `bool`.
pub fn any<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    ne_scalar(b, &sum(b, &count_true(b, "any", x)?, axes, keepdim)?, 0i64)
}

/// True where all elements over the axes are true, of `bool`.
pub fn all<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    let falses = super::logical_not(b, x)?;
    eq_scalar(b, &sum(b, &count_true(b, "all", &falses)?, axes, keepdim)?, 0i64)
}

fn count_true<B: Builder>(b: &B, op: &str, x: &B::Value) -> Result<B::Value> {
    if b.ty(x).dtype != DType::Bool {
        let found = b.ty(x).dtype;
        return Err(crate::Error::dtype(op, format!("the operand is {found}, expected bool")));
    }
    cast(b, x, DType::I32)
}

/// How many elements of `x` fall into one of the result.
pub(crate) fn count_of<B: Builder>(b: &B, op: &str, x: &B::Value, axes: &[isize]) -> Result<usize> {
    let shape = shape_of(b, x);
    Ok(resolve_axes(op, axes, shape.len())?.iter().map(|&a| shape[a]).product())
}

/// The mean of `x` weighted by `weight`, which broadcasts: `sum(x * weight) / sum(weight)`.
pub fn weighted_mean<B: Builder>(b: &B, x: &B::Value, weight: &B::Value) -> Result<B::Value> {
    let total = sum(b, &super::mul(b, x, weight)?, &[], false)?;
    let weight = super::broadcast_to(b, weight, &shape_of(b, x))?;
    div(b, &total, &sum(b, &weight, &[], false)?)
}
