//! A model that is a list of layers, described by a value that can be saved.
//!
//! ```
//! use lanthorn_nn::sequential::*;
//! use lanthorn_nn::stack;
//!
//! let model = Sequential::new(stack![
//!     conv2d(1, 8, 3).same().without_bias(),
//!     batch_norm(8),
//!     Activation::Relu,
//!     max_pool2d(2),
//!     residual(stack![conv2d(8, 8, 3).same(), Activation::Relu]),
//!     Flatten,
//!     dropout(0.1),
//!     linear(8 * 4 * 4, 10),
//! ])?;
//! assert_eq!(model.parameter_count(), 8 * 9 + 16 + (8 * 8 * 9 + 8) + (128 * 10 + 10));
//! let text = serde_json::to_string(model.layers()).expect("a list of layers is JSON");
//! let again = Sequential::new(serde_json::from_str(&text).expect("as written"))?;
//! assert_eq!(again.layers(), model.layers());
//! # lanthorn_ir::Result::Ok(())
//! ```
//!
//! A layer's name is its place, and places nest: the convolution in the residual above is `4.0`, its weight
//! `4.0.weight`, as in a `torch.nn.Sequential`.

use lanthorn_ir::layout::{check_size, numel};
use lanthorn_ir::{Builder, DType, Result};
use serde::{Deserialize, Serialize};

use crate::layers::{self, Layer, Pass};
use crate::mode::Mode;
use crate::model::Model;
use crate::models::check::layer_sizes;
use crate::params::{ParamSpec, Params};

pub use crate::layers::{
    Activation, BatchNormConfig, Cell, ConvConfig, Flatten, GroupNormConfig, Join, MultiHeadConfig, Pool,
    PoolKind, RecurrentConfig,
};

/// One layer of a [`Sequential`], or several that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LayerConfig {
    Linear { inputs: usize, outputs: usize, bias: bool },
    Conv(ConvConfig),
    Embedding { rows: usize, width: usize },
    Positions { context: usize, width: usize },
    LayerNorm { width: usize, eps: f64 },
    RmsNorm { width: usize, eps: f64 },
    GroupNorm(GroupNormConfig),
    BatchNorm(BatchNormConfig),
    Recurrent(RecurrentConfig),
    Attention(MultiHeadConfig),
    Dropout { probability: f64 },
    Pool(Pool),
    Activation(Activation),
    Flatten,
    Reshape { shape: Vec<isize> },
    Chain(Vec<LayerConfig>),
    Residual(Vec<LayerConfig>),
    Checkpoint(Vec<LayerConfig>),
    Branches { layers: Vec<LayerConfig>, join: Join },
}

macro_rules! from {
    ($($from:ident => $variant:ident;)*) => {$(
        impl From<$from> for LayerConfig {
            fn from(config: $from) -> LayerConfig {
                LayerConfig::$variant(config)
            }
        }
    )*};
}

from! {
    ConvConfig => Conv;
    GroupNormConfig => GroupNorm;
    BatchNormConfig => BatchNorm;
    RecurrentConfig => Recurrent;
    MultiHeadConfig => Attention;
    Pool => Pool;
    Activation => Activation;
}

impl From<Flatten> for LayerConfig {
    fn from(_: Flatten) -> LayerConfig {
        LayerConfig::Flatten
    }
}

/// A list of layers of any kind, for [`Sequential::new`](crate::Sequential::new) and for those that hold others.
#[macro_export]
macro_rules! stack {
    ($($layer:expr),* $(,)?) => {
        ::std::vec![$($crate::sequential::LayerConfig::from($layer)),*]
    };
}

/// A linear map with bias.
pub fn linear(inputs: usize, outputs: usize) -> LayerConfig {
    LayerConfig::Linear { inputs, outputs, bias: true }
}

/// A convolution over one axis, with a kernel of that size.
pub fn conv1d(inputs: usize, outputs: usize, kernel: usize) -> ConvConfig {
    ConvConfig::new(inputs, outputs, &[kernel])
}

/// A convolution over two axes, with a square kernel.
pub fn conv2d(inputs: usize, outputs: usize, kernel: usize) -> ConvConfig {
    ConvConfig::new(inputs, outputs, &[kernel; 2])
}

/// A convolution over three axes, with a cubic kernel.
pub fn conv3d(inputs: usize, outputs: usize, kernel: usize) -> ConvConfig {
    ConvConfig::new(inputs, outputs, &[kernel; 3])
}

/// A table of vectors that is read by ids.
pub fn embedding(rows: usize, width: usize) -> LayerConfig {
    LayerConfig::Embedding { rows, width }
}

/// A learned vector added at each position.
pub fn positions(context: usize, width: usize) -> LayerConfig {
    LayerConfig::Positions { context, width }
}

/// A layer norm with an `eps` of `1e-5`.
pub fn layer_norm(width: usize) -> LayerConfig {
    LayerConfig::LayerNorm { width, eps: 1e-5 }
}

/// A root mean square norm with an `eps` of `1e-6`.
pub fn rms_norm(width: usize) -> LayerConfig {
    LayerConfig::RmsNorm { width, eps: 1e-6 }
}

/// A group norm with an `eps` of `1e-5`.
pub fn group_norm(groups: usize, channels: usize) -> GroupNormConfig {
    GroupNormConfig { channels, groups, eps: 1e-5 }
}

/// A batch norm with running statistics.
pub fn batch_norm(channels: usize) -> BatchNormConfig {
    BatchNormConfig::new(channels)
}

/// A long short-term memory over `[batch, seq, inputs]`.
pub fn lstm(inputs: usize, hidden: usize) -> RecurrentConfig {
    RecurrentConfig::new(Cell::Lstm, inputs, hidden)
}

/// Gated recurrent units over `[batch, seq, inputs]`.
pub fn gru(inputs: usize, hidden: usize) -> RecurrentConfig {
    RecurrentConfig::new(Cell::Gru, inputs, hidden)
}

/// Self-attention of every position to every other.
pub fn attention(width: usize, heads: usize) -> MultiHeadConfig {
    MultiHeadConfig { width, heads, causal: false, dropout: 0.0 }
}

/// Self-attention of every position to itself and those before.
pub fn causal_attention(width: usize, heads: usize) -> MultiHeadConfig {
    MultiHeadConfig { causal: true, ..attention(width, heads) }
}

/// In training, each element 0 with that probability.
pub fn dropout(probability: f64) -> LayerConfig {
    LayerConfig::Dropout { probability }
}

/// The largest elements of windows side by side along one axis.
pub fn max_pool1d(size: usize) -> Pool {
    Pool::new(PoolKind::Max, &[size])
}

/// The largest elements of squares side by side.
pub fn max_pool2d(size: usize) -> Pool {
    Pool::new(PoolKind::Max, &[size; 2])
}

/// The means of windows side by side along one axis.
pub fn avg_pool1d(size: usize) -> Pool {
    Pool::new(PoolKind::Average, &[size])
}

/// The means of squares side by side.
pub fn avg_pool2d(size: usize) -> Pool {
    Pool::new(PoolKind::Average, &[size; 2])
}

/// The mean over all spatial axes, `[n, c, ..]` to `[n, c]`.
pub fn global_avg_pool() -> Pool {
    Pool::global(PoolKind::Average)
}

/// The largest element over all spatial axes, `[n, c, ..]` to `[n, c]`.
pub fn global_max_pool() -> Pool {
    Pool::global(PoolKind::Max)
}

/// Each element of the batch in another shape.
pub fn reshape(shape: &[isize]) -> LayerConfig {
    LayerConfig::Reshape { shape: shape.to_vec() }
}

/// One after the other, as one layer.
pub fn chain(layers: Vec<LayerConfig>) -> LayerConfig {
    LayerConfig::Chain(layers)
}

/// `x` and what the layers make of it, added.
pub fn residual(layers: Vec<LayerConfig>) -> LayerConfig {
    LayerConfig::Residual(layers)
}

/// Layers whose intermediate values are computed again for the backward.
pub fn checkpoint(layers: Vec<LayerConfig>) -> LayerConfig {
    LayerConfig::Checkpoint(layers)
}

/// Layers that all read `x`, and their results added or side by side.
pub fn branches(layers: Vec<LayerConfig>, join: Join) -> LayerConfig {
    LayerConfig::Branches { layers, join }
}

macro_rules! built {
    ($($variant:ident($layer:ty)),* $(,)?) => {
        /// A layer with its name.
        #[derive(Clone, Debug)]
        enum Built { $($variant($layer)),* }

        impl Layer for Built {
            fn specs(&self) -> Vec<ParamSpec> {
                match self { $(Built::$variant(layer) => Layer::specs(layer)),* }
            }

            fn state_specs(&self) -> Vec<ParamSpec> {
                match self { $(Built::$variant(layer) => layer.state_specs()),* }
            }

            fn is_random(&self) -> bool {
                match self { $(Built::$variant(layer) => Layer::is_random(layer)),* }
            }

            fn apply<B: Builder>(
                &self,
                b: &B,
                pass: &mut Pass<'_, B::Value>,
                x: &B::Value,
            ) -> Result<B::Value> {
                match self { $(Built::$variant(layer) => layer.apply(b, pass, x)),* }
            }
        }
    };
}

built! {
    Linear(layers::Linear),
    Conv(layers::Conv),
    Embedding(layers::Embedding),
    Positions(layers::Positions),
    LayerNorm(layers::LayerNorm),
    RmsNorm(layers::RmsNorm),
    GroupNorm(layers::GroupNorm),
    BatchNorm(layers::BatchNorm),
    Recurrent(layers::Recurrent),
    Attention(layers::MultiHeadAttention),
    Dropout(layers::Dropout),
    Pool(layers::Pool),
    Activation(layers::Activation),
    Flatten(layers::Flatten),
    Reshape(layers::Reshape),
    Chain(Vec<Built>),
    Residual(layers::Residual<Vec<Built>>),
    Checkpoint(layers::Checkpoint<Vec<Built>>),
    Branches(layers::Branches<Built>),
}

impl Built {
    fn new(config: &LayerConfig, name: &str) -> Result<Built> {
        let check = |op: &str, sizes: &[(&str, usize)]| layer_sizes(op, name, sizes);
        match *config {
            LayerConfig::Linear { inputs, outputs, .. } => {
                check("linear", &[("inputs", inputs), ("outputs", outputs)])?;
            }
            LayerConfig::Embedding { rows, width } => {
                check("embedding", &[("rows", rows), ("width", width)])?
            }
            LayerConfig::Positions { context, width } => {
                check("positions", &[("context", context), ("width", width)])?;
            }
            LayerConfig::LayerNorm { width, .. } | LayerConfig::RmsNorm { width, .. } => {
                check("norm", &[("width", width)])?;
            }
            // The others look themselves.
            _ => {}
        }
        Ok(match config {
            &LayerConfig::Linear { inputs, outputs, bias } => {
                let map = layers::Linear::new(name, inputs, outputs);
                Built::Linear(if bias { map } else { map.without_bias() })
            }
            LayerConfig::Conv(config) => Built::Conv(layers::Conv::new(name, config.clone())?),
            &LayerConfig::Embedding { rows, width } => {
                Built::Embedding(layers::Embedding::new(name, rows, width))
            }
            &LayerConfig::Positions { context, width } => {
                Built::Positions(layers::Positions(layers::Embedding::new(name, context, width)))
            }
            &LayerConfig::LayerNorm { width, eps } => {
                Built::LayerNorm(layers::LayerNorm::new(name, width, eps))
            }
            &LayerConfig::RmsNorm { width, eps } => Built::RmsNorm(layers::RmsNorm::new(name, width, eps)),
            &LayerConfig::GroupNorm(config) => Built::GroupNorm(layers::GroupNorm::new(name, config)?),
            &LayerConfig::BatchNorm(config) => Built::BatchNorm(layers::BatchNorm::new(name, config)?),
            &LayerConfig::Recurrent(config) => Built::Recurrent(layers::Recurrent::new(name, config)?),
            &LayerConfig::Attention(config) => {
                Built::Attention(layers::MultiHeadAttention::new(name, config)?)
            }
            &LayerConfig::Dropout { probability } => Built::Dropout(layers::Dropout::new(probability)?),
            LayerConfig::Pool(pool) => Built::Pool(pool.clone()),
            &LayerConfig::Activation(activation) => Built::Activation(activation),
            LayerConfig::Flatten => Built::Flatten(layers::Flatten),
            LayerConfig::Reshape { shape } => Built::Reshape(layers::Reshape(shape.clone())),
            LayerConfig::Chain(layers) => Built::Chain(Built::all(layers, Some(name))?),
            LayerConfig::Residual(layers) => {
                Built::Residual(layers::Residual(Built::all(layers, Some(name))?))
            }
            LayerConfig::Checkpoint(layers) => {
                Built::Checkpoint(layers::Checkpoint(Built::all(layers, Some(name))?))
            }
            LayerConfig::Branches { layers, join } => {
                let layers = Built::all(layers, Some(name))?;
                Built::Branches(layers::Branches { layers, join: *join })
            }
        })
    }

    /// Layers with their places within `name` as names.
    fn all(layers: &[LayerConfig], name: Option<&str>) -> Result<Vec<Built>> {
        let named = |(place, layer): (usize, &LayerConfig)| match name {
            Some(name) => Built::new(layer, &format!("{name}.{place}")),
            None => Built::new(layer, &place.to_string()),
        };
        layers.iter().enumerate().map(named).collect()
    }
}

/// Layers one after the other; the [module's page](self) shows one.
#[derive(Clone, Debug)]
pub struct Sequential {
    config: Vec<LayerConfig>,
    layers: Vec<Built>,
}

impl Sequential {
    /// A model of these layers.
    ///
    /// Errors: settings that make no layer, with its name; a parameter that no memory holds.
    pub fn new(layers: Vec<LayerConfig>) -> Result<Sequential> {
        let model = Sequential { layers: Built::all(&layers, None)?, config: layers };
        for spec in model.specs().iter().chain(&model.state_specs()) {
            check_size(&spec.name, &spec.ty(DType::F64))?;
        }
        Ok(model)
    }

    /// What the layers are.
    pub fn layers(&self) -> &[LayerConfig] {
        &self.config
    }

    /// The number of parameters.
    pub fn parameter_count(&self) -> usize {
        self.layers.specs().iter().fold(0, |count, spec| count.saturating_add(numel(&spec.shape)))
    }
}

impl Model for Sequential {
    type Config = Vec<LayerConfig>;

    fn from_config(config: Vec<LayerConfig>) -> Result<Sequential> {
        Sequential::new(config)
    }

    fn config(&self) -> &Vec<LayerConfig> {
        &self.config
    }

    fn specs(&self) -> Vec<ParamSpec> {
        self.layers.specs()
    }

    fn state_specs(&self) -> Vec<ParamSpec> {
        self.layers.state_specs()
    }

    fn is_random(&self) -> bool {
        self.layers.is_random()
    }

    fn forward<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        input: &B::Value,
        mode: &Mode<B::Value>,
    ) -> Result<(B::Value, Params<B::Value>)> {
        self.layers.run(b, params, state, input, mode)
    }
}
