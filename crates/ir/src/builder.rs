//! The one interface against which rules and ops are written: apply a primitive to values, get values back.
//!
//! Two interpretations exist: [`Lazy`] appends to the graph, and the run-time crate's eager builder runs
//! the kernel now. A rule or composition that is written once serves both.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Node, Value};
use crate::layout::TensorType;
use crate::prim::{Elementwise, Prim};

/// The values that one primitive returns.
pub type Outputs<V> = SmallVec<[V; 1]>;

/// Applies primitives to values.
pub trait Builder {
    /// A handle to one tensor value; cloning is cheap.
    type Value: Clone;

    /// Applies `prim` to `inputs` after checking them with [`Prim::infer`].
    fn apply(&self, prim: Prim, inputs: &[Self::Value]) -> Result<Outputs<Self::Value>>;

    /// As [`Builder::apply`], of values that stay where they are.
    fn apply_refs(&self, prim: Prim, inputs: &[&Self::Value]) -> Result<Outputs<Self::Value>> {
        let inputs: SmallVec<[Self::Value; 4]> = inputs.iter().map(|&value| value.clone()).collect();
        self.apply(prim, &inputs)
    }

    /// Applies a function of single elements to values of one shape.
    fn elementwise(&self, function: Elementwise, inputs: &[&Self::Value]) -> Result<Self::Value> {
        self.apply1_refs(Prim::Elementwise(function), inputs)
    }

    /// Dtype and shape of a value.
    fn ty<'a>(&self, value: &'a Self::Value) -> &'a TensorType;

    /// Whether two handles are known to stand for one value, so that what is asked of both can be computed once.
    fn is_same(&self, one: &Self::Value, other: &Self::Value) -> bool {
        let _ = (one, other);
        false
    }

    /// The number that a whole value of rank 0 holds, for `op`, whose result has a shape that depends on it. Only
    /// builders whose values are computed already know it.
    ///
    /// Errors: a graph, by the name of the op; a negative number.
    fn count(&self, op: &str, value: &Self::Value) -> Result<usize> {
        let _ = value;
        Err(Error::unsupported(
            op,
            "its shape depends on values, which a graph does not know; give `size`, or call it on computed tensors",
        ))
    }

    /// Applies a primitive that has one output.
    fn apply1(&self, prim: Prim, inputs: &[Self::Value]) -> Result<Self::Value> {
        let name = prim.name();
        only(name, self.apply(prim, inputs)?)
    }

    /// As [`Builder::apply1`], of values that stay where they are.
    fn apply1_refs(&self, prim: Prim, inputs: &[&Self::Value]) -> Result<Self::Value> {
        let name = prim.name();
        only(name, self.apply_refs(prim, inputs)?)
    }
}

/// The one output of a primitive that should have one.
#[inline]
pub fn only<V>(name: &str, mut outputs: Outputs<V>) -> Result<V> {
    match (outputs.pop(), outputs.is_empty()) {
        (Some(value), true) => Ok(value),
        _ => Err(several(name)),
    }
}

fn several(name: &str) -> Error {
    Error::unsupported(name, "expected a primitive with exactly one output")
}

/// The number of a value that counts, as `op` takes it.
///
/// Errors: a negative number.
pub fn count_of(op: &str, found: impl TryInto<usize> + Copy + std::fmt::Display) -> Result<usize> {
    let fails = |_| Error::new(ErrorKind::Execute, op, format!("the size {found} is no count"));
    found.try_into().map_err(fails)
}

/// Appends to the graph, and asks `count` for the numbers that shapes depend on, as [`Builder::count`].
pub struct Counting<F>(pub F);

impl<F: Fn(&str, &Value) -> Result<usize>> Builder for Counting<F> {
    type Value = Value;

    fn apply(&self, prim: Prim, inputs: &[Value]) -> Result<Outputs<Value>> {
        Lazy.apply(prim, inputs)
    }

    fn apply_refs(&self, prim: Prim, inputs: &[&Value]) -> Result<Outputs<Value>> {
        Lazy.apply_refs(prim, inputs)
    }

    fn elementwise(&self, function: Elementwise, inputs: &[&Value]) -> Result<Value> {
        Lazy.elementwise(function, inputs)
    }

    fn ty<'a>(&self, value: &'a Value) -> &'a TensorType {
        value.ty()
    }

    fn is_same(&self, one: &Value, other: &Value) -> bool {
        one.key() == other.key()
    }

    fn count(&self, op: &str, value: &Value) -> Result<usize> {
        self.0(op, value)
    }
}

/// Appends to the graph; nothing is computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lazy;

impl Builder for Lazy {
    type Value = Value;

    fn apply(&self, prim: Prim, inputs: &[Value]) -> Result<Outputs<Value>> {
        Ok(Node::outputs(&Node::new(prim, operands(inputs.iter()))?))
    }

    fn apply_refs(&self, prim: Prim, inputs: &[&Value]) -> Result<Outputs<Value>> {
        Ok(Node::outputs(&Node::new(prim, operands(inputs.iter().copied()))?))
    }

    fn apply1(&self, prim: Prim, inputs: &[Value]) -> Result<Value> {
        one_output(Node::new(prim, operands(inputs.iter()))?)
    }

    fn apply1_refs(&self, prim: Prim, inputs: &[&Value]) -> Result<Value> {
        one_output(Node::new(prim, operands(inputs.iter().copied()))?)
    }

    fn elementwise(&self, function: Elementwise, inputs: &[&Value]) -> Result<Value> {
        one_output(Node::elementwise(function, operands(inputs.iter().copied()))?)
    }

    #[inline]
    fn ty<'a>(&self, value: &'a Value) -> &'a TensorType {
        value.ty()
    }

    fn is_same(&self, one: &Value, other: &Value) -> bool {
        one.key() == other.key()
    }
}

/// The operands of a node, which are few.
fn operands<'a>(inputs: impl Iterator<Item = &'a Value>) -> SmallVec<[Value; 3]> {
    let mut operands = SmallVec::new();
    for value in inputs {
        operands.push(value.clone());
    }
    operands
}

fn one_output(node: Arc<Node>) -> Result<Value> {
    Node::into_output(node).map_err(|node| several(node.prim().name()))
}
