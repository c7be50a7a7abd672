//! Checkpointing: trade memory for a second run of the forward.

use std::collections::HashSet;

use crate::builder::{Builder, Lazy};
use crate::error::{Error, Result};
use crate::graph::{MAX_NESTING, Subgraph, Value, topological};
use crate::prim::{Control, Prim};

/// `f(inputs)`, whose intermediate values are not kept for the backward but computed again. Values that `f`
/// captures from outside become further operands.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value, ops, transform};
///
/// let x = Value::leaf(TensorType::new(DType::F32, [4]))?;
/// let y = transform::checkpoint(|v| Ok(vec![ops::exp(&Lazy, &ops::sin(&Lazy, &v[0])?)?]), &[x.clone()])?;
/// assert_eq!(y[0].ty(), x.ty());
/// # Ok::<(), lanthorn_ir::Error>(())
/// ```
///
/// Errors: checkpoints that nest deeper than [`MAX_NESTING`].
pub fn checkpoint(f: impl FnOnce(&[Value]) -> Result<Vec<Value>>, inputs: &[Value]) -> Result<Vec<Value>> {
    let parameters = inputs.iter().map(|x| Value::leaf(x.ty().clone())).collect::<Result<Vec<_>>>()?;
    // Ids grow as the graph does: whatever is older than the parameters comes from outside `f`.
    let Some(first) = parameters.first().map(|p| p.node().id()) else { return f(&parameters) };
    let roots = f(&parameters)?;
    let mut operands = inputs.to_vec();
    let mut leaves = parameters;
    let mut seen: HashSet<_> = leaves.iter().map(Value::key).collect();
    let inside = topological(&roots, |node| node.id() < first);
    let read = inside.iter().filter(|node| node.id() >= first).flat_map(|node| node.inputs());
    for value in read.chain(&roots) {
        let outside = value.node().id() < first || value.is_leaf();
        if outside && seen.insert(value.key()) {
            operands.push(value.clone());
            leaves.push(value.clone());
        }
    }
    let body = Subgraph::capture(&leaves, &roots);
    if body.nesting() > MAX_NESTING {
        return Err(Error::unsupported("checkpoint", format!("nests deeper than {MAX_NESTING} levels")));
    }
    let body = body.shared();
    Ok(Lazy.apply(Prim::Control(Control::Checkpoint { body }), &operands)?.into_vec())
}
