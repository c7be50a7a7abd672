//! Inference with a cache in blocks, against forwards without a cache.

use lanthorn_cpu::CpuBackend;
use lanthorn_ir::philox::Philox;
use lanthorn_ir::{DType, ErrorKind, Result, ops};
use lanthorn_llm::{Inference, InferenceOptions, KvDtype, SequenceId};
use lanthorn_nn::layers::Rotation;
use lanthorn_nn::models::gpt::Head;
use lanthorn_nn::{
    CachedModel, Gpt, GptConfig, HostTensor, KeyValueCache, Llama, LlamaConfig, Mode, Model, Params,
};
use lanthorn_runtime::{CancelToken, Device, Eager, EagerTensor};

const VOCAB: u64 = 50;
const CONTEXT: usize = 64;

fn device() -> Device {
    Device::new(std::sync::Arc::new(CpuBackend))
}

fn gpt() -> Gpt {
    let config =
        GptConfig { context: CONTEXT, layers: 2, width: 32, heads: 4, ..GptConfig::small(VOCAB as usize) };
    Gpt::new(config).unwrap()
}

fn llama() -> Llama {
    llama_of(CONTEXT)
}

fn llama_of(context: usize) -> Llama {
    Llama::new(LlamaConfig {
        vocab: VOCAB as usize,
        context,
        layers: 2,
        width: 32,
        inner: 48,
        heads: 6,
        kv_heads: 2,
        head_dim: 10,
        rotation: Rotation { theta: 1000.0, scaling: None },
        head: Head::Untied,
        norm_eps: 1e-5,
        packed: Default::default(),
    })
    .unwrap()
}

/// Parameters far from their first values, so that logits differ widely.
fn params<M: Model>(device: &Device, model: &M, seed: u64) -> Params<EagerTensor> {
    lanthorn_nn::params::initial(&model.specs(), seed, DType::F32).unwrap().map(|name, first| {
        let words = Philox::new(seed, 0, Philox::stream_of(name));
        let moved = first.to_f64().unwrap().into_iter().zip(0..).map(|(x, i)| x + words.unit(i) - 0.5);
        HostTensor::from_f64(DType::F32, &first.ty().shape, moved).unwrap().to_device(device).unwrap()
    })
}

fn inference<M: CachedModel>(device: &Device, model: M, options: InferenceOptions) -> Inference<M> {
    let params = params(device, &model, 3);
    Inference::new(device, model, params, options).unwrap()
}

fn small(block_size: usize) -> InferenceOptions {
    InferenceOptions { block_size, prefill_chunk: 16, max_batch: 4, ..InferenceOptions::new(256) }
}

fn text(length: usize, seed: u64) -> Vec<u32> {
    let words = Philox::new(seed, 0, 0);
    (0..length as u64).map(|i| words.below(i, VOCAB) as u32).collect()
}

fn tensor(device: &Device, shape: &[usize], numbers: impl Iterator<Item = usize>) -> EagerTensor {
    let numbers: Vec<i32> = numbers.map(|x| x as i32).collect();
    EagerTensor::from_slice(device, shape, &numbers).unwrap()
}

/// Logits after the last of `tokens`, by a whole forward.
fn whole<M: Model>(device: &Device, model: &M, params: &Params<EagerTensor>, tokens: &[u32]) -> Vec<f32> {
    let eager = Eager::new(device);
    let ids = tensor(device, &[1, tokens.len()], tokens.iter().map(|&token| token as usize));
    let (logits, _) = model.forward(&eager, params, &Params::new(), &ids, &Mode::Eval).unwrap();
    ops::select(&eager, &logits, 1, -1).unwrap().to_vec().unwrap()
}

/// No cache at all, but a window.
struct Window(usize);

impl KeyValueCache<Eager> for Window {
    fn attend(
        &mut self,
        b: &Eager,
        _: usize,
        q: &EagerTensor,
        k: &EagerTensor,
        v: &EagerTensor,
    ) -> Result<EagerTensor> {
        let [q, k, v] = [q, k, v].map(|x| ops::transpose(b, x, 1, 2).unwrap());
        let left = Some(self.0 as isize - 1);
        let none = (None, None, None);
        let out = ops::scaled_dot_product_attention(
            b, &q, &k, &v, true, None, None, None, 0.0, None, left, None, None, none.0, none.1, none.2, 0,
        )?;
        ops::transpose(b, &out, 1, 2)
    }
}

/// As [`whole`], under a window.
fn windowed<M: CachedModel>(
    device: &Device,
    model: &M,
    params: &Params<EagerTensor>,
    tokens: &[u32],
    window: usize,
) -> Vec<f32> {
    let n = tokens.len();
    let ids = tensor(device, &[1, n], tokens.iter().map(|&token| token as usize));
    let (positions, last) = (tensor(device, &[1, n], 0..n), tensor(device, &[1], n - 1..n));
    let eager = Eager::new(device);
    let logits = model.decode(&eager, params, &ids, &positions, &last, &mut Window(window)).unwrap();
    logits.to_vec().unwrap()
}

fn best(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).max_by(|&x, &y| logits[x].total_cmp(&logits[y])).unwrap();
    best as u32
}

/// The largest difference, relative to the largest logit.
fn distance(x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len());
    let scale = y.iter().fold(1e-30, |most: f32, y| most.max(y.abs()));
    x.iter().zip(y).fold(0.0, |most: f32, (x, y)| most.max((x - y).abs())) / scale
}

fn never() -> CancelToken {
    CancelToken::never()
}

fn generation_is_that_of_whole_forwards<M: CachedModel + Clone>(model: &M) {
    let device = device();
    let weights = params(&device, model, 3);
    let mut distinct = std::collections::BTreeSet::new();
    for (block_size, length) in [(1, 1), (1, 20), (3, 7), (3, 17), (16, 1), (16, 16), (16, 40)] {
        let mut inference = inference(&device, model.clone(), small(block_size));
        let mut tokens = text(length, 1);
        let (sequence, mut logits) = inference.add(&tokens, &never()).unwrap();
        for step in 0..16 {
            let expected = whole(&device, model, &weights, &tokens);
            assert_eq!(best(&logits), best(&expected), "blocks of {block_size}, {length} and {step} tokens");
            assert!(distance(&logits, &expected) < 1e-5, "{}", distance(&logits, &expected));
            let token = best(&logits);
            tokens.push(token);
            logits = inference.step(&[(sequence, token)], &never()).unwrap().remove(0);
        }
        distinct.extend(tokens.split_off(length));
        assert_eq!(inference.length(sequence).unwrap(), length + 16);
    }
    assert!(distinct.len() > 8, "texts of {} tokens prove little", distinct.len());
}

#[test]
fn generation_is_that_of_whole_forwards_of_gpt() {
    generation_is_that_of_whole_forwards(&gpt());
}

#[test]
fn generation_is_that_of_whole_forwards_of_llama() {
    generation_is_that_of_whole_forwards(&llama());
}

#[test]
fn a_ragged_batch_is_each_sequence_alone() {
    let device = device();
    let model = llama();
    let lengths = [1, 30, 5, 17, 16, 2];
    let mut together = inference(&device, model.clone(), small(4));
    let mut alone: Vec<_> = lengths.iter().map(|_| inference(&device, model.clone(), small(4))).collect();
    let prompt = |at: usize| text(lengths[at], at as u64);
    let ids: Vec<SequenceId> =
        (0..lengths.len()).map(|at| together.add(&prompt(at), &never()).unwrap().0).collect();
    let alone_ids: Vec<SequenceId> =
        alone.iter_mut().enumerate().map(|(at, alone)| alone.add(&prompt(at), &never()).unwrap().0).collect();
    // Some sequences at a time, in any order; six of them are two calls.
    for (step, of) in [vec![0, 1, 2], vec![5], vec![3, 1], vec![5, 4, 3, 2, 1, 0], vec![2, 0, 4, 5, 1, 3]]
        .into_iter()
        .enumerate()
    {
        let token = |at: usize| (7 * at + step) as u32;
        let entries: Vec<_> = of.iter().map(|&at| (ids[at], token(at))).collect();
        let found = together.step(&entries, &never()).unwrap();
        assert_eq!(found.len(), of.len());
        for (&at, found) in of.iter().zip(&found) {
            let expected = alone[at].step(&[(alone_ids[at], token(at))], &never()).unwrap().remove(0);
            assert!(distance(found, &expected) < 1e-5, "sequence {at} in step {step}");
        }
    }
    assert!(together.step(&[], &never()).unwrap().is_empty());
    // Programs for batches of 1, 2 and 4, and for pieces of 1 and 16.
    assert_eq!(device.stats().compiles, 4);
}

#[test]
fn prompts_share_the_blocks_that_they_begin_with() {
    let device = device();
    let model = llama();
    let mut shared = inference(&device, model.clone(), small(8));
    let fresh = |prompt: &[u32]| {
        let mut fresh = inference(&device, model.clone(), small(8));
        fresh.add(prompt, &never()).unwrap().1
    };
    let first = text(30, 1);
    let (a, _) = shared.add(&first, &never()).unwrap();
    assert_eq!(shared.stats().reused_tokens, 0);
    assert_eq!((shared.stats().used_blocks, shared.stats().computed_tokens), (4, 30));

    // Two whole blocks, and the third differs in its last token.
    let mut second = first[..24].to_vec();
    second[23] ^= 1;
    second.extend(text(9, 2));
    let (b, logits) = shared.add(&second, &never()).unwrap();
    assert!(distance(&logits, &fresh(&second)) < 1e-5);
    let stats = shared.stats();
    assert_eq!((stats.reused_tokens, stats.used_blocks, stats.computed_tokens), (16, 7, 30 + 17));

    // What both go on with is their own.
    let (mut both, mut texts) = ([vec![], vec![]], [first.clone(), second.clone()]);
    for token in [4, 8, 15] {
        both = shared.step(&[(a, token), (b, token + 1)], &never()).unwrap().try_into().unwrap();
        texts[0].push(token);
        texts[1].push(token + 1);
    }
    for (logits, tokens) in both.iter().zip(&texts) {
        assert!(distance(logits, &fresh(tokens)) < 1e-5);
    }

    // Blocks of finished sequences, generated ones included: 32 of the 33 tokens, but never the last.
    shared.finish(a).unwrap();
    shared.finish(b).unwrap();
    assert_eq!((shared.stats().used_blocks, shared.stats().kept_blocks), (0, 6));
    let (c, logits) = shared.add(&texts[0], &never()).unwrap();
    assert!(distance(&logits, &fresh(&texts[0])) < 1e-5);
    assert_eq!(shared.stats().reused_tokens, 16 + 32);
    let (_, again) = shared.add(&texts[0][..32], &never()).unwrap();
    assert_eq!(shared.stats().reused_tokens, 16 + 32 + 24, "the last token is computed");
    assert!(distance(&again, &fresh(&texts[0][..32])) < 1e-5);

    // Other weights: what is there is of no use, and what goes on under them neither.
    let weights = params(&device, &model, 4);
    shared.set_params(weights.clone()).unwrap();
    for token in 0..8 {
        shared.step(&[(c, token)], &never()).unwrap();
    }
    let (_, logits) = shared.add(&first, &never()).unwrap();
    assert_eq!(shared.stats().reused_tokens, 16 + 32 + 24);
    assert!(distance(&logits, &whole(&device, &model, &weights, &first)) < 1e-5);
    shared.add(&first, &never()).unwrap();
    assert_eq!(shared.stats().reused_tokens, 16 + 32 + 24 + 24, "under these weights it is");
}

#[test]
fn parameters_that_are_written_in_place_are_other_weights() {
    let device = device();
    let model = gpt();
    let weights = params(&device, &model, 3);
    let mut inference = Inference::new(&device, model.clone(), weights.clone(), small(8)).unwrap();
    let prompt = text(20, 1);
    inference.add(&prompt, &never()).unwrap();
    inference.add(&prompt, &never()).unwrap();
    assert_eq!(inference.stats().reused_tokens, 16);
    // As a trainer leaves them: the same tensors, with other contents.
    let other = params(&device, &model, 4);
    for (old, new) in weights.values().zip(other.values()) {
        old.storage().swap(new.storage()).unwrap();
    }
    let (_, logits) = inference.add(&prompt, &never()).unwrap();
    assert_eq!(inference.stats().reused_tokens, 16);
    assert!(distance(&logits, &whole(&device, &model, &weights, &prompt)) < 1e-5);
}

#[test]
fn under_a_window_tokens_see_so_many_and_memory_is_bounded() {
    let device = device();
    let model = llama();
    // Nothing but a check of lengths depends on the context.
    let reference = llama_of(2 * CONTEXT);
    let weights = params(&device, &model, 3);
    for (block_size, window) in [(1, 1), (4, 6), (4, 9), (16, 40)] {
        let options = InferenceOptions {
            window: Some(window),
            // Room for one sequence, and not for its tokens.
            max_tokens: (window + 16 + 2 * block_size).next_multiple_of(block_size),
            ..small(block_size)
        };
        let mut inference = inference(&device, model.clone(), options);
        let mut tokens = text(37, 1);
        let (sequence, mut logits) = inference.add(&tokens, &never()).unwrap();
        // Past the context of 64 too.
        for step in 0..60 {
            if step % 7 < 2 {
                let expected = windowed(&device, &reference, &weights, &tokens, window);
                let off = distance(&logits, &expected);
                assert!(off < 1e-5, "blocks of {block_size}, a window of {window}, step {step}: {off}");
            }
            let token = best(&logits);
            tokens.push(token);
            logits = inference.step(&[(sequence, token)], &never()).unwrap().remove(0);
            let held = inference.stats().used_blocks * block_size;
            assert!(held < window + 2 * block_size, "{held} tokens are held");
        }
        assert_eq!(inference.length(sequence).unwrap(), 97);
    }
}

#[test]
fn a_window_changes_what_is_seen_and_shares_prefixes() {
    let device = device();
    let model = gpt();
    let weights = params(&device, &model, 3);
    let options = InferenceOptions { window: Some(10), ..small(4) };
    let mut inference = inference(&device, model.clone(), options);
    let prompt = text(50, 1);
    let (first, logits) = inference.add(&prompt, &never()).unwrap();
    assert!(distance(&logits, &windowed(&device, &model, &weights, &prompt, 10)) < 1e-5);
    assert!(distance(&logits, &whole(&device, &model, &weights, &prompt)) > 1e-2);
    let (_, again) = inference.add(&prompt, &never()).unwrap();
    assert!(distance(&again, &logits) < 1e-5);
    assert_eq!(inference.stats().reused_tokens, 48);
    // Learned positions end with the context, whatever the window.
    for token in 0..14 {
        inference.step(&[(first, token)], &never()).unwrap();
    }
    let error = inference.step(&[(first, 1)], &never()).unwrap_err();
    assert_eq!(error.to_string(), "inference: sequence 0 has 64 tokens, which is all that fit");
}

#[test]
fn narrow_keys_and_values_stay_near() {
    let device = device();
    let model = llama();
    let weights = params(&device, &model, 3);
    let prompt = text(40, 1);
    let expected = whole(&device, &model, &weights, &prompt);
    let wide = inference(&device, model.clone(), small(8)).stats().bytes;
    // bf16 keeps 8 bits of an element, f16 11, int8 7 of the largest of a head.
    for (kv_dtype, least, most, bytes) in [
        (KvDtype::F32, 0.0, 1e-5, wide),
        (KvDtype::F16, 1e-6, 4e-3, wide / 2),
        (KvDtype::Bf16, 1e-4, 2e-2, wide / 2),
        // Ten bytes and a factor of four for each head.
        (KvDtype::Int8, 1e-4, 3e-2, wide / 40 * 14),
    ] {
        let options = InferenceOptions { kv_dtype: Some(kv_dtype), ..small(8) };
        let mut inference = inference(&device, model.clone(), options);
        assert_eq!(inference.stats().bytes, bytes, "{kv_dtype:?}");
        let (sequence, _) = inference.add(&prompt[..30], &never()).unwrap();
        let mut logits = vec![];
        for &token in &prompt[30..] {
            logits = inference.step(&[(sequence, token)], &never()).unwrap().remove(0);
        }
        let off = distance(&logits, &expected);
        assert!((least..most).contains(&off), "{kv_dtype:?} is off by {off}");
    }
}

#[test]
fn a_full_pool_is_an_error_that_changes_nothing() {
    let device = device();
    let model = gpt();
    let options = InferenceOptions { max_tokens: 40, ..small(8) };
    let mut inference = inference(&device, model.clone(), options);
    let (a, _) = inference.add(&text(24, 1), &never()).unwrap();
    let (b, _) = inference.add(&text(15, 2), &never()).unwrap();
    let before = inference.stats();
    assert_eq!((before.used_blocks, before.blocks), (5, 5));
    let error = inference.add(&text(3, 3), &never()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    let message = error.to_string();
    assert!(message.contains("1 more of its 5 blocks of 8 tokens are needed and 0 are free"), "{message}");
    // One of both sequences is at the end of a block.
    inference.step(&[(b, 5)], &never()).unwrap();
    let error = inference.step(&[(a, 5), (b, 6)], &never()).unwrap_err();
    assert!(error.message.contains("2 more of its 5 blocks"), "{error}");
    assert_eq!((inference.length(a).unwrap(), inference.length(b).unwrap()), (24, 16));
    inference.finish(b).unwrap();
    let logits = inference.step(&[(a, 5)], &never()).unwrap().remove(0);
    let tokens = [text(24, 1), vec![5]].concat();
    let weights = params(&device, &model, 3);
    assert!(distance(&logits, &whole(&device, &model, &weights, &tokens)) < 1e-5);
    // A prompt that does not fit leaves no sequence.
    let error = inference.add(&text(30, 4), &never()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    assert_eq!((inference.stats().sequences, inference.stats().used_blocks), (1, 4));
}

#[test]
fn a_cancelled_call_changes_nothing() {
    let device = device();
    let model = llama();
    let mut inference = inference(&device, model.clone(), small(4));
    let prompt = text(10, 1);
    let (a, _) = inference.add(&prompt, &never()).unwrap();
    let (b, _) = inference.add(&text(8, 2), &never()).unwrap();
    let before = inference.stats();
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let error = inference.add(&text(20, 3), &cancelled).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    let error = inference.step(&[(a, 1), (b, 2)], &cancelled).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert_eq!(inference.stats(), before);
    // Also while it runs: by another thread, at any moment.
    let mut tokens = prompt.clone();
    for round in 0..12u32 {
        let cancel = CancelToken::new();
        let other = cancel.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 20));
            other.cancel();
        });
        let length = inference.length(a).unwrap();
        match inference.step(&[(a, round), (b, round)], &cancel) {
            Ok(_) => tokens.push(round),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Cancelled);
                assert_eq!(inference.length(a).unwrap(), length);
            }
        }
        thread.join().unwrap();
    }
    let logits = inference.step(&[(a, 40)], &never()).unwrap().remove(0);
    tokens.push(40);
    let weights = params(&device, &model, 3);
    assert!(distance(&logits, &whole(&device, &model, &weights, &tokens)) < 1e-5);
}

#[test]
fn what_cannot_be_inferred_is_refused() {
    let device = device();
    let mut inference = inference(&device, gpt(), small(8));
    let (a, _) = inference.add(&[1], &never()).unwrap();
    let (b, _) = inference.add(&[2], &never()).unwrap();
    let mut fault = |prompt: &[u32]| inference.add(prompt, &never()).unwrap_err().to_string();
    assert_eq!(fault(&[]), "inference: the prompt is empty, expected at least one token");
    assert_eq!(fault(&[3, 50]), "inference: there is a token 50, the model knows those below 50");
    assert_eq!(fault(&text(65, 1)), "inference: the prompt has 65 tokens, expected at most 64");
    let mut fault = |tokens: &[_]| inference.step(tokens, &never()).unwrap_err().to_string();
    assert_eq!(fault(&[(a, 1), (b, 1), (a, 2)]), "inference: sequence 0 is named twice in one step");
    assert_eq!(fault(&[(a, 99)]), "inference: there is a token 99, the model knows those below 50");
    inference.finish(b).unwrap();
    let message = "inference: there is no sequence 1, or it has been finished";
    assert_eq!(inference.finish(b).unwrap_err().to_string(), message);
    assert_eq!(inference.step(&[(a, 1), (b, 1)], &never()).unwrap_err().to_string(), message);
    assert_eq!(inference.length(a).unwrap(), 1);

    for (options, message) in [
        (InferenceOptions { max_tokens: 0, ..small(8) }, "max_tokens is 0, expected 1 to 536870911"),
        (small(0), "block_size is 0, expected 1 to 536870911"),
        (InferenceOptions { prefill_chunk: 0, ..small(8) }, "prefill_chunk is 0, expected 1 to 536870911"),
        (InferenceOptions { window: Some(0), ..small(8) }, "window is 0, expected 1 to 64"),
        (InferenceOptions { window: Some(65), ..small(8) }, "window is 65, expected 1 to 64"),
        (InferenceOptions { max_batch: 0, ..small(8) }, "max_batch is 0, expected 1 to 536870911"),
    ] {
        let error = Inference::new(&device, gpt(), params(&device, &gpt(), 3), options).unwrap_err();
        assert_eq!(error.to_string(), format!("inference: {message}"));
    }
}
