//! In-place writes.
//!
//! Nothing is overwritten in the graph: the new elements go through the movements of the target into its base's
//! value, and the base's cell takes the result. All views of the base see it.

use lanthorn_compiler::slot;
use lanthorn_ir::expr::Scalar;
use lanthorn_ir::layout::{Dims, ShowShape};
use lanthorn_ir::ops::table::Attribute;
use lanthorn_ir::prim::Movement;
use lanthorn_ir::{DType, Error, Lazy, Result, Value, ops};

use crate::apply::{MAX_HEIGHT, MAX_PENDING, Operand, moved};
use crate::arena::Handle;
use crate::cell::{CellId, Tensor};
use crate::engine::Engine;
use crate::session::{Session, expect_one};

impl<E: Engine> Session<E> {
    /// Writes the result of an op over the elements of `target`, a tensor or a view of one.
    ///
    /// Errors: an op of several results; a result that does not broadcast to the target or whose dtype does not
    /// convert to the target's; a target that requires gradients, outside of `no_grad`; a broadcast view.
    pub fn assign(
        &mut self,
        target: Handle,
        id: usize,
        tensors: &[Option<Handle>],
        attributes: &[Attribute],
    ) -> Result<()> {
        self.touch_to_write(self.tensors.get(target)?.cell)?;
        self.check_writable(target)?;
        let evaluated = self.evaluate(id, tensors, attributes)?;
        let (name, is_tracked) = (evaluated.op.name, evaluated.is_tracked);
        let value = expect_one(name, evaluated.values)?;
        let is_tracked = is_tracked && value.ty().dtype.is_float();
        let source = Operand { value, is_tracked, pending: evaluated.pending, height: evaluated.height };
        let source = self.fit(name, target, source, false)?;
        let target = self.tensors.get(target)?.clone();
        self.write(&target, source)
    }

    /// Writes the elements of `source`, converted and broadcast, over those of `target`.
    ///
    /// Errors: as [`Session::assign`].
    pub fn copy(&mut self, target: Handle, source: Handle) -> Result<()> {
        self.touch_to_write(self.tensors.get(target)?.cell)?;
        self.check_writable(target)?;
        let source = self.operand(source)?;
        let source = self.fit("copy", target, source, true)?;
        let target = self.tensors.get(target)?.clone();
        self.write(&target, source)
    }

    fn check_writable(&mut self, target: Handle) -> Result<()> {
        self.expect_written(self.tensors.get(target)?.cell)?;
        let tensor = self.tensors.get(target)?;
        if self.cells.get(tensor.cell)?.requires_grad && !tensor.is_detached && self.is_grad_enabled() {
            let which = if tensor.is_view { "a view of a tensor" } else { "a tensor" };
            let message = format!("{which} that requires gradients is written only inside no_grad");
            return Err(Error::unsupported("assign", message));
        }
        Ok(())
    }

    /// The elements as the target takes them.
    fn fit(&self, op: &str, target: Handle, source: Operand, any_dtype: bool) -> Result<Operand> {
        let to = self.type_of(self.tensors.get(target)?)?;
        let from = source.value.ty();
        if !any_dtype && !converts(from.dtype, to.dtype) {
            let message = format!("the result is {from}, which is not written over {to}; cast it first");
            return Err(Error::dtype(op, message));
        }
        let value = ops::cast(&Lazy, &source.value, to.dtype)?;
        let value = ops::broadcast_to(&Lazy, &value, &to.shape).map_err(|_| {
            let message = format!("the result is {from}, which does not broadcast to the target {to}");
            Error::shape(op, message)
        })?;
        let is_tracked = source.is_tracked && to.dtype.is_float();
        Ok(Operand { value, is_tracked, ..source })
    }

    /// Puts elements of the target's type into its base.
    pub(crate) fn write(&mut self, tensor: &Tensor, source: Operand) -> Result<()> {
        let passes_gradients = self.is_grad_enabled() && !tensor.is_detached;
        let base = self.cells.get_mut(tensor.cell)?;
        base.settle::<E::Concrete>()?;
        // What is written outside of what derivatives see changes the elements and not where they came from.
        let history =
            (!passes_gradients && base.is_tracked && !base.requires_grad).then(|| base.value.clone());
        let below_history = base.pending;
        let (old, below) = match passes_gradients {
            true => (base.value.clone(), base.pending),
            false => base.cut::<E::Concrete>()?,
        };
        let keeps_history = passes_gradients && base.is_tracked && tensor.view.is_some();
        let base_height = base.height;

        let mut elements = source.value;
        let mut pending = source.pending.max(below);
        if source.is_tracked && !passes_gradients {
            elements = slot::stand_in::<E::Concrete>(&elements)?;
            pending = pending.saturating_add(1);
        }
        let mut value = self.put_through(&old, tensor.movements(), elements)?;
        if let Some(history) = &history {
            value = ops::inner::written(&Lazy, &value, history)?;
            pending = pending.max(below_history);
        }
        let is_tracked = history.is_some() || (passes_gradients && (keeps_history || source.is_tracked));

        let base = self.cells.get_mut(tensor.cell)?;
        base.version += 1;
        base.height = source.height.max(base_height).saturating_add(1);
        if base.requires_grad {
            base.rebind(slot::stand_in::<E::Concrete>(&value)?);
            base.pending = pending.saturating_add(1);
            self.register(tensor.cell)?;
        } else {
            base.rebind(value);
            base.pending = pending;
            base.is_tracked = is_tracked;
        }
        // A result on the way to a loss is no end of its own.
        let base = self.cells.get(tensor.cell)?;
        if !base.is_tracked || base.requires_grad {
            self.mark_written(tensor.cell)?;
        }
        self.bound(tensor.cell)
    }

    /// Commits if too much has gathered below a cell.
    fn bound(&mut self, cell: CellId) -> Result<()> {
        let held = self.cells.get(cell)?;
        let is_high = held.height > MAX_HEIGHT && (held.requires_grad || !held.is_tracked);
        if held.pending < MAX_PENDING && !is_high {
            return Ok(());
        }
        // A result on the way to a loss is not in the list of what was written.
        if held.is_written { self.compute(&[]) } else { self.compute(&[cell]) }
    }

    /// `base` with `elements` where the movements look.
    fn put_through(&self, base: &Value, movements: &[Movement], elements: Value) -> Result<Value> {
        let mut stages = vec![base.clone()];
        for movement in movements {
            let stage = stages.last().map(|stage| moved(stage, movement)).transpose()?;
            stages.extend(stage);
        }
        let mut written = elements;
        for (movement, stage) in movements.iter().zip(&stages).rev() {
            written = self.put(stage, movement, written)?;
        }
        Ok(written)
    }

    /// `base` with `elements` where the movement looks.
    fn put(&self, base: &Value, movement: &Movement, elements: Value) -> Result<Value> {
        let shape = &base.ty().shape;
        match movement {
            Movement::Reshape { .. } => moved(&elements, &Movement::Reshape { shape: shape.clone() }),
            Movement::Flip { .. } => moved(&elements, movement),
            Movement::Permute { axes } => {
                let mut inverse = axes.clone();
                for (to, &from) in axes.iter().enumerate() {
                    inverse[from] = to;
                }
                moved(&elements, &Movement::Permute { axes: inverse })
            }
            Movement::Slice { starts, stops, steps } if steps.iter().all(|&step| step == 1) => {
                self.put_slice(base, starts, stops, elements)
            }
            Movement::Slice { starts, steps, .. } => put_strided(base, starts, steps, elements),
            Movement::Broadcast { shape: to } => {
                let message = format!(
                    "the target is a broadcast view, of {} to {}: several of its elements are one element; write \
                     to its base, or copy it first",
                    ShowShape(shape),
                    ShowShape(to)
                );
                Err(Error::unsupported("assign", message))
            }
            Movement::Window(_) => {
                let message = format!(
                    "the target shows windows of {}, which may overlap: several of its elements are one element; \
                     write to its base, or copy it first",
                    ShowShape(shape)
                );
                Err(Error::unsupported("assign", message))
            }
            Movement::Pad { .. } | Movement::Concat { .. } => {
                Err(Error::unsupported("assign", format!("{} gives no view", movement_name(movement))))
            }
        }
    }

    /// A slice of step 1: one update for each axis that is cut. Starts are arguments, so that a moving slice makes
    /// no new program of the update.
    fn put_slice(&self, base: &Value, starts: &Dims, stops: &Dims, elements: Value) -> Result<Value> {
        if elements.ty().numel() == 0 {
            return Ok(base.clone());
        }
        let shape = base.ty().shape.clone();
        let is_cut = |&axis: &usize| (starts[axis], stops[axis]) != (0, shape[axis]);
        let axes: Vec<usize> = (0..shape.len()).filter(is_cut).collect();
        let mut stages = Vec::with_capacity(axes.len());
        let mut stage = base.clone();
        for &axis in &axes {
            stages.push(stage.clone());
            stage =
                ops::narrow(&Lazy, &stage, axis as isize, starts[axis] as isize, stops[axis] - starts[axis])?;
        }
        let mut written = elements;
        for (&axis, stage) in axes.iter().zip(&stages).rev() {
            let start = self.number("assign", Scalar::Int(starts[axis] as i64), DType::I64)?;
            written = ops::update_slice(&Lazy, stage, &written, &start, axis as isize)?;
        }
        Ok(written)
    }
}

/// A slice with steps: elements spread out, and chosen where they lie.
fn put_strided(base: &Value, starts: &Dims, steps: &Dims, elements: Value) -> Result<Value> {
    let (shape, sizes) = (base.ty().shape.clone(), elements.ty().shape.clone());
    if elements.ty().numel() == 0 {
        return Ok(base.clone());
    }
    let high = (0..shape.len()).map(|a| shape[a] - (starts[a] + (sizes[a] - 1) * steps[a] + 1)).collect();
    let interior = steps.iter().map(|step| step - 1).collect();
    let spread = Movement::Pad { low: starts.clone(), high, interior };
    let inside = ops::ones(&Lazy, &sizes, DType::Bool)?;
    ops::where_(&Lazy, &moved(&inside, &spread)?, &moved(&elements, &spread)?, base)
}

fn movement_name(movement: &Movement) -> &'static str {
    lanthorn_ir::prim::Rules::name(movement)
}

/// True if an in-place op may give `from` where the target is `to`: nothing but width is lost.
fn converts(from: DType, to: DType) -> bool {
    let is_number = |dtype: DType| dtype.is_float() || dtype.is_int();
    from == to
        || (to.is_float() && (is_number(from) || from == DType::Bool))
        || (to.is_int() && (from.is_int() || from == DType::Bool))
}
