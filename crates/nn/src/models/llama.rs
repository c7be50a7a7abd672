//! Llama: a decoder-only transformer with rotary positions, grouped heads and gated feed-forward parts.
//!
//! Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023; Grattafiori et al., "The Llama 3 Herd
//! of Models", 2024. SmolLM2, TinyLlama and many others are models of this family.
//!
//! | configuration | SmolLM2-135M | what |
//! |---|---|---|
//! | `vocab` | 49152 | token ids |
//! | `context` | 8192 | the most positions; nothing else depends on it |
//! | `layers` | 30 | blocks |
//! | `width` | 576 | of the residual stream |
//! | `inner` | 1536 | of the feed-forward parts |
//! | `heads` | 9 | of queries |
//! | `kv_heads` | 3 | of keys and values; they divide `heads` |
//! | `head_dim` | 64 | elements of a head, in pairs |
//! | `rotation` | theta 100000 | how positions turn queries and keys; see [`Rotation`] |
//! | `head` | tied | whether the output map is the token table |
//! | `norm_eps` | 1e-5 | of the RMS norms |
//! | `packed` | | how weights are packed in blocks, by their names; the others are kept in the model's dtype |
//!
//! Parameters have the names, shapes and element order of Hugging Face's checkpoints (`model.embed_tokens.weight`,
//! `model.layers.0.self_attn.q_proj.weight` ...): the pairs of a head are elements `i` and `i + head_dim / 2`.

use std::collections::BTreeMap;

use lanthorn_ir::ops::{self, Encoding};
use lanthorn_ir::{Builder, Error, Result};
use serde::{Deserialize, Serialize};

use super::check;
use super::gpt::Head;
use crate::layers::{Embedding, GatedMlp, HeadSizes, Linear, RmsNorm, RotaryAttention, Rotation};
use crate::mode::Mode;
use crate::model::{CachedModel, KeyValueCache, KeyValueShape, Model, last_rows};
use crate::params::{Init, ParamSpec, Params};

/// The sizes of a Llama; the module's page explains each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlamaConfig {
    pub vocab: usize,
    pub context: usize,
    pub layers: usize,
    pub width: usize,
    pub inner: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub rotation: Rotation,
    pub head: Head,
    pub norm_eps: f64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packed: BTreeMap<String, Encoding>,
}

impl LlamaConfig {
    /// How the weight of `part` is packed.
    fn encoding(&self, part: &str) -> Option<Encoding> {
        self.packed.get(&format!("{part}.weight")).copied()
    }

    fn check(&self) -> Result<()> {
        let sizes = [
            ("vocab", self.vocab),
            ("context", self.context),
            ("width", self.width),
            ("inner", self.inner),
            ("heads", self.heads),
            ("kv_heads", self.kv_heads),
            ("head_dim", self.head_dim),
        ];
        check::sizes("llama", &sizes)?;
        check::layers("llama", self.layers)?;
        check::positive("llama", "norm_eps", self.norm_eps)?;
        check::positive("llama", "theta", self.rotation.theta)
    }
}

/// A Llama.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value};
/// use lanthorn_nn::layers::Rotation;
/// use lanthorn_nn::models::gpt::Head;
/// use lanthorn_nn::{Llama, LlamaConfig, Mode, Model, Params};
///
/// let llama = Llama::new(LlamaConfig {
///     vocab: 512,
///     context: 128,
///     layers: 2,
///     width: 48,
///     inner: 128,
///     heads: 6,
///     kv_heads: 2,
///     head_dim: 8,
///     rotation: Rotation { theta: 10_000.0, scaling: None },
///     head: Head::Tied,
///     norm_eps: 1e-5,
///     packed: Default::default(),
/// })?;
/// let leaf = Value::leaf;
/// let params: Params<Value> = llama
///     .specs()
///     .into_iter()
///     .map(|spec| Ok((spec.name.clone(), leaf(spec.ty(DType::F32))?)))
///     .collect::<lanthorn_ir::Result<_>>()?;
/// let ids = leaf(TensorType::new(DType::I32, [8, 128]))?;
/// let (logits, _) = llama.forward(&Lazy, &params, &Params::new(), &ids, &Mode::Eval)?;
/// assert_eq!(logits.ty(), &TensorType::new(DType::F32, [8, 128, 512]));
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Llama {
    config: LlamaConfig,
    tokens: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
    head: Option<Linear>,
}

#[derive(Clone, Debug)]
struct Block {
    attention_norm: RmsNorm,
    attention: RotaryAttention,
    mlp_norm: RmsNorm,
    mlp: GatedMlp,
}

impl Block {
    fn new(config: &LlamaConfig, layer: usize) -> Result<Block> {
        let name = format!("model.layers.{layer}");
        let (width, inner) = (config.width, config.inner);
        let init = Init::Normal { std: STD };
        let residual = Init::Normal { std: STD / (2.0 * config.layers as f64).sqrt() };
        let norm = |part: &str| RmsNorm::new(&format!("{name}.{part}"), width, config.norm_eps);
        let map = |part: &str, inputs, outputs, init| {
            let part = format!("{name}.mlp.{part}");
            Linear::new(&part, inputs, outputs)
                .with_init(init)
                .without_bias()
                .with_encoding(config.encoding(&part))
        };
        let sizes = HeadSizes { heads: config.heads, kv_heads: config.kv_heads, head_dim: config.head_dim };
        let attention = format!("{name}.self_attn");
        Ok(Block {
            attention_norm: norm("input_layernorm"),
            attention: RotaryAttention::new(&attention, width, sizes, config.rotation, init, residual)?
                .with_encodings(|part| config.encoding(part)),
            mlp_norm: norm("post_attention_layernorm"),
            mlp: GatedMlp::new(
                map("gate_proj", width, inner, init),
                map("up_proj", width, inner, init),
                map("down_proj", inner, width, residual),
            ),
        })
    }

    fn specs(&self) -> Vec<ParamSpec> {
        [self.attention_norm.specs(), self.attention.specs(), self.mlp_norm.specs(), self.mlp.specs()]
            .concat()
    }
}

/// The table of tokens.
const TOKENS: &str = "model.embed_tokens";

/// The standard deviation of first weights, as in transformers' `initializer_range`; the maps that add to the residual
/// stream begin smaller, as in GPT-2.
const STD: f64 = 0.02;

impl Llama {
    /// A model of these sizes.
    ///
    /// Errors: sizes of 0 or beyond 32 bits, heads of keys that do not divide those of queries, an odd head.
    pub fn new(config: LlamaConfig) -> Result<Llama> {
        config.check()?;
        let init = Init::Normal { std: STD };
        let (vocab, width) = (config.vocab, config.width);
        let head = match config.head {
            Head::Tied => None,
            Head::Untied => Some(
                Linear::new("lm_head", width, vocab)
                    .with_init(init)
                    .without_bias()
                    .with_encoding(config.encoding("lm_head")),
            ),
        };
        let llama = Llama {
            tokens: Embedding::new(TOKENS, vocab, width)
                .with_init(init)
                .with_encoding(config.encoding(TOKENS)),
            blocks: (0..config.layers).map(|layer| Block::new(&config, layer)).collect::<Result<_>>()?,
            norm: RmsNorm::new("model.norm", width, config.norm_eps),
            head,
            config,
        };
        check_packed(&llama.specs(), &llama.config.packed)?;
        Ok(llama)
    }

    /// Batch and length of ids.
    fn sizes<B: Builder>(&self, b: &B, ids: &B::Value) -> Result<(usize, usize)> {
        check::ids("llama", b, ids, self.config.context)
    }

    fn logits<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        let x = self.norm.forward(b, params, x)?;
        match &self.head {
            Some(head) => head.forward(b, params, &x),
            None => self.tokens.attend(b, params, &x),
        }
    }
}

/// Refuses packed weights that the model does not have or whose rows are no whole blocks.
fn check_packed(specs: &[ParamSpec], packed: &BTreeMap<String, Encoding>) -> Result<()> {
    for (name, encoding) in packed {
        let Some(spec) = specs.iter().find(|spec| spec.name == *name && spec.encoding.is_some()) else {
            let message = format!("`{name}` is packed as {encoding} and is no weight that can be");
            return Err(Error::shape("llama", message));
        };
        if !encoding.is_packed() || encoding.byte_length(&spec.shape).is_none() {
            let (found, block) = (&spec.shape, encoding.block_elements());
            let message = format!(
                "`{name}` {found:?} is packed as {encoding}, expected rows of whole blocks of {block}"
            );
            return Err(Error::shape("llama", message));
        }
    }
    Ok(())
}

impl Model for Llama {
    type Config = LlamaConfig;

    fn from_config(config: LlamaConfig) -> Result<Llama> {
        Llama::new(config)
    }

    fn config(&self) -> &LlamaConfig {
        &self.config
    }

    fn specs(&self) -> Vec<ParamSpec> {
        let mut specs = self.tokens.specs();
        specs.extend(self.blocks.iter().flat_map(Block::specs));
        specs.extend(self.norm.specs());
        specs.extend(self.head.iter().flat_map(Linear::specs));
        specs
    }

    fn is_random(&self) -> bool {
        false
    }

    /// Integer ids `[batch, seq]` to logits `[batch, seq, vocab]`.
    fn forward<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        ids: &B::Value,
        _: &Mode<B::Value>,
    ) -> Result<(B::Value, Params<B::Value>)> {
        self.sizes(b, ids)?;
        let mut x = self.tokens.forward(b, params, ids)?;
        for block in &self.blocks {
            let normed = block.attention_norm.forward(b, params, &x)?;
            x = ops::add(b, &x, &block.attention.forward(b, params, &normed)?)?;
            let normed = block.mlp_norm.forward(b, params, &x)?;
            x = ops::add(b, &x, &block.mlp.forward(b, params, &normed)?)?;
        }
        Ok((self.logits(b, params, &x)?, state.clone()))
    }
}

impl CachedModel for Llama {
    fn context(&self) -> usize {
        self.config.context
    }

    fn vocab(&self) -> usize {
        self.config.vocab
    }

    fn has_last_position(&self) -> bool {
        false
    }

    fn cache_shapes(&self) -> Vec<KeyValueShape> {
        self.blocks.iter().map(|block| block.attention.cache_shape()).collect()
    }

    fn decode<B: Builder, C: KeyValueCache<B>>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        ids: &B::Value,
        positions: &B::Value,
        last: &B::Value,
        cache: &mut C,
    ) -> Result<B::Value> {
        self.sizes(b, ids)?;
        let mut x = self.tokens.forward(b, params, ids)?;
        for (layer, block) in self.blocks.iter().enumerate() {
            let normed = block.attention_norm.forward(b, params, &x)?;
            x = ops::add(b, &x, &block.attention.decode(b, params, &normed, positions, layer, cache)?)?;
            let normed = block.mlp_norm.forward(b, params, &x)?;
            x = ops::add(b, &x, &block.mlp.forward(b, params, &normed)?)?;
        }
        // Only one row a sequence goes through the largest product.
        self.logits(b, params, &last_rows(b, &x, last)?)
    }
}
