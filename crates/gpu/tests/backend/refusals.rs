//! What the GPU lacks is refused by name when a program is compiled; nothing runs elsewhere.

use lanthorn_compiler::backend::MemRef;
use lanthorn_compiler::pipeline::Options;
use lanthorn_ir::prim::{Elementwise, Reduce};
use lanthorn_ir::{Builder, DType, ErrorKind, Lazy, Prim, TensorType, Value, ops};

use crate::harness::{Eager, Lie, Sequence, Strided, build};

#[test]
fn dtypes_without_a_shader_are_refused_by_name() {
    for dtype in [DType::F64, DType::I64, DType::U64, DType::F16, DType::BF16, DType::I8, DType::U16] {
        let x = Value::leaf(TensorType::new(dtype, [3])).unwrap();
        for root in [ops::add(&Lazy, &x, &x).unwrap(), ops::flip(&Lazy, &x, &[0]).unwrap()] {
            let error = build(std::slice::from_ref(&x), &[root], &Options::default()).err().unwrap();
            assert_eq!(error.kind, ErrorKind::Dtype, "{error}");
            assert!(error.to_string().contains(dtype.name()), "{error}");
        }
        let x = Strided::new(&Sequence::new(1).tensor(DType::F32, &[3]), Lie::Contiguous);
        let error = Eager.apply(Prim::Elementwise(Elementwise::Cast(dtype)), &[x]).err().unwrap();
        assert!(error.kind == ErrorKind::Dtype && error.to_string().contains(dtype.name()), "{error}");
    }
}

#[test]
fn primitives_without_a_shader_are_refused_by_name() {
    let x = Value::leaf(TensorType::new(DType::F32, [4, 3])).unwrap();
    let ids = Value::leaf(TensorType::new(DType::I32, [2])).unwrap();
    let embedded = ops::embedding(&Lazy, &x, &ids).unwrap();
    let largest = Lazy.apply1(Prim::Reduce(Reduce::ArgMax { axis: 1 }), &[x.clone()]).unwrap();
    for (root, name) in [(embedded, "embedding"), (largest, "argmax")] {
        let error = build(&[x.clone(), ids.clone()], &[root], &Options::default()).err().unwrap();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn memory_of_another_device_is_refused() {
    let other = lanthorn_gpu::GpuBackend::open().unwrap();
    let memory = lanthorn_compiler::backend::Backend::allocate(&other, 16).unwrap();
    let place = MemRef { memory: &*memory, offset: 0 };
    assert_eq!(crate::backend().read(place, 4).err().unwrap().kind, ErrorKind::Device);
    assert_eq!(crate::backend().write(place, &[0; 4]).err().unwrap().kind, ErrorKind::Device);
}

#[test]
fn more_memory_than_the_device_binds_is_refused() {
    let most = crate::gpu().limits().binding_bytes as usize;
    let error = crate::backend().allocate(most + 1).err().unwrap();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
}
