//! What a model is.

use lanthorn_ir::ops::{self, Reduction};
use lanthorn_ir::{Builder, DType, Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::mode::Mode;
use crate::params::{ParamSpec, Params};

/// A function `(params, state, input, mode) -> (output, state)`.
///
/// Parameters are what an optimiser changes; state is what a forward itself changes, such as running statistics.
pub trait Model: Sized {
    /// Everything that makes the model besides its parameters; written into checkpoints.
    type Config: Clone + Serialize + DeserializeOwned;

    /// The model of this configuration.
    ///
    /// Errors: a configuration that makes no model.
    fn from_config(config: Self::Config) -> Result<Self>;

    /// The configuration.
    fn config(&self) -> &Self::Config;

    /// The parameters, in the order in which they are kept and saved.
    fn specs(&self) -> Vec<ParamSpec>;

    /// The state at the beginning.
    fn state_specs(&self) -> Vec<ParamSpec> {
        Vec::new()
    }

    /// True if a forward in training needs a key.
    fn is_random(&self) -> bool;

    /// The output and the state afterwards.
    fn forward<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        input: &B::Value,
        mode: &Mode<B::Value>,
    ) -> Result<(B::Value, Params<B::Value>)>;

    /// The cross-entropy (nats) of the output as logits `[.., classes]` against integer `targets [..]`, and the state
    /// afterwards. In a sum, targets of [`IGNORE`] do not count; a mean takes none of them.
    fn loss<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        input: &B::Value,
        targets: &B::Value,
        mode: &Mode<B::Value>,
        reduction: Reduction,
    ) -> Result<(B::Value, Params<B::Value>)> {
        let (logits, state) = self.forward(b, params, state, input, mode)?;
        let ignore = (reduction != Reduction::Mean).then_some(IGNORE);
        Ok((ops::cross_entropy(b, &logits, targets, reduction, ignore, None, 0.0, -1)?, state))
    }
}

/// The target that does not count.
pub const IGNORE: i64 = -1;

/// The keys, or values, of one position in one attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueShape {
    pub heads: usize,
    pub head_dim: usize,
}

/// Keys and values of attention layers, kept from call to call. How and where is its own business: a model only hands
/// over the new ones.
pub trait KeyValueCache<B: Builder> {
    /// Causal attention of `q [batch, seq, heads, head_dim]` in layer `layer` to the keys and values so far and to `k` and
    /// `v [batch, seq, kv_heads, head_dim]`, which it keeps.
    fn attend(&mut self, b: &B, layer: usize, q: &B::Value, k: &B::Value, v: &B::Value) -> Result<B::Value>;
}

/// A language model that decodes with a cache of keys and values.
pub trait CachedModel: Model {
    /// The most positions that the model sees.
    fn context(&self) -> usize;

    /// True if there are no positions from the context on, as with learned ones. Else a model may go on for ever, as long
    /// as it sees no more than a context of them.
    fn has_last_position(&self) -> bool;

    /// The number of token ids.
    fn vocab(&self) -> usize;

    /// What each attention layer keeps, in the order of their numbers.
    fn cache_shapes(&self) -> Vec<KeyValueShape>;

    /// Logits `[batch, vocab]` after row `last[s]` (`i32[batch]`) of each sequence of `ids [batch, seq]`, which stand at
    /// `positions` (`i32[batch, seq]`).
    fn decode<B: Builder, C: KeyValueCache<B>>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        ids: &B::Value,
        positions: &B::Value,
        last: &B::Value,
        cache: &mut C,
    ) -> Result<B::Value>;
}

/// Row `last[s]` of each sequence of `x [batch, seq, width]`: `[batch, width]`.
pub fn last_rows<B: Builder>(b: &B, x: &B::Value, last: &B::Value) -> Result<B::Value> {
    let ty = b.ty(x);
    let &[batch, seq, width] = &ty.shape[..] else {
        return Err(Error::shape("decode", format!("x is {ty}, expected [batch, seq, width]")));
    };
    let (batch, seq, width) = (batch as isize, seq as isize, width as isize);
    if seq == 1 {
        return ops::reshape(b, x, &[batch, width]);
    }
    let first = ops::mul_scalar(b, &ops::iota(b, batch as usize, DType::I32)?, seq as i64)?;
    let rows = ops::reshape(b, x, &[batch * seq, width])?;
    ops::embedding(b, &rows, &ops::add(b, &first, last)?)
}
