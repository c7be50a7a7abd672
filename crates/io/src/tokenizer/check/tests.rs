use super::EXPECTED;
use crate::tokenizer::{Input, Policy, SpecialTokens, Tokenizer};
use serde_json::{Value, json};

/// A file of a byte-level BPE.
fn bpe() -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [added("<s>", 0)],
        "normalizer": null,
        "pre_tokenizer": null,
        "post_processor": null,
        "decoder": null,
        "model": {
            "type": "BPE",
            "continuing_subword_prefix": null,
            "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "##b": 4},
            "merges": [["a", "b"]],
        },
    })
}

fn added(content: &str, id: u32) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
           "normalized": false, "special": true})
}

/// The error of a file in which a field has another value.
fn refusal(changes: &[(&str, Value)]) -> String {
    let mut file = bpe();
    for (field, value) in changes {
        let (parent, name) = field.rsplit_once('/').unwrap();
        file.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    Tokenizer::from_json("t.json", &file.to_string()).unwrap_err().to_string()
}

/// Also of the older form, a line for each.
#[test]
fn merges_that_make_no_token_are_refused() {
    for (changes, right) in [
        (
            vec![("/model/merges", json!([["a", "b"], ["ab", "ab"]]))],
            "`model.merges` joins `ab` and `ab` at 1, and `abab` is no token; \
             a pair that makes a token of `model.vocab` would be right",
        ),
        (
            vec![("/model/merges", json!(["#version: 0.2", "ab ab"]))],
            "`model.merges` joins `ab` and `ab` at 1, and `abab` is no token; \
             a pair that makes a token of `model.vocab` would be right",
        ),
        (
            vec![("/model/merges", json!([["a", "c"]]))],
            "`model.merges` joins `a` and `c` at 0, and `c` is no token; \
             tokens of `model.vocab` would be right",
        ),
        (
            vec![("/model/continuing_subword_prefix", json!("###"))],
            "`model.merges` joins `a` and `b` at 0, and `model.continuing_subword_prefix` is `###`; \
             a second token that begins with it would be right",
        ),
        // Half a character is none.
        (
            vec![
                ("/model/continuing_subword_prefix", json!("#")),
                ("/model/merges", json!([["a", "é"]])),
                ("/model/vocab", json!({"<s>": 0, "a": 1, "é": 2})),
            ],
            "`model.merges` joins `a` and `é` at 0, and `model.continuing_subword_prefix` is `#`; \
             a second token that begins with it would be right",
        ),
        (
            vec![("/model/type", Value::Null), ("/model/merges", json!([["ab", "ab"]]))],
            "`model.merges` joins `ab` and `ab` at 0, and `abab` is no token; \
             a pair that makes a token of `model.vocab` would be right",
        ),
    ] {
        assert_eq!(refusal(&changes), format!("t.json: {right}"));
    }
    // The prefix is left out of what two tokens make.
    let mut file = bpe();
    file["model"]["continuing_subword_prefix"] = json!("##");
    file["model"]["merges"] = json!([["a", "##b"]]);
    let tokenizer = Tokenizer::from_json("t.json", &file.to_string()).unwrap();
    assert_eq!(tokenizer.encode("ab").unwrap(), [3]);
}

#[test]
fn rules_that_no_text_can_be_read_by_are_refused() {
    let inside = |list: &str, rule: Value| json!({"type": "Sequence", list: [rule]});
    let none = json!({"type": "FixedLength", "length": 0});
    let right = "`pre_tokenizer` splits a text after every 0 characters (`FixedLength.length`); \
                 a length of at least 1 would be right";
    assert_eq!(refusal(&[("/pre_tokenizer", none.clone())]), format!("t.json: {right}"));
    assert_eq!(refusal(&[("/pre_tokenizer", inside("pretokenizers", none))]), format!("t.json: {right}"));

    let nothing = json!({"type": "Prepend", "prepend": ""});
    let right = "`normalizer` puts nothing before a text (`Prepend.prepend`); \
                 at least one character would be right";
    assert_eq!(refusal(&[("/normalizer", inside("normalizers", nothing))]), format!("t.json: {right}"));

    let kept = json!({"type": "Split", "pattern": {"Regex": r"(?=a\K)"}, "behavior": "Isolated",
                      "invert": false});
    assert_eq!(
        refusal(&[("/pre_tokenizer", kept)]),
        r"t.json: `pre_tokenizer` has the expression `(?=a\K)`, whose `\K` moves where a match begins; a look-behind, `(?<=...)`, would be right"
    );
    let first = json!({"type": "Replace", "pattern": {"Regex": "^"}, "content": "_"});
    let right = "t.json: `normalizer` has \"_\" for nothing at the beginning (`Replace`); \
                 `Prepend`, or a pattern that matches at least one character, would be right";
    let lower = json!({"type": "Lowercase"});
    let both = json!({"type": "Sequence", "normalizers": [first.clone(), lower]});
    assert_eq!(refusal(&[("/normalizer", both)]), right);
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
    assert_eq!(refusal(&[("/normalizer", first.clone()), ("/pre_tokenizer", bytes)]), right);
    // Where nothing counts behind it, the library has its way.
    let mut file = bpe();
    file["normalizer"] = json!({"type": "Replace", "pattern": {"Regex": "^"}, "content": "a"});
    assert_eq!(Tokenizer::from_json("t", &file.to_string()).unwrap().encode("b").unwrap(), [3]);

    // A backslash and a K.
    let mut file = bpe();
    file["normalizer"] = json!({"type": "Replace", "pattern": {"Regex": r"\\K"}, "content": "a"});
    assert_eq!(Tokenizer::from_json("t", &file.to_string()).unwrap().encode(r"\K").unwrap(), [1]);
}

/// A table in which `A` becomes the text that begins at byte `text` of those texts.
fn table(text: u32, texts: &[u8]) -> Vec<u8> {
    let mut units = vec![0_u32; 768];
    units[0] = 256 << 10;
    units[256 ^ 0x41] = (256 ^ 0x41 ^ 512) << 10 | 1 << 8 | 0x41;
    units[512] = 1 << 31 | text;
    let tree: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    [&(tree.len() as u32).to_le_bytes()[..], &tree, texts].concat()
}

fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |bytes: &[u8]| -> String {
        let bits = bytes.iter().chain([&0; 2]).take(3).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let sign = |at: usize| SIGNS[(bits >> (18 - 6 * at) & 63) as usize] as char;
        (0..4).map(|at| if at <= bytes.len() { sign(at) } else { '=' }).collect()
    };
    bytes.chunks(3).map(group).collect()
}

#[test]
fn a_table_of_characters_leads_nowhere_but_to_its_texts() {
    let normalizer = |table: Value| json!({"type": "Precompiled", "precompiled_charsmap": table});
    let mut file = bpe();
    file["normalizer"] = normalizer(json!(base64(&table(2, "x\0b\0".as_bytes()))));
    let tokenizer = Tokenizer::from_json("t.json", &file.to_string()).unwrap();
    assert_eq!(tokenizer.encode("aA").unwrap(), [3]);

    let mut out_of_itself = table(0, b"b\0");
    out_of_itself[4..8].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    let mut endless = table(0, b"b\0");
    endless[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let text = |bytes: &[u8]| json!(base64(bytes));
    for (table, found) in [
        (json!(7), "it is no text"),
        (json!("!!"), "it is not base64"),
        (json!("A"), "it is not base64"),
        (json!(""), "it has 0 bytes"),
        (text(&[0, 0, 0]), "it has 3 bytes"),
        (text(&endless), "its tree should have 4294967292 bytes, and 3074 are there"),
        (text(&table(0, b"\xFF\0")), "what characters become is not UTF-8"),
        (text(&[0, 0, 0, 0]), "its tree points out of the table"),
        (text(&out_of_itself), "its tree points out of the table"),
        (text(&table(3, b"b\0")), "its tree points out of the table"),
        // In the middle of a character.
        (text(&table(1, "é\0".as_bytes())), "its tree points out of the table"),
    ] {
        let right = format!(
            "t.json: `normalizer.precompiled_charsmap`: {found}; \
             the table that SentencePiece has written would be right"
        );
        assert_eq!(refusal(&[("/normalizer", normalizer(table.clone()))]), right);
        let inside = json!({"type": "Sequence", "normalizers": [normalizer(table)]});
        assert_eq!(refusal(&[("/normalizer", inside)]), right);
    }
}

/// The Python package gives such tokens other ids without a word; see `added.rs`.
#[test]
fn an_added_token_has_the_id_that_its_file_gives_it() {
    for (tokens, right) in [
        (
            vec![added("<s>", 0), added("<end>", 10)],
            "`added_tokens` gives `<end>` the id 10, where its id would be 5",
        ),
        (
            vec![added("<x>", 6), added("<y>", 5)],
            "`added_tokens` gives `<x>` the id 6, where its id would be 5",
        ),
        (vec![added("b", 7)], "`added_tokens` gives `b` the id 7, where its id would be 2"),
        (
            vec![added("<x>", 5), added("<x>", 6)],
            "`added_tokens` gives `<x>` the id 6, where its id would be 5",
        ),
    ] {
        let right = format!(
            "t.json: {right}; ids of the vocabulary, or the next ones after it in their order, would be right"
        );
        assert_eq!(refusal(&[("/added_tokens", json!(tokens))]), right);
    }
    let mut file = bpe();
    file["added_tokens"] = json!([added("b", 2), added("<x>", 5), added("<y>", 6)]);
    let tokenizer = Tokenizer::from_json("t", &file.to_string()).unwrap();
    assert_eq!(tokenizer.encode("<y>b<x>").unwrap(), [6, 2, 5]);

    let (mut white, mut other) = (added(" ", 5), added("<x>", 6));
    white["lstrip"] = json!(true);
    other["rstrip"] = json!(true);
    assert!(
        refusal(&[("/added_tokens", json!([white, other]))]).contains("`added_tokens` has \" \", which is")
    );
}

#[test]
fn what_is_put_around_a_text_is_of_the_vocabulary() {
    let template = |ids: Value, tokens: Value| {
        json!({"type": "TemplateProcessing",
               "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
               "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
               "special_tokens": {"<s>": {"id": "<s>", "ids": ids, "tokens": tokens}}})
    };
    let place = "`post_processor.special_tokens` of `<s>`";
    let ends = |sep: u32| json!({"type": "BertProcessing", "sep": ["ab", sep], "cls": ["<s>", 0]});
    for (processor, right) in [
        (
            template(json!([99]), json!(["<s>"])),
            format!("{place} gives `<s>` the id 99, and there is no token 99; 0 would be right"),
        ),
        (
            template(json!([1]), json!(["<s>"])),
            format!("{place} gives `<s>` the id 1, and 1 is `a`; 0 would be right"),
        ),
        (
            template(json!([0]), json!(["<bos>"])),
            format!(
                "{place} gives `<bos>` the id 0, and 0 is `<s>`; \
                 a token of the vocabulary and its id would be right"
            ),
        ),
        (
            template(json!([0, 1]), json!(["<s>"])),
            format!("{place} has 2 ids and 1 tokens; as many ids as tokens would be right"),
        ),
        (
            ends(77),
            "`post_processor.sep` gives `ab` the id 77, and there is no token 77; 3 would be right"
                .to_owned(),
        ),
        (
            json!({"type": "Sequence", "processors":
                [template(json!([0]), json!(["<s>"])), template(json!([0]), json!(["<s>"]))]}),
            "`post_processor` puts a template around what another template has made; \
             one template would be right"
                .to_owned(),
        ),
    ] {
        assert_eq!(refusal(&[("/post_processor", processor)]), format!("t.json: {right}"));
    }
    for (processor, right) in
        [(template(json!([0, 3]), json!(["<s>", "ab"])), vec![0, 3, 1]), (ends(3), vec![0, 1, 3])]
    {
        let mut file = bpe();
        file["post_processor"] = processor;
        let tokenizer = Tokenizer::from_json("t", &file.to_string()).unwrap();
        assert_eq!(tokenizer.encoder(&Policy::default()).unwrap().encode("a").unwrap().ids, right);
    }
}

/// What no check knows of is an error all the same.
#[test]
fn a_file_that_is_fit_is_read() {
    let tokenizer = Tokenizer::from_json("t", &bpe().to_string()).unwrap();
    assert_eq!(tokenizer.encode("ab<s>ba").unwrap(), [3, 0, 2, 1]);
    assert_eq!(tokenizer.decode(&[3, 0], SpecialTokens::Skip).unwrap(), "ab");
    let pair = tokenizer.encoder(&Policy::default()).unwrap().encode(Input::Pair("a", "b")).unwrap();
    assert_eq!((pair.ids, pair.type_ids), (vec![1, 2], vec![0, 1]));
    assert!(EXPECTED.contains("would be right"));
}
