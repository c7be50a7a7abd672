//! The one way in which this project writes a file.
//!
//! A file is written under a temporary name in the same folder, flushed, synced, and renamed over the old one; then
//! the folder is synced. So a reader sees the old file or the new one, and a full disk, a crash or a killed process
//! leaves the old one. On an error the temporary is removed. One that a killed process left behind is found by its
//! name and by nobody holding its lock, and the next write to the same file removes it.
//!
//! A path that names a device or a pipe (`/dev/stdout`, `/dev/full`) is written straight through: there is nothing to
//! rename over.

use crate::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes between the writer and the system.
const BUFFER: usize = 1 << 20;

/// Writes `bytes` to `path`, all of them or none.
///
/// # Errors
///
/// `io`: as [`write_with`].
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    write_with(path, |out| out.write_all(bytes))
}

/// Writes to `path` what `content` writes, all of it or nothing. `content` may write in small pieces: they are
/// buffered.
///
/// A link is followed: the file that it points to is replaced. The permissions of a file that is replaced are kept.
///
/// # Errors
///
/// `io`: the folder is missing or may not be written to, `path` is a folder, the disk is full, or `content` fails.
/// What was at `path` is then untouched.
///
/// ```
/// use std::io::Write;
/// let path = std::env::temp_dir().join(format!("lanthorn-atomic-{}.txt", std::process::id()));
/// lanthorn_io::atomic::write(&path, b"old").unwrap();
/// let failed = lanthorn_io::atomic::write_with(&path, |out| {
///     out.write_all(b"half of the n")?;
///     Err(std::io::Error::other("the power went"))
/// });
/// assert!(failed.is_err());
/// assert_eq!(std::fs::read(&path).unwrap(), b"old");
/// # std::fs::remove_file(&path).unwrap();
/// ```
pub fn write_with(
    path: impl AsRef<Path>,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    write_to(path, content).map_err(|source| Error::io("write", path, source))
}

/// Refuses a path that could not be written, before the work whose result goes there: nothing at `path` changes.
///
/// # Errors
///
/// `io`: as [`write_with`], as far as it can be told without the content.
pub fn check(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    check_target(path).map_err(|source| Error::io("write", path, source))
}

fn check_target(path: &Path) -> io::Result<()> {
    let target = follow_link(path)?;
    match fs::metadata(&target) {
        Ok(existing) if existing.is_dir() => Err(io::Error::new(ErrorKind::IsADirectory, "Is a directory")),
        Ok(existing) if existing.is_file() && existing.permissions().readonly() => {
            Err(io::Error::new(ErrorKind::PermissionDenied, "the file is read-only"))
        }
        // What a device takes is known when it is written.
        Ok(existing) if !existing.is_file() => Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        // The temporary is made as it will be, and removed.
        _ => Temporary::create(folder_of(&target), name_of(&target)?).map(|_| ()),
    }
}

/// Where writing to `path` would leave its bytes: links followed, as far as the path exists. Two paths to one file have one
/// place.
///
/// # Errors
///
/// `io`: there is no current folder.
pub fn place(path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = path.as_ref();
    let found = || {
        let mut rest = Vec::new();
        let mut known = std::path::absolute(follow_link(path)?)?;
        loop {
            if let Ok(real) = fs::canonicalize(&known) {
                return Ok(rest.iter().rev().fold(real, |place, name| place.join(name)));
            }
            match (known.file_name(), known.parent()) {
                (Some(name), Some(parent)) => {
                    rest.push(name.to_owned());
                    known = parent.to_owned();
                }
                _ => return Ok(rest.iter().rev().fold(known.clone(), |place, name| place.join(name))),
            }
        }
    };
    found().map_err(|source: io::Error| Error::io("find", path, source))
}

fn write_to(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let target = follow_link(path)?;
    match fs::metadata(&target) {
        Ok(existing) if existing.is_dir() => Err(io::Error::new(ErrorKind::IsADirectory, "Is a directory")),
        // Renaming over a file asks the folder for permission; the file must be asked too.
        Ok(existing) if existing.is_file() && existing.permissions().readonly() => {
            Err(io::Error::new(ErrorKind::PermissionDenied, "the file is read-only"))
        }
        Ok(existing) if existing.is_file() => replace(&target, Some(existing.permissions()), content),
        Ok(_) => write_through(&target, content),
        Err(error) if error.kind() == ErrorKind::NotFound => replace(&target, None, content),
        Err(error) => Err(error),
    }
}

/// Where a link leads, so that the rename replaces the file and not the link.
fn follow_link(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => match fs::canonicalize(path) {
            Ok(target) => Ok(target),
            // A link to a file that does not exist yet; one step is enough to be useful.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let target = fs::read_link(path)?;
                Ok(folder_of(path).join(target))
            }
            Err(error) => Err(error),
        },
        _ => Ok(path.to_owned()),
    }
}

fn replace(
    target: &Path,
    permissions: Option<fs::Permissions>,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let folder = folder_of(target);
    let name = name_of(target)?;
    remove_abandoned(folder, name);

    let temporary = Temporary::create(folder, name)?;
    write_buffered(&temporary.file, content)?;
    if let Some(permissions) = permissions {
        temporary.file.set_permissions(permissions)?;
    }
    temporary.file.sync_all()?;
    temporary.rename_to(target)?;
    sync_folder(folder)
}

fn write_through(device: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(device)?;
    write_buffered(&file, content)
}

fn write_buffered(file: &File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, file);
    let written = content(&mut out).and_then(|()| out.flush());
    // A writer that is dropped would try once more to write what did not fit.
    let _ = out.into_parts();
    written
}

fn name_of(target: &Path) -> io::Result<&OsStr> {
    target.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the path names no file"))
}

/// The folder in which `path` lies; never the empty path, which the system cannot open.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A file under a temporary name, locked while its writer lives, and removed unless it was renamed.
struct Temporary {
    file: File,
    path: PathBuf,
    renamed: bool,
}

impl Temporary {
    fn create(folder: &Path, name: &OsStr) -> io::Result<Temporary> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let mut unique = temporary_prefix(name);
            unique.push(format!("{}-{number}.tmp", std::process::id()));
            let path = folder.join(unique);
            let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            // Where files cannot be locked, abandoned ones cannot be told either, and none is removed.
            let locked = file.lock().is_ok();
            let temporary = Temporary { file, path, renamed: false };
            // Another writer to the same target may have taken it for abandoned before the lock was held.
            if !locked || temporary.path.exists() {
                return Ok(temporary);
            }
        }
    }

    fn rename_to(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// `.NAME.`, which every temporary of the file NAME begins with.
fn temporary_prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

/// Removes what killed writers of this file left behind: temporaries whose lock nobody holds.
fn remove_abandoned(folder: &Path, name: &OsStr) {
    let prefix = temporary_prefix(name);
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let candidate = entry.file_name();
        let bytes = candidate.as_encoded_bytes();
        let ours = bytes.starts_with(prefix.as_encoded_bytes()) && bytes.ends_with(b".tmp");
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(file) = OpenOptions::new().write(true).open(entry.path()) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes the rename itself durable. Some file systems cannot sync a folder, and some folders may be written to but not
/// opened; the file is in place then, so that is no failure.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder).and_then(|opened| opened.sync_all()) {
        Err(error)
            if !matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::PermissionDenied
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_created_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_failing_writer_leaves_the_old_file_and_no_temporary() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"old").unwrap();
        let error = write_with(&path, |out| {
            out.write_all(&vec![7; 3 * BUFFER])?;
            Err(io::Error::from(ErrorKind::StorageFull))
        })
        .unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot write {}: ", path.display())));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_panicking_writer_leaves_the_old_file_and_no_temporary() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"old").unwrap();
        let panicked = std::panic::catch_unwind(|| write_with(&path, |_| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn the_old_file_is_there_while_the_new_one_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"old").unwrap();
        write_with(&path, |out| {
            out.write_all(b"new")?;
            out.flush()?;
            assert_eq!(fs::read(&path)?, b"old");
            Ok(())
        })
        .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_and_what_a_living_one_holds_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(folder.path().join(".file.1-0.tmp"), b"abandoned").unwrap();
        fs::write(folder.path().join(".other.1-0.tmp"), b"another file's").unwrap();
        let held = File::create(folder.path().join(".file.2-0.tmp")).unwrap();
        held.lock().unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(names(folder.path()), [".file.2-0.tmp", ".other.1-0.tmp", "file"]);
    }

    #[test]
    fn a_missing_folder_a_folder_as_file_and_a_file_as_folder_are_errors_that_name_the_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), b"").unwrap();
        for path in
            [folder.path().join("missing/file"), folder.path().to_owned(), folder.path().join("file/inside")]
        {
            let error = write(&path, b"x").unwrap_err();
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        }
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn threads_that_write_one_file_never_mix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        write(path, &vec![writer; 10_000]).unwrap();
                    }
                });
            }
        });
        let content = fs::read(&path).unwrap();
        assert_eq!(content.len(), 10_000);
        assert!(content.iter().all(|byte| *byte == content[0]));
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_permissions_are_kept() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        symlink("file", &link).unwrap();
        write(&link, b"one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        write(&link, b"two").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
        assert!(write(&file, b"three").is_err());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn what_could_not_be_written_is_refused_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        check(&path).unwrap();
        assert!(names(folder.path()).is_empty());
        write(&path, b"old").unwrap();
        check(&path).unwrap();
        assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"old".to_vec(), vec!["file".into()]));
        let mut wrong =
            vec![folder.path().to_owned(), folder.path().join("missing/file"), path.join("inside")];
        if cfg!(target_os = "linux") {
            wrong.push(PathBuf::from("/proc/file"));
        }
        for path in wrong {
            let error = check(&path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot write {}: ", path.display())), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_to_one_file_have_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("real")).unwrap();
        std::os::unix::fs::symlink("real", path("link")).unwrap();
        std::os::unix::fs::symlink(path("real/file"), path("to")).unwrap();
        let expected = fs::canonicalize(path("real")).unwrap().join("file");
        for other in ["real/file", "link/file", "to", "real/../link/file"] {
            assert_eq!(place(path(other)).unwrap(), expected, "{other}");
        }
        // Also before there is the folder.
        assert_eq!(place(path("link/new/x")).unwrap(), fs::canonicalize(path("real")).unwrap().join("new/x"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_reported() {
        let error = write("/dev/full", b"x").unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: No space left on device");
        assert!(write("/dev/full", &vec![0; 3 * BUFFER]).is_err());
        write("/dev/null", b"x").unwrap();
    }
}
