//! Functions as programs.

use std::sync::atomic::{AtomicUsize, Ordering};

use lanthorn_ir::{DType, ErrorKind};
use lanthorn_runtime::{CancelToken, Device, Tensor, compile, value_and_grad};

use super::device;

fn tensor(device: &Device, elements: &[f32]) -> Tensor {
    Tensor::from_slice(device, &[elements.len()], elements).unwrap()
}

/// `(w, x) -> (w - 0.5 gradient, loss)` for the loss `sum(w x)`.
fn step(a: &[Tensor]) -> lanthorn_runtime::Result<Vec<Tensor>> {
    let (loss, grads) = value_and_grad(|w| (&w[0] * &a[1])?.sum(&[], false), &[&a[0]])?;
    Ok(vec![(&a[0] - &(&grads[0] * 0.5)?)?, loss])
}

#[test]
fn a_function_is_traced_once_for_each_signature() {
    let device = device();
    let traced = AtomicUsize::new(0);
    let double = compile(|a: &[Tensor]| {
        traced.fetch_add(1, Ordering::Relaxed);
        Ok(vec![(&a[0] + &a[0])?])
    });
    for elements in [&[1.0, 2.0][..], &[3.0, 4.0], &[1.0], &[2.0]] {
        let result = double.call(&[tensor(&device, elements)]).unwrap();
        let expected: Vec<f32> = elements.iter().map(|v| 2.0 * v).collect();
        assert_eq!(result[0].to_vec::<f32>().unwrap(), expected);
    }
    assert_eq!(traced.load(Ordering::Relaxed), 2);
}

#[test]
fn random_tensors_are_drawn_anew_in_every_call() {
    let device = device();
    let noise = compile(|a: &[Tensor]| Ok(vec![(&a[0] + &Tensor::rand(a[0].device(), &[4], DType::F32)?)?]));
    let x = Tensor::zeros(&device, &[4], DType::F32).unwrap();
    let draws: Vec<Vec<f32>> =
        (0..3).map(|_| noise.call(&[&x]).unwrap()[0].to_vec::<f32>().unwrap()).collect();
    assert!(draws[0] != draws[1] && draws[1] != draws[2]);
    assert_eq!(device.stats().compiles, 2, "the function and the zeros");
    device.manual_seed(0);
    assert_eq!(noise.call(&[&x]).unwrap()[0].to_vec::<f32>().unwrap(), draws[0]);
}

#[test]
fn a_donated_argument_nobody_else_holds_gives_up_its_memory() {
    let device = device();
    let step = compile(step).donate(&[(0, 0)]);
    let (w, x) = (tensor(&device, &[1.0, 2.0]), tensor(&device, &[2.0, 2.0]));
    let address = w.to_eager().unwrap().storage().host_address();
    let results = step.call(&[&w, &x]).unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [0.0, 1.0]);
    assert_eq!(results[0].to_eager().unwrap().storage().host_address(), address);
    let error = w.to_vec::<f32>().unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidHandle);
    assert!(step.call(&[&w, &x]).is_err());
    assert!(w.neg().and_then(|y| y.to_vec::<f32>()).is_err());
}

#[test]
fn a_donated_argument_that_something_waits_for_is_copied() {
    let device = device();
    let step = compile(step).donate(&[(0, 0)]);
    let (w, x) = (tensor(&device, &[1.0, 2.0]), tensor(&device, &[2.0, 2.0]));
    let waiting = w.neg().unwrap();
    let view = w.narrow(0, 1, 1).unwrap();
    let same = w.clone();
    step.call(&[&w, &x]).unwrap();
    assert_eq!(waiting.to_vec::<f32>().unwrap(), [-1.0, -2.0]);
    assert_eq!(view.to_vec::<f32>().unwrap(), [2.0]);
    assert_eq!(same.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    // The same tensor in two places.
    let twice = tensor(&device, &[1.0, 2.0]);
    step.call(&[&twice, &twice]).unwrap();
    assert_eq!(twice.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn a_failed_call_leaves_donated_arguments_as_they_were() {
    let device = device();
    let step = compile(step).donate(&[(0, 0)]).finite(&[1]);
    let w = tensor(&device, &[1.0, 2.0]);
    assert_eq!(step.call(&[&w, &tensor(&device, &[f32::NAN, 1.0])]).unwrap_err().kind, ErrorKind::Execute);
    assert_eq!(w.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    let cancel = CancelToken::new();
    cancel.cancel();
    let x = tensor(&device, &[1.0, 1.0]);
    assert_eq!(step.call_with(&[&w, &x], &cancel).unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!(w.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(step.call(&[&w, &x]).unwrap()[1].item().unwrap(), 3.0);
}

#[test]
fn a_placeholder_cannot_be_read_and_a_compiled_function_can_be_part_of_another() {
    let device = device();
    let peeks = compile(|a: &[Tensor]| a[0].to_vec::<f32>().map(|_| Vec::new()));
    let x = tensor(&device, &[1.0, 2.0]);
    assert_eq!(peeks.call(&[&x]).unwrap_err().kind, ErrorKind::InvalidHandle);
    let inner = compile(|a: &[Tensor]| Ok(vec![(&a[0] * 3.0)?]));
    let outer = compile(|a: &[Tensor]| inner.call(a));
    assert_eq!(outer.call(&[&x]).unwrap()[0].to_vec::<f32>().unwrap(), [3.0, 6.0]);
    let tracked = x.requires_grad().unwrap();
    assert_eq!(inner.call(&[&tracked]).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn a_detached_value_inside_a_compiled_function_stops_gradients() {
    let device = device();
    let f = compile(|a: &[Tensor]| {
        let (_, grads) = value_and_grad(|w| w[0].square()?.detach()?.mul(&w[0])?.sum(&[], false), a)?;
        Ok(grads)
    });
    assert_eq!(f.call(&[tensor(&device, &[3.0])]).unwrap()[0].item().unwrap(), 9.0);
}
