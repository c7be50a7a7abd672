//! The graph: an immutable DAG whose shared nodes appear once.
//!
//! A [`Node`] applies one primitive to values; a [`Value`] is one output of a node. Nodes are reference
//! counted and every traversal, dropping included, is iterative: a chain of 100,000 nodes needs no more
//! stack than one.

mod dot;
mod serial;

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use smallvec::{SmallVec, smallvec};

pub use dot::{escaped, to_dot};
pub use serial::{MAX_NESTING, Subgraph, from_bytes, to_bytes};

use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Scalar;
use crate::layout::TensorType;
use crate::prim::{Elementwise, Prim, Source};

/// What a run-time attaches to a value: an opaque handle to the storage that holds it.
pub type Payload = Arc<dyn Any + Send + Sync>;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// One application of a primitive.
pub struct Node {
    id: u64,
    prim: Prim,
    inputs: SmallVec<[Value; 3]>,
    types: SmallVec<[TensorType; 1]>,
    payloads: SmallVec<[OnceLock<Payload>; 1]>,
}

impl Node {
    /// Applies `prim` to `inputs`, inferring the output types.
    pub fn new(prim: Prim, inputs: SmallVec<[Value; 3]>) -> Result<Arc<Node>> {
        let types = match &inputs[..] {
            [x] => prim.infer(&[x.ty()]),
            [x, y] => prim.infer(&[x.ty(), y.ty()]),
            inputs => prim.infer(&inputs.iter().map(Value::ty).collect::<SmallVec<[&TensorType; 4]>>()),
        }?;
        let mut payloads = SmallVec::new();
        payloads.resize_with(types.len(), OnceLock::new);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Node { id, prim, inputs, types, payloads }))
    }

    /// Applies a function of single elements, without what [`Prim::infer`] asks of other primitives where it is plain.
    pub(crate) fn elementwise(function: Elementwise, inputs: SmallVec<[Value; 3]>) -> Result<Arc<Node>> {
        let prim = Prim::Elementwise(function);
        let plain = match &inputs[..] {
            [x] => function.plain(&[x.ty()]),
            [x, y] => function.plain(&[x.ty(), y.ty()]),
            _ => None,
        };
        let Some(ty) = plain else { return Node::new(prim, inputs) };
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (types, payloads) = (smallvec![ty], smallvec![OnceLock::new()]);
        Ok(Arc::new(Node { id, prim, inputs, types, payloads }))
    }

    /// All outputs of a node as values.
    pub fn outputs(node: &Arc<Node>) -> SmallVec<[Value; 1]> {
        (0..node.types.len()).map(|index| Value { node: node.clone(), index: index as u32 }).collect()
    }

    /// The node as its only output, or the node again if it has several.
    pub(crate) fn into_output(node: Arc<Node>) -> std::result::Result<Value, Arc<Node>> {
        if node.types.len() == 1 { Ok(Value { node, index: 0 }) } else { Err(node) }
    }

    /// A number unique in this process.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The primitive.
    #[inline]
    pub fn prim(&self) -> &Prim {
        &self.prim
    }

    /// The operands.
    #[inline]
    pub fn inputs(&self) -> &[Value] {
        &self.inputs
    }

    /// The types of the outputs.
    #[inline]
    pub fn types(&self) -> &[TensorType] {
        &self.types
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Most operands have other users; only the last user of one has anything to walk.
        if self.inputs.iter().all(|input| Arc::strong_count(&input.node) > 1) {
            return;
        }
        let mut pending: Vec<Value> = self.inputs.drain(..).collect();
        while let Some(value) = pending.pop() {
            if let Some(mut node) = Arc::into_inner(value.node) {
                pending.extend(node.inputs.drain(..));
            }
        }
    }
}

/// One output of a node.
#[derive(Clone)]
pub struct Value {
    node: Arc<Node>,
    index: u32,
}

/// Identifies a value in side tables: node id and output index.
pub type ValueKey = (u64, u32);

impl Value {
    /// A leaf: a value that comes from outside the graph. Its payload says where from.
    pub fn leaf(ty: TensorType) -> Result<Value> {
        let node = Node::new(Prim::Source(Source::Leaf { ty }), SmallVec::new())?;
        Ok(Value { node, index: 0 })
    }

    /// A rank-0 structural constant.
    pub fn constant(value: Scalar, dtype: DType) -> Result<Value> {
        let node = Node::new(Prim::Source(Source::Const { value, dtype }), SmallVec::new())?;
        Ok(Value { node, index: 0 })
    }

    /// The node that computes this value.
    #[inline]
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Which output of the node this is.
    #[inline]
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// The key for side tables.
    #[inline]
    pub fn key(&self) -> ValueKey {
        (self.node.id, self.index)
    }

    /// Dtype and shape.
    #[inline]
    pub fn ty(&self) -> &TensorType {
        &self.node.types[self.index as usize]
    }

    /// True if the value comes from outside the graph.
    #[inline]
    pub fn is_leaf(&self) -> bool {
        matches!(self.node.prim, Prim::Source(Source::Leaf { .. }))
    }

    /// The storage handle attached to the value, once it has been computed.
    #[inline]
    pub fn payload(&self) -> Option<&Payload> {
        self.node.payloads[self.index as usize].get()
    }

    /// Attaches a storage handle; the first one stays.
    pub fn set_payload(&self, payload: Payload) -> bool {
        self.node.payloads[self.index as usize].set(payload).is_ok()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}.{}:{}", self.node.id, self.index, self.ty())
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Value {}

/// The nodes that `roots` reach, operands before their users, each once. A node for which `stop` says
/// true is listed but not entered.
pub fn topological(roots: &[Value], mut stop: impl FnMut(&Node) -> bool) -> Vec<Arc<Node>> {
    let mut order = Vec::new();
    let mut seen = HashSet::new();
    // A frame is a node and how many of its operands have been visited.
    let mut stack: Vec<(Arc<Node>, usize)> = Vec::new();
    for root in roots {
        if seen.insert(root.node.id) {
            stack.push((root.node.clone(), 0));
        }
        while let Some((node, next)) = stack.last_mut() {
            let entered = *next > 0 || !stop(node);
            if entered && *next < node.inputs.len() {
                let child = node.inputs[*next].node.clone();
                *next += 1;
                if seen.insert(child.id) {
                    stack.push((child, 0));
                }
            } else if let Some((node, _)) = stack.pop() {
                order.push(node);
            }
        }
    }
    order
}

/// One line per node, for `LANTHORN_LOG=graph` and for people.
pub fn to_text(roots: &[Value]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let order = topological(roots, |_| false);
    let number: std::collections::HashMap<u64, usize> =
        order.iter().enumerate().map(|(i, n)| (n.id, i)).collect();
    for (i, node) in order.iter().enumerate() {
        let types: Vec<String> = node.types.iter().map(|t| t.to_string()).collect();
        let inputs: Vec<String> = node
            .inputs
            .iter()
            .map(|v| match (number.get(&v.node.id), v.node.types.len()) {
                (Some(n), 1) => format!("%{n}"),
                (Some(n), _) => format!("%{n}.{}", v.index),
                (None, _) => "%?".to_string(),
            })
            .collect();
        let _ = writeln!(text, "%{i}: {} = {}({})", types.join(", "), node.prim, inputs.join(", "));
    }
    let roots: Vec<String> = roots
        .iter()
        .map(|v| format!("%{}.{}", number.get(&v.node.id).copied().unwrap_or(usize::MAX), v.index))
        .collect();
    let _ = writeln!(text, "return {}", roots.join(", "));
    text
}
