//! Updates of values that live longer than one call.

use super::{
    add, broadcast_to, cast, div, full_like, maximum_scalar, mul, mul_scalar, shape_of, sign, sqrt, square,
    sub, sum,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
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

/// One step of gradient descent, `parameter - lr grad`: `[parameter']`. With a `velocity` (Sutskever et al. 2013, as in
/// torch) `velocity' = momentum velocity + gain grad` and `parameter - lr velocity'`, or with `nesterov`
/// `parameter - lr (grad + momentum velocity')`: `[parameter', velocity']`. `gain` is 1 less the dampening, or 1 where
/// absent. `weight_decay parameter` is added to the gradient first. `lr` and `gain` are of rank 0.
pub fn sgd<B: Builder>(
    b: &B,
    parameter: &B::Value,
    grad: &B::Value,
    lr: &B::Value,
    velocity: Option<&B::Value>,
    gain: Option<&B::Value>,
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
) -> Result<Vec<B::Value>> {
    let grad = decayed(b, "sgd", parameter, grad, weight_decay)?;
    let Some(velocity) = velocity else {
        if momentum != 0.0 {
            let message = format!("the momentum is {momentum} without a velocity, expected both or neither");
            return Err(Error::shape("sgd", message));
        }
        return Ok(vec![moved(b, parameter, lr, &grad)?]);
    };
    let gained = match gain {
        Some(gain) => mul(b, &grad, gain)?,
        None => grad.clone(),
    };
    let velocity = add(b, &mul_scalar(b, velocity, momentum)?, &gained)?;
    let direction = match nesterov {
        true => add(b, &grad, &mul_scalar(b, &velocity, momentum)?)?,
        false => velocity.clone(),
    };
    Ok(vec![moved(b, parameter, lr, &direction)?, velocity])
}

/// One Adam step (Kingma and Ba 2015, as in torch): `[parameter', m', v']`. As [`adamw`], but `weight_decay parameter` is
/// part of the gradient.
pub fn adam<B: Builder>(
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
    let grad = decayed(b, "adam", parameter, grad, weight_decay)?;
    adamw(b, parameter, &grad, m, v, lr, bias1, bias2, beta1, beta2, eps, 0.0)
}

/// One Lion step (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2): `[parameter', m']`, where
/// `parameter' = parameter - lr (sign(beta1 m + (1 - beta1) grad) + weight_decay parameter)` and
/// `m' = beta2 m + (1 - beta2) grad`. `lr` is of rank 0.
pub fn lion<B: Builder>(
    b: &B,
    parameter: &B::Value,
    grad: &B::Value,
    m: &B::Value,
    lr: &B::Value,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
) -> Result<Vec<B::Value>> {
    let mixed = |beta: f64| add(b, &mul_scalar(b, m, beta)?, &mul_scalar(b, grad, 1.0 - beta)?);
    let direction = sign(b, &mixed(beta1)?)?;
    let direction = decayed(b, "lion", parameter, &direction, weight_decay)?;
    Ok(vec![moved(b, parameter, lr, &direction)?, mixed(beta2)?])
}

/// `direction + decay parameter`.
fn decayed<B: Builder>(
    b: &B,
    op: &str,
    parameter: &B::Value,
    direction: &B::Value,
    decay: f64,
) -> Result<B::Value> {
    crate::prim::expect_float(op, "the parameter", b.ty(parameter))?;
    // Broadcasting would move a parameter by a gradient that is not its own.
    crate::prim::expect_shape(op, "the gradient", b.ty(direction), &b.ty(parameter).shape)?;
    match decay {
        0.0 => Ok(direction.clone()),
        decay => add(b, direction, &mul_scalar(b, parameter, decay)?),
    }
}

/// `parameter - lr direction`.
fn moved<B: Builder>(b: &B, parameter: &B::Value, lr: &B::Value, direction: &B::Value) -> Result<B::Value> {
    sub(b, parameter, &mul(b, direction, lr)?)
}

/// The Euclidean norm of all tensors laid end to end, of rank 0, in the wide dtype (f32 for half types).
///
/// Errors: there are no tensors, or one that is not of a floating-point dtype.
pub fn global_norm<B: Builder>(b: &B, tensors: &[B::Value]) -> Result<B::Value> {
    let mut total: Option<B::Value> = None;
    for tensor in tensors {
        crate::prim::expect_float("global_norm", "a tensor", b.ty(tensor))?;
        let wide = cast(b, tensor, b.ty(tensor).dtype.wide())?;
        let squares = sum(b, &square(b, &wide)?, &[], false)?;
        total = Some(match total {
            Some(total) => add(b, &total, &squares)?,
            None => squares,
        });
    }
    let total = total.ok_or_else(|| Error::shape("global_norm", "there are no tensors"))?;
    sqrt(b, &total)
}

/// The tensors scaled so that their joint norm, which is given, becomes at most `limit` (Pascanu, Mikolov and Bengio
/// 2013). Where it is so already, they stay exactly as they are.
pub fn clip_by_norm<B: Builder>(
    b: &B,
    norm: &B::Value,
    tensors: &[B::Value],
    limit: f64,
) -> Result<Vec<B::Value>> {
    // A norm below the limit divides by the limit: a factor of exactly 1, also for tensors of 0.
    let factor = div(b, &full_like(b, norm, limit)?, &maximum_scalar(b, norm, limit)?)?;
    tensors.iter().map(|tensor| mul(b, tensor, &cast(b, &factor, b.ty(tensor).dtype)?)).collect()
}
