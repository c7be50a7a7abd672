//! Scans: each element combined with all before it along an axis.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, ScatterOp, Types, derived, expect_arity, scatter};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{ShowShape, TensorType};
use crate::ops;

/// How elements combine. Half types accumulate in f32 and round once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScanOp {
    Sum,
    Prod,
    /// The largest so far and its i64 place: the last of several; NaN counts as largest.
    Max,
    /// The smallest so far and its i64 place: the last of several; NaN counts as smallest.
    Min,
    /// `log(sum(exp(x)))`, of floats.
    LogSumExp,
}

/// Scans.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scan {
    /// `x -> out` (or `out, places` for `Max` and `Min`) of its shape: element `i` of `axis` combines elements
    /// `0..=i`, or `i..` where `reverse`. In the operand's dtype; integers wrap.
    Cumulative { op: ScanOp, axis: usize, reverse: bool },
}

impl Scan {
    fn parts(&self) -> (ScanOp, usize, bool) {
        let Scan::Cumulative { op, axis, reverse } = *self;
        (op, axis, reverse)
    }
}

impl Rules for Scan {
    fn name(&self) -> &'static str {
        match self.parts().0 {
            ScanOp::Sum => "cumsum",
            ScanOp::Prod => "cumprod",
            ScanOp::Max => "cummax",
            ScanOp::Min => "cummin",
            ScanOp::LogSumExp => "logcumsumexp",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        expect_arity(name, inputs, 1)?;
        let x = inputs[0];
        let (op, axis, _) = self.parts();
        if axis >= x.rank() {
            return Err(Error::shape(
                name,
                format!("axis {axis} is out of range for {}", ShowShape(&x.shape)),
            ));
        }
        if op == ScanOp::LogSumExp {
            super::expect_float(name, "the operand", x)?;
        }
        if !(x.dtype.is_float() || x.dtype.is_int()) {
            return Err(Error::dtype(name, format!("the operand is {}, expected a number", x.dtype)));
        }
        Ok(match op {
            ScanOp::Max | ScanOp::Min => {
                smallvec![x.clone(), TensorType { dtype: DType::I64, shape: x.shape.clone() }]
            }
            _ => smallvec![x.clone()],
        })
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
        let (op, axis, reverse) = self.parts();
        let x = &at.inputs[0];
        Ok(match op {
            ScanOp::Sum => vec![Some(cumulative(b, op, t, axis, !reverse)?)],
            ScanOp::Prod | ScanOp::LogSumExp => {
                let graph = derived::decomposition(b, &Prim::Scan(self.clone()), at.inputs)?;
                derived::vjp_through(b, &graph, at, cotangents)?
            }
            ScanOp::Max | ScanOp::Min => {
                let zeros = ops::zeros_like(b, x)?;
                vec![Some(scatter::apply(b, axis, ScatterOp::Add, &zeros, &at.outputs[1], t)?)]
            }
        })
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let (op, axis, reverse) = self.parts();
        let Some(t) = &tangents[0] else { return Ok(at.outputs.iter().map(|_| None).collect()) };
        Ok(match op {
            ScanOp::Sum => vec![Some(cumulative(b, op, t, axis, reverse)?)],
            ScanOp::Prod | ScanOp::LogSumExp => {
                let graph = derived::decomposition(b, &Prim::Scan(self.clone()), at.inputs)?;
                derived::jvp_through(b, &graph, at.inputs, tangents)?
            }
            ScanOp::Max | ScanOp::Min => vec![Some(scatter::gather(b, axis, t, &at.outputs[1])?), None],
        })
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let operands = derived::all_mapped(b, size, inputs)?;
        let (op, axis, reverse) = self.parts();
        let scan = Scan::Cumulative { op, axis: axis + 1, reverse };
        Ok(derived::with_axis(b.apply(Prim::Scan(scan), &operands)?))
    }

    /// By doubling distances (Hillis and Steele 1986, "Data parallel algorithms"): after step `k` an element holds
    /// the last `2^k` up to it. Products need no division, so their derivatives are exact at zeros.
    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let (op, axis, reverse) = self.parts();
        let dtype = b.ty(&inputs[0]).dtype;
        let flipped = |v: &B::Value| if reverse { ops::flip(b, v, &[axis as isize]) } else { Ok(v.clone()) };
        let mut x = flipped(&ops::cast(b, &inputs[0], dtype.wide())?)?;
        let shape = ops::shape_of(b, &x);
        let size = shape[axis];
        let part = |v: &B::Value, start, stop| ops::slice_axis(b, v, axis, start, stop, 1);
        let join = |v: &B::Value, distance, tail: B::Value| {
            ops::concat(b, &[part(v, 0, distance)?, tail], axis as isize)
        };
        let takes_place = matches!(op, ScanOp::Max | ScanOp::Min);
        let mut places = if takes_place { Some(ops::positions(b, &shape, axis)?) } else { None };
        let mut distance = 1;
        while distance < size {
            let (before, here) = (part(&x, 0, size - distance)?, part(&x, distance, size)?);
            let tail = match op {
                ScanOp::Sum => ops::add(b, &before, &here)?,
                ScanOp::Prod => ops::mul(b, &before, &here)?,
                ScanOp::LogSumExp => log_add_exp(b, &before, &here)?,
                ScanOp::Max | ScanOp::Min => {
                    let wins = match op {
                        ScanOp::Max => ops::ge(b, &here, &before)?,
                        _ => ops::le(b, &here, &before)?,
                    };
                    let wins = if dtype.is_float() {
                        ops::logical_or(b, &wins, &ops::isnan(b, &here)?)?
                    } else {
                        wins
                    };
                    if let Some(at) = &places {
                        let tail = ops::where_(
                            b,
                            &wins,
                            &part(at, distance, size)?,
                            &part(at, 0, size - distance)?,
                        )?;
                        places = Some(join(at, distance, tail)?);
                    }
                    ops::where_(b, &wins, &here, &before)?
                }
            };
            x = join(&x, distance, tail)?;
            distance = distance.saturating_mul(2);
        }
        let mut outputs = vec![ops::cast(b, &flipped(&x)?, dtype)?];
        if let Some(places) = places {
            let places = flipped(&places)?;
            // Places of the flipped axis count from its other end.
            outputs.push(if reverse { ops::rsub_scalar(b, &places, size as i64 - 1)? } else { places });
        }
        Ok(Some(outputs))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

fn cumulative<B: Builder>(b: &B, op: ScanOp, x: &B::Value, axis: usize, reverse: bool) -> Result<B::Value> {
    b.apply1(Prim::Scan(Scan::Cumulative { op, axis, reverse }), std::slice::from_ref(x))
}

/// `log(e^x + e^y)`. The shift is a whole number near the larger, through which no derivative flows, so derivatives
/// of any order are those of the formula, also where `x` equals `y`; minus infinity twice has derivative 0.
fn log_add_exp<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let constant = |value: f64| ops::scalar(b, value, dtype);
    let shift = ops::floor(b, &ops::maximum(b, x, y)?)?;
    let shift = ops::where_(b, &ops::isfinite(b, &shift)?, &shift, &constant(0.0)?)?;
    let term = |v: &B::Value| ops::exp(b, &ops::sub(b, v, &shift)?);
    let total = ops::add(b, &term(x)?, &term(y)?)?;
    let empty = ops::eq_scalar(b, &total, 0.0)?;
    let log = ops::log(b, &ops::where_(b, &empty, &constant(1.0)?, &total)?)?;
    ops::where_(b, &empty, &constant(f64::NEG_INFINITY)?, &ops::add(b, &log, &shift)?)
}
