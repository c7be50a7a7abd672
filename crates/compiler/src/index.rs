//! The first pass: graph values to dense tables.
//!
//! Runs on every lookup of the executable cache, so it does nothing but number nodes. Iterative: a chain
//! of any length needs no stack.

use std::collections::HashMap;
use std::sync::Arc;

use lanthorn_ir::graph::ValueKey;
use lanthorn_ir::prim::Source;
use lanthorn_ir::{Node, Prim, TensorType, Value};
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
        Table { is_leaf, indexed: Indexed::default(), known: HashMap::new(), further: Vec::new() };
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
    known: HashMap<ValueKey, ValueRef>,
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
        for output in 0..node.types().len() as u32 {
            // An output that the caller holds as a leaf stays one.
            self.known.entry((node.id(), output)).or_insert(ValueRef { node: at, output });
        }
    }
}
