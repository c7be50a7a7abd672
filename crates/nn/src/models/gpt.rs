//! GPT-2: a decoder-only transformer with learned positions and pre-normalisation.
//!
//! Radford, Wu, Child, Luan, Amodei and Sutskever, "Language Models are Unsupervised Multitask Learners", 2019
//! (`openai/gpt-2`, `model.py`). Weights begin normal with standard deviation 0.02, the two maps of a block that add
//! to the residual stream with `0.02 / sqrt(2 layers)` (section 2.3). Dropout is applied to the embeddings and to
//! what each block adds; attention weights have none, since the fused kernel never forms them.
//!
//! | configuration | GPT-2 small | what |
//! |---|---|---|
//! | `vocab` | 50257 | token ids |
//! | `context` | 1024 | positions |
//! | `layers` | 12 | blocks |
//! | `width` | 768 | of the residual stream; feed-forward layers are four times as wide |
//! | `heads` | 12 | of attention; they divide the width |
//! | `dropout` | 0.1 | probability |
//! | `head` | tied | whether the output map is the token table |
//! | `norm_eps` | 1e-5 | of the layer norms |
//!
//! Parameters have the names of the published checkpoints (`wte.weight`, `h.0.attn.c_attn.weight` ...), but weights
//! are `[out, in]` where those are `[in, out]`.

use lanthorn_ir::layout::numel;
use lanthorn_ir::{Builder, Result, ops};
use serde::{Deserialize, Serialize};

use super::check;
use crate::layers::{Dropout, Embedding, LayerNorm, Linear, Mlp, SelfAttention};
use crate::mode::Mode;
use crate::model::{CachedModel, KeyValueCache, KeyValueShape, Model, last_rows};
use crate::params::{Init, ParamSpec, Params};

/// The map from the residual stream to logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// The token table, transposed (Press and Wolf 2017).
    #[default]
    Tied,
    /// A weight of its own, `lm_head.weight [vocab, width]`.
    Untied,
}

/// The sizes of a GPT; the module's page explains each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GptConfig {
    pub vocab: usize,
    pub context: usize,
    pub layers: usize,
    pub width: usize,
    pub heads: usize,
    pub dropout: f64,
    pub head: Head,
    pub norm_eps: f64,
}

impl GptConfig {
    /// A model that trains on a book in minutes on two cores: about 0.8 million parameters besides the token table.
    pub fn small(vocab: usize) -> GptConfig {
        GptConfig {
            vocab,
            context: 128,
            layers: 4,
            width: 128,
            heads: 4,
            dropout: 0.0,
            head: Head::Tied,
            norm_eps: 1e-5,
        }
    }

    fn check(&self) -> Result<()> {
        let GptConfig { vocab, context, width, .. } = *self;
        check::sizes("gpt", &[("vocab", vocab), ("context", context), ("width", width)])?;
        check::layers("gpt", self.layers)?;
        check::positive("gpt", "norm_eps", self.norm_eps)
    }
}

/// A GPT.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value};
/// use lanthorn_nn::{Gpt, GptConfig, Mode, Model, Params};
///
/// let gpt = Gpt::new(GptConfig::small(512))?;
/// let leaf = Value::leaf;
/// let params: Params<Value> = gpt
///     .specs()
///     .into_iter()
///     .map(|spec| Ok((spec.name.clone(), leaf(spec.ty(DType::F32))?)))
///     .collect::<lanthorn_ir::Result<_>>()?;
/// let ids = leaf(TensorType::new(DType::I32, [8, 128]))?;
/// let (logits, _) = gpt.forward(&Lazy, &params, &Params::new(), &ids, &Mode::Eval)?;
/// assert_eq!(logits.ty(), &TensorType::new(DType::F32, [8, 128, 512]));
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Gpt {
    config: GptConfig,
    tokens: Embedding,
    positions: Embedding,
    dropout: Dropout,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Option<Linear>,
}

#[derive(Clone, Debug)]
struct Block {
    norm_1: LayerNorm,
    attention: SelfAttention,
    norm_2: LayerNorm,
    mlp: Mlp,
}

impl Block {
    fn new(config: &GptConfig, layer: usize) -> Result<Block> {
        let name = format!("h.{layer}");
        let (width, inner) = (config.width, 4 * config.width);
        let init = Init::Normal { std: STD };
        let residual = Init::Normal { std: STD / (2.0 * config.layers as f64).sqrt() };
        Ok(Block {
            norm_1: LayerNorm::new(&format!("{name}.ln_1"), width, config.norm_eps),
            attention: SelfAttention::new(&format!("{name}.attn"), width, config.heads, init, residual)?,
            norm_2: LayerNorm::new(&format!("{name}.ln_2"), width, config.norm_eps),
            mlp: Mlp::new(
                Linear::new(&format!("{name}.mlp.c_fc"), width, inner).with_init(init),
                Linear::new(&format!("{name}.mlp.c_proj"), inner, width).with_init(residual),
            ),
        })
    }

    fn specs(&self) -> Vec<ParamSpec> {
        [self.norm_1.specs(), self.attention.specs(), self.norm_2.specs(), self.mlp.specs()].concat()
    }
}

/// The standard deviation of first weights.
const STD: f64 = 0.02;

impl Gpt {
    /// A model of these sizes.
    ///
    /// Errors: sizes of 0 or beyond 32 bits, heads that do not divide the width, a dropout outside `[0, 1)`.
    pub fn new(config: GptConfig) -> Result<Gpt> {
        config.check()?;
        let init = Init::Normal { std: STD };
        let (vocab, context, width) = (config.vocab, config.context, config.width);
        let head = match config.head {
            Head::Tied => None,
            Head::Untied => Some(Linear::new("lm_head", width, vocab).with_init(init).without_bias()),
        };
        Ok(Gpt {
            tokens: Embedding::new("wte", vocab, width).with_init(init),
            positions: Embedding::new("wpe", context, width).with_init(init),
            dropout: Dropout::new(config.dropout)?,
            blocks: (0..config.layers).map(|layer| Block::new(&config, layer)).collect::<Result<_>>()?,
            norm: LayerNorm::new("ln_f", width, config.norm_eps),
            head,
            config,
        })
    }

    /// The number of parameters.
    pub fn parameter_count(&self) -> usize {
        self.specs().iter().fold(0, |count, spec| count.saturating_add(numel(&spec.shape)))
    }

    /// Batch and length of ids.
    fn sizes<B: Builder>(&self, b: &B, ids: &B::Value) -> Result<(usize, usize)> {
        check::ids("gpt", b, ids, self.config.context)
    }

    fn logits<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        let x = self.norm.forward(b, params, x)?;
        match &self.head {
            Some(head) => head.forward(b, params, &x),
            None => self.tokens.attend(b, params, &x),
        }
    }
}

impl Model for Gpt {
    type Config = GptConfig;

    fn from_config(config: GptConfig) -> Result<Gpt> {
        Gpt::new(config)
    }

    fn config(&self) -> &GptConfig {
        &self.config
    }

    fn specs(&self) -> Vec<ParamSpec> {
        let mut specs = [self.tokens.specs(), self.positions.specs()].concat();
        specs.extend(self.blocks.iter().flat_map(Block::specs));
        specs.extend(self.norm.specs());
        specs.extend(self.head.iter().flat_map(Linear::specs));
        specs
    }

    fn is_random(&self) -> bool {
        self.dropout.is_random()
    }

    /// Integer ids `[batch, seq]` to logits `[batch, seq, vocab]`.
    fn forward<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        ids: &B::Value,
        mode: &Mode<B::Value>,
    ) -> Result<(B::Value, Params<B::Value>)> {
        let (_, seq) = self.sizes(b, ids)?;
        let tokens = self.tokens.forward(b, params, ids)?;
        let x = ops::add(b, &tokens, &self.positions.positions(b, params, seq)?)?;
        let mut x = self.dropout.forward(b, &x, mode)?;
        for block in &self.blocks {
            let attended = block.attention.forward(b, params, &block.norm_1.forward(b, params, &x)?)?;
            x = ops::add(b, &x, &self.dropout.forward(b, &attended, mode)?)?;
            let fed = block.mlp.forward(b, params, &block.norm_2.forward(b, params, &x)?)?;
            x = ops::add(b, &x, &self.dropout.forward(b, &fed, mode)?)?;
        }
        Ok((self.logits(b, params, &x)?, state.clone()))
    }
}

impl CachedModel for Gpt {
    fn context(&self) -> usize {
        self.config.context
    }

    fn vocab(&self) -> usize {
        self.config.vocab
    }

    fn has_last_position(&self) -> bool {
        true
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
        let tokens = self.tokens.forward(b, params, ids)?;
        let mut x = ops::add(b, &tokens, &self.positions.forward(b, params, positions)?)?;
        for (layer, block) in self.blocks.iter().enumerate() {
            let normed = block.norm_1.forward(b, params, &x)?;
            x = ops::add(b, &x, &block.attention.decode(b, params, &normed, layer, cache)?)?;
            let fed = block.mlp.forward(b, params, &block.norm_2.forward(b, params, &x)?)?;
            x = ops::add(b, &x, &fed)?;
        }
        // Only one row a sequence goes through the largest product.
        self.logits(b, params, &last_rows(b, &x, last)?)
    }
}
