//! Generation with a cache of keys and values.
//!
//! A model decodes with one program for each length of a piece (`pieces`): one token at a time, and a
//! few lengths for prompts. The position is an argument, so decoding never compiles again, and the cache is donated
//! from call to call, so a step writes one row of it in place.
//!
//! **When the context is full**, the last half of it (rounded down, at least one token) is computed anew at the
//! beginning of the cache, and decoding goes on behind it: learned positions do not shift. So each token is computed
//! about twice, and between half and all of the context is seen. A prompt that exceeds the context begins the same way.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lanthorn_ir::{DType, Error, ErrorKind, Lazy, Result, TensorType, Value};
use lanthorn_nn::params::matched;
use lanthorn_nn::{CachedModel, HostTensor, KeyValue, Params, Snapshot};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};
use serde::{Deserialize, Serialize};

use crate::pieces::piece_length;
use crate::sampling::Sampling;

/// What to generate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationOptions {
    /// The most tokens.
    pub max_tokens: usize,
    pub sampling: Sampling,
    /// Tokens at which generation ends; they are not given.
    pub stop: Vec<u32>,
}

/// Why a generation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// As many tokens as were wanted.
    Length,
    /// This stop token was chosen.
    Stop(u32),
}

/// A model with its parameters on a device, and its programs.
#[derive(Debug)]
pub struct Generator<M> {
    device: Device,
    model: M,
    params: Params<EagerTensor>,
    dtype: DType,
    /// By the length of a piece.
    programs: Mutex<BTreeMap<usize, Executable>>,
}

impl<M: CachedModel> Generator<M> {
    /// A generator of a model with these parameters, which it shares with whoever else holds them.
    ///
    /// Errors: a parameter that is missing, superfluous, or of another type than the model's.
    pub fn new(device: &Device, model: M, params: Params<EagerTensor>) -> Result<Generator<M>> {
        let dtypes = params.values().map(EagerTensor::dtype);
        let dtype = dtypes.into_iter().find(|dtype| dtype.is_float()).unwrap_or(DType::F32);
        let params = matched("generator", &model.specs(), dtype, params, EagerTensor::ty)?;
        Ok(Generator { device: device.clone(), model, params, dtype, programs: Mutex::default() })
    }

    /// The generator of the model and parameters in a snapshot.
    ///
    /// Errors: a document or parameter that is missing or wrong; memory.
    pub fn from_snapshot(device: &Device, snapshot: &Snapshot) -> Result<Generator<M>> {
        let (model, params) = snapshot.model::<M>()?;
        Generator::new(device, model, params.try_map(|_, tensor| tensor.to_device(device))?)
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Begins to generate after `prompt`.
    ///
    /// Errors: an empty prompt, a token that the model does not know, settings that choose nothing, memory.
    pub fn generate(
        &self,
        prompt: &[u32],
        options: GenerationOptions,
        cancel: &CancelToken,
    ) -> Result<Generation<'_, M>> {
        options.sampling.check()?;
        if prompt.is_empty() {
            return Err(Error::shape("generate", "the prompt is empty, expected at least one token"));
        }
        let vocab = self.model.vocab();
        if let Some(token) = prompt.iter().find(|&&token| token as usize >= vocab) {
            let message = format!("the prompt has token {token}, the model knows those below {vocab}");
            return Err(Error::shape("generate", message));
        }
        // Zeros and not unspecified memory: what is not read should not be NaN either.
        let types = self.model.cache_types(1, self.dtype);
        let cache = (types.iter().flat_map(|ty| [ty, ty]))
            .map(|ty| HostTensor::zeros(ty.clone())?.to_device(&self.device))
            .collect::<Result<_>>()?;
        Ok(Generation {
            generator: self,
            options,
            cancel: cancel.clone(),
            tokens: prompt.to_vec(),
            generated: 0,
            cache,
            base: 0,
            filled: 0,
            finish: None,
            has_failed: false,
        })
    }

    /// The program that decodes pieces of `length` tokens.
    ///
    /// Arguments: parameters, then key and value of each layer's cache (donated), `ids [1, length]`, `position`, and,
    /// for more than one token, `last`. Results: the caches, then logits `[1, vocab]` in `f32`.
    fn program(&self, length: usize) -> Result<Executable> {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(&length) {
            return Ok(program.clone());
        }
        let params = self.params.try_map(|_, tensor| Value::leaf(tensor.ty().clone()))?;
        let cache = (self.model.cache_types(1, self.dtype).into_iter())
            .map(|ty| Ok(KeyValue { key: Value::leaf(ty.clone())?, value: Value::leaf(ty)? }))
            .collect::<Result<Vec<_>>>()?;
        let ids = Value::leaf(TensorType::new(DType::I32, [1, length]))?;
        let position = Value::leaf(TensorType::scalar(DType::I64))?;
        let last = Value::leaf(TensorType::scalar(DType::I64))?;
        let decoded = self.model.decode(&Lazy, &params, &ids, &position, &last, &cache)?;

        let mut parameters: Vec<Value> = params.values().cloned().collect();
        let first = parameters.len() as u32;
        parameters.extend(cache.into_iter().flat_map(|layer| [layer.key, layer.value]));
        let donated = (first..parameters.len() as u32).zip(0..).collect();
        parameters.extend([ids, position]);
        if length > 1 {
            parameters.push(last);
        }
        let mut roots: Vec<Value> =
            decoded.cache.into_iter().flat_map(|layer| [layer.key, layer.value]).collect();
        roots.push(lanthorn_ir::ops::cast(&Lazy, &decoded.logits, DType::F32)?);
        let options = Options { donated, ..Options::default() };
        let program = Executable::new(&self.device, &parameters, &roots, &options)?;
        programs.insert(length, program.clone());
        Ok(program)
    }
}

/// A generation under way: a step machine, and an iterator over the tokens that it chooses.
///
/// As an iterator it ends after the first error. [`Generation::next_token`] may be called again after one: a step that
/// fails or is cancelled changes nothing.
#[derive(Debug)]
pub struct Generation<'a, M> {
    generator: &'a Generator<M>,
    options: GenerationOptions,
    cancel: CancelToken,
    /// The prompt and what has been generated.
    tokens: Vec<u32>,
    generated: usize,
    /// Key and value of each layer, `[1, context, heads, head_dim]`.
    cache: Vec<EagerTensor>,
    /// The token that stands at the cache's first position.
    base: usize,
    /// Positions whose keys and values are in the cache.
    filled: usize,
    finish: Option<Finish>,
    has_failed: bool,
}

impl<M: CachedModel> Generation<'_, M> {
    /// Chooses the next token; `None` at the end.
    ///
    /// Errors: [`ErrorKind::Cancelled`], logits that are not finite, memory.
    pub fn next_token(&mut self) -> Result<Option<u32>> {
        if self.finish.is_some() {
            return Ok(None);
        }
        if self.generated >= self.options.max_tokens {
            self.finish = Some(Finish::Length);
            return Ok(None);
        }
        let logits = self.logits()?;
        let token = self.options.sampling.choose(&logits, &self.tokens, self.generated as u64)?;
        if self.options.stop.contains(&token) {
            self.finish = Some(Finish::Stop(token));
            return Ok(None);
        }
        self.tokens.push(token);
        self.generated += 1;
        Ok(Some(token))
    }

    /// The prompt and what has been generated.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Why it has ended, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Logits `[vocab]` after the last token.
    fn logits(&mut self) -> Result<Vec<f32>> {
        let context = self.generator.model.context();
        if self.tokens.len() - self.base > context {
            self.base = self.tokens.len() - (context / 2).max(1);
            self.filled = 0;
        }
        // After an error the last token may be in the cache already: its logits need it once more.
        self.filled = self.filled.min(self.tokens.len() - self.base - 1);
        loop {
            let logits = self.feed(context)?;
            if self.base + self.filled == self.tokens.len() {
                return logits.to_vec();
            }
        }
    }

    /// Decodes the next piece of the tokens that are not in the cache yet; gives the logits after it.
    fn feed(&mut self, context: usize) -> Result<EagerTensor> {
        let generator = self.generator;
        let device = &generator.device;
        let piece = self.tokens.get(self.base + self.filled..).unwrap_or_default();
        let length = piece_length(piece.len(), context - self.filled, context);
        let count = piece.len().min(length);
        let mut ids: Vec<i32> = piece.iter().take(count).map(|&token| token as i32).collect();
        ids.resize(length, 0);
        let mut changing = vec![
            EagerTensor::from_slice(device, &[1, length], &ids)?,
            EagerTensor::scalar(device, self.filled as i64, DType::I64)?,
        ];
        if length > 1 {
            changing.push(EagerTensor::scalar(device, count as i64 - 1, DType::I64)?);
        }
        let program = generator.program(length)?;
        let arguments: Vec<&EagerTensor> =
            generator.params.values().chain(&self.cache).chain(&changing).collect();
        let mut results = program.call(&arguments, &self.cancel)?;
        let too_few = || Error::new(ErrorKind::Execute, "generate", "the program gave no logits");
        let logits = results.pop().ok_or_else(too_few)?;
        self.cache = results;
        self.filled += count;
        Ok(logits)
    }
}

impl<M: CachedModel> Iterator for Generation<'_, M> {
    type Item = Result<u32>;

    fn next(&mut self) -> Option<Result<u32>> {
        if self.has_failed {
            return None;
        }
        let token = self.next_token();
        self.has_failed = token.is_err();
        token.transpose()
    }
}
