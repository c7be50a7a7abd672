//! The trainer: a step machine over one compiled program.
//!
//! Forward, loss, backward, clipping and update are one executable. Parameters, moments and state are donated to it,
//! so they are updated in place; loss and gradient norm must be finite for it to commit, so a step that fails, for
//! whatever reason, leaves everything as it was. What changes from step to step (learning rate, bias corrections, the
//! key of dropout) are arguments: nothing is compiled again.
//!
//! All randomness of a step is a function of seed and step number, so a restored trainer goes on bit for bit.

use lanthorn_ir::ops::Reduction;
use lanthorn_ir::{DType, Error, ErrorKind, Lazy, Result, TensorType, Value};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};
use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::host::HostTensor;
use crate::mode::Mode;
use crate::model::Model;
use crate::optim::{AdamW, AdamWConfig, Moments, StepScalars};
use crate::params::{ParamSpec, Params, initial};
use crate::schedule::Schedule;
use crate::snapshot::Snapshot;
use crate::step::{StepInputs, training_step};

/// What a trainer needs to know besides its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerConfig {
    pub optimizer: AdamWConfig,
    pub schedule: Schedule,
    /// Of the first parameters and of dropout.
    pub seed: u64,
    /// Of parameters and moments: `f32` or `f64`.
    pub dtype: DType,
}

/// What a step was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Counted from 1.
    pub step: u64,
    /// The mean loss (nats a token) before the update.
    pub loss: f64,
    /// The norm of all gradients before clipping.
    pub grad_norm: f64,
    /// The learning rate.
    pub lr: f64,
}

/// The document `trainer` of a snapshot.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    config: TrainerConfig,
    /// Steps done. Together with the seed this is all of the random state.
    step: u64,
}

/// Trains a model.
#[derive(Debug)]
pub struct Trainer<M: Model> {
    device: Device,
    model: M,
    specs: Vec<ParamSpec>,
    config: TrainerConfig,
    optimizer: AdamW,
    held: Held<EagerTensor>,
    step: u64,
    /// The program for batches of this shape.
    step_program: Option<([usize; 2], Executable)>,
    loss_program: Option<([usize; 2], Executable)>,
}

/// What lives from step to step.
#[derive(Clone, Debug)]
struct Held<V> {
    params: Params<V>,
    moments: Moments<V>,
    state: Params<V>,
}

impl<V> Held<V> {
    fn try_map<W>(&self, mut f: impl FnMut(&V) -> Result<W>) -> Result<Held<W>> {
        Ok(Held {
            params: self.params.try_map(|_, x| f(x))?,
            moments: Moments {
                m: self.moments.m.try_map(|_, x| f(x))?,
                v: self.moments.v.try_map(|_, x| f(x))?,
            },
            state: self.state.try_map(|_, x| f(x))?,
        })
    }

    /// In the order of the program's arguments and results.
    fn values(&self) -> impl Iterator<Item = &V> {
        let Moments { m, v } = &self.moments;
        self.params.values().chain(m.values()).chain(v.values()).chain(self.state.values())
    }

    /// The same names with other values, in that order; the rest stays in `values`.
    fn with_values<W>(&self, values: &mut impl Iterator<Item = W>) -> Result<Held<W>> {
        let mut next = |names: &Params<V>| names.with_values(values.by_ref().take(names.len()));
        Ok(Held {
            params: next(&self.params)?,
            moments: Moments { m: next(&self.moments.m)?, v: next(&self.moments.v)? },
            state: next(&self.state)?,
        })
    }
}

impl<M: Model> Trainer<M> {
    /// A trainer at its beginning, with first parameters from the configuration's seed.
    ///
    /// Errors: settings that are no settings; memory.
    pub fn new(device: &Device, model: M, config: TrainerConfig) -> Result<Trainer<M>> {
        let specs = model.specs();
        let zeros = |specs: &[ParamSpec]| {
            let named = |spec: &ParamSpec| Ok((spec.name.clone(), HostTensor::zeros(spec.ty(config.dtype))?));
            specs.iter().map(named).collect::<Result<Params<HostTensor>>>()
        };
        let held = Held {
            params: initial(&specs, config.seed, config.dtype)?,
            moments: Moments { m: zeros(&specs)?, v: zeros(&specs)? },
            state: initial(&model.state_specs(), config.seed, config.dtype)?,
        };
        Trainer::with(device, model, config, &held, 0)
    }

    /// The trainer that wrote the snapshot.
    ///
    /// Errors: a document or tensor that is missing or wrong; memory.
    pub fn restore(device: &Device, snapshot: &Snapshot) -> Result<Trainer<M>> {
        let Progress { config, step } = snapshot.get("trainer")?;
        let model = M::from_config(snapshot.get("model")?)?;
        let specs = model.specs();
        let held = Held {
            params: snapshot.values("params", &specs, config.dtype)?,
            moments: Moments {
                m: snapshot.values("optim/m", &specs, config.dtype)?,
                v: snapshot.values("optim/v", &specs, config.dtype)?,
            },
            state: snapshot.values("state", &model.state_specs(), config.dtype)?,
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
        config.schedule.check()?;
        Ok(Trainer {
            specs: model.specs(),
            optimizer: AdamW::new(config.optimizer)?,
            held: held.try_map(|tensor| tensor.to_device(device))?,
            device: device.clone(),
            model,
            config,
            step,
            step_program: None,
            loss_program: None,
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
        snapshot.insert_values("optim/m", held.moments.m);
        snapshot.insert_values("optim/v", held.moments.v);
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

    /// Trains on one batch.
    ///
    /// Errors name the step, and then parameters, moments and step number are what they were before it:
    /// [`ErrorKind::Execute`] for a loss or gradient norm that is not finite and for a token that the model does not
    /// know, [`ErrorKind::Cancelled`], memory. Under
    /// [`Device::set_trace_non_finite`](lanthorn_runtime::Device::set_trace_non_finite) the error names the op.
    pub fn step(&mut self, batch: &Batch, cancel: &CancelToken) -> Result<StepReport> {
        let step = self.step + 1;
        self.try_step(batch, cancel).map_err(|error| at_step(step, error, self.held.values().count()))
    }

    fn try_step(&mut self, batch: &Batch, cancel: &CancelToken) -> Result<StepReport> {
        let program = self.step_program(batch.shape())?;
        let (device, dtype) = (&self.device, self.config.dtype);
        let lr = self.config.schedule.at(self.step);
        let (bias1, bias2) = self.optimizer.bias_corrections(self.step + 1);
        let mut changing = batch.to_device(device)?.to_vec();
        for scalar in [lr, bias1, bias2] {
            changing.push(EagerTensor::scalar(device, scalar, dtype)?);
        }
        if self.model.is_random() {
            changing.push(EagerTensor::from_slice(device, &[2], &[self.config.seed, self.step])?);
        }
        let arguments: Vec<&EagerTensor> = self.held.values().chain(&changing).collect();
        let mut results = program.call(&arguments, cancel)?.into_iter();
        let held = self.held.with_values(&mut results)?;
        let mut number = || results.next().map_or_else(|| Err(missing("step")), |result| result.item());
        let (loss, grad_norm) = (number()?, number()?);
        self.held = held;
        self.step += 1;
        Ok(StepReport { step: self.step, loss, grad_norm, lr })
    }

    /// The mean loss (nats a token) on at most `windows` windows of `tokens`, which lie evenly over them and do not
    /// overlap, `rows` at a time. Without dropout; nothing changes.
    ///
    /// Errors: fewer than two tokens, no rows or windows; as [`Trainer::step`].
    pub fn evaluate(
        &mut self,
        tokens: &[u32],
        context: usize,
        rows: usize,
        windows: usize,
        cancel: &CancelToken,
    ) -> Result<f64> {
        let batches = Batch::covering(tokens, context, rows, windows)?;
        let (mut total, mut count) = (0.0, 0);
        for batch in batches {
            let program = self.loss_program(batch.shape())?;
            let changing = batch.to_device(&self.device)?;
            let fixed = self.held.params.values().chain(self.held.state.values());
            let arguments: Vec<&EagerTensor> = fixed.chain(&changing).collect();
            let results = program.call(&arguments, cancel)?;
            total += results.first().ok_or_else(|| missing("evaluate"))?.item()?;
            count += batch.counted_targets();
        }
        Ok(total / count as f64)
    }

    fn step_program(&mut self, shape: [usize; 2]) -> Result<Executable> {
        if let Some((_, program)) = self.step_program.as_ref().filter(|(found, _)| *found == shape) {
            return Ok(program.clone());
        }
        let held = self.held.try_map(leaf)?;
        let [input, targets] = batch_leaves(shape)?;
        let scalar = || Value::leaf(TensorType::scalar(self.config.dtype));
        let scalars = StepScalars { lr: scalar()?, bias1: scalar()?, bias2: scalar()? };
        let key = match self.model.is_random() {
            true => Some(Value::leaf(TensorType::new(DType::U64, [2]))?),
            false => None,
        };
        let mut parameters: Vec<Value> = held.values().cloned().collect();
        let count = parameters.len() as u32;
        parameters.extend([&input, &targets, &scalars.lr, &scalars.bias1, &scalars.bias2].map(Value::clone));
        parameters.extend(key.clone());
        let Held { params, moments, state } = held;
        let inputs = StepInputs { params, moments, state, input, targets, scalars, key };
        let out = training_step(&Lazy, &self.model, &self.specs, &self.optimizer, &inputs)?;
        let after = Held { params: out.params, moments: out.moments, state: out.state };
        let mut roots: Vec<Value> = after.values().cloned().collect();
        roots.extend([out.loss, out.grad_norm]);
        let options = Options {
            donated: (0..count).map(|at| (at, at)).collect(),
            finite: vec![count, count + 1],
            ..Options::default()
        };
        let program = Executable::new(&self.device, &parameters, &roots, &options)?;
        self.step_program = Some((shape, program.clone()));
        Ok(program)
    }

    fn loss_program(&mut self, shape: [usize; 2]) -> Result<Executable> {
        if let Some((_, program)) = self.loss_program.as_ref().filter(|(found, _)| *found == shape) {
            return Ok(program.clone());
        }
        let (params, state) =
            (self.held.params.try_map(|_, x| leaf(x))?, self.held.state.try_map(|_, x| leaf(x))?);
        let [input, targets] = batch_leaves(shape)?;
        let mut parameters: Vec<Value> = params.values().chain(state.values()).cloned().collect();
        parameters.extend([input.clone(), targets.clone()]);
        let (model, mode) = (&self.model, Mode::Eval);
        let (loss, _) = model.loss(&Lazy, &params, &state, &input, &targets, &mode, Reduction::Sum)?;
        let program = Executable::new(&self.device, &parameters, &[loss], &Options::default())?;
        self.loss_program = Some((shape, program.clone()));
        Ok(program)
    }
}

fn leaf(tensor: &EagerTensor) -> Result<Value> {
    Value::leaf(tensor.ty().clone())
}

/// Input and targets of batches of that shape.
fn batch_leaves(shape: [usize; 2]) -> Result<[Value; 2]> {
    let leaf = || Value::leaf(TensorType::new(DType::I32, shape));
    Ok([leaf()?, leaf()?])
}

fn missing(op: &str) -> Error {
    Error::new(ErrorKind::Execute, op, "the program gave too few results")
}

/// An error with the step in which it happened. `loss` is the number of the result that is the loss; the gradient
/// norm is the next.
fn at_step(step: u64, error: Error, loss: usize) -> Error {
    let message = match error.op.as_str() {
        "finite" => {
            let is_loss = error.message.starts_with(&format!("result {loss} "));
            let what = if is_loss { "the loss" } else { "the gradient norm" };
            format!("step {step}: {what} is not finite; the parameters are those of the step before")
        }
        _ => format!("step {step}: {error}"),
    };
    Error::new(error.kind, "train", message)
}
