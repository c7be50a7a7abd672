//! `lanthorn run`: let a model from a GGUF file or a folder of Hugging Face answer.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use lanthorn_io::chat::Message;
use lanthorn_llm::{GenerationOptions, Pretrained, Sampling};

use super::failure::{Failure, Result};
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
    /// A .gguf file, or a folder with config.json, safetensors and tokenizer.json
    model: PathBuf,
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
    #[arg(long, default_value_t = 512, value_name = "N")]
    max_tokens: usize,
    /// The most tokens that the model sees at once; the model's own context where that is shorter
    #[arg(long, default_value_t = 4096, value_name = "N")]
    context: usize,
    /// Logits are divided by it; 0 takes the most probable token each time
    #[arg(long, default_value_t = 0.7)]
    temperature: f64,
    /// Choose among this many most probable tokens
    #[arg(long)]
    top_k: Option<usize>,
    /// Choose among the most probable tokens that together have this probability
    #[arg(long)]
    top_p: Option<f64>,
    /// Make tokens that have occurred this much less likely; 1 changes nothing
    #[arg(long, default_value_t = 1.0)]
    repetition_penalty: f64,
    /// The same seed writes the same text
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tell afterwards, on standard error, how long reading the prompt and writing took
    #[arg(long)]
    timings: bool,
    #[command(flatten)]
    trace: Trace,
}

impl Run {
    pub fn run(self) -> Result<ExitCode> {
        self.trace.around(&super::device(), || self.write())
    }

    fn write(&self) -> Result<ExitCode> {
        let model = Pretrained::open(&self.model)?;
        let mut config = model.config()?;
        config.context = config.context.min(self.context);
        let texts = model.texts()?;
        let question = self.question()?;
        let prompt = match (&texts.template, &self.system) {
            (None, Some(_)) => {
                return Err(Failure::request_with(
                    format!("{} has no chat template, so --system has no place", self.model.display()),
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
        let options = GenerationOptions {
            max_tokens: self.max_tokens,
            sampling: Sampling {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                repetition_penalty: self.repetition_penalty,
                seed: self.seed,
            },
            stop: texts.ends.clone(),
        };
        options.sampling.check()?;
        let cancel = interrupt::token()?;
        let generator = model.generator(&super::device(), config)?;
        let mut generation = generator.generate(&prompt, options, &cancel)?;
        let begin = Instant::now();
        let mut out = std::io::stdout().lock();
        let written = stream::write(&mut out, &mut generation, &texts.tokenizer)?;
        if self.timings {
            let seconds = begin.elapsed().as_secs_f64();
            let mut log = std::io::stderr().lock();
            writeln!(log, "{} tokens read and {} written in {seconds:.2} s", prompt.len(), written.tokens)?;
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
