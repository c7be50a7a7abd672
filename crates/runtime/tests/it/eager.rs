//! Eager execution: views, in-place writes, derivatives by a tape.

use lanthorn_ir::expr::BinaryOp;
use lanthorn_ir::prim::{Elementwise, Movement, State};
use lanthorn_ir::transform::Tape;
use lanthorn_ir::{Builder, DType, Dims, ErrorKind, Layout, Prim, TensorType, ops};
use lanthorn_runtime::{Device, Eager, EagerTensor};

use super::device;

fn ramp(device: &Device, shape: &[usize]) -> EagerTensor {
    let elements: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| i as f32).collect();
    EagerTensor::from_slice(device, shape, &elements).unwrap()
}

fn binary(op: BinaryOp) -> Prim {
    Prim::Elementwise(Elementwise::Binary(op))
}

#[test]
fn movements_are_views_and_the_rest_reads_through_them() {
    let device = device();
    let eager = Eager::new(&device);
    let x = ramp(&device, &[2, 3]);
    let turned = ops::transpose(&eager, &x, 0, 1).unwrap();
    let turned = ops::flip(&eager, &turned, &[0]).unwrap();
    assert!(turned.storage().is_same(x.storage()));
    assert_eq!(device.stats().kernels, 0);
    assert_eq!(turned.to_vec::<f32>().unwrap(), [2.0, 5.0, 1.0, 4.0, 0.0, 3.0]);
    let sums = ops::sum(&eager, &turned, &[1], false).unwrap();
    assert_eq!(sums.to_vec::<f32>().unwrap(), [7.0, 5.0, 3.0]);
    let joined = ops::concat(&eager, &[turned.clone(), turned.clone()], 1).unwrap();
    assert_eq!(joined.to_vec::<f32>().unwrap()[..4], [2.0, 5.0, 2.0, 5.0]);
    let padded = ops::pad(&eager, &x, &[0, 1], &[0, 0], 9i64).unwrap();
    assert_eq!(padded.to_vec::<f32>().unwrap(), [9.0, 0.0, 1.0, 2.0, 9.0, 3.0, 4.0, 5.0]);
}

#[test]
fn what_has_no_kernel_is_decomposed() {
    let device = device();
    let eager = Eager::new(&device);
    let x = ramp(&device, &[2, 2]);
    let y = ops::softmax(&eager, &x, -1).unwrap().to_vec::<f32>().unwrap();
    let e = 1f32.exp();
    assert!((y[0] - 1.0 / (1.0 + e)).abs() < 1e-6 && (y[1] - e / (1.0 + e)).abs() < 1e-6);
}

#[test]
fn a_tape_differentiates_eagerly() {
    let device = device();
    let tape = Tape::new(Eager::new(&device));
    let x = tape.watch(EagerTensor::from_slice(&device, &[3], &[1f32, 2.0, 3.0]).unwrap());
    let y = ops::sum(&tape, &ops::square(&tape, &x).unwrap(), &[], false).unwrap();
    let grad = tape.grad(&y, std::slice::from_ref(&x)).unwrap();
    assert_eq!(grad[0].value().to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
}

#[test]
fn in_place_writes_land_in_the_view_and_count_as_a_version() {
    let device = device();
    let eager = Eager::new(&device);
    let base = ramp(&device, &[2, 3]);
    let column = ops::select(&eager, &base, 1, 1).unwrap();
    let one = EagerTensor::from_slice(&device, &[2], &[10f32, 20.0]).unwrap();
    let version = base.storage().version();
    eager.apply_into(binary(BinaryOp::Add), &[column.clone(), one], &[&column]).unwrap();
    assert_eq!(base.to_vec::<f32>().unwrap(), [0.0, 11.0, 2.0, 3.0, 24.0, 5.0]);
    assert_eq!(base.storage().version(), version + 1);
}

#[test]
fn every_input_is_read_as_it_was_before_the_call() {
    let device = device();
    let eager = Eager::new(&device);
    let x = ramp(&device, &[2, 2]);
    let turned = ops::transpose(&eager, &x, 0, 1).unwrap();
    // x += x^T, where each place is read after a naive loop would have written it.
    eager.apply_into(binary(BinaryOp::Add), &[x.clone(), turned], &[&x]).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 3.0, 3.0, 6.0]);
    eager.apply_into(binary(BinaryOp::Mul), &[x.clone(), x.clone()], &[&x]).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 9.0, 9.0, 36.0]);
    // A shifted copy within one storage.
    let y = ramp(&device, &[4]);
    let (low, high) = (ops::narrow(&eager, &y, 0, 0, 3).unwrap(), ops::narrow(&eager, &y, 0, 1, 3).unwrap());
    eager.copy_into(&low, &high).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 0.0, 1.0, 2.0]);
}

#[test]
fn parts_and_compound_primitives_write_into_views_too() {
    let device = device();
    let eager = Eager::new(&device);
    let target = ramp(&device, &[4, 2]);
    let view = ops::transpose(&eager, &target, 0, 1).unwrap();
    let x = ramp(&device, &[2, 2]);
    let concat = Prim::Movement(Movement::Concat { axis: 1 });
    eager.apply_into(concat, &[x.clone(), x.clone()], &[&view]).unwrap();
    assert_eq!(target.to_vec::<f32>().unwrap(), [0.0, 2.0, 1.0, 3.0, 0.0, 2.0, 1.0, 3.0]);
    let rows = ops::narrow(&eager, &target, 0, 1, 2).unwrap();
    let slice = Movement::Slice {
        starts: Dims::from_slice(&[0, 0]),
        stops: Dims::from_slice(&[2, 2]),
        steps: Dims::from_slice(&[1, 1]),
    };
    eager.apply_into(Prim::Movement(slice), &[x.clone()], &[&rows]).unwrap();
    assert_eq!(target.to_vec::<f32>().unwrap(), [0.0, 2.0, 0.0, 1.0, 2.0, 3.0, 1.0, 3.0]);
    let sum = Prim::Reduce(lanthorn_ir::prim::Reduce::Fold {
        op: lanthorn_ir::prim::ReduceOp::Sum,
        axes: Dims::from_slice(&[1]),
    });
    let column = ops::narrow(&eager, &target, 1, 1, 1).unwrap();
    let column = ops::narrow(&eager, &column, 0, 0, 2).unwrap();
    eager.apply_into(sum, &[x], &[&column]).unwrap();
    assert_eq!(target.to_vec::<f32>().unwrap()[..4], [0.0, 1.0, 0.0, 5.0]);
}

#[test]
fn adamw_and_update_slice_run_in_place() {
    let device = device();
    let eager = Eager::new(&device);
    let f = |value: f32| EagerTensor::from_slice(&device, &[2], &[value, value]).unwrap();
    let (p, g, m, v) = (f(1.0), f(0.5), f(0.0), f(0.0));
    let settings = State::AdamW {
        beta1: lanthorn_ir::expr::F64(0.9),
        beta2: lanthorn_ir::expr::F64(0.999),
        eps: lanthorn_ir::expr::F64(1e-8),
        weight_decay: lanthorn_ir::expr::F64(0.0),
    };
    let inputs = [p.clone(), g, m.clone(), v.clone(), f(0.1), f(0.1), f(0.001)];
    eager.apply_into(Prim::State(settings), &inputs, &[&p, &m, &v]).unwrap();
    assert!((p.to_vec::<f32>().unwrap()[0] - 0.9).abs() < 1e-5);
    assert!((m.to_vec::<f32>().unwrap()[1] - 0.05).abs() < 1e-7);

    let cache = ramp(&device, &[4, 2]);
    let start = EagerTensor::scalar(&device, 2i64, DType::I64).unwrap();
    let row = EagerTensor::from_slice(&device, &[1, 2], &[-1f32, -2.0]).unwrap();
    let live = device.stats().live_bytes;
    let update = Prim::State(State::UpdateSlice { axis: 0 });
    eager.apply_into(update, &[cache.clone(), row, start], &[&cache]).unwrap();
    assert_eq!(cache.to_vec::<f32>().unwrap()[3..], [3.0, -1.0, -2.0, 6.0, 7.0]);
    assert!(device.stats().live_bytes <= live);
}

#[test]
fn impossible_targets_are_refused() {
    let device = device();
    let eager = Eager::new(&device);
    let x = ramp(&device, &[3]);
    let wide = ops::broadcast_to(&eager, &x, &[2, 3]).unwrap();
    let y = ramp(&device, &[2, 3]);
    let error = eager.copy_into(&y, &wide).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let windows = ops::sliding_window(&eager, &x, 0, 2, 1, 1).unwrap();
    assert!(windows.storage().is_same(x.storage()));
    let pairs = ramp(&device, &[2, 2]);
    assert_eq!(eager.copy_into(&pairs, &windows).unwrap_err().kind, ErrorKind::Unsupported);
    // Windows that lie apart are places like any others.
    let apart = ramp(&device, &[4]);
    eager.copy_into(&pairs, &ops::sliding_window(&eager, &apart, 0, 2, 2, 1).unwrap()).unwrap();
    let error = eager.apply_into(binary(BinaryOp::Add), &[x.clone(), x.clone()], &[&y]).unwrap_err();
    assert!(error.to_string().contains("f32[3]") && error.to_string().contains("f32[2, 3]"), "{error}");
    let layout = Layout { offset: 1, ..Layout::contiguous([3]) };
    assert_eq!(x.with_layout(layout).unwrap_err().kind, ErrorKind::Shape);
    let huge = Layout { offset: 0, ..Layout::contiguous([1 << 40, 1 << 40]) };
    assert_eq!(x.with_layout(huge).unwrap_err().kind, ErrorKind::Shape);
}

#[test]
fn operands_of_another_device_are_refused_by_name() {
    let (here, there) = (device(), device());
    let error = ops::add(&Eager::new(&here), &ramp(&here, &[2]), &ramp(&there, &[2])).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Device);
    assert!(error.to_string().contains("two instances of the device"), "{error}");
}

#[test]
fn a_dtype_that_the_device_lacks_is_refused_by_name() {
    let device = device();
    let x = EagerTensor::from_bytes(&device, &TensorType::new(DType::F8E4M3, [1]), &[0]).unwrap();
    assert_eq!(ops::add(&Eager::new(&device), &x, &x).unwrap_err().kind, ErrorKind::Dtype);
}

#[test]
fn a_vector_becomes_a_tensor_without_a_copy_where_the_device_works_in_host_memory() {
    let device = device();
    let elements = vec![1f32; 1 << 15];
    let address = elements.as_ptr() as usize;
    let x = EagerTensor::from_vec(&device, &[1 << 15], elements).unwrap();
    let found = x.storage().host_address().map(|found| found.as_ptr() as usize);
    let expected = if device.is_host() { (Some(address), 0) } else { (None, 1 << 17) };
    assert_eq!((found, device.stats().live_bytes), expected);
    assert_eq!(ops::sum(&Eager::new(&device), &x, &[], false).unwrap().item().unwrap(), 32768.0);
}

#[test]
fn the_memory_limit_is_an_error_and_nothing_leaks() {
    let device = device();
    device.set_memory_limit(Some(4096));
    let eager = Eager::new(&device);
    let x = ramp(&device, &[512]);
    assert_eq!(ops::concat(&eager, &[x.clone(), x.clone()], 0).unwrap_err().kind, ErrorKind::OutOfMemory);
    assert_eq!(device.stats().live_bytes, 2048);
    assert_eq!(ops::neg(&eager, &x).unwrap().shape(), [512]);
    drop(x);
    assert_eq!(device.stats().live_bytes, 0);
    assert!(device.trim() > 0);
    assert_eq!(device.stats().pooled_bytes, 0);
}

#[test]
fn apply_refuses_what_infer_refuses() {
    let device = device();
    let x = ramp(&device, &[2]);
    assert!(Eager::new(&device).apply(binary(BinaryOp::Add), &[x]).is_err());
}

/// Values that are there already say how large a result is.
#[test]
fn values_decide_the_shape_of_a_result() {
    let device = device();
    let eager = Eager::new(&device);
    let x = EagerTensor::from_slice(&device, &[2, 3], &[0f32, 1.0, 0.0, 2.0, 0.0, 3.0]).unwrap();
    let places = ops::nonzero(&eager, &x, None, -1).unwrap();
    assert_eq!(places.ty(), &TensorType::new(DType::I64, [3, 2]));
    assert_eq!(places.to_vec::<i64>().unwrap(), [0, 1, 1, 0, 1, 2]);
    let large = ops::gt_scalar(&eager, &x, 1.5).unwrap();
    let chosen = ops::masked_select(&eager, &x, &large, None, 0.0).unwrap();
    assert_eq!(chosen.to_vec::<f32>().unwrap(), [2.0, 3.0]);
    let found = ops::unique(&eager, &x, None, None, 0.0).unwrap();
    assert_eq!(found[0].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(found[2].to_vec::<i64>().unwrap(), [3, 1, 1, 1]);
}
