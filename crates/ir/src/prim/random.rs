//! Random values from a counter (Philox 4x32-10): the same seed and draw give the same bits anywhere.
//!
//! The operand is `key: u64[2]`, holding seed and draw number, an argument rather than structure. Several
//! random nodes of one graph tell themselves apart by `stream`. Element `i` takes word `i % 4` of the
//! Philox block with counter `(i / 4 as u64, draw as u64)` split into 32-bit words low first, and key
//! `seed + stream * 0x9E3779B97F4A7C15` (wrapping).

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, TensorType};

/// Random sources; all f32.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Random {
    /// Uniform in `[0, 1)`: the top 24 bits of the word times 2^-24.
    Uniform { shape: Dims, stream: u64 },
    /// Standard normal by Box-Muller on words `(0, 1)` and `(2, 3)` of a block:
    /// `sqrt(-2 ln(1 - u0)) * {cos, sin}(2 pi u1)`.
    Normal { shape: Dims, stream: u64 },
}

impl Rules for Random {
    fn name(&self) -> &'static str {
        match self {
            Random::Uniform { .. } => "uniform",
            Random::Normal { .. } => "normal",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        expect_arity(self.name(), inputs, 1)?;
        if *inputs[0] != TensorType::new(DType::U64, [2]) {
            return Err(Error::shape(self.name(), format!("the key is {}, expected u64[2]", inputs[0])));
        }
        let (Random::Uniform { shape, .. } | Random::Normal { shape, .. }) = self;
        Ok(smallvec![TensorType { dtype: DType::F32, shape: shape.clone() }])
    }

    fn vjp<B: Builder>(
        &self,
        _: &B,
        at: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Ok(at.no_cotangents())
    }

    fn jvp<B: Builder>(
        &self,
        _: &B,
        _: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Ok(vec![None])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        // A key that is not mapped gives every element the same values; see `Prim::batch`.
        derived::batch_unrolled(b, &Prim::Random(self.clone()), size, inputs)
    }

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
