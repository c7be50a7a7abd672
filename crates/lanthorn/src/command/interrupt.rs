//! Signals: the first one during a piece of work asks it to stop cleanly, any other ends the program; where the work's
//! results are saved when it stops, the program ends when that is done.
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
    /// Whether what it has done is saved when it stops.
    is_saved: bool,
    /// The last signal that work was asked to stop by.
    signal: Option<i32>,
}

static STATE: Mutex<State> = Mutex::new(State { work: None, is_saved: false, signal: None });

/// Listens from now on; until there is work, a signal ends the program.
#[cfg(unix)]
pub fn listen() -> Result<()> {
    use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use std::sync::Arc;

    let refused = |error| Failure::request(format!("signals cannot be handled here: {error}"));
    // A file that would exceed the limit of the system is then an error of whoever writes it, and not the program's end.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(refused)?;
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
        // It is being saved, and then the program ends.
        Some(_) if state.is_saved => {}
        _ => process::exit(SIGNALS + signal),
    }
}

/// The token of the next piece of work, which a signal cancels.
pub fn during() -> CancelToken {
    begin(false)
}

/// The same for work whose results are saved when it stops, which further signals do not keep from being whole.
pub fn during_what_is_saved() -> CancelToken {
    begin(true)
}

fn begin(is_saved: bool) -> CancelToken {
    let token = CancelToken::new();
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    (state.work, state.is_saved) = (Some(token.clone()), is_saved);
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
