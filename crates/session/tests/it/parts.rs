//! Parts of tensors that are computed: arguments of programs, so that another part makes no other program.

use lanthorn_ir::ops::table::Attribute;
use lanthorn_ir::{DType, TensorType};
use lanthorn_session::random::Distribution;
use lanthorn_session::{Handle, Purpose};

use super::support::{Face, float, int2};

fn narrow(face: &mut Face, x: Handle, axis: i64, start: i64, length: i64) -> Handle {
    face.op("narrow", &[x], &[Attribute::Int(axis), Attribute::Int(start), Attribute::Int(length)])
}

/// `f` of `[[0, 1, .. 5], [6, ..], ..]` of four rows for three places gives the elements and compiles nothing after the
/// first.
#[track_caller]
fn check(f: impl Fn(&mut Face, Handle, i64) -> Handle, expected: impl Fn(f64) -> Vec<f64>) {
    let mut face = Face::new();
    let x = face.f32(&[4, 6], &(0..24).map(|x| x as f32).collect::<Vec<_>>());
    let mut compiles = Vec::new();
    for place in 0..3 {
        let part = f(&mut face, x, place);
        let result = face.op("mul_scalar", &[part], &float(2.0));
        assert_eq!(face.read(result), expected(place as f64));
        compiles.push(face.session.stats().engine.compiles);
    }
    assert_eq!(compiles[0], compiles[2], "{compiles:?}");
}

#[test]
fn a_part_is_an_argument_wherever_it_lies() {
    // Rows lie in memory one after the other, columns do not.
    check(
        |face, x, at| narrow(face, x, 0, at, 2),
        |at| (0..12).map(|n| 2.0 * (6.0 * at + n as f64)).collect(),
    );
    check(
        |face, x, at| face.op("select", &[x], &int2(1, at)),
        |at| (0..4).map(|n| 2.0 * (6.0 * n as f64 + at)).collect(),
    );
    check(
        |face, x, at| narrow(face, x, 1, at, 1),
        |at| (0..4).map(|n| 2.0 * (6.0 * n as f64 + at)).collect(),
    );
    let turned = |face: &mut Face, x: Handle, at| {
        let rows = narrow(face, x, 0, at, 2);
        let turned = face.op("transpose", &[rows], &int2(0, 1));
        face.op("select", &[turned], &int2(0, at))
    };
    check(turned, |at| (0..2).map(|n| 2.0 * (6.0 * (at + n as f64) + at)).collect());
    // Every other element, backwards.
    let stepped = |face: &mut Face, x: Handle, at| {
        let row = face.op("select", &[x], &int2(0, at));
        let bounds = [Attribute::Int(0), Attribute::Int(at), Attribute::Int(at + 3), Attribute::Int(2)];
        let part = face.op("slice", &[row], &bounds);
        face.op("flip", &[part], &[Attribute::Ints(vec![0])])
    };
    check(stepped, |at| vec![2.0 * (7.0 * at + 2.0), 2.0 * 7.0 * at]);
}

#[test]
fn a_part_is_as_its_base_is_when_it_is_used() {
    let mut face = Face::new();
    let x = face.f32(&[2, 2], &[1., 2., 3., 4.]);
    let column = face.op("select", &[x], &int2(1, 1));
    let twice = face.op("mul_scalar", &[column], &float(2.0));
    face.assign(x, "neg", &[x], &[]);
    assert_eq!((face.read(twice), face.read(column)), (vec![4., 8.], vec![-2., -4.]));
    face.assign(column, "zeros_like", &[column], &[]);
    assert_eq!((face.read(x), face.read(column)), (vec![-1., 0., -3., 0.], vec![0., 0.]));
}

#[test]
fn minibatches_of_random_elements_compile_once() {
    let mut face = Face::new();
    let ty = TensorType::new(DType::F32, [60, 4]);
    let data = face.session.random(&ty, Distribution::Normal { mean: 0.5, deviation: 2.0 }).unwrap();
    let w = face.variable(&[4, 1], &[0.1, 0.2, 0.3, 0.4]);
    let mut step = |start: i64| {
        face.session.set_grad(w, None).unwrap();
        let batch = narrow(&mut face, data, 0, start, 10);
        let product = face.op("matmul", &[batch, w], &[]);
        let square = face.op("square", &[product], &[]);
        let loss = face.op("mean", &[square], &[]);
        face.backward(loss);
        let grad = face.session.grad(w).unwrap().unwrap();
        let change = face.op("mul_scalar", &[grad], &float(0.01));
        face.no_grad(|face| face.assign(w, "sub", &[w, change], &[]));
        let read = face.read(loss)[0];
        face.release(&[change, grad, loss, square, product, batch]);
        (read, face.session.stats().engine.compiles)
    };
    let (first, _) = step(0);
    let (_, compiles) = step(10);
    let steps: Vec<(f64, u64)> = (2..6).map(|at| step(10 * at)).collect();
    assert!(steps.iter().all(|&(loss, after)| loss != first && after == compiles), "{steps:?}, {compiles}");
    // The elements are one draw.
    let (all, part) = (face.read(data), narrow(&mut face, data, 0, 20, 1));
    assert_eq!(face.read(part), all[80..84]);
}

#[test]
fn a_call_takes_a_part_without_another_program() {
    let mut face = Face::new();
    let x = face.f32(&[3, 3], &(0..9).map(|x| x as f32).collect::<Vec<_>>());
    let first = face.op("select", &[x], &int2(1, 0));
    let inputs = face.session.begin_capture("jit", Purpose::Program, &[first]).unwrap();
    let sum = face.sum(inputs[0]);
    let captured = face.session.end_capture(&[sum], true).unwrap().unwrap();
    let compiles = face.session.stats().engine.compiles;
    for at in 0..3 {
        let column = face.op("select", &[x], &int2(1, at));
        let result = face.session.call(captured, &[column]).unwrap()[0];
        assert_eq!(face.read(result), [9. + 3. * at as f64]);
    }
    assert_eq!(face.session.stats().engine.compiles, compiles);
}
