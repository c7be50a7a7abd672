//! The engine worker's module: messages of a page in, replies out.
//!
//! The border is a handful of exported functions over plain numbers; bytes go through buffers in this module's
//! memory. One thread, the engine's, calls everything but [`lanthorn_enroll`]. In the build with shared memory further
//! workers instantiate the same module over the same memory, take a seat (a stack and thread-local storage that the
//! engine allocated for them) and enrol in the pool.
//!
//! This face must never compute, infer or keep tensors itself: it hands batches to [`lanthorn_remote::Server`].

mod worker;

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr;

use lanthorn_cpu::pool::pool;
use lanthorn_web_shell::{PanicRecord, record_panics};

pub use worker::{Answer, Worker};

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::default());
}

/// Calls `f` with the worker of this thread. Calls do not nest, because nothing here calls back into JavaScript that
/// would call in again.
fn with<R>(f: impl FnOnce(&mut Worker) -> R) -> R {
    WORKER.with_borrow_mut(f)
}

/// Where the message of a panic will be found. To be called first.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_panic_record() -> *const PanicRecord {
    record_panics()
}

/// Starts the engine on a device (0: `cpu`, 1: `gpu`) with so many threads, this one included. Gives 0, or -1 for an
/// error whose text [`lanthorn_error`] gives.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_start(device: u32, threads: u32) -> i32 {
    pool().set_threads(threads as usize);
    with(|worker| worker.start(device))
}

/// Room for a batch of so many bytes; null if there is no memory for it.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_inbox(bytes: usize) -> *mut u8 {
    with(|worker| worker.reserve(bytes)).unwrap_or(ptr::null_mut())
}

/// Carries out the batch that was written into the inbox. Gives 0, or -1 if the batch is not what a page says, after
/// which the worker is of no more use.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_handle() -> i32 {
    with(Worker::handle)
}

/// The next answer to a read, valid until the next call; null if none is there.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_reply() -> *const Answer {
    with(|worker| worker.next_answer().map_or(ptr::null(), ptr::from_ref))
}

/// How many reads wait for their bytes to arrive.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_pending() -> usize {
    with(|worker| worker.pending_reads())
}

/// How many tensors the page holds.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_tensors() -> usize {
    with(|worker| worker.tensors())
}

/// The last error, as an answer without a request.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_error() -> *const Answer {
    with(|worker| ptr::from_ref(worker.error()))
}

/// Memory that is never freed, for the stack or the thread-local storage of a pool worker; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_allocate(bytes: usize, alignment: usize) -> *mut u8 {
    match Layout::from_size_align(bytes.max(1), alignment) {
        // SAFETY: the size is not zero.
        Ok(layout) => unsafe { std::alloc::alloc(layout) },
        Err(_) => ptr::null_mut(),
    }
}

/// Makes the calling thread a worker of the pool. Does not return.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_enroll() {
    pool().enroll()
}
