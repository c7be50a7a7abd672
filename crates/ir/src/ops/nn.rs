//! Network functions: normalisations.

use super::{move_axis, ones, shape_of, zeros};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::F64;
use crate::layout::resolve_axis;
use crate::prim::{Norm, Prim};

/// `exp(x) / sum(exp(x))` along an axis.
pub fn softmax<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<B::Value> {
    along_last(b, "softmax", Norm::Softmax, x, axis)
}

/// `x - log(sum(exp(x)))` along an axis.
pub fn log_softmax<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<B::Value> {
    along_last(b, "log_softmax", Norm::LogSoftmax, x, axis)
}

fn along_last<B: Builder>(b: &B, op: &str, norm: Norm, x: &B::Value, axis: isize) -> Result<B::Value> {
    let axis = resolve_axis(op, axis, b.ty(x).rank())? as isize;
    let moved = move_axis(b, x, axis, -1)?;
    let y = b.apply1(Prim::Norm(norm), &[moved])?;
    move_axis(b, &y, -1, axis)
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis (biased variance); `weight` and
/// `bias` have shape `[width]` and are 1 and 0 where absent (Ba et al. 2016).
pub fn layer_norm<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: Option<&B::Value>,
    bias: Option<&B::Value>,
    eps: f64,
) -> Result<B::Value> {
    let width = last_size(b, "layer_norm", x)?;
    let dtype = b.ty(x).dtype;
    let weight = weight.cloned().map_or_else(|| ones(b, &[width], dtype), Ok)?;
    let bias = bias.cloned().map_or_else(|| zeros(b, &[width], dtype), Ok)?;
    first(b.apply(Prim::Norm(Norm::LayerNorm { eps: F64(eps) }), &[x.clone(), weight, bias])?.into_iter())
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axis; `weight` has shape `[width]` and is 1 where
/// absent (Zhang and Sennrich 2019).
pub fn rms_norm<B: Builder>(b: &B, x: &B::Value, weight: Option<&B::Value>, eps: f64) -> Result<B::Value> {
    let width = last_size(b, "rms_norm", x)?;
    let dtype = b.ty(x).dtype;
    let weight = weight.cloned().map_or_else(|| ones(b, &[width], dtype), Ok)?;
    first(b.apply(Prim::Norm(Norm::RmsNorm { eps: F64(eps) }), &[x.clone(), weight])?.into_iter())
}

pub(super) fn last_size<B: Builder>(b: &B, op: &str, x: &B::Value) -> Result<usize> {
    shape_of(b, x)
        .last()
        .copied()
        .ok_or_else(|| Error::shape(op, "the operand has rank 0, expected at least one axis"))
}

/// The first output of a primitive that also returns its statistics.
pub(super) fn first<V>(mut outputs: impl Iterator<Item = V>) -> Result<V> {
    outputs.next().ok_or_else(|| Error::unsupported("apply", "the primitive returned no value"))
}
