//! The reachable graph in dense tables: what the first passes read and rewrite.

use std::fmt;

use lanthorn_ir::{Prim, TensorType};
use smallvec::SmallVec;

/// One output of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueRef {
    pub node: u32,
    pub output: u32,
}

/// One application of a primitive; operands come from earlier nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexedNode {
    pub prim: Prim,
    pub inputs: SmallVec<[ValueRef; 3]>,
    pub types: SmallVec<[TensorType; 1]>,
}

/// A program as a list of nodes in topological order. The whole of it is structure: two graphs that
/// compute the same thing from different leaves index to equal forms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Indexed {
    pub nodes: Vec<IndexedNode>,
    /// The leaf nodes, in the order of the call's arguments. Every leaf is listed, used or not.
    pub inputs: Vec<u32>,
    /// The results, in the caller's order.
    pub roots: Vec<ValueRef>,
}

impl Indexed {
    /// The type of a value.
    pub fn ty(&self, value: ValueRef) -> &TensorType {
        &self.nodes[value.node as usize].types[value.output as usize]
    }

    /// The same program without the nodes that no root needs. Leaves stay.
    pub fn prune(&self) -> Indexed {
        let mut live = vec![false; self.nodes.len()];
        for root in &self.roots {
            live[root.node as usize] = true;
        }
        for &input in &self.inputs {
            live[input as usize] = true;
        }
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if live[at] {
                for input in &node.inputs {
                    live[input.node as usize] = true;
                }
            }
        }
        let mut renumbered = vec![u32::MAX; self.nodes.len()];
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let rename = |renumbered: &[u32], v: ValueRef| ValueRef { node: renumbered[v.node as usize], ..v };
        for (at, node) in self.nodes.iter().enumerate() {
            if !live[at] {
                continue;
            }
            renumbered[at] = nodes.len() as u32;
            let inputs = node.inputs.iter().map(|&v| rename(&renumbered, v)).collect();
            nodes.push(IndexedNode { inputs, ..node.clone() });
        }
        Indexed {
            nodes,
            inputs: self.inputs.iter().map(|&input| renumbered[input as usize]).collect(),
            roots: self.roots.iter().map(|&root| rename(&renumbered, root)).collect(),
        }
    }
}

impl fmt::Display for Indexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |v: &ValueRef| match self.nodes.get(v.node as usize) {
            Some(node) if node.types.len() > 1 => format!("%{}.{}", v.node, v.output),
            _ => format!("%{}", v.node),
        };
        let list = |values: &[ValueRef]| values.iter().map(show).collect::<Vec<_>>().join(", ");
        for (at, node) in self.nodes.iter().enumerate() {
            let types: Vec<String> = node.types.iter().map(|ty| ty.to_string()).collect();
            writeln!(f, "%{at}: {} = {}({})", types.join(", "), node.prim, list(&node.inputs))?;
        }
        writeln!(f, "return {}", list(&self.roots))
    }
}
