//! The page's module: the raw calls of `docs/faces.md`, over an engine that is a worker.
//!
//! It needs nothing from its surroundings, so it has no imports. The main thread calls in; what is to be computed
//! gathers as messages, which the loader takes and posts. Nothing here waits, holds elements, or knows what an op is:
//! that is [`lanthorn_session::raw`].
//!
//! A call gives a negative number for an error, and [`lanthorn_error`] then gives its text.

use std::cell::RefCell;

use lanthorn_ir::Result;
use lanthorn_remote::RemoteEngine;
use lanthorn_session::raw::{CAPTURE_STATS, Raw, SCRATCH, STATS, fingerprint};
use lanthorn_web_shell::{Inbox, PanicRecord, error_text, record_panics};

/// All that the page has.
struct Page {
    engine: RemoteEngine,
    raw: Raw<RemoteEngine>,
    scratch: Box<[f64]>,
    inbox: Inbox,
    /// What the last text was.
    text: Vec<u8>,
    /// The messages that were taken last.
    batch: Vec<u8>,
}

impl Page {
    fn new() -> Page {
        let engine = RemoteEngine::new();
        Page {
            raw: Raw::new(engine.clone()),
            engine,
            scratch: vec![0.0; SCRATCH].into(),
            inbox: Inbox::default(),
            text: Vec::new(),
            batch: Vec::new(),
        }
    }

    fn call(&mut self, f: impl FnOnce(&mut Raw<RemoteEngine>, &mut [f64]) -> Result<f64>) -> f64 {
        let result = f(&mut self.raw, &mut self.scratch);
        self.raw.number(result)
    }

    fn show(&mut self, text: Vec<u8>) -> *const u8 {
        self.text = text;
        self.text.as_ptr()
    }
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::new(Page::new());
}

fn with<R>(f: impl FnOnce(&mut Page) -> R) -> R {
    PAGE.with_borrow_mut(f)
}

/// Exports raw calls: those that take numbers only, and those that also read or write scratch.
macro_rules! raw_calls {
    ($($(#[$doc:meta])* $name:ident = $call:ident($([$scratch:ident])? $($argument:ident),*);)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: f64),*) -> f64 {
                with(|page| page.call(|raw, _scratch| raw_calls!(@call raw _scratch $call ($($scratch)?) $($argument),*)))
            }
        )*
    };
    (@call $raw:ident $all:ident $call:ident () $($argument:ident),*) => { $raw.$call($($argument),*) };
    (@call $raw:ident $all:ident $call:ident (scratch) $($argument:ident),*) => { $raw.$call($all, $($argument),*) };
}

raw_calls! {
    /// See [`Raw::op`].
    lanthorn_op = op([scratch] id);
    /// See [`Raw::assign`].
    lanthorn_assign = assign([scratch] target, id);
    /// See [`Raw::copy`].
    lanthorn_copy = copy(target, source);
    /// See [`Raw::random`].
    lanthorn_random = random([scratch] kind, dtype, a, b);
    /// See [`Raw::backward`].
    lanthorn_backward = backward(loss, seed);
    /// See [`Raw::grad`].
    lanthorn_grad = grad(tensor);
    /// See [`Raw::set_grad`].
    lanthorn_set_grad = set_grad(tensor, gradient);
    /// See [`Raw::requires_grad`].
    lanthorn_requires_grad = requires_grad(tensor, on);
    /// See [`Raw::detach`].
    lanthorn_detach = detach(tensor);
    /// See [`Raw::no_grad`].
    lanthorn_no_grad = no_grad(change);
    /// See [`Raw::describe`].
    lanthorn_describe = describe([scratch] tensor);
    /// See [`Raw::seed`].
    lanthorn_seed = seed(seed);
    /// See [`Raw::release`].
    lanthorn_release = release(tensor);
    /// See [`Raw::stats`].
    lanthorn_stats = stats([scratch]);
    /// See [`Raw::commit`].
    lanthorn_commit = commit([scratch]);
    /// See [`Raw::can_run`].
    lanthorn_can_run = can_run([scratch] id, dtype);
    /// See [`Raw::capture_begin`].
    lanthorn_capture_begin = capture_begin([scratch] purpose);
    /// See [`Raw::capture_end`].
    lanthorn_capture_end = capture_end([scratch] is_final);
    /// See [`Raw::capture_abort`].
    lanthorn_capture_abort = capture_abort();
    /// See [`Raw::call`].
    lanthorn_capture_call = call([scratch] captured);
    /// See [`Raw::capture_stats`].
    lanthorn_capture_stats = capture_stats([scratch] captured);
    /// See [`Raw::capture_release`].
    lanthorn_capture_release = capture_release(captured);
}

/// Where the message of a panic will be found. To be called first.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_panic_record() -> *const PanicRecord {
    record_panics()
}

/// Tells the op table of which this module was built from others, see [`fingerprint`].
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_fingerprint() -> u32 {
    fingerprint()
}

/// The scratch array, of [`SCRATCH`] numbers.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_scratch() -> *mut f64 {
    with(|page| page.scratch.as_mut_ptr())
}

/// Room for the elements of a new tensor; null if there is no memory for them.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_inbox(bytes: usize) -> *mut u8 {
    with(|page| page.inbox.reserve(bytes)).unwrap_or(std::ptr::null_mut())
}

/// See [`Raw::create`]; the bytes are those of the inbox.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_create(dtype: f64, flags: f64) -> f64 {
    with(|page| {
        let bytes = page.inbox.take();
        let handle = page.call(|raw, scratch| raw.create(scratch, dtype, flags, &bytes));
        page.inbox.give_back(bytes);
        handle
    })
}

/// Commits and asks the worker for the elements; gives the number that its answer will carry.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_read(tensor: f64) -> f64 {
    with(|page| {
        let engine = page.engine.clone();
        page.call(|raw, _| Ok(f64::from(engine.request(&raw.read(tensor)?.1)?)))
    })
}

/// How many bytes of messages have gathered.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_batch_bytes() -> usize {
    with(|page| page.engine.batch_bytes())
}

/// Takes the messages that have gathered. They stay where they are until the next call of this kind.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_batch() -> *const u8 {
    with(|page| {
        page.batch = page.engine.take_batch();
        page.batch.as_ptr()
    })
}

/// The text of the last error, of [`lanthorn_text_bytes`] bytes: kind, op and message on a line each.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_error() -> *const u8 {
    with(|page| {
        let text = page.raw.error().map(error_text).unwrap_or_default();
        page.show(text)
    })
}

/// The names of the counters that `stats` gives, a line each, of [`lanthorn_text_bytes`] bytes.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_counters() -> *const u8 {
    with(|page| page.show(STATS.join("\n").into_bytes()))
}

/// The names of the counters that `lanthorn_capture_stats` gives, as [`lanthorn_counters`].
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_capture_counters() -> *const u8 {
    with(|page| page.show(CAPTURE_STATS.join("\n").into_bytes()))
}

/// The length of the text that was asked for last.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_text_bytes() -> usize {
    with(|page| page.text.len())
}
