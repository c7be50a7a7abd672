//! Counters of one device, always on.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::per_thread::Count;

/// A reading of a device's counters; see [`Device::stats`](crate::Device::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of the blocks in use.
    pub live_bytes: usize,
    /// The most that `live_bytes` has been since the start or the last reset.
    pub peak_bytes: usize,
    /// Bytes of idle blocks that the pool keeps for reuse.
    pub pooled_bytes: usize,
    /// Blocks that came from the backend.
    pub allocations: u64,
    /// Blocks that came from the pool.
    pub reuses: u64,
    /// Executables in the cache.
    pub executables: usize,
    /// Programs made.
    pub compiles: u64,
    /// Lookups that found a program, or waited for another thread to make it.
    pub cache_hits: u64,
    /// Calls of compiled programs.
    pub calls: u64,
    /// Kernels run, by programs and eagerly.
    pub kernels: u64,
}

/// The counters that no other part of the device keeps.
#[derive(Default)]
pub(crate) struct Counters {
    pub calls: AtomicU64,
    pub kernels: Count,
}

impl Counters {
    pub fn count_call(&self, kernels: usize) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.count_kernels(kernels);
    }

    pub fn count_kernels(&self, kernels: usize) {
        self.kernels.add(kernels as u64);
    }
}
