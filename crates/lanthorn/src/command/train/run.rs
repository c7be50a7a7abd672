//! The loop of a training run: steps, measurements, and what is written when.
//!
//! Whatever ends a call early (a signal, a step that fails, an output that nobody reads any more), what it has trained is
//! written first; where it has trained nothing, nothing is written, and a run that lies in the folder stays.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use lanthorn_io::Tokenizer;
use lanthorn_ir::ErrorKind;
use lanthorn_nn::snapshot::Snapshot;
use lanthorn_nn::trainer::{Trainer, Waiting};
use lanthorn_nn::{Batch, Gpt, Model, SamplerState, WindowSampler};
use lanthorn_runtime::CancelToken;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::failure::{Failure, Result, say};
use crate::saved::{Files, TOKENIZER, TOKENIZER_JSON};
use crate::{chart, interrupt};

/// Windows on which the held-out loss is measured on the way; at the end all are.
const WINDOWS_ON_THE_WAY: usize = 32;

/// A run between two steps.
pub struct Run {
    pub trainer: Trainer<Gpt>,
    pub sampler: WindowSampler,
    pub held_out: Vec<u32>,
    pub plan: Plan,
    pub pace: Pace,
    /// Training loss of every step, held-out loss where measured.
    pub history: Vec<(u64, f64)>,
    pub measured: Vec<(u64, f64)>,
    pub tokenizer: Tokenizer,
    /// Whether the file of the tokenizer is that of an earlier run, or none. It is written after the first checkpoint.
    pub is_tokenizer_unsaved: bool,
    /// Whether no file may be there when the first checkpoint is written.
    pub is_new: bool,
    pub unigram: f64,
    /// Where the sampler stands before the step that comes next.
    pub position: SamplerState,
}

/// What the loop needs to know; the document `run` of a checkpoint.
#[derive(Clone, Copy)]
pub struct Plan {
    pub steps: u64,
    pub batch: usize,
    pub every: u64,
    pub tokens: usize,
    pub fingerprint: u64,
}

/// The rest of it; the document `pace`, which older checkpoints lack.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Batches of a step.
    pub accumulate: usize,
    /// Measurements without a better one after which the run ends.
    pub patience: Option<u64>,
    /// How far early stopping is.
    pub waiting: Waiting,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { accumulate: 1, patience: None, waiting: Waiting::default() }
    }
}

impl Pace {
    /// True where nothing is left to gain.
    fn is_over(&self) -> bool {
        self.patience.is_some_and(|patience| self.waiting.waited >= patience)
    }
}

impl Run {
    /// Trains until the end of the run, or of this call.
    pub fn train(
        &mut self,
        files: &Files,
        cancel: &CancelToken,
        stop_after: Option<u64>,
    ) -> Result<ExitCode> {
        let first = self.trainer.steps_done();
        let failure = match self.steps(files, cancel, stop_after) {
            Ok(code) => return Ok(code),
            Err(failure) => failure,
        };
        let done = self.trainer.steps_done();
        // What a failed step would have changed is as it was, and worth keeping where this call has trained it.
        let saved = if done > first { self.save(files) } else { Ok(()) };
        match failure {
            Failure::Engine(error) if error.kind == ErrorKind::Cancelled => {
                saved?;
                let told = match done {
                    0 => "stopped before the first step was done; nothing was written".to_owned(),
                    _ => stopped(done),
                };
                // The exit code tells it as well, where nobody reads.
                let _ = say(told);
                Ok(interrupt::code())
            }
            Failure::Output(error) => {
                saved?;
                let message = format!("standard output cannot be written any more ({error})");
                Err(match done {
                    0 => Failure::request_with(message, "nothing was trained, and nothing is written"),
                    _ => Failure::request_with(message, stopped(done)),
                })
            }
            other => Err(other),
        }
    }

    fn steps(&mut self, files: &Files, cancel: &CancelToken, stop_after: Option<u64>) -> Result<ExitCode> {
        let tokens_a_step = self.tokens_a_step()?;
        say(format!(
            "model: {} parameters; training on {tokens_a_step} tokens a step for {} steps; unigram entropy of the held-out tokens {:.3} nats",
            self.trainer.model().parameter_count(),
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
        let speed = |done: u64| (done - first) as f64 * tokens_a_step as f64 / begin.elapsed().as_secs_f64();
        loop {
            let done = self.trainer.steps_done();
            if self.is_due(done) {
                let loss = self.measure(WINDOWS_ON_THE_WAY, cancel)?;
                let is_best = self.pace.patience.is_some() && self.pace.waiting.is_better(loss, 0.0);
                self.save(files)?;
                if is_best {
                    self.snapshot()?.save(&files.best)?;
                }
                let (recent, speed) = (self.recent(), speed(done));
                note(
                    &bar,
                    format!("step {done:>5}  loss {recent:.3}  held out {loss:.3}  {speed:.0} tokens/s"),
                )?;
            }
            if done >= last || self.pace.is_over() {
                break;
            }
            let step = self.step(cancel);
            if step.is_err() {
                bar.abandon();
            }
            let loss = step?;
            self.history.push((done + 1, loss));
            bar.set_position(done + 1);
            bar.set_message(format!("loss {:.3}  {:.0} tokens/s", self.recent(), speed(done + 1)));
            if cancel.is_cancelled() {
                bar.abandon();
                return Err(lanthorn_ir::Error::new(ErrorKind::Cancelled, "train", "cancelled").into());
            }
        }
        bar.finish_and_clear();
        let done = self.trainer.steps_done();
        if done < self.plan.steps && !self.pace.is_over() {
            self.save(files)?;
            say(stopped(done))?;
            return Ok(ExitCode::SUCCESS);
        }
        let held_out = self.measure(usize::MAX, cancel)?;
        self.save(files)?;
        if let (Pace { patience: Some(patience), waiting, .. }, true) = (self.pace, self.pace.is_over()) {
            say(format!(
                "ended early: {patience} measurements in a row were no better than {:.3}, whose model is in {}",
                waiting.best.unwrap_or(f64::NAN),
                files.best.display()
            ))?;
        }
        say(format!(
            "step {done}: training loss {:.3}, held-out loss {held_out:.3} nats a token, {:.3} of the unigram entropy {:.3}",
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

    /// Tokens of a step.
    ///
    /// Errors: more than memory holds, each with its target.
    fn tokens_a_step(&self) -> Result<usize> {
        let context = self.trainer.model().config().context;
        let (batch, parts) = (self.plan.batch, self.pace.accumulate);
        let tokens = batch.checked_mul(context).and_then(|tokens| tokens.checked_mul(parts));
        let fits = |&tokens: &usize| Vec::<[i32; 2]>::new().try_reserve_exact(tokens).is_ok();
        tokens.filter(|&tokens| tokens > 0 && fits(&tokens)).ok_or_else(|| {
            Failure::request_with(
                format!("{parts} batches of {batch} windows of {context} tokens do not fit the memory"),
                "a smaller --batch or --accumulate would be right, of at least 1",
            )
        })
    }

    /// Whether the held-out loss is to be measured before the next step; at the end all of it is.
    fn is_due(&self, done: u64) -> bool {
        done > 0
            && done < self.plan.steps
            && done.is_multiple_of(self.plan.every)
            && !self.pace.is_over()
            && self.measured.iter().all(|&(step, _)| step != done)
    }

    /// One step; its loss. Where it fails, sampler and trainer stand as before it.
    fn step(&mut self, cancel: &CancelToken) -> Result<f64> {
        self.position = self.sampler.state();
        let report = match self.pace.accumulate {
            1 => self.trainer.step(&self.sampler.next_batch(self.plan.batch)?, cancel)?,
            parts => {
                let batches = (0..parts).map(|_| self.sampler.next_batch(self.plan.batch));
                let batches = batches.collect::<lanthorn_ir::Result<Vec<Batch>>>()?;
                self.trainer.step_accumulated(&batches, cancel)?
            }
        };
        self.position = self.sampler.state();
        Ok(report.loss)
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

    fn snapshot(&self) -> Result<Snapshot> {
        let mut snapshot: Snapshot = self.trainer.snapshot()?;
        let Plan { steps, batch, every, tokens, fingerprint } = self.plan;
        snapshot.insert("run", &[steps, batch as u64, every, tokens as u64, fingerprint])?;
        snapshot.insert("pace", &self.pace)?;
        snapshot.insert("sampler", &self.position)?;
        snapshot.insert("losses", &json!([self.history, self.measured]))?;
        snapshot.insert(TOKENIZER, &self.tokenizer.content_hash())?;
        snapshot.insert(TOKENIZER_JSON, &self.tokenizer.to_json())?;
        Ok(snapshot)
    }

    /// Writes the files of the run.
    fn save(&mut self, files: &Files) -> Result<()> {
        let snapshot = self.snapshot()?;
        if self.is_new {
            // Another program may have written there since the run began.
            files.refuse_existing()?;
        }
        snapshot.save(&files.checkpoint)?;
        self.is_new = false;
        if self.is_tokenizer_unsaved {
            self.tokenizer.save(&files.tokenizer)?;
            self.is_tokenizer_unsaved = false;
        }
        let losses = chart::Losses { train: &self.history, held_out: &self.measured, unigram: self.unigram };
        chart::write(&files.chart, &losses)
    }
}

/// What is told of a run that has steps left.
fn stopped(done: u64) -> String {
    format!("stopped after step {done}; --resume goes on from there")
}

/// Refuses a text at the place of a file that the run writes.
pub fn check_text(text: &Path, files: &Files) -> Result<()> {
    let place = lanthorn_io::atomic::place(text)?;
    for file in files.all() {
        if lanthorn_io::atomic::place(file)? == place {
            return Err(Failure::request_with(
                format!("the text {} is where the run writes {}", text.display(), file.display()),
                "--out names another folder",
            ));
        }
    }
    Ok(())
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
