//! The tokens of a file: no two with one id, where the library would take the last of them, so that a text that is decoded
//! is another than the one that was encoded; and none so long that the library's tree of pieces would be too deep.

use super::{Checked, EXPECTED};
use crate::error::{refuse, shorten};
use serde_json::Value;
use std::collections::HashMap;

/// The most bytes of a piece of a Unigram vocabulary. SentencePiece's have at most 512 characters, and 16 if nothing else is
/// asked for. The library's tree has a level for each byte, and is cloned and dropped level within level.
const LONGEST_PIECE: usize = 2048;

pub(super) fn check(tokenizer: &Value) -> Checked {
    if let Some(found) = twice(tokenizer) {
        return refuse(found, EXPECTED);
    }
    let pieces = tokenizer["model"]["vocab"].as_array();
    let lengths = pieces.into_iter().flatten().map(|piece| piece[0].as_str().map_or(0, str::len));
    match lengths.enumerate().find(|(_, length)| *length > LONGEST_PIECE) {
        Some((at, length)) => refuse(
            format!("`model.vocab` has a piece of {length} bytes at {at}"),
            format!("pieces of at most {LONGEST_PIECE} bytes would be right"),
        ),
        None => Ok(()),
    }
}

/// What two tokens have the same id, if any.
fn twice(tokenizer: &Value) -> Option<String> {
    let vocabulary = tokenizer["model"]["vocab"].as_object();
    let of_model = vocabulary.into_iter().flatten().map(|(token, id)| (token.as_str(), id));
    let added = tokenizer["added_tokens"].as_array();
    let added =
        added.into_iter().flatten().filter_map(|token| Some((token["content"].as_str()?, &token["id"])));
    let mut tokens: HashMap<u64, &str> = HashMap::new();
    for (token, id) in of_model.chain(added) {
        // What is no id is the library's to refuse.
        let Some(id) = id.as_u64() else { continue };
        // A token that stands in both lists is one token.
        if let Some(first) = tokens.insert(id, token).filter(|first| *first != token) {
            let (first, token) = if first < token { (first, token) } else { (token, first) };
            return Some(format!(
                "the tokens `{}` and `{}` both have the id {id}",
                shorten(first),
                shorten(token)
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::Tokenizer;

    fn refusal(vocab: &str, added: &str) -> Option<String> {
        let json = format!(
            r#"{{"model": {{"type": "WordLevel", "vocab": {vocab}, "unk_token": "a"}}, "added_tokens": {added}}}"#
        );
        Tokenizer::from_json("words", &json).err().map(|error| error.to_string())
    }

    fn added(content: &str, id: u32) -> String {
        format!(
            r#"{{"id": {id}, "content": "{content}", "single_word": false, "lstrip": false, "rstrip": false,
                 "normalized": false, "special": true}}"#
        )
    }

    #[test]
    fn two_tokens_with_one_id_are_refused() {
        let right = |first, second, id| {
            Some(format!(
                "words: the tokens `{first}` and `{second}` both have the id {id}; \
                 a tokenizer.json, as `lanthorn train` writes it, would be right"
            ))
        };
        assert_eq!(refusal(r#"{"a": 0, "b": 1, "c": 1}"#, "[]"), right("b", "c", 1));
        assert_eq!(refusal(r#"{"a": 0, "b": 1}"#, &format!("[{}]", added("<s>", 1))), right("<s>", "b", 1));
        let both = format!("[{}, {}]", added("<s>", 2), added("</s>", 2));
        assert_eq!(refusal(r#"{"a": 0, "b": 1}"#, &both), right("</s>", "<s>", 2));
        // One token in both lists.
        assert_eq!(refusal(r#"{"a": 0, "b": 1}"#, &format!("[{}]", added("b", 1))), None);
    }

    #[test]
    fn a_piece_of_a_unigram_is_no_book() {
        let of = |length: usize| {
            let vocab = format!(r#"[["<unk>", 0], ["{}", -1.5]]"#, "x".repeat(length));
            let json = format!(r#"{{"model": {{"type": "Unigram", "unk_id": 0, "vocab": {vocab}}}}}"#);
            Tokenizer::from_json("pieces", &json)
        };
        let longest = of(super::LONGEST_PIECE).unwrap();
        assert_eq!(longest.clone().encode(&"x".repeat(super::LONGEST_PIECE)).unwrap(), [1]);
        assert_eq!(
            of(1_000_000).unwrap_err().to_string(),
            "pieces: `model.vocab` has a piece of 1000000 bytes at 1; \
             pieces of at most 2048 bytes would be right"
        );
    }
}
