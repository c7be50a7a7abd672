//! What is piped into a command.

use std::io::Read;

use lanthorn_io::text;

use super::failure::{Failure, Result};

/// The text on standard input.
pub fn standard_input() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::request(format!("standard input cannot be read: {error}")))?;
    Ok(text::decode("standard input", bytes)?)
}
