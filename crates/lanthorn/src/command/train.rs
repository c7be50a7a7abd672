//! `lanthorn train`: a tokenizer and a small GPT from one text.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use lanthorn_io::Tokenizer;
use lanthorn_ir::ErrorKind;
use lanthorn_nn::models::gpt::Head;
use lanthorn_nn::snapshot::Snapshot;
use lanthorn_nn::trainer::{Trainer, TrainerConfig};
use lanthorn_nn::{
    Batch, Gpt, GptConfig, Model, Optimizer, SamplerState, Schedule, WindowSampler, metrics, sampler,
};
use lanthorn_runtime::CancelToken;
use serde_json::json;

use super::chart;
use super::failure::{Failure, Result, say};
use super::numbers::{at_least_one, at_least_one_64, count, count_64, not_negative, share};
use super::saved::{self, Files, TOKENIZER, TOKENIZER_JSON};
use super::trace::Trace;
use super::{input, interrupt};

/// Train a byte-level BPE tokenizer and a GPT on a UTF-8 text file.
#[derive(Args)]
#[command(after_help = "\
Writes checkpoint.safetensors, tokenizer.json and loss.svg into the folder --out; the checkpoint holds the tokenizer
too. Ctrl-C leaves a checkpoint, and
--resume goes on from it to the same losses as a run that was never stopped.

Examples:
  lanthorn train book.txt --out out
  lanthorn train book.txt --out out --resume
  lanthorn train book.txt --out out --stop-after 5 --trace trace.json
  lanthorn train book.txt --out out --lr 1 --trace-nan
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
    /// Weight decay of AdamW
    #[arg(long, default_value_t = 0.1, conflicts_with = "resume", value_parser = not_negative)]
    weight_decay: f64,
    /// Seed of parameters, dropout and the order of windows
    #[arg(long, default_value_t = 1, conflicts_with = "resume", value_parser = count_64)]
    seed: u64,
    /// Measure the held-out loss and save after so many steps
    #[arg(long, default_value_t = 100, conflicts_with = "resume", value_parser = at_least_one_64)]
    every: u64,
}

/// Windows on which the held-out loss is measured on the way; at the end all are.
const WINDOWS_ON_THE_WAY: usize = 32;

/// A run between two steps.
struct Run {
    trainer: Trainer<Gpt>,
    sampler: WindowSampler,
    held_out: Vec<u32>,
    plan: Plan,
    /// Training loss of every step, held-out loss where measured.
    history: Vec<(u64, f64)>,
    measured: Vec<(u64, f64)>,
    tokenizer: Tokenizer,
    /// Whether the file of the tokenizer is that of an earlier run, or none. It is written after the first checkpoint.
    is_tokenizer_unsaved: bool,
    unigram: f64,
}

/// What the loop needs to know; the document `run` of a checkpoint.
#[derive(Clone, Copy)]
struct Plan {
    steps: u64,
    batch: usize,
    every: u64,
    tokens: usize,
    fingerprint: u64,
}

impl Train {
    pub fn run(self) -> Result<ExitCode> {
        let files = Files::of(&self.out);
        let text = input::file(&self.text)?;
        let real = |path: &Path| path.canonicalize().ok();
        if let Some(file) =
            files.all().into_iter().find(|file| real(file).is_some_and(|f| Some(f) == real(&self.text)))
        {
            return Err(Failure::request_with(
                format!("the text {} is where the run writes {}", self.text.display(), file.display()),
                "--out names another folder",
            ));
        }
        saved::make_folder("--out", &self.out)?;
        let mut run = if self.resume { self.resumed(&files, &text)? } else { self.begun(&files, &text)? };
        let cancel = interrupt::during();
        let device = super::device();
        device.set_trace_non_finite(self.trace_nan);
        self.trace.around(&device, || run.train(&files, &cancel, self.stop_after))
    }

    fn begun(&self, files: &Files, text: &str) -> Result<Run> {
        if let Some(file) = files.all().into_iter().find(|file| file.exists())
            && !self.overwrite
        {
            return Err(Failure::request_with(
                format!("{} exists already", file.display()),
                "--resume goes on with that run, --overwrite begins anew, --out names another folder",
            ));
        }
        let settings = &self.settings;
        let begin = Instant::now();
        let tokenizer = Tokenizer::train_bpe([text], settings.vocab, &[])?;
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
            optimizer: Optimizer::language_model().weight_decay(settings.weight_decay),
            schedule: Schedule::Cosine {
                peak: settings.lr,
                floor: settings.lr / 10.0,
                warmup: (settings.steps / 10).min(50),
                total: settings.steps,
            },
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
            sampler,
            plan,
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
        let plan = Plan { steps, batch: batch as usize, every, tokens: count as usize, fingerprint: print };
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
            trainer,
            plan,
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

impl Run {
    fn train(&mut self, files: &Files, cancel: &CancelToken, stop_after: Option<u64>) -> Result<ExitCode> {
        let context = self.trainer.model().config().context;
        say(format!(
            "model: {} parameters; training on {} tokens a step for {} steps; unigram entropy of the held-out tokens {:.3} nats",
            self.trainer.model().parameter_count(),
            self.plan.batch * context,
            self.plan.steps,
            self.unigram
        ))?;
        let first = self.trainer.steps_done();
        let last = match stop_after {
            Some(count) => self.plan.steps.min(first.saturating_add(count)),
            None => self.plan.steps,
        };
        let bar = progress(self.plan.steps, first);
        let begin = Instant::now();
        let mut at = self.sampler.state();
        while self.trainer.steps_done() < last {
            at = self.sampler.state();
            let batch = self.sampler.next_batch(self.plan.batch)?;
            let report = match self.trainer.step(&batch, cancel) {
                Ok(report) => report,
                Err(error) => {
                    bar.abandon();
                    // Nothing of the step took effect: what was there before it is worth keeping.
                    self.save(files, at)?;
                    if error.kind == ErrorKind::Cancelled {
                        return self.interrupted();
                    }
                    return Err(error.into());
                }
            };
            at = self.sampler.state();
            self.history.push((report.step, report.loss));
            let done = report.step - first;
            let speed = (done as usize * self.plan.batch * context) as f64 / begin.elapsed().as_secs_f64();
            bar.set_position(report.step);
            bar.set_message(format!("loss {:.3}  {speed:.0} tokens/s", self.recent()));
            if report.step.is_multiple_of(self.plan.every) && report.step < self.plan.steps {
                match self.measure(WINDOWS_ON_THE_WAY, cancel) {
                    Ok(loss) => note(
                        &bar,
                        format!(
                            "step {:>5}  loss {:.3}  held out {loss:.3}  {speed:.0} tokens/s",
                            report.step,
                            self.recent()
                        ),
                    )?,
                    Err(Failure::Engine(error)) if error.kind == ErrorKind::Cancelled => {}
                    Err(other) => return Err(other),
                }
                self.save(files, at)?;
            }
            if cancel.is_cancelled() {
                bar.abandon();
                self.save(files, at)?;
                return self.interrupted();
            }
        }
        bar.finish_and_clear();
        if last < self.plan.steps {
            self.save(files, at)?;
            say(format!("stopped after step {last}; --resume goes on from there"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let held_out = match self.measure(usize::MAX, cancel) {
            Ok(loss) => loss,
            Err(Failure::Engine(error)) if error.kind == ErrorKind::Cancelled => {
                self.save(files, at)?;
                return self.interrupted();
            }
            Err(other) => return Err(other),
        };
        self.save(files, at)?;
        say(format!(
            "step {}: training loss {:.3}, held-out loss {held_out:.3} nats a token, {:.3} of the unigram entropy {:.3}",
            self.trainer.steps_done(),
            self.recent(),
            held_out / self.unigram,
            self.unigram
        ))?;
        say(format!(
            "{:.0} s; wrote {}, {} and {}",
            begin.elapsed().as_secs_f64(),
            files.checkpoint.display(),
            files.tokenizer.display(),
            files.chart.display()
        ))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The held-out loss on at most so many windows, noted for the chart.
    fn measure(&mut self, windows: usize, cancel: &CancelToken) -> Result<f64> {
        let context = self.trainer.model().config().context;
        let batches = Batch::covering(&self.held_out, context, self.plan.batch, windows)?;
        let loss = self.trainer.evaluate(batches, &[], cancel)?.loss;
        let step = self.trainer.steps_done();
        self.measured.retain(|&(at, _)| at != step);
        self.measured.push((step, loss));
        Ok(loss)
    }

    /// The mean loss of the last steps.
    fn recent(&self) -> f64 {
        let window = &self.history[self.history.len().saturating_sub(20)..];
        window.iter().map(|&(_, loss)| loss).sum::<f64>() / window.len().max(1) as f64
    }

    fn save(&mut self, files: &Files, sampler: SamplerState) -> Result<()> {
        let mut snapshot: Snapshot = self.trainer.snapshot()?;
        let Plan { steps, batch, every, tokens, fingerprint } = self.plan;
        snapshot.insert("run", &[steps, batch as u64, every, tokens as u64, fingerprint])?;
        snapshot.insert("sampler", &sampler)?;
        snapshot.insert("losses", &json!([self.history, self.measured]))?;
        snapshot.insert(TOKENIZER, &self.tokenizer.content_hash())?;
        snapshot.insert(TOKENIZER_JSON, &self.tokenizer.to_json())?;
        snapshot.save(&files.checkpoint)?;
        if self.is_tokenizer_unsaved {
            self.tokenizer.save(&files.tokenizer)?;
            self.is_tokenizer_unsaved = false;
        }
        let losses = chart::Losses { train: &self.history, held_out: &self.measured, unigram: self.unigram };
        chart::write(&files.chart, &losses)
    }

    fn interrupted(&self) -> Result<ExitCode> {
        say(format!("stopped after step {}; --resume goes on from there", self.trainer.steps_done()))?;
        Ok(interrupt::code())
    }
}

fn progress(steps: u64, first: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps).with_position(first);
    if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len}  {msg}  {eta} left") {
        bar.set_style(style);
    }
    bar.reset_eta();
    bar
}

/// A line that stays: above the bar, or on standard output where no bar is shown.
fn note(bar: &ProgressBar, line: String) -> Result<()> {
    if bar.is_hidden() {
        return say(line);
    }
    bar.println(line);
    Ok(())
}
