//! In which dtype a model computes, and in which it is kept.

use lanthorn_ir::{Builder, DType, Result, ops};
use serde::{Deserialize, Serialize};

/// The dtypes of a training run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    #[default]
    F32,
    F64,
    /// Parameters, optimiser, averages and the model's state in f32; forward and backward in bf16, whose kernels
    /// accumulate in f32; the loss in f32 (Micikevicius et al. 2018, without a scale, which bf16 does not need).
    MixedBf16,
}

impl Precision {
    /// The dtype in which parameters, optimiser state and the model's state are kept.
    pub fn kept(self) -> DType {
        match self {
            Precision::F32 | Precision::MixedBf16 => DType::F32,
            Precision::F64 => DType::F64,
        }
    }

    /// The dtype in which the model computes.
    pub fn computed(self) -> DType {
        match self {
            Precision::F32 => DType::F32,
            Precision::F64 => DType::F64,
            Precision::MixedBf16 => DType::BF16,
        }
    }

    /// Floats in the dtype in which the model computes; anything else as it is.
    pub(crate) fn narrow<B: Builder>(self, b: &B, x: &B::Value) -> Result<B::Value> {
        if b.ty(x).dtype.is_float() { ops::cast(b, x, self.computed()) } else { Ok(x.clone()) }
    }

    /// Floats in the dtype in which the model is kept; anything else as it is.
    pub(crate) fn widen<B: Builder>(self, b: &B, x: &B::Value) -> Result<B::Value> {
        if b.ty(x).dtype.is_float() { ops::cast(b, x, self.kept()) } else { Ok(x.clone()) }
    }
}
