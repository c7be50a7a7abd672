//! The programs of a model over pools of keys and values: one for each size of a batch and length of a piece.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lanthorn_ir::{DType, Error, Lazy, Result, TensorType, Value, ops};
use lanthorn_nn::params::matched;
use lanthorn_nn::{CachedModel, HostTensor, Params};
use lanthorn_runtime::{Device, EagerTensor, Executable, Options};

use crate::cache::{KvDtype, PagedCache, Tables};
use crate::inference::InferenceOptions;

/// A model, the sizes of its pools, and what has been compiled for them.
#[derive(Debug)]
pub struct Programs<M> {
    pub device: Device,
    pub model: M,
    pub options: InferenceOptions,
    /// Of the parameters.
    dtype: DType,
    kv_dtype: KvDtype,
    /// Blocks of a pool.
    pub blocks: usize,
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
        let blocks = max_tokens.div_ceil(block_size);
        let endless = window.is_some() && !model.has_last_position();
        let longest = if endless { i32::MAX as usize } else { context };
        let slots = match window {
            // The first token of a piece sees a window, and a block may begin at any of its tokens.
            Some(window) => (window + prefill_chunk).div_ceil(block_size) + 1,
            None => blocks,
        };
        Ok(Programs {
            device: device.clone(),
            kv_dtype: options.kv_dtype.unwrap_or(KvDtype::of(dtype)),
            slots: slots.min(longest.div_ceil(block_size)).min(blocks),
            model,
            options,
            dtype,
            blocks,
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

    /// The tensors of each layer's pools.
    fn pool_types(&self) -> Vec<Vec<TensorType>> {
        let shapes = self.model.cache_shapes().into_iter();
        shapes.map(|shape| self.kv_dtype.types(shape, self.blocks, self.options.block_size)).collect()
    }

    /// Empty pools. They hold zeros and not unspecified memory: what is not read should not be NaN either.
    ///
    /// Errors: memory.
    pub fn pools(&self) -> Result<Vec<EagerTensor>> {
        let types = self.pool_types().into_iter().flatten();
        types.map(|ty| HostTensor::zeros(ty)?.to_device(&self.device)).collect()
    }

    /// Bytes of the pools.
    pub fn pool_bytes(&self) -> usize {
        self.pool_types().iter().flatten().map(TensorType::bytes).sum()
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
        let layers = (self.pool_types().into_iter())
            .map(|types| types.into_iter().map(Value::leaf).collect::<Result<Vec<_>>>())
            .collect::<Result<Vec<_>>>()?;
        let integers = |shape: &[usize]| Value::leaf(TensorType::new(DType::I32, shape));
        let (ids, positions) = (integers(&[batch, length])?, integers(&[batch, length])?);
        let last = integers(&[batch])?;
        let tables = Tables {
            tables: integers(&[batch, self.slots])?,
            starts: integers(&[batch])?,
            counts: integers(&[batch])?,
        };

        let mut parameters: Vec<Value> = params.values().cloned().collect();
        let first = parameters.len() as u32;
        parameters.extend(layers.iter().flatten().cloned());
        let donated = (first..parameters.len() as u32).zip(0..).collect();
        parameters.extend([ids.clone(), positions.clone()]);
        parameters.extend([&tables.tables, &tables.starts, &tables.counts].map(Value::clone));
        if length > 1 {
            parameters.push(last.clone());
        }
        let mut cache = PagedCache::new(layers, tables, self.options.window);
        let logits = self.model.decode(&Lazy, &params, &ids, &positions, &last, &mut cache)?;
        let mut roots = cache.into_tensors();
        roots.push(ops::cast(&Lazy, &logits, DType::F32)?);
        let options = Options { donated, ..Options::default() };
        let program = Executable::new(&self.device, &parameters, &roots, &options)?;
        compiled.insert((batch, length), program.clone());
        Ok(program)
    }
}

/// One sequence's part of a call.
pub struct Piece<'a> {
    pub tokens: &'a [u32],
    /// The position of the first.
    pub start: usize,
    /// The sequence's table, `slots` blocks.
    pub table: Vec<i32>,
}

impl<M> Programs<M> {
    /// The integers of a call in the order of the program's arguments. A batch is filled up with sequences without rows,
    /// and a piece with tokens that count for nothing, at the position of its last.
    pub fn integers(&self, pieces: &[Piece<'_>], batch: usize, length: usize) -> Result<Vec<EagerTensor>> {
        let (mut ids, mut positions) = (Vec::new(), Vec::new());
        let (mut tables, mut starts) = (Vec::new(), Vec::new());
        let (mut counts, mut last) = (Vec::new(), Vec::new());
        for piece in pieces {
            let end = piece.tokens.len().saturating_sub(1);
            ids.extend(piece.tokens.iter().map(|&token| token as i32));
            positions.extend((0..length).map(|at| (piece.start + at.min(end)) as i32));
            ids.resize(positions.len(), 0);
            tables.extend(&piece.table);
            starts.push(piece.start as i32);
            counts.push(piece.tokens.len() as i32);
            last.push(end as i32);
        }
        ids.resize(batch * length, 0);
        positions.resize(batch * length, 0);
        tables.resize(batch * self.slots, 0);
        for list in [&mut starts, &mut counts, &mut last] {
            list.resize(batch, 0);
        }
        let tensor = |shape: &[usize], numbers: &[i32]| EagerTensor::from_slice(&self.device, shape, numbers);
        let mut arguments = vec![
            tensor(&[batch, length], &ids)?,
            tensor(&[batch, length], &positions)?,
            tensor(&[batch, self.slots], &tables)?,
            tensor(&[batch], &starts)?,
            tensor(&[batch], &counts)?,
        ];
        if length > 1 {
            arguments.push(tensor(&[batch], &last)?);
        }
        Ok(arguments)
    }
}

/// The result that follows the pools.
pub fn split_logits(mut results: Vec<EagerTensor>) -> Result<(Vec<EagerTensor>, EagerTensor)> {
    let logits = results.pop();
    let missing = || Error::new(lanthorn_ir::ErrorKind::Execute, "inference", "the program gave no logits");
    Ok((results, logits.ok_or_else(missing)?))
}
