//! Small tools of the tests.

use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::{DType, Result, TensorType, Value};

/// Numbers from a fixed sequence.
pub struct Sequence(u64);

impl Sequence {
    pub fn new(seed: u64) -> Self {
        Sequence(seed)
    }

    /// Uniform in `low..high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        low + (high - low) * ((self.0 >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// f64 elements in `low..high`.
    pub fn tensor(&mut self, shape: &[usize], low: f64, high: f64) -> HostTensor {
        let n = shape.iter().product();
        let elements: Vec<f64> = (0..n).map(|_| self.uniform(low, high)).collect();
        HostTensor::from_f64(DType::F64, shape, &elements).unwrap()
    }

    /// Elements of either sign that keep away from 0, where some functions have a kink.
    pub fn away_from_zero(&mut self, shape: &[usize]) -> HostTensor {
        let n = shape.iter().product();
        let elements: Vec<f64> = (0..n)
            .map(|_| self.uniform(0.3, 1.4) * if self.uniform(0.0, 1.0) < 0.5 { -1.0 } else { 1.0 })
            .collect();
        HostTensor::from_f64(DType::F64, shape, &elements).unwrap()
    }
}

pub fn ints(shape: &[usize], elements: &[i64]) -> HostTensor {
    HostTensor::from_i64(DType::I64, shape, elements).unwrap()
}

pub fn floats(shape: &[usize], elements: &[f64]) -> HostTensor {
    HostTensor::from_f64(DType::F64, shape, elements).unwrap()
}

pub fn leaf_of(tensor: &HostTensor) -> Value {
    Value::leaf(tensor.ty().clone()).unwrap()
}

pub fn leaf(dtype: DType, shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(dtype, shape)).unwrap()
}

/// `f` of tensors, by way of the graph.
pub fn run(f: impl Fn(&[Value]) -> Result<Vec<Value>>, inputs: &[HostTensor]) -> Vec<HostTensor> {
    let leaves: Vec<Value> = inputs.iter().map(leaf_of).collect();
    let roots = f(&leaves).unwrap();
    let bindings: Vec<_> = leaves.into_iter().zip(inputs.iter().cloned()).collect();
    eval(&roots, &bindings).unwrap()
}

/// Panics unless the values agree within `tolerance`, absolute and relative; equal infinities and NaN agree.
#[track_caller]
pub fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: counts differ");
    for (i, (&x, &y)) in found.iter().zip(expected).enumerate() {
        let same = x == y || (x.is_nan() && y.is_nan());
        assert!(
            same || (x - y).abs() <= tolerance * (1.0 + y.abs()),
            "{what}: element {i} is {x}, expected {y}\nfound    {found:?}\nexpected {expected:?}"
        );
    }
}
