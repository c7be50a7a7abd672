//! A cache of keys and values in blocks, as servers of language models keep it (Kwon et al. 2023, "PagedAttention").
//!
//! A *pool* `[blocks, size, ..]` holds rows of many sequences; who owns which block, `tables [batch, slots]` say. The row
//! of position `p` of sequence `s` is row `p % size` of block `tables[s, p / size % slots]`: a table is a ring, so a
//! sequence may be longer than its `slots * size` rows of *room*, and then the last ones are there. A call brings
//! `counts[s]` new rows of sequence `s`, which stand at `starts[s] ..`; what is beyond a count is padding.
//!
//! Tables, starts and counts are operands (`i32`), so sequences come, grow and go without another program. Which
//! sequences share blocks is the caller's business.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::attention::{Attend, Mask};
use super::{
    Applied, Attention, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_finite,
    expect_same_dtype, expect_shape,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{F64, KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, TensorType, numel};
use crate::ops;

/// Updates and reads of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Paged {
    /// `(pool [blocks, size, ..], rows [batch, seq, ..], tables, starts, counts) -> pool` with the new rows written. Of
    /// several rows for one place of a sequence the last stays.
    Update,
    /// `(q [batch, seq, h, d], keys [blocks, size, hk, d], values [blocks, size, hk, d], tables, starts, counts)
    /// -> o [batch, seq, h, d]`, or with `key_scales` and `value_scales [blocks, size, hk]` behind the values.
    ///
    /// Causal attention of queries to what the pools hold, their own keys and values included. A query of padding
    /// gives 0. `q` is f32 or f64. Keys and values are of one dtype whose wide type that is, or i8 with scales (f32),
    /// which multiply the row of one head each.
    Attention(Lookback),
}

/// What one attention to a pool computes, apart from its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lookback {
    /// Factor of `q k^T`.
    pub scale: F64,
    /// A query sees the last so many keys, its own included.
    pub window: Option<usize>,
    /// True for i8 keys and values.
    pub scaled: bool,
}

/// Where rows of sequences lie.
struct Places<'a, B: Builder> {
    b: &'a B,
    tables: &'a B::Value,
    starts: &'a B::Value,
    counts: &'a B::Value,
    /// Rows of a block.
    size: usize,
    slots: usize,
}

impl<'a, B: Builder> Places<'a, B> {
    /// Of the last three of `inputs`, for pools of this type.
    fn of(b: &'a B, pool: &TensorType, inputs: &'a [B::Value]) -> Result<Self> {
        let [.., tables, starts, counts] = inputs else {
            return Err(Error::shape("paged", "tables, starts and counts are missing"));
        };
        Ok(Places { b, tables, starts, counts, size: pool.shape[1], slots: b.ty(tables).shape[1] })
    }

    /// `starts` or `counts` as `[batch, 1]`.
    fn column(&self, x: &B::Value) -> Result<B::Value> {
        ops::unsqueeze(self.b, x, -1)
    }

    /// `[batch, seq]`: true for rows that are no padding.
    fn is_new(&self, seq: usize) -> Result<B::Value> {
        ops::lt(self.b, &ops::iota(self.b, seq, DType::I32)?, &self.column(self.counts)?)
    }

    /// `[batch, seq]`: positions of the new rows.
    fn positions(&self, seq: usize) -> Result<B::Value> {
        ops::add(self.b, &ops::iota(self.b, seq, DType::I32)?, &self.column(self.starts)?)
    }

    /// The row of the pool `[blocks * size, ..]` at which each of `positions [batch, n]` lies.
    fn rows(&self, positions: &B::Value) -> Result<B::Value> {
        let (b, size) = (self.b, self.size as i64);
        let slot = ops::floor_divide_scalar(b, positions, size)?;
        let slot = ops::remainder_scalar(b, &slot, self.slots as i64)?;
        let block = ops::gather(b, self.tables, 1, &slot)?;
        ops::add(b, &ops::mul_scalar(b, &block, size)?, &ops::remainder_scalar(b, positions, size)?)
    }

    /// `[batch, room]`: the position whose row each row of room holds after this call; below 0 where it holds none.
    fn held(&self) -> Result<B::Value> {
        let (b, room) = (self.b, self.slots * self.size);
        let end = ops::add(b, &self.column(self.starts)?, &self.column(self.counts)?)?;
        let last = ops::add_scalar(b, &end, -1i64)?;
        let behind = ops::sub(b, &last, &ops::iota(b, room, DType::I32)?)?;
        ops::sub(b, &last, &ops::remainder_scalar(b, &behind, room as i64)?)
    }

    /// The room of every sequence, `[batch, room, ..]`.
    fn room(&self, pool: &B::Value) -> Result<B::Value> {
        let ty = self.b.ty(pool);
        let (blocks, rest) = (ty.shape[0], &ty.shape[2..]);
        let whole = ops::reshape_to(self.b, pool, &[blocks, self.size * numel(rest)])?;
        let taken = ops::embedding(self.b, &whole, self.tables)?;
        let mut shape = Dims::from_slice(&[self.b.ty(self.tables).shape[0], self.slots * self.size]);
        shape.extend_from_slice(rest);
        ops::reshape_to(self.b, &taken, &shape)
    }
}

/// The pool with the rows written, by one scatter.
///
/// Padding must write nothing, and a scatter writes all of its rows: a row of padding repeats the last row before it that
/// is none, and those before the first such row write back what is there, before it is overwritten.
fn update<B: Builder>(b: &B, inputs: &[B::Value]) -> Result<B::Value> {
    let (pool, new) = (&inputs[0], &inputs[1]);
    let (ty, shape) = (b.ty(pool).clone(), ops::shape_of(b, new));
    let (rows, width) = (shape[0] * shape[1], numel(&shape[2..]));
    if rows == 0 || width == 0 {
        return Ok(pool.clone());
    }
    let places = Places::of(b, &ty, inputs)?;
    let flat = |x: &B::Value| ops::reshape_to(b, x, &[rows]);
    let is_new = flat(&places.is_new(shape[1])?)?;
    let zero = ops::scalar(b, 0i64, DType::I32)?;
    let own = ops::where_(b, &is_new, &ops::iota(b, rows, DType::I32)?, &zero)?;
    let nearest = ops::cummax(b, &own, 0)?.swap_remove(0);
    let take = |x: &B::Value| ops::index_select(b, x, 0, &nearest);
    let at = take(&flat(&places.rows(&places.positions(shape[1])?)?)?)?;

    let pool = ops::reshape_to(b, pool, &[ty.shape[0] * ty.shape[1], width])?;
    let new = take(&ops::reshape_to(b, new, &[rows, width])?)?;
    let is_new = ops::unsqueeze(b, &take(&is_new)?, -1)?;
    let source = ops::where_(b, &is_new, &new, &ops::embedding(b, &pool, &at)?)?;
    let at = ops::broadcast_to(b, &ops::unsqueeze(b, &at, -1)?, &[rows, width])?;
    ops::reshape_to(b, &ops::scatter(b, &pool, 0, &at, &source)?, &ty.shape)
}

impl Lookback {
    /// Attention to the whole room of each sequence under a mask.
    fn attend<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<B::Value> {
        let q = &inputs[0];
        let (seq, dtype) = (b.ty(q).shape[1], b.ty(q).dtype);
        let places = Places::of(b, b.ty(&inputs[1]), inputs)?;
        let held = places.held()?;
        let is_held = ops::ge_scalar(b, &held, 0i64)?;
        let zero = ops::scalar(b, 0i64, dtype)?;
        let written = ops::unsqueeze(b, &ops::unsqueeze(b, &is_held, -1)?, -1)?;
        let read = |pool: &B::Value, scales: Option<&B::Value>| {
            let mut rows = ops::cast(b, &places.room(pool)?, dtype)?;
            if let Some(scales) = scales {
                let scales = ops::unsqueeze(b, &places.room(scales)?, -1)?;
                rows = ops::mul(b, &rows, &scales)?;
            }
            // What has not been written must not count, NaN included.
            ops::where_(b, &written, &rows, &zero)
        };
        let scales = |at: usize| self.scaled.then(|| &inputs[at]);
        let (k, v) = (read(&inputs[1], scales(3))?, read(&inputs[2], scales(4))?);

        let query = ops::unsqueeze(b, &places.positions(seq)?, -1)?;
        let key = ops::unsqueeze(b, &held, 1)?;
        let mut seen = ops::logical_and(b, &ops::le(b, &key, &query)?, &ops::unsqueeze(b, &is_held, 1)?)?;
        seen = ops::logical_and(b, &seen, &ops::unsqueeze(b, &places.is_new(seq)?, -1)?)?;
        // A window that is wider than all positions binds nowhere, and might not fit the dtype.
        if let Some(window) = self.window.and_then(|window| i32::try_from(window).ok()) {
            let behind = ops::sub(b, &query, &key)?;
            seen = ops::logical_and(b, &seen, &ops::lt_scalar(b, &behind, i64::from(window))?)?;
        }
        let mask = ops::unsqueeze(b, &seen, 1)?;
        let attend = Attend { mask: Some(Mask::Visible), ..Attend::new(self.scale.0) };
        let operands = [q.clone(), k, v, mask];
        let outputs = b.apply(Prim::Attention(Attention::Forward(attend)), &operands)?;
        outputs.into_iter().next().ok_or_else(|| Error::shape("paged_attention", "attention gave nothing"))
    }
}

impl Paged {
    /// Checks `tables [batch, slots]`, `starts [batch]` and `counts [batch]`, and that `pool` has rows.
    fn infer_places(&self, pool: &TensorType, batch: usize, inputs: &[&TensorType]) -> Result<()> {
        let name = self.name();
        let fail = |message: String| Err(Error::shape(name, message));
        let [.., tables, starts, counts] = inputs else { return fail("operands are missing".into()) };
        for (operand, ty) in [("tables", tables), ("starts", starts), ("counts", counts)] {
            if ty.dtype != DType::I32 {
                return Err(Error::dtype(name, format!("{operand} are {}, expected i32; cast it", ty.dtype)));
            }
        }
        let slots = match tables.shape[..] {
            [found, slots] if found == batch => slots,
            _ => {
                return fail(format!("tables are {tables}, expected [batch, slots] with a batch of {batch}"));
            }
        };
        expect_shape(name, "starts", starts, &[batch])?;
        expect_shape(name, "counts", counts, &[batch])?;
        let room = slots.checked_mul(pool.shape[1]).filter(|&room| room <= i32::MAX as usize / 2);
        if pool.shape[0] == 0 || room.is_none_or(|room| room == 0) {
            return fail(format!(
                "a pool of {pool} and tables of {slots} slots; expected at least one block, row and slot, and at most {} rows in a table",
                i32::MAX / 2
            ));
        }
        Ok(())
    }

    fn infer_attention(&self, lookback: &Lookback, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        expect_arity(name, inputs, if lookback.scaled { 8 } else { 6 })?;
        let (q, k, v) = (inputs[0], inputs[1], inputs[2]);
        expect_finite(name, "the scale", lookback.scale.0, q.dtype)?;
        if lookback.window == Some(0) {
            return Err(Error::shape(name, "the window is 0, expected at least 1, or none"));
        }
        expect_same_dtype(name, k, "values", v)?;
        let fits_dtype = match (lookback.scaled, k.dtype) {
            (true, dtype) => dtype == DType::I8 && q.dtype == DType::F32,
            (false, dtype) => dtype.is_float() && !dtype.is_f8() && dtype.wide() == q.dtype,
        };
        if !fits_dtype {
            let message = format!(
                "q is {} and the pools {}; expected q in their wide type, or f32 and i8 with scales",
                q.dtype, k.dtype
            );
            return Err(Error::dtype(name, message));
        }
        let fits = q.rank() == 4
            && k.rank() == 4
            && k.shape == v.shape
            && q.shape[3] == k.shape[3]
            && (k.shape[2] == q.shape[2] || (k.shape[2] > 0 && q.shape[2] % k.shape[2] == 0));
        if !fits {
            let message = format!(
                "q {}, keys {}, values {} do not fit; expected [batch, seq, heads, head_dim] and pools [blocks, size, kv_heads, head_dim] with key heads dividing query heads",
                ShowShape(&q.shape),
                ShowShape(&k.shape),
                ShowShape(&v.shape)
            );
            return Err(Error::shape(name, message));
        }
        if lookback.scaled {
            for (operand, scales) in [("key scales", inputs[3]), ("value scales", inputs[4])] {
                expect_shape(name, operand, scales, &k.shape[..3])?;
                expect_same_dtype(name, q, operand, scales)?;
            }
        }
        self.infer_places(k, q.shape[0], inputs)?;
        Ok(smallvec![q.clone()])
    }
}

impl Rules for Paged {
    fn name(&self) -> &'static str {
        match self {
            Paged::Update => "paged_update",
            Paged::Attention(_) => "paged_attention",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        match self {
            Paged::Update => {
                expect_arity(name, inputs, 5)?;
                let (pool, rows) = (inputs[0], inputs[1]);
                expect_same_dtype(name, pool, "rows", rows)?;
                if pool.rank() < 2 || rows.rank() != pool.rank() || rows.shape[2..] != pool.shape[2..] {
                    let message = format!(
                        "rows {} do not fit a pool {}; expected [batch, seq, ..] and [blocks, size, ..]",
                        ShowShape(&rows.shape),
                        ShowShape(&pool.shape)
                    );
                    return Err(Error::shape(name, message));
                }
                self.infer_places(pool, rows.shape[0], inputs)?;
                Ok(smallvec![pool.clone()])
            }
            Paged::Attention(lookback) => self.infer_attention(lookback, inputs),
        }
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let graph = derived::decomposition(b, &Prim::Paged(*self), at.inputs)?;
        derived::vjp_through(b, &graph, at, cotangents)
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let graph = derived::decomposition(b, &Prim::Paged(*self), at.inputs)?;
        derived::jvp_through(b, &graph, at.inputs, tangents)
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        derived::batch_decomposed(b, &Prim::Paged(*self), size, inputs)
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(Some(vec![match self {
            Paged::Update => update(b, inputs)?,
            Paged::Attention(lookback) => lookback.attend(b, inputs)?,
        }]))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
