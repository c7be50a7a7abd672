//! The memory pool of a device: size classes, last-in first-out reuse, exact counters, a limit.
//!
//! Taking and giving back is O(1). Sizes are rounded up to one of eight classes for each doubling, so at
//! most an eighth of a large block is slack. The pool hands out [`Block`]s; a block that is dropped comes back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lanthorn_compiler::backend::Memory;
use lanthorn_ir::{Error, ErrorKind, Result};

/// The alignment of every block, and the smallest class.
const ALIGNMENT: usize = 64;
/// Classes for each doubling of the size.
const STEPS: usize = 8;

type Allocate = Box<dyn Fn(usize) -> Result<Arc<dyn Memory>> + Send + Sync>;

/// Idle memory of one device, by size class.
pub struct Pool {
    allocate: Allocate,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<Vec<Arc<dyn Memory>>>,
    usage: Usage,
    /// Asked of the backend and not there yet: counts towards the limit, but is neither live nor a peak, for the
    /// backend may refuse it.
    reserved: usize,
    limit: Option<usize>,
}

impl State {
    /// What is in use or soon will be.
    fn promised(&self) -> usize {
        self.usage.live.saturating_add(self.reserved)
    }

    /// Whether so many bytes more would be too many, idle blocks included.
    fn is_beyond_limit(&self, further: usize) -> bool {
        let held = self.promised().saturating_add(self.usage.pooled).saturating_add(further);
        self.limit.is_some_and(|limit| held > limit)
    }
}

/// The counters of a pool, in bytes of whole size classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub live: usize,
    pub peak: usize,
    pub pooled: usize,
    /// Blocks that came from the backend, and from the pool.
    pub allocations: u64,
    pub reuses: u64,
}

/// Memory in use. Dropping it gives it back to its pool, or to its owner.
pub struct Block {
    memory: Option<Arc<dyn Memory>>,
    home: Home,
}

enum Home {
    Pool { pool: Arc<Pool>, class: usize, size: usize },
    Owner { writable: bool },
}

impl Block {
    /// Memory of an external owner.
    pub(crate) fn external(memory: Arc<dyn Memory>, writable: bool) -> Block {
        Block { memory: Some(memory), home: Home::Owner { writable } }
    }

    /// The memory itself.
    pub(crate) fn memory(&self) -> &dyn Memory {
        match &self.memory {
            Some(memory) => &**memory,
            // Only `drop` takes the memory away.
            None => unreachable!(),
        }
    }

    pub(crate) fn is_external(&self) -> bool {
        matches!(self.home, Home::Owner { .. })
    }

    pub(crate) fn is_writable(&self) -> bool {
        !matches!(self.home, Home::Owner { writable: false })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let (Some(memory), Home::Pool { pool, class, size }) = (self.memory.take(), &self.home) {
            pool.give_back(memory, *class, *size);
        }
    }
}

/// The class of a size, and the size of that class; `None` if no class is large enough.
fn class_of(bytes: usize) -> Option<(usize, usize)> {
    if bytes <= ALIGNMENT {
        return Some((0, ALIGNMENT));
    }
    if bytes > isize::MAX as usize / 2 {
        return None;
    }
    // The doubling `(2^exponent, 2^(exponent + 1)]` in which the size lies.
    let exponent = (bytes - 1).ilog2() as usize;
    let base = 1usize << exponent;
    let step = (base / STEPS).max(ALIGNMENT);
    let size = bytes.next_multiple_of(step);
    let within = (size - base).div_ceil(step);
    Some(((exponent - 6) * STEPS + within, size))
}

impl Pool {
    /// An empty pool over a backend's allocator.
    pub fn new(allocate: impl Fn(usize) -> Result<Arc<dyn Memory>> + Send + Sync + 'static) -> Arc<Pool> {
        Arc::new(Pool { allocate: Box::new(allocate), state: Mutex::default() })
    }

    /// A block of at least `bytes`, 64-byte aligned, contents unspecified.
    ///
    /// Errors: [`ErrorKind::OutOfMemory`] if the limit would be exceeded even without idle blocks, or the
    /// backend has no memory.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Block> {
        let exhausted = |message: String| Error::new(ErrorKind::OutOfMemory, "allocate", message);
        let (class, size) =
            class_of(bytes).ok_or_else(|| exhausted(format!("{bytes} bytes exceed the address space")))?;
        let mut released = Vec::new();
        {
            let mut state = self.state();
            let live = state.promised();
            if let Some(limit) = state.limit
                && live.saturating_add(size) > limit
            {
                return Err(exhausted(format!(
                    "{size} bytes on top of {live} in use exceed the limit of {limit} bytes"
                )));
            }
            if let Some(memory) = state.idle.get_mut(class).and_then(Vec::pop) {
                state.usage.pooled -= size;
                state.usage.reuses += 1;
                state.grow(size);
                return Ok(self.block(memory, class, size));
            }
            if state.is_beyond_limit(size) {
                released = state.release();
            }
            // Counted before it is there, so that two threads together do not pass the limit.
            state.reserved += size;
        }
        drop(released);
        let memory = (self.allocate)(size).or_else(|_| {
            self.trim();
            (self.allocate)(size)
        });
        let mut state = self.state();
        match memory {
            Ok(memory) => {
                state.reserved -= size;
                state.usage.allocations += 1;
                state.grow(size);
                Ok(self.block(memory, class, size))
            }
            Err(error) => {
                state.reserved -= size;
                Err(exhausted(format!("no memory for {size} bytes: {error}")))
            }
        }
    }

    /// Gives all idle blocks back to the backend; returns how many bytes that were.
    pub fn trim(&self) -> usize {
        let (released, bytes) = {
            let mut state = self.state();
            let bytes = state.usage.pooled;
            (state.release(), bytes)
        };
        drop(released);
        bytes
    }

    /// The limit, if there is one.
    pub fn limit(&self) -> Option<usize> {
        self.state().limit
    }

    /// The most bytes that may be in use and idle together; `None`: as many as there are. What is in use stays, and
    /// idle blocks go now if they are too many.
    pub fn set_limit(&self, limit: Option<usize>) {
        let released = {
            let mut state = self.state();
            state.limit = limit;
            if state.is_beyond_limit(0) { state.release() } else { Vec::new() }
        };
        drop(released);
    }

    /// The counters.
    pub fn usage(&self) -> Usage {
        self.state().usage
    }

    /// Lets the peak start again from what is in use now.
    pub fn reset_peak(&self) {
        let mut state = self.state();
        state.usage.peak = state.usage.live;
    }

    fn block(self: &Arc<Self>, memory: Arc<dyn Memory>, class: usize, size: usize) -> Block {
        Block { memory: Some(memory), home: Home::Pool { pool: self.clone(), class, size } }
    }

    fn give_back(&self, memory: Arc<dyn Memory>, class: usize, size: usize) {
        let mut state = self.state();
        state.usage.live -= size;
        if state.is_beyond_limit(size) {
            // The limit was lowered below what is in use: not kept.
            drop(state);
            return drop(memory);
        }
        state.usage.pooled += size;
        if state.idle.len() <= class {
            state.idle.resize_with(class + 1, Vec::new);
        }
        state.idle[class].push(memory);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn grow(&mut self, size: usize) {
        self.usage.live += size;
        self.usage.peak = self.usage.peak.max(self.usage.live);
    }

    /// Empties the pool; the caller drops the blocks outside the lock.
    fn release(&mut self) -> Vec<Vec<Arc<dyn Memory>>> {
        self.usage.pooled = 0;
        std::mem::take(&mut self.idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostMemory;

    fn host_pool() -> Arc<Pool> {
        Pool::new(|bytes| Ok(HostMemory::from_vec(vec![0u64; bytes.div_ceil(8)]).shared()))
    }

    #[test]
    fn classes_hold_their_sizes_and_waste_little() {
        let mut last = (0, 0);
        for bytes in (1..5000).chain((13..40).map(|e| (1usize << e) + 1)) {
            let (class, size) = class_of(bytes).unwrap();
            assert!(size >= bytes && size % ALIGNMENT == 0);
            assert!(size - bytes < ALIGNMENT.max(bytes / STEPS + 1), "{bytes} takes {size}");
            if (class, size) != last {
                assert!(class > last.0 || last == (0, 0), "{bytes}");
                assert!(size > last.1);
                // The largest size of a class is in the class.
                assert_eq!(class_of(size), Some((class, size)));
            }
            if bytes < 5000 {
                last = (class, size);
            }
        }
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn the_last_block_given_back_is_the_first_reused() {
        let pool = host_pool();
        let (first, second) = (pool.take(100).unwrap(), pool.take(100).unwrap());
        let address = |block: &Block| block.memory().host();
        let last = address(&first);
        drop(second);
        drop(first);
        let again = pool.take(110).unwrap();
        assert_eq!(address(&again), last);
        let usage = pool.usage();
        assert_eq!((usage.allocations, usage.reuses), (2, 1));
    }

    #[test]
    fn counters_are_exact() {
        let pool = host_pool();
        let block = pool.take(65).unwrap();
        let large = pool.take(1 << 20).unwrap();
        let all = 128 + (1 << 20);
        assert_eq!((pool.usage().live, pool.usage().pooled, pool.usage().peak), (all, 0, all));
        drop(large);
        assert_eq!((pool.usage().live, pool.usage().pooled, pool.usage().peak), (128, 1 << 20, all));
        pool.reset_peak();
        assert_eq!(pool.usage().peak, 128);
        assert_eq!(pool.trim(), 1 << 20);
        drop(block);
        assert_eq!((pool.usage().live, pool.usage().pooled), (0, 128));
        assert_eq!(pool.trim(), 128);
    }

    #[test]
    fn the_limit_is_an_error_and_idle_blocks_give_way_to_it() {
        let pool = host_pool();
        pool.set_limit(Some(1024));
        let kept = pool.take(512).unwrap();
        let error = pool.take(1024).err().unwrap();
        assert_eq!(error.kind, ErrorKind::OutOfMemory);
        drop(kept);
        // The idle 512 bytes must go before 1024 fit.
        let whole = pool.take(1024).unwrap();
        assert_eq!((pool.usage().live, pool.usage().pooled), (1024, 0));
        assert!(pool.take(1).is_err());
        drop(whole);
        assert!(pool.take(usize::MAX).is_err());
    }

    #[test]
    fn an_error_names_what_was_asked_what_is_in_use_and_the_limit() {
        let pool = host_pool();
        pool.set_limit(Some(1000));
        let _kept = pool.take(512).unwrap();
        let error = pool.take(600).err().unwrap();
        assert_eq!(
            error.to_string(),
            "allocate: 640 bytes on top of 512 in use exceed the limit of 1000 bytes"
        );
    }

    #[test]
    fn a_limit_that_is_lowered_holds_for_idle_blocks_too() {
        let pool = host_pool();
        let (kept, idle) = (pool.take(4096).unwrap(), pool.take(2048).unwrap());
        drop(idle);
        pool.set_limit(Some(1024));
        assert_eq!((pool.usage().live, pool.usage().pooled), (4096, 0));
        assert!(pool.take(1).is_err());
        drop(kept);
        // Beyond the limit, so it is not kept; nor could it be taken again.
        assert_eq!((pool.usage().live, pool.usage().pooled), (0, 0));
        assert!(pool.take(2048).is_err());
        drop(pool.take(1024).unwrap());
        assert_eq!(pool.usage().pooled, 1024);
    }

    #[test]
    fn memory_that_the_backend_refuses_was_never_in_use() {
        let pool = Pool::new(|bytes| match bytes {
            0..4096 => Ok(HostMemory::from_vec(vec![0u8; bytes]).shared()),
            _ => Err(Error::new(ErrorKind::OutOfMemory, "test", "full")),
        });
        let kept = pool.take(64).unwrap();
        assert_eq!(pool.take(1 << 20).err().unwrap().kind, ErrorKind::OutOfMemory);
        assert_eq!((pool.usage().live, pool.usage().peak, pool.usage().pooled), (64, 64, 0));
        assert_eq!(pool.usage().allocations, 1);
        // Nor does it count towards a limit afterwards.
        pool.set_limit(Some(1024));
        drop((kept, pool.take(512).unwrap()));
        assert_eq!((pool.usage().live, pool.usage().peak, pool.usage().pooled), (0, 576, 576));
    }

    #[test]
    fn counters_are_exact_under_threads() {
        let pool = host_pool();
        pool.set_limit(Some(64 << 10));
        std::thread::scope(|scope| {
            for seed in 0..4usize {
                let pool = &pool;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for turn in 0..500usize {
                        let bytes = 64 << ((turn * 7 + seed * 3) % 6);
                        held.extend(pool.take(bytes).ok());
                        if turn % 3 != 0 && !held.is_empty() {
                            held.swap_remove((turn * 5 + seed) % held.len()).memory();
                        }
                        let usage = pool.usage();
                        assert!(usage.live <= usage.peak && usage.peak <= 64 << 10, "{usage:?}");
                    }
                });
            }
        });
        let usage = pool.usage();
        assert_eq!((usage.live, usage.pooled > 0), (0, true));
        assert_eq!((pool.trim(), pool.usage().pooled), (usage.pooled, 0));
    }

    #[test]
    fn a_backend_without_memory_is_asked_again_after_a_trim() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let pool = Pool::new(move |bytes| match count.fetch_add(1, Ordering::Relaxed) {
            1 => Err(Error::new(ErrorKind::OutOfMemory, "test", "full")),
            _ => Ok(HostMemory::from_vec(vec![0u8; bytes]).shared()),
        });
        drop(pool.take(64).unwrap());
        let block = pool.take(4096).unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        assert_eq!((pool.usage().live, pool.usage().pooled), (4096, 0));
        drop(block);
    }
}
