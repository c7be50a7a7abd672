//! Work away from the event loop.
//!
//! A job carries a program and its arguments, nothing of JavaScript and nothing of a session or a graph, so one thread
//! for each of these runs them in turn while JavaScript goes on. What comes out goes back through Node's queue to the
//! environment's own thread, which hands it to its session or graph and settles the promise.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_runtime::{CancelToken, Device};
use napi_sys as sys;

use crate::face::Face;
use crate::state::{State, fault};
use crate::value::{Env, Value};

/// Work on its way to the thread.
struct Job<F: Face> {
    number: u32,
    work: F::Work,
    cancel: CancelToken,
}

/// Jobs that the thread has not begun; `None` once nobody can add any.
struct Line<F: Face> {
    jobs: Mutex<Option<VecDeque<Job<F>>>>,
    changed: Condvar,
}

impl<F: Face> Line<F> {
    fn new() -> Arc<Line<F>> {
        Arc::new(Line { jobs: Mutex::new(Some(VecDeque::new())), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<Job<F>>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job<F>) -> Result<()> {
        self.lock().as_mut().ok_or_else(stopped)?.push_back(job);
        self.changed.notify_one();
        Ok(())
    }

    /// Takes a job out of the line, if it stands there.
    fn remove(&self, number: u32) -> Option<Job<F>> {
        let mut jobs = self.lock();
        let jobs = jobs.as_mut()?;
        let place = jobs.iter().position(|job| job.number == number)?;
        jobs.remove(place)
    }

    /// Waits for the next job; `None` once the line is closed.
    fn next(&self) -> Option<Job<F>> {
        let mut jobs = self.lock();
        loop {
            if let Some(job) = jobs.as_mut()?.pop_front() {
                return Some(job);
            }
            jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets nobody in any more; gives those who wait.
    fn close(&self) -> VecDeque<Job<F>> {
        let left = self.lock().take();
        self.changed.notify_one();
        left.unwrap_or_default()
    }
}

/// Work on its way back.
struct Done<F: Face> {
    number: u32,
    work: F::Work,
    output: Result<F::Output>,
}

/// What waits for a job in JavaScript.
struct Waiting {
    promise: sys::napi_deferred,
    cancel: CancelToken,
}

/// The jobs of one state.
pub struct Jobs<F: Face> {
    thread: Option<Running<F>>,
    waiting: HashMap<u32, Waiting>,
    last: u32,
}

impl<F: Face> Default for Jobs<F> {
    fn default() -> Self {
        Jobs { thread: None, waiting: HashMap::new(), last: 0 }
    }
}

struct Running<F: Face> {
    line: Arc<Line<F>>,
    thread: JoinHandle<()>,
    queue: Queue,
}

/// Node's queue to the thread of an environment.
#[derive(Clone, Copy)]
struct Queue(sys::napi_threadsafe_function);

// SAFETY: made to be called from any thread. It outlives the thread that calls it, which is joined before Node closes
// the queue.
unsafe impl Send for Queue {}

impl Queue {
    /// Sends what is done to the environment's thread, from any thread.
    fn put<F: Face>(self, done: Done<F>) {
        let done = Box::into_raw(Box::new(done));
        // SAFETY: the queue is open until the job thread has been joined; it takes the job, or else we keep it.
        let status = unsafe {
            sys::napi_call_threadsafe_function(
                self.0,
                done.cast(),
                sys::ThreadsafeFunctionCallMode::nonblocking,
            )
        };
        if status != sys::Status::napi_ok {
            // SAFETY: the box made above, which nobody has taken.
            drop(unsafe { Box::from_raw(done) });
        }
    }
}

impl<F: Face> Job<F> {
    /// The end of a job that was cancelled before it began.
    fn unbegun(self) -> Done<F> {
        let message = "it was cancelled by its caller before it began";
        Done {
            number: self.number,
            work: self.work,
            output: Err(Error::new(ErrorKind::Cancelled, "job", message)),
        }
    }
}

impl<F: Face> Jobs<F> {
    /// Starts a job; gives its number and the promise of its end. `state` is the environment's.
    pub fn start(
        &mut self,
        env: Env,
        state: *mut State<F>,
        device: &Device,
        work: F::Work,
    ) -> Result<(u32, Value)> {
        if self.thread.is_none() {
            self.thread = Some(Running::start(env, state, device.clone())?);
        }
        let Some(running) = &self.thread else { return Err(stopped()) };
        let (mut promise, mut value) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: writes the promise and what settles it.
        if unsafe { sys::napi_create_promise(env.raw(), &mut promise, &mut value) } != sys::Status::napi_ok {
            return Err(Error::new(ErrorKind::Execute, "node", "Node makes no promise"));
        }
        self.last = self.last.wrapping_add(1);
        let number = self.last;
        let cancel = CancelToken::new();
        let job = Job { number, work, cancel: cancel.clone() };
        running.line.push(job)?;
        if self.waiting.is_empty() {
            // SAFETY: on the environment's thread. Work in flight keeps the process alive.
            unsafe { sys::napi_ref_threadsafe_function(env.raw(), running.queue.0) };
        }
        self.waiting.insert(number, Waiting { promise, cancel });
        Ok((number, value))
    }

    /// True if no promise waits for a job.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Asks a job to stop. One that has ended is left alone, and one that has not begun does not wait for those before it.
    pub fn cancel(&self, number: f64) {
        let Some((number, waiting)) = self.waiting.iter().find(|(known, _)| f64::from(**known) == number)
        else {
            return;
        };
        waiting.cancel.cancel();
        if let Some(running) = &self.thread
            && let Some(job) = running.line.remove(*number)
        {
            running.queue.put(job.unbegun());
        }
    }

    fn take(&mut self, env: Env, number: u32) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        if let (true, Some(running)) = (self.waiting.is_empty(), &self.thread) {
            // SAFETY: on the environment's thread. Without work the queue keeps no process alive.
            unsafe { sys::napi_unref_threadsafe_function(env.raw(), running.queue.0) };
        }
        Some(waiting)
    }

    /// Stops all jobs, waits for the thread and gives up the queue: for a session that is closed. Promises of jobs are
    /// still settled.
    pub fn close(&mut self, env: Env) {
        let queue = self.thread.as_ref().map(|running| running.queue);
        self.stop();
        if let Some(queue) = queue {
            // SAFETY: nobody sends any more. What is in the queue still comes out of it.
            unsafe {
                sys::napi_ref_threadsafe_function(env.raw(), queue.0);
                sys::napi_release_threadsafe_function(queue.0, sys::ThreadsafeFunctionReleaseMode::release);
            }
        }
    }

    /// Stops all jobs and waits for the thread: for an environment that ends.
    fn stop(&mut self) {
        for waiting in self.waiting.values() {
            waiting.cancel.cancel();
        }
        if let Some(Running { line, thread, queue }) = self.thread.take() {
            line.close().into_iter().for_each(|job| queue.put(job.unbegun()));
            // A panic of the thread has been caught where it happened.
            drop(thread.join());
        }
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Closed, "job", "the environment ends; no work is taken any more")
}

impl<F: Face> Running<F> {
    fn start(env: Env, state: *mut State<F>, device: Device) -> Result<Running<F>> {
        let name = env.text("lanthorn");
        let mut queue = ptr::null_mut();
        // SAFETY: without a function of JavaScript, `settle` takes what comes; it is given the environment's state.
        let status = unsafe {
            sys::napi_create_threadsafe_function(
                env.raw(),
                ptr::null_mut(),
                ptr::null_mut(),
                name,
                0,
                1,
                ptr::null_mut(),
                None,
                state.cast(),
                Some(settle::<F>),
                &mut queue,
            )
        };
        if status != sys::Status::napi_ok {
            return Err(Error::new(ErrorKind::Execute, "node", "Node gives no queue between threads"));
        }
        let queue = Queue(queue);
        let line = Line::new();
        let thread = std::thread::Builder::new().name("lanthorn".into());
        let taken = line.clone();
        let thread = thread.spawn(move || run(&taken, &device, queue));
        let thread = thread.map_err(|error| {
            Error::new(ErrorKind::Execute, "node", format!("the system gives no thread: {error}"))
        })?;
        // SAFETY: added after the queue, so it runs before Node closes that; the state outlives both.
        unsafe {
            sys::napi_unref_threadsafe_function(env.raw(), queue.0);
            sys::napi_add_env_cleanup_hook(env.raw(), Some(end::<F>), state.cast());
        }
        Ok(Running { line, thread, queue })
    }
}

/// The thread: runs jobs until nobody can add any.
fn run<F: Face>(line: &Line<F>, device: &Device, queue: Queue) {
    while let Some(Job { number, mut work, cancel }) = line.next() {
        let ran = catch_unwind(AssertUnwindSafe(|| F::run(&mut work, device, &cancel)));
        let output = ran.unwrap_or_else(|panic| Err(fault("job", &*panic)));
        queue.put(Done::<F> { number, work, output });
    }
}

/// Takes a job on the environment's thread.
unsafe extern "C" fn settle<F: Face>(env: sys::napi_env, _: Value, state: *mut c_void, done: *mut c_void) {
    // SAFETY: the box that `run` has sent, once.
    let done = unsafe { Box::from_raw(done.cast::<Done<F>>()) };
    if env.is_null() {
        // The environment ends: there is nobody to tell.
        return;
    }
    // SAFETY: the environment's callback, and its state, which lives as long.
    let (env, state) = unsafe { (Env::new(env), &*state.cast::<State<F>>()) };
    let Done { number, work, output } = *done;
    let Some(Some((waiting, outcome))) = state.with(|state| {
        let waiting = state.jobs.take(env, number)?;
        let finished =
            catch_unwind(AssertUnwindSafe(|| state.raw.finish(env, work, output, &waiting.cancel)));
        state.close_if_abandoned(env);
        Some((waiting, finished.unwrap_or_else(|panic| Err(fault("job", &*panic)))))
    }) else {
        return;
    };
    match outcome {
        // SAFETY: the promise is settled once, by a value of this callback.
        Ok(value) => unsafe { sys::napi_resolve_deferred(env.raw(), waiting.promise, value) },
        Err(error) => {
            let text = env.text(&error.to_lines());
            // SAFETY: see above.
            unsafe { sys::napi_reject_deferred(env.raw(), waiting.promise, text) }
        }
    };
}

/// Ends the work of an environment that ends.
unsafe extern "C" fn end<F: Face>(state: *mut c_void) {
    // SAFETY: the environment's state, which is dropped after its hooks have run.
    let state = unsafe { &*state.cast::<State<F>>() };
    state.with(|state| state.jobs.stop());
}
