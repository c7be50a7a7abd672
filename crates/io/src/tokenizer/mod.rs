//! Tokenizers: BPE, WordPiece, Unigram and whole words, their file, `tokenizer.json`, and what a GGUF file carries.
//!
//! The work is the `tokenizers` crate's: it trains, encodes and decodes, and its JSON is what other tools read. This
//! module adds what a training run needs around it: a [training](Training) that gives the same bytes for the same text,
//! texts of any length in bounded memory, ids that are checked, text that streams out as whole characters, batches of
//! [one shape](Policy), and one clear sentence for a file that is no tokenizer.
//!
//! A language model's is byte-level: the alphabet is the 256 bytes, so every text can be encoded and there is no unknown
//! token (Radford et al., *Language Models are Unsupervised Multitask Learners*, 2019, section 2.2).

mod beginning;
mod bytes;
mod check;
mod cuts;
mod decoding;
mod encoder;
mod gguf;
mod ids;
mod library;
mod ordinary;
mod policy;
mod stream;
mod training;
mod words;

pub use encoder::{Encoder, Encoding, Input};
pub use gguf::Roles;
pub use ids::{Fill, Table};
pub use policy::{InText, PadTo, Padding, Policy, Side, Template, Truncation, TruncationStrategy};
pub use stream::StreamDecoder;
pub use training::{Algorithm, Progress, Report, Training};

use crate::error::shorten;
use crate::{Error, Result, atomic, json, text};
use bytes::Bytes;
use cuts::Cuts;
use sha2::{Digest, Sha256};
use std::path::Path;
use tokenizers::DecoderWrapper;

/// The most bytes that are read of a `tokenizer.json`. Those of the largest vocabularies have a tenth of it.
pub const MOST_BYTES: u64 = 512 << 20;

/// What becomes of special tokens when ids are turned into text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    /// They appear as they are written in the vocabulary.
    Keep,
    /// They are left out.
    Skip,
}

/// A tokenizer: text to ids and back.
///
/// ```
/// use lanthorn_io::tokenizer::{SpecialTokens, Tokenizer};
/// let book = "It is a truth universally acknowledged. ".repeat(20);
/// let tokenizer = Tokenizer::train_bpe([book.as_str()], 300, &["<|endoftext|>"]).unwrap();
///
/// let ids = tokenizer.encode("a universal truth – naïve").unwrap();
/// assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).unwrap(), "a universal truth – naïve");
/// assert!(tokenizer.vocab_size() <= 300);
/// assert_eq!(tokenizer.id("<|endoftext|>"), Some(0));
/// ```
#[derive(Clone)]
pub struct Tokenizer {
    /// Without truncation and padding.
    inner: tokenizers::Tokenizer,
    policy: Policy,
    /// The serialised form, which is also the file.
    json: String,
    vocab_size: usize,
    /// The bytes of each token, where the tokenizer is byte-level.
    bytes: Option<Bytes>,
    /// Where a text may be cut without changing its ids.
    cuts: Cuts,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`. Truncation and padding that it asks for are its [`policy`](Tokenizer::policy).
    ///
    /// # Errors
    ///
    /// `io`: the file cannot be read. `format`: it is not a tokenizer of this format.
    pub fn load(path: impl AsRef<Path>) -> Result<Tokenizer> {
        let path = path.as_ref();
        Tokenizer::from_json(&path.display().to_string(), &text::read_at_most(path, MOST_BYTES)?)
    }

    /// Reads the text of a `tokenizer.json`; `subject` names it in errors.
    ///
    /// # Errors
    ///
    /// `format`: it is not a tokenizer of this format.
    pub fn from_json(subject: &str, text: &str) -> Result<Tokenizer> {
        let refuse = |found: String| Error::format(subject, found, check::EXPECTED);
        if text.trim().is_empty() {
            return Err(refuse("the file is empty".to_owned()));
        }
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| refuse(format!("it is not JSON: {}", shorten(&json::plain(&error)))))?;
        if value.get("model").is_none_or(|model| !model.is_object()) {
            return Err(refuse("it is JSON and not a tokenizer: there is no `model` in it".to_owned()));
        }
        check::of_file(&value).map_err(|refusal| refusal.of(subject))?;
        let parsed = library::call(|| tokenizers::Tokenizer::from_bytes(text));
        let inner = match parsed {
            Ok(inner) => inner,
            Err(library::Fault::Refused(error)) => {
                return Err(refuse(format!(
                    "it is not a tokenizer: {}",
                    shorten(&json::in_words(&error.to_string()))
                )));
            }
            Err(library::Fault::Panicked(_)) => {
                return Err(refuse("the tokenizer contradicts itself".to_owned()));
            }
        };
        check::of_parts(&value, &inner).map_err(|refusal| refusal.of(subject))?;
        Tokenizer::new(subject, inner)
    }

    fn new(subject: &str, mut inner: tokenizers::Tokenizer) -> Result<Tokenizer> {
        let vocabulary = inner.get_vocab(true);
        let vocab_size = vocabulary.values().max().map_or(0, |id| *id as usize + 1);
        // Whoever sizes a table by the vocabulary must not be led astray by one entry.
        if vocab_size > 2 * vocabulary.len() + 1024 {
            return Err(Error::format(
                subject,
                format!("{} tokens have ids up to {}", vocabulary.len(), vocab_size - 1),
                "ids must be numbered without large gaps",
            ));
        }
        let unwritable =
            |error: tokenizers::Error| Error::format(subject, error.to_string(), "it must be writable");
        let json = inner.to_string(true).map_err(unwritable)?;
        let policy = Policy::of(&inner);
        inner.with_padding(None);
        inner.with_truncation(None).map_err(unwritable)?;
        let bytes = matches!(inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_)))
            .then(|| Bytes::new(&inner, &vocabulary, vocab_size));
        let cuts = Cuts::of(&inner);
        Ok(Tokenizer { inner, policy, json, vocab_size, bytes, cuts })
    }

    /// Writes `tokenizer.json`, all of it or nothing ([`crate::atomic`]).
    ///
    /// # Errors
    ///
    /// `io`: the file cannot be written; the old one is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        atomic::write(path, self.json.as_bytes())
    }

    /// The text of the file that [`Tokenizer::save`] writes.
    pub fn to_json(&self) -> &str {
        &self.json
    }

    /// How many rows an embedding needs: the largest id and one.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The id of a token, by its name in the vocabulary. In a byte-level vocabulary a blank is written `Ġ`.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The name of a token in the vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// SHA-256 of [`Tokenizer::to_json`] without truncation and padding, in lower-case hexadecimal. A checkpoint keeps
    /// it, so that a model is not run with another vocabulary than it was trained with. How the file was laid out does
    /// not matter.
    pub fn content_hash(&self) -> String {
        let has_policy = self.policy.truncation.is_some() || self.policy.padding.is_some();
        // What could be written once can be written again.
        let bare = has_policy.then(|| self.inner.to_string(true).unwrap_or_default());
        let json = bare.as_ref().unwrap_or(&self.json);
        Sha256::digest(json.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The ids of a text: `[tokens]`. Special tokens that stand in the text are recognised; none are added.
    ///
    /// # Errors
    ///
    /// `format`: the text cannot be encoded, which does not happen with a byte-level vocabulary, or is too long where it
    /// cannot be read in pieces: a word of more than 2 MiB, or more than 8 MiB where the tokenizer splits by rules that
    /// may look at the whole text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_unless(text, &|| false)
    }

    /// The same, unless it is to stop: `is_cancelled` is asked from any thread, before each piece and each word.
    ///
    /// # Errors
    ///
    /// As [`Tokenizer::encode`]; `cancelled`.
    ///
    /// ```
    /// use lanthorn_io::{ErrorKind, tokenizer::Tokenizer};
    /// let tokenizer = Tokenizer::train_bpe(["aa"], 256, &[]).unwrap();
    /// let stopped = tokenizer.encode_unless("aa", &|| true).unwrap_err();
    /// assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    /// ```
    pub fn encode_unless(&self, text: &str, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Result<Vec<u32>> {
        let ids = ids::of_words(&self.inner, self.cuts, text, is_cancelled)?;
        match self.inner.get_post_processor() {
            Some(processor) => ids::put_around(processor, ids, Template::Leave),
            None => Ok(ids),
        }
    }

    /// The text of ids. Bytes that make no character become U+FFFD.
    ///
    /// # Errors
    ///
    /// `format`: an id is not in the vocabulary.
    pub fn decode(&self, ids: &[u32], special_tokens: SpecialTokens) -> Result<String> {
        if let Some(bytes) = &self.bytes {
            let mut text = Vec::with_capacity(4 * ids.len());
            for id in ids {
                text.extend_from_slice(bytes.get(*id, special_tokens).ok_or_else(|| self.no_such_id(*id))?);
            }
            return Ok(String::from_utf8(text)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()));
        }
        if let Some(id) = ids.iter().find(|id| self.inner.id_to_token(**id).is_none()) {
            return Err(self.no_such_id(*id));
        }
        decoding::decode(&self.inner, ids, special_tokens == SpecialTokens::Skip)
            .map_err(|fault| fault.of("ids", "the tokenizer cannot decode them"))
    }

    /// A decoder that takes ids one by one and gives text as soon as its characters are complete.
    pub fn stream(&self, special_tokens: SpecialTokens) -> StreamDecoder<'_> {
        StreamDecoder::new(self, special_tokens)
    }

    fn no_such_id(&self, id: u32) -> Error {
        Error::format(
            "ids",
            format!("there is no token {id}"),
            match self.vocab_size {
                0 => "the vocabulary is empty".to_owned(),
                size => format!("ids go from 0 to {}", size - 1),
            },
        )
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
