//! Hooks: functions of the front end that see gradients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A function of a gradient (or of a parameter whose gradient has been accumulated). It may give another gradient in
/// its place. Dropped from any thread.
pub trait Hook: Send + Sync {
    /// Calls it.
    fn call(&self, gradient: &Tensor) -> Result<Option<Tensor>>;
}

/// Hooks in the order of their registration, each with a number by which it is removed.
#[derive(Clone, Default)]
pub struct HookList {
    hooks: Vec<(u64, Arc<dyn Hook>)>,
}

impl HookList {
    /// Adds a hook; returns its number, which no other hook ever had.
    pub fn add(&mut self, hook: Arc<dyn Hook>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.hooks.push((id, hook));
        id
    }

    /// Takes a hook out. The caller drops it outside of locks.
    #[must_use]
    pub fn remove(&mut self, id: u64) -> Option<Arc<dyn Hook>> {
        let at = self.hooks.iter().position(|(other, _)| *other == id)?;
        Some(self.hooks.remove(at).1)
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// The hooks at this moment, to be called without a lock.
    pub fn snapshot(&self) -> Vec<Arc<dyn Hook>> {
        self.hooks.iter().map(|(_, hook)| hook.clone()).collect()
    }
}

/// Passes a gradient through hooks, each of which may replace it.
pub fn through(hooks: &[Arc<dyn Hook>], mut gradient: Tensor) -> Result<Tensor> {
    for hook in hooks {
        if let Some(other) = hook.call(&gradient)? {
            if other.ty() != gradient.ty() {
                return Err(Error::runtime(format!(
                    "a hook has changed the type of a gradient: was {}, got {}",
                    gradient.ty(),
                    other.ty()
                )));
            }
            gradient = other;
        }
    }
    Ok(gradient)
}
