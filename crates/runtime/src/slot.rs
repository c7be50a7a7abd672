//! The slots of graph values ([`lanthorn_compiler::slot`]) with the concrete tensors of this crate.

use lanthorn_compiler::indexed::Indexed;
use lanthorn_compiler::slot;
use lanthorn_ir::{Result, Value};

use crate::device::Device;
use crate::eager::EagerTensor;

/// The payload of a value.
pub(crate) type Slot = slot::Slot<EagerTensor>;

/// A leaf that holds a concrete tensor.
pub(crate) fn leaf(tensor: EagerTensor) -> Result<Value> {
    let ty = tensor.ty().clone();
    slot::leaf(&ty, tensor)
}

/// A leaf with the elements of `value`, through which no derivative passes.
pub(crate) fn stand_in(value: &Value) -> Result<Value> {
    slot::stand_in::<EagerTensor>(value)
}

/// The concrete tensor of a value, if it has been computed.
pub(crate) fn concrete(value: &Value) -> Result<Option<EagerTensor>> {
    slot::concrete(value)
}

/// Attaches what has been computed to a value.
pub(crate) fn fill(value: &Value, tensor: &EagerTensor) -> Result<()> {
    slot::fill(value, tensor)
}

/// [`slot::resolve`] for a program of `device`: all tensors are its own.
pub(crate) fn resolve(
    device: &Device,
    parameters: &[Value],
    roots: &[Value],
) -> Result<(Indexed, Vec<EagerTensor>)> {
    let (indexed, bound) = slot::resolve::<EagerTensor>(parameters, roots)?;
    bound.iter().try_for_each(|tensor| device.expect("tensor", tensor.device()))?;
    Ok((indexed, bound))
}
