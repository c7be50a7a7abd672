//! Leaves without elements: what an execution binds.

use std::sync::Arc;

use lanthorn_compiler::slot::{self, Slot};
use lanthorn_ir::{Error, ErrorKind, Result, TensorType, Value};
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
///
/// Errors: elements that were cleared.
pub(crate) fn elements(op: &str, value: &Value) -> Result<Option<EagerTensor>> {
    match Leaf::of(value) {
        Some(_) => Ok(None),
        None => slot::concrete(value).map_err(|error| match error.kind {
            // Nothing else takes elements out of a graph.
            ErrorKind::InvalidHandle => {
                let ty = value.ty();
                let message = format!("a tensor {ty} was cleared; compute what is made of it before that");
                Error::new(ErrorKind::InvalidHandle, op, message)
            }
            _ => error,
        }),
    }
}

/// Gives up the elements of a concrete value, also those that nodes over it would read. What runs keeps its own.
pub(crate) fn clear(value: &Value) -> Result<()> {
    if Leaf::of(value).is_none() {
        drop(Slot::<EagerTensor>::of(value)?.and_then(Slot::take));
    }
    Ok(())
}
