//! The reachable graph in dense tables: what the first passes read and rewrite.

use std::collections::HashSet;
use std::fmt;

use lanthorn_ir::graph::Subgraph;
use lanthorn_ir::prim::Source;
use lanthorn_ir::{Builder, Error, ErrorKind, Prim, Result, TensorType};
use smallvec::SmallVec;

use crate::builder::IndexedBuilder;

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

/// Programs as bytes, for workers: the versioned form of [`Subgraph`].
impl Indexed {
    /// The program as bytes; its inputs become the first nodes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut place = vec![u32::MAX; self.nodes.len()];
        let inputs: HashSet<u32> = self.inputs.iter().copied().collect();
        let others = (0..self.nodes.len() as u32).filter(|node| !inputs.contains(node));
        let order: Vec<u32> = self.inputs.iter().copied().chain(others).collect();
        for (to, &from) in order.iter().enumerate() {
            place[from as usize] = to as u32;
        }
        let renamed = |value: &ValueRef| (place[value.node as usize], value.output);
        let nodes = order.iter().map(|&from| {
            let node = &self.nodes[from as usize];
            (node.prim.clone(), node.inputs.iter().map(renamed).collect())
        });
        let roots = self.roots.iter().map(renamed).collect();
        Subgraph::from_nodes(self.inputs.len() as u32, nodes.collect(), roots).to_bytes()
    }

    /// Reads a program; every type is inferred anew.
    ///
    /// Errors: bytes from anywhere that are no program.
    pub fn from_bytes(bytes: &[u8]) -> Result<Indexed> {
        let graph = Subgraph::from_bytes(bytes)?;
        let is_leaf = |prim: &&Prim| matches!(prim, Prim::Source(Source::Leaf { .. }));
        if graph.prims().filter(is_leaf).count() > graph.arity() {
            return Err(Error::new(ErrorKind::Format, "program", "a leaf is no parameter of the program"));
        }
        let builder = IndexedBuilder::default();
        let leaf = |ty| builder.apply1(Prim::Source(Source::Leaf { ty }), &[]);
        let leaves = graph.parameters()?.into_iter().map(leaf).collect::<Result<Vec<_>>>()?;
        let roots = graph.inline(&builder, &leaves)?;
        let inputs = leaves.iter().map(|leaf| leaf.at.node).collect();
        Ok(builder.finish(inputs, roots.iter().map(|root| root.at).collect()))
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
