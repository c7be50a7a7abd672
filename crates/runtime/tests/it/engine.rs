//! A device as an engine: programs that come as bytes.

use lanthorn_compiler::indexed::Indexed;
use lanthorn_compiler::pipeline::index;
use lanthorn_ir::{DType, ErrorKind, Layout, Lazy, TensorType, Value, ops};
use lanthorn_runtime::{CancelToken, EagerTensor};
use lanthorn_session::Engine;

use super::device;

/// `softmax(x @ w)` over the last axis, and the transposed product.
fn program() -> Indexed {
    let leaf = |shape: &[usize]| Value::leaf(TensorType::new(DType::F32, shape)).unwrap();
    let (x, w) = (leaf(&[2, 3]), leaf(&[3, 2]));
    let product = ops::matmul(&Lazy, &x, &w).unwrap();
    let turned = ops::transpose(&Lazy, &product, 0, 1).unwrap();
    index(&[w, x], &[ops::softmax(&Lazy, &product, -1).unwrap(), turned], |_| false).0
}

#[test]
fn a_program_from_bytes_gives_what_the_program_gives() {
    let device = device();
    let w = EagerTensor::from_slice(&device, &[3, 2], &[1f32, 0., 0., 1., 1., 1.]).unwrap();
    let x = EagerTensor::from_slice(&device, &[2, 3], &[1f32, 2., 3., 4., 5., 6.]).unwrap();
    let never = CancelToken::never();
    let direct = device.run(program(), vec![w.clone(), x.clone()], &never).unwrap();
    let bytes = program().to_bytes().unwrap();
    let read = device.run_bytes(&bytes, &[&w, &x], &never).unwrap();
    assert_eq!(read[1].to_vec::<f32>().unwrap(), [4., 10., 5., 11.]);
    for (read, direct) in read.iter().zip(&direct) {
        assert_eq!(read.to_bytes().unwrap(), direct.to_bytes().unwrap());
    }
    device.run_bytes(&bytes, &[&w, &x], &never).unwrap();
    // The same structure, but inputs come first in bytes: two programs at most.
    assert!(device.stats().executables <= 2);
    assert_eq!(device.run_bytes(&bytes[..7], &[&w, &x], &never).unwrap_err().kind, ErrorKind::Format);
    assert_eq!(device.run_bytes(&bytes, &[&x, &w], &never).unwrap_err().kind, ErrorKind::Shape);
    let cancelled = CancelToken::new();
    cancelled.cancel();
    assert_eq!(device.run_bytes(&bytes, &[&w, &x], &cancelled).unwrap_err().kind, ErrorKind::Cancelled);
}

#[test]
fn a_part_shares_the_memory_of_the_whole_where_it_lies_in_a_row() {
    let device = device();
    let x = EagerTensor::from_slice(&device, &[3, 2], &[1f32, 2., 3., 4., 5., 6.]).unwrap();
    let at = |offset: usize, shape: &[usize]| Layout { offset, ..Layout::contiguous(shape) };
    let row = device.part(&x, &at(2, &[2])).unwrap().unwrap();
    assert_eq!(row.to_vec::<f32>().unwrap(), [3., 4.]);
    assert!(row.storage().is_same(x.storage()));
    let within = device.part(&row, &at(1, &[1, 1])).unwrap().unwrap();
    assert_eq!(within.to_vec::<f32>().unwrap(), [4.]);
    assert!(device.part(&x, &at(5, &[2])).is_err());
    let column = x.layout().slice(&[0, 1], &[3, 2], &[1, 1]);
    let column = device.part(&x, &column).unwrap().unwrap();
    assert_eq!(column.to_vec::<f32>().unwrap(), [2., 4., 6.]);
    assert!(!column.storage().is_same(x.storage()));
    let turned = x.with_layout(x.layout().permute(&[1, 0])).unwrap();
    assert!(device.part(&turned, &at(0, &[2])).unwrap().is_none());
}
