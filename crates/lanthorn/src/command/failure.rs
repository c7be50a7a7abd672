//! What ends a command early.

use miette::Diagnostic;

/// A failure with, where there is one, the way out.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum Failure {
    /// Reading or writing files.
    #[error("{0}")]
    Files(lanthorn_io::Error),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] lanthorn_ir::Error),
    /// What the user asked for does not fit.
    #[error("{message}")]
    Request {
        message: String,
        #[help]
        help: Option<String>,
    },
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(std::io::Error),
}

// Without `#[from]`, by which what the sentence tells would be its cause as well, and be told twice.

impl From<lanthorn_io::Error> for Failure {
    fn from(error: lanthorn_io::Error) -> Failure {
        Failure::Files(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    /// What is printed as JSON can be written as JSON, so it is the output that failed.
    fn from(error: serde_json::Error) -> Failure {
        Failure::Output(error.into())
    }
}

impl Failure {
    /// What was found and what would be right.
    pub fn request(message: impl Into<String>) -> Failure {
        Failure::Request { message: message.into(), help: None }
    }

    /// The same with a hint at the way out.
    pub fn request_with(message: impl Into<String>, help: impl Into<String>) -> Failure {
        Failure::Request { message: message.into(), help: Some(help.into()) }
    }
}

/// The result of a command's part.
pub type Result<T> = std::result::Result<T, Failure>;

/// Writes one line to standard output.
pub fn say(line: impl std::fmt::Display) -> Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}
