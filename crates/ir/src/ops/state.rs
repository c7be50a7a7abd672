//! Updates of values that live longer than one call.

use super::{broadcast_to, cast, shape_of};
use crate::builder::Builder;
use crate::error::Result;
use crate::expr::F64;
use crate::layout::resolve_axis;
use crate::prim::{Prim, State};

/// `base` with `source` written over `start..` along an axis; `start` is an integer of rank 0.
pub fn update_slice<B: Builder>(
    b: &B,
    base: &B::Value,
    source: &B::Value,
    start: &B::Value,
    axis: isize,
) -> Result<B::Value> {
    let axis = resolve_axis("update_slice", axis, b.ty(base).rank())?;
    let operands = [base.clone(), source.clone(), start.clone()];
    b.apply1(Prim::State(State::UpdateSlice { axis }), &operands)
}

/// One AdamW step (Loshchilov and Hutter 2019): `[parameter', m', v']`. `lr`, `bias1 = 1 - beta1^t` and
/// `bias2 = 1 - beta2^t` are of rank 0, or of the parameter's shape.
pub fn adamw<B: Builder>(
    b: &B,
    parameter: &B::Value,
    grad: &B::Value,
    m: &B::Value,
    v: &B::Value,
    lr: &B::Value,
    bias1: &B::Value,
    bias2: &B::Value,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
) -> Result<Vec<B::Value>> {
    let (shape, dtype) = (shape_of(b, parameter), b.ty(parameter).dtype);
    let mut operands = vec![parameter.clone(), grad.clone(), m.clone(), v.clone()];
    for control in [lr, bias1, bias2] {
        // A float of rank 0 takes the parameter's dtype, as in every binary op.
        let ty = b.ty(control);
        let unified =
            if ty.rank() == 0 && ty.dtype.is_float() { cast(b, control, dtype)? } else { control.clone() };
        operands.push(broadcast_to(b, &unified, &shape)?);
    }
    let settings =
        State::AdamW { beta1: F64(beta1), beta2: F64(beta2), eps: F64(eps), weight_decay: F64(weight_decay) };
    Ok(b.apply(Prim::State(settings), &operands)?.into_vec())
}
