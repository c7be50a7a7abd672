//! The first pass: graph values to dense tables.
//!
//! Runs on every lookup of the executable cache, so it does nothing but number nodes. Iterative: a chain
//! of any length needs no stack.

use std::sync::Arc;

use lanthorn_ir::graph::ValueKey;
use lanthorn_ir::prim::Source;
use lanthorn_ir::{Node, Prim, TensorType, Value};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::indexed::{Indexed, IndexedNode, ValueRef};

/// Numbers what `roots` reach. `parameters` are the first arguments, used or not; every other leaf, and
/// every value for which `is_leaf` says true (it has been computed already), becomes a further argument.
/// Those are returned in the order of first encounter, which follows the roots and their operands.
pub fn index(
    parameters: &[Value],
    roots: &[Value],
    is_leaf: impl Fn(&Value) -> bool,
) -> (Indexed, Vec<Value>) {
    let mut table =
        Table { is_leaf, indexed: Indexed::default(), known: FxHashMap::default(), further: Vec::new() };
    for parameter in parameters {
        let leaf = table.push_leaf(parameter.ty());
        table.known.entry(parameter.key()).or_insert(leaf);
    }
    // A frame is a node and how many of its operands have been numbered.
    let mut stack: Vec<(Arc<Node>, usize)> = Vec::new();
    for root in roots {
        stack.extend(table.enter(root));
        while let Some((node, next)) = stack.last_mut() {
            if *next < node.inputs().len() {
                *next += 1;
                let operand = *next - 1;
                let frame = table.enter(&node.inputs()[operand]);
                stack.extend(frame);
                continue;
            }
            if let Some((node, _)) = stack.pop() {
                table.push(&node);
            }
        }
    }
    table.indexed.roots = roots.iter().map(|root| table.known[&root.key()]).collect();
    (table.indexed, table.further)
}

struct Table<L> {
    is_leaf: L,
    indexed: Indexed,
    known: FxHashMap<ValueKey, ValueRef>,
    further: Vec<Value>,
}

impl<L: Fn(&Value) -> bool> Table<L> {
    /// The node to number before `value` is known, if any.
    fn enter(&mut self, value: &Value) -> Option<(Arc<Node>, usize)> {
        if self.known.contains_key(&value.key()) {
            return None;
        }
        if value.is_leaf() || (self.is_leaf)(value) {
            let leaf = self.push_leaf(value.ty());
            self.known.insert(value.key(), leaf);
            self.further.push(value.clone());
            return None;
        }
        Some((value.node().clone(), 0))
    }

    fn push_leaf(&mut self, ty: &TensorType) -> ValueRef {
        let node = self.indexed.nodes.len() as u32;
        self.indexed.nodes.push(IndexedNode {
            prim: Prim::Source(Source::Leaf { ty: ty.clone() }),
            inputs: SmallVec::new(),
            types: smallvec![ty.clone()],
        });
        self.indexed.inputs.push(node);
        ValueRef { node, output: 0 }
    }

    fn push(&mut self, node: &Arc<Node>) {
        let at = self.indexed.nodes.len() as u32;
        let inputs = node.inputs().iter().map(|operand| self.known[&operand.key()]).collect();
        self.indexed.nodes.push(IndexedNode {
            prim: node.prim().clone(),
            inputs,
            types: SmallVec::from(node.types()),
        });
        if let [_] = node.types() {
            self.known.entry((node.id(), 0)).or_insert(ValueRef { node: at, output: 0 });
            return;
        }
        // An output that has been computed before stays a leaf, also beside one that has not.
        for value in Node::outputs(node) {
            if !(self.is_leaf)(&value) {
                let output = value.index() as u32;
                self.known.entry(value.key()).or_insert(ValueRef { node: at, output });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lanthorn_ir::prim::Norm;
    use lanthorn_ir::{Builder, DType, Lazy, ops};

    use super::*;

    fn leaf() -> Value {
        Value::leaf(TensorType::new(DType::F32, [2, 2])).unwrap()
    }

    #[test]
    fn equal_graphs_of_other_leaves_index_to_equal_forms() {
        let build = || {
            let (x, y) = (leaf(), leaf());
            let root = ops::mul(&Lazy, &ops::exp(&Lazy, &x).unwrap(), &y).unwrap();
            let (indexed, further) = index(std::slice::from_ref(&y), &[root.clone(), root], |_| false);
            assert_eq!(further, [x]);
            indexed
        };
        let indexed = build();
        assert_eq!(indexed, build());
        assert_eq!(indexed.inputs.len(), 2);
        assert_eq!(indexed.roots[0], indexed.roots[1]);
    }

    #[test]
    fn a_computed_value_is_a_leaf_whatever_the_other_outputs_of_its_node_are() {
        let (x, w) = (leaf(), Value::leaf(TensorType::new(DType::F32, [2])).unwrap());
        let norm = Prim::Norm(Norm::RmsNorm { eps: lanthorn_ir::expr::F64(1e-5) });
        let outputs = Lazy.apply(norm, &[x.clone(), w.clone()]).unwrap();
        let root = ops::mul(&Lazy, &outputs[0], &outputs[1]).unwrap();
        outputs[1].set_payload(Arc::new(()));
        let (indexed, further) = index(&[], &[root, outputs[1].clone()], |v| v.payload().is_some());
        assert_eq!(further, [x, w, outputs[1].clone()]);
        assert_eq!(indexed.roots[1].node, indexed.inputs[2]);
        let names: Vec<&str> = indexed.nodes.iter().map(|node| node.prim.name()).collect();
        assert_eq!(names, ["leaf", "leaf", "rms_norm", "leaf", "broadcast_to", "mul"]);
    }

    #[test]
    fn unused_parameters_are_arguments_too() {
        let (x, unused) = (leaf(), leaf());
        let (indexed, further) = index(&[unused, x.clone()], &[x], |_| false);
        assert_eq!((indexed.inputs.len(), indexed.roots[0].node, further.len()), (2, 1, 0));
    }
}
