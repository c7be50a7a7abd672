//! Derivatives of the scalar functions. Each is a linear map of one tangent, so it serves both directions.
//!
//! Half types compute in the wide type and round once; inside a fused region the casts cost nothing.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

use super::special;
use crate::builder::Builder;
use crate::error::Result;
use crate::expr::{BinaryOp, UnaryOp};
use crate::ops;

/// `op'(x) * t`, where `y = op(x)`; `None` where the derivative is zero everywhere.
pub(super) fn unary<B: Builder>(
    b: &B,
    op: UnaryOp,
    x: &B::Value,
    y: &B::Value,
    t: &B::Value,
) -> Result<Option<B::Value>> {
    let dtype = b.ty(x).dtype;
    if !dtype.is_float() {
        return Ok(None);
    }
    // These three are exact in any type.
    match op {
        UnaryOp::Neg => return Ok(Some(ops::neg(b, t)?)),
        UnaryOp::Abs => return Ok(Some(ops::mul(b, t, &ops::sign(b, x)?)?)),
        UnaryOp::Relu => {
            let zero = ops::scalar(b, 0i64, dtype)?;
            return Ok(Some(ops::where_(b, &ops::gt_scalar(b, x, 0.0)?, t, &zero)?));
        }
        _ => {}
    }
    let wide = dtype.wide();
    let (x, t) = (&ops::cast(b, x, wide)?, &ops::cast(b, t, wide)?);
    let y = || ops::cast(b, y, wide);
    let one_minus = |v: &B::Value| ops::rsub_scalar(b, v, 1.0);
    let result = match op {
        UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu => return Ok(None),
        UnaryOp::Sign
        | UnaryOp::Floor
        | UnaryOp::Ceil
        | UnaryOp::Round
        | UnaryOp::Trunc
        | UnaryOp::Not
        | UnaryOp::IsFinite
        | UnaryOp::BitNot => return Ok(None),
        UnaryOp::Exp => ops::mul(b, t, &y()?)?,
        UnaryOp::Expm1 => ops::mul(b, t, &ops::add_scalar(b, &y()?, 1.0)?)?,
        UnaryOp::Log => ops::div(b, t, x)?,
        UnaryOp::Log1p => ops::div(b, t, &ops::add_scalar(b, x, 1.0)?)?,
        UnaryOp::Sqrt => ops::div(b, &ops::mul_scalar(b, t, 0.5)?, &y()?)?,
        UnaryOp::Rsqrt => {
            let y = y()?;
            let cube = ops::mul(b, &ops::square(b, &y)?, &y)?;
            ops::mul(b, t, &ops::mul_scalar(b, &cube, -0.5)?)?
        }
        UnaryOp::Recip => ops::neg(b, &ops::mul(b, t, &ops::square(b, &y()?)?)?)?,
        UnaryOp::Sin => ops::mul(b, t, &ops::cos(b, x)?)?,
        UnaryOp::Cos => ops::neg(b, &ops::mul(b, t, &ops::sin(b, x)?)?)?,
        UnaryOp::Tanh => ops::mul(b, t, &one_minus(&ops::square(b, &y()?)?)?)?,
        UnaryOp::Sigmoid => {
            let y = y()?;
            ops::mul(b, t, &ops::mul(b, &y, &one_minus(&y)?)?)?
        }
        UnaryOp::Erf => {
            let bell = ops::exp(b, &ops::neg(b, &ops::square(b, x)?)?)?;
            ops::mul(b, t, &ops::mul_scalar(b, &bell, FRAC_2_SQRT_PI)?)?
        }
        UnaryOp::Gelu => {
            // Phi(x) + x phi(x)
            let erf = ops::erf(b, &ops::mul_scalar(b, x, FRAC_1_SQRT_2)?)?;
            let cdf = ops::mul_scalar(b, &ops::add_scalar(b, &erf, 1.0)?, 0.5)?;
            let bell = ops::exp(b, &ops::mul_scalar(b, &ops::square(b, x)?, -0.5)?)?;
            let density = ops::mul_scalar(b, &bell, 1.0 / (2.0 * PI).sqrt())?;
            ops::mul(b, t, &ops::add(b, &cdf, &ops::mul(b, x, &density)?)?)?
        }
        UnaryOp::GeluTanh => {
            // y = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3)
            let scale = (2.0 / PI).sqrt();
            let square = ops::square(b, x)?;
            let polynomial = ops::add_scalar(b, &ops::mul_scalar(b, &square, scale * 0.044715)?, scale)?;
            let tanh = ops::tanh(b, &ops::mul(b, x, &polynomial)?)?;
            let slope = ops::add_scalar(b, &ops::mul_scalar(b, &square, 3.0 * scale * 0.044715)?, scale)?;
            let outer = ops::mul_scalar(b, &ops::add_scalar(b, &tanh, 1.0)?, 0.5)?;
            let inner = ops::mul(b, &one_minus(&ops::square(b, &tanh)?)?, &slope)?;
            let inner = ops::mul(b, &ops::mul_scalar(b, x, 0.5)?, &inner)?;
            ops::mul(b, t, &ops::add(b, &outer, &inner)?)?
        }
        UnaryOp::Silu => {
            // s + y (1 - s)
            let s = ops::sigmoid(b, x)?;
            let slope = ops::add(b, &s, &ops::mul(b, &y()?, &one_minus(&s)?)?)?;
            ops::mul(b, t, &slope)?
        }
        UnaryOp::Sinh
        | UnaryOp::Cosh
        | UnaryOp::Asin
        | UnaryOp::Acos
        | UnaryOp::Atan
        | UnaryOp::Asinh
        | UnaryOp::Acosh
        | UnaryOp::Atanh
        | UnaryOp::Softplus
        | UnaryOp::Erfc
        | UnaryOp::Erfcx
        | UnaryOp::LogErfcx
        | UnaryOp::Erfinv
        | UnaryOp::Erfcinv
        | UnaryOp::Ndtr
        | UnaryOp::LogNdtr
        | UnaryOp::Ndtri
        | UnaryOp::NdtriExp
        | UnaryOp::Lgamma
        | UnaryOp::Digamma
        | UnaryOp::BesselI0
        | UnaryOp::BesselI0e
        | UnaryOp::BesselI1
        | UnaryOp::BesselI1e => ops::mul(b, t, &special::slope(b, op, x, &y()?)?)?,
    };
    Ok(Some(ops::cast(b, &result, dtype)?))
}

/// The partial derivative of `op` in one operand, times `t`.
pub(super) fn binary<B: Builder>(
    b: &B,
    op: BinaryOp,
    operand: usize,
    inputs: &[B::Value],
    out: &B::Value,
    t: &B::Value,
) -> Result<Option<B::Value>> {
    let dtype = b.ty(&inputs[0]).dtype;
    if !dtype.is_float() {
        return Ok(None);
    }
    let (x, y) = (&inputs[0], &inputs[1]);
    Ok(Some(match (op, operand) {
        (BinaryOp::Add, _) | (BinaryOp::Sub, 0) | (BinaryOp::Rem, 0) => t.clone(),
        (BinaryOp::Sub, _) => ops::neg(b, t)?,
        (BinaryOp::Mul, 0) => ops::mul(b, t, y)?,
        (BinaryOp::Mul, _) => ops::mul(b, t, x)?,
        (BinaryOp::Div, 0) => ops::div(b, t, y)?,
        (BinaryOp::Div, _) => {
            let wide = dtype.wide();
            let [t, y, out] = [t, y, out].map(|v| ops::cast(b, v, wide));
            let slope = ops::div(b, &ops::mul(b, &t?, &out?)?, &y?)?;
            ops::cast(b, &ops::neg(b, &slope)?, dtype)?
        }
        // x - y trunc(x / y)
        (BinaryOp::Rem, _) => {
            let quotient = ops::trunc(b, &ops::div(b, x, y)?)?;
            ops::neg(b, &ops::mul(b, t, &quotient)?)?
        }
        (BinaryOp::Pow, _) => {
            let wide = dtype.wide();
            let [t, x, y, out] = [t, x, y, out].map(|v| ops::cast(b, v, wide));
            let slope = power_slope(b, operand, &x?, &y?, &out?)?;
            ops::cast(b, &ops::mul(b, &t?, &slope)?, dtype)?
        }
        (BinaryOp::Max | BinaryOp::Min, _) => {
            // At a tie each operand takes half, as in torch.
            let (mine, other) = if operand == 0 { (x, y) } else { (y, x) };
            let zero = ops::scalar(b, 0i64, dtype)?;
            let wins = if op == BinaryOp::Max { ops::gt(b, mine, other)? } else { ops::lt(b, mine, other)? };
            let half = ops::mul_scalar(b, t, 0.5)?;
            let whole = ops::where_(b, &wins, t, &zero)?;
            ops::where_(b, &ops::eq(b, x, y)?, &half, &whole)?
        }
        (
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::ShiftLeft
            | BinaryOp::ShiftRight,
            _,
        ) => return Ok(None),
        // The size alone carries a derivative.
        (BinaryOp::CopySign, 0) => {
            // The sign by which the size was multiplied; 0 at 0, as in torch.
            let same = ops::eq(b, x, out)?;
            let turned = ops::where_(b, &same, t, &ops::neg(b, t)?)?;
            ops::where_(b, &ops::eq_scalar(b, x, 0.0)?, &ops::scalar(b, 0i64, dtype)?, &turned)?
        }
        // Neither the sign nor an order moves continuously.
        (BinaryOp::CopySign, _) | (BinaryOp::Polygamma | BinaryOp::ErfcIntegral, 0) => return Ok(None),
        (BinaryOp::Atan2 | BinaryOp::Hypot | BinaryOp::Polygamma | BinaryOp::ErfcIntegral, _) => {
            let wide = dtype.wide();
            let [t, x, y, out] = [t, x, y, out].map(|v| ops::cast(b, v, wide));
            let slope = special::partial(b, op, operand, &x?, &y?, &out?)?;
            ops::cast(b, &ops::mul(b, &t?, &slope)?, dtype)?
        }
    }))
}

/// The slope of `x^y`: `y x^(y-1)` in `x`, 0 where `y` is 0; `x^y log x` in `y`, 0 where `x` is 0. The
/// masked branch sees a harmless operand, so that derivatives of this hold no NaN.
fn power_slope<B: Builder>(
    b: &B,
    operand: usize,
    x: &B::Value,
    y: &B::Value,
    out: &B::Value,
) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let one = ops::scalar(b, 1i64, dtype)?;
    let zero = ops::scalar(b, 0i64, dtype)?;
    if operand == 0 {
        let flat = ops::eq_scalar(b, y, 0.0)?;
        let exponent = ops::where_(b, &flat, &one, &ops::sub_scalar(b, y, 1.0)?)?;
        let slope = ops::mul(b, y, &ops::pow(b, x, &exponent)?)?;
        return ops::where_(b, &flat, &zero, &slope);
    }
    let vanishes = ops::eq_scalar(b, x, 0.0)?;
    let log = ops::log(b, &ops::where_(b, &vanishes, &one, x)?)?;
    ops::where_(b, &vanishes, &zero, &ops::mul(b, out, &log)?)
}
