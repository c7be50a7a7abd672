//! Commits that fail: what goes on, what is taken back, and who is told.

use std::cell::Cell;

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::indexed::Indexed;
use lanthorn_ir::ops::table::{Attribute, id_of};
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType};
use lanthorn_runtime::{Device, EagerTensor};
use lanthorn_session::{Engine, Handle, Purpose, Session};

use super::support::{Face, close, device, float, int2};

/// A device that refuses to run while it is told to.
struct Faulty {
    device: Device,
    fails: Cell<bool>,
}

impl Engine for Faulty {
    type Concrete = EagerTensor;
    type Program = lanthorn_runtime::Executable;

    fn upload(&self, ty: &TensorType, bytes: &[u8]) -> Result<EagerTensor> {
        self.device.upload(ty, bytes)
    }

    fn run(
        &self,
        program: Indexed,
        arguments: Vec<EagerTensor>,
        cancel: &CancelToken,
    ) -> Result<Vec<EagerTensor>> {
        if self.fails.get() {
            return Err(Error::new(ErrorKind::Execute, "run", "the device is not well"));
        }
        self.device.run(program, arguments, cancel)
    }

    fn compile(&self, program: Indexed) -> Result<Self::Program> {
        self.device.compile(program)
    }

    fn call(
        &self,
        program: &Self::Program,
        arguments: &[EagerTensor],
        cancel: &CancelToken,
    ) -> Result<Vec<EagerTensor>> {
        self.device.call(program, arguments, cancel)
    }
}

#[test]
fn a_training_step_that_fails_writes_nothing() {
    let mut session = Session::new(Faulty { device: device(), fails: Cell::new(false) });
    let ty = TensorType::new(DType::F32, [1]);
    let x = session.create(&ty, &3f32.to_ne_bytes()).unwrap();
    session.requires_grad(x, true).unwrap();
    let mut step = |fails: bool| -> Result<f64> {
        session.engine().fails.set(fails);
        let square = session.op(id_of("square").unwrap(), &[Some(x)], &[])?[0];
        let loss = session.op(id_of("sum").unwrap(), &[Some(square)], &[])?[0];
        session.backward(loss, None)?;
        let grad = session.grad(x)?;
        session.enter_no_grad();
        let written = session.assign(x, id_of("sub").unwrap(), &[Some(x), grad], &[]);
        session.leave_no_grad()?;
        written?;
        let read = session.read(loss)?.1.item();
        session.set_grad(x, None)?;
        read
    };
    // x becomes x - 2x.
    assert_eq!(step(false).unwrap(), 9.);
    for _ in 0..2 {
        assert_eq!(step(true).unwrap_err().message, "the device is not well");
    }
    assert_eq!(step(false).unwrap(), 9.);
    assert_eq!(step(false).unwrap(), 9.);
    assert_eq!(session.read(x).unwrap().1.item().unwrap(), -3.);
    assert_eq!(session.stats().written, 0);
}

/// `x[9]` of a tensor of two elements, which cannot be computed.
fn out_of_range(face: &mut Face) -> Handle {
    let x = face.f32(&[2, 1], &[1., 2.]);
    let ids = face.session.create(&TensorType::new(DType::I32, [1]), &[9, 0, 0, 0]).unwrap();
    let row = face.op("embedding", &[x, ids], &[]);
    face.op("reshape", &[row], &[Attribute::Ints(vec![1])])
}

#[track_caller]
fn tells(result: Result<impl Sized>) {
    let Err(error) = result else { panic!("expected an error") };
    assert!(error.message.contains('9') && !error.op.is_empty(), "{error}");
}

#[test]
fn a_write_that_fails_is_told_once_and_taken_back() {
    let mut face = Face::new();
    let (w, other) = (face.f32(&[1], &[4.]), face.f32(&[1], &[5.]));
    let bad = out_of_range(&mut face);
    face.assign(w, "add", &[w, bad], &[]);
    face.assign(other, "add_scalar", &[other], &float(1.0));
    // What has nothing to do with it is computed, written or not.
    let apart = face.f32(&[1], &[1.]);
    let sum = face.op("add_scalar", &[apart], &float(1.0));
    assert_eq!((face.read(sum), face.read(other)), (vec![2.], vec![6.]));
    assert_eq!(face.session.stats().written, 0);
    tells(face.session.read(w));
    assert_eq!(face.read(w), [4.]);
    // Read itself, by a commit of it, and by one of everything.
    face.assign(w, "add", &[w, bad], &[]);
    tells(face.session.read(w));
    assert_eq!(face.read(w), [4.]);
    face.assign(w, "add", &[w, bad], &[]);
    tells(face.session.commit(&[w]));
    assert_eq!(face.read(w), [4.]);
    face.assign(w, "add", &[w, bad], &[]);
    tells(face.session.commit(&[]));
    assert_eq!(face.read(w), [4.]);
    // An op, a write and a recorded function that use it tell too.
    for use_it in [
        |face: &mut Face, w: Handle| face.try_op("neg", &[w], &[]).map(drop),
        |face: &mut Face, w: Handle| face.try_assign(w, "neg", &[w], &[]),
        |face: &mut Face, w: Handle| {
            face.session.begin_capture("jit", Purpose::Program, &[])?;
            let used = face.try_op("neg", &[w], &[]).map(drop);
            face.session.abort_capture()?;
            used
        },
    ] {
        face.assign(w, "add", &[w, bad], &[]);
        face.read(other);
        tells(use_it(&mut face, w));
        assert_eq!(face.read(w), [4.]);
    }
    // What was computed from the failed value stays what it was asked for.
    face.assign(w, "add", &[w, bad], &[]);
    let after = face.op("neg", &[w], &[]);
    tells(face.session.read(after));
    tells(face.session.read(after));
    assert_eq!(face.read(w), [4.]);
}

#[test]
fn writes_before_the_one_that_fails_stay() {
    let mut face = Face::new();
    let tensors: Vec<Handle> = (0..7).map(|at| face.f32(&[1], &[at as f32])).collect();
    let bad = out_of_range(&mut face);
    // Each is written from the one before it, and the fifth cannot be.
    for at in 1..7 {
        face.assign(tensors[at], "add", &[tensors[at], tensors[at - 1]], &[]);
        if at == 4 {
            face.assign(tensors[at], "mul", &[tensors[at], bad], &[]);
        }
    }
    tells(face.session.commit(&[]));
    let found: Vec<f64> = tensors.iter().map(|&tensor| face.read(tensor)[0]).collect();
    assert_eq!(found, [0., 1., 3., 6., 4., 5., 6.]);
    // A write that is sound stays though a tensor that was read with it is not.
    face.assign(tensors[0], "add_scalar", &[tensors[0]], &float(1.5));
    let product = face.op("mul", &[tensors[0], bad], &[]);
    tells(face.session.read(product));
    assert_eq!(face.read(tensors[0]), [1.5]);
}

#[test]
fn a_label_out_of_range_costs_one_batch() {
    let mut face = Face::new();
    let weights = face.variable(&[2, 3], &[1., 0., 0., 0., 1., 0.]);
    let momentum = face.f32(&[2, 3], &[0.; 6]);
    // Without a read of the loss too, the error comes with the next use of what was not written.
    let mut step = |label: i32, reads: bool| -> Result<Vec<f64>> {
        face.session.set_grad(weights, None)?;
        let x = face.f32(&[1, 2], &[1., 2.]);
        let label = face.session.create(&TensorType::new(DType::I32, [1]), &label.to_ne_bytes())?;
        let logits = face.try_op("matmul", &[x, weights], &[])?;
        let loss = face.try_op("cross_entropy", &[logits, label], &[])?;
        face.session.backward(loss, None)?;
        let grad = face.session.grad(weights)?.unwrap();
        let written = face.no_grad(|face| {
            face.try_assign(momentum, "add", &[momentum, grad], &[])?;
            face.try_assign(weights, "sub", &[weights, momentum], &[])
        });
        written?;
        face.release(&[grad]);
        if reads {
            face.session.read(loss)?;
            assert_eq!(face.session.stats().written, 0);
        }
        face.session.read(weights)?.1.to_f64_vec()
    };
    let first = step(0, true).unwrap();
    tells(step(9, true));
    tells(step(9, false));
    // The momentum is that of the first step, and the batch that follows is the second.
    let second = step(1, true).unwrap();
    let mut other = Face::new();
    let weights = other.variable(&[2, 3], &[1., 0., 0., 0., 1., 0.]);
    let mut momentum = [0.; 6];
    for (label, expected) in [(0i32, first), (1, second)] {
        other.session.set_grad(weights, None).unwrap();
        let x = other.f32(&[1, 2], &[1., 2.]);
        let label = other.session.create(&TensorType::new(DType::I32, [1]), &label.to_ne_bytes()).unwrap();
        let logits = other.op("matmul", &[x, weights], &[]);
        let loss = other.op("cross_entropy", &[logits, label], &[]);
        other.backward(loss);
        let grad = other.grad(weights).unwrap();
        momentum.iter_mut().zip(&grad).for_each(|(m, g)| *m += g);
        let change: Vec<f32> = momentum.iter().map(|&m| m as f32).collect();
        let change = other.f32(&[2, 3], &change);
        other.no_grad(|other| other.assign(weights, "sub", &[weights, change], &[]));
        close(&expected, &other.read(weights));
    }
}

#[test]
fn a_gradient_that_cannot_be_computed_is_gone() {
    let mut face = Face::new();
    let w = face.variable(&[1], &[3.]);
    let bad = out_of_range(&mut face);
    let product = face.op("mul", &[w, bad], &[]);
    let loss = face.sum(product);
    face.backward(loss);
    tells(face.session.read(loss));
    assert_eq!(face.grad(w), None);
    // Had it stayed, what is added to it would fail too.
    let square = face.op("square", &[w], &[]);
    let loss = face.sum(square);
    face.backward(loss);
    assert_eq!(face.grad(w).unwrap(), [6.]);
    // One that was there before goes back to what it was.
    let product = face.op("mul", &[w, bad], &[]);
    let loss = face.sum(product);
    face.backward(loss);
    tells(face.session.read(loss));
    assert_eq!(face.grad(w).unwrap(), [6.]);
}

#[test]
fn after_a_lack_of_memory_everything_goes_on() {
    let mut face = Face::new();
    let w = face.variable(&[4], &[1.; 4]);
    let counter = face.f32(&[1], &[0.]);
    face.session.engine().set_memory_limit(Some(2_000_000));
    let mut step = |rows: i64| -> Result<f64> {
        face.session.set_grad(w, None)?;
        face.assign(counter, "add_scalar", &[counter], &float(1.0));
        let shape = [Attribute::Ints(vec![rows, 4]), Attribute::Float(0.25)];
        let batch = face.op("full", &[], &shape);
        let scaled = face.op("mul", &[batch, w], &[]);
        let other = face.op("exp", &[scaled], &[]);
        let turned = face.op("transpose", &[other], &int2(0, 1));
        let product = face.op("matmul", &[scaled, turned], &[]);
        let squares = face.op("square", &[product], &[]);
        let loss = face.op("mean", &[squares], &[]);
        face.session.backward(loss, None)?;
        let grad = face.session.grad(w)?.unwrap();
        let written = face.no_grad(|face| face.try_assign(w, "sub", &[w, grad], &[]));
        face.release(&[grad, squares, product, turned, other, scaled, batch]);
        written?;
        let read = face.session.read(loss).and_then(|(_, loss)| loss.item());
        face.release(&[loss]);
        read
    };
    let first = step(8).unwrap();
    assert!(first > 0.0);
    assert_eq!(step(4000).unwrap_err().kind, ErrorKind::OutOfMemory);
    step(8).unwrap();
    assert_eq!(face.read(counter), [3.]);
    assert!(face.read(w).iter().all(|value| value.is_finite()));
    assert_eq!(face.session.stats().written, 0);
}

#[test]
fn a_call_goes_on_beside_a_write_that_fails() {
    let mut face = Face::new();
    let (w, x) = (face.f32(&[1], &[4.]), face.f32(&[1], &[5.]));
    let inputs = face.session.begin_capture("jit", Purpose::Program, &[x]).unwrap();
    let twice = face.op("add", &[inputs[0], inputs[0]], &[]);
    let captured = face.session.end_capture(&[twice], true).unwrap().unwrap();
    let bad = out_of_range(&mut face);
    face.assign(w, "add", &[w, bad], &[]);
    face.assign(x, "add_scalar", &[x], &float(1.0));
    let result = face.session.call(captured, &[x]).unwrap()[0];
    assert_eq!(face.read(result), [12.]);
    tells(face.session.read(w));
    // And tells of an argument that could not be written.
    face.assign(x, "mul", &[x, bad], &[]);
    tells(face.session.call(captured, &[x]));
    let result = face.session.call(captured, &[x]).unwrap()[0];
    assert_eq!((face.read(result), face.read(w)), (vec![12.], vec![4.]));
}
