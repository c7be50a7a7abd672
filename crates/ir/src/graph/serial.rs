//! The graph as bytes: for bundles, workers and tests.
//!
//! The form is a version number followed by a list of nodes, operands before users. Reading infers every
//! type anew, so bytes from anywhere either give a valid graph or one error.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Node, Value, topological};
use crate::error::{Error, ErrorKind, Result};
use crate::prim::{Control, Prim};

const VERSION: u32 = 1;

/// How deep graphs nest (a checkpoint inside a checkpoint); bounds the stack that reading needs.
pub const MAX_NESTING: usize = 16;

/// A closed piece of graph: its first `arity` nodes are leaves in the order of the parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Unnested")]
pub struct Subgraph {
    version: u32,
    /// How many of the first nodes are parameters.
    arity: u32,
    nodes: Vec<(Prim, Vec<(u32, u32)>)>,
    roots: Vec<(u32, u32)>,
}

/// The form of [`Subgraph`] in bytes, read under a bound on nesting.
struct Unnested(Subgraph);

#[derive(Deserialize)]
struct Fields {
    version: u32,
    arity: u32,
    nodes: Vec<(Prim, Vec<(u32, u32)>)>,
    roots: Vec<(u32, u32)>,
}

impl<'de> Deserialize<'de> for Unnested {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error as _;
        thread_local!(static NESTING: Cell<usize> = const { Cell::new(0) });
        if NESTING.get() >= MAX_NESTING {
            return Err(D::Error::custom("graphs nest too deep"));
        }
        NESTING.set(NESTING.get() + 1);
        let fields = Fields::deserialize(deserializer);
        NESTING.set(NESTING.get() - 1);
        let Fields { version, arity, nodes, roots } = fields?;
        Ok(Unnested(Subgraph { version, arity, nodes, roots }))
    }
}

impl From<Unnested> for Subgraph {
    fn from(Unnested(graph): Unnested) -> Self {
        graph
    }
}

fn malformed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, "graph", message)
}

impl Subgraph {
    /// The graph from `parameters` to `roots`. Leaves that are not parameters stay leaves of the copy.
    pub fn capture(parameters: &[Value], roots: &[Value]) -> Subgraph {
        // A node belongs to the graph if a value that is no parameter leads to it; a node of which only some
        // outputs are parameters may be reached through the others.
        let keys: HashSet<_> = parameters.iter().map(Value::key).collect();
        let mut inside = HashSet::new();
        let mut pending: Vec<&Value> = roots.iter().collect();
        while let Some(value) = pending.pop() {
            if !keys.contains(&value.key()) && inside.insert(value.node().id()) {
                pending.extend(value.node().inputs());
            }
        }
        let is_cut = |node: &Node| !inside.contains(&node.id());
        let mut index: HashMap<(u64, u32), (u32, u32)> = HashMap::new();
        let mut nodes = Vec::new();
        for parameter in parameters {
            index.insert(parameter.key(), (nodes.len() as u32, 0));
            nodes.push((Prim::Source(crate::prim::Source::Leaf { ty: parameter.ty().clone() }), Vec::new()));
        }
        for node in topological(roots, is_cut) {
            if is_cut(&node) {
                continue;
            }
            let at = nodes.len() as u32;
            let inputs = node.inputs().iter().map(|v| index[&v.key()]).collect();
            for value in Node::outputs(&node) {
                index.entry(value.key()).or_insert((at, value.index() as u32));
            }
            nodes.push((node.prim().clone(), inputs));
        }
        let roots = roots.iter().map(|r| index[&r.key()]).collect();
        Subgraph { version: VERSION, arity: parameters.len() as u32, nodes, roots }
    }

    /// A graph of nodes in order: the first `arity` are leaves, and operands come before their users, each as the
    /// number of its node and of its output. [`Subgraph::inline`] checks all that.
    pub fn from_nodes(arity: u32, nodes: Vec<(Prim, Vec<(u32, u32)>)>, roots: Vec<(u32, u32)>) -> Subgraph {
        Subgraph { version: VERSION, arity, nodes, roots }
    }

    /// The primitives of the nodes, in order.
    pub fn prims(&self) -> impl Iterator<Item = &Prim> {
        self.nodes.iter().map(|(prim, _)| prim)
    }

    /// The types of the parameters.
    ///
    /// Errors: a parameter that is no leaf.
    pub fn parameters(&self) -> Result<Vec<crate::TensorType>> {
        let parameters = self.prims().take(self.arity());
        let types = parameters.map(|prim| match prim {
            Prim::Source(crate::prim::Source::Leaf { ty }) => Ok(ty.clone()),
            other => Err(malformed(format!("parameter is {other}, not a leaf"))),
        });
        types.collect()
    }

    /// The graph as bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(self).map_err(|e| malformed(e.to_string()))
    }

    /// Reads what [`Subgraph::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Subgraph> {
        let (graph, rest) =
            postcard::take_from_bytes(bytes).map_err(|e| malformed(format!("not a graph: {e}")))?;
        match rest.len() {
            0 => Ok(graph),
            more => Err(malformed(format!("{more} bytes follow the graph"))),
        }
    }

    /// 1 for a graph that holds no other, one more for each level inside.
    pub fn nesting(&self) -> usize {
        let inner = self.nodes.iter().filter_map(|(prim, _)| match prim {
            Prim::Control(Control::Checkpoint { body }) => Some(body.nesting()),
            _ => None,
        });
        1 + inner.max().unwrap_or(0)
    }

    /// The types of the roots for operands of these types.
    pub fn infer(&self, inputs: &[&crate::TensorType]) -> Result<crate::prim::Types> {
        let leaves = inputs.iter().map(|ty| Value::leaf((*ty).clone())).collect::<Result<Vec<_>>>()?;
        Ok(self.inline(&crate::Lazy, &leaves)?.iter().map(|root| root.ty().clone()).collect())
    }

    /// How many parameters the graph takes.
    pub fn arity(&self) -> usize {
        self.arity as usize
    }

    /// Applies the graph to `arguments` through any builder.
    pub fn inline<B: crate::Builder>(&self, b: &B, arguments: &[B::Value]) -> Result<Vec<B::Value>> {
        self.walk(arguments, |prim, operands| b.apply(prim.clone(), operands))
    }

    /// Interprets the graph: `apply` says what a primitive does to values of any kind, such as values with
    /// tangents. Returns the roots.
    pub(crate) fn walk<V: Clone>(
        &self,
        arguments: &[V],
        mut apply: impl FnMut(&Prim, &[V]) -> Result<SmallVec<[V; 1]>>,
    ) -> Result<Vec<V>> {
        if self.version != VERSION {
            return Err(malformed(format!("graph version {} is not {VERSION}", self.version)));
        }
        if arguments.len() != self.arity as usize || self.nodes.len() < arguments.len() {
            return Err(malformed(format!("{} arguments for {} parameters", arguments.len(), self.arity)));
        }
        let mut values: Vec<SmallVec<[V; 1]>> = Vec::with_capacity(self.nodes.len());
        for (at, (prim, inputs)) in self.nodes.iter().enumerate() {
            if let Some(argument) = arguments.get(at) {
                values.push(SmallVec::from_iter([argument.clone()]));
                continue;
            }
            let operands = inputs
                .iter()
                .map(|&(node, output)| lookup(&values, node, output))
                .collect::<Result<Vec<_>>>()?;
            values.push(apply(prim, &operands)?);
        }
        self.roots.iter().map(|&(node, output)| lookup(&values, node, output)).collect()
    }
}

fn lookup<V: Clone>(values: &[SmallVec<[V; 1]>], node: u32, output: u32) -> Result<V> {
    values.get(node as usize).and_then(|outputs| outputs.get(output as usize)).cloned().ok_or_else(|| {
        malformed(format!("a node refers to value {node}.{output}, which does not precede it"))
    })
}

/// The graph of `roots` as bytes; every leaf becomes a parameter, in the order of `leaves`.
pub fn to_bytes(leaves: &[Value], roots: &[Value]) -> Result<Vec<u8>> {
    Subgraph::capture(leaves, roots).to_bytes()
}

/// Reads a graph; returns its leaves in the order of writing, and its roots.
pub fn from_bytes(bytes: &[u8]) -> Result<(Vec<Value>, Vec<Value>)> {
    let graph = Subgraph::from_bytes(bytes)?;
    let leaves = graph.parameters()?.into_iter().map(Value::leaf).collect::<Result<Vec<_>>>()?;
    let roots = graph.inline(&crate::Lazy, &leaves)?;
    Ok((leaves, roots))
}

impl Subgraph {
    /// Shares the graph as an attribute of a primitive.
    pub fn shared(self) -> Arc<Subgraph> {
        Arc::new(self)
    }
}
