//! What can go wrong with a file: the system refused, the content is not what it should be, or the caller cancelled.

use indexmap::IndexMap;
use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who is at fault: the entry of the project's error taxonomy under which an [`Error`] falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The operating system refused: no such file, no permission, no space.
    Io,
    /// The content, or a value to be written, is not of the format.
    Format,
    /// The caller did not want it any more.
    Cancelled,
}

impl ErrorKind {
    /// The kind's name in the taxonomy: `io`, `format` or `cancelled`.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Io => "io",
            ErrorKind::Format => "format",
            ErrorKind::Cancelled => "cancelled",
        }
    }
}

/// An error of this crate: one sentence that names the file, what was found and what would be right.
///
/// ```
/// let error = lanthorn_io::text::read("no/such/book.txt").unwrap_err();
/// assert_eq!(error.kind(), lanthorn_io::ErrorKind::Io);
/// assert!(error.to_string().starts_with("cannot read no/such/book.txt: No such file or directory"));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("cannot {action} {}: {}", path.display(), reason(cause))]
    Io {
        /// What was attempted, such as `read` or `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer. The sentence tells it, so that it is not the error's source as well, which would be told twice.
        cause: std::io::Error,
    },

    /// The content of a file, or a value that was to be written, is not of the format.
    #[error("{subject}: {found}; {expected}")]
    Format {
        /// The file, or the name under which bytes were handed in.
        subject: String,
        /// What was found.
        found: String,
        /// What would be right.
        expected: String,
    },

    /// Whoever asked for the work had it stopped.
    #[error("{subject}: cancelled")]
    Cancelled {
        /// What was being read or made.
        subject: String,
    },
}

impl Error {
    /// The kind in the project's taxonomy.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Error::Io { .. } => ErrorKind::Io,
            Error::Format { .. } => ErrorKind::Format,
            Error::Cancelled { .. } => ErrorKind::Cancelled,
        }
    }

    /// The system refused `action` on `path`.
    pub fn io(action: &'static str, path: impl AsRef<Path>, cause: std::io::Error) -> Error {
        Error::Io { action, path: path.as_ref().to_owned(), cause }
    }

    /// `subject` holds `found`, where `expected` would be right.
    pub fn format(
        subject: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Error {
        Error::Format { subject: subject.into(), found: found.into(), expected: expected.into() }
    }
}

impl From<Error> for lanthorn_ir::Error {
    /// The same as an error of the engine, whose op is the file, for code that reads files and computes.
    fn from(error: Error) -> lanthorn_ir::Error {
        match error {
            Error::Io { action, path, cause } => lanthorn_ir::Error::new(
                lanthorn_ir::ErrorKind::Io,
                path.display().to_string(),
                format!("cannot {action} it: {}", reason(&cause)),
            ),
            Error::Format { subject, found, expected } => lanthorn_ir::Error::new(
                lanthorn_ir::ErrorKind::Format,
                subject,
                format!("{found}; {expected}"),
            ),
            Error::Cancelled { subject } => {
                lanthorn_ir::Error::new(lanthorn_ir::ErrorKind::Cancelled, subject, "cancelled")
            }
        }
    }
}

/// The system's sentence without its number, which says nothing to a reader.
fn reason(cause: &std::io::Error) -> String {
    let sentence = cause.to_string();
    match sentence.rfind(" (os error ") {
        Some(at) => sentence[..at].to_owned(),
        None => sentence,
    }
}

/// The error for a file without a tensor `name`, which says what `tensors` it has.
pub(crate) fn no_tensor<E>(subject: &str, name: &str, tensors: &IndexMap<String, E>) -> Error {
    let shown: Vec<_> = tensors.keys().take(4).map(|name| format!("`{}`", shorten(name))).collect();
    let known = match tensors.len() {
        0 => "it has no tensors at all".to_owned(),
        count if count > shown.len() => format!("its {count} tensors are {}, ...", shown.join(", ")),
        _ => format!("its tensors are {}", shown.join(", ")),
    };
    Error::format(subject, format!("it has no tensor `{}`", shorten(name)), known)
}

/// Why content is refused; whoever knows the file's name adds it.
pub(crate) struct Refusal {
    found: String,
    expected: String,
}

impl Refusal {
    /// The error that names the file.
    pub fn of(self, subject: impl Into<String>) -> Error {
        Error::format(subject, self.found, self.expected)
    }

    /// The same, told of a part of the content.
    pub fn within(self, part: &str) -> Refusal {
        Refusal { found: format!("{part}: {}", self.found), ..self }
    }
}

/// The refusal of content that holds `found`, where `expected` would be right.
pub(crate) fn refuse<T>(found: impl Into<String>, expected: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { found: found.into(), expected: expected.into() })
}

/// Foreign text for a message: without control characters, and not longer than a line or two. A hostile name or value
/// may be as long as its file.
pub(crate) fn shorten(text: &str) -> String {
    const SHOWN: usize = 120;
    match text.char_indices().nth(SHOWN) {
        None => escaped(text),
        Some((at, _)) => format!("{}...", escaped(&text[..at])),
    }
}

/// A text that somebody else wrote, for a terminal: what moves a cursor, changes colours or turns the direction of writing
/// is shown as its number, and stays otherwise what it is.
///
/// ```
/// assert_eq!(lanthorn_io::escaped("süß \u{1b}[31m\n\u{202e}"), "süß \\u{1b}[31m\\n\\u{202e}");
/// ```
pub fn escaped(text: &str) -> String {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match acts(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// A shape for a message: a hostile one may have millions of axes.
///
/// ```
/// assert_eq!(lanthorn_io::shown_shape(&[2, 3]), "[2, 3]");
/// assert_eq!(lanthorn_io::shown_shape(&[1; 1_000]), "[1, 1, 1, 1, 1, 1, 1, 1] and 992 more sizes");
/// ```
pub fn shown_shape<T: std::fmt::Debug>(shape: &[T]) -> String {
    const SHOWN: usize = 8;
    match shape.get(..SHOWN) {
        Some(first) if shape.len() > SHOWN => format!("{first:?} and {} more sizes", shape.len() - SHOWN),
        _ => format!("{shape:?}"),
    }
}
