//! The words of the texts, counted.

use super::{Algorithm, Progress, Training};
use crate::error::shorten;
use crate::tokenizer::cuts::{Cuts, PIECE};
use crate::{Error, Result};
use rayon::iter::{ParallelBridge, ParallelIterator};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use tokenizers::{OffsetReferential, OffsetType, PreTokenizer};

/// The library counts characters and pairs in 31 bits.
const MOST_CHARACTERS: u64 = i32::MAX as u64;

/// The most characters of a word from which pieces are learnt. A longer one is learnt from in parts of that length: the
/// time that merging and splitting take grows with the square of a word's length, and no token of a language is as long.
const LONGEST: usize = 256;

/// The parts of a word, of at most `longest` characters each.
fn parts(word: &str, longest: usize) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let (part, after) = match rest.char_indices().nth(longest) {
            Some((at, _)) => rest.split_at(at),
            None => (rest, ""),
        };
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// How often each word occurs.
#[derive(Default)]
pub(super) struct Words(HashMap<String, u64>);

impl Words {
    /// How many different words there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The words of both.
    pub fn merge(mut self, mut other: Words) -> Words {
        if self.len() < other.len() {
            std::mem::swap(&mut self, &mut other);
        }
        for (word, count) in other.0 {
            *self.0.entry(word).or_default() += count;
        }
        self
    }

    /// The words in the order of their characters. Where they are so many that the library could not count what is in
    /// them, all counts are reduced in proportion, to no less than 1.
    pub fn sorted(self) -> Vec<(String, u64)> {
        let mut words: Vec<_> = self.0.into_iter().collect();
        words.sort_unstable();
        let characters: u64 = words.iter().map(|(word, count)| word.chars().count() as u64 * count).sum();
        let times = characters.div_ceil(MOST_CHARACTERS);
        if times > 1 {
            words.iter_mut().for_each(|(_, count)| *count = (*count / times).max(1));
        }
        words
    }

    fn add(&mut self, word: &str) {
        match self.0.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                self.0.insert(word.to_owned(), 1);
            }
        }
    }
}

/// Splits texts into words as `tokenizer` does, and tells how far it is.
pub(super) struct Reader<'a> {
    tokenizer: &'a tokenizers::Tokenizer,
    training: &'a Training<'a>,
    bytes: AtomicU64,
}

impl<'a> Reader<'a> {
    pub fn new(tokenizer: &'a tokenizers::Tokenizer, training: &'a Training<'a>) -> Reader<'a> {
        Reader { tokenizer, training, bytes: AtomicU64::new(0) }
    }

    /// Counts the words of the texts, by all threads. The first error is the result.
    pub fn read<S: AsRef<str> + Send>(&self, texts: impl Iterator<Item = Result<S>> + Send) -> Result<Words> {
        let words = texts
            .par_bridge()
            .try_fold(Words::default, |words, text| self.count(words, text?.as_ref()))
            .try_reduce(Words::default, |one, other| Ok(one.merge(other)))?;
        self.training.tell(Progress::Reading { bytes: self.bytes.load(Ordering::Relaxed) })?;
        Ok(words)
    }

    /// Adds the words of a text. A long one is itself shared among the threads.
    fn count(&self, words: Words, text: &str) -> Result<Words> {
        if text.len() <= PIECE {
            return self.count_piece(words, text);
        }
        let counted = Cuts::LINES
            .pieces(text)
            .par_bridge()
            .try_fold(Words::default, |words, piece| self.count_piece(words, piece))
            .try_reduce(Words::default, |one, other| Ok(one.merge(other)))?;
        Ok(words.merge(counted))
    }

    fn count_piece(&self, mut words: Words, piece: &str) -> Result<Words> {
        // The line end at which a text was cut is a word of byte-level BPE, and white space that counts for nothing to
        // the others.
        let content = match self.training.algorithm {
            Algorithm::Bpe => piece,
            _ => piece.strip_suffix('\n').unwrap_or(piece),
        };
        let normalizer = self.tokenizer.get_normalizer();
        let mut split = self.tokenizer.get_added_vocabulary().extract_and_normalize(normalizer, content);
        if let Some(splitter) = self.tokenizer.get_pre_tokenizer() {
            splitter.pre_tokenize(&mut split).map_err(|error| {
                Error::format("text", shorten(&error.to_string()), "it cannot be split into words")
            })?;
        }
        for (word, _, _) in split.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            match self.training.algorithm {
                // Its tokens are the words themselves.
                Algorithm::WordLevel if !word.is_empty() => words.add(word),
                _ => parts(word, LONGEST).for_each(|part| words.add(part)),
            }
        }
        let before = self.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let bytes = before + piece.len() as u64;
        let every = self.training.report_every.max(1);
        if before / every != bytes / every {
            self.training.tell(Progress::Reading { bytes })?;
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_between_characters() {
        let cut = |word| parts(word, 3).collect::<Vec<_>>();
        assert_eq!(cut("süßes"), ["süß", "es"]);
        assert_eq!(cut("abcdef"), ["abc", "def"]);
        assert_eq!((cut("ab"), cut("")), (vec!["ab"], vec![]));
    }

    #[test]
    fn counts_that_the_library_could_not_hold_are_reduced_in_proportion() {
        let counts = |words: &[(&str, u64)]| {
            let words = words.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect();
            Words(words).sorted().into_iter().map(|(_, count)| count).collect::<Vec<_>>()
        };
        assert_eq!(counts(&[("ab", 1 << 29), ("c", 9)]), [1 << 29, 9]);
        assert_eq!(counts(&[("ab", 1 << 31), ("c", 9), ("d", 1)]), [(1 << 31) / 3, 3, 1]);
    }
}
