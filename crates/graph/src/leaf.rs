//! Leaves without elements: what an execution binds.

use std::sync::Arc;

use lanthorn_compiler::slot;
use lanthorn_ir::{Result, TensorType, Value};
use lanthorn_runtime::EagerTensor;

/// What a leaf without elements stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leaf {
    /// The key of a draw, `u64 [2]`: a new one in each execution.
    Key,
    /// The binding of that number.
    Input(usize),
    /// The scalar of that number, of rank 0.
    Scalar(usize),
    /// `i32 [length]`: 0, 1, 2 and on; in a decode program the positions of the tokens in their sequence.
    Positions,
}

impl Leaf {
    /// A value of that type which stands for this.
    pub(crate) fn value(self, ty: TensorType) -> Result<Value> {
        let value = Value::leaf(ty)?;
        value.set_payload(Arc::new(self));
        Ok(value)
    }

    /// What a value stands for, if it is a leaf without elements.
    pub(crate) fn of(value: &Value) -> Option<Leaf> {
        value.payload()?.downcast_ref::<Leaf>().copied()
    }
}

/// The elements of a concrete value; `None` for a lazy one.
pub(crate) fn elements(value: &Value) -> Result<Option<EagerTensor>> {
    match Leaf::of(value) {
        Some(_) => Ok(None),
        None => slot::concrete(value),
    }
}
