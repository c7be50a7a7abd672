//! What training makes small, as a setting.

use lanthorn_ir::ops::{self, Reduction};
use lanthorn_ir::{Builder, DType, Result};
use serde::{Deserialize, Serialize};

use crate::model::IGNORE;

/// A loss of a model's output against targets. The ops of the same names say what each computes and takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// The model's own ([`Model::loss`](crate::Model::loss)): the cross-entropy of logits, unless it says otherwise.
    #[default]
    Model,
    /// `(x - y)^2`.
    Mse,
    /// `|x - y|`.
    L1,
    Huber {
        delta: f64,
    },
    SmoothL1 {
        beta: f64,
    },
    /// Of probabilities.
    BinaryCrossEntropy,
    BinaryCrossEntropyWithLogits,
    /// Of logits with their classes along `axis` against classes or probabilities. Targets of
    /// [`IGNORE`] do not count.
    CrossEntropy {
        label_smoothing: f64,
        axis: isize,
    },
    /// Of log-probabilities with their classes along `axis`.
    Nll {
        axis: isize,
    },
    /// Of log-probabilities against probabilities, or against log-probabilities.
    KlDiv {
        log_target: bool,
    },
    /// Of scores against -1 and 1.
    Hinge,
    SoftMargin,
    /// Of logarithms of rates, or of rates, against counts.
    PoissonNll {
        log_input: bool,
    },
}

impl Loss {
    /// The cross-entropy of logits `[.., classes]` against classes `[..]`.
    pub fn cross_entropy() -> Loss {
        Loss::CrossEntropy { label_smoothing: 0.0, axis: -1 }
    }

    /// The loss. [`Loss::Model`] needs more than the output; here it is the cross-entropy.
    pub fn of<B: Builder>(
        &self,
        b: &B,
        output: &B::Value,
        targets: &B::Value,
        reduction: Reduction,
    ) -> Result<B::Value> {
        let ignore = (!b.ty(targets).dtype.is_float()).then_some(IGNORE);
        match *self {
            Loss::Model => Loss::cross_entropy().of(b, output, targets, reduction),
            Loss::Mse => ops::mse_loss(b, output, targets, reduction),
            Loss::L1 => ops::l1_loss(b, output, targets, reduction),
            Loss::Huber { delta } => ops::huber_loss(b, output, targets, delta, reduction),
            Loss::SmoothL1 { beta } => ops::smooth_l1_loss(b, output, targets, beta, reduction),
            Loss::BinaryCrossEntropy => ops::binary_cross_entropy(b, output, targets, None, reduction),
            Loss::BinaryCrossEntropyWithLogits => {
                ops::binary_cross_entropy_with_logits(b, output, targets, reduction, None, None)
            }
            Loss::CrossEntropy { label_smoothing, axis } => {
                ops::cross_entropy(b, output, targets, reduction, ignore, None, label_smoothing, axis)
            }
            Loss::Nll { axis } => ops::nll_loss(b, output, targets, reduction, ignore, None, axis),
            Loss::KlDiv { log_target } => ops::kl_div(b, output, targets, reduction, log_target),
            Loss::Hinge => ops::hinge_loss(b, output, targets, reduction),
            Loss::SoftMargin => ops::soft_margin_loss(b, output, targets, reduction),
            Loss::PoissonNll { log_input } => {
                ops::poisson_nll_loss(b, output, targets, log_input, false, 1e-8, reduction)
            }
        }
    }

    /// How many terms a sum of the loss has, of rank 0 in f32, which every device has: targets that count, or elements.
    pub(crate) fn terms<B: Builder>(
        &self,
        b: &B,
        targets: &B::Value,
        classes: Option<usize>,
    ) -> Result<B::Value> {
        let ty = b.ty(targets);
        let is_of_classes = matches!(self, Loss::Model | Loss::CrossEntropy { .. } | Loss::Nll { .. });
        if ty.dtype.is_int() && is_of_classes && ty.dtype.holds(IGNORE) {
            let counted = ops::cast(b, &ops::ne_scalar(b, targets, IGNORE)?, DType::F32)?;
            return ops::sum(b, &counted, &[], false);
        }
        let mut count = ty.numel();
        if let (Loss::CrossEntropy { .. }, true, Some(classes)) = (self, ty.dtype.is_float(), classes) {
            count /= classes.max(1);
        }
        ops::scalar(b, count as f64, DType::F32)
    }
}
