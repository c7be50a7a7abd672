//! Ops whose result has a shape that depends on values: where the engine can be waited for, the number is read when the op
//! is called.

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::slot;
use lanthorn_ir::builder::count_of;
use lanthorn_ir::{Builder, Lazy, Result, Value};

use crate::engine::Engine;

/// The number that `value` counts, computed by the engine.
///
/// Errors: an engine that cannot be waited for, as of a graph.
pub(crate) fn count<E: Engine>(engine: &E, op: &str, value: &Value) -> Result<usize> {
    let (program, arguments) = slot::resolve::<E::Concrete>(&[], std::slice::from_ref(value))?;
    let results = engine.run(program, arguments, &CancelToken::never())?;
    let bytes = results.first().map(|result| engine.read_now(result)).transpose()?.flatten();
    match bytes.as_deref().and_then(|bytes| bytes.first_chunk::<8>()) {
        Some(bytes) => count_of(op, i64::from_ne_bytes(*bytes)),
        None => Lazy.count(op, value),
    }
}
