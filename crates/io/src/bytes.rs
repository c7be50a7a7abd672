//! The bytes of a file: mapped into memory, or handed in.

use crate::{Error, Result};
use std::path::Path;

/// What a format is read from.
pub(crate) enum Bytes {
    /// Handed in by the caller.
    Owned(Vec<u8>),
    /// A file, read from the disk where it is touched.
    #[cfg(not(target_arch = "wasm32"))]
    Mapped(memmap2::Mmap),
}

impl Bytes {
    /// Maps a file into memory.
    ///
    /// The file must not be changed in place while the result lives. This project never does: it replaces files
    /// ([`crate::atomic`]), which leaves the mapped one alone.
    ///
    /// # Errors
    ///
    /// `io`: the file cannot be opened. `format`: it is a device or a pipe.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &Path) -> Result<Bytes> {
        let (file, length) = crate::file::open(path)?;
        if length == 0 {
            return Ok(Bytes::Owned(Vec::new()));
        }
        // SAFETY: a mapping is sound as long as nobody changes the file under it; the documentation asks for that, and
        // every writer of this project replaces files instead.
        let map = unsafe { memmap2::Mmap::map(&file) };
        Ok(Bytes::Mapped(map.map_err(|cause| Error::io("read", path, cause))?))
    }

    /// Files cannot be opened on this target; formats are read from bytes.
    ///
    /// # Errors
    ///
    /// `io`: always.
    #[cfg(target_arch = "wasm32")]
    pub fn open(path: &Path) -> Result<Bytes> {
        Err(Error::io("read", path, std::io::Error::from(std::io::ErrorKind::Unsupported)))
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            #[cfg(not(target_arch = "wasm32"))]
            Bytes::Mapped(map) => map,
        }
    }
}
