//! Activations: functions of one element between the layers of a network.
//!
//! All are of floats; half types compute in f32 and round once. At a kink the derivative is torch's.

use super::pointwise::in_wide;
use super::{
    abs, add_scalar, apply_unary, div, div_scalar, eq_scalar, expm1, full_like, ge_scalar, gt_scalar,
    le_scalar, logical_and, lt_scalar, mul, mul_scalar, neg, require_float, reshape_to, shape_of, sigmoid,
    sub, sub_scalar, tanh, where_, zeros_like,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::UnaryOp;
use crate::layout::{Dims, ShowShape, resolve_axis};

/// `log(1 + e^x)`, without overflow.
pub(crate) fn softplus_of<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    apply_unary(b, UnaryOp::Softplus, x)
}

/// `log(1 + e^(beta x)) / beta`, and `x` itself where `beta x` is above `threshold`.
pub fn softplus<B: Builder>(b: &B, x: &B::Value, beta: f64, threshold: f64) -> Result<B::Value> {
    in_wide(b, "softplus", x, |x| {
        let scaled = mul_scalar(b, x, beta)?;
        let curve = div_scalar(b, &softplus_of(b, &scaled)?, beta)?;
        where_(b, &gt_scalar(b, &scaled, threshold)?, x, &curve)
    })
}

/// `log(sigmoid(x))`, computed as `-log(1 + e^-x)`.
pub fn log_sigmoid<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "log_sigmoid", x, |x| neg(b, &softplus_of(b, &neg(b, x)?)?))
}

/// `x` where positive, else `slope * x`.
pub fn leaky_relu<B: Builder>(b: &B, x: &B::Value, slope: f64) -> Result<B::Value> {
    in_wide(b, "leaky_relu", x, |x| where_(b, &gt_scalar(b, x, 0.0)?, x, &mul_scalar(b, x, slope)?))
}

/// `x` where positive, else `weight * x` (He et al. 2015), for `weight [channels]`, one for each place of axis 1 of
/// `x`, or `[1]`, one for all.
pub fn prelu<B: Builder>(b: &B, x: &B::Value, weight: &B::Value) -> Result<B::Value> {
    require_float("prelu", "x", b.ty(x))?;
    crate::prim::expect_same_dtype("prelu", b.ty(x), "weight", b.ty(weight))?;
    let (shape, slopes) = (shape_of(b, x), shape_of(b, weight));
    let channels = shape.get(1).copied().unwrap_or(1);
    let count = slopes.first().copied().unwrap_or(1);
    if slopes.len() > 1 || (count != 1 && count != channels) {
        return Err(Error::shape(
            "prelu",
            format!(
                "weight is {}, expected [1] or [{channels}] for x {}",
                ShowShape(&slopes),
                ShowShape(&shape)
            ),
        ));
    }
    let mut placed: Dims = shape.iter().map(|_| 1).collect();
    if let Some(axis) = placed.get_mut(1) {
        *axis = count;
    }
    let weight = reshape_to(b, weight, &placed)?;
    where_(b, &gt_scalar(b, x, 0.0)?, x, &mul(b, &weight, x)?)
}

/// `x` where positive, else `alpha * (e^x - 1)` (Clevert et al. 2015).
pub fn elu<B: Builder>(b: &B, x: &B::Value, alpha: f64) -> Result<B::Value> {
    in_wide(b, "elu", x, |x| exponential(b, x, 1.0, alpha, 1.0))
}

/// `x` where positive, else `alpha * (e^(x / alpha) - 1)` (Barron 2017).
///
/// Errors: `alpha` of 0.
pub fn celu<B: Builder>(b: &B, x: &B::Value, alpha: f64) -> Result<B::Value> {
    if alpha == 0.0 {
        return Err(Error::unsupported("celu", "alpha is 0, by which the operand would be divided"));
    }
    in_wide(b, "celu", x, |x| exponential(b, x, 1.0, alpha, 1.0 / alpha))
}

/// `1.0507 x` where positive, else `1.7581 (e^x - 1)`: the linear unit that keeps mean 0 and variance 1 (Klambauer et
/// al. 2017).
pub fn selu<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    const ALPHA: f64 = 1.673_263_242_354_377_2;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    in_wide(b, "selu", x, |x| exponential(b, x, SCALE, SCALE * ALPHA, 1.0))
}

/// `scale * x` where positive, else `alpha * (e^(rate x) - 1)`. The exponential sees no positive element, so that its
/// derivative cannot overflow there.
fn exponential<B: Builder>(b: &B, x: &B::Value, scale: f64, alpha: f64, rate: f64) -> Result<B::Value> {
    let negative = lt_scalar(b, x, 0.0)?;
    let below = where_(b, &negative, x, &zeros_like(b, x)?)?;
    let scaled = |v: &B::Value, by: f64| if by == 1.0 { Ok(v.clone()) } else { mul_scalar(b, v, by) };
    let curve = scaled(&expm1(b, &scaled(&below, rate)?)?, alpha)?;
    let line = scaled(x, scale)?;
    // At 0 the slope is the curve's and the curvature the line's, as in torch.
    let line = match scale == alpha * rate {
        true => line,
        false => where_(b, &eq_scalar(b, x, 0.0)?, &scaled(x, alpha * rate)?, &line)?,
    };
    where_(b, &negative, &curve, &line)
}

/// How GELU is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeluApproximate {
    /// With the exact normal distribution function.
    #[default]
    None,
    /// By the tanh formula (Hendrycks and Gimpel 2016).
    Tanh,
}

/// The Gaussian error linear unit `x * Phi(x)`.
pub fn gelu<B: Builder>(b: &B, x: &B::Value, approximate: GeluApproximate) -> Result<B::Value> {
    let op = match approximate {
        GeluApproximate::None => UnaryOp::Gelu,
        GeluApproximate::Tanh => UnaryOp::GeluTanh,
    };
    apply_unary(b, op, x)
}

/// `x` held between `low` and `high`; at the bounds and outside the derivative is 0.
pub fn hardtanh<B: Builder>(b: &B, x: &B::Value, low: f64, high: f64) -> Result<B::Value> {
    require_float("hardtanh", "the operand", b.ty(x))?;
    held(b, x, low, high)
}

fn held<B: Builder>(b: &B, x: &B::Value, low: f64, high: f64) -> Result<B::Value> {
    let below = where_(b, &ge_scalar(b, x, high)?, &full_like(b, x, high)?, x)?;
    where_(b, &le_scalar(b, x, low)?, &full_like(b, x, low)?, &below)
}

/// `min(max(x, 0), 6)` (Krizhevsky 2010); the derivative at 0 and 6 is 0.
pub fn relu6<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_float("relu6", "the operand", b.ty(x))?;
    held(b, x, 0.0, 6.0)
}

/// `min(max(x + 3, 0), 6) / 6`: the sigmoid in straight lines.
pub fn hardsigmoid<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "hardsigmoid", x, |x| div_scalar(b, &held(b, &add_scalar(b, x, 3.0)?, 0.0, 6.0)?, 6.0))
}

/// `x * hardsigmoid(x)` (Howard et al. 2019).
pub fn hardswish<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "hardswish", x, |x| {
        // An infinite x reaches no product with 0.
        let inside = logical_and(b, &gt_scalar(b, x, -3.0)?, &lt_scalar(b, x, 3.0)?)?;
        let middle = where_(b, &inside, x, &zeros_like(b, x)?)?;
        let curve = div_scalar(b, &mul(b, &middle, &add_scalar(b, &middle, 3.0)?)?, 6.0)?;
        let outside = where_(b, &le_scalar(b, x, -3.0)?, &zeros_like(b, x)?, x)?;
        where_(b, &inside, &curve, &outside)
    })
}

/// `x / (1 + |x|)`.
pub fn softsign<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "softsign", x, |x| div(b, x, &add_scalar(b, &abs(b, x)?, 1.0)?))
}

/// `x * tanh(log(1 + e^x))` (Misra 2019).
pub fn mish<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "mish", x, |x| mul(b, x, &tanh(b, &softplus_of(b, x)?)?))
}

/// `x - tanh(x)`.
pub fn tanhshrink<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "tanhshrink", x, |x| sub(b, x, &tanh(b, x)?))
}

/// `x` drawn towards 0 by `lambd` (torch's name; `lambda` is a word of Python), and 0 where `|x| <= lambd`.
pub fn softshrink<B: Builder>(b: &B, x: &B::Value, lambd: f64) -> Result<B::Value> {
    in_wide(b, "softshrink", x, |x| {
        let small = within(b, x, lambd)?;
        let above = gt_scalar(b, x, lambd)?;
        let drawn = where_(b, &above, &sub_scalar(b, x, lambd)?, &add_scalar(b, x, lambd)?)?;
        where_(b, &small, &zeros_like(b, x)?, &drawn)
    })
}

/// `x`, and 0 where `|x| <= lambd`.
pub fn hardshrink<B: Builder>(b: &B, x: &B::Value, lambd: f64) -> Result<B::Value> {
    require_float("hardshrink", "the operand", b.ty(x))?;
    where_(b, &within(b, x, lambd)?, &zeros_like(b, x)?, x)
}

/// True where `-lambd <= x <= lambd`; false for NaN, which thereby stays.
fn within<B: Builder>(b: &B, x: &B::Value, lambd: f64) -> Result<B::Value> {
    logical_and(b, &ge_scalar(b, x, -lambd)?, &le_scalar(b, x, lambd)?)
}

/// `x` where above `threshold`, else `value`; NaN stays.
pub fn threshold<B: Builder>(b: &B, x: &B::Value, threshold: f64, value: f64) -> Result<B::Value> {
    require_float("threshold", "the operand", b.ty(x))?;
    where_(b, &le_scalar(b, x, threshold)?, &full_like(b, x, value)?, x)
}

/// `first * sigmoid(second)` of the two halves along an axis (Dauphin et al. 2016): `[.., 2 n, ..] -> [.., n, ..]`.
///
/// Errors: an axis of odd size.
pub fn glu<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let place = resolve_axis("glu", axis, shape.len())?;
    if shape[place] % 2 != 0 {
        return Err(Error::shape(
            "glu",
            format!("axis {place} of {} is odd, expected two halves", ShowShape(&shape)),
        ));
    }
    in_wide(b, "glu", x, |x| {
        let half = (shape[place] / 2) as isize;
        let first = super::slice(b, x, axis, 0, Some(half), 1)?;
        let second = super::slice(b, x, axis, half, None, 1)?;
        mul(b, &first, &sigmoid(b, &second)?)
    })
}

/// `x * sigmoid(1.702 x)`, an approximation of GELU (Hendrycks and Gimpel 2016).
pub fn quick_gelu<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "quick_gelu", x, |x| mul(b, x, &sigmoid(b, &mul_scalar(b, x, 1.702)?)?))
}
