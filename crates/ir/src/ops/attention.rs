//! Attention: the softmax kind in torch's layout and in the kernels', with every mask, and multi-head layers.

use super::nn::{first, last_size};
use super::{
    add, broadcast_to, cast, dropout, ge, iota, le, linear, logical_and, logical_not, lt, matmul, mean, mul,
    permute_to, reshape_to, scalar, shape_of, split_sizes, sub, transpose, unsqueeze, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::F64;
use crate::layout::{Dims, ShowShape, broadcast_shapes, numel};
use crate::prim::attention::{Attend, Mask, Position, probabilities};
use crate::prim::{Attention, Prim};

/// `softmax(scale * q k^T) v` in the layout `[batch, seq, heads, head_dim]`, which the kernels use; `k` and `v` may have
/// fewer heads, dividing those of `q`. `scale` is `1 / sqrt(head_dim)` where absent. With `causal`, a query sees
/// no key after its own position, the last query standing at the last key. With `past` (an integer of rank 0)
/// query `i` stands at position `past + i` and only the first `past + tq` keys count. See
/// [`scaled_dot_product_attention`] for masks and windows.
pub fn attention<B: Builder>(
    b: &B,
    q: &B::Value,
    k: &B::Value,
    v: &B::Value,
    causal: bool,
    scale: Option<f64>,
    past: Option<&B::Value>,
) -> Result<B::Value> {
    let mut attend = Attend { causal, ..Attend::new(scale_of(b, "attention", q, scale)?) };
    if past.is_some() {
        attend.position = Position::Past;
    }
    apply(b, attend, [q, k, v], past, None)
}

fn scale_of<B: Builder>(b: &B, op: &str, q: &B::Value, scale: Option<f64>) -> Result<f64> {
    match scale {
        Some(scale) => Ok(scale),
        None => Ok(1.0 / (last_size(b, op, q)? as f64).sqrt()),
    }
}

fn apply<B: Builder>(
    b: &B,
    attend: Attend,
    qkv: [&B::Value; 3],
    past: Option<&B::Value>,
    mask: Option<&B::Value>,
) -> Result<B::Value> {
    let mut operands: Vec<B::Value> = qkv.into_iter().cloned().collect();
    operands.extend(past.cloned());
    operands.extend(mask.cloned());
    first(b.apply(Prim::Attention(Attention::Forward(attend)), &operands)?.into_iter())
}

/// `softmax(scale * query key^T + mask) value`, of `query [batch.., heads, tq, head_dim]`,
/// `key [batch.., kv_heads, tk, head_dim]` and `value [batch.., kv_heads, tk, value_dim]`, as
/// `torch.nn.functional.scaled_dot_product_attention`. Batch axes broadcast; `kv_heads` divides `heads`. `scale` is
/// `1 / sqrt(head_dim)` where absent. A query that sees no key gives 0. Half types compute in f32.
///
/// - `is_causal`: query `i` sees keys `0..=i`, as in torch. With `past` (an integer of rank 0) query `i` stands at
///   `past + i` and only the first `past + tq` keys count. ([`attention`] lets the last query stand at the last key.)
/// - `attn_mask`: `bool`, true where a query sees a key, or numbers that are added to the scores; broadcasts to
///   `[batch.., heads, tq, tk]`. It has a gradient where it is numbers.
/// - `window_left`, `window_right`: a query at position `p` sees keys `p - left ..= p + right` (Child et al. 2019).
/// - `softcap`: scores `x` become `cap * tanh(x / cap)` before any mask.
/// - `alibi_slopes [heads]` or `[batch, heads]`: `-slope * |position - key|` is added (Press et al. 2022).
/// - `query_lengths`, `key_lengths [batch]`: what lies behind a length is not seen, and gives 0.
/// - `dropout_p`: probabilities are dropped, by `dropout_key` (`u64[2]`) and `stream`.
pub fn scaled_dot_product_attention<B: Builder>(
    b: &B,
    query: &B::Value,
    key: &B::Value,
    value: &B::Value,
    is_causal: bool,
    scale: Option<f64>,
    past: Option<&B::Value>,
    attn_mask: Option<&B::Value>,
    dropout_p: f64,
    dropout_key: Option<&B::Value>,
    window_left: Option<isize>,
    window_right: Option<isize>,
    softcap: Option<f64>,
    alibi_slopes: Option<&B::Value>,
    query_lengths: Option<&B::Value>,
    key_lengths: Option<&B::Value>,
    stream: u64,
) -> Result<B::Value> {
    const OP: &str = "scaled_dot_product_attention";
    let mut attend = Attend { causal: is_causal, ..Attend::new(scale_of(b, OP, query, scale)?) };
    attend.position = if past.is_some() { Position::Past } else { Position::First };
    attend.left = width(OP, "window_left", window_left)?;
    attend.right = width(OP, "window_right", window_right)?;
    attend.softcap = softcap.map(F64);
    check_probability(OP, dropout_p)?;

    let sizes = Sizes::of(b, OP, query, key, value)?;
    let [query, key, value] = sizes.four_axes(b, [query, key, value])?;
    let mut masks = Scores { b, sizes: &sizes, visible: None, additive: None };
    if let Some(mask) = attn_mask {
        let mask = sizes.mask(b, OP, mask)?;
        if b.ty(&mask).dtype == DType::Bool { masks.require(mask)? } else { masks.add(mask)? }
    }
    for (operand, lengths, axis) in [("query_lengths", query_lengths, -2), ("key_lengths", key_lengths, -1)] {
        if let Some(lengths) = lengths {
            masks.require(sizes.within(b, OP, operand, lengths, axis)?)?;
        }
    }
    if let Some(slopes) = alibi_slopes {
        masks.add(sizes.alibi(b, OP, slopes, b.ty(&query).dtype.wide(), past)?)?;
    }
    let mask = masks.into_mask(b.ty(&query).dtype)?;
    if let Some(mask) = &mask {
        attend.mask = Some(if b.ty(mask).dtype == DType::Bool { Mask::Visible } else { Mask::Additive });
    }
    if past.is_none() && (sizes.queries == sizes.keys || attend.is_positionless()) {
        // The same, in the form that more kernels know.
        attend.position = Position::Last;
    }

    let heads_inside = |x: &B::Value| transpose(b, x, 1, 2);
    let (q, k) = (heads_inside(&query)?, heads_inside(&key)?);
    let out = if dropout_p == 0.0 {
        transpose(b, &apply(b, attend, [&q, &k, &heads_inside(&value)?], past, mask.as_ref())?, 1, 2)?
    } else {
        let Some(dropout_key) = dropout_key else {
            return Err(Error::shape(OP, "dropout_p is not 0, so dropout_key (u64[2]) is needed"));
        };
        check(b, attend, [&q, &k, &heads_inside(&value)?], past, mask.as_ref())?;
        let p = probabilities(b, &attend, &q, &k, past, mask.as_ref())?;
        let p = dropout(b, &p, dropout_p, dropout_key, stream)?;
        weighted(b, &sizes, &p, &value, past)?
    };
    sizes.all_axes(b, &out)
}

/// What `infer` would say of the operands, where no attention is applied.
fn check<B: Builder>(
    b: &B,
    attend: Attend,
    qkv: [&B::Value; 3],
    past: Option<&B::Value>,
    mask: Option<&B::Value>,
) -> Result<()> {
    let operands = qkv.into_iter().chain(past).chain(mask).map(|x| b.ty(x)).collect::<Vec<_>>();
    Prim::Attention(Attention::Forward(attend)).infer(&operands).map(|_| ())
}

/// Probabilities `[b, h, tq, tk]` times `value [b, hk, tk, d]`, rounded once.
fn weighted<B: Builder>(
    b: &B,
    sizes: &Sizes,
    p: &B::Value,
    value: &B::Value,
    past: Option<&B::Value>,
) -> Result<B::Value> {
    let dtype = b.ty(value).dtype;
    let shape = shape_of(b, value);
    let mut value = value.clone();
    if let Some(past) = past {
        // What has not been written must not count, NaN included.
        let last = super::add_scalar(b, &cast(b, past, DType::I64)?, sizes.queries as i64)?;
        let written = unsqueeze(b, &lt(b, &iota(b, sizes.keys, DType::I64)?, &last)?, -1)?;
        value = where_(b, &written, &value, &scalar(b, 0i64, dtype)?)?;
    }
    let group = sizes.heads.checked_div(shape[1]).unwrap_or(1);
    let rows = [sizes.batch, shape[1], group * sizes.queries, sizes.keys];
    let o = matmul(b, &reshape_to(b, p, &rows)?, &cast(b, &value, b.ty(p).dtype)?)?;
    cast(b, &reshape_to(b, &o, &[sizes.batch, sizes.heads, sizes.queries, shape[3]])?, dtype)
}

fn width(op: &str, operand: &str, width: Option<isize>) -> Result<Option<usize>> {
    let fail = |width| Error::shape(op, format!("{operand} is {width}, expected 0 or more, or none"));
    width.map(|width| usize::try_from(width).map_err(|_| fail(width))).transpose()
}

fn check_probability(op: &str, p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(Error::shape(op, format!("dropout_p is {p}, expected 0 to 1")))
}

impl Attend {
    /// True if it does not matter where the queries stand.
    fn is_positionless(&self) -> bool {
        !self.causal && self.left.is_none() && self.right.is_none()
    }
}

/// The sizes of one attention in torch's layout.
struct Sizes {
    /// The batch axes as the caller has them.
    lead: Dims,
    /// False where the operands have no axis of heads.
    has_heads: bool,
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
}

impl Sizes {
    fn of<B: Builder>(b: &B, op: &str, q: &B::Value, k: &B::Value, v: &B::Value) -> Result<Sizes> {
        let shapes = [("query", q), ("key", k), ("value", v)].map(|(operand, x)| (operand, shape_of(b, x)));
        let rank = shapes[0].1.len();
        for (operand, shape) in &shapes {
            if rank < 2 || shape.len() != rank {
                return Err(Error::shape(
                    op,
                    format!(
                        "{operand} has shape {}, expected [batch.., heads, seq, head_dim] as query {}",
                        ShowShape(shape),
                        ShowShape(&shapes[0].1)
                    ),
                ));
            }
        }
        let [q, k, v] = shapes.map(|(_, shape)| shape);
        let axes = rank.saturating_sub(3);
        let lead = broadcast_shapes(op, &q[..axes], &k[..axes])?;
        let lead = broadcast_shapes(op, &lead, &v[..axes])?;
        let heads = if rank == 2 { 1 } else { q[axes] };
        let batch = numel(&lead);
        Ok(Sizes { lead, has_heads: rank > 2, batch, heads, queries: q[rank - 2], keys: k[rank - 2] })
    }

    /// The operands as `[batch, heads, seq, head_dim]`.
    fn four_axes<B: Builder>(&self, b: &B, operands: [&B::Value; 3]) -> Result<[B::Value; 3]> {
        let whole = |x: &B::Value| {
            let shape = shape_of(b, x);
            let mut full = self.lead.clone();
            full.extend_from_slice(&shape[shape.len() - if self.has_heads { 3 } else { 2 }..]);
            let heads = if self.has_heads { shape[shape.len() - 3] } else { 1 };
            let flat = [self.batch, heads, shape[shape.len() - 2], shape[shape.len() - 1]];
            reshape_to(b, &broadcast_to(b, x, &full)?, &flat)
        };
        let [q, k, v] = operands;
        Ok([whole(q)?, whole(k)?, whole(v)?])
    }

    /// Undoes [`Sizes::four_axes`].
    fn all_axes<B: Builder>(&self, b: &B, x: &B::Value) -> Result<B::Value> {
        let mut shape = self.lead.clone();
        let kept = shape_of(b, x);
        shape.extend_from_slice(&kept[if self.has_heads { 1 } else { 2 }..]);
        reshape_to(b, x, &shape)
    }

    fn scores(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }

    /// A mask that broadcasts to `[batch.., heads, tq, tk]`, as one of rank 4.
    fn mask<B: Builder>(&self, b: &B, op: &str, mask: &B::Value) -> Result<B::Value> {
        let shape = shape_of(b, mask);
        let mut full = self.lead.clone();
        if self.has_heads {
            full.push(self.heads);
        }
        full.extend([self.queries, self.keys]);
        let fits = shape.len() <= full.len()
            && shape.iter().rev().zip(full.iter().rev()).all(|(&size, &full)| size == full || size == 1);
        if !fits {
            return Err(Error::shape(
                op,
                format!("attn_mask {} does not broadcast to {}", ShowShape(&shape), ShowShape(&full)),
            ));
        }
        let inner = if self.has_heads { 3 } else { 2 };
        let mut padded: Dims = std::iter::repeat_n(1, full.len() - shape.len()).collect();
        padded.extend_from_slice(&shape);
        let (lead, tail) = padded.split_at(padded.len() - inner);
        // Batch axes that are not all 1 are needed whole, to fold into one.
        let batch = if numel(lead) == 1 { 1 } else { self.batch };
        let mut whole = if batch == 1 { Dims::from_slice(lead) } else { self.lead.clone() };
        whole.extend_from_slice(tail);
        let mask = broadcast_to(b, &reshape_to(b, mask, &padded)?, &whole)?;
        let mut four = Dims::from_slice(&[batch]);
        if !self.has_heads {
            four.push(1);
        }
        four.extend_from_slice(tail);
        reshape_to(b, &mask, &four)
    }

    /// True for positions of an axis of the scores that lie within `lengths [batch]`.
    fn within<B: Builder>(
        &self,
        b: &B,
        op: &str,
        operand: &str,
        lengths: &B::Value,
        axis: isize,
    ) -> Result<B::Value> {
        super::require_int(op, operand, b.ty(lengths))?;
        crate::prim::expect_shape(op, operand, b.ty(lengths), &[self.batch])?;
        let dtype = super::position_dtype(b.ty(lengths).dtype);
        let lengths = reshape_to(b, &cast(b, lengths, dtype)?, &[self.batch, 1, 1, 1])?;
        let size = if axis == -1 { self.keys } else { self.queries };
        let place = iota(b, size, dtype)?;
        let place = if axis == -1 { place } else { unsqueeze(b, &place, -1)? };
        lt(b, &place, &lengths)
    }

    /// `-slope * |position - key|`, `[1 or batch, heads, tq, tk]`.
    fn alibi<B: Builder>(
        &self,
        b: &B,
        op: &str,
        slopes: &B::Value,
        wide: DType,
        past: Option<&B::Value>,
    ) -> Result<B::Value> {
        super::require_float(op, "alibi_slopes", b.ty(slopes))?;
        let shape = shape_of(b, slopes);
        let batch = match shape[..] {
            [heads] if heads == self.heads => 1,
            [batch, heads] if heads == self.heads && batch == self.batch => batch,
            _ => {
                return Err(Error::shape(
                    op,
                    format!(
                        "alibi_slopes {} do not fit; expected [heads] or [batch, heads], here [{}] or [{}, {}]",
                        ShowShape(&shape),
                        self.heads,
                        self.batch,
                        self.heads
                    ),
                ));
            }
        };
        let mut position = iota(b, self.queries, wide)?;
        if let Some(past) = past {
            position = add(b, &position, &cast(b, past, wide)?)?;
        }
        let distance = sub(b, &unsqueeze(b, &position, -1)?, &iota(b, self.keys, wide)?)?;
        let slopes = reshape_to(b, &cast(b, slopes, wide)?, &[batch, self.heads, 1, 1])?;
        super::neg(b, &mul(b, &slopes, &super::abs(b, &distance)?)?)
    }
}

/// What the masks of one call come to.
struct Scores<'a, B: Builder> {
    b: &'a B,
    sizes: &'a Sizes,
    visible: Option<B::Value>,
    additive: Option<B::Value>,
}

impl<B: Builder> Scores<'_, B> {
    fn require(&mut self, visible: B::Value) -> Result<()> {
        self.visible = Some(match self.visible.take() {
            Some(before) => logical_and(self.b, &before, &visible)?,
            None => visible,
        });
        Ok(())
    }

    fn add(&mut self, mask: B::Value) -> Result<()> {
        self.additive = Some(match self.additive.take() {
            Some(before) => {
                let wide = self.b.ty(&before).dtype.wide();
                add(self.b, &cast(self.b, &before, wide)?, &cast(self.b, &mask, wide)?)?
            }
            None => mask,
        });
        Ok(())
    }

    /// One mask for all, additive if any is.
    fn into_mask(self, dtype: DType) -> Result<Option<B::Value>> {
        let b = self.b;
        match (self.visible, self.additive) {
            (visible, None) => Ok(visible),
            (None, additive) => Ok(additive),
            (Some(visible), Some(additive)) => {
                let found = b.ty(&additive).dtype;
                if found != dtype && found != dtype.wide() {
                    return Err(Error::dtype(
                        "scaled_dot_product_attention",
                        format!("attn_mask is {found}, expected bool or {dtype}; cast it"),
                    ));
                }
                let hidden = scalar(b, f64::NEG_INFINITY, found)?;
                let mask = where_(b, &visible, &additive, &hidden)?;
                debug_assert!(
                    b.ty(&mask).shape.iter().zip(self.sizes.scores()).all(|(&m, s)| m == s || m == 1)
                );
                Ok(Some(mask))
            }
        }
    }
}

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
///   [`scaled_dot_product_attention`]), or numbers that are added to the scores.
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

    let biases = match in_proj_bias {
        Some(bias) => split_sizes(b, bias, &[embed; 3], 0)?.into_iter().map(Some).collect(),
        None => vec![None; 3],
    };
    let weights = match (in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight) {
        (Some(packed), None, None, None) => split_sizes(b, packed, &[embed; 3], 0)?,
        (None, Some(q), Some(k), Some(v)) => vec![q.clone(), k.clone(), v.clone()],
        _ => {
            return Err(Error::shape(
                OP,
                "takes in_proj_weight, or else q_proj_weight, k_proj_weight and v_proj_weight",
            ));
        }
    };
    let mut projected = Vec::with_capacity(3);
    for ((x, weight), bias) in [query, key, value].into_iter().zip(&weights).zip(&biases) {
        projected.push(linear(b, x, weight, bias.as_ref())?);
    }
    let Ok([q, mut k, mut v]) = <[B::Value; 3]>::try_from(projected) else {
        return Err(Error::unsupported(OP, "three projections are expected"));
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
    if is_causal {
        let (row, column) = (iota(b, tq, DType::I32)?, iota(b, tk + more, DType::I32)?);
        let mut visible = ge(b, &unsqueeze(b, &row, -1)?, &column)?;
        if more > 0 {
            let further = le(b, &scalar(b, tk as i64, DType::I32)?, &column)?;
            visible = super::logical_or(b, &visible, &further)?;
        }
        merged.require(reshape_to(b, &visible, &[1, 1, tq, tk + more])?)?;
    }
    let mask = merged.into_mask(dtype)?;
    let mut attend = Attend::new(1.0 / (width as f64).sqrt());
    if let Some(mask) = &mask {
        attend.mask = Some(if b.ty(mask).dtype == DType::Bool { Mask::Visible } else { Mask::Additive });
    }

    let heads = |x: &B::Value, seq: usize| reshape_to(b, x, &[batch, seq, num_heads, width]);
    let (q, k, v) = (heads(&q, tq)?, heads(&k, tk + more)?, heads(&v, tk + more)?);
    let project =
        |o: &B::Value| linear(b, &reshape_to(b, o, &[batch, tq, embed])?, out_proj_weight, out_proj_bias);
    if !need_weights && dropout_p == 0.0 {
        return Ok(vec![project(&apply(b, attend, [&q, &k, &v], None, mask.as_ref())?)?]);
    }
    check(b, attend, [&q, &k, &v], None, mask.as_ref())?;
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
