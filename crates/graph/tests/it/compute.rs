//! Computing roots.

use lanthorn_graph::Outcome;
use lanthorn_graph::executable::CompileOptions;
use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::ops::table::{Attribute, id_of};
use lanthorn_ir::{DType, ErrorKind, ops};
use lanthorn_runtime::CancelToken;

use super::support::{Face, close, f32_of, ints};

const X: [f32; 6] = [1.0, -2.0, 3.0, 0.5, 0.25, -1.0];
const W: [f32; 12] = [0.1, 0.2, 0.3, 0.4, -0.5, 0.6, -0.7, 0.8, 0.9, -1.0, 1.1, -1.2];

#[test]
fn roots_agree_with_the_reference() {
    let mut face = Face::new();
    let [x, w] = [face.f32(&[2, 3], &X), face.f32(&[3, 4], &W)];
    let product = face.op("matmul", &[x, w], &[]);
    let squashed = face.op("tanh", &[product], &[]);
    let soft = face.op("softmax", &[squashed], &[Attribute::Int(-1)]);
    let square = face.op("square", &[soft], &[]);
    let mean = face.op("mean", &[square], &[]);
    let found = face.compute(&[soft, mean, product]);

    let host = |shape: &[usize], elements: &[f32]| {
        let elements: Vec<f64> = elements.iter().map(|&x| f64::from(x)).collect();
        HostTensor::from_f64(DType::F32, shape, &elements).unwrap()
    };
    let product = ops::matmul(&Interp, &host(&[2, 3], &X), &host(&[3, 4], &W)).unwrap();
    let soft = ops::softmax(&Interp, &ops::tanh(&Interp, &product).unwrap(), -1).unwrap();
    let mean = ops::mean(&Interp, &ops::square(&Interp, &soft).unwrap(), &[], false).unwrap();
    for (found, expected) in found.into_iter().zip([soft, mean, product]) {
        close(&face.elements(found), &expected.to_f64());
    }
}

#[test]
fn computing_changes_no_handle() {
    let mut face = Face::new();
    let x = face.f32(&[2], &[3.0, 4.0]);
    let square = face.op("square", &[x], &[]);
    let computed = face.compute(&[square, x, square]);
    assert_eq!(face.graph.describe(square).unwrap(), (f32_of(&[2]), false));
    assert_eq!(face.graph.describe(computed[0]).unwrap(), (f32_of(&[2]), true));
    assert_eq!(face.graph.elements("read", square).unwrap_err().kind, ErrorKind::InvalidHandle);
    // Three new handles, of which two share elements and one shares those of `x`.
    assert_eq!(face.graph.stats().handles, 5);
    face.graph.release(x).unwrap();
    face.graph.release(computed[0]).unwrap();
    assert_eq!(face.elements(computed[1]), [3.0, 4.0]);
    assert_eq!(face.elements(computed[2]), [9.0, 16.0]);
    // A lazy tensor keeps what it is made of.
    assert_eq!(face.read(square), [9.0, 16.0]);
    assert_eq!(face.graph.describe(x).unwrap_err().kind, ErrorKind::InvalidHandle);
}

#[test]
fn clearing_gives_up_elements_that_nodes_would_read() {
    let mut face = Face::new();
    let given = face.f32(&[1 << 12], &[3.0; 1 << 12]);
    let [x, also] = face.compute(&[given, given])[..] else { panic!("two roots give two tensors") };
    face.graph.release(given).unwrap();
    let square = face.op("square", &[x], &[]);
    let still = face.op("stop_gradient", &[x], &[]);
    let program = face.compile(&[square]);
    let live = |face: &Face| face.graph.stats().engine.live_bytes;
    // Another tensor of the same memory keeps it, and can be cleared by itself.
    face.graph.clear(x).unwrap();
    let before = live(&face);
    assert_eq!(face.elements(also)[..2], [3.0, 3.0]);
    face.graph.clear(also).unwrap();
    face.graph.release(program).unwrap();
    assert!(live(&face) + (1 << 14) <= before, "{before} to {}", live(&face));
    for lazy in [square, still] {
        let error = face.try_compute(&[lazy]).unwrap_err();
        assert_eq!((error.kind, error.op.as_str()), (ErrorKind::InvalidHandle, "compute"), "{error}");
        assert!(error.message.contains("f32[4096] was cleared"), "{error}");
    }
    let error = face.graph.compile(&[square], CompileOptions::default()).unwrap_err();
    assert_eq!((error.kind, error.op.as_str()), (ErrorKind::InvalidHandle, "compile"));
    // A lazy tensor is not cleared, nor what was cleared before.
    assert_eq!(face.graph.clear(square).unwrap_err().kind, ErrorKind::InvalidHandle);
    assert_eq!(face.graph.clear(x).unwrap_err().kind, ErrorKind::InvalidHandle);
}

#[test]
fn what_runs_keeps_elements_that_are_cleared_meanwhile() {
    let mut face = Face::new();
    let x = face.f32(&[2], &[3.0, 4.0]);
    let square = face.op("square", &[x], &[]);
    let job = face.graph.begin_compute(&[square]);
    face.graph.clear(x).unwrap();
    let Outcome::Handles(computed) = face.run(job).unwrap() else { panic!("a computation gives handles") };
    assert_eq!(face.elements(computed[0]), [9.0, 16.0]);
}

#[test]
fn graphs_of_one_structure_share_a_program() {
    let mut face = Face::new();
    for step in 0..5 {
        let x = face.f32(&[3], &[step as f32; 3]);
        let y = face.op("exp", &[x], &[]);
        let sum = face.op("sum", &[y], &[]);
        close(&face.read(sum), &[3.0 * f64::from(step).exp()]);
    }
    assert_eq!(face.graph.stats().engine.compiles, 1);
    // Numbers among the attributes are part of the structure.
    let x = face.f32(&[3], &[1.0; 3]);
    for factor in [3.0, 5.0] {
        let y = face.op("mul_scalar", &[x], &[Attribute::Float(factor)]);
        assert_eq!(face.read(y), [factor; 3]);
    }
    assert_eq!(face.graph.stats().engine.compiles, 3);
}

#[test]
fn an_op_of_several_results_gives_a_handle_for_each() {
    let mut face = Face::new();
    let x = face.f32(&[4], &[4.0, 1.0, 3.0, 2.0]);
    let id = id_of("chunk").unwrap();
    let halves = face.graph.op(id, &[Some(x)], &[Attribute::Int(2), Attribute::Int(0)]).unwrap();
    assert_eq!(face.read(halves[1]), [3.0, 2.0]);
    assert_eq!(face.graph.op(id, &[None], &[]).unwrap_err().op, "chunk");
    let wrong = face.graph.op(id_of("reshape").unwrap(), &[Some(x)], &ints(&[3])).unwrap_err();
    assert_eq!((wrong.kind, wrong.op.as_str()), (ErrorKind::Shape, "reshape"));
}

#[test]
fn positions_count() {
    let mut face = Face::new();
    let positions = face.graph.positions(4).unwrap();
    assert_eq!(face.read(positions), [0.0, 1.0, 2.0, 3.0]);
    let doubled = face.op("add", &[positions, positions], &[]);
    assert_eq!(face.read(doubled), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(face.graph.positions(1 << 40).unwrap_err().kind, ErrorKind::Shape);
}

#[test]
fn what_depends_on_an_input_cannot_be_computed() {
    let mut face = Face::new();
    let x = face.input(3, &[2]);
    let y = face.op("exp", &[x], &[]);
    let error = face.try_compute(&[y]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Compile);
    assert!(error.message.contains("input 3"), "{error}");
}

#[test]
fn a_cancelled_job_changes_nothing() {
    let mut face = Face::new();
    let key = face.graph.random_key().unwrap();
    let before = face.graph.stats();
    let drawn = face.read(key);
    for when in ["before", "meanwhile"] {
        let cancel = CancelToken::new();
        let mut job = face.graph.begin_compute(&[key]).unwrap();
        if when == "before" {
            cancel.cancel();
        }
        let output = job.run(&cancel);
        cancel.cancel();
        let error = face.graph.finish(job, output, &cancel).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Cancelled, "{when}");
        assert_eq!(face.graph.stats().handles, before.handles + 1);
    }
    // Its draws are the next ones again.
    let next = face.read(key);
    assert_eq!([drawn[1], next[1]], [0.0, 1.0]);
}

#[test]
fn bytes_are_read_away_from_the_graph() {
    let mut face = Face::new();
    let x = face.f32(&[2], &[3.0, 4.0]);
    let job = face.graph.begin_read(x);
    let Outcome::Bytes(bytes) = face.run(job).unwrap() else { panic!("a read gives bytes") };
    assert_eq!(bytes, [3f32, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>());
    let y = face.op("exp", &[x], &[]);
    assert_eq!(face.graph.begin_read(y).err().unwrap().kind, ErrorKind::InvalidHandle);
}

#[test]
fn a_result_that_finds_no_memory_is_an_error_and_leaves_no_handle() {
    let mut face = Face::new();
    face.graph.device().set_memory_limit(Some(1 << 20));
    let wide = face.op("zeros", &[], &ints(&[1 << 20]));
    assert_eq!(face.try_compute(&[wide]).unwrap_err().kind, ErrorKind::OutOfMemory);
    assert_eq!(face.graph.stats().handles, 1);
}
