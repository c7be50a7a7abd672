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
use tokenizers::{NormalizerWrapper, Tokenizer};

/// What the message of a part that no other check speaks of says would be right.
pub(super) const EXPECTED: &str = "a tokenizer.json, as `lanthorn train` writes it, would be right";

type Checked = Result<(), Refusal>;

/// What the library cannot be given.
pub(super) fn of_file(file: &Value) -> Checked {
    vocabulary::check(file)?;
    of_model(&file["model"])?;
    charsmap::check(&file["normalizer"])?;
    // Tokens are normalised when they are read.
    let normalizer = normalizer(&file["normalizer"])?;
    rules::check("normalizer", &normalizer)?;
    rules::check_beginning(&normalizer, &file["pre_tokenizer"])
}

/// A normaliser in the form that the library writes.
fn normalizer(value: &Value) -> Result<Value, Refusal> {
    match serde_json::from_str::<Option<NormalizerWrapper>>(&value.to_string()) {
        Ok(read) => in_one_form(read),
        // What it is not is the library's to say.
        Err(_) => Ok(Value::Null),
    }
}

/// The same of a model alone.
pub(super) fn of_model(model: &Value) -> Checked {
    merges::check(model)
}

/// What a text or ids would show.
pub(super) fn of_parts(file: &Value, tokenizer: &Tokenizer) -> Checked {
    added::check(&file["added_tokens"], tokenizer)?;
    rules::check("pre_tokenizer", &in_one_form(tokenizer.get_pre_tokenizer())?)?;
    rules::check("decoder", &in_one_form(tokenizer.get_decoder())?)?;
    template::check(&in_one_form(tokenizer.get_post_processor())?, tokenizer)
}

fn in_one_form(part: Option<impl serde::Serialize>) -> Result<Value, Refusal> {
    serde_json::to_value(part).or_else(|error| refuse(error.to_string(), EXPECTED))
}

#[cfg(test)]
mod tests;
