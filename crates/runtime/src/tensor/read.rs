//! Commit points: computing tensors and reading their elements.

use std::borrow::Borrow;

use lanthorn_compiler::backend::Readback;
use lanthorn_ir::{Error, ErrorKind, Result, Value};

use super::{Tensor, concrete_view};
use crate::cancel::CancelToken;
use crate::eager::EagerTensor;
use crate::element::Element;
use crate::executable::{Executable, Options};
use crate::slot;

/// Computes all the tensors, of one device, in one program.
///
/// Errors: what kernels and devices report; a tensor that depends on the argument of a function that is being
/// traced.
pub fn realise<T: Borrow<Tensor>>(tensors: &[T]) -> Result<()> {
    let mut roots: Vec<Value> = Vec::new();
    for tensor in tensors.iter().map(Borrow::borrow) {
        let value = tensor.value();
        if slot::concrete(&value)?.is_some() || roots.contains(&value) {
            continue;
        }
        match concrete_view(&value)? {
            Some(view) => slot::fill(&value, &view)?,
            None => roots.push(value),
        }
    }
    if let (Some(first), false) = (tensors.first().map(Borrow::borrow), roots.is_empty()) {
        let device = first.device();
        tensors.iter().try_for_each(|tensor| device.expect("realise", tensor.borrow().device()))?;
        let program = Executable::new(device, &[], &roots, &Options::default())?;
        let results = program.call(&[], &CancelToken::never())?;
        for (root, result) in roots.iter().zip(&results) {
            slot::fill(root, result)?;
        }
    }
    for tensor in tensors.iter().map(Borrow::borrow) {
        let value = tensor.value();
        tensor.cell.pending.store(0, std::sync::atomic::Ordering::Relaxed);
        // What gradients may still be asked of keeps its graph.
        if !tensor.is_tracked() && !value.is_leaf() {
            tensor.rebind(slot::stand_in(&value)?);
        }
    }
    Ok(())
}

impl Tensor {
    /// Computes the tensor now, in a program of its own.
    pub fn eval(&self) -> Result<()> {
        realise(std::slice::from_ref(self))
    }

    /// The concrete tensor, computed if it is not yet.
    pub fn to_eager(&self) -> Result<EagerTensor> {
        let value = self.value();
        if let Some(tensor) = slot::concrete(&value)? {
            return Ok(tensor);
        }
        self.eval()?;
        slot::concrete(&self.value())?
            .ok_or_else(|| Error::new(ErrorKind::Execute, "eval", "the tensor has not been computed"))
    }

    /// The elements in row-major order.
    ///
    /// Errors: a dtype that is not `T`'s, and whatever computing the tensor reports.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.to_eager()?.to_vec()
    }

    /// The elements as f64, whatever the dtype.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>> {
        self.to_eager()?.to_f64_vec()
    }

    /// The bytes of the elements in row-major order.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.to_eager()?.to_bytes()
    }

    /// Starts to read the elements, computing the tensor first if it is not yet: what a front end polls where it
    /// must not wait for the device.
    pub fn start_read(&self) -> Result<Box<dyn Readback>> {
        self.to_eager()?.start_read()
    }

    /// The only element.
    ///
    /// Errors: a tensor of another number of elements than one.
    pub fn item(&self) -> Result<f64> {
        self.to_eager()?.item()
    }
}
