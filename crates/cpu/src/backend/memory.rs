//! Host memory, 64-byte aligned.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;

use lanthorn_compiler::backend::Memory;
use lanthorn_ir::{Error, ErrorKind, Result};

/// One allocation.
pub(super) struct HostMemory {
    start: NonNull<u8>,
    layout: Layout,
    bytes: usize,
}

// SAFETY: plain bytes; whoever reads and writes them synchronises.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Zeroed memory (fresh pages are zero anyway, and no kernel ever sees uninitialised bytes); an empty request
    /// takes one byte.
    pub(super) fn new(bytes: usize) -> Result<HostMemory> {
        let refused = || {
            Error::new(
                ErrorKind::OutOfMemory,
                "cpu",
                format!("{bytes} bytes are not to be had from the system"),
            )
        };
        let layout = Layout::from_size_align(bytes.max(1), 64).map_err(|_| refused())?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refused)?;
        Ok(HostMemory { start, layout, bytes })
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
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
