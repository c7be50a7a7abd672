//! The table of a `Precompiled` normalizer, as SentencePiece writes it: what characters become, as a tree in an array.
//!
//! In base64: the tree's length in bytes, the tree, and the texts that characters become, each with a zero behind it. The
//! library follows the tree wherever it points, so that one that points out of itself makes it panic when a text comes.
//! The form is that of darts-clone (`include/darts.h`): a unit has a byte as its label, says whether a text ends at it,
//! and how far its children are.

use super::Checked;
use crate::error::{Refusal, refuse, shorten};
use serde_json::Value;
use std::collections::HashSet;
use tokenizers::normalizers::Precompiled;

/// The most units of a tree. Those of the tables for all of Unicode have a fiftieth of it.
const MOST_UNITS: usize = 1 << 22;

/// Bytes of the longest text that is looked up at once: see the library's `Precompiled`.
const LONGEST_KEY: usize = 5;

/// Looks for such normalizers in a normalizer and in those that it is made of.
pub(super) fn check(normalizer: &Value) -> Checked {
    for inner in normalizer["normalizers"].as_array().into_iter().flatten() {
        check(inner)?;
    }
    if normalizer["type"] != "Precompiled" {
        return Ok(());
    }
    check_table(&normalizer["precompiled_charsmap"])
        // What the library unwraps.
        .and_then(|()| match serde_json::from_str::<Precompiled>(&normalizer.to_string()) {
            Ok(_) => Ok(()),
            Err(error) => wrong(shorten(&error.to_string())),
        })
        .map_err(|refusal| refusal.within("`normalizer.precompiled_charsmap`"))
}

fn check_table(table: &Value) -> Checked {
    let Some(table) = table.as_str() else {
        return wrong("it is no text");
    };
    let Some(table) = from_base64(table) else {
        return wrong("it is not base64");
    };
    let Some((length, rest)) = table.split_first_chunk::<4>() else {
        return wrong(format!("it has {} bytes", table.len()));
    };
    // The library takes whole units.
    let length = u32::from_le_bytes(*length) as usize / 4 * 4;
    let Some((tree, texts)) = rest.split_at_checked(length) else {
        return wrong(format!("its tree should have {length} bytes, and {} are there", rest.len()));
    };
    let Ok(texts) = std::str::from_utf8(texts) else {
        return wrong("what characters become is not UTF-8");
    };
    let units: Vec<u32> = tree.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
    if units.len() > MOST_UNITS {
        return wrong(format!("its tree has {} units of {MOST_UNITS} at most", units.len()));
    }
    match walk(&units, texts) {
        Some(()) => Ok(()),
        None => wrong("its tree points out of the table"),
    }
}

/// Follows every way of a tree that a text can take; nothing if one of them leads out.
fn walk(units: &[u32], texts: &str) -> Option<()> {
    let mut known = HashSet::new();
    let mut level = vec![offset(*units.first()?)];
    for _ in 0..LONGEST_KEY {
        let mut next = Vec::new();
        for node in level {
            if !known.insert(node) {
                continue;
            }
            // A text has no byte 0, and a key ends there.
            for byte in 1..=u8::MAX {
                let child = node ^ usize::from(byte);
                let unit = *units.get(child)?;
                if unit & LABEL != u32::from(byte) {
                    continue;
                }
                let below = child ^ offset(unit);
                if unit & ENDS != 0 {
                    let text = *units.get(below)? & !(1 << 31);
                    texts.get(text as usize..)?;
                }
                next.push(below);
            }
        }
        level = next;
    }
    Some(())
}

/// The byte of a unit, and what tells units of bytes from those of texts.
const LABEL: u32 = 1 << 31 | 0xFF;

/// Set where a text ends at a unit.
const ENDS: u32 = 1 << 8;

/// How far the children of a unit are.
fn offset(unit: u32) -> usize {
    ((unit >> 10) as usize) << ((unit & 1 << 9) >> 6)
}

/// The bytes of a text in base64, the padding at its end or not.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut bits = 0;
        for byte in group {
            let six = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(six);
        }
        // Whole bytes only: 4 signs are 3 bytes, 3 are 2, 2 are 1.
        let whole = (group.len() * 6 / 8).min(3);
        if whole == 0 || whole + 1 != group.len() {
            return None;
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(bits.to_be_bytes().get(1..=whole)?);
    }
    Some(bytes)
}

fn wrong<T>(found: impl Into<String>) -> Result<T, Refusal> {
    refuse(found, "the table that SentencePiece has written would be right")
}
