//! Reading a file takes memory in proportion to what is in it, whatever it claims.

use lanthorn_io::Gguf;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most bytes that the header of a file may take in memory for each of its own.
const TIMES: usize = 12;

/// The system's allocator, counted.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is the system allocator's; only sizes are noted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

/// How many bytes reading takes at most at one time, the file's own aside.
fn peak(file: Vec<u8>) -> (usize, bool) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let read = Gguf::from_bytes("model", file);
    (PEAK.load(Relaxed) - before, read.is_ok())
}

fn header(tensors: u64, entries: u64) -> Vec<u8> {
    [&b"GGUF\x03\0\0\0"[..], &tensors.to_le_bytes(), &entries.to_le_bytes()].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// One test, because others beside it would be counted too.
#[test]
fn memory_is_in_proportion_to_the_file() {
    const COUNT: u64 = 20_000;

    // Files that are all header, and whose every part costs as much as it can.
    let mut entries = header(0, COUNT);
    let mut tensors = header(COUNT, 0);
    for at in 0..COUNT {
        entries.extend(text(&format!("{at:x}")));
        entries.extend([0, 0, 0, 0, 7]);
        tensors.extend(text(&format!("{at:x}")));
        tensors.extend([0; 4 + 4 + 8]);
    }
    tensors.resize(tensors.len().next_multiple_of(32) + 4, 0);
    let mut strings = [header(0, 1), text("k"), vec![9, 0, 0, 0, 8, 0, 0, 0]].concat();
    strings.extend(COUNT.to_le_bytes());
    strings.resize(strings.len() + 8 * COUNT as usize, 0);
    for (name, file) in [("entries", entries), ("strings", strings)] {
        let bytes = file.len();
        let (peak, whole) = peak(file);
        assert!(whole, "{name}");
        assert!(peak > bytes, "{name}: {peak} bytes for {bytes} cannot be the whole account");
        assert!(peak <= TIMES * bytes, "{name}: {peak} bytes for a file of {bytes}");
    }
    // Scalars that all lie at the same place: refused, and only after the list was read.
    let bytes = tensors.len();
    let (taken, whole) = peak(tensors);
    assert!(!whole);
    assert!(taken <= TIMES * bytes, "tensors: {taken} bytes for a file of {bytes}");

    // Files that claim what they do not have.
    let max = u64::MAX.to_le_bytes();
    let array = |id: u8| [header(0, 1), text("k"), vec![9, 0, 0, 0, id, 0, 0, 0], max.to_vec()].concat();
    let claims = [
        header(u64::MAX, 0),
        header(0, u64::MAX),
        [header(0, 1), max.to_vec()].concat(),
        [header(1, 0), max.to_vec()].concat(),
        array(0),
        array(8),
        array(9),
        array(12),
        [header(1, 0), text("w"), vec![255; 4]].concat(),
    ];
    for file in claims {
        let shown = format!("{file:?}");
        let (peak, whole) = peak(file);
        assert!(!whole && peak < 4096, "{peak} bytes for {shown}");
    }
}
