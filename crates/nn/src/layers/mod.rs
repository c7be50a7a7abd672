//! Layers: what a model is put together from.
//!
//! A layer knows its own name in the model, says which parameters it has (`specs`) and applies them (`forward`).
//! Weights of linear maps are `[out, in]`, as in torch.

mod attention;
mod dropout;
mod embedding;
mod encoder_attention;
mod gated_mlp;
mod linear;
mod mlp;
mod norm;
mod rotary_attention;

pub use attention::SelfAttention;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use encoder_attention::EncoderAttention;
pub use gated_mlp::GatedMlp;
pub use linear::Linear;
pub use mlp::Mlp;
pub use norm::{LayerNorm, RmsNorm};
pub use rotary_attention::{HeadSizes, RotaryAttention, Rotation, RotationScaling};
