//! The trainer: a step machine over compiled programs.
//!
//! Forward, loss, backward, clipping, update and average are one executable for each signature of a batch. Parameters,
//! the optimiser's state, averages and the model's state are donated to it, so they are updated in place and no old
//! generation stays; loss, gradient norm and what the step leaves behind must be finite for it to commit, so a step that
//! fails, for whatever reason, leaves everything as it was. An update that is looked at before it takes effect cannot be
//! made in place, so that is done only where learning rate and settings do not rule out that it overflows. What changes from step to step (learning rate, bias corrections, the key of dropout) are
//! arguments: nothing is compiled again.
//!
//! All randomness of a step is a function of seed and step number, so a restored trainer goes on bit for bit.

mod accumulate;
mod config;
mod evaluate;
mod fit;
mod program;

pub use config::TrainerConfig;
pub use evaluate::Evaluation;
pub use fit::{Callback, EarlyStopping, EpochReport, Every, Fit, Flow, History, Monitor, Stopped, Waiting};

use lanthorn_ir::{Error, ErrorKind, Lazy, Result, Value};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};

use crate::data::Examples;
use crate::host::HostTensor;
use crate::model::Model;
use crate::params::{ParamSpec, Params, initial};
use crate::snapshot::Snapshot;
use crate::step::{Held, finite};
use config::Progress;
use program::{Leaves, Programs, Purpose};

/// What a step was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Counted from 1.
    pub step: u64,
    /// The mean loss before the update, for a language model in nats a token.
    pub loss: f64,
    /// The norm of all gradients before clipping.
    pub grad_norm: f64,
    /// The learning rate.
    pub lr: f64,
}

/// Trains a model.
///
/// ```
/// # fn main() -> lanthorn_ir::Result<()> {
/// # let device = lanthorn_runtime::Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
/// use lanthorn_nn::sequential::{Activation, Sequential, linear};
/// use lanthorn_nn::{Dataset, HostTensor, Loss, Optimizer, Schedule, Trainer, TrainerConfig, stack};
/// use lanthorn_runtime::CancelToken;
///
/// let inputs = HostTensor::from_f32(&[4, 2], [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0])?;
/// let targets = HostTensor::from_f32(&[4, 1], [0.0, 1.0, 1.0, 0.0])?;
/// let xor = Dataset::new(inputs, targets)?;
/// let model = Sequential::new(stack![linear(2, 8), Activation::Tanh, linear(8, 1)])?;
/// let config = TrainerConfig {
///     optimizer: Optimizer::adam(),
///     schedule: Schedule::Constant { lr: 0.1 },
///     loss: Loss::Mse,
///     ..TrainerConfig::default()
/// };
/// let mut trainer = Trainer::new(&device, model, config)?;
/// let mut loss = f64::NAN;
/// for _ in 0..100 {
///     loss = trainer.step(&xor, &CancelToken::never())?.loss;
/// }
/// assert!(loss < 0.01);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Trainer<M: Model> {
    device: Device,
    model: M,
    specs: Vec<ParamSpec>,
    config: TrainerConfig,
    held: Held<EagerTensor>,
    step: u64,
    programs: Programs,
}

impl<M: Model> Trainer<M> {
    /// A trainer at its beginning, with first parameters from the configuration's seed.
    ///
    /// Errors: settings that are no settings; parameters of one name; memory.
    pub fn new(device: &Device, model: M, config: TrainerConfig) -> Result<Trainer<M>> {
        config.check()?;
        let dtype = config.precision.kept();
        let specs = model.specs();
        let params = initial(&specs, config.seed, dtype)?;
        Trainer::from_params(device, model, config, &params)
    }

    /// A trainer at its beginning with other first parameters, such as pretrained ones.
    ///
    /// Errors: as [`Trainer::new`]; parameters that are missing or of other types.
    pub fn from_params(
        device: &Device,
        model: M,
        config: TrainerConfig,
        params: &Params<HostTensor>,
    ) -> Result<Trainer<M>> {
        config.check()?;
        let dtype = config.precision.kept();
        let specs = model.specs();
        let params = crate::params::matched("trainer", &specs, dtype, params.clone(), HostTensor::ty)?;
        let held = Held {
            slots: config.optimizer.slots(&specs, |spec| HostTensor::zeros(spec.ty(dtype)))?,
            state: initial(&model.state_specs(), config.seed, dtype)?,
            ema: if config.ema.is_some() { params.clone() } else { Params::new() },
            params,
        };
        Trainer::with(device, model, config, &held, 0)
    }

    /// The trainer that wrote the snapshot.
    ///
    /// Errors: a document or tensor that is missing or wrong; memory.
    pub fn restore(device: &Device, snapshot: &Snapshot) -> Result<Trainer<M>> {
        let Progress { config, step } = Progress::read(snapshot)?;
        config.check()?;
        let model = M::from_config(snapshot.get("model")?)?;
        let (specs, dtype) = (model.specs(), config.precision.kept());
        let slot =
            |name: &&str| Ok(((*name).to_owned(), snapshot.values(&format!("optim/{name}"), &specs, dtype)?));
        let held = Held {
            params: snapshot.values("params", &specs, dtype)?,
            slots: config.optimizer.rule.slots().iter().map(slot).collect::<Result<_>>()?,
            state: snapshot.values("state", &model.state_specs(), dtype)?,
            ema: match config.ema {
                Some(_) => snapshot.values("ema", &specs, dtype)?,
                None => Params::new(),
            },
        };
        Trainer::with(device, model, config, &held, step)
    }

    fn with(
        device: &Device,
        model: M,
        config: TrainerConfig,
        held: &Held<HostTensor>,
        step: u64,
    ) -> Result<Trainer<M>> {
        let specs = model.specs();
        if held.params.len() != specs.len() {
            let message = format!("{} parameters have {} names", specs.len(), held.params.len());
            return Err(Error::shape("train", message));
        }
        Ok(Trainer {
            specs,
            held: held.try_map(|tensor| tensor.to_device(device))?,
            device: device.clone(),
            model,
            config,
            step,
            programs: Programs::default(),
        })
    }

    /// Everything that [`Trainer::restore`] needs, in host memory. Others may add documents, such as the sampler's
    /// state.
    ///
    /// Errors: what reading from the device reports.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut snapshot = Snapshot::default();
        snapshot.insert("model", self.model.config())?;
        snapshot.insert("trainer", &Progress { config: self.config.clone(), step: self.step })?;
        let held = self.held.try_map(HostTensor::from_device)?;
        snapshot.insert_values("params", held.params);
        for (name, slot) in held.slots {
            snapshot.insert_values(&format!("optim/{name}"), slot);
        }
        snapshot.insert_values("ema", held.ema);
        snapshot.insert_values("state", held.state);
        Ok(snapshot)
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The settings.
    pub fn config(&self) -> &TrainerConfig {
        &self.config
    }

    /// How many steps are done.
    pub fn steps_done(&self) -> u64 {
        self.step
    }

    /// The parameters as they are now. A step copies those to which somebody holds a handle.
    pub fn params(&self) -> &Params<EagerTensor> {
        &self.held.params
    }

    /// The model's state as it is now.
    pub fn state(&self) -> &Params<EagerTensor> {
        &self.held.state
    }

    /// The averages of the parameters, where there are any, or else the parameters: what evaluation and prediction
    /// take.
    pub fn averaged(&self) -> &Params<EagerTensor> {
        if self.config.ema.is_some() { &self.held.ema } else { &self.held.params }
    }

    /// Trains on one batch.
    ///
    /// Errors name the step, and then parameters, the optimiser's state and the step number are what they were before
    /// it: [`ErrorKind::Execute`] for a loss, gradient norm or update that is not finite and for a token that the model
    /// does not know, a learning rate that is infinite in the dtype in which the model is kept, [`ErrorKind::Cancelled`], memory. Under
    /// [`Device::set_trace_non_finite`](lanthorn_runtime::Device::set_trace_non_finite) the error names the op.
    pub fn step(&mut self, batch: &(impl Examples + ?Sized), cancel: &CancelToken) -> Result<StepReport> {
        let step = self.step + 1;
        let loss = self.held.values().count();
        let checked = Checked { loss: Some(loss), norm: Some(loss + 1) };
        self.try_step(batch, cancel).map_err(|error| at_step(step, error, checked))
    }

    fn try_step(&mut self, batch: &(impl Examples + ?Sized), cancel: &CancelToken) -> Result<StepReport> {
        let mut changing = batch.to_device(&self.device)?.to_vec();
        let lr = self.rate()?;
        let program = self.step_program(&changing, self.is_checked(lr))?;
        changing.extend(self.scalars(lr)?);
        changing.extend(self.key(0)?);
        let arguments: Vec<&EagerTensor> = self.held.values().chain(&changing).collect();
        let mut results = program.call(&arguments, cancel)?.into_iter();
        let held = self.held.with_values(&mut results)?;
        let (loss, grad_norm) = (number(&mut results)?, number(&mut results)?);
        self.held = held;
        self.step += 1;
        Ok(StepReport { step: self.step, loss, grad_norm, lr })
    }

    /// The next step's learning rate.
    ///
    /// Errors: it is infinite in the dtype in which the model is kept.
    fn rate(&self) -> Result<f64> {
        let lr = self.config.schedule.at(self.step);
        crate::schedule::check_rate(lr, self.config.precision.kept())?;
        Ok(lr)
    }

    /// Whether a step of that learning rate is looked at before it takes effect.
    fn is_checked(&self, lr: f64) -> bool {
        self.config.optimizer.may_overflow(lr, self.config.precision.kept())
    }

    /// With `checked`, all that the step leaves behind must be finite, and else the model's state, which is small.
    fn step_program(&mut self, batch: &[EagerTensor], checked: bool) -> Result<Executable> {
        let (device, held) = (&self.device, &self.held);
        let task = self.config.task(&self.model, &self.specs);
        let scalars = self.config.optimizer.scalars(1, 0.0).len();
        self.programs.get(Purpose::Step { checked }, batch, || {
            let mut leaves = Leaves::default();
            let held = held.try_map(|tensor| leaves.like(tensor))?;
            let mut inputs = leaves.inputs(batch)?;
            let scalars = leaves.scalars(scalars, task.precision.kept())?;
            inputs.key = leaves.key(task.model.is_random())?;
            let out = task.step(&Lazy, &held, &inputs, &scalars)?;
            let mut roots: Vec<Value> = out.held.values().cloned().collect();
            let count = roots.len() as u32;
            roots.extend([out.loss, out.grad_norm]);
            roots.extend(match checked {
                true => finite(&Lazy, out.held.values())?,
                false => finite(&Lazy, out.held.state.values())?,
            });
            let options = Options {
                donated: (0..count).map(|at| (at, at)).collect(),
                finite: (count..roots.len() as u32).collect(),
                ..Options::default()
            };
            Executable::new(device, &leaves.all, &roots, &options)
        })
    }

    /// The step's numbers on the device.
    fn scalars(&self, lr: f64) -> Result<Vec<EagerTensor>> {
        let numbers = self.config.optimizer.scalars(self.step + 1, lr);
        let dtype = self.config.precision.kept();
        numbers.into_iter().map(|number| EagerTensor::scalar(&self.device, number, dtype)).collect()
    }

    /// The key of the step's part `part`, where the model needs one.
    fn key(&self, part: usize) -> Result<Option<EagerTensor>> {
        // Steps are far fewer than 2^40.
        let draw = self.step | (part as u64) << 40;
        let key = || EagerTensor::from_slice(&self.device, &[2], &[self.config.seed, draw]);
        self.model.is_random().then(key).transpose()
    }
}

/// The next result as a number.
fn number(results: &mut impl Iterator<Item = EagerTensor>) -> Result<f64> {
    results.next().ok_or_else(|| missing("train"))?.item()
}

fn missing(op: &str) -> Error {
    Error::new(ErrorKind::Execute, op, "the program gave too few results")
}

/// The numbers of the results that are the loss and the gradient norm, where they are checked; what else must be finite
/// is what the step leaves behind.
#[derive(Clone, Copy, Default)]
struct Checked {
    loss: Option<usize>,
    norm: Option<usize>,
}

/// An error with the step in which it happened.
fn at_step(step: u64, error: Error, checked: Checked) -> Error {
    let message = match error.op.as_str() {
        "finite" => {
            let is = |result: Option<usize>| {
                result.is_some_and(|result| error.message.starts_with(&format!("result {result} ")))
            };
            let what = match () {
                () if is(checked.loss) => "the loss",
                () if is(checked.norm) => "the gradient norm",
                () => "the update",
            };
            format!("step {step}: {what} is not finite; the parameters are those of the step before")
        }
        _ => format!("step {step}: {error}"),
    };
    Error::new(error.kind, "train", message)
}
