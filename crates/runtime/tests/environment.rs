//! What the environment sets. A test alone in its process, since the environment is the process's.

use std::sync::Arc;

use lanthorn_ir::{DType, ErrorKind};
use lanthorn_runtime::{Device, EagerTensor, Tensor};

fn device_with(variable: &str, value: &str) -> Device {
    // SAFETY: the only test of this process, so no other thread reads the environment meanwhile.
    unsafe { std::env::set_var(variable, value) };
    Device::new(Arc::new(lanthorn_cpu::CpuBackend))
}

fn device(limit: &str) -> Device {
    device_with("LANTHORN_MEMORY_LIMIT", limit)
}

/// What is wrong is told by the first tensor, and not passed over.
fn other_settings() {
    for (variable, value, expected) in [
        ("LANTHORN_THREADS", "abc", "\"abc\" is no number of threads; expected 1 to 512"),
        ("LANTHORN_THREADS", "0", "\"0\" is no number of threads"),
        ("LANTHORN_THREADS", "-1", "\"-1\" is no number of threads"),
        ("LANTHORN_ISA", "foo", "\"foo\" is no instruction set of this machine; expected one of scalar"),
    ] {
        let error = EagerTensor::from_slice(&device_with(variable, value), &[1], &[1f32]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Device);
        let message = error.to_string();
        assert!(message.contains(&format!("{variable}: {expected}")), "{message}");
        // Nothing is asked for.
        assert!(EagerTensor::from_slice(&device_with(variable, " "), &[1], &[1f32]).is_ok());
    }
    assert!(EagerTensor::from_slice(&device_with("LANTHORN_THREADS", " 3 "), &[1], &[1f32]).is_ok());
}

#[test]
fn what_the_environment_sets() {
    other_settings();
    the_memory_limit();
}

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
