//! `lanthorn run`: let a model from a GGUF file or a folder of Hugging Face answer.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use lanthorn_io::chat::Message;
use lanthorn_llm::GenerationOptions;
use serde_json::json;

use super::choosing::Choosing;
use super::failure::{Failure, Result};
use super::machine::Machine;
use super::numbers::count;
use super::pretrained::Chosen;
use super::stream::Written;
use super::trace::Trace;
use super::{input, interrupt, stream};

/// Let a model from a GGUF file or a folder of Hugging Face answer.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lanthorn run model.gguf -p \"Why is the sky blue?\"
  lanthorn run model.gguf -p \"Why is the sky blue?\" --system \"Answer in one sentence.\" --temperature 0
  lanthorn run folder --raw -p \"Once upon a time\"
  lanthorn run model.gguf < question.txt")]
pub struct Run {
    #[command(flatten)]
    chosen: Chosen,
    /// What is asked; without it, standard input is read
    #[arg(short, long, value_name = "TEXT")]
    prompt: Option<String>,
    /// What the model is told before the prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Let the model write on from the prompt as it is, without its chat template
    #[arg(long)]
    raw: bool,
    /// The most tokens to write
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = count)]
    max_tokens: usize,
    #[command(flatten)]
    choosing: Choosing,
    /// Tell afterwards, on standard error, how long reading the prompt and writing took: in a sentence, or as JSON
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    timings: Option<Timings>,
    #[command(flatten)]
    trace: Trace,
    #[command(flatten)]
    machine: Machine,
}

impl Run {
    pub fn run(self) -> Result<ExitCode> {
        self.machine.apply()?;
        self.trace.around(&super::device(), &[], || self.write())
    }

    fn write(&self) -> Result<ExitCode> {
        let begin = Instant::now();
        let sampling = self.choosing.sampling()?;
        let (model, texts) = self.chosen.open()?;
        let question = self.question()?;
        let prompt = match (&texts.template, &self.system) {
            (None, Some(_)) => {
                return Err(Failure::request_with(
                    format!("{} has no chat template, so --system has no place", self.chosen.model.display()),
                    "put all into the prompt",
                ));
            }
            _ if self.raw => texts.raw(&question)?,
            (_, system) => {
                let system = system.iter().map(|text| Message::new("system", text));
                texts.chat(&system.chain([Message::new("user", question)]).collect::<Vec<_>>())?
            }
        };
        if prompt.is_empty() {
            return Err(Failure::request("the prompt is empty; it must hold at least one character"));
        }
        let options = GenerationOptions { max_tokens: self.max_tokens, sampling, stop: texts.ends.clone() };
        let config = self.chosen.config(&model)?;
        self.chosen.check_length(&prompt, config.context)?;
        let generator = self.chosen.generator(&model, config)?;
        let cancel = interrupt::during();
        let mut generation = generator.generate(&prompt, options, &cancel)?;
        let loaded = begin.elapsed();
        let mut out = std::io::stdout().lock();
        let written = stream::write(&mut out, &mut generation, &texts.tokenizer)?;
        if let Some(form) = self.timings {
            timings(form, prompt.len(), loaded, &written)?;
        }
        Ok(written.code)
    }

    fn question(&self) -> Result<String> {
        match &self.prompt {
            Some(prompt) => Ok(prompt.clone()),
            None => input::standard_input(),
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Timings {
    Text,
    Json,
}

/// Says on standard error what took how long.
fn timings(form: Timings, prompt: usize, loaded: Duration, written: &Written) -> Result<()> {
    let (first, all) = (written.first.as_secs_f64(), written.whole.as_secs_f64());
    let later = written.tokens.saturating_sub(1);
    let mut log = std::io::stderr().lock();
    if let Timings::Json = form {
        let found = json!({
            "load_s": loaded.as_secs_f64(),
            "prompt_tokens": prompt,
            "first_token_s": first,
            "written_tokens": written.tokens,
            "tokens_per_s": f64::from(later) / (all - first),
            "peak_bytes": peak(),
        });
        writeln!(log, "{found}")?;
        return Ok(());
    }
    writeln!(
        log,
        "loaded in {:.2} s; {prompt} tokens read in {first:.2} s ({:.0}/s); {} written, {:.1}/s{}",
        loaded.as_secs_f64(),
        prompt as f64 / first,
        written.tokens,
        f64::from(later) / (all - first),
        peak().map_or(String::new(), |bytes| format!("; at most {} MiB of memory", bytes >> 20)),
    )?;
    Ok(())
}

/// The most memory that the process has had, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
