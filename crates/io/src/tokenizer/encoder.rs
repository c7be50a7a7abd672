//! Texts and pairs of texts to ids with masks, by a [`Policy`], one by one and in batches.

use super::cuts::Cuts;
use super::policy::{self, InText, Policy, Template};
use super::{SpecialTokens, Tokenizer, library, ordinary, words};
use crate::{Error, Result};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::sync::Arc;
use tokenizers::{OffsetType, PostProcessor, PostProcessorWrapper, pad_encodings, truncate_encodings};

/// What is encoded: a text, or two that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// A text.
    One(&'a str),
    /// A question and its passage, a premise and its hypothesis.
    Pair(&'a str, &'a str),
}

impl<'a> From<&'a str> for Input<'a> {
    fn from(text: &'a str) -> Self {
        Input::One(text)
    }
}

impl<'a> From<&'a String> for Input<'a> {
    fn from(text: &'a String) -> Self {
        Input::One(text)
    }
}

impl<'a> From<(&'a str, &'a str)> for Input<'a> {
    fn from((first, second): (&'a str, &'a str)) -> Self {
        Input::Pair(first, second)
    }
}

/// The ids of a text and what is known of each. All lists are equally long: `[tokens]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// The tokens' ids.
    pub ids: Vec<u32>,
    /// Which of two texts a token belongs to, as the template says: 0 or 1.
    pub type_ids: Vec<u32>,
    /// 1 for a token, 0 for what was filled up.
    pub attention_mask: Vec<u32>,
    /// 1 for what the template put there and what was filled up, 0 for a token of the text.
    pub special_tokens_mask: Vec<u32>,
    /// Where a token lies in its text: bytes from and to. `(0, 0)` for what lies in none.
    pub offsets: Vec<(usize, usize)>,
    /// What was cut off, in pieces of the same length, each made as the first one is.
    pub overflowing: Vec<Encoding>,
}

impl From<tokenizers::Encoding> for Encoding {
    fn from(encoding: tokenizers::Encoding) -> Encoding {
        Encoding {
            ids: encoding.get_ids().to_vec(),
            type_ids: encoding.get_type_ids().to_vec(),
            attention_mask: encoding.get_attention_mask().to_vec(),
            special_tokens_mask: encoding.get_special_tokens_mask().to_vec(),
            offsets: encoding.get_offsets().to_vec(),
            overflowing: encoding.get_overflowing().iter().cloned().map(Encoding::from).collect(),
        }
    }
}

/// A tokenizer with a [`Policy`] that has been checked.
///
/// ```
/// use lanthorn_io::tokenizer::{Algorithm, Padding, Policy, Tokenizer, Training, Truncation};
/// let mut training = Training::new(Algorithm::WordLevel, 100);
/// training.special_tokens = vec!["[PAD]".to_owned()];
/// let tokenizer = Tokenizer::train(["one two three four"], &training).unwrap();
///
/// let policy = Policy {
///     truncation: Some(Truncation::new(3)),
///     padding: Some(Padding::new(tokenizer.id("[PAD]").unwrap())),
///     ..Policy::default()
/// };
/// let batch = tokenizer.encoder(&policy).unwrap().encode_batch(["one two three four", "two"]).unwrap();
/// assert_eq!(batch[0].ids.len(), 3);
/// assert_eq!(batch[0].overflowing[0].ids, [tokenizer.id("four").unwrap(), 1, 1]);
/// assert_eq!(batch[1].attention_mask, [1, 0, 0]);
/// ```
#[derive(Clone)]
pub struct Encoder {
    /// Without the template.
    pub(super) bare: Arc<tokenizers::Tokenizer>,
    pub(super) processor: Option<PostProcessorWrapper>,
    pub(super) policy: Policy,
    /// See [`Tokenizer`].
    pub(super) cuts: Cuts,
}

impl Tokenizer {
    /// How the tokenizer's file asks for texts to be cut and filled up. [`Tokenizer::encode`] does neither.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The same tokenizer with another policy, which [`Tokenizer::save`] writes. The [content
    /// hash](Tokenizer::content_hash) stays what it is.
    ///
    /// # Errors
    ///
    /// `format`: as [`Tokenizer::encoder`].
    pub fn with_policy(&self, policy: Policy) -> Result<Tokenizer> {
        policy.check(&self.inner, self.added_tokens(&policy, 1))?;
        let mut written = self.inner.clone();
        policy::write(&mut written, &policy)?;
        let json = written
            .to_string(true)
            .map_err(|error| Error::format("tokenizer", error.to_string(), "it must be writable"))?;
        Ok(Tokenizer { json, policy, ..self.clone() })
    }

    /// What encodes texts by a policy. It copies the vocabulary, so it is made once for many texts.
    ///
    /// # Errors
    ///
    /// `format`: texts are to be cut to less than the template and one token, the stride is no shorter than what is
    /// left of a text, or texts are to be filled up with what is no token or beyond all measure.
    pub fn encoder(&self, policy: &Policy) -> Result<Encoder> {
        policy.check(&self.inner, self.added_tokens(policy, 1))?;
        let mut bare = self.inner.clone();
        let processor = bare.get_post_processor().cloned();
        bare.with_post_processor(None::<PostProcessorWrapper>);
        if policy.in_text == InText::Ordinary {
            bare.set_encode_special_tokens(true);
            ordinary::forget_special_tokens(&mut bare);
        }
        Ok(Encoder { bare: Arc::new(bare), processor, policy: policy.clone(), cuts: self.cuts })
    }

    /// The texts of several lists of ids.
    ///
    /// # Errors
    ///
    /// `format`: an id is not in the vocabulary.
    pub fn decode_batch<I: AsRef<[u32]>>(
        &self,
        batch: impl IntoIterator<Item = I>,
        special_tokens: SpecialTokens,
    ) -> Result<Vec<String>> {
        batch.into_iter().map(|ids| self.decode(ids.as_ref(), special_tokens)).collect()
    }

    /// How many tokens are put around so many texts.
    fn added_tokens(&self, policy: &Policy, texts: usize) -> usize {
        added_tokens(self.inner.get_post_processor(), policy, texts)
    }
}

fn added_tokens(processor: Option<&PostProcessorWrapper>, policy: &Policy, texts: usize) -> usize {
    match policy.template {
        Template::Apply => processor.map_or(0, |processor| processor.added_tokens(texts > 1)),
        Template::Leave => 0,
    }
}

impl Encoder {
    /// The policy by which texts are encoded.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The same encoder with the template applied or left; both share the vocabulary.
    ///
    /// # Errors
    ///
    /// `format`: as [`Tokenizer::encoder`].
    pub fn with_template(&self, template: Template) -> Result<Encoder> {
        let policy = Policy { template, ..self.policy.clone() };
        policy.check(&self.bare, added_tokens(self.processor.as_ref(), &policy, 1))?;
        Ok(Encoder { policy, ..self.clone() })
    }

    /// How many tokens are put around so many texts.
    pub(super) fn around(&self, texts: usize) -> usize {
        added_tokens(self.processor.as_ref(), &self.policy, texts)
    }

    /// Encodes one text or pair; it is filled up as a batch of one.
    ///
    /// # Errors
    ///
    /// `format`: the vocabulary lacks what the text needs and an unknown token as well, or the policy cannot be
    /// followed for this text.
    pub fn encode<'a>(&self, input: impl Into<Input<'a>>) -> Result<Encoding> {
        self.encode_batch([input.into()]).map(|mut batch| batch.pop().unwrap_or_default())
    }

    /// Encodes texts or pairs, by all threads. Where the policy fills up to the longest, that is this batch's longest.
    ///
    /// # Errors
    ///
    /// As [`Encoder::encode`].
    pub fn encode_batch<'a, I: Into<Input<'a>>>(
        &self,
        inputs: impl IntoIterator<Item = I>,
    ) -> Result<Vec<Encoding>> {
        let inputs: Vec<Input<'_>> = inputs.into_iter().map(Into::into).collect();
        let texts: Vec<&str> = inputs
            .iter()
            .flat_map(|input| match input {
                Input::One(text) => [Some(*text), None],
                Input::Pair(first, second) => [Some(*first), Some(*second)],
            })
            .flatten()
            .collect();
        let read = |text: &&str| words::encode(&self.bare, text, OffsetType::Byte, words::NEVER);
        let encoded: Vec<_> = texts.par_iter().map(read).collect::<Result<_>>()?;
        let mut encoded = encoded.into_iter();
        let mut batch = Vec::with_capacity(inputs.len());
        for input in &inputs {
            let Some(first) = encoded.next() else { break };
            let second = match input {
                Input::One(_) => None,
                Input::Pair(..) => encoded.next(),
            };
            batch.push(self.finish(first, second)?);
        }
        if let Some(padding) = &self.policy.padding {
            library::call(|| pad_encodings(&mut batch, &padding.params(&self.bare)))
                .map_err(words::unreadable)?;
        }
        Ok(batch.into_iter().map(Encoding::from).collect())
    }

    /// Cuts and puts the template around.
    pub(super) fn finish(
        &self,
        mut first: tokenizers::Encoding,
        mut second: Option<tokenizers::Encoding>,
    ) -> Result<tokenizers::Encoding> {
        if let Some(second) = &mut second {
            // Before it is cut, so that what is cut off has the type too.
            second.set_type_ids(vec![1; second.len()]);
        }
        if let Some(truncation) = &self.policy.truncation {
            let texts = 1 + usize::from(second.is_some());
            let most = truncation.max_length.saturating_sub(self.around(texts));
            // What the library would panic at.
            let kept = truncation.lengths(first.len(), second.as_ref().map(|second| second.len()), most)?;
            let lengths = (first.len(), second.as_ref().map(|second| second.len()));
            if kept != lengths {
                let params = truncation.params(most);
                (first, second) = library::call(|| truncate_encodings(first, second, &params))
                    .map_err(words::unreadable)?;
            }
            debug_assert_eq!(kept, (first.len(), second.as_ref().map(|second| second.len())));
        }
        let template = self.policy.template == Template::Apply;
        match &self.processor {
            Some(processor) => {
                library::call(|| processor.process(first, second, template)).map_err(words::unreadable)
            }
            None => {
                let mut all = first;
                if let Some(second) = second {
                    all.merge_with(second, false);
                }
                Ok(all)
            }
        }
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("policy", &self.policy).finish_non_exhaustive()
    }
}
