//! Flags that say how tokens are chosen, for every command that writes text.

use clap::Args;
use lanthorn_llm::Sampling;
use lanthorn_llm::sampling::Fault;

use super::failure::{Failure, Result};
use super::numbers::{count, count_64, number};

/// How tokens are chosen.
#[derive(Args, Clone, Copy)]
pub struct Choosing {
    /// Logits are divided by it; 0 takes the most probable token each time
    #[arg(long, default_value_t = 0.8, value_parser = number)]
    temperature: f64,
    /// Choose among this many most probable tokens
    #[arg(long, value_parser = count)]
    top_k: Option<usize>,
    /// Choose among the most probable tokens that together have this probability
    #[arg(long, value_parser = number)]
    top_p: Option<f64>,
    /// Choose among the tokens that have at least this part of the probability of the most probable one
    #[arg(long, value_parser = number)]
    min_p: Option<f64>,
    /// Make tokens that have occurred this much less likely; 1 changes nothing
    #[arg(long, default_value_t = 1.0, value_parser = number)]
    repetition_penalty: f64,
    /// The same seed writes the same text
    #[arg(long, default_value_t = 1, value_parser = count_64)]
    seed: u64,
}

impl Choosing {
    /// The settings.
    ///
    /// Errors: some that choose nothing.
    pub fn sampling(self) -> Result<Sampling> {
        let Choosing { temperature, top_k, top_p, min_p, repetition_penalty, seed } = self;
        let sampling = Sampling { temperature, top_k, top_p, min_p, repetition_penalty, seed };
        match sampling.fault() {
            None => Ok(sampling),
            // Options have the names of the settings, as options write them.
            Some(Fault { setting, found, expected }) => Err(Failure::request(format!(
                "--{} is {found}; {expected} would be right",
                setting.replace('_', "-")
            ))),
        }
    }
}
