//! Positions: rotations, tables, waves, slopes.

use smallvec::SmallVec;

use super::{
    add, add_scalar, cast, concat, cos, embedding, exp, exp2, iota, mul, mul_scalar, narrow, reshape_to,
    shape_of, sin, slice_axis, stack, unsqueeze,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::F64;
use crate::layout::{Dims, ShowShape, resolve_axis};
use crate::prim::{Position, Prim, Rotary, RotaryLayout, RotaryScaling};

/// Rotary position embedding of `x [.., d]` (Su et al. 2021, "RoFormer"): pair `i` of the first `width` elements (all
/// where absent) of the last axis turns by `position * theta^(-2 i / width)`. A pair is elements `i` and
/// `i + width / 2`, or with `interleaved` elements `2 i` and `2 i + 1`.
///
/// Positions run along `axis`: 0, 1, .. where absent, from a first one if `positions` has rank 0, else `[seq]` or
/// `[batch, seq]`, of which the first axis is that of `x`. With a `factor`, frequencies are scaled as in Llama 3.1 for
/// contexts longer than the `context` of the training, between wavelengths of `context / high` and `context / low`.
/// With `inverse` it turns back. Half types compute in f32.
///
/// Errors: an odd `width`, or positions of another shape.
pub fn rotary_embedding<B: Builder>(
    b: &B,
    x: &B::Value,
    positions: Option<&B::Value>,
    theta: f64,
    interleaved: bool,
    axis: isize,
    width: Option<isize>,
    factor: Option<f64>,
    low: f64,
    high: f64,
    context: usize,
    inverse: bool,
) -> Result<B::Value> {
    let op = "rotary_embedding";
    crate::prim::expect_float(op, "x", b.ty(x))?;
    let shape = shape_of(b, x);
    if shape.len() < 2 {
        return Err(Error::shape(op, format!("x is {}, expected at least two axes", b.ty(x))));
    }
    let (last, seq_axis) = (shape.len() - 1, resolve_axis(op, axis, shape.len())?);
    if seq_axis == last {
        return Err(Error::shape(op, format!("axis {axis} is the last one, which holds the pairs")));
    }
    let width = match width {
        None => shape[last],
        Some(width) => {
            usize::try_from(width).ok().filter(|&width| width <= shape[last]).ok_or_else(|| {
                Error::shape(op, format!("width is {width}, expected at most the {} elements", shape[last]))
            })?
        }
    };
    if width % 2 == 1 {
        return Err(Error::shape(op, format!("{width} elements cannot turn in pairs")));
    }
    let positions = match positions {
        None => counted(b, shape[seq_axis], None)?,
        Some(first) if b.ty(first).rank() == 0 => counted(b, shape[seq_axis], Some(first))?,
        Some(positions) => positions.clone(),
    };
    super::require_int(op, "positions", b.ty(&positions))?;
    // Each axis of the positions where that of `x` stands.
    let mut along: Dims = SmallVec::from_elem(1, last);
    match b.ty(&positions).shape[..] {
        [seq] if seq == shape[seq_axis] => along[seq_axis] = seq,
        [batch, seq] if seq_axis > 0 && seq == shape[seq_axis] && [1, shape[0]].contains(&batch) => {
            (along[0], along[seq_axis]) = (batch, seq);
        }
        _ => {
            return Err(Error::shape(
                op,
                format!(
                    "positions are {}, expected [seq] or [batch, seq] for axis {seq_axis} of {}",
                    b.ty(&positions),
                    ShowShape(&shape)
                ),
            ));
        }
    }
    let positions = reshape_to(b, &positions, &along)?;
    let scaling =
        factor.map(|factor| RotaryScaling { factor: F64(factor), low: F64(low), high: F64(high), context });
    let layout = if interleaved { RotaryLayout::Interleaved } else { RotaryLayout::HalfSplit };
    let rotary = Rotary { width, theta: F64(theta), layout, scaling, inverse };
    b.apply1(Prim::Position(Position::Rotary(rotary)), &[x.clone(), positions])
}

/// `first, first + 1, ..`, or from 0.
fn counted<B: Builder>(b: &B, length: usize, first: Option<&B::Value>) -> Result<B::Value> {
    match first {
        None => iota(b, length, DType::I32),
        Some(first) => {
            super::require_int("positions", "the first position", b.ty(first))?;
            add(b, &iota(b, length, b.ty(first).dtype)?, first)
        }
    }
}

/// Rows `0 .. length` of a `table [positions, width]`, or from `offset` (an integer of rank 0): `[length, width]`.
///
/// Errors: more rows than the table has; with an offset that is an error when the op runs.
pub fn position_embedding<B: Builder>(
    b: &B,
    table: &B::Value,
    offset: Option<&B::Value>,
    length: usize,
) -> Result<B::Value> {
    let ty = b.ty(table);
    if ty.rank() != 2 || length > ty.shape[0] {
        return Err(Error::shape(
            "position_embedding",
            format!("the table is {ty}, expected [positions, width] with at least {length} positions"),
        ));
    }
    match offset {
        None => narrow(b, table, 0, 0, length),
        Some(offset) if b.ty(offset).rank() == 0 => embedding(b, table, &counted(b, length, Some(offset))?),
        Some(offset) => Err(Error::shape(
            "position_embedding",
            format!("the offset is {}, expected an integer of rank 0", b.ty(offset)),
        )),
    }
}

/// `[length, width]` with `sin(position / theta^(2 i / width))` at `2 i` and the cosine at `2 i + 1` (Vaswani et al.
/// 2017, section 3.5).
///
/// Errors: an odd width.
pub fn sinusoidal_positions<B: Builder>(
    b: &B,
    length: usize,
    width: usize,
    theta: f64,
    dtype: DType,
) -> Result<B::Value> {
    let op = "sinusoidal_positions";
    if width % 2 == 1 || theta.is_nan() || theta <= 0.0 || !dtype.is_float() {
        return Err(Error::shape(
            op,
            format!(
                "width {width}, theta {theta}, dtype {dtype}; expected an even width, a theta above 0, a float"
            ),
        ));
    }
    let wide = dtype.wide();
    let slope = -2.0 * theta.ln() / width.max(1) as f64;
    let frequencies = exp(b, &mul_scalar(b, &iota(b, width / 2, wide)?, slope)?)?;
    let angles = mul(b, &unsqueeze(b, &iota(b, length, wide)?, -1)?, &frequencies)?;
    let waves = stack(b, &[sin(b, &angles)?, cos(b, &angles)?], -1)?;
    cast(b, &reshape_to(b, &waves, &[length, width])?, dtype)
}

/// The slopes `[heads]` of attention with linear biases: `2^(-8 i / n)` for `i` in `1..=n` where `n` heads are a power
/// of two, else those of the power below and every second one of the power above (Press et al. 2022, "Train Short,
/// Test Long", and its code).
///
/// Errors: no heads, or more than `2^24`.
pub fn alibi_slopes<B: Builder>(b: &B, heads: usize, dtype: DType) -> Result<B::Value> {
    if heads == 0 || heads > 1 << 24 || !dtype.is_float() {
        return Err(Error::shape(
            "alibi_slopes",
            format!("{heads} heads in {dtype}; expected 1 to {} in a float", 1 << 24),
        ));
    }
    let wide = dtype.wide();
    let power = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let geometric = |count: usize| {
        let exponent = mul_scalar(b, &add_scalar(b, &iota(b, count, wide)?, 1.0)?, -8.0 / count as f64)?;
        exp2(b, &exponent)
    };
    let mut slopes = geometric(power)?;
    if heads > power {
        let others = slice_axis(b, &geometric(2 * power)?, 0, 0, 2 * (heads - power), 2)?;
        slopes = concat(b, &[slopes, others], 0)?;
    }
    cast(b, &slopes, dtype)
}
