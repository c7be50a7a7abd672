//! `lanthorn inspect`: what is in a file of tensors.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lanthorn_io::{checkpoint, escaped, safetensors::Tensors, shown_shape};

use super::failure::{Failure, Result};

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
                writeln!(out, "{}: {}", escaped(name), shown(&document.to_string()))?;
            }
        } else {
            for (name, value) in tensors.metadata() {
                writeln!(out, "{}: {}", escaped(name), shown(value))?;
            }
        }
        let (mut bytes, mut elements) = (0u64, 0u64);
        for (name, view) in tensors.iter() {
            write!(out, "{}\t{}{}", escaped(name), view.dtype, shown_shape(view.shape))?;
            if self.statistics && view.dtype.is_float() {
                let subject = format!("{}: tensor `{}`", self.file.display(), escaped(name));
                let found = Statistics::of(
                    view.floats().map_err(|error| Failure::request(format!("{subject}: {error}")))?,
                );
                write!(out, "\t{found}")?;
            }
            writeln!(out)?;
            bytes += view.bytes.len() as u64;
            elements += (view.bytes.len() / view.dtype.size()) as u64;
        }
        writeln!(out, "{} tensors, {elements} elements, {bytes} bytes", tensors.len())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The beginning of a text.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{} ..", escaped(text.get(..at).unwrap_or_default())),
        None => escaped(text),
    }
}

/// What the numbers of a tensor are, but for those that are none.
struct Statistics {
    low: f64,
    high: f64,
    sum: f64,
    numbers: u64,
    nan: u64,
}

impl Statistics {
    fn of(values: impl Iterator<Item = f64>) -> Statistics {
        let none = Statistics { low: f64::INFINITY, high: f64::NEG_INFINITY, sum: 0.0, numbers: 0, nan: 0 };
        values.fold(none, |found, x| match x.is_nan() {
            true => Statistics { nan: found.nan + 1, ..found },
            false => Statistics {
                low: found.low.min(x),
                high: found.high.max(x),
                sum: found.sum + x,
                numbers: found.numbers + 1,
                ..found
            },
        })
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.numbers {
            0 => write!(f, "no numbers")?,
            count => {
                write!(f, "min {:.4} mean {:.4} max {:.4}", self.low, self.sum / count as f64, self.high)?;
            }
        }
        if self.nan > 0 { write!(f, ", {} NaN", self.nan) } else { Ok(()) }
    }
}

/// Characters of a document that are shown.
const SHOWN: usize = 400;
