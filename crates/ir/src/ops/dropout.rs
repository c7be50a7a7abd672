//! Dropout of whole channels, and for networks that keep mean and variance. See [`dropout`](super::dropout()).

use super::{add_scalar, ge_scalar, mul_scalar, scalar, shape_of, uniform, where_};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Dims;

/// The value of SELU at minus infinity: `-scale * alpha` (Klambauer et al. 2017, "Self-Normalizing Neural Networks").
const SATURATED: f64 = -1.758_099_340_847_376_6;

/// What is kept: a mask of `shape` that broadcasts to `x`.
fn kept<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    shape: &[usize],
    p: f64,
    key: &B::Value,
    stream: u64,
) -> Result<B::Value> {
    super::require_float(op, "x", b.ty(x))?;
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::shape(op, format!("the probability is {p}, expected 0 to 1")));
    }
    ge_scalar(b, &uniform(b, key, shape, 0.0, 1.0, DType::F32, stream)?, p)
}

/// The shape `[n, c, 1..]` of one element a channel.
fn channel_shape<B: Builder>(b: &B, op: &str, x: &B::Value) -> Result<Dims> {
    let mut shape = shape_of(b, x);
    if shape.len() < 2 {
        return Err(Error::shape(op, format!("x is {}, expected [n, c, ..]", b.ty(x))));
    }
    shape[2..].fill(1);
    Ok(shape)
}

fn saturate<B: Builder>(b: &B, x: &B::Value, kept: &B::Value, p: f64) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    if p == 0.0 {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return super::zeros_like(b, x);
    }
    // Mean and variance stay those of a standard normal operand (section "New dropout technique").
    let scale = 1.0 / ((1.0 - p) * (1.0 + p * SATURATED * SATURATED)).sqrt();
    let shifted = add_scalar(b, &mul_scalar(b, x, scale)?, -scale * SATURATED * p)?;
    let dropped = scalar(b, scale * SATURATED * (1.0 - p), dtype)?;
    where_(b, kept, &shifted, &dropped)
}

/// Each element with probability `p` the value at which SELU saturates, and all moved and scaled so that mean and
/// variance stay (Klambauer et al. 2017; torch `alpha_dropout`). A `p` of 1 gives zeros.
pub fn alpha_dropout<B: Builder>(
    b: &B,
    x: &B::Value,
    p: f64,
    key: &B::Value,
    stream: u64,
) -> Result<B::Value> {
    let kept = kept(b, "alpha_dropout", x, &shape_of(b, x), p, key, stream)?;
    saturate(b, x, &kept, p)
}

/// Whole channels of `x [n, c, ..]`: each 0 with probability `p`, else divided by `1 - p` (Tompson et al. 2015; torch
/// `dropout1d`, `dropout2d`, `dropout3d`).
pub fn feature_dropout<B: Builder>(
    b: &B,
    x: &B::Value,
    p: f64,
    key: &B::Value,
    stream: u64,
) -> Result<B::Value> {
    let op = "feature_dropout";
    let kept = kept(b, op, x, &channel_shape(b, op, x)?, p, key, stream)?;
    if p == 1.0 {
        return super::zeros_like(b, x);
    }
    let scaled = mul_scalar(b, x, 1.0 / (1.0 - p))?;
    where_(b, &kept, &scaled, &scalar(b, 0.0, b.ty(x).dtype)?)
}

/// [`alpha_dropout`] of whole channels of `x [n, c, ..]` (torch `feature_alpha_dropout`).
pub fn feature_alpha_dropout<B: Builder>(
    b: &B,
    x: &B::Value,
    p: f64,
    key: &B::Value,
    stream: u64,
) -> Result<B::Value> {
    let op = "feature_alpha_dropout";
    let kept = kept(b, op, x, &channel_shape(b, op, x)?, p, key, stream)?;
    saturate(b, x, &kept, p)
}
