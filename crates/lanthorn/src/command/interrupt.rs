//! Signals: the first one during a piece of work asks it to stop cleanly, any other ends the program.
//!
//! Ctrl-C (SIGINT) is about the work, which in a conversation is an answer; a request to terminate (SIGTERM, SIGHUP) is
//! about the program. The exit code is that of shells: 128 and the signal's number.

use std::process::{self, ExitCode};
use std::sync::{Mutex, PoisonError};

use lanthorn_runtime::CancelToken;

use super::failure::{Failure, Result};

/// The number of the signal that Ctrl-C sends.
const INTERRUPT: i32 = 2;

/// What exit codes of signals begin at.
const SIGNALS: i32 = 128;

struct State {
    /// That of the work under way.
    work: Option<CancelToken>,
    /// The last signal that work was asked to stop by.
    signal: Option<i32>,
}

static STATE: Mutex<State> = Mutex::new(State { work: None, signal: None });

/// Listens from now on; until there is work, a signal ends the program.
#[cfg(unix)]
pub fn listen() -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let refused = |error| Failure::request(format!("signals cannot be handled here: {error}"));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(refused)?;
    let listening = std::thread::Builder::new().name("signals".into());
    listening.spawn(move || signals.forever().for_each(heard)).map_err(refused)?;
    Ok(())
}

/// Listens from now on; until there is work, a signal ends the program.
#[cfg(not(unix))]
pub fn listen() -> Result<()> {
    ctrlc::set_handler(|| heard(INTERRUPT))
        .map_err(|error| Failure::request(format!("Ctrl-C cannot be handled here: {error}")))
}

fn heard(signal: i32) {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    match &state.work {
        Some(work) if !work.is_cancelled() => {
            work.cancel();
            state.signal = Some(signal);
        }
        _ => process::exit(SIGNALS + signal),
    }
}

/// The token of the next piece of work, which a signal cancels.
pub fn during() -> CancelToken {
    let token = CancelToken::new();
    STATE.lock().unwrap_or_else(PoisonError::into_inner).work = Some(token.clone());
    token
}

/// No work is under way: a signal ends the program again.
pub fn idle() {
    STATE.lock().unwrap_or_else(PoisonError::into_inner).work = None;
}

/// True where the program was asked to end, and not the work alone.
pub fn is_over() -> bool {
    let signal = STATE.lock().unwrap_or_else(PoisonError::into_inner).signal;
    signal.is_some_and(|signal| signal != INTERRUPT)
}

/// The exit code after work that a signal has stopped.
pub fn code() -> ExitCode {
    let signal = STATE.lock().unwrap_or_else(PoisonError::into_inner).signal;
    ExitCode::from(u8::try_from(SIGNALS + signal.unwrap_or(INTERRUPT)).unwrap_or(u8::MAX))
}
