//! The reverse derivative of the lazy graph.

use std::collections::HashMap;
use std::sync::Arc;

use super::record::{Record, UNTRACKED, is_differentiable, reverse};
use crate::builder::Lazy;
use crate::error::{Error, Result};
use crate::graph::{Node, Value, topological};
use crate::ops;

/// Cotangents of `wrt` from those of `outputs`; `None` where an output does not depend on the value.
///
/// Errors: a cotangent whose type is not its output's; a `wrt` that is not of a floating-point dtype.
pub fn vjp(outputs: &[Value], cotangents: &[Value], wrt: &[Value]) -> Result<Vec<Option<Value>>> {
    check_cotangents(&Lazy, outputs, cotangents)?;
    check_wrt("vjp", &Lazy, wrt)?;
    back(outputs, cotangents, wrt)
}

/// [`vjp`] of what has been checked.
fn back(outputs: &[Value], cotangents: &[Value], wrt: &[Value]) -> Result<Vec<Option<Value>>> {
    // Ids grow as the graph does: a node older than every `wrt` depends on none of them.
    let Some(oldest) = wrt.iter().map(|value| value.node().id()).min() else { return Ok(Vec::new()) };
    let order = topological(outputs, |node| node.id() < oldest);

    let mut first_output: HashMap<u64, usize> = HashMap::with_capacity(order.len());
    let mut count = 0;
    for node in order.iter().chain(wrt.iter().map(Value::node)) {
        first_output.entry(node.id()).or_insert_with(|| {
            count += node.types().len();
            count - node.types().len()
        });
    }
    let number = |value: &Value| first_output.get(&value.node().id()).map(|first| first + value.index());
    let wrt: Vec<usize> = wrt.iter().filter_map(number).collect();

    // Keep what lies between `wrt` and the outputs.
    let mut active = vec![false; count];
    for &id in &wrt {
        active[id] = true;
    }
    let is_active = |active: &[bool], value: &Value| number(value).is_some_and(|id| active[id]);
    let mut path: Vec<(Arc<Node>, usize)> = Vec::new();
    for node in order {
        if node.id() < oldest || !node.inputs().iter().any(|input| is_active(&active, input)) {
            continue;
        }
        let Some(&first) = first_output.get(&node.id()) else { continue };
        for (output, id) in Node::outputs(&node).iter().zip(first..) {
            active[id] |= is_differentiable(&Lazy, output);
        }
        path.push((node, first));
    }
    let record = |index: usize| {
        let (node, first_output) = &path[index];
        Record {
            prim: node.prim().clone(),
            inputs: node.inputs().iter().cloned().collect(),
            input_ids: node.inputs().iter().map(|input| number(input).unwrap_or(UNTRACKED)).collect(),
            outputs: Node::outputs(node),
            first_output: *first_output,
        }
    };
    let seeds = outputs.iter().zip(cotangents).filter_map(|(o, ct)| Some((number(o)?, ct.clone()))).collect();
    reverse(&Lazy, count, path.len(), record, seeds, &wrt)
}

/// Gradients of a loss of one element; a value on which it does not depend gets zeros.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value, ops, transform};
///
/// let w = Value::leaf(TensorType::new(DType::F32, [3]))?;
/// let loss = ops::sum(&Lazy, &ops::square(&Lazy, &w)?, &[], false)?;
/// let grads = transform::grad(&loss, std::slice::from_ref(&w))?;
/// assert_eq!(grads[0].ty(), w.ty());
/// # Ok::<(), lanthorn_ir::Error>(())
/// ```
///
/// Errors: a loss of more than one element or not of a floating-point dtype; a `wrt` that is not of one.
pub fn grad(loss: &Value, wrt: &[Value]) -> Result<Vec<Value>> {
    grad_of("grad", loss, wrt)
}

/// [`grad`] for the transform that errors name.
pub(super) fn grad_of(op: &str, loss: &Value, wrt: &[Value]) -> Result<Vec<Value>> {
    let seed = loss_seed(op, &Lazy, loss)?;
    check_wrt(op, &Lazy, wrt)?;
    let found = back(std::slice::from_ref(loss), &[seed], wrt)?;
    found.into_iter().zip(wrt).map(|(g, x)| g.map_or_else(|| ops::zeros_like(&Lazy, x), Ok)).collect()
}

/// The cotangent 1 of a loss.
pub(super) fn loss_seed<B: crate::Builder>(op: &str, b: &B, loss: &B::Value) -> Result<B::Value> {
    let ty = b.ty(loss);
    if ty.numel() != 1 || !ty.dtype.is_float() {
        return Err(Error::shape(op, format!("the loss is {ty}, expected one floating-point element")));
    }
    ops::ones_like(b, loss)
}

/// Checks that every output has a cotangent of its own type.
pub(super) fn check_cotangents<B: crate::Builder>(
    b: &B,
    outputs: &[B::Value],
    cotangents: &[B::Value],
) -> Result<()> {
    if outputs.len() != cotangents.len() {
        let (n, m) = (outputs.len(), cotangents.len());
        return Err(Error::shape("vjp", format!("{m} cotangents for {n} outputs")));
    }
    for (i, (output, cotangent)) in outputs.iter().zip(cotangents).enumerate() {
        if b.ty(output) != b.ty(cotangent) {
            let (expected, found) = (b.ty(output), b.ty(cotangent));
            return Err(Error::shape("vjp", format!("cotangent {i} is {found}, expected {expected}")));
        }
    }
    Ok(())
}

/// Checks that derivatives exist in every value of `wrt`.
pub(super) fn check_wrt<B: crate::Builder>(op: &str, b: &B, wrt: &[B::Value]) -> Result<()> {
    for (i, value) in wrt.iter().enumerate() {
        if !is_differentiable(b, value) {
            let ty = b.ty(value);
            return Err(Error::dtype(op, format!("value {i} is {ty}, expected a floating-point dtype")));
        }
    }
    Ok(())
}
