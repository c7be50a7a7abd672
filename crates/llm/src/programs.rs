//! The programs of a model over pools of keys and values: one for each size of a batch and length of a piece.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lanthorn_ir::{DType, Lazy, Result, Value, ops};
use lanthorn_nn::params::matched;
use lanthorn_nn::{CachedModel, Params};
use lanthorn_runtime::{Device, EagerTensor, Executable, Options};

use crate::cache::{KvDtype, PagedCache};
use crate::inference::InferenceOptions;
use crate::pieces::CallSizes;
use crate::pool::PoolOptions;

/// A model, the sizes of its pools, and what has been compiled for them.
#[derive(Debug)]
pub struct Programs<M> {
    pub device: Device,
    pub model: M,
    pub options: InferenceOptions,
    /// Of the parameters.
    dtype: DType,
    /// Of the pool that the programs take.
    pub pool: PoolOptions,
    /// Blocks that one sequence can have at a time: its table is a ring of them.
    pub slots: usize,
    /// The most tokens of a sequence.
    pub longest: usize,
    /// By batch and length.
    compiled: Mutex<BTreeMap<(usize, usize), Executable>>,
}

/// The dtype of those parameters that are not packed in blocks.
pub fn dtype_of(params: &Params<EagerTensor>) -> DType {
    params.values().map(EagerTensor::dtype).find(|dtype| dtype.is_float()).unwrap_or(DType::F32)
}

impl<M: CachedModel> Programs<M> {
    /// The programs for a model with parameters of this dtype.
    ///
    /// Errors: options that make no cache.
    pub fn new(
        device: &Device,
        model: M,
        dtype: DType,
        mut options: InferenceOptions,
    ) -> Result<Programs<M>> {
        let context = model.context();
        options.check(context)?;
        options.prefill_chunk = options.prefill_chunk.min(context);
        let InferenceOptions { max_tokens, block_size, prefill_chunk, window, .. } = options;
        let kv_dtype = options.kv_dtype.unwrap_or(KvDtype::of(dtype));
        let pool = PoolOptions::new(model.cache_shapes(), max_tokens, block_size, kv_dtype);
        let endless = window.is_some() && !model.has_last_position();
        let longest = if endless { i32::MAX as usize } else { context };
        let slots = pool.slots(window, prefill_chunk).min(longest.div_ceil(block_size));
        Ok(Programs {
            device: device.clone(),
            slots,
            model,
            options,
            dtype,
            pool,
            longest,
            compiled: Mutex::default(),
        })
    }

    /// The parameters in the model's order.
    ///
    /// Errors: one that is missing, superfluous, or of another type.
    pub fn matched(&self, op: &str, params: Params<EagerTensor>) -> Result<Params<EagerTensor>> {
        matched(op, &self.model.specs(), self.dtype, params, EagerTensor::ty)
    }

    /// The sizes of a call of `batch` pieces of `length` tokens.
    pub fn sizes(&self, batch: usize, length: usize) -> CallSizes {
        CallSizes { batch, length, slots: self.slots, keeps_state: false }
    }

    /// The program for `batch` pieces of `length` tokens.
    ///
    /// Arguments: parameters, the pools (donated), `ids` and `positions [batch, length]`, `tables [batch, slots]`,
    /// `starts` and `counts [batch]`, and, for more than one token, `last [batch]`, all `i32`. Results: the pools, then
    /// logits `[batch, vocab]` in `f32`.
    pub fn program(&self, params: &Params<EagerTensor>, batch: usize, length: usize) -> Result<Executable> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = compiled.get(&(batch, length)) {
            return Ok(program.clone());
        }
        let params = params.try_map(|_, tensor| Value::leaf(tensor.ty().clone()))?;
        let layers = (self.pool.types().into_iter())
            .map(|types| types.into_iter().map(Value::leaf).collect::<Result<Vec<_>>>())
            .collect::<Result<Vec<_>>>()?;
        let sizes = self.sizes(batch, length);
        let pieces = sizes.leaves()?;

        let mut parameters: Vec<Value> = params.values().cloned().collect();
        let first = parameters.len() as u32;
        parameters.extend(layers.iter().flatten().cloned());
        let caches = first..parameters.len() as u32;
        parameters.extend(sizes.parameters(&pieces));
        let mut cache = PagedCache::new(layers, pieces.tables, self.options.window);
        let (ids, positions, last) = (&pieces.ids, &pieces.positions, &pieces.last);
        let logits = self.model.decode(&Lazy, &params, ids, positions, last, &mut cache)?;
        let mut roots = cache.into_tensors();
        roots.push(ops::cast(&Lazy, &logits, DType::F32)?);
        // Nobody reads the rows of a call that failed: a sequence counts its tokens when one has ended.
        let (donated, half_written) = (caches.clone().zip(0..).collect(), caches.collect());
        let options = Options { donated, half_written, ..Options::default() };
        let program = Executable::new(&self.device, &parameters, &roots, &options)?;
        compiled.insert((batch, length), program.clone());
        Ok(program)
    }
}
