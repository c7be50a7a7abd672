//! Language-model inference: decoding with a cache of keys and values, sampling, and vectors of texts.
//!
//! | module | what |
//! |---|---|
//! | [`inference`] | many sequences over one cache of keys and values in blocks |
//! | [`decode`] | programs over such a cache, of any forward that was traced |
//! | [`pool`], [`sequence`] | the memory of such a cache, and who owns which part of it |
//! | [`states`] | what recurrent layers keep of a sequence there |
//! | [`generate`] | generation of one sequence, as a step machine over token ids |
//! | [`embed`] | vectors of texts, by an encoder and a pooling of its output |
//! | [`pretrained`] | models that others have trained, from a GGUF file or a folder of Hugging Face |
//! | [`sampling`] | from logits to a token: greedy, temperature, top-k, top-p, min-p, repetition penalty |
//!
//! Generation knows ids alone. A tokenizer makes them of a text, and a streaming decoder a text of them; those that come
//! with a model are [`pretrained::Texts`].

mod blocks;
mod cache;
pub mod decode;
mod draw;
#[cfg(feature = "tokenizer")]
pub mod embed;
pub mod generate;
pub mod inference;
mod pieces;
pub mod pool;
pub mod pretrained;
mod programs;
mod reservation;
pub mod sampling;
pub mod sequence;
pub mod states;

pub use cache::KvDtype;
pub use decode::{DecodeProgram, DecodeRequest, Traced};
pub use draw::Draw;
#[cfg(feature = "tokenizer")]
pub use embed::Embedder;
pub use generate::{Finish, Generation, GenerationOptions, Generator};
pub use inference::{Inference, InferenceOptions, InferenceStats, SequenceId};
pub use lanthorn_nn::KeyValueShape;
pub use pool::{Pool, PoolOptions, PoolStats};
pub use pretrained::Pretrained;
pub use sampling::Sampling;
pub use sequence::Sequence;
pub use states::{ConvShape, DeltaShape, StateShapes};
