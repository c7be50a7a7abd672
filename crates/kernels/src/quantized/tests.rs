//! Every packed encoding on every instruction set against unpacked weights and f64 sums.

use lanthorn_blocks::Encoding;

use super::{QuantizedPlan, QuantizedShape, dequantize, is_supported};
use crate::simd::Isa;

fn packed_encodings() -> impl Iterator<Item = Encoding> {
    Encoding::ALL.into_iter().filter(|encoding| is_supported(*encoding))
}

/// Pseudorandom bytes.
fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Where the scales in half precision lie in a block.
fn halves(encoding: Encoding) -> &'static [usize] {
    match encoding {
        Encoding::Q4_0 | Encoding::Q5_0 | Encoding::Q8_0 => &[0],
        Encoding::Q4_1 | Encoding::Q5_1 | Encoding::Q4K | Encoding::Q5K => &[0, 2],
        Encoding::Q2K => &[80, 82],
        Encoding::Q3K => &[108],
        Encoding::Q6K => &[208],
        _ => panic!("{encoding} has no scales"),
    }
}

/// Blocks of random integers, with scales between a half and twice `scale` of either sign.
fn blocks(encoding: Encoding, elements: usize, scale: f32, seed: u64) -> Vec<u8> {
    let count = elements / encoding.block_elements();
    let mut bytes = noise(count * encoding.block_bytes(), seed);
    let signs = noise(4 * count, seed ^ 0x77);
    for (at, block) in bytes.chunks_exact_mut(encoding.block_bytes()).enumerate() {
        for (k, place) in halves(encoding).iter().enumerate() {
            let random = signs[4 * at + k];
            let sign = if random & 128 == 0 { 1.0 } else { -1.0 };
            let value = half::f16::from_f32(sign * scale * (0.5 + 1.5 * f32::from(random & 127) / 127.0));
            block[*place..place + 2].copy_from_slice(&value.to_le_bytes());
        }
    }
    bytes
}

fn activations(count: usize, scale: f32, seed: u64) -> Vec<f32> {
    noise(2 * count, seed)
        .chunks_exact(2)
        .map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32768.0 * scale)
        .collect()
}

/// The product on one instruction set with so many threads, in scratch memory of exactly the planned size.
fn product(plan: &QuantizedPlan, x: &[f32], blocks: &[u8]) -> Vec<f32> {
    const GUARD: usize = 16;
    let QuantizedShape { rows, outputs, .. } = plan.shape;
    let mut scratch = vec![f32::NAN; plan.scratch_bytes().div_ceil(4) + GUARD];
    let used = scratch.len() - GUARD;
    scratch[used..].fill(12345.0);
    let mut out = vec![f32::NAN; rows * outputs + GUARD];
    out[rows * outputs..].fill(12345.0);
    // SAFETY: all have the sizes of the shape.
    unsafe { plan.run(x.as_ptr(), blocks.as_ptr(), out.as_mut_ptr(), scratch.as_mut_ptr().cast()) };
    assert!(scratch[used..].iter().all(|x| *x == 12345.0), "wrote past scratch memory");
    assert!(out[rows * outputs..].iter().all(|x| *x == 12345.0), "wrote past the result");
    out.truncate(rows * outputs);
    out
}

/// Products of one weight with x on every instruction set, against f64 sums.
#[track_caller]
fn check(encoding: Encoding, shape: QuantizedShape, x: &[f32], blocks: &[u8]) {
    let QuantizedShape { rows, inner, outputs } = shape;
    let weight = encoding.unpacked(blocks);
    for isa in Isa::supported() {
        let got = product(&QuantizedPlan::with(encoding, shape, isa, 1), x, blocks);
        for row in 0..rows {
            for output in 0..outputs {
                let (mut sum, mut bound) = (0.0, 0.0);
                let (x, w) = (&x[row * inner..][..inner], &weight[output * inner..][..inner]);
                for (x, w) in x.chunks(32).zip(w.chunks(32)) {
                    let largest = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                    for (x, w) in x.iter().zip(w) {
                        sum += f64::from(*x) * f64::from(*w);
                        // Half a step of 16 bits, and the rounding of f32 sums.
                        bound += f64::from(w.abs()) * (f64::from(largest) * 0.5 / 32767.0);
                        bound += 1e-6 * f64::from((x * w).abs());
                    }
                }
                let got = got[row * outputs + output];
                let error = (f64::from(got) - sum).abs();
                assert!(
                    error <= bound + 1e-30,
                    "{encoding} on {isa:?}, {shape:?}: {got}, exact {sum}, within {bound:e}"
                );
            }
        }
        let again = product(&QuantizedPlan::with(encoding, shape, isa, 2), x, blocks);
        assert!(
            got.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()),
            "{encoding} on {isa:?}, {shape:?}: threads change the result"
        );
    }
}

#[test]
fn products_agree_with_unpacked_weights() {
    for encoding in packed_encodings() {
        for (rows, blocks_of_row, outputs) in
            [(1, 1, 1), (1, 3, 37), (2, 2, 21), (3, 1, 50), (5, 2, 19), (9, 1, 35)]
        {
            let inner = blocks_of_row * encoding.block_elements();
            let shape = QuantizedShape { rows, inner, outputs };
            let bytes = blocks(encoding, outputs * inner, 0.01, 3 + rows as u64);
            check(encoding, shape, &activations(rows * inner, 2.0, 5), &bytes);
        }
    }
}

#[test]
fn dequantize_gives_the_bits_of_unpack() {
    for encoding in packed_encodings() {
        let bytes = blocks(encoding, 600 * encoding.block_elements(), 0.01, 9);
        let expected = encoding.unpacked(&bytes);
        let mut elements = vec![f32::NAN; expected.len()];
        // SAFETY: the elements are as many as the blocks hold.
        unsafe { dequantize(encoding, bytes.as_ptr(), bytes.len(), elements.as_mut_ptr()) };
        let is_same = elements.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(is_same, "{encoding}");
    }
}
