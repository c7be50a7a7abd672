//! Language models: published ones from their files, and the demo's.

use std::path::PathBuf;

use lanthorn_ir::DType;
use lanthorn_llm::{GenerationOptions, Generator, Pretrained, Sampling};
use lanthorn_nn::models::gpt::Head;
use lanthorn_nn::{CachedModel, Gpt, GptConfig, Llama, Model, params};
use lanthorn_runtime::{CancelToken, Device, EagerTensor};

use super::Make;
use crate::bench::Workload;
use crate::bench::peer::Kind;
use crate::failure::Result;

pub const ALL: &[(&str, Make)] = &[
    ("gpt_decode", gpt_decode),
    ("smollm2_q4_prefill_128", |device, name| {
        smollm2(device, name, Weights::Packed, Work::Prefill(128), 1.5)
    }),
    ("smollm2_q4_prefill_1024", |device, name| {
        smollm2(device, name, Weights::Packed, Work::Prefill(1024), 1.5)
    }),
    ("smollm2_q4_decode", |device, name| smollm2(device, name, Weights::Packed, Work::Decode, 1.3)),
    ("smollm2_f32_prefill_128", |device, name| smollm2(device, name, Weights::F32, Work::Prefill(128), 1.2)),
    ("smollm2_f32_prefill_1024", |device, name| {
        smollm2(device, name, Weights::F32, Work::Prefill(1024), 1.2)
    }),
    ("smollm2_f32_decode", |device, name| smollm2(device, name, Weights::F32, Work::Decode, 2.5)),
    ("minilm_64x32", minilm),
];

/// Where `benches/peers/models.sh` puts models.
fn models() -> PathBuf {
    let cache = std::env::var_os("LANTHORN_CACHE").map(PathBuf::from);
    let home =
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into())).join(".cache/lanthorn");
    cache.unwrap_or_else(home).join("models")
}

/// The published model of the workloads.
pub fn gguf() -> PathBuf {
    models().join("SmolLM2-135M-Instruct.Q4_1.gguf")
}

fn sentence_model() -> PathBuf {
    models().join("all-MiniLM-L6-v2")
}

/// The file or folder that a workload needs and that is not there.
pub fn missing(name: &str) -> Option<PathBuf> {
    let needed = match name {
        _ if name.starts_with("smollm2") => gguf(),
        _ if name.starts_with("minilm") => sentence_model(),
        _ => return None,
    };
    (!needed.exists()).then_some(needed)
}

#[derive(Clone, Copy)]
enum Weights {
    /// As the file has them.
    Packed,
    /// Unpacked when they are read.
    F32,
}

#[derive(Clone, Copy)]
enum Work {
    /// The logits after so many tokens.
    Prefill(usize),
    /// 32 tokens after 16.
    Decode,
}

fn smollm2(
    device: &Device,
    name: &'static str,
    weights: Weights,
    work: Work,
    target: f64,
) -> Result<Workload> {
    let file = Pretrained::open(gguf())?;
    let mut config = match weights {
        Weights::Packed => file.packed_config()?,
        Weights::F32 => file.config()?,
    };
    config.context = 1152;
    let matrices = parameters(&Llama::new(config.clone())?);
    let generator = file.generator(device, config)?;
    let (prompt, written) = match work {
        Work::Prefill(tokens) => (tokens, 1),
        Work::Decode => (16, 32),
    };
    // Of a decoded text nothing but the weights' bytes bounds the time, of a prompt its products.
    let (tokens, flops) = match work {
        Work::Prefill(tokens) => (tokens, 2.0 * matrices * tokens as f64),
        Work::Decode => (written, 0.0),
    };
    let peer = match weights {
        Weights::Packed => Kind::LlamaCpp,
        Weights::F32 => Kind::Torch,
    };
    Ok(Workload {
        name,
        peer,
        makes: (tokens as f64, "tokens"),
        target: Some(target),
        flops,
        bytes: 0.0,
        run: decoding(generator, prompt, written),
    })
}

/// Each is a token of BERT.
const WORDS: &str = "time year people way day man thing woman life child world school state family student group country \
    problem hand part place case week company system program question work government number";

/// The vectors of 64 sentences of 30 words, which are 32 tokens with the two around them.
fn minilm(device: &Device, name: &'static str) -> Result<Workload> {
    let embedder = Pretrained::open(sentence_model())?.embedder(device)?;
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let sentence = |number: usize| {
        let at = |place: usize| words.get((number + place * (1 + number % 7)) % words.len()).copied();
        (0..30).filter_map(at).collect::<Vec<_>>().join(" ")
    };
    let sentences: Vec<String> = (0..64).map(sentence).collect();
    let (width, cancel) = (embedder.width() as f64, CancelToken::never());
    // Six layers of four maps of attention and two of the feed-forward part, four times as wide.
    let matrices = 6.0 * 12.0 * width * width;
    Ok(Workload {
        name,
        peer: Kind::Torch,
        makes: (sentences.len() as f64, "sentences"),
        target: Some(1.3),
        flops: 2.0 * matrices * 64.0 * 32.0,
        bytes: 0.0,
        run: Box::new(move || {
            embedder.embed(&sentences, &cancel)?;
            Ok(())
        }),
    })
}

/// Weights of products, embeddings without.
fn parameters<M: Model>(model: &M) -> f64 {
    let specs = model.specs();
    let matrices = specs.iter().filter(|spec| spec.shape.len() == 2 && !spec.name.contains("embed"));
    matrices.map(|spec| spec.shape.iter().product::<usize>() as f64).sum()
}

/// Writes `written` tokens greedily after a prompt of `prompt`, which differs from run to run: what was computed for
/// another prompt is of no use to it.
fn decoding<M: CachedModel + 'static>(
    generator: Generator<M>,
    prompt: usize,
    written: usize,
) -> Box<dyn FnMut() -> Result<()>> {
    let options = GenerationOptions { max_tokens: written, sampling: Sampling::greedy(), stop: Vec::new() };
    let cancel = CancelToken::never();
    let mut runs = 0;
    Box::new(move || {
        runs += 1;
        let vocab = generator.model().vocab() as u32;
        let prompt: Vec<u32> = (0..prompt as u32).map(|at| (1000 + 7 * runs + at) % vocab).collect();
        let mut generation = generator.generate(&prompt, options.clone(), &cancel)?;
        while generation.next_token()?.is_some() {}
        Ok(())
    })
}

/// The GPT of `gpt_step` writes 112 tokens after 16.
fn gpt_decode(device: &Device, name: &'static str) -> Result<Workload> {
    let (prompt, written) = (16, 112);
    let gpt = Gpt::new(GptConfig {
        vocab: 2048,
        context: 128,
        layers: 4,
        width: 256,
        heads: 8,
        dropout: 0.0,
        head: Head::Untied,
        norm_eps: 1e-5,
    })?;
    let first = params::initial(&gpt.specs(), 1, DType::F32)?;
    let params =
        first.try_map(|_, tensor| -> lanthorn_ir::Result<EagerTensor> { tensor.to_device(device) })?;
    let generator = Generator::new(device, gpt, params)?;
    Ok(Workload {
        name,
        peer: Kind::Torch,
        makes: (written as f64, "tokens"),
        target: Some(3.0),
        flops: 0.0,
        bytes: 0.0,
        run: decoding(generator, prompt, written),
    })
}
