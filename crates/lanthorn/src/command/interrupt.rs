//! Ctrl-C: the first asks the work to stop cleanly, the second ends the program.

use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_runtime::CancelToken;

use super::failure::{Failure, Result};

/// The exit code of a program that Ctrl-C ended, as shells expect it.
pub const INTERRUPTED: u8 = 130;

/// A token that Ctrl-C (or a polite request to terminate) cancels.
pub fn token() -> Result<CancelToken> {
    Ok(Interrupts::new()?.during())
}

/// Ctrl-C for one piece of work after the other.
pub struct Interrupts {
    /// That of the work under way; one that is cancelled, where there is none.
    token: Arc<Mutex<CancelToken>>,
}

impl Interrupts {
    /// Listens from now on; until there is work, Ctrl-C ends the program.
    pub fn new() -> Result<Interrupts> {
        let idle = CancelToken::new();
        idle.cancel();
        let token = Arc::new(Mutex::new(idle));
        let heard = Arc::clone(&token);
        ctrlc::set_handler(move || {
            let token = heard.lock().unwrap_or_else(PoisonError::into_inner);
            if token.is_cancelled() {
                process::exit(i32::from(INTERRUPTED));
            }
            token.cancel();
        })
        .map_err(|error| Failure::request(format!("Ctrl-C cannot be handled here: {error}")))?;
        Ok(Interrupts { token })
    }

    /// The token of the next piece of work.
    pub fn during(&self) -> CancelToken {
        let token = CancelToken::new();
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token.clone();
        token
    }

    /// No work is under way: Ctrl-C ends the program again.
    pub fn idle(&self) {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }
}
