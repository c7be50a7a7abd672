//! Sums and means.

use lanthorn_ir::prim::{Reduce, ReduceOp};
use lanthorn_ir::{DType, Dims, Prim};
use smallvec::smallvec;

use super::arithmetic::div;
use super::{cast, resolve_axis, views};
use crate::autograd::history::{is_recorded, record};
use crate::autograd::node::{Formula, Gradients};
use crate::error::{Error, Result};
use crate::tensor::promote::scalar_type_name;
use crate::tensor::{Data, Tensor};

/// Axes to fold, ascending; all if none are named.
fn resolve_axes(axes: Option<&[i64]>, rank: usize) -> Result<Dims> {
    let axes = match axes {
        None | Some([]) => return Ok((0..rank).collect()),
        Some(axes) => axes,
    };
    let mut resolved = Dims::new();
    for &axis in axes {
        let axis = resolve_axis(axis, rank)?;
        if resolved.contains(&axis) {
            return Err(Error::runtime(format!("dim {axis} appears multiple times in the list of dims")));
        }
        resolved.push(axis);
    }
    resolved.retain(|axis| *axis < rank);
    resolved.sort_unstable();
    Ok(resolved)
}

/// The shape with the axes at size 1.
fn kept_shape(shape: &[usize], axes: &[usize]) -> Dims {
    shape.iter().enumerate().map(|(axis, &size)| if axes.contains(&axis) { 1 } else { size }).collect()
}

/// The sum below autograd.
fn fold(data: &Data, axes: &[usize], keepdim: bool) -> Result<Data> {
    let shape = data.ty().shape.clone();
    let folded = if axes.is_empty() {
        super::copy::contiguous_copy(data)?
    } else {
        super::apply(Prim::Reduce(Reduce::Fold { op: ReduceOp::Sum, axes: Dims::from_slice(axes) }), &[data])?
    };
    if keepdim {
        return Ok(folded);
    }
    let shape: Dims = (0..shape.len()).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect();
    folded.with_layout(lanthorn_ir::Layout::contiguous(&shape))
}

/// The gradient of a fold, repeated to the operand's shape.
fn spread(gradient: &Tensor, axes: &[usize], shape: &[usize]) -> Result<Tensor> {
    views::expand_to(&views::reshape_to(gradient, &kept_shape(shape, axes))?, shape)
}

/// The sum over axes, in the dtype given, else the operand's; integers add up as i64.
pub fn sum(a: &Tensor, axes: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let axes = resolve_axes(axes, a.rank())?;
    let is_whole = a.dtype().is_int() || a.dtype() == DType::Bool;
    let dtype = dtype.unwrap_or(if is_whole { DType::I64 } else { a.dtype() });
    let result = Tensor::new(fold(&cast(a.data(), dtype)?, &axes, keepdim)?);
    if dtype.is_float() && is_recorded(&[a]) {
        let shape = a.ty().shape.clone();
        let formula: Formula = Box::new(move |call| {
            let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
            Ok(smallvec![Some(spread(gradient, &axes, &shape)?)])
        });
        record("SumBackward0", &[a], &result, smallvec![], formula);
    }
    Ok(result)
}

/// The mean over axes of a float operand.
pub fn mean(a: &Tensor, axes: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let axes = resolve_axes(axes, a.rank())?;
    let dtype = dtype.unwrap_or(a.dtype());
    if !dtype.is_float() {
        return Err(Error::runtime(format!(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: \
             {}",
            scalar_type_name(dtype)
        )));
    }
    let count: usize = axes.iter().map(|&axis| a.shape()[axis]).product();
    let wide = cast(&cast(a.data(), dtype)?, dtype.wide())?;
    let total = Tensor::new(fold(&wide, &axes, keepdim)?);
    let quotient = {
        let _mode = crate::autograd::grad_mode::Guard::new(false);
        div(&total, count as f64)?
    };
    let result = Tensor::new(cast(quotient.data(), dtype)?);
    if is_recorded(&[a]) {
        let shape = a.ty().shape.clone();
        let formula: Formula = Box::new(move |call| {
            let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
            Ok(smallvec![Some(div(&spread(gradient, &axes, &shape)?, count as f64)?)])
        });
        record("MeanBackward0", &[a], &result, smallvec![], formula);
    }
    Ok(result)
}

/// The adjoint of broadcasting: sums over axes that `shape` has not, or has with size 1.
pub fn sum_to_size(a: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if a.shape() == shape {
        return Ok(a.clone());
    }
    let lead = a.rank().saturating_sub(shape.len());
    let is_folded = |axis: usize| axis < lead || shape.get(axis - lead) == Some(&1) && a.shape()[axis] != 1;
    let axes: smallvec::SmallVec<[i64; 4]> =
        (0..a.rank()).filter(|&axis| is_folded(axis)).map(|axis| axis as i64).collect();
    let total = if axes.is_empty() { a.clone() } else { sum(a, Some(&axes), true, Some(a.dtype()))? };
    if total.shape() == shape { Ok(total) } else { views::reshape_to(&total, shape) }
}
