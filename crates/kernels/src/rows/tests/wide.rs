use super::*;
use crate::rows::wide::Vector;
use crate::simd::{MAX_LANES, Simd, SimdOp, dispatch_on};

/// Both exponentials of every sample.
struct Exponentials<'a>(&'a [f32]);

impl SimdOp for Exponentials<'_> {
    type Output = Vec<[f32; 2]>;

    #[inline(always)]
    fn run<S: Simd>(self) -> Vec<[f32; 2]> {
        let mut results = Vec::new();
        for x in self.0 {
            let mut lanes = [[0.0; MAX_LANES]; 2];
            // SAFETY: the arrays hold MAX_LANES >= LANES values.
            unsafe {
                Vector::<f32, S>::splat(*x).exp_to_zero().store(lanes[0].as_mut_ptr());
                Vector::<f32, S>::splat(*x).exp2_to_zero().store(lanes[1].as_mut_ptr());
            }
            results.push([lanes[0][S::LANES - 1], lanes[1][0]]);
        }
        results
    }
}

#[test]
fn exponentials_are_within_their_stated_error() {
    let mut samples: Vec<f32> = (-400_000..=160_000).map(|i| i as f32 * 5e-4).collect();
    samples.extend((-1000..1000).map(|i| i as f32 * 1e-7));
    samples.extend([f32::NEG_INFINITY, f32::MIN, -103.97, -87.34, -87.33, -126.0, -126.5, -127.0, 87.9]);
    for isa in Isa::supported() {
        for (x, got) in samples.iter().zip(dispatch_on(isa, Exponentials(&samples))) {
            for (got, exact) in got.iter().zip([f64::from(*x).exp(), f64::from(*x).exp2()]) {
                let error = (f64::from(*got) - exact).abs();
                let within = match exact {
                    exact if exact > 1.3 * f64::from(f32::MIN_POSITIVE) => error <= exact * 2.0f64.powi(-22),
                    _ => error <= 2.0 * f64::from(f32::MIN_POSITIVE),
                };
                assert!(within, "{isa:?}: {got:e} at {x:e}, exact {exact:e}");
            }
            if *x < -200.0 {
                assert_eq!(got, [0.0; 2], "{isa:?} at {x:e}");
            }
        }
        assert!(dispatch_on(isa, Exponentials(&[f32::NAN]))[0].iter().all(|x| x.is_nan()), "{isa:?}");
    }
}
