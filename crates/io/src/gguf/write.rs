//! Writing: metadata and tensors in the caller's order, each tensor aligned.

use super::read::alignment_of;
use super::value::write_string;
use super::{MAGIC, MAX_AXES, MAX_KEY, Metadata, View};
use crate::error::shorten;
use crate::{Error, Result, atomic};
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::path::Path;

/// The version that is written.
const VERSION: u32 = 3;

/// llama.cpp reads no longer names (`GGML_MAX_NAME` of `ggml.h`, less the end of a C string), in bytes.
const MAX_NAME: usize = 63;

/// Writes a model to a file, all of it or nothing ([`crate::atomic`]).
///
/// Metadata and tensors keep their order. Tensors are aligned to the metadata's `general.alignment`, or to 32 bytes
/// where it says nothing.
///
/// # Errors
///
/// `io`: the file cannot be written. `format`: a tensor's bytes are not what its encoding and shape ask for, a name is
/// longer than 63 bytes or occurs twice, a tensor has more than 4 axes, a key is empty, too long or not ASCII, or the
/// alignment is no power of two.
///
/// ```
/// use lanthorn_io::gguf::{self, Encoding, Gguf, Metadata, View};
/// let blocks = Encoding::Q8_0.pack(&[0.5; 64]).unwrap();
/// let weight = View { encoding: Encoding::Q8_0, shape: &[2, 32], bytes: &blocks };
///
/// let path = std::env::temp_dir().join(format!("lanthorn-{}.gguf", std::process::id()));
/// gguf::save(&path, [("weight", weight)], &Metadata::new("example")).unwrap();
/// assert_eq!(Gguf::open(&path).unwrap().get("weight").unwrap(), weight);
/// # std::fs::remove_file(&path).unwrap();
/// ```
pub fn save<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
    metadata: &Metadata,
) -> Result<()> {
    let path = path.as_ref();
    let file = Prepared::new(&path.display().to_string(), tensors, metadata)?;
    atomic::write_with(path, |out| file.write(out))
}

/// The bytes of a file with this model.
///
/// # Errors
///
/// `format`: as [`save`].
pub fn to_bytes<'a>(
    tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
    metadata: &Metadata,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_to(&mut bytes, tensors, metadata)?;
    Ok(bytes)
}

/// Writes a file with this model to `out`, in large pieces.
///
/// # Errors
///
/// `io`: `out` fails. `format`: as [`save`].
pub fn write_to<'a>(
    out: &mut dyn Write,
    tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
    metadata: &Metadata,
) -> Result<()> {
    let subject = "gguf";
    let file = Prepared::new(subject, tensors, metadata)?;
    file.write(out).map_err(|source| Error::io("write", subject, source))
}

/// A file whose parts are checked and placed.
struct Prepared<'a> {
    /// All that comes before the tensors.
    header: Vec<u8>,
    data: Vec<&'a [u8]>,
    /// After the header and after each tensor comes padding to a multiple of it.
    alignment: u64,
}

impl<'a> Prepared<'a> {
    fn new(
        subject: &str,
        tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
        metadata: &Metadata,
    ) -> Result<Prepared<'a>> {
        let tensors: Vec<_> = tensors.into_iter().collect();
        check_tensors(subject, &tensors)?;
        check_keys(subject, metadata)?;
        let alignment = alignment_of(metadata).map_err(|refusal| refusal.of(subject))?;

        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend((tensors.len() as u64).to_le_bytes());
        header.extend((metadata.values().len() as u64).to_le_bytes());
        for (key, value) in metadata.values() {
            write_string(key, &mut header);
            value.write(&mut header);
        }
        let mut offset = 0u64;
        for (name, view) in &tensors {
            write_string(name, &mut header);
            header.extend((view.shape.len() as u32).to_le_bytes());
            for size in view.shape.iter().rev() {
                header.extend((*size as u64).to_le_bytes());
            }
            header.extend(view.encoding.id().to_le_bytes());
            header.extend(offset.to_le_bytes());
            offset += (view.bytes.len() as u64).next_multiple_of(alignment);
        }
        Ok(Prepared { header, data: tensors.iter().map(|(_, view)| view.bytes).collect(), alignment })
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        std::iter::once(self.header.as_slice()).chain(self.data.iter().copied()).try_for_each(|part| {
            out.write_all(part)?;
            let length = part.len() as u64;
            let padding = length.next_multiple_of(self.alignment) - length;
            io::copy(&mut io::repeat(0).take(padding), out).map(|_| ())
        })
    }
}

fn check_tensors(subject: &str, tensors: &[(&str, View<'_>)]) -> Result<()> {
    let mut names = HashSet::with_capacity(tensors.len());
    for (name, view) in tensors {
        let shown = shorten(name);
        if name.len() > MAX_NAME || !names.insert(*name) {
            return Err(Error::format(
                subject,
                format!("a tensor is named `{shown}`, which is too long or taken"),
                format!("names must be unique and of at most {MAX_NAME} bytes"),
            ));
        }
        if view.shape.len() > MAX_AXES {
            return Err(Error::format(
                subject,
                format!("tensor `{shown}` has {} axes", view.shape.len()),
                format!("at most {MAX_AXES} are allowed"),
            ));
        }
        let (encoding, shape) = (view.encoding, view.shape);
        let needed = encoding.byte_length(shape);
        if needed != Some(view.bytes.len()) {
            let needed = match needed {
                Some(needed) => format!("{encoding} of shape {shape:?} needs {needed}"),
                None => format!(
                    "{encoding} has no shape {shape:?}: rows are multiples of {}",
                    encoding.block_elements()
                ),
            };
            return Err(Error::format(
                subject,
                format!("tensor `{shown}` has {} bytes", view.bytes.len()),
                needed,
            ));
        }
    }
    Ok(())
}

fn check_keys(subject: &str, metadata: &Metadata) -> Result<()> {
    let wrong = |key: &&String| key.is_empty() || key.len() > MAX_KEY || !key.is_ascii();
    match metadata.values().keys().find(wrong) {
        None => Ok(()),
        Some(key) => Err(Error::format(
            subject,
            format!("a metadata key is `{}`", shorten(key)),
            format!("a key is ASCII, of between 1 and {MAX_KEY} bytes"),
        )),
    }
}
