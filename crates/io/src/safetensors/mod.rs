//! Named tensors in one file: the [safetensors] format, read without copying and written atomically.
//!
//! A file is a little-endian `u64` (the header's length in bytes), the header (a JSON object from tensor name to
//! `{"dtype", "shape", "data_offsets"}`, with an optional `"__metadata__"` of strings), and the tensors' bytes, which
//! cover the rest of the file without gaps. Elements are little-endian and row-major.
//!
//! Why not the `safetensors` crate: a file that it refuses is refused without a word about what is wrong where, a
//! name that occurs twice wins silently, and tensors come back in another order than they were written. It is a
//! development dependency, and the tests hold this reader and this writer against it.
//!
//! [safetensors]: https://github.com/huggingface/safetensors

mod read;
mod write;

pub use read::{Iter, Tensors};
pub use write::{save, save_unless, to_bytes, write_to};

use crate::{Error, Result};
use lanthorn_ir::DType;
use lanthorn_ir::float8::{F8E4M3, F8E5M2};
use std::fmt;

/// Bytes of the header's length at the beginning of a file.
const LENGTH_BYTES: usize = 8;

/// A longer header is refused, as it is by the reference implementation.
const MAX_HEADER: u64 = 100_000_000;

/// The header's entry that is no tensor.
const METADATA: &str = "__metadata__";

/// The format's names of the element types. `C128` is not in the reference implementation, which refuses it by name.
const DTYPE_NAMES: [(DType, &str); 17] = [
    (DType::Bool, "BOOL"),
    (DType::U8, "U8"),
    (DType::U16, "U16"),
    (DType::U32, "U32"),
    (DType::U64, "U64"),
    (DType::I8, "I8"),
    (DType::I16, "I16"),
    (DType::I32, "I32"),
    (DType::I64, "I64"),
    (DType::F16, "F16"),
    (DType::BF16, "BF16"),
    (DType::F32, "F32"),
    (DType::F64, "F64"),
    (DType::F8E4M3, "F8_E4M3"),
    (DType::F8E5M2, "F8_E5M2"),
    (DType::C64, "C64"),
    (DType::C128, "C128"),
];

/// The format's name of an element type.
fn name_of(dtype: DType) -> &'static str {
    DTYPE_NAMES.iter().find(|(known, _)| *known == dtype).map_or("?", |(_, name)| name)
}

/// The element type of that name.
fn dtype_of(name: &str) -> Option<DType> {
    DTYPE_NAMES.iter().find(|(_, known)| *known == name).map(|(dtype, _)| *dtype)
}

/// Bytes of a tensor, or `None` where they cannot be counted in 64 bits.
fn byte_length(dtype: DType, shape: impl IntoIterator<Item = u64>) -> Option<u64> {
    // A zero anywhere makes the tensor empty, whatever the other sizes would multiply to.
    let mut empty = false;
    let mut elements = Some(1u64);
    for size in shape {
        empty |= size == 0;
        elements = elements.and_then(|so_far| so_far.checked_mul(size));
    }
    if empty {
        return Some(0);
    }
    elements?.checked_mul(dtype.size() as u64)
}

/// A tensor that lies somewhere else: in a mapped file or in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    /// Element type.
    pub dtype: DType,
    /// Sizes of the axes, outermost first; empty for a scalar.
    pub shape: &'a [usize],
    /// The elements, little-endian and row-major. Aligned to the element in a file that this crate wrote; in a file of
    /// another writer they may lie at any address.
    pub bytes: &'a [u8],
}

impl View<'_> {
    /// A copy that owns its bytes.
    pub fn to_tensor(&self) -> OwnedTensor {
        OwnedTensor { dtype: self.dtype, shape: self.shape.to_vec(), bytes: self.bytes.to_vec() }
    }

    /// The elements of a tensor of floats, each as it is: every type of floats fits `f64`.
    ///
    /// ```
    /// use lanthorn_io::{OwnedTensor, View};
    /// let halves = View { dtype: lanthorn_ir::DType::BF16, shape: &[2], bytes: &[0x80, 0x3f, 0x20, 0xc0] };
    /// assert_eq!(halves.floats().unwrap().collect::<Vec<f64>>(), [1.0, -2.5]);
    /// ```
    ///
    /// # Errors
    ///
    /// `format`: an element type that is none of floats.
    pub fn floats(&self) -> Result<impl Iterator<Item = f64>> {
        let read: fn(&[u8]) -> f64 = match self.dtype {
            DType::F32 => |bytes| f32::from_le_bytes(array(bytes)).into(),
            DType::F64 => |bytes| f64::from_le_bytes(array(bytes)),
            DType::F16 => |bytes| half::f16::from_le_bytes(array(bytes)).into(),
            DType::BF16 => |bytes| half::bf16::from_le_bytes(array(bytes)).into(),
            DType::F8E4M3 => |bytes| F8E4M3(u8::from_le_bytes(array(bytes))).to_f32().into(),
            DType::F8E5M2 => |bytes| F8E5M2(u8::from_le_bytes(array(bytes))).to_f32().into(),
            other => {
                return Err(Error::format(
                    "tensor",
                    format!("elements are {other}"),
                    "floats were asked for",
                ));
            }
        };
        Ok(self.bytes.chunks_exact(self.dtype.size()).map(read))
    }

    /// The elements of an `f32` tensor.
    ///
    /// # Errors
    ///
    /// `format`: another element type.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        if self.dtype != DType::F32 {
            return Err(Error::format(
                "tensor",
                format!("elements are {}", self.dtype),
                "f32 elements were asked for",
            ));
        }
        let (elements, _) = self.bytes.as_chunks::<4>();
        Ok(elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

/// The bytes of one element, which are as many.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

/// A tensor with its own bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedTensor {
    /// Element type.
    pub dtype: DType,
    /// Sizes of the axes, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// The elements, little-endian and row-major: as many bytes as dtype and shape ask for.
    pub bytes: Vec<u8>,
}

impl OwnedTensor {
    /// An `f32` tensor of `elements` in row-major order.
    ///
    /// ```
    /// let weight = lanthorn_io::OwnedTensor::from_f32(vec![2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    /// assert_eq!(weight.bytes.len(), 24);
    /// assert_eq!(weight.to_f32().unwrap()[4], 4.0);
    /// ```
    pub fn from_f32(shape: Vec<usize>, elements: &[f32]) -> OwnedTensor {
        let bytes = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
        OwnedTensor { dtype: DType::F32, shape, bytes }
    }

    /// The elements of an `f32` tensor.
    ///
    /// # Errors
    ///
    /// `format`: another element type.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        self.view().to_f32()
    }

    /// The tensor, borrowed.
    pub fn view(&self) -> View<'_> {
        View { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("View", self, f)
    }
}

impl fmt::Debug for OwnedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("OwnedTensor", &self.view(), f)
    }
}

/// A tensor for a person to read: a million elements are no help.
fn describe(kind: &str, view: &View<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SHOWN: usize = 8;
    write!(f, "{kind} {{ {} {:?}, {} bytes:", view.dtype, view.shape, view.bytes.len())?;
    for byte in view.bytes.iter().take(SHOWN) {
        write!(f, " {byte:02x}")?;
    }
    f.write_str(if view.bytes.len() > SHOWN { " ... }" } else { " }" })
}

#[cfg(test)]
mod tests;
