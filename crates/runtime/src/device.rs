//! Devices: a backend with everything that lives beside it.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_compiler::backend::{Backend, MemRef, Memory};
use lanthorn_compiler::clock::Moment;
use lanthorn_compiler::indexed::Indexed;
use lanthorn_compiler::pipeline::{self, Compiled, Options};
use lanthorn_ir::{Error, ErrorKind, Result};

use crate::cache::ExecutableCache;
use crate::eager::{EagerTensor, FlatKernels, ReadyKernels};
use crate::host::HostMemory;
use crate::pool::Pool;
use crate::profile::Recorder;
use crate::random::RandomState;
use crate::settings::memory_limit_at_first;
use crate::stats::{Counters, Stats};
use crate::storage::Storage;

/// A device; cloning is cheap, and clones are equal.
#[derive(Clone)]
pub struct Device {
    inner: Handle,
}

/// A registered device is there for good, and handles to it need not be counted: every storage has one.
#[derive(Clone)]
enum Handle {
    Registered(&'static Inner),
    Own(Arc<Inner>),
}

impl Deref for Handle {
    type Target = Inner;

    #[inline]
    fn deref(&self) -> &Inner {
        match self {
            Handle::Registered(inner) => inner,
            Handle::Own(inner) => inner,
        }
    }
}

struct Inner {
    backend: Arc<dyn Backend>,
    pool: Pool,
    cache: ExecutableCache,
    random: RandomState,
    counters: Counters,
    ready: ReadyKernels,
    flat: FlatKernels,
    observation: Observation,
    /// Where a kernel without scratch and a program without workspace are pointed to.
    nothing: Arc<dyn Memory>,
}

/// Who looks at what the device does. The flags are asked in every call, the rest only where they are set.
#[derive(Default)]
struct Observation {
    is_recording: AtomicBool,
    recorder: Mutex<Option<Arc<Recorder>>>,
    traces_non_finite: AtomicBool,
}

static REGISTERED: Mutex<Vec<Device>> = Mutex::new(Vec::new());

/// Makes a backend's device known by the backend's name. A name that is known already keeps its device,
/// which is returned.
pub fn register_backend(backend: Arc<dyn Backend>) -> Device {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = registered.iter().find(|device| device.name() == backend.name()) {
        return device.clone();
    }
    let device = Device { inner: Handle::Registered(Box::leak(Box::new(Inner::new(backend)))) };
    registered.push(device.clone());
    device
}

impl Inner {
    fn new(backend: Arc<dyn Backend>) -> Inner {
        let allocator = backend.clone();
        let settings = backend.check_environment().and_then(|()| memory_limit_at_first());
        let pool = match settings {
            Ok(limit) => {
                let pool = Pool::new(move |bytes| allocator.allocate(bytes));
                pool.set_limit(limit);
                pool
            }
            // A device whose settings are none has no memory, and says so whenever it is asked for some.
            Err(error) => {
                let (kind, message) = (error.kind, error.to_string());
                Pool::new(move |_| Err(Error::new(kind, "device", message.clone())))
            }
        };
        let nothing = backend.allocate(1).unwrap_or_else(|_| HostMemory::from_vec(vec![0u8]).shared());
        Inner {
            nothing,
            backend,
            pool,
            cache: ExecutableCache::default(),
            random: RandomState::default(),
            counters: Counters::default(),
            ready: ReadyKernels::default(),
            flat: FlatKernels::default(),
            observation: Observation::default(),
        }
    }
}

impl Device {
    /// A device of its own, known by no name.
    pub fn new(backend: Arc<dyn Backend>) -> Device {
        Device { inner: Handle::Own(Arc::new(Inner::new(backend))) }
    }

    /// The registered device of that name, such as `cpu`.
    ///
    /// Errors: [`ErrorKind::Device`], naming the devices that there are.
    pub fn get(name: &str) -> Result<Device> {
        let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        registered.iter().find(|device| device.name() == name).cloned().ok_or_else(|| {
            let known: Vec<&str> = registered.iter().map(Device::name).collect();
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            Error::new(ErrorKind::Device, "device", format!("there is no device {name}; registered: {known}"))
        })
    }

    /// The backend's name.
    pub fn name(&self) -> &'static str {
        self.inner.backend.name()
    }

    /// The backend.
    pub fn backend(&self) -> &dyn Backend {
        &*self.inner.backend
    }

    /// True if kernels read and write memory that the host can reach.
    pub fn is_host(&self) -> bool {
        self.inner.nothing.host().is_some()
    }

    /// The memory pool.
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// Working memory, to be given to a kernel by [`Device::leased`].
    pub(crate) fn lease(&self, bytes: usize) -> Result<Option<Storage>> {
        if bytes == 0 { Ok(None) } else { Storage::allocate(self, bytes).map(Some) }
    }

    pub(crate) fn leased<'a>(&'a self, lease: &'a mut Option<Storage>) -> Result<MemRef<'a>> {
        let memory = match lease {
            Some(lease) => lease.own_memory()?,
            None => &*self.inner.nothing,
        };
        Ok(MemRef { memory, offset: 0 })
    }

    /// The cache of executables.
    pub fn cache(&self) -> &ExecutableCache {
        &self.inner.cache
    }

    /// Seed and draw number.
    pub fn random(&self) -> &RandomState {
        &self.inner.random
    }

    /// Kernels that eager execution has used before.
    pub(crate) fn ready(&self) -> &ReadyKernels {
        &self.inner.ready
    }

    /// The kernels of small calls.
    pub(crate) fn flat(&self) -> &FlatKernels {
        &self.inner.flat
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// Starts the random sequence of `seed` anew.
    pub fn manual_seed(&self, seed: u64) {
        self.inner.random.seed(seed);
    }

    /// The key of the next draw, `u64[2]` of seed and draw number: what a compiled program takes as an argument
    /// to draw anew in each call.
    pub fn next_key(&self) -> Result<EagerTensor> {
        EagerTensor::from_slice(self, &[2], &self.inner.random.next_key())
    }

    /// The program of that structure, from the cache or made now.
    pub(crate) fn program(&self, indexed: Indexed, options: &Options) -> Result<Arc<Compiled>> {
        self.cache().get_or_make(indexed, options, |source| {
            let start = Moment::now();
            let compiled = pipeline::compile(self.backend(), source, options)?;
            if let Some(recorder) = self.recorder() {
                recorder.compiled(start, &compiled.report);
            }
            Ok(compiled)
        })
    }

    /// True while somebody looks at each call.
    pub(crate) fn is_watched(&self) -> bool {
        self.traces_non_finite() || self.inner.observation.is_recording.load(Ordering::Relaxed)
    }

    /// What records, if a profile is on.
    pub(crate) fn recorder(&self) -> Option<Arc<Recorder>> {
        let observation = &self.inner.observation;
        if !observation.is_recording.load(Ordering::Relaxed) {
            return None;
        }
        observation.recorder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets what records; returns what did before.
    pub(crate) fn set_recorder(&self, recorder: Option<Arc<Recorder>>) -> Option<Arc<Recorder>> {
        let observation = &self.inner.observation;
        let mut held = observation.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        observation.is_recording.store(recorder.is_some(), Ordering::Relaxed);
        std::mem::replace(&mut held, recorder)
    }

    /// The flag of [`Device::set_trace_non_finite`].
    pub(crate) fn tracing_flag(&self) -> &AtomicBool {
        &self.inner.observation.traces_non_finite
    }

    /// Gives idle memory back to the system; returns how many bytes that were.
    pub fn trim(&self) -> usize {
        self.inner.pool.trim()
    }

    /// The counters as they are now.
    pub fn stats(&self) -> Stats {
        let usage = self.inner.pool.usage();
        let cache = self.inner.cache.counts();
        Stats {
            live_bytes: usage.live,
            peak_bytes: usage.peak,
            pooled_bytes: usage.pooled,
            allocations: usage.allocations,
            reuses: usage.reuses,
            executables: cache.executables,
            compiles: cache.compiles,
            cache_hits: cache.hits,
            calls: self.inner.counters.calls.load(Ordering::Relaxed),
            kernels: self.inner.counters.kernels.sum(),
        }
    }

    /// Checks that `other`, an operand of `op`, is this device.
    pub(crate) fn expect(&self, op: &str, other: &Device) -> Result<()> {
        if self == other {
            return Ok(());
        }
        let (name, other) = (self.name(), other.name());
        let message = if name == other {
            format!("operands belong to two instances of the device {name}; move them to one")
        } else {
            format!("an operand is on {other}, the others on {name}; move them to one device")
        };
        Err(Error::new(ErrorKind::Device, op, message))
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        std::ptr::eq(&*self.inner, &*other.inner)
    }
}
impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
