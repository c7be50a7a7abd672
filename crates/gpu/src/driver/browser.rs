//! The driver of a browser: functions that the page's script imports into the module, over WebGPU.
//!
//! `bindings/web/src/gpu-driver.js` is the other half. Objects stay there and numbers, chosen here, cross. Calls are
//! made from the one worker to which the device belongs. Nothing waits: a read is a ticket whose bytes the script
//! writes into this module's memory before it calls [`lanthorn_gpu_arrived`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lanthorn_compiler::backend::Readback;
use lanthorn_ir::{Error, ErrorKind, Result};

use super::{Access, BufferId, Dispatch, Driver, Limits, PipelineId};

// Every function but `gpu_limits` and `gpu_error` gives 0, or 1 for an error whose text `gpu_error` then gives.
#[link(wasm_import_module = "lanthorn_gpu")]
unsafe extern "C" {
    /// Writes storage buffers of a pipeline, bytes of a binding, bytes of a buffer, workgroups along an axis; 0
    /// where there is no device.
    fn gpu_limits(out: *mut f64) -> u32;
    /// Copies the last error, as UTF-8, and gives its length.
    fn gpu_error(to: *mut u8, capacity: usize) -> usize;
    safe fn gpu_create_buffer(id: u32, bytes: f64) -> u32;
    safe fn gpu_destroy_buffer(id: u32);
    fn gpu_write(id: u32, offset: f64, from: *const u8, bytes: usize) -> u32;
    /// `storage` has one byte for each storage buffer: 1 where it is written.
    fn gpu_create_pipeline(id: u32, text: *const u8, bytes: usize, storage: *const u8, count: usize) -> u32;
    /// For each dispatch: pipeline, workgroups along x and y, number of bindings; for each of these: buffer, offset,
    /// bytes.
    fn gpu_submit(words: *const u32, count: usize) -> u32;
    /// Begins a read; `to` stays valid until `lanthorn_gpu_arrived` is called with the ticket.
    fn gpu_read(ticket: u32, buffer: u32, offset: f64, to: *mut u8, bytes: usize) -> u32;
}

/// The device of the worker that this module runs in.
pub struct Browser {
    limits: Limits,
    next: AtomicU32,
}

/// What tickets wait for, by number.
static TICKETS: Mutex<Option<HashMap<u32, Ticket>>> = Mutex::new(None);
static NEXT_TICKET: AtomicU32 = AtomicU32::new(1);

struct Ticket {
    /// Where the script writes; never grown, so it stays where it is.
    bytes: Vec<u8>,
    state: State,
}

enum State {
    Pending,
    /// Nobody asks any more, but the script still writes.
    Abandoned,
    Arrived,
    Failed(String),
}

fn tickets() -> MutexGuard<'static, Option<HashMap<u32, Ticket>>> {
    TICKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called by the script when a read has ended: its bytes are written if `ok` is 1.
#[unsafe(no_mangle)]
pub extern "C" fn lanthorn_gpu_arrived(ticket: u32, ok: u32) {
    let mut tickets = tickets();
    let Some(tickets) = tickets.as_mut() else { return };
    if matches!(tickets.get(&ticket), Some(Ticket { state: State::Abandoned, .. })) {
        tickets.remove(&ticket);
    } else if let Some(waiting) = tickets.get_mut(&ticket) {
        waiting.state = if ok == 1 { State::Arrived } else { State::Failed(last_error()) };
    }
}

fn last_error() -> String {
    let mut text = vec![0; 4096];
    // SAFETY: the script writes at most as many bytes as the vector has.
    let length = unsafe { gpu_error(text.as_mut_ptr(), text.len()) };
    text.truncate(length);
    String::from_utf8_lossy(&text).into_owned()
}

fn checked(op: &str, status: u32) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(Error::new(ErrorKind::Execute, op, last_error())) }
}

impl Browser {
    /// The device that the script has opened before it made this module.
    ///
    /// Errors: [`ErrorKind::Device`] if the browser has none.
    pub fn open() -> Result<Browser> {
        let mut found = [0f64; 4];
        // SAFETY: the script writes four numbers.
        if unsafe { gpu_limits(found.as_mut_ptr()) } == 0 {
            return Err(Error::new(
                ErrorKind::Device,
                "gpu",
                "this browser has no WebGPU device; use the cpu",
            ));
        }
        let [storage_buffers, binding_bytes, buffer_bytes, workgroups] = found;
        let limits = Limits {
            storage_buffers: storage_buffers as u32,
            // Ranges are counted in 32 bits.
            binding_bytes: (binding_bytes as u64).min(u64::from(u32::MAX) & !3),
            buffer_bytes: buffer_bytes as u64,
            workgroups: workgroups as u32,
            can_wait: false,
        };
        Ok(Browser { limits, next: AtomicU32::new(1) })
    }

    fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

impl Driver for Browser {
    fn describe(&self) -> String {
        "the browser's WebGPU device".to_string()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn create_buffer(&self, bytes: u64) -> Result<BufferId> {
        let id = self.number();
        checked("allocate", gpu_create_buffer(id, bytes as f64))?;
        Ok(BufferId(id))
    }

    fn destroy_buffer(&self, buffer: BufferId) {
        gpu_destroy_buffer(buffer.0);
    }

    fn write(&self, buffer: BufferId, offset: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: the script reads the bytes of the slice before it returns.
        checked("write", unsafe { gpu_write(buffer.0, offset as f64, bytes.as_ptr(), bytes.len()) })
    }

    fn create_pipeline(&self, text: &str, storage: &[Access]) -> Result<PipelineId> {
        let id = self.number();
        let storage: Vec<u8> = storage.iter().map(|access| u8::from(*access == Access::ReadWrite)).collect();
        // SAFETY: the script reads the text and the list before it returns.
        let status =
            unsafe { gpu_create_pipeline(id, text.as_ptr(), text.len(), storage.as_ptr(), storage.len()) };
        checked("pipeline", status)?;
        Ok(PipelineId(id))
    }

    fn submit(&self, dispatches: &[Dispatch]) -> Result<()> {
        let mut words = Vec::with_capacity(dispatches.len() * 16);
        for dispatch in dispatches {
            let [x, y] = dispatch.workgroups;
            words.extend([dispatch.pipeline.0, x, y, dispatch.bindings.len() as u32]);
            for range in &dispatch.bindings {
                words.extend([range.buffer.0, range.offset, range.bytes]);
            }
        }
        // SAFETY: the script reads the words before it returns.
        checked("submit", unsafe { gpu_submit(words.as_ptr(), words.len()) })
    }

    fn read(&self, buffer: BufferId, offset: u64, bytes: usize) -> Result<Box<dyn Readback>> {
        let ticket = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
        let mut target = vec![0; bytes];
        let to = target.as_mut_ptr();
        tickets()
            .get_or_insert_with(HashMap::new)
            .insert(ticket, Ticket { bytes: target, state: State::Pending });
        // SAFETY: the vector lies in the table, unmoved and unread, until the script says that it has written.
        let status = unsafe { gpu_read(ticket, buffer.0, offset as f64, to, bytes) };
        if let Err(error) = checked("read", status) {
            take(ticket);
            return Err(error);
        }
        Ok(Box::new(Waiting { ticket }))
    }
}

fn take(ticket: u32) -> Option<Ticket> {
    tickets().as_mut().and_then(|tickets| tickets.remove(&ticket))
}

/// A read under way.
struct Waiting {
    ticket: u32,
}

impl Readback for Waiting {
    fn poll(&mut self) -> Result<Option<Vec<u8>>> {
        let fail = |message: &str| Err(Error::new(ErrorKind::Transfer, "read", message));
        let is_pending = match tickets().as_ref().and_then(|tickets| tickets.get(&self.ticket)) {
            Some(ticket) => matches!(ticket.state, State::Pending),
            None => return fail("the bytes of this read have been taken already"),
        };
        if is_pending {
            return Ok(None);
        }
        match take(self.ticket) {
            Some(Ticket { bytes, state: State::Arrived }) => Ok(Some(bytes)),
            Some(Ticket { state: State::Failed(message), .. }) => fail(&message),
            _ => fail("the read was given up"),
        }
    }

    fn wait(mut self: Box<Self>) -> Result<Vec<u8>> {
        self.poll()?.ok_or_else(|| {
            Error::new(
                ErrorKind::Transfer,
                "read",
                "a browser's worker cannot wait for its device; poll the read",
            )
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut tickets = tickets();
        let Some(tickets) = tickets.as_mut() else { return };
        match tickets.get_mut(&self.ticket) {
            Some(ticket) if matches!(ticket.state, State::Pending) => ticket.state = State::Abandoned,
            Some(_) => {
                tickets.remove(&self.ticket);
            }
            None => {}
        }
    }
}
