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
    pub fn prune(mut self) -> Indexed {
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
        if live.iter().all(|&live| live) {
            return self;
        }
        let mut renumbered = vec![u32::MAX; self.nodes.len()];
        let (mut from, mut to) = (0, 0);
        self.nodes.retain_mut(|node| {
            let at = from;
            from += 1;
            if !live[at] {
                return false;
            }
            renumbered[at] = to;
            to += 1;
            node.inputs.iter_mut().for_each(|input| input.node = renumbered[input.node as usize]);
            true
        });
        self.inputs.iter_mut().for_each(|input| *input = renumbered[*input as usize]);
        self.roots.iter_mut().for_each(|root| root.node = renumbered[root.node as usize]);
        self
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

#[cfg(test)]
mod tests {
    use lanthorn_ir::{DType, Lazy, Value, ops};
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::index;

    fn program() -> Indexed {
        let leaf = |shape: &[usize]| Value::leaf(TensorType::new(DType::F32, shape)).unwrap();
        let (x, w, gain) = (leaf(&[4, 8]), leaf(&[8, 8]), leaf(&[8]));
        let normed = ops::layer_norm(&Lazy, &x, Some(&gain), None, 1e-5).unwrap();
        let y = ops::matmul(&Lazy, &normed, &w).unwrap();
        let halves = ops::chunk(&Lazy, &y, 2, 1).unwrap();
        let loss = ops::sum(&Lazy, &ops::exp(&Lazy, &halves[1]).unwrap(), &[], false).unwrap();
        index(&[w], &[loss, y], |_| false).0
    }

    #[test]
    fn a_program_survives_bytes() {
        let program = program();
        let read = Indexed::from_bytes(&program.to_bytes().unwrap()).unwrap();
        let types = |program: &Indexed, values: &mut dyn Iterator<Item = ValueRef>| {
            values.map(|value| program.ty(value).clone()).collect::<Vec<_>>()
        };
        for program in [&program, &read] {
            crate::verify::indexed(program).unwrap();
        }
        let inputs = |program: &Indexed| {
            types(program, &mut program.inputs.iter().map(|&node| ValueRef { node, output: 0 }))
        };
        assert_eq!(inputs(&read), inputs(&program));
        let roots = |program: &Indexed| types(program, &mut program.roots.iter().copied());
        assert_eq!(roots(&read), roots(&program));
        // Inputs come first from then on, and the form is stable.
        assert_eq!(Indexed::from_bytes(&read.to_bytes().unwrap()).unwrap(), read);
        let mut names: Vec<&str> = program.nodes.iter().map(|node| node.prim.name()).collect();
        let mut read_names: Vec<&str> = read.nodes.iter().map(|node| node.prim.name()).collect();
        names.sort_unstable();
        read_names.sort_unstable();
        assert_eq!(names, read_names);
    }

    #[test]
    fn bytes_of_no_program_are_refused() {
        let leaf = || Prim::Source(Source::Leaf { ty: TensorType::new(DType::F32, [2]) });
        let refuses = |arity: u32, nodes: Vec<(Prim, Vec<(u32, u32)>)>, roots: Vec<(u32, u32)>| {
            let bytes = Subgraph::from_nodes(arity, nodes, roots).to_bytes().unwrap();
            assert_eq!(Indexed::from_bytes(&bytes).unwrap_err().kind, ErrorKind::Format);
        };
        // A leaf that nobody binds, more parameters than nodes, a value that comes later, an output too many.
        refuses(0, vec![(leaf(), vec![])], vec![(0, 0)]);
        refuses(u32::MAX, vec![(leaf(), vec![])], vec![(0, 0)]);
        refuses(1, vec![(leaf(), vec![])], vec![(1, 0)]);
        refuses(1, vec![(leaf(), vec![])], vec![(0, 1)]);
        assert!(Indexed::from_bytes(&[]).is_err());
    }

    proptest! {
        #[test]
        fn bytes_that_were_changed_give_a_program_or_an_error(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
            length: proptest::sample::Index,
        ) {
            let whole = program().to_bytes().unwrap();
            let part = &whole[..length.index(whole.len())];
            prop_assert!(Indexed::from_bytes(part).is_err());
            prop_assert!(Indexed::from_bytes(&[&whole[..], part, &[0]].concat()).is_err());
            let mut bytes = whole;
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(read) = Indexed::from_bytes(&bytes) {
                prop_assert!(crate::verify::indexed(&read).is_ok());
            }
        }
    }
}
