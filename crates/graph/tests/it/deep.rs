//! Graphs of 100,000 nodes on a small stack.

use super::support::Face;

const DEPTH: usize = 100_000;

#[test]
fn a_deep_chain_is_built_differentiated_computed_and_released() {
    let body = || {
        let mut face = Face::new();
        let x = face.f32(&[2], &[1.0, -1.0]);
        let mut y = x;
        for _ in 0..DEPTH / 2 {
            let negated = face.op("neg", &[y], &[]);
            y = face.op("mul", &[negated, x], &[]);
        }
        // (-x)^n x, of an even n.
        let checkpoint = face.graph.checkpoint(y).unwrap();
        let sum = face.op("sum", &[checkpoint], &[]);
        let gradient = face.graph.grad(sum, &[x]).unwrap()[0];
        assert_eq!(face.graph.describe(gradient).unwrap().0.shape[..], [2]);
        assert_eq!(face.read(y), [1.0, -1.0]);
        for handle in [y, checkpoint, sum, gradient] {
            face.graph.release(handle).unwrap();
        }
        drop(face);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap();
}
