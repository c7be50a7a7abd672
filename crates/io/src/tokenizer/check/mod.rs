//! A `tokenizer.json` held against itself.
//!
//! The library takes most of what a file says as it is: it indexes one part by what another says, and panics where they
//! contradict each other, on loading or when a text comes. What could be so is refused here, with the field, what it
//! holds, and what would be right. [`of_file`] looks at the JSON before the library reads it, [`of_parts`] at what the
//! library has read, whose fields have one form only.

mod added;
mod charsmap;
mod merges;
mod rules;
mod template;
mod vocabulary;

use crate::error::{Refusal, refuse};
use serde_json::Value;
use tokenizers::Tokenizer;

/// What the message of a part that no other check speaks of says would be right.
pub(super) const EXPECTED: &str = "a tokenizer.json, as `lanthorn train` writes it, would be right";

type Checked = Result<(), Refusal>;

/// What the library cannot be given.
pub(super) fn of_file(file: &Value) -> Checked {
    vocabulary::check(file)?;
    merges::check(&file["model"])?;
    charsmap::check(&file["normalizer"])
}

/// What a text or ids would show.
pub(super) fn of_parts(file: &Value, tokenizer: &Tokenizer) -> Checked {
    added::check(&file["added_tokens"], tokenizer)?;
    rules::check("normalizer", &in_one_form(tokenizer.get_normalizer())?)?;
    rules::check("pre_tokenizer", &in_one_form(tokenizer.get_pre_tokenizer())?)?;
    rules::check("decoder", &in_one_form(tokenizer.get_decoder())?)?;
    template::check(&in_one_form(tokenizer.get_post_processor())?, tokenizer)
}

fn in_one_form(part: Option<impl serde::Serialize>) -> Result<Value, Refusal> {
    serde_json::to_value(part).or_else(|error| refuse(error.to_string(), EXPECTED))
}

#[cfg(test)]
mod tests;
