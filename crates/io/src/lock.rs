//! One writer for a folder.
//!
//! Whoever holds the lock of a file in the folder is the one who writes there. The lock is the system's: it ends with its
//! holder, also where that one is killed. Where files cannot be locked nobody is kept out.

use crate::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// The file that is locked. It is removed by its holder; one that a killed holder left behind locks nobody out.
const NAME: &str = ".lanthorn.lock";

/// The lock of a folder, held until it is dropped.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
    path: PathBuf,
}

impl FolderLock {
    /// Takes the lock; `holder` says whose it is, such as `a run of lanthorn train`.
    ///
    /// # Errors
    ///
    /// `io`: the folder may not be written to. `format`: somebody else holds it.
    ///
    /// ```
    /// use lanthorn_io::FolderLock;
    /// let folder = std::env::temp_dir().join(format!("lanthorn-lock-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder).unwrap();
    /// let held = FolderLock::take(&folder, "another run").unwrap();
    /// let error = FolderLock::take(&folder, "another run").unwrap_err().to_string();
    /// assert!(error.contains("another run writes to it"));
    /// drop(held);
    /// assert!(FolderLock::take(&folder, "another run").is_ok());
    /// # std::fs::remove_dir(&folder).unwrap();
    /// ```
    pub fn take(folder: impl AsRef<Path>, holder: &str) -> Result<FolderLock> {
        let path = folder.as_ref().join(NAME);
        loop {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(|cause| Error::io("write", &path, cause))?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::format(
                        folder.as_ref().display().to_string(),
                        format!("{holder} writes to it"),
                        "wait until that has ended, or use another folder",
                    ));
                }
                // The file system has no locks.
                Err(TryLockError::Error(_)) => return Ok(FolderLock { file, path }),
                // The holder before may have removed the file between its opening and the lock.
                Ok(()) if is_at(&file, &path) => return Ok(FolderLock { file, path }),
                Ok(()) => {}
            }
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // While it is locked, so that nobody takes a file that is about to go.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// True if the open file is the one of that name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.ino() == named.ino() && open.dev() == named.dev(),
        _ => false,
    }
}

/// An open file keeps its name here.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
