//! Network functions: normalisations, attention.

use super::{move_axis, shape_of, transpose};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::F64;
use crate::layout::resolve_axis;
use crate::prim::{Attention, Norm, Prim};

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

fn last_size<B: Builder>(b: &B, op: &str, x: &B::Value) -> Result<usize> {
    shape_of(b, x)
        .last()
        .copied()
        .ok_or_else(|| Error::shape(op, "the operand has rank 0, expected at least one axis"))
}

/// `softmax(scale * q k^T) v` for `q [batch, heads, tq, head_dim]` and `k`, `v`
/// `[batch, kv_heads, tk, head_dim]`; `kv_heads` divides `heads`. `scale` is `1 / sqrt(head_dim)` where
/// absent. With `causal`, a query sees no key after its own position, the last query standing at the last
/// key. With `past` (an integer of rank 0) only the first `past + tq` keys count.
pub fn scaled_dot_product_attention<B: Builder>(
    b: &B,
    q: &B::Value,
    k: &B::Value,
    v: &B::Value,
    causal: bool,
    scale: Option<f64>,
    past: Option<&B::Value>,
) -> Result<B::Value> {
    for (operand, value) in [("q", q), ("k", k), ("v", v)] {
        if b.ty(value).rank() != 4 {
            return Err(Error::shape(
                "scaled_dot_product_attention",
                format!("{operand} is {}, expected [batch, heads, seq, head_dim]", b.ty(value)),
            ));
        }
    }
    let (q, k, v) = (transpose(b, q, 1, 2)?, transpose(b, k, 1, 2)?, transpose(b, v, 1, 2)?);
    transpose(b, &attention(b, &q, &k, &v, causal, scale, past)?, 1, 2)
}

/// [`scaled_dot_product_attention`] in the layout `[batch, seq, heads, head_dim]`, which the kernels use.
pub fn attention<B: Builder>(
    b: &B,
    q: &B::Value,
    k: &B::Value,
    v: &B::Value,
    causal: bool,
    scale: Option<f64>,
    past: Option<&B::Value>,
) -> Result<B::Value> {
    let scale = match scale {
        Some(scale) => scale,
        None => 1.0 / (last_size(b, "attention", q)? as f64).sqrt(),
    };
    let prim = Attention::Forward { causal, scale: F64(scale), past: past.is_some() };
    let mut operands = vec![q.clone(), k.clone(), v.clone()];
    operands.extend(past.cloned());
    first(b.apply(Prim::Attention(prim), &operands)?.into_iter())
}

/// The first output of a primitive that also returns its statistics.
fn first<V>(mut outputs: impl Iterator<Item = V>) -> Result<V> {
    outputs.next().ok_or_else(|| Error::unsupported("apply", "the primitive returned no value"))
}
