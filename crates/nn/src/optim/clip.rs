//! Clipping of gradients.

use lanthorn_ir::{Builder, Result, ops};
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
                let values: Vec<B::Value> = grads.values().cloned().collect();
                grads.with_values(ops::clip_by_norm(b, norm, &values, limit)?)
            }
        }
    }
}

/// The Euclidean norm of all gradients laid end to end, of rank 0, in the wide dtype.
///
/// Errors: there are no gradients.
pub fn global_norm<B: Builder>(b: &B, grads: &Params<B::Value>) -> Result<B::Value> {
    let values: Vec<B::Value> = grads.values().cloned().collect();
    ops::global_norm(b, &values)
}
