//! Generation on a device, against forwards without a cache.

use lanthorn_cpu::CpuBackend;
use lanthorn_ir::philox::Philox;
use lanthorn_ir::{DType, ErrorKind, ops};
use lanthorn_llm::{Finish, Generation, GenerationOptions, Generator, Sampling};
use lanthorn_nn::{
    Gpt, GptConfig, HostTensor, Mode, Model, Optimizer, Params, Schedule, Trainer, TrainerConfig,
    WindowSampler,
};
use lanthorn_runtime::{CancelToken, Device, Eager, EagerTensor};

const CONTEXT: usize = 24;

fn device() -> Device {
    Device::new(std::sync::Arc::new(CpuBackend))
}

fn model() -> Gpt {
    let config = GptConfig { context: CONTEXT, layers: 2, width: 32, heads: 4, ..GptConfig::small(50) };
    Gpt::new(config).unwrap()
}

/// Parameters far from their first values, so that logits differ widely.
fn params(device: &Device, model: &Gpt) -> Params<EagerTensor> {
    lanthorn_nn::params::initial(&model.specs(), 3, DType::F32).unwrap().map(|name, first| {
        let words = Philox::new(9, 0, Philox::stream_of(name));
        let moved = first.to_f64().unwrap().into_iter().zip(0..).map(|(x, i)| x + words.unit(i) - 0.5);
        HostTensor::from_f64(DType::F32, &first.ty().shape, moved).unwrap().to_device(device).unwrap()
    })
}

fn generator(device: &Device) -> Generator<Gpt> {
    Generator::new(device, model(), params(device, &model())).unwrap()
}

fn options(max_tokens: usize, sampling: Sampling) -> GenerationOptions {
    GenerationOptions { max_tokens, sampling, stop: vec![] }
}

fn prompt(length: usize) -> Vec<u32> {
    let words = Philox::new(1, 0, 0);
    (0..length as u64).map(|i| words.below(i, 50) as u32).collect()
}

fn all(generation: Generation<'_, Gpt>) -> Vec<u32> {
    generation.map(Result::unwrap).collect()
}

/// Greedy tokens by whole forwards, with the documented rule for a full context.
fn without_cache(device: &Device, prompt: &[u32], count: usize) -> Vec<u32> {
    let (eager, model) = (Eager::new(device), model());
    let params = params(device, &model);
    let (mut tokens, mut base) = (prompt.to_vec(), 0);
    for _ in 0..count {
        if tokens.len() - base > CONTEXT {
            base = tokens.len() - CONTEXT / 2;
        }
        let ids: Vec<i32> = tokens[base..].iter().map(|&token| token as i32).collect();
        let ids = EagerTensor::from_slice(device, &[1, ids.len()], &ids).unwrap();
        let (logits, _) = model.forward(&eager, &params, &Params::new(), &ids, &Mode::Eval).unwrap();
        let best =
            ops::argmax(&eager, &ops::select(&eager, &logits, 1, -1).unwrap(), Some(-1), false).unwrap();
        tokens.push(best.to_vec::<i64>().unwrap()[0] as u32);
    }
    tokens.split_off(prompt.len())
}

#[test]
fn greedy_decoding_gives_the_tokens_of_whole_forwards() {
    let device = device();
    let generator = generator(&device);
    for length in [1, 2, 11, 16, 17, 23, 24] {
        let prompt = prompt(length);
        let options = options(60, Sampling::greedy());
        let found = all(generator.generate(&prompt, options, &CancelToken::never()).unwrap());
        assert_eq!(found, without_cache(&device, &prompt, 60), "a prompt of {length} tokens");
        let distinct: std::collections::BTreeSet<_> = found.iter().collect();
        assert!(distinct.len() > 3, "a text of {} tokens proves little", distinct.len());
    }
}

#[test]
fn decoding_compiles_once_and_holds_its_memory() {
    let device = device();
    let generator = generator(&device);
    let mut generation =
        generator.generate(&prompt(9), options(1000, Sampling::greedy()), &CancelToken::never()).unwrap();
    for _ in 0..50 {
        generation.next_token().unwrap();
    }
    let before = device.stats();
    // Programs for one token and for pieces of 16, and no more.
    assert_eq!(before.compiles, 2);
    for _ in 0..50 {
        generation.next_token().unwrap();
    }
    let after = device.stats();
    assert_eq!(after.compiles, before.compiles);
    assert_eq!((after.live_bytes, after.peak_bytes), (before.live_bytes, before.peak_bytes));
}

#[test]
fn the_cache_is_written_in_place() {
    let device = device();
    let config = GptConfig { context: 4096, layers: 3, width: 16, heads: 2, ..GptConfig::small(50) };
    let model = Gpt::new(config).unwrap();
    let generator = Generator::new(&device, model.clone(), params(&device, &model)).unwrap();
    let never = CancelToken::never();
    let mut generation = generator.generate(&prompt(5), options(9, Sampling::greedy()), &never).unwrap();
    let held = device.stats().live_bytes;
    while generation.next_token().unwrap().is_some() {}
    let more = device.stats().peak_bytes - held;
    let one_tensor = 4096 * 16 * 4;
    assert!(more < one_tensor * 3 / 4, "{more} bytes beside {held}; keys of one layer are {one_tensor}");
}

#[test]
fn sampling_repeats_by_seed() {
    let device = device();
    let generator = generator(&device);
    let run = |seed| {
        let sampling =
            Sampling { temperature: 1.5, top_k: Some(20), top_p: Some(0.95), seed, ..Sampling::default() };
        all(generator.generate(&prompt(5), options(40, sampling), &CancelToken::never()).unwrap())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_eq!(run(1).len(), 40);
}

#[test]
fn a_stop_token_ends_the_generation_and_is_not_given() {
    let device = device();
    let generator = generator(&device);
    let whole = without_cache(&device, &prompt(4), 20);
    let stop = whole[7];
    let first = whole.iter().position(|&token| token == stop).unwrap();
    let options = GenerationOptions { stop: vec![999, stop], ..options(20, Sampling::greedy()) };
    let mut generation = generator.generate(&prompt(4), options, &CancelToken::never()).unwrap();
    let found: Vec<u32> = generation.by_ref().map(Result::unwrap).collect();
    assert_eq!(found, whole[..first]);
    assert_eq!(generation.finish(), Some(Finish::Stop(stop)));
    assert_eq!(generation.tokens(), [prompt(4), found].concat());
}

#[test]
fn the_wanted_number_of_tokens_ends_it_too() {
    let device = device();
    let generator = generator(&device);
    let mut generation =
        generator.generate(&prompt(4), options(0, Sampling::greedy()), &CancelToken::never()).unwrap();
    assert_eq!(generation.finish(), None);
    assert!(generation.next().is_none());
    assert_eq!(generation.finish(), Some(Finish::Length));
}

#[test]
fn a_cancelled_generation_ends_with_an_error_and_can_be_taken_up() {
    let device = device();
    let generator = generator(&device);
    let whole = without_cache(&device, &prompt(6), 12);
    let cancel = CancelToken::new();
    let options = options(12, Sampling::greedy());
    let mut generation = generator.generate(&prompt(6), options.clone(), &cancel).unwrap();
    let mut found: Vec<u32> = generation.by_ref().take(5).map(Result::unwrap).collect();
    cancel.cancel();
    assert_eq!(generation.next_token().unwrap_err().kind, ErrorKind::Cancelled);
    let error = generation.next().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert!(generation.next().is_none(), "an iterator ends after an error");
    assert_eq!(generation.finish(), None);
    // What there is, is a prompt to go on from.
    let rest = GenerationOptions { max_tokens: 1, ..options };
    found.extend(all(generator.generate(generation.tokens(), rest, &CancelToken::never()).unwrap()));
    assert_eq!(found, whole[..6]);
}

#[test]
fn several_generations_share_a_generator() {
    let device = device();
    let generator = generator(&device);
    let begin = |length| {
        generator.generate(&prompt(length), options(30, Sampling::greedy()), &CancelToken::never()).unwrap()
    };
    let (mut a, mut b) = (begin(3), begin(20));
    let mut found = [vec![], vec![]];
    for _ in 0..30 {
        found[0].extend(a.next_token().unwrap());
        found[1].extend(b.next_token().unwrap());
    }
    assert_eq!(found, [without_cache(&device, &prompt(3), 30), without_cache(&device, &prompt(20), 30)]);
}

#[test]
fn what_cannot_be_generated_is_refused() {
    let device = device();
    let generator = generator(&device);
    let never = CancelToken::never();
    let fault = |prompt: &[u32], sampling| {
        generator.generate(prompt, options(1, sampling), &never).unwrap_err().to_string()
    };
    assert!(fault(&[], Sampling::greedy()).contains("the prompt is empty"));
    let message = fault(&[3, 50], Sampling::greedy());
    assert_eq!(message, "generate: the prompt has token 50, the model knows those below 50");
    // A generation goes on behind a full context; a prompt that does not fit would be read in part.
    let message = fault(&prompt(25), Sampling::greedy());
    assert_eq!(message, "generate: the prompt has 25 tokens, the context holds 24");
    assert!(fault(&[3], Sampling { top_k: Some(0), ..Sampling::default() }).contains("top_k is 0"));
    let mut params = params(&device, &model());
    params.insert("wte.bias", EagerTensor::scalar(&device, 0.0, DType::F32).unwrap());
    let error = Generator::new(&device, model(), params).unwrap_err();
    assert_eq!(error.to_string(), "generator: wte.bias is no parameter of the model");
}

#[test]
fn logits_that_are_no_numbers_are_told_of_the_models_file() {
    let device = device();
    let mut params = params(&device, &model());
    let nan = EagerTensor::from_vec(&device, &[32], vec![f32::NAN; 32]).unwrap();
    params.insert("ln_f.bias", nan);
    let generator = Generator::new(&device, model(), params).unwrap();
    let never = CancelToken::never();
    let fault = |generator: &Generator<Gpt>| {
        let mut generation = generator.generate(&[3], options(1, Sampling::greedy()), &never).unwrap();
        generation.next_token().unwrap_err().to_string()
    };
    assert_eq!(fault(&generator), "sampling: the logit of token 0 is NaN");
    assert_eq!(
        fault(&generator.named("model.gguf")),
        "model.gguf: the logit of token 0 is NaN; a model whose weights are finite would be right"
    );
}

#[test]
fn a_trained_model_writes_what_it_has_read() {
    let device = device();
    let text = "she sells sea shells by the sea shore, the shells";
    let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
    let config = GptConfig { context: 48, layers: 1, width: 48, heads: 2, ..GptConfig::small(128) };
    let settings = TrainerConfig {
        optimizer: Optimizer::language_model(),
        schedule: Schedule::Cosine { peak: 1e-2, floor: 1e-3, warmup: 5, total: 100 },
        seed: 1,
        ..TrainerConfig::default()
    };
    let mut trainer = Trainer::new(&device, Gpt::new(config).unwrap(), settings).unwrap();
    let mut sampler = WindowSampler::new(tokens.clone(), 48, 1).unwrap();
    let mut loss = f64::NAN;
    for _ in 0..100 {
        loss = trainer.step(&sampler.next_batch(1).unwrap(), &CancelToken::never()).unwrap().loss;
    }
    assert!(loss < 0.1, "{loss}");
    let generator: Generator<Gpt> = Generator::from_snapshot(&device, &trainer.snapshot().unwrap()).unwrap();
    let generation =
        generator.generate(&tokens[..9], options(40, Sampling::greedy()), &CancelToken::never()).unwrap();
    assert_eq!(all(generation), tokens[9..49]);
}
