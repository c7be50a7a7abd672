//! Where a long text may be cut without changing its ids, so that it is read in pieces: by several threads, in little
//! memory, and with a look at whether it is still wanted.
//!
//! A cut lies at a blank, or behind the end of a line, between two characters that neither a normaliser nor a rule takes
//! together with white space: letters and digits that are no marks. Rules that split there for certain are those that
//! split at white space, and regular expressions that are known. Where a text is one word, as in Llama 2, the vocabulary
//! tells: no token of SentencePiece's goes on behind a word's end.

use super::gguf::Splits;
use serde_json::Value;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

/// Bytes of text that are encoded at once by one thread.
pub(super) const PIECE: usize = 64 << 10;

/// What SentencePiece writes for a blank.
const BLANK: &str = "\u{2581}";

/// Where a tokenizer's texts may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cuts {
    Nowhere,
    At { blank: Blank, line: Line },
}

/// What becomes of a blank at which a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blank {
    /// No text is cut there.
    No,
    /// The next piece begins with it.
    Kept,
    /// It is left out: the normaliser puts one before each piece.
    Dropped,
}

/// Behind which ends of lines a text may be cut; what stands before them is never white.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    No,
    /// Before a letter or digit.
    BeforeWord,
    /// Before whatever is not white.
    BeforeAny,
}

impl Cuts {
    /// Behind line ends that stand alone between two characters that are not white. There GPT-2's splitting rule
    /// (`\s+(?!\S)|\s+` and words that take at most one blank before them) has a boundary on either side of the line end,
    /// whatever surrounds it, and so has every rule by which a training finds words.
    pub const LINES: Cuts = Cuts::At { blank: Blank::No, line: Line::BeforeAny };

    pub fn of(tokenizer: &Tokenizer) -> Cuts {
        let added = tokenizer.get_added_tokens_decoder();
        let is_normalised = tokenizer.get_normalizer().is_some();
        if !added.values().all(|token| leaves_cuts_alone(token, is_normalised)) {
            return Cuts::Nowhere;
        }
        if let Some(blank) = between_tokens(tokenizer) {
            return Cuts::At { blank, line: Line::No };
        }
        let Some(Rule::Splits(line)) = tokenizer.get_pre_tokenizer().map(rule_of) else {
            return Cuts::Nowhere;
        };
        let line = match tokenizer.get_normalizer().map_or(Normaliser::Local, normaliser_of) {
            Normaliser::Other => return Cuts::Nowhere,
            Normaliser::StripsEnd => Line::No,
            Normaliser::Local => match line {
                // A mark behind the line's end, or a token that takes it, is not seen by a piece that ends there.
                Line::BeforeAny if is_normalised || added.values().any(|token| token.lstrip) => {
                    Line::BeforeWord
                }
                line => line,
            },
        };
        Cuts::At { blank: Blank::Kept, line }
    }

    /// A text in pieces of about [`PIECE`] bytes: one where it may not be cut, none of an empty one.
    pub fn pieces(self, text: &str) -> impl Iterator<Item = &str> + Send {
        let mut rest = Some(text).filter(|text| !text.is_empty());
        std::iter::from_fn(move || {
            let text = rest.take()?;
            match self.cut(text, PIECE) {
                Some((piece, after)) => {
                    rest = Some(after);
                    Some(piece)
                }
                None => Some(text),
            }
        })
    }

    /// Cuts at the first place from byte `from` on.
    pub fn cut(self, text: &str, mut from: usize) -> Option<(&str, &str)> {
        let Cuts::At { blank, line } = self else { return None };
        loop {
            let offset = text.as_bytes().get(from..)?.iter().position(|byte| matches!(byte, b' ' | b'\n'))?;
            // Both are one byte, so that both sides of it are characters' boundaries.
            let at = from + offset;
            let (before, behind) = (text.get(..at)?, text.get(at + 1..)?);
            let (last, next) = (before.chars().next_back(), behind.chars().next());
            let is_blank = text.as_bytes().get(at) == Some(&b' ');
            let is_last_a_word = match is_blank {
                true => last.is_some_and(is_of_word),
                false => last.is_some_and(|last| !last.is_whitespace()),
            };
            let is_next_a_word = match (is_blank, line) {
                (false, Line::No) => false,
                (false, Line::BeforeAny) => next.is_some_and(|next| !next.is_whitespace()),
                _ => next.is_some_and(is_of_word),
            };
            if is_last_a_word && is_next_a_word {
                match (is_blank, blank) {
                    (true, Blank::No) => {}
                    (true, Blank::Kept) => return text.split_at_checked(at),
                    (true, Blank::Dropped) => return Some((before, behind)),
                    (false, _) => return text.split_at_checked(at + 1),
                }
            }
            from = at + 1;
        }
    }
}

/// Letters and ASCII digits that are no marks, stand for themselves and are decomposed into such: `\p{L}` and `\p{Nd}` to
/// every version of Unicode. Not all there are.
fn is_of_word(c: char) -> bool {
    matches!(c,
        '0'..='9' | 'A'..='Z' | 'a'..='z'
        | 'À'..='Ö' | 'Ø'..='ö' | 'ø'..='ſ'
        | 'Α'..='Ρ' | 'Σ'..='Ϋ' | 'ά'..='ώ'
        | '\u{0400}'..='\u{0481}'
        | '\u{0531}'..='\u{0556}' | '\u{0561}'..='\u{0586}'
        | '\u{05D0}'..='\u{05EA}'
        | '\u{0621}'..='\u{064A}'
        | '\u{0905}'..='\u{0939}'
        | '\u{0E01}'..='\u{0E30}'
        | '\u{10D0}'..='\u{10FA}'
        | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}'
        | '\u{4E00}'..='\u{9FA5}'
        | '\u{AC00}'..='\u{D7A3}')
}

/// True of a token that lies across no cut and takes no white space at one.
fn leaves_cuts_alone(token: &AddedToken, is_normalised: bool) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(is_of_word);
    let takes_white = token.lstrip && is_word(token.content.chars().next())
        || token.rstrip && is_word(token.content.chars().next_back());
    // What a normalised one is looked for as has no white space either.
    let is_plain =
        !(token.normalized && is_normalised) || token.content.chars().all(|c| c.is_ascii_graphic());
    is_plain && !takes_white && !token.content.contains([' ', '\n'])
}

/// How a rule splits a text.
enum Rule {
    /// At the cuts for certain, and whatever stands elsewhere.
    Splits(Line),
    /// By what stands at one place only.
    Neutral,
    Unknown,
}

fn rule_of(rule: &PreTokenizerWrapper) -> Rule {
    match rule {
        PreTokenizerWrapper::BertPreTokenizer(_)
        | PreTokenizerWrapper::Whitespace(_)
        | PreTokenizerWrapper::WhitespaceSplit(_) => Rule::Splits(Line::BeforeAny),
        PreTokenizerWrapper::ByteLevel(level) if level.use_regex => {
            // A piece that begins with a blank gets none.
            Rule::Splits(if level.add_prefix_space { Line::No } else { Line::BeforeAny })
        }
        PreTokenizerWrapper::Metaspace(blanks) if blanks.get_split() => Rule::Splits(Line::No),
        PreTokenizerWrapper::Split(split) => rule_of_split(split),
        PreTokenizerWrapper::Punctuation(_) | PreTokenizerWrapper::Digits(_) => Rule::Neutral,
        PreTokenizerWrapper::Sequence(rules) => rule_of_all(rules.as_ref()),
        _ => Rule::Unknown,
    }
}

fn rule_of_all(rules: &[PreTokenizerWrapper]) -> Rule {
    for (at, rule) in rules.iter().enumerate() {
        match rule_of(rule) {
            Rule::Splits(line) => {
                // What comes later sees words alone, but for what asks whether one begins the text.
                let is_line_seen = rules.iter().skip(at + 1).any(|rule| match rule {
                    PreTokenizerWrapper::ByteLevel(level) => level.use_regex,
                    PreTokenizerWrapper::Punctuation(_)
                    | PreTokenizerWrapper::Digits(_)
                    | PreTokenizerWrapper::Split(_) => false,
                    _ => true,
                });
                return Rule::Splits(if is_line_seen { Line::No } else { line });
            }
            Rule::Neutral => {}
            Rule::Unknown => return Rule::Unknown,
        }
    }
    Rule::Unknown
}

fn rule_of_split(split: &Split) -> Rule {
    use SplitDelimiterBehavior::{Isolated, MergedWithNext, Removed};
    match (&split.pattern, split.behavior, split.invert) {
        (SplitPattern::String(blank), Isolated | Removed | MergedWithNext, false) if blank == " " => {
            Rule::Splits(Line::No)
        }
        (SplitPattern::Regex(pattern), Isolated, _) | (SplitPattern::Regex(pattern), Removed, true) => {
            match Splits::parts_words(pattern) {
                Some(true) => Rule::Splits(Line::BeforeWord),
                Some(false) => Rule::Neutral,
                None => Rule::Unknown,
            }
        }
        _ => Rule::Unknown,
    }
}

/// What a normaliser sees of a text.
#[derive(PartialEq, Eq)]
enum Normaliser {
    /// Characters with their marks.
    Local,
    /// The text's end as well, whose white space it takes off.
    StripsEnd,
    Other,
}

fn normaliser_of(rule: &NormalizerWrapper) -> Normaliser {
    match rule {
        NormalizerWrapper::BertNormalizer(_)
        | NormalizerWrapper::StripAccents(_)
        | NormalizerWrapper::NFC(_)
        | NormalizerWrapper::NFD(_)
        | NormalizerWrapper::NFKC(_)
        | NormalizerWrapper::NFKD(_)
        | NormalizerWrapper::Nmt(_)
        | NormalizerWrapper::Precompiled(_)
        | NormalizerWrapper::Lowercase(_) => Normaliser::Local,
        NormalizerWrapper::StripNormalizer(strip) if !strip.strip_left => Normaliser::StripsEnd,
        NormalizerWrapper::Replace(replace) => {
            let pattern = in_json(replace)["pattern"].clone();
            let is_local = match pattern["String"].as_str() {
                Some(text) => !text.is_empty() && !text.contains(char::is_whitespace),
                // Several blanks become one, and a cut lies at one.
                None => pattern["Regex"] == " {2,}",
            };
            if is_local { Normaliser::Local } else { Normaliser::Other }
        }
        NormalizerWrapper::Sequence(rules) => {
            rules.as_ref().iter().map(normaliser_of).fold(Normaliser::Local, |all, one| match (all, one) {
                (Normaliser::Other, _) | (_, Normaliser::Other) => Normaliser::Other,
                (Normaliser::Local, Normaliser::Local) => Normaliser::Local,
                _ => Normaliser::StripsEnd,
            })
        }
        _ => Normaliser::Other,
    }
}

/// What becomes of a blank where a text is one word, in which each word of it begins with `▁` and no token goes on behind
/// it: then no merge of one word looks at another.
fn between_tokens(tokenizer: &Tokenizer) -> Option<Blank> {
    let ModelWrapper::BPE(model) = tokenizer.get_model() else { return None };
    let normalizer = tokenizer.get_normalizer().map_or(Value::Null, in_json);
    let writes_blanks = |rule: &Value| {
        rule["type"] == "Replace" && rule["pattern"]["String"] == " " && rule["content"] == BLANK
    };
    let blank = match (&normalizer, tokenizer.get_pre_tokenizer()) {
        (Value::Null, Some(PreTokenizerWrapper::Metaspace(blanks))) => {
            let is_written = !blanks.get_split() && BLANK.starts_with(blanks.get_replacement());
            is_written.then_some(Blank::Kept)
        }
        (rule, None) if writes_blanks(rule) => Some(Blank::Kept),
        // Gemma's, which finds no blank any more.
        (rule, Some(PreTokenizerWrapper::Split(split))) if writes_blanks(rule) => {
            matches!(&split.pattern, SplitPattern::String(blank) if blank == " " && !split.invert)
                .then_some(Blank::Kept)
        }
        (rule, None) => match rule["normalizers"].as_array().map(Vec::as_slice) {
            Some([only]) if writes_blanks(only) => Some(Blank::Kept),
            // Beside a token that is found before there are words, the blank would be one more.
            Some([first, second]) if first["prepend"] == BLANK && writes_blanks(second) => {
                let begins_or_ends_a_word = |token: &AddedToken| {
                    let mut characters = token.content.chars();
                    characters.next().is_some_and(is_of_word)
                        || characters.next_back().is_some_and(is_of_word)
                };
                let added = tokenizer.get_added_tokens_decoder();
                (!added.values().any(begins_or_ends_a_word)).then_some(Blank::Dropped)
            }
            _ => None,
        },
        _ => None,
    };
    blank.filter(|_| ends_tokens_at_words(model))
}

fn ends_tokens_at_words(model: &BPE) -> bool {
    let is_plain = model.dropout.is_none()
        && model.continuing_subword_prefix.is_none()
        && model.end_of_word_suffix.is_none()
        && !model.ignore_merges;
    let vocabulary = model.get_vocab();
    is_plain
        && vocabulary.contains_key(BLANK)
        && vocabulary.keys().all(|token| !token.trim_start_matches(BLANK).contains(BLANK))
}

fn in_json(rule: &impl serde::Serialize) -> Value {
    serde_json::to_value(rule).unwrap_or_default()
}

#[cfg(test)]
mod tests;
