//! Ops on handles.

use lanthorn_ir::ops::table::{self, Attribute, OPS};
use lanthorn_ir::{Error, Lazy, Result, Value};
use lanthorn_session::Handle;
use lanthorn_session::session::check_rank;
use smallvec::SmallVec;

use crate::graph::Graph;

impl Graph {
    /// Applies the op number `id` of the [table](OPS); gives a handle for each result. Numbers among the attributes are
    /// constants of the graph.
    pub fn op(
        &mut self,
        id: usize,
        tensors: &[Option<Handle>],
        attributes: &[Attribute],
    ) -> Result<Vec<Handle>> {
        let op =
            OPS.get(id).ok_or_else(|| Error::unsupported("op", format!("there is no op number {id}")))?;
        let value = |tensor: &Option<Handle>| tensor.map(|tensor| self.value(op.name, tensor)).transpose();
        let operands: SmallVec<[Option<&Value>; 4]> = tensors.iter().map(value).collect::<Result<_>>()?;
        let values = table::call_id(&Lazy, id, &operands, attributes)?;
        drop(operands);
        values.iter().try_for_each(|value| check_rank(op.name, value.ty()))?;
        self.insert_all(values)
    }
}
