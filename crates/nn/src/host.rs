//! Tensors in host memory: how parameters and optimiser state enter and leave a model.

use lanthorn_ir::layout::check_size;
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType};
use lanthorn_runtime::{Device, EagerTensor};

/// A dense row-major tensor, little-endian as every device and file of this engine has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTensor {
    ty: TensorType,
    bytes: Vec<u8>,
}

impl HostTensor {
    /// A tensor of these bytes.
    ///
    /// Errors: a number of bytes that is not the type's.
    pub fn new(ty: TensorType, bytes: Vec<u8>) -> Result<HostTensor> {
        check_size("host_tensor", &ty)?;
        if ty.bytes() != bytes.len() {
            let (expected, found) = (ty.bytes(), bytes.len());
            return Err(Error::shape("host_tensor", format!("{ty} takes {expected} bytes, got {found}")));
        }
        Ok(HostTensor { ty, bytes })
    }

    /// Floats rounded to `dtype`.
    ///
    /// Errors: a number of elements that is not the shape's; a dtype other than `f32` and `f64`.
    pub fn from_f64(
        dtype: DType,
        shape: &[usize],
        elements: impl Iterator<Item = f64>,
    ) -> Result<HostTensor> {
        let ty = TensorType::new(dtype, shape);
        let mut bytes = reserved(&ty)?;
        match dtype {
            DType::F32 => bytes.extend(elements.flat_map(|x| (x as f32).to_le_bytes())),
            DType::F64 => bytes.extend(elements.flat_map(f64::to_le_bytes)),
            other => {
                return Err(Error::dtype("host_tensor", format!("cannot make {other}, expected f32 or f64")));
            }
        }
        HostTensor::new(ty, bytes)
    }

    /// Zeros of any type.
    pub fn zeros(ty: TensorType) -> Result<HostTensor> {
        check_size("host_tensor", &ty)?;
        let mut bytes = reserved(&ty)?;
        bytes.resize(ty.bytes(), 0);
        Ok(HostTensor { ty, bytes })
    }

    /// A copy of a device's tensor.
    ///
    /// Errors: what reading from the device reports.
    pub fn from_device(tensor: &EagerTensor) -> Result<HostTensor> {
        HostTensor::new(tensor.ty().clone(), tensor.to_bytes()?)
    }

    /// A copy on a device.
    ///
    /// Errors: memory.
    pub fn to_device(&self, device: &Device) -> Result<EagerTensor> {
        EagerTensor::from_bytes(device, &self.ty, &self.bytes)
    }

    /// Dtype and shape.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The elements in row-major order, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The elements in row-major order, little-endian.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The elements of an `f32` or `f64` tensor.
    ///
    /// Errors: another dtype.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        match self.ty.dtype {
            DType::F32 => {
                Ok(self.bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes).into()).collect())
            }
            DType::F64 => {
                Ok(self.bytes.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect())
            }
            other => Err(Error::dtype("host_tensor", format!("the tensor is {other}, expected f32 or f64"))),
        }
    }

    /// The elements of an `f32` tensor.
    ///
    /// Errors: another dtype.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        match self.ty.dtype {
            DType::F32 => {
                Ok(self.bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
            }
            other => Err(Error::dtype("host_tensor", format!("the tensor is {other}, expected f32"))),
        }
    }
}

/// Room for a tensor's bytes, or an error where the system has none.
fn reserved(ty: &TensorType) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match bytes.try_reserve_exact(ty.bytes()) {
        Ok(()) => Ok(bytes),
        Err(_) => {
            let message = format!("{ty} takes {} bytes, more than there is memory", ty.bytes());
            Err(Error::new(ErrorKind::OutOfMemory, "host_tensor", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_of_elements_is_an_error() {
        assert!(HostTensor::from_f64(DType::F32, &[2, 2], [1.0; 3].into_iter()).is_err());
        let error = HostTensor::new(TensorType::new(DType::F64, [2]), vec![0; 8]).unwrap_err();
        assert_eq!(error.to_string(), "host_tensor: f64[2] takes 16 bytes, got 8");
    }

    #[test]
    fn elements_come_back() {
        let tensor = HostTensor::from_f64(DType::F64, &[2], [0.1, -2.0].into_iter()).unwrap();
        assert_eq!(tensor.to_f64().unwrap(), [0.1, -2.0]);
        let tensor = HostTensor::from_f64(DType::F32, &[2], [0.1, -2.0].into_iter()).unwrap();
        assert_eq!(tensor.to_f32().unwrap(), [0.1f32, -2.0]);
    }
}
