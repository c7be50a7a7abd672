//! A session over messages against the same session on the device itself.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use lanthorn_compiler::backend::Readback;
use lanthorn_cpu::CpuBackend;
use lanthorn_ir::ops::table::{Attribute, id_of};
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType};
use lanthorn_remote::message::{Bytes, Message};
use lanthorn_remote::{RemoteEngine, Reply, Server};
use lanthorn_runtime::{Device, EagerTensor};
use lanthorn_session::{Engine, Handle, Session};
use proptest::prelude::*;

fn device() -> Device {
    Device::new(Arc::new(CpuBackend))
}

fn server() -> Server<Device> {
    Server::new(device(), EagerTensor::start_read)
}

fn bytes_of(elements: &[f32]) -> Vec<u8> {
    elements.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

/// What a test does with a session, whatever its engine.
struct Face<E: Engine> {
    session: Session<E>,
}

impl<E: Engine> Face<E> {
    fn f32(&mut self, shape: &[usize], elements: &[f32]) -> Handle {
        self.session.create(&TensorType::new(DType::F32, shape), &bytes_of(elements)).unwrap()
    }

    fn ids(&mut self, ids: &[i64]) -> Handle {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
        self.session.create(&TensorType::new(DType::I64, [ids.len()]), &bytes).unwrap()
    }

    fn op(&mut self, name: &str, tensors: &[Handle], attributes: &[Attribute]) -> Handle {
        let tensors: Vec<Option<Handle>> = tensors.iter().copied().map(Some).collect();
        self.session.op(id_of(name).unwrap(), &tensors, attributes).unwrap()[0]
    }

    fn assign(&mut self, target: Handle, name: &str, other: Handle) {
        self.session.assign(target, id_of(name).unwrap(), &[Some(target), Some(other)], &[]).unwrap();
    }

    /// Fits a line by gradient descent; `read` is called with the loss of each step and the line at the end.
    fn fit(&mut self, steps: usize, mut read: impl FnMut(&mut Self, Handle)) {
        let x = self.f32(&[4, 1], &[-1.0, 0.0, 1.0, 2.0]);
        let y = self.f32(&[4, 1], &[-3.0, -1.0, 1.0, 3.0]);
        let (w, b) = (self.f32(&[1, 1], &[0.1]), self.f32(&[1], &[0.2]));
        for tensor in [w, b] {
            self.session.requires_grad(tensor, true).unwrap();
        }
        for _ in 0..steps {
            let product = self.op("matmul", &[x, w], &[]);
            let line = self.op("add", &[product, b], &[]);
            let off = self.op("sub", &[line, y], &[]);
            let square = self.op("square", &[off], &[]);
            let loss = self.op("mean", &[square], &[]);
            self.session.backward(loss, None).unwrap();
            self.session.enter_no_grad();
            for tensor in [w, b] {
                let grad = self.session.grad(tensor).unwrap().unwrap();
                let step = self.op("mul_scalar", &[grad], &[Attribute::Float(0.1)]);
                self.assign(tensor, "sub", step);
                self.session.set_grad(tensor, None).unwrap();
                [grad, step].into_iter().for_each(|handle| self.session.release(handle).unwrap());
            }
            self.session.leave_no_grad().unwrap();
            read(self, loss);
            [product, line, off, square, loss].into_iter().for_each(|h| self.session.release(h).unwrap());
        }
        read(self, w);
        read(self, b);
        [x, y, w, b].into_iter().for_each(|handle| self.session.release(handle).unwrap());
    }
}

/// A page, with the worker at hand.
struct Page {
    face: Face<RemoteEngine>,
    engine: RemoteEngine,
    server: Server<Device>,
}

impl Page {
    fn new() -> Page {
        let engine = RemoteEngine::new();
        Page { face: Face { session: Session::new(engine.clone()) }, engine, server: server() }
    }

    fn request(&mut self, tensor: Handle) -> u32 {
        let read = self.face.session.read(tensor).unwrap().1;
        self.engine.request(&read).unwrap()
    }

    fn send(&mut self) {
        self.server.handle(&self.engine.take_batch()).unwrap();
    }

    fn read(&mut self, tensor: Handle) -> Result<Vec<f32>> {
        let request = self.request(tensor);
        self.send();
        let Reply { request: answered, result } = self.server.next_reply().expect("an answer");
        assert_eq!(answered, request);
        Ok(result?.chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect())
    }
}

#[test]
fn training_over_messages_has_the_bits_of_training_in_process() {
    let mut expected: Vec<Vec<u8>> = Vec::new();
    let mut local = Face { session: Session::new(device()) };
    local.fit(100, |face, tensor| expected.push(face.session.read(tensor).unwrap().1.to_bytes().unwrap()));

    let Page { mut face, engine, mut server } = Page::new();
    let mut found: Vec<Vec<u8>> = Vec::new();
    face.fit(100, |face, tensor| {
        engine.request(&face.session.read(tensor).unwrap().1).unwrap();
        server.handle(&engine.take_batch()).unwrap();
        found.push(server.next_reply().unwrap().result.unwrap());
    });
    assert_eq!(found, expected);
    let line: Vec<f32> =
        found[100..].iter().map(|bytes| f32::from_ne_bytes(bytes[..].try_into().unwrap())).collect();
    assert!((line[0] - 2.0).abs() < 1e-3 && (line[1] + 1.0).abs() < 1e-3, "{line:?}");
}

#[test]
fn what_the_page_lets_go_of_goes_at_the_worker() {
    let Page { mut face, engine, mut server } = Page::new();
    let most = Rc::new(RefCell::new(0));
    face.fit(300, |face, tensor| {
        engine.request(&face.session.read(tensor).unwrap().1).unwrap();
        server.handle(&engine.take_batch()).unwrap();
        server.next_reply().unwrap().result.unwrap();
        let mut most = most.borrow_mut();
        *most = server.tensors().max(*most);
    });
    drop(face);
    server.handle(&engine.take_batch()).unwrap();
    assert_eq!(server.tensors(), 0);
    assert_eq!(server.engine().stats().live_bytes, 0);
    assert!(*most.borrow() < 40, "{} tensors at once", most.borrow());
    // One structure for all steps, but the first and the reads at the end.
    assert!(server.engine().stats().compiles < 8, "{:?}", server.engine().stats());
}

#[test]
fn a_program_is_sent_once_while_it_is_used_and_again_when_it_was_forgotten() {
    let mut page = Page::new();
    let defines = |batch: &[u8]| {
        let (mut rest, mut count) = (batch, 0);
        while !rest.is_empty() {
            let (message, after) = Message::read(rest).unwrap();
            count += usize::from(matches!(message, Message::Define { .. }));
            rest = after;
        }
        count
    };
    let mut negate = |n: usize| {
        let x = page.face.f32(&[n], &vec![n as f32; n]);
        let y = page.face.op("neg", &[x], &[]);
        page.request(y);
        let batch = page.engine.take_batch();
        page.server.handle(&batch).unwrap();
        let read = page.server.next_reply().unwrap().result.unwrap();
        assert_eq!(read, bytes_of(&vec![-(n as f32); n]));
        defines(&batch)
    };
    assert_eq!((negate(1), negate(1)), (1, 0));
    for n in 2..=600 {
        assert_eq!(negate(n), 1);
    }
    assert_eq!((negate(600), negate(1)), (0, 1));
}

#[test]
fn an_error_of_a_run_comes_with_every_read_that_depends_on_it_and_with_no_other() {
    let mut page = Page::new();
    let table = page.face.f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let (wrong, right) = (page.face.ids(&[7]), page.face.ids(&[1]));
    let rows = page.face.op("embedding", &[table, wrong], &[]);
    let error = page.read(rows).unwrap_err();
    assert!(error.to_string().contains('7'), "{error}");
    let later = page.face.op("exp", &[rows], &[]);
    assert_eq!(page.read(later).unwrap_err(), error);
    let rows = page.face.op("embedding", &[table, right], &[]);
    assert_eq!(page.read(rows).unwrap(), [3.0, 4.0]);
}

/// A read whose bytes arrive with the third question.
struct Late {
    asked: usize,
    bytes: Vec<u8>,
}

impl Readback for Late {
    fn poll(&mut self) -> Result<Option<Vec<u8>>> {
        self.asked += 1;
        Ok((self.asked > 2).then(|| std::mem::take(&mut self.bytes)))
    }
    fn wait(self: Box<Self>) -> Result<Vec<u8>> {
        Err(Error::unsupported("read", "nobody waits here"))
    }
}

#[test]
fn bytes_that_arrive_late_are_answered_late_as_they_were_when_they_were_asked_for() {
    let mut page = Page::new();
    let late = |tensor: &EagerTensor| -> Result<Box<dyn Readback>> {
        Ok(Box::new(Late { asked: 0, bytes: tensor.to_bytes()? }))
    };
    page.server = Server::new(device(), late);
    let x = page.face.f32(&[2], &[1.0, 2.0]);
    let before = page.request(x);
    page.face.assign(x, "mul", x);
    let after = page.request(x);
    page.face.session.release(x).unwrap();
    page.send();
    let mut replies = Vec::new();
    for _ in 0..6 {
        assert_eq!(page.server.pending_reads() + replies.len(), 2);
        replies.extend(page.server.next_reply());
    }
    let replies: Vec<_> = replies.into_iter().map(|r| (r.request, r.result.unwrap())).collect();
    assert_eq!(replies, [(before, bytes_of(&[1.0, 2.0])), (after, bytes_of(&[1.0, 4.0]))]);
}

#[test]
fn numbers_that_are_unknown_or_taken_are_the_clients_fault() {
    let ty = TensorType::new(DType::F32, [1]);
    let upload = |id| Message::Upload { id, ty: ty.clone(), bytes: Bytes(&[0; 4]) };
    let run = |program| Message::Run { program, arguments: vec![1], results: vec![9] };
    let define = || Message::Define { program: 1, bytes: Bytes(&[]) };
    let faults: [&[Message<'_>]; 8] = [
        &[Message::Drop { id: 1 }],
        &[Message::Read { request: 1, id: 1 }],
        &[Message::Forget { program: 1 }],
        &[upload(1), upload(1)],
        &[upload(1), run(1)],
        &[define(), define()],
        &[define(), Message::Run { program: 1, arguments: vec![1], results: vec![9] }],
        &[upload(1), Message::Drop { id: 1 }, Message::Drop { id: 1 }],
    ];
    for messages in faults {
        let mut batch = Vec::new();
        messages.iter().for_each(|message| message.write(&mut batch).unwrap());
        let error = server().handle(&batch).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Format | ErrorKind::InvalidHandle), "{messages:?}: {error}");
    }
}

#[test]
fn bytes_that_are_no_program_or_do_not_fit_their_type_are_errors_of_what_follows() {
    let mut server = server();
    let mut batch = Vec::new();
    let ty = TensorType::new(DType::F32, [3]);
    let messages = [
        Message::Upload { id: 1, ty, bytes: Bytes(&[0; 4]) },
        Message::Define { program: 1, bytes: Bytes(&[1, 200, 3]) },
        Message::Run { program: 1, arguments: vec![], results: vec![2, 3] },
        Message::Read { request: 1, id: 1 },
        Message::Read { request: 2, id: 3 },
    ];
    messages.iter().for_each(|message| message.write(&mut batch).unwrap());
    server.handle(&batch).unwrap();
    let kinds: Vec<_> =
        std::iter::from_fn(|| server.next_reply()).map(|reply| reply.result.unwrap_err().kind).collect();
    assert_eq!(kinds, [ErrorKind::Shape, ErrorKind::Format]);
}

#[test]
fn a_tensor_of_another_engine_is_refused() {
    let (a, b) = (RemoteEngine::new(), RemoteEngine::new());
    let foreign = b.upload(&TensorType::new(DType::F32, [1]), &[0; 4]).unwrap();
    let leaf = lanthorn_ir::Value::leaf(TensorType::new(DType::F32, [1])).unwrap();
    let root = lanthorn_ir::ops::neg(&lanthorn_ir::Lazy, &leaf).unwrap();
    let (program, _) = lanthorn_compiler::pipeline::index(&[leaf], &[root], |_| false);
    let never = lanthorn_compiler::cancel::CancelToken::never();
    let error = a.run(program.clone(), vec![foreign.clone()], &never).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ForeignHandle);
    assert!(a.run(program.clone(), vec![], &never).is_err());
    assert_eq!(b.run(program, vec![foreign], &never).unwrap().len(), 1);
}

/// The batch of a short training run.
fn valid_batch() -> Vec<u8> {
    let Page { mut face, engine, .. } = Page::new();
    face.fit(2, |face, tensor| {
        engine.request(&face.session.read(tensor).unwrap().1).unwrap();
    });
    engine.take_batch()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bytes_from_anywhere_give_errors(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = server().handle(&bytes);
    }

    #[test]
    fn a_batch_that_was_tampered_with_gives_errors_or_other_numbers(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut batch = valid_batch();
        for (at, byte) in changes {
            let at = at.index(batch.len());
            batch[at] = byte;
        }
        batch.truncate(cut.index(batch.len()) + 1);
        let mut server = server();
        server.engine().set_memory_limit(Some(1 << 24));
        let _ = server.handle(&batch);
        while server.next_reply().is_some() {}
    }
}
