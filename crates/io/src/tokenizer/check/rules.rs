//! The rules by which a text is normalised and split, and by which tokens become a text.

use super::Checked;
use crate::error::{refuse, shorten};
use serde_json::Value;

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
