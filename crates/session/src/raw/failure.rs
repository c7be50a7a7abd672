//! What callers without exceptions get of an error: a number now, and the rest when they ask.

use lanthorn_ir::{Error, Result};

use super::error_number;

/// The error of the call that failed last.
#[derive(Clone, Debug, Default)]
pub struct Failure(Option<Error>);

impl Failure {
    /// A result as a number, negative for an error, which is kept.
    pub fn number(&mut self, result: Result<f64>) -> f64 {
        result.unwrap_or_else(|error| {
            let number = error_number(&error);
            self.keep(error);
            number
        })
    }

    /// Keeps an error in place of the one before.
    pub fn keep(&mut self, error: Error) {
        self.0 = Some(error);
    }

    /// The error that was kept last.
    pub fn error(&self) -> Option<&Error> {
        self.0.as_ref()
    }
}
