//! A graph of one sequence as one of a batch, whose attention goes to a paged cache, and whose recurrences go on from their
//! state.

use lanthorn_ir::graph::topological;
use lanthorn_ir::prim::{Batched, Control};
use lanthorn_ir::transform::vmap_graph_by;
use lanthorn_ir::{Builder, Error, Lazy, Node, Prim, Result, TensorType, Value, builder, ops};
use std::collections::HashMap;

use super::recurrent::{RunningStates, of_batch};
use super::rows::{Analysis, Kept};
use crate::cache::PagedCache;

/// What layers keep of sequences.
pub(super) struct Caches {
    pub attention: PagedCache<Value>,
    /// None where no layer keeps running state.
    pub states: Option<RunningStates>,
}

impl Caches {
    /// The tensors of the pool after the call.
    pub fn into_tensors(self) -> Vec<Value> {
        let mut tensors = self.attention.into_tensors();
        tensors.extend(self.states.map(RunningStates::into_tensors).unwrap_or_default());
        tensors
    }
}

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
    caches: &mut Caches,
) -> Result<Vec<Value>> {
    vmap_graph_by(roots, replaced, batch, |node, inputs| {
        let layer = match (analysis.places.get(&node.id()), node.prim()) {
            (None, prim) => return prim.batch(&Lazy, batch, inputs),
            (Some(&Kept::Attention(layer)), _) => layer,
            (Some(&kept), prim) => {
                let y = recurrent(kept, prim, inputs, batch, caches.states.as_mut())?;
                return Ok(vec![Batched { value: ops::unsqueeze(&Lazy, &y, 1)?, mapped: true }]);
            }
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
        let o = caches.attention.attend_within(&Lazy, layer, [&q, &k, &v], scale, narrower(own, window))?;
        let o = Batched { value: ops::unsqueeze(&Lazy, &o, 1)?, mapped: true };
        Ok(vec![o])
    })
}

/// What a recurrent layer gives, `[batch, length, ..]`.
fn recurrent(
    kept: Kept,
    prim: &Prim,
    inputs: &[Batched<Value>],
    batch: usize,
    states: Option<&mut RunningStates>,
) -> Result<Value> {
    match (prim, kept, states) {
        (Prim::Recurrent(rule), Kept::Delta(layer), Some(states)) => {
            states.delta(layer, *rule, &of_batch(*rule, inputs, batch)?)
        }
        (Prim::Recurrent(rule), Kept::Convolution(layer), Some(states)) => {
            states.convolution(layer, &of_batch(*rule, inputs, batch)?)
        }
        _ => Err(Error::unsupported("decode", "the pool has no state for a recurrent layer")),
    }
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
