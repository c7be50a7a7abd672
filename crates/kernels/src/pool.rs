//! The one thread pool of the process.
//!
//! A call of [`Pool::run`] hands out numbered tasks from a counter to the calling thread and to
//! workers that join while tasks are left. Workers spin for a moment after a job and then park, so
//! a chain of kernels pays no wake-ups and an idle process burns no time. The caller never waits for a
//! worker to wake: one that comes too late finds the job closed.
//!
//! A pool that is busy, whether a task uses it again or another thread holds it, runs the tasks inline:
//! nesting cannot deadlock and threads are never oversubscribed. A child of `fork()` has no workers; it
//! is noticed by its process id and starts anew.
//!
//! A crew recruits whoever has enrolled ([`Pool::enroll`]) and otherwise spawns. In a browser nothing can be spawned
//! from here and there is no clock: the page's workers enrol, and all park at once. Where wasm32 is built without
//! atomics, all runs inline.
//!
//! Kernels must not let results depend on how many workers there are: tasks have a fixed size, and
//! the worker index serves only to pick scratch memory.
//!
//! Under a frame of [`interrupt`](crate::interrupt), a run may end before all tasks have run.

use std::any::Any;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};

use crate::interrupt::Current;

/// True where a second thread can exist.
const HAS_THREADS: bool = cfg!(any(not(target_arch = "wasm32"), target_feature = "atomics"));

/// No machine that this is for has more; bounds a mistyped `LANTHORN_THREADS`.
const MAX_THREADS: usize = 512;

/// A task: called with the task number and the index of the worker, 0 being the caller.
type Task<'a> = &'a (dyn Fn(usize, usize) + Sync + 'a);

/// The thread pool. There is one; see [`pool`].
pub struct Pool {
    /// How many threads take part, the caller included; 0 until first asked.
    threads: AtomicUsize,
    /// The workers of this process; null until the first parallel run and replaced after a fork.
    crew: AtomicPtr<Crew>,
}

/// The pool of this process.
pub fn pool() -> &'static Pool {
    static POOL: Pool = Pool { threads: AtomicUsize::new(0), crew: AtomicPtr::new(ptr::null_mut()) };
    &POOL
}

impl Pool {
    /// How many threads take part in a run, the caller included: what [`Pool::set_threads`] said, else the
    /// environment variable `LANTHORN_THREADS`, else what the machine offers to this process.
    pub fn threads(&self) -> usize {
        match self.threads.load(Ordering::Relaxed) {
            0 => {
                self.set_threads(default_threads());
                self.threads.load(Ordering::Relaxed)
            }
            threads => threads,
        }
    }

    /// Sets how many threads take part from the next run on; at least one.
    pub fn set_threads(&self, threads: usize) {
        let most = if HAS_THREADS { MAX_THREADS } else { 1 };
        self.threads.store(threads.clamp(1, most), Ordering::Relaxed);
    }

    /// Calls `task(number, worker)` once for every number below `tasks`, and returns when all are
    /// done. Workers are numbered below [`Pool::threads`]; the caller is 0. A panic in a task is raised
    /// again here, after the others have stopped; tasks not yet begun are then skipped, as they are when the run is
    /// [interrupted](crate::interrupt).
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let sum = AtomicUsize::new(0);
    /// lanthorn_kernels::pool::pool().run(10, &|task, _worker| {
    ///     sum.fetch_add(task, Ordering::Relaxed);
    /// });
    /// assert_eq!(sum.into_inner(), 45);
    /// ```
    pub fn run(&self, tasks: usize, task: Task<'_>) {
        self.run_on(self.threads(), tasks, task);
    }

    /// As [`Pool::run`] with workers numbered below `threads`, for callers whose scratch memory was
    /// divided among so many.
    pub fn run_on(&self, threads: usize, tasks: usize, task: Task<'_>) {
        let threads = threads.min(tasks).min(MAX_THREADS);
        if threads > 1 && HAS_THREADS && self.crew().try_run(threads, tasks, task) {
            return;
        }
        let current = Current::of_thread();
        for number in 0..tasks {
            if current.is_to_stop() {
                return;
            }
            task(number, 0);
        }
    }

    /// Makes the calling thread a worker until the process ends. A later run that is short of workers takes it
    /// rather than spawn one.
    pub fn enroll(&self) -> ! {
        let crew = self.crew();
        let worker: &'static Worker = Box::leak(Box::new(Worker::new(thread::current(), 0)));
        crew.enrolled.lock().unwrap_or_else(PoisonError::into_inner).push_back(worker);
        crew.work(worker)
    }

    /// The crew of this process, created anew in a forked child.
    fn crew(&self) -> &'static Crew {
        let process = process();
        loop {
            let current = self.crew.load(Ordering::Acquire);
            // SAFETY: a published crew is never freed.
            if let Some(crew) = unsafe { current.as_ref() }
                && crew.process == process
            {
                return crew;
            }
            let fresh = Box::into_raw(Box::new(Crew::new(process)));
            let exchanged = self.crew.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire);
            if exchanged.is_err() {
                // SAFETY: `fresh` came from a box just now and nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}

/// What tells a forked child from its parent. In a browser there is nothing of the kind, and asking panics.
fn process() -> u32 {
    if cfg!(target_arch = "wasm32") { 0 } else { std::process::id() }
}

fn default_threads() -> usize {
    let offered = || thread::available_parallelism().map_or(1, |threads| threads.get());
    // What is no number is told by whoever makes a device, before any thread is asked for.
    threads_of_environment().ok().flatten().unwrap_or_else(offered)
}

/// The variable of the environment that says how many threads take part at first.
pub const THREADS: &str = "LANTHORN_THREADS";

/// What the environment says of the number of threads; nothing where it is empty or absent.
///
/// # Errors
///
/// What was found and what would be right.
pub fn threads_of_environment() -> Result<Option<usize>, String> {
    match std::env::var_os(THREADS) {
        Some(text) => threads_of(&text.to_string_lossy()),
        None => Ok(None),
    }
}

fn threads_of(text: &str) -> Result<Option<usize>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(threads) if (1..=MAX_THREADS).contains(&threads) => Ok(Some(threads)),
        _ => Err(format!("{text:?} is no number of threads; expected 1 to {MAX_THREADS}")),
    }
}

/// A value alone on its cache lines.
#[repr(align(128))]
struct Padded<T>(T);

/// The workers of one process, and the job that they share.
struct Crew {
    process: u32,
    /// Held by the thread whose job runs.
    busy: AtomicBool,
    /// Epoch of the job (high half), [`OPEN`], and how many workers are inside it ([`INSIDE`]).
    state: Padded<AtomicU64>,
    /// The next task number to hand out.
    next: Padded<AtomicUsize>,
    /// Written by the holder of `busy` while the state is closed and nobody is inside; read by those inside.
    job: UnsafeCell<Job>,
    /// Only touched by the holder of `busy`.
    workers: UnsafeCell<Vec<&'static Worker>>,
    /// Threads that offered themselves and have not been recruited.
    enrolled: Mutex<VecDeque<&'static Worker>>,
    /// The caller, while it parks until the last worker has left.
    parked_caller: Mutex<Option<Thread>>,
    /// Whether there is one.
    caller_parked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

const OPEN: u64 = 1 << 16;
const INSIDE: u64 = OPEN - 1;
const EPOCH: u32 = 32;

struct Job {
    /// Valid while the job runs; the lifetime is erased.
    task: *const (dyn Fn(usize, usize) + Sync),
    tasks: usize,
    threads: usize,
    /// The caller's.
    current: Current,
}

struct Worker {
    /// Its number in the crew; 0 until it is recruited, and until then it takes no part.
    index: AtomicUsize,
    parked: AtomicBool,
    thread: Thread,
}

impl Worker {
    fn new(thread: Thread, index: usize) -> Worker {
        Worker { index: AtomicUsize::new(index), parked: AtomicBool::new(false), thread }
    }
}

// SAFETY: `job` and `workers` are guarded as their fields say; everything else is atomic.
unsafe impl Sync for Crew {}

impl Crew {
    fn new(process: u32) -> Crew {
        Crew {
            process,
            busy: AtomicBool::new(false),
            state: Padded(AtomicU64::new(0)),
            next: Padded(AtomicUsize::new(0)),
            job: UnsafeCell::new(Job { task: &|_, _| (), tasks: 0, threads: 0, current: Current::NONE }),
            workers: UnsafeCell::new(Vec::new()),
            enrolled: Mutex::default(),
            parked_caller: Mutex::new(None),
            caller_parked: AtomicBool::new(false),
            panic: Mutex::new(None),
        }
    }

    /// Runs the job in parallel, or returns false if the crew is busy.
    fn try_run(&'static self, threads: usize, tasks: usize, task: Task<'_>) -> bool {
        if self.busy.swap(true, Ordering::Acquire) {
            return false;
        }
        // SAFETY: `busy` is held, so no other thread touches the list.
        let workers = unsafe { &mut *self.workers.get() };
        while workers.len() + 1 < threads {
            match self.recruit(workers.len() + 1) {
                Some(worker) => workers.push(worker),
                // There are no more: those that exist will do.
                None => break,
            }
        }

        // SAFETY: the state is closed and nobody is inside, so nobody reads the job. The lifetime of
        // `task` is erased; it is only called before this function returns, because it waits
        // below until the state is closed and everyone has left.
        unsafe {
            let task = std::mem::transmute::<Task<'_>, Task<'static>>(task);
            *self.job.get() = Job { task, tasks, threads, current: Current::of_thread() };
        }
        self.next.0.store(0, Ordering::Relaxed);
        let epoch = (self.state.0.load(Ordering::Relaxed) >> EPOCH).wrapping_add(1);
        self.state.0.store(epoch << EPOCH | OPEN, Ordering::SeqCst);
        for worker in workers.iter().take(threads - 1) {
            if worker.parked.load(Ordering::SeqCst) && worker.parked.swap(false, Ordering::SeqCst) {
                worker.thread.unpark();
            }
        }

        self.take_part(0);
        self.state.0.fetch_and(!OPEN, Ordering::SeqCst);
        self.wait_until_empty();

        let panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.busy.store(false, Ordering::Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        true
    }

    /// Runs tasks until none is left. The calling thread is the job's caller or is counted inside.
    fn take_part(&self, worker: usize) {
        // SAFETY: the job is not written while its caller is in `try_run` or someone is inside, and
        // its task outlives both.
        let (task, tasks, current) = unsafe {
            let job = &*self.job.get();
            (&*job.task, job.tasks, job.current)
        };
        let _entered = current.enter();
        let result = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let number = self.next.0.fetch_add(1, Ordering::Relaxed);
                if number >= tasks || current.is_to_stop() {
                    return;
                }
                task(number, worker);
            }
        }));
        if let Err(panic) = result {
            self.next.0.store(tasks, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
    }

    /// Waits for the workers inside a closed job.
    fn wait_until_empty(&self) {
        let empty = || self.state.0.load(Ordering::SeqCst) & INSIDE == 0;
        if spin_until(empty) {
            return;
        }
        let parked = || self.parked_caller.lock().unwrap_or_else(PoisonError::into_inner);
        *parked() = Some(thread::current());
        self.caller_parked.store(true, Ordering::SeqCst);
        while !empty() {
            thread::park();
        }
        self.caller_parked.store(false, Ordering::Relaxed);
        *parked() = None;
    }

    /// One more worker, who gets this number.
    fn recruit(&'static self, index: usize) -> Option<&'static Worker> {
        let enrolled = self.enrolled.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(worker) = enrolled {
            worker.index.store(index, Ordering::Relaxed);
            return Some(worker);
        }
        if cfg!(target_arch = "wasm32") { None } else { self.spawn(index) }
    }

    fn spawn(&'static self, index: usize) -> Option<&'static Worker> {
        let name = format!("lanthorn-{index}");
        // The handle is known only after the thread runs, so the thread waits for it.
        let (send, receive) = std::sync::mpsc::channel();
        let handle = thread::Builder::new()
            .name(name)
            .spawn(move || {
                if let Ok(worker) = receive.recv() {
                    self.work(worker);
                }
            })
            .ok()?;
        let worker: &'static Worker = Box::leak(Box::new(Worker::new(handle.thread().clone(), index)));
        send.send(worker).ok()?;
        Some(worker)
    }

    /// The life of a worker.
    fn work(&self, worker: &Worker) -> ! {
        let mut last = 0;
        loop {
            let is_new = |state: u64| state & OPEN != 0 && state >> EPOCH != last;
            if !spin_until(|| is_new(self.state.0.load(Ordering::Relaxed))) {
                // Announce, then look again: the caller publishes, then looks at the announcement.
                worker.parked.store(true, Ordering::SeqCst);
                while !is_new(self.state.0.load(Ordering::SeqCst)) && worker.parked.load(Ordering::SeqCst) {
                    thread::park();
                }
                worker.parked.store(false, Ordering::SeqCst);
            }
            let state = self.state.0.load(Ordering::Relaxed);
            if !is_new(state) {
                continue;
            }
            let entered =
                self.state.0.compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed);
            if entered.is_err() {
                continue;
            }
            last = state >> EPOCH;
            // SAFETY: inside, so the job is not written.
            let threads = unsafe { (*self.job.get()).threads };
            // Set before the job was opened, if it was set for this job.
            let index = worker.index.load(Ordering::Relaxed);
            if (1..threads).contains(&index) {
                self.take_part(index);
            }
            // From here on the job may be gone.
            let before = self.state.0.fetch_sub(1, Ordering::SeqCst);
            if before & (INSIDE | OPEN) == 1 && self.caller_parked.load(Ordering::SeqCst) {
                // The caller of a later job, perhaps: it looks again and parks again.
                let caller = self.parked_caller.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(caller) = caller {
                    caller.unpark();
                }
            }
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod spin {
    use std::time::{Duration, Instant};

    /// How long a thread spins for work, or for the last worker, before it parks.
    pub const SPIN: Duration = Duration::from_micros(80);

    /// Spins until `done`; false if that takes longer than [`SPIN`].
    pub fn spin_until(done: impl Fn() -> bool) -> bool {
        let mut start = None;
        loop {
            for _ in 0..32 {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            // Most waits end before a clock has been read.
            if start.get_or_insert_with(Instant::now).elapsed() > SPIN {
                return false;
            }
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod spin {
    /// Looks once: there is no clock to say how long it has been.
    pub fn spin_until(done: impl Fn() -> bool) -> bool {
        done()
    }
}

use spin::spin_until;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::spin::SPIN;
    use super::*;

    /// How often a test repeats: Miri takes some thousand times as long, and tries many schedules instead.
    const fn rounds(natively: usize) -> usize {
        if cfg!(miri) { natively.div_ceil(1000) } else { natively }
    }

    fn sum_below(tasks: usize) -> usize {
        let (sum, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
        pool().run_on(4, tasks, &|task, worker| {
            assert!(worker < 4);
            sum.fetch_add(task, Ordering::Relaxed);
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.into_inner(), tasks);
        sum.into_inner()
    }

    #[test]
    fn every_task_runs_once() {
        for tasks in [0, 1, 2, 3, 17, 1000] {
            assert_eq!(sum_below(tasks), tasks * tasks.saturating_sub(1) / 2);
        }
    }

    #[test]
    fn a_hundred_thousand_tiny_jobs_finish() {
        let count = AtomicUsize::new(0);
        for _ in 0..rounds(100_000) {
            pool().run_on(2, 3, &|_, _| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(count.into_inner(), 3 * rounds(100_000));
    }

    #[test]
    fn jobs_after_a_pause_wake_parked_workers() {
        for _ in 0..rounds(20) {
            thread::sleep(SPIN * 5);
            // Each task waits for the other, so one thread alone could not finish; a busy pool may
            // run inline, where waiting would be forever, hence the bound.
            let arrived = AtomicUsize::new(0);
            pool().run_on(2, 2, &|_, _| {
                arrived.fetch_add(1, Ordering::SeqCst);
                let start = Instant::now();
                while arrived.load(Ordering::SeqCst) < 2 && start.elapsed() < Duration::from_millis(50) {
                    std::hint::spin_loop();
                }
            });
            assert_eq!(arrived.into_inner(), 2);
        }
    }

    #[test]
    fn threads_that_contend_all_finish() {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds(2_000) {
                        assert_eq!(sum_below(20), 190);
                    }
                });
            }
        });
    }

    #[test]
    fn a_thread_that_enrols_takes_part_as_a_worker() {
        static POOL: Pool = Pool { threads: AtomicUsize::new(3), crew: AtomicPtr::new(ptr::null_mut()) };
        let enrolled = || POOL.crew().enrolled.lock().unwrap().len();
        for _ in 0..2 {
            thread::Builder::new().name("enrolled".into()).spawn(|| POOL.enroll()).unwrap();
        }
        while enrolled() < 2 {
            thread::yield_now();
        }
        let seen = Mutex::new(std::collections::BTreeSet::new());
        for _ in 0..20 {
            // A task waits for the others a while, so that each worker gets one.
            let arrived = AtomicUsize::new(0);
            POOL.run(3, &|_, worker| {
                let name = thread::current().name().map(str::to_string);
                assert_eq!(name.as_deref() == Some("enrolled"), worker > 0);
                seen.lock().unwrap().insert(worker);
                arrived.fetch_add(1, Ordering::SeqCst);
                let start = Instant::now();
                while arrived.load(Ordering::SeqCst) < 3 && start.elapsed() < Duration::from_millis(50) {
                    thread::yield_now();
                }
            });
        }
        assert_eq!(enrolled(), 0);
        assert_eq!(seen.into_inner().unwrap().into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn nested_use_runs_inline() {
        let count = AtomicUsize::new(0);
        pool().run_on(3, 8, &|_, _| {
            let here = thread::current().id();
            pool().run_on(3, 8, &|_, worker| {
                assert_eq!((thread::current().id(), worker), (here, 0));
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(count.into_inner(), 64);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        for culprit in [0, 7, 99] {
            let result = catch_unwind(|| {
                pool().run_on(3, 100, &|task, _| assert_ne!(task, culprit, "the culprit"));
            });
            assert!(result.is_err());
            assert_eq!(sum_below(50), 1225);
        }
    }

    #[test]
    fn a_long_task_lets_the_caller_park() {
        let count = AtomicUsize::new(0);
        pool().run_on(2, 2, &|task, _| {
            if task == 0 {
                thread::sleep(Duration::from_millis(5));
            }
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 2);
    }

    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri cannot fork")]
    #[test]
    fn a_forked_child_gets_workers_of_its_own() {
        unsafe extern "C" {
            fn fork() -> i32;
            fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
            fn _exit(status: i32) -> !;
        }
        assert_eq!(sum_below(20), 190);
        // SAFETY: the child only uses the pool and leaves without running destructors.
        let status = unsafe {
            let child = fork();
            if child == 0 {
                _exit(if sum_below(100) == 4950 { 42 } else { 1 });
            }
            assert!(child > 0);
            let mut status = 0;
            waitpid(child, &mut status, 0);
            status
        };
        assert_eq!((status & 0x7f, status >> 8), (0, 42));
        assert_eq!(sum_below(20), 190);
    }
}
