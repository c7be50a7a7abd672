//! A first look at every part.

use std::sync::Arc;

use lanthorn_cpu::CpuBackend;
use lanthorn_ir::ops::table::{Attribute, id_of};
use lanthorn_ir::{DType, TensorType};
use lanthorn_runtime::Device;
use lanthorn_session::{Handle, Session};

struct Face(Session<Device>);

impl Face {
    fn new() -> Face {
        Face(Session::new(Device::new(Arc::new(CpuBackend))))
    }
    fn f32(&mut self, shape: &[usize], elements: &[f32]) -> Handle {
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_ne_bytes()).collect();
        self.0.create(&TensorType::new(DType::F32, shape), &bytes).unwrap()
    }
    fn op(&mut self, name: &str, tensors: &[Handle], attributes: &[Attribute]) -> Handle {
        let tensors: Vec<Option<Handle>> = tensors.iter().copied().map(Some).collect();
        self.0.op(id_of(name).unwrap(), &tensors, attributes).unwrap()[0]
    }
    fn read(&mut self, tensor: Handle) -> Vec<f64> {
        self.0.read(tensor).unwrap().1.to_f64_vec().unwrap()
    }
}

#[test]
fn gradients_and_writes() {
    let mut f = Face::new();
    let w = f.f32(&[2], &[3.0, 4.0]);
    f.0.requires_grad(w, true).unwrap();
    let y = f.op("mul_scalar", &[w], &[Attribute::Float(3.0)]);
    let y = f.op("mul", &[y, w], &[]);
    let loss = f.op("sum", &[y], &[]);
    f.0.backward(loss, None).unwrap();
    let g = f.0.grad(w).unwrap().unwrap();
    assert_eq!(f.read(g), [18.0, 24.0]);
    f.0.enter_no_grad();
    let step = f.op("mul_scalar", &[g], &[Attribute::Float(0.1)]);
    f.0.assign(w, id_of("sub").unwrap(), &[Some(w), Some(step)], &[]).unwrap();
    f.0.leave_no_grad().unwrap();
    let read = f.read(w);
    assert!((read[0] - 1.2).abs() < 1e-6 && (read[1] - 1.6).abs() < 1e-6, "{read:?}");
    let x = f.f32(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let row = f.op("select", &[x], &[Attribute::Int(1), Attribute::Int(-1)]);
    f.0.assign(row, id_of("neg").unwrap(), &[Some(row)], &[]).unwrap();
    assert_eq!(f.read(x), [0.0, 1.0, -2.0, 3.0, 4.0, -5.0]);
    assert_eq!(f.read(row), [-2.0, -5.0]);
}
