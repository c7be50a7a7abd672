//! The tokenizer that a GGUF file carries in its metadata.
//!
//! | key | what |
//! |---|---|
//! | `tokenizer.ggml.model` | `gpt2`: byte-level BPE; `llama`: SentencePiece's BPE |
//! | `tokenizer.ggml.pre` | how `gpt2` splits a text into words; see `splits.rs` |
//! | `tokenizer.ggml.tokens` | the tokens by id |
//! | `tokenizer.ggml.token_type` | for each a type: normal, unknown, control, user-defined, unused, byte |
//! | `tokenizer.ggml.merges` | of `gpt2`: pairs of tokens, with a blank between, the first merged first |
//! | `tokenizer.ggml.scores` | of `llama`: for each token a score; the pair whose merge has the highest is merged first |
//! | `tokenizer.ggml.bos_token_id` ... | tokens with a role; see [`Roles`] |
//!
//! A text is taken as it is. Some models' own tokenizers compose its characters first (Qwen 2: NFC); llama.cpp does not,
//! and a file does not say.

mod roles;
mod splits;

pub use roles::Roles;
pub(super) use splits::Splits;

use super::Tokenizer;
use crate::error::shorten;
use crate::gguf::Metadata;
use crate::{Error, Result};
use std::collections::HashMap;
use tokenizers::AddedToken;
use tokenizers::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::prepend::Prepend;
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::utils::Sequence as Normalizers;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const SCORES: &str = "tokenizer.ggml.scores";
const ADD_BLANK: &str = "tokenizer.ggml.add_space_prefix";

/// Types of tokens: `llama_token_type` of llama.cpp's `llama.h`.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// How SentencePiece writes a blank.
const BLANK: &str = "\u{2581}";

/// SentencePiece makes no longer tokens than 16 characters unless told to. The work of finding the merges that lead to a
/// token grows with its length squared.
const LONGEST_PIECE: usize = 256;

/// A token of `llama` has about two merges that lead to it. A vocabulary made to have many would take far more memory
/// than its file.
const MERGES_PER_TOKEN: usize = 16;

impl Tokenizer {
    /// The tokenizer that a GGUF file carries.
    ///
    /// Control tokens become special tokens; user-defined ones are recognised in a text as well, and are kept where
    /// special tokens are skipped.
    ///
    /// # Errors
    ///
    /// `format`: the file carries no tokenizer, or one of a kind that is not read (`bert`, `t5`, `rwkv` ...), a way to
    /// split words that is not known, or what contradicts itself.
    ///
    /// ```
    /// use lanthorn_io::gguf::Metadata;
    /// use lanthorn_io::tokenizer::{Roles, Tokenizer};
    /// let strings = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    /// let mut metadata = Metadata::new("example");
    /// metadata.insert("tokenizer.ggml.model", "gpt2");
    /// metadata.insert("tokenizer.ggml.pre", "smollm");
    /// metadata.insert("tokenizer.ggml.tokens", strings(&["<|im_end|>", "a", "b", "ab"]));
    /// metadata.insert("tokenizer.ggml.token_type", vec![3, 1, 1, 1]);
    /// metadata.insert("tokenizer.ggml.merges", strings(&["a b"]));
    /// metadata.insert("tokenizer.ggml.eos_token_id", 0u32);
    ///
    /// let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    /// assert_eq!(tokenizer.encode("abba<|im_end|>").unwrap(), [3, 2, 1, 0]);
    /// assert_eq!(Roles::from_gguf(&metadata).unwrap().ends, [0]);
    /// ```
    pub fn from_gguf(metadata: &Metadata) -> Result<Tokenizer> {
        let vocabulary = Vocabulary::read(metadata)?;
        let model: &str = metadata.require(MODEL)?;
        let mut inner = match model {
            "gpt2" => byte_level(metadata, &vocabulary)?,
            "llama" => sentence_piece(metadata, &vocabulary)?,
            other => {
                return Err(metadata.refuse(
                    MODEL,
                    &format!("is `{}`", shorten(other)),
                    "`gpt2` and `llama` are read",
                ));
            }
        };
        inner.add_tokens(vocabulary.added()).map_err(|error| refuse(metadata, TOKENS, &error))?;
        Tokenizer::new(metadata.subject(), inner)
    }
}

/// The tokens of a file and their types, as many as tokens.
struct Vocabulary<'a> {
    tokens: &'a [String],
    types: Option<&'a [i32]>,
}

impl<'a> Vocabulary<'a> {
    fn read(metadata: &'a Metadata) -> Result<Vocabulary<'a>> {
        let tokens: &[String] = metadata.require(TOKENS)?;
        if tokens.is_empty() || u32::try_from(tokens.len()).is_err() {
            return Err(metadata.refuse(
                TOKENS,
                &format!("has {} entries", tokens.len()),
                "a vocabulary would be right",
            ));
        }
        let types: Option<&[i32]> = metadata.get(TYPES)?;
        check_length(metadata, TYPES, types.map(<[i32]>::len), tokens.len())?;
        Ok(Vocabulary { tokens, types })
    }

    fn type_of(&self, id: usize) -> i32 {
        self.types.and_then(|types| types.get(id).copied()).unwrap_or(NORMAL)
    }

    /// The ids by token. A token without a text is named by its number, as llama.cpp does: it is in no text, and the
    /// numbers after it stay what they are.
    fn ids(&self, metadata: &Metadata) -> Result<HashMap<String, u32>> {
        let mut ids = HashMap::with_capacity(self.tokens.len());
        for (id, token) in self.tokens.iter().enumerate() {
            let name = if token.is_empty() { format!("[EMPTY_{id}]") } else { token.clone() };
            if let Some(first) = ids.insert(name, id as u32) {
                return Err(metadata.refuse(
                    TOKENS,
                    &format!("has `{}` at {first} and at {id}", shorten(token)),
                    "tokens must be unique",
                ));
            }
        }
        Ok(ids)
    }

    /// The tokens that are recognised in a text before it is split.
    fn added(&self) -> impl Iterator<Item = AddedToken> {
        self.tokens.iter().enumerate().filter_map(|(id, token)| {
            let kind = self.type_of(id);
            matches!(kind, UNKNOWN | CONTROL | USER_DEFINED)
                .then(|| AddedToken::from(token.as_str(), kind != USER_DEFINED).normalized(false))
        })
    }
}

/// A list beside the tokens must have as many entries.
fn check_length(metadata: &Metadata, key: &str, length: Option<usize>, tokens: usize) -> Result<()> {
    match length {
        Some(length) if length != tokens => Err(metadata.refuse(
            key,
            &format!("has {length} entries"),
            &format!("one for each of the {tokens} tokens would be right"),
        )),
        _ => Ok(()),
    }
}

fn refuse(metadata: &Metadata, key: &str, error: &tokenizers::Error) -> Error {
    metadata.refuse(
        key,
        &format!("makes no tokenizer: {}", shorten(&error.to_string())),
        "a vocabulary would be right",
    )
}

/// `gpt2`: the vocabulary's characters stand for bytes.
fn byte_level(metadata: &Metadata, vocabulary: &Vocabulary<'_>) -> Result<tokenizers::Tokenizer> {
    let pre = metadata.get::<&str>(PRE)?.unwrap_or("default");
    let Some(splits) = Splits::named(pre) else {
        return Err(metadata.refuse(
            PRE,
            &format!("is `{}`", shorten(pre)),
            &format!("known are {} and others", Splits::known()),
        ));
    };
    let ids = vocabulary.ids(metadata)?;
    let merges = read_merges(metadata, &ids)?;
    let model = BPE::builder()
        .vocab_and_merges(ids.into_iter().collect::<Vocab>(), merges)
        .ignore_merges(splits.takes_whole_words)
        .build()
        .map_err(|error| refuse(metadata, MERGES, &error))?;

    let mut inner = tokenizers::Tokenizer::new(model);
    let pre_tokenizer = splits.pre_tokenizer().map_err(|error| refuse(metadata, PRE, &error))?;
    inner.with_pre_tokenizer(Some(pre_tokenizer));
    inner.with_decoder(Some(ByteLevel::new(false, true, true)));
    Ok(inner)
}

/// Pairs of tokens, each with a blank between, whose parts and whole are in the vocabulary.
fn read_merges(metadata: &Metadata, ids: &HashMap<String, u32>) -> Result<Merges> {
    let merges: &[String] = metadata.require(MERGES)?;
    let mut whole = String::new();
    let mut pairs = Merges::with_capacity(merges.len());
    for (at, merge) in merges.iter().enumerate() {
        // A token that is a blank itself stands first.
        let second = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
        let pair = second.map(|second| (&merge[..second], &merge[second + 1..]));
        let known = pair.filter(|(left, right)| {
            whole.clear();
            whole.push_str(left);
            whole.push_str(right);
            [left, right, whole.as_str()].into_iter().all(|part| ids.contains_key(part))
        });
        match known {
            Some((left, right)) => pairs.push((left.to_owned(), right.to_owned())),
            None => {
                return Err(metadata.refuse(
                    MERGES,
                    &format!("has `{}` at {at}", shorten(merge)),
                    "two tokens that make a third would be right, with a blank between",
                ));
            }
        }
    }
    Ok(pairs)
}

/// `llama`: pieces of text with `▁` for blanks, and bytes for what has no piece.
fn sentence_piece(metadata: &Metadata, vocabulary: &Vocabulary<'_>) -> Result<tokenizers::Tokenizer> {
    let scores: &[f32] = metadata.require(SCORES)?;
    check_length(metadata, SCORES, Some(scores.len()), vocabulary.tokens.len())?;
    let merges = merges_by_score(metadata, vocabulary, scores)?;
    let ids = vocabulary.ids(metadata)?;
    let mut model = BPE::builder()
        .vocab_and_merges(ids.into_iter().collect::<Vocab>(), merges)
        .byte_fallback(true)
        .fuse_unk(true);
    let unknown = (0..vocabulary.tokens.len()).find(|id| vocabulary.type_of(*id) == UNKNOWN);
    if let Some(unknown) = unknown {
        model = model.unk_token(vocabulary.tokens[unknown].clone());
    }
    let model = model.build().map_err(|error| refuse(metadata, SCORES, &error))?;

    let refused = |error: tokenizers::Error| refuse(metadata, MODEL, &error);
    let adds_blank = metadata.get(ADD_BLANK)?.unwrap_or(true);
    let mut normalizers = vec![Replace::new(" ", BLANK).map_err(refused)?.into()];
    let mut decoders: Vec<DecoderWrapper> = vec![
        Replace::new(BLANK, " ").map_err(refused)?.into(),
        ByteFallback::new().into(),
        Fuse::new().into(),
    ];
    if adds_blank {
        normalizers.insert(0, Prepend::new(BLANK.to_owned()).into());
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    let mut inner = tokenizers::Tokenizer::new(model);
    inner.with_normalizer(Some(Normalizers::new(normalizers))).map_err(refused)?;
    inner.with_decoder(Some(Decoders::new(decoders)));
    Ok(inner)
}

/// SentencePiece merges the pair whose whole has the highest score; a list of merges says the same when it has every pair
/// that makes a token, by falling score of the token. (Of two pairs that make the same token, SentencePiece takes the one
/// that stands first in the text, and here the longer left part goes first: `aaaa` may differ.)
fn merges_by_score(metadata: &Metadata, vocabulary: &Vocabulary<'_>, scores: &[f32]) -> Result<Merges> {
    let pieces: HashMap<&str, usize> = vocabulary
        .tokens
        .iter()
        .enumerate()
        .filter(|(id, _)| vocabulary.type_of(*id) == NORMAL)
        .map(|(id, token)| (token.as_str(), id))
        .collect();
    let most = MERGES_PER_TOKEN * vocabulary.tokens.len();
    let mut found: Vec<(f32, &str, &str)> = Vec::new();
    for (token, id) in &pieces {
        if token.len() > LONGEST_PIECE {
            return Err(metadata.refuse(
                TOKENS,
                &format!("has a token of {} bytes at {id}", token.len()),
                &format!("SentencePiece's have at most {LONGEST_PIECE}"),
            ));
        }
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if pieces.contains_key(left) && pieces.contains_key(right) {
                found.push((scores[*id], left, right));
            }
        }
        if found.len() > most {
            return Err(metadata.refuse(
                TOKENS,
                &format!("has more than {MERGES_PER_TOKEN} ways to make each token from two"),
                "a vocabulary that SentencePiece has trained would be right",
            ));
        }
    }
    found.sort_unstable_by(|one, other| {
        let by_score = other.0.total_cmp(&one.0);
        by_score.then(other.1.len().cmp(&one.1.len())).then(one.1.cmp(other.1)).then(one.2.cmp(other.2))
    });
    Ok(found.into_iter().map(|(_, left, right)| (left.to_owned(), right.to_owned())).collect())
}

#[cfg(test)]
mod tests;
