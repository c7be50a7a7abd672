//! Matrix products whose result is only read transposed.
//!
//! `(a b)^T = b^T a^T`, and the operands of a product are views anyway. The gradient of a weight comes out
//! transposed; like this it has the weight's own layout, in which the optimiser reads it.

use lanthorn_ir::Prim;
use lanthorn_ir::prim::{Contract, Movement};

use super::Rewriter;
use crate::indexed::{Indexed, ValueRef};

/// For each node whether it is a product that all its readers transpose.
pub(super) fn only_read_transposed(indexed: &Indexed) -> Vec<bool> {
    let mut found: Vec<bool> = vec![false; indexed.nodes.len()];
    let mut other = vec![false; indexed.nodes.len()];
    for node in &indexed.nodes {
        for input in &node.inputs {
            let at = input.node as usize;
            let transposed = is_transpose(&node.prim);
            found[at] |= transposed && matches!(indexed.nodes[at].prim, Prim::Contract(_));
            other[at] |= !transposed;
        }
    }
    for root in &indexed.roots {
        other[root.node as usize] = true;
    }
    found.iter().zip(other).map(|(&found, other)| found && !other).collect()
}

/// Whether a movement swaps the last two axes and no others.
pub(super) fn is_transpose(prim: &Prim) -> bool {
    let Prim::Movement(Movement::Permute { axes }) = prim else { return false };
    let rank = axes.len();
    rank >= 2
        && axes[..rank - 2].iter().enumerate().all(|(at, &axis)| at == axis)
        && (axes[rank - 2], axes[rank - 1]) == (rank - 1, rank - 2)
}

/// The transpose of the product `value`, as a product of transposes.
pub(super) fn transposed(r: &mut Rewriter, transpose: &Prim, value: ValueRef) -> Option<ValueRef> {
    let (Prim::Contract(Contract::MatMul { out }), &[a, b]) = r.def(value) else { return None };
    let product = Prim::Contract(Contract::MatMul { out: *out });
    let (left, right) = (r.apply(transpose.clone(), &[b])?, r.apply(transpose.clone(), &[a])?);
    r.apply(product, &[left, right])
}
