//! Text files in pieces, of which a few are in memory at a time.

use crate::tokenizer::cuts::{Cuts, PIECE};
use crate::{Result, text};
use std::path::Path;

/// The text of a file, cut at its [lines](Cuts::LINES). After an error it ends.
pub(super) struct FilePieces {
    blocks: text::Blocks,
    /// What has been read and not been given.
    rest: String,
    /// Where in `rest` a place to cut has not been looked for.
    from: usize,
}

impl FilePieces {
    pub fn open(path: &Path) -> Result<FilePieces> {
        Ok(FilePieces { blocks: text::Blocks::open(path)?, rest: String::new(), from: PIECE })
    }
}

impl Iterator for FilePieces {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        loop {
            if let Some((piece, _)) = Cuts::LINES.cut(&self.rest, self.from) {
                self.from = PIECE;
                let after = self.rest.split_off(piece.len());
                return Some(Ok(std::mem::replace(&mut self.rest, after)));
            }
            // What follows a line end at the very end decides on it.
            self.from = self.rest.len().saturating_sub(1).max(PIECE);
            match self.blocks.next() {
                Some(Ok(block)) => self.rest.push_str(&block),
                Some(Err(error)) => {
                    self.rest.clear();
                    return Some(Err(error));
                }
                None => {
                    let last = std::mem::take(&mut self.rest);
                    return (!last.is_empty()).then_some(Ok(last));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_where_its_text_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book.txt");
        let lines: String =
            (0..60_000).map(|at: usize| format!("lamp {}\n{}", at * at, "\n".repeat(at % 3 / 2))).collect();
        for text in [&*lines, &"no line end ".repeat(40_000), &"a\n".repeat(400_000), "one", "\n"] {
            std::fs::write(&path, text).unwrap();
            let found: Vec<String> = FilePieces::open(&path).unwrap().collect::<Result<_>>().unwrap();
            assert!(found.iter().map(String::as_str).eq(Cuts::LINES.pieces(text)), "{} pieces", found.len());
        }
    }
}
