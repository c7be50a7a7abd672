//! Errors with the exception type that upstream raises.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_ir::ErrorKind;

/// Which Python exception an error becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    Runtime,
    Type,
    Index,
    Value,
    NotImplemented,
    Buffer,
    Overflow,
}

/// An exception that a hook has raised already, kept as the front end made it.
#[derive(Clone)]
pub struct Raised(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl Raised {
    /// The exception, for the one who raises it again.
    pub fn take(&self) -> Option<Box<dyn Any + Send>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an exception of a hook")
    }
}

/// What went wrong, in upstream's words where upstream has some.
#[derive(Clone, Debug)]
pub struct Error {
    pub exception: Exception,
    pub message: String,
    pub raised: Option<Raised>,
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(exception: Exception, message: impl Into<String>) -> Error {
        Error { exception, message: message.into(), raised: None }
    }

    /// A `RuntimeError`.
    pub fn runtime(message: impl Into<String>) -> Error {
        Error::new(Exception::Runtime, message)
    }

    /// A `TypeError`.
    pub fn ty(message: impl Into<String>) -> Error {
        Error::new(Exception::Type, message)
    }

    /// An `IndexError`.
    pub fn index(message: impl Into<String>) -> Error {
        Error::new(Exception::Index, message)
    }

    /// A `ValueError`.
    pub fn value(message: impl Into<String>) -> Error {
        Error::new(Exception::Value, message)
    }

    /// A `NotImplementedError`.
    pub fn not_implemented(message: impl Into<String>) -> Error {
        Error::new(Exception::NotImplemented, message)
    }

    /// A `BufferError`.
    pub fn buffer(message: impl Into<String>) -> Error {
        Error::new(Exception::Buffer, message)
    }

    /// An `OverflowError`.
    pub fn overflow(message: impl Into<String>) -> Error {
        Error::new(Exception::Overflow, message)
    }

    /// An exception that exists already.
    pub fn raised(exception: Box<dyn Any + Send>) -> Error {
        let raised = Some(Raised(Arc::new(Mutex::new(Some(exception)))));
        Error { exception: Exception::Runtime, message: "a hook raised an exception".into(), raised }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<lanthorn_ir::Error> for Error {
    fn from(error: lanthorn_ir::Error) -> Error {
        let exception = match error.kind {
            ErrorKind::Unsupported => Exception::NotImplemented,
            _ => Exception::Runtime,
        };
        Error::new(exception, error.to_string())
    }
}
