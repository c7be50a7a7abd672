//! `--trace`: a profile of the work of one command.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use lanthorn_io::atomic;
use lanthorn_runtime::Device;

use super::failure::{Failure, Result, say};

/// Looking into a run.
#[derive(Args)]
pub struct Trace {
    /// Write where the time goes (compilations, runs, kernels) for ui.perfetto.dev or chrome://tracing, and print the ten
    /// kernels that took longest
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

impl Trace {
    /// Does `work`, recording it if that is asked for. What was recorded is written even if the work fails.
    pub fn around<T>(&self, device: &Device, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(file) = &self.trace else { return work() };
        check(file)?;
        device.start_profile()?;
        let done = work();
        let written = write(device, file);
        // What went wrong first is what is told.
        let done = done?;
        written?;
        Ok(done)
    }
}

/// How a trace begins.
const BEGINNING: &[u8] = b"{\"displayTimeUnit\"";

/// Refuses, before the work, a file that could not be written afterwards, and one that is no trace: a model or a text whose
/// name was given by mistake would be lost.
fn check(file: &Path) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::request(format!(
            "--trace {}: there is no folder {}",
            file.display(),
            folder.display()
        )));
    }
    if !file.is_file() {
        return Ok(());
    }
    let mut beginning = Vec::new();
    let read =
        File::open(file).and_then(|open| open.take(BEGINNING.len() as u64).read_to_end(&mut beginning));
    if read.is_err() || !BEGINNING.starts_with(&beginning) {
        return Err(Failure::request_with(
            format!("--trace {}: the file exists and is no trace", file.display()),
            "name another file, or remove this one",
        ));
    }
    Ok(())
}

fn write(device: &Device, file: &Path) -> Result<()> {
    let profile = device.stop_profile();
    atomic::write(file, profile.to_chrome_trace().as_bytes())?;
    say(format!("\n{profile}\nwrote {}", file.display()))
}
