//! The ids that are left of a long text, without those that would be cut off.
//!
//! A text of megabytes of which a model reads 256 tokens is not worth tokenizing to its end. Its beginning gives the
//! same first ids where a token depends on its word and a word on what stands beside it, which is so of normalizers that
//! look at characters and of rules that split at characters. Then every word of the beginning is a word of the text, but
//! for those at the cut: the last word, which may go on, and what lies within the length of a special token of the cut,
//! which may be half of one. The beginning grows until enough words are left.
//!
//! A word of megabytes has no end within a beginning. To WordPiece every word of more than so many letters (100 in BERT)
//! is unknown, so most of one can be left out.

use super::Encoder;
use super::policy::{Side, TruncationStrategy};
use super::words::{self, Stop};
use crate::Result;
use rayon::prelude::*;
use std::borrow::Cow;
use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{OffsetType, TruncationDirection};

/// Bytes for each token that is wanted with which a beginning begins: more than a word of most languages has.
const BYTES_PER_TOKEN: usize = 16;

/// The shortest beginning, in bytes.
const SHORTEST: usize = 4096;

/// How much longer the next beginning is.
const GROWTH: usize = 4;

impl Encoder {
    /// [`Encoder::encode`]'s ids of one text without padding, and without what is cut off: `[tokens]`. A long text is
    /// read only as far as needed, by tokenizers whose words depend on what stands beside them alone.
    ///
    /// # Errors
    ///
    /// As [`Encoder::encode`].
    ///
    /// ```
    /// use lanthorn_io::tokenizer::{Algorithm, Policy, Tokenizer, Training, Truncation};
    /// let tokenizer = Tokenizer::train(["one two"], &Training::new(Algorithm::WordLevel, 10))?;
    /// let policy = Policy { truncation: Some(Truncation::new(3)), ..Policy::default() };
    /// let encoder = tokenizer.encoder(&policy)?;
    /// let ids = encoder.kept_ids(&"one two ".repeat(1_000_000))?;
    /// assert_eq!(Some(ids[0]), tokenizer.id("one"));
    /// assert_eq!(ids.len(), 3);
    /// # Ok::<(), lanthorn_io::Error>(())
    /// ```
    pub fn kept_ids(&self, text: &str) -> Result<Vec<u32>> {
        self.kept(text, words::NEVER)
    }

    fn kept(&self, text: &str, stop: Stop<'_>) -> Result<Vec<u32>> {
        if text.len() <= SHORTEST {
            return self.ids_of(text, stop);
        }
        let text = match self.longest_run() {
            Some(longest) => without_long_runs(text, longest),
            None => Cow::Borrowed(text),
        };
        if let Some(most) = self.most_of_one().filter(|_| self.is_local()) {
            // A special token that the cut parts is no longer than this, nor is what stands beside it and counts.
            let margin = self.longest_added() + 4;
            let mut length = most.saturating_mul(BYTES_PER_TOKEN).max(SHORTEST);
            while length < text.len().min(words::LONGEST_TEXT) {
                let beginning = beginning(&text, length);
                let mut found = words::encode(&self.bare, beginning, OffsetType::Byte, stop)?;
                let certain = certain(&found, beginning.len().saturating_sub(margin));
                if certain >= most {
                    found.truncate(certain, 0, TruncationDirection::Right);
                    return Ok(self.finish(found, None)?.get_ids().to_vec());
                }
                length = length.saturating_mul(GROWTH);
            }
        }
        self.ids_of(&text, stop)
    }

    /// [`Encoder::kept_ids`] of several texts, by all threads, unless it is to stop: `is_cancelled` is asked from any
    /// thread, before each text and within it.
    ///
    /// # Errors
    ///
    /// As [`Encoder::encode`]; `cancelled`.
    pub fn kept_ids_of<S: AsRef<str> + Sync>(
        &self,
        texts: &[S],
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Vec<u32>>> {
        texts.par_iter().map(|text| self.kept(text.as_ref(), is_cancelled)).collect()
    }

    /// How many of a text's own tokens are left, where the end is what is cut off.
    fn most_of_one(&self) -> Option<usize> {
        let truncation = self.policy.truncation.as_ref()?;
        let is_end = truncation.side == Side::Right && truncation.strategy != TruncationStrategy::OnlySecond;
        is_end.then(|| truncation.max_length.saturating_sub(self.around(1)))
    }

    /// True where a word depends on what stands beside it alone.
    fn is_local(&self) -> bool {
        let normalizer = self.bare.get_normalizer();
        // One that is found behind the normalizer may be of any length before it.
        let is_found_as_written =
            || self.bare.get_added_tokens_decoder().values().all(|token| !token.normalized);
        self.bare.get_pre_tokenizer().is_some_and(splits_locally)
            && normalizer.is_none_or(|normalizer| normalizes_locally(normalizer) && is_found_as_written())
    }

    /// How many ASCII letters and digits in a row make a word unknown, however many more there are; `None` where it
    /// depends on them. BERT's rule splits at none of them, and no token that is recognised before lies among them.
    fn longest_run(&self) -> Option<usize> {
        let ModelWrapper::WordPiece(model) = self.bare.get_model() else { return None };
        let is_bert = matches!(self.bare.get_pre_tokenizer(), Some(PreTokenizerWrapper::BertPreTokenizer(_)));
        let is_other = |c: Option<char>| c.is_some_and(|c| !c.is_ascii_alphanumeric());
        let added = self.bare.get_added_tokens_decoder();
        let lies_among_none = added.values().all(|token| {
            is_other(token.content.chars().next()) && is_other(token.content.chars().next_back())
        });
        let longest = model.max_input_chars_per_word.saturating_add(1).max(self.longest_added());
        (is_bert && lies_among_none && self.is_local()).then_some(longest)
    }

    /// Bytes of the longest token that is recognised before a text is split.
    fn longest_added(&self) -> usize {
        self.bare.get_added_tokens_decoder().values().map(|token| token.content.len()).max().unwrap_or(0)
    }
}

/// A text in which of each run of ASCII letters and digits the first `longest` are left.
fn without_long_runs(text: &str, longest: usize) -> Cow<'_, str> {
    let mut short = String::new();
    // Where what is not yet copied begins, and how long the run at hand is.
    let (mut from, mut run) = (0, 0_usize);
    for (at, byte) in text.bytes().enumerate() {
        run = if byte.is_ascii_alphanumeric() { run + 1 } else { 0 };
        if run.checked_sub(1) == Some(longest) {
            short.push_str(text.get(from..at).unwrap_or_default());
        }
        if run > longest {
            from = at + 1;
        }
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    short.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(short)
}

/// The beginning of a text, of at most `length` bytes.
fn beginning(text: &str, length: usize) -> &str {
    let end = (0..=length).rev().find(|&at| text.is_char_boundary(at));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// How many tokens of a beginning are those of the text: the words that end by byte `end`, but for the last of them.
fn certain(beginning: &tokenizers::Encoding, end: usize) -> usize {
    let before = beginning.get_offsets().iter().take_while(|(_, to)| *to <= end).count();
    let words = beginning.get_word_ids().get(..before).unwrap_or_default();
    let last = words.last();
    words.iter().take_while(|word| Some(*word) != last).count()
}

fn splits_locally(rule: &PreTokenizerWrapper) -> bool {
    match rule {
        PreTokenizerWrapper::BertPreTokenizer(_)
        | PreTokenizerWrapper::ByteLevel(_)
        | PreTokenizerWrapper::Whitespace(_)
        | PreTokenizerWrapper::WhitespaceSplit(_)
        | PreTokenizerWrapper::Punctuation(_)
        | PreTokenizerWrapper::Digits(_) => true,
        PreTokenizerWrapper::Sequence(rules) => rules.as_ref().iter().all(splits_locally),
        _ => false,
    }
}

fn normalizes_locally(rule: &NormalizerWrapper) -> bool {
    match rule {
        NormalizerWrapper::BertNormalizer(_)
        | NormalizerWrapper::StripAccents(_)
        | NormalizerWrapper::NFC(_)
        | NormalizerWrapper::NFD(_)
        | NormalizerWrapper::NFKC(_)
        | NormalizerWrapper::NFKD(_)
        | NormalizerWrapper::Lowercase(_) => true,
        NormalizerWrapper::Sequence(rules) => rules.as_ref().iter().all(normalizes_locally),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tokenizer;
    use crate::tokenizer::{Policy, Truncation};
    use proptest::prelude::*;
    use std::sync::LazyLock;

    /// WordPiece as BERT's, whose letters become small and lose their accents.
    static BERT: LazyLock<Tokenizer> = LazyLock::new(|| {
        let text = include_str!("../../fixtures/tokenizers/tokenizer.json");
        Tokenizer::from_json("fixture", text).unwrap()
    });

    static BYTES: LazyLock<Tokenizer> = LazyLock::new(|| {
        Tokenizer::train_bpe(
            ["one two three, four's 5 67 \n\n the end".repeat(9).as_str()],
            300,
            &["<|end|>"],
        )
        .unwrap()
    });

    fn encoder(tokenizer: &Tokenizer, most: usize) -> Encoder {
        let policy = Policy { truncation: Some(Truncation::new(most)), ..Policy::default() };
        tokenizer.encoder(&policy).unwrap()
    }

    #[test]
    fn the_tokenizers_here_are_local() {
        assert!(encoder(&BERT, 9).is_local() && encoder(&BYTES, 9).is_local());
    }

    /// What a text is made of: words, special tokens, and what a normalizer takes out, parts or composes.
    const PIECES: [&str; 16] = [
        "word",
        " ",
        "  ",
        "\n",
        "Na\u{ef}ve",
        "e\u{301}",
        "\u{301}",
        "\u{0}\u{0}\u{0}",
        "[SEP]",
        "[CL",
        "S]",
        ",",
        "\u{706f}",
        "antidisestablishmentarianism",
        "<|end|>",
        "'s 12",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A text of many pieces, which the first beginning cuts anywhere.
        #[test]
        fn ids_are_those_of_the_whole_text(
            some in prop::collection::vec(0usize..PIECES.len(), 1..40),
            shift in 0usize..40,
            most in 4usize..400,
        ) {
            let pattern: String = some.iter().map(|&at| PIECES[at]).collect();
            let text = format!("{}{}", "x".repeat(shift), pattern.repeat(40_000 / pattern.len()));
            for tokenizer in [&*BERT, &*BYTES] {
                let encoder = encoder(tokenizer, most);
                prop_assert_eq!(encoder.kept_ids(&text).unwrap(), encoder.encode(text.as_str()).unwrap().ids);
            }
        }

        /// Of every cut, what is certain is what the whole text begins with.
        #[test]
        fn what_is_certain_of_a_beginning_is_so_of_the_text(
            some in prop::collection::vec(0usize..PIECES.len(), 1..60),
            at in any::<prop::sample::Index>(),
        ) {
            let text: String = some.iter().map(|&at| PIECES[at]).collect();
            for tokenizer in [&*BERT, &*BYTES] {
                let encoder = encoder(tokenizer, 100_000);
                let part = beginning(&text, at.index(text.len()));
                let found = encoder.bare.encode(part, false).unwrap();
                let certain = certain(&found, part.len().saturating_sub(encoder.longest_added() + 4));
                let whole = encoder.bare.encode(text.as_str(), false).unwrap();
                prop_assert_eq!(&found.get_ids()[..certain], &whole.get_ids()[..certain]);
            }
        }
    }

    #[test]
    fn a_long_text_is_read_only_as_far_as_needed() {
        let encoder = encoder(&BERT, 50);
        let text = "one two. ".repeat(2_000);
        let ids = encoder.kept_ids(&text).unwrap();
        assert_eq!((ids.len(), ids), (50, encoder.encode(text.as_str()).unwrap().ids));
        let part = beginning(&text, SHORTEST);
        let found = encoder.bare.encode(part, false).unwrap();
        assert!(certain(&found, part.len() - encoder.longest_added() - 4) >= 50, "one beginning does");
    }

    #[test]
    fn words_without_an_end_are_unknown_by_their_first_letters() {
        let encoder = encoder(&BERT, 50);
        let longest = encoder.longest_run().unwrap();
        assert_eq!(without_long_runs("ab cde f", 2), "ab cd f");
        assert_eq!(without_long_runs("abcde\u{e9}fgh", 3), "abc\u{e9}fgh");
        assert_eq!(without_long_runs("abcdefgh", 3), "abc");
        assert_eq!(without_long_runs("abcdefgh", usize::MAX), "abcdefgh");
        assert!(matches!(without_long_runs("abc def", 3), Cow::Borrowed(_)));
        for length in [longest - 1, longest, longest + 1, 50_000] {
            let run = "aB3".repeat(length)[..length].to_owned();
            for text in [
                run.repeat(1 + 5_000 / length),
                format!("word {run} {run}, word [SEP]{run}[MASK] e\u{301}{run}\u{301} word"),
                format!("{run} word ").repeat(1 + 5_000 / length),
            ] {
                assert_eq!(encoder.kept_ids(&text).unwrap(), encoder.encode(text.as_str()).unwrap().ids);
            }
        }
        // Words of bytes have no such end.
        assert_eq!(self::encoder(&BYTES, 50).longest_run(), None);
        let text = "a".repeat(50_000);
        let encoder = self::encoder(&BYTES, 50);
        assert_eq!(encoder.kept_ids(&text).unwrap(), encoder.encode(text.as_str()).unwrap().ids);
    }
}
