//! The rules by which a text is normalised and split, and by which tokens become a text.

use super::Checked;
use crate::error::{refuse, shorten};
use serde_json::Value;
use tokenizers::normalizers::{NormalizerWrapper, Replace};
use tokenizers::{NormalizedString, Normalizer};

/// Refuses a rule of `part`, or one that it is made of, that no text can be read by.
pub(super) fn check(part: &str, rule: &Value) -> Checked {
    let inner = ["normalizers", "pretokenizers", "decoders"].iter().find_map(|list| rule[list].as_array());
    for rule in inner.into_iter().flatten() {
        check(part, rule)?;
    }
    let kind = rule["type"].as_str().unwrap_or_default();
    if kind == "FixedLength" && rule["length"] == 0 {
        return refuse(
            format!("`{part}` splits a text after every 0 characters (`FixedLength.length`)"),
            "a length of at least 1 would be right",
        );
    }
    if kind == "Prepend" && rule["prepend"] == "" {
        return refuse(
            format!("`{part}` puts nothing before a text (`Prepend.prepend`)"),
            "at least one character would be right",
        );
    }
    if let Some(pattern) = rule["pattern"]["Regex"].as_str().filter(|pattern| keeps_out(pattern)) {
        return refuse(
            format!(
                "`{part}` has the expression `{}`, whose `\\K` moves where a match begins",
                shorten(pattern)
            ),
            "a look-behind, `(?<=...)`, would be right",
        );
    }
    Ok(())
}

/// Refuses a normaliser that puts something before the first character of a text in place of nothing, where a later rule
/// counts characters: the library has no place in the text for it.
pub(super) fn check_beginning(normalizer: &Value, pre_tokenizer: &Value) -> Checked {
    let rules = steps(normalizer);
    let counts = |rule: &Value| !matches!(rule["type"].as_str(), Some("Replace" | "Prepend"));
    for (at, rule) in rules.iter().enumerate() {
        let is_counted = rules.iter().skip(at + 1).any(|rule| counts(rule)) || writes_bytes(pre_tokenizer);
        if is_counted && rule["type"] == "Replace" && puts_before(rule) {
            return refuse(
                format!("`normalizer` has {} for nothing at the beginning (`Replace`)", rule["content"]),
                "`Prepend`, or a pattern that matches at least one character, would be right",
            );
        }
    }
    Ok(())
}

/// The normalisers that one is made of.
fn steps(rule: &Value) -> Vec<&Value> {
    match rule["normalizers"].as_array() {
        Some(all) => all.iter().flat_map(steps).collect(),
        None => vec![rule],
    }
}

/// Whether a rule for splitting turns characters into those that stand for bytes.
fn writes_bytes(rule: &Value) -> bool {
    let inner = rule["pretokenizers"].as_array();
    rule["type"] == "ByteLevel" || inner.into_iter().flatten().any(writes_bytes)
}

/// Whether a replacement leaves some text whole behind what it puts there.
fn puts_before(rule: &Value) -> bool {
    // One text for each sort of characters that expressions tell apart.
    const TEXTS: [&str; 8] = ["a", "A", "1", " ", "\n", ".", "\u{e9}", "\u{706f}"];
    let Ok(NormalizerWrapper::Replace(rule)) = serde_json::from_value(rule.clone()) else { return false };
    let adds = |rule: &Replace, text: &str| {
        let mut normalized = NormalizedString::from(text);
        rule.normalize(&mut normalized).is_ok()
            && normalized.get().strip_prefix(&rule.content).is_some_and(|rest| rest.starts_with(text))
            && !rule.content.is_empty()
    };
    TEXTS.into_iter().any(|text| adds(&rule, text))
}

/// Whether an expression has `\K`. Within a look-ahead it makes matches that end before they begin.
fn keeps_out(pattern: &str) -> bool {
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character == '\\' && characters.next() == Some('K') {
            return true;
        }
    }
    false
}
