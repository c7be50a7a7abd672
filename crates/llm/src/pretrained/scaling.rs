//! How a rotation is scaled, from the factors that a GGUF file holds.

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_nn::layers::RotationScaling;

/// All models of Llama 3.1 and later have these.
const LOW: f64 = 1.0;
const HIGH: f64 = 4.0;

/// By how much a factor may differ from the one that a setting gives.
const TOLERANCE: f64 = 1e-4;

/// The settings that divide the frequency of each pair by its factor; `None` where all are 1.
///
/// The converter writes factors and not settings. The largest factor is that of the settings, low and high are those
/// of Llama 3.1, and the context is the power of two that gives the factors.
///
/// Errors: no such settings give them.
pub fn of_factors(subject: &str, factors: &[f32], theta: f64) -> Result<Option<RotationScaling>> {
    let factors: Vec<f64> = factors.iter().map(|&factor| factor.into()).collect();
    if factors.iter().all(|&factor| factor == 1.0) {
        return Ok(None);
    }
    let factor = factors.iter().copied().fold(1.0, f64::max);
    (4..31)
        .map(|power| RotationScaling { factor, low: LOW, high: HIGH, context: 1 << power })
        .find(|scaling| {
            let pairs = factors.len() as f64;
            factors.iter().zip(0..).all(|(&found, pair)| {
                let frequency = theta.powf(-f64::from(pair) / pairs);
                (found / factor_of(scaling, frequency) - 1.0).abs() < TOLERANCE
            })
        })
        .map(Some)
        .ok_or_else(|| {
            let message = "the factors in `rope_freqs.weight` are not those of Llama 3.1; \
                           a rotation that is not scaled, or as in Llama 3.1, is what runs";
            Error::new(ErrorKind::Format, subject, message)
        })
}

/// By what a frequency is divided (`llama-models`, `apply_scaling`).
fn factor_of(scaling: &RotationScaling, frequency: f64) -> f64 {
    let turns = frequency * scaling.context as f64 / std::f64::consts::TAU;
    let kept = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0.0, 1.0);
    1.0 / ((1.0 - kept) / scaling.factor + kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Llama 3.2 1B (heads of 64, theta 500000): factors by the formula of llama.cpp's converter, in Python.
    #[test]
    fn factors_of_llama_3_2_give_its_settings() {
        let mut factors = [1f32; 32];
        factors[15..18].copy_from_slice(&MIDDLE);
        factors[18..].fill(32.0);
        let settings = RotationScaling { factor: 32.0, low: 1.0, high: 4.0, context: 8192 };
        assert_eq!(of_factors("file", &factors, 500_000.0).unwrap(), Some(settings));
    }

    const MIDDLE: [f32; 3] = [1.651_329_2, 3.292_262, 9.666_729];

    #[test]
    fn other_factors_are_refused() {
        assert_eq!(of_factors("file", &[1.0; 4], 1e4).unwrap(), None);
        for wrong in [&[1.0, 2.0, 1.0, 8.0][..], &[f32::NAN, 2.0], &[0.0, 8.0], &[f32::INFINITY]] {
            let error = of_factors("file", wrong, 500_000.0).unwrap_err().to_string();
            assert!(error.starts_with("file: the factors in `rope_freqs.weight` are not those"), "{error}");
        }
    }
}
