//! The merges of a BPE: the library joins two tokens in a buffer that is as long as the longest token, the second without
//! the prefix that it takes for granted.

use super::Checked;
use crate::error::{refuse, shorten};
use serde_json::Value;

/// The kinds of models that have no merges.
const OTHERS: [&str; 3] = ["WordPiece", "WordLevel", "Unigram"];

pub(super) fn check(model: &Value) -> Checked {
    let (Some(vocabulary), Some(merges)) = (model["vocab"].as_object(), model["merges"].as_array()) else {
        return Ok(());
    };
    // A model without a type is tried as one of each kind.
    if model["type"].as_str().is_some_and(|kind| OTHERS.contains(&kind)) {
        return Ok(());
    }
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or_default();
    let mut whole = String::new();
    for (at, merge) in merges.iter().enumerate() {
        // What is no pair is the library's to refuse.
        let Some((left, right)) = pair(merge) else { continue };
        let place = || format!("`model.merges` joins `{}` and `{}` at {at}", shorten(left), shorten(right));
        if let Some(part) = [left, right].into_iter().find(|part| !vocabulary.contains_key(*part)) {
            return refuse(
                format!("{}, and `{}` is no token", place(), shorten(part)),
                "tokens of `model.vocab` would be right",
            );
        }
        let Some(rest) = right.get(prefix.len()..) else {
            return refuse(
                format!("{}, and `model.continuing_subword_prefix` is `{}`", place(), shorten(prefix)),
                "a second token that begins with it would be right",
            );
        };
        whole.clear();
        whole.push_str(left);
        whole.push_str(rest);
        if !vocabulary.contains_key(&whole) {
            return refuse(
                format!("{}, and `{}` is no token", place(), shorten(&whole)),
                "a pair that makes a token of `model.vocab` would be right",
            );
        }
    }
    Ok(())
}

/// The two tokens of a merge, in either form that files have: a list, or a text with a blank between.
fn pair(merge: &Value) -> Option<(&str, &str)> {
    match merge {
        Value::Array(pair) => match &pair[..] {
            [left, right] => Some((left.as_str()?, right.as_str()?)),
            _ => None,
        },
        Value::String(line) if !line.starts_with("#version") => {
            line.split_once(' ').filter(|(_, right)| !right.contains(' '))
        }
        _ => None,
    }
}
