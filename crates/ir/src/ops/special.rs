//! Special functions: error functions, the normal distribution, gamma and Bessel functions, logarithms with limits.
//!
//! All are of floats and accurate in the tails; f32 and the half types compute in f64 on the CPU.

use super::pointwise::{in_joint_dtype, in_wide, named, unary};
use super::{
    add, arange, atanh, cast, div, eq_scalar, full_like, le_scalar, log, log1p, logical_and, logical_or,
    lt_scalar, mul, mul_scalar, neg, require_float, scalar, sin, sqrt, square, sub, sub_scalar, sum,
    unsqueeze, where_,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::BinaryOp;

unary! {
    /// `1 - erf(x)`, exact in the upper tail.
    erfc => Erfc;
    /// `e^(x^2) erfc(x)`.
    erfcx => Erfcx;
    /// `log(erfcx(x))`, finite where `erfcx` overflows.
    log_erfcx => LogErfcx;
    /// The inverse of `erf`; infinite at -1 and 1, NaN beyond.
    erfinv => Erfinv;
    /// The inverse of `erfc`; infinite at 0 and 2, NaN beyond.
    erfcinv => Erfcinv;
    /// `Phi(x)`, the distribution function of the standard normal distribution, exact in the lower tail.
    ndtr => Ndtr;
    /// `log(Phi(x))`, finite far down the tail: -804.608 at -40.
    log_ndtr => LogNdtr;
    /// The quantile of a probability: the inverse of `ndtr`; infinite at 0 and 1, NaN beyond.
    ndtri => Ndtri;
    /// The quantile of a probability given by its logarithm: the inverse of `log_ndtr`; NaN above 0.
    ndtri_exp => NdtriExp;
    /// `log |Gamma(x)|`; infinite at 0 and the negative whole numbers.
    lgamma => Lgamma;
    /// The derivative of `lgamma`; minus infinity at 0, NaN at the negative whole numbers.
    digamma => Digamma;
    /// The modified Bessel function of the first kind, of order 0.
    i0 => BesselI0;
    /// `e^-|x| I0(x)`. The derivative at the kink 0 is 0.
    i0e => BesselI0e;
    /// The modified Bessel function of the first kind, of order 1.
    i1 => BesselI1;
    /// `e^-|x| I1(x)`.
    i1e => BesselI1e;
}

/// The derivative of order `n` of `digamma`; `n = 0` is `digamma` itself. Infinite at 0 and the negative whole numbers;
/// NaN for an `n` above a million.
pub fn polygamma<B: Builder>(b: &B, x: &B::Value, n: usize) -> Result<B::Value> {
    require_float("polygamma", "the operand", b.ty(x))?;
    if n == 0 {
        return digamma(b, x);
    }
    // In the wide type: a half type holds few orders.
    let dtype = b.ty(x).dtype;
    let wide = cast(b, x, dtype.wide())?;
    let order = full_like(b, &wide, n as f64)?;
    cast(b, &super::apply_binary(b, BinaryOp::Polygamma, &order, &wide)?, dtype)
}

/// The logarithm of the multivariate gamma function of dimension `p`, `p (p-1) / 4 log(pi) + sum of lgamma(x - i/2)`
/// over `i` in `0..p`.
///
/// Errors: `p` of 0 or above 10,000.
pub fn mvlgamma<B: Builder>(b: &B, x: &B::Value, p: usize) -> Result<B::Value> {
    named("mvlgamma", || {
        require_float("mvlgamma", "the operand", b.ty(x))?;
        if !(1..=10_000).contains(&p) {
            return Err(Error::shape("mvlgamma", format!("the dimension p is {p}, expected 1 to 10000")));
        }
        let dtype = b.ty(x).dtype;
        let wide = dtype.wide();
        let halves = mul_scalar(b, &arange(b, 0i64, p as i64, 1i64, wide)?, 0.5)?;
        let shifted = sub(b, &unsqueeze(b, &cast(b, x, wide)?, -1)?, &halves)?;
        let total = sum(b, &lgamma(b, &shifted)?, &[-1], false)?;
        let constant = p as f64 * (p - 1) as f64 / 4.0 * std::f64::consts::PI.ln();
        cast(b, &super::add_scalar(b, &total, constant)?, dtype)
    })
}

/// `x log(y)`, and 0 where `x` is 0 whatever the logarithm, unless `y` is NaN.
pub fn xlogy<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("xlogy", || times_log(b, x, y, 0.0, |y| log(b, y)))
}

/// `x log(1 + y)`, and 0 where `x` is 0 whatever the logarithm, unless `y` is NaN.
pub fn xlog1py<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("xlog1py", || times_log(b, x, y, -1.0, |y| log1p(b, y)))
}

/// `x logarithm(y)`, where the logarithm is finite between `low` and infinity; outside of that 0 where `x` is 0.
fn times_log<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    low: f64,
    logarithm: impl FnOnce(&B::Value) -> Result<B::Value>,
) -> Result<B::Value> {
    require_float("xlogy", "x", b.ty(x))?;
    require_float("xlogy", "y", b.ty(y))?;
    let ([x, y], dtype) = in_joint_dtype(b, "xlogy", [x, y])?;
    let (x, y) = (&x, &y);
    let unbounded = logical_or(b, &le_scalar(b, y, low)?, &eq_scalar(b, y, f64::INFINITY)?)?;
    let vanishes = logical_and(b, &eq_scalar(b, x, 0.0)?, &unbounded)?;
    let one = scalar(b, 1.0, b.ty(y).dtype)?;
    let product = mul(b, x, &logarithm(&where_(b, &vanishes, &one, y)?)?)?;
    let zero = scalar(b, 0.0, b.ty(&product).dtype)?;
    cast(b, &where_(b, &vanishes, &zero, &product)?, dtype)
}

/// The entropy term `-x log(x)`: 0 at 0, minus infinity below. The derivative is infinite at 0 and NaN below, as in torch.
pub fn entr<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "entr", x, |x| {
        let dtype = b.ty(x).dtype;
        let one = scalar(b, 1.0, dtype)?;
        let (outside, negative) = (le_scalar(b, x, 0.0)?, lt_scalar(b, x, 0.0)?);
        let inside = where_(b, &outside, &one, x)?;
        // At 0 the root, which also is 0 and infinitely steep; below it the logarithm of -0, whose slope is NaN.
        let at_zero = sqrt(b, &where_(b, &eq_scalar(b, x, 0.0)?, x, &one)?)?;
        let below = log(b, &mul_scalar(b, &where_(b, &negative, x, &one)?, 0.0)?)?;
        let limit = where_(b, &negative, &below, &at_zero)?;
        where_(b, &outside, &limit, &neg(b, &mul(b, &inside, &log(b, &inside)?)?)?)
    })
}

/// `log(x / (1 - x))`, the inverse of the sigmoid; infinite at 0 and 1, NaN beyond with NaN for derivative. With `eps`, `x` is first clamped to
/// `eps..1 - eps`; there the derivative is 0.
pub fn logit<B: Builder>(b: &B, x: &B::Value, eps: Option<f64>) -> Result<B::Value> {
    require_float("logit", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let mut x = cast(b, x, dtype.wide())?;
    if let Some(eps) = eps {
        let (low, high) = (full_like(b, &x, eps)?, full_like(b, &x, 1.0 - eps)?);
        x = where_(b, &lt_scalar(b, &x, eps)?, &low, &x)?;
        x = where_(b, &super::gt_scalar(b, &x, 1.0 - eps)?, &high, &x)?;
    } else {
        // Added, so that the derivative there is NaN too.
        let wide = dtype.wide();
        let outside = logical_or(b, &lt_scalar(b, &x, 0.0)?, &super::gt_scalar(b, &x, 1.0)?)?;
        x = add(b, &x, &where_(b, &outside, &scalar(b, f64::NAN, wide)?, &scalar(b, 0.0, wide)?)?)?;
    }
    // Near 1/2 the logarithms cancel, and 2 atanh(2 x - 1) does not.
    let distance = sub_scalar(b, &x, 0.5)?;
    let central = lt_scalar(b, &super::abs(b, &distance)?, 0.25)?;
    let zero = scalar(b, 0.0, dtype.wide())?;
    let middle = atanh(b, &mul_scalar(b, &where_(b, &central, &distance, &zero)?, 2.0)?)?;
    let outer = where_(b, &central, &scalar(b, 0.25, dtype.wide())?, &x)?;
    let tails = sub(b, &log(b, &outer)?, &log1p(b, &neg(b, &outer)?)?)?;
    cast(b, &where_(b, &central, &mul_scalar(b, &middle, 2.0)?, &tails)?, dtype)
}

/// `sin(pi x) / (pi x)`, and 1 at 0, smooth there in all derivatives.
pub fn sinc<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_float("sinc", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let angle = mul_scalar(b, &cast(b, x, dtype.wide())?, std::f64::consts::PI)?;
    // Below 1 the power series in the square of the angle, whose tenth term is below 2e-20, so that no derivative
    // divides by a small number.
    let near = lt_scalar(b, &super::abs(b, &angle)?, 1.0)?;
    let zero = scalar(b, 0.0, dtype.wide())?;
    let one = scalar(b, 1.0, dtype.wide())?;
    let negative = neg(b, &square(b, &where_(b, &near, &angle, &zero)?)?)?;
    let mut series = full_like(b, &negative, 1.0)?;
    for k in (1..10).rev() {
        // 1 - a^2 / (2 * 3) (1 - a^2 / (4 * 5) ...)
        let step = mul_scalar(b, &negative, 1.0 / f64::from(2 * k * (2 * k + 1)))?;
        series = add(b, &one, &mul(b, &step, &series)?)?;
    }
    let far = where_(b, &near, &one, &angle)?;
    let quotient = div(b, &sin(b, &far)?, &far)?;
    cast(b, &where_(b, &near, &series, &quotient)?, dtype)
}
