//! A cache of keys and values in blocks: what [`prim::paged`](crate::prim::paged) says, for operands of any dtype.

use super::attention::scale_of;
use super::cast;
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::F64;
use crate::prim::paged::Lookback;
use crate::prim::{Paged, Prim};

/// `pool [blocks, size, ..]` with the first `counts[s]` of `rows [batch, seq, ..]` written for each sequence `s`, at
/// positions `starts[s] ..`. Position `p` lies in row `p % size` of block `tables[s, p / size % slots]` (Kwon et al. 2023,
/// "PagedAttention"). `tables [batch, slots]`, `starts [batch]` and `counts [batch]` are i32.
///
/// Errors: shapes that do not fit; when it runs, a block that the pool does not have, a start below 0.
pub fn paged_update<B: Builder>(
    b: &B,
    pool: &B::Value,
    rows: &B::Value,
    tables: &B::Value,
    starts: &B::Value,
    counts: &B::Value,
) -> Result<B::Value> {
    let operands = [pool, rows, tables, starts, counts].map(Clone::clone);
    b.apply1(Prim::Paged(Paged::Update), &operands)
}

/// Causal attention of `q [batch, seq, heads, head_dim]` to the `keys` and `values [blocks, size, kv_heads, head_dim]` of
/// their sequences, those at the queries' own positions included: `o` of the shape and dtype of `q`. See [`paged_update`]
/// for `tables`, `starts` and `counts`; what is beyond a count gives 0. `kv_heads` divides `heads`, `scale` is `1 /
/// sqrt(head_dim)` where absent, and under a `window` a query sees the last so many keys, its own included.
///
/// Keys and values may be narrower than `q`: floats, or i8 with `key_scales` and `value_scales [blocks, size, kv_heads]`,
/// which multiply them. It computes in f32, or f64 of f64.
///
/// Errors: shapes or dtypes that do not fit; when it runs, a block that the pool does not have, a start below 0.
pub fn paged_attention<B: Builder>(
    b: &B,
    q: &B::Value,
    keys: &B::Value,
    values: &B::Value,
    tables: &B::Value,
    starts: &B::Value,
    counts: &B::Value,
    key_scales: Option<&B::Value>,
    value_scales: Option<&B::Value>,
    scale: Option<f64>,
    window: Option<usize>,
) -> Result<B::Value> {
    const OP: &str = "paged_attention";
    let dtype = b.ty(q).dtype;
    super::require_float(OP, "q", b.ty(q))?;
    let mut operands = vec![cast(b, q, dtype.wide())?, keys.clone(), values.clone()];
    match (key_scales, value_scales) {
        (Some(keys), Some(values)) => operands.extend([keys.clone(), values.clone()]),
        (None, None) => {}
        _ => return Err(Error::shape(OP, "scales of keys or of values are missing; give both or neither")),
    }
    operands.extend([tables, starts, counts].map(Clone::clone));
    let lookback = Lookback { scale: F64(scale_of(b, OP, q, scale)?), window, scaled: key_scales.is_some() };
    cast(b, &b.apply1(Prim::Paged(Paged::Attention(lookback)), &operands)?, dtype)
}
