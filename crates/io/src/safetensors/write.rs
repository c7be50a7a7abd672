//! Writing: the header in the caller's order, the data so that every tensor is aligned.

use super::{LENGTH_BYTES, MAX_HEADER, METADATA, View, byte_length, name_of};
use crate::{Error, Result, atomic};
use indexmap::IndexMap;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

/// Writes tensors to a file, all of them or none ([`crate::atomic`]).
///
/// The header keeps the order of `tensors`. The data is sorted by falling element size, so that each tensor lies at a
/// multiple of it and a reader can use it where it is.
///
/// # Errors
///
/// `io`: the file cannot be written. `format`: a tensor's bytes are not what its dtype and shape ask for, a name
/// occurs twice or is `__metadata__`, or the header would exceed 100,000,000 bytes.
pub fn save<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
    metadata: &IndexMap<String, String>,
) -> Result<()> {
    save_unless(path, tensors, metadata, &|| false)
}

/// [`save`], unless it is cancelled before all is written: the file is then as it was.
///
/// # Errors
///
/// `cancelled`: `is_cancelled` has said so, which is asked before each piece of 1 MiB. Otherwise as [`save`].
pub fn save_unless<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
    metadata: &IndexMap<String, String>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<()> {
    let path = path.as_ref();
    let subject = path.display().to_string();
    let file = Prepared::new(&subject, tensors, metadata)?;
    let mut was_cancelled = false;
    let written = atomic::write_with(path, |out| {
        let written = file.write(&mut Watched { out, is_cancelled });
        was_cancelled = is_cancelled();
        if was_cancelled { Err(io::ErrorKind::Interrupted.into()) } else { written }
    });
    if was_cancelled { Err(Error::Cancelled { subject }) } else { written }
}

/// A writer that takes no more once it is cancelled.
struct Watched<'a> {
    out: &'a mut dyn Write,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.is_cancelled)() {
            return Err(io::Error::other("cancelled"));
        }
        self.out.write(bytes.get(..1 << 20).unwrap_or(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The bytes of a file with these tensors.
///
/// # Errors
///
/// `format`: as [`save`].
pub fn to_bytes<'a>(
    tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
    metadata: &IndexMap<String, String>,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_to(&mut bytes, tensors, metadata)?;
    Ok(bytes)
}

/// Writes a file with these tensors to `out`, in large pieces.
///
/// # Errors
///
/// `io`: `out` fails. `format`: as [`save`].
pub fn write_to<'a>(
    out: &mut dyn Write,
    tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
    metadata: &IndexMap<String, String>,
) -> Result<()> {
    let subject = "safetensors";
    let file = Prepared::new(subject, tensors, metadata)?;
    file.write(out).map_err(|source| Error::io("write", subject, source))
}

/// A file whose parts are checked and placed.
struct Prepared<'a> {
    /// JSON, padded with blanks so that the data begins at a multiple of 16 bytes.
    header: Vec<u8>,
    /// In the order of the data.
    data: Vec<&'a [u8]>,
}

impl<'a> Prepared<'a> {
    fn new(
        subject: &str,
        tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
        metadata: &IndexMap<String, String>,
    ) -> Result<Prepared<'a>> {
        let tensors: Vec<_> = tensors.into_iter().collect();
        check(subject, &tensors)?;

        let mut in_file_order: Vec<usize> = (0..tensors.len()).collect();
        in_file_order.sort_by_key(|at| std::cmp::Reverse(tensors[*at].1.dtype.size()));
        let mut offsets = vec![(0, 0); tensors.len()];
        let mut end = 0u64;
        for at in &in_file_order {
            let begin = end;
            end += tensors[*at].1.bytes.len() as u64;
            offsets[*at] = (begin, end);
        }

        let header = Header { metadata, tensors: &tensors, offsets: &offsets };
        let mut header = serde_json::to_vec(&header).map_err(|error| {
            Error::format(subject, error.to_string(), "the header must be writable as JSON")
        })?;
        // The largest element has 16 bytes; the reference asks for 8.
        header.resize((LENGTH_BYTES + header.len()).next_multiple_of(16) - LENGTH_BYTES, b' ');
        if header.len() as u64 > MAX_HEADER {
            return Err(Error::format(
                subject,
                format!("the header has {} bytes", header.len()),
                format!("at most {MAX_HEADER} are allowed; use fewer tensors or less metadata"),
            ));
        }
        Ok(Prepared { header, data: in_file_order.iter().map(|at| tensors[*at].1.bytes).collect() })
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&(self.header.len() as u64).to_le_bytes())?;
        out.write_all(&self.header)?;
        self.data.iter().try_for_each(|bytes| out.write_all(bytes))
    }
}

fn check(subject: &str, tensors: &[(&str, View<'_>)]) -> Result<()> {
    let mut names = HashSet::with_capacity(tensors.len());
    for (name, view) in tensors {
        if *name == METADATA || !names.insert(*name) {
            return Err(Error::format(
                subject,
                format!("a tensor is named `{name}`, which is taken"),
                "names must be unique, and `__metadata__` is the format's own",
            ));
        }
        let needed = byte_length(view.dtype, view.shape.iter().map(|size| *size as u64));
        if needed != Some(view.bytes.len() as u64) {
            let needed = needed.map_or("more than 64 bits can count".to_owned(), |n| n.to_string());
            return Err(Error::format(
                subject,
                format!("tensor `{name}` has {} bytes", view.bytes.len()),
                format!("{} of shape {:?} needs {needed}", view.dtype, view.shape),
            ));
        }
    }
    Ok(())
}

struct Header<'a> {
    metadata: &'a IndexMap<String, String>,
    tensors: &'a [(&'a str, View<'a>)],
    offsets: &'a [(u64, u64)],
}

#[derive(serde::Serialize)]
struct Declared<'a> {
    dtype: &'static str,
    shape: &'a [usize],
    data_offsets: (u64, u64),
}

impl Serialize for Header<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.metadata.is_empty() {
            map.serialize_entry(METADATA, self.metadata)?;
        }
        for ((name, view), offsets) in self.tensors.iter().zip(self.offsets) {
            map.serialize_entry(
                name,
                &Declared { dtype: name_of(view.dtype), shape: view.shape, data_offsets: *offsets },
            )?;
        }
        map.end()
    }
}
