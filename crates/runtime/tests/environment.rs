//! What the environment sets. A test alone in its process, since the environment is the process's.

use std::sync::Arc;

use lanthorn_ir::{DType, ErrorKind};
use lanthorn_runtime::{Device, EagerTensor, Tensor};

fn device(limit: &str) -> Device {
    // SAFETY: the only test of this process, so no other thread reads the environment meanwhile.
    unsafe { std::env::set_var("LANTHORN_MEMORY_LIMIT", limit) };
    Device::new(Arc::new(lanthorn_cpu::CpuBackend))
}

#[test]
fn the_memory_limit() {
    let limited = device("64 KiB");
    assert_eq!(limited.memory_limit(), Some(64 << 10));
    let kept = EagerTensor::from_slice(&limited, &[4096], &[1f32; 4096]).unwrap();
    let large = Tensor::ones(&limited, &[16384], DType::F32).unwrap().neg().unwrap();
    let error = large.to_vec::<f32>().unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    let message = error.to_string();
    assert!(
        message.contains("65536 bytes on top of 16384 in use exceed the limit of 65536 bytes"),
        "{message}"
    );
    // What failed has left nothing, and the limit may be lifted.
    assert_eq!(limited.stats().live_bytes, 16384);
    limited.set_memory_limit(None);
    assert_eq!(large.to_vec::<f32>().unwrap()[16383], -1.0);
    drop(kept);

    assert_eq!(device("").memory_limit(), None);
    let error = EagerTensor::from_slice(&device("a few"), &[1], &[1f32]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    let message = error.to_string();
    assert!(message.contains(r#"LANTHORN_MEMORY_LIMIT: "a few" is no size; expected bytes"#), "{message}");
}
