//! Files in one file: the entries of [ZIP] and [tar] archives, read without copying.
//!
//! Only entries that lie in the archive as they are can be read: compressed or encrypted ones are refused by name. Names
//! are names and no paths: nothing is written anywhere. Each length, count and offset is held against the bytes that are there before
//! anything is allocated.
//!
//! [ZIP]: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
//! [tar]: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html

mod tar;
mod zip;

use crate::Result;
use crate::bytes::Bytes;
use crate::error::{Refusal, refuse, shorten};
use indexmap::IndexMap;
use std::ops::Range;
use std::path::Path;

/// How an archive is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Zip,
    Tar,
}

/// An archive: its list of entries in memory, their bytes where they lie.
///
/// ```
/// use lanthorn_io::archive::{Archive, Format};
/// // An archive of nothing.
/// let empty = [b"PK\x05\x06".as_slice(), &[0; 18]].concat();
/// let archive = Archive::from_bytes("example", empty, Format::Zip).unwrap();
/// assert_eq!(archive.iter().count(), 0);
/// ```
pub struct Archive {
    subject: String,
    bytes: Bytes,
    entries: IndexMap<String, Range<usize>>,
}

impl Archive {
    /// Maps a file into memory and reads its list of entries. The file must not be changed in place while the result lives.
    ///
    /// # Errors
    ///
    /// `io`: the file cannot be opened, which is so of every file on wasm32. `format`: it is no archive of that format, is cut
    /// short, or has entries that are compressed, encrypted, or there twice.
    pub fn open(path: impl AsRef<Path>, format: Format) -> Result<Archive> {
        let path = path.as_ref();
        Archive::parse(path.display().to_string(), Bytes::open(path)?, format)
    }

    /// The archive in `bytes`; `subject` names it in errors.
    ///
    /// # Errors
    ///
    /// `format`: as [`Archive::open`].
    pub fn from_bytes(
        subject: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
        format: Format,
    ) -> Result<Archive> {
        Archive::parse(subject.into(), Bytes::Owned(bytes.into()), format)
    }

    fn parse(subject: String, bytes: Bytes, format: Format) -> Result<Archive> {
        let entries = match format {
            Format::Zip => zip::entries(&bytes),
            Format::Tar => tar::entries(&bytes),
        };
        match entries {
            Ok(entries) => Ok(Archive { subject, bytes, entries }),
            Err(refusal) => Err(refusal.of(subject)),
        }
    }

    /// The name under which errors speak of this file.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The bytes of an entry, if there is one of that name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.entries.get(name).and_then(|range| self.bytes.get(range.clone()))
    }

    /// Every entry with its name, in the order of the archive's list; folders are none.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries
            .iter()
            .map(|(name, range)| (name.as_str(), self.bytes.get(range.clone()).unwrap_or_default()))
    }
}

/// The bytes from `start` on, so many of them.
fn part(bytes: &[u8], start: u64, length: u64) -> Option<Range<usize>> {
    let (start, length) = (usize::try_from(start).ok()?, usize::try_from(length).ok()?);
    let range = start..start.checked_add(length)?;
    bytes.get(range.clone()).map(|_| range)
}

/// Adds an entry, of which there may be one of each name.
fn add(
    entries: &mut IndexMap<String, Range<usize>>,
    name: String,
    range: Range<usize>,
) -> Result<(), Refusal> {
    if entries.contains_key(&name) {
        return refuse(
            format!("the entry `{}` is there twice", shorten(&name)),
            "each name once would be right",
        );
    }
    entries.insert(name, range);
    Ok(())
}

#[cfg(test)]
mod tests;
