//! What one environment waits for: promises of work that other threads do, and what they report meanwhile.
//!
//! Threads are not joined when an environment ends: a vocabulary is learnt without interruption. They are asked to stop,
//! and from then on their answers go nowhere, as [`Line`] sees to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_ir::{Error, ErrorKind, Result};
use napi_sys as sys;

use super::pool;
use super::work::{Answer, Job, Task};
use crate::state::fault;
use crate::value::{Env, Value};

/// What an environment waits for. Its address is what callbacks are given.
#[derive(Default)]
pub struct Desk {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    line: Option<Arc<Line>>,
    waiting: HashMap<u32, Waiting>,
    last: u32,
}

/// What waits for a job in JavaScript.
struct Waiting {
    promise: sys::napi_deferred,
    cancelled: Arc<AtomicBool>,
    /// The function that is told of its progress.
    report: Option<sys::napi_ref>,
}

/// What a thread tells an environment of a job.
struct Message {
    job: u32,
    news: News,
}

enum News {
    Progress(u64, u64),
    Ended(Result<Answer>),
}

/// Node's queue to the thread of an environment, for as long as there is one.
struct Line(Mutex<Option<Queue>>);

struct Queue(sys::napi_threadsafe_function);

// SAFETY: made to be called from any thread. `Line` lets nobody call it once Node is about to close it.
unsafe impl Send for Queue {}

impl Line {
    fn send(&self, job: u32, news: News) {
        let queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = &*queue else { return };
        let message = Box::into_raw(Box::new(Message { job, news }));
        let mode = sys::ThreadsafeFunctionCallMode::nonblocking;
        // SAFETY: the queue is open while the lock is held; it takes the message, or else we keep it.
        let status = unsafe { sys::napi_call_threadsafe_function(queue.0, message.cast(), mode) };
        if status != sys::Status::napi_ok {
            // SAFETY: the box made above, which nobody has taken.
            drop(unsafe { Box::from_raw(message) });
        }
    }

    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Desk {
    /// A desk that lives until the environment ends.
    pub fn install(env: Env) -> Result<*mut Desk> {
        unsafe extern "C" fn release(desk: *mut c_void) {
            // SAFETY: the box that `install` has given away; the environment runs no callback any more.
            drop(unsafe { Box::from_raw(desk.cast::<Desk>()) });
        }
        let desk = Box::into_raw(Box::<Desk>::default());
        // SAFETY: hooks run in reverse, so that `end` comes before this one.
        let status = unsafe { sys::napi_add_env_cleanup_hook(env.raw(), Some(release), desk.cast()) };
        if status != sys::Status::napi_ok {
            // SAFETY: Node has not taken it.
            drop(unsafe { Box::from_raw(desk) });
            return Err(refused("takes no hook for tokenizers"));
        }
        Ok(desk)
    }

    /// Works on what changes. An error inside of such work, which nothing in this module does.
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> Result<T> {
        let inner = self.inner.try_borrow_mut();
        inner.map(|mut inner| work(&mut inner)).map_err(|_| refused("calls back while it is called"))
    }

    /// The number of a job to come.
    pub fn number(&self) -> Result<u32> {
        self.with(|inner| {
            inner.last = inner.last.wrapping_add(1);
            inner.last
        })
    }

    /// Asks a job to stop. One that has ended is left alone.
    pub fn cancel(&self, job: u32) -> Result<()> {
        self.with(|inner| {
            if let Some(waiting) = inner.waiting.get(&job) {
                waiting.cancelled.store(true, Ordering::Relaxed);
            }
        })
    }
}

/// Starts a task as the job of that number; gives the promise of its answer. `report` is a function that is told of its
/// progress.
///
/// # Safety
///
/// `desk` is the environment's, on its thread.
pub unsafe fn start(desk: *mut Desk, env: Env, job: u32, task: Task, report: Option<Value>) -> Result<Value> {
    // SAFETY: the desk lives as long as the environment.
    let shared = unsafe { &*desk };
    let known = shared.with(|inner| (inner.line.clone(), inner.waiting.contains_key(&job)))?;
    let line = match known {
        (_, true) => return Err(refused("has such a job already")),
        (Some(line), _) => line,
        // SAFETY: as the caller says.
        (None, _) => unsafe { open(desk, env)? },
    };

    let (mut promise, mut value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: writes the promise and what settles it.
    if unsafe { sys::napi_create_promise(env.raw(), &mut promise, &mut value) } != sys::Status::napi_ok {
        return Err(refused("makes no promise"));
    }
    let report = match report {
        None => None,
        Some(function) => {
            let mut reference = ptr::null_mut();
            // SAFETY: a value of this callback. Whoever takes the job from the desk deletes the reference.
            let status = unsafe { sys::napi_create_reference(env.raw(), function, 1, &mut reference) };
            if status != sys::Status::napi_ok {
                return Err(refused("keeps no reference to what is told of the progress"));
            }
            Some(reference)
        }
    };
    let cancelled = Arc::new(AtomicBool::new(false));
    let is_first = shared.with(|inner| {
        inner.waiting.insert(job, Waiting { promise, cancelled: cancelled.clone(), report });
        inner.waiting.len() == 1
    })?;
    if is_first {
        keep_alive(env, &line, true);
    }
    let is_long = task.is_long();
    let run: pool::Run = Box::new(move || {
        let told = line.clone();
        let report = move |bytes, total| told.send(job, News::Progress(bytes, total));
        let context = Job { cancelled: &cancelled, report: &report };
        let ran = catch_unwind(AssertUnwindSafe(|| task.run(&context)));
        line.send(job, News::Ended(ran.unwrap_or_else(|panic| Err(fault("tokenizer", &*panic)))));
    });
    let started = if is_long { pool::start(run) } else { pool::queue(run) };
    if let Err(error) = started {
        settle(shared, env, job, Err(error));
    }
    Ok(value)
}

/// Opens the queue through which threads answer.
///
/// # Safety
///
/// As [`start`].
unsafe fn open(desk: *mut Desk, env: Env) -> Result<Arc<Line>> {
    let name = env.text("lanthorn tokenizers");
    let mut queue = ptr::null_mut();
    // SAFETY: without a function of JavaScript, `receive` takes what comes; it is given the desk.
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
            desk.cast(),
            Some(receive),
            &mut queue,
        )
    };
    if status != sys::Status::napi_ok {
        return Err(refused("gives no queue between threads"));
    }
    // SAFETY: added after the queue, so that it runs before Node closes that; the desk outlives both. Without work the
    // queue keeps no process alive.
    unsafe {
        sys::napi_unref_threadsafe_function(env.raw(), queue);
        sys::napi_add_env_cleanup_hook(env.raw(), Some(end), desk.cast());
    }
    let line = Arc::new(Line(Mutex::new(Some(Queue(queue)))));
    // SAFETY: the desk lives as long as the environment.
    unsafe { &*desk }.with(|inner| inner.line = Some(line.clone()))?;
    Ok(line)
}

/// Whether the queue keeps the process alive.
fn keep_alive(env: Env, line: &Line, is_kept: bool) {
    let queue = line.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(queue) = &*queue {
        // SAFETY: on the environment's thread.
        match is_kept {
            true => unsafe { sys::napi_ref_threadsafe_function(env.raw(), queue.0) },
            false => unsafe { sys::napi_unref_threadsafe_function(env.raw(), queue.0) },
        };
    }
}

/// Asks all work of an environment that ends to stop, and closes the line.
unsafe extern "C" fn end(desk: *mut c_void) {
    // SAFETY: the environment's desk, which is dropped after its hooks have run.
    let desk = unsafe { &*desk.cast::<Desk>() };
    // Nothing else runs on this thread.
    let _ = desk.with(|inner| {
        if let Some(line) = inner.line.take() {
            line.close();
        }
        for waiting in inner.waiting.values() {
            waiting.cancelled.store(true, Ordering::Relaxed);
        }
    });
}

/// Takes a message on the environment's thread.
unsafe extern "C" fn receive(env: sys::napi_env, _: Value, desk: *mut c_void, message: *mut c_void) {
    // SAFETY: the box that `Line::send` has sent, once.
    let Message { job, news } = *unsafe { Box::from_raw(message.cast::<Message>()) };
    if env.is_null() {
        // The environment ends: there is nobody to tell.
        return;
    }
    // SAFETY: the environment's callback, and its desk, which lives as long.
    let (env, desk) = unsafe { (Env::new(env), &*desk.cast::<Desk>()) };
    match news {
        News::Progress(bytes, total) => tell(desk, env, job, [bytes as f64, total as f64]),
        News::Ended(answer) => settle(desk, env, job, answer),
    }
}

/// Calls the function that is told of a job's progress. The desk is free while it runs.
fn tell(desk: &Desk, env: Env, job: u32, numbers: [f64; 2]) {
    let report = desk.with(|inner| {
        let waiting = inner.waiting.get(&job)?;
        waiting.report.filter(|_| !waiting.cancelled.load(Ordering::Relaxed))
    });
    let Ok(Some(report)) = report else { return };
    let numbers = numbers.map(|number| env.number(number));
    let (mut function, mut this, mut result) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: values of this callback; the reference is held until the job is settled. What the function throws goes on
    // to Node, as from any callback.
    unsafe {
        sys::napi_get_reference_value(env.raw(), report, &mut function);
        sys::napi_get_undefined(env.raw(), &mut this);
        sys::napi_call_function(env.raw(), this, function, numbers.len(), numbers.as_ptr(), &mut result);
    }
}

/// Settles the promise of a job.
fn settle(desk: &Desk, env: Env, job: u32, answer: Result<Answer>) {
    let taken = desk.with(|inner| {
        let waiting = inner.waiting.remove(&job)?;
        Some((waiting, inner.line.clone().filter(|_| inner.waiting.is_empty())))
    });
    let Ok(Some((waiting, idle))) = taken else { return };
    if let Some(line) = idle {
        keep_alive(env, &line, false);
    }
    if let Some(report) = waiting.report {
        // SAFETY: made by `start`; deleted once.
        unsafe { sys::napi_delete_reference(env.raw(), report) };
    }
    match answer.and_then(|answer| super::value_of(env, answer)) {
        // SAFETY: the promise is settled once, by a value of this callback.
        Ok(value) => unsafe { sys::napi_resolve_deferred(env.raw(), waiting.promise, value) },
        Err(error) => {
            let text = env.text(&error.to_lines());
            // SAFETY: see above.
            unsafe { sys::napi_reject_deferred(env.raw(), waiting.promise, text) }
        }
    };
}

fn refused(what: &str) -> Error {
    Error::new(ErrorKind::Execute, "node", format!("Node {what}"))
}
