//! Tensors from data, from constants, and from the random state.

use lanthorn_ir::expr::Scalar;
use lanthorn_ir::{DType, Error, Lazy, Result, TensorType, ops};

use super::Tensor;
use crate::compiled::trace;
use crate::device::Device;
use crate::eager::EagerTensor;
use crate::element::Element;
use crate::slot;

/// True for the scalars that are part of a program's structure.
pub(super) fn is_structural(value: Scalar) -> bool {
    // A traced function runs once for each signature; its scalars stay what they are.
    trace::is_active() || value.is_structural()
}

/// One value everywhere, with `op` in errors.
fn filled(op: &str, device: &Device, shape: &[usize], value: Scalar, dtype: DType) -> Result<Tensor> {
    let named = |error: Error| Error::new(error.kind, op, error.message);
    let value = Tensor::scalar(device, value, dtype).map_err(named)?.value();
    Ok(Tensor::from_value(device, ops::broadcast_to(&Lazy, &value, shape).map_err(named)?))
}

impl Tensor {
    /// A copy of elements in row-major order.
    ///
    /// Errors: a number of elements that is not the shape's.
    pub fn from_slice<T: Element>(device: &Device, shape: &[usize], elements: &[T]) -> Result<Tensor> {
        Tensor::from_eager(&EagerTensor::from_slice(device, shape, elements)?)
    }

    /// The elements of a vector in row-major order; a large one is not copied on a device in host memory.
    pub fn from_vec<T: Element>(device: &Device, shape: &[usize], elements: Vec<T>) -> Result<Tensor> {
        Tensor::from_eager(&EagerTensor::from_vec(device, shape, elements)?)
    }

    /// A copy of the bytes of elements in row-major order, in the machine's byte order.
    pub fn from_bytes(device: &Device, ty: &TensorType, bytes: &[u8]) -> Result<Tensor> {
        Tensor::from_eager(&EagerTensor::from_bytes(device, ty, bytes)?)
    }

    /// A tensor of rank 0.
    pub fn scalar(device: &Device, value: impl Into<Scalar>, dtype: DType) -> Result<Tensor> {
        let value = value.into();
        if is_structural(value) {
            return Ok(Tensor::from_value(device, ops::scalar(&Lazy, value, dtype)?));
        }
        Tensor::from_eager(&EagerTensor::scalar(device, value, dtype)?)
    }

    /// One value everywhere.
    pub fn full(device: &Device, shape: &[usize], value: impl Into<Scalar>, dtype: DType) -> Result<Tensor> {
        filled("full", device, shape, value.into(), dtype)
    }

    /// Zeros.
    pub fn zeros(device: &Device, shape: &[usize], dtype: DType) -> Result<Tensor> {
        filled("zeros", device, shape, Scalar::Int(0), dtype)
    }

    /// Ones.
    pub fn ones(device: &Device, shape: &[usize], dtype: DType) -> Result<Tensor> {
        filled("ones", device, shape, Scalar::Int(1), dtype)
    }

    /// `start, start + step, ...` up to and without `stop`.
    pub fn arange(
        device: &Device,
        start: impl Into<Scalar>,
        stop: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<Tensor> {
        Ok(Tensor::from_value(device, ops::arange(&Lazy, start, stop, step, dtype)?))
    }

    /// `steps` evenly spaced numbers from `start` to `stop`, both included.
    pub fn linspace(device: &Device, start: f64, stop: f64, steps: usize, dtype: DType) -> Result<Tensor> {
        Ok(Tensor::from_value(device, ops::linspace(&Lazy, start, stop, steps, dtype)?))
    }

    /// The identity matrix `[n, n]`.
    pub fn eye(device: &Device, n: usize, dtype: DType) -> Result<Tensor> {
        Ok(Tensor::from_value(device, ops::eye(&Lazy, n, dtype)?))
    }

    /// The key of the next draw of the device's random sequence, `u64[2]`. Inside a compiled function it is an
    /// argument that every call fills anew.
    pub fn random_key(device: &Device) -> Result<Tensor> {
        match trace::key(device)? {
            Some(placeholder) => Ok(Tensor::from_value(device, placeholder)),
            None => Ok(Tensor::from_value(device, slot::leaf(device.next_key()?)?)),
        }
    }

    /// Uniform values in `[0, 1)`.
    pub fn rand(device: &Device, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let key = Tensor::random_key(device)?.value();
        Ok(Tensor::from_value(device, ops::uniform(&Lazy, &key, shape, 0.0, 1.0, dtype, 0)?))
    }

    /// Normal values of mean 0 and standard deviation 1.
    pub fn randn(device: &Device, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let key = Tensor::random_key(device)?.value();
        Ok(Tensor::from_value(device, ops::normal(&Lazy, &key, shape, 0.0, 1.0, dtype, 0)?))
    }

    /// The elements on another device; the tensor itself if it is there.
    pub fn to_device(&self, device: &Device) -> Result<Tensor> {
        if self.device() == device {
            return Ok(self.clone());
        }
        Tensor::from_bytes(device, self.ty(), &self.to_bytes()?)
    }
}
