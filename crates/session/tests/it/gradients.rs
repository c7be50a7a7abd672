//! Gradients, as PyTorch gives them.

use lanthorn_ir::ops::table::Attribute;
use lanthorn_ir::{DType, ErrorKind, TensorType};

use super::support::{Face, close, float};

fn square_loss(face: &mut Face, w: lanthorn_session::Handle) -> lanthorn_session::Handle {
    let square = face.op("square", &[w], &[]);
    face.sum(square)
}

#[test]
fn gradients_add_up_until_they_are_taken_away() {
    let mut face = Face::new();
    let w = face.variable(&[2], &[1., 2.]);
    assert_eq!(face.session.grad(w).unwrap(), None);
    let loss = square_loss(&mut face, w);
    face.backward(loss);
    let kept = face.session.grad(w).unwrap().unwrap();
    assert_eq!(face.read(kept), [2., 4.]);
    face.backward(loss);
    let other = face.op("mul_scalar", &[w], &float(10.0));
    let other = face.sum(other);
    face.backward(other);
    // A handle to the gradient sees what is added to it.
    assert_eq!(face.read(kept), [14., 18.]);
    face.session.set_grad(w, None).unwrap();
    assert_eq!(face.session.grad(w).unwrap(), None);
    assert_eq!(face.read(kept), [14., 18.]);
    face.backward(loss);
    assert_eq!(face.grad(w).unwrap(), [2., 4.]);
}

#[test]
fn a_gradient_may_be_given_and_is_shared() {
    let mut face = Face::new();
    let w = face.variable(&[2], &[1., 2.]);
    let g = face.f32(&[2], &[100., 200.]);
    face.session.set_grad(w, Some(g)).unwrap();
    let loss = square_loss(&mut face, w);
    face.backward(loss);
    assert_eq!(face.read(g), [102., 204.]);
    let short = face.f32(&[1], &[1.]);
    assert_eq!(face.session.set_grad(w, Some(short)).unwrap_err().kind, ErrorKind::Shape);
    // A variable as its own gradient is a copy: no cycle.
    face.session.set_grad(w, Some(w)).unwrap();
    face.backward(loss);
    assert_eq!(face.grad(w).unwrap(), [3., 6.]);
    assert_eq!(face.read(w), [1., 2.]);
    // A gradient that is itself a variable's result passes none on.
    let scaled = face.op("mul_scalar", &[w], &float(2.0));
    face.session.set_grad(w, Some(scaled)).unwrap();
    let g = face.session.grad(w).unwrap().unwrap();
    assert!(!face.session.describe(g).unwrap().is_tracked);
}

#[test]
fn no_gradient_passes_what_was_computed_without() {
    let mut face = Face::new();
    let w = face.variable(&[1], &[3.]);
    let constant = face.no_grad(|face| face.op("square", &[w], &[]));
    assert!(!face.session.describe(constant).unwrap().is_tracked);
    let cut = face.session.detach(w).unwrap();
    let product = face.op("mul", &[constant, w], &[]);
    let product = face.op("mul", &[product, cut], &[]);
    let loss = face.sum(product);
    face.backward(loss);
    assert_eq!(face.grad(w).unwrap(), [27.]);
    // A view that is made without gradients passes none either.
    let view = face.no_grad(|face| face.op("unsqueeze", &[w], &[Attribute::Int(0)]));
    assert!(!face.session.describe(view).unwrap().is_tracked);
    let loss = square_loss(&mut face, view);
    assert_eq!(face.session.backward(loss, None).unwrap_err().kind, ErrorKind::Unsupported);
    assert!(face.session.leave_no_grad().is_err());
}

#[test]
fn a_gradient_is_a_constant() {
    let mut face = Face::new();
    let w = face.variable(&[1], &[3.]);
    let loss = square_loss(&mut face, w);
    face.backward(loss);
    let g = face.session.grad(w).unwrap().unwrap();
    let product = face.op("mul", &[g, w], &[]);
    let second = face.sum(product);
    face.session.set_grad(w, None).unwrap();
    face.backward(second);
    assert_eq!(face.grad(w).unwrap(), [6.]);
}

#[test]
fn a_seed_is_the_gradient_of_the_loss() {
    let mut face = Face::new();
    let w = face.variable(&[2], &[3., 4.]);
    let square = face.op("square", &[w], &[]);
    let error = face.session.backward(square, None).unwrap_err();
    assert!(error.to_string().contains("f32[2]"), "{error}");
    let seed = face.f32(&[2], &[1., 10.]);
    face.session.backward(square, Some(seed)).unwrap();
    assert_eq!(face.grad(w).unwrap(), [6., 80.]);
    let wrong = face.f32(&[3], &[1., 1., 1.]);
    assert!(face.session.backward(square, Some(wrong)).is_err());
}

#[test]
fn all_variables_that_led_to_the_loss_have_gradients_and_no_others() {
    let mut face = Face::new();
    let (a, b, c) = (face.variable(&[1], &[2.]), face.variable(&[1], &[5.]), face.variable(&[1], &[7.]));
    let view = face.op("unsqueeze", &[a], &[Attribute::Int(0)]);
    let product = face.op("mul", &[view, b], &[]);
    let loss = face.sum(product);
    // What is read before is not lost.
    assert_eq!(face.read(loss), [10.]);
    face.backward(loss);
    assert_eq!((face.grad(a), face.grad(b), face.grad(c)), (Some(vec![5.]), Some(vec![2.]), None));
    assert_eq!(face.session.grad(view).unwrap(), None);
    // A variable that has gone asks for nothing.
    face.release(&[b]);
    face.backward(loss);
    assert_eq!(face.grad(a), Some(vec![10.]));
}

#[test]
fn a_tensor_becomes_a_variable_and_an_ordinary_one_again() {
    let mut face = Face::new();
    let w = face.f32(&[1], &[3.]);
    let before = face.op("square", &[w], &[]);
    face.session.requires_grad(w, true).unwrap();
    let product = face.op("mul", &[before, w], &[]);
    let loss = face.sum(product);
    face.backward(loss);
    assert_eq!(face.grad(w).unwrap(), [9.]);
    assert!(face.session.requires_grad(product, false).is_err());
    face.session.requires_grad(product, true).unwrap();
    face.session.requires_grad(w, false).unwrap();
    let loss = square_loss(&mut face, w);
    assert!(face.session.backward(loss, None).is_err());
    let ids = face.session.create(&TensorType::new(DType::I32, [1]), &[1, 0, 0, 0]).unwrap();
    assert_eq!(face.session.requires_grad(ids, true).unwrap_err().kind, ErrorKind::Dtype);
    let view = face.op("unsqueeze", &[w], &[Attribute::Int(0)]);
    face.session.requires_grad(view, true).unwrap();
    let loss = square_loss(&mut face, view);
    face.backward(loss);
    assert_eq!((face.grad(view), face.grad(w)), (Some(vec![6.]), Some(vec![9.])));
}

/// A loss over most kinds of ops, by central differences in double precision.
#[test]
fn gradients_are_those_of_finite_differences() {
    let mut face = Face::new();
    let start = [0.3f64, -0.7, 1.1, 0.2, -0.4, 0.9];
    let bytes = |x: &[f64]| x.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
    let ty = TensorType::new(DType::F64, [2, 3]);
    let loss_of = |elements: &[f64], face: &mut Face| {
        let w = face.session.create(&ty, &bytes(elements)).unwrap();
        face.session.requires_grad(w, true).unwrap();
        let turned = face.op("transpose", &[w], &[Attribute::Int(0), Attribute::Int(1)]);
        let product = face.op("matmul", &[w, turned], &[]);
        let product = face.op("tanh", &[product], &[]);
        let row = face.op("select", &[product], &[Attribute::Int(0), Attribute::Int(1)]);
        face.assign(row, "mul_scalar", &[row], &float(1.7));
        let clamped = face.op("clamp", &[product], &[Attribute::Float(-1.3), Attribute::Float(1.3)]);
        let loss = face.op("logsumexp", &[clamped], &[]);
        (w, loss)
    };
    let (w, loss) = loss_of(&start, &mut face);
    face.backward(loss);
    let found = face.grad(w).unwrap();
    let mut expected = Vec::new();
    for at in 0..start.len() {
        let mut ends = [0.0; 2];
        for (end, step) in ends.iter_mut().zip([1e-6, -1e-6]) {
            let mut moved = start;
            moved[at] += step;
            let (_, loss) = loss_of(&moved, &mut face);
            *end = face.read(loss)[0];
        }
        expected.push((ends[0] - ends[1]) / 2e-6);
    }
    close(&found, &expected);
}

#[test]
fn gradients_pass_derivatives_on_and_accumulate_nothing() {
    let mut face = Face::new();
    let x = face.variable(&[2], &[2., -1.]);
    let square = face.op("mul", &[x, x], &[]);
    let cube = face.op("mul", &[square, x], &[]);
    let loss = face.sum(cube);
    let first = face.session.gradients(loss, None, &[x]).unwrap()[0];
    assert_eq!(face.read(first), [12., 3.]);
    let loss = face.sum(first);
    let second = face.session.gradients(loss, None, &[x]).unwrap()[0];
    assert_eq!(face.read(second), [12., -6.]);
    assert_eq!(face.session.grad(x).unwrap(), None);
    // The derivative of a constant: no variable leads to it.
    let loss = face.sum(second);
    let third = face.session.gradients(loss, None, &[x]).unwrap()[0];
    assert_eq!(face.read(third), [6., 6.]);
    assert!(!face.session.describe(third).unwrap().is_tracked);
    // The penalty on a gradient's size: d/dx of (3 x^2)^2 is 36 x^3.
    let penalty = face.op("square", &[first], &[]);
    let penalty = face.sum(penalty);
    face.backward(penalty);
    assert_eq!(face.grad(x).unwrap(), [288., -36.]);
}

#[test]
fn gradients_are_of_variables_that_led_to_the_loss() {
    let mut face = Face::new();
    let (x, y) = (face.variable(&[1], &[2.]), face.variable(&[1], &[3.]));
    let constant = face.f32(&[1], &[1.]);
    let before = face.op("square", &[x], &[]);
    // What is written later has led to the second loss alone.
    face.no_grad(|face| face.assign(x, "mul_scalar", &[x], &float(10.0)));
    let after = face.op("square", &[x], &[]);
    let both = face.op("add", &[before, after], &[]);
    let loss = face.sum(both);
    let found = face.session.gradients(loss, None, &[x]).unwrap()[0];
    assert_eq!(face.read(found), [2. * 2. + 2. * 20.]);
    for (of, message) in [(y, "did not lead to the loss"), (constant, "no leaf that requires grad")] {
        let error = face.session.gradients(loss, None, &[x, of]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.message.contains("tensor 1") && error.message.contains(message), "{}", error.message);
    }
}

#[test]
fn clamp_passes_the_whole_gradient_at_its_bounds() {
    let bounds = [(Some(-0.5), Some(0.75)), (Some(0.25), None), (None, Some(0.75)), (Some(0.0), Some(1.0))];
    for (low, high) in bounds {
        let mut face = Face::new();
        let places = [low.unwrap_or(-3.0), high.unwrap_or(3.0), -5.0, 5.0, 0.3];
        let x = face.variable(&[5], &places.map(|place| place as f32));
        let attribute = |bound: Option<f64>| bound.map_or(Attribute::None, Attribute::Float);
        let y = face.op("clamp", &[x], &[attribute(low), attribute(high)]);
        let loss = face.sum(y);
        face.backward(loss);
        let expected = places.map(|x| low.is_none_or(|low| x >= low) && high.is_none_or(|high| x <= high));
        assert_eq!(
            face.grad(x).unwrap(),
            expected.map(|inside| f64::from(u8::from(inside))),
            "{low:?}, {high:?}"
        );
    }
    let mut face = Face::new();
    let x = face.f32(&[2], &[1., 2.]);
    let y = face.op("clamp", &[x], &[Attribute::Float(f64::NAN), Attribute::Float(0.3)]);
    assert!(face.read(y).iter().all(|x| x.is_nan()));
}

#[test]
fn a_scalar_of_minus_zero_is_not_zero() {
    let mut face = Face::new();
    let one = face.f32(&[1], &[1.]);
    let minus = Attribute::Float(-0.0);
    let infinite = face.op("div_scalar", &[one], std::slice::from_ref(&minus));
    assert_eq!(face.read(infinite), [f64::NEG_INFINITY]);
    let ends = |end: i64| Attribute::Ints(vec![end]);
    let zeros = [
        face.op("mul_scalar", &[one], std::slice::from_ref(&minus)),
        face.op("full_like", &[one], std::slice::from_ref(&minus)),
        face.op("full", &[], &[Attribute::Ints(vec![1]), minus.clone()]),
        face.op("scalar", &[], std::slice::from_ref(&minus)),
        face.op("clamp", &[one], &[Attribute::None, minus.clone()]),
    ];
    for zero in zeros {
        assert!(face.read(zero).iter().all(|x| *x == 0.0 && x.is_sign_negative()));
    }
    let padded = face.op("pad", &[one], &[ends(1), ends(0), minus]);
    assert!(face.read(padded)[0].is_sign_negative());
}
