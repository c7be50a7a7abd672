//! Models in one file: the [GGUF] format of llama.cpp, read without copying and written atomically.
//!
//! A file is the magic `GGUF`, a version, two counts, the metadata (typed values by key: the architecture, its sizes, the
//! tokenizer), a list of tensors, and their bytes, each tensor at a multiple of `general.alignment`. Everything is
//! little-endian. Versions 2 and 3 have the same layout; a big-endian file is refused by name.
//!
//! The format gives a tensor's sizes innermost first. Here they are a **shape** as everywhere in this project: row-major,
//! outermost first. A matrix that llama.cpp prints as `[576, 49152]` has the shape `[49152, 576]`; the bytes are the same.
//!
//! Weights are mostly **packed**: an [`Encoding`] says how many elements one block of the last axis holds and in how many
//! bytes. [`View::bytes`] are those blocks as they lie in the file, for a kernel that reads them directly.
//!
//! Nothing in a file is believed: each length, count, offset and type is held against the bytes that are there before
//! anything is allocated, so reading takes memory in proportion to the file's header and no more.
//!
//! [GGUF]: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

mod cursor;
mod metadata;
mod read;
mod value;
mod write;

pub use lanthorn_blocks::Encoding;
pub use metadata::{FromValue, Metadata};
pub use read::{Gguf, Iter, View};
pub use value::{Array, Value};
pub use write::{save, to_bytes, write_to};

/// The first four bytes of a file.
const MAGIC: [u8; 4] = *b"GGUF";

/// What tensors are aligned to where [`ALIGNMENT_KEY`] is missing.
const DEFAULT_ALIGNMENT: u32 = 32;

/// The metadata's key of the tensors' alignment in bytes.
const ALIGNMENT_KEY: &str = "general.alignment";

/// The longest key that the format allows, in bytes.
const MAX_KEY: usize = 65_535;

/// The most axes that a tensor may have; the format's own limit, "currently".
const MAX_AXES: usize = 4;

#[cfg(test)]
mod tests;
