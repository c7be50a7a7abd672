//! In-place writes: what is refused, what is converted, and what gradients see of them.

use lanthorn_ir::ops::table::Attribute;
use lanthorn_ir::{DType, ErrorKind, TensorType};

use super::support::{Face, close, float, int2};

#[test]
fn a_broadcast_view_is_refused_by_name() {
    let mut face = Face::new();
    let x = face.f32(&[3], &[1., 2., 3.]);
    let wide = face.op("broadcast_to", &[x], &[Attribute::Ints(vec![2, 3])]);
    assert_eq!(face.read(wide), [1., 2., 3., 1., 2., 3.]);
    let error = face.try_assign(wide, "neg", &[wide], &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.to_string().contains("broadcast view, of [3] to [2, 3]"), "{error}");
    assert_eq!(face.read(x), [1., 2., 3.]);
    // But what is written to its base is seen.
    face.assign(x, "neg", &[x], &[]);
    assert_eq!(face.read(wide), [-1., -2., -3., -1., -2., -3.]);
}

#[test]
fn a_view_of_windows_is_refused_by_name() {
    let mut face = Face::new();
    let x = face.f32(&[4], &[1., 2., 3., 4.]);
    let numbers = [Attribute::Int(0), Attribute::Int(2)];
    let windows = face.op("sliding_window", &[x], &numbers);
    assert_eq!(face.read(windows), [1., 2., 2., 3., 3., 4.]);
    let first = face.op("select", &[windows], &int2(1, 0));
    for target in [windows, first] {
        let error = face.try_assign(target, "neg", &[target], &[]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.to_string().contains("windows of [4], which may overlap"), "{error}");
    }
    assert_eq!(face.read(x), [1., 2., 3., 4.]);
    face.assign(x, "neg", &[x], &[]);
    assert_eq!(face.read(windows), [-1., -2., -2., -3., -3., -4.]);
}

#[test]
fn a_variable_is_written_only_without_gradients() {
    let mut face = Face::new();
    let w = face.variable(&[2], &[1., 2.]);
    let first = face.op("select", &[w], &int2(0, 0));
    for target in [w, first] {
        let error = face.try_assign(target, "neg", &[target], &[]).unwrap_err();
        assert!(error.to_string().contains("only inside no_grad"), "{error}");
        assert!(face.session.copy(target, w).is_err());
    }
    face.no_grad(|face| face.assign(first, "mul_scalar", &[first], &float(5.0)));
    assert_eq!(face.read(w), [5., 2.]);
    let data = face.session.detach(w).unwrap();
    face.assign(data, "add_scalar", &[data], &float(1.0));
    assert_eq!(face.read(w), [6., 3.]);
    let about = face.session.describe(w).unwrap();
    assert!(about.requires_grad && about.is_tracked && about.version == 2);
    let about = face.session.describe(data).unwrap();
    assert!(!about.requires_grad && !about.is_tracked && about.is_view);
    // It is a variable still, at its new elements.
    let square = face.op("square", &[w], &[]);
    let loss = face.sum(square);
    face.backward(loss);
    assert_eq!(face.grad(w).unwrap(), [12., 6.]);
}

#[test]
fn results_must_fit_the_target() {
    let mut face = Face::new();
    let x = face.f32(&[2], &[1., 2.]);
    let wide = face.f32(&[3, 2], &[1., 2., 3., 4., 5., 6.]);
    let error = face.try_assign(x, "add", &[x, wide], &[]).unwrap_err();
    assert!(
        error.to_string().starts_with("add: the result is f32[3, 2], which does not broadcast"),
        "{error}"
    );
    let whole = TensorType::new(DType::I32, [2]);
    let ids = face.session.create(&whole, &[7, 0, 0, 0, 9, 0, 0, 0]).unwrap();
    let error = face.try_assign(ids, "neg", &[x], &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Dtype);
    // Of an integer a float may be made, and `copy` converts whatever it is asked to.
    face.assign(x, "neg", &[ids], &[]);
    assert_eq!(face.read(x), [-7., -9.]);
    face.assign(x, "add_scalar", &[x], &float(0.75));
    face.session.copy(ids, x).unwrap();
    assert_eq!(face.read(ids), [-6., -8.]);
    let one = face.f32(&[], &[5.0]);
    face.session.copy(wide, one).unwrap();
    assert_eq!(face.read(wide), [5.0; 6]);
    let error = face
        .session
        .assign(wide, lanthorn_ir::ops::table::id_of("chunk").unwrap(), &[Some(wide)], &[Attribute::Int(2)])
        .unwrap_err();
    assert!(error.to_string().contains("gives 2 results"), "{error}");
}

#[test]
fn gradients_pass_through_writes() {
    // y = 2x; y[1] = 3 x[0]; loss = sum(y^2) = 4 x0^2 + 9 x0^2 + 4 x2^2.
    let mut face = Face::new();
    let x = face.variable(&[3], &[1., 2., 3.]);
    let y = face.op("mul_scalar", &[x], &float(2.0));
    let middle = face.op("select", &[y], &int2(0, 1));
    let first = face.op("select", &[x], &int2(0, 0));
    face.assign(middle, "mul_scalar", &[first], &float(3.0));
    let square = face.op("square", &[y], &[]);
    let loss = face.sum(square);
    face.backward(loss);
    close(&face.grad(x).unwrap(), &[26., 0., 24.]);
    assert_eq!(face.read(y), [2., 3., 6.]);
}

#[test]
fn a_tensor_without_gradients_gets_them_by_a_write() {
    let mut face = Face::new();
    let w = face.variable(&[2], &[3., 4.]);
    let x = face.f32(&[2, 2], &[1., 1., 1., 1.]);
    let row = face.op("select", &[x], &int2(0, 1));
    face.assign(row, "square", &[w], &[]);
    assert!(face.session.describe(x).unwrap().is_tracked);
    let loss = face.sum(x);
    face.backward(loss);
    assert_eq!(face.grad(w).unwrap(), [6., 8.]);
    // Overwritten without gradients, it still has its history; overwritten by what has none, it depends on nothing.
    face.no_grad(|face| face.assign(x, "zeros_like", &[x], &[]));
    assert!(face.session.describe(x).unwrap().is_tracked);
    let loss = face.sum(x);
    face.backward(loss);
    assert_eq!(face.grad(w).unwrap(), [12., 16.]);
    face.assign(x, "zeros_like", &[x], &[]);
    assert!(!face.session.describe(x).unwrap().is_tracked);
    let loss = face.sum(x);
    assert!(face.session.backward(loss, None).is_err());
}

#[test]
fn a_gradient_is_that_of_the_elements_as_they_were() {
    let mut face = Face::new();
    let w = face.variable(&[1], &[3.]);
    let square = face.op("square", &[w], &[]);
    let loss = face.sum(square);
    face.no_grad(|face| face.assign(w, "mul_scalar", &[w], &float(10.0)));
    assert_eq!(face.read(w), [30.]);
    face.backward(loss);
    assert_eq!(face.grad(w).unwrap(), [6.]);
    assert_eq!(face.read(loss), [9.]);
}
