//! The one way to open a file for reading: regular files, through links. A pipe in its place would be waited for, and a
//! device read for ever.

use crate::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Opens a regular file and tells its length in bytes.
///
/// # Errors
///
/// `io`: it cannot be opened, or is a folder. `format`: it is a device, a pipe or a socket.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
    let refused = |cause| Error::io("read", path, cause);
    let found = std::fs::metadata(path).map_err(refused)?;
    if found.is_dir() {
        return Err(refused(std::io::Error::new(ErrorKind::IsADirectory, "Is a directory")));
    }
    if !found.is_file() {
        let subject = path.display().to_string();
        return Err(Error::format(subject, "it is a device or a pipe", "a regular file would be right"));
    }
    Ok((File::open(path).map_err(refused)?, found.len()))
}

/// The bytes of a regular file, of which there may be `most`.
///
/// # Errors
///
/// As [`open`]; `format`: there are more.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let refuse = |found: String| {
        let expected = format!("at most {most} are read of such a file");
        Err(Error::format(path.display().to_string(), found, expected))
    };
    let (file, length) = open(path)?;
    if length > most {
        return refuse(format!("it has {length} bytes"));
    }
    // What a file system makes up as it is read says that it has no bytes.
    let mut bytes = Vec::with_capacity(length as usize);
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|cause| Error::io("read", path, cause))?;
    if bytes.len() as u64 > most {
        return refuse(format!("it has more than {most} bytes"));
    }
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::{Gguf, Tensors, Tokenizer, checkpoint, text};

    /// Whoever opens a pipe that nobody writes to waits for ever.
    #[test]
    fn only_regular_files_are_read_and_links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let linked = folder.path().join("linked");
        std::os::unix::fs::symlink(&pipe, &linked).unwrap();
        for path in [&pipe, &linked, Path::new("/dev/zero"), Path::new("/dev/null")] {
            let right =
                format!("{}: it is a device or a pipe; a regular file would be right", path.display());
            for found in [
                text::read(path).map(drop),
                text::read_at_most(path, 9).map(drop),
                Tokenizer::load(path).map(drop),
                Tensors::open(path).map(drop),
                checkpoint::open(path).map(drop),
                Gguf::open(path).map(drop),
            ] {
                assert_eq!(found.unwrap_err().to_string(), right);
            }
        }
        for found in
            [text::read(folder.path()).map(drop), Gguf::open(folder.path()).map(drop)].map(Result::unwrap_err)
        {
            assert_eq!(found.to_string(), format!("cannot read {}: Is a directory", folder.path().display()));
        }
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(text::read(&link).unwrap(), "text");
    }

    #[test]
    fn a_file_of_more_bytes_than_it_may_have_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, "1234").unwrap();
        assert_eq!(text::read_at_most(&path, 4).unwrap(), "1234");
        let error = text::read_at_most(&path, 3).unwrap_err().to_string();
        let right = "it has 4 bytes; at most 3 are read of such a file";
        assert_eq!(error, format!("{}: {right}", path.display()));
        // A file of holes takes no room on the disk.
        std::fs::File::create(&path).unwrap().set_len(3 << 30).unwrap();
        let error = Tokenizer::load(&path).unwrap_err().to_string();
        assert!(error.contains("it has 3221225472 bytes; at most 536870912 are read"), "{error}");
    }
}
