//! Layers: what a model is put together from.
//!
//! A layer knows its own name in the model, says which parameters it has and computes its value within a forward pass
//! ([`Layer`], [`Pass`]). Weights of linear maps are `[out, in]`, and names and shapes of parameters are those of torch.

mod activation;
mod attention;
mod batch_norm;
mod convolution;
mod dropout;
mod embedding;
mod encoder_attention;
mod gated_mlp;
mod group_norm;
mod layer;
mod linear;
mod mlp;
mod multi_head;
mod norm;
mod plain;
mod pool;
mod recurrent;
mod rotary_attention;

pub use activation::{Activation, Flatten, Reshape};
pub use attention::SelfAttention;
pub use batch_norm::{BatchNorm, BatchNormConfig};
pub use convolution::{Conv, ConvConfig, Direction, Padding};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use encoder_attention::EncoderAttention;
pub use gated_mlp::GatedMlp;
pub use group_norm::{GroupNorm, GroupNormConfig};
pub use layer::{Branches, Checkpoint, Join, Layer, Pass, Residual};
pub use linear::Linear;
pub use mlp::Mlp;
pub use multi_head::{MultiHeadAttention, MultiHeadConfig};
pub use norm::{LayerNorm, RmsNorm};
pub use plain::Positions;
pub use pool::{Pool, PoolKind, Windows};
pub use recurrent::{Cell, Output, Recurrent, RecurrentConfig};
pub use rotary_attention::{HeadSizes, RotaryAttention, Rotation, RotationScaling};
