//! What both modules of the browser need at their border.
//!
//! A module of wasm32 is built to abort on a panic: the instance stops in the middle of a call and must not be used
//! again. Its message survives in a record in memory, which the loader reads to say why.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use lanthorn_ir::Error;

/// An error as text for JavaScript: kind, op and message on a line each.
pub fn error_text(error: &Error) -> Vec<u8> {
    error.to_lines().into_bytes()
}

/// The longest message that is kept; the rest is cut off.
const CAPACITY: usize = 2040;

/// The first panic of the module, of whichever thread.
///
/// The loader knows the form: the length as a little-endian `u32`, then the text. A length of 0 means that nothing
/// has happened.
#[repr(C)]
pub struct PanicRecord {
    bytes: u32,
    text: [u8; CAPACITY],
}

static TAKEN: AtomicBool = AtomicBool::new(false);
static mut RECORD: PanicRecord = PanicRecord { bytes: 0, text: [0; CAPACITY] };

/// Lets panics of all threads be recorded, and gives the address of the record.
pub fn record_panics() -> *const PanicRecord {
    std::panic::set_hook(Box::new(|panic| {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return;
        }
        let record: *mut PanicRecord = &raw mut RECORD;
        // SAFETY: only the one thread that found the flag clear comes here, once.
        let record = unsafe { &mut *record };
        let mut text = Text { record, length: 0 };
        let _ = write!(text, "{panic}");
        text.record.bytes = text.length as u32;
    }));
    &raw const RECORD
}

/// Writes as much as there is room for.
struct Text<'a> {
    record: &'a mut PanicRecord,
    length: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.record.text[self.length..];
        let mut length = text.len().min(room.len());
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        room[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        if length < text.len() { Err(std::fmt::Error) } else { Ok(()) }
    }
}

/// A buffer into which the loader writes before a call, kept for the next one while it is of moderate size.
#[derive(Default)]
pub struct Inbox {
    bytes: Vec<u8>,
}

/// What an inbox keeps between calls.
const KEPT: usize = 1 << 20;

impl Inbox {
    /// Room for `bytes` bytes, all zero or left over; `None` if there is no memory for them.
    pub fn reserve(&mut self, bytes: usize) -> Option<*mut u8> {
        self.bytes.clear();
        if bytes < KEPT && self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
        }
        self.bytes.try_reserve(bytes).ok()?;
        self.bytes.resize(bytes, 0);
        Some(self.bytes.as_mut_ptr())
    }

    /// What was written into the room of the last reservation.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Gives the buffer back for the next call.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() <= KEPT {
            self.bytes = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_panic_is_recorded_and_cut_to_fit() {
        let record = record_panics();
        let long = "é".repeat(CAPACITY);
        for message in [long.as_str(), "the second"] {
            let panicked = std::panic::catch_unwind(|| panic!("{message}")).is_err();
            assert!(panicked);
        }
        drop(std::panic::take_hook());
        // SAFETY: nobody writes the record any more.
        let record = unsafe { &*record };
        let text = std::str::from_utf8(&record.text[..record.bytes as usize]).unwrap();
        assert!(text.contains("shell") && text.ends_with("éé"), "{text}");
        assert!(text.len() > CAPACITY - 4);
    }

    #[test]
    fn an_inbox_gives_room_and_keeps_only_moderate_buffers() {
        let mut inbox = Inbox::default();
        assert!(inbox.reserve(3).is_some());
        let bytes = inbox.take();
        assert_eq!(bytes, [0, 0, 0]);
        inbox.give_back(bytes);
        assert!(inbox.reserve(usize::MAX).is_none());
        assert!(inbox.reserve(2 * KEPT).is_some());
        let large = inbox.take();
        assert_eq!(large.len(), 2 * KEPT);
        inbox.give_back(large);
        assert_eq!(inbox.bytes.capacity(), 0);
    }
}
