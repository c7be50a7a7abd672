//! Roots as a program in dense tables, with a list of what it takes.

use std::collections::HashMap;

use lanthorn_compiler::indexed::{Indexed, ValueRef};
use lanthorn_compiler::pipeline::index;
use lanthorn_ir::prim::Source;
use lanthorn_ir::{DType, Error, ErrorKind, Prim, Result, TensorType, Value};
use lanthorn_runtime::EagerTensor;

use crate::leaf::{Leaf, elements};

/// An argument of a program.
#[derive(Clone)]
pub(crate) enum Argument {
    Elements(EagerTensor),
    Key,
    Input(usize),
    Scalar(usize, DType),
}

/// A program with its arguments in the order of its inputs.
pub(crate) struct Traced {
    pub program: Indexed,
    pub arguments: Vec<Argument>,
}

/// The program of `roots`. Leaves of one slot are one argument, and positions become a ramp.
///
/// Errors: two inputs of one slot that differ in type.
pub(crate) fn trace(op: &str, roots: &[Value]) -> Result<Traced> {
    let (mut program, leaves) = index(&[], roots, |_| false);
    let mut inputs = Vec::with_capacity(leaves.len());
    let mut arguments = Vec::with_capacity(leaves.len());
    // The node of the first leaf of each slot, and the nodes of others with that which takes their place.
    let mut slots: HashMap<Leaf, u32> = HashMap::new();
    let mut replaced: HashMap<u32, u32> = HashMap::new();
    for (leaf, &node) in leaves.iter().zip(&program.inputs) {
        let argument = match Leaf::of(leaf) {
            None => match elements(op, leaf)? {
                Some(tensor) => Argument::Elements(tensor),
                None => return Err(unbound(op, leaf.ty())),
            },
            Some(Leaf::Positions) => {
                let len = leaf.ty().numel();
                let ramp = Prim::Source(Source::Iota { len, dtype: leaf.ty().dtype });
                if let Some(node) = program.nodes.get_mut(node as usize) {
                    node.prim = ramp;
                }
                continue;
            }
            Some(Leaf::Key) => Argument::Key,
            Some(kind @ (Leaf::Input(slot) | Leaf::Scalar(slot))) => {
                if let Some(&first) = slots.get(&kind) {
                    expect_same(op, kind, program.ty(ValueRef { node: first, output: 0 }), leaf.ty())?;
                    replaced.insert(node, first);
                    continue;
                }
                slots.insert(kind, node);
                match kind {
                    Leaf::Scalar(_) => Argument::Scalar(slot, leaf.ty().dtype),
                    _ => Argument::Input(slot),
                }
            }
        };
        inputs.push(node);
        arguments.push(argument);
    }
    let changed = inputs.len() != program.inputs.len();
    program.inputs = inputs;
    if !replaced.is_empty() {
        let follow = |value: &mut ValueRef| {
            if let Some(&first) = replaced.get(&value.node) {
                *value = ValueRef { node: first, output: 0 };
            }
        };
        program.nodes.iter_mut().flat_map(|node| &mut node.inputs).for_each(follow);
        program.roots.iter_mut().for_each(follow);
    }
    // Leaves that gave way are no inputs and are read by nobody.
    Ok(Traced { program: if changed { program.prune() } else { program }, arguments })
}

fn unbound(op: &str, ty: &TensorType) -> Error {
    Error::new(ErrorKind::InvalidHandle, op, format!("a leaf of {ty} has no elements and is no input"))
}

fn expect_same(op: &str, leaf: Leaf, first: &TensorType, other: &TensorType) -> Result<()> {
    if first == other {
        return Ok(());
    }
    let (what, slot) = match leaf {
        Leaf::Scalar(slot) => ("scalar", slot),
        Leaf::Input(slot) => ("input", slot),
        Leaf::Key | Leaf::Positions => ("leaf", 0),
    };
    let message = format!("{what} {slot} is {first} in one place and {other} in another");
    Err(Error::new(ErrorKind::Compile, op, message))
}
