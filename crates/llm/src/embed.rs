//! Vectors of texts, by an encoder and a pooling of its output.
//!
//! A program takes one number of texts and one length only, so texts of about one length are put together and filled up
//! to few sizes: 16, 32, 64 ... tokens by 1, 2, 4 ... texts. No token sees what a text was filled up with, and a text
//! is filled up by its own length alone, so its vector does not depend on the texts beside it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lanthorn_io::tokenizer::{Encoder, Policy, Tokenizer, Truncation};
use lanthorn_ir::{Builder, DType, Error, ErrorKind, Lazy, Result, TensorType, Value, ops};
use lanthorn_nn::params::matched;
use lanthorn_nn::{Bert, BertInput, Mode, Model, Params};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};

use crate::pieces::piece_length;
use crate::programs::dtype_of;

/// Tokens, filled ones included, that go through the model at once.
const TOKENS_AT_ONCE: usize = 4096;

/// The most texts that go through the model at once.
const TEXTS_AT_ONCE: usize = 64;

/// Texts whose ids are in memory at the same time.
const TEXTS_ENCODED: usize = 4096;

/// How the vectors of a text's tokens become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first token's, which is `[CLS]` in BERT.
    First,
    /// The largest of each element.
    Max,
}

/// The length of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As it comes from the pooling.
    Raw,
    /// Divided by its Euclidean norm: a dot product of two vectors is the cosine of the angle between them.
    Unit,
}

/// How letters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// As they are.
    AsWritten,
    /// As small ones, before the tokenizer sees them.
    Small,
}

impl Letters {
    /// A text as the tokenizer sees it.
    fn of(self, text: &str) -> Cow<'_, str> {
        match self {
            Letters::AsWritten => Cow::Borrowed(text),
            Letters::Small => Cow::Owned(text.to_lowercase()),
        }
    }
}

/// How an [`Embedder`] makes vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbedderConfig {
    pub pooling: Pooling,
    pub scale: Scale,
    pub letters: Letters,
    /// Tokens of a text that are read, those that the tokenizer puts around it included; the rest is cut off.
    pub max_tokens: usize,
}

/// An encoder with its parameters on a device, its tokenizer and its programs.
/// [`Pretrained::embedder`](crate::Pretrained::embedder) makes one of a folder.
///
/// ```
/// use lanthorn_io::tokenizer::{Algorithm, Tokenizer, Training};
/// use lanthorn_ir::DType;
/// use lanthorn_llm::embed::{Embedder, EmbedderConfig, Letters, Pooling, Scale, cosine_similarity};
/// use lanthorn_nn::{Bert, BertConfig, Model, params};
/// use lanthorn_runtime::{CancelToken, Device};
///
/// let device = Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
/// let tokenizer = Tokenizer::train(["one lamp", "two lamps"], &Training::new(Algorithm::WordLevel, 10))?;
/// let bert = Bert::new(BertConfig {
///     vocab: tokenizer.vocab_size(),
///     context: 16,
///     types: 1,
///     layers: 1,
///     width: 8,
///     inner: 16,
///     heads: 2,
///     dropout: 0.0,
///     norm_eps: 1e-12,
/// })?;
/// let params = params::initial(&bert.specs(), 1, DType::F32)?.try_map(|_, first| first.to_device(&device))?;
/// let config = EmbedderConfig {
///     pooling: Pooling::Mean,
///     scale: Scale::Unit,
///     letters: Letters::AsWritten,
///     max_tokens: 16,
/// };
/// let embedder = Embedder::new(&device, bert, params, &tokenizer, config)?;
/// let vectors = embedder.embed(&["one lamp", "two lamps"], &CancelToken::never())?;
/// assert_eq!(vectors[0].len(), 8);
/// assert!(cosine_similarity(&vectors[0], &vectors[1]) < 1.0);
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Embedder {
    device: Device,
    model: Bert,
    params: Params<EagerTensor>,
    encoder: Encoder,
    config: EmbedderConfig,
    /// The name under which errors speak of the model.
    subject: String,
    /// By the number of texts and their length.
    programs: Mutex<BTreeMap<(usize, usize), Executable>>,
}

impl Embedder {
    /// An embedder of a model with these parameters. `config.max_tokens` is at most the model's context.
    ///
    /// Errors: a parameter that is missing, superfluous, or of another type than the model's; a tokenizer with more
    /// tokens than the model; no room for a token.
    pub fn new(
        device: &Device,
        model: Bert,
        params: Params<EagerTensor>,
        tokenizer: &Tokenizer,
        config: EmbedderConfig,
    ) -> Result<Embedder> {
        let params = matched("embedder", &model.specs(), dtype_of(&params), params, EagerTensor::ty)?;
        let (known, tokens) = (model.config().vocab, tokenizer.vocab_size());
        if tokens > known {
            let message = format!("the tokenizer has {tokens} tokens, the model knows {known}");
            return Err(Error::shape("embedder", message));
        }
        let max_tokens = config.max_tokens.min(model.config().context);
        let policy = Policy { truncation: Some(Truncation::new(max_tokens)), ..Policy::default() };
        Ok(Embedder {
            device: device.clone(),
            encoder: tokenizer.encoder(&policy)?,
            config: EmbedderConfig { max_tokens, ..config },
            subject: "embed".into(),
            model,
            params,
            programs: Mutex::default(),
        })
    }

    /// The same, under whose name errors speak of what the model computes: that of its files.
    pub fn named(self, subject: impl Into<String>) -> Embedder {
        Embedder { subject: subject.into(), ..self }
    }

    /// How vectors are made.
    pub fn config(&self) -> &EmbedderConfig {
        &self.config
    }

    /// Elements of a vector.
    pub fn width(&self) -> usize {
        self.model.config().width
    }

    /// The vectors of texts, in their order: `[width]` each. A text of no tokens at all gives zeros.
    ///
    /// Errors: [`ErrorKind::Cancelled`], a text that cannot be encoded, memory.
    pub fn embed<S: AsRef<str>>(&self, texts: &[S], cancel: &CancelToken) -> Result<Vec<Vec<f32>>> {
        let mut vectors = vec![vec![0.0; self.width()]; texts.len()];
        for (some, first) in texts.chunks(TEXTS_ENCODED).zip((0..).step_by(TEXTS_ENCODED)) {
            for (length, places) in self.by_length(some, first, cancel)? {
                let most = (TOKENS_AT_ONCE / length).clamp(1, TEXTS_AT_ONCE);
                for places in places.chunks(most) {
                    let found = self.run(length, most, places, cancel)?;
                    for ((at, _), vector) in places.iter().zip(found) {
                        if !vector.iter().all(|x| x.is_finite()) {
                            let message = format!(
                                "the vector of text {} is not finite; a model whose weights are finite would be right",
                                at + 1
                            );
                            return Err(Error::new(ErrorKind::Execute, &self.subject, message));
                        }
                        if let Some(place) = vectors.get_mut(*at) {
                            *place = vector;
                        }
                    }
                }
            }
        }
        Ok(vectors)
    }

    /// The ids of texts with their places, by the length that each is filled up to. The first text's place is `first`.
    fn by_length<S: AsRef<str>>(
        &self,
        texts: &[S],
        first: usize,
        cancel: &CancelToken,
    ) -> Result<BTreeMap<usize, Vec<Placed>>> {
        let mut by_length = BTreeMap::<usize, Vec<Placed>>::new();
        for (some, first) in texts.chunks(TEXTS_AT_ONCE).zip((first..).step_by(TEXTS_AT_ONCE)) {
            if cancel.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "embed", "cancelled"));
            }
            let texts: Vec<Cow<'_, str>> =
                some.iter().map(|text| self.config.letters.of(text.as_ref())).collect();
            for (at, ids) in (first..).zip(self.encoder.kept_ids_of(&texts, &|| cancel.is_cancelled())?) {
                if !ids.is_empty() {
                    let length = piece_length(ids.len(), self.config.max_tokens);
                    by_length.entry(length).or_default().push((at, ids));
                }
            }
        }
        Ok(by_length)
    }

    /// The vectors of some texts, `most` at most.
    fn run(
        &self,
        length: usize,
        most: usize,
        texts: &[Placed],
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<f32>>> {
        let count = texts.len().next_power_of_two().min(most);
        // What the batch is filled up with is a text of one token.
        let mut ids = vec![0i32; count * length];
        let mut lengths = vec![1i32; count];
        for (((_, text), row), tokens) in texts.iter().zip(ids.chunks_mut(length)).zip(&mut lengths) {
            row.iter_mut().zip(text).for_each(|(place, &id)| *place = id as i32);
            *tokens = text.len() as i32;
        }
        let changing = [
            EagerTensor::from_vec(&self.device, &[count, length], ids)?,
            EagerTensor::from_vec(&self.device, &[count], lengths)?,
        ];
        let arguments: Vec<&EagerTensor> = self.params.values().chain(&changing).collect();
        let found = self.program(count, length)?.call(&arguments, cancel)?.pop();
        let no_vectors = || Error::new(ErrorKind::Execute, "embed", "the program gave no vectors");
        let found: Vec<f32> = found.ok_or_else(no_vectors)?.to_vec()?;
        Ok(found.chunks(self.width()).take(texts.len()).map(<[f32]>::to_vec).collect())
    }

    /// The program for so many texts of that length.
    ///
    /// Arguments: parameters, `ids [count, length]`, `lengths [count]`. Result: vectors `[count, width]` in `f32`.
    fn program(&self, count: usize, length: usize) -> Result<Executable> {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(&(count, length)) {
            return Ok(program.clone());
        }
        let params = self.params.try_map(|_, tensor| Value::leaf(tensor.ty().clone()))?;
        let ids = Value::leaf(TensorType::new(DType::I32, [count, length]))?;
        let lengths = Value::leaf(TensorType::new(DType::I32, [count]))?;
        let input = BertInput { ids: &ids, types: None, lengths: Some(&lengths) };
        let hidden = self.model.encode(&Lazy, &params, input, &Mode::Eval)?;
        let hidden = ops::cast(&Lazy, &hidden, DType::F32)?;
        let pooled = self.config.pooling.apply(&Lazy, &hidden, &lengths)?;
        let vectors = match self.config.scale {
            Scale::Raw => pooled,
            Scale::Unit => ops::normalize(&Lazy, &pooled, 2.0, -1, 1e-12)?,
        };
        let parameters: Vec<Value> = params.values().cloned().chain([ids, lengths]).collect();
        let program = Executable::new(&self.device, &parameters, &[vectors], &Options::default())?;
        programs.insert((count, length), program.clone());
        Ok(program)
    }
}

/// A text's place and ids.
type Placed = (usize, Vec<u32>);

impl Pooling {
    /// `hidden [batch, seq, width]`, of which the first `lengths` (integers `[batch]`, at least 1) of each sequence
    /// count, to `[batch, width]`.
    ///
    /// Errors: other shapes.
    pub fn apply<B: Builder>(self, b: &B, hidden: &B::Value, lengths: &B::Value) -> Result<B::Value> {
        let ty = b.ty(hidden);
        let &[_, seq, _] = &ty.shape[..] else {
            let message = format!("the tokens' vectors are {ty}, expected [batch, seq, width]");
            return Err(Error::shape("pooling", message));
        };
        let dtype = ty.dtype;
        // `[batch, seq, 1]`: what counts.
        let counts = || -> Result<B::Value> {
            let place = ops::iota(b, seq, b.ty(lengths).dtype)?;
            ops::unsqueeze(b, &ops::lt(b, &place, &ops::unsqueeze(b, lengths, -1)?)?, -1)
        };
        match self {
            Pooling::First => ops::select(b, hidden, 1, 0),
            Pooling::Mean => {
                let counted = ops::mul(b, hidden, &ops::cast(b, &counts()?, dtype)?)?;
                let lengths = ops::cast(b, &ops::unsqueeze(b, lengths, -1)?, dtype)?;
                ops::div(b, &ops::sum(b, &counted, &[1], false)?, &lengths)
            }
            Pooling::Max => {
                let least = ops::scalar(b, f64::NEG_INFINITY, dtype)?;
                ops::max(b, &ops::where_(b, &counts()?, hidden, &least)?, &[1], false)
            }
        }
    }
}

/// The cosine of the angle between two vectors, from -1 to 1; 0 where one of them is 0.
///
/// ```
/// use lanthorn_llm::embed::cosine_similarity;
/// assert_eq!(cosine_similarity(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
/// assert!((cosine_similarity(&[1.0, 1.0], &[3.0, 3.0]) - 1.0).abs() < 1e-12);
/// ```
pub fn cosine_similarity(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    if norms > 0.0 { dot(a, b) / norms } else { 0.0 }
}
