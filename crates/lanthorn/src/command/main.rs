//! The `lanthorn` command: `train`, `generate`, `run`, `chat`, `embed`, `tokenize`, `inspect`, `bench`.
//!
//! Each subcommand is one file with its flags, its help and what it does. What goes wrong is one sentence on
//! standard error and an exit code that is not 0.

mod bench;
mod chart;
mod chat;
mod choosing;
mod embed;
mod failure;
mod generate;
mod input;
mod inspect;
mod interrupt;
mod pretrained;
mod run;
mod saved;
mod stream;
mod tokenize;
mod trace;
mod train;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lanthorn_runtime::Device;

/// Train, run and look into language models, from one command.
#[derive(Parser)]
#[command(name = "lanthorn", version, propagate_version = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lanthorn train book.txt --out out               train a tokenizer and a small GPT on any UTF-8 text
  lanthorn train book.txt --out out --resume      go on where the last run stopped
  lanthorn generate --checkpoint out/checkpoint.safetensors --prompt \"Once upon a time\"
  lanthorn run model.gguf -p \"Why is the sky blue?\"
  lanthorn chat model.gguf
  lanthorn embed all-MiniLM-L6-v2 \"A man is eating.\" \"Somebody has a meal.\" --similarity
  lanthorn tokenize --tokenizer out/tokenizer.json \"Hello, world\"
  lanthorn inspect out/checkpoint.safetensors
  lanthorn bench";

#[derive(Subcommand)]
enum Command {
    Train(train::Train),
    Generate(generate::Generate),
    Run(run::Run),
    Chat(chat::Chat),
    Embed(embed::Embed),
    Tokenize(tokenize::Tokenize),
    Inspect(inspect::Inspect),
    Bench(bench::Bench),
}

/// The device that commands run on.
fn device() -> Device {
    lanthorn::cpu()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Train(command) => command.run(),
        Command::Generate(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Chat(command) => command.run(),
        Command::Embed(command) => command.run(),
        Command::Tokenize(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Bench(command) => command.run(),
    };
    match result {
        Ok(code) => code,
        // Whoever read the output has had enough.
        Err(failure::Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("{:?}", miette::Report::new(failure));
            ExitCode::FAILURE
        }
    }
}
