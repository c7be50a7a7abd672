//! Texts that a command reads: from a file, or piped into it.

use std::io::Read;
use std::path::Path;

use lanthorn_io::{Error, text};

use super::failure::Result;

/// The text of a file, or on standard input where the file is `-`.
///
/// A file that is a pipe by its own name is refused, since nobody may write to it; what whoever started the command has
/// opened for it (`/dev/stdin`, `/dev/fd/63` of `<(..)`) may be one.
pub fn file(path: &Path) -> Result<String> {
    if path == Path::new("-") {
        return standard_input();
    }
    let opened = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];
    if !opened.iter().any(|opened| path.starts_with(opened)) {
        return Ok(text::read(path)?);
    }
    let bytes = std::fs::read(path).map_err(|cause| Error::io("read", path, cause))?;
    Ok(text::decode(&path.display().to_string(), bytes)?)
}

/// The text on standard input.
pub fn standard_input() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|cause| Error::io("read", "standard input", cause))?;
    Ok(text::decode("standard input", bytes)?)
}
