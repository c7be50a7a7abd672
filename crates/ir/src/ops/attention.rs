//! Attention: the softmax kind in torch's layout and in the kernels', with every mask, and multi-head layers.

use super::nn::{first, last_size};
use super::{
    add, broadcast_to, cast, dropout, iota, logical_and, lt, matmul, mul, reshape_to, scalar, shape_of, sub,
    transpose, unsqueeze, where_,
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

pub(super) fn scale_of<B: Builder>(b: &B, op: &str, q: &B::Value, scale: Option<f64>) -> Result<f64> {
    match scale {
        Some(scale) => Ok(scale),
        // A product over no channels is 0; infinity times that would be NaN.
        None => Ok(1.0 / (last_size(b, op, q)?.max(1) as f64).sqrt()),
    }
}

pub(super) fn apply<B: Builder>(
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
    let mask = masks.into_mask(OP, b.ty(&query).dtype)?;
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
        let v = heads_inside(&value)?;
        transpose(b, &named(OP, apply(b, attend, [&q, &k, &v], past, mask.as_ref()))?, 1, 2)?
    } else {
        let Some(dropout_key) = dropout_key else {
            return Err(Error::shape(OP, "dropout_p is not 0, so dropout_key (u64[2]) is needed"));
        };
        check(OP, b, attend, [&q, &k, &heads_inside(&value)?], past, mask.as_ref())?;
        let p = probabilities(b, &attend, &q, &k, past, mask.as_ref())?;
        let p = dropout(b, &p, dropout_p, dropout_key, stream)?;
        weighted(b, &sizes, &p, &value, past)?
    };
    sizes.all_axes(b, &out)
}

/// An error of an inner op under the name of the one that was called.
pub(super) fn named<T>(op: &str, result: Result<T>) -> Result<T> {
    result.map_err(|error| Error { op: op.into(), ..error })
}

/// What `infer` would say of the operands, where no attention is applied.
pub(super) fn check<B: Builder>(
    op: &str,
    b: &B,
    attend: Attend,
    qkv: [&B::Value; 3],
    past: Option<&B::Value>,
    mask: Option<&B::Value>,
) -> Result<()> {
    let operands = qkv.into_iter().chain(past).chain(mask).map(|x| b.ty(x)).collect::<Vec<_>>();
    named(op, Prim::Attention(Attention::Forward(attend)).infer(&operands).map(|_| ()))
}

/// Probabilities `[b, h, tq, tk]` times `value [b, hk, tk, d]`, rounded once.
pub(super) fn weighted<B: Builder>(
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

pub(super) fn check_probability(op: &str, p: f64) -> Result<()> {
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
pub(super) struct Sizes {
    /// The batch axes as the caller has them.
    pub(super) lead: Dims,
    /// False where the operands have no axis of heads.
    pub(super) has_heads: bool,
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
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
        let (heads, key_heads) = if rank > 2 { (q[axes], k[axes]) } else { (1, 1) };
        let divides = heads == key_heads || (key_heads > 0 && heads % key_heads == 0);
        if k[axes..rank - 1] != v[axes..rank - 1] || q[rank - 1] != k[rank - 1] || !divides {
            let [q, k, v] = [&q, &k, &v].map(|shape| ShowShape(shape));
            return Err(Error::shape(
                op,
                format!(
                    "query {q}, key {k}, value {v} do not fit; expected [batch.., heads, tq, d], [batch.., kv_heads, tk, d], \
                     [batch.., kv_heads, tk, dv] with kv_heads dividing heads"
                ),
            ));
        }
        let lead = broadcast_shapes(op, &q[..axes], &k[..axes])?;
        let lead = broadcast_shapes(op, &lead, &v[..axes])?;
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
pub(super) struct Scores<'a, B: Builder> {
    pub(super) b: &'a B,
    pub(super) sizes: &'a Sizes,
    pub(super) visible: Option<B::Value>,
    pub(super) additive: Option<B::Value>,
}

impl<B: Builder> Scores<'_, B> {
    pub(super) fn require(&mut self, visible: B::Value) -> Result<()> {
        self.visible = Some(match self.visible.take() {
            Some(before) => logical_and(self.b, &before, &visible)?,
            None => visible,
        });
        Ok(())
    }

    pub(super) fn add(&mut self, mask: B::Value) -> Result<()> {
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
    pub(super) fn into_mask(self, op: &str, dtype: DType) -> Result<Option<B::Value>> {
        let b = self.b;
        match (self.visible, self.additive) {
            (visible, None) => Ok(visible),
            (None, additive) => Ok(additive),
            (Some(visible), Some(additive)) => {
                let found = b.ty(&additive).dtype;
                if found != dtype && found != dtype.wide() {
                    return Err(Error::dtype(
                        op,
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
