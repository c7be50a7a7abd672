//! A graph of 100,000 nodes from its building to its end, on a small stack.

use std::sync::Arc;

use lanthorn_ir::{DType, Lazy, TensorType, Value, ops, transform};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};

const STEPS: usize = 50_000;

#[test]
fn a_hundred_thousand_nodes_are_built_differentiated_compiled_run_and_dropped() {
    let body = || {
        let device = Device::new(Arc::new(lanthorn_cpu::CpuBackend));
        let x = Value::leaf(TensorType::scalar(DType::F64)).unwrap();
        let mut y = x.clone();
        for _ in 0..STEPS {
            // It comes to rest where y = sin(y) + x, with derivative 1 / (1 - cos(y)).
            y = ops::add(&Lazy, &ops::sin(&Lazy, &y).unwrap(), &x).unwrap();
        }
        let slope = transform::grad(&y, std::slice::from_ref(&x)).unwrap().remove(0);
        let program =
            Executable::new(&device, std::slice::from_ref(&x), &[y, slope], &Options::default()).unwrap();
        let at = EagerTensor::scalar(&device, 0.5, DType::F64).unwrap();
        let found = program.call(&[&at], &CancelToken::never()).unwrap();
        let y = (0..1000).fold(0.5f64, |y, _| y.sin() + 0.5);
        assert!((found[0].item().unwrap() - y).abs() < 1e-12);
        assert!((found[1].item().unwrap() - 1.0 / (1.0 - y.cos())).abs() < 1e-9);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap();
}
