//! The loop: steps, evaluations, callbacks, and when to stop.

use lanthorn_ir::{Error, Result};
use lanthorn_runtime::{CancelToken, EagerTensor};
use serde::{Deserialize, Serialize};

use super::{Evaluation, StepReport, Trainer};
use crate::data::Examples;
use crate::metrics::Metric;
use crate::model::Model;
use crate::params::Params;
use crate::sampler::Source;
use crate::step::Held;

/// What happens after a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// The loop ends.
    Stop,
}

/// What an epoch was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochReport {
    /// Counted from 1.
    pub epoch: u64,
    /// Steps done in all.
    pub step: u64,
    /// The mean of the losses of its steps in this loop.
    pub loss: f64,
}

/// Is told what happens in a loop, and may end it. An error ends it too, and is what the loop returns.
pub trait Callback<M: Model> {
    /// After a step.
    fn on_step(&mut self, trainer: &Trainer<M>, report: &StepReport) -> Result<Flow> {
        let _ = (trainer, report);
        Ok(Flow::Continue)
    }

    /// After the last step of an epoch.
    fn on_epoch(&mut self, trainer: &Trainer<M>, report: &EpochReport) -> Result<Flow> {
        let _ = (trainer, report);
        Ok(Flow::Continue)
    }

    /// After an evaluation.
    fn on_evaluation(&mut self, trainer: &Trainer<M>, evaluation: &Evaluation) -> Result<Flow> {
        let _ = (trainer, evaluation);
        Ok(Flow::Continue)
    }
}

/// Nothing is told.
impl<M: Model> Callback<M> for () {}

/// All are told, and one is enough to stop.
impl<M: Model> Callback<M> for Vec<Box<dyn Callback<M> + '_>> {
    fn on_step(&mut self, trainer: &Trainer<M>, report: &StepReport) -> Result<Flow> {
        all(self, |callback| callback.on_step(trainer, report))
    }

    fn on_epoch(&mut self, trainer: &Trainer<M>, report: &EpochReport) -> Result<Flow> {
        all(self, |callback| callback.on_epoch(trainer, report))
    }

    fn on_evaluation(&mut self, trainer: &Trainer<M>, evaluation: &Evaluation) -> Result<Flow> {
        all(self, |callback| callback.on_evaluation(trainer, evaluation))
    }
}

fn all<T>(callbacks: &mut [T], mut tell: impl FnMut(&mut T) -> Result<Flow>) -> Result<Flow> {
    callbacks.iter_mut().try_fold(Flow::Continue, |flow, callback| match tell(callback)? {
        Flow::Stop => Ok(Flow::Stop),
        Flow::Continue => Ok(flow),
    })
}

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Every {
    Steps(u64),
    Epochs(u64),
}

/// What early stopping watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Monitor {
    /// The loss of the evaluation.
    #[default]
    Loss,
    /// One of its metrics.
    Metric(Metric),
}

/// When nothing is left to gain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStopping {
    pub monitor: Monitor,
    /// Stops after so many evaluations in a row without a better one.
    pub patience: u64,
    /// By how much a better one is better.
    pub min_delta: f64,
    /// Whether the loop ends with the parameters, averages and state of the best evaluation.
    pub restore_best: bool,
}

impl EarlyStopping {
    /// Watches the loss, and ends with the best parameters.
    pub fn new(patience: u64) -> EarlyStopping {
        EarlyStopping { monitor: Monitor::Loss, patience, min_delta: 0.0, restore_best: true }
    }

    /// What is watched, as a number that is better when smaller.
    ///
    /// Errors: a metric that was not measured.
    pub fn cost(&self, evaluation: &Evaluation) -> Result<f64> {
        match self.monitor {
            Monitor::Loss => Ok(evaluation.loss),
            Monitor::Metric(metric) => {
                let value = evaluation.metric(metric).ok_or_else(|| {
                    Error::shape("early_stopping", format!("{metric:?} is watched but not measured"))
                })?;
                Ok(if metric.improves_upwards() { -value } else { value })
            }
        }
    }
}

/// How long early stopping has waited: what a loop keeps of the evaluations before, and what a run that is to go on
/// later puts into its checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// The least cost so far ([`EarlyStopping::cost`]).
    pub best: Option<f64>,
    /// Evaluations since then.
    pub waited: u64,
}

impl Waiting {
    /// Notes an evaluation of that cost: whether it is the best one so far, by more than `min_delta`. What is no number is
    /// worse than any.
    pub fn is_better(&mut self, cost: f64, min_delta: f64) -> bool {
        let cost = if cost.is_nan() { f64::INFINITY } else { cost };
        if self.best.is_some_and(|best| cost >= best - min_delta) {
            self.waited += 1;
            return false;
        }
        *self = Waiting { best: Some(cost), waited: 0 };
        true
    }
}

/// A loop. It ends at the first bound that it comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Until the trainer has done so many steps in all.
    pub steps: Option<u64>,
    /// Until the source has shown all its examples so many times in all.
    pub epochs: Option<u64>,
    /// So many batches a step, beyond the one: [`Trainer::step_accumulated`].
    pub further_batches: usize,
    /// How often the held-out batches are evaluated; at the end they are in any case.
    pub evaluate: Option<Every>,
    /// What is measured then besides the loss.
    pub metrics: Vec<Metric>,
    pub early_stopping: Option<EarlyStopping>,
    /// How long early stopping has waited before this loop: [`History::waiting`] of the one that it goes on with. Only an
    /// evaluation that is better than all of that loop is the best one then, and only its model comes back.
    /// (`restore_best` has taken that loop back to its best model, from which this one would go on.)
    #[serde(default)]
    pub waiting: Waiting,
}

impl Fit {
    /// A loop of so many steps, counted from the trainer's first.
    pub fn steps(steps: u64) -> Fit {
        Fit { steps: Some(steps), ..Fit::default() }
    }

    /// A loop of so many epochs, counted from the source's first.
    pub fn epochs(epochs: u64) -> Fit {
        Fit { epochs: Some(epochs), ..Fit::default() }
    }
}

/// Why a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It came to its bound of steps or epochs.
    Done,
    /// Nothing got better for as long as early stopping waits.
    Early,
    /// A callback said so.
    ByCallback,
}

/// What a loop was.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    pub steps: Vec<StepReport>,
    pub evaluations: Vec<Evaluation>,
    /// The best evaluation, by what early stopping watches, or by its loss; none if one before this loop is better.
    pub best: Option<Evaluation>,
    /// How long early stopping has waited at its end.
    pub waiting: Waiting,
    pub stopped: Stopped,
}

/// The best evaluation so far.
struct Best {
    evaluation: Evaluation,
    /// Params, averages and state then, where they are wanted back.
    kept: Option<[Params<EagerTensor>; 3]>,
}

impl<M: Model> Trainer<M> {
    /// Trains on the source's batches and evaluates `held_out` on the way.
    ///
    /// ```
    /// # fn main() -> lanthorn_ir::Result<()> {
    /// # let device = lanthorn_runtime::Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
    /// use lanthorn_nn::sampler::Batches;
    /// use lanthorn_nn::sequential::{Sequential, linear};
    /// use lanthorn_nn::trainer::{EarlyStopping, Every, Fit};
    /// use lanthorn_nn::{Dataset, HostTensor, Loss, Schedule, Trainer, TrainerConfig, stack};
    /// use lanthorn_runtime::CancelToken;
    ///
    /// let x = HostTensor::from_f32(&[50, 1], (0..50).map(|i| i as f32 / 50.0))?;
    /// let y = HostTensor::from_f32(&[50, 1], (0..50).map(|i| 1.0 - i as f32 / 25.0))?;
    /// let (data, held_out) = Dataset::new(x, y)?.split(40)?;
    /// let schedule = Schedule::Constant { lr: 0.05 };
    /// let config = TrainerConfig { loss: Loss::Mse, schedule, ..TrainerConfig::default() };
    /// let mut trainer = Trainer::new(&device, Sequential::new(stack![linear(1, 1)])?, config)?;
    /// let fit = Fit {
    ///     evaluate: Some(Every::Epochs(1)),
    ///     early_stopping: Some(EarlyStopping::new(5)),
    ///     ..Fit::epochs(60)
    /// };
    /// let mut batches = Batches::shuffled(data, 8, 1)?;
    /// let history = trainer.fit(&mut batches, &held_out.batches(10)?, &fit, &mut (), &CancelToken::never())?;
    /// assert!(history.best.is_some_and(|best| best.loss < 1e-3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: a loop without a bound; as [`Trainer::step`], after which trainer and source stand where the last step
    /// left them, so that both can be saved and go on; what a callback returns.
    pub fn fit<S: Source, E: Examples>(
        &mut self,
        source: &mut S,
        held_out: &[E],
        fit: &Fit,
        callback: &mut dyn Callback<M>,
        cancel: &CancelToken,
    ) -> Result<History> {
        if fit.steps.is_none() && fit.epochs.is_none() {
            return Err(Error::shape("fit", "neither steps nor epochs bound the loop"));
        }
        if fit.early_stopping.is_some() && (held_out.is_empty() || fit.evaluate.is_none()) {
            return Err(Error::shape(
                "fit",
                "early stopping needs held-out batches and how often to evaluate them",
            ));
        }
        if matches!(fit.evaluate, Some(Every::Steps(0) | Every::Epochs(0))) {
            return Err(Error::shape("fit", "evaluates every 0 steps or epochs, expected at least 1"));
        }
        let mut run = Run {
            trainer: self,
            held_out,
            fit,
            callback,
            cancel,
            waiting: fit.waiting,
            best: None,
            history: Vec::new(),
        };
        let mut reports = Vec::new();
        let stopped = run.all(source, &mut reports)?;
        let (best, evaluations, waiting) = (run.best.take(), run.history, run.waiting);
        let best = best.map(|best| {
            if let Some([params, ema, state]) = best.kept {
                self.held = Held { params, ema, state, slots: self.held.slots.clone() };
            }
            best.evaluation
        });
        Ok(History { steps: reports, evaluations, best, waiting, stopped })
    }
}

/// A loop as it goes.
struct Run<'a, M: Model, E> {
    trainer: &'a mut Trainer<M>,
    held_out: &'a [E],
    fit: &'a Fit,
    callback: &'a mut dyn Callback<M>,
    cancel: &'a CancelToken,
    waiting: Waiting,
    best: Option<Best>,
    history: Vec<Evaluation>,
}

impl<M: Model, E: Examples> Run<'_, M, E> {
    fn all<S: Source>(&mut self, source: &mut S, reports: &mut Vec<StepReport>) -> Result<Stopped> {
        let mut epoch = source.state().epoch;
        let mut of_epoch = (0.0, 0u64);
        while !self.is_done(epoch) {
            let before = source.state();
            let report = match self.step(source) {
                Ok(report) => report,
                Err(error) => {
                    source.seek(before)?;
                    return Err(error);
                }
            };
            reports.push(report);
            of_epoch = (of_epoch.0 + report.loss, of_epoch.1 + 1);
            let mut flow = self.callback.on_step(self.trainer, &report)?;
            let now = source.state().epoch;
            let ends_epoch = now > epoch;
            if ends_epoch {
                let loss = of_epoch.0 / of_epoch.1 as f64;
                let ended = EpochReport { epoch: now, step: report.step, loss };
                flow = either(flow, self.callback.on_epoch(self.trainer, &ended)?);
                (epoch, of_epoch) = (now, (0.0, 0));
            }
            let is_due = match self.fit.evaluate {
                Some(Every::Steps(every)) => report.step.is_multiple_of(every),
                Some(Every::Epochs(every)) => ends_epoch && epoch.is_multiple_of(every),
                None => false,
            };
            if (is_due || self.is_done(epoch) || flow == Flow::Stop) && !self.held_out.is_empty() {
                let (told, early) = self.evaluate()?;
                flow = either(flow, told);
                if early {
                    return Ok(Stopped::Early);
                }
            }
            if flow == Flow::Stop {
                return Ok(Stopped::ByCallback);
            }
        }
        Ok(Stopped::Done)
    }

    fn is_done(&self, epoch: u64) -> bool {
        self.fit.steps.is_some_and(|steps| self.trainer.step >= steps)
            || self.fit.epochs.is_some_and(|epochs| epoch >= epochs)
    }

    fn step<S: Source>(&mut self, source: &mut S) -> Result<StepReport> {
        if self.fit.further_batches == 0 {
            return self.trainer.step(&source.next_batch()?, self.cancel);
        }
        // A step does not reach into the next epoch.
        let epoch = source.state().epoch;
        let mut batches = vec![source.next_batch()?];
        while batches.len() <= self.fit.further_batches && source.state().epoch == epoch {
            batches.push(source.next_batch()?);
        }
        self.trainer.step_accumulated(&batches, self.cancel)
    }

    /// Evaluates; what the callback says, and whether it is time to stop.
    fn evaluate(&mut self) -> Result<(Flow, bool)> {
        let evaluation = self.trainer.evaluate(self.held_out, &self.fit.metrics, self.cancel)?;
        let flow = self.callback.on_evaluation(self.trainer, &evaluation)?;
        let stopping = self.fit.early_stopping;
        let cost = stopping.map_or(Ok(evaluation.loss), |stopping| stopping.cost(&evaluation))?;
        let min_delta = stopping.map_or(0.0, |stopping| stopping.min_delta);
        let better = self.waiting.is_better(cost, min_delta);
        if better {
            let Held { params, ema, state, .. } = &self.trainer.held;
            let kept = stopping.is_some_and(|stopping| stopping.restore_best);
            let kept = kept.then(|| [params.clone(), ema.clone(), state.clone()]);
            self.best = Some(Best { evaluation: evaluation.clone(), kept });
        }
        let early = !better && stopping.is_some_and(|stopping| self.waiting.waited >= stopping.patience);
        self.history.push(evaluation);
        Ok((flow, early))
    }
}

fn either(x: Flow, y: Flow) -> Flow {
    if x == Flow::Stop { x } else { y }
}
