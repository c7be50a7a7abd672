//! Reductions over axes. An empty list of axes means all; `keepdim` leaves reduced axes with size 1.

use super::{
    abs, add, cast, complex, div, exp, full, isfinite, log, logical_not, mul_scalar, ne_scalar,
    require_float, reshape_to, scalar, shape_of, sqrt, square, sub, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, resolve_axis};
use crate::prim::{Prim, Reduce, ReduceOp};

/// Ascending axes; all for an empty list.
///
/// Errors: an axis that is out of range or named twice.
pub(super) fn resolve_axes(op: &str, axes: &[isize], rank: usize) -> Result<Dims> {
    if axes.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut resolved: Dims = axes.iter().map(|&a| resolve_axis(op, a, rank)).collect::<Result<_>>()?;
    resolved.sort_unstable();
    match resolved.windows(2).find(|pair| pair.first() == pair.last()) {
        Some(pair) => {
            let message =
                format!("the axes {axes:?} name axis {} of {rank} twice; once would be right", pair[0]);
            Err(Error::shape(op, message))
        }
        None => Ok(resolved),
    }
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
    let dtype = b.ty(x).dtype;
    match op {
        ReduceOp::Sum if dtype.is_complex() => {
            return complex::on_pairs(b, x, |pairs| fold(b, op, pairs, axes));
        }
        ReduceOp::Prod if dtype.is_complex() => return complex::product_over(b, x, axes),
        _ => {}
    }
    let x = cast(b, x, dtype.summed())?;
    let folded = b.apply1(Prim::Reduce(Reduce::Fold { op, axes: Dims::from_slice(axes) }), &[x])?;
    cast(b, &folded, dtype)
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
    if b.ty(x).dtype.is_f8() {
        let found = b.ty(x).dtype;
        return Err(Error::dtype(
            name,
            format!("computes nothing in {found}, which is for storage; cast to f32 first"),
        ));
    }
    let axes = resolve_axes(name, axes, shape.len())?;
    let kept = fold(b, op, x, &axes)?;
    if keepdim { Ok(kept) } else { reshape_to(b, &kept, &without(&shape, &axes)) }
}

/// Integers and `bool` as i64, in which they are summed and multiplied.
fn accumulated<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    cast(b, x, b.ty(x).dtype.accumulated())
}

/// The sum over axes; 0 over no elements. Integers and `bool` are summed in i64, which wraps; floats keep their
/// dtype.
pub fn sum<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    reduce(b, ReduceOp::Sum, "sum", &accumulated(b, x)?, axes, keepdim)
}

/// The product over axes; 1 over no elements. Integers and `bool` are multiplied in i64, which wraps; floats keep
/// their dtype.
pub fn prod<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    reduce(b, ReduceOp::Prod, "prod", &accumulated(b, x)?, axes, keepdim)
}

/// The largest element over axes; NaN propagates. No elements are an error. Elements that tie share the gradient.
pub fn max<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    extremum(b, ReduceOp::Max, "max", x, axes, keepdim)
}

/// The smallest element over axes; NaN propagates. No elements are an error. Elements that tie share the gradient.
pub fn min<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    extremum(b, ReduceOp::Min, "min", x, axes, keepdim)
}

fn extremum<B: Builder>(
    b: &B,
    op: ReduceOp,
    name: &str,
    x: &B::Value,
    axes: &[isize],
    keepdim: bool,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let resolved = resolve_axes(name, axes, shape.len())?;
    if resolved.iter().any(|&axis| shape[axis] == 0) {
        return Err(Error::shape(
            name,
            format!("axes {} of {} hold no element to choose", ShowShape(&resolved), ShowShape(&shape)),
        ));
    }
    if b.ty(x).dtype == DType::Bool {
        let chosen = reduce(b, op, name, &cast(b, x, DType::I32)?, axes, keepdim)?;
        return cast(b, &chosen, DType::Bool);
    }
    reduce(b, op, name, x, axes, keepdim)
}

/// The mean over axes, of a float or complex operand; half types compute in f32.
pub fn mean<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    if dtype.is_complex() {
        let axes = resolve_axes("mean", axes, b.ty(x).rank())?;
        if axes.is_empty() {
            return Ok(x.clone());
        }
        let axes: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
        return complex::on_pairs(b, x, |pairs| mean(b, pairs, &axes, keepdim));
    }
    require_float("mean", "the operand", b.ty(x))?;
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
    let mut variance = mul_scalar(b, &total, 1.0 / divisor)?;
    if divisor == 0.0 {
        // 0 times infinity, which not every device's multiplication knows to be NaN.
        let (zero, nan) = (scalar(b, 0.0, dtype.wide())?, scalar(b, f64::NAN, dtype.wide())?);
        variance = add(b, &variance, &where_(b, &super::eq_scalar(b, &total, 0.0)?, &nan, &zero)?)?;
    }
    cast(b, &variance, dtype)
}

/// The standard deviation over axes, with divisor `n - correction`. Where all elements are equal its derivative is
/// taken to be 0 (torch gives NaN).
pub fn std<B: Builder>(
    b: &B,
    x: &B::Value,
    axes: &[isize],
    correction: f64,
    keepdim: bool,
) -> Result<B::Value> {
    require_float("std", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let variance = var(b, &cast(b, x, dtype.wide())?, axes, correction, keepdim)?;
    cast(b, &root(b, &variance)?, dtype)
}

/// The square root of what is not negative, with derivative 0 at 0.
fn root<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let vanishes = super::eq_scalar(b, x, 0.0)?;
    let (zero, one) = (scalar(b, 0.0, b.ty(x).dtype)?, scalar(b, 1.0, b.ty(x).dtype)?);
    where_(b, &vanishes, &zero, &sqrt(b, &where_(b, &vanishes, &one, x)?)?)
}

/// The `ord`-norm over axes, `sum(|x|^ord)^(1/ord)`: 2 is Euclidean, infinity the largest and minus infinity the
/// smallest magnitude, 0 the number of elements that are not 0 (torch `linalg.vector_norm`). Half types compute in
/// f32. Where the norm has no derivative, as at 0, it is taken to be 0.
pub fn norm<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool, ord: f64) -> Result<B::Value> {
    if complex::is_complex(b, x) {
        return norm(b, &abs(b, x)?, axes, keepdim, ord);
    }
    require_float("norm", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let wide = &cast(b, x, dtype.wide())?;
    let total = |terms: &B::Value| reduce(b, ReduceOp::Sum, "norm", terms, axes, keepdim);
    let norm = match ord {
        2.0 => root(b, &total(&square(b, wide)?)?)?,
        1.0 => total(&abs(b, wide)?)?,
        0.0 => total(&cast(b, &ne_scalar(b, wide, 0.0)?, dtype.wide())?)?,
        f64::INFINITY => extremum(b, ReduceOp::Max, "norm", &abs(b, wide)?, axes, keepdim)?,
        f64::NEG_INFINITY => extremum(b, ReduceOp::Min, "norm", &abs(b, wide)?, axes, keepdim)?,
        _ if ord.is_nan() => return Err(Error::shape("norm", "ord is NaN, expected a number")),
        _ => {
            let powered = power(b, &abs(b, wide)?, ord)?;
            power(b, &total(&powered)?, 1.0 / ord)?
        }
    };
    cast(b, &norm, dtype)
}

/// `x^exponent` of what is not negative, with derivative 0 at 0.
fn power<B: Builder>(b: &B, x: &B::Value, exponent: f64) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let vanishes = super::eq_scalar(b, x, 0.0)?;
    let at_zero = scalar(b, 0f64.powf(exponent), dtype)?;
    let safe = where_(b, &vanishes, &scalar(b, 1.0, dtype)?, x)?;
    where_(b, &vanishes, &at_zero, &super::pow_scalar(b, &safe, exponent)?)
}

fn arg<B: Builder>(
    b: &B,
    make: impl Fn(usize) -> Reduce,
    name: &str,
    x: &B::Value,
    axis: Option<isize>,
    keepdim: bool,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let Some(axis) = axis else {
        let flat = reshape_to(b, x, &[b.ty(x).numel()])?;
        let chosen = b.apply1(Prim::Reduce(make(0)), std::slice::from_ref(&flat))?;
        let kept: Dims = shape.iter().map(|_| 1).collect();
        return reshape_to(b, &chosen, if keepdim { &kept } else { &[] });
    };
    let axis = resolve_axis(name, axis, shape.len())?;
    let kept = b.apply1(Prim::Reduce(make(axis)), std::slice::from_ref(x))?;
    if keepdim { Ok(kept) } else { reshape_to(b, &kept, &without(&shape, &[axis])) }
}

/// The i64 index of the first largest element along an axis, or in row-major order over all elements; NaN counts as
/// largest.
pub fn argmax<B: Builder>(b: &B, x: &B::Value, axis: Option<isize>, keepdim: bool) -> Result<B::Value> {
    arg(b, |axis| Reduce::ArgMax { axis }, "argmax", x, axis, keepdim)
}

/// The i64 index of the first smallest element along an axis, or in row-major order over all elements; NaN counts as
/// smallest.
pub fn argmin<B: Builder>(b: &B, x: &B::Value, axis: Option<isize>, keepdim: bool) -> Result<B::Value> {
    arg(b, |axis| Reduce::ArgMin { axis }, "argmin", x, axis, keepdim)
}

/// `log(sum(exp(x)))` over axes, shifted by the maximum; minus infinity over no elements. Half types compute in f32.
pub fn logsumexp<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    require_float("logsumexp", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let shape = shape_of(b, x);
    let resolved = resolve_axes("logsumexp", axes, shape.len())?;
    let mut reduced = shape.clone();
    for &axis in &resolved {
        reduced[axis] = 1;
    }
    let kept = if resolved.iter().any(|&axis| shape[axis] == 0) {
        full(b, &reduced, f64::NEG_INFINITY, dtype)?
    } else {
        let wide = cast(b, x, dtype.wide())?;
        let peak = fold(b, ReduceOp::Max, &wide, &resolved)?;
        // An infinite maximum would make NaN of `inf - inf`; there the shift is 0.
        let peak = where_(b, &isfinite(b, &peak)?, &peak, &scalar(b, 0.0, dtype.wide())?)?;
        let total = fold(b, ReduceOp::Sum, &exp(b, &sub(b, &wide, &peak)?)?, &resolved)?;
        cast(b, &add(b, &log(b, &total)?, &peak)?, dtype)?
    };
    if keepdim { Ok(kept) } else { reshape_to(b, &kept, &without(&shape, &resolved)) }
}

/// True where any element over the axes is not 0 (NaN is not), as `bool`; false over no elements.
pub fn any<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    holds_somewhere(b, "any", &truth(b, x)?, axes, keepdim)
}

/// True where no element over the axes is 0 (NaN is not), as `bool`; true over no elements.
pub fn all<B: Builder>(b: &B, x: &B::Value, axes: &[isize], keepdim: bool) -> Result<B::Value> {
    let falses = logical_not(b, &truth(b, x)?)?;
    logical_not(b, &holds_somewhere(b, "all", &falses, axes, keepdim)?)
}

/// Whether an element is not 0.
fn truth<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    if b.ty(x).dtype == DType::Bool { Ok(x.clone()) } else { ne_scalar(b, x, 0i64) }
}

fn holds_somewhere<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    axes: &[isize],
    keepdim: bool,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axes = resolve_axes(op, axes, shape.len())?;
    let mut reduced = shape.clone();
    for &axis in &axes {
        reduced[axis] = 1;
    }
    let kept = if axes.iter().any(|&axis| shape[axis] == 0) {
        full(b, &reduced, false, DType::Bool)?
    } else {
        cast(b, &fold(b, ReduceOp::Max, &cast(b, x, DType::I32)?, &axes)?, DType::Bool)?
    };
    if keepdim { Ok(kept) } else { reshape_to(b, &kept, &without(&shape, &axes)) }
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
