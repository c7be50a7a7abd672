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
    .map_err(unreadable)
}

/// Refuses a word that would take too long. WordPiece takes one of more than `whole_words` characters whole, without a look.
fn check_length(word: &str, whole_words: Option<usize>) -> Result<()> {
    if whole_words.is_some_and(|most| most <= LONGEST_IN_PIECES) {
        return Ok(());
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::tokenizer::{Policy, Tokenizer, Truncation};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Words of bytes, and one tokenizer that does not say where its words end.
    fn tokenizers() -> [Tokenizer; 2] {
        let trained = Tokenizer::train_bpe(["aa aa"], 258, &[]).unwrap();
        let unknown = trained.to_json().replace("\"use_regex\": true", "\"use_regex\": false");
        [trained, Tokenizer::from_json("unknown", &unknown).unwrap()]
    }

    #[test]
    fn a_word_or_a_text_beyond_all_measure_is_refused() {
        let [words, unknown] = tokenizers();
        let policy = Policy { truncation: Some(Truncation::new(9)), ..Policy::default() };
        let long = "a".repeat(LONGEST_WORD + 1);
        let right = "text: it has a word of 2097153 bytes; at most 2097152 are read as one word";
        for found in [
            words.encode(&long).map(drop),
            words.encode(&format!("a b\n{long} a")).map(drop),
            unknown.encode(&long).map(drop),
            words.encoder(&policy).unwrap().encode_ids(&[&long], NEVER).map(drop),
            words.encoder(&policy).unwrap().encode(&long).map(drop),
            words.encoder(&policy).unwrap().kept_ids(&long).map(drop),
        ] {
            assert_eq!(found.unwrap_err().to_string(), right);
        }
        let text = "aa ".repeat(LONGEST_TEXT / 3 + 1);
        assert_eq!(
            unknown.encode(&text).unwrap_err().to_string(),
            "text: it has 8388609 bytes, and the tokenizer has no place where it could be cut; \
             at most 8388608 are read at once"
        );
        // Where it is known how words end, a text may have any length.
        // A word and its blank each.
        assert_eq!(words.encode(&text).unwrap().len(), 2 * (LONGEST_TEXT / 3 + 1));
        let whole: Vec<u32> = words.encode(&"a".repeat(LONGEST_WORD)).unwrap();
        assert_eq!(whole.len(), LONGEST_WORD / 2);
    }

    #[test]
    fn word_piece_looks_for_pieces_in_words_alone() {
        let json = |most: usize| {
            let model = r#""unk_token": "?", "continuing_subword_prefix": "", "vocab": {"?": 0, "a": 1}"#;
            format!(
                r#"{{"model": {{"type": "WordPiece", "max_input_chars_per_word": {most}, {model}}},
                     "pre_tokenizer": {{"type": "WhitespaceSplit"}}}}"#
            )
        };
        let read = |most: usize| Tokenizer::from_json("t", &json(most)).unwrap();
        let long = "a".repeat(LONGEST_IN_PIECES + 1);
        assert_eq!(read(100).encode(&long).unwrap(), [0]);
        assert_eq!(read(100).encode(&"a".repeat(LONGEST_WORD + 1)).unwrap(), [0]);
        assert_eq!(read(usize::MAX).encode("aa a").unwrap(), [1, 1, 1]);
        assert_eq!(
            read(5000).encode(&long).unwrap_err().to_string(),
            "text: it has a word of 4097 characters, and `model.max_input_chars_per_word` is 5000; \
             WordPiece looks for pieces in at most 4096 characters"
        );
    }

    #[test]
    fn whoever_stops_is_asked_within_a_text() {
        for tokenizer in tokenizers() {
            let encoder = tokenizer.encoder(&Policy::default()).unwrap();
            for text in ["aa b ".repeat(50_000), "<a>".to_owned()] {
                for most in [0, 1, 2] {
                    let asked = AtomicUsize::new(0);
                    let stop = || asked.fetch_add(1, Ordering::Relaxed) >= most;
                    for found in [
                        tokenizer.encode_unless(&text, &stop).map(drop),
                        encoder.encode_ids(&[&text], &stop).map(drop),
                        encoder.kept_ids_of(&[&text], &stop).map(drop),
                    ] {
                        assert_eq!(found.unwrap_err().kind(), ErrorKind::Cancelled);
                    }
                }
            }
        }
    }
}
