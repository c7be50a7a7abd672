//! Attention in simpler primitives, with grouped heads: what its decomposition is made of.
//!
//! All computing is in the wide type. Axes: `b` batch, `n` key heads, `g` query heads of one key head, `t`
//! queries, `s` keys, `d` head width. Queries of one key head are the rows of one matrix: `[b n, g t, d]`.

use super::attention::{Attend, Mask, Position};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops;
use crate::prim::ReduceOp;

/// The sizes of one attention.
pub(super) struct Grouped<'a, B> {
    b: &'a B,
    dtype: DType,
    batch: usize,
    key_heads: usize,
    group: usize,
    queries: usize,
    keys: usize,
}

/// Which keys a query sees, and what is added to its scores.
pub(super) struct Masks<'a, B: Builder> {
    b: &'a B,
    /// Broadcasts to `[b, n, g, t, s]`. `None`: all.
    visible: Option<B::Value>,
    /// Broadcasts to `[b, n, g, t, s]`, wide.
    additive: Option<B::Value>,
    /// `[s, 1, 1]`: keys that have been written, where there is a cache.
    written: Option<B::Value>,
}

impl<'a, B: Builder> Masks<'a, B> {
    pub fn new(
        b: &'a B,
        sizes: &Grouped<'_, B>,
        attend: &Attend,
        past: Option<&B::Value>,
        mask: Option<&B::Value>,
    ) -> Result<Self> {
        let Masks { mut visible, mut additive, written, .. } = by_position(b, sizes, attend, past)?;
        match (attend.mask, mask) {
            (Some(Mask::Visible), Some(mask)) => {
                let mask = sizes.mask(mask)?;
                visible = Some(match visible {
                    Some(visible) => ops::logical_and(b, &visible, &mask)?,
                    None => mask,
                });
            }
            (Some(Mask::Additive), Some(mask)) => additive = Some(sizes.widen(&sizes.mask(mask)?)?),
            _ => {}
        }
        Ok(Masks { b, visible, additive, written })
    }

    /// Zeros in place of keys or values that are not read: whatever lies there, NaN included, must not count.
    pub fn clear_unread(&self, x: &B::Value) -> Result<B::Value> {
        match &self.written {
            Some(written) => {
                let zero = ops::scalar(self.b, 0i64, self.b.ty(x).dtype)?;
                ops::where_(self.b, written, x, &zero)
            }
            None => Ok(x.clone()),
        }
    }
}

/// Which keys a query sees by where it stands, and which keys have been written.
fn by_position<'a, B: Builder>(
    b: &'a B,
    sizes: &Grouped<'_, B>,
    attend: &Attend,
    past: Option<&B::Value>,
) -> Result<Masks<'a, B>> {
    let (queries, keys) = (sizes.queries, sizes.keys);
    // A window as wide as all positions together binds nowhere, and its width might not fit the dtype.
    let span = queries.saturating_add(keys);
    let left = attend.left.filter(|&left| left < span);
    let right = if attend.causal { Some(0) } else { attend.right.filter(|&right| right < span) };
    if past.is_none() && left.is_none() && right.is_none() {
        return Ok(Masks { b, visible: None, additive: None, written: None });
    }
    let dtype = match past.map(|past| ops::position_dtype(b.ty(past).dtype)) {
        Some(DType::I32) | None if span <= i32::MAX as usize / 2 => DType::I32,
        _ => DType::I64,
    };
    let shifted = |x: &B::Value, by: usize| match by {
        0 => Ok(x.clone()),
        by => ops::add_scalar(b, x, by as i64),
    };
    let key = ops::iota(b, keys, dtype)?;
    let query = ops::unsqueeze(b, &ops::iota(b, queries, dtype)?, -1)?;
    let past = past.map(|past| ops::cast(b, past, dtype)).transpose()?;
    let position = match (&past, attend.position) {
        (Some(past), _) => ops::add(b, &query, past)?,
        (None, Position::First) => query,
        (None, Position::Last | Position::Past) => ops::add_scalar(b, &query, keys as i64 - queries as i64)?,
    };
    let mut visible: Option<B::Value> = None;
    let mut require = |condition: B::Value| -> Result<()> {
        visible = Some(match visible.take() {
            Some(visible) => ops::logical_and(b, &visible, &condition)?,
            None => condition,
        });
        Ok(())
    };
    if let Some(right) = right {
        require(ops::le(b, &key, &shifted(&position, right)?)?)?;
    }
    if let Some(left) = left {
        require(ops::ge(b, &shifted(&key, left)?, &position)?)?;
    }
    let Some(past) = past else { return Ok(Masks { b, visible, additive: None, written: None }) };
    let written = ops::lt(b, &key, &shifted(&past, queries)?)?;
    if right != Some(0) {
        // Who sees no later key sees no unwritten one.
        require(ops::broadcast_to(b, &written, &[queries, keys])?)?;
    }
    let written = Some(ops::reshape_to(b, &written, &[keys, 1, 1])?);
    Ok(Masks { b, visible, additive: None, written })
}

impl<'a, B: Builder> Grouped<'a, B> {
    /// The sizes of `q [b, t, n g, d]` and `k [b, s, n, d]`.
    pub fn of(b: &'a B, q: &B::Value, k: &B::Value) -> Self {
        let (ty, shape) = (b.ty(q), &b.ty(k).shape);
        Grouped {
            b,
            dtype: ty.dtype,
            batch: ty.shape[0],
            key_heads: shape[2],
            group: ty.shape[2].checked_div(shape[2]).unwrap_or(1),
            queries: ty.shape[1],
            keys: shape[1],
        }
    }

    fn rows(&self) -> usize {
        self.group * self.queries
    }

    fn matrices(&self) -> usize {
        self.batch * self.key_heads
    }

    fn heads(&self) -> usize {
        self.key_heads * self.group
    }

    fn widen(&self, x: &B::Value) -> Result<B::Value> {
        ops::cast(self.b, x, self.dtype.wide())
    }

    fn width(&self, x: &B::Value) -> usize {
        self.b.ty(x).shape.last().copied().unwrap_or(1)
    }

    /// A mask `[b or 1, n g or 1, t or 1, s or 1]` with its head axis split.
    fn mask(&self, x: &B::Value) -> Result<B::Value> {
        let shape = ops::shape_of(self.b, x);
        let (n, g) = if shape[1] == self.heads() { (self.key_heads, self.group) } else { (1, 1) };
        ops::reshape_to(self.b, x, &[shape[0], n, g, shape[2], shape[3]])
    }

    /// `[b, t, n g, d]` to `[b n, g t, d]`, wide.
    pub fn queries(&self, x: &B::Value) -> Result<B::Value> {
        let width = self.width(x);
        let split = [self.batch, self.queries, self.key_heads, self.group, width];
        let x = ops::permute_to(self.b, &ops::reshape_to(self.b, x, &split)?, &[0, 2, 3, 1, 4])?;
        self.widen(&ops::reshape_to(self.b, &x, &[self.matrices(), self.rows(), width])?)
    }

    /// Undoes [`Grouped::queries`].
    fn queries_back(&self, x: &B::Value) -> Result<B::Value> {
        let width = self.width(x);
        let split = [self.batch, self.key_heads, self.group, self.queries, width];
        let x = ops::permute_to(self.b, &ops::reshape_to(self.b, x, &split)?, &[0, 3, 1, 2, 4])?;
        let merged = [self.batch, self.queries, self.heads(), width];
        ops::cast(self.b, &ops::reshape_to(self.b, &x, &merged)?, self.dtype)
    }

    /// `[b, s, n, d]` to `[b n, s, d]`, wide.
    pub fn keys(&self, x: &B::Value) -> Result<B::Value> {
        let width = self.width(x);
        let x = ops::permute_to(self.b, x, &[0, 2, 1, 3])?;
        self.widen(&ops::reshape_to(self.b, &x, &[self.matrices(), self.keys, width])?)
    }

    /// Undoes [`Grouped::keys`].
    fn keys_back(&self, x: &B::Value) -> Result<B::Value> {
        let split = [self.batch, self.key_heads, self.keys, self.width(x)];
        let x = ops::permute_to(self.b, &ops::reshape_to(self.b, x, &split)?, &[0, 2, 1, 3])?;
        ops::cast(self.b, &x, self.dtype)
    }

    /// `[b, t, n g]` to `[b n, g t, 1]`.
    pub fn statistics(&self, x: &B::Value) -> Result<B::Value> {
        let split = [self.batch, self.queries, self.key_heads, self.group];
        let x = ops::permute_to(self.b, &ops::reshape_to(self.b, x, &split)?, &[0, 2, 3, 1])?;
        ops::reshape_to(self.b, &x, &[self.matrices(), self.rows(), 1])
    }

    /// Undoes [`Grouped::statistics`].
    fn statistics_back(&self, x: &B::Value) -> Result<B::Value> {
        let split = [self.batch, self.key_heads, self.group, self.queries];
        let x = ops::permute_to(self.b, &ops::reshape_to(self.b, x, &split)?, &[0, 3, 1, 2])?;
        ops::reshape_to(self.b, &x, &[self.batch, self.queries, self.heads()])
    }

    /// `[b n, g t, s]` to `[b, n g, t, s]`.
    pub fn by_head(&self, x: &B::Value) -> Result<B::Value> {
        ops::reshape_to(self.b, x, &[self.batch, self.heads(), self.queries, self.keys])
    }

    /// `f` of `[b n, g t, s]` as `[b, n g, t, s]`.
    fn split(&self, x: &B::Value, f: impl FnOnce(&B::Value) -> Result<B::Value>) -> Result<B::Value> {
        let split = [self.batch, self.key_heads, self.group, self.queries, self.keys];
        let y = f(&ops::reshape_to(self.b, x, &split)?)?;
        ops::reshape_to(self.b, &y, &[self.matrices(), self.rows(), self.keys])
    }

    /// `scale * q k^T` under its soft cap, `[b n, g t, s]`.
    pub fn scores(&self, q: &B::Value, k: &B::Value, attend: &Attend) -> Result<B::Value> {
        let product = ops::matmul(self.b, q, &ops::transpose(self.b, k, 1, 2)?)?;
        let scores = ops::mul_scalar(self.b, &product, attend.scale.0)?;
        let Some(cap) = attend.softcap else { return Ok(scores) };
        let bent = ops::tanh(self.b, &ops::div_scalar(self.b, &scores, cap.0)?)?;
        ops::mul_scalar(self.b, &bent, cap.0)
    }

    /// The scores with what a mask adds.
    fn added(&self, masks: &Masks<'_, B>, scores: &B::Value) -> Result<B::Value> {
        match &masks.additive {
            Some(mask) => self.split(scores, |scores| ops::add(self.b, scores, mask)),
            None => Ok(scores.clone()),
        }
    }

    /// `x` where the query sees the key, else `hidden`.
    fn masked(&self, masks: &Masks<'_, B>, x: &B::Value, hidden: f64) -> Result<B::Value> {
        let Some(visible) = &masks.visible else { return Ok(x.clone()) };
        let hidden = ops::scalar(self.b, hidden, self.dtype.wide())?;
        self.split(x, |x| ops::where_(self.b, visible, x, &hidden))
    }

    /// The probabilities `[b n, g t, s]` and log-sum-exps `[b n, g t, 1]`. A query that sees no key has zeros and
    /// -inf.
    pub fn probabilities(&self, masks: &Masks<'_, B>, scores: &B::Value) -> Result<(B::Value, B::Value)> {
        let (b, wide) = (self.b, self.dtype.wide());
        let zero = ops::scalar(b, 0i64, wide)?;
        let scores = self.masked(masks, &self.added(masks, scores)?, f64::NEG_INFINITY)?;
        let peak = if self.keys == 0 {
            ops::zeros(b, &[self.matrices(), self.rows(), 1], wide)?
        } else {
            let peak = ops::fold(b, ReduceOp::Max, &scores, &[2])?;
            // NaN stays: a NaN score is no hidden one.
            ops::where_(b, &ops::isinf(b, &peak)?, &zero, &peak)?
        };
        let e = ops::exp(b, &ops::sub(b, &scores, &peak)?)?;
        let total = ops::fold(b, ReduceOp::Sum, &e, &[2])?;
        let blind = ops::eq_scalar(b, &total, 0.0)?;
        let total = ops::where_(b, &blind, &ops::scalar(b, 1i64, wide)?, &total)?;
        let lse = ops::add(b, &ops::log(b, &total)?, &peak)?;
        let lse = ops::where_(b, &blind, &ops::scalar(b, f64::NEG_INFINITY, wide)?, &lse)?;
        Ok((ops::div(b, &e, &total)?, lse))
    }

    /// `[o, lse]`. A query that sees no key gives 0 and -inf.
    pub fn forward(&self, masks: &Masks<'_, B>, scores: &B::Value, v: &B::Value) -> Result<Vec<B::Value>> {
        let (p, lse) = self.probabilities(masks, scores)?;
        let o = ops::matmul(self.b, &p, v)?;
        Ok(vec![self.queries_back(&o)?, self.statistics_back(&lse)?])
    }

    /// `[dq, dk, dv]` (Dao et al. 2022, algorithm 4, without the tiles), and the cotangent of `mask`.
    pub fn backward(
        &self,
        masks: &Masks<'_, B>,
        attend: &Attend,
        mask: Option<&B::Value>,
        scores: &B::Value,
        [q, k, v, o, lse, t]: [&B::Value; 6],
    ) -> Result<Vec<B::Value>> {
        let b = self.b;
        let zero = ops::scalar(b, 0i64, self.dtype.wide())?;
        let lse = ops::where_(b, &ops::isinf(b, lse)?, &zero, lse)?;
        // Hidden before and after: the exponential of a hidden score must not overflow.
        let shown = self.masked(masks, &self.added(masks, scores)?, 0.0)?;
        let p = self.masked(masks, &ops::exp(b, &ops::sub(b, &shown, &lse)?)?, 0.0)?;
        let transposed = |x: &B::Value| ops::transpose(b, x, 1, 2);
        let dv = ops::matmul(b, &transposed(&p)?, t)?;
        let dp = ops::matmul(b, t, &transposed(v)?)?;
        let mean = ops::fold(b, ReduceOp::Sum, &ops::mul(b, t, o)?, &[2])?;
        let dshown = ops::mul(b, &p, &ops::sub(b, &dp, &mean)?)?;
        let mut dscores = dshown.clone();
        if let Some(cap) = attend.softcap {
            // (cap tanh(x / cap))' = 1 - tanh^2
            let bent = ops::div_scalar(b, scores, cap.0)?;
            let slope = ops::rsub_scalar(b, &ops::square(b, &bent)?, 1.0)?;
            dscores = ops::mul(b, &dscores, &slope)?;
        }
        let ds = ops::mul_scalar(b, &dscores, attend.scale.0)?;
        let dq = ops::matmul(b, &ds, k)?;
        let dk = ops::matmul(b, &transposed(&ds)?, q)?;
        let mut grads = vec![self.queries_back(&dq)?, self.keys_back(&dk)?, self.keys_back(&dv)?];
        if let Some(mask) = mask {
            grads.push(self.mask_back(mask, &dshown)?);
        }
        Ok(grads)
    }

    /// The cotangent of an additive mask from that of the scores: their sum over the axes that it lacks.
    fn mask_back(&self, mask: &B::Value, dscores: &B::Value) -> Result<B::Value> {
        let (b, shape) = (self.b, ops::shape_of(self.b, mask));
        let full = [self.batch, self.heads(), self.queries, self.keys];
        let axes: Dims = (0..4).filter(|&axis| shape[axis] == 1 && full[axis] != 1).collect();
        let total = ops::fold(b, ReduceOp::Sum, &self.by_head(dscores)?, &axes)?;
        ops::cast(b, &total, b.ty(mask).dtype)
    }
}
