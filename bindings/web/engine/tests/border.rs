//! The exported functions as the loader calls them.

use lanthorn_ir::{DType, TensorType};
use lanthorn_remote::RemoteEngine;
use lanthorn_session::Session;
use lanthorn_web_engine::{
    Answer, lanthorn_error, lanthorn_handle, lanthorn_inbox, lanthorn_pending, lanthorn_reply,
    lanthorn_start, lanthorn_tensors,
};

/// What an answer says: its request, whether it failed, and its bytes.
fn said(answer: *const Answer) -> Option<(u32, bool, Vec<u8>)> {
    // SAFETY: the module's answers are null or valid until the next call.
    let answer = unsafe { answer.as_ref() }?;
    // SAFETY: as above.
    let bytes = unsafe { std::slice::from_raw_parts(answer.address, answer.bytes) };
    Some((answer.request, answer.failed == 1, bytes.to_vec()))
}

fn error() -> String {
    String::from_utf8(said(lanthorn_error()).unwrap().2).unwrap()
}

fn handle(batch: &[u8]) -> i32 {
    let inbox = lanthorn_inbox(batch.len());
    assert!(!inbox.is_null());
    // SAFETY: the inbox has room for the batch.
    unsafe { inbox.copy_from(batch.as_ptr(), batch.len()) };
    lanthorn_handle()
}

#[test]
fn batches_go_in_and_answers_come_out() {
    assert_eq!(handle(&[]), -1);
    assert_eq!(error(), "closed\nhandle\nthe engine has not been started");
    assert_eq!(lanthorn_start(7, 1), -1);
    assert!(error().starts_with("device\nstart\n"), "{}", error());
    assert_eq!(lanthorn_start(0, 2), 0);
    assert!(lanthorn_inbox(usize::MAX).is_null());

    let engine = RemoteEngine::new();
    let mut session = Session::new(engine.clone());
    let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let x = session.create(&TensorType::new(DType::F32, [2]), &bytes).unwrap();
    let request = engine.request(&session.read(x).unwrap().1).unwrap();
    assert_eq!(handle(&engine.take_batch()), 0);
    assert_eq!(said(lanthorn_reply()), Some((request, false, bytes)));
    assert_eq!(said(lanthorn_reply()), None);
    assert_eq!((lanthorn_tensors(), lanthorn_pending()), (1, 0));
    drop(session);
    assert_eq!(handle(&engine.take_batch()), 0);
    assert_eq!(lanthorn_tensors(), 0);

    assert_eq!(handle(&[0xff; 8]), -1);
    assert!(error().starts_with("format\nmessage\n"), "{}", error());
}
