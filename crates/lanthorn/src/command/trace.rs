//! `--trace`: a profile of the work of one command.

use std::path::{Path, PathBuf};

use clap::Args;
use lanthorn_io::atomic;
use lanthorn_runtime::Device;

use super::failure::{Result, say};

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
        device.start_profile()?;
        let done = work();
        let written = write(device, file);
        // What went wrong first is what is told.
        let done = done?;
        written?;
        Ok(done)
    }
}

fn write(device: &Device, file: &Path) -> Result<()> {
    let profile = device.stop_profile();
    atomic::write(file, profile.to_chrome_trace().as_bytes())?;
    say(format!("\n{profile}\nwrote {}", file.display()))
}
