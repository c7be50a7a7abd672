//! Causal multi-head self-attention, with and without a cache.

use lanthorn_ir::{Builder, Error, Result, ops};

use super::Linear;
use crate::model::{KeyValueCache, KeyValueShape};
use crate::params::{Init, ParamSpec, Params};

/// Causal self-attention of `x [batch, seq, width]` (Vaswani et al. 2017), with queries, keys and values from one
/// product and one map of the heads' results.
///
/// Heads are views of the product in the layout `[batch, seq, heads, head_dim]` that the attention kernels read, so
/// nothing is copied on the way in or out.
///
/// Parameters: those of `NAME.c_attn` (`[3 * width, width]`: queries, keys, values) and `NAME.c_proj`.
#[derive(Clone, Debug)]
pub struct SelfAttention {
    queries_keys_values: Linear,
    project: Linear,
    heads: usize,
    head_dim: usize,
}

impl SelfAttention {
    /// Attention with these first values of the two weights.
    ///
    /// Errors: heads that do not divide the width.
    pub fn new(name: &str, width: usize, heads: usize, init: Init, project_init: Init) -> Result<Self> {
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::shape(
                "self_attention",
                format!("{heads} heads do not divide the width {width}"),
            ));
        }
        Ok(SelfAttention {
            queries_keys_values: Linear::new(&format!("{name}.c_attn"), width, 3 * width).with_init(init),
            project: Linear::new(&format!("{name}.c_proj"), width, width).with_init(project_init),
            heads,
            head_dim: width / heads,
        })
    }

    /// The parameters.
    pub fn specs(&self) -> Vec<ParamSpec> {
        [self.queries_keys_values.specs(), self.project.specs()].concat()
    }

    /// What a cache keeps of a position.
    pub fn cache_shape(&self) -> KeyValueShape {
        KeyValueShape { heads: self.heads, head_dim: self.head_dim }
    }

    /// `x [batch, seq, width]` to `[batch, seq, width]`; position `i` sees `0..=i`.
    pub fn forward<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        let [q, k, v] = self.heads(b, params, x)?;
        let attended = ops::attention(b, &q, &k, &v, true, None, None)?;
        self.joined(b, params, &attended)
    }

    /// [`SelfAttention::forward`] of `x [batch, seq, width]` behind what the cache holds for this layer.
    pub fn decode<B: Builder, C: KeyValueCache<B>>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        x: &B::Value,
        layer: usize,
        cache: &mut C,
    ) -> Result<B::Value> {
        let [q, k, v] = self.heads(b, params, x)?;
        self.joined(b, params, &cache.attend(b, layer, &q, &k, &v)?)
    }

    /// Queries, keys and values, `[batch, seq, heads, head_dim]` each.
    fn heads<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<[B::Value; 3]> {
        let ty = b.ty(x);
        let &[batch, seq, _] = &ty.shape[..] else {
            return Err(Error::shape("self_attention", format!("x is {ty}, expected [batch, seq, width]")));
        };
        let all = self.queries_keys_values.forward(b, params, x)?;
        let shape = [batch, seq, 3, self.heads, self.head_dim].map(|size| size as isize);
        let all = ops::reshape(b, &all, &shape)?;
        Ok([ops::select(b, &all, 2, 0)?, ops::select(b, &all, 2, 1)?, ops::select(b, &all, 2, 2)?])
    }

    /// The heads' results side by side, mapped.
    fn joined<B: Builder>(&self, b: &B, params: &Params<B::Value>, attended: &B::Value) -> Result<B::Value> {
        self.project.forward(b, params, &ops::flatten(b, attended, 2, 3)?)
    }
}
