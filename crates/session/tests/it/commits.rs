//! Commit points: how much runs when, and what is left after a run that failed.

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_ir::ops::table::{Attribute, id_of};
use lanthorn_ir::{DType, ErrorKind, TensorType};

use super::support::{Face, device, float, int2};

#[test]
fn nothing_runs_until_a_tensor_is_read() {
    let mut face = Face::new();
    let x = face.f32(&[2], &[1., 2.]);
    let y = face.op("add", &[x, x], &[]);
    face.assign(y, "mul_scalar", &[y], &float(3.0));
    assert_eq!(face.session.stats().engine.kernels, 0);
    assert_eq!(face.read(y), [6., 12.]);
    assert_eq!(face.read(y), [6., 12.]);
    let stats = face.session.stats();
    assert_eq!((stats.commits, stats.programs, stats.engine.calls), (1, 1, 1));
}

#[test]
fn a_read_computes_all_that_was_written_in_one_program() {
    let mut face = Face::new();
    let (x, y) = (face.f32(&[1], &[2.]), face.f32(&[1], &[5.]));
    face.assign(x, "square", &[x], &[]);
    face.assign(y, "square", &[y], &[]);
    let z = face.op("sqrt", &[y], &[]);
    assert_eq!(face.session.stats().written, 2);
    assert_eq!(face.read(z), [5.]);
    assert_eq!(face.session.stats().written, 0);
    assert_eq!((face.read(x), face.read(y)), (vec![4.], vec![25.]));
    assert_eq!(face.session.stats().engine.calls, 1);
    let (a, b) = (face.op("exp", &[x], &[]), face.op("log", &[x], &[]));
    face.session.commit(&[a, b]).unwrap();
    face.read(a);
    face.read(b);
    assert_eq!(face.session.stats().engine.calls, 2);
}

#[test]
fn scalars_are_arguments_but_for_a_few() {
    let mut face = Face::new();
    let x = face.f32(&[2], &[1., -2.]);
    let ops =
        ["add", "sub", "rsub", "mul", "div", "rem", "pow", "maximum", "minimum", "lt", "ge", "eq", "ne"];
    let mut read = |value: f64| {
        let mut all = Vec::new();
        for op in ops {
            let result = face.op(&format!("{op}_scalar"), &[x], &float(value));
            all.extend(face.read(result));
        }
        let bounds = [Attribute::Float(-value), Attribute::Float(value)];
        for result in [
            face.op("clamp", &[x], &bounds),
            face.op("full_like", &[x], &float(value)),
            face.op("full", &[], &[Attribute::Ints(vec![2]), Attribute::Float(value)]),
            face.op("scalar", &[], &float(value)),
        ] {
            all.extend(face.read(result));
        }
        (all, face.session.stats().engine.executables)
    };
    let (first, executables) = read(3.0);
    assert_eq!(
        first,
        [
            4.,
            1.,
            -2.,
            -5.,
            2.,
            5.,
            3.,
            -6.,
            1. / 3f32 as f64,
            (-2f32 / 3.) as f64,
            1.,
            -2.,
            1.,
            -8.,
            3.,
            3.,
            1.,
            -2.,
            1.,
            1.,
            0.,
            0.,
            0.,
            0.,
            1.,
            1.,
            1.,
            -2.,
            3.,
            3.,
            3.,
            3.,
            3.
        ]
        .map(|x: f64| x as f32 as f64)
    );
    for value in [4.0, 5.5, 7.0] {
        assert_eq!(read(value).1, executables);
    }
    // 2 is part of a structure, and another one than 0.5.
    let (_, two) = read(2.0);
    let (_, half) = read(0.5);
    assert!(two > executables && half > two);
    let ids = face.session.create(&TensorType::new(DType::I32, [1]), &[1, 0, 0, 0]).unwrap();
    let error = face.try_op("add_scalar", &[ids], &float(2.5)).unwrap_err();
    assert!(error.to_string().starts_with("add_scalar: the scalar 2.5 is not a whole number"), "{error}");
}

#[test]
fn a_commit_runs_on_another_thread_while_the_session_goes_on() {
    let mut face = Face::new();
    let x = face.f32(&[4, 3], &(0..12).map(|x| x as f32).collect::<Vec<_>>());
    let w = face.op("mul_scalar", &[x], &float(3.0));
    face.assign(w, "add_scalar", &[w], &float(1.0));
    let column = face.op("select", &[w], &int2(1, 2));
    let mut pending = face.session.begin_commit(&[column, w, x]).unwrap();
    assert!(!pending.is_empty());
    let engine = face.session.engine().clone();
    let thread = std::thread::spawn(move || {
        let results = pending.run(&engine, &CancelToken::never());
        (pending, results)
    });
    // Written again meanwhile: the commit gives what was, and the next one what is.
    face.assign(w, "neg", &[w], &[]);
    let sum = face.sum(w);
    let (pending, results) = thread.join().unwrap();
    let read = face.session.finish_commit(pending, results).unwrap();
    assert_eq!(read[0].to_f64_vec().unwrap(), [7., 16., 25., 34.]);
    assert_eq!(read[1].to_f64_vec().unwrap()[11], 34.);
    assert_eq!(read[2].to_f64_vec().unwrap()[11], 11.);
    assert_eq!(face.session.stats().written, 1);
    assert_eq!(face.read(column), [-7., -16., -25., -34.]);
    assert_eq!(face.read(sum), [-210.]);
    // What is known already needs no run.
    let mut pending = face.session.begin_commit(&[w]).unwrap();
    assert!(pending.is_empty());
    let results = pending.run(face.session.engine(), &CancelToken::never());
    assert_eq!(face.session.finish_commit(pending, results).unwrap().len(), 1);
}

#[test]
fn a_cancelled_commit_leaves_everything_readable() {
    let mut face = Face::new();
    let x = face.f32(&[1], &[3.]);
    face.assign(x, "square", &[x], &[]);
    let mut pending = face.session.begin_commit(&[x]).unwrap();
    let cancel = CancelToken::new();
    cancel.cancel();
    let results = pending.run(face.session.engine(), &cancel);
    let error = face.session.finish_commit(pending, results).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert_eq!(face.session.stats().written, 1);
    assert_eq!(face.read(x), [9.]);
}

#[test]
fn an_error_of_execution_comes_with_the_read_and_names_the_op() {
    let mut face = Face::new();
    let x = face.f32(&[2, 1], &[1., 2.]);
    let ids = face.session.create(&TensorType::new(DType::I32, [1]), &[9, 0, 0, 0]).unwrap();
    let row = face.op("embedding", &[x, ids], &[]);
    let error = face.session.read(row).unwrap_err();
    assert!(error.to_string().contains('9'), "{error}");
    assert_eq!(face.read(x), [1., 2.]);
    // The row stays what it was asked for: a write to the ids makes no other of it.
    let one = face.f32(&[1], &[1.]);
    face.session.copy(ids, one).unwrap();
    assert_eq!(face.session.read(row).unwrap_err(), error);
    let row = face.op("embedding", &[x, ids], &[]);
    assert_eq!(face.read(row), [2.]);
}

#[test]
fn handles_that_have_been_released_are_refused() {
    let mut face = Face::new();
    let x = face.f32(&[1], &[3.]);
    let y = face.op("square", &[x], &[]);
    face.release(&[x]);
    assert_eq!(face.session.release(x).unwrap_err().kind, ErrorKind::InvalidHandle);
    assert_eq!(face.try_op("neg", &[x], &[]).unwrap_err().kind, ErrorKind::InvalidHandle);
    assert_eq!(face.read(y), [9.]);
    face.release(&[y]);
    let stats = face.session.stats();
    assert_eq!((stats.handles, stats.cells, stats.engine.live_bytes), (0, 0, 0));
}

#[test]
fn a_raw_read_of_several_tensors_runs_elsewhere() {
    let mut raw = lanthorn_session::Raw::new(device());
    let mut scratch = vec![1.0, 2.0, 0.0];
    let bytes: Vec<u8> = [3f32, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let x = raw.create(&mut scratch, 11.0, 0.0, &bytes).unwrap();
    scratch[..2].copy_from_slice(&[1.0, x]);
    let square = raw.op(&mut scratch, id_of("square").unwrap() as f64).unwrap();
    scratch[..3].copy_from_slice(&[2.0, square, x]);
    let mut pending = raw.begin_commit(&mut scratch).unwrap();
    let results = raw.run(&mut pending, &CancelToken::never());
    let read = raw.finish_commit(pending, results).unwrap();
    assert_eq!(read[0].to_f64_vec().unwrap(), [9., 16.]);
    assert_eq!(read[1].to_f64_vec().unwrap(), [3., 4.]);
}

#[test]
fn shapes_that_depend_on_values_are_counted() {
    let mut face = Face::new();
    let x = face.variable(&[4], &[3.0, 0.0, 1.0, 3.0]);
    let twice = face.op("mul_scalar", &[x], &float(3.0));
    let places = face.op("nonzero", &[twice], &[]);
    assert_eq!(face.read(places), [0.0, 2.0, 3.0]);
    let mask = face.op("gt_scalar", &[x], &float(0.5));
    let chosen = face.op("masked_select", &[twice, mask], &[]);
    let loss = face.sum(chosen);
    face.backward(loss);
    assert_eq!(face.grad(x).unwrap(), [3.0, 0.0, 3.0, 3.0]);
    let counts = face.f32(&[4], &[1.0, -2.0, 0.0, 1.0]);
    let counts = face.op("cast", &[counts], &[Attribute::DType(DType::I64)]);
    let error = face.try_op("repeat_counts", &[x, counts], &[Attribute::Int(0)]).unwrap_err();
    assert!(error.op == "repeat_counts" && error.message.contains("-2"), "{error}");
}
