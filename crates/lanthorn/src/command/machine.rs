//! What of the machine a command may use.

use clap::Args;
use lanthorn_runtime::{EagerTensor, settings};

use super::failure::Result;

/// The machine.
#[derive(Args)]
pub struct Machine {
    /// Threads that compute; without it LANTHORN_THREADS, or what the machine offers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), help_heading = "Machine")]
    threads: Option<u16>,
    /// The most memory that tensors take, in bytes or such as 512MiB; without it LANTHORN_MEMORY_LIMIT, or no limit
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Machine")]
    memory_limit: Option<usize>,
}

fn size(text: &str) -> std::result::Result<usize, String> {
    settings::size_of(text).ok_or_else(|| "bytes, or such as 512MiB or 4GiB would be right".to_owned())
}

impl Machine {
    /// Sets what was asked for. Errors: what the environment asks for and is nothing, before any work is done in vain.
    pub fn apply(&self) -> Result<()> {
        let device = super::device();
        if let Some(threads) = self.threads {
            device.set_threads(threads.into())?;
        }
        if self.memory_limit.is_some() {
            device.set_memory_limit(self.memory_limit);
        }
        EagerTensor::from_slice(&device, &[1], &[0u8])?;
        Ok(())
    }

    /// The threads that were asked for.
    pub fn threads(&self) -> Option<usize> {
        self.threads.map(usize::from)
    }
}
