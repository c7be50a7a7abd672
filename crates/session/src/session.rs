//! Sessions: making, describing and releasing tensors.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use lanthorn_compiler::slot;
use lanthorn_ir::builder::Outputs;
use lanthorn_ir::layout::check_size;
use lanthorn_ir::{DType, Error, ErrorKind, Node, Result, TensorType, Value};

use crate::arena::{Arena, Handle};
use crate::capture::{Captured, Recording};
use crate::cell::{Cell, CellId, Tensor};
use crate::engine::{Engine, EngineStats};

/// The most axes that a tensor may have.
pub const MAX_RANK: usize = 64;

/// Tensors of one engine by handle, with gradients and in-place writes. Used by one thread at a time.
///
/// ```
/// # use std::sync::Arc;
/// # use lanthorn_session::Session;
/// # use lanthorn_ir::{DType, Result, TensorType, ops::table::id_of};
/// # fn main() -> Result<()> {
/// # let engine = lanthorn_runtime::Device::new(Arc::new(lanthorn_cpu::CpuBackend));
/// let mut session = Session::new(engine);
/// let ty = TensorType::new(DType::F32, [2]);
/// let bytes: Vec<u8> = [3f32, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
/// let w = session.create(&ty, &bytes)?;
/// session.requires_grad(w, true)?;
/// let square = session.op(id_of("square").unwrap(), &[Some(w)], &[])?[0];
/// let loss = session.op(id_of("sum").unwrap(), &[Some(square)], &[])?[0];
/// session.backward(loss, None)?;
/// let grad = session.grad(w)?.unwrap();
/// assert_eq!(session.read(grad)?.1.to_f64_vec()?, [6.0, 8.0]);
/// # Ok(())
/// # }
/// ```
pub struct Session<E: Engine> {
    pub(crate) engine: E,
    pub(crate) tensors: Arena<Tensor>,
    pub(crate) cells: Arena<Cell>,
    /// Cells that the next commit computes, in the order of their first write; some may have gone.
    pub(crate) written: Vec<CellId>,
    /// The cells whose gradients are asked for through a leaf, by the leaf's node.
    pub(crate) variables: HashMap<u64, (Weak<Node>, CellId)>,
    /// How many scopes without gradients are open.
    pub(crate) no_grad: u32,
    /// Seed and number of the next draw.
    pub(crate) random: [u64; 2],
    pub(crate) commits: u64,
    pub(crate) programs: u64,
    /// The function that is being recorded.
    pub(crate) recording: Option<Box<Recording>>,
    pub(crate) captures: Arena<Arc<Captured<E>>>,
}

/// What there is to know about a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub ty: TensorType,
    /// True for a variable of `backward`.
    pub requires_grad: bool,
    /// True if it requires gradients, or depends on a tensor that does.
    pub is_tracked: bool,
    /// True if it shares its elements with the tensor of which it was made.
    pub is_view: bool,
    /// How often its elements were written.
    pub version: u64,
}

/// The counters of a session and its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Handles that have not been released.
    pub handles: u64,
    /// Captured functions that have not been released.
    pub captures: u64,
    /// Cells that handles or gradients keep.
    pub cells: u64,
    /// Cells that the next commit computes.
    pub written: u64,
    /// Commits that changed something.
    pub commits: u64,
    /// Programs run.
    pub programs: u64,
    /// The number of the next draw.
    pub draws: u64,
    /// The engine's counters.
    pub engine: EngineStats,
}

impl<E: Engine> Session<E> {
    /// A session without tensors, with the random sequence of seed 0.
    pub fn new(engine: E) -> Session<E> {
        Session {
            engine,
            tensors: Arena::default(),
            cells: Arena::default(),
            written: Vec::new(),
            variables: HashMap::new(),
            no_grad: 0,
            random: [0, 0],
            commits: 0,
            programs: 0,
            recording: None,
            captures: Arena::default(),
        }
    }

    /// Where programs run.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// A tensor of the elements in row-major order, in the machine's byte order.
    ///
    /// Errors: a number of bytes that is not the type's.
    pub fn create(&mut self, ty: &TensorType, bytes: &[u8]) -> Result<Handle> {
        check_type("create", ty)?;
        if ty.bytes() != bytes.len() {
            let (found, expected) = (bytes.len(), ty.bytes());
            return Err(Error::shape("create", format!("{ty} takes {expected} bytes, got {found}")));
        }
        let value = slot::leaf(ty, self.engine.upload(ty, bytes)?)?;
        self.adopt(Cell::new(value, false))
    }

    /// A tensor of a concrete one of the engine's. The two share memory; neither is written to.
    pub fn from_concrete(&mut self, ty: &TensorType, tensor: E::Concrete) -> Result<Handle> {
        check_type("create", ty)?;
        self.adopt(Cell::new(slot::leaf(ty, tensor)?, false))
    }

    /// Makes a tensor of a cell of its own.
    pub(crate) fn adopt(&mut self, cell: Cell) -> Result<Handle> {
        let cell = self.insert_cell(cell)?;
        self.show(Tensor::of(cell))
    }

    /// The type of a tensor.
    pub(crate) fn type_of<'a>(&'a self, tensor: &'a Tensor) -> Result<&'a TensorType> {
        match &tensor.view {
            Some(view) => Ok(&view.ty),
            None => Ok(self.cells.get(tensor.cell)?.value.ty()),
        }
    }

    /// Adds a cell to which nobody refers yet.
    pub(crate) fn insert_cell(&mut self, cell: Cell) -> Result<CellId> {
        let cell = self.cells.insert(cell)?;
        if let Some(recording) = &mut self.recording {
            recording.locals.insert(cell);
        }
        Ok(cell)
    }

    /// Makes a handle to a tensor over a cell that is there.
    pub(crate) fn show(&mut self, tensor: Tensor) -> Result<Handle> {
        let cell = tensor.cell;
        let handle = self.tensors.insert(tensor);
        match handle {
            Ok(_) => self.cells.get_mut(cell)?.references += 1,
            // A cell that was made for this tensor goes with it.
            Err(_) if self.cells.get(cell)?.references == 0 => drop(self.cells.remove(cell)),
            Err(_) => {}
        }
        handle
    }

    /// Gives up a handle. What nobody else refers to goes with it.
    pub fn release(&mut self, tensor: Handle) -> Result<()> {
        let released = self.tensors.remove(tensor)?;
        self.drop_reference(released.cell)
    }

    pub(crate) fn drop_reference(&mut self, cell: CellId) -> Result<()> {
        let held = self.cells.get_mut(cell)?;
        held.references = held.references.saturating_sub(1);
        if held.references == 0 {
            // A gradient has no gradient, so this goes one level deep.
            let gone = self.cells.remove(cell)?;
            if let Some(grad) = gone.grad {
                self.drop_reference(grad)?;
            }
        }
        Ok(())
    }

    /// Another tensor over the same elements, through which no gradient passes. Writing to one writes to both.
    pub fn detach(&mut self, tensor: Handle) -> Result<Handle> {
        let shared = Tensor { is_view: true, is_detached: true, ..self.tensors.get(tensor)?.clone() };
        self.show(shared)
    }

    /// What there is to know about a tensor.
    pub fn describe(&self, tensor: Handle) -> Result<Description> {
        let tensor = self.tensors.get(tensor)?;
        let cell = self.cells.get(tensor.cell)?;
        Ok(Description {
            ty: self.type_of(tensor)?.clone(),
            requires_grad: cell.requires_grad && !tensor.is_view,
            is_tracked: cell.is_tracked && !tensor.is_detached,
            is_view: tensor.is_view,
            version: cell.version,
        })
    }

    /// Tells, once, that the last write to a cell was taken back.
    pub(crate) fn expect_written(&mut self, cell: CellId) -> Result<()> {
        match self.cells.get_mut(cell)?.failure.take().and_then(|failure| failure.tell()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Opens a scope without gradients.
    pub fn enter_no_grad(&mut self) {
        self.no_grad = self.no_grad.saturating_add(1);
    }

    /// Closes the scope that was opened last.
    ///
    /// Errors: no scope is open.
    pub fn leave_no_grad(&mut self) -> Result<()> {
        let message = "no scope without gradients is open; enter one first";
        self.no_grad = self.no_grad.checked_sub(1).ok_or_else(|| Error::unsupported("no_grad", message))?;
        Ok(())
    }

    /// True outside of every scope without gradients.
    pub fn is_grad_enabled(&self) -> bool {
        self.no_grad == 0
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        let written = self.written.iter().filter_map(|&cell| self.cells.find(cell));
        Stats {
            captures: self.captures.len() as u64,
            handles: self.tensors.len() as u64,
            cells: self.cells.len() as u64,
            written: written.filter(|cell| cell.is_written).count() as u64,
            commits: self.commits,
            programs: self.programs,
            draws: self.random[1],
            engine: self.engine.stats(),
        }
    }

    /// Has the next commit compute a cell.
    pub(crate) fn mark_written(&mut self, cell: CellId) -> Result<()> {
        let marked = self.cells.get_mut(cell)?;
        if !std::mem::replace(&mut marked.is_written, true) {
            self.written.push(cell);
        }
        // Cells that went before a commit stay in the list; they must not pile up.
        if self.written.len() > 2 * self.cells.len() + 64 {
            self.forget_computed();
        }
        Ok(())
    }

    /// Takes cells out of the list that have gone, or have been computed.
    pub(crate) fn forget_computed(&mut self) {
        let cells = &self.cells;
        let mut seen = std::collections::HashSet::new();
        self.written.retain(|&cell| cells.find(cell).is_some_and(|c| c.is_written) && seen.insert(cell));
    }
}

/// Refuses types that no tensor may have.
pub fn check_type(op: &str, ty: &TensorType) -> Result<()> {
    check_rank(op, ty)?;
    check_size(op, ty)
}

/// As [`check_type`], of a value of a graph, whose size was checked when it was made.
pub fn check_rank(op: &str, ty: &TensorType) -> Result<()> {
    if ty.rank() <= MAX_RANK {
        return Ok(());
    }
    let rank = ty.rank();
    Err(Error::shape(op, format!("a tensor has at most {MAX_RANK} axes, not {rank}")))
}

/// A number as the bytes of one element.
pub(crate) fn scalar_bytes(op: &str, value: lanthorn_ir::expr::Scalar, dtype: DType) -> Result<[u8; 16]> {
    Ok(value.fit(op, dtype)?.to_bytes(dtype))
}

/// The error of a list that should have held one value.
pub(crate) fn expect_one(op: &str, mut values: Outputs<Value>) -> Result<Value> {
    let count = values.len();
    match (values.pop(), count) {
        (Some(value), 1) => Ok(value),
        _ => Err(Error::new(ErrorKind::Shape, op, format!("gives {count} results, expected one"))),
    }
}
