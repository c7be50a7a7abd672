//! Ops on handles.

use std::sync::LazyLock;

use lanthorn_compiler::slot;
use lanthorn_ir::builder::{Counting, Outputs};
use lanthorn_ir::expr::{BinaryOp, Scalar, UnaryOp};
use lanthorn_ir::ops::table::{self, Attribute, OPS, Op};
use lanthorn_ir::prim::{Movement, Prim};
use lanthorn_ir::{Builder, DType, Error, Layout, Lazy, Result, TensorType, Value, ops};
use smallvec::{SmallVec, smallvec};

use crate::arena::Handle;
use crate::cell::{Cell, CellId, Failure, MAX_MOVEMENTS, Movements, Tensor, View};
use crate::counting::count;
use crate::engine::Engine;
use crate::session::{Session, check_rank, scalar_bytes};

/// How many pending values may stand on one another before they are computed: dropping them needs that much
/// stack.
pub(crate) const MAX_PENDING: u32 = 64;

/// The same while a function is recorded, when nothing can be computed.
const MAX_PENDING_RECORDED: u32 = 512;

/// How long a path of ops may be before a result that requires no gradients is computed.
pub(crate) const MAX_HEIGHT: u32 = 4096;

/// A value with what its users must know.
#[derive(Clone, Debug)]
pub(crate) struct Operand<V = Value> {
    pub value: V,
    pub is_tracked: bool,
    pub pending: u32,
    pub height: u32,
}

/// Where an op finds the value of an operand, so that it need not be held twice.
enum Place {
    /// In its cell.
    Cell(CellId),
    /// Here: the value of a view, or one through which no derivative passes.
    Here(Value),
}

/// What an op gave.
pub(crate) struct Evaluated {
    pub op: &'static Op,
    pub values: Outputs<Value>,
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
    /// Of its operands it reads shapes and dtypes and no elements (`zeros_like`): nothing has a derivative through it.
    is_fresh: bool,
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
            Form { numbers, gives_views: op.gives_views(), is_fresh: op.name.ends_with("_like") }
        };
        OPS.iter().map(form).collect()
    });
    const PLAIN: &Form = &Form { numbers: Numbers::Structural, gives_views: false, is_fresh: false };
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
        let mut evaluated = self.evaluate(id, tensors, attributes)?;
        let mut handles = SmallVec::new();
        for value in std::mem::take(&mut evaluated.values) {
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

    /// As [`Session::op`], of an op that is one function of one tensor: most ops of a program, and without lists.
    ///
    /// [`Op::elementwise`] says which ops those are.
    pub fn unary(&mut self, op: &Op, function: UnaryOp, x: Handle) -> Result<Handle> {
        let x = self.place(x)?;
        let value = table::call_unary(&Lazy, op, function, self.value_at(&x.value)?)?;
        self.new_result(value, x.is_tracked, x.pending, x.height.saturating_add(1))
    }

    /// As [`Session::unary`], of two tensors.
    pub fn binary(&mut self, op: &Op, function: BinaryOp, x: Handle, y: Handle) -> Result<Handle> {
        let (x, y) = (self.place(x)?, self.place(y)?);
        let operands = (self.value_at(&x.value)?, self.value_at(&y.value)?);
        let value = table::call_binary(&Lazy, op, function, operands.0, operands.1)?;
        let (pending, height) = (x.pending.max(y.pending), x.height.max(y.height));
        self.new_result(value, x.is_tracked || y.is_tracked, pending, height.saturating_add(1))
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
        let mut places: SmallVec<[Option<Place>; 4]> = SmallVec::new();
        let (mut is_tracked, mut pending, mut height) = (false, 0, 0);
        for tensor in tensors {
            places.push(match tensor {
                None => None,
                Some(tensor) => {
                    let operand = self.place(*tensor)?;
                    is_tracked |= operand.is_tracked;
                    pending = pending.max(operand.pending);
                    height = height.max(operand.height);
                    Some(operand.value)
                }
            });
        }
        let mut values: SmallVec<[Option<&Value>; 4]> = SmallVec::new();
        for place in &places {
            values.push(place.as_ref().map(|place| self.value_at(place)).transpose()?);
        }
        let form = form_of(id);
        let first = match (tensors.first(), values.first()) {
            (Some(Some(handle)), Some(&Some(value))) if form.gives_views => Some((*handle, value.clone())),
            _ => None,
        };
        let values = match self.with_arguments(op, form.numbers, &values, attributes)? {
            Some(value) => smallvec![value],
            None if counts => {
                let count = |op: &str, value: &Value| count(&self.engine, op, value);
                table::call_id(&Counting(count), id, &values, attributes)?
            }
            None => table::call_id(&Lazy, id, &values, attributes)?,
        };
        for value in &values {
            check_rank(op.name, value.ty())?;
        }
        let is_tracked = is_tracked && !form.is_fresh;
        Ok(Evaluated { op, values, first, is_tracked, pending, height: height.saturating_add(1) })
    }

    /// The value of a tensor for an op in the present mode.
    pub(crate) fn operand(&mut self, handle: Handle) -> Result<Operand> {
        let operand = self.place(handle)?;
        self.held(operand)
    }

    /// The value of a cell for an op in the present mode.
    pub(crate) fn operand_of_cell(&mut self, cell: CellId) -> Result<Operand> {
        let operand = self.place_of(cell, false)?;
        self.held(operand)
    }

    /// An operand with a value of its own.
    fn held(&self, operand: Operand<Place>) -> Result<Operand> {
        let Operand { value, is_tracked, pending, height } = operand;
        let value = match value {
            Place::Cell(cell) => self.cells.get(cell)?.value.clone(),
            Place::Here(value) => value,
        };
        Ok(Operand { value, is_tracked, pending, height })
    }

    fn value_at<'a>(&'a self, place: &'a Place) -> Result<&'a Value> {
        match place {
            Place::Cell(cell) => {
                let held = self.cells.get(*cell)?;
                // To place an operand after this one may have run a commit that took its write back.
                match held.failure.as_ref().and_then(Failure::tell) {
                    Some(error) => Err(error),
                    None => Ok(&held.value),
                }
            }
            Place::Here(value) => Ok(value),
        }
    }

    /// Where the value of a tensor is for an op in the present mode.
    fn place(&mut self, handle: Handle) -> Result<Operand<Place>> {
        let tensor = self.tensors.get(handle)?;
        let (cell, is_detached, is_whole) = (tensor.cell, tensor.is_detached, tensor.view.is_none());
        if !is_whole {
            self.compute_source(cell)?;
        }
        let operand = self.place_of(cell, is_detached)?;
        if is_whole {
            return Ok(operand);
        }
        let tensor = self.tensors.get(handle)?;
        let value = self.derive(self.value_at(&operand.value)?, tensor, operand.is_tracked)?;
        Ok(Operand { value: Place::Here(value), ..operand })
    }

    fn place_of(&mut self, cell: CellId, is_detached: bool) -> Result<Operand<Place>> {
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
        let (height, mut pending, mut value) = (held.height, held.pending, Place::Cell(cell));
        if held.is_tracked && !is_tracked {
            let (cut, below) = held.cut::<E::Concrete>()?;
            (value, pending) = (Place::Here(cut), below);
        }
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
        let (mut value, mut movements) = (base.clone(), view.movements());
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
        self.part_of(base, view.movements())
    }

    fn part_of(&self, base: &Value, movements: &[Movement]) -> Result<Option<E::Concrete>> {
        let Some(tensor) = slot::concrete::<E::Concrete>(base)? else { return Ok(None) };
        match layout_of(base, movements) {
            Some(layout) if layout.numel() > 0 => self.engine.part(&tensor, &layout),
            _ => Ok(None),
        }
    }

    /// A handle to one result.
    fn result(&mut self, evaluated: &Evaluated, value: Value) -> Result<Handle> {
        if let Some(view) = self.view_of_operand(evaluated, &value)? {
            return self.show(view);
        }
        self.new_result(value, evaluated.is_tracked, evaluated.pending, evaluated.height)
    }

    /// A handle to a value that the session has not seen.
    pub(crate) fn new_result(
        &mut self,
        value: Value,
        is_tracked: bool,
        pending: u32,
        height: u32,
    ) -> Result<Handle> {
        let is_tracked = is_tracked && value.ty().dtype.is_float();
        let mut cell = Cell::new(value, is_tracked);
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
        let mut movements = tensor.movements().to_vec();
        let reshapes = chain.iter().any(|movement| matches!(movement, Movement::Reshape { .. }));
        movements.extend(chain);
        // As in NumPy and torch, what does not lie in a row is copied into another shape.
        if reshapes
            && movements.len() > 1
            && layout_of(&self.cells.get(tensor.cell)?.value, &movements).is_none()
        {
            return Ok(None);
        }
        if movements.len() > MAX_MOVEMENTS {
            let message = format!("views of views are at most {MAX_MOVEMENTS} deep; clone the tensor first");
            return Err(Error::unsupported(evaluated.op.name, message));
        }
        Ok(Some(Tensor {
            cell: tensor.cell,
            view: (!movements.is_empty()).then(|| Box::new(View { movements, ty: value.ty().clone() })),
            is_view: true,
            is_detached: tensor.is_detached || !self.is_grad_enabled(),
        }))
    }

    /// The op's result where a number that it takes becomes an argument of the program; `None` where none does.
    fn with_arguments(
        &self,
        op: &Op,
        numbers: Numbers,
        values: &[Option<&Value>],
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
            (Numbers::Paired(id), &[Some(x)]) => {
                let Some(value) = number(0) else { return Ok(None) };
                let number = self.beside(op.name, x, value)?;
                Ok(table::call_id(&Lazy, id, &[Some(x), Some(&number)], &[])?.pop())
            }
            (Numbers::Reversed, &[Some(x)]) => {
                let Some(value) = number(0) else { return Ok(None) };
                Ok(Some(ops::sub(&Lazy, &self.beside(op.name, x, value)?, x)?))
            }
            (Numbers::Like, &[Some(x)]) => {
                let Some(value) = number(0) else { return Ok(None) };
                let shape = x.ty().shape.clone();
                Ok(Some(ops::broadcast_to(&Lazy, &self.beside(op.name, x, value)?, &shape)?))
            }
            (Numbers::Bounds, &[Some(x)]) => {
                let bounds = [0, 1].map(|at| attributes.get(at).and_then(as_scalar));
                let given = || bounds.iter().flatten();
                if given().all(|bound| bound.is_structural()) || given().any(|bound| bound.as_f64().is_nan())
                {
                    return Ok(None);
                }
                let value =
                    |bound: Option<Scalar>| bound.map(|bound| self.beside(op.name, x, bound)).transpose();
                let (low, high) = (value(bounds[0])?, value(bounds[1])?);
                Ok(Some(ops::inner::clamp_between(&Lazy, x, low.as_ref(), high.as_ref())?))
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

/// The movements from `base` to `value`, if nothing else lies between and none of them copies. (A flip is a copy, as in
/// torch.)
fn movements_between(base: &Value, value: &Value) -> Option<Movements> {
    let mut movements = Movements::new();
    let mut at = value.clone();
    while at != *base {
        let movement = match at.node().prim() {
            Prim::Movement(Movement::Flip { .. } | Movement::Pad { .. } | Movement::Concat { .. }) => {
                return None;
            }
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
