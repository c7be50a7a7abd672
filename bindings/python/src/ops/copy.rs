//! Copies: of elements, to another dtype, into another geometry.

use lanthorn_ir::{DType, Layout};
use lanthorn_runtime::EagerTensor;
use smallvec::smallvec;

use super::{cast, in_place};
use crate::autograd::history::{is_recorded, record};
use crate::autograd::node::{Call, Formula, Gradients};
use crate::error::Result;
use crate::tensor::{Data, Tensor};
use crate::{cpu, device};

/// The elements in fresh memory in row-major order, below autograd.
pub(crate) fn contiguous_copy(data: &Data) -> Result<Data> {
    match data {
        Data::Concrete(tensor) => Ok(Data::Concrete(tensor.copy()?)),
        Data::Meta { ty, .. } => Ok(Data::meta(ty.clone())),
    }
}

fn identity() -> Formula {
    Box::new(|call: &Call<'_>| -> Result<Gradients> { Ok(smallvec![call.gradient().cloned()]) })
}

/// A copy that gradients flow through.
pub fn clone(a: &Tensor) -> Result<Tensor> {
    let result = Tensor::new(contiguous_copy(a.data())?);
    if is_recorded(&[a]) {
        record("CloneBackward0", &[a], &result, smallvec![], identity());
    }
    Ok(result)
}

/// The tensor itself if its elements lie in row-major order, else a copy.
pub fn contiguous(a: &Tensor) -> Result<Tensor> {
    if a.layout().is_contiguous() { Ok(a.clone()) } else { clone(a) }
}

/// The elements in another dtype; the tensor itself if it has that dtype.
pub fn to(a: &Tensor, dtype: DType) -> Result<Tensor> {
    if a.dtype() == dtype {
        return Ok(a.clone());
    }
    let result = Tensor::new(cast(a.data(), dtype)?);
    if dtype.is_float() && is_recorded(&[a]) {
        let from = a.dtype();
        let formula: Formula = Box::new(move |call| {
            let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
            Ok(smallvec![Some(to(gradient, from)?)])
        });
        record("ToCopyBackward0", &[a], &result, smallvec![], formula);
    }
    Ok(result)
}

/// A copy whose strides are those of `layout`, beginning at 0 of fresh memory. Where the layout shows one place
/// twice, or leaves much of it out, the copy is contiguous.
pub(crate) fn copy_with_layout(a: &Tensor, layout: &Layout) -> Result<Tensor> {
    let is_plain = layout.is_contiguous() || a.shape() != &layout.shape[..];
    if is_plain || a.is_meta() || !is_dense(layout) {
        return clone(a);
    }
    let ty = a.ty().clone();
    let whole = EagerTensor::empty(device(), &lanthorn_ir::TensorType::new(ty.dtype, [ty.numel()]))?;
    let target = whole.with_layout(Layout { offset: 0, ..layout.clone() })?;
    cpu().copy_into(a.concrete()?, &target)?;
    let result = Tensor::new(Data::Concrete(target));
    if is_recorded(&[a]) {
        record("CloneBackward0", &[a], &result, smallvec![], identity());
    }
    Ok(result)
}

/// True if the elements fill their memory without gaps or overlaps, in whatever order of axes.
pub(crate) fn is_dense(layout: &Layout) -> bool {
    let mut axes: smallvec::SmallVec<[(isize, usize); 4]> = (layout.strides.iter().zip(&layout.shape))
        .filter(|(_, size)| **size != 1)
        .map(|(&stride, &size)| (stride, size))
        .collect();
    axes.sort_unstable();
    let mut step = 1isize;
    axes.iter().all(|&(stride, size)| {
        let fits = stride == step;
        step = step.saturating_mul(size as isize);
        fits
    })
}

/// A copy that nothing else sees, for a value that is about to be written over.
pub(crate) fn before_write(a: &Tensor) -> Result<Tensor> {
    let copy = Tensor::new(contiguous_copy(a.data())?);
    if is_recorded(&[a]) {
        record("CloneBackward0", &[a], &copy, smallvec![], identity());
    }
    Ok(copy)
}

/// Copies elements into a tensor; see [`in_place::copy_`].
pub fn into(target: &Tensor, source: &Tensor) -> Result<()> {
    in_place::copy_(target, source)
}
