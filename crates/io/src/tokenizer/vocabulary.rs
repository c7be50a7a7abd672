//! The ids of a `tokenizer.json`, held against each other: the library takes the last of two tokens with one id, so that
//! a text that is decoded is another than the one that was encoded.

use serde_json::Value;
use std::collections::HashMap;

/// What two tokens have the same id, if any.
pub(super) fn twice(tokenizer: &Value) -> Option<String> {
    let vocabulary = tokenizer["model"]["vocab"].as_object();
    let of_model = vocabulary.into_iter().flatten().map(|(token, id)| (token.as_str(), id));
    let added = tokenizer["added_tokens"].as_array();
    let added =
        added.into_iter().flatten().filter_map(|token| Some((token["content"].as_str()?, &token["id"])));
    let mut tokens: HashMap<u64, &str> = HashMap::new();
    for (token, id) in of_model.chain(added) {
        // What is no id is the library's to refuse.
        let Some(id) = id.as_u64() else { continue };
        // A token that stands in both lists is one token.
        if let Some(first) = tokens.insert(id, token).filter(|first| *first != token) {
            let (first, token) = if first < token { (first, token) } else { (token, first) };
            return Some(format!("the tokens `{first}` and `{token}` both have the id {id}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::Tokenizer;

    fn refusal(vocab: &str, added: &str) -> Option<String> {
        let json = format!(
            r#"{{"model": {{"type": "WordLevel", "vocab": {vocab}, "unk_token": "a"}}, "added_tokens": {added}}}"#
        );
        Tokenizer::from_json("words", &json).err().map(|error| error.to_string())
    }

    fn added(content: &str, id: u32) -> String {
        format!(
            r#"{{"id": {id}, "content": "{content}", "single_word": false, "lstrip": false, "rstrip": false,
                 "normalized": false, "special": true}}"#
        )
    }

    #[test]
    fn two_tokens_with_one_id_are_refused() {
        let right = |first, second, id| {
            Some(format!(
                "words: the tokens `{first}` and `{second}` both have the id {id}; \
                 a tokenizer.json, as `lanthorn train` writes it, would be right"
            ))
        };
        assert_eq!(refusal(r#"{"a": 0, "b": 1, "c": 1}"#, "[]"), right("b", "c", 1));
        assert_eq!(refusal(r#"{"a": 0, "b": 1}"#, &format!("[{}]", added("<s>", 1))), right("<s>", "b", 1));
        let both = format!("[{}, {}]", added("<s>", 2), added("</s>", 2));
        assert_eq!(refusal(r#"{"a": 0, "b": 1}"#, &both), right("</s>", "<s>", 2));
        // One token in both lists.
        assert_eq!(refusal(r#"{"a": 0, "b": 1}"#, &format!("[{}]", added("b", 1))), None);
    }
}
