//! Ops whose result has a shape that depends on values, without a `size`: the number is read when the op is called,
//! and the result stays a value of the graph, so that derivatives pass through it.

use lanthorn_ir::builder::Outputs;
use lanthorn_ir::ops::table::{self, Attribute, OPS};
use lanthorn_ir::{Builder, Error, ErrorKind, Lazy, Prim, Result, TensorType, Value};

use smallvec::SmallVec;

use super::{Tensor, realise};
use crate::compiled::trace;
use crate::device::Device;

/// Appends to the graph, and computes the numbers that shapes depend on.
struct Counting<'a> {
    device: &'a Device,
}

impl Builder for Counting<'_> {
    type Value = Value;

    fn apply(&self, prim: Prim, inputs: &[Value]) -> Result<Outputs<Value>> {
        Lazy.apply(prim, inputs)
    }

    fn ty<'a>(&self, value: &'a Value) -> &'a TensorType {
        value.ty()
    }

    fn count(&self, op: &str, value: &Value) -> Result<usize> {
        let found = Tensor::from_value(self.device, value.clone()).to_vec::<i64>()?;
        let found = found.first().copied().unwrap_or(0);
        usize::try_from(found)
            .map_err(|_| Error::new(ErrorKind::Execute, op, format!("the size {found} is no count")))
    }
}

/// The results of the op number `id`. Tensors that it has to count are computed first.
pub(super) fn call(
    lazy: &Lazy,
    id: usize,
    given: &[&Tensor],
    tensors: &[Option<&Tensor>],
    attributes: &[Attribute],
) -> Result<Vec<Value>> {
    let values =
        || tensors.iter().map(|tensor| tensor.map(Tensor::value)).collect::<SmallVec<[Option<Value>; 4]>>();
    let counts = OPS.get(id).is_some_and(|op| op.counts(attributes));
    match given.first() {
        Some(first) if counts && !trace::is_active() => {
            realise(given)?;
            table::call_id(&Counting { device: first.device() }, id, &values(), attributes)
        }
        _ => table::call_id(lazy, id, &values(), attributes),
    }
}
