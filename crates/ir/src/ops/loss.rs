//! Losses of predictions against targets of the same shape. Each reduces by [`Reduction`].
//!
//! All operands of a loss are floats of one dtype and, unless it says otherwise, of one shape. Half types compute in
//! f32 and round once, after the reduction. The mean of no elements is NaN, as in torch.

use super::{
    abs, add, add_scalar, broadcast_to, cast, div, eq_scalar, exp, full_like, gt_scalar, le_scalar, log,
    lt_scalar, maximum, mean, mul, mul_scalar, neg, relu, rsub_scalar, scalar, shape_of, softplus_of, square,
    sub, sub_scalar, sum, where_, xlogy,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::broadcast_shapes;
use crate::prim::{expect_float, expect_same_dtype, expect_shape};

/// What becomes of the losses of the elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Nothing.
    None,
}

impl Reduction {
    pub(super) fn apply<B: Builder>(self, b: &B, losses: &B::Value) -> Result<B::Value> {
        match self {
            Reduction::Mean => mean(b, losses, &[], false),
            Reduction::Sum => sum(b, losses, &[], false),
            Reduction::None => Ok(losses.clone()),
        }
    }

    /// Reduces losses in the wide type and rounds them to `dtype`.
    pub(super) fn finish<B: Builder>(self, b: &B, losses: &B::Value, dtype: DType) -> Result<B::Value> {
        cast(b, &self.apply(b, losses)?, dtype)
    }
}

/// Checks that operands are floats of the first one's dtype, and casts them to the wide type.
pub(super) fn wide_floats<B: Builder, const N: usize>(
    b: &B,
    op: &str,
    operands: [(&str, &B::Value); N],
) -> Result<([B::Value; N], DType)> {
    let first = b.ty(operands[0].1).clone();
    for (name, value) in operands {
        expect_float(op, name, b.ty(value))?;
        expect_same_dtype(op, &first, name, b.ty(value))?;
    }
    let mut wide = operands.map(|(_, value)| value.clone());
    for value in &mut wide {
        *value = cast(b, value, first.dtype.wide())?;
    }
    Ok((wide, first.dtype))
}

/// The same for a prediction and a target of one shape.
fn pair<B: Builder>(b: &B, op: &str, x: &B::Value, y: &B::Value) -> Result<(B::Value, B::Value, DType)> {
    expect_shape(op, "the target", b.ty(y), &b.ty(x).shape)?;
    let ([x, y], dtype) = wide_floats(b, op, [("the input", x), ("the target", y)])?;
    Ok((x, y, dtype))
}

/// `max(x, 0)`, whose derivative at 0 is 1, as that of torch's `clamp_min`; NaN stays.
pub(super) fn at_least_zero<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    where_(b, &lt_scalar(b, x, 0.0)?, &scalar(b, 0.0, b.ty(x).dtype)?, x)
}

/// `(x - y)^2`.
pub fn mse_loss<B: Builder>(b: &B, x: &B::Value, y: &B::Value, reduction: Reduction) -> Result<B::Value> {
    let (x, y, dtype) = pair(b, "mse_loss", x, y)?;
    reduction.finish(b, &square(b, &sub(b, &x, &y)?)?, dtype)
}

/// `|x - y|`; the derivative at 0 is 0.
pub fn l1_loss<B: Builder>(b: &B, x: &B::Value, y: &B::Value, reduction: Reduction) -> Result<B::Value> {
    let (x, y, dtype) = pair(b, "l1_loss", x, y)?;
    reduction.finish(b, &abs(b, &sub(b, &x, &y)?)?, dtype)
}

/// `d^2 / 2` for `d = |x - y| <= delta`, else `delta * (d - delta / 2)` (Huber 1964).
pub fn huber_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    delta: f64,
    reduction: Reduction,
) -> Result<B::Value> {
    let (x, y, dtype) = pair(b, "huber_loss", x, y)?;
    let difference = sub(b, &x, &y)?;
    let distance = abs(b, &difference)?;
    let near = mul_scalar(b, &square(b, &difference)?, 0.5)?;
    let far = mul_scalar(b, &sub_scalar(b, &distance, 0.5 * delta)?, delta)?;
    reduction.finish(b, &where_(b, &le_scalar(b, &distance, delta)?, &near, &far)?, dtype)
}

/// `d^2 / (2 beta)` for `d = |x - y| < beta`, else `d - beta / 2` (Girshick 2015): the Huber loss over its `delta`.
/// With `beta` of 0 the loss [`l1_loss`].
pub fn smooth_l1_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    beta: f64,
    reduction: Reduction,
) -> Result<B::Value> {
    let (x, y, dtype) = pair(b, "smooth_l1_loss", x, y)?;
    let difference = sub(b, &x, &y)?;
    let distance = abs(b, &difference)?;
    if beta == 0.0 {
        return reduction.finish(b, &distance, dtype);
    }
    let near = mul_scalar(b, &square(b, &difference)?, 0.5 / beta)?;
    let far = sub_scalar(b, &distance, 0.5 * beta)?;
    reduction.finish(b, &where_(b, &lt_scalar(b, &distance, beta)?, &near, &far)?, dtype)
}

/// Multiplies losses by weights that broadcast to them.
fn weigh<B: Builder>(
    b: &B,
    op: &str,
    operand: &str,
    losses: &B::Value,
    dtype: DType,
    weight: Option<&B::Value>,
) -> Result<B::Value> {
    let Some(weight) = weight else { return Ok(losses.clone()) };
    mul(b, losses, &spread(b, op, operand, weight, losses, dtype)?)
}

/// A weight of `dtype` in the wide type and in the shape of `like`.
fn spread<B: Builder>(
    b: &B,
    op: &str,
    operand: &str,
    weight: &B::Value,
    like: &B::Value,
    dtype: DType,
) -> Result<B::Value> {
    let shape = shape_of(b, like);
    let found = b.ty(weight);
    if found.dtype != dtype {
        return Err(Error::dtype(op, format!("{operand} is {}, expected {dtype} as the input", found.dtype)));
    }
    if broadcast_shapes(op, &found.shape, &shape).ok().as_ref() != Some(&shape) {
        expect_shape(op, operand, found, &shape)?;
    }
    broadcast_to(b, &cast(b, weight, dtype.wide())?, &shape)
}

/// `max(log(x), -100)`, as torch bounds it, with the slope 1e12 that torch gives it where it is bound.
fn bounded_log<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let bound = le_scalar(b, x, (-100f64).exp())?;
    let one = scalar(b, 1.0, b.ty(x).dtype)?;
    let line = sub_scalar(b, &mul_scalar(b, x, 1e12)?, 100.0)?;
    // Below 0 the logarithm is NaN, which must not be hidden.
    let line = where_(b, &lt_scalar(b, x, 0.0)?, &scalar(b, f64::NAN, b.ty(x).dtype)?, &line)?;
    where_(b, &bound, &line, &log(b, &where_(b, &bound, &one, x)?)?)
}

/// Binary cross-entropy `-(y log(x) + (1 - y) log(1 - x))` of probabilities `x` against `targets` in `[0, 1]`, times
/// `weight`, which broadcasts. The logarithms are held above -100, as in torch, so that a certain and wrong prediction
/// costs 100; the slope there is 1e12. NaN for an `x` outside of `[0, 1]`.
pub fn binary_cross_entropy<B: Builder>(
    b: &B,
    x: &B::Value,
    targets: &B::Value,
    weight: Option<&B::Value>,
    reduction: Reduction,
) -> Result<B::Value> {
    const OP: &str = "binary_cross_entropy";
    let (x, y, dtype) = pair(b, OP, x, targets)?;
    let hit = mul(b, &y, &bounded_log(b, &x)?)?;
    let miss = mul(b, &rsub_scalar(b, &y, 1.0)?, &bounded_log(b, &rsub_scalar(b, &x, 1.0)?)?)?;
    let losses = weigh(b, OP, "weight", &neg(b, &add(b, &hit, &miss)?)?, dtype, weight)?;
    reduction.finish(b, &losses, dtype)
}

/// Binary cross-entropy of `logits` against `targets` in `[0, 1]`, `log(1 + e^x) - x y`, exact for large logits and
/// smooth at 0. `weight` multiplies the losses, `pos_weight` the term of the positive class; both broadcast.
pub fn binary_cross_entropy_with_logits<B: Builder>(
    b: &B,
    logits: &B::Value,
    targets: &B::Value,
    reduction: Reduction,
    weight: Option<&B::Value>,
    pos_weight: Option<&B::Value>,
) -> Result<B::Value> {
    const OP: &str = "binary_cross_entropy_with_logits";
    let (x, y, dtype) = pair(b, OP, logits, targets)?;
    // y -log(sigmoid(x)) + (1 - y) -log(sigmoid(-x)), with the logarithm taken where it is small: those of x and -x
    // differ by x.
    let up = softplus_of(b, &neg(b, &x)?)?;
    let down = softplus_of(b, &x)?;
    let rest = rsub_scalar(b, &y, 1.0)?;
    let positive = gt_scalar(b, &x, 0.0)?;
    let losses = match pos_weight {
        None => {
            let right = add(b, &mul(b, &rest, &x)?, &up)?;
            let left = sub(b, &down, &mul(b, &y, &x)?)?;
            where_(b, &positive, &right, &left)?
        }
        Some(pos_weight) => {
            let pos_weight = spread(b, OP, "pos_weight", pos_weight, &x, dtype)?;
            let weighted = mul(b, &pos_weight, &y)?;
            let both = add(b, &weighted, &rest)?;
            let right = add(b, &mul(b, &rest, &x)?, &mul(b, &both, &up)?)?;
            let left = sub(b, &mul(b, &both, &down)?, &mul(b, &weighted, &x)?)?;
            where_(b, &positive, &right, &left)?
        }
    };
    reduction.finish(b, &weigh(b, OP, "weight", &losses, dtype, weight)?, dtype)
}

/// `max(0, 1 - x y)` for `targets` of -1 and 1; the derivative at the kink is 0.
pub fn hinge_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    targets: &B::Value,
    reduction: Reduction,
) -> Result<B::Value> {
    let (x, y, dtype) = pair(b, "hinge_loss", x, targets)?;
    reduction.finish(b, &relu(b, &rsub_scalar(b, &mul(b, &x, &y)?, 1.0)?)?, dtype)
}

/// `log(1 + e^(-x y))` for `targets` of -1 and 1.
pub fn soft_margin_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    targets: &B::Value,
    reduction: Reduction,
) -> Result<B::Value> {
    let (x, y, dtype) = pair(b, "soft_margin_loss", x, targets)?;
    reduction.finish(b, &softplus_of(b, &neg(b, &mul(b, &x, &y)?)?)?, dtype)
}

/// For `targets` of 1 the input (a distance), for -1 `max(0, margin - x)`.
pub fn hinge_embedding_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    targets: &B::Value,
    margin: f64,
    reduction: Reduction,
) -> Result<B::Value> {
    let (x, y, dtype) = pair(b, "hinge_embedding_loss", x, targets)?;
    let zero = scalar(b, 0.0, dtype.wide())?;
    let far = at_least_zero(b, &rsub_scalar(b, &x, margin)?)?;
    let near = where_(b, &eq_scalar(b, &y, 1.0)?, &x, &zero)?;
    reduction.finish(b, &where_(b, &eq_scalar(b, &y, -1.0)?, &far, &near)?, dtype)
}

/// The Poisson likelihood's `e^x - x y`, or `x - y log(x + eps)` unless `log_input`. With `full`, Stirling's
/// `y log(y) - y + log(2 pi y) / 2` is added where `y` is above 1.
pub fn poisson_nll_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    targets: &B::Value,
    log_input: bool,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Result<B::Value> {
    let (x, y, dtype) = pair(b, "poisson_nll_loss", x, targets)?;
    let mut losses = if log_input {
        sub(b, &exp(b, &x)?, &mul(b, &y, &x)?)?
    } else {
        sub(b, &x, &mul(b, &y, &log(b, &add_scalar(b, &x, eps)?)?)?)?
    };
    if full {
        let counts = gt_scalar(b, &y, 1.0)?;
        let one = scalar(b, 1.0, dtype.wide())?;
        let safe = where_(b, &counts, &y, &one)?;
        let half_log = mul_scalar(b, &log(b, &mul_scalar(b, &safe, 2.0 * std::f64::consts::PI)?)?, 0.5)?;
        let stirling = add(b, &sub(b, &xlogy(b, &safe, &safe)?, &safe)?, &half_log)?;
        let zero = scalar(b, 0.0, dtype.wide())?;
        losses = add(b, &losses, &where_(b, &counts, &stirling, &zero)?)?;
    }
    reduction.finish(b, &losses, dtype)
}

/// The normal likelihood's `(log(v) + (x - y)^2 / v) / 2` for the variance `v = max(variance, eps)`, which broadcasts.
/// With `full`, `log(2 pi) / 2` is added.
pub fn gaussian_nll_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    targets: &B::Value,
    variance: &B::Value,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Result<B::Value> {
    const OP: &str = "gaussian_nll_loss";
    let (x, y, dtype) = pair(b, OP, x, targets)?;
    let variance = spread(b, OP, "the variance", variance, &x, dtype)?;
    // A quotient by -0 would be negative.
    let variance = abs(b, &maximum(b, &variance, &full_like(b, &variance, eps)?)?)?;
    let distance = div(b, &square(b, &sub(b, &x, &y)?)?, &variance)?;
    let mut losses = mul_scalar(b, &add(b, &log(b, &variance)?, &distance)?, 0.5)?;
    if full {
        losses = add_scalar(b, &losses, 0.5 * (2.0 * std::f64::consts::PI).ln())?;
    }
    reduction.finish(b, &losses, dtype)
}

/// The pinball loss `max(q (y - x), (q - 1) (y - x))` (Koenker and Bassett 1978): its minimum over `x` is the
/// `q`-quantile of `y`. `x` is `[.., levels]`, `quantiles [levels]`, and `targets` broadcast to `x`.
pub fn quantile_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    targets: &B::Value,
    quantiles: &B::Value,
    reduction: Reduction,
) -> Result<B::Value> {
    const OP: &str = "quantile_loss";
    let ([wide], dtype) = wide_floats(b, OP, [("the input", x)])?;
    let y = spread(b, OP, "the target", targets, &wide, dtype)?;
    let levels = spread(b, OP, "quantiles", quantiles, &wide, dtype)?;
    let above = sub(b, &y, &wide)?;
    let under = mul(b, &levels, &above)?;
    let over = mul(b, &sub_scalar(b, &levels, 1.0)?, &above)?;
    reduction.finish(b, &maximum(b, &under, &over)?, dtype)
}
