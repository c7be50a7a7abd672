use super::cuts::PIECE;
use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

const END: &str = "<|endoftext|>";

/// A text of a few hundred words with repetitions.
fn book() -> String {
    let words = [
        "the",
        "truth",
        "universally",
        "acknowledged",
        "is",
        "naïve",
        "— “quoted”",
        "man’s",
        "fortune",
        "possession",
        "neighbourhood",
    ];
    (0..2_000)
        .map(|at: usize| {
            let separator = [" ", ", ", ".\n", " ", ".\n\n", " "][at * 7 % 6];
            format!("{}{separator}", words[(at * at + at / 3) % words.len()])
        })
        .collect()
}

static TOKENIZER: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::train_bpe([book().as_str()], 320, &[END]).unwrap());

#[test]
fn ids_are_special_tokens_then_bytes_then_merges() {
    assert_eq!(TOKENIZER.vocab_size(), 320);
    assert_eq!(TOKENIZER.id(END), Some(0));
    assert_eq!(TOKENIZER.token(1).as_deref(), Some("!"));
    assert!(TOKENIZER.token(257).unwrap().chars().count() == 2);
    assert_eq!(TOKENIZER.token(320), None);
}

#[test]
fn merges_shorten_the_text() {
    let book = book();
    assert!(TOKENIZER.encode(&book).unwrap().len() < book.len() / 3);
}

#[test]
fn the_same_text_gives_the_same_file() {
    // Ties everywhere: pairs that occur equally often, and tokens that are reached in several ways.
    let mut state = 1u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    let text: String = (0..30_000)
        .map(|_| if next() % 8 == 0 { ' ' } else { ['a', 'b', 'c'][next() as usize % 3] })
        .collect();
    let first = Tokenizer::train_bpe([text.as_str()], 1_000, &[END]).unwrap();
    assert_eq!(first.vocab_size(), 1_000);
    for _ in 0..4 {
        let again = Tokenizer::train_bpe([text.as_str()], 1_000, &[END]).unwrap();
        assert_eq!(again.to_json(), first.to_json());
        assert_eq!(again.content_hash(), first.content_hash());
    }
}

#[test]
fn a_vocabulary_is_no_larger_than_the_text_gives() {
    let tokenizer = Tokenizer::train_bpe(["abab"], 10_000, &[]).unwrap();
    assert_eq!(tokenizer.vocab_size(), 257);
    assert_eq!(Tokenizer::train_bpe([], 300, &[]).unwrap().vocab_size(), 256);
}

#[test]
fn a_vocabulary_without_room_or_a_special_token_given_twice_is_refused() {
    let message = |vocab_size, special: &[&str]| {
        Tokenizer::train_bpe(["a"], vocab_size, special).unwrap_err().to_string()
    };
    assert_eq!(
        message(100, &[END]),
        "tokenizer: a vocabulary of 100 tokens was asked for; \
         at least 257 are needed: 256 bytes and 1 special tokens"
    );
    assert!(message(300, &[END, END]).contains("given twice"));
    assert!(message(300, &[""]).contains("empty"));
}

#[test]
fn a_tokenizer_comes_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    TOKENIZER.save(&path).unwrap();
    let loaded = Tokenizer::load(&path).unwrap();
    assert_eq!(loaded.to_json(), TOKENIZER.to_json());
    assert_eq!(loaded.content_hash(), TOKENIZER.content_hash());
    assert_eq!(loaded.content_hash().len(), 64);
    let text = format!("the truth{END} — is\n\n naïve 🏮");
    assert_eq!(loaded.encode(&text).unwrap(), TOKENIZER.encode(&text).unwrap());
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/tokenizer.json");
    let message = TOKENIZER.save(&path).unwrap_err().to_string();
    assert_eq!(message, format!("cannot write {}: No such file or directory", path.display()));
    #[cfg(target_os = "linux")]
    assert_eq!(
        TOKENIZER.save("/dev/full").unwrap_err().to_string(),
        "cannot write /dev/full: No space left on device"
    );
}

#[test]
fn a_policy_that_cannot_be_followed_is_refused() {
    let tokenizer = Tokenizer::train_bpe(["aa"], 256, &[]).unwrap();
    let truncation = |max_length, stride| Truncation { stride, ..Truncation::new(max_length) };
    let cut = |truncation| Policy { truncation: Some(truncation), ..Policy::default() };
    let filled = |padding| Policy { padding: Some(padding), ..Policy::default() };
    for (policy, reason) in [
        (cut(truncation(0, 0)), "at least 1 are needed: 0 around the text and one of it"),
        (cut(truncation(4, 4)), "a stride below 4 would be right"),
        (filled(Padding::new(256)), "filled up with token 256"),
        (filled(Padding { to: PadTo::Length(usize::MAX), ..Padding::new(0) }), "lengths from 1 to 16777216"),
        (filled(Padding { multiple_of: Some(0), ..Padding::new(0) }), "lengths from 1 to 16777216"),
    ] {
        let message = tokenizer.encoder(&policy).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
        assert!(tokenizer.with_policy(policy).is_err());
    }
    // What only a text shows: a pair of which the second cannot be cut so far, and a text that has no second.
    for (strategy, input) in [
        (TruncationStrategy::OnlySecond, Input::Pair("abcdefgh", "xy")),
        (TruncationStrategy::OnlySecond, Input::One("abcdefgh")),
        (TruncationStrategy::LongestFirst, Input::Pair("abcdefgh", "ijklmnop")),
    ] {
        let policy = cut(Truncation { strategy, stride: 3, ..Truncation::new(6) });
        let message = tokenizer.encoder(&policy).unwrap().encode(input).unwrap_err().to_string();
        assert!(message.contains("of which 6 are to be left"), "{message}");
    }
}

#[test]
fn special_tokens_in_a_text_can_be_ordinary_text() {
    let text = format!("is{END}is");
    let ordinary = TOKENIZER.encoder(&Policy { in_text: InText::Ordinary, ..Policy::default() }).unwrap();
    let ids = ordinary.encode(&text).unwrap().ids;
    assert!(!ids.contains(&0));
    assert_eq!(TOKENIZER.decode(&ids, SpecialTokens::Skip).unwrap(), text);
    let special = TOKENIZER.encoder(&Policy::default()).unwrap();
    assert_eq!(special.encode(&text).unwrap().ids, TOKENIZER.encode(&text).unwrap());
}

#[test]
fn the_layout_of_the_file_does_not_change_the_hash() {
    let value: serde_json::Value = serde_json::from_str(TOKENIZER.to_json()).unwrap();
    let compact = Tokenizer::from_json("compact", &value.to_string()).unwrap();
    assert_eq!(compact.content_hash(), TOKENIZER.content_hash());
}

#[test]
fn special_tokens_are_kept_or_skipped() {
    let ids = TOKENIZER.encode(&format!("is{END}is")).unwrap();
    assert!(ids.contains(&0));
    assert_eq!(TOKENIZER.decode(&ids, SpecialTokens::Keep).unwrap(), format!("is{END}is"));
    assert_eq!(TOKENIZER.decode(&ids, SpecialTokens::Skip).unwrap(), "isis");
}

#[test]
fn an_id_outside_the_vocabulary_is_refused() {
    let message = TOKENIZER.decode(&[1, 9_999], SpecialTokens::Keep).unwrap_err().to_string();
    assert_eq!(message, "ids: there is no token 9999; ids go from 0 to 319");
    let mut stream = TOKENIZER.stream(SpecialTokens::Keep);
    assert!(stream.push(320).is_err());
    assert_eq!(stream.push(1).unwrap(), "!");
}

#[test]
fn a_file_that_is_no_tokenizer_is_refused_with_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let deep = "[".repeat(100_000);
    let model = |model: &str| format!(r#"{{"model": {model}}}"#);
    let gap = model(r#"{"type": "BPE", "vocab": {"a": 4294967295}, "merges": []}"#);
    let merges = model(r#"{"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}"#);
    for (content, reason) in [
        ("", "is empty"),
        (" \n", "is empty"),
        ("not JSON", "it is not JSON"),
        ("{\"a\": ", "it is not JSON"),
        (&deep, "it is not JSON"),
        ("[1, 2]", "there is no `model` in it"),
        ("{\"vocab_size\": 3}", "there is no `model` in it"),
        (&model("{}"), "not a tokenizer"),
        (&model(r#"{"type": "Magic"}"#), "not a tokenizer"),
        (&merges, "`model.merges` joins `a` and `b` at 0, and `b` is no token"),
        (&gap, "without large gaps"),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = Tokenizer::load(&path).unwrap_err();
        let message = error.to_string();
        assert_eq!(error.kind(), crate::ErrorKind::Format);
        assert!(message.starts_with(&path.display().to_string()), "{message}");
        assert!(message.contains(reason), "{message}\nshould say: {reason}");
        assert!(!message.contains('\n') && message.len() < 400, "{message}");
    }
}

#[test]
fn cutting_a_long_text_changes_no_id() {
    let mut text = String::new();
    for (at, end) in ["\n", "\n\n", " \n", "\n ", "\r\n", "\n—", "'s\n", "\n's", "\n\u{3000}", "é\n"]
        .iter()
        .cycle()
        .take(60_000)
        .enumerate()
    {
        text.push_str(["truth", "is", "1813", "universally"][at % 4]);
        text.push_str(end);
    }
    let cuts = TOKENIZER.cuts;
    assert!(text.len() > 4 * PIECE && cuts.pieces(&text).count() > 3);
    assert_eq!(cuts.pieces(&text).collect::<String>(), text);
    let whole = TOKENIZER.inner.encode_fast(text.as_str(), false).unwrap();
    assert_eq!(TOKENIZER.encode(&text).unwrap(), whole.get_ids());
}

#[test]
fn a_long_text_without_line_ends_is_one_piece() {
    let text = "a".repeat(3 * PIECE);
    assert_eq!(TOKENIZER.cuts.pieces(&text).collect::<Vec<_>>(), [text.as_str()]);
    assert_eq!(TOKENIZER.cuts.pieces("").count(), 0);
}

#[test]
fn the_library_decodes_as_we_do() {
    let ids: Vec<u32> = (0..320).chain((0..320).rev()).collect();
    for (special, skip) in [(SpecialTokens::Keep, false), (SpecialTokens::Skip, true)] {
        let reference = TOKENIZER.inner.decode(&ids, skip).unwrap();
        assert_eq!(TOKENIZER.decode(&ids, special).unwrap(), reference);
    }
}

#[test]
fn tokens_that_are_not_bytes_stream_too() {
    let json = r#"{"model": {"type": "WordLevel", "vocab": {"a": 0, "bc": 1, "[UNK]": 2}, "unk_token": "[UNK]"},
                   "pre_tokenizer": {"type": "Whitespace"}}"#;
    let tokenizer = Tokenizer::from_json("words", json).unwrap();
    let ids = tokenizer.encode("a bc x").unwrap();
    assert_eq!(ids, [0, 1, 2]);
    let mut stream = tokenizer.stream(SpecialTokens::Keep);
    let mut text = String::new();
    for id in ids {
        text.push_str(&stream.push(id).unwrap());
    }
    text.push_str(&stream.finish().unwrap());
    assert_eq!(text, "a bc [UNK]");
    assert!(tokenizer.stream(SpecialTokens::Keep).push(3).is_err());
}

proptest! {
    #[test]
    fn every_text_comes_back(text in any::<String>()) {
        let ids = TOKENIZER.encode(&text).unwrap();
        prop_assert_eq!(TOKENIZER.decode(&ids, SpecialTokens::Keep).unwrap(), text);
    }

    /// Also for ids that no text has, such as half a character before another.
    #[test]
    fn a_stream_gives_what_decoding_gives(ids in prop::collection::vec(0u32..320, 0..60)) {
        let mut stream = TOKENIZER.stream(SpecialTokens::Skip);
        let mut text = String::new();
        for id in &ids {
            text.push_str(&stream.push(*id).unwrap());
            prop_assert!(stream.pending_bytes() <= 3);
        }
        text.push_str(&stream.finish().unwrap());
        prop_assert_eq!(text, TOKENIZER.decode(&ids, SpecialTokens::Skip).unwrap());
    }
}
