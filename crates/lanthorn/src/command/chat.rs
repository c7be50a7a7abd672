//! `lanthorn chat`: a conversation with a model from a GGUF file or a folder of Hugging Face.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use lanthorn_io::chat::Message;
use lanthorn_io::text;
use lanthorn_llm::GenerationOptions;

use super::choosing::Choosing;
use super::failure::{Failure, Result};
use super::machine::Machine;
use super::numbers::count;
use super::pretrained::Chosen;
use super::trace::Trace;
use super::{interrupt, stream};

/// Talk with a model from a GGUF file or a folder of Hugging Face.
#[derive(Args)]
#[command(after_help = "\
Each line is a message; an empty line is passed over. /reset begins anew, /exit or the end of input (Ctrl-D) ends.
Ctrl-C ends the answer that is being written, and the conversation where none is. A message with which the conversation
exceeds --context is refused.

Examples:
  lanthorn chat model.gguf
  lanthorn chat model.gguf --system \"You are a pirate.\" --temperature 0.9
  printf 'Hi\\nAnd you?\\n' | lanthorn chat model.gguf --temperature 0")]
pub struct Chat {
    #[command(flatten)]
    chosen: Chosen,
    /// What the model is told before the first message
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The most tokens of an answer
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = count)]
    max_tokens: usize,
    #[command(flatten)]
    choosing: Choosing,
    #[command(flatten)]
    trace: Trace,
    #[command(flatten)]
    machine: Machine,
}

impl Chat {
    pub fn run(self) -> Result<ExitCode> {
        self.machine.apply()?;
        self.trace.around(&super::device(), &[], || self.talk())
    }

    fn talk(&self) -> Result<ExitCode> {
        let sampling = self.choosing.sampling()?;
        let (model, texts) = self.chosen.open()?;
        if texts.template.is_none() {
            return Err(Failure::request_with(
                format!("{} has no chat template: it is a model that writes on", self.chosen.model.display()),
                "lanthorn run MODEL --raw -p TEXT lets it write on from a text",
            ));
        }
        let config = self.chosen.config(&model)?;
        let context = config.context;
        let generator = self.chosen.generator(&model, config)?;
        let begin: Vec<Message> = self.system.iter().map(|text| Message::new("system", text)).collect();
        let mut messages = begin.clone();
        let (mut input, mut out) = (std::io::stdin().lock(), std::io::stdout().lock());
        let is_terminal = std::io::stdin().is_terminal();
        for number in 1u64.. {
            if is_terminal {
                write!(out, "> ")?;
                out.flush()?;
            }
            let mut line = Vec::new();
            input
                .read_until(b'\n', &mut line)
                .map_err(|cause| lanthorn_io::Error::io("read", "standard input", cause))?;
            if line.is_empty() {
                break;
            }
            let line = match text::decode(&format!("line {number} of standard input"), line) {
                Ok(line) => line,
                Err(error) => {
                    report_or_end(error.into(), is_terminal)?;
                    continue;
                }
            };
            match line.trim() {
                "" => {}
                "/exit" => break,
                "/reset" => messages.clone_from(&begin),
                text => {
                    messages.push(Message::new("user", text));
                    let prompt = texts.chat(&messages)?;
                    if let Err(failure) = self.chosen.check_length(&prompt, context) {
                        messages.pop();
                        report_or_end(failure, is_terminal)?;
                        continue;
                    }
                    let options =
                        GenerationOptions { max_tokens: self.max_tokens, sampling, stop: texts.ends.clone() };
                    let cancel = interrupt::during();
                    let mut generation = generator.generate(&prompt, options, &cancel)?;
                    let written = stream::write(&mut out, &mut generation, &texts.tokenizer)?;
                    interrupt::idle();
                    if interrupt::is_over() {
                        return Ok(interrupt::code());
                    }
                    messages.push(Message::new("assistant", written.text));
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A message that cannot be answered is told to who wrote it at a terminal, and can write another; what is piped in
/// would be answered as another conversation.
fn report_or_end(failure: Failure, is_terminal: bool) -> Result<()> {
    if !is_terminal {
        return Err(failure);
    }
    eprintln!("{:?}", miette::Report::new(failure));
    Ok(())
}
