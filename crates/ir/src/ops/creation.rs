//! Values from nothing: constants and ramps.

use super::{
    add_scalar, broadcast_to, cast, eq, ge, mul_scalar, position_dtype, require_int, unsqueeze, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Scalar;
use crate::prim::{Prim, Source};

/// A structural constant of rank 0.
pub fn scalar<B: Builder>(b: &B, value: impl Into<Scalar>, dtype: DType) -> Result<B::Value> {
    b.apply1(Prim::Source(Source::Const { value: value.into(), dtype }), &[])
}

/// A constant of that shape.
pub fn full<B: Builder>(b: &B, shape: &[usize], value: impl Into<Scalar>, dtype: DType) -> Result<B::Value> {
    broadcast_to(b, &scalar(b, value, dtype)?, shape)
}

/// Zeros of that shape.
pub fn zeros<B: Builder>(b: &B, shape: &[usize], dtype: DType) -> Result<B::Value> {
    full(b, shape, 0i64, dtype)
}

/// Ones of that shape.
pub fn ones<B: Builder>(b: &B, shape: &[usize], dtype: DType) -> Result<B::Value> {
    full(b, shape, 1i64, dtype)
}

/// `0, 1, ..., len - 1`, shape `[len]`.
pub fn iota<B: Builder>(b: &B, len: usize, dtype: DType) -> Result<B::Value> {
    b.apply1(Prim::Source(Source::Iota { len, dtype }), &[])
}

/// `start, start + step, ...` up to and without `stop`.
///
/// Errors: a step of 0, or bounds that are not finite.
pub fn arange<B: Builder>(
    b: &B,
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    step: impl Into<Scalar>,
    dtype: DType,
) -> Result<B::Value> {
    let (start, stop, step) = (start.into(), stop.into(), step.into());
    let span = (stop.as_f64() - start.as_f64()) / step.as_f64();
    if !span.is_finite() || step.as_f64() == 0.0 {
        return Err(Error::shape(
            "arange",
            format!("from {} to {} by {} is no finite range", start.as_f64(), stop.as_f64(), step.as_f64()),
        ));
    }
    let mut ramp = iota(b, span.ceil().max(0.0) as usize, dtype)?;
    if step.as_f64() != 1.0 {
        ramp = mul_scalar(b, &ramp, step)?;
    }
    if start.as_f64() != 0.0 {
        ramp = add_scalar(b, &ramp, start)?;
    }
    Ok(ramp)
}

/// `steps` evenly spaced numbers from `start` to `stop`, both included.
pub fn linspace<B: Builder>(b: &B, start: f64, stop: f64, steps: usize, dtype: DType) -> Result<B::Value> {
    let gap = if steps > 1 { (stop - start) / (steps - 1) as f64 } else { 0.0 };
    add_scalar(b, &mul_scalar(b, &iota(b, steps, dtype)?, gap)?, start)
}

/// `ids [..]` to `[.., classes]`, 1 where the class is the id and 0 elsewhere. An id outside
/// `0..classes` gives zeros.
pub fn one_hot<B: Builder>(b: &B, ids: &B::Value, classes: usize, dtype: DType) -> Result<B::Value> {
    require_int("one_hot", "ids", b.ty(ids))?;
    let position = position_dtype(b.ty(ids).dtype);
    let ids = unsqueeze(b, &cast(b, ids, position)?, -1)?;
    let classes = iota(b, classes, position)?;
    cast(b, &eq(b, &ids, &classes)?, dtype)
}

/// The identity matrix `[n, n]`.
pub fn eye<B: Builder>(b: &B, n: usize, dtype: DType) -> Result<B::Value> {
    one_hot(b, &iota(b, n, DType::I32)?, n, dtype)
}

/// A `bool` mask `[rows, columns]`, true where `column <= row + diagonal`.
pub fn lower_triangle<B: Builder>(b: &B, rows: usize, columns: usize, diagonal: isize) -> Result<B::Value> {
    let row = iota(b, rows, DType::I32)?;
    let row = if diagonal == 0 { row } else { add_scalar(b, &row, diagonal as i64)? };
    ge(b, &unsqueeze(b, &row, -1)?, &iota(b, columns, DType::I32)?)
}

/// `x [.., rows, columns]` with zeros above the given diagonal.
pub fn tril<B: Builder>(b: &B, x: &B::Value, diagonal: isize) -> Result<B::Value> {
    let (rows, columns) = matrix_sizes(b, "tril", x)?;
    let keep = lower_triangle(b, rows, columns, diagonal)?;
    where_(b, &keep, x, &scalar(b, 0i64, b.ty(x).dtype)?)
}

/// `x [.., rows, columns]` with zeros below the given diagonal.
pub fn triu<B: Builder>(b: &B, x: &B::Value, diagonal: isize) -> Result<B::Value> {
    let (rows, columns) = matrix_sizes(b, "triu", x)?;
    let drop = lower_triangle(b, rows, columns, diagonal.saturating_sub(1))?;
    where_(b, &drop, &scalar(b, 0i64, b.ty(x).dtype)?, x)
}

fn matrix_sizes<B: Builder>(b: &B, op: &str, x: &B::Value) -> Result<(usize, usize)> {
    match b.ty(x).shape[..] {
        [.., rows, columns] => Ok((rows, columns)),
        _ => Err(Error::shape(op, format!("the operand is {}, expected [.., rows, columns]", b.ty(x)))),
    }
}
