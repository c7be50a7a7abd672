//! The executable cache of a device: one program for each structure.
//!
//! The key is the indexed graph with its options: hashed once for each lookup and compared exactly. Two
//! threads that want the same program make it once; a failure is told to its caller and forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lanthorn_compiler::backend::Backend;
use lanthorn_compiler::indexed::Indexed;
use lanthorn_compiler::pipeline::{self, Compiled, Options};
use lanthorn_ir::Result;

/// How many programs a device keeps unless told otherwise.
const CAPACITY: usize = 512;

/// Programs by structure, the least recently used leaving first.
pub struct ExecutableCache {
    state: Mutex<State>,
    compiles: AtomicU64,
    hits: AtomicU64,
}

struct State {
    entries: HashMap<Arc<Key>, Entry, BuildHasherDefault<Prehashed>>,
    capacity: usize,
    /// Counts lookups; says which entry was used last.
    clock: u64,
}

/// Locked while the program is being made; empty until then, and for good if that fails.
type Slot = Arc<Mutex<Option<Arc<Compiled>>>>;

struct Entry {
    program: Slot,
    used: u64,
}

struct Key {
    hash: u64,
    indexed: Arc<Indexed>,
    options: Options,
}

/// The counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub executables: usize,
    pub compiles: u64,
    pub hits: u64,
}

impl Default for ExecutableCache {
    fn default() -> Self {
        let state = State { entries: HashMap::default(), capacity: CAPACITY, clock: 0 };
        ExecutableCache { state: Mutex::new(state), compiles: AtomicU64::new(0), hits: AtomicU64::new(0) }
    }
}

impl ExecutableCache {
    /// The program of that structure, made now if nobody has made it before.
    pub fn get(&self, backend: &dyn Backend, indexed: Indexed, options: &Options) -> Result<Arc<Compiled>> {
        self.get_or_make(indexed, options, |source| pipeline::compile(backend, source, options))
    }

    /// The program of that structure, made by `make` if nobody has made it before.
    pub(crate) fn get_or_make(
        &self,
        indexed: Indexed,
        options: &Options,
        make: impl FnOnce(Arc<Indexed>) -> Result<Compiled>,
    ) -> Result<Arc<Compiled>> {
        let key = Key::new(indexed, options.clone());
        let (key, slot) = self.slot(key);
        let mut program = lock(&slot);
        if let Some(program) = &*program {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(program.clone());
        }
        let compiled = match make(key.indexed.clone()) {
            Ok(compiled) => Arc::new(compiled),
            Err(error) => {
                self.forget(&key, &slot);
                return Err(error);
            }
        };
        self.compiles.fetch_add(1, Ordering::Relaxed);
        *program = Some(compiled.clone());
        Ok(compiled)
    }

    /// How many programs to keep; surplus ones go now.
    pub fn set_capacity(&self, capacity: usize) {
        let mut state = lock(&self.state);
        state.capacity = capacity;
        state.evict();
    }

    /// Forgets every program. Those in use live on with their users.
    pub fn clear(&self) {
        lock(&self.state).entries.clear();
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        Counts {
            executables: lock(&self.state).entries.len(),
            compiles: self.compiles.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
        }
    }

    /// The entry of a key, made if there is none.
    fn slot(&self, key: Key) -> (Arc<Key>, Slot) {
        let mut state = lock(&self.state);
        state.clock += 1;
        let used = state.clock;
        if let Some((key, _)) = state.entries.get_key_value(&key) {
            let key = key.clone();
            if let Some(entry) = state.entries.get_mut(&key) {
                entry.used = used;
                return (key, entry.program.clone());
            }
        }
        let (key, program) = (Arc::new(key), Slot::default());
        state.entries.insert(key.clone(), Entry { program: program.clone(), used });
        state.evict();
        (key, program)
    }

    fn forget(&self, key: &Key, slot: &Slot) {
        let mut state = lock(&self.state);
        if state.entries.get(key).is_some_and(|entry| Arc::ptr_eq(&entry.program, slot)) {
            state.entries.remove(key);
        }
    }
}

impl State {
    /// Drops what was not used for longest. The newest entry stays.
    fn evict(&mut self) {
        while self.entries.len() > self.capacity.max(1) {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.entries.remove(&oldest);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Key {
    fn new(indexed: Indexed, options: Options) -> Key {
        let mut hasher = rustc_hash::FxHasher::default();
        indexed.hash(&mut hasher);
        options.hash(&mut hasher);
        Key { hash: hasher.finish(), indexed: Arc::new(indexed), options }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.hash == other.hash && self.options == other.options && self.indexed == other.indexed
    }
}
impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Passes a hash on that has been computed already.
#[derive(Default)]
struct Prehashed(u64);

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
