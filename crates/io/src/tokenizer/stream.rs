//! Ids in, text out, for generation.

use super::{SpecialTokens, Tokenizer};
use crate::error::shorten;
use crate::{Error, Result};

/// Turns ids into text one by one. What comes out, put together, is what [`Tokenizer::decode`] makes of all the ids;
/// a character is given out when its last byte is there.
///
/// ```
/// use lanthorn_io::tokenizer::{SpecialTokens, Tokenizer};
/// let tokenizer = Tokenizer::train_bpe(["aa"], 256, &[]).unwrap();
/// let ids = tokenizer.encode("é!").unwrap(); // é is two bytes, and here two tokens
///
/// let mut stream = tokenizer.stream(SpecialTokens::Keep);
/// assert_eq!(stream.push(ids[0]).unwrap(), "");
/// assert_eq!(stream.push(ids[1]).unwrap(), "é");
/// assert_eq!(stream.push(ids[2]).unwrap(), "!");
/// assert_eq!(stream.finish().unwrap(), "");
/// ```
#[derive(Debug)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a Tokenizer,
    special_tokens: SpecialTokens,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The beginning of a character: at most three bytes.
    Bytes(Vec<u8>),
    /// What the library keeps between steps where tokens are not bytes: see its `DecodeStream`.
    Ids { ids: Vec<u32>, prefix: String, prefix_index: usize },
}

impl<'a> StreamDecoder<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, special_tokens: SpecialTokens) -> Self {
        let state = match tokenizer.bytes {
            Some(_) => State::Bytes(Vec::new()),
            None => State::Ids { ids: Vec::new(), prefix: String::new(), prefix_index: 0 },
        };
        StreamDecoder { tokenizer, special_tokens, state }
    }

    /// Takes the next id and gives the text that is complete with it, which may be empty.
    ///
    /// # Errors
    ///
    /// `format`: the id is not in the vocabulary; the stream is as it was before.
    pub fn push(&mut self, id: u32) -> Result<String> {
        let tokenizer = self.tokenizer;
        match (&mut self.state, &tokenizer.bytes) {
            (State::Bytes(pending), Some(bytes)) => {
                let token = bytes.get(id, self.special_tokens);
                pending.extend_from_slice(token.ok_or_else(|| tokenizer.no_such_id(id))?);
                Ok(take_complete(pending))
            }
            (State::Bytes(_), None) => Ok(String::new()),
            (State::Ids { ids, prefix, prefix_index }, _) => {
                if tokenizer.inner.id_to_token(id).is_none() {
                    return Err(tokenizer.no_such_id(id));
                }
                step(tokenizer, self.special_tokens, id, ids, prefix, prefix_index)
            }
        }
    }

    /// Ends the stream and gives what was held back: U+FFFD for a character that was never completed.
    ///
    /// # Errors
    ///
    /// `format`: the tokenizer cannot decode what is left, which does not happen with a byte-level vocabulary.
    pub fn finish(self) -> Result<String> {
        match self.state {
            State::Bytes(pending) => Ok(String::from_utf8_lossy(&pending).into_owned()),
            State::Ids { ids, prefix, .. } => {
                let text = self.tokenizer.decode(&ids, self.special_tokens)?;
                Ok(text.strip_prefix(prefix.as_str()).unwrap_or_default().to_owned())
            }
        }
    }
}

/// The text that is complete with one more token, as the library's `step_decode_stream` finds it: what all tokens since the
/// last text but one give, without what they gave then.
fn step(
    tokenizer: &Tokenizer,
    special_tokens: SpecialTokens,
    id: u32,
    ids: &mut Vec<u32>,
    prefix: &mut String,
    prefix_index: &mut usize,
) -> Result<String> {
    let is_whole = |text: &str| !text.ends_with(char::REPLACEMENT_CHARACTER);
    if prefix.is_empty() && !ids.is_empty() {
        let text = tokenizer.decode(ids, special_tokens)?;
        if is_whole(&text) {
            (*prefix, *prefix_index) = (text, ids.len());
        }
    }
    ids.push(id);
    let text = tokenizer.decode(ids, special_tokens)?;
    if text.len() <= prefix.len() || !is_whole(&text) {
        return Ok(String::new());
    }
    let Some(new) = text.strip_prefix(prefix.as_str()) else {
        return Err(Error::format(
            "ids",
            format!(
                "they give `{}` with token {id}, and gave `{}` before it",
                shorten(&text),
                shorten(prefix)
            ),
            "the tokenizer cannot decode them one by one",
        ));
    };
    let new = new.to_owned();
    ids.drain(..(*prefix_index).min(ids.len()));
    *prefix = tokenizer.decode(ids, special_tokens)?;
    *prefix_index = ids.len();
    Ok(new)
}

#[cfg(test)]
impl StreamDecoder<'_> {
    pub(super) fn pending_bytes(&self) -> usize {
        match &self.state {
            State::Bytes(pending) => pending.len(),
            State::Ids { .. } => 0,
        }
    }
}

/// Takes from `pending` all but the beginning of a character that further bytes may complete. Bytes that no further
/// ones can make a character of become U+FFFD.
fn take_complete(pending: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut taken = 0;
    for chunk in pending.utf8_chunks() {
        text.push_str(chunk.valid());
        taken += chunk.valid().len();
        let invalid = chunk.invalid();
        let at_the_end = taken + invalid.len() == pending.len();
        if at_the_end && may_be_completed(invalid) {
            break;
        }
        if !invalid.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        taken += invalid.len();
    }
    pending.drain(..taken);
    text
}

/// Whether further bytes can make a character of these.
fn may_be_completed(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
