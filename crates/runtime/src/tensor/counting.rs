//! Ops whose result has a shape that depends on values, without a `size`: the number is read when the op is called,
//! and the result stays a value of the graph, so that derivatives pass through it.

use lanthorn_ir::builder::{Counting, Outputs, count_of};
use lanthorn_ir::ops::table::{self, Attribute, OPS};
use lanthorn_ir::{Lazy, Result, Value};
use smallvec::SmallVec;

use super::{Tensor, realise};
use crate::compiled::trace;

/// The results of the op number `id`. Tensors that it has to count are computed first.
pub(super) fn call(
    lazy: &Lazy,
    id: usize,
    given: &[&Tensor],
    tensors: &[Option<&Tensor>],
    attributes: &[Attribute],
) -> Result<Outputs<Value>> {
    let values =
        || tensors.iter().map(|tensor| tensor.map(Tensor::value)).collect::<SmallVec<[Option<Value>; 4]>>();
    let counts = OPS.get(id).is_some_and(|op| op.counts(attributes));
    match given.first() {
        Some(first) if counts && !trace::is_active() => {
            realise(given)?;
            let count = |op: &str, value: &Value| {
                let found = Tensor::from_value(first.device(), value.clone()).to_vec::<i64>()?;
                count_of(op, found.first().copied().unwrap_or(0))
            };
            table::call_id(&Counting(count), id, &refs(&values()), attributes)
        }
        _ => table::call_id(lazy, id, &refs(&values()), attributes),
    }
}

fn refs(values: &[Option<Value>]) -> SmallVec<[Option<&Value>; 4]> {
    values.iter().map(Option::as_ref).collect()
}
