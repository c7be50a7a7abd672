//! Programs and single kernels on a backend: the suite's device with the backend that the crate of tests names by
//! `crate::backend`. The tests of other backends use this file too.

use std::sync::Arc;

use lanthorn_compiler::backend::Memory;
use lanthorn_compiler::pipeline::Options;
use lanthorn_interp::HostTensor;
use lanthorn_ir::builder::Outputs;
use lanthorn_ir::{Builder, DType, Prim, Result, TensorType, Value};
use lanthorn_optest::device::{self, Device, Runner};
use lanthorn_optest::report;

// Not every crate of tests uses all of it.
#[allow(unused_imports)]
pub use lanthorn_optest::device::{Lie, from_bytes, to_bytes};
#[allow(unused_imports)]
pub use lanthorn_optest::tolerance::of as tolerance;

use crate::backend;

/// Everything the CPU computes in.
pub const DTYPES: [DType; 13] = [
    DType::Bool,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

fn device() -> Device {
    Device::whole(backend())
}

/// Memory with these bytes, and a guard after them that no kernel may touch.
pub fn memory(bytes: &[u8]) -> Arc<dyn Memory> {
    device::memory(backend(), bytes)
}

/// The first `length` bytes; the guard behind them must stand.
pub fn read(memory: &dyn Memory, length: usize) -> Vec<u8> {
    device::read(backend(), memory, length)
}

pub fn build(leaves: &[Value], roots: &[Value], options: &Options) -> Result<Runner> {
    device().build(leaves, roots, options)
}

/// Compiles and runs.
pub fn run(
    leaves: &[Value],
    roots: &[Value],
    arguments: &[HostTensor],
    optimize: bool,
) -> Result<Vec<HostTensor>> {
    device().run(leaves, roots, arguments, optimize)
}

/// A strided tensor on the backend.
#[derive(Clone)]
pub struct Strided(device::Strided);

impl Strided {
    pub fn new(tensor: &HostTensor, lie: Lie) -> Strided {
        Strided(device().place(tensor, lie))
    }

    pub fn tensor(&self) -> HostTensor {
        device().fetch(&self.0)
    }
}

/// The eager path: each primitive at once, on views, one kernel at a time.
#[derive(Clone, Copy, Default)]
pub struct Eager;

impl Builder for Eager {
    type Value = Strided;

    fn apply(&self, prim: Prim, inputs: &[Strided]) -> Result<Outputs<Strided>> {
        let inputs: Vec<device::Strided> = inputs.iter().map(|input| input.0.clone()).collect();
        Ok(device::Eager(device()).apply(prim, &inputs)?.into_iter().map(Strided).collect())
    }

    fn ty<'a>(&self, value: &'a Strided) -> &'a TensorType {
        value.0.ty()
    }
}

/// Integers and truth values agree exactly, floats within `tolerance`, absolute and relative.
#[track_caller]
pub fn assert_close(what: &str, found: &HostTensor, expected: &HostTensor, tolerance: f64) {
    if let Err(message) = report::equal(what, found, expected, tolerance) {
        panic!("{message}");
    }
}

pub fn leaf_of(tensor: &HostTensor) -> Value {
    Value::leaf(tensor.ty().clone()).unwrap()
}

/// Holds programs of `f`, optimised and not, and (if `lies`) eager runs over every way the arguments can lie
/// in memory, against the reference.
#[track_caller]
pub fn check(
    what: &str,
    f: &dyn Fn(&[Value]) -> Result<Vec<Value>>,
    arguments: &[HostTensor],
    tolerance: f64,
) -> Vec<HostTensor> {
    let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
    let roots = f(&leaves).unwrap();
    let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
    let expected = lanthorn_interp::eval(&roots, &bindings).unwrap();
    for optimize in [false, true] {
        let what = format!("{what}, optimize {optimize}");
        let found = run(&leaves, &roots, arguments, optimize).unwrap_or_else(|e| panic!("{what}: {e}"));
        for (found, expected) in found.iter().zip(&expected) {
            assert_close(&what, found, expected, tolerance);
        }
    }
    expected
}

/// Applies a primitive eagerly to arguments in every lie and holds the results against the reference.
#[track_caller]
pub fn check_prim(what: &str, prim: &Prim, arguments: &[HostTensor], tolerance: f64) {
    let expected = lanthorn_interp::Interp.apply(prim.clone(), arguments).unwrap();
    for lie in Lie::ALL {
        let what = format!("{what}, {lie:?}");
        let operands: Vec<Strided> = arguments.iter().map(|t| Strided::new(t, lie)).collect();
        let found = Eager.apply(prim.clone(), &operands).unwrap_or_else(|e| panic!("{what}: {e}"));
        for (found, expected) in found.iter().zip(&expected) {
            assert_close(&what, &found.tensor(), expected, tolerance);
        }
    }
}

/// Numbers from a fixed sequence.
pub struct Sequence(u64);

impl Sequence {
    pub fn new(seed: u64) -> Self {
        Sequence(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1)
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        low + (high - low) * ((self.0 >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Elements in `low..high`, rounded to `dtype`.
    pub fn within(&mut self, dtype: DType, shape: &[usize], low: f64, high: f64) -> HostTensor {
        let n: usize = shape.iter().product();
        let elements: Vec<f64> = (0..n).map(|_| self.uniform(low, high)).collect();
        HostTensor::from_f64(dtype, shape, &elements).unwrap()
    }

    /// Elements of either sign that suit `dtype`.
    pub fn tensor(&mut self, dtype: DType, shape: &[usize]) -> HostTensor {
        if dtype.is_float() {
            return self.within(dtype, shape, -2.0, 2.0);
        }
        let n: usize = shape.iter().product();
        let elements: Vec<i64> = (0..n).map(|_| self.uniform(-9.0, 9.0).round() as i64).collect();
        HostTensor::from_i64(dtype, shape, &elements).unwrap()
    }

    /// Integers in `0..limit`.
    pub fn ids(&mut self, dtype: DType, shape: &[usize], limit: usize) -> HostTensor {
        let n: usize = shape.iter().product();
        let elements: Vec<i64> = (0..n).map(|_| self.uniform(0.0, limit as f64) as i64).collect();
        HostTensor::from_i64(dtype, shape, &elements).unwrap()
    }
}
