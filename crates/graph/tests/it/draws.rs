//! Draws: shared by the roots of an execution, new in each.

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::ops::table::Attribute;
use lanthorn_ir::{DType, ErrorKind, TensorType, ops};
use lanthorn_session::random::Distribution;

use super::support::{Face, close, f32_of};

const UNIT: Distribution = Distribution::Uniform { low: 0.0, high: 1.0 };

#[test]
fn roots_of_one_execution_see_one_draw_and_the_next_draws_anew() {
    let mut face = Face::new();
    let x = face.graph.random(&f32_of(&[64]), UNIT).unwrap();
    let twice = face.op("mul_scalar", &[x], &[Attribute::Float(2.0)]);
    let drawn = face.compute(&[x, twice]);
    let [x1, twice1] = [face.elements(drawn[0]), face.elements(drawn[1])];
    assert_eq!(twice1, x1.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    assert!(x1.iter().all(|x| (0.0..1.0).contains(x)));
    assert_ne!(face.read(x), x1);
    // What was drawn stays.
    assert_eq!(face.elements(drawn[0]), x1);
}

#[test]
fn two_random_nodes_differ_in_one_execution() {
    let mut face = Face::new();
    let [x, y] = [(); 2].map(|()| face.graph.random(&f32_of(&[64]), UNIT).unwrap());
    let drawn = face.compute(&[x, y]);
    assert_ne!(face.elements(drawn[0]), face.elements(drawn[1]));
}

#[test]
fn an_executable_draws_anew_in_each_call_and_a_seed_starts_anew() {
    let mut face = Face::new();
    let normal = Distribution::Normal { mean: 5.0, deviation: 0.5 };
    let x = face.graph.random(&f32_of(&[1000]), normal).unwrap();
    let executable = face.compile(&[x]);
    face.graph.seed(7);
    let first = face.execute(executable, &[], &[]);
    let second = face.execute(executable, &[], &[]);
    assert_ne!(first, second);
    face.graph.seed(7);
    assert_eq!(face.execute(executable, &[], &[]), first);
    let mean = first[0].iter().sum::<f64>() / 1000.0;
    assert!((mean - 5.0).abs() < 0.1, "{mean}");
    // The numbers of the first draw of that seed, as the reference has them.
    let key = HostTensor::from_i64(DType::U64, &[2], &[7, 0]).unwrap();
    let expected = ops::normal(&Interp, &key, &[1000], 5.0, 0.5, DType::F32, 0).unwrap();
    close(&first[0], &expected.to_f64());
}

#[test]
fn a_forward_and_its_gradient_agree_on_a_draw() {
    let mut face = Face::new();
    let x = face.f32(&[256], &[1.0; 256]);
    let key = face.graph.random_key().unwrap();
    let half = [Attribute::Float(0.5)];
    let dropped = face.op("dropout", &[x, key], &half);
    let loss = face.op("sum", &[dropped], &[]);
    let gradient = face.graph.grad(loss, &[x]).unwrap()[0];
    let computed = face.compute(&[dropped, gradient]);
    let dropped = face.elements(computed[0]);
    // Both are 0 where an element was dropped and 2 elsewhere.
    assert_eq!(dropped, face.elements(computed[1]));
    assert!(dropped.contains(&0.0) && dropped.contains(&2.0));
}

#[test]
fn only_floats_are_drawn() {
    let mut face = Face::new();
    let error = face.graph.random(&TensorType::new(DType::I64, [2]), UNIT).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Dtype);
    for dtype in [DType::F64, DType::F16, DType::BF16] {
        let x = face.graph.random(&TensorType::new(dtype, [100]), UNIT).unwrap();
        assert!(face.read(x).iter().all(|x| (0.0..1.0).contains(x)), "{dtype}");
    }
    let empty = Distribution::Uniform { low: 1.0, high: 0.0 };
    assert!(face.graph.random(&f32_of(&[2]), empty).is_err());
}
