//! Losses of scores over classes, and of distributions.

use super::loss::{Reduction, wide_floats};
use super::{
    add, add_scalar, cast, div, eq_scalar, exp, gather, index_select, log_sigmoid, log_softmax, logical_and,
    move_axis, mul, mul_scalar, neg, require_int, reshape_to, rsub_scalar, scalar, squeeze, sub, sum,
    unsqueeze, where_, xlogy,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, numel, resolve_axis};
use crate::prim::{Loss, Prim, expect_float, expect_same_dtype, expect_shape};

/// Scores with their classes on the last axis, and what else a loss over classes is made of.
struct Classes<V> {
    /// `[.., classes]`.
    scores: V,
    classes: usize,
    /// The shape of the scores in the caller's order of axes, and that without the classes.
    shape: Dims,
    rows: Dims,
    /// `[classes]`, in the wide type.
    weight: Option<V>,
}

impl<V: Clone> Classes<V> {
    fn of<B: Builder<Value = V>>(
        b: &B,
        op: &str,
        scores: &V,
        axis: isize,
        weight: Option<&V>,
    ) -> Result<Classes<V>> {
        let ty = b.ty(scores).clone();
        expect_float(op, "the input", &ty)?;
        let place = resolve_axis(op, axis, ty.rank())?;
        let mut rows = ty.shape.clone();
        let classes = rows.remove(place);
        let scores = if place + 1 == ty.rank() { scores.clone() } else { move_axis(b, scores, axis, -1)? };
        let weight = match weight {
            Some(weight) => {
                expect_same_dtype(op, &ty, "weight", b.ty(weight))?;
                expect_shape(op, "weight", b.ty(weight), &[classes])?;
                Some(cast(b, weight, ty.dtype.wide())?)
            }
            None => None,
        };
        Ok(Classes { scores, classes, shape: ty.shape, rows, weight })
    }

    /// Checks integer targets against the rows.
    fn expect_targets<B: Builder<Value = V>>(&self, b: &B, op: &str, targets: &V) -> Result<()> {
        require_int(op, "targets", b.ty(targets))?;
        if b.ty(targets).shape == self.rows {
            if self.classes == 0 && numel(&self.rows) > 0 {
                return Err(Error::shape(
                    op,
                    format!("logits {} have no classes, expected at least one", ShowShape(&self.shape)),
                ));
            }
            return Ok(());
        }
        Err(Error::shape(
            op,
            format!(
                "logits {} and targets {} do not fit; expected [.., classes] and [..]",
                ShowShape(&self.shape),
                ShowShape(&b.ty(targets).shape)
            ),
        ))
    }

    /// What the losses of the elements are divided by in the mean: the weights of the targets that count. `None` where
    /// all count alike.
    fn counted<B: Builder<Value = V>>(&self, b: &B, targets: &Targets<V>) -> Result<Option<V>> {
        let wide = b.ty(&self.scores).dtype.wide();
        let weights = match &self.weight {
            Some(weight) => Some(index_select(b, weight, 0, &targets.safe)?),
            None => None,
        };
        let Some(ignored) = &targets.ignored else { return Ok(weights) };
        let weights = match weights {
            Some(weights) => weights,
            None => scalar(b, 1.0, wide)?,
        };
        Ok(Some(where_(b, ignored, &scalar(b, 0.0, wide)?, &weights)?))
    }
}

/// Integer targets in one row.
struct Targets<V> {
    /// `[rows]`.
    given: V,
    /// The same with 0 in place of ignored ones.
    safe: V,
    ignored: Option<V>,
    ignore: Option<i64>,
}

impl<V: Clone> Targets<V> {
    fn of<B: Builder<Value = V>>(b: &B, targets: &V, ignore: Option<i64>) -> Result<Targets<V>> {
        let ty = b.ty(targets).clone();
        let flat = reshape_to(b, targets, &[numel(&ty.shape)])?;
        // A type that cannot hold the ignored value has no ignored target.
        let ignore = ignore.filter(|&ignore| ty.dtype.holds(ignore));
        let Some(value) = ignore else {
            return Ok(Targets { safe: flat.clone(), given: flat, ignored: None, ignore });
        };
        let ignored = eq_scalar(b, &flat, value)?;
        let safe = where_(b, &ignored, &scalar(b, 0i64, ty.dtype)?, &flat)?;
        Ok(Targets { given: flat, safe, ignored: Some(ignored), ignore })
    }

    /// Losses of rows, 0 where the target is ignored.
    fn mask<B: Builder<Value = V>>(&self, b: &B, losses: &V) -> Result<V> {
        match &self.ignored {
            Some(ignored) => where_(b, ignored, &scalar(b, 0.0, b.ty(losses).dtype)?, losses),
            None => Ok(losses.clone()),
        }
    }
}

/// The reduction of the losses `[rows]` with weights as their divisor.
fn reduce<B: Builder>(
    b: &B,
    reduction: Reduction,
    losses: &B::Value,
    counted: impl FnOnce() -> Result<Option<B::Value>>,
    rows: &[usize],
) -> Result<B::Value> {
    match reduction {
        Reduction::Mean => match counted()? {
            Some(counted) => div(b, &sum(b, losses, &[], false)?, &sum(b, &counted, &[], false)?),
            None => reduction.apply(b, losses),
        },
        Reduction::Sum => reduction.apply(b, losses),
        Reduction::None => reshape_to(b, losses, rows),
    }
}

/// Cross-entropy of class `logits` against `targets`, in the wide dtype. The classes lie along `axis`: the last by
/// default, 1 for torch's `[batch, classes, ..]`.
///
/// Integer targets have the shape of the logits without that axis. Targets equal to `ignore` give loss 0 and do not
/// count in the mean; a target out of range is an error when the op runs. Float targets are probabilities of the
/// shape and dtype of the logits. `weight [classes]` multiplies the terms of each class; the mean of integer targets
/// divides by the weights of the targets. `label_smoothing` mixes the targets with the uniform distribution (Szegedy
/// et al. 2016).
pub fn cross_entropy<B: Builder>(
    b: &B,
    logits: &B::Value,
    targets: &B::Value,
    reduction: Reduction,
    ignore: Option<i64>,
    weight: Option<&B::Value>,
    label_smoothing: f64,
    axis: isize,
) -> Result<B::Value> {
    const OP: &str = "cross_entropy";
    if !(0.0..=1.0).contains(&label_smoothing) {
        return Err(Error::unsupported(OP, format!("label_smoothing is {label_smoothing}, expected 0 to 1")));
    }
    let of = Classes::of(b, OP, logits, axis, weight)?;
    if b.ty(targets).dtype.is_float() {
        return of_probabilities(b, logits, &of, targets, reduction, ignore, label_smoothing, axis);
    }
    of.expect_targets(b, OP, targets)?;
    let targets = Targets::of(b, targets, ignore)?;
    let count = numel(&of.rows);
    let logits = reshape_to(b, &of.scores, &[count, of.classes])?;
    let outputs = b.apply(
        Prim::Loss(Loss::CrossEntropy { ignore: targets.ignore }),
        &[logits.clone(), targets.given.clone()],
    )?;
    let (mut losses, lse) = (outputs[0].clone(), &outputs[1]);
    if let Some(weight) = &of.weight {
        losses = mul(b, &losses, &index_select(b, weight, 0, &targets.safe)?)?;
    }
    if label_smoothing > 0.0 {
        let wide = cast(b, &logits, b.ty(lse).dtype)?;
        let mut log_probabilities = sub(b, &wide, &unsqueeze(b, lse, -1)?)?;
        if let Some(weight) = &of.weight {
            log_probabilities = mul(b, &log_probabilities, weight)?;
        }
        let uniform = targets.mask(b, &sum(b, &log_probabilities, &[-1], false)?)?;
        let uniform = mul_scalar(b, &uniform, -label_smoothing / of.classes as f64)?;
        losses = add(b, &mul_scalar(b, &losses, 1.0 - label_smoothing)?, &uniform)?;
    }
    reduce(b, reduction, &losses, || of.counted(b, &targets), &of.rows)
}

/// Cross-entropy against probabilities `[.., classes]`.
fn of_probabilities<B: Builder>(
    b: &B,
    logits: &B::Value,
    of: &Classes<B::Value>,
    targets: &B::Value,
    reduction: Reduction,
    ignore: Option<i64>,
    label_smoothing: f64,
    axis: isize,
) -> Result<B::Value> {
    const OP: &str = "cross_entropy";
    expect_same_dtype(OP, b.ty(logits), "targets", b.ty(targets))?;
    expect_shape(OP, "targets (probabilities)", b.ty(targets), &b.ty(logits).shape)?;
    if ignore.is_some() {
        return Err(Error::unsupported(OP, "ignore is of integer targets; these are probabilities"));
    }
    let wide = b.ty(logits).dtype.wide();
    let mut probabilities = cast(b, &move_axis(b, targets, axis, -1)?, wide)?;
    if label_smoothing > 0.0 {
        let kept = mul_scalar(b, &probabilities, 1.0 - label_smoothing)?;
        probabilities = add_scalar(b, &kept, label_smoothing / of.classes as f64)?;
    }
    let scores = log_softmax(b, &cast(b, &of.scores, wide)?, -1)?;
    // A class of score minus infinity that the target excludes too costs nothing.
    let excluded =
        logical_and(b, &eq_scalar(b, &scores, f64::NEG_INFINITY)?, &eq_scalar(b, &probabilities, 0.0)?)?;
    let scores = where_(b, &excluded, &scalar(b, 0.0, wide)?, &scores)?;
    let mut terms = mul(b, &scores, &probabilities)?;
    if let Some(weight) = &of.weight {
        terms = mul(b, &terms, weight)?;
    }
    let losses = neg(b, &sum(b, &terms, &[-1], false)?)?;
    reduction.apply(b, &losses)
}

/// The negative log-likelihood `-weight[target] * x[target]` of log-probabilities `x` with their classes along `axis`:
/// the last by default, 1 for torch's `[batch, classes, ..]`. Targets, `ignore`, `weight` and the mean are those of
/// [`cross_entropy`].
pub fn nll_loss<B: Builder>(
    b: &B,
    x: &B::Value,
    targets: &B::Value,
    reduction: Reduction,
    ignore: Option<i64>,
    weight: Option<&B::Value>,
    axis: isize,
) -> Result<B::Value> {
    const OP: &str = "nll_loss";
    let of = Classes::of(b, OP, x, axis, weight)?;
    of.expect_targets(b, OP, targets)?;
    let targets = Targets::of(b, targets, ignore)?;
    let (dtype, count) = (b.ty(x).dtype, numel(&of.rows));
    let rows = reshape_to(b, &of.scores, &[count, of.classes])?;
    let picked = gather(b, &rows, -1, &unsqueeze(b, &targets.safe, -1)?)?;
    let picked = cast(b, &squeeze(b, &picked, &[-1])?, dtype.wide())?;
    let mut losses = targets.mask(b, &neg(b, &picked)?)?;
    if let Some(weight) = &of.weight {
        losses = mul(b, &losses, &index_select(b, weight, 0, &targets.safe)?)?;
    }
    cast(b, &reduce(b, reduction, &losses, || of.counted(b, &targets), &of.rows)?, dtype)
}

/// The Kullback-Leibler divergence's terms `y (log(y) - x)` of log-probabilities `x` against probabilities
/// `targets`, or against log-probabilities with `log_target`. The mean is over elements; torch's `batchmean` is the
/// sum over the batch size.
pub fn kl_div<B: Builder>(
    b: &B,
    x: &B::Value,
    targets: &B::Value,
    reduction: Reduction,
    log_target: bool,
) -> Result<B::Value> {
    const OP: &str = "kl_div";
    expect_shape(OP, "the target", b.ty(targets), &b.ty(x).shape)?;
    let ([x, y], dtype) = wide_floats(b, OP, [("the input", x), ("the target", targets)])?;
    let losses = if log_target {
        mul(b, &exp(b, &y)?, &sub(b, &y, &x)?)?
    } else {
        sub(b, &xlogy(b, &y, &y)?, &mul(b, &y, &x)?)?
    };
    reduction.finish(b, &losses, dtype)
}

/// The binary cross-entropy of `logits [.., classes]` against `targets` of 0 and 1, in the mean over the classes and
/// times `weight [classes]`: losses `[..]`.
pub fn multilabel_soft_margin_loss<B: Builder>(
    b: &B,
    logits: &B::Value,
    targets: &B::Value,
    weight: Option<&B::Value>,
    reduction: Reduction,
) -> Result<B::Value> {
    const OP: &str = "multilabel_soft_margin_loss";
    expect_shape(OP, "the target", b.ty(targets), &b.ty(logits).shape)?;
    let of = Classes::of(b, OP, logits, -1, weight)?;
    let ([x, y], dtype) = wide_floats(b, OP, [("the input", logits), ("the target", targets)])?;
    let hit = mul(b, &y, &log_sigmoid(b, &x)?)?;
    let miss = mul(b, &rsub_scalar(b, &y, 1.0)?, &log_sigmoid(b, &neg(b, &x)?)?)?;
    let mut terms = add(b, &hit, &miss)?;
    if let Some(weight) = &of.weight {
        terms = mul(b, &terms, weight)?;
    }
    let losses = neg(b, &super::mean(b, &terms, &[-1], false)?)?;
    reduction.finish(b, &losses, dtype)
}
