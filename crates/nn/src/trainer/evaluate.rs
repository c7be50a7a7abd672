//! The model as it is: losses and metrics of data that it does not train on, and its output.

use lanthorn_ir::ops::Reduction;
use lanthorn_ir::{Error, ErrorKind, Lazy, Result, Value};
use lanthorn_runtime::{CancelToken, EagerTensor, Executable, Options};
use serde::{Deserialize, Serialize};

use super::program::{Leaves, Purpose};
use super::{Trainer, missing, number};
use crate::data::Examples;
use crate::host::HostTensor;
use crate::metrics::Metric;
use crate::mode::Mode;
use crate::model::Model;

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Steps done when it was made.
    pub step: u64,
    /// The mean loss over all terms.
    pub loss: f64,
    /// In the order in which they were asked for.
    pub metrics: Vec<(Metric, f64)>,
}

impl Evaluation {
    /// A metric that was asked for.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        self.metrics.iter().find(|(found, _)| *found == metric).map(|&(_, value)| value)
    }

    /// `e` to the loss: among so many equally likely tokens a language model chooses.
    pub fn perplexity(&self) -> f64 {
        libm::exp(self.loss)
    }
}

impl<M: Model> Trainer<M> {
    /// The mean loss over all terms of the batches, and metrics over all their examples: in evaluation mode, with the
    /// averages of the parameters where there are any. Nothing changes.
    ///
    /// Errors: no batches or no targets that count; a loss that is not finite; what a metric does not fit; cancelled;
    /// memory.
    pub fn evaluate<E: Examples>(
        &mut self,
        batches: impl IntoIterator<Item = E>,
        metrics: &[Metric],
        cancel: &CancelToken,
    ) -> Result<Evaluation> {
        let (mut loss, mut terms) = (0.0, 0.0);
        let mut sums: Vec<Vec<f64>> = vec![Vec::new(); metrics.len()];
        for batch in batches {
            let batch = batch.to_device(&self.device)?;
            let program = self.evaluation_program(&batch, metrics)?;
            let fixed = self.averaged().values().chain(self.held.state.values());
            let arguments: Vec<&EagerTensor> = fixed.chain(&batch).collect();
            let mut results = program.call(&arguments, cancel)?.into_iter();
            loss += number(&mut results)?;
            terms += number(&mut results)?;
            for (sums, found) in sums.iter_mut().zip(results) {
                let found = found.to_f64_vec()?;
                sums.resize(found.len(), 0.0);
                sums.iter_mut().zip(found).for_each(|(sum, part)| *sum += part);
            }
        }
        if terms == 0.0 {
            return Err(Error::shape("evaluate", "there are no targets that count"));
        }
        let loss = loss / terms;
        if !loss.is_finite() {
            let message =
                format!("step {}: the loss of the evaluation is {loss}, which is not finite", self.step);
            return Err(Error::new(ErrorKind::Execute, "evaluate", message));
        }
        let metrics =
            metrics.iter().zip(&sums).map(|(metric, sums)| (*metric, metric.finish(sums))).collect();
        Ok(Evaluation { step: self.step, loss, metrics })
    }

    /// The model's output for an input `[n, ..]`: in evaluation mode, with the averages of the parameters where there
    /// are any.
    ///
    /// Errors: what the model refuses; cancelled; memory.
    pub fn predict(&mut self, input: &HostTensor, cancel: &CancelToken) -> Result<HostTensor> {
        let input = input.to_device(&self.device)?;
        let program = self.prediction_program(&input)?;
        let fixed = self.averaged().values().chain(self.held.state.values());
        let arguments: Vec<&EagerTensor> = fixed.chain([&input]).collect();
        let results = program.call(&arguments, cancel)?;
        HostTensor::from_device(results.first().ok_or_else(|| missing("predict"))?)
    }

    /// `(params, state, batch) -> (loss, terms, sums of each metric)`, the loss being a sum.
    fn evaluation_program(&mut self, batch: &[EagerTensor], metrics: &[Metric]) -> Result<Executable> {
        let (device, held) = (&self.device, &self.held);
        let task = self.config.task(&self.model, &self.specs);
        self.programs.get(Purpose::Evaluate(metrics.to_vec()), batch, || {
            let mut leaves = Leaves::default();
            let params = held.params.try_map(|_, tensor| leaves.like(tensor))?;
            let state = held.state.try_map(|_, tensor| leaves.like(tensor))?;
            let inputs = leaves.inputs(batch)?;
            let found = task.loss(&Lazy, &params, &state, &inputs, &Mode::Eval, Reduction::Sum)?;
            let classes = found.output.as_ref().and_then(|output| output.ty().shape.last().copied());
            let mut roots: Vec<Value> = vec![found.loss, task.loss.terms(&Lazy, &inputs.targets, classes)?];
            if !metrics.is_empty() {
                let output = match found.output {
                    Some(output) => output,
                    None => task.output(&Lazy, &params, &state, &inputs.input, &Mode::Eval)?.0,
                };
                for metric in metrics {
                    roots.push(metric.sums(&Lazy, &output, &inputs.targets)?);
                }
            }
            Executable::new(device, &leaves.all, &roots, &Options::default())
        })
    }

    fn prediction_program(&mut self, input: &EagerTensor) -> Result<Executable> {
        let (device, held) = (&self.device, &self.held);
        let task = self.config.task(&self.model, &self.specs);
        self.programs.get(Purpose::Predict, std::slice::from_ref(input), || {
            let mut leaves = Leaves::default();
            let params = held.params.try_map(|_, tensor| leaves.like(tensor))?;
            let state = held.state.try_map(|_, tensor| leaves.like(tensor))?;
            let input = leaves.like(input)?;
            let (output, _) = task.output(&Lazy, &params, &state, &input, &Mode::Eval)?;
            Executable::new(device, &leaves.all, &[output], &Options::default())
        })
    }
}
