//! Ids are held against llama.cpp's; see `fixtures/gguf/tokens.py`.

use super::*;
use crate::gguf::Value;
use crate::tokenizer::SpecialTokens;
use proptest::prelude::*;
use serde_json::Value as Json;
use std::sync::LazyLock;

static EXPECTED: LazyLock<Json> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../fixtures/gguf/tokens.json")).unwrap());

fn strings(list: &Json) -> Vec<String> {
    serde_json::from_value(list.clone()).unwrap()
}

fn id_lists(lists: &Json) -> Vec<Vec<u32>> {
    serde_json::from_value(lists.clone()).unwrap()
}

/// The metadata of one of the fixture's vocabularies.
fn metadata(model: &str) -> Metadata {
    let vocabulary = &EXPECTED[model];
    let mut metadata = Metadata::new("model.gguf");
    metadata.insert(MODEL, model);
    metadata.insert(TOKENS, strings(&vocabulary["tokens"]));
    metadata.insert(TYPES, serde_json::from_value::<Vec<i32>>(vocabulary["types"].clone()).unwrap());
    match model {
        "gpt2" => metadata.insert(MERGES, strings(&vocabulary["merges"])),
        _ => {
            metadata.insert(SCORES, serde_json::from_value::<Vec<f32>>(vocabulary["scores"].clone()).unwrap())
        }
    };
    metadata
}

fn check(tokenizer: &Tokenizer, ids: &Json, what: &str) {
    let (texts, ids) = (strings(&EXPECTED["texts"]), id_lists(ids));
    assert_eq!(texts.len(), ids.len());
    for (text, ids) in texts.iter().zip(&ids) {
        assert_eq!(&tokenizer.encode(text).unwrap(), ids, "{what}: {text:?}");
    }
}

#[test]
fn every_way_to_split_gives_the_ids_of_llama_cpp() {
    for (pre, ids) in EXPECTED["gpt2"]["ids"].as_object().unwrap() {
        let mut metadata = metadata("gpt2");
        metadata.insert(PRE, pre.as_str());
        let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
        check(&tokenizer, ids, pre);
        for text in strings(&EXPECTED["texts"]) {
            let ids = tokenizer.encode(&text).unwrap();
            assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).unwrap(), text, "{pre}");
        }
    }
    let missing = Tokenizer::from_gguf(&metadata("gpt2")).unwrap();
    check(&missing, &EXPECTED["gpt2"]["ids"]["default"], "no way to split");
}

#[test]
fn a_vocabulary_of_sentence_piece_gives_the_ids_of_llama_cpp() {
    let tokenizer = Tokenizer::from_gguf(&metadata("llama")).unwrap();
    check(&tokenizer, &EXPECTED["llama"]["ids"], "llama");
    for text in strings(&EXPECTED["texts"]) {
        // After a special token a text begins anew, with a blank that decoding cannot tell from the text's own.
        if !text.contains("<|") {
            let ids = tokenizer.encode(&text).unwrap();
            assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).unwrap(), text);
            let mut stream = tokenizer.stream(SpecialTokens::Keep);
            let mut streamed: String = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
            streamed.push_str(&stream.finish().unwrap());
            assert_eq!(streamed, text);
        }
    }
}

#[test]
fn special_tokens_are_skipped_and_user_defined_ones_kept() {
    for model in ["gpt2", "llama"] {
        let tokenizer = Tokenizer::from_gguf(&metadata(model)).unwrap();
        let ids = tokenizer.encode("<|im_start|>the<|tool|>the<|im_end|>").unwrap();
        let text = tokenizer.decode(&ids, SpecialTokens::Skip).unwrap();
        assert_eq!(text.replace(' ', ""), "the<|tool|>the", "{model}");
        assert_eq!(ids.first().copied(), tokenizer.id("<|im_start|>"), "{model}");
    }
}

#[test]
fn a_tokenizer_of_a_file_is_one_of_ours() {
    for model in ["gpt2", "llama"] {
        let tokenizer = Tokenizer::from_gguf(&metadata(model)).unwrap();
        let again = Tokenizer::from_json("tokenizer.json", tokenizer.to_json()).unwrap();
        for text in strings(&EXPECTED["texts"]) {
            assert_eq!(again.encode(&text).unwrap(), tokenizer.encode(&text).unwrap(), "{model}: {text:?}");
        }
    }
}

#[test]
fn roles_are_the_files_or_the_formats_own() {
    let mut bytes = metadata("gpt2");
    let none = Roles::from_gguf(&bytes).unwrap();
    assert_eq!((none.begin, none.end, none.add_begin), (None, None, false));
    assert_eq!(none.ends, [0, 2], "known by their texts");

    bytes.insert(PRE, "llama-bpe");
    assert!(!Roles::from_gguf(&bytes).unwrap().add_begin);
    bytes.insert("tokenizer.ggml.bos_token_id", 1u32);
    bytes.insert("tokenizer.ggml.eot_token_id", 3u32);
    let roles = Roles::from_gguf(&bytes).unwrap();
    assert_eq!((roles.begin, roles.add_begin, roles.ends), (Some(1), true, vec![0, 2, 3]));
    bytes.insert("tokenizer.ggml.add_bos_token", false);
    assert!(!Roles::from_gguf(&bytes).unwrap().add_begin);

    let pieces = Roles::from_gguf(&metadata("llama")).unwrap();
    assert_eq!((pieces.begin, pieces.end, pieces.unknown), (Some(1), Some(2), Some(0)));
    assert!(pieces.add_begin && !pieces.add_end && pieces.ends.contains(&2));
}

#[test]
fn a_vocabulary_that_contradicts_itself_is_refused_with_the_reason() {
    let with = |model: &str, key: &str, value: Value| {
        let mut metadata = metadata(model);
        metadata.insert(key, value);
        metadata
    };
    let owned = |texts: &[&str]| Value::from(texts.iter().map(|text| text.to_string()).collect::<Vec<_>>());
    let mut no_merges = Metadata::new("model.gguf");
    no_merges.insert(MODEL, "gpt2");
    no_merges.insert(TOKENS, owned(&["a", "b"]));
    let long = "x".repeat(100_000);
    // Each token of one letter is made of two in as many ways as it is long.
    let mut many = metadata("llama");
    let tokens: Vec<String> = (1..=200).map(|length| "a".repeat(length)).collect();
    many.insert(SCORES, vec![0.0f32; tokens.len()]);
    many.insert(TYPES, vec![1i32; tokens.len()]);
    many.insert(TOKENS, tokens);
    let mut endless = metadata("llama");
    endless.insert(SCORES, vec![0.0f32]);
    endless.insert(TYPES, vec![1i32]);
    endless.insert(TOKENS, owned(&[&long]));

    for (metadata, reason) in [
        (Metadata::new("model.gguf"), "the metadata `tokenizer.ggml.tokens` is missing"),
        (with("gpt2", MODEL, "bert".into()), "`tokenizer.ggml.model` is `bert`; `gpt2` and `llama` are read"),
        (with("gpt2", MODEL, 3u32.into()), "`tokenizer.ggml.model` is of type u32; a string would be right"),
        (
            with("gpt2", PRE, "magic".into()),
            "`tokenizer.ggml.pre` is `magic`; known are default, gpt-2, smollm,",
        ),
        (with("gpt2", TOKENS, owned(&[])), "`tokenizer.ggml.tokens` has 0 entries"),
        (
            with("gpt2", TYPES, vec![1i32; 3].into()),
            "`tokenizer.ggml.token_type` has 3 entries; one for each of",
        ),
        (
            with("gpt2", MERGES, owned(&["t"])),
            "`tokenizer.ggml.merges` has `t` at 0; two tokens that make a third",
        ),
        (with("gpt2", MERGES, owned(&["t h", "t 🏮"])), "has `t 🏮` at 1"),
        (with("gpt2", MERGES, owned(&[&format!("{long} t")])), "xxx...` at 0"),
        (no_merges, "`tokenizer.ggml.merges` is missing; an array of strings"),
        (with("llama", SCORES, vec![0.5f32].into()), "`tokenizer.ggml.scores` has 1 entries"),
        (many, "more than 16 ways to make each token from two"),
        (endless, "has a token of 100000 bytes at 0"),
    ] {
        let error = Tokenizer::from_gguf(&metadata).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("model.gguf: ") && message.contains(reason),
            "{message}\nshould say: {reason}"
        );
        assert!(message.len() < 500, "{message}");
    }

    let mut tokens = strings(&EXPECTED["gpt2"]["tokens"]);
    tokens[9] = tokens[7].clone();
    let twice = Tokenizer::from_gguf(&with("gpt2", TOKENS, tokens.into())).unwrap_err().to_string();
    assert!(twice.contains("at 7 and at 9; tokens must be unique"), "{twice}");

    for (key, value, reason) in [
        ("tokenizer.ggml.eos_token_id", Value::from(9_999u32), "is 9999; there are"),
        ("tokenizer.ggml.eos_token_id", Value::from(-1i32), "is -1; an unsigned integer"),
        ("tokenizer.ggml.add_bos_token", Value::from(true), "is true; there is no such token in the file"),
    ] {
        let message = Roles::from_gguf(&with("gpt2", key, value)).unwrap_err().to_string();
        assert!(message.contains(&format!("`{key}` {reason}")), "{message}\nshould say: {reason}");
    }
}

#[test]
fn a_token_without_a_text_keeps_its_number() {
    let mut metadata = metadata("gpt2");
    let mut tokens = strings(&EXPECTED["gpt2"]["tokens"]);
    let count = tokens.len();
    tokens.extend([String::new(), String::new(), "<|last|>".to_owned()]);
    let mut types: Vec<i32> = serde_json::from_value(EXPECTED["gpt2"]["types"].clone()).unwrap();
    types.extend([UNKNOWN, NORMAL, CONTROL]);
    metadata.insert(TOKENS, tokens);
    metadata.insert(TYPES, types);
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    assert_eq!(tokenizer.vocab_size(), count + 3);
    assert_eq!(tokenizer.encode("<|last|>").unwrap(), [count as u32 + 2]);
}

proptest! {
    /// Whatever a file says, the answer is a tokenizer or an error, and a tokenizer takes any text and any id.
    #[test]
    fn an_arbitrary_vocabulary_never_panics(
        model in prop::sample::select(vec!["gpt2", "llama"]),
        pre in prop::sample::select(vec!["gpt-2", "llama-bpe", "deepseek-v3"]),
        tokens in prop::collection::hash_set("(<0x[0-9A-F]{2}>|[abĠ▁é <>]{0,4})", 1..16),
        types in prop::collection::vec(0i32..8, 16),
        scores in prop::collection::vec(any::<f32>(), 16),
        merges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
        valid in prop::bool::weighted(0.8),
    ) {
        let tokens: Vec<String> = tokens.into_iter().collect();
        let mut metadata = Metadata::new("arbitrary");
        let merges: Vec<String> = merges
            .iter()
            .map(|(left, right)| (left.get(&tokens).as_str(), right.get(&tokens).as_str()))
            .filter(|(left, right)| !valid || tokens.contains(&format!("{left}{right}")))
            .map(|(left, right)| format!("{left} {right}"))
            .collect();
        metadata.insert(MODEL, model);
        metadata.insert(PRE, pre);
        metadata.insert(MERGES, merges);
        metadata.insert(TYPES, types[..tokens.len()].to_vec());
        metadata.insert(SCORES, scores[..tokens.len()].to_vec());
        metadata.insert(TOKENS, tokens);
        let _ = Roles::from_gguf(&metadata);
        if let Ok(tokenizer) = Tokenizer::from_gguf(&metadata) {
            for text in ["", "ab ba é<a>\n", "aaaa  🏮"] {
                if let Ok(ids) = tokenizer.encode(text) {
                    prop_assert!(tokenizer.decode(&ids, SpecialTokens::Keep).is_ok());
                }
            }
            let _ = tokenizer.decode(&[0, 1, 2, 3, 99], SpecialTokens::Skip);
        }
    }
}
