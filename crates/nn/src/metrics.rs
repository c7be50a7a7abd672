//! Numbers about models, and numbers against which a loss can be read.

use std::collections::HashMap;

use lanthorn_ir::{Builder, DType, Error, Result, ops};
use serde::{Deserialize, Serialize};

use crate::model::IGNORE;

/// What an evaluation measures besides the loss, over all its batches at once.
///
/// Classes are integer targets `[..]` of outputs `[.., classes]`; targets of [`IGNORE`] do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The share of targets that are the class with the largest output.
    Accuracy,
    /// The share of targets among the classes with so many largest outputs.
    TopK(usize),
    /// The share of targets of 0 and 1 that lie on the output's side of 0, where outputs are logits of the targets'
    /// shape.
    BinaryAccuracy,
    /// Of what was found to be a class, the share that is, in the mean over so many classes; a class that was never
    /// found counts as 0.
    Precision(usize),
    /// Of what is of a class, the share that was found, in the mean over so many classes; a class without examples
    /// counts as 0.
    Recall(usize),
    /// The harmonic mean of both for each class, in the mean over so many classes.
    F1(usize),
    /// Of outputs of the targets' shape.
    MeanSquaredError,
    MeanAbsoluteError,
    /// 1 minus the mean squared error over the variance of the targets.
    R2,
}

impl Metric {
    /// The sums of one batch, a vector that is added up over batches.
    pub(crate) fn sums<B: Builder>(&self, b: &B, output: &B::Value, targets: &B::Value) -> Result<B::Value> {
        let wide = b.ty(output).dtype.wide();
        let number = |x: &B::Value| ops::sum(b, &ops::cast(b, x, wide)?, &[], false);
        match *self {
            Metric::Accuracy => {
                let (targets, counts) = classes(b, output, targets)?;
                let right = ops::eq(b, &largest(b, output)?, &targets)?;
                let right = ops::logical_and(b, &right, &counts)?;
                ops::stack(b, &[number(&right)?, number(&counts)?], 0)
            }
            Metric::TopK(k) => {
                let (targets, counts) = classes(b, output, targets)?;
                let found = ops::topk(b, output, k, -1, true, true)?;
                let missing = || Error::unsupported("top_k", "gave no indices");
                let found = ops::cast(b, found.get(1).ok_or_else(missing)?, DType::I32)?;
                let hits = ops::eq(b, &found, &ops::unsqueeze(b, &targets, -1)?)?;
                let right = ops::logical_and(b, &ops::any(b, &hits, &[-1], false)?, &counts)?;
                ops::stack(b, &[number(&right)?, number(&counts)?], 0)
            }
            Metric::BinaryAccuracy => {
                check_shapes(&b.ty(output).shape, &b.ty(targets).shape)?;
                let found = ops::gt_scalar(b, output, 0.0)?;
                let expected = match b.ty(targets).dtype {
                    DType::Bool => targets.clone(),
                    dtype if dtype.is_float() => ops::gt_scalar(b, targets, 0.5)?,
                    _ => ops::ne_scalar(b, targets, 0i64)?,
                };
                let right = ops::eq(b, &found, &expected)?;
                let count = ops::scalar(b, b.ty(&right).numel() as f64, wide)?;
                ops::stack(b, &[number(&right)?, count], 0)
            }
            Metric::Precision(count) | Metric::Recall(count) | Metric::F1(count) => {
                let (targets, counts) = classes(b, output, targets)?;
                let counts = ops::unsqueeze(b, &ops::cast(b, &counts, wide)?, -1)?;
                let found = ops::one_hot(b, &largest(b, output)?, count, wide)?;
                let found = ops::mul(b, &found, &counts)?;
                let actual = ops::mul(b, &ops::one_hot(b, &targets, count, wide)?, &counts)?;
                let per_class = |x: &B::Value| {
                    let rows = ops::reshape(b, x, &[-1, count as isize])?;
                    ops::sum(b, &rows, &[0], false)
                };
                let right = per_class(&ops::mul(b, &found, &actual)?)?;
                ops::concat(b, &[right, per_class(&found)?, per_class(&actual)?], 0)
            }
            Metric::MeanSquaredError | Metric::MeanAbsoluteError | Metric::R2 => {
                check_shapes(&b.ty(output).shape, &b.ty(targets).shape)?;
                let (x, y) = (ops::cast(b, output, wide)?, ops::cast(b, targets, wide)?);
                let error = ops::sub(b, &x, &y)?;
                let errors = match self {
                    Metric::MeanAbsoluteError => number(&ops::abs(b, &error)?)?,
                    _ => number(&ops::square(b, &error)?)?,
                };
                let count = ops::scalar(b, b.ty(&y).numel() as f64, wide)?;
                ops::stack(b, &[errors, count, number(&y)?, number(&ops::square(b, &y)?)?], 0)
            }
        }
    }

    /// The metric of the sums of all batches.
    pub(crate) fn finish(&self, sums: &[f64]) -> f64 {
        let share = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        match (*self, sums) {
            (Metric::Precision(count) | Metric::Recall(count) | Metric::F1(count), sums) => {
                let of = |group: usize, class: usize| sums.get(group * count + class).copied().unwrap_or(0.0);
                let class = |class: usize| {
                    let (right, found, actual) = (of(0, class), of(1, class), of(2, class));
                    match self {
                        Metric::Precision(_) => share(right, found),
                        Metric::Recall(_) => share(right, actual),
                        _ => share(2.0 * right, found + actual),
                    }
                };
                (0..count).map(class).sum::<f64>() / count as f64
            }
            (Metric::R2, &[errors, count, sum, squares]) => 1.0 - errors / (squares - sum * sum / count),
            (_, &[part, whole, ..]) => part / whole,
            _ => f64::NAN,
        }
    }

    /// True if more is better.
    pub fn improves_upwards(&self) -> bool {
        !matches!(self, Metric::MeanSquaredError | Metric::MeanAbsoluteError)
    }
}

/// The class with the largest output, the first of several, in an integer that every device has; one beyond the last
/// where an output is NaN.
fn largest<B: Builder>(b: &B, output: &B::Value) -> Result<B::Value> {
    let Some(&count) = b.ty(output).shape.last() else {
        return Err(Error::shape("metric", "the output is a single number, expected [.., classes]"));
    };
    let most = ops::max(b, output, &[-1], true)?;
    let places = ops::iota(b, count, DType::I32)?;
    let beyond = ops::scalar(b, count as i64, DType::I32)?;
    let places = ops::where_(b, &ops::eq(b, output, &most)?, &places, &beyond)?;
    ops::min(b, &places, &[-1], false)
}

/// Targets `[..]` of an output `[.., classes]` as `i32`, and which of them count.
fn classes<B: Builder>(b: &B, output: &B::Value, targets: &B::Value) -> Result<(B::Value, B::Value)> {
    if !b.ty(targets).dtype.is_int() {
        let message = format!("the targets are {}, expected integers", b.ty(targets));
        return Err(Error::dtype("metric", message));
    }
    let shape = &b.ty(output).shape;
    check_shapes(shape.split_last().map_or(&[], |(_, rows)| rows), &b.ty(targets).shape)?;
    let targets = ops::cast(b, targets, DType::I32)?;
    let counts = ops::ne_scalar(b, &targets, IGNORE)?;
    Ok((targets, counts))
}

fn check_shapes(output: &[usize], targets: &[usize]) -> Result<()> {
    if output == targets {
        return Ok(());
    }
    let message = format!("the targets are of shape {targets:?}, expected {output:?} by the output");
    Err(Error::shape("metric", message))
}

/// The entropy (nats) of the frequencies of the tokens: the loss of a model that knows how often each token occurs
/// and nothing of their order. 0 for an empty stream.
pub fn unigram_entropy(tokens: &[u32]) -> f64 {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for &token in tokens {
        *counts.entry(token).or_default() += 1;
    }
    let total = tokens.len() as f64;
    // In a fixed order, so that the sum rounds alike each time.
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable();
    counts.into_iter().map(|count| -(count as f64 / total) * libm::log(count as f64 / total)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_of_known_frequencies() {
        assert_eq!(unigram_entropy(&[]), 0.0);
        assert_eq!(unigram_entropy(&[7; 5]), 0.0);
        assert!((unigram_entropy(&[0, 1, 2, 3]) - 4f64.ln()).abs() < 1e-15);
        let skewed = -(0.75 * 0.75f64.ln() + 0.25 * 0.25f64.ln());
        assert!((unigram_entropy(&[1, 1, 9, 1]) - skewed).abs() < 1e-15);
    }
}
