//! One step of training as one function: forward, loss, backward, clipping, update and average.
//!
//! Over [`Lazy`] it is a graph to compile; over a [`Tape`] of an eager builder it runs primitive by primitive. Both
//! apply the same rules to the same composition, so they agree up to rounding.

use lanthorn_ir::ops::{self, Reduction};
use lanthorn_ir::transform::{self, Tape};
use lanthorn_ir::{Builder, Lazy, Result};

use crate::loss::Loss;
use crate::mode::Mode;
use crate::model::Model;
use crate::optim::{Optimizer, Slots, Updated};
use crate::params::{ParamSpec, Params};
use crate::precision::Precision;

/// A builder over which gradients can be taken.
pub trait Gradient: Builder {
    /// Gradients of a loss of one element with respect to values that were there before it. A tape must watch them.
    fn grad(&self, loss: &Self::Value, wrt: &[Self::Value]) -> Result<Vec<Self::Value>>;
}

impl Gradient for Lazy {
    fn grad(&self, loss: &Self::Value, wrt: &[Self::Value]) -> Result<Vec<Self::Value>> {
        transform::grad(loss, wrt)
    }
}

impl<B: Builder> Gradient for Tape<B> {
    fn grad(&self, loss: &Self::Value, wrt: &[Self::Value]) -> Result<Vec<Self::Value>> {
        Tape::grad(self, loss, wrt)
    }
}

/// What is trained, and how.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a, M> {
    pub model: &'a M,
    /// Those of the model.
    pub specs: &'a [ParamSpec],
    pub loss: Loss,
    pub precision: Precision,
    pub optimizer: &'a Optimizer,
    /// The share that a step's parameters do not have in their exponential moving average; `None`: there is none.
    pub ema: Option<f64>,
}

/// What a model sees in one step.
#[derive(Clone, Debug)]
pub struct Inputs<V> {
    pub input: V,
    pub targets: V,
    /// `u64[2]`: seed and draw number; needed if the model is random in training.
    pub key: Option<V>,
}

/// What lives from step to step.
#[derive(Clone, Debug)]
pub struct Held<V> {
    pub params: Params<V>,
    /// The optimiser's state.
    pub slots: Slots<V>,
    /// Averages of the parameters; none where the task has no average.
    pub ema: Params<V>,
    /// The model's state.
    pub state: Params<V>,
}

impl<V> Held<V> {
    /// Another value for each, in the order of [`Held::values`].
    pub fn try_map<W>(&self, mut f: impl FnMut(&V) -> Result<W>) -> Result<Held<W>> {
        Ok(Held {
            params: self.params.try_map(|_, x| f(x))?,
            slots: self.slots.try_map(|_, slot| slot.try_map(|_, x| f(x)))?,
            ema: self.ema.try_map(|_, x| f(x))?,
            state: self.state.try_map(|_, x| f(x))?,
        })
    }

    /// Parameters, slots, averages, and the state last.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        let slots = self.slots.values().flat_map(Params::values);
        self.params.values().chain(slots).chain(self.ema.values()).chain(self.state.values())
    }

    /// The same names with other values, in that order; the rest stays in `values`.
    pub fn with_values<W>(&self, values: &mut impl Iterator<Item = W>) -> Result<Held<W>> {
        let mut next = |names: &Params<V>| names.with_values(values.by_ref().take(names.len()));
        Ok(Held {
            params: next(&self.params)?,
            slots: self.slots.try_map(|_, slot| next(slot))?,
            ema: next(&self.ema)?,
            state: next(&self.state)?,
        })
    }
}

/// A number of rank 0 that is finite exactly if all floats among `values` are: the sum of `0 x`. `None` without floats.
pub(crate) fn finite<'v, B: Builder>(
    b: &B,
    values: impl Iterator<Item = &'v B::Value>,
) -> Result<Option<B::Value>>
where
    B::Value: 'v,
{
    let mut total: Option<B::Value> = None;
    for value in values.filter(|value| b.ty(value).dtype.is_float()) {
        let nothing = ops::sum(b, &ops::mul_scalar(b, value, 0.0)?, &[], false)?;
        total = Some(match total {
            Some(total) => ops::add(b, &total, &nothing)?,
            None => nothing,
        });
    }
    Ok(total)
}

/// What a step gives.
#[derive(Clone, Debug)]
pub struct StepOutputs<V> {
    pub held: Held<V>,
    /// The mean loss before the update, of rank 0.
    pub loss: V,
    /// The norm of all gradients before clipping, of rank 0.
    pub grad_norm: V,
}

/// The loss of a model and the state afterwards, and, but for a loss of the model's own, the output it is of.
#[derive(Clone, Debug)]
pub struct LossOutputs<V> {
    pub loss: V,
    pub state: Params<V>,
    pub output: Option<V>,
}

/// The same with gradients.
#[derive(Clone, Debug)]
pub struct GradientOutputs<V> {
    pub found: LossOutputs<V>,
    /// Of the loss, by those parameters that move.
    pub grads: Params<V>,
}

impl<M: Model> Task<'_, M> {
    /// The model's output, wide, and the state afterwards.
    pub fn output<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        input: &B::Value,
        mode: &Mode<B::Value>,
    ) -> Result<(B::Value, Params<B::Value>)> {
        let params = params.try_map(|_, p| self.precision.narrow(b, p))?;
        let input = self.precision.narrow(b, input)?;
        let (output, state) = self.model.forward(b, &params, state, &input, mode)?;
        Ok((self.precision.widen(b, &output)?, state))
    }

    /// The loss in the dtype in which the model is kept. Only parameters and floating inputs are narrowed: layers with
    /// state compute in its dtype.
    pub fn loss<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        inputs: &Inputs<B::Value>,
        mode: &Mode<B::Value>,
        reduction: Reduction,
    ) -> Result<LossOutputs<B::Value>> {
        let Inputs { input, targets, .. } = inputs;
        let targets = self.precision.widen(b, targets)?;
        let (loss, state, output) = match self.loss {
            Loss::Model => {
                let params = params.try_map(|_, p| self.precision.narrow(b, p))?;
                let input = self.precision.narrow(b, input)?;
                let (loss, state) = self.model.loss(b, &params, state, &input, &targets, mode, reduction)?;
                (loss, state, None)
            }
            loss => {
                let (output, state) = self.output(b, params, state, input, mode)?;
                (loss.of(b, &output, &targets, reduction)?, state, Some(output))
            }
        };
        Ok(LossOutputs { loss: self.precision.widen(b, &loss)?, state, output })
    }

    /// Loss, state afterwards and the gradients of those parameters that move.
    pub fn gradients<B: Gradient>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        inputs: &Inputs<B::Value>,
        reduction: Reduction,
    ) -> Result<GradientOutputs<B::Value>> {
        let mode = Mode::train(inputs.key.clone());
        let found = self.loss(b, params, state, inputs, &mode, reduction)?;
        let moving = self.specs.iter().filter(|spec| self.optimizer.moves(spec));
        let wrt = moving.map(|spec| Ok((spec.name.clone(), params.get(&spec.name)?.clone())));
        let wrt = wrt.collect::<Result<Params<B::Value>>>()?;
        let values: Vec<B::Value> = wrt.values().cloned().collect();
        let grads = wrt.with_values(b.grad(&found.loss, &values)?)?;
        Ok(GradientOutputs { found, grads })
    }

    /// What is held after an update with gradients, and their norm before clipping. The model's state stays.
    pub fn updated<B: Builder>(
        &self,
        b: &B,
        held: &Held<B::Value>,
        grads: &Params<B::Value>,
        scalars: &[B::Value],
    ) -> Result<(Held<B::Value>, B::Value)> {
        let (grads, grad_norm) = self.optimizer.clipped(b, grads)?;
        let Updated { params, slots } =
            self.optimizer.update(b, self.specs, &held.params, &grads, &held.slots, scalars)?;
        let ema = held.ema.try_map(|name, average| {
            // average + (1 - decay) (p - average)
            let moved = ops::sub(b, params.get(name)?, average)?;
            ops::add(b, average, &ops::mul_scalar(b, &moved, 1.0 - self.ema.unwrap_or(1.0))?)
        })?;
        Ok((Held { params, slots, ema, state: held.state.clone() }, grad_norm))
    }

    /// One step. `scalars` are those of [`Optimizer::scalars`], of rank 0 in the dtype in which the model is kept.
    pub fn step<B: Gradient>(
        &self,
        b: &B,
        held: &Held<B::Value>,
        inputs: &Inputs<B::Value>,
        scalars: &[B::Value],
    ) -> Result<StepOutputs<B::Value>> {
        let GradientOutputs { found, grads } =
            self.gradients(b, &held.params, &held.state, inputs, Reduction::Mean)?;
        let (held, grad_norm) = self.updated(b, held, &grads, scalars)?;
        Ok(StepOutputs { held: Held { state: found.state, ..held }, loss: found.loss, grad_norm })
    }
}
