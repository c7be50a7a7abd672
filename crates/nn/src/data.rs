//! Examples in host memory, and batches of them.

use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType};
use lanthorn_runtime::{Device, EagerTensor};

use crate::batch::Batch;
use crate::host::HostTensor;

/// Input and targets of one step.
pub trait Examples {
    /// Both on a device. Their first axes are the examples.
    ///
    /// Errors: shapes that do not fit; memory.
    fn to_device(&self, device: &Device) -> Result<[EagerTensor; 2]>;
}

impl Examples for Batch {
    fn to_device(&self, device: &Device) -> Result<[EagerTensor; 2]> {
        Batch::to_device(self, device)
    }
}

/// Tensors that are on the device already.
impl Examples for [EagerTensor; 2] {
    fn to_device(&self, _: &Device) -> Result<[EagerTensor; 2]> {
        Ok(self.clone())
    }
}

impl<E: Examples + ?Sized> Examples for &E {
    fn to_device(&self, device: &Device) -> Result<[EagerTensor; 2]> {
        (**self).to_device(device)
    }
}

/// Inputs `[n, ..]` and targets `[n, ..]` of any dtype, in host memory.
///
/// ```
/// use lanthorn_nn::{Dataset, HostTensor};
///
/// let inputs = HostTensor::from_f32(&[5, 2], (0..10).map(|x| x as f32))?;
/// let targets = HostTensor::from_i64(&[5], 0..5)?;
/// let data = Dataset::new(inputs, targets)?;
/// let (train, held_out) = data.split(4)?;
/// assert_eq!((train.len(), held_out.len()), (4, 1));
/// assert_eq!(train.rows(&[3, 0])?.inputs().to_f32()?, [6.0, 7.0, 0.0, 1.0]);
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    inputs: HostTensor,
    targets: HostTensor,
    len: usize,
}

impl Dataset {
    /// Examples along the first axes.
    ///
    /// Errors: tensors without a first axis, or with another number of examples.
    pub fn new(inputs: HostTensor, targets: HostTensor) -> Result<Dataset> {
        match (inputs.ty().shape.first(), targets.ty().shape.first()) {
            (Some(&len), Some(&found)) if len == found => Ok(Dataset { inputs, targets, len }),
            _ => {
                let (x, y) = (inputs.ty(), targets.ty());
                let message = format!("inputs {x} and targets {y} do not fit, expected as many of each");
                Err(Error::shape("dataset", message))
            }
        }
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no examples.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The inputs.
    pub fn inputs(&self) -> &HostTensor {
        &self.inputs
    }

    /// The targets.
    pub fn targets(&self) -> &HostTensor {
        &self.targets
    }

    /// The examples of these numbers, in that order.
    ///
    /// Errors: a number out of range.
    pub fn rows(&self, rows: &[usize]) -> Result<Dataset> {
        let (inputs, targets) = (gathered(&self.inputs, rows)?, gathered(&self.targets, rows)?);
        Ok(Dataset { inputs, targets, len: rows.len() })
    }

    /// The first `count` examples, and the others.
    ///
    /// Errors: more than there are.
    pub fn split(&self, count: usize) -> Result<(Dataset, Dataset)> {
        if count > self.len {
            let message = format!("the first {count} of {} examples are asked for", self.len);
            return Err(Error::shape("dataset", message));
        }
        let rows = |range: std::ops::Range<usize>| self.rows(&range.collect::<Vec<usize>>());
        Ok((rows(0..count)?, rows(count..self.len)?))
    }

    /// All examples in order, `rows` at a time; the last batch may have fewer.
    ///
    /// Errors: 0 rows.
    pub fn batches(&self, rows: usize) -> Result<Vec<Dataset>> {
        if rows == 0 {
            return Err(Error::shape("dataset", "batches of 0 examples, expected at least 1"));
        }
        let starts = (0..self.len).step_by(rows);
        starts.map(|first| self.rows(&(first..self.len.min(first + rows)).collect::<Vec<_>>())).collect()
    }
}

impl Examples for Dataset {
    fn to_device(&self, device: &Device) -> Result<[EagerTensor; 2]> {
        Ok([self.inputs.to_device(device)?, self.targets.to_device(device)?])
    }
}

/// The rows of these numbers along the first axis, of which there is one.
fn gathered(tensor: &HostTensor, rows: &[usize]) -> Result<HostTensor> {
    let TensorType { dtype, shape } = tensor.ty();
    let len = shape.first().copied().unwrap_or_default();
    let width = tensor.bytes().len().checked_div(len).unwrap_or_default();
    let mut bytes = Vec::new();
    let size = rows.len().saturating_mul(width);
    bytes.try_reserve_exact(size).map_err(|_| {
        let message = format!("{} examples take {size} bytes, more than there is memory", rows.len());
        Error::new(ErrorKind::OutOfMemory, "dataset", message)
    })?;
    for &row in rows {
        let row = Some(row)
            .filter(|&row| row < len)
            .and_then(|row| tensor.bytes().get(row * width..(row + 1) * width));
        let Some(row) = row else {
            return Err(Error::shape("dataset", format!("an example is asked for that {len} examples lack")));
        };
        bytes.extend_from_slice(row);
    }
    let mut shape = shape.clone();
    if let Some(first) = shape.first_mut() {
        *first = rows.len();
    }
    HostTensor::new(TensorType { dtype: *dtype, shape }, bytes)
}

impl HostTensor {
    /// An `f32` tensor.
    ///
    /// Errors: a number of elements that is not the shape's.
    pub fn from_f32(shape: &[usize], elements: impl IntoIterator<Item = f32>) -> Result<HostTensor> {
        let bytes = elements.into_iter().flat_map(f32::to_le_bytes).collect();
        HostTensor::new(TensorType::new(DType::F32, shape), bytes)
    }

    /// An `i64` tensor, such as classes.
    ///
    /// Errors: a number of elements that is not the shape's.
    pub fn from_i64(shape: &[usize], elements: impl IntoIterator<Item = i64>) -> Result<HostTensor> {
        let bytes = elements.into_iter().flat_map(i64::to_le_bytes).collect();
        HostTensor::new(TensorType::new(DType::I64, shape), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_examples_than_there_are_are_refused_before_anything_is_allocated() {
        let data = Dataset::new(
            HostTensor::from_f32(&[2, 1], [1.0, 2.0]).unwrap(),
            HostTensor::from_f32(&[2], [1.0, 2.0]).unwrap(),
        );
        let error = data.unwrap().split(1 << 50).unwrap_err().to_string();
        assert_eq!(error, format!("dataset: the first {} of 2 examples are asked for", 1u64 << 50));
    }
}
