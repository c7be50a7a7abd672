//! Cross-entropy of logits against class targets, and its backward, which may overwrite the logits.

use std::ops::Range;

use lanthorn_error::Result;

use super::element::Element;
use super::indices::Indices;
use super::operands::{Cpu, Rows, RowsMut, Shared};
use super::pass::{Span, for_each_vector, largest, sum_of_exp};
use super::wide::{Vector, Wide};
use crate::simd::{Simd, SimdOp};

/// `lse = log(sum(exp(logits)))` and `loss = lse - logits[target]`, 0 for the target `ignore`; all `[rows]`.
///
/// # Errors
/// A target that is neither a class nor `ignore`; nothing is written then.
pub fn cross_entropy<E: Element>(
    cpu: Cpu,
    logits: Rows<'_, E>,
    targets: Indices<'_>,
    ignore: Option<i64>,
    loss: &mut [E::Wide],
    lse: &mut [E::Wide],
) -> Result<()> {
    let [rows, classes] = logits.shape();
    assert_eq!([targets.len(), loss.len(), lse.len()], [rows; 3], "cross_entropy: targets, loss and lse");
    targets.check("cross_entropy", "target", classes, ignore)?;
    let (loss, lse) = (Shared::new(loss), Shared::new(lse));
    cpu.run_rows(rows, classes, |rows| CrossEntropy { logits, targets, ignore, loss, lse, rows });
    Ok(())
}

/// The class of a row, `None` for an ignored one. The target was checked before.
#[inline(always)]
fn class(targets: &Indices<'_>, ignore: Option<i64>, row: usize) -> Option<usize> {
    let target = targets.value(row);
    if ignore.is_some_and(|ignore| i128::from(ignore) == target) { None } else { Some(target as usize) }
}

struct CrossEntropy<'a, E: Element> {
    logits: Rows<'a, E>,
    targets: Indices<'a>,
    ignore: Option<i64>,
    loss: Shared<'a, E::Wide>,
    lse: Shared<'a, E::Wide>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for CrossEntropy<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let classes = self.logits.width();
        for row in self.rows {
            let logits = self.logits.row(row);
            // SAFETY: the row holds `classes` elements, of which the checked target is one; loss and lse of
            // a row belong to its task.
            unsafe {
                let lse = log_sum_exp::<E, S>(logits, classes);
                self.lse.at(row).write(lse);
                let loss = match class(&self.targets, self.ignore, row) {
                    Some(class) => lse - logits.add(class).read().to_wide(),
                    None => E::Wide::ZERO,
                };
                self.loss.at(row).write(loss);
            }
        }
    }
}

/// `log(sum(exp(row)))`: -inf for a row of -inf or an empty one, +inf for one with +inf, NaN for one with NaN.
///
/// # Safety
/// `width` elements at `row` are readable.
#[inline(always)]
unsafe fn log_sum_exp<E: Element, S: Simd>(row: *const E, width: usize) -> E::Wide {
    // SAFETY: the caller's promise.
    unsafe {
        let max = largest::<E, S>(row, width);
        if max.to_f64() == f64::INFINITY {
            // Adding keeps infinity and brings NaN in.
            let values = (0..width).map(|at| row.add(at).read().to_wide());
            return values.fold(max, |sum, x| if x < max { sum } else { sum + x });
        }
        // Where nothing is finite, subtracting the maximum would give NaN.
        let shift = if max == E::Wide::NEG_INFINITY { E::Wide::ZERO } else { max };
        shift + sum_of_exp::<E, S>(row, width, shift).ln()
    }
}

/// `dlogits = (exp(logits - lse) - onehot(target)) * dloss`, 0 for ignored rows.
///
/// # Errors
/// A target that is neither a class nor `ignore`; nothing is written then.
pub fn cross_entropy_grad<E: Element>(
    cpu: Cpu,
    logits: Rows<'_, E>,
    targets: Indices<'_>,
    ignore: Option<i64>,
    lse: &[E::Wide],
    dloss: &[E::Wide],
    dlogits: RowsMut<'_, E>,
) -> Result<()> {
    let [rows, classes] = logits.shape();
    assert_eq!(dlogits.shape(), [rows, classes], "cross_entropy_grad: logits and dlogits");
    assert_eq!([targets.len(), lse.len(), dloss.len()], [rows; 3], "cross_entropy_grad: targets, lse, dloss");
    targets.check("cross_entropy_grad", "target", classes, ignore)?;
    cpu.run_rows(rows, classes, |rows| CrossEntropyGrad {
        logits,
        targets,
        ignore,
        lse,
        dloss,
        dlogits: &dlogits,
        rows,
    });
    Ok(())
}

struct CrossEntropyGrad<'a, E: Element> {
    logits: Rows<'a, E>,
    targets: Indices<'a>,
    ignore: Option<i64>,
    lse: &'a [E::Wide],
    dloss: &'a [E::Wide],
    dlogits: &'a RowsMut<'a, E>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for CrossEntropyGrad<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let classes = self.logits.width();
        for row in self.rows {
            let (logits, dlogits) = (self.logits.row(row), self.dlogits.row(row));
            let (lse, dloss) = (self.lse[row], self.dloss[row]);
            // SAFETY: both rows hold `classes` elements, of which the checked target is one, and every span
            // lies inside; an element is read before it is written.
            unsafe {
                let Some(class) = class(&self.targets, self.ignore, row) else {
                    for_each_vector!(E::Wide, S, classes, |at, k, span| {
                        span.store::<E, S>(dlogits.add(at), Vector::zero());
                    });
                    continue;
                };
                let target = logits.add(class).read().to_wide();
                let (shift, factor) = (Vector::<E::Wide, S>::splat(lse), Vector::splat(dloss));
                for_each_vector!(E::Wide, S, classes, |at, k, span| {
                    let logits = span.load::<E, S>(logits.add(at));
                    span.store::<E, S>(dlogits.add(at), (logits - shift).exp_to_zero() * factor);
                });
                dlogits.add(class).write(E::from_wide(((target - lse).exp() - E::Wide::ONE) * dloss));
            }
        }
    }
}
