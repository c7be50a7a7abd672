//! Which tokens of a GGUF file have a role.

use super::splits::Splits;
use super::{CONTROL, MODEL, PRE, USER_DEFINED, Vocabulary};
use crate::Result;
use crate::gguf::Metadata;

const ADD_BEGIN: &str = "tokenizer.ggml.add_bos_token";
const ADD_END: &str = "tokenizer.ggml.add_eos_token";

/// Texts of tokens after which a reply is over, whatever the file calls its end: a model may end a turn with another
/// token than a text. (llama.cpp finds them by their texts too.)
const ENDS: [&str; 14] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "[EOT]",
    "</s>",
    "<｜end▁of▁sentence｜>",
];

/// The tokens of a file that have a role, and what is put around a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Begins a text.
    pub begin: Option<u32>,
    /// Ends a text.
    pub end: Option<u32>,
    /// Stands for what the vocabulary lacks.
    pub unknown: Option<u32>,
    /// Fills a batch up.
    pub padding: Option<u32>,
    /// Every token after which a reply is over, in ascending order: [`Roles::end`], the ends of a turn or a message
    /// that the file names, and those that are known by their text.
    pub ends: Vec<u32>,
    /// Whether the model expects [`Roles::begin`] before a text. A chat template mostly writes it itself; then it must
    /// not be put twice.
    pub add_begin: bool,
    /// Whether the model expects [`Roles::end`] after a text.
    pub add_end: bool,
}

impl Roles {
    /// The roles that a GGUF file gives to tokens, with the format's own where it says nothing.
    ///
    /// # Errors
    ///
    /// `format`: an id is not in the vocabulary, a token is to be put around a text and there is none, or as
    /// [`super::Tokenizer::from_gguf`].
    pub fn from_gguf(metadata: &Metadata) -> Result<Roles> {
        let vocabulary = Vocabulary::read(metadata)?;
        let model: &str = metadata.require(MODEL)?;
        let is_sentence_piece = model == "llama";
        let id_of = |name: &str| {
            let key = format!("tokenizer.ggml.{name}_token_id");
            match metadata.get::<u32>(&key)? {
                Some(id) if id as usize >= vocabulary.tokens.len() => Err(metadata.refuse(
                    &key,
                    &format!("is {id}"),
                    &format!("there are {} tokens", vocabulary.tokens.len()),
                )),
                id => Ok(id),
            }
        };
        // SentencePiece's own numbers, where a file does not give them.
        let or_usual = |id: Option<u32>, usual: u32| {
            id.or((is_sentence_piece && (usual as usize) < vocabulary.tokens.len()).then_some(usual))
        };
        let begin = or_usual(id_of("bos")?, 1);
        let end = or_usual(id_of("eos")?, 2);
        let unknown = or_usual(id_of("unknown")?, 0);

        let splits = metadata.get::<&str>(PRE)?.and_then(Splits::named);
        let begins = is_sentence_piece || splits.is_some_and(|splits| splits.adds_begin && begin.is_some());
        let add_begin = metadata.get(ADD_BEGIN)?.unwrap_or(begins);
        let add_end = metadata.get(ADD_END)?.unwrap_or(false);
        for (key, add, token) in [(ADD_BEGIN, add_begin, begin), (ADD_END, add_end, end)] {
            if add && token.is_none() {
                return Err(metadata.refuse(key, "is true", "there is no such token in the file"));
            }
        }

        let mut ends: Vec<u32> = [end, id_of("eot")?, id_of("eom")?].into_iter().flatten().collect();
        ends.extend(vocabulary.known_ends());
        ends.sort_unstable();
        ends.dedup();
        Ok(Roles { begin, end, unknown, padding: id_of("padding")?, ends, add_begin, add_end })
    }
}

impl Vocabulary<'_> {
    /// The ids of the tokens that are known as ends by their texts, where they are more than words.
    fn known_ends(&self) -> impl Iterator<Item = u32> {
        self.tokens.iter().enumerate().filter_map(|(id, token)| {
            let is_end = matches!(self.type_of(id), CONTROL | USER_DEFINED) && ENDS.contains(&token.as_str());
            is_end.then_some(id as u32)
        })
    }
}
