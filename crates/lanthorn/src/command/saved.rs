//! Runs on disk: a checkpoint file and the tokenizer beside it.

use std::path::{Path, PathBuf};

use lanthorn_io::Tokenizer;
use lanthorn_nn::snapshot::Snapshot;

use super::failure::{Failure, Result};

/// The files of a run in its folder.
pub struct Files {
    pub checkpoint: PathBuf,
    pub tokenizer: PathBuf,
    pub chart: PathBuf,
}

impl Files {
    /// The files of the run in `folder`.
    pub fn of(folder: &Path) -> Files {
        Files {
            checkpoint: folder.join("checkpoint.safetensors"),
            tokenizer: folder.join("tokenizer.json"),
            chart: folder.join("loss.svg"),
        }
    }
}

/// The name of the document that ties a checkpoint to its tokenizer.
pub const TOKENIZER: &str = "tokenizer";

/// The tokenizer with which the snapshot was trained: `path`, or tokenizer.json beside the checkpoint.
pub fn tokenizer(checkpoint: &Path, snapshot: &Snapshot, path: Option<&Path>) -> Result<Tokenizer> {
    let beside = checkpoint.with_file_name("tokenizer.json");
    let path = path.unwrap_or(&beside);
    let tokenizer = Tokenizer::load(path)?;
    let expected: String = snapshot.get(TOKENIZER)?;
    if tokenizer.content_hash() != expected {
        return Err(Failure::request_with(
            format!("{} is not the tokenizer that {} was trained with", path.display(), checkpoint.display()),
            "name the right one with --tokenizer, or train again",
        ));
    }
    Ok(tokenizer)
}
