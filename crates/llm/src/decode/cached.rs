//! A graph of one sequence as one of a batch, whose attention goes to a paged cache.

use lanthorn_ir::graph::topological;
use lanthorn_ir::prim::{Batched, Control};
use lanthorn_ir::transform::vmap_graph_by;
use lanthorn_ir::{Builder, Error, Lazy, Node, Prim, Result, TensorType, Value, builder, ops};
use std::collections::HashMap;

use super::rows::Analysis;
use crate::cache::PagedCache;

/// `roots` over the sequences of a batch, each `[batch, ..]`, where the second of each pair of `replaced` is the first of
/// all sequences.
///
/// Errors: what the cache does not take.
pub(super) fn over_batch(
    roots: &[Value],
    replaced: &[(Value, Value)],
    batch: usize,
    analysis: &Analysis,
    window: Option<usize>,
    cache: &mut PagedCache<Value>,
) -> Result<Vec<Value>> {
    vmap_graph_by(roots, replaced, batch, |node, inputs| {
        let Some(&layer) = analysis.places.get(&node.id()) else {
            return node.prim().batch(&Lazy, batch, inputs);
        };
        let [q, k, v] = inputs else {
            return Err(Error::unsupported("decode", "attention takes three operands"));
        };
        // `[batch, 1, length, heads, head_dim]`, whose second axis is the one sequence for which it was traced.
        let of_sequences = |x: &Batched<Value>| ops::squeeze(&Lazy, &x.value, &[1]);
        let (q, k, v) = (of_sequences(q)?, of_sequences(k)?, of_sequences(v)?);
        let place = analysis.layers.get(layer);
        let own = place.and_then(|layer| layer.window());
        let scale = place.map(|layer| layer.attend.scale.0);
        let o = cache.attend_within(&Lazy, layer, [&q, &k, &v], scale, narrower(own, window))?;
        let o = Batched { value: ops::unsqueeze(&Lazy, &o, 1)?, mapped: true };
        Ok(vec![o])
    })
}

/// The smaller of two windows.
pub(super) fn narrower(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The graph without checkpoints: their bodies stand in their places.
pub(super) fn without_checkpoints(roots: &[Value]) -> Result<Vec<Value>> {
    let is_checkpoint = |node: &Node| matches!(node.prim(), Prim::Control(Control::Checkpoint { .. }));
    let order = topological(roots, |_| false);
    if !order.iter().any(|node| is_checkpoint(node)) {
        return Ok(roots.to_vec());
    }
    let mut known = HashMap::new();
    let now = |known: &HashMap<_, Value>, value: &Value| {
        known.get(&value.key()).cloned().unwrap_or_else(|| value.clone())
    };
    for node in &order {
        let inputs: Vec<Value> = node.inputs().iter().map(|input| now(&known, input)).collect();
        if is_checkpoint(node) || inputs != node.inputs() {
            let outputs = Inlining.apply(node.prim().clone(), &inputs)?;
            for (old, new) in Node::outputs(node).iter().zip(outputs) {
                known.insert(old.key(), new);
            }
        }
    }
    Ok(roots.iter().map(|root| now(&known, root)).collect())
}

/// Appends to the graph, and of a checkpoint its body.
struct Inlining;

impl Builder for Inlining {
    type Value = Value;

    fn apply(&self, prim: Prim, inputs: &[Value]) -> Result<builder::Outputs<Value>> {
        match &prim {
            Prim::Control(Control::Checkpoint { body }) => Ok(body.inline(self, inputs)?.into()),
            _ => Lazy.apply(prim, inputs),
        }
    }

    fn ty<'a>(&self, value: &'a Value) -> &'a TensorType {
        value.ty()
    }
}
