//! Losses. Each compares predictions with targets and reduces by [`Reduction`].

use super::{
    abs, cast, div, le_scalar, log1p, mean, mul, mul_scalar, ne_scalar, neg, relu, require_int, reshape_to,
    shape_of, square, sub, sub_scalar, sum, where_,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::layout::{ShowShape, numel};
use crate::prim::{Loss, Prim};

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
    fn apply<B: Builder>(self, b: &B, losses: &B::Value) -> Result<B::Value> {
        match self {
            Reduction::Mean => mean(b, losses, &[], false),
            Reduction::Sum => sum(b, losses, &[], false),
            Reduction::None => Ok(losses.clone()),
        }
    }
}

/// Cross-entropy of class `logits [.., classes]` against integer `targets [..]`, in the wide dtype. Targets
/// equal to `ignore` give loss 0 and do not count in the mean. A target out of range is an error when the
/// op runs.
pub fn cross_entropy<B: Builder>(
    b: &B,
    logits: &B::Value,
    targets: &B::Value,
    reduction: Reduction,
    ignore: Option<i64>,
) -> Result<B::Value> {
    let (sl, st) = (shape_of(b, logits), shape_of(b, targets));
    require_int("cross_entropy", "targets", b.ty(targets))?;
    let Some((&classes, rows)) = sl.split_last().filter(|(_, rows)| *rows == &st[..]) else {
        return Err(Error::shape(
            "cross_entropy",
            format!(
                "logits {} and targets {} do not fit; expected [.., classes] and [..]",
                ShowShape(&sl),
                ShowShape(&st)
            ),
        ));
    };
    // A target type that cannot hold the ignored value has no ignored target.
    let ignore = ignore.filter(|&ignore| b.ty(targets).dtype.holds(ignore));
    let count = numel(rows);
    let logits = reshape_to(b, logits, &[count, classes])?;
    let targets = reshape_to(b, targets, &[count])?;
    let outputs = b.apply(Prim::Loss(Loss::CrossEntropy { ignore }), &[logits, targets.clone()])?;
    let losses = &outputs[0];
    match (reduction, ignore) {
        (Reduction::Mean, Some(ignore)) => {
            let dtype = b.ty(losses).dtype;
            let counted = cast(b, &ne_scalar(b, &targets, ignore)?, dtype)?;
            div(b, &sum(b, losses, &[], false)?, &sum(b, &counted, &[], false)?)
        }
        (Reduction::None, _) => reshape_to(b, losses, &st),
        _ => reduction.apply(b, losses),
    }
}

/// `(x - y)^2`.
pub fn mse_loss<B: Builder>(b: &B, x: &B::Value, y: &B::Value, reduction: Reduction) -> Result<B::Value> {
    same_shape(b, "mse_loss", x, y)?;
    reduction.apply(b, &square(b, &sub(b, x, y)?)?)
}

/// `|x - y|`.
pub fn l1_loss<B: Builder>(b: &B, x: &B::Value, y: &B::Value, reduction: Reduction) -> Result<B::Value> {
    same_shape(b, "l1_loss", x, y)?;
    reduction.apply(b, &abs(b, &sub(b, x, y)?)?)
}

/// `d^2 / 2` for `d = |x - y| <= delta`, else `delta * (d - delta / 2)` (Huber 1964).
pub fn huber_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    delta: f64,
    reduction: Reduction,
) -> Result<B::Value> {
    same_shape(b, "huber_loss", x, y)?;
    let difference = sub(b, x, y)?;
    let distance = abs(b, &difference)?;
    let near = mul_scalar(b, &square(b, &difference)?, 0.5)?;
    let far = mul_scalar(b, &sub_scalar(b, &distance, 0.5 * delta)?, delta)?;
    reduction.apply(b, &where_(b, &le_scalar(b, &distance, delta)?, &near, &far)?)
}

/// Binary cross-entropy of `logits` against `targets` in `[0, 1]`, computed as
/// `max(x, 0) - x y + log(1 + e^-|x|)`.
pub fn binary_cross_entropy_with_logits<B: Builder>(
    b: &B,
    logits: &B::Value,
    targets: &B::Value,
    reduction: Reduction,
) -> Result<B::Value> {
    same_shape(b, "binary_cross_entropy_with_logits", logits, targets)?;
    let tail = log1p(b, &super::exp(b, &neg(b, &abs(b, logits)?)?)?)?;
    let linear = sub(b, &relu(b, logits)?, &mul(b, logits, targets)?)?;
    reduction.apply(b, &super::add(b, &linear, &tail)?)
}

fn same_shape<B: Builder>(b: &B, op: &str, x: &B::Value, y: &B::Value) -> Result<()> {
    crate::prim::expect_shape(op, "the target", b.ty(y), &b.ty(x).shape)
}
