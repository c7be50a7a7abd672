//! What a `tokenizer.json` puts around texts, held against itself and against the vocabulary: the library takes it as it
//! is, panics when a text comes, and gives ids that are no token's or another's.

use super::Checked;
use crate::error::{refuse, shorten};
use serde_json::Value;
use tokenizers::Tokenizer;

/// Refuses a post-processor, in the form that the library writes it: a special token that it does not describe, or whose
/// id in the vocabulary is another; a second text where there is one; a template around a template.
pub(super) fn check(processor: &Value, tokenizer: &Tokenizer) -> Checked {
    let steps = steps(processor);
    if steps.iter().filter(|step| step["type"] == "TemplateProcessing").count() > 1 {
        return refuse(
            "`post_processor` puts a template around what another template has made",
            "one template would be right",
        );
    }
    for step in steps {
        match step["type"].as_str() {
            Some("TemplateProcessing") => check_template(step, tokenizer)?,
            // `["[CLS]", 101]` each.
            Some("BertProcessing" | "RobertaProcessing") => {
                for end in ["cls", "sep"] {
                    check_token(&format!("`post_processor.{end}`"), &step[end][0], &step[end][1], tokenizer)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The processors that one is made of.
fn steps(processor: &Value) -> Vec<&Value> {
    match processor["processors"].as_array() {
        Some(all) => all.iter().flat_map(steps).collect(),
        None => vec![processor],
    }
}

fn check_template(step: &Value, tokenizer: &Tokenizer) -> Checked {
    for form in ["single", "pair"] {
        for piece in step[form].as_array().map_or(&[][..], Vec::as_slice) {
            if form == "single" && piece["Sequence"]["id"] == "B" {
                return refuse(
                    "its template for one text has a second (`post_processor.single`)",
                    "the sequence `A` would be right",
                );
            }
            let Some(name) = piece["SpecialToken"]["id"].as_str() else { continue };
            let described = &step["special_tokens"][name];
            let name = shorten(name);
            let (Some(ids), Some(tokens)) = (described["ids"].as_array(), described["tokens"].as_array())
            else {
                return refuse(
                    format!(
                        "its template has a token `{name}` that it does not describe (`post_processor.{form}`)"
                    ),
                    "a token of `post_processor.special_tokens` would be right",
                );
            };
            let place = format!("`post_processor.special_tokens` of `{name}`");
            if ids.len() != tokens.len() {
                return refuse(
                    format!("{place} has {} ids and {} tokens", ids.len(), tokens.len()),
                    "as many ids as tokens would be right",
                );
            }
            for (id, token) in ids.iter().zip(tokens) {
                check_token(&place, token, id, tokenizer)?;
            }
        }
    }
    Ok(())
}

/// A token must have that id.
fn check_token(place: &str, token: &Value, id: &Value, tokenizer: &Tokenizer) -> Checked {
    // The library has read both.
    let (Some(token), Some(id)) = (token.as_str(), id.as_u64().and_then(|id| u32::try_from(id).ok())) else {
        return Ok(());
    };
    let found = match tokenizer.id_to_token(id) {
        Some(found) if found == token => return Ok(()),
        // One that is normalised before it is looked for is named as it is looked for.
        Some(_) if tokenizer.token_to_id(token) == Some(id) => return Ok(()),
        Some(found) => format!("{id} is `{}`", shorten(&found)),
        None => format!("there is no token {id}"),
    };
    let expected = match tokenizer.token_to_id(token) {
        Some(id) => format!("{id} would be right"),
        None => "a token of the vocabulary and its id would be right".to_owned(),
    };
    refuse(format!("{place} gives `{}` the id {id}, and {found}", shorten(token)), expected)
}
