//! A session with short ways to say things.

use std::sync::Arc;

use lanthorn_cpu::CpuBackend;
use lanthorn_ir::ops::table::{Attribute, id_of};
use lanthorn_ir::{DType, Error, TensorType};
use lanthorn_runtime::Device;
use lanthorn_session::{Handle, Session};

/// A device of its own, so that counters are a test's own.
pub fn device() -> Device {
    Device::new(Arc::new(CpuBackend))
}

/// A session on a device of its own.
pub struct Face {
    pub session: Session<Device>,
}

impl Face {
    pub fn new() -> Face {
        Face { session: Session::new(device()) }
    }

    pub fn f32(&mut self, shape: &[usize], elements: &[f32]) -> Handle {
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_ne_bytes()).collect();
        self.session.create(&TensorType::new(DType::F32, shape), &bytes).unwrap()
    }

    pub fn variable(&mut self, shape: &[usize], elements: &[f32]) -> Handle {
        let tensor = self.f32(shape, elements);
        self.session.requires_grad(tensor, true).unwrap();
        tensor
    }

    pub fn try_op(
        &mut self,
        name: &str,
        tensors: &[Handle],
        attributes: &[Attribute],
    ) -> Result<Handle, Error> {
        let tensors: Vec<Option<Handle>> = tensors.iter().copied().map(Some).collect();
        Ok(self.session.op(id_of(name).unwrap(), &tensors, attributes)?[0])
    }

    pub fn op(&mut self, name: &str, tensors: &[Handle], attributes: &[Attribute]) -> Handle {
        self.try_op(name, tensors, attributes).unwrap()
    }

    pub fn sum(&mut self, tensor: Handle) -> Handle {
        self.op("sum", &[tensor], &[])
    }

    pub fn try_assign(
        &mut self,
        target: Handle,
        name: &str,
        tensors: &[Handle],
        attributes: &[Attribute],
    ) -> Result<(), Error> {
        let tensors: Vec<Option<Handle>> = tensors.iter().copied().map(Some).collect();
        self.session.assign(target, id_of(name).unwrap(), &tensors, attributes)
    }

    pub fn assign(&mut self, target: Handle, name: &str, tensors: &[Handle], attributes: &[Attribute]) {
        self.try_assign(target, name, tensors, attributes).unwrap();
    }

    pub fn no_grad<T>(&mut self, work: impl FnOnce(&mut Face) -> T) -> T {
        self.session.enter_no_grad();
        let result = work(self);
        self.session.leave_no_grad().unwrap();
        result
    }

    pub fn backward(&mut self, loss: Handle) {
        self.session.backward(loss, None).unwrap();
    }

    pub fn read(&mut self, tensor: Handle) -> Vec<f64> {
        self.session.read(tensor).unwrap().1.to_f64_vec().unwrap()
    }

    pub fn grad(&mut self, tensor: Handle) -> Option<Vec<f64>> {
        let grad = self.session.grad(tensor).unwrap()?;
        let elements = self.read(grad);
        self.release(&[grad]);
        Some(elements)
    }

    pub fn release(&mut self, tensors: &[Handle]) {
        for &tensor in tensors {
            self.session.release(tensor).unwrap();
        }
    }
}

pub fn float(value: f64) -> [Attribute; 1] {
    [Attribute::Float(value)]
}

pub fn ints(values: &[i64]) -> [Attribute; 1] {
    [Attribute::Ints(values.to_vec())]
}

pub fn int2(first: i64, second: i64) -> [Attribute; 2] {
    [Attribute::Int(first), Attribute::Int(second)]
}

pub fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}, expected {expected:?}");
    for (x, y) in found.iter().zip(expected) {
        assert!((x - y).abs() <= 1e-5 * y.abs().max(1.0), "{found:?}, expected {expected:?}");
    }
}
