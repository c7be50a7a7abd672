//! The random primitives element by element, as `lanthorn_ir::prim::random` documents them.

use std::f64::consts::TAU;

use lanthorn_ir::philox::Philox;

/// The top 24 bits as a number in `[0, 1)`.
fn unit(word: u32) -> f64 {
    f64::from(word >> 8) / f64::from(1 << 24)
}

/// Element `index` of a uniform draw.
pub fn uniform(seed: u64, draw: u64, stream: u64, index: u64) -> f64 {
    unit(Philox::new(seed, draw, stream).word(index))
}

/// Element `index` of a standard normal draw (Box-Muller).
pub fn normal(seed: u64, draw: u64, stream: u64, index: u64) -> f64 {
    let block = Philox::new(seed, draw, stream).block(index / 4);
    let pair = (index % 4 / 2 * 2) as usize;
    let radius = (-2.0 * (1.0 - unit(block[pair])).ln()).sqrt();
    let angle = TAU * unit(block[pair + 1]);
    radius * if index.is_multiple_of(2) { angle.cos() } else { angle.sin() }
}

#[cfg(test)]
mod tests {
    use super::*;

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
