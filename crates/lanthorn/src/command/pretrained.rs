//! Flags that say which published model runs, for every command that runs one.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lanthorn_llm::pretrained::Texts;
use lanthorn_llm::{Generator, Pretrained};
use lanthorn_nn::Llama;

use super::failure::Result;

/// Which model runs.
#[derive(Args)]
pub struct Chosen {
    /// A .gguf file, or a folder with config.json, safetensors and tokenizer.json
    pub model: PathBuf,
    /// The most tokens that the model sees at once; the model's own context where that is shorter
    #[arg(long, default_value_t = 4096, value_name = "N")]
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

    /// The model on the device.
    pub fn generator(&self, model: &Pretrained) -> Result<Generator<Llama>> {
        let mut config = match self.weights {
            Weights::Packed => model.packed_config()?,
            Weights::F32 => model.config()?,
        };
        config.context = config.context.min(self.context);
        Ok(model.generator(&super::device(), config)?)
    }
}
