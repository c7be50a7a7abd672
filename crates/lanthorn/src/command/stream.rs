//! Tokens as text while they are generated.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lanthorn_io::Tokenizer;
use lanthorn_io::tokenizer::SpecialTokens;
use lanthorn_ir::ErrorKind;
use lanthorn_llm::Generation;
use lanthorn_nn::CachedModel;

use super::failure::Result;
use super::interrupt;

/// What a generation has written.
pub struct Written {
    pub text: String,
    pub tokens: u32,
    /// Until the first token was chosen, and until the end.
    pub first: Duration,
    pub whole: Duration,
    /// That of an interrupt, where one ended it.
    pub code: ExitCode,
}

/// Writes each token's text as soon as its characters are complete, and a line end behind the last.
pub fn write<M: CachedModel>(
    out: &mut impl Write,
    generation: &mut Generation<'_, M>,
    tokenizer: &Tokenizer,
) -> Result<Written> {
    let mut stream = tokenizer.stream(SpecialTokens::Skip);
    let begin = Instant::now();
    let mut written = Written {
        text: String::new(),
        tokens: 0,
        first: Duration::ZERO,
        whole: Duration::ZERO,
        code: ExitCode::SUCCESS,
    };
    out.flush()?;
    loop {
        let token = match generation.next_token() {
            Ok(Some(token)) => token,
            Ok(None) => break,
            Err(error) if error.kind == ErrorKind::Cancelled => {
                written.code = interrupt::code();
                break;
            }
            Err(error) => {
                writeln!(out)?;
                return Err(error.into());
            }
        };
        if written.tokens == 0 {
            written.first = begin.elapsed();
        }
        written.tokens += 1;
        let piece = stream.push(token)?;
        write!(out, "{piece}")?;
        out.flush()?;
        written.text.push_str(&piece);
    }
    written.whole = begin.elapsed();
    let rest = stream.finish()?;
    writeln!(out, "{rest}")?;
    written.text.push_str(&rest);
    Ok(written)
}
