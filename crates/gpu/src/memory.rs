//! Memory of a GPU: a buffer that the host cannot reach.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use lanthorn_compiler::backend::{MemRef, Memory};
use lanthorn_ir::{Error, ErrorKind, Result};

use crate::driver::{BufferId, Driver};

/// A buffer of a driver, given back when it is dropped.
pub(crate) struct GpuMemory {
    driver: Arc<dyn Driver>,
    pub buffer: BufferId,
    bytes: usize,
}

impl GpuMemory {
    /// A buffer of at least `bytes`.
    pub fn new(driver: &Arc<dyn Driver>, bytes: usize) -> Result<GpuMemory> {
        // Whole words, and something to bind.
        let bytes = bytes.max(4).checked_next_multiple_of(4).unwrap_or(usize::MAX);
        let limits = driver.limits();
        let most = limits.buffer_bytes.min(limits.binding_bytes);
        if bytes as u64 > most {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                "gpu",
                format!("{bytes} bytes in one piece; {} binds at most {most}", driver.describe()),
            ));
        }
        let buffer = driver.create_buffer(bytes as u64)?;
        Ok(GpuMemory { driver: driver.clone(), buffer, bytes })
    }

    /// The memory behind a place, which must be of the same device.
    pub fn of<'a>(place: &MemRef<'a>, driver: &Arc<dyn Driver>) -> Result<&'a GpuMemory> {
        let memory = place.memory.as_any().downcast_ref::<GpuMemory>();
        memory.filter(|memory| Arc::ptr_eq(&memory.driver, driver)).ok_or_else(|| {
            Error::new(
                ErrorKind::Device,
                "gpu",
                "an operand lies in memory of another device; move it to this one",
            )
        })
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        self.driver.destroy_buffer(self.buffer);
    }
}

impl Memory for GpuMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host(&self) -> Option<NonNull<u8>> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
