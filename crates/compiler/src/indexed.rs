//! The reachable graph in dense tables: what the first passes read and rewrite.

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
}
