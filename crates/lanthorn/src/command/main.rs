//! The `lanthorn` command: `train`, `generate`, `run`, `chat`, `embed`, `tokenize`, `inspect`, `bench`.
//!
//! Each subcommand is one file with its flags, its help and what it does. What goes wrong is one sentence on
//! standard error and an exit code that is not 0: 2 for arguments that are none, 1 for all else, and after a signal 128 and
//! its number, so 130 for Ctrl-C and 143 for a request to terminate.

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
mod machine;
mod numbers;
mod output;
mod pretrained;
mod run;
mod saved;
mod stream;
mod tokenize;
mod trace;
mod train;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
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
  lanthorn bench

Environment:
  LANTHORN_THREADS       threads that compute, 1 to 512; --threads goes before it
  LANTHORN_MEMORY_LIMIT  the most memory that tensors take, such as 4GiB; --memory-limit goes before it
  LANTHORN_ISA           an instruction set of this machine: scalar, neon, avx2 or avx512; else the widest
  LANTHORN_LOG           a list of graph, regions, plan, verify: prints or checks each program on standard error
  LANTHORN_CACHE         the folder of the models that `bench` measures; else ~/.cache/lanthorn";

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

/// `-1` behind an option, or as a text, is a value and no option, of which there is none by a digit.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|command| {
        command.mut_args(|argument| match argument.get_action().takes_values() {
            true => argument.allow_negative_numbers(true),
            false => argument,
        })
    })
}

fn main() -> ExitCode {
    let parsed = with_negative_numbers(Arguments::command())
        .try_get_matches()
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let result = match parsed {
        Ok(arguments) => run(arguments.command),
        // Help and version, which are output like any other.
        Err(told) if !told.use_stderr() => told
            .print()
            .and_then(|()| std::io::stdout().flush())
            .map_or_else(|error| Err(failure::Failure::Output(error)), |()| Ok(ExitCode::SUCCESS)),
        Err(refused) => refused.exit(),
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

fn run(command: Command) -> failure::Result<ExitCode> {
    interrupt::listen()?;
    match command {
        Command::Train(command) => command.run(),
        Command::Generate(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Chat(command) => command.run(),
        Command::Embed(command) => command.run(),
        Command::Tokenize(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Bench(command) => command.run(),
    }
}
