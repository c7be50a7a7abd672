//! What a model is.

use lanthorn_ir::ops::{self, Reduction};
use lanthorn_ir::{Builder, DType, Result, TensorType};
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

/// Keys and values that one attention layer has computed so far: `[batch, context, heads, head_dim]` each.
#[derive(Clone, Debug)]
pub struct KeyValue<V> {
    pub key: V,
    pub value: V,
}

/// What decoding gives.
#[derive(Clone, Debug)]
pub struct Decoded<V> {
    /// `[batch, vocab]`.
    pub logits: V,
    /// One entry a layer.
    pub cache: Vec<KeyValue<V>>,
}

/// A language model that decodes with a cache of keys and values.
pub trait CachedModel: Model {
    /// The most positions that the model sees.
    fn context(&self) -> usize;

    /// The number of token ids.
    fn vocab(&self) -> usize;

    /// The type of the cache's keys, and of its values, for each layer.
    fn cache_types(&self, batch: usize, dtype: DType) -> Vec<TensorType>;

    /// Logits `[batch, vocab]` after token `last` (`i64[]`, counted within `ids`) of `ids [batch, seq]`, which stand
    /// at `position ..` (`i64[]`), and the cache with their keys and values written there. What the cache holds from
    /// `position` on is not read. `position + seq` must not exceed the context.
    fn decode<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        ids: &B::Value,
        position: &B::Value,
        last: &B::Value,
        cache: &[KeyValue<B::Value>],
    ) -> Result<Decoded<B::Value>>;
}
