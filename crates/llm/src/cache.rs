//! The cache of keys and values in a graph: pools of blocks that each attention layer writes and reads.

use lanthorn_ir::{Builder, DType, Error, Result, TensorType, ops};
use lanthorn_nn::{KeyValueCache, KeyValueShape};
use serde::{Deserialize, Serialize};

/// In which form keys and values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvDtype {
    F64,
    F32,
    F16,
    Bf16,
    /// Whole numbers up to 127 and a factor (f32) for each position and head: the largest of its elements is 127. An
    /// element is off by at most half a factor.
    Int8,
}

impl KvDtype {
    /// The form for a model that computes in `dtype`.
    pub fn of(dtype: DType) -> KvDtype {
        match dtype {
            DType::F64 => KvDtype::F64,
            DType::F16 => KvDtype::F16,
            DType::BF16 => KvDtype::Bf16,
            _ => KvDtype::F32,
        }
    }

    fn dtype(self) -> DType {
        match self {
            KvDtype::F64 => DType::F64,
            KvDtype::F32 => DType::F32,
            KvDtype::F16 => DType::F16,
            KvDtype::Bf16 => DType::BF16,
            KvDtype::Int8 => DType::I8,
        }
    }

    /// In which dtype the running state of recurrent layers is beside such keys and values. It is not narrowed: what is
    /// off in it is off in all tokens to come.
    pub fn state_dtype(self) -> DType {
        match self {
            KvDtype::F64 => DType::F64,
            _ => DType::F32,
        }
    }

    /// The types of a layer's tensors, in the order of [`PagedCache::new`].
    pub fn types(self, shape: KeyValueShape, blocks: usize, size: usize) -> Vec<TensorType> {
        let KeyValueShape { heads, head_dim } = shape;
        let rows = TensorType::new(self.dtype(), [blocks, size, heads, head_dim]);
        let scales = TensorType::new(DType::F32, [blocks, size, heads]);
        match self {
            KvDtype::Int8 => vec![rows.clone(), rows, scales.clone(), scales],
            _ => vec![rows.clone(), rows],
        }
    }
}

impl std::fmt::Display for KvDtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KvDtype::F64 => "f64",
            KvDtype::F32 => "f32",
            KvDtype::F16 => "f16",
            KvDtype::Bf16 => "bf16",
            KvDtype::Int8 => "int8",
        })
    }
}

/// Which rows of the pools belong to which sequence of a batch; see [`ops::paged_update`].
pub struct Tables<V> {
    pub tables: V,
    pub starts: V,
    pub counts: V,
}

/// The pools of all layers, each replaced by itself with the new rows as layers attend.
pub struct PagedCache<V> {
    /// For each layer keys and values, and the scales of both where they have some.
    layers: Vec<Vec<V>>,
    tables: Tables<V>,
    window: Option<usize>,
}

impl<V: Clone> PagedCache<V> {
    pub fn new(layers: Vec<Vec<V>>, tables: Tables<V>, window: Option<usize>) -> Self {
        PagedCache { layers, tables, window }
    }

    /// The tensors of all layers.
    pub fn into_tensors(self) -> Vec<V> {
        self.layers.concat()
    }
}

impl<V: Clone> PagedCache<V> {
    /// [`KeyValueCache::attend`] with a scale (`1 / sqrt(head_dim)` where absent) and a window of its own.
    pub fn attend_within<B: Builder<Value = V>>(
        &mut self,
        b: &B,
        layer: usize,
        [q, k, v]: [&V; 3],
        scale: Option<f64>,
        window: Option<usize>,
    ) -> Result<V> {
        let Tables { tables, starts, counts } = &self.tables;
        let layers = self.layers.len();
        let pools = self.layers.get_mut(layer).ok_or_else(|| {
            Error::shape("inference", format!("there is no layer {layer}, the cache has {layers}"))
        })?;
        let new = match pools.len() {
            4 => {
                let ([keys, key_scales], [values, value_scales]) = (quantized(b, k)?, quantized(b, v)?);
                vec![keys, values, key_scales, value_scales]
            }
            _ => vec![k.clone(), v.clone()],
        };
        for (pool, rows) in pools.iter_mut().zip(new) {
            let rows = ops::cast(b, &rows, b.ty(pool).dtype)?;
            *pool = ops::paged_update(b, pool, &rows, tables, starts, counts)?;
        }
        let [keys, values, scales @ ..] = &pools[..] else {
            return Err(Error::shape("inference", "a layer of the cache has no keys or values"));
        };
        let (key_scales, value_scales) = (scales.first(), scales.get(1));
        ops::paged_attention(
            b,
            q,
            keys,
            values,
            tables,
            starts,
            counts,
            key_scales,
            value_scales,
            scale,
            window,
        )
    }
}

impl<B: Builder> KeyValueCache<B> for PagedCache<B::Value> {
    fn attend(&mut self, b: &B, layer: usize, q: &B::Value, k: &B::Value, v: &B::Value) -> Result<B::Value> {
        self.attend_within(b, layer, [q, k, v], None, self.window)
    }
}

/// `x [.., d]` as whole numbers and factors `[..]`. Where there is a NaN or an infinity, so is the factor.
fn quantized<B: Builder>(b: &B, x: &B::Value) -> Result<[B::Value; 2]> {
    let x = ops::cast(b, x, DType::F32)?;
    let scales = ops::mul_scalar(b, &ops::max(b, &ops::abs(b, &x)?, &[-1], true)?, 1.0 / 127.0)?;
    let usable = ops::logical_and(b, &ops::gt_scalar(b, &scales, 0.0)?, &ops::isfinite(b, &scales)?)?;
    let zero = ops::scalar(b, 0.0, DType::F32)?;
    let codes = ops::where_(b, &usable, &ops::div(b, &x, &scales)?, &zero)?;
    let codes = ops::clamp(b, &ops::round(b, &codes)?, Some((-127.0).into()), Some(127.0.into()))?;
    Ok([ops::cast(b, &codes, DType::I8)?, ops::squeeze(b, &scales, &[-1])?])
}
