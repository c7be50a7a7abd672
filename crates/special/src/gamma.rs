//! The gamma function's logarithm and the derivatives of that.

use std::f64::consts::PI;

/// `log |Gamma(x)|`; infinite at 0 and the negative whole numbers.
pub fn lgamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// `cot(pi x)`, with the whole part of `x` taken off before.
fn cot_pi(x: f64) -> f64 {
    1.0 / (PI * (x - x.round())).tan()
}

/// The derivative of [`lgamma`]: minus infinity at 0 (infinity at -0), NaN at the negative whole numbers. The error
/// is absolute near the zeros.
///
/// Recurrence up to 10 and the asymptotic series from there (Abramowitz and Stegun 6.3.5, 6.3.18; the eighth term is
/// below 5e-17); reflection (6.3.7) below 0.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        return digamma(1.0 - x) - PI * cot_pi(x);
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    // B_2k / 2k
    let terms =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let square = 1.0 / (x * x);
    let series = terms.iter().rev().fold(0.0, |series, term| (series + term) * square);
    sum + x.ln() - 0.5 / x - series
}

/// The derivative of order `n` of [`digamma`]; NaN unless `n` is a whole number from 0 to a million. At 0 and the
/// negative whole numbers infinite, with the sign of the right-hand side.
///
/// `(-1)^(n+1) n! zeta(n+1, x)` for positive `x` (Abramowitz and Stegun 6.4.10), by reflection (6.4.7) for negative.
pub fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    if !(n > 0.0 && n == n.floor() && n <= LARGEST_ORDER) || x.is_nan() {
        return f64::NAN;
    }
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    if x == 0.0 || x < 0.0 && x == x.floor() {
        return sign * f64::INFINITY;
    }
    if x < 0.0 {
        // The nearest pole decides where n! overflows.
        if n > LARGEST_FACTORIAL {
            let side = if x > x.round() || sign > 0.0 { 1.0 } else { -1.0 };
            return sign * side * f64::INFINITY;
        }
        return -sign * polygamma(n, 1.0 - x) - PI * cot_derivative(n as usize, x);
    }
    let s = n + 1.0;
    let series = scaled_zeta(s, x);
    if n <= LARGEST_FACTORIAL {
        // The power in two factors: it leaves the range of f64 before the product does.
        let half = x.powf(-0.5 * s);
        return sign * (libm::tgamma(s) * half) * half * series;
    }
    sign * (libm::lgamma(s) - s * x.ln()).exp() * series
}

const LARGEST_FACTORIAL: f64 = 170.0;
/// Beyond this the sum of [`scaled_zeta`] would be long.
const LARGEST_ORDER: f64 = 1e6;

/// `x^s zeta(s, x)` for `s >= 2` and `x > 0`: a sum of terms up to `2 s + 10`, or until they vanish, and the
/// Euler-Maclaurin formula for the rest (Abramowitz and Stegun 23.1.30).
fn scaled_zeta(s: f64, x: f64) -> f64 {
    let (mut sum, mut a) = (0.0, x);
    while a < 2.0 * s + 10.0 {
        let term = (x / a).powf(s);
        sum += term;
        if term < 1e-17 * sum {
            return sum;
        }
        a += 1.0;
    }
    // B_2k / (2k)!
    let terms = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30240.0,
        -1.0 / 1209600.0,
        1.0 / 47900160.0,
        -691.0 / 1307674368000.0,
        1.0 / 74724249600.0,
        -3617.0 / 10670622842880000.0,
    ];
    let mut rest = a / (s - 1.0) + 0.5;
    let mut factor = s / a;
    for (k, term) in terms.into_iter().enumerate() {
        rest += term * factor;
        let j = 2.0 * k as f64 + 1.0;
        factor *= (s + j) / a * ((s + j + 1.0) / a);
    }
    sum + (x / a).powf(s) * rest
}

/// The derivative of order `n` of `cot(pi x)`: `pi^n` times a polynomial in the cotangent `c` whose terms have one
/// sign, from `p' -> -(1 + c^2) p'`.
fn cot_derivative(n: usize, x: f64) -> f64 {
    // Coefficients by rising power, each step's divided by its order, so that they stay near 1.
    let mut polynomial = vec![0.0, 1.0];
    for order in 1..=n {
        let mut next = vec![0.0; polynomial.len() + 1];
        for (power, coefficient) in polynomial.iter().enumerate().skip(1) {
            let slope = -coefficient * power as f64 / order as f64;
            next[power - 1] += slope;
            next[power + 1] += slope;
        }
        polynomial = next;
    }
    let c = cot_pi(x);
    let value = polynomial.iter().rev().fold(0.0, |sum, coefficient| sum * c + coefficient);
    // n! pi^n by factors, lest one of them overflow first.
    (1..=n).fold(value, |value, order| value * PI * order as f64)
}
