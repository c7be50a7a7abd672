//! Results whose shape depends on values. Each op is one composition over a `size`: without one the size is read from
//! the values, which only computed tensors allow ([`Builder::count`]); with one the op serves graphs, `vmap` and
//! derivatives too, a result that is too long is cut, and one that is too short is filled.

use super::{
    add_scalar, broadcast_to, cast, chosen_places, concat, cumsum, div_scalar, gather, index_select, iota,
    minimum_scalar, mul_scalar, ne, ne_scalar, permute_to, rem_scalar, reshape_to, run_starts, scalar,
    scalar_beside, searchsorted, shape_of, slice_axis, sort_axis, stack, sum, unsqueeze, where_, zeros,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::Scalar;
use crate::layout::{Dims, ShowShape, broadcast_shapes, numel, resolve_axis};
use crate::prim::{Index, Prim, ScatterOp};

/// 1 where an element is not 0, as i64 `[n]`.
fn marks<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let flat = reshape_to(b, x, &[b.ty(x).numel()])?;
    let marked = if b.ty(x).dtype == DType::Bool { flat } else { ne_scalar(b, &flat, 0i64)? };
    cast(b, &marked, DType::I64)
}

/// `size`, or the number of marks.
fn size_or_count<B: Builder>(b: &B, op: &str, marks: &B::Value, size: Option<usize>) -> Result<usize> {
    match size {
        Some(size) => Ok(size),
        None => b.count(op, &sum(b, marks, &[], false)?),
    }
}

/// The coordinates of the elements that are not 0, in row-major order: i64 `[n, rank]`. With `size`, `[size, rank]`, where
/// missing rows hold `fill` (torch `nonzero`, `nonzero_static`). NaN is not 0.
///
/// Errors: in a graph, no `size`.
pub fn nonzero<B: Builder>(b: &B, x: &B::Value, size: Option<usize>, fill: i64) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let marks = marks(b, x)?;
    let size = size_or_count(b, "nonzero", &marks, size)?;
    if shape.is_empty() {
        return zeros(b, &[size, 0], DType::I64);
    }
    let (places, filled) = chosen_places(b, &marks, size)?;
    let mut rest = places;
    let mut columns = Vec::with_capacity(shape.len());
    for &length in shape.iter().rev() {
        let length = length.max(1) as i64;
        columns.push(rem_scalar(b, &rest, length)?);
        rest = div_scalar(b, &rest, length)?;
    }
    columns.reverse();
    let rows = stack(b, &columns, 1)?;
    where_(b, &unsqueeze(b, &filled, -1)?, &rows, &scalar(b, fill, DType::I64)?)
}

/// See [`nonzero`], whose missing rows hold -1 here (NumPy `argwhere`).
///
/// Errors: in a graph, no `size`.
pub fn argwhere<B: Builder>(b: &B, x: &B::Value, size: Option<usize>) -> Result<B::Value> {
    nonzero(b, x, size, -1)
}

/// The elements of `x` where the `bool` mask is true, in row-major order, `[n]`; both broadcast. With `size`, `[size]`,
/// where missing elements are `fill` (torch `masked_select`).
///
/// Errors: in a graph, no `size`.
pub fn masked_select<B: Builder>(
    b: &B,
    x: &B::Value,
    mask: &B::Value,
    size: Option<usize>,
    fill: impl Into<Scalar>,
) -> Result<B::Value> {
    let name = "masked_select";
    if b.ty(mask).dtype != DType::Bool {
        return Err(Error::dtype(name, format!("the mask is {}, expected bool", b.ty(mask))));
    }
    let shape = broadcast_shapes(name, &b.ty(x).shape, &b.ty(mask).shape)?;
    let (x, mask) = (broadcast_to(b, x, &shape)?, broadcast_to(b, mask, &shape)?);
    let marks = marks(b, &mask)?;
    let size = size_or_count(b, name, &marks, size)?;
    let dtype = b.ty(&x).dtype;
    let fill = scalar(b, scalar_beside(name, dtype, fill.into())?, dtype)?;
    if numel(&shape) == 0 {
        return broadcast_to(b, &fill, &[size]);
    }
    let (places, filled) = chosen_places(b, &marks, size)?;
    let found = gather(b, &reshape_to(b, &x, &[numel(&shape)])?, 0, &places)?;
    where_(b, &filled, &found, &fill)
}

/// What a list of rows in some order amounts to: the runs of equal neighbours.
struct Runs<V> {
    /// The place of the first element of each run, `[size]`.
    first: V,
    /// Which of them there are.
    filled: V,
    /// The length of each run, `[size]`.
    counts: V,
    /// The number of the run of each element, `[n]`.
    number: V,
}

/// The runs that begin where `starts`, `bool [n]`, is true.
fn runs<B: Builder>(b: &B, op: &str, starts: &B::Value, size: Option<usize>) -> Result<Runs<B::Value>> {
    let marks = cast(b, starts, DType::I64)?;
    let size = size_or_count(b, op, &marks, size)?;
    let (first, filled) = chosen_places(b, &marks, size)?;
    let number = add_scalar(b, &cumsum(b, &marks, 0)?, -1i64)?;
    let counts = super::bincount(b, &number, None, Some(size))?;
    Ok(Runs { first, filled, counts, number })
}

/// The rows of `x` along an axis (elements, where none is given) as a list `[n, width]`, with its axis order and shape.
struct RowList<V> {
    rows: V,
    /// The axes of the operand, the list's first.
    order: Dims,
    /// The sizes of the other axes.
    rest: Dims,
}

fn row_list<B: Builder>(b: &B, op: &str, x: &B::Value, axis: Option<isize>) -> Result<RowList<B::Value>> {
    let shape = shape_of(b, x);
    let Some(axis) = axis else {
        let rows = reshape_to(b, x, &[numel(&shape), 1])?;
        return Ok(RowList { rows, order: Dims::from_slice(&[0]), rest: Dims::new() });
    };
    let axis = resolve_axis(op, axis, shape.len())?;
    let mut order: Dims = (0..shape.len()).collect();
    order.remove(axis);
    let rest: Dims = order.iter().map(|&a| shape[a]).collect();
    order.insert(0, axis);
    let rows = reshape_to(b, &permute_to(b, x, &order)?, &[shape[axis], numel(&rest)])?;
    Ok(RowList { rows, order, rest })
}

impl<V: Clone> RowList<V> {
    /// The rows `first [size]` in the shape of the operand, `fill` where there is none.
    fn select<B: Builder<Value = V>>(
        &self,
        b: &B,
        op: &str,
        first: &V,
        filled: &V,
        fill: Scalar,
    ) -> Result<V> {
        let (size, dtype) = (b.ty(first).numel(), b.ty(&self.rows).dtype);
        let (n, width) = (b.ty(&self.rows).shape[0], numel(&self.rest));
        let fill = scalar(b, scalar_beside(op, dtype, fill)?, dtype)?;
        let chosen = match n {
            0 => broadcast_to(b, &fill, &[size, width])?,
            _ => index_select(b, &self.rows, 0, first)?,
        };
        let chosen = where_(b, &unsqueeze(b, filled, -1)?, &chosen, &fill)?;
        let mut shape = Dims::from_slice(&[size]);
        shape.extend_from_slice(&self.rest);
        let mut back = self.order.clone();
        for (to, &from) in self.order.iter().enumerate() {
            back[from] = to;
        }
        permute_to(b, &reshape_to(b, &chosen, &shape)?, &back)
    }
}

/// Which rows of `[n, width]` differ from the one before, `bool [n]`.
fn row_starts<B: Builder>(b: &B, rows: &B::Value) -> Result<B::Value> {
    let shape = shape_of(b, rows);
    let n = shape[0];
    if n == 0 {
        return super::full(b, &[0], false, DType::Bool);
    }
    let differs = ne(b, &slice_axis(b, rows, 0, 1, n, 1)?, &slice_axis(b, rows, 0, 0, n - 1, 1)?)?;
    let differs = super::any(b, &differs, &[1], false)?;
    concat(b, &[super::full(b, &[1], true, DType::Bool)?, differs], 0)
}

/// The order of the rows `[n, width]` by their elements from the left, as places `[n]`. Each column is replaced by the
/// numbers of its elements in order, then neighbours are joined to one number, halving the width: as many sorts as the
/// width has binary digits.
fn row_order<B: Builder>(b: &B, rows: &B::Value) -> Result<B::Value> {
    let (n, mut width) = (b.ty(rows).shape[0], b.ty(rows).shape[1]);
    if width == 0 {
        return iota(b, n, DType::I64);
    }
    let mut keys = rows.clone();
    while width > 1 {
        let ranks = dense_ranks(b, &keys)?;
        let (left, right) = (slice_axis(b, &ranks, 1, 0, width, 2)?, slice_axis(b, &ranks, 1, 1, width, 2)?);
        let pairs = width / 2;
        let joined =
            super::add(b, &mul_scalar(b, &slice_axis(b, &left, 1, 0, pairs, 1)?, n as i64)?, &right)?;
        keys = match width % 2 {
            0 => joined,
            _ => concat(b, &[joined, slice_axis(b, &left, 1, pairs, pairs + 1, 1)?], 1)?,
        };
        width = pairs + width % 2;
    }
    Ok(sort_axis(b, &reshape_to(b, &keys, &[n])?, 0, false)?.1)
}

/// The number of each element of `[n, width]` among the different ones of its column, i64.
fn dense_ranks<B: Builder>(b: &B, keys: &B::Value) -> Result<B::Value> {
    let (sorted, places) = sort_axis(b, keys, 0, false)?;
    let starts = cast(b, &run_starts(b, &sorted, 0)?, DType::I64)?;
    let ranks = add_scalar(b, &cumsum(b, &starts, 0)?, -1i64)?;
    unsort(b, &places, &ranks)
}

/// `values` along axis 0, put back to where a sort took them from.
fn unsort<B: Builder>(b: &B, places: &B::Value, values: &B::Value) -> Result<B::Value> {
    let base = zeros(b, &shape_of(b, values), b.ty(values).dtype)?;
    let scatter = Prim::Index(Index::Scatter { axis: 0, op: ScatterOp::Set });
    b.apply1(scatter, &[base, places.clone(), values.clone()])
}

/// The different elements of `x` in ascending order, or its different slices along `axis` in the order of their elements;
/// then for each element (slice) the i64 number of its equal among them, and i64 how often each occurs. With `size` the
/// first and the last result have that many entries, and missing ones hold `fill` and 0. Each NaN is an element of its
/// own (torch `unique` with `return_inverse` and `return_counts`).
///
/// Errors: in a graph, no `size`.
pub fn unique<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: Option<isize>,
    size: Option<usize>,
    fill: impl Into<Scalar>,
) -> Result<Vec<B::Value>> {
    let name = "unique";
    let list = row_list(b, name, x, axis)?;
    let order = row_order(b, &list.rows)?;
    let sorted = match b.ty(&list.rows).shape[0] {
        0 => list.rows.clone(),
        _ => index_select(b, &list.rows, 0, &order)?,
    };
    let runs = runs(b, name, &row_starts(b, &sorted)?, size)?;
    let list = RowList { rows: sorted, ..list };
    let values = list.select(b, name, &runs.first, &runs.filled, fill.into())?;
    let mut inverse = unsort(b, &order, &runs.number)?;
    if axis.is_none() {
        inverse = reshape_to(b, &inverse, &shape_of(b, x))?;
    }
    Ok(vec![values, inverse, runs.counts])
}

/// As [`unique`], but only equal neighbours become one, and the order stays (torch `unique_consecutive`).
///
/// Errors: in a graph, no `size`.
pub fn unique_consecutive<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: Option<isize>,
    size: Option<usize>,
    fill: impl Into<Scalar>,
) -> Result<Vec<B::Value>> {
    let name = "unique_consecutive";
    let list = row_list(b, name, x, axis)?;
    let runs = runs(b, name, &row_starts(b, &list.rows)?, size)?;
    let values = list.select(b, name, &runs.first, &runs.filled, fill.into())?;
    let inverse = match axis {
        None => reshape_to(b, &runs.number, &shape_of(b, x))?,
        Some(_) => runs.number,
    };
    Ok(vec![values, inverse, runs.counts])
}

/// Each slice of an axis as often in a row as `counts [n]` says, which are not negative. With `size` the axis has that
/// size, cut or filled with the last slice (torch `repeat_interleave` with `output_size`); a negative count is not seen then.
///
/// Errors: in a graph, no `size`; without one, a negative count.
pub fn repeat_counts<B: Builder>(
    b: &B,
    x: &B::Value,
    counts: &B::Value,
    axis: isize,
    size: Option<usize>,
) -> Result<B::Value> {
    let name = "repeat_counts";
    let shape = shape_of(b, x);
    let axis = resolve_axis(name, axis, shape.len())?;
    super::require_int(name, "the counts", b.ty(counts))?;
    let n = shape[axis];
    if b.ty(counts).shape[..] != [n] {
        let found = b.ty(counts);
        let shape = ShowShape(&shape);
        return Err(Error::shape(
            name,
            format!("the counts are {found}, expected one for each of axis {axis} of {shape}"),
        ));
    }
    let counts = cast(b, counts, DType::I64)?;
    let size = match size {
        Some(size) => size,
        None if n == 0 => 0,
        None => {
            // The total, or the least count where that is negative: one number to be read.
            let least = super::min(b, &counts, &[], false)?;
            let total = sum(b, &counts, &[], false)?;
            let is_negative = super::lt_scalar(b, &least, 0i64)?;
            b.count(name, &where_(b, &is_negative, &least, &total)?).map_err(|error| match error.kind {
                ErrorKind::Execute => Error::new(
                    error.kind,
                    name,
                    format!(
                        "the counts do not add up to a size, expected numbers from 0 on: {}",
                        error.message
                    ),
                ),
                _ => error,
            })?
        }
    };
    if n == 0 {
        let mut shape = shape;
        shape[axis] = size;
        if size > 0 {
            return Err(Error::shape(name, format!("an axis of size 0 cannot fill a size of {size}")));
        }
        return reshape_to(b, x, &shape);
    }
    let ends = cumsum(b, &counts, 0)?;
    let places = searchsorted(b, &ends, &iota(b, size, DType::I64)?, true)?;
    index_select(b, x, axis as isize, &minimum_scalar(b, &places, n as i64 - 1)?)
}
