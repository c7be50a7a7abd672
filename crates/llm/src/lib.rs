//! Language-model inference: decoding with a cache of keys and values, sampling, and vectors of texts.
//!
//! | module | what |
//! |---|---|
//! | [`embed`] | vectors of texts, by an encoder and a pooling of its output |
//! | [`generate`] | a model with its programs, and generation as a step machine over token ids |
//! | [`pretrained`] | models that others have trained, from a GGUF file or a folder of Hugging Face |
//! | [`sampling`] | from logits to a token: greedy, temperature, top-k, top-p, repetition penalty |
//!
//! Generation knows ids alone. A tokenizer makes them of a text, and a streaming decoder a text of them; those that come
//! with a model are [`pretrained::Texts`].

pub mod embed;
pub mod generate;
mod pieces;
pub mod pretrained;
pub mod sampling;

pub use embed::Embedder;
pub use generate::{Finish, Generation, GenerationOptions, Generator};
pub use pretrained::Pretrained;
pub use sampling::Sampling;
