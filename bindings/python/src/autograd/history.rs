//! How ops enter the tape: edges of operands, nodes of results, and the history of what is written in place.

use std::sync::Arc;

use lanthorn_ir::TensorType;
use smallvec::SmallVec;

use super::grad_mode;
use super::node::{CopySlices, Edge, Formula, Node};
use super::saved::SavedTensor;
use crate::error::{Error, Result};
use crate::ops;
use crate::tensor::Tensor;

/// The node that made a tensor, and which of its outputs it is. For a view of a family that has been written, worked
/// out anew.
pub fn grad_fn(tensor: &Tensor) -> Option<(Arc<Node>, usize)> {
    if !tensor.may_require_grad() {
        return None;
    }
    if let Some(base) = tensor.base()
        && tensor.take_view_is_stale()
        && requires_grad(base)
    {
        // Gradients of the view are those of its elements in the base as it is now.
        let edges = SmallVec::from_iter([gradient_edge(base)]);
        let outputs = SmallVec::from_iter([tensor.ty().clone()]);
        let formula = ops::views::as_strided_formula(base, tensor.layout());
        let node = Node::function("AsStridedBackward0", edges, outputs, SmallVec::new(), formula);
        set_history(tensor, node, 0);
    }
    tensor.peek_meta(|meta| meta.grad_fn.clone().map(|node| (node, meta.output_nr))).flatten()
}

/// True if gradients of the tensor are asked for.
pub fn requires_grad(tensor: &Tensor) -> bool {
    if !tensor.may_require_grad() {
        return false;
    }
    grad_fn(tensor).is_some() || tensor.peek_meta(|meta| meta.requires_grad).unwrap_or(false)
}

/// True if an op on the operands is to be recorded.
pub fn is_recorded(operands: &[&Tensor]) -> bool {
    operands.iter().any(|tensor| tensor.may_require_grad())
        && grad_mode::is_enabled()
        && operands.iter().any(|tensor| requires_grad(tensor))
}

/// The node that accumulates into a leaf.
pub fn accumulator(leaf: &Tensor) -> Arc<Node> {
    if let Some(node) = leaf.peek_meta(|meta| meta.accumulator.upgrade()).flatten() {
        return node;
    }
    // Made outside of the lock: another thread's may have come first, and then ours is dropped after the lock.
    let fresh = Node::accumulate(leaf);
    leaf.with_meta(|meta| match meta.accumulator.upgrade() {
        Some(node) => node,
        None => {
            meta.accumulator = Arc::downgrade(&fresh);
            fresh.clone()
        }
    })
}

/// Where the gradient of a tensor goes; `None` if none is asked for.
pub fn gradient_edge(tensor: &Tensor) -> Option<Edge> {
    if !tensor.may_require_grad() {
        return None;
    }
    if let Some((node, input)) = grad_fn(tensor) {
        return Some(Edge { node, input });
    }
    let is_leaf_with_grad = tensor.peek_meta(|meta| meta.requires_grad).unwrap_or(false);
    is_leaf_with_grad.then(|| Edge { node: accumulator(tensor), input: 0 })
}

/// Gives a tensor another node. What it had is dropped here, outside of the lock.
pub fn set_history(tensor: &Tensor, node: Arc<Node>, output: usize) {
    tensor.mark_may_require_grad();
    let (old, retains) = tensor.with_meta(|meta| {
        let old = meta.grad_fn.replace(node.clone()).map(|old| (old, meta.output_nr));
        meta.output_nr = output;
        (old, meta.retains_grad)
    });
    if let Some((old, number)) = old
        && retains
    {
        old.stop_retaining(number);
        node.retain(output, tensor.downgrade());
    }
}

/// Records an op with one result: a node with the operands' edges becomes the result's history. `saved` lists what
/// the formula will see.
pub fn record(
    name: &'static str,
    operands: &[&Tensor],
    result: &Tensor,
    saved: SmallVec<[SavedTensor; 2]>,
    formula: Formula,
) {
    let edges = operands.iter().map(|operand| gradient_edge(operand)).collect();
    let node = Node::function(name, edges, SmallVec::from_iter([result.ty().clone()]), saved, formula);
    set_history(result, node, 0);
    result.mark_view_fresh();
}

/// Refuses to write where autograd could not follow.
pub fn check_in_place(tensor: &Tensor) -> Result<()> {
    if !tensor.may_require_grad() || !grad_mode::is_enabled() || !requires_grad(tensor) {
        return Ok(());
    }
    let is_leaf = |tensor: &Tensor| grad_fn(tensor).is_none();
    if let Some(base) = tensor.base() {
        // Where the base asks for no gradient, a view in between was made a leaf.
        if !requires_grad(base) || is_leaf(base) {
            return Err(Error::runtime(
                "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            ));
        }
        if tensor.is_view_of_no_grad() {
            return Err(Error::runtime(
                "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that \
                 this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving \
                 both the view and the inplace either both inside the no_grad block (if you don't want the inplace \
                 to be tracked) or both outside (if you want the inplace to be tracked).",
            ));
        }
    }
    if is_leaf(tensor) {
        return Err(Error::runtime(
            "a leaf Variable that requires grad is being used in an in-place operation.",
        ));
    }
    Ok(())
}

/// Makes a node the history of a tensor that it has been written over. Operand 0 of the node is the tensor as it
/// was. Through a view, the history of the base changes too.
pub fn rebase_history(tensor: &Tensor, node: Arc<Node>) {
    let Some(base) = tensor.base() else {
        return set_history(tensor, node, 0);
    };
    let mut edges: SmallVec<[Option<Edge>; 2]> = SmallVec::from_iter([gradient_edge(base)]);
    edges.extend(node.edges().iter().skip(1).cloned());
    let slices = CopySlices {
        base: base.layout().clone(),
        base_type: base.ty().clone(),
        view: tensor.layout().clone(),
        inner: node,
    };
    set_history(base, Node::copy_slices(edges, slices), 0);
    // The view's own history follows from the base's.
    tensor.mark_view_stale();
    grad_fn(tensor);
}

/// The edges of operands and the types of results of an op that writes in place.
pub fn node_of(
    name: &'static str,
    operands: &[&Tensor],
    ty: &TensorType,
    saved: SmallVec<[SavedTensor; 2]>,
    formula: Formula,
) -> Arc<Node> {
    let edges = operands.iter().map(|operand| gradient_edge(operand)).collect();
    Node::function(name, edges, SmallVec::from_iter([ty.clone()]), saved, formula)
}
