//! Philox 4x32-10 on the host (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
//!
//! For what is drawn before a device is there or is no tensor at all: initial parameters, the order of training
//! data, sampled tokens. The numbering is that of the random primitives ([`crate::prim::random`]), and only integers
//! and exact fractions come out, so the same seed gives the same bits on every machine.

/// One block of four random words.
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let first = u64::from(c0) * 0xD251_1F53;
        let second = u64::from(c2) * 0xCD9E_8D57;
        (c0, c1, c2, c3) =
            ((second >> 32) as u32 ^ c1 ^ k0, second as u32, (first >> 32) as u32 ^ c3 ^ k1, first as u32);
        // The Weyl sequence: golden ratio and sqrt(3) - 1.
        (k0, k1) = (k0.wrapping_add(0x9E37_79B9), k1.wrapping_add(0xBB67_AE85));
    }
    [c0, c1, c2, c3]
}

/// A random sequence that can be read at any place.
///
/// ```
/// use lanthorn_ir::philox::Philox;
///
/// let words = Philox::new(42, 0, Philox::stream_of("sampler"));
/// assert_eq!(words.word(5), words.block(1)[1]);
/// assert!(words.below(0, 6) < 6);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    draw: u64,
    key: u64,
}

impl Philox {
    /// The sequence of a random primitive with the operand `[seed, draw]` and that `stream`.
    pub fn new(seed: u64, draw: u64, stream: u64) -> Philox {
        Philox { draw, key: seed.wrapping_add(stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)) }
    }

    /// A stream of its own for each name (FNV-1a), so that what is drawn under one name does not depend on what
    /// else is drawn.
    pub fn stream_of(name: &str) -> u64 {
        name.bytes()
            .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
    }

    /// The words `4 * index .. 4 * index + 4`.
    pub fn block(&self, index: u64) -> [u32; 4] {
        philox4x32(
            [index as u32, (index >> 32) as u32, self.draw as u32, (self.draw >> 32) as u32],
            [self.key as u32, (self.key >> 32) as u32],
        )
    }

    /// One word.
    pub fn word(&self, index: u64) -> u32 {
        self.block(index / 4)[(index % 4) as usize]
    }

    /// A number in `[0, 1)` with 53 random bits, of block `index`.
    pub fn unit(&self, index: u64) -> f64 {
        let [low, high, ..] = self.block(index);
        let bits = ((u64::from(high) << 32) | u64::from(low)) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }

    /// An integer in `0..bound`, of block `index`; 0 for a bound of 0. Each value's probability is off by less than
    /// 2^-64 (Lemire 2019, without the rejection).
    pub fn below(&self, index: u64, bound: u64) -> u64 {
        let [low, high, ..] = self.block(index);
        let word = (u64::from(high) << 32) | u64::from(low);
        ((u128::from(word) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kat_vectors` of the Random123 distribution, lines `philox4x32 10`.
    #[test]
    fn philox_gives_the_published_vectors() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
        );
        assert_eq!(
            philox4x32([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn integers_below_a_bound_are_uniform() {
        let words = Philox::new(3, 1, 2);
        let mut counts = [0u32; 6];
        for index in 0..6000 {
            counts[words.below(index, 6) as usize] += 1;
        }
        // Five standard deviations of a binomial with n = 6000, p = 1/6.
        assert!(counts.iter().all(|&count| (count as f64 - 1000.0).abs() < 145.0), "{counts:?}");
    }

    #[test]
    fn names_seeds_and_draws_give_different_sequences() {
        let first = |seed, draw, name| Philox::new(seed, draw, Philox::stream_of(name)).block(0);
        let all = [first(0, 0, "a"), first(1, 0, "a"), first(0, 1, "a"), first(0, 0, "b")];
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| x != y));
        }
    }
}
