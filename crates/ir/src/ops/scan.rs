//! Cumulative ops along an axis, and differences and integrals built on them.

use super::{
    add, broadcast_to, cast, concat, mul, mul_scalar, require_float, reshape_to, shape_of, slice_axis, sub,
    sum,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, resolve_axis};
use crate::prim::{Prim, Scan, ScanOp};

fn scan<B: Builder>(b: &B, op: ScanOp, name: &str, x: &B::Value, axis: isize) -> Result<Vec<B::Value>> {
    let axis = resolve_axis(name, axis, b.ty(x).rank())?;
    let scan = Prim::Scan(Scan::Cumulative { op, axis, reverse: false });
    Ok(b.apply(scan, std::slice::from_ref(x))?.into_vec())
}

/// The first of a scan's outputs, with whole numbers and truth values in i64 as in torch.
fn in_wide_integers<B: Builder>(
    b: &B,
    op: ScanOp,
    name: &str,
    x: &B::Value,
    axis: isize,
) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let x = if dtype.is_int() || dtype == DType::Bool { cast(b, x, DType::I64)? } else { x.clone() };
    let mut found = scan(b, op, name, &x, axis)?;
    found.pop().ok_or_else(|| Error::unsupported(name, "the scan gave nothing"))
}

/// The values and places of an extremum so far; `bool` goes by way of u8.
fn extremes<B: Builder>(b: &B, op: ScanOp, name: &str, x: &B::Value, axis: isize) -> Result<Vec<B::Value>> {
    if b.ty(x).dtype != DType::Bool {
        return scan(b, op, name, x, axis);
    }
    let mut found = scan(b, op, name, &cast(b, x, DType::U8)?, axis)?;
    if let Some(values) = found.first_mut() {
        *values = cast(b, values, DType::Bool)?;
    }
    Ok(found)
}

/// The sum of each element and all before it on the axis; integers and `bool` give i64, which wraps. Half types
/// accumulate in f32 (torch `cumsum`).
pub fn cumsum<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<B::Value> {
    in_wide_integers(b, ScanOp::Sum, "cumsum", x, axis)
}

/// The product of each element and all before it on the axis; integers and `bool` give i64, which wraps. Half types
/// accumulate in f32; derivatives are exact at zeros (torch `cumprod`).
pub fn cumprod<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<B::Value> {
    in_wide_integers(b, ScanOp::Prod, "cumprod", x, axis)
}

/// The largest of each element and all before it on the axis, and its i64 place, the last of several; from a NaN on
/// everything is NaN (torch `cummax`).
pub fn cummax<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<Vec<B::Value>> {
    extremes(b, ScanOp::Max, "cummax", x, axis)
}

/// The smallest of each element and all before it on the axis, and its i64 place, the last of several; from a NaN on
/// everything is NaN (torch `cummin`).
pub fn cummin<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<Vec<B::Value>> {
    extremes(b, ScanOp::Min, "cummin", x, axis)
}

/// `log(sum(exp(x)))` over each element and all before it on the axis, without overflow; half types compute in f32
/// (torch `logcumsumexp`).
pub fn logcumsumexp<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<B::Value> {
    require_float("logcumsumexp", "the operand", b.ty(x))?;
    in_wide_integers(b, ScanOp::LogSumExp, "logcumsumexp", x, axis)
}

/// How often differences may be taken of a long axis: each time is a node of the graph.
const MAX_TIMES: usize = 1 << 12;

/// Differences of neighbours on an axis, taken `times` over: each makes the axis one shorter. `before` and `after` are
/// joined to the axis first. `bool` gives where neighbours differ (torch and NumPy `diff`).
pub fn diff<B: Builder>(
    b: &B,
    x: &B::Value,
    before: Option<&B::Value>,
    after: Option<&B::Value>,
    times: usize,
    axis: isize,
) -> Result<B::Value> {
    let axis = resolve_axis("diff", axis, b.ty(x).rank())?;
    let parts: Vec<B::Value> = before.into_iter().chain([x]).chain(after).cloned().collect();
    let mut x = concat(b, &parts, axis as isize)?;
    let size = b.ty(&x).shape[axis];
    if times >= size {
        return slice_axis(b, &x, axis, 0, if times == 0 { size } else { 0 }, 1);
    }
    if times > MAX_TIMES {
        return Err(Error::shape("diff", format!("is taken at most {MAX_TIMES} times, not {times}")));
    }
    for _ in 0..times {
        let size = b.ty(&x).shape[axis];
        let (low, high) = (slice_axis(b, &x, axis, 0, size - 1, 1)?, slice_axis(b, &x, axis, 1, size, 1)?);
        let is_bool = b.ty(&x).dtype == DType::Bool;
        x = if is_bool { super::ne(b, &high, &low)? } else { sub(b, &high, &low)? };
    }
    Ok(x)
}

/// The areas under the line through neighbours on the axis, whose distances are those of `x` or `spacing`; the axis
/// becomes one shorter.
fn trapezoids<B: Builder>(
    b: &B,
    op: &str,
    y: &B::Value,
    x: Option<&B::Value>,
    spacing: f64,
    axis: usize,
) -> Result<B::Value> {
    require_float(op, "the operand", b.ty(y))?;
    let shape = shape_of(b, y);
    let size = shape[axis];
    let last = size.max(1);
    let low = slice_axis(b, y, axis, 0, last - 1, 1)?;
    let high = slice_axis(b, y, axis, size.min(1), size, 1)?;
    let sides = mul_scalar(b, &add(b, &low, &high)?, 0.5)?;
    let Some(x) = x else { return mul_scalar(b, &sides, spacing) };
    let mut places = shape_of(b, x);
    if places.len() == 1 && places[0] == size {
        let mut line: Dims = shape.iter().map(|_| 1).collect();
        line[axis] = size;
        places = line;
    }
    let fits = places.len() == shape.len() && places[axis] == size;
    if !fits {
        return Err(Error::shape(
            op,
            format!("the places are {}, expected {size} or {}", b.ty(x), ShowShape(&shape)),
        ));
    }
    let x = broadcast_to(b, &reshape_to(b, x, &places)?, &shape)?;
    mul(b, &sides, &diff(b, &x, None, None, 1, axis as isize)?)
}

/// The integral along an axis by trapezoids, at places `x`, of the shape of `y` or of its axis, or `spacing` apart (torch
/// `trapezoid`, NumPy `trapezoid`). One element or none gives 0.
pub fn trapezoid<B: Builder>(
    b: &B,
    y: &B::Value,
    x: Option<&B::Value>,
    spacing: f64,
    axis: isize,
) -> Result<B::Value> {
    let axis = resolve_axis("trapezoid", axis, b.ty(y).rank())?;
    let areas = trapezoids(b, "trapezoid", y, x, spacing, axis)?;
    sum(b, &areas, &[axis as isize], false)
}

/// As [`trapezoid`], summed up to each place but the first: the axis becomes one shorter (torch `cumulative_trapezoid`).
pub fn cumulative_trapezoid<B: Builder>(
    b: &B,
    y: &B::Value,
    x: Option<&B::Value>,
    spacing: f64,
    axis: isize,
) -> Result<B::Value> {
    let axis = resolve_axis("cumulative_trapezoid", axis, b.ty(y).rank())?;
    cumsum(b, &trapezoids(b, "cumulative_trapezoid", y, x, spacing, axis)?, axis as isize)
}
