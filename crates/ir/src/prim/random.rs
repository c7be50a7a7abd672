//! Random values from a counter (Philox 4x32-10): the same seed and draw give the same bits anywhere.
//!
//! The operand is `key: u64[.., 2]`, holding seed and draw number, an argument rather than structure; leading axes are
//! keys side by side, each with values of its own. Several
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
use crate::layout::{Dims, TensorType, numel};
use crate::ops;

/// How many keys a decomposition takes one by one.
const MAX_KEYS: usize = 1 << 16;

/// Random sources: `key [.., 2] -> [.., shape]`; f32 but for `Bits`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Random {
    /// Uniform in `[0, 1)`: the top 24 bits of the word times 2^-24.
    Uniform { shape: Dims, stream: u64 },
    /// Standard normal by Box-Muller on words `(0, 1)` and `(2, 3)` of a block:
    /// `sqrt(-2 ln(1 - u0)) * {cos, sin}(2 pi u1)`.
    Normal { shape: Dims, stream: u64 },
    /// The words themselves, in `u32`; in `u64` element `i` is words `2 i` (low) and `2 i + 1` (high).
    Bits { shape: Dims, dtype: DType, stream: u64 },
}

impl Random {
    /// The number that tells the node apart.
    pub fn stream(&self) -> u64 {
        match self {
            Random::Uniform { stream, .. } | Random::Normal { stream, .. } | Random::Bits { stream, .. } => {
                *stream
            }
        }
    }

    /// The shape of the values of one key.
    pub fn shape(&self) -> &[usize] {
        match self {
            Random::Uniform { shape, .. } | Random::Normal { shape, .. } | Random::Bits { shape, .. } => {
                shape
            }
        }
    }
}

impl Rules for Random {
    fn name(&self) -> &'static str {
        match self {
            Random::Uniform { .. } => "uniform",
            Random::Normal { .. } => "normal",
            Random::Bits { .. } => "random_bits",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        expect_arity(self.name(), inputs, 1)?;
        let key = inputs[0];
        let [lead @ .., 2] = &key.shape[..] else {
            return Err(Error::shape(self.name(), format!("the key is {key}, expected u64[2]")));
        };
        if key.dtype != DType::U64 {
            return Err(Error::dtype(self.name(), format!("the key is {key}, expected u64[2]")));
        }
        let dtype = match self {
            Random::Uniform { .. } | Random::Normal { .. } => DType::F32,
            Random::Bits { dtype: dtype @ (DType::U32 | DType::U64), .. } => *dtype,
            Random::Bits { dtype, .. } => {
                return Err(Error::dtype(
                    self.name(),
                    format!("words are u32 or u64, not {dtype}; cast them"),
                ));
            }
        };
        let mut shape = Dims::from_slice(lead);
        shape.extend_from_slice(self.shape());
        Ok(smallvec![TensorType { dtype, shape }])
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
        let key = derived::mapped(b, size, &inputs[0])?;
        Ok(derived::with_axis([b.apply1(Prim::Random(self.clone()), &[key])?]))
    }

    /// Several keys one by one.
    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let shape = ops::shape_of(b, &inputs[0]);
        let [lead @ .., _] = &shape[..] else { return Ok(None) };
        if lead.is_empty() {
            return Ok(None);
        }
        let count = numel(lead);
        // Each key is a node of its own.
        if count > MAX_KEYS {
            return Err(Error::unsupported(
                self.name(),
                format!("takes at most {MAX_KEYS} keys here, got {count}"),
            ));
        }
        let ty = self.infer(&[b.ty(&inputs[0])])?.remove(0);
        if count == 0 {
            return Ok(Some(vec![ops::zeros(b, &ty.shape, ty.dtype)?]));
        }
        let keys = ops::reshape_to(b, &inputs[0], &[count, 2])?;
        let draw =
            |at: usize| b.apply1(Prim::Random(self.clone()), &[ops::select(b, &keys, 0, at as isize)?]);
        let draws = (0..count).map(draw).collect::<Result<Vec<_>>>()?;
        Ok(Some(vec![ops::reshape_to(b, &ops::stack(b, &draws, 0)?, &ty.shape)?]))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
