//! Generation of one sequence: a step machine over [`Inference`].
//!
//! **When the context is full**, the last half of it (rounded down, at least one token) is computed anew at the
//! beginning of the cache, and decoding goes on behind it: learned positions do not shift. So each token is computed
//! about twice, and between half and all of the context is seen. A prompt that exceeds the context is refused: what it begins
//! with, an instruction perhaps, would not be seen.

use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_nn::{CachedModel, Params, Snapshot};
use lanthorn_runtime::{CancelToken, Device, EagerTensor};
use serde::{Deserialize, Serialize};

use crate::inference::{Inference, InferenceOptions, SequenceId};
use crate::programs::{Programs, dtype_of};
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
///
/// Each generation has a cache of its own, of one context. The last one to end leaves it to the next, which then computes
/// nothing anew of what both begin with.
#[derive(Debug)]
pub struct Generator<M> {
    programs: Arc<Programs<M>>,
    params: Params<EagerTensor>,
    /// The file that the model is of, for errors.
    subject: Option<String>,
    idle: Mutex<Option<Inference<M>>>,
}

impl<M: CachedModel> Generator<M> {
    /// A generator of a model with these parameters, which it shares with whoever else holds them.
    ///
    /// Errors: a parameter that is missing, superfluous, or of another type than the model's.
    pub fn new(device: &Device, model: M, params: Params<EagerTensor>) -> Result<Generator<M>> {
        let options = InferenceOptions { max_batch: 1, ..InferenceOptions::new(model.context()) };
        let programs = Programs::new(device, model, dtype_of(&params), options)?;
        let params = programs.matched("generator", params)?;
        Ok(Generator { programs: Arc::new(programs), params, subject: None, idle: Mutex::default() })
    }

    /// The same, under whose name errors speak of what the model computes: that of its file.
    pub fn named(self, subject: impl Into<String>) -> Generator<M> {
        Generator { subject: Some(subject.into()), ..self }
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
        &self.programs.model
    }

    /// Begins to generate after `prompt`.
    ///
    /// Errors: an empty prompt, one longer than the context, a token that the model does not know, settings that choose
    /// nothing, memory.
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
        let (tokens, context) = (prompt.len(), self.model().context());
        if tokens > context {
            let message = format!("the prompt has {tokens} tokens, the context holds {context}");
            return Err(Error::shape("generate", message));
        }
        let vocab = self.model().vocab();
        if let Some(token) = prompt.iter().find(|&&token| token as usize >= vocab) {
            let message = format!("the prompt has token {token}, the model knows those below {vocab}");
            return Err(Error::shape("generate", message));
        }
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let inference = match idle {
            Some(inference) => inference,
            None => Inference::of_programs(self.programs.clone(), self.params.clone())?,
        };
        Ok(Generation {
            generator: self,
            inference: Some(inference),
            options,
            cancel: cancel.clone(),
            tokens: prompt.to_vec(),
            generated: 0,
            base: 0,
            sequence: None,
            logits: None,
            finish: None,
            has_failed: false,
        })
    }

    /// The error of logits from which nothing can be chosen, told of the file that the model is of.
    fn about(&self, error: Error) -> Error {
        match (&self.subject, error.kind) {
            (Some(subject), ErrorKind::Execute) => {
                let message = format!("{}; a model whose weights are finite would be right", error.message);
                Error::new(ErrorKind::Execute, subject, message)
            }
            _ => error,
        }
    }
}

/// A generation under way: a step machine, and an iterator over the tokens that it chooses.
///
/// As an iterator it ends after the first error. [`Generation::next_token`] may be called again after one: a step that
/// fails or is cancelled changes nothing.
#[derive(Debug)]
pub struct Generation<'a, M> {
    generator: &'a Generator<M>,
    /// There until the end.
    inference: Option<Inference<M>>,
    options: GenerationOptions,
    cancel: CancelToken,
    /// The prompt and what has been generated.
    tokens: Vec<u32>,
    generated: usize,
    /// The token that stands at the cache's first position.
    base: usize,
    /// What has been read of the tokens from there on.
    sequence: Option<SequenceId>,
    /// The logits after the last token, once computed.
    logits: Option<Vec<f32>>,
    finish: Option<Finish>,
    has_failed: bool,
}

impl<M: CachedModel> Generation<'_, M> {
    /// Chooses the next token; `None` at the end.
    ///
    /// Errors: `cancelled`, logits that are not finite, memory.
    pub fn next_token(&mut self) -> Result<Option<u32>> {
        if self.finish.is_some() {
            return Ok(None);
        }
        if self.generated >= self.options.max_tokens {
            self.finish = Some(Finish::Length);
            return Ok(None);
        }
        let logits = match self.logits.take() {
            Some(logits) => logits,
            None => self.compute()?,
        };
        // Kept where nothing can be chosen: the last token is in the cache and must not be read again.
        let logits = self.logits.insert(logits);
        let token = self.options.sampling.choose(logits, &self.tokens, self.generated as u64);
        let token = token.map_err(|error| self.generator.about(error))?;
        self.logits = None;
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
    fn compute(&mut self) -> Result<Vec<f32>> {
        let context = self.generator.model().context();
        let Some(inference) = &mut self.inference else {
            return Err(Error::shape("generate", "the generation has ended"));
        };
        if self.tokens.len() - self.base > context {
            self.base = self.tokens.len() - (context / 2).max(1);
            if let Some(full) = self.sequence.take() {
                inference.finish(full)?;
            }
        }
        let tokens = self.tokens.get(self.base..).unwrap_or_default();
        match (self.sequence, tokens.last()) {
            (Some(sequence), Some(&token)) => {
                let mut logits = inference.step(&[(sequence, token)], &self.cancel)?;
                Ok(logits.pop().unwrap_or_default())
            }
            _ => {
                let (sequence, logits) = inference.add(tokens, &self.cancel)?;
                self.sequence = Some(sequence);
                Ok(logits)
            }
        }
    }
}

impl<M> Drop for Generation<'_, M> {
    fn drop(&mut self) {
        let Some(mut inference) = self.inference.take() else { return };
        if self.sequence.is_none_or(|sequence| inference.finish(sequence).is_ok()) {
            *self.generator.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(inference);
        }
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
