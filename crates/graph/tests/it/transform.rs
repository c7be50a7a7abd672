//! Transforms, held against closed forms.

use lanthorn_graph::Handle;
use lanthorn_ir::ErrorKind;
use lanthorn_ir::ops::table::Attribute;

use super::support::{Face, close, ints};

/// `sum(sin(x) * x)`.
fn loss_of(face: &mut Face, x: Handle) -> Handle {
    let sine = face.op("sin", &[x], &[]);
    let product = face.op("mul", &[sine, x], &[]);
    face.op("sum", &[product], &[])
}

const X: [f32; 3] = [0.5, -1.25, 2.0];

fn x64() -> [f64; 3] {
    X.map(f64::from)
}

#[test]
fn gradients_of_gradients() {
    let mut face = Face::new();
    let x = face.f32(&[3], &X);
    let loss = loss_of(&mut face, x);
    let first = face.graph.grad(loss, &[x]).unwrap()[0];
    close(&face.read(first), &x64().map(|x| x.cos() * x + x.sin()));
    let sum = face.op("sum", &[first], &[]);
    let second = face.graph.grad(sum, &[x]).unwrap()[0];
    close(&face.read(second), &x64().map(|x| 2.0 * x.cos() - x.sin() * x));
}

#[test]
fn a_gradient_in_what_the_loss_does_not_read_is_zero() {
    let mut face = Face::new();
    let [x, other] = [face.f32(&[3], &X), face.f32(&[2], &[1.0, 2.0])];
    let loss = loss_of(&mut face, x);
    let gradients = face.graph.grad(loss, &[x, other]).unwrap();
    assert_eq!(face.read(gradients[1]), [0.0, 0.0]);
    let product = face.op("sin", &[x], &[]);
    assert_eq!(face.graph.grad(product, &[x]).unwrap_err().kind, ErrorKind::Shape);
}

#[test]
fn forward_and_reverse_products_with_the_jacobian() {
    let mut face = Face::new();
    // y = w x, whose Jacobian is w.
    let w = face.f32(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let x = face.f32(&[3, 1], &X);
    let y = face.op("matmul", &[w, x], &[]);
    let along_x = face.f32(&[3, 1], &[1.0, 0.0, -1.0]);
    let tangent = face.graph.jvp(y, x, along_x).unwrap();
    assert_eq!(face.read(tangent), [-2.0, -2.0]);
    let along_y = face.f32(&[2, 1], &[1.0, -1.0]);
    let cotangent = face.graph.vjp(y, x, along_y).unwrap();
    assert_eq!(face.read(cotangent), [-3.0, -3.0, -3.0]);
    // Of what does not depend on `x` both are zero.
    let other = face.op("exp", &[along_y], &[]);
    let tangent = face.graph.jvp(other, x, along_x).unwrap();
    assert_eq!(face.read(tangent), [0.0, 0.0]);
    let cotangent = face.graph.vjp(other, x, along_y).unwrap();
    assert_eq!(face.read(cotangent), [0.0, 0.0, 0.0]);
    assert_eq!(face.graph.vjp(y, x, along_x).unwrap_err().kind, ErrorKind::Shape);
}

#[test]
fn a_map_stacks_results_in_front() {
    let mut face = Face::new();
    let x = face.input(0, &[3]);
    let w = face.f32(&[3], &[1.0, 10.0, 100.0]);
    let product = face.op("mul", &[x, w], &[]);
    let dot = face.op("sum", &[product], &[]);
    let columns = face.f32(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for axis in [1, -1] {
        let mapped = face.graph.vmap(dot, x, columns, axis).unwrap();
        assert_eq!(face.read(mapped), [531.0, 642.0]);
    }
    // What does not depend on `x` is repeated.
    let constant = face.op("sum", &[w], &[]);
    let mapped = face.graph.vmap(constant, x, columns, 1).unwrap();
    assert_eq!(face.read(mapped), [111.0, 111.0]);
    assert_eq!(face.graph.vmap(dot, x, columns, 0).unwrap_err().kind, ErrorKind::Shape);
    assert_eq!(face.graph.vmap(dot, x, columns, 2).unwrap_err().kind, ErrorKind::Shape);
}

#[test]
fn per_example_gradients_are_a_map_of_a_gradient() {
    let mut face = Face::new();
    let x = face.input(0, &[3]);
    let w = face.f32(&[3], &X);
    let product = face.op("mul", &[x, w], &[]);
    let sine = face.op("sin", &[product], &[]);
    let loss = face.op("sum", &[sine], &[]);
    let gradient = face.graph.grad(loss, &[w]).unwrap()[0];
    let batch = [1f32, 2.0, 3.0, -1.0, 0.0, 0.5];
    let examples = face.f32(&[2, 3], &batch);
    let mapped = face.graph.vmap(gradient, x, examples, 0).unwrap();
    let expected: Vec<f64> = batch
        .iter()
        .zip(x64().iter().cycle())
        .map(|(&x, w)| f64::from(x) * (f64::from(x) * w).cos())
        .collect();
    close(&face.read(mapped), &expected);
}

#[test]
fn a_checkpoint_changes_no_number_and_what_is_before_it_is_its_own() {
    let mut face = Face::new();
    let x = face.f32(&[3], &X);
    let first = face.op("sin", &[x], &[]);
    let first = face.graph.checkpoint(first).unwrap();
    let second = face.op("exp", &[first], &[]);
    let second = face.graph.checkpoint(second).unwrap();
    let loss = face.op("sum", &[second], &[]);
    close(&face.read(loss), &[x64().map(|x| x.sin().exp()).iter().sum::<f64>()]);
    let gradients = face.graph.grad(loss, &[x, first]).unwrap();
    close(&face.read(gradients[0]), &x64().map(|x| x.sin().exp() * x.cos()));
    close(&face.read(gradients[1]), &x64().map(|x| x.sin().exp()));
    // A leaf is its own checkpoint.
    let same = face.graph.checkpoint(x).unwrap();
    assert_eq!(face.read(same), x64());
}

#[test]
fn a_checkpoint_of_a_random_value_sees_the_draw_of_its_execution() {
    let mut face = Face::new();
    let x = face.f32(&[256], &[1.0; 256]);
    let key = face.graph.random_key().unwrap();
    let dropped = face.op("dropout", &[x, key], &[Attribute::Float(0.5)]);
    let cubed = face.op("pow_scalar", &[dropped], &[Attribute::Float(3.0)]);
    let kept = face.graph.checkpoint(cubed).unwrap();
    let loss = face.op("sum", &[kept], &[]);
    let gradient = face.graph.grad(loss, &[x]).unwrap()[0];
    let computed = face.compute(&[kept, gradient]);
    // (2 x)^3 and its derivative, 3 (2 x)^2 2, where x was not dropped.
    let expected: Vec<f64> = face.elements(computed[0]).iter().map(|kept| kept * 3.0).collect();
    close(&face.elements(computed[1]), &expected);
    assert!(expected.contains(&0.0) && expected.contains(&24.0));
}

#[test]
fn no_derivative_passes_a_stopped_gradient() {
    let mut face = Face::new();
    let x = face.f32(&[3], &X);
    let stopped = face.op("stop_gradient", &[x], &[]);
    let product = face.op("mul", &[x, stopped], &[]);
    let loss = face.op("sum", &[product], &ints(&[]));
    let gradient = face.graph.grad(loss, &[x]).unwrap()[0];
    close(&face.read(gradient), &x64());
}
