//! Printing, in the manner of PyTorch: large tensors by their edges, numbers in columns.

use std::fmt::{self, Write};

use lanthorn_ir::{DType, Error, Result, ops};

use super::Tensor;
use crate::eager::{Eager, EagerTensor};

/// Tensors of more elements are summarised.
const THRESHOLD: usize = 1000;
/// How many elements a summary shows at each end of an axis.
const EDGE: usize = 3;
const LINE_WIDTH: usize = 80;
/// Brackets nest that deep.
const MAX_SHOWN_RANK: usize = 64;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_eager().and_then(|tensor| render(&tensor)) {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "tensor({}, {error})", self.ty()),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.ty(), self.device())
    }
}

impl fmt::Display for EagerTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match render(self) {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "tensor({}, {error})", self.ty()),
        }
    }
}

impl EagerTensor {
    /// The elements in brackets and columns, without dtype and shape. Lines after the first begin at column `indent`.
    ///
    /// Errors: more than 64 axes.
    pub fn show_elements(&self, indent: usize) -> Result<String> {
        if self.ty().numel() == 0 {
            return Ok("[]".to_string());
        }
        if self.ty().rank() > MAX_SHOWN_RANK {
            let (rank, most) = (self.ty().rank(), MAX_SHOWN_RANK);
            return Err(Error::shape(
                "show",
                format!("a tensor of {rank} axes is not printed; at most {most} are"),
            ));
        }
        let summarised = self.ty().numel() > THRESHOLD;
        // Only what is shown is read.
        let shown = if summarised { edges(self)? } else { self.clone() };
        let numbers = words(&shown)?;
        let width = numbers.iter().map(String::len).max().unwrap_or(0);
        let mut text = String::new();
        let axes = Axes { full: self.shape(), shown: shown.shape(), summarised };
        write_axis(&mut text, &axes, 0, &mut numbers.iter(), width, indent);
        Ok(text)
    }
}

/// As torch prints: the dtype unless it is the one that such elements have by default, the device unless it is the
/// cpu, the shape where brackets do not say it.
fn render(tensor: &EagerTensor) -> Result<String> {
    let mut text = format!("tensor({}", tensor.show_elements(7)?);
    let device = tensor.device().name();
    if device != "cpu" {
        let _ = write!(text, ", device={device}");
    }
    if tensor.ty().numel() == 0 && tensor.ty().rank() != 1 {
        let _ = write!(text, ", shape={}", lanthorn_ir::layout::ShowShape(tensor.shape()));
    }
    if !matches!(tensor.dtype(), DType::F32 | DType::I64 | DType::Bool | DType::C64) {
        let _ = write!(text, ", dtype={}", tensor.dtype());
    }
    text.push(')');
    Ok(text)
}

/// The ends of every long axis.
fn edges(tensor: &EagerTensor) -> Result<EagerTensor> {
    let eager = Eager::new(tensor.device());
    let mut shown = tensor.clone();
    for axis in 0..tensor.ty().rank() {
        let size = tensor.shape()[axis];
        if size > 2 * EDGE {
            let axis = axis as isize;
            let head = ops::narrow(&eager, &shown, axis, 0, EDGE)?;
            let tail = ops::narrow(&eager, &shown, axis, -(EDGE as isize), EDGE)?;
            shown = ops::concat(&eager, &[head, tail], axis)?;
        }
    }
    Ok(shown)
}

/// The elements as text: integers plain, floats with four digits, in scientific form if their range asks for it.
fn words(tensor: &EagerTensor) -> Result<Vec<String>> {
    if tensor.dtype() == DType::Bool {
        return Ok(tensor.to_vec::<bool>()?.iter().map(bool::to_string).collect());
    }
    if tensor.dtype() == DType::U64 {
        return Ok(tensor.to_vec::<u64>()?.iter().map(u64::to_string).collect());
    }
    if tensor.dtype() == DType::I64 {
        return Ok(tensor.to_vec::<i64>()?.iter().map(i64::to_string).collect());
    }
    if tensor.dtype().is_complex() {
        return complex_words(tensor);
    }
    let values = tensor.to_f64_vec()?;
    if !tensor.dtype().is_float() {
        return Ok(values.iter().map(|value| format!("{value:.0}")).collect());
    }
    Ok(float_words(&values))
}

fn float_words(values: &[f64]) -> Vec<String> {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    if finite.clone().all(|value| value.fract() == 0.0 && value.abs() < 1e8) {
        return values.iter().map(|value| named(*value, |v| format!("{v:.0}."))).collect();
    }
    let nonzero = finite.map(f64::abs).filter(|&value| value != 0.0);
    let (low, high) = nonzero.fold((f64::INFINITY, 0f64), |(low, high), v| (low.min(v), high.max(v)));
    let scientific = high / low > 1000.0 || high > 1e8 || low < 1e-4;
    let word = |value: f64| if scientific { format_scientific(value) } else { format!("{value:.4}") };
    values.iter().map(|value| named(*value, word)).collect()
}

/// `1.0000-2.5000j`: real and imaginary parts, each formatted among its own.
fn complex_words(tensor: &EagerTensor) -> Result<Vec<String>> {
    let eager = Eager::new(tensor.device());
    let real = float_words(&ops::real(&eager, tensor)?.to_f64_vec()?);
    let imaginary = float_words(&ops::imag(&eager, tensor)?.to_f64_vec()?);
    let width = imaginary.iter().map(|word| word.trim_start_matches('-').len()).max().unwrap_or(0);
    let join = |(re, im): (String, String)| {
        let (sign, size) = match im.strip_prefix('-') {
            Some(size) => ('-', size),
            None => ('+', im.as_str()),
        };
        format!("{re}{sign}{size:>width$}j")
    };
    Ok(real.into_iter().zip(imaginary).map(join).collect())
}

fn named(value: f64, word: impl Fn(f64) -> String) -> String {
    match (value.is_nan(), value.is_infinite()) {
        (true, _) => "nan".into(),
        (_, true) if value > 0.0 => "inf".into(),
        (_, true) => "-inf".into(),
        _ => word(value),
    }
}

/// `1.2346e-05`: two digits of exponent at least, with its sign.
fn format_scientific(value: f64) -> String {
    let text = format!("{value:.4e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

struct Axes<'a> {
    full: &'a [usize],
    shown: &'a [usize],
    summarised: bool,
}

impl Axes<'_> {
    /// Where an axis is cut, if it is.
    fn gap(&self, axis: usize) -> Option<usize> {
        (self.summarised && self.full[axis] > 2 * EDGE).then_some(EDGE)
    }
}

fn write_axis<'a>(
    text: &mut String,
    axes: &Axes<'_>,
    axis: usize,
    words: &mut impl Iterator<Item = &'a String>,
    width: usize,
    indent: usize,
) {
    let Some(&size) = axes.shown.get(axis) else {
        text.push_str(words.next().map_or("", |word| word.trim()));
        return;
    };
    text.push('[');
    let is_last = axis + 1 == axes.shown.len();
    if is_last {
        let per_line = (LINE_WIDTH.saturating_sub(indent) / (width + 2)).max(1);
        let mut on_line = 0;
        for at in 0..size {
            if at > 0 {
                text.push_str(", ");
            }
            if axes.gap(axis) == Some(at) {
                text.push_str("..., ");
                on_line += 1;
            }
            if on_line >= per_line {
                text.truncate(text.trim_end().len());
                let _ = write!(text, "\n{:indent$}", "", indent = indent + 1);
                on_line = 0;
            }
            let word = words.next().map_or("", String::as_str);
            let _ = write!(text, "{word:>width$}");
            on_line += 1;
        }
    } else {
        let newlines = "\n".repeat(axes.shown.len() - axis - 1);
        for at in 0..size {
            if at > 0 {
                let _ = write!(text, ",{newlines}{:indent$}", "", indent = indent + 1);
            }
            if axes.gap(axis) == Some(at) {
                let _ = write!(text, "...,{newlines}{:indent$}", "", indent = indent + 1);
            }
            write_axis(text, axes, axis + 1, words, width, indent + 1);
        }
    }
    text.push(']');
}
