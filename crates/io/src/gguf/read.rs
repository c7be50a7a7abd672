//! Reading: metadata and a list of tensors that are checked in full before a tensor is handed out.

use super::cursor::Cursor;
use super::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, Encoding, MAGIC, MAX_AXES, MAX_KEY, Metadata, Value};
use crate::Result;
use crate::bytes::Bytes;
use crate::error::{Refusal, no_tensor, refuse, shorten};
use indexmap::IndexMap;
use lanthorn_blocks::{describe_unknown, known};
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// The fewest bytes of a metadata entry: a key's length and one character, a type, a value.
const LEAST_ENTRY: u64 = 8 + 1 + 4 + 1;

/// The fewest bytes of a tensor in the list: a name's length, a number of axes, a type, an offset.
const LEAST_TENSOR: u64 = 8 + 4 + 4 + 8;

/// A model file: its metadata in memory, its tensors where they lie.
///
/// ```
/// use lanthorn_io::gguf::{self, Encoding, Gguf, Metadata, View};
/// let mut metadata = Metadata::new("example");
/// metadata.insert("general.architecture", "llama");
/// let bias = View { encoding: Encoding::F32, shape: &[2], bytes: &[0, 0, 0, 63, 0, 0, 0, 191] };
/// let bytes = gguf::to_bytes([("bias", bias)], &metadata).unwrap();
///
/// let file = Gguf::from_bytes("example", bytes).unwrap();
/// assert_eq!(file.metadata().require::<&str>("general.architecture").unwrap(), "llama");
/// assert_eq!(file.get("bias").unwrap().to_f32(), [0.5, -0.5]);
/// assert!(file.get("weight").unwrap_err().to_string().contains("no tensor `weight`"));
/// ```
pub struct Gguf {
    bytes: Bytes,
    version: u32,
    metadata: Metadata,
    tensors: IndexMap<String, Entry>,
}

/// A tensor of the list, checked: `range` lies in the file and has the length that encoding and shape ask for.
#[derive(Debug)]
struct Entry {
    encoding: Encoding,
    shape: Vec<usize>,
    /// In the file, not in the data section.
    range: Range<usize>,
}

/// A tensor that lies somewhere else: in a mapped file or in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    /// How the elements are stored.
    pub encoding: Encoding,
    /// Sizes of the axes in elements, outermost first; empty for a scalar. The last is a multiple of the encoding's
    /// block.
    pub shape: &'a [usize],
    /// The blocks, row by row. In a file they lie at a multiple of its alignment, which is 32 where it says nothing.
    pub bytes: &'a [u8],
}

impl View<'_> {
    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.bytes.len() / self.encoding.block_bytes() * self.encoding.block_elements()
    }

    /// The elements, row-major. Integers and doubles are rounded to single precision.
    pub fn to_f32(&self) -> Vec<f32> {
        self.encoding.unpacked(self.bytes)
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View {{ {} {:?}, {} bytes }}", self.encoding, self.shape, self.bytes.len())
    }
}

impl Gguf {
    /// Maps a file into memory and checks its header. Tensors are read from the disk when they are touched.
    ///
    /// The file must not be changed in place while the result lives. This project never does: it replaces files
    /// ([`crate::atomic`]), which leaves the mapped one alone.
    ///
    /// # Errors
    ///
    /// `io`: the file cannot be opened, which is so of every file on wasm32. `format`: it is not a GGUF file that this
    /// module reads, is cut short, or its header contradicts itself or the file's length.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf> {
        let path = path.as_ref();
        Gguf::parse(path.display().to_string(), Bytes::open(path)?)
    }

    /// The file in `bytes`; `subject` names it in errors.
    ///
    /// # Errors
    ///
    /// `format`: as [`Gguf::open`].
    pub fn from_bytes(subject: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Result<Gguf> {
        Gguf::parse(subject.into(), Bytes::Owned(bytes.into()))
    }

    fn parse(subject: String, bytes: Bytes) -> Result<Gguf> {
        let mut metadata = Metadata::new(subject);
        match parse(&bytes, &mut metadata) {
            Ok((version, tensors)) => Ok(Gguf { bytes, version, metadata, tensors }),
            Err(refusal) => Err(refusal.of(metadata.subject())),
        }
    }

    /// The name under which errors speak of this file.
    pub fn subject(&self) -> &str {
        self.metadata.subject()
    }

    /// The format's version: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What the file says about the model.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// True where there is no tensor, as in a file that holds a vocabulary alone.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The tensor of that name.
    ///
    /// # Errors
    ///
    /// `format`: there is none.
    pub fn get(&self, name: &str) -> Result<View<'_>> {
        match self.tensors.get(name) {
            Some(entry) => Ok(self.view(entry)),
            None => Err(no_tensor(self.subject(), name, &self.tensors)),
        }
    }

    /// Every tensor with its name, in the order of the list.
    pub fn iter(&self) -> Iter<'_> {
        Iter { file: self, next: 0 }
    }

    fn view<'a>(&'a self, entry: &'a Entry) -> View<'a> {
        View {
            encoding: entry.encoding,
            shape: &entry.shape,
            bytes: self.bytes.get(entry.range.clone()).unwrap_or_default(),
        }
    }
}

impl fmt::Debug for Gguf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gguf")
            .field("subject", &self.subject())
            .field("metadata", &self.metadata.values().len())
            .field("tensors", &self.tensors.len())
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl<'a> IntoIterator for &'a Gguf {
    type Item = (&'a str, View<'a>);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The tensors of a file with their names, in the order of the list.
#[derive(Debug)]
pub struct Iter<'a> {
    file: &'a Gguf,
    next: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, View<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, entry) = self.file.tensors.get_index(self.next)?;
        self.next += 1;
        Some((name, self.file.view(entry)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.file.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Reads the metadata into `metadata`; gives the version and the tensors.
fn parse(file: &[u8], metadata: &mut Metadata) -> Result<(u32, IndexMap<String, Entry>), Refusal> {
    check_magic(file)?;
    let mut cursor = Cursor::new(file);
    cursor.take(MAGIC.len() as u64)?;
    let version = read_version(&mut cursor)?;
    let tensors = cursor.u64()?;
    let entries = cursor.u64()?;

    cursor.check_count(entries, LEAST_ENTRY).map_err(|refusal| refusal.within("metadata entries"))?;
    for _ in 0..entries {
        read_entry(&mut cursor, metadata)?;
    }
    let alignment = alignment_of(metadata)?;

    cursor.check_count(tensors, LEAST_TENSOR).map_err(|refusal| refusal.within("tensors"))?;
    let mut declared = IndexMap::new();
    for _ in 0..tensors {
        let name = cursor.string().map_err(|refusal| refusal.within("a tensor's name"))?;
        let tensor = Declared::read(&mut cursor).map_err(|refusal| refusal.within(&called(name)))?;
        if declared.insert(name, tensor).is_some() {
            return refuse(format!("{} is declared twice", called(name)), "names must be unique");
        }
    }

    let data_start = (cursor.position() as u64).next_multiple_of(alignment);
    let mut placed = IndexMap::with_capacity(declared.len());
    for (name, tensor) in declared {
        let entry = tensor.place(name, data_start, alignment, file.len() as u64)?;
        placed.insert(name.to_owned(), entry);
    }
    check_overlap(&placed)?;
    Ok((version, placed))
}

/// Refuses what is another format, by its name where it has one.
fn check_magic(file: &[u8]) -> Result<(), Refusal> {
    let found = match file {
        [] => "the file is empty",
        [b'G', b'G', b'U', b'F', ..] => return Ok(()),
        // The older formats of ggml; as little-endian numbers, so that their letters stand backwards.
        [b'l', b'm', b'g', b'g', ..] | [b'f', b'm', b'g', b'g', ..] | [b't', b'j', b'g', b'g', ..] => {
            "it is a GGML file of before August 2023"
        }
        [b'P', b'K', 3, 4, ..] => "it is a zip archive (perhaps one that PyTorch wrote)",
        [_, _, _, _, _, _, 0, 0, b'{', ..] => "it is a safetensors file",
        _ => "it does not begin with the letters GGUF",
    };
    refuse(found, "a GGUF file would be right")
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, Refusal> {
    match cursor.u32()? {
        version @ (2 | 3) => Ok(version),
        1 => refuse("it is of version 1, of which few files were written", "versions 2 and 3 are read"),
        // Seen from the wrong end, a small number is a large one.
        version if version.swap_bytes() <= 0xFFFF && version > 0xFFFF => {
            refuse("it is a big-endian file", "convert it with `gguf_convert_endian.py` of llama.cpp")
        }
        version => refuse(format!("it is of version {version}"), "versions 2 and 3 are read"),
    }
}

fn read_entry(cursor: &mut Cursor<'_>, metadata: &mut Metadata) -> Result<(), Refusal> {
    let key = cursor.string().map_err(|refusal| refusal.within("a metadata key"))?;
    if key.is_empty() || key.len() > MAX_KEY {
        return refuse(
            format!("a metadata key has {} bytes", key.len()),
            format!("a key has between 1 and {MAX_KEY}"),
        );
    }
    let value =
        Value::read(cursor).map_err(|refusal| refusal.within(&format!("the metadata `{}`", shorten(key))))?;
    if metadata.insert(key, value).is_some() {
        return refuse(format!("the metadata `{}` stands in it twice", shorten(key)), "keys must be unique");
    }
    Ok(())
}

/// What tensors are aligned to, in bytes: a power of two.
pub(super) fn alignment_of(metadata: &Metadata) -> Result<u64, Refusal> {
    let alignment = match metadata.values().get(ALIGNMENT_KEY) {
        None => DEFAULT_ALIGNMENT,
        Some(Value::U32(alignment)) => *alignment,
        Some(other) => {
            return refuse(
                format!("the metadata `{ALIGNMENT_KEY}` is of type {}", other.kind()),
                "the format asks for u32",
            );
        }
    };
    if !alignment.is_power_of_two() {
        return refuse(
            format!("the metadata `{ALIGNMENT_KEY}` is {alignment}"),
            "a power of two would be right",
        );
    }
    Ok(alignment.into())
}

/// A tensor as the list has it, unplaced.
struct Declared {
    encoding: Encoding,
    shape: Vec<usize>,
    bytes: usize,
    /// From the beginning of the data.
    offset: u64,
}

impl Declared {
    /// What follows the name.
    fn read(cursor: &mut Cursor<'_>) -> Result<Declared, Refusal> {
        let axes = cursor.u32()?;
        if axes as usize > MAX_AXES {
            return refuse(format!("it has {axes} axes"), format!("at most {MAX_AXES} are allowed"));
        }
        let mut innermost_first = Vec::with_capacity(axes as usize);
        for _ in 0..axes {
            innermost_first.push(cursor.u64()?);
        }
        let id = cursor.u32()?;
        let Some(encoding) = Encoding::from_id(id) else {
            return refuse(format!("it {}", describe_unknown(id)), format!("known are {}", known()));
        };
        let offset = cursor.u64()?;

        let shape: Option<Vec<usize>> =
            innermost_first.iter().rev().map(|size| usize::try_from(*size).ok()).collect();
        let block = encoding.block_elements();
        let row = shape.as_ref().and_then(|shape| shape.last().copied()).unwrap_or(1);
        if !row.is_multiple_of(block) {
            return refuse(
                format!("it is {encoding} and its rows have {row} elements"),
                format!("a multiple of {block}, the elements of a block, would be right"),
            );
        }
        let placed = shape.and_then(|shape| encoding.byte_length(&shape).map(|bytes| (shape, bytes)));
        match placed {
            Some((shape, bytes)) => Ok(Declared { encoding, shape, bytes, offset }),
            None => refuse(
                format!("it has the sizes {innermost_first:?}"),
                "its bytes must be countable in this machine's address space",
            ),
        }
    }

    fn place(self, name: &str, data_start: u64, alignment: u64, file_length: u64) -> Result<Entry, Refusal> {
        let Declared { encoding, shape, bytes, offset } = self;
        if !offset.is_multiple_of(alignment) {
            return refuse(
                format!("{} begins at byte {offset} of the data", called(name)),
                format!("a multiple of {alignment}, the file's alignment, would be right"),
            );
        }
        let begin = data_start.checked_add(offset);
        let end = begin.and_then(|begin| begin.checked_add(bytes as u64));
        match (begin, end) {
            // Both fit: they are within a file that is in the address space.
            (Some(begin), Some(end)) if end <= file_length => {
                Ok(Entry { encoding, shape, range: begin as usize..end as usize })
            }
            _ => refuse(
                format!(
                    "the file is cut short: {} has {bytes} bytes at byte {offset} of the data, \
                     which begins at byte {data_start} of {file_length}",
                    called(name)
                ),
                "a complete GGUF file would be right",
            ),
        }
    }
}

/// No byte may belong to two tensors. Gaps are the writer's business: each tensor says where it begins.
fn check_overlap(tensors: &IndexMap<String, Entry>) -> Result<(), Refusal> {
    let mut in_file_order: Vec<(&String, &Range<usize>)> = tensors
        .iter()
        .map(|(name, entry)| (name, &entry.range))
        .filter(|(_, range)| !range.is_empty())
        .collect();
    in_file_order.sort_by_key(|(_, range)| range.start);
    for pair in in_file_order.windows(2) {
        let [(first, before), (second, after)] = pair else { continue };
        if after.start < before.end {
            return refuse(
                format!(
                    "{} and {} overlap at byte {} of the file",
                    called(first),
                    called(second),
                    after.start
                ),
                "each byte must belong to one tensor",
            );
        }
    }
    Ok(())
}

fn called(name: &str) -> String {
    format!("tensor `{}`", shorten(name))
}
