//! `lanthorn tokenize`: text to ids.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lanthorn_io::Tokenizer;

use super::failure::Result;
use super::input;

/// Show how a tokenizer cuts a text.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lanthorn tokenize --tokenizer out/tokenizer.json \"Hello, world\"
  lanthorn tokenize --tokenizer out/tokenizer.json --file book.txt --count
  echo hello | lanthorn tokenize --tokenizer out/tokenizer.json")]
pub struct Tokenize {
    /// The tokenizer.json to use
    #[arg(long, value_name = "FILE")]
    tokenizer: PathBuf,
    /// The text; without it and without --file, standard input is read
    text: Option<String>,
    /// Read the text from this UTF-8 file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Print only how many tokens and bytes there are
    #[arg(long)]
    count: bool,
}

impl Tokenize {
    pub fn run(self) -> Result<ExitCode> {
        let tokenizer = Tokenizer::load(&self.tokenizer)?;
        let text = match (&self.text, &self.file) {
            (Some(text), _) => text.clone(),
            (None, Some(file)) => input::file(file)?,
            (None, None) => input::standard_input()?,
        };
        let ids = tokenizer.encode(&text)?;
        let mut out = std::io::stdout().lock();
        if self.count {
            writeln!(out, "{} tokens, {} bytes", ids.len(), text.len())?;
            return Ok(ExitCode::SUCCESS);
        }
        for id in ids {
            writeln!(out, "{id}\t{}", tokenizer.token(id).unwrap_or_default())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
