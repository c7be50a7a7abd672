//! Recurrences over a sequence: linear attention, the gated delta rule and linear scans.

use super::attention::scale_of;
use super::{
    add, broadcast_to, cast, div, eq_scalar, matmul, mul, ones_like, pad, repeat_interleave, reshape_to,
    scalar, shape_of, slice_axis, transpose, tril, where_,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::F64;
use crate::layout::{Dims, ShowShape, broadcast_shapes, resolve_axis};
use crate::prim::{Prim, Recurrent};

/// `h_t = a_t h_(t-1) + x_t` along an axis, for `a` and `x` that broadcast: the associative linear recurrence of state
/// space models (Martin and Cundy 2018). `initial` is what stands before the first step, of the result's shape
/// without the axis, or 0. With `reverse` the recurrence runs from the last step back. Half types carry the
/// state in f32.
pub fn linear_scan<B: Builder>(
    b: &B,
    a: &B::Value,
    x: &B::Value,
    initial: Option<&B::Value>,
    axis: isize,
    reverse: bool,
) -> Result<B::Value> {
    let shape = broadcast_shapes("linear_scan", &b.ty(a).shape, &b.ty(x).shape)?;
    let axis = resolve_axis("linear_scan", axis, shape.len())?;
    crate::prim::expect_float("linear_scan", "a", b.ty(a))?;
    for (operand, given) in [("x", Some(x)), ("initial", initial)] {
        if let Some(given) = given {
            crate::prim::expect_same_dtype("linear_scan", b.ty(a), operand, b.ty(given))?;
        }
    }
    let (a, mut x) = (broadcast_to(b, a, &shape)?, broadcast_to(b, x, &shape)?);
    if let Some(initial) = initial {
        let mut before = shape.clone();
        before[axis] = 1;
        let mut given = before.clone();
        given.remove(axis);
        crate::prim::expect_shape("linear_scan", "initial", b.ty(initial), &given)?;
        if shape[axis] > 0 {
            // The first step's own a carries it in.
            let first = if reverse { shape[axis] - 1 } else { 0 };
            let first = slice_axis(b, &a, axis, first, first + 1, 1)?;
            let carried = mul(b, &first, &reshape_to(b, initial, &before)?)?;
            let (mut low, mut high) = (vec![0; shape.len()], vec![0; shape.len()]);
            let missing = shape[axis] as isize - 1;
            if reverse {
                low[axis] = missing
            } else {
                high[axis] = missing
            };
            x = add(b, &x, &pad(b, &carried, &low, &high, 0.0)?)?;
        }
    }
    b.apply1(Prim::Recurrent(Recurrent::LinearScan { axis, reverse }), &[a, x])
}

/// The gated delta rule (Yang et al. 2024, "Gated Delta Networks"): `[output [batch, seq, value_heads, dv],
/// state [batch, value_heads, d, dv]]` of `q`, `k [batch, seq, heads, d]`, `v [batch, seq, value_heads, dv]`,
/// `log_decay` and `beta [batch, seq, value_heads]`. A `log_decay [batch, seq, value_heads, d]` decays each channel of
/// the keys by itself, as in Kimi Delta Attention (2025). `heads` divides `value_heads`. From `state` or 0, each step
/// does
///
/// `S <- exp(log_decay) S`, `S <- S + beta k (v - S^T k)^T`, `output = scale S^T q`.
///
/// `scale` is `1 / sqrt(d)` where absent. `log_decay` should be at most 0; -inf is a reset. All computing and the
/// state are in the wide type (f32 for half types), in which `log_decay` and `beta` may be given too. A `state` that
/// is handed on continues the sequence exactly; it is not written to. `chunk` is how many steps the
/// decomposition, and so the derivative, takes at once; the result does not depend on it but for rounding.
pub fn gated_delta_rule<B: Builder>(
    b: &B,
    q: &B::Value,
    k: &B::Value,
    v: &B::Value,
    log_decay: &B::Value,
    beta: &B::Value,
    state: Option<&B::Value>,
    scale: Option<f64>,
    chunk: usize,
) -> Result<Vec<B::Value>> {
    let scale = scale_of(b, "gated_delta_rule", q, scale)?;
    let (shape, value_shape) = (shape_of(b, q), shape_of(b, v));
    let (mut q, mut k) = (q.clone(), k.clone());
    if let ([_, _, heads, _], [_, _, value_heads, _]) = (&shape[..], &value_shape[..])
        && heads != value_heads
        && *heads > 0
        && value_heads % heads == 0
    {
        q = repeat_interleave(b, &q, value_heads / heads, 2)?;
        k = repeat_interleave(b, &k, value_heads / heads, 2)?;
    }
    let mut operands = vec![q, k, v.clone(), log_decay.clone(), beta.clone()];
    operands.extend(state.cloned());
    let rule = Recurrent::DeltaRule { scale: F64(scale), chunk, state: state.is_some() };
    Ok(b.apply(Prim::Recurrent(rule), &operands)?.into_vec())
}

/// How many steps of causal linear attention are one product.
const CHUNK: usize = 64;

/// Linear attention (Katharopoulos et al. 2020) of `query` and `key [batch.., tq or tk, d]`, to which the caller has
/// applied the feature map (`elu(x) + 1`, say), and `value [batch.., tk, dv]`: `q (k^T v)`, and with `normalize`
/// divided by `q (k^T 1)`, where a divisor of 0 gives 0. With `is_causal`, query `i` sees keys `0..=i` and there are as
/// many queries as keys. The cost is linear in the length. Half types compute in f32.
pub fn linear_attention<B: Builder>(
    b: &B,
    query: &B::Value,
    key: &B::Value,
    value: &B::Value,
    is_causal: bool,
    normalize: bool,
) -> Result<B::Value> {
    const OP: &str = "linear_attention";
    let [sq, sk, sv] = [query, key, value].map(|x| shape_of(b, x));
    let rank = sq.len();
    let fits = rank >= 2
        && sk.len() == rank
        && sv.len() == rank
        && sq[..rank - 2] == sk[..rank - 2]
        && sk[..rank - 1] == sv[..rank - 1]
        && sq[rank - 1] == sk[rank - 1]
        && (!is_causal || sq == sk);
    if !fits {
        let [q, k, v] = [&sq, &sk, &sv].map(|shape| ShowShape(shape));
        return Err(Error::shape(
            OP,
            format!(
                "query {q}, key {k}, value {v} do not fit; expected [batch.., tq, d], [batch.., tk, d], [batch.., tk, dv], \
                 and as many queries as keys if causal"
            ),
        ));
    }
    for (operand, x) in [("query", query), ("key", key), ("value", value)] {
        crate::prim::expect_float(OP, operand, b.ty(x))?;
        crate::prim::expect_same_dtype(OP, b.ty(query), operand, b.ty(x))?;
    }
    let dtype = b.ty(query).dtype;
    let [q, k, mut v] = [query, key, value].map(|x| cast(b, x, dtype.wide()));
    let (q, k) = (q?, k?);
    let width = sv[rank - 1];
    if normalize {
        // The divisor is one more column of values, all 1.
        let mut column = sv.clone();
        column[rank - 1] = 1;
        let ones = super::ones(b, &column, dtype.wide())?;
        v = super::concat(b, &[v?, ones], -1);
    }
    let v = v?;
    let mixed = if is_causal {
        causal(b, &q, &k, &v)?
    } else {
        matmul(b, &q, &matmul(b, &transpose(b, &k, -1, -2)?, &v)?)?
    };
    if !normalize {
        return cast(b, &mixed, dtype);
    }
    let numerator = slice_axis(b, &mixed, rank - 1, 0, width, 1)?;
    let divisor = slice_axis(b, &mixed, rank - 1, width, width + 1, 1)?;
    let (zero, one) = (scalar(b, 0.0, dtype.wide())?, scalar(b, 1.0, dtype.wide())?);
    let blind = eq_scalar(b, &divisor, 0.0)?;
    let quotient = div(b, &numerator, &where_(b, &blind, &one, &divisor)?)?;
    cast(b, &where_(b, &blind, &zero, &quotient)?, dtype)
}

/// `tril(q k^T) v`, chunk by chunk: inside one by its triangle of products, before it by the sum of `k^T v`.
fn causal<B: Builder>(b: &B, q: &B::Value, k: &B::Value, v: &B::Value) -> Result<B::Value> {
    let shape = shape_of(b, q);
    let axis = shape.len() - 2;
    let steps = shape[axis];
    if steps <= CHUNK {
        return matmul(b, &tril(b, &matmul(b, q, &transpose(b, k, -1, -2)?)?, 0)?, v);
    }
    let count = steps.div_ceil(CHUNK);
    let chunks = |x: &B::Value| {
        let shape = shape_of(b, x);
        let (low, mut high) = (vec![0; shape.len()], vec![0; shape.len()]);
        high[axis] = (count * CHUNK - steps) as isize;
        let mut split = Dims::from_slice(&shape[..axis]);
        split.extend([count, CHUNK, shape[axis + 1]]);
        reshape_to(b, &pad(b, x, &low, &high, 0.0)?, &split)
    };
    let (q, k, v) = (chunks(q)?, chunks(k)?, chunks(v)?);
    let inside = matmul(b, &tril(b, &matmul(b, &q, &transpose(b, &k, -1, -2)?)?, 0)?, &v)?;
    let sums = matmul(b, &transpose(b, &k, -1, -2)?, &v)?;
    let sums = linear_scan(b, &ones_like(b, &sums)?, &sums, None, axis as isize, false)?;
    // Before a chunk lies what the one before it ends with.
    let earlier = slice_axis(b, &sums, axis, 0, count - 1, 1)?;
    let mut low = vec![0; shape.len() + 1];
    low[axis] = 1;
    let before = pad(b, &earlier, &low, &vec![0; shape.len() + 1], 0.0)?;
    let whole = add(b, &inside, &matmul(b, &q, &before)?)?;
    let mut flat = shape_of(b, &whole);
    flat.remove(axis);
    flat[axis] = count * CHUNK;
    slice_axis(b, &reshape_to(b, &whole, &flat)?, axis, 0, steps, 1)
}
