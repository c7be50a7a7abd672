//! Diagonals of two axes.

use super::{
    add_scalar, eq, iota, move_axis, pad, permute_to, reshape_to, scalar, shape_of, slice_axis, sum,
    unsqueeze, where_, zeros,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, resolve_axis};

/// Two different resolved axes.
fn two_axes(op: &str, first: isize, second: isize, rank: usize) -> Result<(usize, usize)> {
    let (from, to) = (resolve_axis(op, first, rank)?, resolve_axis(op, second, rank)?);
    if from == to {
        return Err(Error::shape(op, format!("the axes {first} and {second} are one axis, expected two")));
    }
    Ok((from, to))
}

/// The elements of two axes at which the second's place is the first's plus `offset`, on a new last axis; by default the
/// diagonal of the last two, `[.., rows, columns] -> [.., n]` (torch `linalg.diagonal`; NumPy and torch `diagonal` take
/// the first two by default).
pub fn diagonal<B: Builder>(
    b: &B,
    x: &B::Value,
    offset: isize,
    first: isize,
    second: isize,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let (first, second) = two_axes("diagonal", first, second, shape.len())?;
    let mut order: Dims = (0..shape.len()).filter(|&a| a != first && a != second).collect();
    let mut out: Dims = order.iter().map(|&a| shape[a]).collect();
    order.extend([first, second]);
    let (rows, columns) = (shape[first], shape[second]);
    let (down, right) = if offset < 0 { (offset.unsigned_abs(), 0) } else { (0, offset.unsigned_abs()) };
    let length = rows.saturating_sub(down).min(columns.saturating_sub(right));
    if length == 0 {
        out.push(0);
        return zeros(b, &out, b.ty(x).dtype);
    }
    // Row-major, the next element of a diagonal lies a row and a place further.
    let (start, step) = (down * columns + right, columns + 1);
    let last = out.len();
    out.push(rows * columns);
    let flat = reshape_to(b, &permute_to(b, x, &order)?, &out)?;
    slice_axis(b, &flat, last, start, start + (length - 1) * step + 1, step)
}

/// `x [.., n]` on a diagonal of new axes `first` and `second` of the result, 0 elsewhere; see [`diagonal`] (torch
/// `diag_embed`).
pub fn diag_embed<B: Builder>(
    b: &B,
    x: &B::Value,
    offset: isize,
    first: isize,
    second: isize,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let Some(axis) = shape.len().checked_sub(1) else {
        return Err(Error::shape("diag_embed", format!("the operand is {}, expected [.., n]", b.ty(x))));
    };
    let (first, second) = two_axes("diag_embed", first, second, shape.len() + 1)?;
    let shift = offset.unsigned_abs();
    let size = shape[axis].checked_add(shift).filter(|&size| isize::try_from(size).is_ok());
    let Some(size) = size else {
        return Err(Error::shape(
            "diag_embed",
            format!("an offset of {offset} does not fit the address space"),
        ));
    };
    let mut high: Vec<isize> = shape.iter().map(|_| 0).collect();
    let low = high.clone();
    // It fits: the size does.
    high[axis] = shift as isize;
    let line = pad(b, x, &low, &high, 0i64)?;
    let place = iota(b, size, DType::I64)?;
    // Below the diagonal the place in `x` is the column, else the row.
    let spread = unsqueeze(b, &line, if offset < 0 { -2 } else { -1 })?;
    let row = add_scalar(b, &unsqueeze(b, &place, -1)?, offset as i64)?;
    let matrix = where_(b, &eq(b, &row, &place)?, &spread, &scalar(b, 0i64, b.ty(x).dtype)?)?;
    // The lower of the two axes is put in place first.
    let rank = shape.len() as isize + 1;
    let (rows, columns) = (first as isize, second as isize);
    if rows < columns {
        move_axis(b, &move_axis(b, &matrix, rank - 2, rows)?, rank - 1, columns)
    } else {
        move_axis(b, &move_axis(b, &matrix, rank - 1, columns)?, rank - 1, rows)
    }
}

/// The matrix with `x [n]` on a diagonal, or the diagonal of the matrix `x` (NumPy and torch `diag`).
pub fn diag<B: Builder>(b: &B, x: &B::Value, offset: isize) -> Result<B::Value> {
    match b.ty(x).rank() {
        1 => diag_embed(b, x, offset, -2, -1),
        2 => diagonal(b, x, offset, 0, 1),
        _ => Err(Error::shape("diag", format!("the operand is {}, expected rank 1 or 2", b.ty(x)))),
    }
}

/// The sum of a diagonal of the last two axes, `[.., rows, columns] -> [..]`; see `sum` for its dtype.
pub fn trace<B: Builder>(b: &B, x: &B::Value, offset: isize) -> Result<B::Value> {
    if b.ty(x).rank() < 2 {
        return Err(Error::shape(
            "trace",
            format!("the operand is {}, expected [.., rows, columns]", b.ty(x)),
        ));
    }
    sum(b, &diagonal(b, x, offset, -2, -1)?, &[-1], false)
}
