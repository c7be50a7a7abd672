//! Recurrent layers that go on from the state that their sequence has in the pool.
//!
//! A gated delta rule goes on from its matrix, and a short convolution from its last inputs. Both give the next state
//! after the tokens of the call and no further: what pads a piece is no token, and a sequence that pads a batch has none.

use lanthorn_ir::prim::{Batched, Recurrent};
use lanthorn_ir::{Builder, DType, Error, Lazy, Prim, Result, TensorType, Value, ops};

use super::OP;
use super::rows::Analysis;

/// What tells a recurrent layer its sequences, all `i32[batch]`.
pub(super) struct Places {
    /// Tokens before the call, and of it.
    pub starts: Value,
    pub counts: Value,
    /// The slots of the state that is read, and of that which is written.
    pub from: Value,
    pub to: Value,
}

/// The state of all recurrent layers, each tensor replaced by itself with the next state as layers go on.
pub(super) struct RunningStates {
    /// `[slots, 1, ..]` each, those of delta rules first.
    tensors: Vec<Value>,
    deltas: usize,
    places: Places,
}

fn missing() -> Error {
    Error::shape(OP, "a recurrent layer has no state in the pool, or too few operands")
}

impl RunningStates {
    pub fn new(tensors: Vec<Value>, deltas: usize, places: Places) -> RunningStates {
        RunningStates { tensors, deltas, places }
    }

    /// The tensors of all layers.
    pub fn into_tensors(self) -> Vec<Value> {
        self.tensors
    }

    /// The outputs `[batch, length, heads, value_dim]` of a gated delta rule for a batch of sequences. `layer` counts
    /// delta rules; `operands` are the node's with the sequences along axis 0, and its first state, if it has one, that of
    /// sequences that begin.
    pub fn delta(&mut self, layer: usize, rule: Recurrent, operands: &[Value]) -> Result<Value> {
        let Recurrent::DeltaRule { scale, chunk, .. } = rule else { return Err(missing()) };
        let [q, k, v, log_decay, beta, first @ ..] = operands else { return Err(missing()) };
        let ([batch, _, heads, d], [_, _, _, dv]) = (&q.ty().shape[..], &v.ty().shape[..]) else {
            return Err(missing());
        };
        let ty = TensorType::new(q.ty().dtype.wide(), [*batch, *heads, *d, *dv]);
        let state = self.read(layer, first.first(), &ty)?;
        // Tokens that are none decay nothing and write nothing, whatever stands in their rows.
        let [k, v, log_decay, beta] = [k, v, log_decay, beta].map(|x| self.without_padding(x));
        let operands = [q.clone(), k?, v?, log_decay?, beta?, state];
        let rule = Prim::Recurrent(Recurrent::DeltaRule { scale, chunk, state: true });
        let outputs = Lazy.apply(rule, &operands)?;
        let [o, next] = &outputs[..] else { return Err(missing()) };
        self.write(layer, next)?;
        Ok(o.clone())
    }

    /// The outputs `[batch, length, channels]` of a short convolution, as [`RunningStates::delta`].
    pub fn convolution(&mut self, layer: usize, operands: &[Value]) -> Result<Value> {
        let layer = self.deltas + layer;
        let [x, weight, first @ ..] = operands else { return Err(missing()) };
        let ([batch, _, channels], [_, kernel]) = (&x.ty().shape[..], &weight.ty().shape[..]) else {
            return Err(missing());
        };
        let ty = TensorType::new(x.ty().dtype, [*batch, kernel.saturating_sub(1), *channels]);
        let state = self.read(layer, first.first(), &ty)?;
        let rule = Prim::Recurrent(Recurrent::ShortConv { state: true });
        let outputs = Lazy.apply(rule, &[x.clone(), weight.clone(), state.clone()])?;
        let [y, last] = &outputs[..] else { return Err(missing()) };
        let next = match x.ty().shape[..] {
            [_, 1, _] => last.clone(),
            _ => self.before_padding(&state, x)?,
        };
        self.write(layer, &next)?;
        Ok(y.clone())
    }

    /// The last inputs `[batch, kernel - 1, channels]` up to the last token, of those before the call and `x`.
    fn before_padding(&self, state: &Value, x: &Value) -> Result<Value> {
        let shape = &state.ty().shape;
        let [batch, places, _] = shape[..] else { return Err(missing()) };
        let all = ops::concat(&Lazy, &[state.clone(), x.clone()], 1)?;
        let counts = shaped(&self.places.counts, &[batch, 1, 1])?;
        let place = shaped(&ops::iota(&Lazy, places, DType::I32)?, &[1, places, 1])?;
        let at = ops::broadcast_to(&Lazy, &ops::add(&Lazy, &counts, &place)?, shape)?;
        ops::gather(&Lazy, &all, 1, &at)
    }

    /// `x [batch, length, ..]`, 0 in rows without a token. Of one row there is either a token, or the sequence is none and
    /// nothing is kept.
    fn without_padding(&self, x: &Value) -> Result<Value> {
        let ty = x.ty();
        let [batch, length, ..] = ty.shape[..] else { return Err(missing()) };
        if length == 1 {
            return Ok(x.clone());
        }
        let mut columns = vec![1; ty.rank()];
        (columns[0], columns[1]) = (batch, length);
        let counts = ops::unsqueeze(&Lazy, &self.places.counts, -1)?;
        let is_token = ops::lt(&Lazy, &ops::iota(&Lazy, length, DType::I32)?, &counts)?;
        let zero = ops::scalar(&Lazy, 0.0, ty.dtype)?;
        ops::where_(&Lazy, &shaped(&is_token, &columns)?, x, &zero)
    }

    /// The state `[batch, ..]` of a layer, of this type, which is a part of its slots; of sequences without tokens `first`, or
    /// 0.
    fn read(&self, layer: usize, first: Option<&Value>, ty: &TensorType) -> Result<Value> {
        let pool = self.tensors.get(layer).ok_or_else(missing)?;
        let [slots, _, ref rest @ ..] = pool.ty().shape[..] else { return Err(missing()) };
        let flat = shaped(pool, &[slots, rest.iter().product()])?;
        let rows = ops::embedding(&Lazy, &flat, &self.places.from)?;
        let batch = self.places.from.ty().numel();
        let mut state = shaped(&rows, &[&[batch], rest].concat())?;
        for (axis, &size) in ty.shape.iter().enumerate() {
            state = ops::narrow(&Lazy, &state, axis as isize, 0, size)?;
        }
        let state = ops::cast(&Lazy, &state, ty.dtype)?;
        let first = match first {
            Some(first) => first.clone(),
            None => ops::scalar(&Lazy, 0.0, ty.dtype)?,
        };
        let begins = ops::eq_scalar(&Lazy, &self.places.starts, 0i64)?;
        let begins = shaped(&begins, &[&[batch][..], &vec![1; rest.len()]].concat())?;
        ops::where_(&Lazy, &begins, &first, &state)
    }

    /// Puts the next state `[batch, ..]` of a layer into its slots, filled up with 0.
    fn write(&mut self, layer: usize, next: &Value) -> Result<()> {
        let pool = self.tensors.get_mut(layer).ok_or_else(missing)?;
        let rows = ops::unsqueeze(&Lazy, &ops::cast(&Lazy, next, pool.ty().dtype)?, 1)?;
        let sizes = pool.ty().shape.iter().zip(&rows.ty().shape).skip(2);
        let mut missing = vec![0; rows.ty().rank().min(2)];
        missing.extend(sizes.map(|(all, own)| all.saturating_sub(*own) as isize));
        let rows = ops::pad(&Lazy, &rows, &vec![0; missing.len()], &missing, 0.0)?;
        let tables = ops::unsqueeze(&Lazy, &self.places.to, -1)?;
        let starts = ops::zeros(&Lazy, &self.places.to.ty().shape, DType::I32)?;
        // One row of each sequence that has tokens.
        let counts = ops::minimum_scalar(&Lazy, &self.places.counts, 1i64)?;
        *pool = ops::paged_update(&Lazy, pool, &rows, &tables, &starts, &counts)?;
        Ok(())
    }
}

/// Operands of a recurrence over one sequence for a batch of sequences: `[batch, 1, ..]` as `[batch, ..]`, and what is the
/// same for all repeated, but for a weight.
pub(super) fn of_batch(rule: Recurrent, inputs: &[Batched<Value>], batch: usize) -> Result<Vec<Value>> {
    let one = |(at, input): (usize, &Batched<Value>)| {
        let value = &input.value;
        if input.mapped {
            return ops::squeeze(&Lazy, value, &[1]);
        }
        if Analysis::is_weight(rule, at) {
            return Ok(value.clone());
        }
        let mut shape = value.ty().shape.clone();
        if let Some(first) = shape.first_mut() {
            *first = batch;
        }
        ops::broadcast_to(&Lazy, value, &shape)
    };
    inputs.iter().enumerate().map(one).collect()
}

fn shaped(x: &Value, shape: &[usize]) -> Result<Value> {
    let shape: Vec<isize> = shape.iter().map(|&size| size as isize).collect();
    ops::reshape(&Lazy, x, &shape)
}
