//! Functions of single elements.

use lanthorn_ir::expr::UnaryOp;
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{DType, Prim};
use smallvec::smallvec;

use super::arithmetic::{DEFAULT, div, mul, sub};
use super::cast;
use crate::autograd::history::{is_recorded, record};
use crate::autograd::node::{Call, Gradients};
use crate::autograd::saved::SavedTensor;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// The function below autograd, in the operand's dtype.
pub(crate) fn plain(op: UnaryOp, a: &Tensor) -> Result<Tensor> {
    Ok(Tensor::new(super::apply(Prim::Elementwise(Elementwise::Unary(op)), &[a.data()])?))
}

/// The function of a float operand; integers count as the default dtype.
fn float(op: UnaryOp, a: &Tensor) -> Result<Tensor> {
    let is_float = a.dtype().is_float();
    let data = if is_float { a.data().clone() } else { cast(a.data(), DEFAULT)? };
    Ok(Tensor::new(super::apply(Prim::Elementwise(Elementwise::Unary(op)), &[&data])?))
}

/// `-a`.
pub fn neg(a: &Tensor) -> Result<Tensor> {
    if a.dtype() == DType::Bool {
        return Err(Error::runtime(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use \
             the `~` or `logical_not()` operator instead.",
        ));
    }
    let result = plain(UnaryOp::Neg, a)?;
    if is_recorded(&[a]) {
        let formula = |call: &Call<'_>| -> Result<Gradients> {
            call.gradient().map_or(Ok(smallvec![None]), |gradient| Ok(smallvec![Some(neg(gradient)?)]))
        };
        record("NegBackward0", &[a], &result, smallvec![], Box::new(formula));
    }
    Ok(result)
}

/// A derivative from the gradient and the saved tensor.
type OfSaved = fn(&Tensor, &Tensor) -> Result<Tensor>;

fn record_with(name: &'static str, a: &Tensor, result: &Tensor, saved: SavedTensor, derivative: OfSaved) {
    let formula = move |call: &Call<'_>| -> Result<Gradients> {
        let (Some(gradient), [saved]) = (call.gradient(), call.saved) else { return Ok(Gradients::new()) };
        Ok(smallvec![Some(derivative(gradient, saved)?)])
    };
    record(name, &[a], result, smallvec![saved], Box::new(formula));
}

/// `e^a`.
pub fn exp(a: &Tensor) -> Result<Tensor> {
    let result = float(UnaryOp::Exp, a)?;
    if is_recorded(&[a]) {
        let saved = SavedTensor::output(&result, 0);
        record_with("ExpBackward0", a, &result, saved, |gradient, result| mul(gradient, result));
    }
    Ok(result)
}

/// The natural logarithm.
pub fn log(a: &Tensor) -> Result<Tensor> {
    let result = float(UnaryOp::Log, a)?;
    if is_recorded(&[a]) {
        record_with("LogBackward0", a, &result, SavedTensor::input(a), |gradient, a| div(gradient, a));
    }
    Ok(result)
}

/// The hyperbolic tangent.
pub fn tanh(a: &Tensor) -> Result<Tensor> {
    let result = float(UnaryOp::Tanh, a)?;
    if is_recorded(&[a]) {
        let saved = SavedTensor::output(&result, 0);
        record_with("TanhBackward0", a, &result, saved, |gradient, result| {
            mul(gradient, &sub(1.0, &mul(result, result)?)?)
        });
    }
    Ok(result)
}

/// `1 / (1 + e^-a)`.
pub fn sigmoid(a: &Tensor) -> Result<Tensor> {
    let result = float(UnaryOp::Sigmoid, a)?;
    if is_recorded(&[a]) {
        let saved = SavedTensor::output(&result, 0);
        record_with("SigmoidBackward0", a, &result, saved, |gradient, result| {
            mul(gradient, &mul(&sub(1.0, result)?, result)?)
        });
    }
    Ok(result)
}

/// The square root.
pub fn sqrt(a: &Tensor) -> Result<Tensor> {
    let result = float(UnaryOp::Sqrt, a)?;
    if is_recorded(&[a]) {
        let saved = SavedTensor::output(&result, 0);
        record_with("SqrtBackward0", a, &result, saved, |gradient, result| div(gradient, &mul(result, 2.0)?));
    }
    Ok(result)
}
