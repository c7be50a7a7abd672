//! The normal distribution: distribution function, quantiles, and both in logarithms.

// Coefficients keep the digits of their source.
#![allow(clippy::excessive_precision)]

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI, SQRT_2};

use crate::erf::{erfcx, exact_square};

/// `Phi(x)`, the standard normal distribution function. A few ulp, in the lower tail too.
pub fn ndtr(x: f64) -> f64 {
    if x >= -1.0 || x.is_nan() {
        return 0.5 * libm::erfc(-x * FRAC_1_SQRT_2);
    }
    if x < -40.0 {
        return 0.0;
    }
    // erfcx(-x / sqrt(2)) / 2 times the bell e^(-x^2 / 2), whose exponent is exact and which is taken in two
    // factors, so that only the result underflows.
    let (high, low) = exact_square(x);
    let root = (-0.25 * high).exp();
    0.5 * erfcx(-x * FRAC_1_SQRT_2) * (1.0 - 0.5 * low) * root * root
}

/// `log(Phi(x))`, finite down to -1e154: the tail is `log(erfcx(-x / sqrt(2)) / 2) - x^2 / 2`.
pub fn log_ndtr(x: f64) -> f64 {
    if x >= -1.0 || x.is_nan() {
        return (-ndtr(-x)).ln_1p();
    }
    (0.5 * erfcx(-x * FRAC_1_SQRT_2)).ln() - 0.5 * x * x
}

/// The inverse of [`ndtr`]: the quantile of a probability; infinite at 0 and 1, NaN beyond. A few ulp.
pub fn ndtri(p: f64) -> f64 {
    quantile(p - 0.5, p.min(1.0 - p))
}

/// The inverse of [`log_ndtr`]: the quantile of a probability given by its logarithm; NaN above 0.
///
/// The quantile of `e^y` is well-conditioned as long as that is a normal number: an error of one ulp in `y` moves
/// both alike. Below, Newton's steps on [`log_ndtr`], which is concave, from its leading terms.
pub fn ndtri_exp(y: f64) -> f64 {
    if y > -0.145 {
        // From the upper tail, which e^y no longer resolves.
        return quantile(0.5 + y.exp_m1(), -y.exp_m1());
    }
    if y > -700.0 || y.is_nan() {
        return ndtri(y.exp());
    }
    let log_square = LN_2 + (-y).ln();
    let mut x = -SQRT_2 * (-y - 0.5 * ((2.0 * PI).ln() + log_square)).sqrt();
    if x < -1e150 || !x.is_finite() {
        return -SQRT_2 * (-y).sqrt();
    }
    for _ in 0..4 {
        // The slope is phi / Phi = sqrt(2 / pi) / erfcx(-x / sqrt(2)).
        let slope = (2.0 / PI).sqrt() / erfcx(-x * FRAC_1_SQRT_2);
        x -= (log_ndtr(x) - y) / slope;
    }
    x
}

fn horner(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// The normal quantile of a probability given as its distance `q` from one half and as the smaller tail: each of
/// the two is exact where the other is not. NaN for a tail below 0.
///
/// Wichura 1988, "Algorithm AS 241: the percentage points of the normal distribution", PPND16: 16 digits.
pub(crate) fn quantile(q: f64, tail: f64) -> f64 {
    if tail.is_nan() || q.is_nan() || tail < 0.0 {
        return f64::NAN;
    }
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * horner(r, &CENTRE[0]) / horner(r, &CENTRE[1]);
    }
    if tail == 0.0 {
        return f64::INFINITY.copysign(q);
    }
    let r = (-tail.ln()).sqrt();
    let [numerator, denominator] = if r <= 5.0 { &MIDDLE } else { &TAIL };
    let r = r - if r <= 5.0 { 1.6 } else { 5.0 };
    (horner(r, numerator) / horner(r, denominator)).copysign(q)
}

/// Numerator and denominator, highest power first, as published. Each holds in its own variable.
type Rational = [[f64; 8]; 2];

/// In `0.425^2 - q^2`, for `|q| <= 0.425`.
const CENTRE: Rational = [
    [
        2.509_080_928_730_122_672_7e3,
        3.343_057_558_358_812_810_5e4,
        6.726_577_092_700_870_085_3e4,
        4.592_195_393_154_987_145_7e4,
        1.373_169_376_550_946_112_5e4,
        1.971_590_950_306_551_442_7e3,
        1.331_416_678_917_843_774_5e2,
        3.387_132_872_796_366_608_0,
    ],
    [
        5.226_495_278_852_854_561_0e3,
        2.872_908_573_572_194_267_4e4,
        3.930_789_580_009_271_061_0e4,
        2.121_379_430_158_659_586_7e4,
        5.394_196_021_424_751_107_7e3,
        6.871_870_074_920_579_083_0e2,
        4.231_333_070_160_091_125_2e1,
        1.0,
    ],
];

/// In `sqrt(-log(tail)) - 1.6`, up to 3.4.
const MIDDLE: Rational = [
    [
        7.745_450_142_783_414_076_40e-4,
        2.272_384_498_926_918_458_33e-2,
        2.417_807_251_774_506_117_70e-1,
        1.270_458_252_452_368_382_58,
        3.647_848_324_763_204_605_04,
        5.769_497_221_460_691_405_50,
        4.630_337_846_156_545_295_90,
        1.423_437_110_749_683_577_34,
    ],
    [
        1.050_750_071_644_416_843_24e-9,
        5.475_938_084_995_344_946_00e-4,
        1.519_866_656_361_645_719_66e-2,
        1.481_039_764_274_800_745_90e-1,
        6.897_673_349_851_000_045_50e-1,
        1.676_384_830_183_803_849_40,
        2.053_191_626_637_758_821_87,
        1.0,
    ],
];

/// In `sqrt(-log(tail)) - 5`.
const TAIL: Rational = [
    [
        2.010_334_399_292_288_132_65e-7,
        2.711_555_568_743_487_578_15e-5,
        1.242_660_947_388_078_438_60e-3,
        2.653_218_952_657_612_309_30e-2,
        2.965_605_718_285_048_912_30e-1,
        1.784_826_539_917_291_335_80,
        5.463_784_911_164_114_369_90,
        6.657_904_643_501_103_777_20,
    ],
    [
        2.044_263_103_389_939_785_64e-15,
        1.421_511_758_316_445_888_70e-7,
        1.846_318_317_510_054_681_80e-5,
        7.868_691_311_456_132_591_00e-4,
        1.487_536_129_085_061_485_25e-2,
        1.369_298_809_227_358_053_10e-1,
        5.998_322_065_558_879_376_90e-1,
        1.0,
    ],
];
