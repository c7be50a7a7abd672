//! Comparisons, and choosing by them.

use lanthorn_ir::expr::{BinaryOp, Scalar};
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{DType, Prim};
use smallvec::smallvec;

use super::arithmetic::{Operand, compute, result_type};
use super::{cast, expand, factory};
use crate::autograd::history::{is_recorded, record};
use crate::autograd::node::{Formula, Gradients};
use crate::autograd::saved::SavedTensor;
use crate::error::Result;
use crate::tensor::Tensor;

/// A comparison of operands brought to one dtype; gives truth values.
pub fn compare(op: BinaryOp, a: Operand<'_>, b: Operand<'_>) -> Result<Tensor> {
    let dtype = match result_type(a, b)? {
        // Order among truth values is that of 0 and 1.
        DType::Bool if !matches!(op, BinaryOp::Eq | BinaryOp::Ne) => DType::U8,
        dtype => dtype,
    };
    Ok(Tensor::new(compute(op, dtype, a, b)?))
}

/// `x` where the condition is true, else 0. The condition has the shape of `x`.
pub fn select_or_zero(condition: &Tensor, x: &Tensor) -> Result<Tensor> {
    let zero = factory::full(&[], Scalar::Int(0), x.dtype(), x.is_meta())?;
    let zero = expand(zero.data(), x.shape())?;
    let condition_data = cast(condition.data(), DType::Bool)?;
    let data = super::apply(Prim::Elementwise(Elementwise::Select), &[&condition_data, x.data(), &zero])?;
    let result = Tensor::new(data);
    if is_recorded(&[x]) {
        let formula: Formula = Box::new(move |call| {
            let (Some(gradient), [condition]) = (call.gradient(), call.saved) else {
                return Ok(Gradients::new());
            };
            Ok(smallvec![Some(select_or_zero(condition, gradient)?)])
        });
        record("WhereBackward0", &[x], &result, smallvec![SavedTensor::input(condition)], formula);
    }
    Ok(result)
}
