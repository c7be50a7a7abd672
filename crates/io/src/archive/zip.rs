//! ZIP: the central directory at the end of a file lists its entries. With the extension for more than 4 GiB (ZIP64).

use super::{add, part};
use crate::error::{Refusal, refuse, shorten};
use indexmap::IndexMap;
use std::ops::Range;

/// What the parts of an archive begin with.
const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;

/// Bytes of an entry of the directory, without its name and what else varies.
const CENTRAL_BYTES: u64 = 46;
/// The same of the header before an entry's bytes.
const LOCAL_BYTES: u64 = 30;
/// The same of the end.
const END_BYTES: usize = 22;
/// What 32 bits say of a number that only the extension holds.
const ELSEWHERE: u64 = 0xFFFF_FFFF;
/// The extension's number among the extra fields of an entry.
const ZIP64: u64 = 1;

/// Where the bytes of each entry lie.
pub(super) fn entries(bytes: &[u8]) -> Result<IndexMap<String, Range<usize>>, Refusal> {
    let directory = directory(bytes)?;
    // Each entry takes so much at least.
    let room = (bytes.len() as u64).saturating_sub(directory.start) / CENTRAL_BYTES;
    if directory.count > room {
        let found = format!("it should have {} entries, and there is room for {room}", directory.count);
        return refuse(found, WHOLE);
    }
    let mut entries = IndexMap::new();
    let mut at = directory.start;
    // Entries over the same bytes would make much of a small file.
    let mut room = bytes.len();
    for place in 0..directory.count {
        let entry = Entry::read(bytes, at)
            .ok_or(())
            .or_else(|()| refuse(format!("entry {place} of the directory is cut short or none"), WHOLE))?;
        at = entry.end;
        if entry.name.ends_with('/') {
            continue;
        }
        let range = entry
            .content(bytes)
            .map_err(|refusal| refusal.within(&format!("the entry `{}`", shorten(&entry.name))))?;
        room = match room.checked_sub(range.len()) {
            Some(left) => left,
            None => {
                return refuse(
                    "its entries lie over one another",
                    "an archive whose entries have bytes of their own would be right",
                );
            }
        };
        add(&mut entries, entry.name, range)?;
    }
    Ok(entries)
}

const WHOLE: &str = "a whole ZIP archive would be right";

/// A number of `bytes` bytes at a place.
fn number(from: &[u8], at: u64, bytes: u64) -> Option<u64> {
    let digits = from.get(part(from, at, bytes)?)?;
    Some(digits.iter().rev().fold(0, |number, &byte| (number << 8) | u64::from(byte)))
}

fn is(from: &[u8], at: u64, signature: u32) -> bool {
    number(from, at, 4) == Some(u64::from(signature))
}

/// Where the list of entries begins, and how many there are.
struct Directory {
    start: u64,
    count: u64,
}

fn directory(bytes: &[u8]) -> Result<Directory, Refusal> {
    // A comment of at most 65,535 bytes may follow.
    let last = bytes.len().checked_sub(END_BYTES);
    let places = last.into_iter().flat_map(|last| (last.saturating_sub(0xFFFF)..=last).rev());
    let ends = |at: usize| number(bytes, at as u64 + 20, 2) == Some((bytes.len() - END_BYTES - at) as u64);
    let Some(end) = places.into_iter().find(|&at| is(bytes, at as u64, END) && ends(at)) else {
        return refuse("it has no end of a ZIP archive", WHOLE);
    };
    let end = end as u64;
    let field = |at, width| number(bytes, at, width).unwrap_or(0);
    let mut found = Directory { start: field(end + 16, 4), count: field(end + 10, 2) };
    let mut disks = [field(end + 4, 2), field(end + 6, 2)];
    if let Some(locator) = end.checked_sub(20).filter(|&at| is(bytes, at, LOCATOR64)) {
        let at = field(locator + 8, 8);
        if !is(bytes, at, END64) || part(bytes, at, 56).is_none() {
            return refuse(format!("it has no end of a ZIP64 archive at byte {at}"), WHOLE);
        }
        found = Directory { start: field(at + 48, 8), count: field(at + 32, 8) };
        disks = [field(at + 16, 4), field(at + 20, 4)];
    }
    if disks != [0, 0] {
        return refuse("it is one of several parts of an archive", "an archive in one file would be right");
    }
    Ok(found)
}

/// An entry of the directory.
struct Entry {
    name: String,
    flags: u64,
    method: u64,
    packed: u64,
    size: u64,
    /// Where the header before its bytes lies.
    header: u64,
    /// Where the next entry of the directory lies.
    end: u64,
}

impl Entry {
    fn read(bytes: &[u8], at: u64) -> Option<Entry> {
        if !is(bytes, at, CENTRAL) {
            return None;
        }
        let field = |offset, width| number(bytes, at + offset, width);
        let [name_bytes, extra_bytes, comment_bytes] = [field(28, 2)?, field(30, 2)?, field(32, 2)?];
        let name = bytes.get(part(bytes, at + CENTRAL_BYTES, name_bytes)?)?;
        let extra = bytes.get(part(bytes, at + CENTRAL_BYTES + name_bytes, extra_bytes)?)?;
        let mut entry = Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            flags: field(8, 2)?,
            method: field(10, 2)?,
            packed: field(20, 4)?,
            size: field(24, 4)?,
            header: field(42, 4)?,
            end: at + CENTRAL_BYTES + name_bytes + extra_bytes + comment_bytes,
        };
        entry.widen(extra)?;
        Some(entry)
    }

    /// Takes the numbers that 32 bits do not hold from the extra fields.
    fn widen(&mut self, extra: &[u8]) -> Option<()> {
        let mut at = 0;
        while let (Some(id), Some(length)) = (number(extra, at, 2), number(extra, at + 2, 2)) {
            if id == ZIP64 {
                let mut from = at + 4;
                for field in [&mut self.size, &mut self.packed, &mut self.header] {
                    if *field == ELSEWHERE {
                        *field = number(extra, from, 8)?;
                        from += 8;
                    }
                }
                return Some(());
            }
            at += 4 + length;
        }
        Some(())
    }

    /// Where its bytes lie.
    fn content(&self, bytes: &[u8]) -> Result<Range<usize>, Refusal> {
        if self.flags & 1 != 0 {
            return refuse("it is encrypted", "an entry that is stored as it is would be right");
        }
        if self.method != 0 || self.packed != self.size {
            return refuse("it is compressed", "an entry that is stored as it is would be right");
        }
        let range = (|| {
            if !is(bytes, self.header, LOCAL) {
                return None;
            }
            let [name, extra] = [26, 28].map(|at| number(bytes, self.header.checked_add(at)?, 2));
            let start = self.header.checked_add(LOCAL_BYTES + name? + extra?)?;
            part(bytes, start, self.size)
        })();
        match range {
            Some(range) => Ok(range),
            None => refuse(format!("its {} bytes are not all there", self.size), WHOLE),
        }
    }
}
