//! Network functions: softmax.

use super::{move_axis, shape_of};
use crate::builder::Builder;
use crate::error::{Error, Result};
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
