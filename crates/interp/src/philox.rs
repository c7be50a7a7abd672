//! Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").

use std::f64::consts::TAU;

/// One block of four random words.
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for round in 0..10 {
        if round > 0 {
            // The Weyl sequence: golden ratio and sqrt(3) - 1.
            k0 = k0.wrapping_add(0x9E37_79B9);
            k1 = k1.wrapping_add(0xBB67_AE85);
        }
        let first = u64::from(c0) * 0xD251_1F53;
        let second = u64::from(c2) * 0xCD9E_8D57;
        (c0, c1, c2, c3) =
            ((second >> 32) as u32 ^ c1 ^ k0, second as u32, (first >> 32) as u32 ^ c3 ^ k1, first as u32);
    }
    [c0, c1, c2, c3]
}

/// The block that holds element `index`; see `lanthorn_ir::prim::random`.
fn block(seed: u64, draw: u64, stream: u64, index: u64) -> [u32; 4] {
    let key = seed.wrapping_add(stream.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let group = index / 4;
    philox4x32(
        [group as u32, (group >> 32) as u32, draw as u32, (draw >> 32) as u32],
        [key as u32, (key >> 32) as u32],
    )
}

/// The top 24 bits as a number in `[0, 1)`.
fn unit(word: u32) -> f64 {
    f64::from(word >> 8) / f64::from(1 << 24)
}

/// Element `index` of a uniform draw.
pub fn uniform(seed: u64, draw: u64, stream: u64, index: u64) -> f64 {
    unit(block(seed, draw, stream, index)[(index % 4) as usize])
}

/// Element `index` of a standard normal draw (Box-Muller).
pub fn normal(seed: u64, draw: u64, stream: u64, index: u64) -> f64 {
    let block = block(seed, draw, stream, index);
    let pair = (index % 4 / 2 * 2) as usize;
    let radius = (-2.0 * (1.0 - unit(block[pair])).ln()).sqrt();
    let angle = TAU * unit(block[pair + 1]);
    radius * if index.is_multiple_of(2) { angle.cos() } else { angle.sin() }
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
    fn normals_have_mean_0_and_variance_1() {
        let n = 20_000;
        let draw: Vec<f64> = (0..n).map(|i| normal(7, 3, 1, i)).collect();
        let mean = draw.iter().sum::<f64>() / n as f64;
        let variance = draw.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn streams_and_draws_differ() {
        let first = |draw, stream| (0..8).map(|i| uniform(1, draw, stream, i)).collect::<Vec<_>>();
        assert_ne!(first(0, 0), first(0, 1));
        assert_ne!(first(0, 0), first(1, 0));
        assert!(first(0, 0).iter().all(|u| (0.0..1.0).contains(u)));
    }
}
