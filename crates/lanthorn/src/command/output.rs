//! Files that a command writes because an option names them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lanthorn_io::atomic;

use super::failure::{Failure, Result};

/// A file that an option names.
pub struct Output<'a> {
    pub option: &'static str,
    pub file: &'a Path,
    /// What it is, such as `trace`.
    pub kind: &'static str,
    /// Whether a file that begins so is one that was written by the same option.
    pub is_ours: fn(&[u8]) -> bool,
}

/// So much of a file is looked at.
const LOOKED_AT: u64 = 4096;

impl Output<'_> {
    /// Refuses what could not be written, what the command itself writes otherwise (`others`), and a file of another kind,
    /// which would be lost by a slip of the pen. An empty file is of every kind.
    pub fn check(&self, others: &[&Path]) -> Result<()> {
        let Output { option, file, kind, is_ours } = self;
        let refused = |found: String, help: &str| {
            Err(Failure::request_with(format!("{option} {}: {found}", file.display()), help))
        };
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return refused(
                format!("there is no folder {}", folder.display()),
                "make it, or name another file",
            );
        }
        let place = atomic::place(file)?;
        for other in others {
            if atomic::place(other)? == place {
                return refused("the command itself writes that file".to_owned(), "name another file");
            }
        }
        if let Err(error) = atomic::check(file) {
            return refused(error.to_string(), "name another file");
        }
        if !file.is_file() {
            return Ok(());
        }
        let mut beginning = Vec::new();
        let read = File::open(file).and_then(|open| open.take(LOOKED_AT).read_to_end(&mut beginning));
        if read.is_err() || !(beginning.is_empty() || is_ours(&beginning)) {
            return refused(
                format!("the file exists and is no {kind}"),
                "name another file, or remove this one",
            );
        }
        Ok(())
    }
}
