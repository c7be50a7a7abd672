//! The trial program on the GPU of this machine, held against the CPU.

use lanthorn_compiler::backend::Backend;
use lanthorn_cpu::CpuBackend;
use lanthorn_gpu::GpuBackend;
use lanthorn_gpu::trial::{Inputs, start};

fn run(backend: &dyn Backend, inputs: &Inputs<'_>) -> [Vec<f32>; 2] {
    let mut trial = start(backend, inputs).unwrap();
    loop {
        match trial.poll().unwrap() {
            Some(results) => return results,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_region_and_a_product_equal_the_cpus() {
    let (rows, inner, columns) = (37, 19, 23);
    let elements = |n: usize| (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect::<Vec<_>>();
    let (x, scale, w) = (elements(rows * inner), elements(inner), elements(inner * columns));
    let inputs = Inputs { rows, inner, columns, x: &x, scale: &scale, w: &w };
    let gpu =
        GpuBackend::open().unwrap_or_else(|e| panic!("{e}; tools/gpu-setup.sh installs a software one"));
    for (found, expected) in run(&gpu, &inputs).iter().zip(&run(&CpuBackend, &inputs)) {
        assert_eq!(found.len(), expected.len());
        for (x, y) in found.iter().zip(expected) {
            assert!((x - y).abs() <= 2e-5 * (1.0 + y.abs()), "{x}, expected {y}");
        }
    }
    assert!(start(&gpu, &Inputs { x: &x[1..], ..inputs }).is_err());
}
