//! What sequences share, and that calls that fail change nothing.

use lanthorn_ir::ErrorKind;
use lanthorn_llm::{DecodeRequest, Draw};
use lanthorn_runtime::{CancelToken, EagerTensor};

use crate::models::*;

#[test]
fn prompts_share_the_blocks_that_they_begin_with() {
    let device = device();
    let engine = Engine::new(&device, LLAMA, 8, &request(4, 2));
    let expected = |tokens: &[u32]| whole(&device, LLAMA, &engine.parameters, tokens).pop().unwrap();
    let first = text(18, 1);
    let a = engine.pool.sequence();
    assert_eq!(a.share(&first).unwrap(), 0);
    engine.read(&a, &first).unwrap();

    // Two whole blocks, and the third differs in its last token.
    let mut second = first[..12].to_vec();
    second[11] ^= 1;
    second.extend(text(4, 2));
    let b = engine.pool.sequence();
    assert_eq!(b.share(&second).unwrap(), 8);
    assert_eq!(b.length().unwrap(), 8);
    let before = engine.pool.stats().used_blocks;
    let logits = engine.read(&b, &second[8..]).unwrap();
    assert!(distance(&logits, &expected(&second)) < 1e-5);
    assert_eq!(engine.pool.stats().used_blocks, before + 2);

    // What both go on with is their own.
    let found = engine.step(&[(&a, 3), (&b, 4)]).unwrap();
    for (logits, (tokens, token)) in found.iter().zip([(&first, 3), (&second, 4)]) {
        assert!(distance(logits, &expected(&[&tokens[..], &[token]].concat())) < 1e-5);
    }

    // Blocks stay when their sequences have gone; the last token is always computed.
    a.release().unwrap();
    drop(b);
    let stats = engine.pool.stats();
    assert_eq!((stats.sequences, stats.used_blocks, stats.kept_blocks), (0, 0, 6));
    let c = engine.pool.sequence();
    assert_eq!(c.share(&first[..16]).unwrap(), 12);
    let logits = engine.read(&c, &first[12..16]).unwrap();
    assert!(distance(&logits, &expected(&first[..16])) < 1e-5);
}

#[test]
fn other_weights_share_nothing_of_those_before() {
    let device = device();
    let mut engine = Engine::new(&device, GPT, 8, &request(4, 1));
    let tokens = text(10, 1);
    let read = |engine: &Engine| {
        let sequence = engine.pool.sequence();
        let shared = sequence.share(&tokens).unwrap();
        (shared, engine.read(&sequence, &tokens[shared..]).unwrap())
    };
    assert_eq!((read(&engine).0, read(&engine).0), (0, 8));

    // A new tensor for one of them, such as a step of training gives, perhaps where the old one lay.
    let other = GPT.parameters(&device, 4);
    engine.parameters[2] = other[2].clone();
    // What the pool has is taken to be under the weights of the last call.
    let stale = engine.pool.sequence();
    assert_eq!(stale.share(&tokens).unwrap(), 8);
    let error = engine.read(&stale, &tokens[8..]).unwrap_err().to_string();
    assert!(error.contains("shared tokens that were computed under other weights"), "{error}");
    let probe = engine.pool.sequence();
    engine.read(&probe, &tokens[..1]).unwrap();
    let (shared, logits) = read(&engine);
    assert_eq!(shared, 0);
    let expected = whole(&device, GPT, &engine.parameters, &tokens).pop().unwrap();
    assert!(distance(&logits, &expected) < 1e-5);
    assert_eq!(read(&engine).0, 8, "under these weights it is");

    // The same tensor with other contents.
    engine.parameters[0].storage().swap(other[0].storage()).unwrap();
    engine.read(&probe, &tokens[..1]).unwrap();
    let (shared, logits) = read(&engine);
    assert_eq!(shared, 0);
    let expected = whole(&device, GPT, &engine.parameters, &tokens).pop().unwrap();
    assert!(distance(&logits, &expected) < 1e-5);
    engine.pool.forget();
    assert_eq!(read(&engine).0, 0);
}

#[test]
fn a_full_pool_is_an_error_that_changes_nothing() {
    let device = device();
    let request = DecodeRequest { max_tokens: 16, ..request(4, 2) };
    let engine = Engine::new(&device, GPT, 8, &request);
    let (a, b) = (engine.pool.sequence(), engine.pool.sequence());
    let (mut first, second) = (text(7, 1), text(4, 2));
    engine.read(&a, &first).unwrap();
    engine.read(&b, &second).unwrap();
    let before = engine.pool.stats();
    let c = engine.pool.sequence();
    let error = engine.read(&c, &text(8, 3)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    let message = error.to_string();
    assert!(message.contains("2 more of its 4 blocks of 4 tokens are needed and 1 are free"), "{message}");
    assert_eq!((c.length().unwrap(), engine.pool.stats().used_blocks), (0, before.used_blocks));
    // One of both has room for its token, the other takes the last block, and then neither has.
    engine.step(&[(&a, 1), (&b, 2)]).unwrap();
    first.push(1);
    engine.read(&b, &text(3, 4)).unwrap();
    assert_eq!(engine.step(&[(&a, 5), (&b, 6)]).unwrap_err().kind, ErrorKind::OutOfMemory);
    assert_eq!((a.length().unwrap(), b.length().unwrap()), (8, 8));
    b.release().unwrap();
    let logits = engine.step(&[(&a, 5)]).unwrap().remove(0);
    first.push(5);
    let expected = whole(&device, GPT, &engine.parameters, &first).pop().unwrap();
    assert!(distance(&logits, &expected) < 1e-5);
}

#[test]
fn a_cancelled_call_changes_nothing() {
    let device = device();
    let engine = Engine::new(&device, LLAMA, 8, &request(4, 2));
    let mut tokens = text(10, 1);
    let (a, b) = (engine.pool.sequence(), engine.pool.sequence());
    engine.read(&a, &tokens).unwrap();
    engine.read(&b, &text(8, 2)).unwrap();
    let before = engine.pool.stats();
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let call = |cancel: &CancelToken, token: u32| {
        let tokens: [&[u32]; 2] = [&[token], &[token]];
        engine.step.call(&engine.pool, &engine.bindings(), &[&a, &b], &tokens, cancel)
    };
    assert_eq!(call(&cancelled, 1).unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!(engine.pool.stats(), before);
    // Also while it runs: by another thread, at any moment.
    for round in 0..12u32 {
        let cancel = CancelToken::new();
        let other = cancel.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 20));
            other.cancel();
        });
        let length = a.length().unwrap();
        match call(&cancel, round) {
            Ok(_) => tokens.push(round),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Cancelled);
                assert_eq!(a.length().unwrap(), length);
            }
        }
        thread.join().unwrap();
    }
    let logits = engine.step(&[(&a, 30)]).unwrap().remove(0);
    tokens.push(30);
    let expected = whole(&device, LLAMA, &engine.parameters, &tokens).pop().unwrap();
    assert!(distance(&logits, &expected) < 1e-5);
}

#[test]
fn a_call_that_fails_changes_nothing() {
    let device = device();
    let engine = Engine::new(&device, GPT, 8, &request(4, 1));
    let tokens = text(6, 1);
    let sequence = engine.pool.sequence();
    engine.read(&sequence, &tokens).unwrap();
    let before = engine.pool.stats();
    // An id that the table does not have, found by the kernel.
    let error = engine.read(&sequence, &[3, VOCAB as u32]).unwrap_err();
    assert!(error.to_string().contains("out of range"), "{error}");
    // Logits of which no token can be drawn.
    let mut parameters = engine.parameters.clone();
    let nan = vec![f32::NAN; parameters[0].ty().numel()];
    parameters[0] = EagerTensor::from_slice(&device, parameters[0].shape(), &nan).unwrap();
    let bindings: Vec<&EagerTensor> = parameters.iter().collect();
    let draw = [Draw::default()];
    let error = engine
        .step
        .call_sampled(&engine.pool, &bindings, &[&sequence], &[&[1]], &draw, &never())
        .unwrap_err();
    assert!(error.to_string().contains("NaN"), "{error}");
    assert_eq!((sequence.length().unwrap(), engine.pool.stats()), (6, before));
    let logits = engine.step(&[(&sequence, 2)]).unwrap().remove(0);
    let expected = whole(&device, GPT, &engine.parameters, &[&tokens[..], &[2]].concat()).pop().unwrap();
    assert!(distance(&logits, &expected) < 1e-5);
}

#[test]
fn sequences_may_be_let_go_and_used_from_any_thread() {
    let device = device();
    let engine = Engine::new(&device, GPT, 8, &request(4, 1));
    let expected = whole(&device, GPT, &engine.parameters, &text(20, 9));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for length in [20, 7, 13] {
                    let sequence = engine.pool.sequence();
                    let logits = engine.read(&sequence, &text(20, 9)[..length]).unwrap();
                    assert!(distance(&logits, &expected[length - 1]) < 1e-5);
                }
            });
        }
    });
    let stats = engine.pool.stats();
    assert_eq!((stats.sequences, stats.used_blocks), (0, 0));
}
