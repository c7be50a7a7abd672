//! `+ - * /` and powers, with type promotion and broadcasting.

use lanthorn_ir::expr::{BinaryOp, Scalar};
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{DType, Dims, Prim};
use smallvec::smallvec;

use super::reduce::sum_to_size;
use super::{broadcast_shapes, cast, compare, expand, factory, refuse_gradient, unary};
use crate::autograd::history::{is_recorded, record, requires_grad};
use crate::autograd::node::{Call, Formula, Gradients};
use crate::autograd::saved::SavedTensor;
use crate::error::{Error, Result};
use crate::tensor::promote::{self, ResultType};
use crate::tensor::{Data, Tensor};

/// The dtype of Python floats in results.
pub const DEFAULT: DType = DType::F32;

/// An operand: a tensor, or a Python number beside one.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
}

impl<'a> Operand<'a> {
    /// Its shape; a number has none.
    pub fn shape(&self) -> &'a [usize] {
        match self {
            Operand::Tensor(tensor) => tensor.shape(),
            Operand::Number(_) => &[],
        }
    }

    /// The tensor, if it is one.
    pub fn tensor(&self) -> Option<&'a Tensor> {
        match self {
            Operand::Tensor(tensor) => Some(tensor),
            Operand::Number(_) => None,
        }
    }

    /// The elements in the dtype in which the op computes.
    pub(crate) fn data(&self, dtype: DType) -> Result<Data> {
        match self {
            Operand::Tensor(tensor) => cast(tensor.data(), dtype),
            Operand::Number(number) => factory::number(*number, dtype),
        }
    }

    fn join(&self, types: &mut ResultType) -> Result<()> {
        match self {
            Operand::Tensor(t) => types.tensor(t.dtype(), t.rank(), t.is_wrapped_number(), DEFAULT),
            Operand::Number(number) => types.number(promote::number_dtype(*number), DEFAULT),
        }
    }
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(tensor: &'a Tensor) -> Operand<'a> {
        Operand::Tensor(tensor)
    }
}

impl From<f64> for Operand<'_> {
    fn from(number: f64) -> Self {
        Operand::Number(Scalar::float(number))
    }
}

/// The dtype in which an op on the operands computes.
pub fn result_type(a: Operand<'_>, b: Operand<'_>) -> Result<DType> {
    if let (Operand::Tensor(a), Operand::Tensor(b)) = (a, b)
        && a.dtype() == b.dtype()
    {
        return Ok(a.dtype());
    }
    let mut types = ResultType::default();
    a.join(&mut types)?;
    b.join(&mut types)?;
    Ok(types.get()?.unwrap_or(DEFAULT))
}

/// Runs a binary primitive on operands brought to one dtype and shape.
pub(crate) fn compute(op: BinaryOp, dtype: DType, a: Operand<'_>, b: Operand<'_>) -> Result<Data> {
    let prim = Prim::Elementwise(Elementwise::Binary(op));
    if let (Operand::Tensor(a), Operand::Tensor(b)) = (a, b)
        && (a.dtype(), b.dtype()) == (dtype, dtype)
        && a.shape() == b.shape()
    {
        return super::apply(prim, &[a.data(), b.data()]);
    }
    let shape = broadcast_shapes(a.shape(), b.shape())?;
    let (a, b) = (expand(&a.data(dtype)?, &shape)?, expand(&b.data(dtype)?, &shape)?);
    super::apply(prim, &[&a, &b])
}

/// A gradient brought back to an operand's shape.
fn reduced(gradient: Tensor, shape: &Dims) -> Result<Option<Tensor>> {
    sum_to_size(&gradient, shape).map(Some)
}

fn tensors<'a>(a: Operand<'a>, b: Operand<'a>) -> smallvec::SmallVec<[&'a Tensor; 2]> {
    [a.tensor(), b.tensor()].into_iter().flatten().collect()
}

/// `a + b`; of truth values, or.
pub fn add<'a>(a: impl Into<Operand<'a>>, b: impl Into<Operand<'a>>) -> Result<Tensor> {
    let (a, b) = (a.into(), b.into());
    let dtype = result_type(a, b)?;
    let op = if dtype == DType::Bool { BinaryOp::Or } else { BinaryOp::Add };
    let result = Tensor::new(compute(op, dtype, a, b)?);
    let operands = tensors(a, b);
    if is_recorded(&operands) {
        record("AddBackward0", &operands, &result, smallvec![], add_formula(&operands, 1.0));
    }
    Ok(result)
}

/// `a - b`.
pub fn sub<'a>(a: impl Into<Operand<'a>>, b: impl Into<Operand<'a>>) -> Result<Tensor> {
    let (a, b) = (a.into(), b.into());
    let dtype = result_type(a, b)?;
    check_subtraction(dtype, a, b)?;
    let result = Tensor::new(compute(BinaryOp::Sub, dtype, a, b)?);
    let operands = tensors(a, b);
    if is_recorded(&operands) {
        let formula = match a {
            Operand::Tensor(_) => add_formula(&operands, -1.0),
            Operand::Number(_) => add_formula_of(vec![(operands[0].ty().shape.clone(), -1.0)]),
        };
        record("SubBackward0", &operands, &result, smallvec![], formula);
    }
    Ok(result)
}

pub(crate) fn check_subtraction(dtype: DType, a: Operand<'_>, b: Operand<'_>) -> Result<()> {
    let is_bool = |operand: Operand<'_>| match operand {
        Operand::Tensor(tensor) => tensor.dtype() == DType::Bool,
        Operand::Number(number) => matches!(number, Scalar::Bool(_)),
    };
    if dtype == DType::Bool || is_bool(a) && is_bool(b) {
        return Err(Error::runtime(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` \
             operator instead.",
        ));
    }
    if is_bool(a) || is_bool(b) {
        return Err(Error::runtime(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, \
             use the `~` or `logical_not()` operator instead.",
        ));
    }
    Ok(())
}

/// The derivative of `a + second * b`.
pub(crate) fn add_formula(operands: &[&Tensor], second: f64) -> Formula {
    let factors = [1.0, second];
    add_formula_of(operands.iter().zip(factors).map(|(t, factor)| (t.ty().shape.clone(), factor)).collect())
}

fn add_formula_of(operands: Vec<(Dims, f64)>) -> Formula {
    Box::new(move |call: &Call<'_>| {
        let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
        let one = |(at, (shape, factor)): (usize, &(Dims, f64))| {
            if !call.wants(at) {
                return Ok(None);
            }
            let gradient = if *factor == 1.0 { gradient.clone() } else { unary::neg(gradient)? };
            reduced(gradient, shape)
        };
        operands.iter().enumerate().map(one).collect()
    })
}

/// `a * b`; of truth values, and.
pub fn mul<'a>(a: impl Into<Operand<'a>>, b: impl Into<Operand<'a>>) -> Result<Tensor> {
    let (a, b) = (a.into(), b.into());
    let dtype = result_type(a, b)?;
    let op = if dtype == DType::Bool { BinaryOp::And } else { BinaryOp::Mul };
    let result = Tensor::new(compute(op, dtype, a, b)?);
    let operands = tensors(a, b);
    if is_recorded(&operands) {
        let (saved, formula) = mul_formula(a, b);
        record("MulBackward0", &operands, &result, saved, formula);
    }
    Ok(result)
}

pub(crate) type Saved = smallvec::SmallVec<[SavedTensor; 2]>;

/// Which of two operands have been saved: one is saved only where the other's gradient reads it, so that writing over
/// an operand that no derivative needs is no error.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    has_a: bool,
    has_b: bool,
}

impl Pair {
    /// Saves `a` if a gradient of `b` is asked for; `b` likewise, or in any case.
    pub fn save(a: &Tensor, b: &Tensor, only_if_needed: bool) -> (Saved, Pair) {
        let pair = Pair { has_a: requires_grad(b), has_b: !only_if_needed || requires_grad(a) };
        let kept = [(pair.has_a, a), (pair.has_b, b)].into_iter().filter(|(keep, _)| *keep);
        (kept.map(|(_, tensor)| SavedTensor::input(tensor)).collect(), pair)
    }

    /// The operands that were saved.
    pub fn unpack<'a>(&self, call: &Call<'a>) -> (Option<&'a Tensor>, Option<&'a Tensor>) {
        let mut saved = call.saved.iter();
        let a = if self.has_a { saved.next() } else { None };
        (a, if self.has_b { saved.next() } else { None })
    }
}

/// What the product saves, and its derivative. An operand is saved only for the other's gradient.
pub(crate) fn mul_formula(a: Operand<'_>, b: Operand<'_>) -> (Saved, Formula) {
    match (a, b) {
        (Operand::Tensor(a), Operand::Tensor(b)) => {
            let (sa, sb) = (a.ty().shape.clone(), b.ty().shape.clone());
            let (saved, pair) = Pair::save(a, b, true);
            let formula: Formula = Box::new(move |call| {
                let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
                let (a, b) = pair.unpack(call);
                let da = match b.filter(|_| call.wants(0)) {
                    Some(b) => reduced(mul(gradient, b)?, &sa)?,
                    None => None,
                };
                let db = match a.filter(|_| call.wants(1)) {
                    Some(a) => reduced(mul(gradient, a)?, &sb)?,
                    None => None,
                };
                Ok(smallvec![da, db])
            });
            (saved, formula)
        }
        (Operand::Tensor(_), Operand::Number(number)) | (Operand::Number(number), Operand::Tensor(_)) => {
            let formula: Formula = Box::new(move |call| {
                let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
                Ok(smallvec![Some(mul(gradient, Operand::Number(number))?)])
            });
            (smallvec![], formula)
        }
        (Operand::Number(_), Operand::Number(_)) => (smallvec![], Box::new(|_| Ok(Gradients::new()))),
    }
}

/// `a / b`; integers divide as floats.
pub fn div<'a>(a: impl Into<Operand<'a>>, b: impl Into<Operand<'a>>) -> Result<Tensor> {
    let (a, b) = (a.into(), b.into());
    let dtype = quotient_type(result_type(a, b)?);
    let result = Tensor::new(compute(BinaryOp::Div, dtype, a, b)?);
    let operands = tensors(a, b);
    if is_recorded(&operands) {
        let (saved, formula) = div_formula(a, b);
        record("DivBackward0", &operands, &result, saved, formula);
    }
    Ok(result)
}

/// The dtype of a quotient of operands that compute in `dtype`.
pub(crate) fn quotient_type(dtype: DType) -> DType {
    if dtype.is_float() || dtype.is_complex() { dtype } else { DEFAULT }
}

/// What the quotient saves, and its derivative.
pub(crate) fn div_formula(a: Operand<'_>, b: Operand<'_>) -> (Saved, Formula) {
    match (a, b) {
        (Operand::Tensor(a), Operand::Tensor(b)) => {
            let (sa, sb) = (a.ty().shape.clone(), b.ty().shape.clone());
            let (saved, pair) = Pair::save(a, b, false);
            let formula: Formula = Box::new(move |call| {
                let (Some(gradient), (a, Some(b))) = (call.gradient(), pair.unpack(call)) else {
                    return Ok(Gradients::new());
                };
                let da = if call.wants(0) { reduced(div(gradient, b)?, &sa)? } else { None };
                let db = match a.filter(|_| call.wants(1)) {
                    Some(a) => reduced(mul(&unary::neg(gradient)?, &div(&div(a, b)?, b)?)?, &sb)?,
                    None => None,
                };
                Ok(smallvec![da, db])
            });
            (saved, formula)
        }
        (Operand::Tensor(_), Operand::Number(number)) => {
            let formula: Formula = Box::new(move |call| {
                let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
                Ok(smallvec![Some(div(gradient, Operand::Number(number))?)])
            });
            (smallvec![], formula)
        }
        (Operand::Number(number), Operand::Tensor(b)) => {
            let formula: Formula = Box::new(move |call| {
                let (Some(gradient), [b]) = (call.gradient(), call.saved) else {
                    return Ok(Gradients::new());
                };
                let scaled = mul(&unary::neg(gradient)?, Operand::Number(number))?;
                Ok(smallvec![Some(div(&div(&scaled, b)?, b)?)])
            });
            (smallvec![SavedTensor::input(b)], formula)
        }
        (Operand::Number(_), Operand::Number(_)) => (smallvec![], Box::new(|_| Ok(Gradients::new()))),
    }
}

/// `a` to the power of a number.
pub fn pow_scalar(a: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let dtype = result_type(a.into(), Operand::Number(exponent))?;
    if dtype.is_int() && exponent.as_f64() < 0.0 {
        return Err(Error::runtime("Integers to negative integer powers are not allowed."));
    }
    let base = cast(a.data(), dtype)?;
    // What the exponent makes simple needs no power function.
    let result = match (exponent.as_f64(), dtype) {
        (0.0, _) => factory::full(a.shape(), Scalar::Int(1), dtype, a.is_meta())?,
        (1.0, _) => Tensor::new(super::copy::contiguous_copy(&base)?),
        (2.0, _) => Tensor::new(compute(BinaryOp::Mul, dtype, a.into(), a.into())?),
        (e, dtype) if dtype.is_int() => int_power(a, e as u64, dtype)?,
        _ => Tensor::new(compute(BinaryOp::Pow, dtype, a.into(), Operand::Number(exponent))?),
    };
    if is_recorded(&[a]) {
        let formula: Formula = Box::new(move |call| {
            let (Some(gradient), [a]) = (call.gradient(), call.saved) else { return Ok(Gradients::new()) };
            let e = exponent.as_f64();
            if e == 0.0 {
                let zeros = factory::full(a.shape(), Scalar::Int(0), a.dtype(), a.is_meta())?;
                return Ok(smallvec![Some(zeros)]);
            }
            let power = pow_scalar(a, Scalar::float(e - 1.0))?;
            Ok(smallvec![Some(mul(gradient, &mul(&power, e)?)?)])
        });
        record("PowBackward0", &[a], &result, smallvec![SavedTensor::input(a)], formula);
    }
    Ok(result)
}

/// A whole power of integers by squaring; sums wrap.
fn int_power(a: &Tensor, mut exponent: u64, dtype: DType) -> Result<Tensor> {
    let _mode = crate::autograd::grad_mode::Guard::new(false);
    let mut square = super::copy::to(a, dtype)?;
    let mut power: Option<Tensor> = None;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = Some(match power {
                Some(power) => mul(&power, &square)?,
                None => square.clone(),
            });
        }
        exponent >>= 1;
        if exponent > 0 {
            square = mul(&square, &square)?;
        }
    }
    power.ok_or_else(|| Error::runtime("pow: the exponent is 0"))
}

/// `a` to the power of `b`, element by element.
pub fn pow<'a>(a: impl Into<Operand<'a>>, b: impl Into<Operand<'a>>) -> Result<Tensor> {
    let (a, b) = (a.into(), b.into());
    if let (Operand::Tensor(a), Operand::Number(exponent)) = (a, b) {
        return pow_scalar(a, exponent);
    }
    refuse_gradient("pow of tensors", &tensors(a, b))?;
    let dtype = result_type(a, b)?;
    Ok(Tensor::new(compute(BinaryOp::Pow, dtype, a, b)?))
}

/// `a` where positive, else 0, and its derivative by the sign of the result.
pub fn relu(a: &Tensor) -> Result<Tensor> {
    if a.dtype() == DType::Bool {
        return Err(Error::runtime("Boolean inputs not supported for relu"));
    }
    let result = unary::plain(lanthorn_ir::expr::UnaryOp::Relu, a)?;
    if is_recorded(&[a]) {
        let saved = smallvec![SavedTensor::output(&result, 0)];
        let formula: Formula = Box::new(move |call| {
            let (Some(gradient), [result]) = (call.gradient(), call.saved) else {
                return Ok(Gradients::new());
            };
            let positive =
                compare::compare(BinaryOp::Gt, (&result.detach()).into(), Operand::Number(Scalar::Int(0)))?;
            Ok(smallvec![Some(compare::select_or_zero(&positive, gradient)?)])
        });
        record("ReluBackward0", &[a], &result, saved, formula);
    }
    Ok(result)
}
