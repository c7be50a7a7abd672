//! Graphs with short ways to say things.

use std::sync::Arc;

use lanthorn_cpu::CpuBackend;
use lanthorn_graph::executable::CompileOptions;
use lanthorn_graph::{Graph, Handle, Job, Outcome};
use lanthorn_ir::ops::table::{Attribute, id_of};
use lanthorn_ir::{DType, Result, TensorType};
use lanthorn_runtime::{CancelToken, Device};

/// A device of its own, so that counters are a test's own.
pub fn device() -> Device {
    Device::new(Arc::new(CpuBackend))
}

pub struct Face {
    pub graph: Graph,
}

impl Face {
    pub fn new() -> Face {
        Face { graph: Graph::new(device()) }
    }

    pub fn f32(&mut self, shape: &[usize], elements: &[f32]) -> Handle {
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_ne_bytes()).collect();
        self.graph.create(&f32_of(shape), &bytes).unwrap()
    }

    pub fn input(&mut self, slot: usize, shape: &[usize]) -> Handle {
        self.graph.input(slot, f32_of(shape)).unwrap()
    }

    pub fn op(&mut self, name: &str, tensors: &[Handle], attributes: &[Attribute]) -> Handle {
        let tensors: Vec<Option<Handle>> = tensors.iter().copied().map(Some).collect();
        self.several(name, &tensors, attributes)[0]
    }

    /// All results of an op, of which operands may be left out.
    pub fn several(
        &mut self,
        name: &str,
        tensors: &[Option<Handle>],
        attributes: &[Attribute],
    ) -> Vec<Handle> {
        self.graph.op(id_of(name).unwrap(), tensors, attributes).unwrap()
    }

    pub fn run(&mut self, job: Result<Job>) -> Result<Outcome> {
        let mut job = job?;
        let output = job.run(&CancelToken::never());
        self.graph.finish(job, output, &CancelToken::never())
    }

    pub fn try_compute(&mut self, roots: &[Handle]) -> Result<Vec<Handle>> {
        let job = self.graph.begin_compute(roots);
        self.run(job).map(handles)
    }

    pub fn compute(&mut self, roots: &[Handle]) -> Vec<Handle> {
        self.try_compute(roots).unwrap()
    }

    pub fn compile(&mut self, roots: &[Handle]) -> Handle {
        self.graph.compile(roots, CompileOptions::default()).unwrap()
    }

    pub fn try_execute(
        &mut self,
        executable: Handle,
        bindings: &[Handle],
        scalars: &[f64],
    ) -> Result<Vec<Handle>> {
        let job = self.graph.begin_execute(executable, bindings, scalars);
        self.run(job).map(handles)
    }

    pub fn execute(&mut self, executable: Handle, bindings: &[Handle], scalars: &[f64]) -> Vec<Vec<f64>> {
        let results = self.try_execute(executable, bindings, scalars).unwrap();
        results.into_iter().map(|result| self.elements(result)).collect()
    }

    /// The elements of a concrete tensor.
    pub fn elements(&self, tensor: Handle) -> Vec<f64> {
        self.graph.elements("read", tensor).unwrap().to_f64_vec().unwrap()
    }

    /// The elements of any tensor.
    pub fn read(&mut self, tensor: Handle) -> Vec<f64> {
        let computed = self.compute(&[tensor])[0];
        self.elements(computed)
    }

    pub fn report(&self, executable: Handle) -> serde_json::Value {
        self.graph.report(executable).unwrap()
    }
}

pub fn handles(outcome: Outcome) -> Vec<Handle> {
    match outcome {
        Outcome::Handles(handles) => handles,
        other => panic!("{other:?} instead of handles"),
    }
}

pub fn f32_of(shape: &[usize]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

pub fn ints(values: &[i64]) -> [Attribute; 1] {
    [Attribute::Ints(values.to_vec())]
}

pub fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}, expected {expected:?}");
    for (x, y) in found.iter().zip(expected) {
        assert!((x - y).abs() <= 1e-5 * y.abs().max(1.0), "{found:?}, expected {expected:?}");
    }
}
