//! Ops that write over a tensor.
//!
//! The order is always the same: what autograd forbids, then shapes and dtypes, then the node (edges and versions are
//! those of before the write), then the kernel, which reads every operand before it writes, then the history.

use lanthorn_ir::expr::{BinaryOp, Scalar};
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{DType, Prim};
use lanthorn_runtime::EagerTensor;
use smallvec::{SmallVec, smallvec};

use super::arithmetic::{
    Operand, add_formula, check_subtraction, div_formula, mul_formula, quotient_type, result_type,
};
use super::{broadcast_shapes, broadcasts, cast, copy, expand, factory, reduce, show};
use crate::autograd::history::{check_in_place, is_recorded, node_of, rebase_history, requires_grad};
use crate::autograd::node::{Formula, Gradients};
use crate::autograd::saved::SavedTensor;
use crate::cpu;
use crate::error::{Error, Result};
use crate::tensor::promote::{can_cast, scalar_type_name};
use crate::tensor::{Data, Tensor};

/// Refuses a target of which several elements lie in one place.
fn check_overlap(target: &Tensor) -> Result<()> {
    if target.layout().may_overlap_itself() {
        return Err(Error::runtime(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory \
             location. Please clone() the tensor before performing the operation.",
        ));
    }
    Ok(())
}

/// Runs a primitive over the target below autograd.
fn write(prim: Prim, inputs: &[&Data], target: &Tensor) -> Result<()> {
    let Data::Concrete(output) = target.data() else { return Ok(()) };
    let eager: SmallVec<[&EagerTensor; 3]> = inputs.iter().copied().filter_map(super::concrete).collect();
    Ok(cpu().apply_ref_into(prim, &eager, &[output])?)
}

fn check_fit(target: &Tensor, dtype: DType, other: &[usize]) -> Result<()> {
    let shape = broadcast_shapes(target.shape(), other)?;
    if shape[..] != *target.shape() {
        return Err(Error::runtime(format!(
            "output with shape {} doesn't match the broadcast shape {}",
            show(target.shape()),
            show(&shape)
        )));
    }
    if !can_cast(dtype, target.dtype()) {
        return Err(Error::runtime(format!(
            "result type {} can't be cast to the desired output type {}",
            scalar_type_name(dtype),
            scalar_type_name(target.dtype())
        )));
    }
    check_overlap(target)
}

/// Computes `target op other` over the target, in the dtype given.
fn update(op: BinaryOp, dtype: DType, target: &Tensor, other: Operand<'_>) -> Result<()> {
    let prim = Prim::Elementwise(Elementwise::Binary(op));
    if let Operand::Tensor(other) = other
        && (target.dtype(), other.dtype()) == (dtype, dtype)
        && target.shape() == other.shape()
    {
        return write(prim, &[target.data(), other.data()], target);
    }
    let other = expand(&other.data(dtype)?, target.shape())?;
    if dtype == target.dtype() {
        return write(prim, &[target.data(), &other], target);
    }
    let wide = super::apply(prim, &[&cast(target.data(), dtype)?, &other])?;
    write(Prim::Elementwise(Elementwise::Cast(target.dtype())), &[&wide], target)
}

/// One in-place op with another operand.
fn binary(
    target: &Tensor,
    other: Operand<'_>,
    op: BinaryOp,
    dtype: DType,
    node: impl FnOnce() -> Result<(&'static str, SmallVec<[SavedTensor; 2]>, Formula)>,
) -> Result<()> {
    check_in_place(target)?;
    check_fit(target, dtype, other.shape())?;
    let operands: SmallVec<[&Tensor; 2]> = [Some(target), other.tensor()].into_iter().flatten().collect();
    let node = if is_recorded(&operands) {
        let (name, saved, formula) = node()?;
        Some(node_of(name, &operands, target.ty(), saved, formula))
    } else {
        None
    };
    update(op, dtype, target, other)?;
    if let Some(node) = node {
        rebase_history(target, node);
    }
    Ok(())
}

/// `target += other`.
pub fn add_<'a>(target: &Tensor, other: impl Into<Operand<'a>>) -> Result<()> {
    let other = other.into();
    let dtype = result_type(target.into(), other)?;
    let op = if dtype == DType::Bool { BinaryOp::Or } else { BinaryOp::Add };
    binary(target, other, op, dtype, || {
        let operands: SmallVec<[&Tensor; 2]> = [Some(target), other.tensor()].into_iter().flatten().collect();
        Ok(("AddBackward0", smallvec![], add_formula(&operands, 1.0)))
    })
}

/// `target -= other`.
pub fn sub_<'a>(target: &Tensor, other: impl Into<Operand<'a>>) -> Result<()> {
    let other = other.into();
    let dtype = result_type(target.into(), other)?;
    check_subtraction(dtype, target.into(), other)?;
    binary(target, other, BinaryOp::Sub, dtype, || {
        let operands: SmallVec<[&Tensor; 2]> = [Some(target), other.tensor()].into_iter().flatten().collect();
        Ok(("SubBackward0", smallvec![], add_formula(&operands, -1.0)))
    })
}

/// `target *= other`.
pub fn mul_<'a>(target: &Tensor, other: impl Into<Operand<'a>>) -> Result<()> {
    let other = other.into();
    let dtype = result_type(target.into(), other)?;
    let op = if dtype == DType::Bool { BinaryOp::And } else { BinaryOp::Mul };
    binary(target, other, op, dtype, || {
        let before = before(target, other)?;
        let other = own(other, target)?;
        let (saved, formula) = mul_formula((&before).into(), borrowed(&other));
        Ok(("MulBackward0", saved, formula))
    })
}

/// `target /= other`.
pub fn div_<'a>(target: &Tensor, other: impl Into<Operand<'a>>) -> Result<()> {
    let other = other.into();
    let dtype = quotient_type(result_type(target.into(), other)?);
    binary(target, other, BinaryOp::Div, dtype, || {
        let before = before(target, other)?;
        let other = own(other, target)?;
        let (saved, formula) = div_formula((&before).into(), borrowed(&other));
        Ok(("DivBackward0", saved, formula))
    })
}

/// The target as it was, if the other operand's gradient reads it.
fn before(target: &Tensor, other: Operand<'_>) -> Result<Tensor> {
    match other.tensor().is_some_and(requires_grad) {
        true => copy::before_write(target),
        false => Ok(target.clone()),
    }
}

/// An operand to be saved: what is the target itself is saved as it was.
enum Owned {
    Tensor(Tensor),
    Number(Scalar),
}

fn own(other: Operand<'_>, target: &Tensor) -> Result<Owned> {
    Ok(match other {
        Operand::Tensor(tensor) if tensor.is(target) => Owned::Tensor(copy::before_write(tensor)?),
        Operand::Tensor(tensor) => Owned::Tensor(tensor.clone()),
        Operand::Number(number) => Owned::Number(number),
    })
}

fn borrowed(other: &Owned) -> Operand<'_> {
    match other {
        Owned::Tensor(tensor) => Operand::Tensor(tensor),
        Owned::Number(number) => Operand::Number(*number),
    }
}

/// Writes the elements of `source`, which broadcasts and may be of any dtype, over the target.
pub fn copy_(target: &Tensor, source: &Tensor) -> Result<()> {
    check_in_place(target)?;
    if !broadcasts(source.shape(), target.shape()) {
        return Err(Error::runtime(format!(
            "The size of tensor a {} must match the size of tensor b {}: output with shape {} doesn't match the \
             broadcast shape",
            show(target.shape()),
            show(source.shape()),
            show(target.shape())
        )));
    }
    if target.is(source) {
        return Ok(());
    }
    check_overlap(target)?;
    if source.is_meta() && !target.is_meta() {
        return Err(Error::not_implemented("Cannot copy out of meta tensor; no data!"));
    }
    // What is rounded to integers has no gradient.
    let node = (target.dtype().is_float() && is_recorded(&[target, source])).then(|| {
        let (shape, dtype) = (source.ty().shape.clone(), source.dtype());
        let formula: Formula = Box::new(move |call| {
            let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
            let own = factory::full(gradient.shape(), Scalar::Int(0), gradient.dtype(), gradient.is_meta())?;
            let source = if call.wants(1) && dtype.is_float() {
                Some(reduce::sum_to_size(gradient, &shape)?)
            } else {
                None
            };
            Ok(smallvec![Some(own), source])
        });
        node_of("CopyBackwards", &[target, source], target.ty(), smallvec![], formula)
    });
    if let (Data::Concrete(to), Data::Concrete(_)) = (target.data(), source.data()) {
        let data = expand(&cast(source.data(), target.dtype())?, target.shape())?;
        if let Data::Concrete(from) = &data {
            cpu().copy_into(from, to)?;
        }
    }
    if let Some(node) = node {
        rebase_history(target, node);
    }
    Ok(())
}

/// Writes one number over all elements.
pub fn fill_(target: &Tensor, value: Scalar) -> Result<()> {
    overwrite("FillBackward0", target, value)
}

/// Writes zeros over all elements.
pub fn zero_(target: &Tensor) -> Result<()> {
    overwrite("ZeroBackward0", target, Scalar::Int(0))
}

fn overwrite(name: &'static str, target: &Tensor, value: Scalar) -> Result<()> {
    check_in_place(target)?;
    check_overlap(target)?;
    let node = is_recorded(&[target]).then(|| {
        let formula: Formula = Box::new(move |call| {
            let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
            let zeros =
                factory::full(gradient.shape(), Scalar::Int(0), gradient.dtype(), gradient.is_meta())?;
            Ok(smallvec![Some(zeros)])
        });
        node_of(name, &[target], target.ty(), smallvec![], formula)
    });
    if let Data::Concrete(to) = target.data() {
        factory::fill(to, value)?;
    }
    if let Some(node) = node {
        rebase_history(target, node);
    }
    Ok(())
}
