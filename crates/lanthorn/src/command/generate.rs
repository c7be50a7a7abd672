//! `lanthorn generate`: let a trained model write.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lanthorn_llm::{GenerationOptions, Generator};
use lanthorn_nn::{CachedModel, Gpt, Snapshot};

use super::choosing::Choosing;
use super::failure::{Failure, Result};
use super::machine::Machine;
use super::numbers::count;
use super::stream::{self, Written};
use super::trace::Trace;
use super::{input, interrupt, saved};

/// Let a trained model write on from a prompt.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lanthorn generate --checkpoint out/checkpoint.safetensors --prompt \"It was\"
  lanthorn generate --checkpoint out/checkpoint.safetensors --prompt \"It was\" --temperature 0 --tokens 50
  lanthorn generate --checkpoint out/checkpoint.safetensors --prompt \"It was\" --trace trace.json
  lanthorn generate --checkpoint out/checkpoint.safetensors --prompt \"It was\" --text book.txt")]
pub struct Generate {
    /// The checkpoint of `lanthorn train`
    #[arg(long, value_name = "FILE", default_value = "out/checkpoint.safetensors")]
    checkpoint: PathBuf,
    /// The tokenizer, if it is not tokenizer.json beside the checkpoint
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// What the text begins with
    #[arg(long, default_value = "The")]
    prompt: String,
    /// How many tokens to write
    #[arg(long, default_value_t = 200, value_parser = count)]
    tokens: usize,
    #[command(flatten)]
    choosing: Choosing,
    /// Tell afterwards which share of the written words occur in this text
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    #[command(flatten)]
    trace: Trace,
    #[command(flatten)]
    machine: Machine,
}

impl Generate {
    pub fn run(self) -> Result<ExitCode> {
        self.machine.apply()?;
        self.trace.around(&super::device(), &[], || self.write())
    }

    fn write(&self) -> Result<ExitCode> {
        let book = self.text.as_deref().map(input::file).transpose()?;
        let sampling = self.choosing.sampling()?;
        let snapshot = Snapshot::load(&self.checkpoint)?;
        let tokenizer = saved::tokenizer(&self.checkpoint, &snapshot, self.tokenizer.as_deref())?;
        let prompt = tokenizer.encode(&self.prompt)?;
        if prompt.is_empty() {
            return Err(Failure::request("the prompt is empty; it must hold at least one character"));
        }
        let options = GenerationOptions { max_tokens: self.tokens, sampling, stop: Vec::new() };
        let checkpoint = self.checkpoint.display();
        let generator: Generator<Gpt> = Generator::from_snapshot(&super::device(), &snapshot)?;
        let generator = generator.named(checkpoint.to_string());
        let (tokens, known) = (tokenizer.vocab_size(), generator.model().vocab());
        if tokens > known {
            return Err(Failure::request(format!(
                "the tokenizer has {tokens} tokens, and the model in {checkpoint} knows {known}; \
                 the one that it was trained with would be right"
            )));
        }
        let context = generator.model().context();
        if prompt.len() > context {
            return Err(Failure::request(format!(
                "the prompt has {} tokens, and the context of {checkpoint} holds {context}; \
                 a shorter prompt would be right",
                prompt.len()
            )));
        }
        let cancel = interrupt::during();
        let mut generation = generator.generate(&prompt, options, &cancel)?;
        let mut out = std::io::stdout().lock();
        write!(out, "{}", self.prompt)?;
        let Written { text: written, tokens: count, whole, code, .. } =
            stream::write(&mut out, &mut generation, &tokenizer)?;
        let speed = f64::from(count) / whole.as_secs_f64();
        writeln!(out, "\n{count} tokens, {speed:.0} tokens/s")?;
        if let Some(book) = book {
            let known: HashSet<String> = words(&book).collect();
            let all: Vec<String> = words(&format!("{}{written}", self.prompt))
                .skip(words(&self.prompt).count().saturating_sub(1))
                .collect();
            let found = all.iter().filter(|word| known.contains(*word)).count();
            let share = 100.0 * found as f64 / all.len().max(1) as f64;
            writeln!(out, "{found} of {} words occur in the text ({share:.0}%)", all.len())?;
        }
        Ok(code)
    }
}

/// Runs of letters (and apostrophes within), in lower case.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphabetic() && c != '\'' && c != '’')
        .map(|word| word.trim_matches(['\'', '’']).to_lowercase())
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_runs_of_letters_in_lower_case() {
        let found: Vec<String> = words("It's \"Mr. Darcy's\" -- 12 o'clock, 'tis").collect();
        assert_eq!(found, ["it's", "mr", "darcy's", "o'clock", "tis"]);
    }
}
