//! Files that `torch.save` writes: a ZIP archive of a pickle, which names tensors, and of their bytes.
//!
//! A pickle is a program, and this module runs none: of its instructions it follows those that build lists, dictionaries, numbers
//! and tensors, and it refuses by name whatever else a file asks for. Nothing is believed: each size, stride and offset is held
//! against the bytes that are there.
//!
//! Read are dictionaries of tensors, such as a state dictionary, also within others: `{"model": {"weight": ..}}` gives
//! `model.weight`. Numbers, truth values and texts beside tensors are given as texts. What else there is, is passed over.

mod pickle;

use crate::archive::{Archive, Format};
use crate::error::{Refusal, refuse, shorten, shown_shape};
use crate::{OwnedTensor, Result};
use indexmap::IndexMap;
use lanthorn_ir::DType;
use pickle::{Object, Pickle};
use std::path::Path;

/// How deep dictionaries may lie in one another.
const MAX_DEPTH: usize = 32;

/// So many bytes of names and texts a small file may have whatever it names how often.
const MOST_SAVED: usize = 1 << 16;

/// The most bytes of a pickle: each may become an object of nearly a hundred. That of a thousand tensors takes 100 KiB.
const MOST_PICKLED: usize = 32 << 20;

/// How often, on average, the bytes of a file may be elements of its tensors: tied weights share theirs.
const MOST_SHARED: usize = 64;

/// The tensors of a file, each of its own bytes, and what stands beside them.
#[derive(Debug, Default)]
pub struct Content {
    /// Tensors by name, in the file's order.
    pub tensors: IndexMap<String, OwnedTensor>,
    /// Numbers, truth values and texts by name, as texts.
    pub metadata: IndexMap<String, String>,
}

/// Reads a file.
///
/// # Errors
///
/// `io`: the file cannot be opened. `format`: it is no archive of torch (files of torch before 1.6 are none), is cut short or contradicts
/// itself, or needs more to be run than is read here.
pub fn open(path: impl AsRef<Path>) -> Result<Content> {
    let archive = Archive::open(path, Format::Zip)?;
    content(&archive).map_err(|refusal| refusal.of(archive.subject()))
}

/// The content of `bytes`; `subject` names them in errors.
///
/// # Errors
///
/// `format`: as [`open`].
pub fn from_bytes(subject: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Result<Content> {
    let archive = Archive::from_bytes(subject, bytes, Format::Zip)?;
    content(&archive).map_err(|refusal| refusal.of(archive.subject()))
}

const EXPECTED: &str = "an archive that torch.save has written would be right";

fn content(archive: &Archive) -> Result<Content, Refusal> {
    let root = archive.iter().find_map(|(name, _)| name.strip_suffix("data.pkl"));
    let Some(root) = root else {
        return refuse("it has no entry data.pkl", EXPECTED);
    };
    if archive.get(&format!("{root}byteorder")).is_some_and(|order| order != b"little") {
        return refuse(
            "its numbers are not little-endian",
            "a file of a little-endian machine would be right",
        );
    }
    let program = archive.get(&format!("{root}data.pkl")).unwrap_or_default();
    if program.len() > MOST_PICKLED {
        return refuse(
            format!("its pickle is of {} bytes", program.len()),
            format!(
                "names and shapes in at most {MOST_PICKLED} bytes, with the elements beside them, would be right"
            ),
        );
    }
    let pickle = Pickle::read(program)?;
    let mut reader = Reader {
        archive,
        root,
        pickle: &pickle,
        found: Content::default(),
        words: 16 * program.len() + MOST_SAVED,
        elements: MOST_SHARED * archive.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(),
    };
    reader.walk(pickle.root(), "", 0)?;
    Ok(reader.found)
}

/// Collects what a pickle holds.
struct Reader<'a> {
    archive: &'a Archive,
    root: &'a str,
    pickle: &'a Pickle,
    found: Content,
    /// How many bytes of names and texts may follow: what is in several places is taken from each.
    words: usize,
    /// How many bytes of elements may follow.
    elements: usize,
}

impl Reader<'_> {
    fn walk(&mut self, at: usize, name: &str, depth: usize) -> Result<(), Refusal> {
        self.spend(1 + name.len())?;
        if depth > MAX_DEPTH {
            return refuse(format!("dictionaries lie more than {MAX_DEPTH} deep in one another"), EXPECTED);
        }
        let within = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
        let pickle = self.pickle;
        let text = match pickle.get(at) {
            Object::Dict(pairs) => {
                for &(key, value) in pairs {
                    let part = match pickle.get(key) {
                        Object::Text(text) => text.to_string(),
                        Object::Int(number) => number.to_string(),
                        _ => {
                            self.expect_no_tensor(value, name, depth + 1)?;
                            continue;
                        }
                    };
                    self.walk(value, &within(&part), depth + 1)?;
                }
                return Ok(());
            }
            Object::List(items) | Object::Tuple(items) => {
                for (place, &item) in items.iter().enumerate() {
                    self.walk(item, &within(&place.to_string()), depth + 1)?;
                }
                return Ok(());
            }
            Object::Tensor(tensor) => {
                let tensor =
                    self.tensor(tensor).map_err(|refusal| refusal.within(&format!("`{}`", shorten(name))))?;
                if self.found.tensors.insert(name.to_owned(), tensor).is_some() {
                    return refuse(format!("the tensor `{}` is there twice", shorten(name)), EXPECTED);
                }
                return Ok(());
            }
            Object::Int(number) => number.to_string(),
            Object::Float(number) => number.to_string(),
            Object::Bool(truth) => truth.to_string(),
            Object::Text(text) => {
                self.spend(text.len())?;
                text.to_string()
            }
            Object::Storage(_) => {
                let found = format!("`{}` is a storage, which has no shape", shorten(name));
                return refuse(found, "a tensor would be right");
            }
            _ => return Ok(()),
        };
        if self.found.metadata.insert(name.to_owned(), text).is_some() {
            return refuse(format!("the value `{}` is there twice", shorten(name)), EXPECTED);
        }
        Ok(())
    }

    /// Refuses tensors under a key that gives them no name; what else is there is passed over.
    fn expect_no_tensor(&mut self, at: usize, name: &str, depth: usize) -> Result<(), Refusal> {
        let found = std::mem::take(&mut self.found);
        self.walk(at, name, depth)?;
        let nameless = std::mem::replace(&mut self.found, found);
        if nameless.tensors.is_empty() {
            return Ok(());
        }
        let found = format!("a key of `{}` is no text and no whole number, and has a tensor", shorten(name));
        refuse(found, "texts or whole numbers as keys would be right")
    }

    /// Counts names and texts, which a file may hold once and name often.
    fn spend(&mut self, bytes: usize) -> Result<(), Refusal> {
        match self.words.checked_sub(bytes) {
            Some(left) => {
                self.words = left;
                Ok(())
            }
            None => refuse("its dictionaries hold the same over and over", EXPECTED),
        }
    }

    /// The elements of a tensor in row-major order.
    fn tensor(&mut self, tensor: &pickle::Tensor) -> Result<OwnedTensor, Refusal> {
        let pickle::Tensor { storage, dtype, offset, shape, strides } = tensor;
        let name = format!("{}data/{storage}", self.root);
        let Some(bytes) = self.archive.get(&name) else {
            return refuse(format!("it lies in `{}`, which is not there", shorten(&name)), EXPECTED);
        };
        let (width, held) = (dtype.size(), bytes.len() / dtype.size());
        let is_empty = shape.contains(&0);
        let product = || shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        let count = if is_empty { Some(0) } else { product() };
        let last = shape.iter().zip(strides).try_fold(*offset, |last, (&size, &stride)| {
            last.checked_add(size.saturating_sub(1).checked_mul(stride)?)
        });
        let fits = shape.len() == strides.len() && (is_empty || last.is_some_and(|last| last < held));
        if !fits {
            let found = format!("its shape is {} from element {offset} on", shown_shape(shape));
            return refuse(found, format!("no more than the {held} elements that are there would be right"));
        }
        let Some(count) = count.filter(|&count| count <= held) else {
            let found =
                format!("its elements overlap: its shape is {} over {held} elements", shown_shape(shape));
            return refuse(found, "a tensor that was cloned before it was saved would be right");
        };
        self.elements = match self.elements.checked_sub(count * width) {
            Some(left) => left,
            None => return refuse("it is one of many over the same elements", EXPECTED),
        };
        let mut elements = Vec::with_capacity(count * width);
        let mut place = vec![0usize; shape.len()];
        for _ in 0..count {
            let at = offset + place.iter().zip(strides).map(|(at, stride)| at * stride).sum::<usize>();
            elements.extend_from_slice(bytes.get(at * width..(at + 1) * width).unwrap_or_default());
            for (at, &size) in place.iter_mut().zip(shape).rev() {
                *at += 1;
                if *at < size {
                    break;
                }
                *at = 0;
            }
        }
        if *dtype == DType::Bool && elements.iter().any(|&byte| byte > 1) {
            return refuse("an element is neither true nor false", "bytes of 0 and 1 would be right");
        }
        Ok(OwnedTensor { dtype: *dtype, shape: shape.clone(), bytes: elements })
    }
}

#[cfg(test)]
mod tests;
