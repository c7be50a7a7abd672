//! Threads for tokenizers: a few for all environments, that take what comes next, and one more for each training.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use lanthorn_ir::{Error, ErrorKind, Result};

/// Work that does not panic.
pub type Run = Box<dyn FnOnce() + Send>;

/// More threads than these gain nothing: what is long is itself shared among the threads of the library.
const MOST: usize = 8;

/// How many runs wait or are made at a time is for the callers to say, so the channel has no bound.
static WORK: LazyLock<Sender<Run>> = LazyLock::new(|| {
    let (sender, receiver) = channel::<Run>();
    let receiver = Arc::new(Mutex::new(receiver));
    // Two at least, so that one long text does not keep the others waiting.
    let count = thread::available_parallelism().map_or(2, |count| count.get().clamp(2, MOST));
    for _ in 0..count {
        let receiver = receiver.clone();
        // Where the system gives fewer threads there are fewer.
        drop(thread::Builder::new().name("lanthorn-tokenizer".into()).spawn(move || serve(&receiver)));
    }
    sender
});

/// Takes runs for as long as the process lives. Threads that wait keep no process alive.
fn serve(receiver: &Mutex<Receiver<Run>>) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(run) => run(),
            Err(_) => return,
        }
    }
}

/// Has `run` made by one of the threads.
pub fn queue(run: Run) -> Result<()> {
    // Without a receiver there is no thread.
    WORK.send(run).map_err(|_| no_thread("it gives none"))
}

/// Has `run` made by a thread of its own.
pub fn start(run: Run) -> Result<()> {
    let started = thread::Builder::new().name("lanthorn-training".into()).spawn(run);
    started.map(drop).map_err(|error| no_thread(&error.to_string()))
}

fn no_thread(reason: &str) -> Error {
    Error::new(ErrorKind::Execute, "node", format!("the system gives no thread for a tokenizer: {reason}"))
}
