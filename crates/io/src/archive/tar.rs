//! tar: a header of 512 bytes before each entry, whose bytes are filled up to a multiple of 512. Of the kinds that pax and GNU add,
//! those for long names.

use super::{add, part};
use crate::error::{Refusal, refuse, shorten};
use indexmap::IndexMap;
use std::ops::Range;

/// The unit in which an archive is laid out, in bytes.
const BLOCK: u64 = 512;

const WHOLE: &str = "a whole tar archive would be right";

/// Where the bytes of each entry lie.
pub(super) fn entries(bytes: &[u8]) -> Result<IndexMap<String, Range<usize>>, Refusal> {
    if bytes.starts_with(&[0x1F, 0x8B]) {
        return refuse("it is compressed by gzip", "a tar archive as it is would be right");
    }
    let mut entries = IndexMap::new();
    let (mut at, mut long_name) = (0, None);
    let mut has_end = false;
    while let Some(header) = part(bytes, at, BLOCK).and_then(|range| bytes.get(range)) {
        if header.iter().all(|&byte| byte == 0) {
            has_end = true;
            break;
        }
        if checksum(header) != octal(header, 148..156) {
            return refuse(format!("byte {at} is no header of an entry: its sum is wrong"), WHOLE);
        }
        let own = name(header);
        let found = octal(header, 124..136).and_then(|size| Some((size, part(bytes, at + BLOCK, size)?)));
        let Some((size, range)) = found else {
            return refuse(format!("the entry `{}` is cut short", shorten(&own)), WHOLE);
        };
        let content = bytes.get(range.clone()).unwrap_or_default();
        match header.get(156) {
            // GNU: the name of the next entry.
            Some(b'L') => long_name = Some(text_of(content)),
            // pax: settings of the next entry.
            Some(b'x') => long_name = path_of(content).or(long_name),
            Some(b'0' | 0) => add(&mut entries, long_name.take().unwrap_or(own), range)?,
            // Folders, links and settings of all entries.
            _ => long_name = None,
        }
        at += BLOCK + size.div_ceil(BLOCK) * BLOCK;
    }
    if !has_end && (at == 0 || at < bytes.len() as u64) {
        return refuse("it has no header of an entry", WHOLE);
    }
    Ok(entries)
}

/// The sum of the bytes of a header, those of the sum itself as spaces.
fn checksum(header: &[u8]) -> Option<u64> {
    let count = |(at, &byte): (usize, &u8)| if (148..156).contains(&at) { 32 } else { u64::from(byte) };
    Some(header.iter().enumerate().map(count).sum())
}

/// A number in octal digits, or where it has more of them in binary (GNU).
fn octal(header: &[u8], field: Range<usize>) -> Option<u64> {
    let digits = header.get(field)?;
    if let [0x80, rest @ ..] = digits {
        let (high, low) = rest.split_at(rest.len().checked_sub(8)?);
        return high
            .iter()
            .all(|&byte| byte == 0)
            .then(|| low.iter().fold(0, |n, &byte| (n << 8) | u64::from(byte)));
    }
    let text = text_of(digits);
    match text.trim() {
        "" => Some(0),
        digits => u64::from_str_radix(digits, 8).ok(),
    }
}

/// A text up to its first zero.
fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// The name in a header, after the folder that ustar has apart.
fn name(header: &[u8]) -> String {
    let field = |range: Range<usize>| header.get(range).map(text_of).unwrap_or_default();
    let own = field(0..100);
    let folder = if field(257..262) == "ustar" { field(345..500) } else { String::new() };
    if folder.is_empty() { own } else { format!("{folder}/{own}") }
}

/// The path among the settings of pax: lines of a length, a key and a value.
fn path_of(settings: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(settings);
    let records = text.split('\n').filter_map(|line| line.split_once(' '));
    records.filter_map(|(_, record)| record.strip_prefix("path=")).next_back().map(str::to_owned)
}
