//! A place in a file's bytes, from which what is there can be taken and nothing else.

use crate::error::{Refusal, refuse};

/// Bytes that are read from the front.
pub(super) struct Cursor<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(file: &'a [u8]) -> Cursor<'a> {
        Cursor { file, at: 0 }
    }

    /// How many bytes lie before the next one.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> u64 {
        (self.file.len() - self.at) as u64
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: u64) -> Result<&'a [u8], Refusal> {
        if length > self.remaining() {
            return refuse(
                format!(
                    "the file is cut short: {length} bytes should follow byte {}, and {} are there",
                    self.at,
                    self.remaining()
                ),
                "a complete GGUF file would be right",
            );
        }
        // Fits: it is no more than what remains of a slice.
        let end = self.at + length as usize;
        let taken = &self.file[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// The next `N` bytes, for a number.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    pub fn u32(&mut self) -> Result<u32, Refusal> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Refusal> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length and so many bytes of UTF-8.
    pub fn string(&mut self) -> Result<&'a str, Refusal> {
        let length = self.u64()?;
        let begin = self.at;
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => Ok(text),
            Err(error) => refuse(
                format!("the text is not UTF-8 from byte {} of the file on", begin + error.valid_up_to()),
                "texts of a GGUF file are UTF-8",
            ),
        }
    }

    /// Refuses a count of things of which each takes at least `least` bytes and which therefore cannot all be there.
    pub fn check_count(&self, count: u64, least: u64) -> Result<(), Refusal> {
        let most = self.remaining() / least;
        if count > most {
            return refuse(
                format!("there should be {count} of them, and the rest of the file has room for {most}"),
                "a complete GGUF file would be right",
            );
        }
        Ok(())
    }
}
