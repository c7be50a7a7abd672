//! What a file says about itself: typed values by key.

use super::{Array, Value};
use crate::error::shorten;
use crate::{Error, Result};
use indexmap::IndexMap;

/// The metadata of one file: values by key, in the file's order.
///
/// ```
/// use lanthorn_io::gguf::Metadata;
/// let mut metadata = Metadata::new("example");
/// metadata.insert("general.architecture", "llama");
/// metadata.insert("llama.block_count", 30u32);
///
/// assert_eq!(metadata.require::<&str>("general.architecture").unwrap(), "llama");
/// assert_eq!(metadata.get::<usize>("llama.block_count").unwrap(), Some(30));
/// assert_eq!(metadata.get::<f32>("llama.rope.freq_base").unwrap(), None);
/// assert_eq!(
///     metadata.get::<bool>("llama.block_count").unwrap_err().to_string(),
///     "example: the metadata `llama.block_count` is of type u32; true or false would be right"
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    subject: String,
    values: IndexMap<String, Value>,
}

impl Metadata {
    /// No values; `subject` names the file in errors.
    pub fn new(subject: impl Into<String>) -> Metadata {
        Metadata { subject: subject.into(), values: IndexMap::new() }
    }

    /// Sets a value, and gives the one that was there.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        self.values.insert(key.into(), value.into())
    }

    /// The name under which errors speak of the file.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Every value by its key, in the file's order.
    pub fn values(&self) -> &IndexMap<String, Value> {
        &self.values
    }

    /// The value of a key, `None` where the file does not have it.
    ///
    /// An integer is given whatever its width in the file, as long as it fits: writers do not agree on one.
    ///
    /// # Errors
    ///
    /// `format`: the value is of another type or does not fit.
    pub fn get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        match T::from_value(value) {
            Some(found) => Ok(Some(found)),
            None => {
                let found = match value.integer() {
                    Some(integer) if T::FROM_INTEGER => format!("is {integer}"),
                    _ => format!("is of type {}", value.kind()),
                };
                Err(self.refuse(key, &found, &format!("{} would be right", T::WANTED)))
            }
        }
    }

    /// The value of a key that must be there.
    ///
    /// # Errors
    ///
    /// `format`: there is none, or as [`Metadata::get`].
    pub fn require<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        match self.get(key)? {
            Some(found) => Ok(found),
            None => Err(self.refuse(key, "is missing", &format!("{} would be right", T::WANTED))),
        }
    }

    /// An error about the value of `key`.
    pub(crate) fn refuse(&self, key: &str, found: &str, expected: &str) -> Error {
        Error::format(&self.subject, format!("the metadata `{}` {found}", shorten(key)), expected)
    }
}

/// What [`Metadata::get`] can give.
pub trait FromValue<'a>: Sized {
    /// What would be right, for an error.
    const WANTED: &'static str;

    /// Whether it is made of integers, so that one that does not fit is told by its value and not by its type.
    const FROM_INTEGER: bool = false;

    /// `None` where the value is of another type or does not fit.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty, $wanted:literal;)*) => {$(
        impl FromValue<'_> for $type {
            const WANTED: &'static str = $wanted;
            const FROM_INTEGER: bool = true;

            fn from_value(value: &Value) -> Option<$type> {
                value.integer()?.try_into().ok()
            }
        }
    )*};
}

integers! {
    u32, "an unsigned integer of 32 bits";
    u64, "an unsigned integer of 64 bits";
    i64, "an integer of 64 bits";
    usize, "a size that fits this machine's address space";
}

impl FromValue<'_> for bool {
    const WANTED: &'static str = "true or false";

    fn from_value(value: &Value) -> Option<bool> {
        match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl FromValue<'_> for f32 {
    const WANTED: &'static str = "a number of type f32 or f64";

    fn from_value(value: &Value) -> Option<f32> {
        match value {
            Value::F32(value) => Some(*value),
            Value::F64(value) => Some(*value as f32),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const WANTED: &'static str = "a string";

    fn from_value(value: &'a Value) -> Option<&'a str> {
        match value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a Array {
    const WANTED: &'static str = "an array";

    fn from_value(value: &'a Value) -> Option<&'a Array> {
        match value {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a [String] {
    const WANTED: &'static str = "an array of strings";

    fn from_value(value: &'a Value) -> Option<&'a [String]> {
        match value {
            Value::Array(Array::String(texts)) => Some(texts),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a [f32] {
    const WANTED: &'static str = "an array of f32";

    fn from_value(value: &'a Value) -> Option<&'a [f32]> {
        match value {
            Value::Array(Array::F32(numbers)) => Some(numbers),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a [i32] {
    const WANTED: &'static str = "an array of i32";

    fn from_value(value: &'a Value) -> Option<&'a [i32]> {
        match value {
            Value::Array(Array::I32(numbers)) => Some(numbers),
            _ => None,
        }
    }
}
