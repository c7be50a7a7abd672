//! The error function's relatives, scaled so that nothing underflows in the tails.

use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

use crate::normal;

/// `x^2` as the sum of a float and what its rounding lost, so that `exp` of it keeps full precision.
pub(crate) fn exact_square(x: f64) -> (f64, f64) {
    let high = x * x;
    let low = x.mul_add(x, -high);
    (high, if low.is_finite() { low } else { 0.0 })
}

/// `e^(x^2) erfc(x)`. A few ulp.
///
/// Up to 25 the product itself, with the rounding of `x^2` made good; beyond, the asymptotic series (Abramowitz and
/// Stegun 7.1.23), whose eighth term is below 3e-17 there. Overflows below -26.6.
pub fn erfcx(x: f64) -> f64 {
    if x < 25.0 {
        if x < -27.0 {
            return f64::INFINITY;
        }
        let (high, low) = exact_square(x);
        return high.exp() * libm::erfc(x) * (1.0 + low);
    }
    // 1 - 1/(2x^2) + 3/(2x^2)^2 - 15/(2x^2)^3 ...; the square of an x beyond 1e154 is of no account.
    let step = 0.5 / (x * x);
    let mut series = 1.0;
    for odd in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = 1.0 - odd * step * series;
    }
    0.5 * FRAC_2_SQRT_PI / x * series
}

/// `log(erfcx(x))`, relatively exact near its zero at 0; finite down to -1e154.
pub fn log_erfcx(x: f64) -> f64 {
    if x < 0.0 {
        // erfc(x) = 1 + erf(-x)
        return x * x + libm::erf(-x).ln_1p();
    }
    if x < 0.5 { x * x + (-libm::erf(x)).ln_1p() } else { erfcx(x).ln() }
}

/// `e^(x^2) i^n erfc(x)`: the n-fold repeated integral of `erfc` (Abramowitz and Stegun 7.2), scaled. For `n = 0`
/// it is [`erfcx`], and its derivative is `-2 (n + 1)` times the function of `n + 1`, so that derivatives of
/// [`erfcx`] cancel nothing. NaN unless `n` is a whole number from 0 to a million.
///
/// Left of 1 by the recurrence upwards; right of it that loses digits, so the ratios of neighbours come from the
/// recurrence downwards, as a continued fraction (Gautschi 1961, "Recursive computation of the repeated integrals of
/// the error function").
pub fn erfc_integral(n: f64, x: f64) -> f64 {
    if n == 0.0 || x.is_nan() {
        return erfcx(x);
    }
    if !(n > 0.0 && n == n.floor() && n <= 1e6) {
        return f64::NAN;
    }
    if x < 1.0 {
        let (mut before, mut value) = (FRAC_2_SQRT_PI, erfcx(x));
        for k in 1..=n as u64 {
            if value.is_infinite() {
                return value;
            }
            (before, value) = (value, (0.5 * before - x * value) / k as f64);
        }
        return value;
    }
    // Ratios w_k / w_(k-1); 200 / x^2 more steps than asked for suffice.
    let mut ratio = 0.0;
    let mut value = FRAC_2_SQRT_PI;
    for k in (0..=n as u64 + 20 + (200.0 / (x * x)) as u64).rev() {
        ratio = 1.0 / (2.0 * x + 2.0 * (k + 1) as f64 * ratio);
        if k <= n as u64 {
            value *= ratio;
        }
    }
    value
}

/// The inverse of `erf`; infinite at -1 and 1, NaN beyond. A few ulp.
pub fn erfinv(y: f64) -> f64 {
    // 1 - |y| is exact where it matters: from one half on.
    normal::quantile(0.5 * y, 0.5 * (1.0 - y.abs())) / SQRT_2
}

/// The inverse of `erfc`; infinite at 0 and 2, NaN beyond. A few ulp.
pub fn erfcinv(y: f64) -> f64 {
    -normal::quantile(0.5 * (y - 1.0), 0.5 * y.min(2.0 - y)) / SQRT_2
}
