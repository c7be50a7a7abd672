//! The template that a `tokenizer.json` puts around texts, held against itself: the library takes it as it is, and
//! panics when a text comes.

use serde_json::Value;

/// What is wrong with a post-processor, if anything: a special token that it does not describe, or a second text where
/// there is one.
pub(super) fn contradiction(processor: &Value) -> Option<String> {
    if let Some(all) = processor["processors"].as_array() {
        return all.iter().find_map(contradiction);
    }
    if processor["type"] != "TemplateProcessing" {
        return None;
    }
    let pieces = |template: &str| processor[template].as_array().map_or(&[][..], Vec::as_slice).iter();
    let described = processor["special_tokens"].as_object();
    let undescribed = |piece: &Value| {
        let name = piece["SpecialToken"]["id"].as_str()?;
        let is_described = described.is_some_and(|described| described.contains_key(name));
        (!is_described).then(|| format!("its template has a token `{name}` that it does not describe"))
    };
    pieces("single").chain(pieces("pair")).find_map(undescribed).or_else(|| {
        let is_second = |piece: &Value| piece["Sequence"]["id"] == "B";
        let wrong = pieces("single").any(is_second);
        wrong.then(|| "its template for one text has a second".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use crate::Tokenizer;

    #[test]
    fn a_template_that_contradicts_itself_is_refused() {
        let json = include_str!("../../fixtures/tokenizers/tokenizer.json");
        for (from, to, reason) in [
            (
                r#""SpecialToken":{"id":"[SEP]""#,
                r#""SpecialToken":{"id":"[END]""#,
                "a token `[END]` that it does not",
            ),
            (r#"{"[CLS]":{"#, r#"{"[BEG]":{"#, "a token `[CLS]` that it does not describe"),
            (r#""Sequence":{"id":"A""#, r#""Sequence":{"id":"B""#, "for one text has a second"),
        ] {
            assert!(json.contains(from), "{from}");
            for nested in [false, true] {
                let mut damaged = json.replacen(from, to, 1);
                if nested {
                    damaged = damaged
                        .replacen(
                            r#""post_processor":"#,
                            r#""post_processor":{"type":"Sequence","processors":["#,
                            1,
                        )
                        .replacen(r#","decoder""#, r#"]},"decoder""#, 1);
                }
                let message = Tokenizer::from_json("damaged", &damaged).unwrap_err().to_string();
                assert!(message.starts_with("damaged: ") && message.contains(reason), "{message}");
            }
        }
    }
}
