//! Tokenizers held against the Python package `tokenizers`; see `fixtures/tokenizers/make.py`.
#![cfg(feature = "tokenizer")]

use lanthorn_io::tokenizer::{
    Algorithm, Encoding, Input, Policy, SpecialTokens, Template, Tokenizer, Training,
};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const CORPUS: &str = include_str!("../fixtures/tokenizers/corpus.txt");

/// The settings of `make.py`.
fn training(algorithm: Algorithm) -> Training<'static> {
    let (vocab_size, special_tokens): (_, &[&str]) = match algorithm {
        Algorithm::Bpe => (400, &["<|end|>"]),
        Algorithm::WordPiece => (320, &["[PAD]", "[UNK]", "[CLS]", "[SEP]"]),
        Algorithm::Unigram => (260, &["<pad>", "<unk>"]),
        Algorithm::WordLevel => (100, &["[PAD]", "[UNK]", "[CLS]", "[SEP]"]),
    };
    let mut training = Training::new(algorithm, vocab_size);
    training.special_tokens = special_tokens.iter().map(|token| (*token).to_owned()).collect();
    if algorithm == Algorithm::WordLevel {
        training.min_frequency = 2;
    }
    training
}

const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Bpe, Algorithm::WordPiece, Algorithm::Unigram, Algorithm::WordLevel];

static TRAINED: LazyLock<[Tokenizer; 4]> =
    LazyLock::new(|| ALGORITHMS.map(|algorithm| Tokenizer::train([CORPUS], &training(algorithm)).unwrap()));

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

static ENCODINGS: LazyLock<Value> =
    LazyLock::new(|| json(include_str!("../fixtures/tokenizers/encodings.json")));

fn model(tokenizer: &Tokenizer) -> Value {
    json(tokenizer.to_json())["model"].clone()
}

#[test]
fn a_training_gives_the_vocabulary_of_the_python_package() {
    let expected = json(include_str!("../fixtures/tokenizers/trained.json"));
    for (algorithm, tokenizer) in ALGORITHMS.into_iter().zip(&*TRAINED) {
        let (found, expected) = (model(tokenizer), &expected[algorithm.name()]);
        if algorithm != Algorithm::Unigram {
            assert!(found == *expected, "{algorithm:?}: {found}");
            continue;
        }
        // Sums of several threads round as they come; and characters that were put back stand in the order of a hash
        // map, each with the score of its place.
        let pieces =
            |model: &Value| -> Vec<(String, f64)> { serde_json::from_value(model["vocab"].clone()).unwrap() };
        let (found, expected) = (pieces(&found), pieces(expected));
        let scores = |pieces: &[(String, f64)]| pieces.iter().map(|(_, score)| *score).collect::<Vec<_>>();
        assert_eq!(found.len(), expected.len());
        for (one, other) in scores(&found).into_iter().zip(scores(&expected)) {
            assert!((one - other).abs() < 1e-9, "{one} for {other}");
        }
        let least = found.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
        let scored = |pieces: Vec<(String, f64)>| -> BTreeMap<String, f64> {
            let is_put_back = |score: f64| score - least < 2e-3;
            pieces
                .into_iter()
                .map(|(piece, score)| (piece, if is_put_back(score) { least } else { score }))
                .collect()
        };
        for ((piece, score), (other, expected)) in scored(found).into_iter().zip(scored(expected)) {
            assert_eq!(piece, other);
            assert!((score - expected).abs() < 1e-9, "{piece}: {score} for {expected}");
        }
    }
}

#[test]
fn texts_become_the_ids_of_the_python_package_and_texts_again() {
    for (algorithm, tokenizer) in ALGORITHMS.into_iter().zip(&*TRAINED) {
        let texts: Vec<String> = serde_json::from_value(ENCODINGS["texts"].clone()).unwrap();
        let ids: Vec<Vec<u32>> = serde_json::from_value(ENCODINGS["ids"][algorithm.name()].clone()).unwrap();
        let decoded: Vec<String> =
            serde_json::from_value(ENCODINGS["decoded"][algorithm.name()].clone()).unwrap();
        let found: Vec<Vec<u32>> = texts.iter().map(|text| tokenizer.encode(text).unwrap()).collect();
        assert_eq!(tokenizer.decode_batch(&found, SpecialTokens::Skip).unwrap(), decoded, "{algorithm:?}");
        if algorithm != Algorithm::Unigram {
            assert_eq!(found, ids, "{algorithm:?}");
            continue;
        }
        // The ids of characters that were put back depend on the order of a hash map; their names do not.
        let names = |ids: &[Vec<u32>], model: &Value| -> Vec<Vec<String>> {
            let pieces: Vec<(String, f64)> = serde_json::from_value(model["vocab"].clone()).unwrap();
            ids.iter().map(|ids| ids.iter().map(|id| pieces[*id as usize].0.clone()).collect()).collect()
        };
        let expected = json(include_str!("../fixtures/tokenizers/trained.json"));
        assert_eq!(names(&found, &model(tokenizer)), names(&ids, &expected["Unigram"]));
    }
}

/// BERT's kind of tokenizer, with a template for one text and for two.
fn bert() -> Tokenizer {
    Tokenizer::from_json("tokenizer.json", include_str!("../fixtures/tokenizers/tokenizer.json")).unwrap()
}

fn encoding(value: &Value) -> Encoding {
    let list = |key: &str| serde_json::from_value(value[key].clone()).unwrap();
    Encoding {
        ids: list("ids"),
        type_ids: list("type_ids"),
        attention_mask: list("attention_mask"),
        special_tokens_mask: list("special_tokens_mask"),
        offsets: serde_json::from_value(value["offsets"].clone()).unwrap(),
        overflowing: value["overflowing"].as_array().unwrap().iter().map(encoding).collect(),
    }
}

#[test]
fn every_policy_is_read_followed_and_written_as_by_the_python_package() {
    let bert = bert();
    let cases = ENCODINGS["policies"].as_array().unwrap();
    assert!(cases.len() > 15);
    for case in cases {
        // The policy stands in a file, and comes back from one.
        let mut file = json(bert.to_json());
        for key in ["truncation", "padding"] {
            file[key] = case["file"][key].clone();
        }
        let read = Tokenizer::from_json("with policy", &file.to_string()).unwrap();
        let written = json(bert.with_policy(read.policy().clone()).unwrap().to_json());
        for key in ["truncation", "padding"] {
            assert_eq!(written[key], case["file"][key]);
        }
        assert_eq!(read.content_hash(), bert.content_hash());
        assert_eq!(read.encode("nation").unwrap(), bert.encode("nation").unwrap(), "ids alone are not cut");

        let template = if case["template"] == true { Template::Apply } else { Template::Leave };
        let encoder = bert.encoder(&Policy { template, ..read.policy().clone() }).unwrap();
        let inputs: Vec<(String, Option<String>)> = serde_json::from_value(case["inputs"].clone()).unwrap();
        let inputs: Vec<Input<'_>> = inputs
            .iter()
            .map(|(first, second)| match second {
                Some(second) => Input::Pair(first, second),
                None => Input::One(first),
            })
            .collect();
        let expected: Vec<Encoding> = case["encodings"].as_array().unwrap().iter().map(encoding).collect();
        assert_eq!(encoder.encode_batch(inputs.iter().copied()).unwrap(), expected, "{encoder:?}");
        if read.policy().padding.is_none() {
            for (input, expected) in inputs.iter().zip(&expected) {
                assert_eq!(&encoder.encode(*input).unwrap(), expected);
            }
        }
    }
}

/// Byte-level and small, so that damage hits its structure and not only the vocabulary.
const BYTE_LEVEL: &str = r#"{"version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 0, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}],
        "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": true}, "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": false,
        "trim_offsets": true, "use_regex": true}, "model": {"type": "BPE", "dropout": null, "unk_token": null,
        "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
        "ignore_merges": false, "vocab": {"<|end|>": 0, "t": 1, "h": 2, "e": 3, "th": 4, "the": 5},
        "merges": [["t", "h"], ["th", "e"]]}}"#;

/// Rules of every kind, one within the other.
const RULES: &str = include_str!("../fixtures/tokenizers/rules.json");

/// One file of each kind.
static FILES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let small = [Algorithm::WordPiece, Algorithm::Unigram, Algorithm::WordLevel].map(|algorithm| {
        let mut training = Training::new(algorithm, 280);
        training.special_tokens = vec!["[PAD]".to_owned()];
        Tokenizer::train(["the lamp, the lantern"], &training).unwrap().to_json().to_owned()
    });
    // As it is written, so that all fields are there to be damaged.
    let rules = Tokenizer::from_json("rules", RULES).unwrap().to_json().to_owned();
    [BYTE_LEVEL.to_owned(), bert().to_json().to_owned(), rules].into_iter().chain(small).collect()
});

/// What the library panics at is refused when a file is read; that a panic was caught is in the error.
fn not_caught<T>(result: lanthorn_io::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let error = error.to_string();
            assert!(!error.contains("the tokenizer contradicts itself"), "{error}");
            assert!(!error.contains('\n') && error.len() < 600, "{error}");
            None
        }
    }
}

/// Reads and uses a file that may be damaged: each step gives something or an error.
fn used(json: &str) {
    let Some(tokenizer) = not_caught(Tokenizer::from_json("damaged", json)) else { return };
    not_caught(tokenizer.encode("the lamp is — naïve [PAD]  Lamp\n e\u{301} 12"));
    let ids: Vec<u32> = (0..tokenizer.vocab_size().min(300) as u32).collect();
    for ids in [&[0, 1, 2, 270, 70_000][..], &[], &ids] {
        not_caught(tokenizer.decode(ids, SpecialTokens::Skip));
    }
    let mut stream = tokenizer.stream(SpecialTokens::Keep);
    for id in ids.iter().take(20) {
        not_caught(stream.push(*id));
    }
    not_caught(stream.finish());
    if let Some(encoder) = not_caught(tokenizer.encoder(tokenizer.policy())) {
        not_caught(encoder.encode_batch([Input::One("the lamp"), Input::Pair("a lantern", "")]));
        not_caught(encoder.encode_batch([Input::One(""), Input::One(" Ünder 東京  ")]));
        not_caught(encoder.kept_ids(&"the lamp  ".repeat(500)));
    }
    not_caught(tokenizer.with_policy(Policy::default()));
}

/// What a value of a file becomes.
fn strange(at: usize, other: &Value) -> Value {
    const TEXTS: [&str; 14] = [
        "",
        "a",
        "é",
        " ",
        "_",
        "##",
        "l",
        "\\K",
        "(?=a\\K)",
        "^",
        "\\b",
        "x*",
        "Precompiled",
        "MergedWithPrevious",
    ];
    match at {
        0 => Value::Null,
        1 => Value::Bool(at.is_multiple_of(2)),
        2 => Value::Bool(true),
        3 => 0.into(),
        4 => 1.into(),
        5 => (-1).into(),
        6 => 4_294_967_295_u64.into(),
        7 => u64::MAX.into(),
        8 => 1e300.into(),
        9 => Value::Array(Vec::new()),
        10 => Value::Object(serde_json::Map::new()),
        11 => other.clone(),
        _ => TEXTS[at % TEXTS.len()].into(),
    }
}

/// The places of all values within a value, as JSON pointers.
fn places(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                places(value, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
    found.push(at);
}

proptest! {
    // Each is little work: more of them than of others, by default or by the environment.
    #![proptest_config(ProptestConfig::with_cases(4 * ProptestConfig::default().cases))]

    /// Of any kind, with a policy or not: an error, or a tokenizer that gives ids and texts or errors.
    #[test]
    fn a_damaged_file_never_panics(
        which in any::<prop::sample::Index>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0x20u8..0x7F), 0..4),
    ) {
        let mut json = FILES[which.index(FILES.len())].clone().into_bytes();
        for (at, value) in damage {
            let at = at.index(json.len());
            json[at] = value;
        }
        if let Some(cut) = cut {
            json.truncate(cut.index(json.len()));
        }
        if let Ok(json) = String::from_utf8(json) {
            used(&json);
        }
    }

    /// The same where values of a file that is JSON are others, or stand elsewhere.
    #[test]
    fn a_file_with_strange_values_never_panics(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0usize..40), 1..4),
    ) {
        let mut file = json(&FILES[which.index(FILES.len())]);
        for (at, other, what) in changes {
            let mut found = Vec::new();
            places(&file, String::new(), &mut found);
            // Every second one is outside of the vocabulary, which has most of the places.
            let rules: Vec<&String> = found.iter().filter(|place| !place.contains("vocab")).collect();
            let place = if what % 2 == 0 { &found[at.index(found.len())] } else { rules[at.index(rules.len())] };
            let other = file.pointer(&found[other.index(found.len())]).unwrap().clone();
            *file.pointer_mut(place).unwrap() = strange(what, &other);
        }
        used(&file.to_string());
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever the texts, a training gives a tokenizer or says why not, and gives the same twice.
    #[test]
    fn a_training_on_any_texts_never_panics(
        which in any::<prop::sample::Index>(),
        texts in prop::collection::vec("[ab \\n\\u{0}]{0,12}|\\PC{0,8}", 0..6),
        vocab_size in 0usize..300,
        min_frequency in 0u64..4,
    ) {
        let mut training = Training::new(ALGORITHMS[which.index(4)], vocab_size);
        training.min_frequency = min_frequency;
        if let Ok(tokenizer) = Tokenizer::train(&texts, &training) {
            prop_assert!(tokenizer.vocab_size() <= vocab_size);
            let again = Tokenizer::train(texts.iter().rev(), &training).unwrap();
            prop_assert_eq!(again.to_json(), tokenizer.to_json());
            for text in &texts {
                let ids = tokenizer.encode(text).unwrap();
                tokenizer.decode(&ids, SpecialTokens::Keep).unwrap();
            }
        }
    }
}
