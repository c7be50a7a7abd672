//! Host tensors as bytes of a device, with a guard behind them.

use std::sync::Arc;

use lanthorn_compiler::backend::{Backend, MemRef, Memory};
use lanthorn_interp::HostTensor;
use lanthorn_ir::{DType, TensorType};

/// The elements as a device keeps them.
pub fn to_bytes(tensor: &HostTensor) -> Vec<u8> {
    tensor.to_bytes()
}

/// Elements that a device kept. Panics where a truth value is neither 0 nor 1.
pub fn from_bytes(ty: &TensorType, bytes: &[u8]) -> HostTensor {
    if ty.dtype == DType::Bool {
        assert!(bytes.iter().all(|&b| b <= 1), "a truth value is neither 0 nor 1");
    }
    HostTensor::from_bytes(ty, bytes).unwrap()
}

/// Bytes behind every memory that no kernel may touch.
const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0x5a;

/// Memory with these bytes, and the guard after them.
pub fn memory(backend: &dyn Backend, bytes: &[u8]) -> Arc<dyn Memory> {
    let memory = backend.allocate(bytes.len() + GUARD).unwrap();
    let guarded = [bytes, &[GUARD_BYTE; GUARD]].concat();
    backend.write(MemRef { memory: &*memory, offset: 0 }, &guarded).unwrap();
    memory
}

/// Memory as a kernel may find it: whatever lies in it must not matter.
pub fn garbage(backend: &dyn Backend, bytes: usize) -> Arc<dyn Memory> {
    memory(backend, &vec![0xff; bytes])
}

/// The first `length` bytes; the guard behind them must stand.
pub fn read(backend: &dyn Backend, memory: &dyn Memory, length: usize) -> Vec<u8> {
    let mut all = backend.read(MemRef { memory, offset: 0 }, length + GUARD).unwrap().wait().unwrap();
    assert!(all[length..].iter().all(|&b| b == GUARD_BYTE), "a kernel wrote behind its output");
    all.truncate(length);
    all
}
