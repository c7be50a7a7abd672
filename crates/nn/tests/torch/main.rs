//! Optimisers, schedules, layers and a run against upstream torch: `fixtures/training.py` wrote the numbers.

mod hostile;
mod layers;
mod optim;
mod run;

use lanthorn_interp::HostTensor as Reference;
use lanthorn_ir::DType;
use lanthorn_nn::Params;
use serde_json::Value;

/// The rows of a file of fixtures.
fn rows(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

fn numbers(data: &Value) -> Vec<f64> {
    data.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn shape(tensor: &Value) -> Vec<usize> {
    tensor["shape"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as usize).collect()
}

fn tensor(tensor: &Value) -> Reference {
    Reference::from_f64(DType::F64, &shape(tensor), &numbers(&tensor["data"])).unwrap()
}

/// Tensors by name, in no order that means anything.
fn tensors(all: &Value) -> Params<Reference> {
    all.as_object().unwrap().iter().map(|(name, value)| (name.clone(), tensor(value))).collect()
}

/// Holds numbers against those of a fixture, relative to the largest.
fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
    let distance = found.iter().zip(expected).fold(0.0, |m: f64, (x, y)| m.max((x - y).abs()));
    assert!(distance <= tolerance * scale, "{what}: {distance:e} of {scale}\n{found:?}\n{expected:?}");
}
