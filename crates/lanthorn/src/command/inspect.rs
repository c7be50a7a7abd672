//! `lanthorn inspect`: what is in a file of tensors.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lanthorn_io::{checkpoint, safetensors::Tensors, shown_shape};

use super::failure::Result;

/// List the tensors and documents of a checkpoint or safetensors file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lanthorn inspect out/checkpoint.safetensors
  lanthorn inspect model.safetensors --statistics")]
pub struct Inspect {
    /// A safetensors file
    file: PathBuf,
    /// Print minimum, mean and maximum of each floating-point tensor
    #[arg(long)]
    statistics: bool,
}

impl Inspect {
    pub fn run(self) -> Result<ExitCode> {
        let tensors = Tensors::open(&self.file)?;
        let mut out = std::io::stdout().lock();
        let is_checkpoint = tensors.metadata().get("format").is_some_and(|f| f == checkpoint::FORMAT);
        if is_checkpoint {
            let (documents, _) = checkpoint::open(&self.file)?;
            for (name, document) in &documents {
                let text = document.to_string();
                let shown: String = text.chars().take(SHOWN).collect();
                let more = if shown.len() < text.len() { " .." } else { "" };
                writeln!(out, "{name}: {shown}{more}")?;
            }
        } else {
            for (name, value) in tensors.metadata() {
                writeln!(out, "{name}: {value}")?;
            }
        }
        let (mut bytes, mut elements) = (0u64, 0u64);
        for (name, view) in tensors.iter() {
            write!(out, "{name}\t{}{}", view.dtype, shown_shape(view.shape))?;
            if self.statistics && view.dtype.is_float() {
                let values = view.to_f32()?;
                let (low, high) = values
                    .iter()
                    .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
                let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len().max(1) as f64;
                write!(out, "\tmin {low:.4} mean {mean:.4} max {high:.4}")?;
            }
            writeln!(out)?;
            bytes += view.bytes.len() as u64;
            elements += (view.bytes.len() / view.dtype.size()) as u64;
        }
        writeln!(out, "{} tensors, {elements} elements, {bytes} bytes", tensors.len())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Characters of a document that are shown.
const SHOWN: usize = 400;
