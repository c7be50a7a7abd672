//! Random values. The `key` (`u64[2]`: seed and draw number) is an argument; `stream` tells several random
//! nodes of one graph apart. See [`crate::prim::random`].

use super::{add_scalar, cast, floor, ge_scalar, mul_scalar, scalar, shape_of, where_, zeros_like};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::prim::{Prim, Random};

/// Uniform values in `[low, high)`, of a float dtype.
pub fn uniform<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    low: f64,
    high: f64,
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    let unit = Random::Uniform { shape: Dims::from_slice(shape), stream };
    let mut unit = b.apply1(Prim::Random(unit), std::slice::from_ref(key))?;
    // 24 bits would round up to 1 in a half type: only as many are kept as it holds.
    let bits = match dtype {
        DType::F16 => Some(11),
        DType::BF16 => Some(8),
        _ => None,
    };
    if let Some(bits) = bits {
        let parts = f64::from(1 << bits);
        unit = mul_scalar(b, &floor(b, &mul_scalar(b, &unit, parts)?)?, 1.0 / parts)?;
    }
    let x = scaled(b, unit, high - low, low, dtype)?;
    if (low, high) == (0.0, 1.0) {
        return Ok(x);
    }
    // The product may round up to the excluded end.
    let is_end = ge_scalar(b, &x, high)?;
    where_(b, &is_end, &scalar(b, low, dtype)?, &x)
}

/// Normal values of that mean and standard deviation.
pub fn normal<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    mean: f64,
    std: f64,
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    let unit = Random::Normal { shape: Dims::from_slice(shape), stream };
    scaled(b, b.apply1(Prim::Random(unit), std::slice::from_ref(key))?, std, mean, dtype)
}

fn scaled<B: Builder>(b: &B, unit: B::Value, scale: f64, shift: f64, dtype: DType) -> Result<B::Value> {
    let mut x = unit;
    if scale != 1.0 {
        x = mul_scalar(b, &x, scale)?;
    }
    if shift != 0.0 {
        x = add_scalar(b, &x, shift)?;
    }
    cast(b, &x, dtype)
}

/// `bool` values, true with probability `p`.
pub fn bernoulli<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    p: f64,
    stream: u64,
) -> Result<B::Value> {
    let unit = uniform(b, key, shape, 0.0, 1.0, DType::F32, stream)?;
    super::lt_scalar(b, &unit, p)
}

/// Each element 0 with probability `p`, else divided by `1 - p` (Srivastava et al. 2014).
pub fn dropout<B: Builder>(b: &B, x: &B::Value, p: f64, key: &B::Value, stream: u64) -> Result<B::Value> {
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::shape("dropout", format!("the probability is {p}, expected 0 to 1")));
    }
    if p == 0.0 {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return zeros_like(b, x);
    }
    let unit = uniform(b, key, &shape_of(b, x), 0.0, 1.0, DType::F32, stream)?;
    let kept = ge_scalar(b, &unit, p)?;
    let scaled = mul_scalar(b, x, 1.0 / (1.0 - p))?;
    where_(b, &kept, &scaled, &scalar(b, 0.0, b.ty(x).dtype)?)
}
