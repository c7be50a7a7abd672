//! Writing by integer tensors and masks.

use super::{
    add, add_scalar, broadcast_to, cast, div, floor, ge_scalar, logical_and, max, maximum_scalar, min,
    minimum_scalar, mul, mul_scalar, ones_like, pad, positions, require_float, require_int, reshape_to,
    scalar, scalar_beside, shape_of, slice_axis, sub, where_, zeros,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Scalar;
use crate::layout::{Dims, ShowShape, broadcast_shapes, resolve_axis};
use crate::prim::{Index, Prim, ScatterOp};

fn apply<B: Builder>(
    b: &B,
    op: ScatterOp,
    base: &B::Value,
    axis: usize,
    ids: &B::Value,
    source: &B::Value,
) -> Result<B::Value> {
    let scatter = Prim::Index(Index::Scatter { axis, op });
    b.apply1(scatter, &[base.clone(), ids.clone(), source.clone()])
}

/// The part of the source that the ids name: its first elements along each axis, or one element for all.
fn named_part<B: Builder>(b: &B, op: &str, source: &B::Value, ids: &B::Value) -> Result<B::Value> {
    let (shape, wanted) = (shape_of(b, source), shape_of(b, ids));
    if shape.is_empty() {
        return broadcast_to(b, source, &wanted);
    }
    if shape.len() != wanted.len() || shape.iter().zip(&wanted).any(|(have, want)| have < want) {
        return Err(Error::shape(
            op,
            format!("the source is {}, expected at least the ids' {}", b.ty(source), ShowShape(&wanted)),
        ));
    }
    let mut part = source.clone();
    for (axis, &size) in wanted.iter().enumerate() {
        part = slice_axis(b, &part, axis, 0, size, 1)?;
    }
    Ok(part)
}

/// `x` with `source[.., i, ..]` written to `[.., ids[.., i, ..], ..]`, where `i` runs over `axis`. `ids` has the rank of
/// `x` and no other axis larger than that of `x`; `source` is at least as large as `ids`, or of rank 0. Of several
/// elements for one place the last along the axis stays (torch `scatter`, which leaves that open). An id out of range,
/// also a negative one, is an error when the op runs.
pub fn scatter<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: isize,
    ids: &B::Value,
    source: &B::Value,
) -> Result<B::Value> {
    let axis = resolve_axis("scatter", axis, b.ty(x).rank())?;
    apply(b, ScatterOp::Set, x, axis, ids, &named_part(b, "scatter", source, ids)?)
}

/// As [`scatter`], but every element is added to what is at its place; half types accumulate in f32 (torch
/// `scatter_add`).
pub fn scatter_add<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: isize,
    ids: &B::Value,
    source: &B::Value,
) -> Result<B::Value> {
    let axis = resolve_axis("scatter_add", axis, b.ty(x).rank())?;
    apply(b, ScatterOp::Add, x, axis, ids, &named_part(b, "scatter_add", source, ids)?)
}

/// How [`scatter_reduce`] combines the elements of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScatterReduce {
    #[default]
    Sum,
    Prod,
    /// Of integers truncated towards zero.
    Mean,
    Amax,
    Amin,
}

/// As [`scatter`], but the elements of one place are combined with each other and, if `include_self`, with what is
/// there; places that no id names keep their element (torch `scatter_reduce`). Derivatives of the extrema are shared
/// evenly at ties; those of the product are exact at zeros.
pub fn scatter_reduce<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: isize,
    ids: &B::Value,
    source: &B::Value,
    reduce: ScatterReduce,
    include_self: bool,
) -> Result<B::Value> {
    let name = "scatter_reduce";
    let axis = resolve_axis(name, axis, b.ty(x).rank())?;
    let source = named_part(b, name, source, ids)?;
    let dtype = b.ty(x).dtype;
    let without_self = |base: &B::Value, identity: Scalar| {
        if include_self {
            return Ok(base.clone());
        }
        let identity = broadcast_to(b, &scalar(b, identity, b.ty(base).dtype)?, &shape_of(b, ids))?;
        apply(b, ScatterOp::Set, base, axis, ids, &identity)
    };
    let combined =
        |op: ScatterOp, identity: Scalar| apply(b, op, &without_self(x, identity)?, axis, ids, &source);
    match reduce {
        ScatterReduce::Sum => combined(ScatterOp::Add, Scalar::Int(0)),
        ScatterReduce::Prod => combined(ScatterOp::Mul, Scalar::Int(1)),
        ScatterReduce::Amax => combined(ScatterOp::Max, lowest(dtype)),
        ScatterReduce::Amin => combined(ScatterOp::Min, highest(dtype)),
        ScatterReduce::Mean => {
            let wide = dtype.wide();
            let base = without_self(&cast(b, x, wide)?, Scalar::Int(0))?;
            let total = apply(b, ScatterOp::Add, &base, axis, ids, &cast(b, &source, wide)?)?;
            // A narrow integer could not count.
            let counts = if dtype.is_float() { wide } else { DType::I64 };
            let mine = without_self(&cast(b, &ones_like(b, x)?, counts)?, Scalar::Int(0))?;
            let one = broadcast_to(b, &scalar(b, 1i64, counts)?, &shape_of(b, ids))?;
            let count = maximum_scalar(b, &apply(b, ScatterOp::Add, &mine, axis, ids, &one)?, 1i64)?;
            cast(b, &div(b, &cast(b, &total, counts)?, &count)?, dtype)
        }
    }
}

/// The number that no number of the dtype lies below.
fn lowest(dtype: DType) -> Scalar {
    match dtype {
        DType::I8 => Scalar::Int(i64::from(i8::MIN)),
        DType::I16 => Scalar::Int(i64::from(i16::MIN)),
        DType::I32 => Scalar::Int(i64::from(i32::MIN)),
        DType::I64 => Scalar::Int(i64::MIN),
        dtype if dtype.is_float() => Scalar::float(f64::NEG_INFINITY),
        _ => Scalar::Int(0),
    }
}

/// The number that no number of the dtype lies above.
fn highest(dtype: DType) -> Scalar {
    match dtype {
        DType::U8 => Scalar::Int(i64::from(u8::MAX)),
        DType::U16 => Scalar::Int(i64::from(u16::MAX)),
        DType::U32 => Scalar::Int(i64::from(u32::MAX)),
        // All bits set: constants of u64 are written as i64.
        DType::U64 => Scalar::Int(-1),
        DType::I8 => Scalar::Int(i64::from(i8::MAX)),
        DType::I16 => Scalar::Int(i64::from(i16::MAX)),
        DType::I32 => Scalar::Int(i64::from(i32::MAX)),
        DType::I64 => Scalar::Int(i64::MAX),
        _ => Scalar::float(f64::INFINITY),
    }
}

/// `ids [n]` spread to the shape of `x` with `n` elements on `axis`.
fn spread_ids<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    axis: isize,
    ids: &B::Value,
) -> Result<(usize, B::Value)> {
    let mut shape = shape_of(b, x);
    let axis = resolve_axis(op, axis, shape.len())?;
    require_int(op, "ids", b.ty(ids))?;
    let [count] = b.ty(ids).shape[..] else {
        return Err(Error::shape(op, format!("ids are {}, expected rank 1", b.ty(ids))));
    };
    shape[axis] = count;
    let mut line: Dims = shape.iter().map(|_| 1).collect();
    line[axis] = count;
    Ok((axis, broadcast_to(b, &reshape_to(b, ids, &line)?, &shape)?))
}

fn expect_source<B: Builder>(b: &B, op: &str, source: &B::Value, ids: &B::Value) -> Result<()> {
    let wanted = &b.ty(ids).shape;
    if b.ty(source).shape == *wanted {
        return Ok(());
    }
    Err(Error::shape(op, format!("the source is {}, expected {}", b.ty(source), ShowShape(wanted))))
}

/// `x` with `alpha` times the slices of `source` along `axis` added to the slices that `ids [n]` name; an id may stand
/// several times (torch `index_add`).
pub fn index_add<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: isize,
    ids: &B::Value,
    source: &B::Value,
    alpha: impl Into<Scalar>,
) -> Result<B::Value> {
    let (axis, ids) = spread_ids(b, "index_add", x, axis, ids)?;
    expect_source(b, "index_add", source, &ids)?;
    let alpha = alpha.into();
    let source = if alpha.as_f64() == 1.0 { source.clone() } else { mul_scalar(b, source, alpha)? };
    apply(b, ScatterOp::Add, x, axis, &ids, &source)
}

/// `x` with the slices of `source` along `axis` in place of those that `ids [n]` name, of several for one place the last
/// (torch `index_copy`).
pub fn index_copy<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: isize,
    ids: &B::Value,
    source: &B::Value,
) -> Result<B::Value> {
    let (axis, ids) = spread_ids(b, "index_copy", x, axis, ids)?;
    expect_source(b, "index_copy", source, &ids)?;
    apply(b, ScatterOp::Set, x, axis, &ids, source)
}

/// `x` with `value` in the slices along `axis` that `ids [n]` name (torch `index_fill`).
pub fn index_fill<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: isize,
    ids: &B::Value,
    value: impl Into<Scalar>,
) -> Result<B::Value> {
    let (axis, ids) = spread_ids(b, "index_fill", x, axis, ids)?;
    let dtype = b.ty(x).dtype;
    let value = scalar(b, scalar_beside("index_fill", dtype, value.into())?, dtype)?;
    apply(b, ScatterOp::Set, x, axis, &ids, &broadcast_to(b, &value, &shape_of(b, &ids))?)
}

/// A `bool` mask spread to the shape of `x`.
fn spread_mask<B: Builder>(b: &B, op: &str, x: &B::Value, mask: &B::Value) -> Result<B::Value> {
    let (shape, ty) = (shape_of(b, x), b.ty(mask));
    if ty.dtype != DType::Bool {
        return Err(Error::dtype(op, format!("the mask is {ty}, expected bool")));
    }
    if broadcast_shapes(op, &ty.shape, &shape)? != shape {
        return Err(Error::shape(
            op,
            format!("the mask is {ty}, expected what broadcasts to {}", ShowShape(&shape)),
        ));
    }
    broadcast_to(b, mask, &shape)
}

/// `x` with `value` where the `bool` mask is true, which broadcasts to `x` (torch `masked_fill`).
pub fn masked_fill<B: Builder>(
    b: &B,
    x: &B::Value,
    mask: &B::Value,
    value: impl Into<Scalar>,
) -> Result<B::Value> {
    let mask = spread_mask(b, "masked_fill", x, mask)?;
    let dtype = b.ty(x).dtype;
    where_(b, &mask, &scalar(b, scalar_beside("masked_fill", dtype, value.into())?, dtype)?, x)
}

/// `x` with the elements of `source` in row-major order put where the `bool` mask, which broadcasts to `x`, is true
/// (torch `masked_scatter`). Fewer elements than true places are an error when the op runs.
pub fn masked_scatter<B: Builder>(
    b: &B,
    x: &B::Value,
    mask: &B::Value,
    source: &B::Value,
) -> Result<B::Value> {
    let name = "masked_scatter";
    let mask = spread_mask(b, name, x, mask)?;
    let (tx, ts) = (b.ty(x).dtype, b.ty(source).dtype);
    if tx != ts {
        return Err(Error::dtype(
            name,
            format!("the source is {ts} but the operand is {tx}; cast one of them"),
        ));
    }
    let (shape, count, given) = (shape_of(b, x), b.ty(x).numel(), b.ty(source).numel());
    let flat = cast(b, &reshape_to(b, &mask, &[count])?, DType::I64)?;
    // Element 0 of the padded source serves the places that take nothing from it.
    let places = mul(b, &super::cumsum(b, &flat, 0)?, &flat)?;
    let source = pad(b, &reshape_to(b, source, &[given])?, &[1], &[0], 0i64)?;
    let taken = reshape_to(b, &super::gather(b, &source, 0, &places)?, &shape)?;
    where_(b, &mask, &taken, x)
}

/// How often each of `0..size` occurs among the integers `x`, of any shape: i64 `[size]`, or the sums of `weights`, of
/// the shape of `x`, in their dtype. Values from `size` on are not counted; a negative one is an error when the op runs.
/// Without `size`, which only computed tensors allow, the result reaches to the largest value (torch `bincount`).
pub fn bincount<B: Builder>(
    b: &B,
    x: &B::Value,
    weights: Option<&B::Value>,
    size: Option<usize>,
) -> Result<B::Value> {
    let name = "bincount";
    require_int(name, "the operand", b.ty(x))?;
    let (shape, count) = (shape_of(b, x), b.ty(x).numel());
    let ids = cast(b, &reshape_to(b, x, &[count])?, DType::I64)?;
    let size = match size {
        Some(size) => size,
        None if count == 0 => 0,
        None => {
            let top = maximum_scalar(b, &max(b, &ids, &[], false)?, -1i64)?;
            b.count(name, &add_scalar(b, &top, 1i64)?)?
        }
    };
    let places = size.checked_add(1).and_then(|places| Some((places, i64::try_from(size).ok()?)));
    let Some((places, beyond)) = places else {
        return Err(Error::shape(name, format!("the size {size} does not fit the address space")));
    };
    let weights = match weights {
        None => broadcast_to(b, &scalar(b, 1i64, DType::I64)?, &[count])?,
        Some(weights) if b.ty(weights).shape == shape => reshape_to(b, weights, &[count])?,
        Some(weights) => {
            let expected = ShowShape(&shape);
            return Err(Error::shape(
                name,
                format!("the weights are {}, expected {expected}", b.ty(weights)),
            ));
        }
    };
    // One more place takes what is beyond.
    let ids = minimum_scalar(b, &ids, beyond)?;
    let bins = zeros(b, &[places], b.ty(&weights).dtype)?;
    slice_axis(b, &apply(b, ScatterOp::Add, &bins, 0, &ids, &weights)?, 0, 0, size, 1)
}

/// How many elements of `x`, of any shape, fall into each of `bins` equal parts of `low..=high`, in its dtype; elements
/// outside and NaN are not counted. Where `low` equals `high` the range is that of the finite elements, and where these are
/// all equal it is one to both sides of them (torch `histc`, which refuses infinities and NaN then).
pub fn histc<B: Builder>(b: &B, x: &B::Value, bins: usize, low: f64, high: f64) -> Result<B::Value> {
    let name = "histc";
    require_float(name, "the operand", b.ty(x))?;
    let parts = i64::try_from(bins).ok().filter(|&bins| bins > 0 && bins < i64::MAX);
    let Some(parts) = parts else {
        return Err(Error::shape(name, format!("the number of bins is {bins}, expected at least 1")));
    };
    if !(low <= high && low.is_finite() && high.is_finite()) {
        return Err(Error::shape(name, format!("{low} to {high} is no finite range")));
    }
    let dtype = b.ty(x).dtype;
    let wide = dtype.wide();
    let count = b.ty(x).numel();
    if count == 0 {
        return zeros(b, &[bins], dtype);
    }
    let x = cast(b, &reshape_to(b, x, &[count])?, wide)?;
    let (low, high) = if low < high {
        (scalar(b, low, wide)?, scalar(b, high, wide)?)
    } else {
        let finite = super::isfinite(b, &x)?;
        let or = |limit: f64| where_(b, &finite, &x, &scalar(b, limit, wide)?);
        let low = min(b, &or(f64::INFINITY)?, &[], false)?;
        let high = max(b, &or(f64::NEG_INFINITY)?, &[], false)?;
        let one = cast(b, &super::eq(b, &low, &high)?, wide)?;
        (sub(b, &low, &one)?, add(b, &high, &one)?)
    };
    let span = sub(b, &high, &low)?;
    let place = floor(b, &mul_scalar(b, &div(b, &sub(b, &x, &low)?, &span)?, bins as f64)?)?;
    // The last part holds its upper end.
    let inside = logical_and(b, &super::ge(b, &x, &low)?, &super::le(b, &x, &high)?)?;
    let place = minimum_scalar(b, &cast(b, &place, DType::I64)?, parts - 1)?;
    let place = where_(b, &inside, &place, &scalar(b, parts, DType::I64)?)?;
    let counts = bincount(b, &place, None, Some(bins))?;
    cast(b, &counts, dtype)
}

/// Which elements a result of chosen size takes from `count` candidates: those whose mark (i64, 0 or 1) is set, in their
/// order. Gives their places `[size]` and which of them hold an element.
pub(crate) fn chosen_places<B: Builder>(
    b: &B,
    marks: &B::Value,
    size: usize,
) -> Result<(B::Value, B::Value)> {
    let count = b.ty(marks).numel();
    let limit = i64::try_from(size).map_err(|_| Error::shape("size", "does not fit the address space"))?;
    let order = super::cumsum(b, marks, 0)?;
    let total = if count == 0 {
        scalar(b, 0i64, DType::I64)?
    } else {
        reshape_to(b, &slice_axis(b, &order, 0, count - 1, count, 1)?, &[])?
    };
    // One more place takes what is not chosen or does not fit.
    let slot = minimum_scalar(b, &add_scalar(b, &order, -1i64)?, limit)?;
    let is_marked = ge_scalar(b, marks, 1i64)?;
    let slot = where_(b, &is_marked, &slot, &scalar(b, limit, DType::I64)?)?;
    let board = zeros(b, &[size.saturating_add(1)], DType::I64)?;
    let places = apply(b, ScatterOp::Set, &board, 0, &slot, &positions(b, &[count], 0)?)?;
    let places = slice_axis(b, &places, 0, 0, size, 1)?;
    let filled = super::lt(b, &super::iota(b, size, DType::I64)?, &total)?;
    Ok((places, filled))
}
