//! The elements of packed blocks.
//!
//! Each function takes one block as it lies in a file and gives its elements. The layouts are those of
//! `ggml-common.h` in llama.cpp, the arithmetic is that of the `dequantize_row_*` functions of its `ggml-quants.c`: f32,
//! in their order, each operation rounded by itself. (A compiler that fuses a product and a sum there may differ from it
//! in the last bit; here nothing is fused.)
//!
//! A scale is half precision, `d` in ggml, a minimum `m`; `q` is a small integer. Loops have constant bounds and no
//! branches, so that the compiler can make vector instructions of them.

use half::f16;
use lanthorn_error::{Error, ErrorKind, Result};

use crate::Encoding;

impl Encoding {
    /// The elements of as many whole blocks as there are; see [`Encoding::unpack`].
    pub fn unpacked(self, bytes: &[u8]) -> Vec<f32> {
        let mut elements = vec![0.0; bytes.len() / self.block_bytes() * self.block_elements()];
        unpack(self, bytes, &mut elements);
        elements
    }

    /// Writes the elements of whole blocks to `elements`: rows of a tensor, or parts of rows, without a new allocation.
    /// Integers and doubles are rounded to single precision.
    ///
    /// ```
    /// use lanthorn_blocks::Encoding;
    /// // A scale of 0.5 in half precision, then the integers.
    /// let mut block = [0u8; 34];
    /// block[..4].copy_from_slice(&[0x00, 0x38, 3, 0xFE]);
    /// let mut elements = [0.0; 32];
    /// Encoding::Q8_0.unpack(&block, &mut elements)?;
    /// assert_eq!(elements[..3], [1.5, -1.0, 0.0]);
    /// # lanthorn_error::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// `format`: `bytes` are not whole blocks, or hold another number of elements.
    pub fn unpack(self, bytes: &[u8], elements: &mut [f32]) -> Result<()> {
        let blocks = bytes.len() / self.block_bytes();
        if !bytes.len().is_multiple_of(self.block_bytes())
            || blocks.checked_mul(self.block_elements()) != Some(elements.len())
        {
            let message = format!(
                "{} bytes of {self} for {} elements; {} bytes are {} elements",
                bytes.len(),
                elements.len(),
                self.block_bytes(),
                self.block_elements()
            );
            return Err(Error::new(ErrorKind::Format, "blocks", message));
        }
        unpack(self, bytes, elements);
        Ok(())
    }
}

/// Unpacks as many whole blocks as both sides have.
fn unpack(encoding: Encoding, bytes: &[u8], elements: &mut [f32]) {
    match encoding {
        Encoding::F32 => each(bytes, elements, |b, e| *e = [f32::from_le_bytes(*b)]),
        Encoding::F16 => each(bytes, elements, |b, e| *e = [f16::from_le_bytes(*b).to_f32()]),
        Encoding::BF16 => {
            each(bytes, elements, |b, e| *e = [f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16)]);
        }
        Encoding::F64 => each(bytes, elements, |b, e| *e = [f64::from_le_bytes(*b) as f32]),
        Encoding::I8 => each(bytes, elements, |b, e| *e = [f32::from(i8::from_le_bytes(*b))]),
        Encoding::I16 => each(bytes, elements, |b, e| *e = [f32::from(i16::from_le_bytes(*b))]),
        Encoding::I32 => each(bytes, elements, |b, e| *e = [i32::from_le_bytes(*b) as f32]),
        Encoding::I64 => each(bytes, elements, |b, e| *e = [i64::from_le_bytes(*b) as f32]),
        Encoding::Q4_0 => each(bytes, elements, q4_0),
        Encoding::Q4_1 => each(bytes, elements, q4_1),
        Encoding::Q5_0 => each(bytes, elements, q5_0),
        Encoding::Q5_1 => each(bytes, elements, q5_1),
        Encoding::Q8_0 => each(bytes, elements, q8_0),
        Encoding::Q2K => each(bytes, elements, q2_k),
        Encoding::Q3K => each(bytes, elements, q3_k),
        Encoding::Q4K => each(bytes, elements, q4_k),
        Encoding::Q5K => each(bytes, elements, q5_k),
        Encoding::Q6K => each(bytes, elements, q6_k),
    }
}

fn each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    elements: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    let (blocks, _) = bytes.as_chunks();
    let (groups, _) = elements.as_chunks_mut();
    for (bytes, elements) in blocks.iter().zip(groups) {
        block(bytes, elements);
    }
}

fn half(low: u8, high: u8) -> f32 {
    f16::from_le_bytes([low, high]).to_f32()
}

/// Scale; 32 integers of 4 bits, less 8. The low halves of the bytes are the first 16, the high halves the others.
fn q4_0(block: &[u8; 18], elements: &mut [f32; 32]) {
    let [d0, d1, quants @ ..] = block;
    let d = half(*d0, *d1);
    for (at, byte) in quants.iter().enumerate() {
        elements[at] = d * f32::from((byte & 15) as i8 - 8);
        elements[at + 16] = d * f32::from((byte >> 4) as i8 - 8);
    }
}

/// Scale, minimum; 32 integers of 4 bits, arranged as in `Q4_0`.
fn q4_1(block: &[u8; 20], elements: &mut [f32; 32]) {
    let [d0, d1, m0, m1, quants @ ..] = block;
    let (d, m) = (half(*d0, *d1), half(*m0, *m1));
    for (at, byte) in quants.iter().enumerate() {
        elements[at] = d * f32::from(byte & 15) + m;
        elements[at + 16] = d * f32::from(byte >> 4) + m;
    }
}

/// Scale; the fifth bits of 32 integers, the first element's lowest; their lower 4 bits as in `Q4_0`; less 16.
fn q5_0(block: &[u8; 22], elements: &mut [f32; 32]) {
    let [d0, d1, h0, h1, h2, h3, quants @ ..] = block;
    let d = half(*d0, *d1);
    let fifth = u32::from_le_bytes([*h0, *h1, *h2, *h3]);
    for (at, byte) in quants.iter().enumerate() {
        let (low, high) = with_fifth_bits(*byte, fifth, at);
        elements[at] = d * f32::from(low as i8 - 16);
        elements[at + 16] = d * f32::from(high as i8 - 16);
    }
}

/// Scale, minimum; 32 integers of 5 bits, arranged as in `Q5_0`.
fn q5_1(block: &[u8; 24], elements: &mut [f32; 32]) {
    let [d0, d1, m0, m1, h0, h1, h2, h3, quants @ ..] = block;
    let (d, m) = (half(*d0, *d1), half(*m0, *m1));
    let fifth = u32::from_le_bytes([*h0, *h1, *h2, *h3]);
    for (at, byte) in quants.iter().enumerate() {
        let (low, high) = with_fifth_bits(*byte, fifth, at);
        elements[at] = d * f32::from(low) + m;
        elements[at + 16] = d * f32::from(high) + m;
    }
}

/// The integers `at` and `at + 16` of a block of 5 bits.
fn with_fifth_bits(byte: u8, fifth: u32, at: usize) -> (u8, u8) {
    let bit = |element: usize| ((fifth >> element) as u8 & 1) << 4;
    ((byte & 15) | bit(at), (byte >> 4) | bit(at + 16))
}

/// Scale; 32 signed integers of 8 bits.
fn q8_0(block: &[u8; 34], elements: &mut [f32; 32]) {
    let [d0, d1, quants @ ..] = block;
    let d = half(*d0, *d1);
    for (element, byte) in elements.iter_mut().zip(quants) {
        *element = f32::from(*byte as i8) * d;
    }
}

/// For each 16 elements a scale (low half) and a minimum (high half); 256 integers of 2 bits; the scales' scale, the
/// minima's scale. 32 bytes hold 128 elements: their lowest two bits the first 32, and so on.
fn q2_k(block: &[u8; 84], elements: &mut [f32; 256]) {
    let (scales, rest) = block.split_at(16);
    let (quants, rest) = rest.split_at(64);
    let (d, m) = (half(rest[0], rest[1]), half(rest[2], rest[3]));
    for (group, run) in elements.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group] & 15);
        let minimum = m * f32::from(scales[group] >> 4);
        let quants = &quants[group / 8 * 32 + group % 2 * 16..][..16];
        let shift = group % 8 / 2 * 2;
        for (element, byte) in run.iter_mut().zip(quants) {
            *element = scale * f32::from(byte >> shift & 3) - minimum;
        }
    }
}

/// The third bits of 256 integers (bit `n` of byte `i`: element `32 * n + i`), where a cleared bit means less 4; their
/// lower 2 bits arranged as in `Q2_K`; 16 scales of 6 bits, less 32; the scales' scale.
fn q3_k(block: &[u8; 110], elements: &mut [f32; 256]) {
    let (third, rest) = block.split_at(32);
    let (quants, rest) = rest.split_at(64);
    let (scales, rest) = rest.split_at(12);
    let d = half(rest[0], rest[1]);
    for (group, run) in elements.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        // The lower 4 bits in halves of the first 8 bytes, the upper 2 in quarters of the last 4.
        let low = scales[group % 8] >> (group / 8 * 4) & 15;
        let high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
        let scale = d * f32::from((low | high << 4) as i8 - 32);
        let quants = &quants[group / 8 * 32 + group % 2 * 16..][..16];
        let third = &third[group % 2 * 16..][..16];
        let shift = group % 8 / 2 * 2;
        let bit = group / 2;
        for ((element, byte), third) in run.iter_mut().zip(quants).zip(third) {
            let less = 4 - (third >> bit & 1) * 4;
            *element = scale * f32::from((byte >> shift & 3) as i8 - less as i8);
        }
    }
}

/// The scales' scale, the minima's scale; 8 scales and 8 minima of 6 bits; 256 integers of 4 bits. 32 bytes hold 64
/// elements: their low halves the first 32, their high halves the others.
fn q4_k(block: &[u8; 144], elements: &mut [f32; 256]) {
    let [d0, d1, m0, m1, rest @ ..] = block;
    let (d, m) = (half(*d0, *d1), half(*m0, *m1));
    let (scales, quants) = rest.split_at(12);
    for (group, run) in elements.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(scales, group);
        let (scale, minimum) = (d * f32::from(scale), m * f32::from(minimum));
        let quants = &quants[group / 2 * 32..][..32];
        let shift = group % 2 * 4;
        for (element, byte) in run.iter_mut().zip(quants) {
            *element = scale * f32::from(byte >> shift & 15) - minimum;
        }
    }
}

/// As `Q4_K`, with the fifth bits of the integers before the lower four (bit `n` of byte `i`: element `32 * n + i`).
fn q5_k(block: &[u8; 176], elements: &mut [f32; 256]) {
    let [d0, d1, m0, m1, rest @ ..] = block;
    let (d, m) = (half(*d0, *d1), half(*m0, *m1));
    let (scales, rest) = rest.split_at(12);
    let (fifth, quants) = rest.split_at(32);
    for (group, run) in elements.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(scales, group);
        let (scale, minimum) = (d * f32::from(scale), m * f32::from(minimum));
        let quants = &quants[group / 2 * 32..][..32];
        let shift = group % 2 * 4;
        for ((element, byte), fifth) in run.iter_mut().zip(quants).zip(fifth) {
            let quant = (byte >> shift & 15) | (fifth >> group & 1) << 4;
            *element = scale * f32::from(quant) - minimum;
        }
    }
}

/// The scale and the minimum of 32 elements: the first four of each in the low 6 bits of the first 8 bytes; of the
/// others the lower 4 bits in halves of the last 4 bytes, the upper 2 above the first ones.
fn scale_and_minimum(packed: &[u8], group: usize) -> (u8, u8) {
    let at = group % 4;
    match group / 4 {
        0 => (packed[at] & 63, packed[at + 4] & 63),
        _ => (
            (packed[at + 8] & 15) | (packed[at] >> 6) << 4,
            (packed[at + 8] >> 4) | (packed[at + 4] >> 6) << 4,
        ),
    }
}

/// The lower 4 bits of 256 integers: 64 bytes hold 128 elements, their low halves the first 64; the upper 2 bits,
/// arranged as in `Q2_K`; less 32. 16 signed scales of 8 bits; the scales' scale.
fn q6_k(block: &[u8; 210], elements: &mut [f32; 256]) {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let (scales, rest) = rest.split_at(16);
    let d = half(rest[0], rest[1]);
    for (group, run) in elements.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group] as i8);
        let (half, part) = (group / 8, group % 8);
        let low = &low[half * 64 + part % 4 * 16..][..16];
        let high = &high[half * 32 + part % 2 * 16..][..16];
        let (low_shift, high_shift) = (part / 4 * 4, part / 2 * 2);
        for ((element, low), high) in run.iter_mut().zip(low).zip(high) {
            let quant = (low >> low_shift & 15) | (high >> high_shift & 3) << 4;
            *element = scale * f32::from(quant as i8 - 32);
        }
    }
}
