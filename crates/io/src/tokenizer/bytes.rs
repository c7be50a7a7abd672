//! The bytes behind the tokens of a byte-level vocabulary.

use super::SpecialTokens;
use std::collections::HashMap;

/// The bytes of every token, by id.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    /// `None` where no token has the id.
    tokens: Vec<Option<Token>>,
}

#[derive(Clone, Debug)]
struct Token {
    bytes: Box<[u8]>,
    special: bool,
}

impl Bytes {
    pub fn new(
        tokenizer: &tokenizers::Tokenizer,
        vocabulary: &HashMap<String, u32>,
        vocab_size: usize,
    ) -> Bytes {
        let byte_of = byte_of_character();
        let added = tokenizer.get_added_tokens_decoder();
        let mut tokens = vec![None; vocab_size];
        for (name, id) in vocabulary {
            let special = added.get(id).is_some_and(|token| token.special);
            let Some(place) = tokens.get_mut(*id as usize) else { continue };
            *place = Some(Token { bytes: bytes_of(name, &byte_of), special });
        }
        Bytes { tokens }
    }

    /// The bytes of a token: none for a special token that is skipped, `None` for an id without a token.
    pub fn get(&self, id: u32, special_tokens: SpecialTokens) -> Option<&[u8]> {
        let token = self.tokens.get(id as usize)?.as_ref()?;
        match special_tokens {
            SpecialTokens::Skip if token.special => Some(&[]),
            _ => Some(&token.bytes),
        }
    }
}

/// A name whose every character stands for a byte is those bytes; another (an added token) is its own UTF-8.
fn bytes_of(name: &str, byte_of: &HashMap<char, u8>) -> Box<[u8]> {
    let bytes: Option<Box<[u8]>> = name.chars().map(|c| byte_of.get(&c).copied()).collect();
    bytes.unwrap_or_else(|| name.as_bytes().into())
}

/// Which byte a character of a byte-level vocabulary stands for: printable bytes for themselves, the others, in their
/// order, for the characters from U+0100 on (`bytes_to_unicode` of GPT-2's `encoder.py`).
fn byte_of_character() -> HashMap<char, u8> {
    let mut next = 0x100;
    (0..=255u8)
        .filter_map(|byte| {
            let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
            let code = if printable { u32::from(byte) } else { next };
            next += u32::from(!printable);
            char::from_u32(code).map(|c| (c, byte))
        })
        .collect()
}
