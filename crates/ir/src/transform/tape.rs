//! A tape: reverse derivatives over any builder.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::gradient::{check_cotangents, check_wrt, loss_seed};
use super::record::{Record, UNTRACKED, is_differentiable, reverse};
use crate::builder::{Builder, Outputs};
use crate::error::{Error, Result};
use crate::layout::TensorType;
use crate::ops;
use crate::prim::Prim;

/// A builder that records what it applies to watched values, so that eager values can be differentiated.
///
/// A derivative is applied through the tape too and may be differentiated again. Values that no watched
/// value reaches are not recorded, and so not kept alive.
#[derive(Debug, Default)]
pub struct Tape<B: Builder> {
    inner: B,
    state: RefCell<State<B::Value>>,
}

#[derive(Debug)]
struct State<V> {
    records: Vec<Record<Tracked<V>>>,
    count: usize,
}

impl<V> Default for State<V> {
    fn default() -> Self {
        State { records: Vec::new(), count: 0 }
    }
}

/// A value with its number on a tape, if a watched value reaches it.
#[derive(Clone, Debug)]
pub struct Tracked<V> {
    value: V,
    id: usize,
}

impl<V> Tracked<V> {
    /// The value itself.
    pub fn value(&self) -> &V {
        &self.value
    }

    /// The value without its number.
    pub fn into_value(self) -> V {
        self.value
    }
}

impl<B: Builder> Tape<B> {
    /// An empty tape over `inner`.
    pub fn new(inner: B) -> Self {
        Tape { inner, state: RefCell::new(State::default()) }
    }

    /// The builder underneath.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// How many applications are recorded.
    pub fn len(&self) -> usize {
        self.state.borrow().records.len()
    }

    /// True if nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A value in which derivatives can be asked for.
    pub fn watch(&self, value: B::Value) -> Tracked<B::Value> {
        let mut state = self.state.borrow_mut();
        state.count += 1;
        Tracked { value, id: state.count - 1 }
    }

    /// A value through which no derivative flows.
    pub fn constant(&self, value: B::Value) -> Tracked<B::Value> {
        Tracked { value, id: UNTRACKED }
    }

    /// Cotangents of `wrt` from those of `outputs`; `None` where an output does not depend on the value.
    pub fn vjp(
        &self,
        outputs: &[Tracked<B::Value>],
        cotangents: &[Tracked<B::Value>],
        wrt: &[Tracked<B::Value>],
    ) -> Result<Vec<Option<Tracked<B::Value>>>> {
        check_cotangents(self, outputs, cotangents)?;
        self.back("vjp", outputs, cotangents, wrt)
    }

    /// [`Tape::vjp`] for the call that errors name.
    fn back(
        &self,
        op: &str,
        outputs: &[Tracked<B::Value>],
        cotangents: &[Tracked<B::Value>],
        wrt: &[Tracked<B::Value>],
    ) -> Result<Vec<Option<Tracked<B::Value>>>> {
        check_wrt(op, self, wrt)?;
        if let Some(i) = wrt.iter().position(|value| value.id == UNTRACKED) {
            return Err(Error::unsupported(op, format!("value {i} is not on the tape; watch it first")));
        }
        let (len, count) = {
            let state = self.state.borrow();
            (state.records.len(), state.count)
        };
        let seeds = outputs.iter().zip(cotangents).filter(|(output, _)| output.id != UNTRACKED);
        let seeds = seeds.map(|(output, cotangent)| (output.id, cotangent.clone())).collect();
        let wrt: Vec<usize> = wrt.iter().map(|value| value.id).collect();
        reverse(self, count, len, |index| self.state.borrow().records[index].clone(), seeds, &wrt)
    }

    /// Gradients of a loss of one element; a value on which it does not depend gets zeros.
    pub fn grad(
        &self,
        loss: &Tracked<B::Value>,
        wrt: &[Tracked<B::Value>],
    ) -> Result<Vec<Tracked<B::Value>>> {
        let seed = loss_seed("grad", self, loss)?;
        let found = self.back("grad", std::slice::from_ref(loss), &[seed], wrt)?;
        found.into_iter().zip(wrt).map(|(g, x)| g.map_or_else(|| ops::zeros_like(self, x), Ok)).collect()
    }
}

impl<B: Builder> Builder for Tape<B> {
    type Value = Tracked<B::Value>;

    fn apply(&self, prim: Prim, inputs: &[Self::Value]) -> Result<Outputs<Self::Value>> {
        let operands: SmallVec<[B::Value; 3]> = inputs.iter().map(|input| input.value.clone()).collect();
        let is_tracked = inputs.iter().any(|input| input.id != UNTRACKED);
        let outputs = self.inner.apply(prim.clone(), &operands)?;
        if !is_tracked || !outputs.iter().any(|output| is_differentiable(&self.inner, output)) {
            return Ok(outputs.into_iter().map(|value| self.constant(value)).collect());
        }
        let mut state = self.state.borrow_mut();
        let first_output = state.count;
        state.count += outputs.len();
        let outputs: Outputs<Self::Value> =
            outputs.into_iter().zip(first_output..).map(|(value, id)| Tracked { value, id }).collect();
        state.records.push(Record {
            prim,
            inputs: inputs.iter().cloned().collect(),
            input_ids: inputs.iter().map(|input| input.id).collect(),
            outputs: outputs.clone(),
            first_output,
        });
        Ok(outputs)
    }

    fn ty<'a>(&self, value: &'a Self::Value) -> &'a TensorType {
        self.inner.ty(&value.value)
    }

    fn count(&self, op: &str, value: &Self::Value) -> Result<usize> {
        self.inner.count(op, &value.value)
    }
}
