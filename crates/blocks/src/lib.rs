//! Elements packed in blocks that share a scale: the encodings of ggml, as GGUF files hold them.
//!
//! [`Encoding`] says how elements are stored; [`Encoding::unpack`] and [`Encoding::pack`] go from blocks to numbers and
//! back, bit for bit as ggml does. Files, the reference of the engine and the kernels share them.

mod encoding;
mod pack;
mod unpack;

pub use encoding::{Encoding, describe_unknown, known};
