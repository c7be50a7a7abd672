//! Host memory, 64-byte aligned.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;

use lanthorn_compiler::backend::Memory;
use lanthorn_ir::{Error, ErrorKind, Result};

/// One allocation.
pub(super) struct HostMemory {
    block: Block,
    bytes: usize,
}

impl HostMemory {
    /// Zeroed memory (fresh pages are zero anyway, and no kernel ever sees uninitialised bytes); an empty request
    /// takes one byte.
    pub(super) fn new(bytes: usize) -> Result<HostMemory> {
        let block = Block::new(bytes).ok_or_else(|| {
            Error::new(
                ErrorKind::OutOfMemory,
                "cpu",
                format!("{bytes} bytes are not to be had from the system"),
            )
        })?;
        Ok(HostMemory { block, bytes })
    }
}

/// Where the bytes come from.
enum Block {
    Heap(Heap),
    #[cfg(target_os = "linux")]
    Pages(Pages),
}

impl Block {
    fn new(bytes: usize) -> Option<Block> {
        #[cfg(target_os = "linux")]
        if bytes >= Pages::LEAST {
            return Pages::new(bytes).map(Block::Pages);
        }
        Heap::new(bytes).map(Block::Heap)
    }

    fn start(&self) -> NonNull<u8> {
        match self {
            Block::Heap(heap) => heap.start,
            #[cfg(target_os = "linux")]
            Block::Pages(pages) => pages.start,
        }
    }
}

/// From the allocator.
struct Heap {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain bytes; whoever reads and writes them synchronises.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    fn new(bytes: usize) -> Option<Heap> {
        let layout = Layout::from_size_align(bytes.max(1), 64).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Heap { start, layout })
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// From the system, in huge pages where it has them: a product that walks down the columns of a large matrix would
/// otherwise meet a new page in each row, and wait longer for its address than for its bytes.
#[cfg(target_os = "linux")]
struct Pages {
    start: NonNull<u8>,
    _map: memmap2::MmapMut,
}

// SAFETY: as for `Heap`.
#[cfg(target_os = "linux")]
unsafe impl Send for Pages {}
// SAFETY: as for `Heap`.
#[cfg(target_os = "linux")]
unsafe impl Sync for Pages {}

#[cfg(target_os = "linux")]
impl Pages {
    const HUGE: usize = 2 << 20;
    /// What is smaller would waste too much of its last page.
    const LEAST: usize = 2 * Pages::HUGE;

    fn new(bytes: usize) -> Option<Pages> {
        // Room to begin at a huge page; what is not touched costs nothing.
        let mut map = memmap2::MmapMut::map_anon(bytes.checked_add(Pages::HUGE)?).ok()?;
        let at = map.as_mut_ptr();
        let start = NonNull::new(at.wrapping_add(at.align_offset(Pages::HUGE)))?;
        // Only advice: a system without huge pages serves small ones.
        let _ = map.advise(memmap2::Advice::HugePage);
        Some(Pages { start, _map: map })
    }
}

impl Memory for HostMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host(&self) -> Option<NonNull<u8>> {
        Some(self.block.start())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
