//! How elements are stored: as themselves, or packed in blocks that share a scale.

use serde::{Deserialize, Serialize};

/// How the elements of a tensor are stored: ggml's element types, by the names they have there.
///
/// A packed encoding stores so many elements of the last axis in one block of bytes; the blocks of a row follow each
/// other, and a row holds whole blocks. How each block is laid out stands beside the code of [`Encoding::unpack`].
///
/// What is missing here is refused by its name when a file is read: the `IQ` and `TQ` families, `MXFP4` and `NVFP4`, and
/// `Q8_1` and `Q8_K`, which are intermediate results of ggml and do not occur in files.
///
/// ```
/// use lanthorn_blocks::Encoding;
/// assert_eq!(Encoding::Q4_1.block_elements(), 32);
/// assert_eq!(Encoding::Q4_1.block_bytes(), 20);
/// assert_eq!(Encoding::Q4_1.byte_length(&[576, 1536]), Some(552_960));
/// assert_eq!(Encoding::Q4_1.byte_length(&[3, 33]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Encoding {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of a single.
    BF16,
    /// IEEE 754 double precision.
    F64,
    /// Signed integers of 8 bits.
    I8,
    /// Signed integers of 16 bits.
    I16,
    /// Signed integers of 32 bits.
    I32,
    /// Signed integers of 64 bits.
    I64,
    /// 4 bits and a scale for 32 elements.
    Q4_0,
    /// 4 bits, a scale and a minimum for 32 elements.
    Q4_1,
    /// 5 bits and a scale for 32 elements.
    Q5_0,
    /// 5 bits, a scale and a minimum for 32 elements.
    Q5_1,
    /// 8 bits and a scale for 32 elements.
    Q8_0,
    /// 2 bits for 256 elements; scales and minima of 4 bits for 16.
    Q2K,
    /// 3 bits for 256 elements; scales of 6 bits for 16.
    Q3K,
    /// 4 bits for 256 elements; scales and minima of 6 bits for 32.
    Q4K,
    /// 5 bits for 256 elements; scales and minima of 6 bits for 32.
    Q5K,
    /// 6 bits for 256 elements; scales of 8 bits for 16.
    Q6K,
}

/// An encoding's number in files, its name, and the elements and bytes of a block (`enum ggml_type` of `ggml.h` and the
/// block structs of `ggml-common.h`).
type Row = (Encoding, u32, &'static str, usize, usize);

const TABLE: [Row; 18] = [
    (Encoding::F32, 0, "F32", 1, 4),
    (Encoding::F16, 1, "F16", 1, 2),
    (Encoding::BF16, 30, "BF16", 1, 2),
    (Encoding::F64, 28, "F64", 1, 8),
    (Encoding::I8, 24, "I8", 1, 1),
    (Encoding::I16, 25, "I16", 1, 2),
    (Encoding::I32, 26, "I32", 1, 4),
    (Encoding::I64, 27, "I64", 1, 8),
    (Encoding::Q4_0, 2, "Q4_0", 32, 18),
    (Encoding::Q4_1, 3, "Q4_1", 32, 20),
    (Encoding::Q5_0, 6, "Q5_0", 32, 22),
    (Encoding::Q5_1, 7, "Q5_1", 32, 24),
    (Encoding::Q8_0, 8, "Q8_0", 32, 34),
    (Encoding::Q2K, 10, "Q2_K", 256, 84),
    (Encoding::Q3K, 11, "Q3_K", 256, 110),
    (Encoding::Q4K, 12, "Q4_K", 256, 144),
    (Encoding::Q5K, 13, "Q5_K", 256, 176),
    (Encoding::Q6K, 14, "Q6_K", 256, 210),
];

/// Names of the numbers that are not read, so that a refusal can say them.
const NOT_READ: [(u32, &str); 18] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
];

impl Encoding {
    /// Every encoding.
    pub const ALL: [Encoding; 18] = {
        let mut all = [Encoding::F32; 18];
        let mut at = 0;
        while at < all.len() {
            all[at] = TABLE[at].0;
            at += 1;
        }
        all
    };

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The number that stands for it in files.
    pub const fn id(self) -> u32 {
        self.row().1
    }

    /// The encoding of that number, if it is one of ours.
    pub fn from_id(id: u32) -> Option<Encoding> {
        TABLE.iter().find(|row| row.1 == id).map(|row| row.0)
    }

    /// The encoding that has ggml's `name`, such as `Q4_1`.
    pub fn from_name(name: &str) -> Option<Encoding> {
        TABLE.iter().find(|row| row.2 == name).map(|row| row.0)
    }

    /// True where several elements share a block, and so no dtype holds them.
    pub const fn is_packed(self) -> bool {
        self.block_elements() > 1
    }

    /// ggml's name, such as `Q4_1` or `Q6_K`.
    pub const fn name(self) -> &'static str {
        self.row().2
    }

    /// How many elements of the last axis one block holds; 1 where elements are not packed.
    pub const fn block_elements(self) -> usize {
        self.row().3
    }

    /// How many bytes one block has.
    pub const fn block_bytes(self) -> usize {
        self.row().4
    }

    /// Bytes of a tensor of that shape, outermost size first; `None` where a row does not hold whole blocks or the
    /// bytes cannot be counted in this machine's address space.
    pub fn byte_length(self, shape: &[usize]) -> Option<usize> {
        let row = shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(self.block_elements()) {
            return None;
        }
        // A zero anywhere makes the tensor empty, whatever the other sizes would multiply to.
        if shape.contains(&0) {
            return Some(0);
        }
        let elements = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size))?;
        (elements / self.block_elements()).checked_mul(self.block_bytes())
    }
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What to call a number that is no [`Encoding`].
pub fn describe_unknown(id: u32) -> String {
    match NOT_READ.iter().find(|(known, _)| *known == id) {
        Some((_, name)) => format!("is {name}"),
        None => format!("has the unknown type {id}"),
    }
}

/// The names of all encodings, for a message.
pub fn known() -> String {
    TABLE.map(|row| row.2).join(", ")
}
