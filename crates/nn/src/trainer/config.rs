//! The settings of a trainer, and how they stand in a checkpoint.

use lanthorn_ir::{DType, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::loss::Loss;
use crate::model::Model;
use crate::optim::{Clip, Decay, Optimizer, Rule};
use crate::params::ParamSpec;
use crate::precision::Precision;
use crate::schedule::{Schedule, check_rate};
use crate::snapshot::Snapshot;
use crate::step::Task;

/// What a trainer needs to know besides its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerConfig {
    pub optimizer: Optimizer,
    pub schedule: Schedule,
    pub loss: Loss,
    pub precision: Precision,
    /// Keeps an exponential moving average of the parameters, which takes this share of itself and the rest of the
    /// parameters in every step; it begins as the first parameters, and evaluation uses it.
    pub ema: Option<f64>,
    /// Of the first parameters and of dropout.
    pub seed: u64,
}

/// AdamW with a constant learning rate of `1e-3`, the model's own loss, f32.
impl Default for TrainerConfig {
    fn default() -> Self {
        TrainerConfig {
            optimizer: Optimizer::adamw(),
            schedule: Schedule::Constant { lr: 1e-3 },
            loss: Loss::Model,
            precision: Precision::F32,
            ema: None,
            seed: 0,
        }
    }
}

impl TrainerConfig {
    /// Refuses settings that are no settings.
    pub fn check(&self) -> Result<()> {
        self.optimizer.check()?;
        self.schedule.check()?;
        self.schedule.rates().into_iter().try_for_each(|rate| check_rate(rate, self.precision.kept()))?;
        match self.ema {
            Some(share) if !(0.0..1.0).contains(&share) => {
                Err(Error::shape("ema", format!("the share is {share}, expected 0 to below 1")))
            }
            _ => Ok(()),
        }
    }

    /// What is trained with these settings.
    pub(super) fn task<'a, M: Model>(&'a self, model: &'a M, specs: &'a [ParamSpec]) -> Task<'a, M> {
        let TrainerConfig { optimizer, loss, precision, ema, .. } = self;
        Task { model, specs, optimizer, loss: *loss, precision: *precision, ema: *ema }
    }
}

/// Steps are fewer. The draws of a step are told apart by its number in 40 bits and by its part in the others.
const MOST_STEPS: u64 = 1 << 40;

/// The document `trainer` of a snapshot.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    pub config: TrainerConfig,
    /// Steps done. Together with the seed this is all of the random state.
    pub step: u64,
}

impl Progress {
    /// The document, also in the form that it had when AdamW was the only rule.
    ///
    /// Errors: another form; more steps than are told apart in what is random.
    pub fn read(snapshot: &Snapshot) -> Result<Progress> {
        let is_first = snapshot.documents.get("trainer").is_some_and(|it| !it["config"]["dtype"].is_null());
        let progress: Progress =
            if is_first { snapshot.get::<First>("trainer")?.into() } else { snapshot.get("trainer")? };
        if progress.step >= MOST_STEPS {
            let message =
                format!("document `trainer`: {} steps are done, expected below 2^40", progress.step);
            return Err(Error::new(ErrorKind::Format, "checkpoint", message));
        }
        Ok(progress)
    }
}

#[derive(Deserialize)]
struct First {
    config: FirstConfig,
    step: u64,
}

#[derive(Deserialize)]
struct FirstConfig {
    optimizer: FirstAdamW,
    schedule: Schedule,
    seed: u64,
    dtype: DType,
}

#[derive(Deserialize)]
struct FirstAdamW {
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    decay: Decay,
    clip_norm: Option<f64>,
}

impl From<First> for Progress {
    fn from(first: First) -> Progress {
        let FirstConfig { optimizer, schedule, seed, dtype } = first.config;
        let FirstAdamW { beta1, beta2, eps, weight_decay, decay, clip_norm } = optimizer;
        let rule = Rule::AdamW { beta1, beta2, eps };
        let optimizer =
            Optimizer { weight_decay, decay, clip: clip_norm.map(Clip::Norm), ..Optimizer::new(rule) };
        let precision = if dtype == DType::F64 { Precision::F64 } else { Precision::F32 };
        let config = TrainerConfig { optimizer, schedule, precision, seed, ..TrainerConfig::default() };
        Progress { config, step: first.step }
    }
}
