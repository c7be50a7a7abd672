//! A UTF-8 text file: what a tokenizer and a model are trained on.

use crate::{Error, Result, file};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The whole text of a file. A byte order mark of UTF-8 is dropped; nothing else is changed, line ends included.
///
/// # Errors
///
/// `io`: the file is missing, is a folder, or may not be read. `format`: it is a device or a pipe, empty, or not UTF-8;
/// then the message gives the byte offset, counted from 0, at which the text stops being UTF-8.
///
/// ```
/// let path = std::env::temp_dir().join(format!("lanthorn-text-{}.txt", std::process::id()));
/// std::fs::write(&path, "Call me Ishmael.\n").unwrap();
/// assert_eq!(lanthorn_io::text::read(&path).unwrap(), "Call me Ishmael.\n");
/// # std::fs::remove_file(&path).unwrap();
/// ```
pub fn read(path: impl AsRef<Path>) -> Result<String> {
    read_at_most(path, u64::MAX)
}

/// The text of a file that has no more than `most` bytes, such as one of settings.
///
/// # Errors
///
/// As [`read`]; `format`: it has more bytes, of which none are read.
pub fn read_at_most(path: impl AsRef<Path>, most: u64) -> Result<String> {
    let path = path.as_ref();
    decode(&path.display().to_string(), file::read(path, most)?)
}

/// The text in `bytes`; `subject` names them in errors.
///
/// # Errors
///
/// `format`: as [`read`].
pub fn decode(subject: &str, bytes: Vec<u8>) -> Result<String> {
    check_beginning(subject, &bytes)?;
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        no_text(subject, at as u64, error.as_bytes().get(at))
    })?;
    if text.starts_with(MARK) {
        text.drain(..MARK.len_utf8());
        check_content(subject, &text)?;
    }
    Ok(text)
}

/// The byte order mark.
const MARK: char = '\u{FEFF}';

fn check_beginning(subject: &str, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Err(Error::format(subject, "it is empty", "a UTF-8 text would be right"));
    }
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err(Error::format(
            subject,
            "the text is UTF-16 (by its byte order mark)",
            "convert it to UTF-8",
        ));
    }
    Ok(())
}

/// Refuses what is empty without its mark.
fn check_content(subject: &str, text: &str) -> Result<()> {
    if !text.is_empty() {
        return Ok(());
    }
    let found = "it holds a byte order mark and nothing else";
    Err(Error::format(subject, found, "a UTF-8 text would be right"))
}

fn no_text(subject: &str, at: u64, byte: Option<&u8>) -> Error {
    let found = match byte {
        Some(byte) => format!("byte {at} (0x{byte:02X}) is not UTF-8"),
        None => format!("the text stops being UTF-8 at byte {at}"),
    };
    Error::format(subject, found, "a UTF-8 text would be right")
}

/// The text of a file in blocks, for files larger than memory: what [`read`] gives, a part at a time, cut between
/// characters. After an error it ends.
///
/// ```
/// let path = std::env::temp_dir().join(format!("lanthorn-blocks-{}.txt", std::process::id()));
/// std::fs::write(&path, "Call me Ishmael.\n".repeat(10_000)).unwrap();
/// let blocks = lanthorn_io::text::Blocks::open(&path).unwrap();
/// let text: String = blocks.collect::<lanthorn_io::Result<_>>().unwrap();
/// assert_eq!(text, lanthorn_io::text::read(&path).unwrap());
/// # std::fs::remove_file(&path).unwrap();
/// ```
#[derive(Debug)]
pub struct Blocks {
    path: PathBuf,
    /// `None` once it has ended.
    file: Option<File>,
    /// The beginning of a character whose end is not read yet.
    begun: Vec<u8>,
    /// Bytes of the file before `begun`.
    before: u64,
}

impl Blocks {
    /// Bytes that are read at once.
    const SIZE: usize = 256 << 10;

    /// The blocks of a file.
    ///
    /// # Errors
    ///
    /// `io`: the file is missing, is a folder, or may not be read. `format`: it is a device or a pipe.
    pub fn open(path: impl AsRef<Path>) -> Result<Blocks> {
        let path = path.as_ref().to_owned();
        let (file, _) = file::open(&path)?;
        Ok(Blocks { path, file: Some(file), begun: Vec::new(), before: 0 })
    }

    /// The next block, empty only at the end. A block has [`Blocks::SIZE`] bytes but for the last.
    fn block(&mut self) -> Result<String> {
        let Some(file) = &mut self.file else { return Ok(String::new()) };
        let mut bytes = std::mem::take(&mut self.begun);
        // A short read says nothing of the end.
        while bytes.len() < Blocks::SIZE {
            let missing = (Blocks::SIZE - bytes.len()) as u64;
            match file.take(missing).read_to_end(&mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::io("read", &self.path, source)),
            }
        }
        let subject = self.path.display().to_string();
        let (is_first, is_last) = (self.before == 0, bytes.len() < Blocks::SIZE);
        if is_first {
            check_beginning(&subject, &bytes)?;
        }
        if let Err(error) = std::str::from_utf8(&bytes) {
            let at = error.valid_up_to();
            if is_last || error.error_len().is_some() {
                return Err(no_text(&subject, self.before + at as u64, bytes.get(at)));
            }
            self.begun = bytes.split_off(at);
        }
        if is_last {
            self.file = None;
        }
        self.before += bytes.len() as u64;
        let mut text = String::from_utf8(bytes).unwrap_or_default();
        if is_first && text.starts_with(MARK) {
            text.drain(..MARK.len_utf8());
            check_content(&subject, &text)?;
        }
        Ok(text)
    }
}

impl Iterator for Blocks {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        let block = self.block();
        if block.is_err() {
            (self.file, self.begun) = (None, Vec::new());
        }
        block.map(|text| (!text.is_empty()).then_some(text)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn decoded(bytes: &[u8]) -> Result<String> {
        decode("book.txt", bytes.to_vec())
    }

    #[test]
    fn a_text_comes_back_as_it_is() {
        assert_eq!(decoded("naïve\r\n— done".as_bytes()).unwrap(), "naïve\r\n— done");
    }

    #[test]
    fn a_byte_order_mark_is_dropped() {
        assert_eq!(decoded(b"\xEF\xBB\xBFhello").unwrap(), "hello");
    }

    #[test]
    fn an_empty_text_is_refused() {
        for bytes in [&b""[..], b"\xEF\xBB\xBF"] {
            assert_eq!(decoded(bytes).unwrap_err().kind(), ErrorKind::Format);
        }
    }

    #[test]
    fn the_offset_of_the_first_bad_byte_is_given() {
        let message = decoded(b"caf\xE9 au lait").unwrap_err().to_string();
        assert_eq!(message, "book.txt: byte 3 (0xE9) is not UTF-8; a UTF-8 text would be right");
    }

    #[test]
    fn utf_16_is_named() {
        assert!(decoded(b"\xFF\xFEh\0i\0").unwrap_err().to_string().contains("UTF-16"));
    }

    #[test]
    fn blocks_are_the_text_whatever_lies_where_they_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book.txt");
        let size = Blocks::SIZE;
        let long = |before: usize, rest: &str| format!("{}{rest}", "x".repeat(before)).into_bytes();
        let bad = |at: usize, byte: u8| {
            let mut bytes = long(at + 9, "");
            bytes[at] = byte;
            bytes
        };
        for bytes in [
            b"".to_vec(),
            b"\xEF\xBB\xBF".to_vec(),
            b"\xEF\xBB\xBFhello".to_vec(),
            b"\xFF\xFEh\0i\0".to_vec(),
            long(size, ""),
            long(size - 1, "🏮 and on"),
            long(size - 3, "🏮 and on"),
            long(2 * size - 2, "東京\n"),
            long(size - 1, "é"),
            bad(3, 0xE9),
            bad(size, 0x80),
            bad(size - 1, 0xE9),
            [long(size - 2, ""), b"\xF0\x9F\x8F".to_vec()].concat(),
        ] {
            std::fs::write(&path, &bytes).unwrap();
            let blocks: Result<String> = Blocks::open(&path).unwrap().collect();
            match (blocks, read(&path)) {
                (Ok(text), Ok(expected)) => assert!(text == expected, "{} bytes", bytes.len()),
                (found, expected) => {
                    assert_eq!(found.unwrap_err().to_string(), expected.unwrap_err().to_string());
                }
            }
        }
        assert!(Blocks::open(folder.path()).is_err(), "a folder is no text");
    }

    #[test]
    fn a_missing_file_and_a_folder_are_errors_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(&folder.path().display().to_string()));
        let missing = folder.path().join("missing.txt");
        assert!(read(&missing).unwrap_err().to_string().contains("missing.txt: No such file"));
    }
}
