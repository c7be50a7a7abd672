//! Sorting, selection by rank, and statistics that rest on order. NaN counts as largest.

use super::{
    add, add_scalar, any, broadcast_to, cast, ceil, eq, floor, full, gather, isfinite, isnan, logical_not,
    logical_or, lt, maximum_scalar, minimum_scalar, mul, ne, permute_to, require_float, reshape_to, scalar,
    shape_of, slice_axis, squeeze, sub, sum, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, resolve_axis};
use crate::prim::{Prim, Scan, ScanOp, Sort};

/// Values and places along a resolved axis.
pub(crate) fn sort_axis<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: usize,
    descending: bool,
) -> Result<(B::Value, B::Value)> {
    let sort = Prim::Sort(Sort::Stable { axis, descending });
    let mut found = b.apply(sort, std::slice::from_ref(x))?;
    match (found.pop(), found.pop()) {
        (Some(places), Some(values)) => Ok((values, places)),
        _ => Err(Error::unsupported("sort", "expected values and places")),
    }
}

/// The elements of an axis in order, and their i64 places in it. Equal elements keep their order; NaN counts as largest
/// (torch `sort` with `stable`).
pub fn sort<B: Builder>(b: &B, x: &B::Value, axis: isize, descending: bool) -> Result<Vec<B::Value>> {
    let axis = resolve_axis("sort", axis, b.ty(x).rank())?;
    let (values, places) = sort_axis(b, x, axis, descending)?;
    Ok(vec![values, places])
}

/// The i64 places of the elements of an axis in their order; see [`sort`] (torch `argsort` with `stable`).
pub fn argsort<B: Builder>(b: &B, x: &B::Value, axis: isize, descending: bool) -> Result<B::Value> {
    let axis = resolve_axis("argsort", axis, b.ty(x).rank())?;
    Ok(sort_axis(b, x, axis, descending)?.1)
}

/// The elements of axis 0 in order; see [`sort`] (torch `msort`).
pub fn msort<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let axis = resolve_axis("msort", 0, b.ty(x).rank())?;
    Ok(sort_axis(b, x, axis, false)?.0)
}

/// The `k` largest or smallest elements of an axis, and their i64 places, in order; of equal elements the first come
/// first. `sorted` is what torch takes, and the order is the same without it (torch `topk`).
pub fn topk<B: Builder>(
    b: &B,
    x: &B::Value,
    k: usize,
    axis: isize,
    largest: bool,
    _sorted: bool,
) -> Result<Vec<B::Value>> {
    let shape = shape_of(b, x);
    let axis = resolve_axis("topk", axis, shape.len())?;
    if k > shape[axis] {
        return Err(Error::shape(
            "topk",
            format!("k is {k} but axis {axis} of {} is shorter", ShowShape(&shape)),
        ));
    }
    let (values, places) = sort_axis(b, x, axis, largest)?;
    Ok(vec![slice_axis(b, &values, axis, 0, k, 1)?, slice_axis(b, &places, axis, 0, k, 1)?])
}

/// One element of each line, of a sorted axis, at i64 `ranks` with size 1 there: values and places.
fn at_ranks<B: Builder>(
    b: &B,
    sorted: &(B::Value, B::Value),
    ranks: &B::Value,
    axis: usize,
    keepdim: bool,
) -> Result<Vec<B::Value>> {
    let mut found = Vec::with_capacity(2);
    for line in [&sorted.0, &sorted.1] {
        let one = gather(b, line, axis as isize, ranks)?;
        found.push(if keepdim { one } else { squeeze(b, &one, &[axis as isize])? });
    }
    Ok(found)
}

/// The `k`-th smallest element of an axis, counted from 1, and its i64 place (torch `kthvalue`).
pub fn kthvalue<B: Builder>(
    b: &B,
    x: &B::Value,
    k: usize,
    axis: isize,
    keepdim: bool,
) -> Result<Vec<B::Value>> {
    let mut shape = shape_of(b, x);
    let axis = resolve_axis("kthvalue", axis, shape.len())?;
    if k == 0 || k > shape[axis] {
        return Err(Error::shape(
            "kthvalue",
            format!("k is {k}, expected 1 to the size of axis {axis} of {}", ShowShape(&shape)),
        ));
    }
    shape[axis] = 1;
    let ranks = full(b, &shape, k as i64 - 1, DType::I64)?;
    at_ranks(b, &sort_axis(b, x, axis, false)?, &ranks, axis, keepdim)
}

/// The operand and the axis of a statistic: all elements in one line where no axis is given.
fn line_of<B: Builder>(b: &B, op: &str, x: &B::Value, axis: Option<isize>) -> Result<(B::Value, usize)> {
    let rank = b.ty(x).rank();
    let (x, axis) = match axis {
        Some(axis) => (x.clone(), resolve_axis(op, axis, rank)?),
        None => (reshape_to(b, x, &[b.ty(x).numel()])?, 0),
    };
    if b.ty(&x).shape[axis] == 0 {
        let shape = ShowShape(&b.ty(&x).shape);
        return Err(Error::shape(op, format!("axis {axis} of {shape} holds no element to choose")));
    }
    Ok((x, axis))
}

/// How many elements of each line are not NaN, i64 with size 1 on the axis.
fn count_numbers<B: Builder>(b: &B, x: &B::Value, axis: usize) -> Result<B::Value> {
    let numbers = logical_not(b, &isnan(b, x)?)?;
    sum(b, &cast(b, &numbers, DType::I64)?, &[axis as isize], true)
}

/// The median of an axis, or of all elements, and its i64 place (among all elements in row-major order); of an even
/// number the lower of the middle two. NaN if any element is (torch `median`). The derivative flows to the element that
/// was chosen.
pub fn median<B: Builder>(b: &B, x: &B::Value, axis: Option<isize>, keepdim: bool) -> Result<Vec<B::Value>> {
    let keepdim = keepdim && axis.is_some();
    let (x, axis) = line_of(b, "median", x, axis)?;
    let mut shape = shape_of(b, &x);
    let size = shape[axis] as i64;
    shape[axis] = 1;
    let mut ranks = full(b, &shape, (size - 1) / 2, DType::I64)?;
    if b.ty(&x).dtype.is_float() {
        // The first NaN stands behind all numbers.
        let numbers = count_numbers(b, &x, axis)?;
        let has_nan = lt(b, &numbers, &scalar(b, size, DType::I64)?)?;
        ranks = where_(b, &has_nan, &minimum_scalar(b, &numbers, size - 1)?, &ranks)?;
    }
    at_ranks(b, &sort_axis(b, &x, axis, false)?, &ranks, axis, keepdim)
}

/// As [`median`], of the elements that are not NaN; NaN if there are none (torch `nanmedian`).
pub fn nanmedian<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: Option<isize>,
    keepdim: bool,
) -> Result<Vec<B::Value>> {
    require_float("nanmedian", "the operand", b.ty(x))?;
    let keepdim = keepdim && axis.is_some();
    let (x, axis) = line_of(b, "nanmedian", x, axis)?;
    let last = add_scalar(b, &count_numbers(b, &x, axis)?, -1i64)?;
    let ranks = super::div_scalar(b, &maximum_scalar(b, &last, 0i64)?, 2i64)?;
    at_ranks(b, &sort_axis(b, &x, axis, false)?, &ranks, axis, keepdim)
}

/// The quantiles of an axis, or of all elements, at `q`, of rank 0 or 1 and in 0..=1, interpolated linearly between the
/// two nearest elements: `[keepdim axes]`, after an axis of the size of `q` where that has rank 1. NaN where an element
/// or `q` is NaN, and for a `q` out of range. Between an infinity and a number lies the infinity. Half types compute in f32 (torch and NumPy `quantile`).
pub fn quantile<B: Builder>(
    b: &B,
    x: &B::Value,
    q: &B::Value,
    axis: Option<isize>,
    keepdim: bool,
) -> Result<B::Value> {
    quantiles(b, "quantile", x, q, axis, keepdim, false)
}

/// As [`quantile`], of the elements that are not NaN; NaN if there are none (torch `nanquantile`).
pub fn nanquantile<B: Builder>(
    b: &B,
    x: &B::Value,
    q: &B::Value,
    axis: Option<isize>,
    keepdim: bool,
) -> Result<B::Value> {
    quantiles(b, "nanquantile", x, q, axis, keepdim, true)
}

fn quantiles<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    q: &B::Value,
    axis: Option<isize>,
    keepdim: bool,
    skips_nan: bool,
) -> Result<B::Value> {
    require_float(op, "the operand", b.ty(x))?;
    require_float(op, "q", b.ty(q))?;
    if b.ty(q).rank() > 1 {
        return Err(Error::shape(op, format!("q is {}, expected rank 0 or 1", b.ty(q))));
    }
    let whole_rank = b.ty(x).rank();
    let is_whole = axis.is_none();
    let dtype = b.ty(x).dtype;
    let wide = dtype.wide();
    let (x, axis) = line_of(b, op, &cast(b, x, wide)?, axis)?;
    let last = b.ty(&x).rank() - 1;
    // [.., n]
    let x = super::move_axis(b, &x, axis as isize, -1)?;
    let size = b.ty(&x).shape[last] as i64;
    let (sorted, _) = sort_axis(b, &x, last, false)?;
    let count = b.ty(q).numel();
    let points = reshape_to(b, &cast(b, q, wide)?, &[count])?;
    let numbers = count_numbers(b, &x, last)?;
    let steps = if skips_nan {
        cast(b, &maximum_scalar(b, &add_scalar(b, &numbers, -1i64)?, 0i64)?, wide)?
    } else {
        scalar(b, (size - 1) as f64, wide)?
    };
    let mut shape = shape_of(b, &x);
    shape[last] = count;
    // [.., count], between elements.
    let ranks = broadcast_to(b, &mul(b, &points, &steps)?, &shape)?;
    let inside =
        super::logical_and(b, &super::ge_scalar(b, &points, 0.0)?, &super::le_scalar(b, &points, 1.0)?)?;
    let (low, high) = (floor(b, &ranks)?, ceil(b, &ranks)?);
    let place = |rank: &B::Value| {
        let place = cast(b, rank, DType::I64)?;
        minimum_scalar(b, &maximum_scalar(b, &place, 0i64)?, size - 1)
    };
    let (at_low, at_high) = (gather(b, &sorted, -1, &place(&low)?)?, gather(b, &sorted, -1, &place(&high)?)?);
    // Between an infinity and a number lies the infinity, whose distances are NaN.
    let finite = super::logical_and(b, &isfinite(b, &at_low)?, &isfinite(b, &at_high)?)?;
    let zero = scalar(b, 0i64, wide)?;
    let (from, to) = (where_(b, &finite, &at_low, &zero)?, where_(b, &finite, &at_high, &zero)?);
    let between = add(b, &from, &mul(b, &sub(b, &ranks, &low)?, &sub(b, &to, &from)?)?)?;
    let same = eq(b, &at_low, &at_high)?;
    let infinite = where_(b, &same, &at_low, &add(b, &at_low, &at_high)?)?;
    let found = where_(b, &finite, &between, &infinite)?;
    let mut wrong = logical_not(b, &inside)?;
    if !skips_nan {
        wrong = logical_or(b, &wrong, &any(b, &isnan(b, &x)?, &[-1], true)?)?;
    }
    let found = cast(b, &where_(b, &wrong, &scalar(b, f64::NAN, wide)?, &found)?, dtype)?;
    // [count, ..]
    let mut order: Dims = (0..last).collect();
    order.insert(0, last);
    let found = permute_to(b, &found, &order)?;
    let mut shape = shape_of(b, &found);
    if keepdim {
        match is_whole {
            true => shape.extend((0..whole_rank).map(|_| 1)),
            false => shape.insert(axis + 1, 1),
        }
    }
    if b.ty(q).rank() == 0 {
        shape.remove(0);
    }
    reshape_to(b, &found, &shape)
}

/// Where the elements of a sorted axis begin anew, as `bool`: true at the first of each run of equal ones.
pub(crate) fn run_starts<B: Builder>(b: &B, sorted: &B::Value, axis: usize) -> Result<B::Value> {
    let mut shape = shape_of(b, sorted);
    let size = shape[axis];
    if size == 0 {
        return full(b, &shape, false, DType::Bool);
    }
    let differs =
        ne(b, &slice_axis(b, sorted, axis, 1, size, 1)?, &slice_axis(b, sorted, axis, 0, size - 1, 1)?)?;
    shape[axis] = 1;
    super::concat(b, &[full(b, &shape, true, DType::Bool)?, differs], axis as isize)
}

/// The most frequent element of an axis and the i64 place of its last occurrence; of several the smallest (torch
/// `mode`). Each NaN counts by itself. The derivative flows to the element that was chosen.
pub fn mode<B: Builder>(b: &B, x: &B::Value, axis: isize, keepdim: bool) -> Result<Vec<B::Value>> {
    let (x, axis) = line_of(b, "mode", x, Some(axis))?;
    let sorted = sort_axis(b, &x, axis, false)?;
    let here = super::positions(b, &shape_of(b, &x), axis)?;
    let starts = where_(b, &run_starts(b, &sorted.0, axis)?, &here, &scalar(b, 0i64, DType::I64)?)?;
    let scan = Prim::Scan(Scan::Cumulative { op: ScanOp::Max, axis, reverse: false });
    let start = b.apply(scan, &[starts])?.swap_remove(0);
    // The first of the largest distances from a run's start is the end of the first longest run.
    let ranks = super::argmax(b, &sub(b, &here, &start)?, Some(axis as isize), true)?;
    at_ranks(b, &sorted, &ranks, axis, keepdim)
}
