//! Compiled programs: donation, commit, cancellation, the cache.

use std::sync::Arc;

use lanthorn_ir::{DType, ErrorKind, Lazy, TensorType, Value, ops, transform};
use lanthorn_runtime::executable::Options;
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable};

use super::device;

fn leaf(shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(DType::F32, shape)).unwrap()
}

fn tensor(device: &Device, elements: &[f32]) -> EagerTensor {
    EagerTensor::from_slice(device, &[elements.len()], elements).unwrap()
}

/// `(w, x, lr) -> (w - lr * gradient, loss)` for the loss `sum((w x - 1)^2)`.
fn step(device: &Device, options: &Options) -> Executable {
    let (w, x, lr) = (leaf(&[2]), leaf(&[2]), leaf(&[]));
    let error = ops::sub_scalar(&Lazy, &ops::mul(&Lazy, &w, &x).unwrap(), 1.0).unwrap();
    let loss = ops::sum(&Lazy, &ops::square(&Lazy, &error).unwrap(), &[], false).unwrap();
    let grad = transform::grad(&loss, std::slice::from_ref(&w)).unwrap();
    let updated = ops::sub(&Lazy, &w, &ops::mul(&Lazy, &grad[0], &lr).unwrap()).unwrap();
    Executable::new(device, &[w, x, lr], &[updated, loss], options).unwrap()
}

fn training() -> Options {
    Options { donated: vec![(0, 0)], finite: vec![1], ..Options::default() }
}

fn rate(device: &Device, value: f64) -> EagerTensor {
    EagerTensor::scalar(device, value, DType::F32).unwrap()
}

#[test]
fn a_call_gives_one_tensor_for_each_root() {
    let device = device();
    let program = step(&device, &Options::default());
    let (w, x) = (tensor(&device, &[0.0, 2.0]), tensor(&device, &[1.0, 1.0]));
    let results = program.call(&[&w, &x, &rate(&device, 0.25)], &CancelToken::never()).unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [0.5, 1.5]);
    assert_eq!(results[1].item().unwrap(), 2.0);
    assert_eq!(w.to_vec::<f32>().unwrap(), [0.0, 2.0]);
}

#[test]
fn a_unique_donated_argument_becomes_the_result() {
    let device = device();
    let program = step(&device, &training());
    let (w, x, lr) = (tensor(&device, &[0.0, 2.0]), tensor(&device, &[1.0, 1.0]), rate(&device, 0.25));
    let address = w.storage().host_address();
    let results = program.call(&[&w, &x, &lr], &CancelToken::never()).unwrap();
    assert_eq!(results[0].storage().host_address(), address);
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [0.5, 1.5]);
    let error = w.to_vec::<f32>().unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidHandle);
    assert_eq!(
        program.call(&[&w, &x, &lr], &CancelToken::never()).unwrap_err().kind,
        ErrorKind::InvalidHandle
    );
}

#[test]
fn a_shared_or_external_or_strided_argument_is_copied_instead() {
    let device = device();
    let program = step(&device, &training());
    let (x, lr) = (tensor(&device, &[1.0, 1.0]), rate(&device, 0.25));
    let shared = tensor(&device, &[0.0, 2.0]);
    let other_handle = shared.clone();
    let results = program.call(&[&shared, &x, &lr], &CancelToken::never()).unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [0.5, 1.5]);
    assert_eq!(other_handle.to_vec::<f32>().unwrap(), [0.0, 2.0]);
    // The same tensor as a donated and as another argument.
    let twice = tensor(&device, &[1.0, 1.0]);
    program.call(&[&twice, &twice, &lr], &CancelToken::never()).unwrap();
    assert_eq!(twice.to_vec::<f32>().unwrap(), [1.0, 1.0]);
    let memory = lanthorn_runtime::host::HostMemory::from_vec(vec![0f32, 2.0]).shared();
    let storage = lanthorn_runtime::Storage::external(&device, memory, false);
    let external = EagerTensor::new(storage, DType::F32, lanthorn_ir::Layout::contiguous([2])).unwrap();
    let results = program.call(&[&external, &x, &lr], &CancelToken::never());
    if !device.is_host() {
        // The host's memory is none of the device's.
        assert_eq!(results.unwrap_err().kind, ErrorKind::Device);
        return;
    }
    let results = results.unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [0.5, 1.5]);
    assert_eq!(external.to_vec::<f32>().unwrap(), [0.0, 2.0]);
}

#[test]
fn a_loss_that_is_not_finite_leaves_the_parameters_alone() {
    let device = device();
    let program = step(&device, &training());
    let w = tensor(&device, &[0.0, 2.0]);
    let x = tensor(&device, &[f32::NAN, 1.0]);
    let live = device.stats().live_bytes;
    let error = program.call(&[&w, &x, &rate(&device, 0.25)], &CancelToken::never()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Execute);
    assert_eq!(w.to_vec::<f32>().unwrap(), [0.0, 2.0]);
    assert_eq!(device.stats().live_bytes, live);
}

#[test]
fn a_cancelled_call_leaves_the_parameters_alone() {
    let device = device();
    let program = step(&device, &training());
    let (w, x) = (tensor(&device, &[0.0, 2.0]), tensor(&device, &[1.0, 1.0]));
    let cancel = CancelToken::new();
    cancel.cancel();
    let error = program.call(&[&w, &x, &rate(&device, 0.25)], &cancel).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert_eq!(w.to_vec::<f32>().unwrap(), [0.0, 2.0]);
}

#[test]
fn arguments_are_checked_by_position() {
    let device = device();
    let program = step(&device, &training());
    let (w, x) = (tensor(&device, &[0.0, 2.0]), tensor(&device, &[1.0]));
    let lr = rate(&device, 1.0);
    let never = CancelToken::never();
    let error = program.call(&[&w, &x, &lr], &never).unwrap_err();
    assert_eq!(error.to_string(), "call: argument 1 is f32[1], expected f32[2]");
    assert_eq!(program.call(&[&w], &never).unwrap_err().kind, ErrorKind::Shape);
    let elsewhere = tensor(&super::device(), &[0.0, 2.0]);
    assert_eq!(program.call(&[&elsewhere, &w, &lr], &never).unwrap_err().kind, ErrorKind::Device);
}

#[test]
fn a_leaf_without_a_value_and_one_of_another_engine_are_refused() {
    let device = device();
    let x = leaf(&[2]);
    let y = ops::neg(&Lazy, &x).unwrap();
    let error = Executable::new(&device, &[], &[y.clone()], &Options::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidHandle);
    x.set_payload(Arc::new("another engine's"));
    let error = Executable::new(&device, &[], &[y], &Options::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ForeignHandle);
    let z = leaf(&[]);
    let options = Options { donated: vec![(1, 0)], ..Options::default() };
    assert!(Executable::new(&device, &[z.clone()], &[z.clone()], &options).is_err());
    let options = Options { finite: vec![1], ..Options::default() };
    assert!(Executable::new(&device, &[z.clone()], &[z], &options).is_err());
}

#[test]
fn bound_leaves_are_arguments_that_nobody_passes() {
    let device = device();
    let (x, bound) = (leaf(&[2]), tensor(&device, &[1.0, 2.0]).leaf().unwrap());
    let root = ops::mul(&Lazy, &x, &bound).unwrap();
    let program = Executable::new(&device, &[x], &[root], &Options::default()).unwrap();
    let results = program.call(&[&tensor(&device, &[3.0, 4.0])], &CancelToken::never()).unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [3.0, 8.0]);
}

#[test]
fn two_threads_compile_one_program_once() {
    let device = device();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| step(&device, &training()));
        }
    });
    let stats = device.stats();
    assert_eq!((stats.compiles, stats.cache_hits, stats.executables), (1, 3, 1));
}

#[test]
fn a_failure_is_not_cached_and_the_oldest_program_leaves() {
    let device = device();
    // A leaf that is no argument and has no value.
    let stranger = leaf(&[1]);
    let root = ops::add(&Lazy, &stranger, &stranger).unwrap();
    assert!(Executable::new(&device, &[], &[root], &Options::default()).is_err());
    assert_eq!(device.stats().executables, 0);
    device.cache().set_capacity(2);
    let make = |n: usize| {
        let x = leaf(&[n]);
        let root = ops::neg(&Lazy, &x).unwrap();
        Executable::new(&device, &[x], &[root], &Options::default()).unwrap()
    };
    for n in [1, 2, 1, 3, 1, 2] {
        make(n);
    }
    // 1, 2 and 3 once, then 2 again: when 3 came, 2 had not been used for longest.
    assert_eq!(device.stats().compiles, 4);
    assert_eq!(device.stats().executables, 2);
}

#[test]
fn training_in_place_keeps_memory_flat() {
    let device = device();
    let program = step(&device, &training());
    let mut w = tensor(&device, &[0.0, 2.0]);
    let x = tensor(&device, &[1.0, 1.0]);
    let mut live = None;
    for _ in 0..200 {
        let results = program.call(&[&w, &x, &rate(&device, 0.01)], &CancelToken::never()).unwrap();
        w = results.into_iter().next().unwrap();
        let now = device.stats().live_bytes;
        assert_eq!(*live.get_or_insert(now), now);
    }
    assert!(w.to_vec::<f32>().unwrap().iter().all(|v| (v - 1.0).abs() < 0.05));
    assert_eq!(device.stats().executables, 1);
}
