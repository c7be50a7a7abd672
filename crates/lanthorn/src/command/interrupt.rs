//! Ctrl-C: the first asks the work to stop cleanly, the second ends the program.

use std::process;

use lanthorn_runtime::CancelToken;

use super::failure::{Failure, Result};

/// The exit code of a program that Ctrl-C ended, as shells expect it.
pub const INTERRUPTED: u8 = 130;

/// A token that Ctrl-C (or a polite request to terminate) cancels.
pub fn token() -> Result<CancelToken> {
    let token = CancelToken::new();
    let handed = token.clone();
    ctrlc::set_handler(move || {
        if handed.is_cancelled() {
            process::exit(i32::from(INTERRUPTED));
        }
        handed.cancel();
    })
    .map_err(|error| Failure::request(format!("Ctrl-C cannot be handled here: {error}")))?;
    Ok(token)
}
