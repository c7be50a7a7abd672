//! Values from nothing: constants and ramps.

use super::{
    add, add_scalar, broadcast_to, cast, eq, ge, lt_scalar, mul, mul_scalar, position_dtype, require_int,
    rsub_scalar, sub, unsqueeze, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Scalar;
use crate::prim::{Prim, Source};

/// A structural constant of rank 0; a float rounds to `dtype`.
///
/// Errors: for an integer dtype, a number that is not whole or out of its range.
pub fn scalar<B: Builder>(b: &B, value: impl Into<Scalar>, dtype: DType) -> Result<B::Value> {
    constant(b, "scalar", value.into(), dtype)
}

/// A constant of that shape.
///
/// Errors: for an integer dtype, a number that is not whole or out of its range (torch truncates a fraction).
pub fn full<B: Builder>(b: &B, shape: &[usize], value: impl Into<Scalar>, dtype: DType) -> Result<B::Value> {
    broadcast_to(b, &constant(b, "full", value.into(), dtype)?, shape)
}

/// A constant of rank 0 for `op`.
pub(crate) fn constant<B: Builder>(b: &B, op: &str, value: Scalar, dtype: DType) -> Result<B::Value> {
    if let Some(part) = dtype.part() {
        return super::complex(b, &constant(b, op, value, part)?, &constant(b, op, Scalar::Int(0), part)?);
    }
    let value = value.fit(op, dtype)?;
    b.apply1(Prim::Source(Source::Const { value, dtype }), &[])
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

/// `start, start + step, ...` up to and without `stop`. Of an integer dtype it is exact to the last bit.
///
/// Errors: a step of 0; bounds that are not finite; for an integer dtype, a number that is not whole, or a value out
/// of the dtype's range.
pub fn arange<B: Builder>(
    b: &B,
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    step: impl Into<Scalar>,
    dtype: DType,
) -> Result<B::Value> {
    let (start, stop, step) = (start.into(), stop.into(), step.into());
    let wrong = |why: &str| {
        let [start, stop, step] = [start, stop, step].map(Scalar::as_f64);
        Error::shape("arange", format!("from {start} to {stop} by {step} {why}"))
    };
    if step.as_f64() == 0.0 {
        return Err(wrong("never ends; expected another step"));
    }
    if dtype.is_int() {
        let [start, stop, step] = [whole(start)?, whole(stop)?, whole(step)?];
        return integers(b, [start, stop, step], dtype, wrong);
    }
    let span = (stop.as_f64() - start.as_f64()) / step.as_f64();
    if !span.is_finite() {
        return Err(wrong("is no finite range"));
    }
    let wide = dtype.wide();
    let mut ramp = iota(b, span.ceil().max(0.0) as usize, wide)?;
    if step.as_f64() != 1.0 {
        ramp = mul_scalar(b, &ramp, step)?;
    }
    if start.as_f64() != 0.0 {
        ramp = add_scalar(b, &ramp, start)?;
    }
    cast(b, &ramp, dtype)
}

fn whole(value: Scalar) -> Result<i128> {
    match value.fit("arange", DType::I64)? {
        Scalar::Int(value) => Ok(value.into()),
        other => Ok(other.as_f64() as i128),
    }
}

/// A ramp of whole numbers. The dtype's own arithmetic wraps, so that products and sums that leave it on the way are
/// right in the end.
fn integers<B: Builder>(
    b: &B,
    [start, stop, step]: [i128; 3],
    dtype: DType,
    wrong: impl Fn(&str) -> Error,
) -> Result<B::Value> {
    let span = if step > 0 { stop - start } else { start - stop };
    let stride = step.abs();
    let len = if span <= 0 { 0 } else { (span - 1) / stride + 1 };
    let len = usize::try_from(len).map_err(|_| wrong("exceeds the address space"))?;
    if len == 0 {
        return iota(b, 0, dtype);
    }
    for value in [start, start + (len as i128 - 1) * step] {
        // Both lie between i64 numbers.
        if !dtype.holds(value as i64) {
            return Err(Error::dtype("arange", format!("the value {value} does not fit {dtype}")));
        }
    }
    let number = |value: i128| {
        let value = Scalar::Int(wrapped(value, dtype));
        b.apply1(Prim::Source(Source::Const { value, dtype }), &[])
    };
    let mut ramp = iota(b, len, dtype)?;
    if stride != 1 {
        ramp = mul(b, &ramp, &number(stride)?)?;
    }
    match (start, step > 0) {
        (0, true) => Ok(ramp),
        (start, true) => add(b, &ramp, &number(start)?),
        (start, false) => sub(b, &number(start)?, &ramp),
    }
}

/// The number that an integer dtype makes of `value`.
fn wrapped(value: i128, dtype: DType) -> i64 {
    match dtype {
        DType::U8 => (value as u8).into(),
        DType::U16 => (value as u16).into(),
        DType::U32 => (value as u32).into(),
        DType::I8 => (value as i8).into(),
        DType::I16 => (value as i16).into(),
        DType::I32 => (value as i32).into(),
        _ => value as i64,
    }
}

/// `steps` evenly spaced numbers of a float dtype from `start` to `stop`, both included; half types compute in f32.
pub fn linspace<B: Builder>(b: &B, start: f64, stop: f64, steps: usize, dtype: DType) -> Result<B::Value> {
    crate::prim::expect_float("linspace", "the result", &crate::TensorType::scalar(dtype))?;
    let gap = if steps > 1 { (stop - start) / (steps - 1) as f64 } else { 0.0 };
    let ramp = iota(b, steps, dtype.wide())?;
    let rising = add_scalar(b, &mul_scalar(b, &ramp, gap)?, start)?;
    if steps < 2 {
        return cast(b, &rising, dtype);
    }
    // The second half counts from the end, which is then exact too, as in torch.
    let left = rsub_scalar(b, &ramp, (steps - 1) as f64)?;
    let falling = rsub_scalar(b, &mul_scalar(b, &left, gap)?, stop)?;
    let is_first_half = lt_scalar(b, &ramp, (steps / 2) as f64)?;
    cast(b, &where_(b, &is_first_half, &rising, &falling)?, dtype)
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
    // Diagonals beyond the matrix are all alike.
    let bound = |size: usize| isize::try_from(size).unwrap_or(isize::MAX);
    let diagonal = diagonal.clamp(-bound(rows), bound(columns));
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
