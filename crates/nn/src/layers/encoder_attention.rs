//! Self-attention in which every position sees every other, as in encoders.

use lanthorn_ir::{Builder, Error, Result, ops};

use super::Linear;
use crate::params::{Init, ParamSpec, Params};

/// Multi-head self-attention of `x [batch, seq, width]` without a causal mask (Vaswani et al. 2017), with the names of
/// BERT's checkpoints.
///
/// Parameters: those of the maps `NAME.self.query`, `NAME.self.key`, `NAME.self.value` and `NAME.output.dense`, each
/// `[width, width]` with a bias.
#[derive(Clone, Debug)]
pub struct EncoderAttention {
    queries: Linear,
    keys: Linear,
    values: Linear,
    project: Linear,
    heads: usize,
    head_dim: usize,
}

impl EncoderAttention {
    /// Attention with this first value of its weights.
    ///
    /// Errors: heads that do not divide the width.
    pub fn new(name: &str, width: usize, heads: usize, init: Init) -> Result<EncoderAttention> {
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::shape(
                "encoder_attention",
                format!("{heads} heads do not divide the width {width}"),
            ));
        }
        let map = |part: &str| Linear::new(&format!("{name}.{part}"), width, width).with_init(init);
        Ok(EncoderAttention {
            queries: map("self.query"),
            keys: map("self.key"),
            values: map("self.value"),
            project: map("output.dense"),
            heads,
            head_dim: width / heads,
        })
    }

    /// The parameters.
    pub fn specs(&self) -> Vec<ParamSpec> {
        [&self.queries, &self.keys, &self.values, &self.project].into_iter().flat_map(Linear::specs).collect()
    }

    /// `x [batch, seq, width]` to `[batch, seq, width]`. With `lengths` (integers `[batch]`) what lies behind a
    /// sequence's length is seen by nobody.
    pub fn forward<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        x: &B::Value,
        lengths: Option<&B::Value>,
    ) -> Result<B::Value> {
        let ty = b.ty(x);
        let &[batch, seq, _] = &ty.shape[..] else {
            let message = format!("x is {ty}, expected [batch, seq, width]");
            return Err(Error::shape("encoder_attention", message));
        };
        // `[batch, heads, seq, head_dim]`, as views.
        let apart = |map: &Linear| {
            let shape = [batch, seq, self.heads, self.head_dim].map(|size| size as isize);
            let heads = ops::reshape(b, &map.forward(b, params, x)?, &shape)?;
            ops::transpose(b, &heads, 1, 2)
        };
        let (q, k, v) = (apart(&self.queries)?, apart(&self.keys)?, apart(&self.values)?);
        let attended = ops::scaled_dot_product_attention(
            b, &q, &k, &v, false, None, None, None, 0.0, None, None, None, None, None, None, lengths, 0,
        )?;
        let attended = ops::flatten(b, &ops::transpose(b, &attended, 1, 2)?, 2, 3)?;
        self.project.forward(b, params, &attended)
    }
}
