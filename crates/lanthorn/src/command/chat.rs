//! `lanthorn chat`: a conversation with a model from a GGUF file or a folder of Hugging Face.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use lanthorn_io::chat::Message;
use lanthorn_llm::GenerationOptions;

use super::choosing::Choosing;
use super::failure::{Failure, Result};
use super::pretrained::Chosen;
use super::{interrupt, stream};

/// Talk with a model from a GGUF file or a folder of Hugging Face.
#[derive(Args)]
#[command(after_help = "\
Each line is a message; an empty line is passed over. /reset begins anew, /exit or the end of input (Ctrl-D) ends.
Ctrl-C ends the answer that is being written, and the conversation where none is.

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
    #[arg(long, default_value_t = 1024, value_name = "N")]
    max_tokens: usize,
    #[command(flatten)]
    choosing: Choosing,
}

impl Chat {
    pub fn run(self) -> Result<ExitCode> {
        let sampling = self.choosing.sampling()?;
        let (model, texts) = self.chosen.open()?;
        if texts.template.is_none() {
            return Err(Failure::request_with(
                format!("{} has no chat template: it is a model that writes on", self.chosen.model.display()),
                "lanthorn run MODEL --raw -p TEXT lets it write on from a text",
            ));
        }
        let generator = self.chosen.generator(&model)?;
        let interrupts = interrupt::Interrupts::new()?;
        let begin: Vec<Message> = self.system.iter().map(|text| Message::new("system", text)).collect();
        let mut messages = begin.clone();
        let (mut input, mut out) = (std::io::stdin().lock(), std::io::stdout().lock());
        let is_terminal = std::io::stdin().is_terminal();
        loop {
            if is_terminal {
                write!(out, "> ")?;
                out.flush()?;
            }
            let mut line = String::new();
            let count = input.read_line(&mut line);
            let count =
                count.map_err(|error| Failure::request(format!("standard input cannot be read: {error}")))?;
            match line.trim() {
                "" if count == 0 => break,
                "" => continue,
                "/exit" => break,
                "/reset" => messages.clone_from(&begin),
                text => {
                    messages.push(Message::new("user", text));
                    let prompt = texts.chat(&messages)?;
                    let options =
                        GenerationOptions { max_tokens: self.max_tokens, sampling, stop: texts.ends.clone() };
                    let cancel = interrupts.during();
                    let mut generation = generator.generate(&prompt, options, &cancel)?;
                    let written = stream::write(&mut out, &mut generation, &texts.tokenizer)?;
                    interrupts.idle();
                    messages.push(Message::new("assistant", written.text));
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
