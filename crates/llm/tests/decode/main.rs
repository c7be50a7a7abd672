//! Programs of traced forwards over a paged cache, against the forwards without a cache.

mod errors;
mod hybrid;
mod models;
mod packed;
mod recurrent;
mod state;

use lanthorn_ir::{DType, Lazy, Value, ops};
use lanthorn_llm::{DecodeRequest, Draw, KvDtype, Pool, Sequence};
use lanthorn_runtime::EagerTensor;

use models::*;

/// Reads a prompt in pieces, and goes on token by token.
fn is_the_whole_forward(model: Model, trace: fn(Model, usize) -> Trace) {
    let device = device();
    let mut distinct = std::collections::BTreeSet::new();
    for (block_size, chunk, length) in [(1, 4, 9), (3, 7, 7), (4, 16, 1), (16, 5, 23)] {
        let mut engine = Engine::new(&device, model, chunk, &request(block_size, 1));
        engine.prefill = trace(model, chunk).program(&device, &request(block_size, 1)).unwrap();
        let mut tokens = text(length, block_size as u64);
        let sequence = engine.pool.sequence();
        let mut logits = engine.read(&sequence, &tokens).unwrap();
        for step in 0..12 {
            let expected = whole(&device, model, &engine.parameters, &tokens).pop().unwrap();
            let off = distance(&logits, &expected);
            assert_eq!(best(&logits), best(&expected), "blocks of {block_size}, {} tokens", tokens.len());
            assert!(off < 1e-5, "blocks of {block_size}, {} tokens: {off}", tokens.len());
            // Not always the best one: a tied head repeats itself.
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
fn learned_positions_decode_as_the_whole_forward() {
    is_the_whole_forward(GPT, Trace::model);
}

#[test]
fn rotations_and_grouped_heads_decode_as_the_whole_forward() {
    is_the_whole_forward(LLAMA, Trace::model);
}

#[test]
fn what_a_checkpoint_holds_is_cached_too() {
    is_the_whole_forward(LLAMA, Trace::checkpointed);
}

#[test]
fn all_rows_of_a_piece_are_given_where_the_last_is_not_asked_for() {
    let device = device();
    for model in [GPT, LLAMA] {
        let request = DecodeRequest { last_token_row: false, ..request(4, 2) };
        let program = Trace::model(model, 6).program(&device, &request).unwrap();
        assert_eq!(program.results()[0].to_string(), format!("f32[2, 6, {VOCAB}]"));
        let pool = Pool::new(&device, program.pool().clone()).unwrap();
        let parameters = model.parameters(&device, 3);
        let bindings: Vec<&EagerTensor> = parameters.iter().collect();
        let (a, b) = (pool.sequence(), pool.sequence());
        let texts = [text(9, 1), text(11, 2)];
        let mut at = [0, 0];
        for counts in [[4, 6], [5, 5]] {
            let pieces = [0, 1].map(|s| &texts[s][at[s]..at[s] + counts[s]]);
            let found = program.call(&pool, &bindings, &[&a, &b], &pieces, &never()).unwrap();
            let rows: Vec<f32> = found[0].to_vec().unwrap();
            for s in [0, 1] {
                let expected = whole(&device, model, &parameters, &texts[s]);
                for row in 0..counts[s] {
                    let start = (s * 6 + row) * VOCAB;
                    let off = distance(&rows[start..start + VOCAB], &expected[at[s] + row]);
                    assert!(off < 1e-5, "{model:?}, sequence {s}, row {row}: {off}");
                }
                at[s] += counts[s];
            }
        }
        assert_eq!((a.length().unwrap(), b.length().unwrap()), (9, 11));
    }
}

#[test]
fn the_map_to_the_logits_sees_the_last_row_alone() {
    let device = device();
    for model in [GPT, LLAMA] {
        let flops = |last_token_row| {
            let request = DecodeRequest { last_token_row, ..request(4, 3) };
            let program = Trace::model(model, 16).program(&device, &request).unwrap();
            program.executable().kernels().iter().map(|kernel| kernel.flops).sum::<u64>()
        };
        // Two operations for each weight of the head, and for each row but one of three sequences.
        let head = 2 * VOCAB as u64 * 24 * 15 * 3;
        let saved = flops(false) - flops(true);
        assert!(saved >= head, "{model:?}: {saved} of {head}");
    }
}

#[test]
fn a_ragged_batch_is_each_sequence_alone() {
    let device = device();
    for model in [GPT, LLAMA] {
        let engine = Engine::new(&device, model, 8, &request(4, 4));
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
                let expected = whole(&device, model, &engine.parameters, &texts[s]).pop().unwrap();
                assert!(distance(logits, &expected) < 1e-5, "{model:?}, sequence {s} in step {step}");
            }
        }
        // Also as pieces of different lengths in one call.
        let wide = Trace::model(model, 8).program(&device, &request(4, 4)).unwrap();
        let pieces = [text(3, 20), text(8, 21), text(1, 22)];
        let found = wide
            .call(
                &engine.pool,
                &engine.bindings(),
                &[&sequences[3], &sequences[0], &sequences[2]],
                &[&pieces[0], &pieces[1], &pieces[2]],
                &never(),
            )
            .unwrap();
        assert_eq!(found[0].shape(), [3, VOCAB]);
        let rows: Vec<f32> = found[0].to_vec().unwrap();
        for ((s, piece), logits) in [3, 0, 2].into_iter().zip(&pieces).zip(rows.chunks(VOCAB)) {
            texts[s].extend(piece);
            let expected = whole(&device, model, &engine.parameters, &texts[s]).pop().unwrap();
            assert!(distance(logits, &expected) < 1e-5, "{model:?}, sequence {s}");
        }
    }
}

#[test]
fn under_a_window_a_sequence_goes_on_in_bounded_memory() {
    let device = device();
    for (block_size, window) in [(1, 1), (4, 6), (4, 9)] {
        let request = DecodeRequest {
            window: Some(window),
            // Room for one sequence, and not for its tokens.
            max_tokens: (window + 8 + 2 * block_size).next_multiple_of(block_size),
            ..request(block_size, 1)
        };
        let engine = Engine::new(&device, LLAMA, 8, &request);
        assert_eq!(engine.step.longest(), None);
        let reference = Model { windows: [Some(window as isize); 2], ..LLAMA };
        let mut tokens = text(21, 1);
        let sequence = engine.pool.sequence();
        let mut logits = engine.read(&sequence, &tokens).unwrap();
        // Beyond the tokens of the pool and those of the table of positions, which this model does not read.
        for step in 0..40 {
            if step % 7 < 2 {
                let expected = whole(&device, reference, &engine.parameters, &tokens).pop().unwrap();
                let off = distance(&logits, &expected);
                assert!(off < 1e-5, "blocks of {block_size}, a window of {window}, step {step}: {off}");
            }
            let token = best(&logits);
            tokens.push(token);
            logits = engine.step(&[(&sequence, token)]).unwrap().remove(0);
            let held = engine.pool.stats().used_blocks * block_size;
            assert!(held < window + 2 * block_size, "{held} tokens are held");
        }
        assert_eq!(sequence.length().unwrap(), 61);
    }
}

#[test]
fn the_narrower_window_counts() {
    let device = device();
    for (own, asked, windows) in [
        ([Some(5), None], None, [Some(5), None]),
        ([Some(5), None], Some(9), [Some(5), Some(9)]),
        ([Some(12), Some(3)], Some(7), [Some(7), Some(3)]),
        ([Some(6), Some(3)], None, [Some(6), Some(3)]),
    ] {
        let model = Model { windows: own, ..LLAMA };
        let request = DecodeRequest { window: asked, ..request(2, 1) };
        let engine = Engine::new(&device, model, 8, &request);
        let tokens = text(30, 4);
        let sequence = engine.pool.sequence();
        let logits = engine.read(&sequence, &tokens).unwrap();
        let reference = Model { windows, ..LLAMA };
        let expected = whole(&device, reference, &engine.parameters, &tokens).pop().unwrap();
        assert!(distance(&logits, &expected) < 1e-5, "{own:?} under {asked:?}");
        // Blocks are dropped once no layer shows them.
        let bounded = windows.iter().all(Option::is_some);
        assert_eq!(engine.pool.stats().used_blocks < 8, bounded, "{own:?} under {asked:?}");
    }
}

#[test]
fn narrow_keys_and_values_stay_near() {
    let device = device();
    let tokens = text(24, 1);
    let wide = Engine::new(&device, LLAMA, 8, &request(8, 1)).pool.stats().bytes;
    // bf16 keeps 8 bits of an element, f16 11, int8 7 of the largest of a head of 8 and a factor of four bytes.
    for (kv_dtype, least, most, bytes) in [
        (KvDtype::F16, 1e-6, 6e-3, wide / 2),
        (KvDtype::Bf16, 1e-4, 4e-2, wide / 2),
        (KvDtype::Int8, 1e-4, 5e-2, wide / 32 * 12),
    ] {
        let engine = Engine::new(&device, LLAMA, 8, &DecodeRequest { kv_dtype, ..request(8, 1) });
        assert_eq!(engine.pool.stats().bytes, bytes, "{kv_dtype}");
        let sequence = engine.pool.sequence();
        engine.read(&sequence, &tokens[..15]).unwrap();
        let mut logits = vec![];
        for &token in &tokens[15..] {
            logits = engine.step(&[(&sequence, token)]).unwrap().remove(0);
        }
        let expected = whole(&device, LLAMA, &engine.parameters, &tokens).pop().unwrap();
        let off = distance(&logits, &expected);
        assert!((least..most).contains(&off), "{kv_dtype} is off by {off}");
    }
}

/// The forward of `LLAMA` in half precision: parameters are cast when they are used.
fn half_precision(length: usize, dtype: DType) -> Trace {
    Trace::of(LLAMA, length, |parameters, ids, positions| {
        let halves = parameters.iter().map(|x| ops::cast(&Lazy, x, dtype));
        let halves = halves.collect::<lanthorn_ir::Result<Vec<Value>>>()?;
        Ok(vec![LLAMA.forward(&Lazy, &halves, ids, positions)?])
    })
}

#[test]
fn half_precision_decodes_near_the_whole_forward() {
    let device = device();
    for (dtype, kv_dtype, most) in [(DType::BF16, KvDtype::Bf16, 0.2), (DType::F16, KvDtype::Int8, 0.1)] {
        let request = DecodeRequest { kv_dtype, ..request(4, 1) };
        let program = half_precision(5, dtype).program(&device, &request).unwrap();
        assert_eq!(program.results()[0].dtype, dtype);
        let pool = Pool::new(&device, program.pool().clone()).unwrap();
        let parameters = LLAMA.parameters(&device, 3);
        let bindings: Vec<&EagerTensor> = parameters.iter().collect();
        let (sequence, tokens) = (pool.sequence(), text(14, 2));
        let mut logits = vec![];
        for piece in tokens.chunks(5) {
            let found = program.call(&pool, &bindings, &[&sequence], &[piece], &never()).unwrap();
            logits = found[0].to_f64_vec().unwrap().into_iter().map(|x| x as f32).collect();
        }
        let expected = whole(&device, LLAMA, &parameters, &tokens).pop().unwrap();
        let off = distance(&logits, &expected);
        assert!(off < most, "{dtype} is off by {off}");
    }
}

#[test]
fn tokens_are_drawn_of_the_last_row() {
    let device = device();
    let parameters = GPT.parameters(&device, 3);
    let bindings: Vec<&EagerTensor> = parameters.iter().collect();
    let texts = [text(3, 1), text(6, 2)];
    let pieces: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    for last_token_row in [true, false] {
        let request = DecodeRequest { last_token_row, ..request(4, 3) };
        let program = Trace::model(GPT, 6).program(&device, &request).unwrap();
        let run = |draws: &[Draw]| {
            let pool = Pool::new(&device, program.pool().clone()).unwrap();
            let (a, b) = (pool.sequence(), pool.sequence());
            let drawn = program.call_sampled(&pool, &bindings, &[&a, &b], &pieces, draws, &never()).unwrap();
            assert_eq!((a.length().unwrap(), b.length().unwrap()), (3, 6));
            drawn
        };
        let last = |s: usize| whole(&device, GPT, &parameters, &texts[s]).pop().unwrap();
        let greedy = Draw { temperature: 0.0, ..Draw::default() };
        assert_eq!(run(&[greedy; 2]), [best(&last(0)), best(&last(1))]);
        let draws =
            [Draw { seed: 5, counter: 1, ..Draw::default() }, Draw { top_k: 3, seed: 6, ..Draw::default() }];
        let expected = [0, 1].map(|s| draws[s].token(&last(s)).unwrap());
        assert_eq!(run(&draws), expected);
        assert_eq!(run(&draws), expected, "the same draws give the same tokens");
    }
}
