//! Tokens that are not bytes to text, by the decoder of the tokenizer's file.
//!
//! Two of the library's decoders are done here: its `Strip` counts from the end of a token beyond its beginning, and its
//! `BPEDecoder` takes one off the number of tokens where there are none.

use super::library::{self, Fault};
use tokenizers::decoders::strip::Strip;
use tokenizers::{Decoder, DecoderWrapper, Model, Tokenizer};

/// The text of ids, each of which is a token's.
pub(super) fn decode(tokenizer: &Tokenizer, ids: &[u32], skips_special: bool) -> Result<String, Fault> {
    let added = tokenizer.get_added_vocabulary();
    library::call(|| {
        let tokens: Vec<String> = ids
            .iter()
            .filter_map(|id| added.simple_id_to_token(*id).or_else(|| tokenizer.get_model().id_to_token(*id)))
            .filter(|token| !(skips_special && added.is_special_token(token)))
            .collect();
        match tokenizer.get_decoder() {
            Some(decoder) => Ok(chain(decoder, tokens)?.concat()),
            None => Ok(tokens.join(" ")),
        }
    })
}

fn chain(decoder: &DecoderWrapper, tokens: Vec<String>) -> tokenizers::Result<Vec<String>> {
    match decoder {
        DecoderWrapper::Sequence(all) => {
            all.get_decoders().iter().try_fold(tokens, |tokens, decoder| chain(decoder, tokens))
        }
        DecoderWrapper::Strip(strip) => {
            Ok(tokens.iter().map(|token| stripped(token, strip).to_owned()).collect())
        }
        _ if tokens.is_empty() => Ok(tokens),
        decoder => decoder.decode_chain(tokens),
    }
}

/// A token without so many of a character at its beginning and its end.
fn stripped<'a>(token: &'a str, strip: &Strip) -> &'a str {
    let mut rest = token;
    for _ in 0..strip.start {
        let Some(shorter) = rest.strip_prefix(strip.content) else { break };
        rest = shorter;
    }
    for _ in 0..strip.stop {
        let Some(shorter) = rest.strip_suffix(strip.content) else { break };
        rest = shorter;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{SpecialTokens, Tokenizer};

    fn decoded(decoder: &str, ids: &[u32]) -> String {
        let json = format!(
            r#"{{"model": {{"type": "WordLevel", "vocab": {{"--a-": 0, "--": 1, "b-": 2}}, "unk_token": "b-"}},
                 "decoder": {decoder}}}"#
        );
        let tokenizer = Tokenizer::from_json("tokenizer.json", &json).unwrap();
        let whole = tokenizer.decode(ids, SpecialTokens::Keep).unwrap();
        let mut stream = tokenizer.stream(SpecialTokens::Keep);
        let mut parts: String = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
        parts.push_str(&stream.finish().unwrap());
        assert_eq!(parts, whole);
        whole
    }

    /// What the library gives where it does not count too far, and what it means where it does.
    #[test]
    fn characters_are_stripped_off_as_far_as_there_are_some() {
        for (start, stop, right) in [
            (0, 0, "--a---b-"),
            (1, 0, "-a--b-"),
            (2, 1, "ab"),
            (1, 1, "-ab"),
            (1000, 0, "a-b-"),
            (usize::MAX, usize::MAX, "ab"),
        ] {
            let strip = format!(r#"{{"type": "Strip", "content": "-", "start": {start}, "stop": {stop}}}"#);
            assert_eq!(decoded(&strip, &[0, 1, 2]), right, "{start} {stop}");
            assert_eq!(
                decoded(&format!(r#"{{"type": "Sequence", "decoders": [{strip}]}}"#), &[0, 1, 2]),
                right
            );
            assert_eq!(stripped("", &Strip::new('-', start, stop)), "");
        }
    }

    #[test]
    fn no_ids_are_no_text() {
        for decoder in [r#"{"type": "BPEDecoder", "suffix": "-"}"#, r#"{"type": "Fuse"}"#, "null"] {
            assert_eq!(decoded(decoder, &[]), "");
        }
    }
}
