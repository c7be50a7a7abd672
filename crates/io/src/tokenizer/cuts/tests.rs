use super::*;
use crate::tokenizer::words::{self, NEVER};
use crate::tokenizer::{Algorithm, Tokenizer, Training};
use proptest::prelude::*;
use serde_json::json;
use std::sync::LazyLock;
use tokenizers::OffsetType;

const BOOK: &str =
    "the lamp, the lantern's 12 lamps: don't! naïve Ünder 345\n\n the End </s> Где лампа\n7 lamps";

fn trained(algorithm: Algorithm) -> Value {
    let mut training = Training::new(algorithm, 400);
    training.special_tokens = vec!["</s>".to_owned()];
    serde_json::from_str(Tokenizer::train([BOOK.repeat(3)], &training).unwrap().to_json()).unwrap()
}

fn with(mut file: Value, changes: &[(&str, Value)]) -> Value {
    for (field, value) in changes {
        file[*field] = value.clone();
    }
    file
}

fn byte_level(use_regex: bool, add_prefix_space: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true,
           "use_regex": use_regex})
}

fn split(pattern: Value, behavior: &str) -> Value {
    json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": false})
}

fn rules(rules: &[Value]) -> Value {
    json!({"type": "Sequence", "pretokenizers": rules})
}

fn replace(pattern: Value, content: &str) -> Value {
    json!({"type": "Replace", "pattern": pattern, "content": content})
}

fn normalizers(rules: &[Value]) -> Value {
    json!({"type": "Sequence", "normalizers": rules})
}

/// A small BPE of SentencePiece's kind.
fn sentence_piece(normalizer: Value, pre_tokenizer: Value) -> Value {
    let merges = [
        ("t", "h"),
        ("▁", "th"),
        ("▁th", "e"),
        ("l", "a"),
        ("la", "m"),
        ("▁", "lam"),
        ("▁", "▁"),
        ("e", "n"),
    ];
    let mut tokens: Vec<String> = ["<unk>", "</s>", "▁"].map(str::to_owned).into();
    tokens.extend("abcdefghilmnopstuEÜï,.'!:1234567".chars().map(String::from));
    tokens.extend(merges.iter().map(|(one, other)| format!("{one}{other}")));
    let vocabulary: serde_json::Map<String, Value> =
        tokens.into_iter().enumerate().map(|(id, token)| (token, json!(id))).collect();
    let added = |content: &str, id: u32| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    json!({
        "version": "1.0", "added_tokens": [added("<unk>", 0), added("</s>", 1)], "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "vocab": vocabulary, "merges": merges},
    })
}

/// Tokenizers with what they are called here, and how they may be cut.
static CUTTABLE: LazyLock<Vec<(String, Tokenizer)>> = LazyLock::new(|| {
    let bpe = trained(Algorithm::Bpe);
    let whole = byte_level(false, false);
    let regex = |pattern: &str| split(json!({"Regex": pattern}), "Isolated");
    let mut files = vec![
        ("GPT-2".to_owned(), bpe.clone()),
        (
            "GPT-2 that begins with a blank".to_owned(),
            with(bpe.clone(), &[("pre_tokenizer", byte_level(true, true))]),
        ),
        ("a lower-case GPT-2".to_owned(), with(bpe.clone(), &[("normalizer", json!({"type": "Lowercase"}))])),
        (
            "StarCoder".to_owned(),
            with(
                bpe.clone(),
                &[(
                    "pre_tokenizer",
                    rules(&[json!({"type": "Digits", "individual_digits": true}), byte_level(true, false)]),
                )],
            ),
        ),
        (
            "BERT".to_owned(),
            serde_json::from_str(include_str!("../../../fixtures/tokenizers/tokenizer.json")).unwrap(),
        ),
        ("words".to_owned(), trained(Algorithm::WordLevel)),
        (
            "XLM-R".to_owned(),
            with(
                trained(Algorithm::Unigram),
                &[
                    (
                        "normalizer",
                        normalizers(&[
                            json!({"type": "NFKC"}),
                            json!({"type": "Strip", "strip_left": false, "strip_right": true}),
                            replace(json!({"Regex": " {2,}"}), "▁"),
                        ]),
                    ),
                    (
                        "pre_tokenizer",
                        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
                                         "split": true}),
                    ),
                ],
            ),
        ),
        (
            "T5".to_owned(),
            with(
                trained(Algorithm::Unigram),
                &[
                    ("normalizer", Value::Null),
                    (
                        "pre_tokenizer",
                        rules(&[
                            json!({"type": "WhitespaceSplit"}),
                            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}),
                        ]),
                    ),
                ],
            ),
        ),
        (
            "Llama 2".to_owned(),
            sentence_piece(
                normalizers(&[
                    json!({"type": "Prepend", "prepend": "▁"}),
                    replace(json!({"String": " "}), "▁"),
                ]),
                Value::Null,
            ),
        ),
        (
            "Mistral".to_owned(),
            sentence_piece(
                Value::Null,
                json!({"type": "Metaspace", "replacement": "▁",
                "prepend_scheme": "first", "split": false}),
            ),
        ),
        (
            "Gemma".to_owned(),
            sentence_piece(
                replace(json!({"String": " "}), "▁"),
                split(json!({"String": " "}), "MergedWithPrevious"),
            ),
        ),
    ];
    for (name, patterns) in Splits::patterns() {
        let mut steps: Vec<Value> = patterns.iter().map(|pattern| regex(pattern)).collect();
        steps.push(whole.clone());
        files.push((name.to_owned(), with(bpe.clone(), &[("pre_tokenizer", rules(&steps))])));
    }
    let read = |file: &Value| Tokenizer::from_json("tokenizer.json", &file.to_string()).unwrap();
    files.iter().map(|(name, file)| (name.clone(), read(file))).collect()
});

/// What a text is made of: what parts words and does not, what a normaliser takes away, parts or composes, tokens that are
/// found before there are words.
const PIECES: [&str; 26] = [
    "lamp", "the", "Ü", "naïve", "Где", " ", " ", " ", "  ", "\n", "\n", "\r\n", "\n\n", "\t", "1", "345",
    "'s", ", ", "...", "</s>", "[SEP]", "▁", "\u{301}", "e\u{301}", "灯", "\u{3000}",
];

fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    words::encode(&tokenizer.inner, text, OffsetType::None, NEVER).unwrap().get_ids().to_vec()
}

#[test]
fn the_tokenizers_here_are_cuttable() {
    for (name, tokenizer) in &*CUTTABLE {
        assert_ne!(tokenizer.cuts, Cuts::Nowhere, "{name}");
        let text = "lamp the lamp\n".repeat(20_000);
        assert!(tokenizer.cuts.pieces(&text).count() > 3, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// At every place where a text may be cut.
    #[test]
    fn cutting_changes_no_id(some in prop::collection::vec(0usize..PIECES.len(), 1..50)) {
        let text: String = some.iter().map(|&at| PIECES[at]).collect();
        for (name, tokenizer) in &*CUTTABLE {
            let whole = ids(tokenizer, &text);
            let mut from = 0;
            while let Some((piece, rest)) = tokenizer.cuts.cut(&text, from) {
                let parts = [ids(tokenizer, piece), ids(tokenizer, rest)].concat();
                prop_assert_eq!(&parts, &whole, "{}: {:?} {:?}", name, piece, rest);
                from = text.len() - rest.len() + 1;
            }
        }
    }
}

#[test]
fn what_may_look_at_the_whole_text_is_cut_nowhere() {
    let bpe = trained(Algorithm::Bpe);
    let added = |content: &str, id: usize, rstrip: bool| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": rstrip,
               "normalized": false, "special": false})
    };
    let size = bpe["model"]["vocab"].as_object().unwrap().len();
    let crossing = {
        let mut file = sentence_piece(replace(json!({"String": " "}), "▁"), Value::Null);
        let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
        let id = vocabulary.len();
        vocabulary.insert("e▁".to_owned(), json!(id));
        file
    };
    for (name, file) in [
        ("no rule", with(bpe.clone(), &[("pre_tokenizer", byte_level(false, false))])),
        (
            "a rule of its own",
            with(bpe.clone(), &[("pre_tokenizer", split(json!({"Regex": "lamp"}), "Isolated"))]),
        ),
        (
            "what strips the beginning",
            with(
                bpe.clone(),
                &[("normalizer", json!({"type": "Strip", "strip_left": true, "strip_right": false}))],
            ),
        ),
        ("an expression", with(bpe.clone(), &[("normalizer", replace(json!({"Regex": "^a"}), "b"))])),
        (
            "a token of two words",
            with(bpe.clone(), &[("added_tokens", json!([added("a lamp", size, false)]))]),
        ),
        (
            "a token that takes blanks",
            with(bpe.clone(), &[("added_tokens", json!([added("lamp", size, true)]))]),
        ),
        ("a token behind a word's end", crossing),
    ] {
        let tokenizer = Tokenizer::from_json("tokenizer.json", &file.to_string()).unwrap();
        assert_eq!(tokenizer.cuts, Cuts::Nowhere, "{name}");
    }
}
