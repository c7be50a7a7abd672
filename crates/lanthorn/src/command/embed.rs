//! `lanthorn embed`: texts to vectors, and how alike they are.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use lanthorn_ir::ErrorKind;
use lanthorn_llm::Pretrained;
use lanthorn_llm::embed::cosine_similarity;
use serde_json::to_string;

use super::failure::Result;
use super::machine::Machine;
use super::trace::Trace;
use super::{input, interrupt};

/// Turn texts into vectors whose angles say how alike they are.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lanthorn embed all-MiniLM-L6-v2 \"A man is eating.\" \"Somebody has a meal.\" --similarity
  lanthorn embed all-MiniLM-L6-v2 --file sentences.txt > vectors.txt
  cat sentences.txt | lanthorn embed all-MiniLM-L6-v2 --file - --json")]
pub struct Embed {
    /// A folder of sentence-transformers: config.json, model.safetensors, tokenizer.json
    model: PathBuf,
    /// The texts
    #[arg(value_name = "TEXT", required_unless_present = "file")]
    texts: Vec<String>,
    /// Read the texts from this UTF-8 file, one a line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    file: Option<PathBuf>,
    /// Print a table of the cosines between all texts instead of the vectors
    #[arg(long)]
    similarity: bool,
    /// Print JSON: a line for each text, or one object with --similarity
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: Trace,
    #[command(flatten)]
    machine: Machine,
}

impl Embed {
    pub fn run(self) -> Result<ExitCode> {
        self.machine.apply()?;
        self.trace.around(&super::device(), &[], || self.write())
    }

    fn write(&self) -> Result<ExitCode> {
        let texts = match &self.file {
            None => self.texts.clone(),
            Some(file) => lines(file)?,
        };
        let embedder = Pretrained::open(&self.model)?.embedder(&super::device())?;
        let cancel = interrupt::during();
        let vectors = match embedder.embed(&texts, &cancel) {
            Err(error) if error.kind == ErrorKind::Cancelled => {
                return Ok(interrupt::code());
            }
            vectors => vectors?,
        };
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        match (self.similarity, self.json) {
            (false, false) => {
                for vector in &vectors {
                    if cancel.is_cancelled() {
                        return Ok(interrupt::code());
                    }
                    let numbers: Vec<String> = vector.iter().map(ToString::to_string).collect();
                    writeln!(out, "{}", numbers.join(" "))?;
                }
            }
            (false, true) => {
                for (text, vector) in texts.iter().zip(&vectors) {
                    if cancel.is_cancelled() {
                        return Ok(interrupt::code());
                    }
                    writeln!(out, "{{\"text\":{},\"embedding\":{}}}", to_string(text)?, to_string(vector)?)?;
                }
            }
            (true, false) => {
                let rows = texts.iter().zip(similarities(&vectors));
                for (at, (text, row)) in rows.enumerate() {
                    if cancel.is_cancelled() {
                        return Ok(interrupt::code());
                    }
                    write!(out, "{:>4}", at + 1)?;
                    for cosine in row {
                        write!(out, " {cosine:>7.4}")?;
                    }
                    writeln!(out, "  {}", shown(text))?;
                }
            }
            (true, true) => {
                let rows: Vec<_> = similarities(&vectors).take_while(|_| !cancel.is_cancelled()).collect();
                if cancel.is_cancelled() {
                    return Ok(interrupt::code());
                }
                writeln!(out, "{{\"texts\":{},\"similarity\":{}}}", to_string(&texts)?, to_string(&rows)?)?;
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// For each vector the cosines between it and all.
fn similarities(vectors: &[Vec<f32>]) -> impl Iterator<Item = Vec<f64>> {
    vectors.iter().map(|one| vectors.iter().map(|other| cosine_similarity(one, other)).collect())
}

/// Characters of a text that the table shows.
const SHOWN: usize = 60;

/// The beginning of a text, on one line.
fn shown(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let more = if text.chars().nth(SHOWN).is_some() { " .." } else { "" };
    format!("{shown}{more}")
}

/// The lines of a file, or of standard input.
fn lines(file: &Path) -> Result<Vec<String>> {
    Ok(input::file(file)?.lines().map(str::to_owned).collect())
}
