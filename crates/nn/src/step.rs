//! One step of training as one function: forward, loss, backward, clipping and update.
//!
//! Over [`Lazy`] it is a graph to compile; over a [`Tape`] of an eager builder it runs primitive by primitive. Both
//! apply the same rules to the same composition, so they agree up to rounding.

use lanthorn_ir::ops::Reduction;
use lanthorn_ir::transform::{self, Tape};
use lanthorn_ir::{Builder, Lazy, Result};

use crate::mode::Mode;
use crate::model::Model;
use crate::optim::{AdamW, Moments, StepScalars, Updated};
use crate::params::{ParamSpec, Params};

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

/// What a step reads.
#[derive(Clone, Debug)]
pub struct StepInputs<V> {
    pub params: Params<V>,
    pub moments: Moments<V>,
    /// The model's state.
    pub state: Params<V>,
    /// The model's input, for a language model integer ids `[batch, seq]`.
    pub input: V,
    /// Integer targets `[batch, seq]`.
    pub targets: V,
    pub scalars: StepScalars<V>,
    /// `u64[2]`: seed and draw number; needed if the model is random in training.
    pub key: Option<V>,
}

/// What a step gives.
#[derive(Clone, Debug)]
pub struct StepOutputs<V> {
    pub params: Params<V>,
    pub moments: Moments<V>,
    pub state: Params<V>,
    /// The mean loss (nats) before the update, of rank 0.
    pub loss: V,
    /// The norm of all gradients before clipping, of rank 0.
    pub grad_norm: V,
}

/// One step of a model with parameters `specs` (which are `model.specs()`).
pub fn training_step<B: Gradient, M: Model>(
    b: &B,
    model: &M,
    specs: &[ParamSpec],
    optimizer: &AdamW,
    inputs: &StepInputs<B::Value>,
) -> Result<StepOutputs<B::Value>> {
    let StepInputs { params, moments, state, input, targets, scalars, key } = inputs;
    let mode = Mode::train(key.clone());
    let (loss, state) = model.loss(b, params, state, input, targets, &mode, Reduction::Mean)?;
    let wrt: Vec<B::Value> = params.values().cloned().collect();
    let grads = params.with_values(b.grad(&loss, &wrt)?)?;
    let (grads, grad_norm) = optimizer.clipped(b, &grads)?;
    let Updated { params, moments } = optimizer.update(b, specs, params, &grads, moments, scalars)?;
    Ok(StepOutputs { params, moments, state, loss, grad_norm })
}
