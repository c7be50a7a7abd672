//! Printing, in the manner of PyTorch: large tensors by their edges, numbers in columns.

use std::fmt::{self, Write};

use lanthorn_ir::prim::Movement;
use lanthorn_ir::{Builder, DType, Error, Lazy, Prim, Result, TensorType, ops};

use super::Tensor;
use crate::eager::{Eager, EagerTensor};
use crate::slot;

/// Tensors of more elements are summarised.
const THRESHOLD: usize = 1000;
/// How many elements a summary shows at each end of an axis.
const EDGE: usize = 3;
const LINE_WIDTH: usize = 80;
/// Brackets nest that deep.
const MAX_SHOWN_RANK: usize = 64;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shown() {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "tensor({}, {error})", self.ty()),
        }
    }
}

impl Tensor {
    fn shown(&self) -> Result<String> {
        let value = self.value();
        // A value that repeats another, such as zeros, may be larger than memory.
        let repeats = matches!(value.node().prim(), Prim::Movement(Movement::Broadcast { .. }));
        if is_summarised(self.ty()) && repeats && slot::concrete(&value)?.is_none() {
            let ends = Tensor::from_value(self.device(), edges(&Lazy, &value)?);
            return render(self.ty(), &ends.to_eager()?);
        }
        let tensor = self.to_eager()?;
        render(self.ty(), &ends_of(&tensor)?)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.ty(), self.device())
    }
}

impl fmt::Display for EagerTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ends_of(self).and_then(|ends| render(self.ty(), &ends)) {
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
        show_elements(self.ty(), &ends_of(self)?, indent)
    }
}

fn is_summarised(ty: &TensorType) -> bool {
    ty.numel() > THRESHOLD && ty.rank() <= MAX_SHOWN_RANK
}

/// What is shown of a tensor.
fn ends_of(tensor: &EagerTensor) -> Result<EagerTensor> {
    match is_summarised(tensor.ty()) {
        true => edges(&Eager::new(tensor.device()), tensor),
        false => Ok(tensor.clone()),
    }
}

/// A tensor of type `ty` of which `shown` are the elements to be shown.
fn show_elements(ty: &TensorType, shown: &EagerTensor, indent: usize) -> Result<String> {
    if ty.numel() == 0 {
        return Ok("[]".to_string());
    }
    if ty.rank() > MAX_SHOWN_RANK {
        let (rank, most) = (ty.rank(), MAX_SHOWN_RANK);
        return Err(Error::shape(
            "show",
            format!("a tensor of {rank} axes is not printed; at most {most} are"),
        ));
    }
    let words = words(shown)?;
    let axes = Axes { full: &ty.shape, shown: shown.shape(), summarised: is_summarised(ty) };
    let mut text = String::new();
    write_axis(&mut text, &axes, 0, &mut words.texts.iter(), words.width, indent);
    Ok(text)
}

/// As torch prints: the dtype unless it is the one that such elements have by default, the device unless it is the
/// cpu, the shape where brackets do not say it.
fn render(ty: &TensorType, shown: &EagerTensor) -> Result<String> {
    let mut text = format!("tensor({}", show_elements(ty, shown, 7)?);
    let device = shown.device().name();
    if device != "cpu" {
        let _ = write!(text, ", device={device}");
    }
    let is_empty = ty.numel() == 0;
    if is_empty && ty.rank() != 1 {
        let _ = write!(text, ", shape={}", lanthorn_ir::layout::ShowShape(&ty.shape));
    }
    let is_shown_by_elements = !is_empty && matches!(ty.dtype, DType::I64 | DType::Bool | DType::C64);
    if ty.dtype != DType::F32 && !is_shown_by_elements {
        let _ = write!(text, ", dtype={}", ty.dtype);
    }
    text.push(')');
    Ok(text)
}

/// The ends of every long axis.
fn edges<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let mut shown = x.clone();
    for (axis, &size) in b.ty(x).shape.iter().enumerate() {
        if size > 2 * EDGE {
            let axis = axis as isize;
            let head = ops::narrow(b, &shown, axis, 0, EDGE)?;
            let tail = ops::narrow(b, &shown, axis, -(EDGE as isize), EDGE)?;
            shown = ops::concat(b, &[head, tail], axis)?;
        }
    }
    Ok(shown)
}

/// Elements as text, and the width of a column.
struct Words {
    texts: Vec<String>,
    width: usize,
}

impl Words {
    /// Texts at the right of columns of at least `width`.
    fn columns(texts: Vec<String>, width: usize) -> Words {
        let width = texts.iter().map(String::len).fold(width, usize::max);
        Words { texts: texts.into_iter().map(|text| format!("{text:>width$}")).collect(), width }
    }
}

/// The elements as text: integers plain, floats with four digits, in scientific form if their range asks for it.
fn words(tensor: &EagerTensor) -> Result<Words> {
    let dtype = tensor.dtype();
    if dtype.is_complex() {
        return complex_words(tensor);
    }
    if dtype.is_float() {
        return Ok(float_words(&tensor.to_f64_vec()?));
    }
    let texts = match dtype {
        DType::Bool => {
            let name = |value: &bool| if *value { "True" } else { "False" }.to_owned();
            tensor.to_vec::<bool>()?.iter().map(name).collect()
        }
        DType::U64 => tensor.to_vec::<u64>()?.iter().map(u64::to_string).collect(),
        DType::I64 => tensor.to_vec::<i64>()?.iter().map(i64::to_string).collect(),
        _ => tensor.to_f64_vec()?.iter().map(|value| format!("{value:.0}")).collect(),
    };
    Ok(Words::columns(texts, 1))
}

/// Columns are as wide as the finite numbers but 0 need, as in torch: a NaN or an infinity may be wider.
fn float_words(values: &[f64]) -> Words {
    let numbers = || values.iter().copied().filter(|value| value.is_finite() && *value != 0.0);
    let sizes = numbers().map(f64::abs);
    let (low, high) = sizes.fold((f64::INFINITY, 0f64), |(low, high), v| (low.min(v), high.max(v)));
    let is_scientific = high > 0.0 && (high / low > 1000.0 || high > 1e8 || low < 1e-4);
    let is_whole = numbers().all(|value| value.fract() == 0.0);
    let word = |value: f64| match (value.is_finite(), is_scientific, is_whole) {
        (false, ..) => value.to_string().to_lowercase(),
        (_, true, _) => format_scientific(value),
        (_, _, true) => format!("{value:.0}."),
        _ => format!("{value:.4}"),
    };
    let width = numbers().map(|value| word(value).len()).fold(1, usize::max);
    Words { texts: values.iter().map(|&value| format!("{:>width$}", word(value))).collect(), width }
}

/// `1.0000-2.5000j`: real and imaginary parts, each formatted among its own.
fn complex_words(tensor: &EagerTensor) -> Result<Words> {
    let eager = Eager::new(tensor.device());
    let real = float_words(&ops::real(&eager, tensor)?.to_f64_vec()?);
    let imaginary = float_words(&ops::imag(&eager, tensor)?.to_f64_vec()?);
    let join = |(re, im): (String, String)| {
        let im = im.trim_start();
        format!("{re}{}{im}j", if im.starts_with('-') { "" } else { "+" })
    };
    let width = real.width + imaginary.width + 1;
    Ok(Words { texts: real.texts.into_iter().zip(imaginary.texts).map(join).collect(), width })
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
        text.push_str(words.next().map_or("", String::as_str));
        return;
    };
    text.push('[');
    let is_last = axis + 1 == axes.shown.len();
    if is_last {
        let mut line: Vec<&str> = words.take(size).map(String::as_str).collect();
        if let Some(gap) = axes.gap(axis) {
            line.insert(gap, " ...");
        }
        let per_line = (LINE_WIDTH.saturating_sub(indent) / (width + 2)).max(1);
        let lines: Vec<String> = line.chunks(per_line).map(|words| words.join(", ")).collect();
        text.push_str(&lines.join(&format!(",\n{:indent$}", "", indent = indent + 1)));
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
