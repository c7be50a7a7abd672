//! Dispatched ops: what Python calls and what derivatives are made of.
//!
//! Each op finds the dtype and shape of its result, runs primitives of the engine below autograd, and records a node
//! if a gradient is asked for. Shapes and strides come from `infer` and from layouts alone, so a tensor without
//! memory (`meta`) passes the same code. Derivatives call these ops again, hence derivatives of derivatives.

pub mod arithmetic;
pub mod compare;
pub mod copy;
pub mod factory;
pub mod generic;
pub mod in_place;
pub mod matmul;
pub mod reduce;
pub mod unary;
pub mod views;

use lanthorn_ir::builder::Outputs;
use lanthorn_ir::layout::ShowShape;
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{Builder, DType, Dims, Prim, TensorType};
use lanthorn_runtime::EagerTensor;
use smallvec::SmallVec;

use crate::cpu;
use crate::error::{Error, Result};
use crate::tensor::{Data, Tensor};

/// Follows shapes and dtypes only: primitives on tensors without memory.
#[derive(Clone, Copy)]
pub struct Shapes;

impl Builder for Shapes {
    type Value = TensorType;

    fn apply(&self, prim: Prim, inputs: &[TensorType]) -> lanthorn_ir::Result<Outputs<TensorType>> {
        let inputs: SmallVec<[&TensorType; 4]> = inputs.iter().collect();
        Ok(prim.infer(&inputs)?.into_iter().collect())
    }

    fn ty<'a>(&self, value: &'a TensorType) -> &'a TensorType {
        value
    }
}

/// Runs one primitive with one result, below autograd.
pub(crate) fn apply(prim: Prim, inputs: &[&Data]) -> Result<Data> {
    if inputs.iter().any(|data| matches!(data, Data::Meta { .. })) {
        let types: SmallVec<[TensorType; 4]> = inputs.iter().map(|data| data.ty().clone()).collect();
        return Ok(Data::meta(Shapes.apply1(prim, &types)?));
    }
    let eager: SmallVec<[&EagerTensor; 3]> = inputs.iter().copied().filter_map(concrete).collect();
    let mut results = cpu().apply_ref(prim, &eager)?;
    match results.pop() {
        Some(result) if results.is_empty() => Ok(Data::Concrete(result)),
        _ => Err(Error::runtime("a primitive has not one result")),
    }
}

fn concrete(data: &Data) -> Option<&EagerTensor> {
    match data {
        Data::Concrete(tensor) => Some(tensor),
        Data::Meta { .. } => None,
    }
}

/// The elements in another dtype, below autograd; the same data if it is that dtype already.
pub(crate) fn cast(data: &Data, dtype: DType) -> Result<Data> {
    if data.ty().dtype == dtype {
        return Ok(data.clone());
    }
    apply(Prim::Elementwise(Elementwise::Cast(dtype)), &[data])
}

/// The elements repeated to a shape to which they broadcast.
pub(crate) fn expand(data: &Data, shape: &[usize]) -> Result<Data> {
    if data.ty().shape[..] == *shape {
        return Ok(data.clone());
    }
    data.with_layout(data.layout().broadcast(shape))
}

/// True if a value of shape `from` broadcasts to `to`.
pub fn broadcasts(from: &[usize], to: &[usize]) -> bool {
    let Some(lead) = to.len().checked_sub(from.len()) else { return false };
    from.iter().zip(&to[lead..]).all(|(&size, &wanted)| size == wanted || size == 1)
}

/// The shape to which both broadcast.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Result<Dims> {
    if a == b {
        return Ok(Dims::from_slice(a));
    }
    let rank = a.len().max(b.len());
    let mut shape: Dims = SmallVec::from_elem(1, rank);
    for axis in 0..rank {
        let size = |of: &[usize]| {
            (axis + of.len()).checked_sub(rank).and_then(|at| of.get(at)).copied().unwrap_or(1)
        };
        let (x, y) = (size(a), size(b));
        if x != y && x != 1 && y != 1 {
            return Err(Error::runtime(format!(
                "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {axis}"
            )));
        }
        shape[axis] = if x == 1 { y } else { x };
    }
    Ok(shape)
}

/// An axis that may be negative, of a tensor of that rank (a scalar counts as one axis).
pub fn resolve_axis(axis: i64, rank: usize) -> Result<usize> {
    let size = rank.max(1) as i64;
    if axis < -size || axis >= size {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {axis})",
            -size,
            size - 1
        )));
    }
    Ok(if axis < 0 { (axis + size) as usize } else { axis as usize })
}

/// A size that came from outside.
pub fn size_of(size: i64) -> Result<usize> {
    usize::try_from(size)
        .map_err(|_| Error::runtime(format!("Trying to create tensor with negative dimension {size}")))
}

/// A shape that came from outside.
pub fn sizes_of(sizes: &[i64]) -> Result<Dims> {
    let shape: Dims = sizes.iter().map(|&size| size_of(size)).collect::<Result<_>>().map_err(|_| {
        let dimension = sizes.iter().find(|size| **size < 0).copied().unwrap_or(-1);
        Error::runtime(format!("Trying to create tensor with negative dimension {dimension}: {sizes:?}"))
    })?;
    Ok(shape)
}

/// Says that an op is not differentiable here, rather than lose a gradient in silence.
pub(crate) fn refuse_gradient(op: &str, operands: &[&Tensor]) -> Result<()> {
    if crate::autograd::history::is_recorded(operands) {
        return Err(Error::not_implemented(format!(
            "derivative for {op} is not implemented; call it under no_grad or on detached tensors"
        )));
    }
    Ok(())
}

/// `[2, 3]`.
pub(crate) fn show(shape: &[usize]) -> String {
    ShowShape(shape).to_string()
}
