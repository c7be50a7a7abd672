//! Reading: a header that is checked in full before a tensor is handed out.

use super::{LENGTH_BYTES, MAX_HEADER, METADATA, View, byte_length, dtype_of};
use crate::Result;
use crate::bytes::Bytes;
use crate::error::{Refusal, no_tensor, refuse, shorten, shown_shape};
use crate::json;
use indexmap::IndexMap;
use lanthorn_ir::DType;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// A file of tensors: its header in memory, its tensors where they lie.
///
/// ```
/// use lanthorn_io::{OwnedTensor, Tensors, safetensors};
/// let bias = OwnedTensor::from_f32(vec![2], &[0.5, -0.5]);
/// let metadata = [("made by".to_owned(), "this example".to_owned())].into_iter().collect();
/// let bytes = safetensors::to_bytes([("bias", bias.view())], &metadata).unwrap();
///
/// let tensors = Tensors::from_bytes("example", bytes).unwrap();
/// assert_eq!(tensors.metadata()["made by"], "this example");
/// assert_eq!(tensors.get("bias").unwrap().to_f32().unwrap(), [0.5, -0.5]);
/// assert!(tensors.get("weight").unwrap_err().to_string().contains("no tensor `weight`"));
/// ```
pub struct Tensors {
    subject: String,
    bytes: Bytes,
    entries: IndexMap<String, Entry>,
    metadata: IndexMap<String, String>,
}

/// A tensor of the header, checked: `range` lies in the file and has the length that dtype and shape ask for.
#[derive(Debug)]
struct Entry {
    dtype: DType,
    shape: Vec<usize>,
    /// In the file, not in the data section.
    range: Range<usize>,
}

impl Tensors {
    /// Maps a file into memory and checks its header. Tensors are read from the disk when they are touched.
    ///
    /// The file must not be changed in place while the result lives. This project never does: it replaces files
    /// ([`crate::atomic`]), which leaves the mapped one alone.
    ///
    /// # Errors
    ///
    /// `io`: the file cannot be opened, which is so of every file on wasm32. `format`: it is not a safetensors file, is
    /// cut short, or its header contradicts itself or the file's length.
    pub fn open(path: impl AsRef<Path>) -> Result<Tensors> {
        let path = path.as_ref();
        Tensors::parse(path.display().to_string(), Bytes::open(path)?)
    }

    /// The tensors in `bytes`; `subject` names them in errors.
    ///
    /// # Errors
    ///
    /// `format`: as [`Tensors::open`].
    pub fn from_bytes(subject: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Result<Tensors> {
        Tensors::parse(subject.into(), Bytes::Owned(bytes.into()))
    }

    fn parse(subject: String, bytes: Bytes) -> Result<Tensors> {
        match parse(&bytes) {
            Ok((entries, metadata)) => Ok(Tensors { subject, bytes, entries, metadata }),
            Err(refusal) => Err(refusal.of(subject)),
        }
    }

    /// The name under which errors speak of this file.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The strings that the writer put beside the tensors, in the file's order.
    pub fn metadata(&self) -> &IndexMap<String, String> {
        &self.metadata
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True where there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The tensor of that name.
    ///
    /// # Errors
    ///
    /// `format`: there is none.
    pub fn get(&self, name: &str) -> Result<View<'_>> {
        match self.entries.get(name) {
            Some(entry) => Ok(self.view(entry)),
            None => Err(no_tensor(&self.subject, name, &self.entries)),
        }
    }

    /// Every tensor with its name, in the order of the header.
    pub fn iter(&self) -> Iter<'_> {
        Iter { tensors: self, next: 0 }
    }

    fn view<'a>(&'a self, entry: &'a Entry) -> View<'a> {
        View {
            dtype: entry.dtype,
            shape: &entry.shape,
            bytes: self.bytes.get(entry.range.clone()).unwrap_or_default(),
        }
    }
}

impl<'a> IntoIterator for &'a Tensors {
    type Item = (&'a str, View<'a>);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Tensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensors")
            .field("subject", &self.subject)
            .field("tensors", &self.entries.len())
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// The tensors of a file with their names, in the order of the header.
#[derive(Debug)]
pub struct Iter<'a> {
    tensors: &'a Tensors,
    next: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, View<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, entry) = self.tensors.entries.get_index(self.next)?;
        self.next += 1;
        Some((name, self.tensors.view(entry)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.tensors.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

type Parsed = (IndexMap<String, Entry>, IndexMap<String, String>);

fn parse(file: &[u8]) -> Result<Parsed, Refusal> {
    let (header, data_start) = header_of(file)?;
    let header: Header = match serde_json::from_str(header) {
        Ok(header) => header,
        Err(error) => {
            return refuse(
                format!("the header is not a safetensors header: {}", shorten(&json::plain(&error))),
                "each entry must be {\"dtype\": string, \"shape\": [sizes], \"data_offsets\": [begin, end]}",
            );
        }
    };

    let data_length = (file.len() - data_start) as u64;
    let mut entries = IndexMap::with_capacity(header.tensors.len());
    for (name, declared) in header.tensors {
        let entry = check(&name, declared, data_start, data_length)?;
        if let (at, Some(_)) = entries.insert_full(name, entry) {
            let name = entries.get_index(at).map_or("", |(name, _)| name);
            return refuse(format!("tensor `{}` is declared twice", shorten(name)), "names must be unique");
        }
    }
    check_cover(&entries, data_start, file.len())?;
    Ok((entries, header.metadata))
}

/// The header's text and where the data begins.
fn header_of(file: &[u8]) -> Result<(&str, usize), Refusal> {
    if file.is_empty() {
        return refuse("the file is empty", "a safetensors file would be right");
    }
    let Some((length, rest)) = file.split_first_chunk::<LENGTH_BYTES>() else {
        return refuse(
            format!("the file has only {} bytes", file.len()),
            "a safetensors file begins with 8 bytes that give its header's length",
        );
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER || length > rest.len() as u64 {
        return refuse(not_this_format(file, length), "a complete safetensors file would be right");
    }
    // Fits: it is no longer than `rest`.
    let header = &rest[..length as usize];
    match std::str::from_utf8(header) {
        Ok(header) => Ok((header, LENGTH_BYTES + length as usize)),
        Err(error) => refuse(
            format!(
                "the header is not UTF-8 from byte {} of the file on",
                LENGTH_BYTES + error.valid_up_to()
            ),
            "a safetensors header is JSON in UTF-8",
        ),
    }
}

/// What a file is whose first eight bytes are no plausible header length.
fn not_this_format(file: &[u8], length: u64) -> String {
    let other = match file {
        [b'P', b'K', 3, 4, ..] => "it is a zip archive (perhaps one that PyTorch wrote)",
        [b'G', b'G', b'U', b'F', ..] => "it is a GGUF file",
        [0x80, 2..=5, ..] => "it is a Python pickle",
        [b'{', ..] => "it is JSON",
        _ if length <= MAX_HEADER => {
            return format!(
                "the file is cut short: its header should have {length} bytes and {} are there",
                file.len() - LENGTH_BYTES
            );
        }
        _ => {
            return format!(
                "it is no safetensors file: the first 8 bytes would make the header {length} bytes long, \
                 and the file has {}",
                file.len()
            );
        }
    };
    other.to_owned()
}

/// One tensor of the header, held against the file's length.
fn check(name: &str, declared: Declared, data_start: usize, data_length: u64) -> Result<Entry, Refusal> {
    let name = shorten(name);
    let Some(dtype) = dtype_of(&declared.dtype) else {
        return refuse(
            format!("tensor `{name}` has the dtype `{}`", shorten(&declared.dtype)),
            format!("known are {}", super::DTYPE_NAMES.map(|(_, name)| name).join(", ")),
        );
    };
    let (begin, end) = declared.data_offsets;
    if begin > end {
        return refuse(
            format!("tensor `{name}` begins at byte {begin} and ends at byte {end}"),
            "a tensor must end after it begins",
        );
    }
    let dimensions = &declared.shape;
    match byte_length(dtype, dimensions.iter().copied()) {
        Some(length) if length == end - begin => {}
        Some(length) => {
            return refuse(
                format!("tensor `{name}` has {} bytes (offsets {begin} to {end})", end - begin),
                format!("{dtype} of shape {} needs {length}", shown_shape(dimensions)),
            );
        }
        None => {
            return refuse(
                format!("tensor `{name}` has the shape {}", shown_shape(dimensions)),
                "its bytes must be countable in 64 bits",
            );
        }
    }
    if end > data_length {
        return refuse(
            format!(
                "the file is cut short: tensor `{name}` ends at byte {end} of the data, which has {data_length} bytes"
            ),
            "a complete safetensors file would be right",
        );
    }
    let shape = dimensions.iter().map(|size| usize::try_from(*size)).collect();
    let Ok(shape) = shape else {
        return refuse(
            format!("tensor `{name}` has the shape {}", shown_shape(dimensions)),
            "each size must fit this machine's address space",
        );
    };
    // Both fit: they are within a file that is in the address space.
    Ok(Entry { dtype, shape, range: data_start + begin as usize..data_start + end as usize })
}

/// The tensors must cover the data once: no byte twice, none left over.
fn check_cover(
    entries: &IndexMap<String, Entry>,
    data_start: usize,
    file_length: usize,
) -> Result<(), Refusal> {
    let mut in_file_order: Vec<(&String, &Entry)> = entries.iter().collect();
    in_file_order.sort_by_key(|(_, entry)| (entry.range.start, entry.range.end));
    let mut covered = data_start;
    let mut previous = "";
    for (name, entry) in in_file_order {
        if entry.range.start < covered {
            return refuse(
                format!(
                    "tensors `{}` and `{}` overlap at byte {} of the data",
                    shorten(previous),
                    shorten(name),
                    entry.range.start - data_start
                ),
                "each byte must belong to one tensor",
            );
        }
        if entry.range.start > covered {
            return refuse(
                format!(
                    "bytes {} to {} of the data belong to no tensor",
                    covered - data_start,
                    entry.range.start - data_start
                ),
                "the tensors must cover the data without gaps",
            );
        }
        covered = entry.range.end;
        previous = name;
    }
    if covered != file_length {
        return refuse(
            format!("{} bytes follow the last tensor", file_length - covered),
            "the file must end with its last tensor",
        );
    }
    Ok(())
}

/// The header as it stands in the file: in its order, duplicates included, unchecked.
struct Header {
    tensors: Vec<(String, Declared)>,
    metadata: IndexMap<String, String>,
}

#[derive(serde::Deserialize)]
struct Declared {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from tensor name to dtype, shape and data_offsets")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header { tensors: Vec::new(), metadata: IndexMap::new() };
                let mut has_metadata = false;
                while let Some(name) = map.next_key::<String>()? {
                    if name != METADATA {
                        let declared = map.next_value().map_err(|error| {
                            let found = json::in_words(&error.to_string());
                            // Where it stands is told of the whole.
                            let found = found.split(", at line ").next().unwrap_or_default().to_owned();
                            A::Error::custom(format!("tensor `{}`: {found}", shorten(&name)))
                        })?;
                        header.tensors.push((name, declared));
                        continue;
                    }
                    if std::mem::replace(&mut has_metadata, true) {
                        return Err(A::Error::custom("`__metadata__` stands in it twice"));
                    }
                    // Some writers put `null` where they have nothing to say.
                    header.metadata = map.next_value::<Option<_>>()?.unwrap_or_default();
                }
                Ok(header)
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
