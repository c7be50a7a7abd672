//! Models from files, held against Hugging Face's transformers; see `fixtures/llama/make.py`.

use std::io::Write;
use std::path::{Path, PathBuf};

use lanthorn_cpu::CpuBackend;
use lanthorn_io::chat::Message;
use lanthorn_io::gguf::{self, Encoding, Metadata, View};
use lanthorn_io::{Tensors, safetensors};
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

/// A base model by itself has its tensors without `model.`; it has a head where that is the table of tokens.
#[test]
fn a_base_model_by_itself_is_read_as_the_one_with_a_head() {
    let folder = altered("tied", "config.json", "", "");
    let path = folder.path().join("model.safetensors");
    let tensors = Tensors::open(fixture("tied").join("model.safetensors")).unwrap();
    let bare = tensors.iter().map(|(name, view)| (name.strip_prefix("model.").unwrap_or(name), view));
    let bytes = safetensors::to_bytes(bare, &Default::default()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let model = Pretrained::open(folder.path()).unwrap();
    check(&model, model.config().unwrap(), 96, &[expected("tied")], 1e-4);
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
        (
            "tied",
            "config.json",
            "\"llama\"",
            "\"gemma\"",
            "config.json: it is a model of the family `gemma`; `llama` is what runs",
        ),
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
        (
            "tied",
            "config.json",
            "\"vocab_size\": 260",
            "\"vocab_size\": 261",
            "model.safetensors: tensor `model.embed_tokens.weight` has the shape [260, 16]; [261, 16] would",
        ),
        ("tied", "config.json", "\"hidden_size\": 16,", "", "config.json: missing field `hidden_size`"),
        (
            "tied",
            "config.json",
            "1e-05",
            "1e-999",
            "config.json: norm_eps is 0, expected a finite number above 0",
        ),
        ("tied", "config.json", "\"llama\"", "\"bert\"", "`lanthorn embed` makes vectors by a `bert`"),
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
    let fault = || Pretrained::open(empty.path()).unwrap_err().to_string();
    let path = empty.path().display();
    let right = "it is no folder of a model; one with config.json, model.safetensors and tokenizer.json would be right";
    assert_eq!(fault(), format!("{path}: {right}"));
    for (file, words) in [
        (
            "config.json",
            "it has a config.json and no model.safetensors; the folder of a model with its weights would",
        ),
        ("pytorch_model.bin", "it has no model.safetensors, and pytorch_model.bin is of PyTorch"),
        ("tiny.gguf", "its file tiny.gguf is a model by itself"),
        ("checkpoint.safetensors", "it is a run of `lanthorn train`"),
    ] {
        std::fs::write(empty.path().join(file), "").unwrap();
        assert!(fault().starts_with(&format!("{path}: ")) && fault().contains(words), "{}", fault());
    }
}

#[test]
fn a_tokenizer_that_does_not_fit_the_model_is_named_where_it_is_loaded() {
    for (file, from, to, words) in [
        (
            "config.json",
            "\"vocab_size\": 260",
            "\"vocab_size\": 250",
            "the tokenizer has 260 tokens, and the `vocab_size` of ",
        ),
        (
            "config.json",
            "\"vocab_size\": 260",
            "\"vocab_size\": 9000",
            "the tokenizer has only 260 tokens, and the `vocab_size` of ",
        ),
        (
            "tokenizer_config.json",
            "TokenizersBackend",
            "BertTokenizer",
            "it is of the kind BPE, and tokenizer_config.json says that it is a `BertTokenizer`; a WordPiece",
        ),
    ] {
        let folder = altered("tied", file, from, to);
        let error = Pretrained::open(folder.path()).unwrap().texts().unwrap_err().to_string();
        let path = folder.path().join("tokenizer.json");
        assert!(error.starts_with(&format!("{}: {words}", path.display())), "{error}");
    }
    let folder = altered("tied", "config.json", "", "");
    let empty = r#"{"model": {"type": "WordLevel", "vocab": {}, "unk_token": "a"}}"#;
    std::fs::write(folder.path().join("tokenizer.json"), empty).unwrap();
    let error = Pretrained::open(folder.path()).unwrap().texts().unwrap_err().to_string();
    assert!(error.contains("tokenizer.json: its vocabulary is empty, and the `vocab_size` of "), "{error}");
}

/// The header says one thing and the tensors another: whichever is believed, the model is not the one that was made.
#[test]
fn metadata_of_a_gguf_file_that_contradicts_itself_is_refused_by_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    as_gguf("tied", &path, None, 10_000.0);
    let good = gguf::Gguf::open(&path).unwrap();
    let tokens = |count: usize| (0..count).map(|id| format!("t{id}")).collect::<Vec<_>>();
    let without = |key: &str| {
        let mut metadata = Metadata::new("altered");
        for (name, value) in good.metadata().values().iter().filter(|(name, _)| *name != key) {
            metadata.insert(name.clone(), value.clone());
        }
        metadata
    };
    let with = |key: &str, value: gguf::Value| {
        let mut metadata = without("llama.attention.key_length");
        if key != "llama.attention.head_count" {
            metadata.insert("llama.attention.key_length", 8u32);
        }
        metadata.insert(key, value);
        metadata
    };
    let config = |metadata: &Metadata| {
        let bytes = gguf::to_bytes(good.iter(), metadata).unwrap();
        Pretrained::Gguf(gguf::Gguf::from_bytes("model.gguf", bytes).unwrap()).config()
    };
    assert!(config(&with("tokenizer.ggml.tokens", tokens(260).into())).is_ok());
    assert!(config(&with("llama.vocab_size", 260u32.into())).is_ok());
    for (key, value, words) in [
        (
            "tokenizer.ggml.tokens",
            tokens(261).into(),
            "has 261 entries, and the tensor `token_embd.weight` has 260 rows",
        ),
        ("llama.vocab_size", 300u32.into(), "is 300, and the tensor `token_embd.weight` has 260 rows"),
        ("llama.embedding_length", 32u32.into(), "is 32, and the tensor `token_embd.weight` has 16 columns"),
        (
            "llama.feed_forward_length",
            25u32.into(),
            "is 25, and the tensor `blk.0.ffn_gate.weight` has 24 rows",
        ),
        ("llama.block_count", 1u32.into(), "is 1, and there are tensors of 2 blocks"),
        ("llama.block_count", 0u32.into(), "is 0"),
        ("llama.context_length", 0u32.into(), "is 0"),
        ("llama.attention.head_count", 3u32.into(), "is 3 and `llama.embedding_length` 16"),
        ("llama.attention.head_count", 0u32.into(), "is 0"),
        ("llama.attention.head_count_kv", 3u32.into(), "is 3 and `llama.attention.head_count` 4"),
        ("llama.attention.head_count_kv", 0u32.into(), "is 0 and `llama.attention.head_count` 4"),
        ("llama.rope.dimension_count", 4u32.into(), "is 4; 8, a head"),
    ] {
        let error = config(&with(key, value)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("model.gguf: the metadata `{key}` {words}")), "{key}: {error}");
    }
}

#[test]
fn a_shape_of_many_axes_is_not_told_whole_and_its_file_is_named() {
    let folder = altered("tied", "config.json", "", "");
    let path = folder.path().join("model.safetensors");
    let tensors = Tensors::open(&path).unwrap();
    let shape = vec![1; 5_000];
    let bytes = safetensors::to_bytes(
        tensors.iter().map(|(name, view)| match name {
            "model.norm.weight" => (name, lanthorn_io::View { shape: &shape, bytes: &[0; 4], ..view }),
            _ => (name, view),
        }),
        &Default::default(),
    );
    std::fs::write(folder.path().join("other.safetensors"), bytes.unwrap()).unwrap();
    std::fs::rename(folder.path().join("other.safetensors"), &path).unwrap();
    let model = Pretrained::open(folder.path()).unwrap();
    let error = model.model(&device(), model.config().unwrap()).map(drop).unwrap_err().to_string();
    let right = "tensor `model.norm.weight` has the shape [1, 1, 1, 1, 1, 1, 1, 1] and 4992 more sizes; [16] would be right";
    assert_eq!(error, format!("{}: {right}", path.display()));
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
    check(&model, model.config().unwrap(), 256, &prompts, 1e-3);
}
