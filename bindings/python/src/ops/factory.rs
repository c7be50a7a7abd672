//! Tensors from nothing.

use lanthorn_ir::expr::Scalar;
use lanthorn_ir::layout::check_size;
use lanthorn_ir::{DType, Dims, Layout, TensorType, ops};
use lanthorn_runtime::EagerTensor;

use crate::error::{Error, Result};
use crate::tensor::{Data, Tensor};
use crate::{cpu, device};

/// A contiguous tensor, contents unspecified.
pub fn empty(shape: &[usize], dtype: DType, is_meta: bool) -> Result<Tensor> {
    let ty = TensorType::new(dtype, shape);
    check_size("empty", &ty)?;
    if is_meta {
        return Ok(Tensor::new(Data::meta(ty)));
    }
    Ok(Tensor::new(Data::Concrete(EagerTensor::empty(device(), &ty)?)))
}

/// A tensor full of one number.
pub fn full(shape: &[usize], value: Scalar, dtype: DType, is_meta: bool) -> Result<Tensor> {
    let tensor = empty(shape, dtype, is_meta)?;
    if let Data::Concrete(target) = tensor.data() {
        fill(target, value)?;
        return Ok(Tensor::new(tensor.data().clone()));
    }
    Ok(tensor)
}

/// Writes one number over all elements.
pub(crate) fn fill(target: &EagerTensor, value: Scalar) -> Result<()> {
    let scalar = narrowed(value, target.dtype())?;
    let layout = scalar.layout().broadcast(target.shape());
    Ok(cpu().copy_into(&scalar.with_layout(layout)?, target)?)
}

/// A Python number as an operand of an op that computes in `dtype`.
pub(crate) fn number(value: Scalar, dtype: DType) -> Result<Data> {
    Ok(Data::Concrete(narrowed(value, dtype)?))
}

/// A number as a tensor of rank 0: truncated and wrapped to an integer dtype, as upstream does.
fn narrowed(value: Scalar, dtype: DType) -> Result<EagerTensor> {
    let bytes = value.to_bytes(dtype);
    Ok(EagerTensor::from_bytes(device(), &lanthorn_ir::TensorType::scalar(dtype), &bytes[..dtype.size()])?)
}

/// How many numbers `arange` gives.
pub fn arange_len(start: f64, stop: f64, step: f64) -> Result<usize> {
    if step == 0.0 {
        return Err(Error::runtime("step must be nonzero"));
    }
    if !start.is_finite() || !stop.is_finite() || step.is_nan() {
        return Err(Error::runtime(format!("unsupported range: {start} -> {stop}")));
    }
    if (step > 0.0) != (stop >= start) && start != stop {
        return Err(Error::runtime("upper bound and lower bound inconsistent with step sign"));
    }
    let count = ((stop - start) / step).ceil().max(0.0);
    if count > isize::MAX as f64 {
        return Err(Error::runtime(format!("invalid size, possible overflow: {count} elements")));
    }
    Ok(count as usize)
}

/// `start, start + step, ..` up to and without `stop`.
pub fn arange(start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Result<Tensor> {
    let mut count = arange_len(start.as_f64(), stop.as_f64(), step.as_f64())?;
    if let (Scalar::Int(start), Scalar::Int(stop), Scalar::Int(step)) = (start, stop, step) {
        // Beyond 2^53 a double cannot tell the ends apart.
        let (span, step) = (i128::from(stop) - i128::from(start), i128::from(step));
        let exact = (span + step - step.signum()) / step;
        count = usize::try_from(exact.max(0)).unwrap_or(usize::MAX);
    }
    check_size("arange", &TensorType::new(dtype, [count]))?;
    if let (Scalar::Int(first), Scalar::Int(step), true) = (start, step, dtype.is_int()) {
        let at = |i: usize| first.wrapping_add((i as i64).wrapping_mul(step));
        let ramp: Vec<i64> = (0..count).map(at).collect();
        let ramp = EagerTensor::from_vec(device(), &[count], ramp)?;
        return Ok(Tensor::new(super::cast(&Data::Concrete(ramp), dtype)?));
    }
    let at = |i: usize| start.as_f64() + i as f64 * step.as_f64();
    let ramp = EagerTensor::from_vec(device(), &[count], (0..count).map(at).collect())?;
    Ok(Tensor::new(super::cast(&Data::Concrete(ramp), dtype)?))
}

/// Uniform numbers in `low..high` of the counter-based generator: the same on every device.
pub fn uniform(seed: u64, draw: u64, shape: &[usize], low: f64, high: f64, dtype: DType) -> Result<Tensor> {
    let key = EagerTensor::from_slice(device(), &[2], &[seed, draw])?;
    Ok(Tensor::new(Data::Concrete(ops::uniform(cpu(), &key, shape, low, high, dtype, 0)?)))
}

/// A tensor over memory that the engine already wraps.
pub fn of_parts(tensor: EagerTensor) -> Tensor {
    Tensor::new(Data::Concrete(tensor))
}

/// The row-major layout of a shape.
pub fn contiguous(shape: &Dims) -> Layout {
    Layout::contiguous(shape)
}
