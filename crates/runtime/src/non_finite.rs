//! Which op first gave a number that is not finite.
//!
//! An op is at fault if it gives a NaN and none of its operands holds one, or an infinity and all of its operands are
//! finite. What has no operands is what the program says, and so is an infinite constant in a mask.
//!
//! [`Executable::first_non_finite`](crate::Executable::first_non_finite) looks at one call of a program;
//! [`Device::set_trace_non_finite`](crate::Device::set_trace_non_finite) looks at everything.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;

use lanthorn_compiler::indexed::{Indexed, ValueRef};
use lanthorn_ir::builder::Outputs;
use lanthorn_ir::layout::ShowShape;
use lanthorn_ir::prim::{Attention, Complex, Control};
use lanthorn_ir::{Builder, Error, ErrorKind, Prim, Result, TensorType};
use smallvec::SmallVec;

use crate::eager::{Eager, EagerTensor, computes};

/// An op that gave a number that is not finite, from operands that do not explain it.
#[derive(Clone, Debug, PartialEq)]
pub struct NonFinite {
    /// The primitive's name, such as `log`.
    pub op: &'static str,
    /// Which of its results, counted from 0, and its type.
    pub result: usize,
    pub ty: TensorType,
    /// Where the first such element lies.
    pub index: Vec<usize>,
    /// NaN or an infinity.
    pub value: f64,
    /// How many elements of the result are not finite.
    pub count: usize,
    /// What the operands held.
    pub operands: Vec<Extent>,
}

/// What numbers a tensor holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    pub ty: TensorType,
    /// The smallest and largest number that is no NaN; infinity and minus infinity if there is none.
    pub low: f64,
    pub high: f64,
    pub has_nan: bool,
}

impl Extent {
    /// Reads the tensor.
    pub(crate) fn of(tensor: &EagerTensor) -> Result<Extent> {
        let mut extent =
            Extent { ty: tensor.ty().clone(), low: f64::INFINITY, high: f64::NEG_INFINITY, has_nan: false };
        for value in numbers(tensor)? {
            if value.is_nan() {
                extent.has_nan = true;
            } else {
                extent.low = extent.low.min(value);
                extent.high = extent.high.max(value);
            }
        }
        Ok(extent)
    }

    fn is_finite(&self) -> bool {
        // Of no elements, low lies above high.
        !self.has_nan && (self.low > self.high || (self.low.is_finite() && self.high.is_finite()))
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ty)?;
        if self.low <= self.high {
            let is_wide = self.ty.dtype.size() > 4;
            // Values of narrower types in as few digits as they have.
            let shown =
                |value: f64| if is_wide { format!("{value:e}") } else { format!("{:e}", value as f32) };
            write!(f, " of {} to {}", shown(self.low), shown(self.high))?;
        }
        if self.has_nan { f.write_str(" with NaN") } else { Ok(()) }
    }
}

impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.op, Sentence(self))
    }
}

/// All but the op's name.
struct Sentence<'a>(&'a NonFinite);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NonFinite { result, ty, index, value, count, operands, .. } = self.0;
        let total = ty.numel();
        write!(f, "gave {value} at {} of result {result}, {ty}", ShowShape(index))?;
        write!(f, " ({count} of {total} elements are not finite)")?;
        for (at, operand) in operands.iter().enumerate() {
            write!(f, "{} operand {at}: {operand}", if at == 0 { ", from" } else { "," })?;
        }
        Ok(())
    }
}

impl NonFinite {
    /// As an error of kind [`ErrorKind::Execute`] that names the op.
    pub fn into_error(self) -> Error {
        Error::new(ErrorKind::Execute, self.op, Sentence(&self).to_string())
    }
}

/// The elements as f64; of a complex tensor both parts.
fn numbers(tensor: &EagerTensor) -> Result<Vec<f64>> {
    if !tensor.dtype().is_complex() {
        return tensor.to_f64_vec();
    }
    let parts = Eager::new(tensor.device()).apply_ref(Prim::Complex(Complex::AsReal), &[tensor])?;
    parts.first().map_or_else(|| Ok(Vec::new()), EagerTensor::to_f64_vec)
}

/// True if every number of the tensor is finite.
pub(crate) fn is_finite(tensor: &EagerTensor) -> Result<bool> {
    if tensor.dtype().is_int() {
        return Ok(true);
    }
    Ok(numbers(tensor)?.iter().all(|value| value.is_finite()))
}

/// What operands hold, to be asked for before the op runs.
pub(crate) fn extents(operands: &[&EagerTensor]) -> Result<Vec<Extent>> {
    operands.iter().map(|operand| Extent::of(operand)).collect()
}

/// Whether the op is at fault, given its operands and results.
pub(crate) fn at_fault(
    prim: &Prim,
    operands: Vec<Extent>,
    results: &[impl Borrow<EagerTensor>],
) -> Result<Option<NonFinite>> {
    let (no_nan, all_finite) =
        (operands.iter().all(|operand| !operand.has_nan), operands.iter().all(Extent::is_finite));
    if operands.is_empty() || !no_nan {
        return Ok(None);
    }
    for (result, tensor) in results.iter().map(Borrow::borrow).enumerate() {
        if tensor.dtype().is_int() {
            continue;
        }
        let found = numbers(tensor)?;
        let is_fault = |value: &f64| {
            value.is_nan() || (value.is_infinite() && all_finite && !may_be_infinite(prim, result))
        };
        let Some(place) = found.iter().position(is_fault) else { continue };
        let ty = tensor.ty().clone();
        // Of a complex tensor, two numbers are an element.
        let flat = place * ty.numel() / found.len().max(1);
        return Ok(Some(NonFinite {
            op: prim.name(),
            result,
            index: coordinates(&ty.shape, flat),
            value: found[place],
            count: found.iter().filter(|value| !value.is_finite()).count(),
            operands,
            ty,
        }));
    }
    Ok(None)
}

/// Results that are infinite by definition: the log-sum-exp of a query that sees no key.
fn may_be_infinite(prim: &Prim, result: usize) -> bool {
    matches!(prim, Prim::Attention(Attention::Forward(_))) && result == 1
}

/// The coordinates of the `flat`-th element.
fn coordinates(shape: &[usize], mut flat: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (axis, &size) in shape.iter().enumerate().rev() {
        index[axis] = flat % size.max(1);
        flat /= size.max(1);
    }
    index
}

/// Runs a program one primitive at a time, until one is at fault.
pub(crate) fn first(
    eager: &Eager,
    program: &Indexed,
    arguments: &[&EagerTensor],
) -> Result<Option<NonFinite>> {
    let mut last_use = vec![0usize; program.nodes.len()];
    for (at, node) in program.nodes.iter().enumerate() {
        for input in &node.inputs {
            last_use[input.node as usize] = at;
        }
    }
    let missing = || Error::new(ErrorKind::Execute, "first_non_finite", "a value has not been computed");
    let tracer = Tracer { eager, found: Cell::new(None) };
    let mut values: Vec<Outputs<EagerTensor>> = vec![Outputs::new(); program.nodes.len()];
    for (&node, &argument) in program.inputs.iter().zip(arguments) {
        values[node as usize] = SmallVec::from_iter([argument.clone()]);
    }
    for (at, node) in program.nodes.iter().enumerate() {
        if !values[at].is_empty() {
            continue;
        }
        let value = |v: &ValueRef| values[v.node as usize].get(v.output as usize).cloned();
        let inputs: Vec<EagerTensor> =
            node.inputs.iter().map(value).collect::<Option<_>>().ok_or_else(missing)?;
        let outputs = tracer.apply(node.prim.clone(), &inputs);
        if let Some(found) = tracer.found.take() {
            return Ok(Some(found));
        }
        values[at] = outputs?;
        for input in &node.inputs {
            if last_use[input.node as usize] == at {
                values[input.node as usize].clear();
            }
        }
    }
    Ok(None)
}

/// Runs primitives and looks at what they give; what a checkpoint holds too.
struct Tracer<'a> {
    eager: &'a Eager,
    found: Cell<Option<NonFinite>>,
}

impl Builder for Tracer<'_> {
    type Value = EagerTensor;

    fn apply(&self, prim: Prim, inputs: &[EagerTensor]) -> Result<Outputs<EagerTensor>> {
        if let Prim::Control(Control::Checkpoint { body }) = &prim {
            return Ok(body.inline(self, inputs)?.into());
        }
        let operands: SmallVec<[&EagerTensor; 4]> = inputs.iter().collect();
        let outputs = self.eager.apply_quietly(prim.clone(), &operands)?;
        if computes(&prim)
            && let Some(found) = at_fault(&prim, extents(&operands)?, &outputs)?
        {
            let error = found.clone().into_error();
            self.found.set(Some(found));
            return Err(error);
        }
        Ok(outputs)
    }

    fn ty<'a>(&self, value: &'a EagerTensor) -> &'a TensorType {
        value.ty()
    }

    fn count(&self, op: &str, value: &EagerTensor) -> Result<usize> {
        self.eager.count(op, value)
    }
}
