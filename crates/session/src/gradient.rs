//! Gradients, as in PyTorch: `backward` adds to the gradients of the variables that led to a loss.

use std::collections::HashMap;
use std::sync::Arc;

use lanthorn_compiler::slot;
use lanthorn_ir::graph::topological;
use lanthorn_ir::{Error, Lazy, Node, Result, Value, ops, transform};

use crate::apply::Operand;
use crate::arena::Handle;
use crate::cell::{Cell, CellId, Tensor};
use crate::engine::Engine;
use crate::session::Session;

impl<E: Engine> Session<E> {
    /// Makes a tensor a variable whose gradient `backward` computes, or an ordinary one again. A view of what requires no
    /// gradients, a detached one too, becomes a variable with elements of its own.
    ///
    /// Errors: a dtype without gradients; switching it off for what was computed from variables, or shows elements of one.
    pub fn requires_grad(&mut self, tensor: Handle, on: bool) -> Result<()> {
        let handle = tensor;
        let tensor = self.tensors.get(handle)?;
        let (mut cell, is_view, dtype) = (tensor.cell, tensor.is_view, self.type_of(tensor)?.dtype);
        let is_detached = tensor.is_detached;
        self.touch(cell)?;
        let held = self.cells.get(cell)?;
        let is_tracked = held.is_tracked && !is_detached;
        let is_leaf_as_asked = !is_view && on == held.requires_grad && on == held.is_tracked;
        if is_leaf_as_asked || (is_view && on == is_tracked) {
            return Ok(());
        }
        self.expect_local("requires_grad", cell)?;
        let fail = |message: &str| Err(Error::unsupported("requires_grad", message));
        if on && !dtype.is_float() {
            let message = format!("the tensor is {dtype}, and only floating-point tensors have gradients");
            return Err(Error::dtype("requires_grad", message));
        }
        if is_view && !on {
            return fail("the tensor shows elements of one that requires gradients; detach it instead");
        }
        if is_view {
            cell = self.separate(handle)?;
        }
        let held = self.cells.get(cell)?;
        if held.is_tracked && !held.requires_grad {
            // A result requires gradients by what it was computed from.
            return if on { Ok(()) } else { fail("the tensor is a result of others; detach it instead") };
        }
        // A leaf of its own: what was computed from the tensor before knows nothing of it, or of the time when it
        // was a variable.
        let held = self.cells.get_mut(cell)?;
        let is_computed = slot::is_computed::<E::Concrete>(&held.value)?;
        let is_leaf = held.value.is_leaf();
        let leaf = slot::stand_in::<E::Concrete>(&held.value)?;
        held.exchange(leaf);
        held.requires_grad = on;
        held.is_tracked = on;
        held.pending = if is_computed || is_leaf { held.pending } else { held.pending.saturating_add(1) };
        held.settle::<E::Concrete>()?;
        if !on {
            return Ok(());
        }
        self.register(cell)?;
        if is_computed { Ok(()) } else { self.mark_written(cell) }
    }

    /// Gives a view, through which no derivative passes, a cell of its own; gives that.
    fn separate(&mut self, view: Handle) -> Result<CellId> {
        let Operand { value, pending, height, .. } = self.operand(view)?;
        let mut cell = Cell::new(value, false);
        (cell.pending, cell.height) = (pending, height);
        let cell = self.insert_cell(cell)?;
        self.cells.get_mut(cell)?.references += 1;
        let base = std::mem::replace(self.tensors.get_mut(view)?, Tensor::of(cell)).cell;
        self.drop_reference(base)?;
        Ok(cell)
    }

    /// Adds the gradients of `loss` to those of all variables that led to it; `seed` is the gradient of the loss
    /// itself, 1 where it is absent.
    ///
    /// What was written before is computed first, so that every step of a loop builds one structure. The graph
    /// stays: a second call adds the same gradients once more.
    ///
    /// Errors: a loss that depends on no variable, or that has several elements and no seed; a seed of another
    /// type than the loss.
    pub fn backward(&mut self, loss: Handle, seed: Option<Handle>) -> Result<()> {
        let Loss { value, seed, led, pending } = self.loss("backward", loss, seed)?;
        let leaves: Vec<Value> = led.variables.iter().map(|(_, leaf)| leaf.clone()).collect();
        let found = transform::vjp(&[value], &[seed], &leaves)?;
        for ((cell, _), gradient) in led.variables.into_iter().zip(found) {
            if let Some(gradient) = gradient {
                // Higher derivatives do not pass through what `backward` leaves behind.
                let gradient = slot::stand_in::<E::Concrete>(&gradient)?;
                // Back along the path on which the loss was computed.
                self.accumulate(cell, gradient, pending.saturating_add(1), led.height.saturating_mul(2))?;
            }
        }
        Ok(())
    }

    /// The gradients of `loss` with respect to variables, as tensors through which derivatives pass again: gradients of
    /// gradients come by calling this, or `backward`, on what is made of them. Nothing is accumulated.
    ///
    /// Errors: as those of [`Session::backward`]; a tensor that requires no gradients, or that did not lead to the loss.
    pub fn gradients(&mut self, loss: Handle, seed: Option<Handle>, of: &[Handle]) -> Result<Vec<Handle>> {
        const OP: &str = "grad";
        let Loss { value, seed, led, pending } = self.loss(OP, loss, seed)?;
        let mut cells = Vec::with_capacity(of.len());
        for (place, &tensor) in of.iter().enumerate() {
            let tensor = self.tensors.get(tensor)?;
            if tensor.is_view || !self.cells.get(tensor.cell)?.requires_grad {
                let message = format!("tensor {place} is no leaf that requires grad");
                return Err(Error::unsupported(OP, message));
            }
            if !led.variables.iter().any(|(cell, _)| *cell == tensor.cell) {
                return Err(Error::unsupported(OP, format!("tensor {place} did not lead to the loss")));
            }
            cells.push(tensor.cell);
        }
        let leaves: Vec<Value> = led.variables.iter().map(|(_, leaf)| leaf.clone()).collect();
        let found = transform::vjp(&[value], &[seed], &leaves)?;
        let mut gradients = Vec::with_capacity(of.len());
        for cell in cells {
            // A variable that was written to between has led to the loss through several leaves.
            let mut total: Option<Value> = None;
            let through = led.variables.iter().zip(&found).filter(|((variable, _), _)| *variable == cell);
            for ((_, leaf), gradient) in through {
                let gradient = gradient.clone().map_or_else(|| ops::zeros_like(&Lazy, leaf), Ok)?;
                total = Some(match total {
                    Some(total) => ops::add(&Lazy, &total, &gradient)?,
                    None => gradient,
                });
            }
            let total = total.ok_or_else(|| Error::unsupported(OP, "a tensor did not lead to the loss"))?;
            let is_tracked = !self.led_to(&total)?.variables.is_empty();
            let mut made = Cell::new(total, is_tracked);
            (made.pending, made.height) = (pending.saturating_add(1), led.height.saturating_mul(2));
            gradients.push(self.adopt(made)?);
        }
        Ok(gradients)
    }

    /// A loss and its gradient as values, and what led to it. What was written before is computed first, so that every
    /// step of a loop builds one structure.
    fn loss(&mut self, op: &str, loss: Handle, seed: Option<Handle>) -> Result<Loss> {
        self.touch(self.tensors.get(loss)?.cell)?;
        self.expect_gradients()?;
        let tensor = self.tensors.get(loss)?;
        let ty = self.type_of(tensor)?.clone();
        if !self.cells.get(tensor.cell)?.is_tracked || tensor.is_detached {
            let message = "no leaf tensors require grad: none that led to the loss does; ask for gradients before computing it";
            return Err(Error::unsupported(op, message));
        }
        if seed.is_none() && ty.numel() != 1 {
            let message =
                format!("the loss is {ty}; give the gradient of each of its elements, or reduce it to one");
            return Err(Error::shape(op, message));
        }
        if !self.is_recording() {
            self.compute(&[])?;
        }
        let cell = self.cells.get(self.tensors.get(loss)?.cell)?;
        let (base, pending) = (cell.value.clone(), cell.pending);
        let value = self.derive(&base, self.tensors.get(loss)?, true)?;
        let led = self.led_to(&value)?;
        // What the cell knows may be older than the commit.
        let pending = if led.is_pending { pending } else { 0 };
        let seed = match seed {
            None => ops::ones_like(&Lazy, &value)?,
            Some(seed) => {
                let held = self.tensors.get(seed)?;
                let cell = held.cell;
                self.touch(cell)?;
                let (base, _) = self.cells.get_mut(cell)?.cut::<E::Concrete>()?;
                self.derive(&base, self.tensors.get(seed)?, false)?
            }
        };
        Ok(Loss { value, seed, led, pending })
    }

    /// The gradient of a tensor, if `backward` or [`Session::set_grad`] gave it one: a handle of its own.
    pub fn grad(&mut self, tensor: Handle) -> Result<Option<Handle>> {
        let cell = self.tensors.get(tensor)?.cell;
        self.touch_gradient(cell)?;
        self.expect_written(cell)?;
        let tensor = self.tensors.get(tensor)?;
        let grad = self.cells.get(tensor.cell)?.grad.filter(|_| !tensor.is_view);
        grad.map(|grad| self.show_cell(grad)).transpose()
    }

    /// Makes `gradient` the gradient of a tensor; the two share elements. `None` takes the gradient away.
    ///
    /// Errors: a gradient of another type than the tensor; a view.
    pub fn set_grad(&mut self, tensor: Handle, gradient: Option<Handle>) -> Result<()> {
        let held = self.tensors.get(tensor)?;
        let cell = held.cell;
        if held.is_view {
            return Err(Error::unsupported("set_grad", "a view has no gradient of its own; ask its base"));
        }
        let new = match gradient {
            None => None,
            Some(gradient) => {
                let (given, own) = (self.type_of(self.tensors.get(gradient)?)?, self.type_of(held)?);
                if given != own {
                    let message = format!("the gradient is {given}, the tensor {own}");
                    return Err(Error::shape("set_grad", message));
                }
                Some(self.gradient_cell(gradient, cell)?)
            }
        };
        self.touch_to_replace_gradient(cell)?;
        self.replace_gradient(cell, new)
    }

    /// Makes one cell the gradient of another.
    pub(crate) fn replace_gradient(&mut self, cell: CellId, new: Option<CellId>) -> Result<()> {
        if let Some(new) = new {
            self.cells.get_mut(new)?.references += 1;
        }
        let old = std::mem::replace(&mut self.cells.get_mut(cell)?.grad, new);
        old.map_or(Ok(()), |old| self.drop_reference(old))
    }

    /// The cell of a tensor that becomes a gradient: its own where that is an ordinary cell, else a cut copy.
    fn gradient_cell(&mut self, gradient: Handle, of: CellId) -> Result<CellId> {
        let given = self.tensors.get(gradient)?;
        let (id, is_whole) = (given.cell, given.view.is_none());
        self.touch(id)?;
        let cell = self.cells.get(id)?;
        if is_whole && !cell.is_tracked && cell.grad.is_none() && id != of {
            return Ok(id);
        }
        let (base, pending) = self.cells.get_mut(id)?.cut::<E::Concrete>()?;
        let height = self.cells.get(id)?.height;
        let value = self.derive(&base, self.tensors.get(gradient)?, false)?;
        let mut cell = Cell::new(value, false);
        (cell.pending, cell.height) = (pending, height);
        self.insert_cell(cell)
    }

    fn accumulate(&mut self, variable: CellId, gradient: Value, pending: u32, height: u32) -> Result<()> {
        self.touch_gradient(variable)?;
        match self.cells.get(variable)?.grad {
            Some(grad) => {
                self.touch(grad)?;
                let held = self.cells.get_mut(grad)?;
                let (old, below) = held.cut::<E::Concrete>()?;
                let sum = ops::add(&Lazy, &old, &gradient)?;
                held.rebind(sum);
                held.version += 1;
                held.pending = pending.max(below);
                held.height = height.max(held.height).saturating_add(1);
                self.mark_written(grad)
            }
            None => {
                let mut cell = Cell::new(gradient, false);
                (cell.references, cell.pending, cell.height) = (1, pending, height);
                let grad = self.insert_cell(cell)?;
                self.cells.get_mut(variable)?.grad = Some(grad);
                self.mark_written(grad)
            }
        }
    }

    fn show_cell(&mut self, cell: CellId) -> Result<Handle> {
        self.show(Tensor::of(cell))
    }

    /// Notes that gradients with respect to the cell's leaf are the cell's.
    pub(crate) fn register(&mut self, cell: CellId) -> Result<()> {
        let node = self.cells.get(cell)?.value.node();
        self.variables.insert(node.id(), (Arc::downgrade(node), cell));
        // A variable has a new leaf after each write. Leaves that nothing reads any more are forgotten.
        if self.variables.len() > 2 * self.cells.len() + 64 {
            self.variables.retain(|_, (node, _)| node.strong_count() > 0);
        }
        Ok(())
    }

    /// Walks over the graph of a value.
    fn led_to(&self, value: &Value) -> Result<Led> {
        let mut led = Led { variables: Vec::new(), is_pending: false, height: 0 };
        let mut heights: HashMap<u64, u32> = HashMap::new();
        for node in topological(std::slice::from_ref(value), |_| false) {
            let below = node.inputs().iter().filter_map(|input| heights.get(&input.node().id()));
            let height = below.max().map_or(0, |height| height + 1);
            heights.insert(node.id(), height);
            led.height = led.height.max(height);
            let Some(leaf) = Node::outputs(&node).into_iter().next().filter(Value::is_leaf) else { continue };
            led.is_pending |= !slot::is_computed::<E::Concrete>(&leaf)?;
            if let Some((_, cell)) = self.variables.get(&node.id())
                && self.cells.find(*cell).is_some_and(|cell| cell.requires_grad)
            {
                led.variables.push((*cell, leaf));
            }
        }
        Ok(led)
    }
}

/// A loss, ready to be differentiated.
struct Loss {
    value: Value,
    seed: Value,
    led: Led,
    /// How many values are pending below it.
    pending: u32,
}

/// What led to a value.
struct Led {
    /// Each variable with its leaf, in the order in which the graph reads them.
    variables: Vec<(CellId, Value)>,
    /// True if a leaf is not computed.
    is_pending: bool,
    /// The longest path of ops.
    height: u32,
}
