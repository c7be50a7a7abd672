//! Elements as packed blocks: ggml's reference quantisation, which rounds each element by itself.
//!
//! These are the `quantize_row_*_ref` functions of `ggml-quants.c` in llama.cpp, to the bit. The `K` encodings are not
//! among them: what makes those good is a search over scales.

use half::{bf16, f16};
use lanthorn_error::{Error, ErrorKind, Result};

use crate::Encoding;

impl Encoding {
    /// Packs elements: rows of a tensor, one after the other.
    ///
    /// # Errors
    ///
    /// `format`: this encoding is read and not made (integers, doubles, the `K` encodings), the elements are no whole
    /// blocks, or a block that is packed with a scale holds an element that is not finite or too large for a scale in
    /// half precision.
    ///
    /// ```
    /// use lanthorn_blocks::Encoding;
    /// let row: Vec<f32> = (-16..16).map(|at| at as f32).collect();
    /// let bytes = Encoding::Q4_0.pack(&row).unwrap();
    /// let mut unpacked = [0.0; 32];
    /// Encoding::Q4_0.unpack(&bytes, &mut unpacked).unwrap();
    /// assert_eq!(unpacked[..4], [-16.0, -14.0, -14.0, -12.0]);
    /// ```
    pub fn pack(self, elements: &[f32]) -> Result<Vec<u8>> {
        match self {
            Encoding::F32 => Ok(elements.iter().flat_map(|element| element.to_le_bytes()).collect()),
            Encoding::F16 => Ok(elements.iter().flat_map(|e| f16::from_f32(*e).to_le_bytes()).collect()),
            Encoding::BF16 => Ok(elements.iter().flat_map(|e| bf16::from_f32(*e).to_le_bytes()).collect()),
            Encoding::Q4_0 => self.each(elements, q4_0),
            Encoding::Q4_1 => self.each(elements, q4_1),
            Encoding::Q5_0 => self.each(elements, q5_0),
            Encoding::Q5_1 => self.each(elements, q5_1),
            Encoding::Q8_0 => self.each(elements, q8_0),
            _ => refuse(format!(
                "they should become {self}; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 can be made"
            )),
        }
    }

    fn each(self, elements: &[f32], block: impl Fn(&[f32; 32], &mut Vec<u8>)) -> Result<Vec<u8>> {
        let (blocks, rest) = elements.as_chunks();
        if !rest.is_empty() {
            return refuse(format!(
                "there are {}; {self} packs {} at a time",
                elements.len(),
                self.block_elements()
            ));
        }
        if let Some(at) = elements.iter().position(|element| element.is_nan() || element.abs() > LARGEST) {
            return refuse(format!(
                "element {at} is {}; {self} packs numbers between -{LARGEST} and {LARGEST}",
                elements[at]
            ));
        }
        let mut bytes = Vec::with_capacity(blocks.len() * self.block_bytes());
        blocks.iter().for_each(|elements| block(elements, &mut bytes));
        Ok(bytes)
    }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Format, "elements", message))
}

/// The largest number of half precision. Up to it every scale and every minimum has one.
const LARGEST: f32 = 65504.0;

fn push_half(value: f32, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&f16::from_f32(value).to_le_bytes());
}

/// What elements are multiplied with instead of being divided by the scale.
fn reciprocal(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The element that is largest without its sign, the first of those; with its sign.
fn largest(elements: &[f32; 32]) -> f32 {
    elements.iter().fold(0.0, |most: f32, element| if element.abs() > most.abs() { *element } else { most })
}

fn bounds(elements: &[f32; 32]) -> (f32, f32) {
    let start = (f32::INFINITY, f32::NEG_INFINITY);
    elements.iter().fold(start, |(low, high), element| (low.min(*element), high.max(*element)))
}

/// The fifth bits of 32 integers, the first one's lowest.
fn fifth_bits(quants: &[u8; 32]) -> [u8; 4] {
    let bits = quants.iter().enumerate().fold(0, |bits, (at, quant)| bits | u32::from(quant >> 4 & 1) << at);
    bits.to_le_bytes()
}

/// The lower 4 bits of 32 integers: the first 16 in the low halves, the others in the high ones.
fn halves(quants: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|at| (quants[at] & 15) | (quants[at + 16] & 15) << 4)
}

fn q4_0(elements: &[f32; 32], bytes: &mut Vec<u8>) {
    let scale = largest(elements) / -8.0;
    let inverse = reciprocal(scale);
    push_half(scale, bytes);
    bytes.extend(halves(&elements.map(|element| ((element * inverse + 8.5) as u8).min(15))));
}

fn q4_1(elements: &[f32; 32], bytes: &mut Vec<u8>) {
    let (low, high) = bounds(elements);
    let scale = (high - low) / 15.0;
    let inverse = reciprocal(scale);
    push_half(scale, bytes);
    push_half(low, bytes);
    bytes.extend(halves(&elements.map(|element| (((element - low) * inverse + 0.5) as u8).min(15))));
}

fn q5_0(elements: &[f32; 32], bytes: &mut Vec<u8>) {
    let scale = largest(elements) / -16.0;
    let inverse = reciprocal(scale);
    let quants = elements.map(|element| ((element * inverse + 16.5) as u8).min(31));
    push_half(scale, bytes);
    bytes.extend(fifth_bits(&quants));
    bytes.extend(halves(&quants));
}

fn q5_1(elements: &[f32; 32], bytes: &mut Vec<u8>) {
    let (low, high) = bounds(elements);
    let scale = (high - low) / 31.0;
    let inverse = reciprocal(scale);
    let quants = elements.map(|element| (((element - low) * inverse + 0.5) as u8).min(31));
    push_half(scale, bytes);
    push_half(low, bytes);
    bytes.extend(fifth_bits(&quants));
    bytes.extend(halves(&quants));
}

fn q8_0(elements: &[f32; 32], bytes: &mut Vec<u8>) {
    let scale = elements.iter().fold(0.0, |most: f32, element| most.max(element.abs())) / 127.0;
    let inverse = reciprocal(scale);
    push_half(scale, bytes);
    bytes.extend(elements.map(|element| (element * inverse).round() as i8 as u8));
}
