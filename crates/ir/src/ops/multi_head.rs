//! The forward of multi-head attention layers.

use super::attention::{Scores, Sizes, apply, check, check_probability, named, weighted};
use super::{
    broadcast_to, cast, dropout, ge, iota, le, linear, logical_not, mean, permute_to, reshape_to, scalar,
    select, shape_of, split_sizes, transpose, unsqueeze,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape};
use crate::prim::attention::{Attend, Mask, Position, probabilities};

/// The forward of a multi-head attention layer, as `torch.nn.MultiheadAttention` with `batch_first`:
/// `query [batch, tq, embed]`, `key [batch, tk, kdim]`, `value [batch, tk, vdim]` to `[output [batch, tq, embed]]`, and
/// with `need_weights` also the probabilities, `[batch, tq, tk]` averaged over heads or
/// `[batch, heads, tq, tk]`.
///
/// - Projections are `in_proj_weight [3 embed, embed]`, the three packed, or, where key or value have other widths,
///   `q_proj_weight [embed, embed]`, `k_proj_weight [embed, kdim]`, `v_proj_weight [embed, vdim]`.
///   `in_proj_bias [3 embed]`; `out_proj_weight [embed, embed]`, `out_proj_bias [embed]`.
/// - `key_padding_mask [batch, tk]` and `attn_mask` (`[tq, tk]`, `[batch * heads, tq, tk]` or
///   `[batch, heads, tq, tk]`): `bool`, **true where a key is hidden**, as in torch (the opposite of
///   `scaled_dot_product_attention`), or numbers that are added to the scores.
/// - `is_causal`: query `i` sees keys `0..=i`.
/// - `bias_k`, `bias_v [1, 1, embed]` are one more key; `add_zero_attn` adds one of zeros. No mask hides these.
/// - `dropout_p`: probabilities are dropped, by `dropout_key` (`u64[2]`) and `stream`; the returned ones are too.
pub fn multi_head_attention<B: Builder>(
    b: &B,
    query: &B::Value,
    key: &B::Value,
    value: &B::Value,
    num_heads: usize,
    in_proj_weight: Option<&B::Value>,
    in_proj_bias: Option<&B::Value>,
    out_proj_weight: &B::Value,
    out_proj_bias: Option<&B::Value>,
    q_proj_weight: Option<&B::Value>,
    k_proj_weight: Option<&B::Value>,
    v_proj_weight: Option<&B::Value>,
    bias_k: Option<&B::Value>,
    bias_v: Option<&B::Value>,
    key_padding_mask: Option<&B::Value>,
    attn_mask: Option<&B::Value>,
    add_zero_attn: bool,
    is_causal: bool,
    need_weights: bool,
    average_attn_weights: bool,
    dropout_p: f64,
    dropout_key: Option<&B::Value>,
    stream: u64,
) -> Result<Vec<B::Value>> {
    const OP: &str = "multi_head_attention";
    check_probability(OP, dropout_p)?;
    let shapes = [query, key, value].map(|x| shape_of(b, x));
    let [[batch, tq, embed], [kb, tk, _], [vb, vk, _]] = [&shapes[0][..], &shapes[1][..], &shapes[2][..]]
    else {
        let [q, k, v] = [query, key, value].map(|x| b.ty(x));
        return Err(Error::shape(
            OP,
            format!("query {q}, key {k}, value {v}: expected [batch, seq, width] each"),
        ));
    };
    let (batch, tq, tk, embed) = (*batch, *tq, *tk, *embed);
    if *kb != batch || *vb != batch || *vk != tk {
        let [q, k, v] = [query, key, value].map(|x| b.ty(x));
        return Err(Error::shape(
            OP,
            format!("query {q}, key {k}, value {v}: expected one batch, and as many values as keys"),
        ));
    }
    if num_heads == 0 || embed % num_heads != 0 {
        return Err(Error::shape(OP, format!("{num_heads} heads do not divide the width {embed} of query")));
    }
    let width = embed / num_heads;

    let packed = match (in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight) {
        (Some(packed), None, None, None) => Some(packed),
        (None, Some(_), Some(_), Some(_)) => None,
        _ => {
            return Err(Error::shape(
                OP,
                "takes in_proj_weight, or else q_proj_weight, k_proj_weight and v_proj_weight",
            ));
        }
    };
    let is_self = b.is_same(query, key) && b.is_same(query, value);
    let has_further = bias_k.is_some() || bias_v.is_some() || add_zero_attn;
    let [q, mut k, mut v] = match packed {
        // One product, whose parts attention reads where they lie.
        Some(packed) if is_self && !has_further => {
            let all = named(OP, linear(b, query, packed, in_proj_bias))?;
            let all = named(OP, reshape_to(b, &all, &[batch, tq, 3, num_heads, width]))?;
            [select(b, &all, 2, 0)?, select(b, &all, 2, 1)?, select(b, &all, 2, 2)?]
        }
        _ => {
            let biases = match in_proj_bias {
                Some(bias) => {
                    named(OP, split_sizes(b, bias, &[embed; 3], 0))?.into_iter().map(Some).collect()
                }
                None => vec![None; 3],
            };
            let weights = match packed {
                Some(packed) => named(OP, split_sizes(b, packed, &[embed; 3], 0))?,
                None => {
                    [q_proj_weight, k_proj_weight, v_proj_weight].into_iter().flatten().cloned().collect()
                }
            };
            let mut projected = Vec::with_capacity(3);
            for ((x, weight), bias) in [query, key, value].into_iter().zip(&weights).zip(&biases) {
                projected.push(named(OP, linear(b, x, weight, bias.as_ref()))?);
            }
            <[B::Value; 3]>::try_from(projected)
                .map_err(|_| Error::unsupported(OP, "three projections are expected"))?
        }
    };

    let dtype = b.ty(&q).dtype;
    let mut more = 0;
    match (bias_k, bias_v) {
        (Some(bias_k), Some(bias_v)) => {
            let row = [batch, 1, embed];
            k = super::concat(b, &[k, broadcast_to(b, bias_k, &row)?], 1)?;
            v = super::concat(b, &[v, broadcast_to(b, bias_v, &row)?], 1)?;
            more += 1;
        }
        (None, None) => {}
        _ => return Err(Error::shape(OP, "bias_k and bias_v are given together or not at all")),
    }
    if add_zero_attn {
        let zeros = super::zeros(b, &[batch, 1, embed], dtype)?;
        k = super::concat(b, &[k, zeros.clone()], 1)?;
        v = super::concat(b, &[v, zeros], 1)?;
        more += 1;
    }

    let mut masks: [Option<B::Value>; 2] = [None, None];
    if let Some(mask) = attn_mask {
        let shape = shape_of(b, mask);
        let four = match shape[..] {
            [rows, columns] => [1, 1, rows, columns],
            [all, rows, columns] if all == batch * num_heads => [batch, num_heads, rows, columns],
            [b_, h, rows, columns] => [b_, h, rows, columns],
            _ => {
                return Err(Error::shape(
                    OP,
                    format!(
                        "attn_mask {} does not fit; expected [{tq}, {tk}] or [{}, {tq}, {tk}]",
                        ShowShape(&shape),
                        batch * num_heads
                    ),
                ));
            }
        };
        masks[0] = Some(reshape_to(b, mask, &four)?);
    }
    if let Some(mask) = key_padding_mask {
        crate::prim::expect_shape(OP, "key_padding_mask", b.ty(mask), &[batch, tk])?;
        masks[1] = Some(reshape_to(b, mask, &[batch, 1, 1, tk])?);
    }
    let sizes = Sizes {
        lead: Dims::from_slice(&[batch]),
        has_heads: true,
        batch,
        heads: num_heads,
        queries: tq,
        keys: tk + more,
    };
    let mut merged = Scores { b, sizes: &sizes, visible: None, additive: None };
    for mask in masks.into_iter().flatten() {
        // The further keys are always seen.
        let low = [0isize; 4];
        let high = [0, 0, 0, more as isize];
        if b.ty(&mask).dtype == DType::Bool {
            merged.require(super::pad(b, &logical_not(b, &mask)?, &low, &high, true)?)?;
        } else {
            super::require_float(OP, "a mask", b.ty(&mask))?;
            merged.add(super::pad(b, &mask, &low, &high, 0.0)?)?;
        }
    }
    // Query `i` stands at key `i`, which more kernels know as the last query at the last key where there are as many.
    let position = if tq == tk { Position::Last } else { Position::First };
    let mut attend = Attend { position, ..Attend::new(1.0 / (width.max(1) as f64).sqrt()) };
    attend.causal = is_causal && more == 0;
    if is_causal && more > 0 {
        let (row, column) = (iota(b, tq, DType::I32)?, iota(b, tk + more, DType::I32)?);
        let earlier = ge(b, &unsqueeze(b, &row, -1)?, &column)?;
        let further = le(b, &scalar(b, tk as i64, DType::I32)?, &column)?;
        let visible = super::logical_or(b, &earlier, &further)?;
        merged.require(reshape_to(b, &visible, &[1, 1, tq, tk + more])?)?;
    }
    let mask = merged.into_mask(OP, dtype)?;
    if let Some(mask) = &mask {
        attend.mask = Some(if b.ty(mask).dtype == DType::Bool { Mask::Visible } else { Mask::Additive });
    }

    let heads = |x: &B::Value, seq: usize| reshape_to(b, x, &[batch, seq, num_heads, width]);
    let (q, k, v) = (heads(&q, tq)?, heads(&k, tk + more)?, heads(&v, tk + more)?);
    let project = |o: &B::Value| {
        let o = reshape_to(b, o, &[batch, tq, embed])?;
        named(OP, linear(b, &o, out_proj_weight, out_proj_bias))
    };
    if !need_weights && dropout_p == 0.0 {
        let o = named(OP, apply(b, attend, [&q, &k, &v], None, mask.as_ref()))?;
        return Ok(vec![project(&o)?]);
    }
    check(OP, b, attend, [&q, &k, &v], None, mask.as_ref())?;
    let mut p = probabilities(b, &attend, &q, &k, None, mask.as_ref())?;
    if dropout_p != 0.0 {
        let Some(dropout_key) = dropout_key else {
            return Err(Error::shape(OP, "dropout_p is not 0, so dropout_key (u64[2]) is needed"));
        };
        p = dropout(b, &p, dropout_p, dropout_key, stream)?;
    }
    let o = weighted(b, &sizes, &p, &transpose(b, &v, 1, 2)?, None)?;
    let mut outputs = vec![project(&permute_to(b, &o, &[0, 2, 1, 3])?)?];
    if need_weights {
        let weights = cast(b, &p, dtype)?;
        outputs.push(if average_attn_weights { mean(b, &weights, &[1], false)? } else { weights });
    }
    Ok(outputs)
}
