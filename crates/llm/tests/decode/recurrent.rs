//! Programs whose layers keep running state, against the forwards without a cache and against loops over steps.

use lanthorn_ir::{DType, ErrorKind, Lazy, Result, Value, ops};
use lanthorn_llm::{
    ConvShape, DecodeRequest, DeltaShape, Draw, KvDtype, Pool, PoolOptions, Sequence, StateShapes,
};
use lanthorn_runtime::{CancelToken, EagerTensor};

use crate::hybrid::*;
use crate::models::{Engine, Trace, VOCAB, best, device, distance, leaf, never, request, text};

/// Reads a prompt in pieces, and goes on token by token.
fn is_the_whole_forward(model: Hybrid, trace: fn(Hybrid, usize) -> Trace) {
    let device = device();
    let numbers = numbers(model, 3);
    let mut distinct = std::collections::BTreeSet::new();
    for (block_size, chunk, length) in [(1, 4, 9), (3, 1, 5), (4, 16, 1), (16, 5, 23), (4, 2, 8)] {
        let mut engine = engine(&device, model, chunk, &request(block_size, 1));
        engine.prefill = trace(model, chunk).program(&device, &request(block_size, 1)).unwrap();
        let mut tokens = text(length, block_size as u64);
        let sequence = engine.pool.sequence();
        let mut logits = engine.read(&sequence, &tokens).unwrap();
        for step in 0..12 {
            let expected = whole(&device, model, &engine.parameters, &tokens).pop().unwrap();
            let what = format!("pieces of {chunk}, {} tokens", tokens.len());
            let off = distance(&logits, &expected);
            assert!(off < 1e-5, "{what}: {off}");
            if !model.contains(&Layer::Attention) {
                let slow: Vec<f32> =
                    by_loops(model, &numbers, &tokens).pop().unwrap().iter().map(|&x| x as f32).collect();
                let off = distance(&logits, &slow);
                assert!(off < 1e-5, "{what}, by loops: {off}");
            }
            let token = (best(&logits) + step) % VOCAB as u32;
            tokens.push(token);
            logits = engine.step(&[(&sequence, token)]).unwrap().remove(0);
        }
        assert_eq!(sequence.length().unwrap(), length + 12);
        distinct.extend(tokens.split_off(length));
    }
    assert!(distinct.len() > 8, "texts of {} tokens prove little", distinct.len());
}

#[test]
fn delta_rules_decode_as_the_whole_forward() {
    is_the_whole_forward(DELTA, trace);
}

#[test]
fn short_convolutions_decode_as_the_whole_forward() {
    is_the_whole_forward(CONVOLUTIONS, trace);
}

#[test]
fn recurrences_beside_attention_decode_as_the_whole_forward() {
    is_the_whole_forward(MIXED, trace);
}

#[test]
fn what_a_checkpoint_holds_keeps_state_too() {
    is_the_whole_forward(MIXED, checkpointed);
}

#[test]
fn a_program_says_what_its_layers_keep() {
    let device = device();
    let program = trace(MIXED, 4).program(&device, &request(4, 2)).unwrap();
    let pool = program.pool();
    assert_eq!(pool.layers.len(), 2);
    let delta = DeltaShape { heads: HEADS, head_dim: HEAD_DIM, value_dim: VALUE_DIM };
    assert_eq!(pool.states.deltas, [delta; 2]);
    let conv = |channels, kernel| ConvShape { channels, kernel };
    // Three of each delta rule and one alone, of which the largest sizes count.
    assert_eq!(pool.states.convs, [conv(12, KERNEL); 7]);
    // Two slots for each of 40 sequences, in f32.
    assert_eq!(pool.sequences, 40);
    let state = 2 * HEADS * HEAD_DIM * VALUE_DIM + 7 * 3 * 12;
    assert_eq!(pool.state_bytes(), 4 * 2 * 40 * state);
    // One tap keeps nothing.
    let program = trace(CONVOLUTIONS, 4).program(&device, &request(4, 2)).unwrap();
    assert_eq!(program.pool().states.convs, [conv(12, 7); 3]);
    let wide = DecodeRequest { max_tokens: 4000, ..request(4, 2) };
    assert_eq!(trace(DELTA, 4).program(&device, &wide).unwrap().pool().sequences, 64);
    let asked = DecodeRequest { sequences: Some(3), ..wide };
    assert_eq!(trace(DELTA, 4).program(&device, &asked).unwrap().pool().sequences, 3);
}

#[test]
fn a_ragged_batch_is_each_sequence_alone() {
    let device = device();
    for model in [DELTA, CONVOLUTIONS, MIXED] {
        let engine = engine(&device, model, 8, &request(4, 4));
        let expected = |tokens: &[u32]| whole(&device, model, &engine.parameters, tokens).pop().unwrap();
        let mut texts: Vec<Vec<u32>> = [1, 17, 5, 8].iter().map(|&n| text(n, n as u64)).collect();
        let sequences: Vec<Sequence> = texts.iter().map(|_| engine.pool.sequence()).collect();
        for (sequence, tokens) in sequences.iter().zip(&texts) {
            engine.read(sequence, tokens).unwrap();
        }
        // In any order, and fewer than the batch.
        for (step, of) in [vec![0, 1, 2, 3], vec![2], vec![3, 1], vec![1, 0, 3]].into_iter().enumerate() {
            let token = |s: usize| (5 * s + step) as u32;
            let entries: Vec<_> = of.iter().map(|&s| (&sequences[s], token(s))).collect();
            let found = engine.step(&entries).unwrap();
            for (&s, logits) in of.iter().zip(&found) {
                texts[s].push(token(s));
                assert!(distance(logits, &expected(&texts[s])) < 1e-5, "{model:?}, {s} in step {step}");
            }
        }
        // Also as pieces of different lengths in one call, one of a sequence that begins.
        let wide = trace(model, 8).program(&device, &request(4, 4)).unwrap();
        let pieces = [text(3, 20), text(8, 21), text(1, 22), text(2, 23)];
        let fresh = engine.pool.sequence();
        let of = [&sequences[3], &sequences[0], &fresh, &sequences[2]];
        let tokens: Vec<&[u32]> = pieces.iter().map(Vec::as_slice).collect();
        let found = wide.call(&engine.pool, &engine.bindings(), &of, &tokens, &never()).unwrap();
        let rows: Vec<f32> = found[0].to_vec().unwrap();
        texts.push(Vec::new());
        for ((s, piece), logits) in [3, 0, 4, 2].into_iter().zip(&pieces).zip(rows.chunks(VOCAB)) {
            texts[s].extend(piece);
            assert!(distance(logits, &expected(&texts[s])) < 1e-5, "{model:?}, sequence {s}");
        }
        // What each has kept is right for what comes next.
        let found = engine.step(&[(&sequences[0], 9), (&fresh, 8), (&sequences[3], 7)]).unwrap();
        for ((s, token), logits) in [(0, 9), (4, 8), (3, 7)].into_iter().zip(&found) {
            texts[s].push(token);
            assert!(distance(logits, &expected(&texts[s])) < 1e-5, "{model:?}, sequence {s} after pieces");
        }
    }
}

#[test]
fn what_pads_a_piece_is_not_seen() {
    let device = device();
    for model in [DELTA, CONVOLUTIONS, MIXED] {
        let mut engine = engine(&device, model, 8, &request(4, 4));
        // Padding has id 0, whose row is no number here.
        let mut numbers = numbers(model, 3);
        numbers[0][..12].fill(f32::NAN);
        engine.parameters = tensors(&device, model, &numbers);
        let mut tokens: Vec<u32> = text(11, 5).into_iter().map(|token| token.max(1)).collect();
        let sequence = engine.pool.sequence();
        engine.read(&sequence, &tokens).unwrap();
        // In a batch of four, the others of which are none.
        let logits = engine.step(&[(&sequence, 7)]).unwrap().remove(0);
        tokens.push(7);
        let expected = whole(&device, model, &engine.parameters, &tokens).pop().unwrap();
        assert!(distance(&logits, &expected) < 1e-5, "{model:?}");
    }
}

#[test]
fn all_rows_of_a_piece_are_given_where_the_last_is_not_asked_for() {
    let device = device();
    let request = DecodeRequest { last_token_row: false, ..request(4, 1) };
    let engine = engine(&device, MIXED, 6, &request);
    let (sequence, tokens) = (engine.pool.sequence(), text(11, 1));
    let expected = whole(&device, MIXED, &engine.parameters, &tokens);
    let mut at = 0;
    for piece in tokens.chunks(6) {
        let found =
            engine.prefill.call(&engine.pool, &engine.bindings(), &[&sequence], &[piece], &never()).unwrap();
        for logits in found[0].to_vec::<f32>().unwrap().chunks(VOCAB).take(piece.len()) {
            assert!(distance(logits, &expected[at]) < 1e-5, "row {at}");
            at += 1;
        }
    }
    assert_eq!(at, 11);
}

#[test]
fn under_a_window_attention_alone_forgets() {
    let device = device();
    let request = DecodeRequest { window: Some(6), max_tokens: 32, ..request(4, 1) };
    let engine = engine(&device, MIXED, 8, &request);
    let sequence = engine.pool.sequence();
    let mut logits = engine.read(&sequence, &text(21, 1)).unwrap();
    for _ in 0..40 {
        logits = engine.step(&[(&sequence, best(&logits))]).unwrap().remove(0);
    }
    assert!(logits.iter().all(|x| x.is_finite()));
    assert_eq!(sequence.length().unwrap(), 61);
    assert!(engine.pool.stats().used_blocks * 4 < 6 + 2 * 4);
}

/// The logits after one more token are those of the whole text.
fn goes_on(engine: &Engine, model: Hybrid, sequence: &Sequence, tokens: &mut Vec<u32>, token: u32) {
    let logits = engine.step(&[(sequence, token)]).unwrap().remove(0);
    tokens.push(token);
    let expected = whole(engine.pool.device(), model, &engine.parameters, tokens).pop().unwrap();
    let off = distance(&logits, &expected);
    assert!(off < 1e-5, "{model:?}, {} tokens: {off}", tokens.len());
}

#[test]
fn a_call_that_fails_leaves_the_state() {
    let device = device();
    for model in [DELTA, CONVOLUTIONS, MIXED] {
        let engine = engine(&device, model, 8, &request(4, 2));
        let mut tokens = text(6, 1);
        let sequence = engine.pool.sequence();
        engine.read(&sequence, &tokens).unwrap();
        let before = engine.pool.stats();
        // An id that the table does not have, found by the kernel.
        let error = engine.read(&sequence, &[3, VOCAB as u32]).unwrap_err();
        assert!(error.to_string().contains("out of range"), "{error}");
        goes_on(&engine, model, &sequence, &mut tokens, 4);
        // Logits of which no token can be drawn: the program has run, and has written its state.
        let mut broken = numbers(model, 3);
        broken[0].fill(f32::NAN);
        let broken = tensors(&device, model, &broken);
        let bindings: Vec<&EagerTensor> = broken.iter().collect();
        let (draw, pool) = ([Draw::default()], &engine.pool);
        for piece in [&[1][..], &[1, 2, 3]] {
            let program = if piece.len() == 1 { &engine.step } else { &engine.prefill };
            let error =
                program.call_sampled(pool, &bindings, &[&sequence], &[piece], &draw, &never()).unwrap_err();
            assert!(error.to_string().contains("NaN"), "{error}");
        }
        // A sequence whose first call fails has no state.
        let fresh = engine.pool.sequence();
        let draws = [Draw::default(); 2];
        let (both, pieces): (_, [&[u32]; 2]) = ([&sequence, &fresh], [&[1], &[2]]);
        assert!(engine.step.call_sampled(pool, &bindings, &both, &pieces, &draws, &never()).is_err());
        assert_eq!((fresh.length().unwrap(), engine.pool.stats().used_states), (0, 1));
        assert_eq!(engine.pool.stats().used_blocks, before.used_blocks);
        goes_on(&engine, model, &sequence, &mut tokens, 5);
        goes_on(&engine, model, &fresh, &mut Vec::new(), 5);
    }
}

#[test]
fn a_cancelled_call_leaves_the_state() {
    let device = device();
    let engine = engine(&device, MIXED, 8, &request(4, 2));
    let mut tokens = text(10, 1);
    let (a, b) = (engine.pool.sequence(), engine.pool.sequence());
    engine.read(&a, &tokens).unwrap();
    engine.read(&b, &text(8, 2)).unwrap();
    let call = |cancel: &CancelToken, token: u32| {
        let tokens: [&[u32]; 2] = [&[token], &[token]];
        engine.step.call(&engine.pool, &engine.bindings(), &[&a, &b], &tokens, cancel)
    };
    let cancelled = CancelToken::new();
    cancelled.cancel();
    assert_eq!(call(&cancelled, 1).unwrap_err().kind, ErrorKind::Cancelled);
    // Also while it runs: by another thread, at any moment.
    for round in 0..12u32 {
        let cancel = CancelToken::new();
        let other = cancel.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 20));
            other.cancel();
        });
        match call(&cancel, round) {
            Ok(_) => tokens.push(round),
            Err(error) => assert_eq!(error.kind, ErrorKind::Cancelled),
        }
        thread.join().unwrap();
    }
    goes_on(&engine, MIXED, &a, &mut tokens, 30);
}

#[test]
fn a_sequence_gives_its_slots_back() {
    let device = device();
    for model in [DELTA, MIXED] {
        let engine = engine(&device, model, 8, &DecodeRequest { sequences: Some(2), ..request(4, 4) });
        let [a, b, c] = [(); 3].map(|()| engine.pool.sequence());
        let (mut first, second) = (text(7, 1), text(4, 2));
        engine.read(&a, &first).unwrap();
        engine.read(&b, &second).unwrap();
        let before = engine.pool.stats();
        assert_eq!((before.used_states, before.sequences), (2, 3));
        let error = engine.read(&c, &text(3, 3)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfMemory);
        let message = "it holds the running state of 2 sequences, 1 more are needed and 0 are free; finish a sequence, or give it more sequences";
        assert!(error.to_string().contains(message), "{error}");
        // Not even for one of those that have some, where another has none.
        assert!(engine.step(&[(&a, 1), (&c, 1)]).is_err());
        assert_eq!((c.length().unwrap(), engine.pool.stats()), (0, before));
        b.release().unwrap();
        assert_eq!(engine.pool.stats().used_states, 1);
        // It begins with nothing of what was there.
        goes_on(&engine, model, &c, &mut Vec::new(), 8);
        goes_on(&engine, model, &a, &mut first, 9);
        drop((a, c));
        let stats = engine.pool.stats();
        assert_eq!((stats.sequences, stats.used_states, stats.used_blocks), (0, 0, 0));
    }
}

#[test]
fn blocks_are_not_shared_where_state_is_kept() {
    let device = device();
    for model in [DELTA, MIXED] {
        let engine = engine(&device, model, 8, &request(4, 1));
        let tokens = text(13, 1);
        for _ in 0..2 {
            let sequence = engine.pool.sequence();
            assert_eq!(sequence.share(&tokens).unwrap(), 0);
            let logits = engine.read(&sequence, &tokens).unwrap();
            let expected = whole(&device, model, &engine.parameters, &tokens).pop().unwrap();
            assert!(distance(&logits, &expected) < 1e-5);
            // Nor is room kept that nobody could share.
            sequence.release().unwrap();
            assert_eq!(engine.pool.stats().kept_blocks, 0);
            engine.pool.forget();
        }
    }
}

#[test]
fn sequences_may_be_used_from_any_thread() {
    let device = device();
    let engine = engine(&device, MIXED, 8, &request(4, 1));
    let expected = whole(&device, MIXED, &engine.parameters, &text(20, 9));
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
    assert_eq!(engine.pool.stats().used_states, 0);
}

#[test]
fn a_pool_of_other_sizes_is_refused_by_the_size() {
    let device = device();
    let engine = engine(&device, MIXED, 8, &request(4, 2));
    let options = engine.pool.options().clone();
    let with = |change: &dyn Fn(&mut PoolOptions)| {
        let mut options = options.clone();
        change(&mut options);
        let pool = Pool::new(&device, options).unwrap();
        let sequence = pool.sequence();
        let call = engine.step.call(&pool, &engine.bindings(), &[&sequence], &[&[1]], &never());
        call.unwrap_err().to_string()
    };
    for (change, message) in [
        (
            (&|options: &mut PoolOptions| options.layers.truncate(1)) as &dyn Fn(&mut PoolOptions),
            "layers of the pool is 1, expected 2",
        ),
        (&|options| options.layers[1].heads = 3, "kv_heads of the pool is 3, expected 2"),
        (&|options| options.layers[0].head_dim = 8, "head_dim of the pool is 8, expected 6"),
        (&|options| options.states.deltas.truncate(1), "kda_layers of the pool is 1, expected 2"),
        (&|options| options.states.convs.truncate(3), "conv_layers of the pool is 3, expected 7"),
        (&|options| options.states.deltas[1].heads = 1, "kda_heads of the pool is 1, expected 2"),
        (&|options| options.states.deltas[0].head_dim = 5, "kda_head_dim of the pool is 5, expected 6"),
        (&|options| options.states.deltas[0].value_dim = 6, "kda_value_dim of the pool is 6, expected 5"),
        (&|options| options.states.convs[0].channels = 13, "conv_channels of the pool is 13, expected 12"),
        (&|options| options.states.convs[0].kernel = 9, "conv_kernel of the pool is 9, expected 4"),
        (&|options| options.block_size = 8, "block_size of the pool is 8, expected 4"),
        (&|options| options.max_tokens = 80, "max_tokens of the pool is 80, expected 160"),
        (&|options| options.kv_dtype = KvDtype::F16, "kv_dtype of the pool is f16, expected f32"),
        (&|options| options.sequences = 7, "sequences of the pool is 7, expected 40"),
        (
            &|options| (options.states, options.sequences) = (StateShapes::default(), 0),
            "kda_layers of the pool is 0, expected 2",
        ),
    ] {
        let error = with(change);
        assert!(error.contains(message), "{error}\n  does not say: {message}");
    }
}

#[test]
fn sizes_that_make_no_state_are_refused() {
    let device = device();
    let delta = DeltaShape { heads: 2, head_dim: 3, value_dim: 4 };
    let conv = ConvShape { channels: 2, kernel: 2 };
    let pool = |deltas: &[DeltaShape], convs: &[ConvShape], sequences| {
        let states = StateShapes { deltas: deltas.to_vec(), convs: convs.to_vec() };
        let options = PoolOptions::new(Vec::new(), 16, 4, KvDtype::Int8).with_states(states, sequences);
        Pool::new(&device, options)
    };
    assert_eq!(pool(&[delta], &[conv], None).unwrap().stats().bytes, 4 * 2 * 4 * (24 + 2));
    for (deltas, convs, sequences, message) in [
        (&[][..], &[][..], None, "pool: layers is 0, expected 1 to"),
        (&[delta], &[], Some(0), "pool: sequences is 0, expected 1 to"),
        (&[DeltaShape { heads: 0, ..delta }], &[], None, "kda_heads is 0"),
        (&[DeltaShape { value_dim: 0, ..delta }], &[], None, "kda_value_dim is 0"),
        (&[], &[ConvShape { channels: 0, ..conv }], None, "conv_channels is 0"),
        (&[], &[ConvShape { kernel: 1, ..conv }], None, "conv_kernel is 1, expected 2 to"),
    ] {
        let error = pool(deltas, convs, sequences).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let zero = DecodeRequest { sequences: Some(0), ..request(4, 1) };
    let error = trace(DELTA, 2).program(&device, &zero).unwrap_err().to_string();
    assert!(error.contains("decode: sequences is 0, expected 1 to"), "{error}");
    let wide = DecodeRequest { kv_dtype: KvDtype::F64, ..request(4, 1) };
    let error = trace(DELTA, 2).program(&device, &wide).unwrap_err().to_string();
    let message =
        "a cache of f64 does not fit the model: the state of short_conv1d is f32, and the cache keeps f64";
    assert!(error.contains(message), "{error}");
}

/// A trace of what `forward` gives of the rows `[1, length, 12]` of its ids, and of a learned matrix `[12, 12]`.
fn traced(length: usize, forward: impl FnOnce(&Value, &Value) -> Result<Vec<Value>>) -> Trace {
    let (tokens, table, matrix) =
        (leaf(DType::U32, &[1, length]), leaf(DType::F32, &[VOCAB, 12]), leaf(DType::F32, &[12, 12]));
    let roots = forward(&ops::embedding(&Lazy, &table, &tokens).unwrap(), &matrix).unwrap();
    Trace { roots, tokens, positions: Vec::new(), bindings: vec![table, matrix] }
}

/// The delta rule of one head of rows to themselves, whose factors are the same for all tokens.
fn rule(x: &Value, first: Option<&Value>) -> Result<Vec<Value>> {
    let b = &Lazy;
    let length = x.ty().shape[1];
    let heads = ops::unsqueeze(b, x, 2)?;
    let decay = ops::full(b, &[1, length, 1], -0.3, DType::F32)?;
    let beta = ops::full(b, &[1, length, 1], 0.5, DType::F32)?;
    ops::gated_delta_rule(b, &heads, &heads, &heads, &decay, &beta, first, Some(0.2), 64)
}

#[test]
fn a_recurrence_may_begin_with_a_learned_state_and_have_the_same_factors_for_all_tokens() {
    let device = device();
    let (table, matrix) = (&numbers(DELTA, 5)[0], &numbers(DELTA, 6)[1][..144]);
    let bindings = [
        EagerTensor::from_slice(&device, &[VOCAB, 12], &table.iter().map(|x| 0.3 * x).collect::<Vec<_>>()),
        EagerTensor::from_slice(&device, &[12, 12], matrix),
    ]
    .map(Result::unwrap);
    let bindings: Vec<&EagerTensor> = bindings.iter().collect();
    let trace = |length: usize| {
        traced(length, |x, matrix| {
            let state = ops::reshape(&Lazy, matrix, &[1, 1, 12, 12])?;
            let o = ops::squeeze(&Lazy, &rule(x, Some(&state))?[0], &[2])?;
            let before = ops::reshape(&Lazy, &ops::narrow(&Lazy, matrix, 0, 0, 3)?, &[1, 3, 12])?;
            let taps = ops::narrow(&Lazy, matrix, 1, 0, 4)?;
            let y = ops::short_conv1d(&Lazy, &o, &taps, Some(&before))?.swap_remove(0);
            Ok(vec![ops::add(&Lazy, x, &y)?])
        })
    };
    let request = DecodeRequest { last_token_row: false, ..request(4, 2) };
    let tokens = text(9, 1);
    // All at once, and in pieces of 4 and 1, each of two sequences.
    let whole = trace(9).program(&device, &request).unwrap();
    let pool = Pool::new(&device, whole.pool().clone()).unwrap();
    let all = whole.call(&pool, &bindings, &[&pool.sequence()], &[&tokens], &never()).unwrap();
    let all: Vec<f32> = all[0].to_vec().unwrap();
    let by_loops = {
        let (mut state, mut near) = (matrix.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>(), Vec::new());
        near.extend(
            matrix[..36].chunks(12).map(|row| row.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>()),
        );
        let mut found = Vec::new();
        for &token in &tokens {
            let x: Vec<f64> =
                table[token as usize * 12..][..12].iter().map(|&x| f64::from(0.3 * x)).collect();
            state.iter_mut().for_each(|s| *s *= (-0.3f64).exp());
            let read = |state: &[f64]| -> Vec<f64> {
                (0..12).map(|j| (0..12).map(|i| x[i] * state[i * 12 + j]).sum()).collect()
            };
            let known = read(&state);
            for i in 0..12 {
                (0..12).for_each(|j| state[i * 12 + j] += 0.5 * x[i] * (x[j] - known[j]));
            }
            near.push(read(&state).iter().map(|x| 0.2 * x).collect());
            let last = &near[near.len() - 4..];
            let y = |c: usize| (0..4).map(|tap| f64::from(matrix[c * 12 + tap]) * last[tap][c]).sum::<f64>();
            found.extend((0..12).map(|c| (x[c] + y(c)) as f32));
        }
        found
    };
    assert!(distance(&all, &by_loops) < 1e-5, "{}", distance(&all, &by_loops));
    for length in [4, 1] {
        let program = trace(length).program(&device, &request).unwrap();
        let sequences = [pool.sequence(), pool.sequence()];
        let mut at = 0;
        for piece in tokens.chunks(length) {
            let found = program
                .call(&pool, &bindings, &[&sequences[1], &sequences[0]], &[piece; 2], &never())
                .unwrap();
            let rows: Vec<f32> = found[0].to_vec().unwrap();
            for rows in rows.chunks(length * 12) {
                let count = piece.len() * 12;
                assert!(distance(&rows[..count], &all[at..at + count]) < 1e-5, "pieces of {length}, {at}");
            }
            at += piece.len() * 12;
        }
    }
}

#[test]
fn half_precision_decodes_near_the_whole_forward() {
    let device = device();
    for (dtype, kv_dtype, most) in [(DType::BF16, KvDtype::Bf16, 0.2), (DType::F16, KvDtype::Int8, 0.1)] {
        let half = |length: usize| {
            let mut trace = trace(MIXED, length);
            let halves: Vec<Value> =
                trace.bindings.iter().map(|x| ops::cast(&Lazy, x, dtype).unwrap()).collect();
            let (tokens, positions) = (&trace.tokens, &trace.positions[0]);
            trace.roots = vec![forward(MIXED, &Lazy, &halves, tokens, positions).unwrap()];
            trace
        };
        let request = DecodeRequest { kv_dtype, ..request(4, 1) };
        let program = half(5).program(&device, &request).unwrap();
        let pool = Pool::new(&device, program.pool().clone()).unwrap();
        let parameters = tensors(&device, MIXED, &numbers(MIXED, 3));
        let bindings: Vec<&EagerTensor> = parameters.iter().collect();
        let (sequence, tokens) = (pool.sequence(), text(14, 2));
        let mut logits = vec![];
        for piece in tokens.chunks(5) {
            let found = program.call(&pool, &bindings, &[&sequence], &[piece], &never()).unwrap();
            logits = found[0].to_f64_vec().unwrap().into_iter().map(|x| x as f32).collect();
        }
        let expected = whole(&device, MIXED, &parameters, &tokens).pop().unwrap();
        let off = distance(&logits, &expected);
        assert!(off < most, "{dtype} is off by {off}");
    }
}

#[test]
fn recurrences_that_cannot_be_kept_are_refused_by_name() {
    let refused = |length: usize, forward: &dyn Fn(&Value, &Value) -> Result<Vec<Value>>| {
        let trace = traced(length, forward);
        trace.program(&device(), &request(4, 2)).unwrap_err().to_string()
    };
    let assert_has = |message: String, part: &str| {
        assert!(message.contains(part), "{message}\n  does not say: {part}");
    };
    for length in [1, 6] {
        assert_has(
            refused(length, &|x, _| Ok(vec![ops::linear_scan(&Lazy, x, x, None, 1, false)?])),
            "linear_scan over tokens cannot be cached",
        );
        assert_has(
            refused(length, &|x, _| {
                let found = rule(x, None)?;
                let o = ops::squeeze(&Lazy, &found[0], &[2])?;
                Ok(vec![ops::add(&Lazy, &o, &ops::sum(&Lazy, &found[1], &[], false)?)?])
            }),
            "the last state of a cached gated_delta_rule is used",
        );
        assert_has(
            refused(length, &|x, taps| {
                let found = ops::short_conv1d(&Lazy, x, taps, None)?;
                Ok(vec![found[0].clone(), found[1].clone()])
            }),
            "the last state of a cached short_conv1d is used",
        );
        assert_has(
            refused(length, &|x, matrix| {
                let row = ops::sum(&Lazy, x, &[2], true)?;
                let state = ops::matmul(&Lazy, &ops::reshape(&Lazy, matrix, &[1, 12, 12])?, matrix)?;
                let state = ops::add(&Lazy, &state, &ops::narrow(&Lazy, &row, 1, 0, 1)?)?;
                Ok(vec![rule(x, Some(&ops::unsqueeze(&Lazy, &state, 1)?))?.swap_remove(0)])
            }),
            if length == 1 {
                "its first state f32[1, 1, 12, 12] comes from the tokens"
            } else {
                "slice takes"
            },
        );
        // Channels in the place of tokens.
        assert_has(
            refused(length, &|x, matrix| {
                let turned = ops::transpose(&Lazy, x, 1, 2)?;
                let taps = ops::narrow(&Lazy, matrix, 0, 0, length)?;
                let y = ops::short_conv1d(&Lazy, &turned, &taps, None)?.swap_remove(0);
                Ok(vec![ops::transpose(&Lazy, &y, 1, 2)?])
            }),
            "short_conv1d cannot be cached: an operand is f32[1, 12,",
        );
    }
    // Tokens as sequences of their own.
    assert_has(
        refused(6, &|x, taps| {
            let rows = ops::transpose(&Lazy, x, 0, 1)?;
            Ok(vec![ops::short_conv1d(&Lazy, &rows, taps, None)?.swap_remove(0)])
        }),
        "short_conv1d cannot be cached: an operand is f32[6, 1, 12], expected [1, 6, ..]",
    );
    // Factors that were fixed for each token when the graph was traced.
    assert_has(
        refused(6, &|x, matrix| {
            let heads = ops::unsqueeze(&Lazy, x, 2)?;
            let beta = ops::reshape(&Lazy, &ops::narrow(&Lazy, matrix, 0, 0, 6)?, &[1, 6, 12])?;
            let beta = ops::sum(&Lazy, &beta, &[2], true)?;
            let decay = ops::neg(&Lazy, &ops::square(&Lazy, &heads)?)?;
            let found = ops::gated_delta_rule(&Lazy, &heads, &heads, &heads, &decay, &beta, None, None, 64)?;
            Ok(vec![ops::squeeze(&Lazy, &found[0], &[2])?])
        }),
        "gated_delta_rule takes an operand f32[1, 6, 1] that differs from token to token",
    );
}
