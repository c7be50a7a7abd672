//! Training: texts become a vocabulary, by one of four algorithms with one set of settings.
//!
//! The algorithms are the `tokenizers` crate's. What is ours is the counting of words, which tells how far it is and can
//! be cancelled, and an order wherever the library's hash maps have none, so that the same texts give the same file.

mod files;
mod learn;
mod words;

use super::Tokenizer;
use super::cuts::PIECE;
use crate::error::shorten;
use crate::{Error, Result};
use files::FilePieces;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use tokenizers::AddedToken;
use words::{Reader, Words};

/// How a vocabulary is learnt, and with it how a text is split into words and put together again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Byte-level byte-pair encoding, as GPT-2's: every text can be encoded and comes back as it was
    /// (Sennrich et al., 2016; Radford et al., 2019, section 2.2).
    Bpe,
    /// WordPiece, as BERT's: text is lower-cased and loses its accents, words are split at white space and punctuation,
    /// a token within a word begins with `##` (Devlin et al., 2019).
    WordPiece,
    /// A unigram language model over pieces of words, as SentencePiece's: text is normalised by NFKC, white space is
    /// one blank, which is written `▁` (Kudo, 2018).
    Unigram,
    /// Whole words and runs of punctuation, the most frequent ones.
    WordLevel,
}

impl Algorithm {
    /// The name in a `tokenizer.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Bpe => "BPE",
            Algorithm::WordPiece => "WordPiece",
            Algorithm::Unigram => "Unigram",
            Algorithm::WordLevel => "WordLevel",
        }
    }
}

/// How far a training is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes of text have been split into words, of all texts together.
    Reading {
        /// Bytes of UTF-8.
        bytes: u64,
    },
    /// All texts are read; the vocabulary is learnt from so many different words. Nothing more is told until the end.
    Learning {
        /// Words that occur at least once.
        words: usize,
    },
}

/// What is called with the [`Progress`] of a training, from any thread, every so many bytes of text.
/// `ControlFlow::Break` cancels the training.
pub type Report<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// The settings of [`Tokenizer::train`].
#[derive(Clone)]
pub struct Training<'a> {
    /// How the vocabulary is learnt.
    pub algorithm: Algorithm,
    /// The most tokens that the vocabulary may have, special ones included. It has fewer where the texts do not give so
    /// many.
    pub vocab_size: usize,
    /// How often a pair of tokens must occur to be merged ([`Algorithm::Bpe`], [`Algorithm::WordPiece`]), or a word to
    /// be used at all ([`Algorithm::Unigram`], [`Algorithm::WordLevel`]).
    pub min_frequency: u64,
    /// Tokens that are recognised in a text before it is split. Their ids go from 0, in this order.
    pub special_tokens: Vec<String>,
    /// The token for what has no other; [`Algorithm::Bpe`] needs none and ignores it. Where it is not among the special
    /// tokens it becomes the first of them.
    pub unknown_token: String,
    /// Told of the progress, and asked whether to go on.
    pub report: Option<Report<'a>>,
    /// After how many bytes of text it is told again, at the end of a text or of 64 KiB.
    pub report_every: u64,
}

impl Training<'_> {
    /// The usual settings: a pair must occur twice, a word once; no special tokens but the unknown one, which is
    /// `<unk>` for [`Algorithm::Unigram`] and `[UNK]` otherwise.
    pub fn new(algorithm: Algorithm, vocab_size: usize) -> Self {
        let merges_pairs = matches!(algorithm, Algorithm::Bpe | Algorithm::WordPiece);
        Training {
            algorithm,
            vocab_size,
            min_frequency: if merges_pairs { 2 } else { 1 },
            special_tokens: Vec::new(),
            unknown_token: if algorithm == Algorithm::Unigram { "<unk>" } else { "[UNK]" }.to_owned(),
            report: None,
            report_every: PIECE as u64,
        }
    }

    /// The special tokens in the order of their ids, the unknown token among them.
    fn all_special_tokens(&self) -> Vec<String> {
        let mut tokens = self.special_tokens.clone();
        if self.algorithm != Algorithm::Bpe && !tokens.contains(&self.unknown_token) {
            tokens.insert(0, self.unknown_token.clone());
        }
        tokens
    }

    fn check(&self, special_tokens: &[String]) -> Result<()> {
        for (at, token) in special_tokens.iter().enumerate() {
            if token.is_empty() || special_tokens[..at].contains(token) {
                return Err(Error::format(
                    "tokenizer",
                    format!("the special token `{}` is empty or given twice", shorten(token)),
                    "each must be a text of its own",
                ));
            }
        }
        match self.algorithm {
            Algorithm::Bpe => self.check_size(256, "bytes", special_tokens.len()),
            // How many characters there are is known when the texts are read.
            _ => self.check_size(0, "characters", special_tokens.len()),
        }
    }

    /// A vocabulary must have room for what it cannot do without.
    fn check_size(&self, alphabet: usize, letters: &str, special_tokens: usize) -> Result<()> {
        let least = alphabet + special_tokens;
        if self.vocab_size >= least && u32::try_from(self.vocab_size).is_ok() {
            return Ok(());
        }
        let expected = match alphabet {
            _ if self.vocab_size >= least => format!("at most {} are possible", u32::MAX),
            0 => format!("at least {least} are needed for the special tokens"),
            _ => format!(
                "at least {least} are needed: {alphabet} {letters} and {special_tokens} special tokens"
            ),
        };
        let found = format!("a vocabulary of {} tokens was asked for", self.vocab_size);
        Err(Error::format("tokenizer", found, expected))
    }

    fn tell(&self, progress: Progress) -> Result<()> {
        match self.report {
            Some(report) if report(progress).is_break() => {
                Err(Error::Cancelled { subject: "tokenizer".to_owned() })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Training<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Training")
            .field("algorithm", &self.algorithm)
            .field("vocab_size", &self.vocab_size)
            .field("min_frequency", &self.min_frequency)
            .field("special_tokens", &self.special_tokens)
            .field("unknown_token", &self.unknown_token)
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Learns a vocabulary from texts.
    ///
    /// The same texts give the same tokenizer, byte for byte, whatever the order of the texts and the number of
    /// threads. Words are counted by all threads in memory in proportion to how many different ones there are; a text
    /// is not copied. The vocabulary is then learnt without interruption. A word of more than 256 characters (a run of one
    /// letter, or text of a language that writes no blanks) is learnt from in parts of that length; only
    /// [`Algorithm::WordLevel`] takes it whole.
    ///
    /// # Errors
    ///
    /// `format`: the vocabulary has no room for the special tokens and the characters (of BPE: the bytes; WordPiece
    /// needs those within words a second time), or a special token is empty or given twice. `cancelled`: the report
    /// said so.
    ///
    /// ```
    /// use lanthorn_io::tokenizer::{Algorithm, SpecialTokens, Tokenizer, Training};
    /// let texts = ["the lamp and the lantern", "a lamp, the lamps"];
    /// let mut training = Training::new(Algorithm::WordPiece, 60);
    /// training.special_tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map(str::to_owned).into();
    ///
    /// let tokenizer = Tokenizer::train(texts, &training).unwrap();
    /// let ids = tokenizer.encode("The lamp!").unwrap();
    /// assert_eq!(ids[2], tokenizer.id("[UNK]").unwrap()); // no `!` in the texts
    /// assert_eq!(tokenizer.decode(&ids, SpecialTokens::Skip).unwrap(), "the lamp");
    /// ```
    pub fn train<S: AsRef<str> + Send>(
        texts: impl IntoIterator<Item = S, IntoIter: Send>,
        training: &Training<'_>,
    ) -> Result<Tokenizer> {
        Tokenizer::train_on(training, |reader| reader.read(texts.into_iter().map(Ok)))
    }

    /// Learns a vocabulary from text files. Each is read once, in pieces of about 64 KiB that end with a line, so that
    /// files may be larger than memory.
    ///
    /// # Errors
    ///
    /// As [`Tokenizer::train`] and [`text::read`](crate::text::read).
    pub fn train_files<P: AsRef<Path> + Send>(
        paths: impl IntoIterator<Item = P, IntoIter: Send>,
        training: &Training<'_>,
    ) -> Result<Tokenizer> {
        let pieces = paths.into_iter().flat_map(|path| {
            let (opened, refused) = match FilePieces::open(path.as_ref()) {
                Ok(opened) => (Some(opened), None),
                Err(error) => (None, Some(Err(error))),
            };
            opened.into_iter().flatten().chain(refused)
        });
        Tokenizer::train_on(training, |reader| reader.read(pieces))
    }

    /// Learns a byte-level BPE vocabulary from texts.
    ///
    /// Ids are: the special tokens in the order given, from 0; the 256 bytes; then the merges, most frequent first. The
    /// vocabulary is smaller than `vocab_size` where the texts do not hold so many pairs that occur twice.
    /// The same texts give the same tokenizer, byte for byte.
    ///
    /// # Errors
    ///
    /// `format`: `vocab_size` has no room for the bytes and the special tokens, or a special token is empty or given
    /// twice.
    pub fn train_bpe<'a>(
        texts: impl IntoIterator<Item = &'a str, IntoIter: Send>,
        vocab_size: usize,
        special_tokens: &[&str],
    ) -> Result<Tokenizer> {
        let mut training = Training::new(Algorithm::Bpe, vocab_size);
        training.special_tokens = special_tokens.iter().map(|token| (*token).to_owned()).collect();
        Tokenizer::train(texts, &training)
    }

    fn train_on(
        training: &Training<'_>,
        count: impl FnOnce(&Reader<'_>) -> Result<Words>,
    ) -> Result<Tokenizer> {
        let special_tokens = training.all_special_tokens();
        training.check(&special_tokens)?;
        let refused = |error: tokenizers::Error| {
            Error::format("tokenizer", shorten(&error.to_string()), "the texts could not be trained on")
        };
        let mut inner = learn::untrained(training.algorithm).map_err(refused)?;
        let words = count(&Reader::new(&inner, training))?;
        training.tell(Progress::Learning { words: words.len() })?;
        inner.with_model(learn::model(training, &special_tokens, words)?);
        let added = special_tokens.into_iter().map(|token| AddedToken::from(token, true));
        inner.add_special_tokens(added).map_err(refused)?;
        Tokenizer::new("tokenizer", inner)
    }
}

#[cfg(test)]
mod tests;
