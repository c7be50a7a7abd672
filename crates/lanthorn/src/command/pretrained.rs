//! Flags that say which published model runs, for every command that runs one.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lanthorn_llm::pretrained::Texts;
use lanthorn_llm::{Generator, Pretrained};
use lanthorn_nn::{Llama, LlamaConfig};

use super::failure::{Failure, Result};
use super::numbers::at_least_one;

/// Which model runs.
#[derive(Args)]
pub struct Chosen {
    /// A .gguf file, or a folder with config.json, safetensors and tokenizer.json
    pub model: PathBuf,
    /// The most tokens that the model sees at once; the model's own context where that is shorter
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = at_least_one)]
    context: usize,
    /// How weights that the file has packed are kept: `packed` reads the blocks, `f32` unpacks them (up to eight times the
    /// memory; to the last bits, what transformers computes)
    #[arg(long, value_enum, default_value = "packed")]
    weights: Weights,
}

#[derive(Clone, Copy, ValueEnum)]
enum Weights {
    Packed,
    F32,
}

impl Chosen {
    /// The model's files, and what comes with it for texts.
    pub fn open(&self) -> Result<(Pretrained, Texts)> {
        let model = Pretrained::open(&self.model)?;
        let texts = model.texts()?;
        Ok((model, texts))
    }

    /// How the model runs.
    pub fn config(&self, model: &Pretrained) -> Result<LlamaConfig> {
        let mut config = match self.weights {
            Weights::Packed => model.packed_config()?,
            Weights::F32 => model.config()?,
        };
        config.context = config.context.min(self.context);
        Ok(config)
    }

    /// The model on the device.
    pub fn generator(&self, model: &Pretrained, config: LlamaConfig) -> Result<Generator<Llama>> {
        Ok(model.generator(&super::device(), config)?)
    }

    /// Refuses ids that the context does not hold: what they begin with, an instruction perhaps, would not be seen.
    pub fn check_length(&self, ids: &[u32], context: usize) -> Result<()> {
        if ids.len() <= context {
            return Ok(());
        }
        let message = format!("the prompt has {} tokens, and the context holds {context}", ids.len());
        let help = if context == self.context {
            "--context N gives more room, as far as the model's own context goes; a shorter prompt needs less"
        } else {
            "that is the model's own context; a shorter prompt would be right"
        };
        Err(Failure::request_with(message, help))
    }
}
