//! Models from files, held against Hugging Face's transformers; see `fixtures/llama/make.py`.

use std::io::Write;
use std::path::{Path, PathBuf};

use lanthorn_cpu::CpuBackend;
use lanthorn_io::chat::Message;
use lanthorn_io::gguf::{self, Encoding, Metadata, View};
use lanthorn_ir::ops;
use lanthorn_llm::{GenerationOptions, Pretrained, Sampling};
use lanthorn_nn::{LlamaConfig, Mode, Model, Params};
use lanthorn_runtime::{CancelToken, Device, Eager, EagerTensor};
use serde::Deserialize;
use sha2::{Digest, Sha256};

fn device() -> Device {
    Device::new(std::sync::Arc::new(CpuBackend))
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/llama").join(name)
}

#[derive(Deserialize)]
struct Expected {
    ids: Vec<u32>,
    /// All logits after `ids`, or those of the tokens `chosen`.
    logits: Vec<f32>,
    chosen: Option<Vec<usize>>,
    greedy: Vec<u32>,
    chat: Option<Vec<u32>>,
}

fn expected(name: &str) -> Expected {
    let all: serde_json::Value =
        serde_json::from_str(include_str!("../fixtures/llama/expected.json")).unwrap();
    serde_json::from_value(all[name].clone()).unwrap()
}

/// Logits by a whole forward, and tokens by decoding with a cache, are those of transformers.
fn check(model: &Pretrained, mut config: LlamaConfig, context: usize, cases: &[Expected], tolerance: f32) {
    let device = device();
    config.context = config.context.min(context);
    let is_packed = !config.packed.is_empty();
    let (llama, params) = model.model(&device, config.clone()).unwrap();
    let generator = model.generator(&device, config).unwrap();
    for expected in cases {
        let ids: Vec<i32> = expected.ids.iter().map(|&id| id as i32).collect();
        let ids = EagerTensor::from_slice(&device, &[1, ids.len()], &ids).unwrap();
        let eager = Eager::new(&device);
        let (logits, _) = llama.forward(&eager, &params, &Params::new(), &ids, &Mode::Eval).unwrap();
        let logits: Vec<f32> = ops::select(&eager, &logits, 1, -1).unwrap().to_vec().unwrap();
        let chosen = expected.chosen.clone().unwrap_or_else(|| (0..logits.len()).collect());
        assert_eq!(chosen.len(), expected.logits.len());
        // Products with packed weights round what they multiply: an error of the largest logits, not of each.
        let largest = expected.logits.iter().fold(1.0f32, |most, logit| most.max(logit.abs()));
        for (&token, &right) in chosen.iter().zip(&expected.logits) {
            let off = (logits[token] - right).abs();
            let scale = if is_packed { largest } else { right.abs().max(1.0) };
            assert!(off <= tolerance * scale, "token {token}: {} for {right}", logits[token]);
        }

        let count = expected.greedy.len();
        let options = GenerationOptions { max_tokens: count, sampling: Sampling::greedy(), stop: vec![] };
        let generation = generator.generate(&expected.ids, options, &CancelToken::never()).unwrap();
        let found: Vec<u32> = generation.map(Result::unwrap).collect();
        assert_eq!(found, expected.greedy);
    }
}

#[test]
fn folders_give_the_logits_and_tokens_of_transformers() {
    for name in ["tied", "scaled"] {
        let model = Pretrained::open(fixture(name)).unwrap();
        check(&model, model.config().unwrap(), 96, &[expected(name)], 1e-4);
    }
}

/// The fixture as a GGUF file, as llama.cpp's converter would write it.
fn as_gguf(name: &str, path: &Path, factors: Option<[f32; 4]>, theta: f32) {
    let Pretrained::Folder(folder) = Pretrained::open(fixture(name)).unwrap() else { panic!("no folder") };
    let mut metadata = Metadata::new(name);
    metadata.insert("general.architecture", "llama");
    for (key, size) in [
        ("context_length", 96u32),
        ("embedding_length", 16),
        ("block_count", 2),
        ("feed_forward_length", 24),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 8),
        ("attention.value_length", 8),
        ("rope.dimension_count", 8),
    ] {
        metadata.insert(format!("llama.{key}"), size);
    }
    metadata.insert("llama.rope.freq_base", theta);
    metadata.insert("llama.attention.layer_norm_rms_epsilon", 1e-5f32);

    let mut tensors: Vec<(String, Encoding, Vec<usize>, Vec<u8>)> = Vec::new();
    for ours in folder.names() {
        let view = folder.get(ours).unwrap();
        let mut bytes = view.bytes.to_vec();
        if ours.contains("q_proj") || ours.contains("k_proj") {
            // `weights.reshape(heads, 2, 4, width).swapaxes(1, 2)`.
            let row = view.bytes.len() / view.shape[0];
            let source = |at: usize| at / 8 * 8 + at % 2 * 4 + at % 8 / 2;
            bytes =
                (0..view.shape[0]).flat_map(|at| view.bytes[source(at) * row..][..row].to_vec()).collect();
        }
        tensors.push((name_in_gguf(ours), view.encoding, view.shape.to_vec(), bytes));
    }
    if let Some(factors) = factors {
        let bytes = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
        tensors.push(("rope_freqs.weight".into(), Encoding::F32, vec![4], bytes));
    }
    let views = tensors
        .iter()
        .map(|(name, encoding, shape, bytes)| (name.as_str(), View { encoding: *encoding, shape, bytes }));
    gguf::save(path, views, &metadata).unwrap();
}

fn name_in_gguf(ours: &str) -> String {
    let parts: Vec<&str> = ours.split('.').collect();
    match parts[..] {
        ["lm_head", _] => "output.weight".into(),
        ["model", "embed_tokens", _] => "token_embd.weight".into(),
        ["model", "norm", _] => "output_norm.weight".into(),
        ["model", "layers", layer, "input_layernorm", _] => format!("blk.{layer}.attn_norm.weight"),
        ["model", "layers", layer, "post_attention_layernorm", _] => format!("blk.{layer}.ffn_norm.weight"),
        ["model", "layers", layer, "self_attn", "o_proj", _] => format!("blk.{layer}.attn_output.weight"),
        ["model", "layers", layer, "self_attn", map, _] => format!("blk.{layer}.attn_{}.weight", &map[..1]),
        ["model", "layers", layer, "mlp", map, _] => {
            format!("blk.{layer}.ffn_{}.weight", map.trim_end_matches("_proj"))
        }
        _ => panic!("{ours}"),
    }
}

#[test]
fn gguf_files_give_the_same() {
    let folder = tempfile::tempdir().unwrap();
    // By the formula of llama.cpp's converter, in Python.
    let factors = [1.000000, 1.866516, 6.042691, 8.000000];
    for (name, factors, theta) in [("tied", None, 10_000.0), ("scaled", Some(factors), 20.0)] {
        let path = folder.path().join(name);
        as_gguf(name, &path, factors, theta);
        let model = Pretrained::open(&path).unwrap();
        let from_folder = Pretrained::open(fixture(name)).unwrap().config().unwrap();
        assert_eq!(model.config().unwrap().rotation, from_folder.rotation);
        check(&model, model.config().unwrap(), 96, &[expected(name)], 1e-4);
    }
}

#[test]
fn conversations_become_the_ids_of_transformers() {
    for name in ["tied", "scaled"] {
        let texts = Pretrained::open(fixture(name)).unwrap().texts().unwrap();
        let messages = [Message::new("system", "Be brief."), Message::new("user", "Hi")];
        assert_eq!(Some(texts.chat(&messages).unwrap()), expected(name).chat, "{name}");
        assert_eq!((texts.begin, &texts.ends[..]), (None, &[257][..]));
    }
}

/// A copy of a fixture in which one text of one file is another.
fn altered(name: &str, file: &str, from: &str, to: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    std::fs::write(folder.path().join(file), text.replacen(from, to, 1)).unwrap();
    folder
}

#[test]
fn what_a_model_here_does_not_compute_is_refused_by_name() {
    let index = "model.safetensors.index.json";
    for (name, file, from, to, words) in [
        ("tied", "config.json", "\"llama\"", "\"gemma\"", "family `gemma`; `llama` is what runs"),
        ("tied", "config.json", "\"silu\"", "\"gelu\"", "`hidden_act` is `gelu`; `silu`"),
        ("tied", "config.json", "\"mlp_bias\": false", "\"mlp_bias\": true", "`mlp_bias` is true"),
        ("tied", "config.json", "\"default\"", "\"yarn\"", "by the method `yarn`; `default` and `llama3`"),
        (
            "tied",
            "config.json",
            "\"num_key_value_heads\": 2",
            "\"num_key_value_heads\": 3",
            "3 heads of keys do",
        ),
        ("tied", "config.json", "\"vocab_size\": 260", "\"vocab_size\": 261", "[260, 16]; [261, 16] would"),
        ("tied", "config.json", "\"hidden_size\": 16,", "", "missing field `hidden_size`"),
        ("tied", "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "`model.layers.1."),
        (
            "tied",
            "config.json",
            "\"num_hidden_layers\": 2",
            "\"num_hidden_layers\": 3",
            "no tensor `model.layers.2.",
        ),
        (
            "tied",
            "config.json",
            "\"tie_word_embeddings\": true",
            "\"tie_word_embeddings\": false",
            "`lm_head.weight`",
        ),
        ("scaled", "config.json", "\"factor\": 8.0,", "", "`factor` is missing"),
        ("scaled", index, "model-00001", "../model-00001", "one beside it would be right"),
        ("scaled", index, "\"lm_head.weight\"", "\"head.weight\"", "no tensor `head.weight`"),
    ] {
        let folder = altered(name, file, from, to);
        let result = Pretrained::open(folder.path())
            .and_then(|model| model.model(&device(), model.config()?).map(|_| ()));
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "{from} to {to}: {error}");
        assert!(error.starts_with(&folder.path().display().to_string()), "{error}");
    }
    let empty = tempfile::tempdir().unwrap();
    let error = Pretrained::open(empty.path()).unwrap_err().to_string();
    assert!(error.ends_with("model.safetensors: cannot read it: No such file or directory"), "{error}");
}

/// SmolLM2-135M-Instruct, where somebody has put it into the cache; `crates/io/tests/smollm2.rs` says how.
#[test]
fn smollm2_gives_the_logits_and_tokens_of_transformers() {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = home.join(".cache/lanthorn/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !path.exists() {
        // Not `eprintln!`, which the test runner swallows.
        let _ = writeln!(std::io::stderr(), "not tested: there is no {}", path.display());
        return;
    }
    #[derive(Deserialize)]
    struct File {
        sha256: String,
        prompts: Vec<Expected>,
    }
    let File { sha256, prompts } =
        serde_json::from_str(include_str!("../fixtures/llama/smollm2.json")).unwrap();
    let sum: String =
        Sha256::digest(std::fs::read(&path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(sum, sha256, "another file");
    assert_eq!(prompts.len(), 3);
    let model = Pretrained::open(&path).unwrap();
    check(&model, model.packed_config().unwrap(), 256, &prompts, 1e-3);
    // Unpacked weights are eight times as much to read.
    check(&model, model.config().unwrap(), 256, &prompts[..1], 1e-3);
}
