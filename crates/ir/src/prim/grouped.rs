//! Attention in simpler primitives, with grouped heads: what its decomposition is made of.
//!
//! All computing is in the wide type. Axes: `b` batch, `n` key heads, `g` query heads of one key head, `t`
//! queries, `s` keys, `d` head width. Queries of one key head are the rows of one matrix: `[b n, g t, d]`.

use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
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
    width: usize,
}

/// Which keys a query sees. `None`: all.
pub(super) struct Masks<'a, B: Builder> {
    b: &'a B,
    /// `[t, s]`
    visible: Option<B::Value>,
    /// `[s, 1, 1]`: keys that have been written, where there is a cache.
    written: Option<B::Value>,
}

impl<'a, B: Builder> Masks<'a, B> {
    pub fn new(b: &'a B, sizes: &Grouped<'_, B>, causal: bool, past: Option<&B::Value>) -> Result<Self> {
        if past.is_none() && !causal {
            return Ok(Masks { b, visible: None, written: None });
        }
        let dtype = past.map_or(DType::I32, |past| ops::position_dtype(b.ty(past).dtype));
        let dtype = if dtype == DType::U32 { DType::I64 } else { dtype };
        let (queries, keys) = (sizes.queries, sizes.keys);
        let key = ops::iota(b, keys, dtype)?;
        let query = ops::unsqueeze(b, &ops::iota(b, queries, dtype)?, -1)?;
        let Some(past) = past else {
            // The last query stands at the last key.
            let position = ops::add_scalar(b, &query, keys as i64 - queries as i64)?;
            return Ok(Masks { b, visible: Some(ops::le(b, &key, &position)?), written: None });
        };
        let past = ops::cast(b, past, dtype)?;
        let written = ops::lt(b, &key, &ops::add_scalar(b, &past, queries as i64)?)?;
        let visible = if causal {
            ops::le(b, &key, &ops::add(b, &query, &past)?)?
        } else {
            ops::broadcast_to(b, &written, &[queries, keys])?
        };
        Ok(Masks { b, visible: Some(visible), written: Some(ops::reshape_to(b, &written, &[keys, 1, 1])?) })
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
            width: ty.shape[3],
        }
    }

    fn rows(&self) -> usize {
        self.group * self.queries
    }

    fn matrices(&self) -> usize {
        self.batch * self.key_heads
    }

    fn widen(&self, x: &B::Value) -> Result<B::Value> {
        ops::cast(self.b, x, self.dtype.wide())
    }

    /// `[b, t, n g, d]` to `[b n, g t, d]`, wide.
    pub fn queries(&self, x: &B::Value) -> Result<B::Value> {
        let split = [self.batch, self.queries, self.key_heads, self.group, self.width];
        let x = ops::permute_to(self.b, &ops::reshape_to(self.b, x, &split)?, &[0, 2, 3, 1, 4])?;
        self.widen(&ops::reshape_to(self.b, &x, &[self.matrices(), self.rows(), self.width])?)
    }

    /// Undoes [`Grouped::queries`].
    fn queries_back(&self, x: &B::Value) -> Result<B::Value> {
        let split = [self.batch, self.key_heads, self.group, self.queries, self.width];
        let x = ops::permute_to(self.b, &ops::reshape_to(self.b, x, &split)?, &[0, 3, 1, 2, 4])?;
        let merged = [self.batch, self.queries, self.key_heads * self.group, self.width];
        ops::cast(self.b, &ops::reshape_to(self.b, &x, &merged)?, self.dtype)
    }

    /// `[b, s, n, d]` to `[b n, s, d]`, wide.
    pub fn keys(&self, x: &B::Value) -> Result<B::Value> {
        let x = ops::permute_to(self.b, x, &[0, 2, 1, 3])?;
        self.widen(&ops::reshape_to(self.b, &x, &[self.matrices(), self.keys, self.width])?)
    }

    /// Undoes [`Grouped::keys`].
    fn keys_back(&self, x: &B::Value) -> Result<B::Value> {
        let split = [self.batch, self.key_heads, self.keys, self.width];
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
        ops::reshape_to(self.b, &x, &[self.batch, self.queries, self.key_heads * self.group])
    }

    /// `scale * q k^T`, `[b n, g t, s]`.
    pub fn scores(&self, q: &B::Value, k: &B::Value, scale: f64) -> Result<B::Value> {
        ops::mul_scalar(self.b, &ops::matmul(self.b, q, &ops::transpose(self.b, k, 1, 2)?)?, scale)
    }

    /// `x` where the query sees the key, else `hidden`.
    fn masked(&self, masks: &Masks<'_, B>, x: &B::Value, hidden: f64) -> Result<B::Value> {
        let Some(visible) = &masks.visible else { return Ok(x.clone()) };
        let split = [self.matrices(), self.group, self.queries, self.keys];
        let hidden = ops::scalar(self.b, hidden, self.dtype.wide())?;
        let x = ops::where_(self.b, visible, &ops::reshape_to(self.b, x, &split)?, &hidden)?;
        ops::reshape_to(self.b, &x, &[self.matrices(), self.rows(), self.keys])
    }

    /// `[o, lse]`. A query that sees no key gives 0 and -inf.
    pub fn forward(&self, masks: &Masks<'_, B>, scores: &B::Value, v: &B::Value) -> Result<Vec<B::Value>> {
        let (b, wide) = (self.b, self.dtype.wide());
        let zero = ops::scalar(b, 0i64, wide)?;
        let scores = self.masked(masks, scores, f64::NEG_INFINITY)?;
        let peak = if self.keys == 0 {
            ops::zeros(b, &[self.matrices(), self.rows(), 1], wide)?
        } else {
            let peak = ops::fold(b, ReduceOp::Max, &scores, &[2])?;
            ops::where_(b, &ops::isfinite(b, &peak)?, &peak, &zero)?
        };
        let e = ops::exp(b, &ops::sub(b, &scores, &peak)?)?;
        let total = ops::fold(b, ReduceOp::Sum, &e, &[2])?;
        let blind = ops::eq_scalar(b, &total, 0.0)?;
        let total = ops::where_(b, &blind, &ops::scalar(b, 1i64, wide)?, &total)?;
        let o = ops::matmul(b, &ops::div(b, &e, &total)?, v)?;
        let lse = ops::add(b, &ops::log(b, &total)?, &peak)?;
        let lse = ops::where_(b, &blind, &ops::scalar(b, f64::NEG_INFINITY, wide)?, &lse)?;
        Ok(vec![self.queries_back(&o)?, self.statistics_back(&lse)?])
    }

    /// `[dq, dk, dv]` (Dao et al. 2022, algorithm 4, without the tiles).
    pub fn backward(
        &self,
        masks: &Masks<'_, B>,
        scale: f64,
        scores: &B::Value,
        [q, k, v, o, lse, t]: [&B::Value; 6],
    ) -> Result<Vec<B::Value>> {
        let b = self.b;
        let zero = ops::scalar(b, 0i64, self.dtype.wide())?;
        let lse = ops::where_(b, &ops::isfinite(b, lse)?, lse, &zero)?;
        // Hidden before and after: the exponential of a hidden score must not overflow.
        let scores = self.masked(masks, scores, 0.0)?;
        let p = self.masked(masks, &ops::exp(b, &ops::sub(b, &scores, &lse)?)?, 0.0)?;
        let transposed = |x: &B::Value| ops::transpose(b, x, 1, 2);
        let dv = ops::matmul(b, &transposed(&p)?, t)?;
        let dp = ops::matmul(b, t, &transposed(v)?)?;
        let mean = ops::fold(b, ReduceOp::Sum, &ops::mul(b, t, o)?, &[2])?;
        let ds = ops::mul_scalar(b, &ops::mul(b, &p, &ops::sub(b, &dp, &mean)?)?, scale)?;
        let dq = ops::matmul(b, &ds, k)?;
        let dk = ops::matmul(b, &transposed(&ds)?, q)?;
        Ok(vec![self.queries_back(&dq)?, self.keys_back(&dk)?, self.keys_back(&dv)?])
    }
}
