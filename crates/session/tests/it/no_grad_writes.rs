//! Writes that derivatives do not see, over results that have a history. Values of upstream torch 2, which keeps the
//! history of a tensor that is written to under `no_grad` or through `detach`.

use lanthorn_ir::ops::table::Attribute;
use lanthorn_session::Handle;

use super::support::{Face, close, float, int2};

/// The gradient with respect to `x = [1, 2, 3]` of a loss of `y = 2x`, written to by `write`.
#[track_caller]
fn check(
    write: impl FnOnce(&mut Face, Handle, Handle),
    loss: impl FnOnce(&mut Face, Handle, Handle) -> Handle,
    expected: [f64; 3],
) {
    let mut face = Face::new();
    let x = face.variable(&[3], &[1., 2., 3.]);
    let y = face.op("mul_scalar", &[x], &float(2.0));
    write(&mut face, x, y);
    assert!(face.session.describe(y).unwrap().is_tracked);
    let loss = loss(&mut face, x, y);
    face.backward(loss);
    close(&face.grad(x).unwrap(), &expected);
}

fn with_x(face: &mut Face, x: Handle, y: Handle) -> Handle {
    let both = face.op("add", &[y, x], &[]);
    face.sum(both)
}

fn of_squares(face: &mut Face, _: Handle, y: Handle) -> Handle {
    let squares = face.op("square", &[y], &[]);
    face.sum(squares)
}

fn first(face: &mut Face, y: Handle) -> Handle {
    face.op("select", &[y], &int2(0, 0))
}

fn zero_first(face: &mut Face, _: Handle, y: Handle) {
    face.no_grad(|face| {
        let first = first(face, y);
        face.assign(first, "zeros_like", &[first], &[]);
    });
}

fn whole(face: &mut Face, _: Handle, y: Handle) {
    let other = face.f32(&[3], &[7., 8., 9.]);
    face.no_grad(|face| face.session.copy(y, other).unwrap());
}

#[test]
fn a_write_keeps_the_history() {
    check(zero_first, with_x, [3., 3., 3.]);
    let bounds = [Attribute::Float(-1.0), Attribute::Float(5.0)];
    check(|face, _, y| face.no_grad(|face| face.assign(y, "clamp", &[y], &bounds)), with_x, [3., 3., 3.]);
    let double = |face: &mut Face, _: Handle, y: Handle| {
        let data = face.session.detach(y).unwrap();
        face.assign(data, "mul_scalar", &[data], &float(2.0));
    };
    check(double, with_x, [3., 3., 3.]);
    check(whole, with_x, [3., 3., 3.]);
}

#[test]
fn derivatives_are_taken_at_the_elements_that_were_written() {
    check(zero_first, of_squares, [0., 16., 24.]);
    check(whole, of_squares, [28., 32., 36.]);
    let scaled_by_x = |face: &mut Face, x: Handle, y: Handle| {
        face.no_grad(|face| face.assign(y, "mul", &[y, x], &[]));
    };
    check(scaled_by_x, of_squares, [8., 32., 72.]);
    // Read between, so that the history leads through a value that is computed.
    let read = |face: &mut Face, x: Handle, y: Handle| {
        face.read(y);
        whole(face, x, y);
        assert_eq!(face.read(y), [7., 8., 9.]);
    };
    check(read, of_squares, [28., 32., 36.]);
}

#[test]
fn writes_of_both_kinds_follow_one_another() {
    let triple = |face: &mut Face, y: Handle| {
        face.no_grad(|face| face.assign(y, "mul_scalar", &[y], &float(3.0)));
    };
    let twice = |face: &mut Face, _: Handle, y: Handle| {
        triple(face, y);
        face.assign(y, "mul_scalar", &[y], &float(2.0));
    };
    check(twice, of_squares, [96., 192., 288.]);
    let over = |face: &mut Face, _: Handle, y: Handle| {
        triple(face, y);
        let middle = face.op("select", &[y], &int2(0, 1));
        face.assign(middle, "zeros_like", &[middle], &[]);
    };
    check(over, of_squares, [24., 0., 72.]);
}

#[test]
fn views_see_the_elements_and_the_history() {
    let view = |face: &mut Face, _: Handle, y: Handle| {
        let tail = face.op("narrow", &[y], &[Attribute::Int(0), Attribute::Int(1), Attribute::Int(2)]);
        let nine = face.f32(&[], &[9.]);
        face.no_grad(|face| face.session.copy(tail, nine).unwrap());
        let squares = face.op("square", &[tail], &[]);
        face.sum(squares)
    };
    check(|_, _, _| {}, view, [0., 36., 36.]);
    let both = |face: &mut Face, _: Handle, y: Handle| {
        let data = face.session.detach(y).unwrap();
        let first = first(face, data);
        let four = face.f32(&[], &[4.]);
        face.session.copy(first, four).unwrap();
        let product = face.op("mul", &[y, data], &[]);
        face.sum(product)
    };
    check(|_, _, _| {}, both, [8., 8., 12.]);
}

#[test]
fn second_derivatives_pass_too() {
    let mut face = Face::new();
    let x = face.variable(&[3], &[1., 2., 3.]);
    let y = face.op("mul_scalar", &[x], &float(2.0));
    let one = face.f32(&[], &[1.]);
    let data = face.session.detach(y).unwrap();
    for at in [0, 1] {
        let element = face.op("select", &[data], &int2(0, at));
        face.session.copy(element, one).unwrap();
    }
    let cubes = face.op("pow_scalar", &[y], &float(3.0));
    let loss = face.sum(cubes);
    let slope = face.session.gradients(loss, None, &[x]).unwrap()[0];
    close(&face.read(slope), &[6., 6., 216.]);
    let loss = face.sum(slope);
    face.backward(loss);
    close(&face.grad(x).unwrap(), &[24., 24., 144.]);
}

#[test]
fn a_result_that_was_used_before_the_write_keeps_its_elements() {
    // Torch refuses both: what it saved for the derivative has been overwritten. Here a value is never overwritten.
    let mut face = Face::new();
    let x = face.variable(&[2], &[0., 1.]);
    let y = face.op("exp", &[x], &[]);
    let square = face.op("square", &[y], &[]);
    face.no_grad(|face| face.assign(y, "zeros_like", &[y], &[]));
    let before = face.sum(square);
    let after = face.sum(y);
    let loss = face.op("add", &[before, after], &[]);
    face.backward(loss);
    let e = std::f64::consts::E;
    close(&face.grad(x).unwrap(), &[2. + 1., 2. * e * e + e]);
    assert_eq!(face.read(y), [0., 0.]);
}
