//! Self-attention of encoders, as `torch.nn.MultiheadAttention` has it.

use lanthorn_ir::{Builder, Error, Result, ops};
use serde::{Deserialize, Serialize};

use super::{Layer, Pass};
use crate::mode::Mode;
use crate::models::check::layer_sizes;
use crate::params::{Init, ParamKind, ParamSpec};

/// The sizes of [`MultiHeadAttention`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiHeadConfig {
    pub width: usize,
    /// They divide the width.
    pub heads: usize,
    /// Whether position `i` sees `0..=i` alone.
    pub causal: bool,
    /// Of the attention weights.
    pub dropout: f64,
}

/// Self-attention of `x [batch, seq, width]` (Vaswani et al. 2017), of every position to every other or `causal`.
/// [`SelfAttention`](super::SelfAttention) is the causal one that decodes with a cache.
///
/// Parameters, with torch's names: `NAME.in_proj_weight [3 width, width]` (queries, keys, values),
/// `NAME.in_proj_bias [3 width]`, `NAME.out_proj.weight [width, width]`, `NAME.out_proj.bias [width]`. Weights begin
/// uniform as in Glorot and Bengio 2010.
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    name: String,
    config: MultiHeadConfig,
}

impl MultiHeadAttention {
    /// An attention.
    ///
    /// Errors: a width beyond 32 bits; heads that do not divide the width; a dropout outside `[0, 1)`.
    pub fn new(name: &str, config: MultiHeadConfig) -> Result<MultiHeadAttention> {
        let MultiHeadConfig { width, heads, dropout, .. } = config;
        let fail = |message: String| Err(Error::shape("multi_head_attention", format!("{name}: {message}")));
        layer_sizes("multi_head_attention", name, &[("width", width)])?;
        if heads == 0 || !width.is_multiple_of(heads) {
            return fail(format!("{heads} heads do not divide the width {width}"));
        }
        if !(0.0..1.0).contains(&dropout) {
            return fail(format!("the dropout is {dropout}, expected 0 to below 1"));
        }
        Ok(MultiHeadAttention { name: name.to_owned(), config })
    }
}

impl Layer for MultiHeadAttention {
    fn specs(&self) -> Vec<ParamSpec> {
        let width = self.config.width;
        let spec = |what: &str, shape: &[usize], init, kind| {
            ParamSpec::new(format!("{}.{what}", self.name), shape, init, kind)
        };
        vec![
            spec("in_proj_weight", &[3 * width, width], Init::xavier(width, 3 * width), ParamKind::Weight),
            spec("in_proj_bias", &[3 * width], Init::Zeros, ParamKind::Bias),
            spec("out_proj.weight", &[width, width], Init::xavier(width, width), ParamKind::Weight),
            spec("out_proj.bias", &[width], Init::Zeros, ParamKind::Bias),
        ]
    }

    fn is_random(&self) -> bool {
        self.config.dropout > 0.0
    }

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let MultiHeadConfig { heads, causal, dropout, .. } = self.config;
        let param = |what: &str| pass.params().get(&format!("{}.{what}", self.name));
        let (in_weight, in_bias) = (param("in_proj_weight")?, param("in_proj_bias")?);
        let (out_weight, out_bias) = (param("out_proj.weight")?, param("out_proj.bias")?);
        let (dropout, key, stream) = match pass.mode() {
            Mode::Train(draws) if dropout > 0.0 => {
                let (key, stream) = draws.next("multi_head_attention")?;
                (dropout, Some(key), stream)
            }
            _ => (0.0, None, 0),
        };
        let (w, bias, out, out_bias) = (Some(in_weight), Some(in_bias), out_weight, Some(out_bias));
        let none = None;
        let results = ops::multi_head_attention(
            b,
            x,
            x,
            x,
            heads,
            w,
            bias,
            out,
            out_bias,
            none,
            none,
            none,
            none,
            none,
            none,
            none,
            false,
            causal,
            false,
            true,
            dropout,
            key.as_ref(),
            stream,
        )?;
        let missing = || Error::unsupported("multi_head_attention", "gave no value");
        results.into_iter().next().ok_or_else(missing)
    }
}
