//! How texts become ids of one shape: what is put around a text, where it is cut, and to what length it is filled up.

use crate::error::shorten;
use crate::{Error, Result};
use tokenizers::{PaddingDirection, PaddingParams, PaddingStrategy, TruncationDirection, TruncationParams};

/// More tokens than any model reads at once; a file that asks for more is not obeyed.
const MOST_TOKENS: usize = 1 << 24;

/// Whether the tokens that the tokenizer's template puts around a text are put there, such as `[CLS]` and `[SEP]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Template {
    /// They are.
    #[default]
    Apply,
    /// The text stands alone.
    Leave,
}

/// What a special token is that stands in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InText {
    /// The token.
    #[default]
    Special,
    /// Ordinary text, so that whoever wrote it cannot end a turn or a document.
    Ordinary,
}

/// The end of a list of tokens at which something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Before the first token.
    Left,
    /// After the last token.
    #[default]
    Right,
}

/// Which of two texts is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TruncationStrategy {
    /// The longer one, and both where that does not do.
    #[default]
    LongestFirst,
    /// The first; it is an error where that does not do.
    OnlyFirst,
    /// The second; it is an error where that does not do, or there is none.
    OnlySecond,
}

/// Where a text is cut that has too many tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// The most tokens that are left, those of the template included.
    pub max_length: usize,
    /// Which of two texts is cut.
    pub strategy: TruncationStrategy,
    /// The end that is cut off.
    pub side: Side,
    /// How many tokens what was cut off begins with that it shares with what stands before it.
    pub stride: usize,
}

impl Truncation {
    /// At most `max_length` tokens, the rest cut off at the right, no token twice.
    pub fn new(max_length: usize) -> Truncation {
        Truncation { max_length, strategy: TruncationStrategy::default(), side: Side::Right, stride: 0 }
    }
}

/// To what length texts are filled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadTo {
    /// The length of the batch's longest.
    Longest,
    /// So many tokens. What is longer stays so; [`Truncation`] is what cuts.
    Length(usize),
}

/// How a text is filled up that has too few tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Padding {
    /// To what length.
    pub to: PadTo,
    /// Where given, that length is rounded up to a multiple of this.
    pub multiple_of: Option<usize>,
    /// The end that is filled.
    pub side: Side,
    /// The token that it is filled with.
    pub id: u32,
    /// Its type, as in [`Encoding::type_ids`](super::Encoding::type_ids).
    pub type_id: u32,
}

impl Padding {
    /// To the batch's longest, at the right, with the token `id`.
    pub fn new(id: u32) -> Padding {
        Padding { to: PadTo::Longest, multiple_of: None, side: Side::Right, id, type_id: 0 }
    }
}

/// How an [`Encoder`](super::Encoder) makes ids of texts. By default the template is applied and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What is put around a text. A `tokenizer.json` does not say whether it is.
    pub template: Template,
    /// What special tokens in a text are. A `tokenizer.json` does not say.
    pub in_text: InText,
    /// Where a text is cut, if at all.
    pub truncation: Option<Truncation>,
    /// To what a text is filled up, if at all.
    pub padding: Option<Padding>,
}

impl Policy {
    /// What the file asks for.
    pub(super) fn of(tokenizer: &tokenizers::Tokenizer) -> Policy {
        Policy {
            truncation: tokenizer.get_truncation().map(Truncation::of),
            padding: tokenizer.get_padding().map(Padding::of),
            ..Policy::default()
        }
    }

    /// Refuses what cannot be done. `around` are how many tokens the template puts around one text.
    pub(super) fn check(&self, tokenizer: &tokenizers::Tokenizer, around: usize) -> Result<()> {
        let refuse = |found: String, expected: String| Err(Error::format("policy", found, expected));
        if let Some(truncation) = &self.truncation {
            let kept = truncation.max_length.saturating_sub(around);
            if kept == 0 {
                return refuse(
                    format!("texts are to be cut to {} tokens", truncation.max_length),
                    format!("at least {} are needed: {around} around the text and one of it", around + 1),
                );
            }
            if truncation.stride >= kept {
                return refuse(
                    format!("{} tokens of {kept} are to be repeated", truncation.stride),
                    format!("a stride below {kept} would be right"),
                );
            }
        }
        if let Some(padding) = &self.padding {
            if tokenizer.id_to_token(padding.id).is_none() {
                return refuse(
                    format!("texts are to be filled up with token {}", padding.id),
                    "an id of the vocabulary would be right".to_owned(),
                );
            }
            let length = match padding.to {
                PadTo::Longest => 0,
                PadTo::Length(length) => length,
            };
            let multiple = padding.multiple_of.unwrap_or(1);
            if length > MOST_TOKENS || multiple > MOST_TOKENS || multiple == 0 {
                return refuse(
                    format!("texts are to be filled up to {length} tokens and a multiple of {multiple}"),
                    format!("lengths from 1 to {MOST_TOKENS} would be right"),
                );
            }
        }
        Ok(())
    }
}

impl Truncation {
    fn of(params: &TruncationParams) -> Truncation {
        Truncation {
            max_length: params.max_length,
            strategy: match params.strategy {
                tokenizers::TruncationStrategy::LongestFirst => TruncationStrategy::LongestFirst,
                tokenizers::TruncationStrategy::OnlyFirst => TruncationStrategy::OnlyFirst,
                tokenizers::TruncationStrategy::OnlySecond => TruncationStrategy::OnlySecond,
            },
            side: match params.direction {
                TruncationDirection::Left => Side::Left,
                TruncationDirection::Right => Side::Right,
            },
            stride: params.stride,
        }
    }

    /// The library's settings, with `max_length` tokens.
    pub(super) fn params(&self, max_length: usize) -> TruncationParams {
        TruncationParams {
            direction: match self.side {
                Side::Left => TruncationDirection::Left,
                Side::Right => TruncationDirection::Right,
            },
            max_length,
            strategy: match self.strategy {
                TruncationStrategy::LongestFirst => tokenizers::TruncationStrategy::LongestFirst,
                TruncationStrategy::OnlyFirst => tokenizers::TruncationStrategy::OnlyFirst,
                TruncationStrategy::OnlySecond => tokenizers::TruncationStrategy::OnlySecond,
            },
            stride: self.stride,
        }
    }

    /// How many tokens are left of texts of `first` and `second` tokens, where `most` are wanted in all.
    ///
    /// # Errors
    ///
    /// `format`: the strategy does not allow it, or what is left of a text would be shorter than the stride asks for.
    pub(super) fn lengths(
        &self,
        first: usize,
        second: Option<usize>,
        most: usize,
    ) -> Result<(usize, Option<usize>)> {
        let total = first + second.unwrap_or(0);
        let Some(surplus) = total.checked_sub(most).filter(|surplus| *surplus > 0) else {
            return Ok((first, second));
        };
        let lengths = match (self.strategy, second) {
            (TruncationStrategy::LongestFirst, Some(second)) => {
                // The shorter one stays as long as it is no more than half.
                let half = most / 2;
                let kept = match () {
                    _ if first <= half => (first, most - first),
                    _ if second <= half => (most - second, second),
                    // Equal shares; an odd token goes to the longer one, to the second if both are equal.
                    _ if first > second => (most - half, half),
                    _ => (half, most - half),
                };
                Some((kept.0, Some(kept.1)))
            }
            (TruncationStrategy::LongestFirst | TruncationStrategy::OnlyFirst, _) => {
                first.checked_sub(surplus).map(|kept| (kept, second))
            }
            (TruncationStrategy::OnlySecond, Some(second)) => {
                second.checked_sub(surplus).map(|kept| (first, Some(kept)))
            }
            (TruncationStrategy::OnlySecond, None) => None,
        };
        let cut = |before: usize, after: usize| before == after || after > self.stride;
        match lengths {
            Some((one, other)) if cut(first, one) && cut(second.unwrap_or(0), other.unwrap_or(0)) => {
                Ok((one, other))
            }
            _ => Err(Error::format(
                "text",
                match second {
                    None => format!("it has {first} tokens, of which {most} are to be left"),
                    Some(second) => {
                        format!("the two have {first} and {second} tokens, of which {most} are to be left")
                    }
                },
                format!("that cannot be done by {:?} and a stride of {}", self.strategy, self.stride),
            )),
        }
    }
}

impl Padding {
    fn of(params: &PaddingParams) -> Padding {
        Padding {
            to: match params.strategy {
                PaddingStrategy::BatchLongest => PadTo::Longest,
                PaddingStrategy::Fixed(length) => PadTo::Length(length),
            },
            multiple_of: params.pad_to_multiple_of.filter(|multiple| *multiple > 0),
            side: match params.direction {
                PaddingDirection::Left => Side::Left,
                PaddingDirection::Right => Side::Right,
            },
            id: params.pad_id,
            type_id: params.pad_type_id,
        }
    }

    /// The library's settings; the token's name is the vocabulary's.
    pub(super) fn params(&self, tokenizer: &tokenizers::Tokenizer) -> PaddingParams {
        PaddingParams {
            strategy: match self.to {
                PadTo::Longest => PaddingStrategy::BatchLongest,
                PadTo::Length(length) => PaddingStrategy::Fixed(length),
            },
            direction: match self.side {
                Side::Left => PaddingDirection::Left,
                Side::Right => PaddingDirection::Right,
            },
            pad_to_multiple_of: self.multiple_of,
            pad_id: self.id,
            pad_type_id: self.type_id,
            pad_token: tokenizer.id_to_token(self.id).unwrap_or_default(),
        }
    }
}

/// The policy in a tokenizer that is to be written.
pub(super) fn write(tokenizer: &mut tokenizers::Tokenizer, policy: &Policy) -> Result<()> {
    let padding = policy.padding.as_ref().map(|padding| padding.params(tokenizer));
    tokenizer.with_padding(padding);
    let truncation = policy.truncation.as_ref().map(|truncation| truncation.params(truncation.max_length));
    tokenizer.with_truncation(truncation).map_err(|error| {
        Error::format("policy", shorten(&error.to_string()), "a shorter stride would be right")
    })?;
    Ok(())
}
