//! JSON that somebody else wrote: values of a type, and what is wrong with them in words.
//!
//! The library tells errors in terms of Rust (`expected usize`, `untagged enum`); here they are told in those of JSON.

use crate::error::shorten;
use crate::{Error, Result};
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

/// The most bytes that are read of a file of settings, such as `config.json`. Those of the largest models, which list
/// their tensors, have a tenth of it.
pub const MOST_BYTES: u64 = 64 << 20;

/// The value that a text is; `subject` names the text in errors, and `expected` says what would be right.
///
/// # Errors
///
/// `format`: it is not JSON, or says something else.
///
/// ```
/// use lanthorn_io::json;
/// let error = json::read::<Vec<u32>>("sizes.json", "[1, \"2\"]", "sizes would be right").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "sizes.json: a string \"2\" stands where a whole number of at least 0 is expected, at line 1 column 7; \
///      sizes would be right"
/// );
/// ```
pub fn read<T: DeserializeOwned>(subject: &str, text: &str, expected: &str) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    T::deserialize(Document(&mut reader))
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| Error::format(subject, shorten(&plain(&error)), expected))
}

/// The document of a deserialiser of JSON, where an object is asked for and not a list of its values, which the library
/// takes for one as well: in a list nobody can tell which value was meant to be which.
pub struct Document<D>(pub D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Document<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> std::result::Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> std::result::Result<V::Value, D::Error> {
        self.0.deserialize_option(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> std::result::Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    // JSON says itself what it is.
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// What is wrong, in words, without a full stop.
pub fn plain(error: &serde_json::Error) -> String {
    in_words(&error.to_string())
}

/// A sentence of `serde` in words of JSON. One that speaks of no type stays what it is.
pub fn in_words(sentence: &str) -> String {
    let (sentence, place) = match sentence.rfind(" at line ") {
        Some(at) => (&sentence[..at], sentence[at..].replacen(" at", ", at", 1)),
        None => (sentence, String::new()),
    };
    let kinds = ["invalid type: ", "invalid value: "];
    let found = kinds.iter().find_map(|kind| sentence.strip_prefix(kind));
    // What is found may be any text; what is expected is the library's, without a comma.
    if let Some((found, expected)) = found.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!(
            "{} stands where {} is expected{place}",
            found_in_words(found),
            type_in_words(expected)
        );
    }
    if sentence.starts_with("data did not match any variant of untagged enum") {
        return format!("a part has none of the forms that are known{place}");
    }
    if let Some(rest) = sentence.strip_prefix("unknown variant ") {
        return format!("unknown value {rest}{place}");
    }
    format!("{sentence}{place}")
}

fn found_in_words(found: &str) -> String {
    let (kind, rest) = found.split_once(' ').unwrap_or((found, ""));
    match kind {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit" => "null".to_owned(),
        "boolean" => rest.to_owned(),
        "integer" => format!("the number {}", rest.trim_matches('`')),
        "floating" => format!("the number {}", rest.trim_start_matches("point ").trim_matches('`')),
        "string" => format!("a string {rest}"),
        _ => found.to_owned(),
    }
}

fn type_in_words(expected: &str) -> String {
    let word = match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number of at least 0",
        "i64" | "i32" | "i16" | "i8" | "isize" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a map" => "an object",
        "a sequence" => "a list",
        "option" => "a value or null",
        _ if expected.starts_with("struct ") || expected.starts_with("tuple struct ") => "an object",
        _ if expected.starts_with("a tuple") => "a list",
        _ => return expected.to_owned(),
    };
    word.to_owned()
}

/// JSON in which half a character, as JavaScript's texts may have one, is U+FFFD: it can be written by an escape alone, which
/// no reader of Unicode takes.
///
/// ```
/// use lanthorn_io::json::with_whole_characters;
/// let json = r#"["a\ud800", "\ud83c\udfee", "\\ud800"]"#.to_owned();
/// let read: Vec<String> = serde_json::from_str(&with_whole_characters(json)).unwrap();
/// assert_eq!(read, ["a\u{FFFD}", "\u{1F3EE}", r"\ud800"]);
/// ```
pub fn with_whole_characters(json: String) -> String {
    if !json.contains(r"\u") {
        return json;
    }
    let unit = |at: usize| -> Option<u16> {
        let digits = json.get(at..at + 6)?.strip_prefix(r"\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut whole = String::with_capacity(json.len());
    let mut from = 0;
    while let Some(at) = json.get(from..).and_then(|rest| rest.find('\\')).map(|found| from + found) {
        whole.push_str(json.get(from..at).unwrap_or_default());
        let length = match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                whole.push(char::REPLACEMENT_CHARACTER);
                from = at + 6;
                continue;
            }
            Some(_) => 6,
            // A backslash and what it stands before.
            None => 1 + json.get(at + 1..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8),
        };
        whole.push_str(json.get(at..at + length).unwrap_or_default());
        from = at + length;
    }
    whole.push_str(json.get(from..).unwrap_or_default());
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Sizes {
        width: usize,
        scale: Option<f64>,
        tied: Option<bool>,
        names: Option<Vec<String>>,
        kind: Option<Kind>,
        ends: Option<Ends>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Small,
        Large,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[allow(dead_code)]
    enum Ends {
        One(u32),
        Many(Vec<u32>),
    }

    #[test]
    fn halves_of_characters_become_whole_ones_and_all_else_stays() {
        for (json, right) in [
            (r"", r""),
            (r#"{"a\n": "b"}"#, r#"{"a\n": "b"}"#),
            (r#""\udc00\ud800""#, "\"\u{FFFD}\u{FFFD}\""),
            (r#""\ud800\ud83c\udfee""#, "\"\u{FFFD}\\ud83c\\udfee\""),
            (r#""\ud800\n\u00e9\\""#, "\"\u{FFFD}\\n\\u00e9\\\\\""),
            (r#""\\\ud800""#, "\"\\\\\u{FFFD}\""),
            // What is no JSON stays none.
            (r"\u", r"\u"),
            (r"\ud8", r"\ud8"),
            ("\\u\u{e9}\u{e9}\\", "\\u\u{e9}\u{e9}\\"),
        ] {
            assert_eq!(with_whole_characters(json.to_owned()), right, "{json}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_words_of_json() {
        for (text, right) in [
            (
                r#"{"width": "9, expected u8"}"#,
                "a string \"9, expected u8\" stands where a whole number of at least 0",
            ),
            (
                r#"{"width": -1}"#,
                "the number -1 stands where a whole number of at least 0 is expected, at line 1",
            ),
            (r#"{"width": 1.5}"#, "the number 1.5 stands where a whole number of at least 0"),
            (r#"{"width": null}"#, "null stands where a whole number"),
            (r#"{"width": 1, "scale": []}"#, "a list stands where a number is expected"),
            (r#"{"width": 1, "tied": {}}"#, "an object stands where true or false is expected"),
            (r#"{"width": 1, "names": true}"#, "`true` stands where a list is expected"),
            (r#"{"width": 1, "names": [3]}"#, "the number 3 stands where a string is expected"),
            (
                r#"{"width": 1, "kind": "huge"}"#,
                "unknown value `huge`, expected `small` or `large`, at line 1",
            ),
            (r#"{"width": 1, "ends": "x"}"#, "a part has none of the forms that are known, at line 1"),
            (r#""text""#, "a string \"text\" stands where an object is expected"),
            ("[1]", "a list stands where an object is expected"),
            ("{} {}", "missing field `width`, at line 1 column 2"),
            ("{}", "missing field `width`, at line 1 column 2"),
            ("{", "EOF while parsing an object, at line 1 column 1"),
        ] {
            let error = read::<Sizes>("sizes.json", text, "sizes would be right").unwrap_err().to_string();
            assert!(error.starts_with(&format!("sizes.json: {right}")), "{text}: {error}");
            for word in ["usize", "u8 ", "struct", "enum", "Sizes", "f64"] {
                assert!(!error.contains(word), "{text}: {error}");
            }
        }
    }
}
