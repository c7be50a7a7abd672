//! Ops whose result has a shape that depends on values: where the engine can be waited for, the number is read when the op
//! is called.

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::slot;
use lanthorn_ir::builder::Outputs;
use lanthorn_ir::{Builder, Error, ErrorKind, Lazy, Prim, Result, TensorType, Value};

use crate::engine::Engine;

/// Appends to the graph, and computes the numbers that shapes depend on.
pub(crate) struct Counting<'a, E> {
    pub engine: &'a E,
}

impl<E: Engine> Builder for Counting<'_, E> {
    type Value = Value;

    fn apply(&self, prim: Prim, inputs: &[Value]) -> Result<Outputs<Value>> {
        Lazy.apply(prim, inputs)
    }

    fn ty<'a>(&self, value: &'a Value) -> &'a TensorType {
        value.ty()
    }

    fn count(&self, op: &str, value: &Value) -> Result<usize> {
        let (program, arguments) = slot::resolve::<E::Concrete>(&[], std::slice::from_ref(value))?;
        let results = self.engine.run(program, arguments, &CancelToken::never())?;
        let bytes = results.first().map(|result| self.engine.read_now(result)).transpose()?.flatten();
        let Some(bytes) = bytes.as_deref().and_then(|bytes| bytes.first_chunk::<8>()) else {
            return Lazy.count(op, value);
        };
        let found = i64::from_ne_bytes(*bytes);
        usize::try_from(found)
            .map_err(|_| Error::new(ErrorKind::Execute, op, format!("the size {found} is no count")))
    }
}
