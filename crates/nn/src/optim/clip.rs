//! Clipping of gradients.

use lanthorn_ir::{Builder, Error, Result, ops};
use serde::{Deserialize, Serialize};

use crate::params::Params;

/// What becomes of large gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clip {
    /// All are scaled so that their joint norm is at most this (Pascanu, Mikolov and Bengio 2013).
    Norm(f64),
    /// Each element is held between minus this and this.
    Value(f64),
}

impl Clip {
    /// The gradients clipped; `norm` is their joint norm.
    pub(super) fn apply<B: Builder>(
        self,
        b: &B,
        grads: &Params<B::Value>,
        norm: &B::Value,
    ) -> Result<Params<B::Value>> {
        match self {
            Clip::Value(limit) => {
                grads.try_map(|_, grad| ops::clamp(b, grad, Some((-limit).into()), Some(limit.into())))
            }
            Clip::Norm(limit) => {
                // A norm below the limit divides by the limit: a factor of exactly 1, also for gradients of 0.
                let divisor = ops::maximum_scalar(b, norm, limit)?;
                let factor = ops::div(b, &ops::full_like(b, norm, limit)?, &divisor)?;
                grads.try_map(|_, grad| ops::mul(b, grad, &ops::cast(b, &factor, b.ty(grad).dtype)?))
            }
        }
    }
}

/// The Euclidean norm of all gradients laid end to end, of rank 0, in the wide dtype.
///
/// Errors: there are no gradients.
pub fn global_norm<B: Builder>(b: &B, grads: &Params<B::Value>) -> Result<B::Value> {
    let mut total: Option<B::Value> = None;
    for grad in grads.values() {
        let wide = ops::cast(b, grad, b.ty(grad).dtype.wide())?;
        let sum = ops::sum(b, &ops::square(b, &wide)?, &[], false)?;
        total = Some(match total {
            Some(total) => ops::add(b, &total, &sum)?,
            None => sum,
        });
    }
    let total = total.ok_or_else(|| Error::shape("global_norm", "there are no gradients"))?;
    ops::sqrt(b, &total)
}
