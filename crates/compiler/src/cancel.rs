//! Cancellation: a flag that a caller raises and long work asks for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells running work to stop; clones share one flag. A call that has passed its commit point completes.
///
/// The CPU stops inside a kernel, within some milliseconds; only a factorisation of one matrix runs to its end. A GPU stops
/// between submissions.
///
/// ```
/// use lanthorn_compiler::cancel::CancelToken;
/// let token = CancelToken::new();
/// let seen_by_the_work = token.clone();
/// token.cancel();
/// assert!(seen_by_the_work.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    flag: Option<Arc<AtomicBool>>,
}

impl CancelToken {
    /// A token that can be cancelled.
    pub fn new() -> CancelToken {
        CancelToken { flag: Some(Arc::default()) }
    }

    /// A token that nobody can cancel.
    pub const fn never() -> CancelToken {
        CancelToken { flag: None }
    }

    /// Asks the work to stop. Does nothing to [`CancelToken::never`].
    pub fn cancel(&self) {
        if let Some(flag) = &self.flag {
            flag.store(true, Ordering::Release);
        }
    }

    /// True once [`CancelToken::cancel`] has been called.
    pub fn is_cancelled(&self) -> bool {
        self.flag.as_ref().is_some_and(|flag| flag.load(Ordering::Acquire))
    }
}
