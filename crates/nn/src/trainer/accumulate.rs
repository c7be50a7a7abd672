//! A step over several batches: their gradients added up, then one update.

use lanthorn_ir::ops::{self, Reduction};
use lanthorn_ir::{DType, Error, Lazy, Result, Value};
use lanthorn_runtime::{CancelToken, EagerTensor, Executable, Options};

use super::program::{Leaves, Purpose};
use super::{Checked, StepReport, Trainer, at_step, missing, number};
use crate::data::Examples;
use crate::model::Model;
use crate::params::Params;
use crate::step::{GradientOutputs, Held, finite};

/// The parts of a step so far.
struct Sums {
    grads: Params<EagerTensor>,
    loss: f64,
    /// Terms of the loss.
    terms: f64,
    /// The model's state after them.
    state: Params<EagerTensor>,
}

impl<M: Model> Trainer<M> {
    /// Trains on several batches as if they were one: the loss is the mean over all their terms, and there is one
    /// update. Only one batch's intermediate values are in memory at a time. A batch norm sees each batch by itself, and
    /// a model that is random draws for each anew.
    ///
    /// Errors: as [`Trainer::step`]; no batches.
    pub fn step_accumulated<E: Examples>(
        &mut self,
        batches: &[E],
        cancel: &CancelToken,
    ) -> Result<StepReport> {
        let step = self.step + 1;
        if batches.is_empty() {
            return Err(at_step(
                step,
                Error::shape("accumulate", "there are no batches"),
                Checked::default(),
            ));
        }
        // In a program of gradients the loss comes after gradients and state.
        let checked = Checked { loss: Some(self.moving() + self.held.state.len()), norm: None };
        let mut sums: Option<Sums> = None;
        for (part, batch) in batches.iter().enumerate() {
            let added = self.add_part(part, batch, sums.take(), cancel);
            sums = Some(added.map_err(|error| at_step(step, error, checked))?);
        }
        let sums = sums.ok_or_else(|| missing("accumulate"))?;
        let checked = Checked { loss: None, norm: Some(self.updated_values().count()) };
        self.update_with(sums, cancel).map_err(|error| at_step(step, error, checked))
    }

    /// How many parameters move.
    fn moving(&self) -> usize {
        self.specs.iter().filter(|spec| self.config.optimizer.moves(spec)).count()
    }

    fn add_part(
        &mut self,
        part: usize,
        batch: &impl Examples,
        before: Option<Sums>,
        cancel: &CancelToken,
    ) -> Result<Sums> {
        let mut changing = batch.to_device(&self.device)?.to_vec();
        let program = self.gradient_program(&changing, before.is_none())?;
        changing.extend(self.key(part)?);
        let (grads, state) = match &before {
            Some(sums) => (sums.grads.values().collect(), &sums.state),
            None => (Vec::new(), &self.held.state),
        };
        let arguments: Vec<&EagerTensor> = grads
            .into_iter()
            .chain(self.held.params.values())
            .chain(state.values())
            .chain(&changing)
            .collect();
        let mut results = program.call(&arguments, cancel)?.into_iter();
        let names: Params<()> = self
            .specs
            .iter()
            .filter(|spec| self.config.optimizer.moves(spec))
            .map(|spec| (spec.name.clone(), ()))
            .collect();
        let grads = names.with_values(results.by_ref().take(names.len()))?;
        let state = self.held.state.with_values(results.by_ref().take(self.held.state.len()))?;
        let (loss, terms) = (number(&mut results)?, number(&mut results)?);
        let (loss_before, terms_before) = before.map_or((0.0, 0.0), |sums| (sums.loss, sums.terms));
        Ok(Sums { grads, state, loss: loss_before + loss, terms: terms_before + terms })
    }

    fn update_with(&mut self, sums: Sums, cancel: &CancelToken) -> Result<StepReport> {
        if sums.terms == 0.0 {
            return Err(Error::shape("accumulate", "no target of the batches counts"));
        }
        let lr = self.rate()?;
        let program = self.update_program(self.is_checked(lr))?;
        let mut changing = self.scalars(lr)?;
        changing.push(EagerTensor::scalar(&self.device, 1.0 / sums.terms, self.config.precision.kept())?);
        let arguments: Vec<&EagerTensor> =
            self.updated_values().chain(sums.grads.values()).chain(&changing).collect();
        let mut results = program.call(&arguments, cancel)?.into_iter();
        let names = Held { state: Params::new(), ..self.held.clone() };
        let held = names.with_values(&mut results)?;
        let grad_norm = number(&mut results)?;
        self.held = Held { state: sums.state, ..held };
        self.step += 1;
        Ok(StepReport { step: self.step, loss: sums.loss / sums.terms, grad_norm, lr })
    }

    /// What an update changes: all that is held but the model's state.
    fn updated_values(&self) -> impl Iterator<Item = &EagerTensor> {
        let count = self.held.values().count() - self.held.state.len();
        self.held.values().take(count)
    }

    /// `(sums, params, state, batch) -> (sums, state, loss, terms)`, the loss being a sum.
    fn gradient_program(&mut self, batch: &[EagerTensor], first: bool) -> Result<Executable> {
        let (device, held) = (&self.device, &self.held);
        let task = self.config.task(&self.model, &self.specs);
        self.programs.get(Purpose::Gradients { first }, batch, || {
            let mut leaves = Leaves::default();
            let moving = task.specs.iter().filter(|spec| !first && task.optimizer.moves(spec));
            let sums = moving
                .map(|spec| Ok((spec.name.clone(), leaves.like(held.params.get(&spec.name)?)?)))
                .collect::<Result<Params<Value>>>()?;
            let params = held.params.try_map(|_, tensor| leaves.like(tensor))?;
            let state = held.state.try_map(|_, tensor| leaves.like(tensor))?;
            let mut inputs = leaves.inputs(batch)?;
            inputs.key = leaves.key(task.model.is_random())?;
            let GradientOutputs { found, grads } =
                task.gradients(&Lazy, &params, &state, &inputs, Reduction::Sum)?;
            let grads = grads.try_map(|name, grad| match sums.get(name) {
                Ok(sum) => ops::add(&Lazy, sum, grad),
                Err(_) => Ok(grad.clone()),
            })?;
            let classes = found.output.as_ref().and_then(|output| output.ty().shape.last().copied());
            let terms = task.loss.terms(&Lazy, &inputs.targets, classes)?;
            let mut roots: Vec<Value> = grads.values().chain(found.state.values()).cloned().collect();
            let loss = roots.len() as u32;
            roots.extend([found.loss, terms]);
            // The state of the last part is what the step leaves behind.
            let mut checked = vec![loss];
            if let Some(state) = finite(&Lazy, found.state.values())? {
                checked.push(roots.len() as u32);
                roots.push(state);
            }
            let options = Options {
                donated: (0..sums.len() as u32).map(|at| (at, at)).collect(),
                finite: checked,
                ..Options::default()
            };
            Executable::new(device, &leaves.all, &roots, &options)
        })
    }

    /// `(held but the model's state, sums, scalars, scale) -> (held, grad_norm)`.
    fn update_program(&mut self, checked: bool) -> Result<Executable> {
        let (device, held) = (&self.device, &self.held);
        let task = self.config.task(&self.model, &self.specs);
        let scalars = self.config.optimizer.scalars(1, 0.0).len();
        self.programs.get(Purpose::Update { checked }, &[], || {
            let dtype: DType = task.precision.kept();
            let mut leaves = Leaves::default();
            let held = Held { state: Params::new(), ..held.clone() }.try_map(|tensor| leaves.like(tensor))?;
            let moving = task.specs.iter().filter(|spec| task.optimizer.moves(spec));
            let sums = moving
                .map(|spec| Ok((spec.name.clone(), leaves.one(spec.ty(dtype))?)))
                .collect::<Result<Params<Value>>>()?;
            let scalars = leaves.scalars(scalars, dtype)?;
            let [scale] = &leaves.scalars(1, dtype)?[..] else { return Err(missing("train")) };
            let grads = sums.try_map(|_, sum| ops::mul(&Lazy, sum, scale))?;
            let (after, grad_norm) = task.updated(&Lazy, &held, &grads, &scalars)?;
            let mut roots: Vec<Value> = after.values().cloned().collect();
            let count = roots.len() as u32;
            roots.push(grad_norm);
            roots.extend(if checked { finite(&Lazy, after.values())? } else { None });
            let options = Options {
                donated: (0..count).map(|at| (at, at)).collect(),
                finite: (count..roots.len() as u32).collect(),
                ..Options::default()
            };
            Executable::new(device, &leaves.all, &roots, &options)
        })
    }
}
