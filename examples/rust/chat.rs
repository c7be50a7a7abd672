//! Asks a model from a GGUF file or a folder of Hugging Face, and writes its answer as it comes.
//!
//!     cargo run --release --package lanthorn --example chat -- MODEL "Why is the sky blue?"
//!
//! `benches/peers/models.sh` fetches a small one: SmolLM2-135M-Instruct.Q4_1.gguf.

use std::io::Write;

use lanthorn::io::chat::Message;
use lanthorn::io::tokenizer::SpecialTokens;
use lanthorn::llm::{GenerationOptions, Pretrained, Sampling};
use lanthorn::prelude::*;
use lanthorn::{CancelToken, ErrorKind};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(question)) = (arguments.next(), arguments.next()) else {
        return Err(Error::new(ErrorKind::Io, "chat", "expected a model and a question"));
    };
    answer(&model, &question, 200, &mut std::io::stdout())?;
    Ok(())
}

/// Writes the answer to `out`; how many tokens it has.
fn answer(model: &str, question: &str, max_tokens: usize, out: &mut impl Write) -> Result<usize> {
    let failed = |error: std::io::Error| Error::new(ErrorKind::Io, "chat", error.to_string());
    let files = Pretrained::open(model)?;
    let texts = files.texts()?;
    // Weights that the file has packed are read as they are.
    let mut config = files.packed_config()?;
    config.context = config.context.min(2048);
    let generator = files.generator(&Device::cpu(), config)?;

    let prompt = texts.chat(&[Message::new("user", question)])?;
    let options = GenerationOptions {
        max_tokens,
        sampling: Sampling { temperature: 0.7, top_p: Some(0.9), seed: 1, ..Sampling::default() },
        stop: texts.ends.clone(),
    };
    // A token may end within a character: the stream holds back what is not complete.
    let mut stream = texts.tokenizer.stream(SpecialTokens::Skip);
    let mut count = 0;
    for token in generator.generate(&prompt, options, &CancelToken::never())? {
        write!(out, "{}", stream.push(token?)?).map_err(failed)?;
        out.flush().map_err(failed)?;
        count += 1;
    }
    writeln!(out, "{}", stream.finish()?).map_err(failed)?;
    Ok(count)
}

#[test]
fn a_model_answers() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../llm/fixtures/llama/tied");
    let mut out = Vec::new();
    assert!(answer(model, "Hi", 12, &mut out).unwrap() > 0);
    assert!(!String::from_utf8(out).unwrap().trim().is_empty());
}
