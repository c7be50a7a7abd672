//! Ops on handles.

use std::sync::LazyLock;

use lanthorn_compiler::slot;
use lanthorn_ir::builder::Counting;
use lanthorn_ir::expr::Scalar;
use lanthorn_ir::ops::table::{self, Attribute, OPS, Op};
use lanthorn_ir::prim::{Movement, Prim};
use lanthorn_ir::{Builder, DType, Error, Layout, Lazy, Result, TensorType, Value, ops};
use smallvec::SmallVec;

use crate::arena::Handle;
use crate::cell::{Cell, CellId, MAX_MOVEMENTS, Movements, Tensor};
use crate::counting::count;
use crate::engine::Engine;
use crate::session::{Session, check_type, scalar_bytes};

/// How many pending values may stand on one another before they are computed: dropping them needs that much
/// stack.
pub(crate) const MAX_PENDING: u32 = 64;

/// The same while a function is recorded, when nothing can be computed.
const MAX_PENDING_RECORDED: u32 = 512;

/// How long a path of ops may be before a result that requires no gradients is computed.
pub(crate) const MAX_HEIGHT: u32 = 4096;

/// A value with what its users must know.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub value: Value,
    pub is_tracked: bool,
    pub pending: u32,
    pub height: u32,
}

/// What an op gave.
pub(crate) struct Evaluated {
    pub op: &'static Op,
    pub values: Vec<Value>,
    /// The first tensor operand of an op that gives views of it.
    first: Option<(Handle, Value)>,
    pub is_tracked: bool,
    pub pending: u32,
    pub height: u32,
}

/// Which numbers of an op become arguments of the program.
#[derive(Clone, Copy, Debug)]
enum Numbers {
    /// None: they are part of the structure.
    Structural,
    /// The second operand of the op of that number, which takes a tensor there.
    Paired(usize),
    /// What the operand is taken from.
    Reversed,
    /// The elements of a tensor like the operand.
    Like,
    /// The bounds of `clamp`.
    Bounds,
    /// The elements of `full`.
    Full,
    /// The element of `scalar`.
    Scalar,
}

/// What the session has to know of an op besides its row in the table.
struct Form {
    numbers: Numbers,
    gives_views: bool,
}

/// The form of an op by its number.
fn form_of(id: usize) -> &'static Form {
    static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
        let form = |op: &Op| {
            let numbers = match op.name {
                "rsub_scalar" => Numbers::Reversed,
                "full_like" => Numbers::Like,
                "clamp" => Numbers::Bounds,
                "full" => Numbers::Full,
                "scalar" => Numbers::Scalar,
                name => match name.strip_suffix("_scalar").and_then(table::id_of) {
                    Some(paired) => Numbers::Paired(paired),
                    None => Numbers::Structural,
                },
            };
            Form { numbers, gives_views: op.gives_views() }
        };
        OPS.iter().map(form).collect()
    });
    const PLAIN: &Form = &Form { numbers: Numbers::Structural, gives_views: false };
    FORMS.get(id).unwrap_or(PLAIN)
}

impl<E: Engine> Session<E> {
    /// Applies the op number `id` of the [table](lanthorn_ir::ops::table::OPS); gives a handle for each result.
    ///
    /// Results that only rearrange the first operand (a slice, a transposed or reshaped tensor) are views of it.
    /// Scalars are arguments of programs, but for 0, 1, -1, 2 and 0.5.
    pub fn op(
        &mut self,
        id: usize,
        tensors: &[Option<Handle>],
        attributes: &[Attribute],
    ) -> Result<SmallVec<[Handle; 2]>> {
        let evaluated = self.evaluate(id, tensors, attributes)?;
        let mut handles = SmallVec::with_capacity(evaluated.values.len());
        for value in &evaluated.values {
            match self.result(&evaluated, value) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    handles.into_iter().try_for_each(|handle| self.release(handle))?;
                    return Err(error);
                }
            }
        }
        Ok(handles)
    }

    /// Applies an op to values.
    pub(crate) fn evaluate(
        &mut self,
        id: usize,
        tensors: &[Option<Handle>],
        attributes: &[Attribute],
    ) -> Result<Evaluated> {
        let op =
            OPS.get(id).ok_or_else(|| Error::unsupported("op", format!("there is no op number {id}")))?;
        let counts = op.counts(attributes) && self.engine.can_read_now() && !self.is_recording();
        if counts {
            // They are read for the number, and again for the result.
            let given: Vec<Handle> = tensors.iter().flatten().copied().collect();
            self.commit(&given)?;
        }
        let mut values: SmallVec<[Option<Value>; 4]> = SmallVec::with_capacity(tensors.len());
        let (mut is_tracked, mut pending, mut height) = (false, 0, 0);
        for tensor in tensors {
            values.push(match tensor {
                None => None,
                Some(tensor) => {
                    let operand = self.operand(*tensor)?;
                    is_tracked |= operand.is_tracked;
                    pending = pending.max(operand.pending);
                    height = height.max(operand.height);
                    Some(operand.value)
                }
            });
        }
        let form = form_of(id);
        let first = match (tensors.first(), values.first()) {
            (Some(Some(handle)), Some(Some(value))) if form.gives_views => Some((*handle, value.clone())),
            _ => None,
        };
        let values = match self.with_arguments(op, form.numbers, &values, attributes)? {
            Some(value) => vec![value],
            None if counts => {
                let count = |op: &str, value: &Value| count(&self.engine, op, value);
                table::call_id(&Counting(count), id, &values, attributes)?
            }
            None => table::call_id(&Lazy, id, &values, attributes)?,
        };
        values.iter().try_for_each(|value| check_type(op.name, value.ty()))?;
        Ok(Evaluated { op, values, first, is_tracked, pending, height: height.saturating_add(1) })
    }

    /// The value of a tensor for an op in the present mode.
    pub(crate) fn operand(&mut self, handle: Handle) -> Result<Operand> {
        let tensor = self.tensors.get(handle)?;
        let (cell, is_detached, is_whole) = (tensor.cell, tensor.is_detached, tensor.movements.is_empty());
        if !is_whole {
            self.compute_source(cell)?;
        }
        let operand = self.operand_of(cell, is_detached)?;
        if is_whole {
            return Ok(operand);
        }
        let tensor = self.tensors.get(handle)?;
        let value = self.derive(&operand.value, tensor, operand.is_tracked)?;
        Ok(Operand { value, ..operand })
    }

    /// The value of a cell for an op in the present mode.
    pub(crate) fn operand_of_cell(&mut self, cell: CellId) -> Result<Operand> {
        self.operand_of(cell, false)
    }

    fn operand_of(&mut self, cell: CellId, is_detached: bool) -> Result<Operand> {
        self.touch(cell)?;
        if self.cells.get(cell)?.failure.is_some() {
            self.expect_written(cell)?;
        }
        let no_grad = is_detached || !self.is_grad_enabled();
        let held = self.cells.get_mut(cell)?;
        let is_tracked = held.is_tracked && !no_grad;
        let held = if !is_tracked && held.pending >= MAX_PENDING {
            self.compute_below(cell)?;
            self.cells.get_mut(cell)?
        } else {
            held
        };
        held.settle::<E::Concrete>()?;
        let height = held.height;
        let (value, pending) = match is_tracked {
            true => (held.value.clone(), held.pending),
            false => held.cut::<E::Concrete>()?,
        };
        Ok(Operand { value, is_tracked, pending, height })
    }

    /// Computes random elements before a part of them is used: another part is then another argument, and no other
    /// structure that draws them all again.
    pub(crate) fn compute_source(&mut self, cell: CellId) -> Result<()> {
        if self.is_recording() || !std::mem::replace(&mut self.cells.get_mut(cell)?.is_source, false) {
            return Ok(());
        }
        self.compute(&[cell])
    }

    /// Computes a cell below which too much is pending; a recorded function may have more of it.
    fn compute_below(&mut self, cell: CellId) -> Result<()> {
        let pending = self.cells.get(cell)?.pending;
        match &self.recording {
            None => self.compute(&[cell]),
            Some(_) if pending < MAX_PENDING_RECORDED => Ok(()),
            Some(recording) => Err(recording.error(format!(
                "the function writes {pending} times over what it wrote before; call it once for each of a few steps"
            ))),
        }
    }

    /// The value of a view from its base's.
    ///
    /// A part of a base that is computed is an argument: a slice that moves from step to step makes no new structure.
    pub(crate) fn derive(&self, base: &Value, view: &Tensor, is_tracked: bool) -> Result<Value> {
        let is_cut = |movement: &Movement| matches!(movement, Movement::Slice { .. });
        let (mut value, mut movements) = (base.clone(), &view.movements[..]);
        // What comes after the last cut is the same wherever that was.
        let cut = movements.iter().rposition(is_cut).filter(|_| !is_tracked);
        if let Some((before, after)) = cut.and_then(|at| movements.split_at_checked(at + 1))
            && let Some(part) = self.part_of(base, before)?
        {
            let shape = layout_of(base, before).map(|layout| layout.shape).unwrap_or_default();
            value = slot::leaf(&TensorType::new(base.ty().dtype, shape), part)?;
            movements = after;
        }
        movements.iter().try_fold(value, |value, movement| moved(&value, movement))
    }

    /// A view as a concrete tensor of its own, if the base is computed.
    pub(crate) fn part(&self, base: &Value, view: &Tensor) -> Result<Option<E::Concrete>> {
        self.part_of(base, &view.movements)
    }

    fn part_of(&self, base: &Value, movements: &[Movement]) -> Result<Option<E::Concrete>> {
        let Some(tensor) = slot::concrete::<E::Concrete>(base)? else { return Ok(None) };
        match layout_of(base, movements) {
            Some(layout) if layout.numel() > 0 => self.engine.part(&tensor, &layout),
            _ => Ok(None),
        }
    }

    /// A handle to one result.
    fn result(&mut self, evaluated: &Evaluated, value: &Value) -> Result<Handle> {
        if let Some(view) = self.view_of_operand(evaluated, value)? {
            return self.show(view);
        }
        self.new_result(value, evaluated.is_tracked, evaluated.pending, evaluated.height)
    }

    /// A handle to a value that the session has not seen.
    pub(crate) fn new_result(
        &mut self,
        value: &Value,
        is_tracked: bool,
        pending: u32,
        height: u32,
    ) -> Result<Handle> {
        let is_tracked = is_tracked && value.ty().dtype.is_float();
        let mut cell = Cell::new(value.clone(), is_tracked);
        (cell.pending, cell.height) = (pending, height);
        let handle = self.adopt(cell)?;
        if !is_tracked && (pending > 0 || height > MAX_HEIGHT) {
            let cell = self.tensors.get(handle)?.cell;
            // What outlives its step, such as the sum of detached losses, must not keep the step's graph.
            if pending > 0 && self.is_grad_enabled() {
                self.mark_written(cell)?;
            }
            if height > MAX_HEIGHT
                && let Err(error) = self.compute(&[cell])
            {
                self.release(handle)?;
                return Err(error);
            }
        }
        Ok(handle)
    }

    /// The view that a result is of the first operand, if it is one.
    fn view_of_operand(&self, evaluated: &Evaluated, value: &Value) -> Result<Option<Tensor>> {
        let Some((handle, base)) = &evaluated.first else {
            return Ok(None);
        };
        let Some(chain) = movements_between(base, value) else { return Ok(None) };
        let tensor = self.tensors.get(*handle)?;
        let mut movements = tensor.movements.clone();
        movements.extend(chain);
        if movements.len() > MAX_MOVEMENTS {
            let message = format!("views of views are at most {MAX_MOVEMENTS} deep; copy the tensor first");
            return Err(Error::unsupported(evaluated.op.name, message));
        }
        Ok(Some(Tensor {
            cell: tensor.cell,
            movements,
            is_view: true,
            is_detached: tensor.is_detached || !self.is_grad_enabled(),
            ty: value.ty().clone(),
        }))
    }

    /// The op's result where a number that it takes becomes an argument of the program; `None` where none does.
    fn with_arguments(
        &self,
        op: &Op,
        numbers: Numbers,
        values: &[Option<Value>],
        attributes: &[Attribute],
    ) -> Result<Option<Value>> {
        // What the table would refuse is left to it.
        let takes = || op.parameters.iter().filter(|parameter| !parameter.kind.is_tensor()).count();
        if matches!(numbers, Numbers::Structural) || attributes.len() > takes() {
            return Ok(None);
        }
        let number =
            |at: usize| attributes.get(at).and_then(as_scalar).filter(|value| !value.is_structural());
        match (numbers, values) {
            (Numbers::Paired(id), [Some(x)]) => {
                let Some(value) = number(0) else { return Ok(None) };
                let operands = [Some(x.clone()), Some(self.beside(op.name, x, value)?)];
                Ok(table::call_id(&Lazy, id, &operands, &[])?.pop())
            }
            (Numbers::Reversed, [Some(x)]) => {
                let Some(value) = number(0) else { return Ok(None) };
                Ok(Some(ops::sub(&Lazy, &self.beside(op.name, x, value)?, x)?))
            }
            (Numbers::Like, [Some(x)]) => {
                let Some(value) = number(0) else { return Ok(None) };
                let shape = x.ty().shape.clone();
                Ok(Some(ops::broadcast_to(&Lazy, &self.beside(op.name, x, value)?, &shape)?))
            }
            (Numbers::Bounds, [Some(x)]) => {
                let bounds = [0, 1].map(|at| attributes.get(at).and_then(as_scalar));
                let given = || bounds.iter().flatten();
                if given().all(|bound| bound.is_structural()) || given().any(|bound| bound.as_f64().is_nan())
                {
                    return Ok(None);
                }
                let value =
                    |bound: Option<Scalar>| bound.map(|bound| self.beside(op.name, x, bound)).transpose();
                let (low, high) = (value(bounds[0])?, value(bounds[1])?);
                Ok(Some(ops::clamp_between(&Lazy, x, low.as_ref(), high.as_ref())?))
            }
            (Numbers::Full, []) => {
                let Some(Attribute::Ints(sizes)) = attributes.first() else { return Ok(None) };
                let sizes: Option<Vec<usize>> =
                    sizes.iter().map(|&size| usize::try_from(size).ok()).collect();
                match (sizes, number(1), as_dtype(attributes.get(2))) {
                    (Some(sizes), Some(value), Some(dtype)) => {
                        Ok(Some(ops::broadcast_to(&Lazy, &self.number(op.name, value, dtype)?, &sizes)?))
                    }
                    _ => Ok(None),
                }
            }
            (Numbers::Scalar, []) => match (number(0), as_dtype(attributes.get(1))) {
                (Some(value), Some(dtype)) => Ok(Some(self.number(op.name, value, dtype)?)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// A number as an argument beside `x`: of its dtype, refused where that cannot hold it.
    fn beside(&self, op: &str, x: &Value, value: Scalar) -> Result<Value> {
        let dtype = x.ty().dtype;
        self.number(op, ops::pointwise::scalar_beside(op, dtype, value)?, dtype)
    }

    /// A number as an argument of the program, of rank 0.
    pub(crate) fn number(&self, op: &str, value: Scalar, dtype: DType) -> Result<Value> {
        let ty = TensorType::scalar(dtype);
        let bytes = scalar_bytes(op, value, dtype)?;
        slot::leaf(&ty, self.engine.upload(&ty, &bytes[..dtype.size()])?)
    }
}

/// Where the elements of a view lie among its base's, unless a movement copies.
fn layout_of(base: &Value, movements: &[Movement]) -> Option<Layout> {
    let whole = Layout::contiguous(&base.ty().shape);
    movements.iter().try_fold(whole, |layout, movement| movement.view(&layout))
}

/// A value moved.
pub(crate) fn moved(value: &Value, movement: &Movement) -> Result<Value> {
    Lazy.apply1(Prim::Movement(movement.clone()), std::slice::from_ref(value))
}

/// The movements from `base` to `value`, if nothing else lies between and none of them copies.
fn movements_between(base: &Value, value: &Value) -> Option<Movements> {
    let mut movements = Movements::new();
    let mut at = value.clone();
    while at != *base {
        let movement = match at.node().prim() {
            Prim::Movement(Movement::Pad { .. } | Movement::Concat { .. }) => return None,
            Prim::Movement(movement) => movement.clone(),
            _ => return None,
        };
        movements.push(movement);
        let operand = at.node().inputs().first()?.clone();
        at = operand;
    }
    movements.reverse();
    Some(movements)
}

fn as_scalar(attribute: &Attribute) -> Option<Scalar> {
    match attribute {
        Attribute::Float(value) => Some(Scalar::float(*value)),
        Attribute::Int(value) => Some(Scalar::Int(*value)),
        Attribute::Bool(value) => Some(Scalar::Bool(*value)),
        _ => None,
    }
}

/// The dtype that an attribute of `full` and `scalar` says, f32 where there is none.
fn as_dtype(attribute: Option<&Attribute>) -> Option<DType> {
    match attribute {
        None | Some(Attribute::None) => Some(DType::F32),
        Some(Attribute::DType(dtype)) => Some(*dtype),
        Some(_) => None,
    }
}
