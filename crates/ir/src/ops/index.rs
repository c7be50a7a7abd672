//! Reading by integer tensors.

use super::{
    add, as_complex, as_real, cast, complex, ge_scalar, iota, logical_or, lt_scalar, mul_scalar, permute_to,
    position_dtype, require_int, reshape_to, scalar, shape_of, unsqueeze, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, numel, resolve_axis};
use crate::prim::{Index, Prim};

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
    let rows = embedding(b, &table, ids)?;
    let mut selected = Dims::from_slice(&b.ty(ids).shape);
    selected.extend_from_slice(&rest);
    let mut back: Dims = (1..shape.len()).collect();
    back.insert(axis, 0);
    permute_to(b, &reshape_to(b, &rows, &selected)?, &back)
}

/// Along one axis, the element that `ids` names: `out[.., i, ..] = x[.., ids[.., i, ..], ..]`; `ids` has the
/// shape of `x` off that axis (torch `gather`, NumPy `take_along_axis`).
pub fn gather<B: Builder>(b: &B, x: &B::Value, axis: isize, ids: &B::Value) -> Result<B::Value> {
    let (sx, si) = (shape_of(b, x), shape_of(b, ids));
    let axis = resolve_axis("gather", axis, sx.len())?;
    let fits = si.len() == sx.len() && (0..sx.len()).all(|a| a == axis || sx[a] == si[a]);
    if !fits {
        return Err(Error::shape(
            "gather",
            format!("ids {} differ from {} off axis {axis}", ShowShape(&si), ShowShape(&sx)),
        ));
    }
    let mut last: Dims = (0..sx.len()).collect();
    last.remove(axis);
    let rows = last.iter().map(|&a| sx[a]).product();
    last.push(axis);
    let table = reshape_to(b, &permute_to(b, x, &last)?, &[rows, sx[axis]])?;
    let places = reshape_to(b, &permute_to(b, ids, &last)?, &[rows, si[axis]])?;
    let taken = take_per_row(b, "gather", &table, &places)?;
    let moved: Dims = last.iter().map(|&a| si[a]).collect();
    let mut back: Dims = (0..sx.len() - 1).collect();
    back.insert(axis, sx.len() - 1);
    permute_to(b, &reshape_to(b, &taken, &moved)?, &back)
}

/// `out[r, i] = x[r, ids[r, i]]` for `x [rows, n]`.
fn take_per_row<B: Builder>(b: &B, op: &str, x: &B::Value, ids: &B::Value) -> Result<B::Value> {
    let (rows, n) = (b.ty(x).shape[0], b.ty(x).shape[1]);
    let flat = offset_ids(b, op, ids, rows, n)?;
    let shape = shape_of(b, &flat);
    reshape_to(b, &embedding(b, &reshape_to(b, x, &[rows * n, 1])?, &flat)?, &shape)
}

/// Ids `[groups, ..]` into groups of `size` rows each as ids into all rows laid end to end. An id outside
/// its group becomes -1, so that it stays an error.
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
    let outside = logical_or(b, &lt_scalar(b, &ids, 0i64)?, &ge_scalar(b, &ids, size as i64)?)?;
    let mut offsets = mul_scalar(b, &iota(b, groups, dtype)?, size as i64)?;
    for _ in 1..b.ty(&ids).rank() {
        offsets = unsqueeze(b, &offsets, -1)?;
    }
    where_(b, &outside, &scalar(b, -1i64, dtype)?, &add(b, &ids, &offsets)?)
}
