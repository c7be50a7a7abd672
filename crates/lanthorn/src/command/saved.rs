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
    /// The checkpoint of the lowest held-out loss, where a run ends early by it.
    pub best: PathBuf,
}

impl Files {
    /// All of them.
    pub fn all(&self) -> [&Path; 4] {
        [&self.checkpoint, &self.tokenizer, &self.chart, &self.best]
    }

    /// Refuses files that are there already.
    pub fn refuse_existing(&self) -> Result<()> {
        match self.all().into_iter().find(|file| file.exists()) {
            None => Ok(()),
            Some(file) => Err(Failure::request_with(
                format!("{} exists already", file.display()),
                "--resume goes on with that run, --overwrite begins anew, --out names another folder",
            )),
        }
    }

    /// The files of the run in `folder`.
    pub fn of(folder: &Path) -> Files {
        Files {
            checkpoint: folder.join("checkpoint.safetensors"),
            tokenizer: folder.join("tokenizer.json"),
            chart: folder.join("loss.svg"),
            best: folder.join("best.safetensors"),
        }
    }
}

/// Folders that were made for a command, outermost first. When it is over those that are empty are removed.
#[derive(Default)]
pub struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // One in which there is something is not removed.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Makes the folder that an option names, and those above it.
pub fn make_folder(option: &str, folder: &Path) -> Result<Made> {
    if folder.exists() && !folder.is_dir() {
        let message = format!("{option} {}: it is a file; a folder would be right", folder.display());
        return Err(Failure::request(message));
    }
    let missing = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    made.reverse();
    std::fs::create_dir_all(folder).map_err(|cause| Error::io("make the folder", folder, cause))?;
    Ok(Made(made))
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
