//! Slopes of the special functions, in closed forms that neither overflow nor cancel where the slope itself does not.
//!
//! Everything is in the wide type. Each form is again differentiable: where two forms meet, both see operands that are
//! harmless to them, and `where` takes the one that is exact.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, UnaryOp};
use crate::ops;

/// The slope of `y = op(x)`.
pub(super) fn slope<B: Builder>(b: &B, op: UnaryOp, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    let one_plus = |v: &B::Value| ops::add_scalar(b, v, 1.0);
    let one_minus = |v: &B::Value| ops::rsub_scalar(b, v, 1.0);
    let one = || ops::scalar(b, 1i64, b.ty(x).dtype);
    match op {
        UnaryOp::Sinh => ops::cosh(b, x),
        UnaryOp::Cosh => ops::sinh(b, x),
        UnaryOp::Asin => ops::rsqrt(b, &ops::mul(b, &one_minus(x)?, &one_plus(x)?)?),
        UnaryOp::Acos => ops::neg(b, &slope(b, UnaryOp::Asin, x, y)?),
        UnaryOp::Atan => ops::reciprocal(b, &one_plus(&ops::square(b, x)?)?),
        UnaryOp::Asinh => ops::reciprocal(b, &ops::hypot(b, x, &ops::ones_like(b, x)?)?),
        UnaryOp::Acosh => {
            ops::mul(b, &ops::rsqrt(b, &ops::sub_scalar(b, x, 1.0)?)?, &ops::rsqrt(b, &one_plus(x)?)?)
        }
        UnaryOp::Atanh => ops::reciprocal(b, &ops::mul(b, &one_minus(x)?, &one_plus(x)?)?),
        UnaryOp::Softplus => ops::sigmoid(b, x),
        UnaryOp::Erfc => {
            ops::mul_scalar(b, &ops::exp(b, &ops::neg(b, &ops::square(b, x)?)?)?, -FRAC_2_SQRT_PI)
        }
        // 2 x erfcx(x) - 2 / sqrt(pi) cancels for large x.
        UnaryOp::Erfcx => ops::mul_scalar(b, &erfc_integral(b, 1.0, x)?, -2.0),
        UnaryOp::LogErfcx => {
            let left = ops::lt_scalar(b, x, 0.0)?;
            let zero = ops::scalar(b, 0i64, b.ty(x).dtype)?;
            let right_x = ops::where_(b, &left, &zero, x)?;
            let ratio = ops::div(b, &erfc_integral(b, 1.0, &right_x)?, &ops::erfcx(b, &right_x)?)?;
            let right = ops::mul_scalar(b, &ratio, -2.0)?;
            let left_x = ops::where_(b, &left, x, &zero)?;
            let inverse = ops::exp(b, &ops::neg(b, &ops::log_erfcx(b, &left_x)?)?)?;
            let linear = ops::mul_scalar(b, &left_x, 2.0)?;
            let left_slope = ops::sub(b, &linear, &ops::mul_scalar(b, &inverse, FRAC_2_SQRT_PI)?)?;
            ops::where_(b, &left, &left_slope, &right)
        }
        UnaryOp::Erfinv => ops::mul_scalar(b, &ops::exp(b, &ops::square(b, y)?)?, 1.0 / FRAC_2_SQRT_PI),
        UnaryOp::Erfcinv => ops::mul_scalar(b, &ops::exp(b, &ops::square(b, y)?)?, -1.0 / FRAC_2_SQRT_PI),
        UnaryOp::Ndtr => {
            let bell = ops::exp(b, &ops::mul_scalar(b, &ops::square(b, x)?, -0.5)?)?;
            ops::mul_scalar(b, &bell, 1.0 / (2.0 * PI).sqrt())
        }
        UnaryOp::LogNdtr => hazard(b, x, y),
        UnaryOp::Ndtri => {
            let inverse = ops::exp(b, &ops::mul_scalar(b, &ops::square(b, y)?, 0.5)?)?;
            ops::mul_scalar(b, &inverse, (2.0 * PI).sqrt())
        }
        // The quantile y knows its probability e^x better than the bell does.
        UnaryOp::NdtriExp => ops::reciprocal(b, &hazard(b, y, x)?),
        UnaryOp::Lgamma => ops::digamma(b, x),
        UnaryOp::Digamma => ops::polygamma(b, x, 1),
        UnaryOp::BesselI0 => ops::i1(b, x),
        UnaryOp::BesselI0e => {
            let scaled = ops::mul(b, &ops::sign(b, x)?, y)?;
            ops::sub(b, &ops::i1e(b, x)?, &scaled)
        }
        UnaryOp::BesselI1 | UnaryOp::BesselI1e => {
            // I1(x) / x tends to 1/2.
            let centre = ops::eq_scalar(b, x, 0.0)?;
            let divisor = ops::where_(b, &centre, &one()?, x)?;
            let quotient = ops::div(b, y, &divisor)?;
            let before = if op == UnaryOp::BesselI1 { ops::i0(b, x)? } else { ops::i0e(b, x)? };
            let mut slope = ops::sub(b, &before, &quotient)?;
            if op == UnaryOp::BesselI1e {
                slope = ops::sub(b, &slope, &ops::mul(b, &ops::sign(b, x)?, y)?)?;
            }
            ops::where_(b, &centre, &ops::scalar(b, 0.5, b.ty(x).dtype)?, &slope)
        }
        _ => Err(Error::unsupported(op.name(), "is no special function")),
    }
}

/// The slope of the binary function `out = op(x, y)` in one operand.
pub(super) fn partial<B: Builder>(
    b: &B,
    op: BinaryOp,
    operand: usize,
    x: &B::Value,
    y: &B::Value,
    out: &B::Value,
) -> Result<B::Value> {
    match op {
        // At the origin 0, as in torch; (y / h) / h cannot overflow where y / (x^2 + y^2) would.
        BinaryOp::Atan2 => {
            let radius = nonzero(b, &ops::hypot(b, x, y)?)?;
            let other = if operand == 0 { y.clone() } else { ops::neg(b, x)? };
            ops::div(b, &ops::div(b, &other, &radius)?, &radius)
        }
        BinaryOp::Hypot => ops::div(b, if operand == 0 { x } else { y }, &nonzero(b, out)?),
        BinaryOp::Polygamma => ops::apply_binary(b, op, &ops::add_scalar(b, x, 1.0)?, y),
        BinaryOp::ErfcIntegral => {
            // -2 (x + 1) times the function of the next order.
            let next = ops::add_scalar(b, x, 1.0)?;
            let value = ops::apply_binary(b, op, &next, y)?;
            ops::mul(b, &value, &ops::mul_scalar(b, &next, -2.0)?)
        }
        _ => Err(Error::unsupported(op.name(), "is no special function")),
    }
}

/// `x`, and 1 where that is 0.
fn nonzero<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let one = ops::scalar(b, 1i64, b.ty(x).dtype)?;
    ops::where_(b, &ops::eq_scalar(b, x, 0.0)?, &one, x)
}

/// The scaled repeated integral of `erfc` of an order; see [`BinaryOp::ErfcIntegral`].
fn erfc_integral<B: Builder>(b: &B, order: f64, x: &B::Value) -> Result<B::Value> {
    ops::apply_binary(b, BinaryOp::ErfcIntegral, &ops::full_like(b, x, order)?, x)
}

/// The slope of `log_ndtr`, `phi(x) / Phi(x)`, where `log_probability = log_ndtr(x)`: `sqrt(2 / pi) /
/// erfcx(-x / sqrt(2))` to the left of 0, whose derivatives cancel nothing, and `exp(log phi(x) - log_ndtr(x))` to
/// the right, where `erfcx` overflows.
fn hazard<B: Builder>(b: &B, x: &B::Value, log_probability: &B::Value) -> Result<B::Value> {
    let zero = ops::scalar(b, 0i64, b.ty(x).dtype)?;
    let right = ops::gt_scalar(b, x, 0.0)?;
    let left_x = ops::where_(b, &right, &zero, x)?;
    let scaled = ops::erfcx(b, &ops::mul_scalar(b, &left_x, -FRAC_1_SQRT_2)?)?;
    let left_slope = ops::mul_scalar(b, &ops::reciprocal(b, &scaled)?, (2.0 / PI).sqrt())?;
    let right_x = ops::where_(b, &right, x, &zero)?;
    let log_density =
        ops::sub_scalar(b, &ops::mul_scalar(b, &ops::square(b, &right_x)?, -0.5)?, 0.5 * (2.0 * PI).ln())?;
    let right_log = ops::where_(b, &right, log_probability, &zero)?;
    let right_slope = ops::exp(b, &ops::sub(b, &log_density, &right_log)?)?;
    ops::where_(b, &right, &right_slope, &left_slope)
}
