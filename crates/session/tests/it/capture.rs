//! Functions that are recorded once and run again.

use lanthorn_ir::ErrorKind;
use lanthorn_ir::ops::table::Attribute;
use lanthorn_session::{Handle, Purpose};

use crate::support::{Face, close, float};

impl Face {
    fn capture(
        &mut self,
        purpose: Purpose,
        inputs: &[Handle],
        function: impl FnOnce(&mut Face, &[Handle]) -> Vec<Handle>,
    ) -> Handle {
        let placeholders = self.session.begin_capture("jit", purpose, inputs).unwrap();
        let outputs = function(self, &placeholders);
        let captured = self.session.end_capture(&outputs, true).unwrap().unwrap();
        self.release(&placeholders);
        captured
    }
}

#[test]
fn a_training_step_is_one_program_that_writes_the_live_cells() {
    let mut face = Face::new();
    let (w, x) = (face.variable(&[2], &[1., 2.]), face.f32(&[2], &[3., 4.]));
    let step = face.capture(Purpose::Program, &[x], |face, inputs| {
        let product = face.op("mul", &[w, inputs[0]], &[]);
        let loss = face.sum(product);
        face.backward(loss);
        let grad = face.session.grad(w).unwrap().unwrap();
        let change = face.op("mul_scalar", &[grad], &float(0.25));
        face.no_grad(|face| face.assign(w, "sub", &[w, change], &[]));
        face.session.set_grad(w, None).unwrap();
        vec![loss]
    });
    // Recording has changed nothing.
    close(&face.read(w), &[1., 2.]);
    let compiles = face.session.stats().engine.compiles;
    for (step_number, loss) in [11., 4.75, -1.5].into_iter().enumerate() {
        let outputs = face.session.call(step, &[x]).unwrap();
        close(&face.read(outputs[0]), &[loss]);
        let done = (step_number + 1) as f64;
        close(&face.read(w), &[1. - 0.75 * done, 2. - done]);
        assert_eq!(face.grad(w), None);
    }
    assert_eq!(face.session.stats().engine.compiles, compiles);
    let stats = face.session.captured_stats(step).unwrap();
    assert_eq!((stats.inputs, stats.outputs, stats.closures, stats.writes, stats.calls), (1, 1, 1, 1, 3));
    face.session.release_captured(step).unwrap();
    assert_eq!(face.session.call(step, &[x]).unwrap_err().kind, ErrorKind::InvalidHandle);
}

#[test]
fn nothing_is_computed_while_a_function_is_recorded_and_an_abort_leaves_no_trace() {
    let mut face = Face::new();
    let (w, x) = (face.f32(&[2], &[1., 2.]), face.f32(&[2], &[3., 4.]));
    let before = face.session.stats();
    let inputs = face.session.begin_capture("jit", Purpose::Program, &[x]).unwrap();
    face.assign(w, "add", &[w, inputs[0]], &[]);
    assert_eq!(face.session.read(w).unwrap_err().kind, ErrorKind::Compile);
    assert_eq!(face.session.commit(&[w]).unwrap_err().kind, ErrorKind::Compile);
    assert_eq!(face.session.seed(1).unwrap_err().kind, ErrorKind::Compile);
    assert_eq!(
        face.session.begin_capture("jit", Purpose::Program, &[]).unwrap_err().kind,
        ErrorKind::Compile
    );
    face.session.abort_capture().unwrap();
    face.session.abort_capture().unwrap();
    face.release(&inputs);
    close(&face.read(w), &[1., 2.]);
    let after = face.session.stats();
    assert_eq!((after.handles, after.cells, after.written), (before.handles, before.cells, 0));
    assert_eq!(after.engine.calls, before.engine.calls);
}

#[test]
fn what_the_function_keeps_goes_with_it() {
    let mut face = Face::new();
    let x = face.f32(&[1], &[1.]);
    let before = face.session.stats();
    let w = face.f32(&[1], &[2.]);
    let captured =
        face.capture(Purpose::Program, &[x], |face, inputs| vec![face.op("mul", &[w, inputs[0]], &[])]);
    face.release(&[w]);
    let outputs = face.session.call(captured, &[x]).unwrap();
    close(&face.read(outputs[0]), &[2.]);
    face.release(&outputs);
    face.session.release_captured(captured).unwrap();
    // The handle of the traced result is the function's own affair.
    let after = face.session.stats();
    assert_eq!(after.captures, before.captures);
    assert!(after.cells <= before.cells + 1);
}

#[test]
fn a_graph_passes_derivatives_and_keeps_its_cuts() {
    let mut face = Face::new();
    let x = face.f32(&[1], &[3.]);
    let captured = face.capture(Purpose::Function { reads_outside: false }, &[x], |face, inputs| {
        let detached = face.session.detach(inputs[0]).unwrap();
        vec![face.op("mul", &[inputs[0], detached], &[])]
    });
    let v = face.variable(&[1], &[5.]);
    let y = face.session.call(captured, &[v]).unwrap()[0];
    close(&face.read(y), &[25.]);
    face.backward(y);
    close(&face.grad(v).unwrap(), &[5.]);
    let wrong = face.f32(&[2], &[1., 2.]);
    assert_eq!(face.session.call(captured, &[wrong]).unwrap_err().kind, ErrorKind::Compile);
}

#[test]
fn a_function_that_writes_what_it_made_is_recorded_twice() {
    let mut face = Face::new();
    let x = face.f32(&[1], &[1.]);
    let inputs = face.session.begin_capture("jit", Purpose::Program, &[x]).unwrap();
    let sizes = [Attribute::Ints(vec![1])];
    let state = face.op("zeros", &[], &sizes);
    face.assign(state, "add", &[state, inputs[0]], &[]);
    assert!(face.session.end_capture(&[state], false).unwrap().is_none());
    close(&face.read(state), &[0.]);
    let captured = face.capture(Purpose::Program, &[x], |face, inputs| {
        face.assign(state, "add", &[state, inputs[0]], &[]);
        Vec::new()
    });
    for sum in [1., 2., 3.] {
        face.session.call(captured, &[x]).unwrap();
        close(&face.read(state), &[sum]);
    }
}

#[test]
fn a_call_that_fails_behind_a_write_has_written_nothing() {
    let mut face = Face::new();
    let (w, m) = (face.f32(&[2, 1], &[1., 2.]), face.f32(&[2, 1], &[5., 6.]));
    let ids = |face: &mut Face, at: i64| {
        let ty = lanthorn_ir::TensorType::new(lanthorn_ir::DType::I64, [1]);
        face.session.create(&ty, &at.to_ne_bytes()).unwrap()
    };
    let (right, wrong) = (ids(&mut face, 1), ids(&mut face, 2));
    let step = face.capture(Purpose::Program, &[right], |face, inputs| {
        face.assign(m, "add", &[m, w], &[]);
        face.assign(w, "mul_scalar", &[w], &float(3.0));
        vec![face.op("embedding", &[w, inputs[0]], &[])]
    });
    for _ in 0..2 {
        assert_eq!(face.session.call(step, &[wrong]).unwrap_err().kind, ErrorKind::Execute);
        close(&face.read(w), &[1., 2.]);
        close(&face.read(m), &[5., 6.]);
    }
    let outputs = face.session.call(step, &[right]).unwrap();
    close(&face.read(outputs[0]), &[6.]);
    close(&face.read(w), &[3., 6.]);
    close(&face.read(m), &[6., 8.]);
}

#[test]
fn a_call_that_cannot_fail_behind_a_write_has_its_tensors_in_memory_once() {
    let mut face = Face::new();
    let elements = 1 << 16;
    let w = face.f32(&[elements, 1], &vec![1.0; elements]);
    let ty = lanthorn_ir::TensorType::new(lanthorn_ir::DType::I64, [1]);
    let first = face.session.create(&ty, &0i64.to_ne_bytes()).unwrap();
    // The old elements are looked up before they are overwritten.
    let step = face.capture(Purpose::Program, &[first], |face, inputs| {
        let row = face.op("embedding", &[w, inputs[0]], &[]);
        face.assign(w, "mul_scalar", &[w], &float(0.5));
        vec![row]
    });
    for step_number in 0..3 {
        let outputs = face.session.call(step, &[first]).unwrap();
        close(&face.read(outputs[0]), &[0.5f64.powi(step_number)]);
    }
    let (peak, bytes) = (face.session.stats().engine.peak_bytes, 4 * elements as u64);
    assert!((bytes..bytes + bytes / 2).contains(&peak), "{peak}");
}
