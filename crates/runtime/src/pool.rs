//! The memory pool of a device: size classes, last-in first-out reuse, exact counters, a limit.
//!
//! Taking and giving back is O(1). Sizes are rounded up to one of eight classes for each doubling, so at
//! most an eighth of a large block is slack. Idle memory lies in two places. Each thread keeps a few small blocks, with
//! the storages' nodes that they came back in, on a [`Shelf`] of its own: there it finds them without a lock. All else
//! lies in lists that a lock guards. Under a limit, which makes every block count, there are only the lists.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lanthorn_compiler::backend::Memory;
use lanthorn_ir::{Error, ErrorKind, Result};

use crate::counted::{Counted, Place};
use crate::per_thread::PerThread;
use crate::storage::Node;

/// The alignment of every block, and the smallest class.
const ALIGNMENT: usize = 64;
/// Classes for each doubling of the size.
const STEPS: usize = 8;
/// The classes of up to 4 KiB are kept on shelves,
const SHELVED: usize = 6 * STEPS + 1;
/// so many of each.
const DEPTH: usize = 2;
/// Where there is no limit.
const UNLIMITED: usize = usize::MAX;

type Allocate = Box<dyn Fn(usize) -> Result<Arc<dyn Memory>> + Send + Sync>;

/// Idle memory of one device, by size class.
pub struct Pool {
    allocate: Allocate,
    /// Bytes in use. Those that the pool holds and that are not in use are idle.
    live: AtomicUsize,
    peak: AtomicUsize,
    /// Changes under the lock.
    limit: AtomicUsize,
    shelves: PerThread<Shelf>,
    state: Mutex<State>,
}

/// The idle blocks of one thread.
struct Shelf {
    places: [[Place<Node>; DEPTH]; SHELVED],
    /// Blocks that were taken from here, counted by the thread alone.
    reuses: AtomicU64,
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf { places: std::array::from_fn(|_| Default::default()), reuses: AtomicU64::new(0) }
    }
}

/// Idle blocks of one class.
#[derive(Default)]
struct List {
    size: usize,
    blocks: Vec<Arc<dyn Memory>>,
}

#[derive(Default)]
struct State {
    /// By the number of the class.
    idle: Vec<List>,
    /// Bytes that came from the backend and have not gone back.
    held: usize,
    /// Asked of the backend and not there yet: counts towards the limit, but is neither live nor a peak, for the
    /// backend may refuse it.
    reserved: usize,
    allocations: u64,
    reuses: u64,
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

/// Memory, and whose it is.
pub(crate) struct Block {
    memory: Arc<dyn Memory>,
    home: Home,
}

enum Home {
    Pool(Class),
    Owner { writable: bool },
}

impl Block {
    /// Memory of an external owner.
    pub fn external(memory: Arc<dyn Memory>, writable: bool) -> Block {
        Block { memory, home: Home::Owner { writable } }
    }

    /// The memory itself.
    pub fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    pub fn is_external(&self) -> bool {
        matches!(self.home, Home::Owner { .. })
    }

    pub fn is_writable(&self) -> bool {
        !matches!(self.home, Home::Owner { writable: false })
    }
}

/// The number of a size class, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    number: usize,
    size: usize,
}

impl Class {
    /// The smallest class that holds so many bytes; `None` if no class is large enough.
    #[inline]
    fn of(bytes: usize) -> Option<Class> {
        if bytes <= ALIGNMENT {
            return Some(Class { number: 0, size: ALIGNMENT });
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
        Some(Class { number: (exponent - 6) * STEPS + within, size })
    }
}

impl Pool {
    /// An empty pool over a backend's allocator.
    pub fn new(allocate: impl Fn(usize) -> Result<Arc<dyn Memory>> + Send + Sync + 'static) -> Pool {
        Pool {
            allocate: Box::new(allocate),
            live: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            limit: AtomicUsize::new(UNLIMITED),
            shelves: PerThread::default(),
            state: Mutex::default(),
        }
    }

    /// A storage's node with a block of at least `bytes`, 64-byte aligned, contents unspecified. It is to be
    /// [given back](Pool::give_back).
    ///
    /// Errors: [`ErrorKind::OutOfMemory`] if the limit would be exceeded even without idle blocks, or the
    /// backend has no memory.
    #[inline]
    pub(crate) fn take(&self, bytes: usize) -> Result<Counted<Node>> {
        let class =
            Class::of(bytes).ok_or_else(|| exhausted(format!("{bytes} bytes exceed the address space")))?;
        match self.take_from_shelf(class) {
            Some(node) => Ok(node),
            None => self.take_from_lists(class).map(|block| Counted::new(Node::new(block))),
        }
    }

    #[inline]
    fn take_from_shelf(&self, class: Class) -> Option<Counted<Node>> {
        if self.limit.load(Ordering::Relaxed) != UNLIMITED {
            return None;
        }
        let shelf = self.shelves.own()?;
        // Filled from the front.
        let node = shelf.places.get(class.number)?.iter().rev().find_map(Place::take)?;
        shelf.reuses.store(shelf.reuses.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.grow(class.size);
        Some(node)
    }

    #[cold]
    fn take_from_lists(&self, class: Class) -> Result<Block> {
        let Class { number, size } = class;
        let block = |memory| Block { memory, home: Home::Pool(class) };
        let mut released = Vec::new();
        {
            let mut state = self.state();
            let (limit, live) = (self.limit.load(Ordering::Relaxed), self.promised(&state));
            if live.saturating_add(size) > limit {
                return Err(exhausted(format!(
                    "{size} bytes on top of {live} in use exceed the limit of {limit} bytes"
                )));
            }
            if let Some(memory) = state.idle.get_mut(number).and_then(|list| list.blocks.pop()) {
                state.reuses += 1;
                self.grow(size);
                return Ok(block(memory));
            }
            if self.is_beyond_limit(&state, size) {
                released = self.release(&mut state);
                // A block found on a shelf just before there was a limit is held, but may not be counted as live yet.
                if self.is_beyond_limit(&state, size) {
                    let held = state.held;
                    return Err(exhausted(format!(
                        "{size} bytes on top of {held} in use exceed the limit of {limit} bytes"
                    )));
                }
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
        state.reserved -= size;
        match memory {
            Ok(memory) => {
                state.allocations += 1;
                state.held += size;
                self.grow(size);
                Ok(block(memory))
            }
            // What else is wrong with the backend is told as it is.
            Err(error) if error.kind == ErrorKind::Device => Err(error),
            Err(error) => Err(exhausted(format!("no memory for {size} bytes: {error}"))),
        }
    }

    /// Takes back what the last handle to a storage leaves: a block of this pool, of an owner, or none.
    #[inline]
    pub(crate) fn give_back(&self, mut node: Counted<Node>) {
        let Some(Block { home: Home::Pool(class), .. }) = node.get_mut().and_then(Node::block) else {
            return;
        };
        let class = *class;
        if self.limit.load(Ordering::Relaxed) == UNLIMITED
            && let Some(shelf) = self.shelves.own()
            && let Some(places) = shelf.places.get(class.number)
            && let Some(place) = places.iter().find(|place| place.is_empty())
        {
            // Before others can find it: who takes it from the lists counts it again.
            self.live.fetch_sub(class.size, Ordering::Relaxed);
            match place.put(node) {
                Ok(()) => return,
                Err(refused) => node = refused,
            }
            self.live.fetch_add(class.size, Ordering::Relaxed);
        }
        self.give_back_to_lists(node, class);
    }

    #[cold]
    fn give_back_to_lists(&self, mut node: Counted<Node>, class: Class) {
        let Some(block) = node.get_mut().and_then(Node::take_block) else { return };
        let mut state = self.state();
        self.live.fetch_sub(class.size, Ordering::Relaxed);
        if self.is_beyond_limit(&state, 0) {
            // The limit was lowered below what is in use: not kept.
            state.held -= class.size;
            drop(state);
            return drop(block);
        }
        state.keep(block.memory, class);
    }

    /// Gives all idle blocks back to the backend; returns how many bytes that were.
    pub fn trim(&self) -> usize {
        let mut state = self.state();
        let held = state.held;
        let released = self.release(&mut state);
        let bytes = held - state.held;
        drop(state);
        drop(released);
        bytes
    }

    /// The limit, if there is one.
    pub fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|&limit| limit != UNLIMITED)
    }

    /// The most bytes that may be in use and idle together; `None`: as many as there are. What is in use stays, and
    /// idle blocks go now if they are too many.
    pub fn set_limit(&self, limit: Option<usize>) {
        let mut state = self.state();
        self.limit.store(limit.unwrap_or(UNLIMITED), Ordering::Relaxed);
        // Nobody looks on shelves while there is a limit.
        self.clear_shelves(&mut state);
        let released = if self.is_beyond_limit(&state, 0) { self.release(&mut state) } else { Vec::new() };
        drop(state);
        drop(released);
    }

    /// The counters.
    pub fn usage(&self) -> Usage {
        let state = self.state();
        let live = self.live.load(Ordering::Relaxed);
        let from_shelves = self.shelves.all().map(|shelf| shelf.reuses.load(Ordering::Relaxed));
        Usage {
            live,
            // A thread that has counted its block may not have raised the peak yet.
            peak: self.peak.load(Ordering::Relaxed).max(live),
            pooled: state.held.saturating_sub(live),
            allocations: state.allocations,
            reuses: state.reuses + from_shelves.sum::<u64>(),
        }
    }

    /// Lets the peak start again from what is in use now.
    pub fn reset_peak(&self) {
        self.peak.swap(0, Ordering::SeqCst);
        self.peak.fetch_max(self.live.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Counts a block as in use.
    #[inline]
    fn grow(&self, size: usize) {
        let live = self.live.fetch_add(size, Ordering::Relaxed) + size;
        // Each sum that there ever was is seen here by the thread that made it.
        if live > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(live, Ordering::Relaxed);
        }
    }

    /// What is in use or soon will be.
    fn promised(&self, state: &State) -> usize {
        self.live.load(Ordering::Relaxed).saturating_add(state.reserved)
    }

    /// Whether so many bytes more would be too many, idle blocks included.
    fn is_beyond_limit(&self, state: &State, further: usize) -> bool {
        let held = state.held.saturating_add(state.reserved).saturating_add(further);
        held > self.limit.load(Ordering::Relaxed)
    }

    /// Empties the pool; the caller drops the blocks outside the lock.
    fn release(&self, state: &mut State) -> Vec<List> {
        self.clear_shelves(state);
        let idle = std::mem::take(&mut state.idle);
        state.held -= idle.iter().map(|list| list.size * list.blocks.len()).sum::<usize>();
        idle
    }

    /// Moves what lies on shelves to the lists.
    fn clear_shelves(&self, state: &mut State) {
        for place in self.shelves.all().flat_map(|shelf| &shelf.places).flatten() {
            let taken = place.take().and_then(|mut node| node.get_mut().and_then(Node::take_block));
            if let Some(Block { memory, home: Home::Pool(class) }) = taken {
                state.keep(memory, class);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Puts an idle block on its list.
    fn keep(&mut self, memory: Arc<dyn Memory>, class: Class) {
        if self.idle.len() <= class.number {
            self.idle.resize_with(class.number + 1, List::default);
        }
        if let Some(list) = self.idle.get_mut(class.number) {
            list.size = class.size;
            list.blocks.push(memory);
        }
    }
}

fn exhausted(message: String) -> Error {
    Error::new(ErrorKind::OutOfMemory, "allocate", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostMemory;

    fn host_pool() -> Pool {
        Pool::new(|bytes| Ok(HostMemory::from_vec(vec![0u64; bytes.div_ceil(8)]).shared()))
    }

    /// A node in use, which a storage would give back.
    struct Taken<'a> {
        pool: &'a Pool,
        node: Option<Counted<Node>>,
    }

    impl Taken<'_> {
        fn address(&mut self) -> Option<usize> {
            let start = self.node.as_mut()?.get_mut()?.block()?.memory().host()?;
            Some(start.as_ptr() as usize)
        }
    }

    impl Drop for Taken<'_> {
        fn drop(&mut self) {
            self.node.take().into_iter().for_each(|node| self.pool.give_back(node));
        }
    }

    fn take(pool: &Pool, bytes: usize) -> Result<Taken<'_>> {
        pool.take(bytes).map(|node| Taken { pool, node: Some(node) })
    }

    #[test]
    fn classes_hold_their_sizes_and_waste_little() {
        let mut last = (0, 0);
        for bytes in (1..5000).chain((13..40).map(|e| (1usize << e) + 1)) {
            let Class { number: class, size } = Class::of(bytes).unwrap();
            assert!(size >= bytes && size % ALIGNMENT == 0);
            assert!(size - bytes < ALIGNMENT.max(bytes / STEPS + 1), "{bytes} takes {size}");
            if (class, size) != last {
                assert!(class > last.0 || last == (0, 0), "{bytes}");
                assert!(size > last.1);
                // The largest size of a class is in the class.
                assert_eq!(Class::of(size), Some(Class { number: class, size }));
            }
            if bytes < 5000 {
                last = (class, size);
            }
        }
        assert_eq!(Class::of(usize::MAX), None);
    }

    #[test]
    fn the_last_block_given_back_is_the_first_reused() {
        let pool = host_pool();
        for bytes in [100, 10_000] {
            let before = pool.usage();
            let (mut first, second) = (take(&pool, bytes).unwrap(), take(&pool, bytes).unwrap());
            let last = first.address();
            drop(second);
            drop(first);
            assert_eq!(take(&pool, bytes + 10).unwrap().address(), last);
            let usage = pool.usage();
            let counts = (usage.allocations - before.allocations, usage.reuses - before.reuses);
            assert_eq!(counts, (2, 1), "{bytes}");
        }
    }

    #[test]
    fn counters_are_exact() {
        let pool = host_pool();
        let block = take(&pool, 65).unwrap();
        let large = take(&pool, 1 << 20).unwrap();
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
        let kept = take(&pool, 512).unwrap();
        let error = take(&pool, 1024).err().unwrap();
        assert_eq!(error.kind, ErrorKind::OutOfMemory);
        drop(kept);
        // The idle 512 bytes must go before 1024 fit.
        let whole = take(&pool, 1024).unwrap();
        assert_eq!((pool.usage().live, pool.usage().pooled), (1024, 0));
        assert!(take(&pool, 1).is_err());
        drop(whole);
        assert!(take(&pool, usize::MAX).is_err());
    }

    #[test]
    fn an_error_names_what_was_asked_what_is_in_use_and_the_limit() {
        let pool = host_pool();
        pool.set_limit(Some(1000));
        let _kept = take(&pool, 512).unwrap();
        let error = take(&pool, 600).err().unwrap();
        assert_eq!(
            error.to_string(),
            "allocate: 640 bytes on top of 512 in use exceed the limit of 1000 bytes"
        );
    }

    #[test]
    fn a_limit_that_is_lowered_holds_for_idle_blocks_too() {
        let pool = host_pool();
        let (kept, idle) = (take(&pool, 4096).unwrap(), take(&pool, 2048).unwrap());
        drop(idle);
        pool.set_limit(Some(1024));
        assert_eq!((pool.usage().live, pool.usage().pooled), (4096, 0));
        assert!(take(&pool, 1).is_err());
        drop(kept);
        // Beyond the limit, so it is not kept; nor could it be taken again.
        assert_eq!((pool.usage().live, pool.usage().pooled), (0, 0));
        assert!(take(&pool, 2048).is_err());
        drop(take(&pool, 1024).unwrap());
        assert_eq!(pool.usage().pooled, 1024);
    }

    #[test]
    fn memory_that_the_backend_refuses_was_never_in_use() {
        let pool = Pool::new(|bytes| match bytes {
            0..4096 => Ok(HostMemory::from_vec(vec![0u8; bytes]).shared()),
            _ => Err(Error::new(ErrorKind::OutOfMemory, "test", "full")),
        });
        let kept = take(&pool, 64).unwrap();
        assert_eq!(take(&pool, 1 << 20).err().unwrap().kind, ErrorKind::OutOfMemory);
        assert_eq!((pool.usage().live, pool.usage().peak, pool.usage().pooled), (64, 64, 0));
        assert_eq!(pool.usage().allocations, 1);
        // Nor does it count towards a limit afterwards.
        pool.set_limit(Some(1024));
        drop((kept, take(&pool, 512).unwrap()));
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
                        held.extend(take(pool, bytes).ok());
                        if turn % 3 != 0 && !held.is_empty() {
                            drop(held.swap_remove((turn * 5 + seed) % held.len()));
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
        drop(take(&pool, 64).unwrap());
        let block = take(&pool, 4096).unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        assert_eq!((pool.usage().live, pool.usage().pooled), (4096, 0));
        drop(block);
    }

    #[test]
    fn a_thread_finds_its_small_blocks_and_others_can_let_go_of_them() {
        let pool = host_pool();
        let mut small = take(&pool, 16).unwrap();
        let address = small.address();
        drop(small);
        std::thread::scope(|scope| {
            // Another thread has a shelf of its own.
            let other = scope.spawn(|| take(&pool, 16).unwrap().address());
            assert_ne!(other.join().unwrap(), address);
        });
        assert_eq!(take(&pool, 16).unwrap().address(), address);
        assert_eq!((pool.usage().live, pool.usage().pooled), (0, 128));
        let trimmed = std::thread::scope(|scope| scope.spawn(|| pool.trim()).join().unwrap());
        assert_eq!((trimmed, pool.usage().pooled), (128, 0));
    }

    #[test]
    fn a_limit_finds_the_blocks_on_shelves() {
        let pool = host_pool();
        let several: Vec<_> = (0..4).map(|_| take(&pool, 64).unwrap()).collect();
        drop(several);
        assert_eq!(pool.usage().pooled, 256);
        pool.set_limit(Some(256));
        let again: Vec<_> = (0..4).map(|_| take(&pool, 64).unwrap()).collect();
        assert_eq!((pool.usage().live, pool.usage().pooled, pool.usage().allocations), (256, 0, 4));
        assert!(take(&pool, 64).is_err());
        drop(again);
        pool.set_limit(None);
        drop(take(&pool, 64).unwrap());
        assert_eq!((pool.usage().live, pool.usage().pooled), (0, 256));
        pool.set_limit(Some(128));
        assert_eq!(pool.usage().pooled, 0);
    }

    #[test]
    fn counters_without_a_limit_are_exact_once_threads_have_ended() {
        let pool = host_pool();
        let kept = take(&pool, 64).unwrap();
        let (turns, threads) = (if cfg!(miri) { 20 } else { 500 }, 4usize);
        std::thread::scope(|scope| {
            for seed in 0..threads {
                let pool = &pool;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for turn in 0..turns {
                        held.push(take(pool, 64 << ((turn * 7 + seed * 3) % 9)).unwrap());
                        if turn % 3 != 0 {
                            drop(held.swap_remove((turn * 5 + seed) % held.len()));
                        }
                        if turn % 50 == 49 {
                            pool.trim();
                        }
                        let usage = pool.usage();
                        assert!(usage.live <= usage.peak, "{usage:?}");
                    }
                });
            }
        });
        let usage = pool.usage();
        assert_eq!((usage.live, usage.allocations + usage.reuses), (64, (threads * turns) as u64 + 1));
        assert_eq!((pool.trim(), pool.usage().pooled), (usage.pooled, 0));
        drop(kept);
        assert_eq!((pool.usage().live, pool.usage().pooled), (0, 64));
    }
}
