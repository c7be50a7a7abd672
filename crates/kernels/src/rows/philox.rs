//! Random values from a counter: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
//! as 1, 2, 3", 2011), laid out as `lanthorn_ir::prim` documents it.
//!
//! Element `i` takes word `i % 4` of the block with counter `(i / 4, draw)` and key `seed + stream * GOLDEN`. Bits
//! do not depend on the instruction set; normals agree within the bounds of the elementary functions.

use std::f32::consts::TAU;
use std::ops::Range;

use super::operands::{Cpu, Shared};
use crate::simd::{MAX_LANES, Simd, SimdOp, vecmath};

/// What tells sequences apart: the operand `key: u64[2]` and the stream of the node.
#[derive(Clone, Copy, Debug)]
pub struct RandomKey {
    pub seed: u64,
    pub draw: u64,
    pub stream: u64,
}

/// The golden ratio in 64 bits, which separates streams.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl RandomKey {
    fn words(self) -> [u32; 2] {
        let key = self.seed.wrapping_add(self.stream.wrapping_mul(GOLDEN));
        [key as u32, (key >> 32) as u32]
    }
}

/// Uniform in `[0, 1)`: the top 24 bits of the word times 2^-24.
pub fn uniform(cpu: Cpu, key: RandomKey, out: &mut [f32]) {
    fill(cpu, key, out, Distribution::Uniform);
}

/// Standard normal by Box and Muller on words `(0, 1)` and `(2, 3)` of a block:
/// `sqrt(-2 ln(1 - u0)) * {cos, sin}(2 pi u1)`.
pub fn normal(cpu: Cpu, key: RandomKey, out: &mut [f32]) {
    fill(cpu, key, out, Distribution::Normal);
}

/// The words themselves.
pub fn words(cpu: Cpu, key: RandomKey, out: &mut [u32]) {
    let len = out.len();
    let out = Shared::new(out);
    cpu.run_plain(len.div_ceil(PER_TASK), |task, _| {
        for at in (task * PER_TASK..len.min((task + 1) * PER_TASK)).step_by(4 * BATCH) {
            let words = philox_batch((at / 4) as u64, key.draw, key.words());
            for i in 0..(len - at).min(4 * BATCH) {
                // SAFETY: the place lies in `out` and belongs to this task.
                unsafe { out.at(at + i).write(words[i % 4][i / 4]) };
            }
        }
    });
}

/// Pairs of words, the low one first.
pub fn long_words(cpu: Cpu, key: RandomKey, out: &mut [u64]) {
    let count = out.len();
    // SAFETY: the words of a u64 are two of u32.
    let halves = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u32>(), 2 * count) };
    words(cpu, key, halves);
    if cfg!(target_endian = "big") {
        halves.chunks_exact_mut(2).for_each(<[u32]>::reverse);
    }
}

#[derive(Clone, Copy)]
enum Distribution {
    Uniform,
    Normal,
}

/// Blocks that are made together, one per lane.
const BATCH: usize = MAX_LANES;

/// Elements per task: a multiple of what a batch gives.
const PER_TASK: usize = 128 * 4 * BATCH;

fn fill(cpu: Cpu, key: RandomKey, out: &mut [f32], distribution: Distribution) {
    let len = out.len();
    let out = Shared::new(out);
    cpu.run(len.div_ceil(PER_TASK), |task, _| Fill {
        key: key.words(),
        draw: key.draw,
        distribution,
        out,
        range: task * PER_TASK..len.min((task + 1) * PER_TASK),
    });
}

struct Fill<'a> {
    key: [u32; 2],
    draw: u64,
    distribution: Distribution,
    out: Shared<'a, f32>,
    range: Range<usize>,
}

impl SimdOp for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut at = self.range.start;
        while at < self.range.end {
            let words = philox_batch((at / 4) as u64, self.draw, self.key);
            let mut values = [[0.0f32; BATCH]; 4];
            match self.distribution {
                Distribution::Uniform => uniform_batch::<S>(&words, &mut values),
                Distribution::Normal => normal_batch::<S>(&words, &mut values),
            }
            // To the order of elements: block by block.
            let mut ordered = [0.0f32; 4 * BATCH];
            for block in 0..BATCH {
                for word in 0..4 {
                    ordered[4 * block + word] = values[word][block];
                }
            }
            let count = (self.range.end - at).min(4 * BATCH);
            // SAFETY: the range lies inside `out` and belongs to this task.
            unsafe { std::ptr::copy_nonoverlapping(ordered.as_ptr(), self.out.at(at), count) };
            at += count;
        }
    }
}

/// The words of [`BATCH`] blocks with counters from `first` on: `[word][block]`.
#[inline(always)]
fn philox_batch(first: u64, draw: u64, key: [u32; 2]) -> [[u32; BATCH]; 4] {
    let (mut low, mut high) = ([0; BATCH], [0; BATCH]);
    for (block, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
        let counter = first.wrapping_add(block as u64);
        (*low, *high) = (counter as u32, (counter >> 32) as u32);
    }
    philox([low, high, [draw as u32; BATCH], [(draw >> 32) as u32; BATCH]], key)
}

/// Ten rounds of Philox 4x32 on `N` counters side by side.
#[inline(always)]
fn philox<const N: usize>(mut words: [[u32; N]; 4], mut key: [u32; 2]) -> [[u32; N]; 4] {
    for _ in 0..10 {
        let [mut a, mut b, mut c, mut d] = words;
        for lane in 0..N {
            let even = u64::from(words[0][lane]) * 0xD251_1F53;
            let odd = u64::from(words[2][lane]) * 0xCD9E_8D57;
            a[lane] = (odd >> 32) as u32 ^ words[1][lane] ^ key[0];
            b[lane] = odd as u32;
            c[lane] = (even >> 32) as u32 ^ words[3][lane] ^ key[1];
            d[lane] = even as u32;
        }
        words = [a, b, c, d];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    words
}

/// The top 24 bits of the words at `source` times 2^-24, exact.
///
/// # Safety
/// `LANES` words at `source` are readable.
#[inline(always)]
unsafe fn to_uniform<S: Simd>(source: *const u32) -> S::F {
    // SAFETY: the caller's promise.
    let bits = unsafe { S::load_i(source.cast()) };
    S::mul(S::from_int(S::shr(bits, 8)), S::splat(1.0 / (1u32 << 24) as f32))
}

#[inline(always)]
fn uniform_batch<S: Simd>(words: &[[u32; BATCH]; 4], values: &mut [[f32; BATCH]; 4]) {
    for word in 0..4 {
        for at in (0..BATCH).step_by(S::LANES) {
            // SAFETY: LANES divides BATCH, so the vectors lie inside the arrays.
            unsafe {
                S::store(values[word].as_mut_ptr().add(at), to_uniform::<S>(words[word].as_ptr().add(at)))
            };
        }
    }
}

#[inline(always)]
fn normal_batch<S: Simd>(words: &[[u32; BATCH]; 4], values: &mut [[f32; BATCH]; 4]) {
    for pair in [0, 2] {
        for at in (0..BATCH).step_by(S::LANES) {
            // SAFETY: LANES divides BATCH, so the vectors lie inside the arrays.
            unsafe {
                let u0 = to_uniform::<S>(words[pair].as_ptr().add(at));
                let u1 = to_uniform::<S>(words[pair + 1].as_ptr().add(at));
                // 1 - u0 is exact and in (0, 1].
                let log = vecmath::log::<S>(S::sub(S::splat(1.0), u0));
                let radius = S::sqrt(S::mul(S::splat(-2.0), log));
                let (sine, cosine) = sin_cos_of_turns::<S>(u1);
                S::store(values[pair].as_mut_ptr().add(at), S::mul(radius, cosine));
                S::store(values[pair + 1].as_mut_ptr().add(at), S::mul(radius, sine));
            }
        }
    }
}

/// Sine and cosine of `2 pi u` for `u` in `[0, 1)`. The quadrant is split off before `pi` comes in, so nothing
/// is lost to the reduction.
#[inline(always)]
fn sin_cos_of_turns<S: Simd>(u: S::F) -> (S::F, S::F) {
    let quarter = S::round(S::mul(u, S::splat(4.0)));
    let angle = S::mul(S::neg_mul_add(quarter, S::splat(0.25), u), S::splat(TAU));
    let (sine, cosine) = (vecmath::sin::<S>(angle), vecmath::cos::<S>(angle));
    let quadrant = S::to_int(quarter);
    let odd = S::eq_i(S::and_i(quadrant, S::splat_i(1)), S::splat_i(1));
    // Quadrants 0..4: the sine is (s, c, -s, -c), the cosine (c, -s, -c, s).
    let sine_sign = S::shl(S::and_i(quadrant, S::splat_i(2)), 30);
    let cosine_sign = S::shl(S::and_i(S::add_i(quadrant, S::splat_i(1)), S::splat_i(2)), 30);
    let (s, c) = (S::select(odd, cosine, sine), S::select(odd, sine, cosine));
    (S::from_bits(S::xor_i(S::to_bits(s), sine_sign)), S::from_bits(S::xor_i(S::to_bits(c), cosine_sign)))
}

#[cfg(test)]
mod tests {
    use super::philox;

    /// The known answers of Random123 1.14 (`examples/kat_vectors`), philox4x32 with 10 rounds.
    #[test]
    fn philox_gives_the_known_answers_of_random123() {
        let answers: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (counter, key, expected) in answers {
            assert_eq!(philox(counter.map(|word| [word; 1]), key).map(|word| word[0]), expected);
            assert_eq!(philox(counter.map(|word| [word; 16]), key), expected.map(|word| [word; 16]));
        }
    }
}
