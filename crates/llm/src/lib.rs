//! Language-model inference: decoding with a cache of keys and values, and sampling.
//!
//! | module | what |
//! |---|---|
//! | [`generate`] | a model with its programs, and generation as a step machine over token ids |
//! | [`sampling`] | from logits to a token: greedy, temperature, top-k, top-p, repetition penalty |
//!
//! Text is none of this crate's business: a tokenizer makes ids of it and a streaming decoder text of ids.

pub mod generate;
mod pieces;
pub mod sampling;

pub use generate::{Finish, Generation, GenerationOptions, Generator};
pub use sampling::Sampling;
