//! Every packed encoding on every instruction set against unpacked weights and f64 sums.

use lanthorn_blocks::Encoding;

use super::formats::STRETCH;
use super::{MOST_ROWS, QuantizedPlan, QuantizedShape, expand, is_supported};
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
                        bound += 1e-6 * f64::from((x * w).abs()) + 1e-38 * f64::from(w.abs());
                    }
                }
                let got = got[row * outputs + output];
                let error = (f64::from(got) - sum).abs();
                assert!(
                    error <= bound,
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

/// A product of random operands.
fn check_random(encoding: Encoding, shape: QuantizedShape, [of_x, of_weight]: [f32; 2]) {
    let QuantizedShape { rows, inner, outputs } = shape;
    let bytes = blocks(encoding, outputs * inner, of_weight, 3 + rows as u64);
    check(encoding, shape, &activations(rows * inner, of_x, 5), &bytes);
}

#[test]
fn products_agree_with_unpacked_weights() {
    for encoding in packed_encodings() {
        for (rows, blocks_of_row, outputs) in [
            (1, 1, 1),
            (1, 3, 37),
            (2, 2, 21),
            (3, 1, 50),
            (5, 2, 19),
            (9, 1, 35),
            (20, 3, 70),
            (0, 1, 3),
            (3, 1, 0),
        ] {
            let inner = blocks_of_row * encoding.block_elements();
            check_random(encoding, QuantizedShape { rows, inner, outputs }, [2.0, 0.01]);
        }
    }
}

#[test]
fn long_rows_are_taken_in_stretches() {
    for encoding in packed_encodings() {
        let inner = STRETCH + 3 * encoding.block_elements();
        for (rows, outputs) in [(1, 5), (6, 3), (18, 40)] {
            check_random(encoding, QuantizedShape { rows, inner, outputs }, [2.0, 0.01]);
        }
    }
}

/// Weights of many columns are unpacked for all tasks at once.
#[test]
fn large_products_agree_with_unpacked_weights() {
    for encoding in [Encoding::Q8_0, Encoding::Q5K] {
        check_random(encoding, QuantizedShape { rows: 17, inner: 2304, outputs: 300 }, [2.0, 0.01]);
        check_random(encoding, QuantizedShape { rows: 240, inner: 512, outputs: 40 }, [2.0, 0.01]);
    }
}

#[test]
fn very_large_and_very_small_numbers_keep_their_precision() {
    for encoding in packed_encodings() {
        let shape = QuantizedShape { rows: 2, inner: 2 * encoding.block_elements(), outputs: 9 };
        for scales in [[1e-33, 1.0], [1e-30, 60.0], [1e-20, 1e-6], [1e30, 30.0], [1e37, 1e-5], [1.0, 30000.0]]
        {
            check_random(encoding, shape, scales);
        }
    }
}

#[test]
fn elements_of_very_different_size_keep_their_precision() {
    for encoding in packed_encodings() {
        let shape = QuantizedShape { rows: 3, inner: 4 * encoding.block_elements(), outputs: 20 };
        let bytes = blocks(encoding, shape.outputs * shape.inner, 0.01, 6);
        let mut x = activations(shape.rows * shape.inner, 1.0, 7);
        for (at, x) in x.iter_mut().enumerate() {
            *x *= [1.0, 1e-4, 0.0, 3000.0][at / 40 % 4];
        }
        check(encoding, shape, &x, &bytes);
    }
}

#[test]
fn a_row_of_zeros_gives_zeros() {
    for encoding in packed_encodings() {
        for rows in [1, 3, 20] {
            let shape = QuantizedShape { rows, inner: encoding.block_elements(), outputs: 18 };
            let bytes = blocks(encoding, shape.outputs * shape.inner, 0.01, 4);
            for isa in Isa::supported() {
                let plan = QuantizedPlan::with(encoding, shape, isa, 1);
                let got = product(&plan, &vec![0.0; rows * shape.inner], &bytes);
                assert!(got.iter().all(|x| *x == 0.0), "{encoding} on {isa:?}: {got:?}");
            }
        }
    }
}

#[test]
fn a_row_that_is_not_finite_is_as_of_f32_and_leaves_the_others_alone() {
    for encoding in packed_encodings() {
        let shape = QuantizedShape { rows: 4, inner: 3 * encoding.block_elements(), outputs: 40 };
        let QuantizedShape { rows, inner, outputs } = shape;
        let bytes = blocks(encoding, outputs * inner, 0.01, 8);
        let weight = encoding.unpacked(&bytes);
        let finite = activations(rows * inner, 1.0, 9);
        let mut x = finite.clone();
        x[7] = f32::NAN;
        x[2 * inner + 40] = f32::NEG_INFINITY;
        for isa in Isa::supported() {
            let plan = QuantizedPlan::with(encoding, shape, isa, 1);
            let (got, others) = (product(&plan, &x, &bytes), product(&plan, &finite, &bytes));
            for output in 0..outputs {
                let at = |row: usize| row * outputs + output;
                assert!(got[output].is_nan());
                assert_eq!(got[at(1)].to_bits(), others[at(1)].to_bits());
                assert_eq!(got[at(3)].to_bits(), others[at(3)].to_bits());
                let expected: f32 = (0..inner).map(|k| x[2 * inner + k] * weight[output * inner + k]).sum();
                let is_same = got[at(2)] == expected || (got[at(2)].is_nan() && expected.is_nan());
                assert!(is_same && !expected.is_finite(), "{encoding} on {isa:?}: {} {expected}", got[at(2)]);
            }
        }
    }
}

/// Few rows: what stands beside a row has no influence.
#[test]
fn a_row_gives_the_same_bits_alone_and_among_others() {
    for encoding in packed_encodings() {
        let (inner, outputs) = (2 * encoding.block_elements(), 23);
        let bytes = blocks(encoding, outputs * inner, 0.01, 2);
        let x = activations(MOST_ROWS * inner, 1.0, 3);
        for isa in Isa::supported() {
            let plan = |rows| QuantizedPlan::with(encoding, QuantizedShape { rows, inner, outputs }, isa, 1);
            let alone = product(&plan(1), &x, &bytes);
            for rows in 2..=MOST_ROWS {
                let among = product(&plan(rows), &x, &bytes);
                let is_same = alone.iter().zip(&among).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(is_same, "{encoding} on {isa:?}, {rows} rows");
            }
        }
    }
}

#[test]
fn dequantize_gives_the_bits_of_unpack() {
    for encoding in packed_encodings() {
        let bytes = blocks(encoding, 600 * encoding.block_elements(), 0.01, 9);
        let expected = encoding.unpacked(&bytes);
        for isa in Isa::supported() {
            let mut elements = vec![f32::NAN; expected.len()];
            // SAFETY: the elements are as many as the blocks hold.
            unsafe { expand::dequantize(isa, encoding, bytes.as_ptr(), bytes.len(), elements.as_mut_ptr()) };
            let is_same = elements.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(is_same, "{encoding} on {isa:?}");
        }
    }
}

#[test]
#[should_panic(expected = "rows of 33 elements of Q4_0 are not whole blocks")]
fn rows_of_broken_blocks_are_refused() {
    QuantizedPlan::new(Encoding::Q4_0, QuantizedShape { rows: 1, inner: 33, outputs: 1 });
}
