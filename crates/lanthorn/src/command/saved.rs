//! Runs on disk: a checkpoint file, and beside it its tokenizer, for other programs, and the chart of its losses.

use std::path::{Path, PathBuf};

use lanthorn_io::{Error, Tokenizer};
use lanthorn_nn::snapshot::Snapshot;

use super::failure::{Failure, Result};

/// The files of a run in its folder.
pub struct Files {
    pub checkpoint: PathBuf,
    pub tokenizer: PathBuf,
    pub chart: PathBuf,
}

impl Files {
    /// All of them.
    pub fn all(&self) -> [&Path; 3] {
        [&self.checkpoint, &self.tokenizer, &self.chart]
    }

    /// The files of the run in `folder`.
    pub fn of(folder: &Path) -> Files {
        Files {
            checkpoint: folder.join("checkpoint.safetensors"),
            tokenizer: folder.join("tokenizer.json"),
            chart: folder.join("loss.svg"),
        }
    }
}

/// Makes the folder that an option names, and those above it.
pub fn make_folder(option: &str, folder: &Path) -> Result<()> {
    if folder.exists() && !folder.is_dir() {
        let message = format!("{option} {}: it is a file; a folder would be right", folder.display());
        return Err(Failure::request(message));
    }
    std::fs::create_dir_all(folder).map_err(|cause| Error::io("make the folder", folder, cause).into())
}

/// The name of the document that ties a checkpoint to its tokenizer.
pub const TOKENIZER: &str = "tokenizer";

/// The name of the document that holds the tokenizer itself: a run that is stopped while it writes its files leaves a checkpoint
/// that can be used, whichever tokenizer.json lies beside it.
pub const TOKENIZER_JSON: &str = "tokenizer_json";

/// The tokenizer with which the snapshot was trained: `path`, else the checkpoint's own, else (of checkpoints that have
/// none) tokenizer.json beside it.
pub fn tokenizer(checkpoint: &Path, snapshot: &Snapshot, path: Option<&Path>) -> Result<Tokenizer> {
    let beside = checkpoint.with_file_name("tokenizer.json");
    let (subject, tokenizer) = match (path, snapshot.get::<String>(TOKENIZER_JSON)) {
        (None, Ok(json)) => {
            let subject = format!("the tokenizer in {}", checkpoint.display());
            let tokenizer = Tokenizer::from_json(&subject, &json)?;
            (subject, tokenizer)
        }
        (path, _) => {
            let path = path.unwrap_or(&beside);
            (path.display().to_string(), Tokenizer::load(path)?)
        }
    };
    let expected: String = snapshot.get(TOKENIZER)?;
    if tokenizer.content_hash() != expected {
        return Err(Failure::request_with(
            format!("{subject} is not the tokenizer that {} was trained with", checkpoint.display()),
            "name the right one with --tokenizer, or train again",
        ));
    }
    Ok(tokenizer)
}
