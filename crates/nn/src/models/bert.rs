//! BERT: an encoder with learned positions, types of texts and post-normalisation.
//!
//! Devlin, Chang, Lee and Toutanova, "BERT: Pre-training of Deep Bidirectional Transformers for Language
//! Understanding", 2019 (`google-research/bert`, `modeling.py`). MiniLM and most models that embed sentences are of
//! this family. Dropout is applied to the embeddings and to what each part of a block adds; attention weights have none,
//! since the fused kernel never forms them.
//!
//! | configuration | all-MiniLM-L6-v2 | what |
//! |---|---|---|
//! | `vocab` | 30522 | token ids |
//! | `context` | 512 | positions |
//! | `types` | 2 | types of texts: the first and the second of a pair |
//! | `layers` | 6 | blocks |
//! | `width` | 384 | of the residual stream |
//! | `inner` | 1536 | of the feed-forward parts |
//! | `heads` | 12 | of attention; they divide the width |
//! | `dropout` | 0.1 | probability |
//! | `norm_eps` | 1e-12 | of the layer norms |
//!
//! Parameters have the names and shapes of Hugging Face's `BertModel` without its pooler
//! (`embeddings.word_embeddings.weight`, `encoder.layer.0.attention.self.query.weight` ...).

use lanthorn_ir::ops::GeluApproximate;
use lanthorn_ir::{Builder, Error, Result, ops};
use serde::{Deserialize, Serialize};

use super::check;
use crate::layers::{Dropout, Embedding, EncoderAttention, LayerNorm, Linear};
use crate::mode::Mode;
use crate::model::Model;
use crate::params::{Init, ParamSpec, Params};

/// The sizes of a BERT; the module's page explains each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BertConfig {
    pub vocab: usize,
    pub context: usize,
    pub types: usize,
    pub layers: usize,
    pub width: usize,
    pub inner: usize,
    pub heads: usize,
    pub dropout: f64,
    pub norm_eps: f64,
}

impl BertConfig {
    fn check(&self) -> Result<()> {
        let sizes = [
            ("vocab", self.vocab),
            ("context", self.context),
            ("types", self.types),
            ("width", self.width),
            ("inner", self.inner),
        ];
        check::sizes("bert", &sizes)?;
        check::layers("bert", self.layers)?;
        check::positive("bert", "norm_eps", self.norm_eps)
    }
}

/// What a BERT reads.
#[derive(Clone, Copy, Debug)]
pub struct BertInput<'a, V> {
    /// Integer ids `[batch, seq]`.
    pub ids: &'a V,
    /// The type of each token, integers `[batch, seq]`; all 0 where absent.
    pub types: Option<&'a V>,
    /// How many tokens of each sequence count, integers `[batch]`; all where absent. No token sees what lies behind.
    pub lengths: Option<&'a V>,
}

/// A BERT without a head: its output is the last block's.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value};
/// use lanthorn_nn::{Bert, BertConfig, Mode, Model, Params};
///
/// let bert = Bert::new(BertConfig {
///     vocab: 512,
///     context: 128,
///     types: 2,
///     layers: 2,
///     width: 48,
///     inner: 192,
///     heads: 6,
///     dropout: 0.1,
///     norm_eps: 1e-12,
/// })?;
/// let leaf = Value::leaf;
/// let params: Params<Value> = bert
///     .specs()
///     .into_iter()
///     .map(|spec| Ok((spec.name.clone(), leaf(spec.ty(DType::F32))?)))
///     .collect::<lanthorn_ir::Result<_>>()?;
/// let ids = leaf(TensorType::new(DType::I32, [8, 128]))?;
/// let (hidden, _) = bert.forward(&Lazy, &params, &Params::new(), &ids, &Mode::Eval)?;
/// assert_eq!(hidden.ty(), &TensorType::new(DType::F32, [8, 128, 48]));
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Bert {
    config: BertConfig,
    tokens: Embedding,
    positions: Embedding,
    types: Embedding,
    norm: LayerNorm,
    dropout: Dropout,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
struct Block {
    attention: EncoderAttention,
    attention_norm: LayerNorm,
    expand: Linear,
    project: Linear,
    norm: LayerNorm,
}

impl Block {
    fn new(config: &BertConfig, layer: usize) -> Result<Block> {
        let name = format!("encoder.layer.{layer}");
        let (width, inner) = (config.width, config.inner);
        let init = Init::Normal { std: STD };
        let norm = |part: &str| LayerNorm::new(&format!("{name}.{part}.LayerNorm"), width, config.norm_eps);
        Ok(Block {
            attention: EncoderAttention::new(&format!("{name}.attention"), width, config.heads, init)?,
            attention_norm: norm("attention.output"),
            expand: Linear::new(&format!("{name}.intermediate.dense"), width, inner).with_init(init),
            project: Linear::new(&format!("{name}.output.dense"), inner, width).with_init(init),
            norm: norm("output"),
        })
    }

    fn specs(&self) -> Vec<ParamSpec> {
        [
            self.attention.specs(),
            self.attention_norm.specs(),
            self.expand.specs(),
            self.project.specs(),
            self.norm.specs(),
        ]
        .concat()
    }

    fn forward<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        x: &B::Value,
        lengths: Option<&B::Value>,
        dropped: impl Fn(&B::Value) -> Result<B::Value>,
    ) -> Result<B::Value> {
        let attended = dropped(&self.attention.forward(b, params, x, lengths)?)?;
        let x = self.attention_norm.forward(b, params, &ops::add(b, x, &attended)?)?;
        let hidden = ops::gelu(b, &self.expand.forward(b, params, &x)?, GeluApproximate::None)?;
        let fed = dropped(&self.project.forward(b, params, &hidden)?)?;
        self.norm.forward(b, params, &ops::add(b, &x, &fed)?)
    }
}

/// The standard deviation of first weights, `initializer_range`.
const STD: f64 = 0.02;

impl Bert {
    /// A model of these sizes.
    ///
    /// Errors: sizes of 0 or beyond 32 bits, heads that do not divide the width, a dropout outside `[0, 1)`.
    pub fn new(config: BertConfig) -> Result<Bert> {
        config.check()?;
        let table = |part: &str, rows| {
            let name = format!("embeddings.{part}_embeddings");
            Embedding::new(&name, rows, config.width).with_init(Init::Normal { std: STD })
        };
        Ok(Bert {
            tokens: table("word", config.vocab),
            positions: table("position", config.context),
            types: table("token_type", config.types),
            norm: LayerNorm::new("embeddings.LayerNorm", config.width, config.norm_eps),
            dropout: Dropout::new(config.dropout)?,
            blocks: (0..config.layers).map(|layer| Block::new(&config, layer)).collect::<Result<_>>()?,
            config,
        })
    }

    /// The last block's output, `[batch, seq, width]`. What stands behind a sequence's length is of no meaning.
    ///
    /// Errors: ids of another rank, more tokens than the context, types or lengths of another shape.
    pub fn encode<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        input: BertInput<'_, B::Value>,
        mode: &Mode<B::Value>,
    ) -> Result<B::Value> {
        let ty = b.ty(input.ids);
        let (_, seq) = check::ids("bert", b, input.ids, self.config.context)?;
        let types = match input.types {
            Some(types) if b.ty(types).shape != ty.shape => {
                let message = format!("the types are {}, the ids {ty}", b.ty(types));
                return Err(Error::shape("bert", message));
            }
            Some(types) => self.types.forward(b, params, types)?,
            None => self.types.positions(b, params, 1)?,
        };
        let x = self.tokens.forward(b, params, input.ids)?;
        let x = ops::add(b, &x, &self.positions.positions(b, params, seq)?)?;
        let x = self.norm.forward(b, params, &ops::add(b, &x, &types)?)?;
        let dropped = |x: &B::Value| self.dropout.forward(b, x, mode);
        let embedded = dropped(&x)?;
        self.blocks.iter().try_fold(embedded, |x, block| block.forward(b, params, &x, input.lengths, dropped))
    }
}

impl Model for Bert {
    type Config = BertConfig;

    fn from_config(config: BertConfig) -> Result<Bert> {
        Bert::new(config)
    }

    fn config(&self) -> &BertConfig {
        &self.config
    }

    fn specs(&self) -> Vec<ParamSpec> {
        let mut specs = [self.tokens.specs(), self.positions.specs(), self.types.specs()].concat();
        specs.extend(self.norm.specs());
        specs.extend(self.blocks.iter().flat_map(Block::specs));
        specs
    }

    fn is_random(&self) -> bool {
        self.dropout.is_random()
    }

    /// Integer ids `[batch, seq]`, all of type 0 and of full length, to `[batch, seq, width]`; see [`Bert::encode`].
    fn forward<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        ids: &B::Value,
        mode: &Mode<B::Value>,
    ) -> Result<(B::Value, Params<B::Value>)> {
        let input = BertInput { ids, types: None, lengths: None };
        Ok((self.encode(b, params, input, mode)?, state.clone()))
    }
}
