//! `--trace`: a profile of the work of one command.

use std::path::{Path, PathBuf};

use clap::Args;
use lanthorn_io::atomic;
use lanthorn_runtime::Device;

use super::failure::{Result, say};
use super::output::Output;

/// Looking into a run.
#[derive(Args)]
pub struct Trace {
    /// Write where the time goes (compilations, runs, kernels) for ui.perfetto.dev or chrome://tracing, and print the ten
    /// kernels that took longest
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

impl Trace {
    fn output<'a>(&self, file: &'a Path) -> Output<'a> {
        Output {
            option: "--trace",
            file,
            kind: "trace",
            is_ours: |bytes| BEGINNING.starts_with(bytes) || bytes.starts_with(BEGINNING),
        }
    }

    /// Refuses, before the work, a file that could not be written afterwards, and one that is no trace: a model or a text
    /// whose name was given by mistake would be lost. `others` are what the command itself writes.
    pub fn check(&self, others: &[&Path]) -> Result<()> {
        self.trace.as_deref().map_or(Ok(()), |file| self.output(file).check(others))
    }

    /// Does `work`, recording it if that is asked for. What was recorded is written even if the work fails.
    pub fn around<T>(
        &self,
        device: &Device,
        others: &[&Path],
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(file) = &self.trace else { return work() };
        self.check(others)?;
        device.start_profile()?;
        let done = work();
        // The work may have put something there.
        let written = self.check(others).and_then(|()| write(device, file));
        // What went wrong first is what is told.
        let done = done?;
        written?;
        Ok(done)
    }
}

/// How a trace begins.
const BEGINNING: &[u8] = b"{\"displayTimeUnit\"";

fn write(device: &Device, file: &Path) -> Result<()> {
    let profile = device.stop_profile();
    atomic::write(file, profile.to_chrome_trace().as_bytes())?;
    say(format!("\n{profile}\nwrote {}", file.display()))
}
