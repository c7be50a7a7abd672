//! Primitives one by one, as the cases meet them: in the op's graph, and in those of its derivatives.

use std::collections::BTreeSet;

use lanthorn_interp::{HostTensor, Interp, eval};
use lanthorn_ir::graph::{Node, topological};
use lanthorn_ir::{Builder, Lazy, Prim, Result, Value, transform};

use crate::derivatives::weighted_sum;
use crate::report::{Checked, all_equal};
use crate::{Case, text};

/// The graph of a case with all derivatives that it has, and what its leaves are bound to.
pub struct Whole {
    pub roots: Vec<Value>,
    pub bindings: Vec<(Value, HostTensor)>,
}

/// The op, its gradient and the gradient of that, as far as the case promises them, through a checkpoint and
/// without.
pub fn whole(case: &Case) -> Result<Whole> {
    let operands = case.operands();
    let (leaves, mut roots) = case.graph(&operands)?;
    let mut bindings: Vec<_> = leaves.iter().cloned().zip(operands).collect();
    let wrt: Vec<Value> = leaves.iter().filter(|v| v.ty().dtype.is_float()).cloned().collect();
    if case.is_differentiable() {
        let again = transform::checkpoint(|v| case.call(&Lazy, v), &leaves)?;
        for outputs in [roots.clone(), again.clone()] {
            let mut value = weighted_sum(&outputs, 31, &mut bindings)?;
            for _ in 0..case.orders.min(2) {
                let grads = transform::grad(&value, &wrt)?;
                roots.extend(grads.iter().cloned());
                value = weighted_sum(&grads, 77, &mut bindings)?;
            }
        }
        roots.extend(again);
    }
    Ok(Whole { roots, bindings })
}

/// Every application of a primitive in it, with the values of its operands.
pub fn applications(whole: &Whole) -> Result<Vec<(Prim, Vec<HostTensor>)>> {
    let nodes: Vec<_> =
        topological(&whole.roots, |_| false).into_iter().filter(|node| !node.inputs().is_empty()).collect();
    let operands: Vec<Value> = nodes.iter().flat_map(|node| node.inputs().iter().cloned()).collect();
    let mut values = eval(&operands, &whole.bindings)?.into_iter();
    let of = |node: &std::sync::Arc<Node>| {
        (node.prim().clone(), values.by_ref().take(node.inputs().len()).collect())
    };
    Ok(nodes.iter().map(of).collect())
}

/// The names of all primitives in it.
pub fn names(whole: &Whole) -> BTreeSet<&'static str> {
    topological(&whole.roots, |_| false).iter().map(|node| node.prim().name()).collect()
}

/// The reference's own loop of every primitive that decomposes, against its decomposition.
pub fn check_decompositions(case: &Case) -> Checked {
    let whole = whole(case).map_err(text)?;
    for (prim, operands) in applications(&whole).map_err(text)? {
        if let Some(expected) = prim.decompose(&Interp, &operands).map_err(text)? {
            let found = Interp.apply(prim.clone(), &operands).map_err(text)?;
            let tolerance = case.tolerance.max(1e-10);
            all_equal(&found, &expected, tolerance)
                .map_err(|e| format!("{} decomposed: {e}", prim.name()))?;
        }
    }
    Ok(())
}
