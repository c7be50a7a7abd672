//! Rotary position embedding.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_float};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{F64, KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, TensorType};
use crate::ops;

/// Compound primitives of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Position {
    /// `(x [.., d], positions: integers whose shape broadcasts to [..]) -> [.., d]`; see [`Rotary`].
    Rotary(Rotary),
}

/// Rotates pairs of the first `width` elements of the last axis by `position * frequency`, where pair `i` has the
/// frequency `theta^(-2 i / width)` (Su et al. 2021, "RoFormer", section 3.2.2). The other elements stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rotary {
    /// An even number of elements, at most `d`.
    pub width: usize,
    pub theta: F64,
    pub layout: RotaryLayout,
    pub scaling: Option<RotaryScaling>,
    /// Rotates back: the transpose, and so the derivative.
    pub inverse: bool,
}

/// Which elements are a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RotaryLayout {
    /// Element `i` and element `i + width / 2` (GPT-NeoX, Llama in transformers).
    HalfSplit,
    /// Elements `2 i` and `2 i + 1` (RoFormer, GPT-J).
    Interleaved,
}

/// Longer contexts as in Llama 3.1: a frequency whose wavelength exceeds `context / low` is divided by `factor`, one
/// below `context / high` stays, and those between are mixed of both, linear in `context / wavelength`
/// (`llama-models`, `apply_scaling`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RotaryScaling {
    pub factor: F64,
    pub low: F64,
    pub high: F64,
    /// Positions of the training before.
    pub context: usize,
}

impl Rotary {
    /// The frequencies of all pairs, `[width / 2]`.
    fn frequencies<B: Builder>(&self, b: &B, dtype: DType) -> Result<B::Value> {
        let pair = ops::iota(b, self.width / 2, dtype)?;
        let slope = -2.0 * self.theta.0.ln() / self.width.max(1) as f64;
        let plain = ops::exp(b, &ops::mul_scalar(b, &pair, slope)?)?;
        let Some(RotaryScaling { factor, low, high, context }) = self.scaling else { return Ok(plain) };
        // `context / wavelength` is how often a pair turns within the context.
        let turns = ops::mul_scalar(b, &plain, context as f64 / std::f64::consts::TAU)?;
        let (low, high) = (low.0, high.0);
        let kept = ops::mul_scalar(b, &ops::add_scalar(b, &turns, -low)?, 1.0 / (high - low))?;
        let kept = ops::clamp(b, &kept, Some(0.0.into()), Some(1.0.into()))?;
        // `(1 - kept) / factor + kept`.
        let scale = ops::mul_scalar(b, &kept, 1.0 - 1.0 / factor.0)?;
        ops::mul(b, &plain, &ops::add_scalar(b, &scale, 1.0 / factor.0)?)
    }

    fn apply<B: Builder>(self, b: &B, x: &B::Value, positions: &B::Value) -> Result<B::Value> {
        b.apply1(Prim::Position(Position::Rotary(self)), &[x.clone(), positions.clone()])
    }
}

impl Rules for Position {
    fn name(&self) -> &'static str {
        match self {
            Position::Rotary(_) => "rotary_embedding",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let Position::Rotary(rotary) = self;
        expect_arity("rotary_embedding", inputs, 2)?;
        let (x, positions) = (inputs[0], inputs[1]);
        expect_float("rotary_embedding", "x", x)?;
        if !positions.dtype.is_int() {
            let found = positions.dtype;
            return Err(Error::dtype(
                "rotary_embedding",
                format!("positions are {found}, expected an integer dtype"),
            ));
        }
        let fail = |message: String| Err(Error::shape("rotary_embedding", message));
        let Some((&d, lead)) = x.shape.split_last() else {
            return fail("x has rank 0, expected at least one axis".into());
        };
        if rotary.width % 2 == 1 || rotary.width > d {
            return fail(format!("{} elements of {d} cannot rotate in pairs", rotary.width));
        }
        let numbers = rotary.scaling.map_or([1.0, 0.0, 1.0], |s| [s.factor.0, s.low.0, s.high.0]);
        let finite = numbers.iter().all(|number| number.is_finite());
        if !(rotary.theta.0 > 0.0 && rotary.theta.0.is_finite() && numbers[0] > 0.0 && finite) {
            return fail(format!(
                "theta is {} and the factor {}; expected above 0",
                rotary.theta.0, numbers[0]
            ));
        }
        if numbers[1] >= numbers[2] {
            return fail(format!("the low factor {} is not below the high {}", numbers[1], numbers[2]));
        }
        let own = &positions.shape;
        let fits = own.len() <= lead.len()
            && own.iter().rev().zip(lead.iter().rev()).all(|(&have, &want)| have == want || have == 1);
        if !fits {
            return fail(format!(
                "positions {} do not broadcast to {}, the axes of x but the last",
                ShowShape(own),
                ShowShape(lead)
            ));
        }
        Ok(smallvec![x.clone()])
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Position::Rotary(rotary) = *self;
        let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
        let back = Rotary { inverse: !rotary.inverse, ..rotary };
        Ok(vec![Some(back.apply(b, t, &at.inputs[1])?), None])
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Position::Rotary(rotary) = *self;
        let Some(t) = &tangents[0] else { return Ok(vec![None]) };
        Ok(vec![Some(rotary.apply(b, t, &at.inputs[1])?)])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let Position::Rotary(rotary) = *self;
        let x = derived::mapped(b, size, &inputs[0])?;
        let mut positions = inputs[1].value.clone();
        if inputs[1].mapped {
            // Axes that the positions lack stand between the new axis and their own.
            let mut shape = ops::shape_of(b, &positions);
            while shape.len() + 1 < b.ty(&x).rank() {
                shape.insert(1, 1);
            }
            positions = ops::reshape_to(b, &positions, &shape)?;
        }
        Ok(derived::with_axis([rotary.apply(b, &x, &positions)?]))
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let Position::Rotary(rotary) = self;
        let (x, dtype) = (&inputs[0], b.ty(&inputs[0]).dtype);
        let (wide, shape) = (dtype.wide(), ops::shape_of(b, x));
        let (last, half) = (shape.len() - 1, rotary.width / 2);
        let positions = ops::unsqueeze(b, &ops::cast(b, &inputs[1], wide)?, -1)?;
        let angles = ops::mul(b, &positions, &rotary.frequencies(b, wide)?)?;
        let (cos, mut sin) = (ops::cos(b, &angles)?, ops::sin(b, &angles)?);
        if rotary.inverse {
            sin = ops::neg(b, &sin)?;
        }
        let turned = ops::cast(b, &ops::slice_axis(b, x, last, 0, rotary.width, 1)?, wide)?;
        // The pairs as `[.., half, 2]` or `[.., 2, half]`.
        let (axis, split) = match rotary.layout {
            RotaryLayout::HalfSplit => (last, [2, half]),
            RotaryLayout::Interleaved => (last + 1, [half, 2]),
        };
        let mut pairs = Dims::from_slice(&shape[..last]);
        pairs.extend(split);
        let pairs = ops::reshape_to(b, &turned, &pairs)?;
        let (first, second) =
            (ops::select(b, &pairs, axis as isize, 0)?, ops::select(b, &pairs, axis as isize, 1)?);
        let real = ops::sub(b, &ops::mul(b, &first, &cos)?, &ops::mul(b, &second, &sin)?)?;
        let imaginary = ops::add(b, &ops::mul(b, &second, &cos)?, &ops::mul(b, &first, &sin)?)?;
        let mut merged = Dims::from_slice(&shape[..last]);
        merged.push(rotary.width);
        let turned = ops::stack(b, &[real, imaginary], axis as isize)?;
        let turned = ops::cast(b, &ops::reshape_to(b, &turned, &merged)?, dtype)?;
        if rotary.width == shape[last] {
            return Ok(Some(vec![turned]));
        }
        let rest = ops::slice_axis(b, x, last, rotary.width, shape[last], 1)?;
        Ok(Some(vec![ops::concat(b, &[turned, rest], last as isize)?]))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
