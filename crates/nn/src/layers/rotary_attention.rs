//! Causal self-attention with rotary positions and grouped heads, with and without a cache.

use lanthorn_ir::ops::{self, Encoding};
use lanthorn_ir::{Builder, Error, Result};
use serde::{Deserialize, Serialize};

use super::Linear;
use crate::model::{KeyValueCache, KeyValueShape};
use crate::params::{Init, ParamSpec, Params};

/// How fast the pairs of a head turn from position to position: element `i` and element `i + head_dim / 2` by
/// `theta^(-2 i / head_dim)` (Su et al. 2021).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    pub theta: f64,
    pub scaling: Option<RotationScaling>,
}

/// Slower turns for contexts that are longer than that of the training, as in Llama 3.1: pairs that turn fewer than
/// `low` times within `context` are slowed by `factor`, those that turn more than `high` times are not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotationScaling {
    pub factor: f64,
    pub low: f64,
    pub high: f64,
    /// Positions of the training before.
    pub context: usize,
}

/// Sizes of [`RotaryAttention`].
#[derive(Clone, Copy, Debug)]
pub struct HeadSizes {
    /// Of queries.
    pub heads: usize,
    /// Of keys and values; each serves `heads / kv_heads` heads of queries (Ainslie et al. 2023).
    pub kv_heads: usize,
    pub head_dim: usize,
}

/// Causal self-attention of `x [batch, seq, width]` whose queries and keys are turned by their positions.
///
/// Parameters: the weights of `NAME.q_proj [heads * head_dim, width]`, `NAME.k_proj` and `NAME.v_proj
/// [kv_heads * head_dim, width]`, `NAME.o_proj [width, heads * head_dim]`.
#[derive(Clone, Debug)]
pub struct RotaryAttention {
    queries: Linear,
    keys: Linear,
    values: Linear,
    project: Linear,
    sizes: HeadSizes,
    rotation: Rotation,
}

impl RotaryAttention {
    /// Attention with these first values of its weights.
    ///
    /// Errors: heads of keys that do not divide those of queries, an odd or empty head.
    pub fn new(
        name: &str,
        width: usize,
        sizes: HeadSizes,
        rotation: Rotation,
        init: Init,
        project_init: Init,
    ) -> Result<Self> {
        let HeadSizes { heads, kv_heads, head_dim } = sizes;
        if heads == 0 || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            let message = format!("{kv_heads} heads of keys do not divide {heads} heads of queries");
            return Err(Error::shape("rotary_attention", message));
        }
        if head_dim == 0 || !head_dim.is_multiple_of(2) {
            let message = format!("a head has {head_dim} elements, expected pairs");
            return Err(Error::shape("rotary_attention", message));
        }
        let map = |part: &str, inputs, outputs, init| {
            Linear::new(&format!("{name}.{part}"), inputs, outputs).with_init(init).without_bias()
        };
        Ok(RotaryAttention {
            queries: map("q_proj", width, heads * head_dim, init),
            keys: map("k_proj", width, kv_heads * head_dim, init),
            values: map("v_proj", width, kv_heads * head_dim, init),
            project: map("o_proj", heads * head_dim, width, project_init),
            sizes,
            rotation,
        })
    }

    /// The attention with weights packed in blocks; `encoding` says how, by the name of each map.
    pub fn with_encodings(self, encoding: impl Fn(&str) -> Option<Encoding>) -> Self {
        let packed = |map: Linear| {
            let encoding = encoding(map.name());
            map.with_encoding(encoding)
        };
        RotaryAttention {
            queries: packed(self.queries),
            keys: packed(self.keys),
            values: packed(self.values),
            project: packed(self.project),
            ..self
        }
    }

    /// The parameters.
    pub fn specs(&self) -> Vec<ParamSpec> {
        [&self.queries, &self.keys, &self.values, &self.project].into_iter().flat_map(Linear::specs).collect()
    }

    /// What a cache keeps of a position.
    pub fn cache_shape(&self) -> KeyValueShape {
        KeyValueShape { heads: self.sizes.kv_heads, head_dim: self.sizes.head_dim }
    }

    /// `x [batch, seq, width]` to `[batch, seq, width]`; position `i` sees `0..=i`.
    pub fn forward<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        let [q, k, v] = self.heads(b, params, x, None)?;
        let attended = ops::attention(b, &q, &k, &v, true, None, None)?;
        self.joined(b, params, &attended)
    }

    /// [`RotaryAttention::forward`] of `x [batch, seq, width]` at `positions` (`i32[batch, seq]`), behind what the cache
    /// holds for this layer; keys are kept turned.
    pub fn decode<B: Builder, C: KeyValueCache<B>>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        x: &B::Value,
        positions: &B::Value,
        layer: usize,
        cache: &mut C,
    ) -> Result<B::Value> {
        let [q, k, v] = self.heads(b, params, x, Some(positions))?;
        self.joined(b, params, &cache.attend(b, layer, &q, &k, &v)?)
    }

    /// Queries and keys, turned by their positions (`0 ..` where absent), and values: `[batch, seq, their heads,
    /// head_dim]`.
    fn heads<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        x: &B::Value,
        positions: Option<&B::Value>,
    ) -> Result<[B::Value; 3]> {
        let ty = b.ty(x);
        let &[batch, seq, _] = &ty.shape[..] else {
            let message = format!("x is {ty}, expected [batch, seq, width]");
            return Err(Error::shape("rotary_attention", message));
        };
        let HeadSizes { heads, kv_heads, head_dim } = self.sizes;
        let apart = |map: &Linear, heads: usize| {
            let shape = [batch, seq, heads, head_dim].map(|size| size as isize);
            ops::reshape(b, &map.forward(b, params, x)?, &shape)
        };
        let turned = |x: B::Value| {
            let Rotation { theta, scaling } = self.rotation;
            let factor = scaling.map(|scaling| scaling.factor);
            let (low, high, context) = scaling.map_or((1.0, 4.0, 0), |s| (s.low, s.high, s.context));
            let interleaved = false;
            let inverse = false;
            ops::rotary_embedding(
                b,
                &x,
                positions,
                theta,
                interleaved,
                1,
                None,
                factor,
                low,
                high,
                context,
                inverse,
            )
        };
        Ok([
            turned(apart(&self.queries, heads)?)?,
            turned(apart(&self.keys, kv_heads)?)?,
            apart(&self.values, kv_heads)?,
        ])
    }

    /// The heads' results side by side, mapped.
    fn joined<B: Builder>(&self, b: &B, params: &Params<B::Value>, attended: &B::Value) -> Result<B::Value> {
        self.project.forward(b, params, &ops::flatten(b, attended, 2, 3)?)
    }
}
