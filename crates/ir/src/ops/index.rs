//! Reading by integer tensors.

use super::pointwise::named;
use super::{
    add, add_scalar, as_complex, as_real, broadcast_to, cast, complex, eq, eq_scalar, ge_scalar, iota, isnan,
    le, le_scalar, logical_and, logical_or, lt, lt_scalar, minimum_scalar, mul_scalar, permute_to,
    position_dtype, require_int, reshape_to, scalar, shape_of, unsqueeze, where_, zeros,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, broadcast_shapes, numel, resolve_axis};
use crate::prim::{Index, Prim, ScatterOp};

/// Rows of `table [rows, width]` by `ids [..]`: `[.., width]`. An id out of range is an error when the op runs.
pub fn embedding<B: Builder>(b: &B, table: &B::Value, ids: &B::Value) -> Result<B::Value> {
    if let (true, &[rows, width]) = (complex::is_complex(b, table), &b.ty(table).shape[..]) {
        let parts = width.checked_mul(2).ok_or_else(|| Error::shape("embedding", "the sizes overflow"))?;
        let pairs = reshape_to(b, &as_real(b, table)?, &[rows, parts])?;
        let taken = embedding(b, &pairs, ids)?;
        let mut shape = shape_of(b, ids);
        shape.extend([width, 2]);
        return as_complex(b, &reshape_to(b, &taken, &shape)?);
    }
    b.apply1(Prim::Index(Index::Embedding), &[table.clone(), ids.clone()])
}

/// The sum of `grad [.., width]` rows by `ids [..]`: `[rows, width]`; the transpose of [`embedding`].
pub fn embedding_grad<B: Builder>(b: &B, grad: &B::Value, ids: &B::Value, rows: usize) -> Result<B::Value> {
    b.apply1(Prim::Index(Index::EmbeddingGrad { rows }), &[grad.clone(), ids.clone()])
}

/// The given places `ids [n]` of one axis, in their order.
pub fn index_select<B: Builder>(b: &B, x: &B::Value, axis: isize, ids: &B::Value) -> Result<B::Value> {
    require_int("index_select", "ids", b.ty(ids))?;
    let shape = shape_of(b, x);
    let axis = resolve_axis("index_select", axis, shape.len())?;
    if b.ty(ids).rank() != 1 {
        return Err(Error::shape("index_select", format!("ids are {}, expected rank 1", b.ty(ids))));
    }
    let mut front: Dims = (0..shape.len()).collect();
    front.remove(axis);
    front.insert(0, axis);
    let rest: Dims = front[1..].iter().map(|&a| shape[a]).collect();
    let table = reshape_to(b, &permute_to(b, x, &front)?, &[shape[axis], numel(&rest)])?;
    let rows = named("index_select", || embedding(b, &table, ids))?;
    let mut selected = Dims::from_slice(&b.ty(ids).shape);
    selected.extend_from_slice(&rest);
    let mut back: Dims = (1..shape.len()).collect();
    back.insert(axis, 0);
    permute_to(b, &reshape_to(b, &rows, &selected)?, &back)
}

/// Along one axis, the element that `ids` names: `out[.., i, ..] = x[.., ids[.., i, ..], ..]`. `ids` has the rank of
/// `x` and no other axis larger than that of `x` (torch `gather`). An id out of range, also a negative one, is an error
/// when the op runs.
pub fn gather<B: Builder>(b: &B, x: &B::Value, axis: isize, ids: &B::Value) -> Result<B::Value> {
    let axis = resolve_axis("gather", axis, b.ty(x).rank())?;
    if complex::is_complex(b, x) {
        let [re, im] = [super::real(b, x)?, super::imag(b, x)?];
        let axis = axis as isize;
        return super::complex(b, &gather(b, &re, axis, ids)?, &gather(b, &im, axis, ids)?);
    }
    b.apply1(Prim::Index(Index::Gather { axis }), &[x.clone(), ids.clone()])
}

/// As [`gather`], where `x` and `ids` broadcast against each other off the axis (NumPy `take_along_axis`, torch
/// `take_along_dim`). An id out of range, also a negative one, is an error when the op runs.
pub fn take_along_axis<B: Builder>(b: &B, x: &B::Value, ids: &B::Value, axis: isize) -> Result<B::Value> {
    let name = "take_along_axis";
    let (mut sx, mut si) = (shape_of(b, x), shape_of(b, ids));
    let axis = resolve_axis(name, axis, sx.len())?;
    if sx.len() != si.len() {
        return Err(Error::shape(
            name,
            format!("ids are {}, expected the {} axes of {}", b.ty(ids), sx.len(), ShowShape(&sx)),
        ));
    }
    let (length, places) = (sx[axis], si[axis]);
    (sx[axis], si[axis]) = (1, 1);
    let mut shape = broadcast_shapes(name, &sx, &si)?;
    shape[axis] = length;
    let x = broadcast_to(b, x, &shape)?;
    shape[axis] = places;
    named(name, || gather(b, &x, axis as isize, &broadcast_to(b, ids, &shape)?))
}

/// The elements of `x` in row-major order at `ids [..]`, of the shape of `ids` (torch `take`). Ids count from the end
/// where negative; out of range they are an error when the op runs.
pub fn take<B: Builder>(b: &B, x: &B::Value, ids: &B::Value) -> Result<B::Value> {
    let flat = reshape_to(b, x, &[b.ty(x).numel()])?;
    let ids_shape = shape_of(b, ids);
    let places = reshape_to(b, ids, &[numel(&ids_shape)])?;
    let (places, _) = flat_places(b, "take", &[b.ty(x).numel()], std::slice::from_ref(&places))?;
    reshape_to(b, &named("take", || gather(b, &flat, 0, &places))?, &ids_shape)
}

/// `x` indexed by several integer tensors at once, which broadcast against each other: one for each of `axes`, or for
/// the leading axes where the list is empty. The axes of the ids stand where the indexed axes did if these are
/// neighbours in ascending order, else in front (NumPy and torch advanced indexing). Ids count from the end where
/// negative; out of range they are an error when the op runs. For a `bool` mask see `masked_select`.
pub fn index<B: Builder>(b: &B, x: &B::Value, ids: &[B::Value], axes: &[isize]) -> Result<B::Value> {
    let plan = Indexed::new(b, "index", x, ids, axes)?;
    let table = reshape_to(b, &permute_to(b, x, &plan.order)?, &[plan.places, plan.width])?;
    let rows = named("index", || embedding(b, &table, &plan.ids))?;
    permute_to(b, &reshape_to(b, &rows, &plan.front_shape())?, &plan.back)
}

/// `x` with `values` written to the places that [`index`] of the same ids reads; `values` broadcast to its result. Of
/// several values for one place the last one stays, or all are added to what is there if `accumulate` (torch
/// `index_put`).
pub fn index_put<B: Builder>(
    b: &B,
    x: &B::Value,
    values: &B::Value,
    ids: &[B::Value],
    axes: &[isize],
    accumulate: bool,
) -> Result<B::Value> {
    let name = "index_put";
    let shape = shape_of(b, x);
    let plan = Indexed::new(b, name, x, ids, axes)?;
    let front = plan.front_shape();
    let result: Dims = plan.back.iter().map(|&a| front[a]).collect();
    let (tx, tv) = (b.ty(x).dtype, b.ty(values));
    let is_scalar = tv.rank() == 0 && tv.dtype.is_float() && tx.is_float();
    let values = if is_scalar { cast(b, values, tx)? } else { values.clone() };
    if broadcast_shapes(name, &b.ty(&values).shape, &result)? != result {
        return Err(Error::shape(
            name,
            format!("the values are {}, expected what broadcasts to {}", b.ty(&values), ShowShape(&result)),
        ));
    }
    let values = permute_to(b, &broadcast_to(b, &values, &result)?, &inverse(&plan.back))?;
    let count = numel(&plan.ids_shape);
    let values = reshape_to(b, &values, &[count, plan.width])?;
    let table = reshape_to(b, &permute_to(b, x, &plan.order)?, &[plan.places, plan.width])?;
    let ids = reshape_to(b, &plan.ids, &[count, 1])?;
    let ids = broadcast_to(b, &ids, &[count, plan.width])?;
    let op = if accumulate { ScatterOp::Add } else { ScatterOp::Set };
    let scatter = Prim::Index(Index::Scatter { axis: 0, op });
    let written = named(name, || b.apply1(scatter, &[table, ids, values]))?;
    let moved: Dims = plan.order.iter().map(|&a| shape[a]).collect();
    permute_to(b, &reshape_to(b, &written, &moved)?, &inverse(&plan.order))
}

/// How several index tensors address a value: as rows of a table.
struct Indexed<V> {
    /// Axes of the value, the indexed ones first.
    order: Dims,
    /// The product of the indexed axes, and of the others.
    places: usize,
    width: usize,
    /// Numbers of rows, of shape `ids_shape`.
    ids: V,
    ids_shape: Dims,
    /// The sizes of the axes that are not indexed.
    rest: Dims,
    /// From `[ids_shape.., rest..]` to the result.
    back: Dims,
}

impl<V> Indexed<V> {
    fn new<B: Builder<Value = V>>(b: &B, op: &str, x: &V, ids: &[V], axes: &[isize]) -> Result<Self> {
        let shape = shape_of(b, x);
        let leading: Vec<isize> = (0..ids.len() as isize).collect();
        let axes = if axes.is_empty() { &leading[..] } else { axes };
        let axes: Dims = axes.iter().map(|&a| resolve_axis(op, a, shape.len())).collect::<Result<_>>()?;
        let repeated = axes.iter().enumerate().any(|(i, a)| axes[..i].contains(a));
        if axes.len() != ids.len() || axes.is_empty() || repeated {
            return Err(Error::shape(
                op,
                format!("axes {} are not one axis for each of {} index tensors", ShowShape(&axes), ids.len()),
            ));
        }
        let sizes: Dims = axes.iter().map(|&a| shape[a]).collect();
        let (ids, ids_shape) = flat_places(b, op, &sizes, ids)?;
        let mut order = axes.clone();
        order.extend((0..shape.len()).filter(|a| !axes.contains(a)));
        let rest: Dims = order[axes.len()..].iter().map(|&a| shape[a]).collect();
        let adjacent = axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let lead = if adjacent { axes.iter().copied().min().unwrap_or(0) } else { 0 };
        let rank = ids_shape.len();
        let mut back: Dims = (rank..rank + lead).collect();
        back.extend(0..rank);
        back.extend(rank + lead..rank + rest.len());
        Ok(Indexed { order, places: numel(&sizes), width: numel(&rest), ids, ids_shape, rest, back })
    }

    fn front_shape(&self) -> Dims {
        self.ids_shape.iter().chain(&self.rest).copied().collect()
    }
}

/// Row-major places among `sizes` by index tensors that broadcast, one for each size; i64, with their shape. Negative
/// ids count from the end. What is out of range stays as it was given, so that the error shows it; or becomes -1 where
/// it would be a place.
fn flat_places<B: Builder>(b: &B, op: &str, sizes: &[usize], ids: &[B::Value]) -> Result<(B::Value, Dims)> {
    let mut shape = Dims::new();
    for index in ids {
        require_int(op, "an index tensor", b.ty(index))?;
        shape = broadcast_shapes(op, &shape, &b.ty(index).shape)?;
    }
    let mut total = scalar(b, 0i64, DType::I64)?;
    let mut outside = scalar(b, false, DType::Bool)?;
    let mut refused = scalar(b, -1i64, DType::I64)?;
    let places = i64::try_from(numel(sizes)).map_err(|_| Error::shape(op, "the sizes overflow"))?;
    for (index, &size) in ids.iter().zip(sizes) {
        let is_signed = matches!(b.ty(index).dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
        let size = i64::try_from(size).map_err(|_| Error::shape(op, "the sizes overflow"))?;
        let given = cast(b, index, DType::I64)?;
        let mut index = given.clone();
        if is_signed {
            let from_end = add_scalar(b, &index, size)?;
            index = where_(b, &lt_scalar(b, &index, 0i64)?, &from_end, &index)?;
        }
        let wrong = outside_of(b, &index, size)?;
        outside = logical_or(b, &outside, &wrong)?;
        let shows = logical_and(b, &wrong, &outside_of(b, &given, places)?)?;
        refused = where_(b, &shows, &given, &refused)?;
        total = add(b, &mul_scalar(b, &total, size)?, &index)?;
    }
    let places = where_(b, &outside, &refused, &total)?;
    Ok((broadcast_to(b, &places, &shape)?, shape))
}

/// Where ids lie outside `0..size`.
fn outside_of<B: Builder>(b: &B, ids: &B::Value, size: i64) -> Result<B::Value> {
    logical_or(b, &lt_scalar(b, ids, 0i64)?, &ge_scalar(b, ids, size)?)
}

/// The order that undoes `axes`.
fn inverse(axes: &[usize]) -> Dims {
    let mut inverse = Dims::from_slice(axes);
    for (to, &from) in axes.iter().enumerate() {
        inverse[from] = to;
    }
    inverse
}

/// The i64 place of every element along an axis.
pub(crate) fn positions<B: Builder>(b: &B, shape: &[usize], axis: usize) -> Result<B::Value> {
    let mut line: Dims = shape.iter().map(|_| 1).collect();
    line[axis] = shape[axis];
    broadcast_to(b, &reshape_to(b, &iota(b, shape[axis], DType::I64)?, &line)?, shape)
}

/// Where each of `values` would be inserted into the ascending `sorted [.., n]` to keep it so, as i64: before equal
/// elements, or behind them if `right` (torch `searchsorted`, NumPy `searchsorted`). `sorted` is of rank 1, or has the
/// leading axes of `values`. NaN counts as largest.
pub fn searchsorted<B: Builder>(
    b: &B,
    sorted: &B::Value,
    values: &B::Value,
    right: bool,
) -> Result<B::Value> {
    let name = "searchsorted";
    let (edges, shape) = (shape_of(b, sorted), shape_of(b, values));
    let [lead @ .., n] = &edges[..] else {
        return Err(Error::shape(name, format!("the sorted values are {}, expected [.., n]", b.ty(sorted))));
    };
    if b.ty(sorted).dtype != b.ty(values).dtype {
        return Err(Error::dtype(
            name,
            format!(
                "the values are {} but the sorted ones {}; cast one",
                b.ty(values).dtype,
                b.ty(sorted).dtype
            ),
        ));
    }
    let mut values = values.clone();
    if lead.is_empty() {
        values = reshape_to(b, &values, &[numel(&shape)])?;
    } else if shape.len() != edges.len() || shape[..lead.len()] != *lead {
        return Err(Error::shape(
            name,
            format!("the values are {}, expected the leading axes of {}", b.ty(&values), b.ty(sorted)),
        ));
    }
    // By halving: the result is the largest count such that all elements before it lie before the value.
    let axis = b.ty(&values).rank() as isize - 1;
    let mut found = zeros(b, &shape_of(b, &values), DType::I64)?;
    let nan = if b.ty(&values).dtype.is_float() { Some(isnan(b, &values)?) } else { None };
    let n = *n as i64;
    let mut step = 1i64;
    while step <= n / 2 {
        step *= 2;
    }
    while step > 0 && n > 0 {
        let reach = add_scalar(b, &found, step)?;
        let probe = minimum_scalar(b, &add_scalar(b, &reach, -1i64)?, n - 1)?;
        let edge = gather(b, sorted, axis, &probe)?;
        let mut passes = if right { le(b, &edge, &values)? } else { lt(b, &edge, &values)? };
        if let Some(nan) = &nan {
            // NaN lies beyond every number.
            let further = if right { nan.clone() } else { logical_and(b, nan, &eq(b, &edge, &edge)?)? };
            passes = logical_or(b, &passes, &further)?;
        }
        let passes = logical_and(b, &passes, &le_scalar(b, &reach, n)?)?;
        found = where_(b, &passes, &reach, &found)?;
        step /= 2;
    }
    reshape_to(b, &found, &shape)
}

/// The number of the bin of each value between the ascending `edges [n]`, as i64: 0 below the first edge, `n` above the
/// last. A value on an edge belongs below it, or above it if `right` (torch `bucketize`).
pub fn bucketize<B: Builder>(b: &B, values: &B::Value, edges: &B::Value, right: bool) -> Result<B::Value> {
    if b.ty(edges).rank() != 1 {
        return Err(Error::shape("bucketize", format!("the edges are {}, expected rank 1", b.ty(edges))));
    }
    searchsorted(b, edges, values, right)
}

/// True where an element of `x` equals one of `elements`, which may be of any shape; NaN equals nothing.
pub fn isin<B: Builder>(b: &B, x: &B::Value, elements: &B::Value) -> Result<B::Value> {
    let (tx, te) = (b.ty(x).dtype, b.ty(elements).dtype);
    if tx != te {
        return Err(Error::dtype("isin", format!("the elements are {te} but the operand is {tx}; cast one")));
    }
    let count = b.ty(elements).numel();
    if count == 0 {
        return super::full(b, &shape_of(b, x), false, DType::Bool);
    }
    // Truth values compare as numbers.
    let comparable = |v: &B::Value| if tx == DType::Bool { cast(b, v, DType::U8) } else { Ok(v.clone()) };
    let x = comparable(x)?;
    let elements = super::msort(b, &reshape_to(b, &comparable(elements)?, &[count])?)?;
    let places = minimum_scalar(b, &searchsorted(b, &elements, &x, false)?, count as i64 - 1)?;
    eq(b, &take(b, &elements, &places)?, &x)
}

/// As [`embedding`], but no derivative flows to the row `padding` of the table, which counts from the end where
/// negative (torch `embedding` with `padding_idx`).
pub fn padded_embedding<B: Builder>(
    b: &B,
    table: &B::Value,
    ids: &B::Value,
    padding: isize,
) -> Result<B::Value> {
    let name = "padded_embedding";
    let rows = b.ty(table).shape.first().copied().unwrap_or(0);
    let padding = resolve_axis(name, padding, rows).map_err(|_| {
        Error::shape(name, format!("the padding row {padding} is out of range for a table of {rows} rows"))
    })?;
    let found = named(name, || embedding(b, table, ids))?;
    if !b.ty(ids).dtype.holds(padding as i64) {
        return Ok(found);
    }
    let is_padding = unsqueeze(b, &eq_scalar(b, ids, padding as i64)?, -1)?;
    where_(b, &is_padding, &super::stop_gradient(b, &found)?, &found)
}

/// Ids `[groups, ..]` into groups of `size` rows each as ids into all rows laid end to end. An id outside its group stays
/// an error: as it was given, or as -1 where it would name a row of another group.
pub(crate) fn offset_ids<B: Builder>(
    b: &B,
    op: &str,
    ids: &B::Value,
    groups: usize,
    size: usize,
) -> Result<B::Value> {
    require_int(op, "ids", b.ty(ids))?;
    let total = groups.checked_mul(size).ok_or_else(|| Error::shape(op, "the sizes overflow"))?;
    // -1 must exist, and the last row must fit.
    let dtype = match position_dtype(b.ty(ids).dtype) {
        DType::I32 if total <= i32::MAX as usize => DType::I32,
        _ => DType::I64,
    };
    let ids = cast(b, ids, dtype)?;
    let outside = outside_of(b, &ids, size as i64)?;
    let shows = outside_of(b, &ids, total as i64)?;
    let refused = where_(b, &shows, &ids, &scalar(b, -1i64, dtype)?)?;
    let mut offsets = mul_scalar(b, &iota(b, groups, dtype)?, size as i64)?;
    for _ in 1..b.ty(&ids).rank() {
        offsets = unsqueeze(b, &offsets, -1)?;
    }
    where_(b, &outside, &refused, &add(b, &ids, &offsets)?)
}
