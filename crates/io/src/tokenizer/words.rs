//! A text to tokens, word by word: what the library's `encode` does, which cannot be stopped.
//!
//! How long a text is that is read at once, and a word in it, has a bound: the library keeps some 50 bytes for each byte of
//! a text and as many for each byte of a word, and merges the pairs of a word in a time that grows with its length.

use super::library::{self, Fault};
use crate::{Error, Result};
use tokenizers::models::ModelWrapper;
use tokenizers::tokenizer::pre_tokenizer::OffsetType;
use tokenizers::{Encoding, Model, PreTokenizer};

/// Asked from any thread, often: true to stop.
pub(super) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Nobody wants it stopped.
pub(super) const NEVER: Stop<'static> = &|| false;

/// The most bytes of a text that is read at once.
pub(super) const LONGEST_TEXT: usize = 8 << 20;

/// The most bytes of a word: of what lies between two places where the tokenizer splits.
pub(super) const LONGEST_WORD: usize = 2 << 20;

/// The most characters of a word in which WordPiece looks for pieces: from each beginning it tries each end.
const LONGEST_IN_PIECES: usize = 4096;

/// The tokens of a text without what is put around it, cut off or filled up.
///
/// # Errors
///
/// `cancelled`; `format`: the vocabulary lacks what the text needs and an unknown token as well; the text is longer than
/// [`LONGEST_TEXT`] or has a word longer than [`LONGEST_WORD`].
pub(super) fn encode(
    tokenizer: &tokenizers::Tokenizer,
    text: &str,
    offsets: OffsetType,
    stop: Stop<'_>,
) -> Result<Encoding> {
    if text.len() > LONGEST_TEXT {
        return Err(Error::format(
            "text",
            format!("it has {} bytes, and the tokenizer has no place where it could be cut", text.len()),
            format!("at most {LONGEST_TEXT} are read at once"),
        ));
    }
    let check = || match stop() {
        true => Err(Error::Cancelled { subject: "text".to_owned() }),
        false => Ok(()),
    };
    let whole_words = match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) => Some(model.max_input_chars_per_word),
        _ => None,
    };
    check()?;
    library::call(|| {
        let normalizer = tokenizer.get_normalizer();
        let mut words = tokenizer.get_added_vocabulary().extract_and_normalize(normalizer, text);
        check()?;
        if let Some(rule) = tokenizer.get_pre_tokenizer() {
            rule.pre_tokenize(&mut words)?;
        }
        words.tokenize(|word| {
            check()?;
            check_length(word.get(), whole_words)?;
            tokenizer.get_model().tokenize(word.get())
        })?;
        words.into_encoding(None, 0, offsets)
    })
    .map_err(|fault| unreadable(fault))
}

/// Refuses a word that would take too long. WordPiece takes one of more than `whole_words` characters whole.
fn check_length(word: &str, whole_words: Option<usize>) -> Result<()> {
    if word.len() > LONGEST_WORD {
        return Err(Error::format(
            "text",
            format!("it has a word of {} bytes", word.len()),
            format!("at most {LONGEST_WORD} are read as one word"),
        ));
    }
    let Some(most) = whole_words.filter(|most| *most > LONGEST_IN_PIECES) else { return Ok(()) };
    let characters = word.chars().count();
    if characters > LONGEST_IN_PIECES && characters <= most {
        return Err(Error::format(
            "text",
            format!(
                "it has a word of {characters} characters, and `model.max_input_chars_per_word` is {most}"
            ),
            format!("WordPiece looks for pieces in at most {LONGEST_IN_PIECES} characters"),
        ));
    }
    Ok(())
}

pub(super) fn unreadable(fault: Fault) -> Error {
    fault.of("text", "the tokenizer cannot encode it")
}
