//! The one clock of the engine. Times are for people; nothing is computed from them.

use std::time::Duration;

/// A point in time.
///
/// A browser's worker has no clock that the standard library knows: there all moments are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(#[cfg(not(target_arch = "wasm32"))] std::time::Instant);

impl Moment {
    /// False where all moments are one.
    pub const PASSES: bool = cfg!(not(target_arch = "wasm32"));

    /// This moment.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn now() -> Moment {
        Moment(std::time::Instant::now())
    }

    /// This moment.
    #[cfg(target_arch = "wasm32")]
    pub fn now() -> Moment {
        Moment()
    }

    /// How long `earlier` is ago; zero if it is not.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// How long `earlier` is ago; zero if it is not.
    #[cfg(target_arch = "wasm32")]
    pub fn since(self, _earlier: Moment) -> Duration {
        Duration::ZERO
    }
}
