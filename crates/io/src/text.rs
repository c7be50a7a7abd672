//! A UTF-8 text file: what a tokenizer and a model are trained on.

use crate::{Error, Result, file};
use std::path::Path;

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
    if bytes.is_empty() {
        return Err(Error::format(subject, "the file is empty", "a UTF-8 text would be right"));
    }
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err(Error::format(
            subject,
            "the text is UTF-16 (by its byte order mark)",
            "convert it to UTF-8",
        ));
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let found = match error.as_bytes().get(at) {
            Some(byte) => format!("byte {at} (0x{byte:02X}) is not UTF-8"),
            None => format!("the text stops being UTF-8 at byte {at}"),
        };
        Error::format(subject, found, "a UTF-8 text would be right")
    })?;
    if text.starts_with('\u{FEFF}') {
        text.drain(..'\u{FEFF}'.len_utf8());
        if text.is_empty() {
            return Err(Error::format(
                subject,
                "the file holds a byte order mark and nothing else",
                "a UTF-8 text would be right",
            ));
        }
    }
    Ok(text)
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
    fn a_missing_file_and_a_folder_are_errors_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(&folder.path().display().to_string()));
        let missing = folder.path().join("missing.txt");
        assert!(read(&missing).unwrap_err().to_string().contains("missing.txt: No such file"));
    }
}
