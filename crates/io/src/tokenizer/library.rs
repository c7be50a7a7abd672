//! The one way into the `tokenizers` library, which panics where parts of a tokenizer contradict each other. What is known
//! of that is refused when a tokenizer is [read](super::check); a panic that is left becomes an error here.

use crate::Error;
use crate::error::shorten;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why the library has given nothing.
#[derive(Debug)]
pub(super) enum Fault {
    /// It has said so.
    Refused(tokenizers::Error),
    /// It has panicked, with this message.
    Panicked(String),
}

impl Fault {
    /// The error of what cannot be done with `subject`. An error of this crate that has gone through the library stays what
    /// it is.
    pub fn of(self, subject: &str, expected: &str) -> Error {
        match self {
            Fault::Refused(error) => match error.downcast::<Error>() {
                Ok(own) => *own,
                Err(error) => Error::format(subject, shorten(&error.to_string()), expected),
            },
            Fault::Panicked(message) => Error::format(
                subject,
                format!("the tokenizer contradicts itself: {}", shorten(&message)),
                "a tokenizer whose rules fit together would be right",
            ),
        }
    }
}

/// Calls the library. What it has held while it panicked is given up.
pub(super) fn call<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(Fault::Refused),
        Err(panic) => Err(Fault::Panicked(
            (panic.downcast_ref::<String>().map(String::as_str))
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no reason is given")
                .to_owned(),
        )),
    }
}
