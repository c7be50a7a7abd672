//! Transforms of graphs: what they give are ordinary nodes again.

use std::collections::HashSet;

use lanthorn_ir::graph::{MAX_NESTING, Subgraph, ValueKey, topological};
use lanthorn_ir::prim::Control;
use lanthorn_ir::{Builder, Error, Lazy, Prim, Result, Value, ops, transform};
use lanthorn_session::Handle;

use crate::graph::Graph;

impl Graph {
    /// The gradients of a loss of one element in `variables`; zeros where it does not depend on one.
    pub fn grad(&mut self, loss: Handle, variables: &[Handle]) -> Result<Vec<Handle>> {
        let loss = self.value("grad", loss)?.clone();
        let variables = self.values("grad", variables)?;
        let gradients = transform::grad(&loss, &variables)?;
        self.insert_all(gradients)
    }

    /// What `v`, given along `y`, becomes along `x`.
    pub fn vjp(&mut self, y: Handle, x: Handle, v: Handle) -> Result<Handle> {
        let [y, x, v] = self.three("vjp", [y, x, v])?;
        let found = transform::vjp(&[y], &[v], &[x.clone()])?;
        self.insert(or_zeros(found, &x)?)
    }

    /// What `v`, given along `x`, becomes along `y`; forward mode.
    pub fn jvp(&mut self, y: Handle, x: Handle, v: Handle) -> Result<Handle> {
        let [y, x, v] = self.three("jvp", [y, x, v])?;
        let found = transform::jvp(&[y.clone()], &[x], &[v])?;
        self.insert(or_zeros(found, &y)?)
    }

    /// `y` for each element of `batched` along `axis` in the place of `x`; results are stacked along axis 0.
    ///
    /// Errors: elements that are not of the type of `x`.
    pub fn vmap(&mut self, y: Handle, x: Handle, batched: Handle, axis: isize) -> Result<Handle> {
        let [y, x, batched] = self.three("vmap", [y, x, batched])?;
        let rank = batched.ty().rank() as isize;
        if !(-rank..rank).contains(&axis) {
            let ty = batched.ty();
            return Err(Error::shape(
                "vmap",
                format!("there is no axis {axis}; {ty} has axes -{rank}..{rank}"),
            ));
        }
        let batched = ops::move_axis(&Lazy, &batched, axis, 0)?;
        let size = batched.ty().shape.first().copied().unwrap_or(0);
        let mapped = transform::vmap_graph(&[y], &[(x, batched)], size)?;
        let mapped = mapped.into_iter().next();
        self.insert(mapped.ok_or_else(|| Error::unsupported("vmap", "the map gave no result"))?)
    }

    /// The same value, whose graph the backward computes again: all that leads to `x` from leaves and from earlier
    /// checkpoints. A derivative in a value between these and `x` is zero.
    pub fn checkpoint(&mut self, x: Handle) -> Result<Handle> {
        let x = self.value("checkpoint", x)?.clone();
        self.insert(checkpoint(&x)?)
    }

    fn three(&self, op: &str, handles: [Handle; 3]) -> Result<[Value; 3]> {
        let [a, b, c] = handles.map(|handle| self.value(op, handle).cloned());
        Ok([a?, b?, c?])
    }
}

/// The one derivative, or zeros like `like`.
fn or_zeros(found: Vec<Option<Value>>, like: &Value) -> Result<Value> {
    found.into_iter().next().flatten().map_or_else(|| ops::zeros_like(&Lazy, like), Ok)
}

fn is_checkpoint(prim: &Prim) -> bool {
    matches!(prim, Prim::Control(Control::Checkpoint { .. }))
}

fn checkpoint(x: &Value) -> Result<Value> {
    let is_boundary = |value: &Value| value.is_leaf() || is_checkpoint(value.node().prim());
    if is_boundary(x) {
        return Ok(x.clone());
    }
    let mut operands: Vec<Value> = Vec::new();
    let mut seen: HashSet<ValueKey> = HashSet::new();
    for node in topological(std::slice::from_ref(x), |node| is_checkpoint(node.prim())) {
        if is_checkpoint(node.prim()) {
            continue;
        }
        operands.extend(node.inputs().iter().filter(|v| is_boundary(v) && seen.insert(v.key())).cloned());
    }
    let body = Subgraph::capture(&operands, std::slice::from_ref(x));
    if body.nesting() > MAX_NESTING {
        return Err(Error::unsupported("checkpoint", format!("nests deeper than {MAX_NESTING} levels")));
    }
    Lazy.apply1(Prim::Control(Control::Checkpoint { body: body.shared() }), &operands)
}
