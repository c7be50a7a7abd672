//! Whether ops are recorded, in this thread.

use std::cell::Cell;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// True if ops are recorded.
pub fn is_enabled() -> bool {
    ENABLED.with(Cell::get)
}

/// Turns recording on or off; returns what it was.
pub fn set_enabled(enabled: bool) -> bool {
    ENABLED.with(|cell| cell.replace(enabled))
}

/// Recording turned on or off until the guard is dropped.
pub struct Guard(bool);

impl Guard {
    /// Turns recording on or off.
    pub fn new(enabled: bool) -> Guard {
        Guard(set_enabled(enabled))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        set_enabled(self.0);
    }
}
