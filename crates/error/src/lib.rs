//! The one error taxonomy of the engine.
//!
//! Every failure that input can reach is an [`Error`]: what kind of fault it is, in which phase it was
//! found, and a sentence that names the op or file, what was found and what would be right. Front ends
//! map [`ErrorKind`] to their own exception types; nothing in the engine panics instead.

use std::fmt;

/// Who is at fault and in what way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Shapes, ranks or axes that do not fit the op.
    Shape,
    /// A dtype that the op or the device does not take.
    Dtype,
    /// An argument that is no tensor, such as an axis or a setting, of another type or range than the op takes.
    Argument,
    /// A device that is absent, or operands of several devices.
    Device,
    /// A handle that never was valid or has been released.
    InvalidHandle,
    /// A handle that belongs to another engine instance.
    ForeignHandle,
    /// Use after close.
    Closed,
    /// A capability that the device or graph form lacks.
    Unsupported,
    /// A fault while compiling.
    Compile,
    /// A fault while running.
    Execute,
    /// A fault while moving data between host and device.
    Transfer,
    /// The work was cancelled by its caller.
    Cancelled,
    /// The operating system refused a file operation.
    Io,
    /// A file or text that is not of the expected format.
    Format,
    /// The memory limit or the system's memory is exhausted.
    OutOfMemory,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            ErrorKind::Shape => "shape",
            ErrorKind::Dtype => "dtype",
            ErrorKind::Argument => "argument",
            ErrorKind::Device => "device",
            ErrorKind::InvalidHandle => "invalid_handle",
            ErrorKind::ForeignHandle => "foreign_handle",
            ErrorKind::Closed => "closed",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Compile => "compile",
            ErrorKind::Execute => "execute",
            ErrorKind::Transfer => "transfer",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Io => "io",
            ErrorKind::Format => "format",
            ErrorKind::OutOfMemory => "out_of_memory",
        };
        f.write_str(name)
    }
}

/// An error of the engine; `Display` is one sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {message}")]
pub struct Error {
    /// What kind of fault this is.
    pub kind: ErrorKind,
    /// The op, file or call that failed.
    pub op: String,
    /// What was found and what would be right.
    pub message: String,
}

impl Error {
    /// An error of `kind` in `op`.
    pub fn new(kind: ErrorKind, op: impl Into<String>, message: impl Into<String>) -> Self {
        Error { kind, op: op.into(), message: message.into() }
    }

    /// A [`ErrorKind::Shape`] error.
    pub fn shape(op: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Shape, op, message)
    }

    /// A [`ErrorKind::Dtype`] error.
    pub fn dtype(op: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Dtype, op, message)
    }

    /// A [`ErrorKind::Argument`] error.
    pub fn argument(op: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Argument, op, message)
    }

    /// Kind, op and message on a line each, as they cross a border that has no errors; a message may have further lines.
    pub fn to_lines(&self) -> String {
        format!("{}\n{}\n{}", self.kind, self.op.replace('\n', " "), self.message)
    }

    /// A [`ErrorKind::Unsupported`] error.
    pub fn unsupported(op: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, op, message)
    }
}

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_the_kind_and_the_op_whatever_these_are_called() {
        let error = Error::argument("a\nfile", "it is 3,\nexpected 4");
        assert_eq!(error.to_lines(), "argument\na file\nit is 3,\nexpected 4");
        assert_eq!(error.to_lines().split('\n').next(), Some(ErrorKind::Argument.to_string().as_str()));
    }
}
