//! Memory of the host that somebody else owns: a vector, a mapped file, an array of another library.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use lanthorn_compiler::backend::Memory;

use crate::element::Element;

/// Host memory with its owner.
pub struct HostMemory {
    address: NonNull<u8>,
    bytes: usize,
    /// Keeps the memory alive.
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the memory is plain bytes whose owner may move between threads; who reads and writes when is
// decided by the lock of the storage that holds it.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// The elements of a vector, without a copy.
    pub fn from_vec<T: Element>(mut elements: Vec<T>) -> HostMemory {
        let bytes = size_of_val(elements.as_slice());
        // A vector's pointer is never null.
        let address = NonNull::new(elements.as_mut_ptr().cast()).unwrap_or(NonNull::dangling());
        HostMemory { address, bytes, _owner: Box::new(elements) }
    }

    /// `bytes` bytes at `address`, which `owner` keeps alive.
    ///
    /// # Safety
    ///
    /// The memory must stay valid, and at this address, until `owner` is dropped. If a storage over it is
    /// writable, nobody else may hold Rust references into it.
    pub unsafe fn from_raw(
        address: NonNull<u8>,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> HostMemory {
        HostMemory { address, bytes, _owner: owner }
    }

    /// As a memory of a storage.
    pub fn shared(self) -> Arc<dyn Memory> {
        Arc::new(self)
    }
}

impl Memory for HostMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host(&self) -> Option<NonNull<u8>> {
        Some(self.address)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
