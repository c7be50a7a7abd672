//! The tokens beside the model's. The library numbers those that the model does not have by itself, one after the other from
//! the vocabulary's size on, whatever ids the file gives them: so do the Python package's, which says so in a log.

use super::Checked;
use crate::error::{refuse, shorten};
use serde_json::Value;
use tokenizers::Tokenizer;

pub(super) fn check(added: &Value, tokenizer: &Tokenizer) -> Checked {
    let tokens = added.as_array().map_or(&[][..], Vec::as_slice);
    for token in tokens {
        let (Some(content), Some(id)) = (token["content"].as_str(), token["id"].as_u64()) else { continue };
        // One without a text is in none, and is left out.
        let Some(given) = tokenizer.token_to_id(content).filter(|given| u64::from(*given) != id) else {
            continue;
        };
        return refuse(
            format!("`added_tokens` gives `{}` the id {id}, where its id would be {given}", shorten(content)),
            "ids of the vocabulary, or the next ones after it in their order, would be right",
        );
    }
    // One takes the white space behind it and the next lies in that: then its own beginning is behind its end.
    let takes = |token: &&Value, side: &str| token[side] == true;
    let is_white = |token: &&Value| token["content"].as_str().is_some_and(|text| text.trim().is_empty());
    let white = tokens.iter().find(|token| takes(token, "lstrip") && is_white(token));
    match (white, tokens.iter().find(|token| takes(token, "rstrip"))) {
        (Some(white), Some(other)) => refuse(
            format!(
                "`added_tokens` has {}, which is white space and takes what is white before it (`lstrip`), \
                 and `{}`, which takes what is white behind it (`rstrip`)",
                white["content"],
                shorten(other["content"].as_str().unwrap_or_default())
            ),
            "one of them that takes none would be right",
        ),
        _ => Ok(()),
    }
}
