//! `lanthorn train`: a tokenizer and a small GPT from one text.

mod run;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{HumanBytes, ProgressBar};
use lanthorn_io::tokenizer::{Algorithm, Progress, Training};
use lanthorn_io::{FolderLock, Tokenizer};
use lanthorn_nn::models::gpt::Head;
use lanthorn_nn::snapshot::Snapshot;
use lanthorn_nn::trainer::{Trainer, TrainerConfig};
use lanthorn_nn::{
    Clip, Gpt, GptConfig, Model, Optimizer, Precision, SamplerState, Schedule, WindowSampler, metrics,
    sampler,
};

use super::failure::{Failure, Result, say};
use super::machine::Machine;
use super::numbers::{at_least_one, at_least_one_64, count, count_64, not_negative, share};
use super::saved::{self, Files};
use super::trace::Trace;
use super::{input, interrupt};
use run::{Pace, Plan, Run};

/// Train a byte-level BPE tokenizer and a GPT on a UTF-8 text file.
#[derive(Args)]
#[command(after_help = "\
Writes checkpoint.safetensors, tokenizer.json and loss.svg into the folder --out; the checkpoint holds the tokenizer
too. Ctrl-C leaves a checkpoint, and --resume goes on from it to the same losses as a run that was never stopped.
With --patience the model of the lowest held-out loss is in best.safetensors.

Examples:
  lanthorn train book.txt --out out
  lanthorn train book.txt --out out --resume
  lanthorn train book.txt --out out --stop-after 5 --trace trace.json
  lanthorn train book.txt --out out --lr 1 --trace-nan
  lanthorn train book.txt --out out --precision bf16 --accumulate 4 --ema 0.99 --patience 5
  lanthorn train notes.txt --out small --steps 300 --layers 2 --width 128 --heads 4 --vocab 1024")]
pub struct Train {
    /// The text, UTF-8
    text: PathBuf,
    /// The folder to write into
    #[arg(long, value_name = "FOLDER", default_value = "out")]
    out: PathBuf,
    /// Go on where the run in the folder stopped; its settings hold
    #[arg(long, conflicts_with = "overwrite")]
    resume: bool,
    /// Replace a run that is in the folder
    #[arg(long)]
    overwrite: bool,
    /// Stop (with a checkpoint) after this many steps of this call
    #[arg(long, value_name = "N", value_parser = count_64)]
    stop_after: Option<u64>,
    /// If a step gives a number that is not finite, name the op that gave it first; slower
    #[arg(long)]
    trace_nan: bool,
    #[command(flatten)]
    trace: Trace,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    settings: Settings,
}

/// What a run is; stored in its checkpoint.
#[derive(Args)]
struct Settings {
    /// Steps of training
    #[arg(long, default_value_t = 800, conflicts_with = "resume", value_parser = at_least_one_64)]
    steps: u64,
    /// Windows of text in a step
    #[arg(long, default_value_t = 8, conflicts_with = "resume", value_parser = at_least_one)]
    batch: usize,
    /// Tokens that the tokenizer knows
    #[arg(long, default_value_t = 2048, conflicts_with = "resume", value_parser = at_least_one)]
    vocab: usize,
    /// Tokens that the model sees at once
    #[arg(long, default_value_t = 128, conflicts_with = "resume", value_parser = at_least_one)]
    context: usize,
    /// Blocks of attention and feed-forward
    #[arg(long, default_value_t = 4, conflicts_with = "resume", value_parser = count)]
    layers: usize,
    /// Width of the residual stream
    #[arg(long, default_value_t = 256, conflicts_with = "resume", value_parser = at_least_one)]
    width: usize,
    /// Attention heads; they divide the width
    #[arg(long, default_value_t = 8, conflicts_with = "resume", value_parser = at_least_one)]
    heads: usize,
    /// Share of activations that dropout zeroes
    #[arg(long, default_value_t = 0.1, conflicts_with = "resume", value_parser = share)]
    dropout: f64,
    /// Highest learning rate; a cosine takes it down to a tenth
    #[arg(long, default_value_t = 1e-3, conflicts_with = "resume", value_parser = not_negative)]
    lr: f64,
    /// Weight decay, of weights alone
    #[arg(long, default_value_t = 0.1, conflicts_with = "resume", value_parser = not_negative)]
    weight_decay: f64,
    /// Seed of parameters, dropout and the order of windows
    #[arg(long, default_value_t = 1, conflicts_with = "resume", value_parser = count_64)]
    seed: u64,
    /// Measure the held-out loss and save after so many steps
    #[arg(long, default_value_t = 100, conflicts_with = "resume", value_parser = at_least_one_64)]
    every: u64,
    /// What the model computes in; parameters and optimiser are kept in f32
    #[arg(long, value_enum, default_value = "f32", conflicts_with = "resume")]
    precision: Numbers,
    /// The rule by which parameters move; gradients are clipped to norm 1 with each
    #[arg(long, value_enum, default_value = "adamw", conflicts_with = "resume")]
    optimizer: Rule,
    /// Batches of a step, whose gradients are added up
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "resume", value_parser = at_least_one)]
    accumulate: usize,
    /// Keep an average of the parameters, which takes this share of itself in every step; it is what is measured
    #[arg(long, value_name = "DECAY", conflicts_with = "resume", value_parser = share)]
    ema: Option<f64>,
    /// End after so many measurements of the held-out loss in a row without a better one
    #[arg(long, value_name = "N", conflicts_with = "resume", value_parser = at_least_one_64)]
    patience: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Numbers {
    F32,
    Bf16,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rule {
    Sgd,
    Adam,
    Adamw,
    Lion,
}

impl Settings {
    fn optimizer(&self) -> Optimizer {
        let rule = match self.optimizer {
            Rule::Sgd => Optimizer::sgd(),
            Rule::Adam => Optimizer::adam(),
            Rule::Adamw => Optimizer::language_model(),
            Rule::Lion => Optimizer::lion(),
        };
        rule.weight_decay(self.weight_decay).clip(Clip::Norm(1.0))
    }
}

impl Train {
    pub fn run(self) -> Result<ExitCode> {
        let files = Files::of(&self.out);
        self.machine.apply()?;
        let text = input::file(&self.text)?;
        run::check_text(&self.text, &files)?;
        if self.resume && !files.checkpoint.exists() {
            return Err(Failure::request_with(
                format!("there is no run to go on with: {} does not exist", files.checkpoint.display()),
                "--out names its folder; without --resume a run begins",
            ));
        }
        // Removed again if nothing has been written into it.
        let _folder = saved::make_folder("--out", &self.out)?;
        self.trace.check(&files.all())?;
        let _lock = FolderLock::take(&self.out, "another run of lanthorn train")?;
        let mut run = if self.resume { self.resumed(&files, &text)? } else { self.begun(&files, &text)? };
        let cancel = interrupt::during_what_is_saved();
        let device = super::device();
        device.set_trace_non_finite(self.trace_nan);
        self.trace.around(&device, &files.all(), || run.train(&files, &cancel, self.stop_after))
    }

    fn begun(&self, files: &Files, text: &str) -> Result<Run> {
        if !self.overwrite {
            files.refuse_existing()?;
        }
        let settings = &self.settings;
        let begin = Instant::now();
        let tokenizer = tokenizer(text, settings.vocab)?;
        let tokens = tokenizer.encode(text)?;
        say(format!(
            "tokenizer: {} tokens known, {} bytes are {} tokens ({:.1} s)",
            tokenizer.vocab_size(),
            text.len(),
            tokens.len(),
            begin.elapsed().as_secs_f64()
        ))?;
        let (train, held_out) = divided(&self.text, &tokens, settings.context)?;
        let config = GptConfig {
            vocab: tokenizer.vocab_size(),
            context: settings.context,
            layers: settings.layers,
            width: settings.width,
            heads: settings.heads,
            dropout: settings.dropout,
            head: Head::Untied,
            norm_eps: 1e-5,
        };
        let trainer_config = TrainerConfig {
            optimizer: settings.optimizer(),
            schedule: Schedule::Cosine {
                peak: settings.lr,
                floor: settings.lr / 10.0,
                warmup: (settings.steps / 10).min(50),
                total: settings.steps,
            },
            precision: match settings.precision {
                Numbers::F32 => Precision::F32,
                Numbers::Bf16 => Precision::MixedBf16,
            },
            ema: settings.ema,
            seed: settings.seed,
            ..TrainerConfig::default()
        };
        let trainer = Trainer::new(&super::device(), Gpt::new(config)?, trainer_config)?;
        let sampler = WindowSampler::new(train.to_vec(), settings.context, settings.seed)?;
        let plan = Plan {
            steps: settings.steps,
            batch: settings.batch,
            every: settings.every,
            tokens: tokens.len(),
            fingerprint: fingerprint(&tokens),
        };
        Ok(Run {
            trainer,
            position: sampler.state(),
            sampler,
            plan,
            pace: Pace { accumulate: settings.accumulate, patience: settings.patience, ..Pace::default() },
            is_new: !self.overwrite,
            history: Vec::new(),
            measured: Vec::new(),
            tokenizer,
            is_tokenizer_unsaved: true,
            unigram: metrics::unigram_entropy(held_out),
            held_out: held_out.to_vec(),
        })
    }

    fn resumed(&self, files: &Files, text: &str) -> Result<Run> {
        let snapshot = Snapshot::load(&files.checkpoint)?;
        let tokenizer = saved::tokenizer(&files.checkpoint, &snapshot, None)?;
        let tokens = tokenizer.encode(text)?;
        let [steps, batch, every, count, print]: [u64; 5] = snapshot.get("run")?;
        if every == 0 || batch == 0 {
            return Err(Failure::request(format!(
                "{}: the run measures every {every} steps with batches of {batch}; at least 1 of each would be right",
                files.checkpoint.display()
            )));
        }
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let plan = Plan { steps, batch: size(batch), every, tokens: size(count), fingerprint: print };
        if plan.tokens != tokens.len() || plan.fingerprint != fingerprint(&tokens) {
            return Err(Failure::request_with(
                format!("{} is not the text that this run was trained on", self.text.display()),
                "resume with the same text, or begin anew in another folder",
            ));
        }
        let trainer: Trainer<Gpt> = Trainer::restore(&super::device(), &snapshot)?;
        let context = trainer.model().config().context;
        let (train, held_out) = divided(&self.text, &tokens, context)?;
        let state: SamplerState = snapshot.get("sampler")?;
        let (history, measured) = snapshot.get("losses")?;
        say(format!("resuming after step {} of {}", trainer.steps_done(), plan.steps))?;
        Ok(Run {
            sampler: WindowSampler::restore(train.to_vec(), context, state)?,
            position: state,
            trainer,
            plan,
            pace: if snapshot.documents.contains_key("pace") {
                snapshot.get("pace")?
            } else {
                Pace::default()
            },
            is_new: false,
            history,
            measured,
            is_tokenizer_unsaved: Tokenizer::load(&files.tokenizer)
                .map_or(true, |saved| saved.content_hash() != tokenizer.content_hash()),
            tokenizer,
            unigram: metrics::unigram_entropy(held_out),
            held_out: held_out.to_vec(),
        })
    }
}

/// The text's tokens in two parts, of which each holds a window.
fn divided<'a>(path: &Path, tokens: &'a [u32], context: usize) -> Result<(&'a [u32], &'a [u32])> {
    let (train, held_out) = sampler::split(tokens);
    if train.len() <= context || held_out.len() < 2 {
        return Err(Failure::request_with(
            format!(
                "{} is too short: {} tokens, of which a tenth is held out, hold no window of {context} and its target",
                path.display(),
                tokens.len()
            ),
            "use a longer text or a smaller --context",
        ));
    }
    Ok((train, held_out))
}

/// FNV-1a over the tokens: tells texts apart.
fn fingerprint(tokens: &[u32]) -> u64 {
    tokens.iter().flat_map(|token| token.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A tokenizer of the text; at a terminal it is shown how far it is.
fn tokenizer(text: &str, vocab: usize) -> Result<Tokenizer> {
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let report = |progress: Progress| {
        bar.set_message(match progress {
            Progress::Reading { bytes } => {
                format!("tokenizer: {} of {} read", HumanBytes(bytes), HumanBytes(text.len() as u64))
            }
            Progress::Learning { words } => format!("tokenizer: learning from {words} words"),
        });
        ControlFlow::Continue(())
    };
    let training = Training { report: Some(&report), ..Training::new(Algorithm::Bpe, vocab) };
    let tokenizer = Tokenizer::train([text], &training);
    bar.finish_and_clear();
    Ok(tokenizer?)
}
