//! Files: safetensors, GGUF, archives of torch, checkpoints, tokenizers, chat templates and texts.
//!
//! Everything that Lanthorn reads from a file may come from a stranger and everything that it writes may be
//! interrupted, so two rules hold in this crate:
//!
//! - **Reading** never panics, never allocates by what a header claims, and refuses with one sentence that names the
//!   file, what was found and what would be right ([`Error`]).
//! - **Writing** goes through [`atomic`]: after any failure the old file is what it was.
//!
//! | module | what |
//! |---|---|
//! | [`atomic`] | the one way to write a file |
//! | [`safetensors`] | named tensors in a file, read without copying |
//! | [`gguf`] | a model in one file: metadata and packed tensors, read without copying |
//! | [`checkpoint`] | a training run's state: JSON documents and tensors in one safetensors file |
//! | [`tokenizer`] | training, `tokenizer.json`, a GGUF file's vocabulary, encoding, decoding, streaming |
//! | [`chat`] | conversations as the text that a model wants, by its template |
//! | [`archive`] | the entries of ZIP and tar archives |
//! | [`torch`] | the tensors of a file that `torch.save` has written |
//! | [`text`] | a UTF-8 text file |
//! | [`json`] | JSON that somebody else wrote, and what is wrong with it in words |
//!
//! The crate also builds for `wasm32-unknown-unknown` with `default-features = false`; there files cannot be opened,
//! and every format is read from bytes.

pub mod archive;
pub mod atomic;
mod bytes;
#[cfg(feature = "tokenizer")]
pub mod chat;
pub mod checkpoint;
mod error;
mod file;
pub mod gguf;
pub mod json;
mod lock;
pub mod safetensors;
pub mod text;
#[cfg(feature = "tokenizer")]
pub mod tokenizer;
pub mod torch;

#[cfg(feature = "tokenizer")]
pub use chat::ChatTemplate;
pub use checkpoint::Checkpoint;
pub use error::{Error, ErrorKind, Result, escaped, shown_shape};
pub use gguf::Gguf;
pub use lock::FolderLock;
pub use safetensors::{OwnedTensor, Tensors, View};
#[cfg(feature = "tokenizer")]
pub use tokenizer::Tokenizer;
