//! Graphs as deep as memory allows, on a small stack.

use lanthorn_ir::graph::{from_bytes, to_bytes, to_text, topological};
use lanthorn_ir::transform::{Tape, checkpoint, grad, hessian, jacrev, jvp, vjp, vmap};
use lanthorn_ir::{Builder, DType, Lazy, TensorType, Value, ops};

const DEPTH: usize = 100_000;

fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(256 * 1024).spawn(body).unwrap().join().unwrap();
}

fn leaf(shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(DType::F32, shape)).unwrap()
}

fn chain<B: Builder>(b: &B, x: &B::Value) -> B::Value {
    let mut y = x.clone();
    for _ in 0..DEPTH / 2 {
        y = ops::sin(b, &ops::mul(b, &y, x).unwrap()).unwrap();
    }
    y
}

#[test]
fn a_deep_chain_builds_prints_serialises_and_drops() {
    on_a_small_stack(|| {
        let x = leaf(&[2]);
        let y = chain(&Lazy, &x);
        assert_eq!(topological(std::slice::from_ref(&y), |_| false).len(), DEPTH + 1);
        let bytes = to_bytes(std::slice::from_ref(&x), std::slice::from_ref(&y)).unwrap();
        let (leaves, roots) = from_bytes(&bytes).unwrap();
        assert_eq!((leaves.len(), roots[0].ty()), (1, y.ty()));
        assert_eq!(to_text(&roots).lines().count(), DEPTH + 2);
    });
}

#[test]
fn a_deep_chain_differentiates_in_both_directions() {
    on_a_small_stack(|| {
        let x = leaf(&[]);
        let y = chain(&Lazy, &x);
        let grads = grad(&y, std::slice::from_ref(&x)).unwrap();
        assert_eq!(grads[0].ty(), x.ty());
        let second = grad(&grads[0], std::slice::from_ref(&x)).unwrap();
        assert_eq!(second[0].ty(), x.ty());
        let tangent = leaf(&[]);
        assert!(jvp(std::slice::from_ref(&y), std::slice::from_ref(&x), &[tangent]).unwrap()[0].is_some());
    });
}

#[test]
fn a_deep_chain_maps_and_checkpoints() {
    on_a_small_stack(|| {
        let x = leaf(&[3, 2]);
        let y = vmap(|x| Ok(vec![chain(&Lazy, &x[0])]), std::slice::from_ref(&x), &[true]).unwrap();
        assert_eq!(y[0].ty(), x.ty());
        let y = checkpoint(|x| Ok(vec![chain(&Lazy, &x[0])]), std::slice::from_ref(&x)).unwrap();
        let cotangent = leaf(&[3, 2]);
        assert!(vjp(&y, &[cotangent], std::slice::from_ref(&x)).unwrap()[0].is_some());
    });
}

#[test]
fn a_deep_chain_goes_back_over_a_tape() {
    on_a_small_stack(|| {
        let tape = Tape::new(Lazy);
        let x = tape.watch(leaf(&[]));
        let y = chain(&tape, &x);
        assert_eq!(tape.len(), DEPTH);
        assert_eq!(tape.grad(&y, std::slice::from_ref(&x)).unwrap().len(), 1);
    });
}

#[test]
fn a_deep_chain_goes_through_transforms_of_transforms() {
    on_a_small_stack(|| {
        let rows = leaf(&[3]);
        let f = |x: &[Value]| grad(&chain(&Lazy, &x[0]), &x[..1]);
        let mapped = vmap(f, std::slice::from_ref(&rows), &[true]).unwrap();
        assert_eq!(mapped[0].ty(), rows.ty());

        let (x, tangent) = (leaf(&[]), leaf(&[]));
        let slope =
            jvp(&[chain(&Lazy, &x)], std::slice::from_ref(&x), &[tangent]).unwrap().remove(0).unwrap();
        assert_eq!(grad(&slope, std::slice::from_ref(&x)).unwrap()[0].ty(), x.ty());
        let y = chain(&Lazy, &x);
        assert_eq!(jacrev(&y, std::slice::from_ref(&x)).unwrap()[0].ty(), x.ty());
        assert_eq!(hessian(&y, std::slice::from_ref(&x)).unwrap()[0][0].ty(), x.ty());
    });
}

#[test]
fn a_deep_checkpoint_is_mapped_and_differentiated_forward() {
    on_a_small_stack(|| {
        let rows = leaf(&[3]);
        let f = |x: &[Value]| checkpoint(|x| Ok(vec![chain(&Lazy, &x[0])]), x);
        let mapped = vmap(f, std::slice::from_ref(&rows), &[true]).unwrap();
        let tangent = leaf(&[3]);
        let slopes = jvp(&mapped, std::slice::from_ref(&rows), &[tangent.clone()]).unwrap();
        assert!(slopes[0].is_some());
        assert!(vjp(&mapped, &[tangent], std::slice::from_ref(&rows)).unwrap()[0].is_some());
    });
}
