//! Host tensors as bytes of a device, with a guard behind them.

use std::sync::Arc;

use half::{bf16, f16};
use lanthorn_compiler::backend::{Backend, MemRef, Memory};
use lanthorn_interp::{Data, HostTensor};
use lanthorn_ir::{DType, TensorType};

macro_rules! bytes {
    ($data:expr, $($variant:ident),*) => {
        match $data {
            Data::Bool(v) => v.iter().map(|&v| v as u8).collect(),
            $(Data::$variant(v) => v.iter().flat_map(|v| v.to_ne_bytes()).collect(),)*
        }
    };
}

/// The elements as a device keeps them.
pub fn to_bytes(tensor: &HostTensor) -> Vec<u8> {
    bytes!(tensor.data(), U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64)
}

/// Elements that a device kept. Panics where a truth value is neither 0 nor 1.
pub fn from_bytes(ty: &TensorType, bytes: &[u8]) -> HostTensor {
    macro_rules! read {
        ($t:ty) => {
            Data::from(
                bytes
                    .chunks_exact(size_of::<$t>())
                    .map(|chunk| <$t>::from_ne_bytes(chunk.try_into().unwrap()))
                    .collect::<Vec<$t>>(),
            )
        };
    }
    let data = match ty.dtype {
        DType::Bool => {
            assert!(bytes.iter().all(|&b| b <= 1), "a truth value is neither 0 nor 1");
            Data::from(bytes.iter().map(|&b| b != 0).collect::<Vec<bool>>())
        }
        DType::U8 => read!(u8),
        DType::U16 => read!(u16),
        DType::U32 => read!(u32),
        DType::U64 => read!(u64),
        DType::I8 => read!(i8),
        DType::I16 => read!(i16),
        DType::I32 => read!(i32),
        DType::I64 => read!(i64),
        DType::F16 => read!(f16),
        DType::BF16 => read!(bf16),
        DType::F32 => read!(f32),
        DType::F64 => read!(f64),
        other => panic!("no tensors of {other}"),
    };
    HostTensor::new(&ty.shape, data).unwrap()
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
