//! A model that does not know special tokens by their names.
//!
//! Where special tokens in a text are [ordinary](super::InText::Ordinary), they are not looked for before the text is split.
//! But their names stand in the vocabularies of most models too, and a model that takes a word whole, or the longest or
//! the most probable piece of it, would find them there.

use super::check;
use serde_json::Value;
use std::collections::HashSet;
use tokenizers::models::ModelWrapper;
use tokenizers::{Model, Tokenizer};

/// Takes the names of special tokens out of the model, where it could find them in a text. The token for what is unknown
/// stays: its name stands for what is unknown.
pub(super) fn forget_special_tokens(tokenizer: &mut Tokenizer) {
    // BPE takes a word whole if it ignores its merges; else it finds what it has merges for, which there are none of for
    // a special token. A single character of its stands for a byte.
    let shortest = match tokenizer.get_model() {
        ModelWrapper::BPE(bpe) if bpe.ignore_merges => 2,
        ModelWrapper::BPE(_) => return,
        _ => 1,
    };
    let names: HashSet<String> = tokenizer
        .get_added_tokens_decoder()
        .into_values()
        .filter(|token| token.special && token.content.chars().count() >= shortest)
        .filter(|token| tokenizer.get_model().token_to_id(&token.content).is_some())
        .map(|token| token.content)
        .collect();
    if names.is_empty() {
        return;
    }
    let Ok(mut json) = serde_json::to_value(tokenizer.get_model()) else { return };
    let unknown = json["unk_token"].as_str().map(str::to_owned);
    let is_forgotten = |name: &str| names.contains(name) && unknown.as_deref() != Some(name);
    match &mut json["vocab"] {
        Value::Object(vocabulary) => vocabulary.retain(|name, _| !is_forgotten(name)),
        // The place of a piece is its id. A noncharacter stands in no text that means anything.
        Value::Array(pieces) => {
            for (at, piece) in pieces.iter_mut().enumerate() {
                if piece[0].as_str().is_some_and(is_forgotten) {
                    piece[0] = Value::String(format!("\u{FFFE}{at}"));
                }
            }
        }
        _ => return,
    }
    // A model that needs the names keeps them: a merge that gives a special token is the file's own wish.
    if check::of_model(&json).is_ok()
        && let Ok(model) = serde_json::from_value::<ModelWrapper>(json)
    {
        tokenizer.with_model(model);
    }
}
