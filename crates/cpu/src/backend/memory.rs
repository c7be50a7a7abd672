//! Host memory, 64-byte aligned.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;

use lanthorn_compiler::backend::Memory;
use lanthorn_ir::{Error, ErrorKind, Result};

/// One allocation.
pub(super) struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

/// Whom the bytes are given back to.
enum Owner {
    /// The allocator.
    Heap(Layout),
    /// The system, by dropping the map.
    #[cfg(target_os = "linux")]
    Pages { _map: memmap2::MmapMut },
}

// SAFETY: plain bytes; whoever reads and writes them synchronises.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Zeroed memory (fresh pages are zero anyway, and no kernel ever sees uninitialised bytes); an empty request
    /// takes one byte.
    pub(super) fn new(bytes: usize) -> Result<HostMemory> {
        let (start, owner) = take(bytes).ok_or_else(|| {
            Error::new(
                ErrorKind::OutOfMemory,
                "cpu",
                format!("{bytes} bytes are not to be had from the system"),
            )
        })?;
        Ok(HostMemory { start, bytes, owner })
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        match self.owner {
            // SAFETY: allocated with this layout, freed once.
            Owner::Heap(layout) => unsafe { dealloc(self.start.as_ptr(), layout) },
            #[cfg(target_os = "linux")]
            Owner::Pages { .. } => {}
        }
    }
}

fn take(bytes: usize) -> Option<(NonNull<u8>, Owner)> {
    #[cfg(target_os = "linux")]
    if bytes >= LEAST_PAGES {
        return take_pages(bytes);
    }
    let layout = Layout::from_size_align(bytes.max(1), 64).ok()?;
    // SAFETY: the size is not zero.
    let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    Some((start, Owner::Heap(layout)))
}

#[cfg(target_os = "linux")]
const HUGE_PAGE: usize = 2 << 20;
/// What is smaller would waste too much of its last page.
#[cfg(target_os = "linux")]
const LEAST_PAGES: usize = 2 * HUGE_PAGE;

/// In huge pages where the system has them: a product that walks down the columns of a large matrix would otherwise meet
/// a new page in each row, and wait longer for its address than for its bytes.
#[cfg(target_os = "linux")]
fn take_pages(bytes: usize) -> Option<(NonNull<u8>, Owner)> {
    // Room to begin at a huge page; what is not touched costs nothing.
    let mut map = memmap2::MmapMut::map_anon(bytes.checked_add(HUGE_PAGE)?).ok()?;
    let at = map.as_mut_ptr();
    let start = NonNull::new(at.wrapping_add(at.align_offset(HUGE_PAGE)))?;
    // Only advice: a system without huge pages serves small ones.
    let _ = map.advise(memmap2::Advice::HugePage);
    Some((start, Owner::Pages { _map: map }))
}

impl Memory for HostMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host(&self) -> Option<NonNull<u8>> {
        Some(self.start)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
