//! What a handle stands for.

use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_compiler::slot;
use lanthorn_ir::prim::Movement;
use lanthorn_ir::{Error, Result, TensorType, Value};

use crate::arena::Handle;

/// Names a cell. It has no use outside of the session.
pub(crate) type CellId = Handle;

/// How many movements a view may be away from its base.
pub(crate) const MAX_MOVEMENTS: usize = 64;

/// A list of movements, the first applied first.
pub(crate) type Movements = Vec<Movement>;

/// A tensor: a cell, or a view of one.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub cell: CellId,
    /// What leads from the cell's value to the view's, where that is another one. Most tensors have none.
    pub view: Option<Box<View>>,
    /// True if the tensor shares the cell with another.
    pub is_view: bool,
    /// True if no derivative passes between the cell and this view.
    pub is_detached: bool,
}

/// How a tensor shows its cell.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub movements: Movements,
    pub ty: TensorType,
}

impl Tensor {
    /// A tensor that shows a cell as it is.
    pub fn of(cell: CellId) -> Tensor {
        Tensor { cell, view: None, is_view: false, is_detached: false }
    }

    /// What leads from the cell's value to this tensor's.
    pub fn movements(&self) -> &[Movement] {
        self.view.as_ref().map_or(&[], |view| &view.movements[..])
    }
}

/// What a tensor holds now. Views of it derive their values anew after each write.
#[derive(Debug)]
pub(crate) struct Cell {
    /// A cell that requires gradients holds a leaf.
    pub value: Value,
    /// How many tensors show it, and of how many cells it is the gradient.
    pub references: u32,
    /// How often it was written.
    pub version: u64,
    pub requires_grad: bool,
    /// True if it requires gradients, or depends on one that does.
    pub is_tracked: bool,
    /// True if the next commit computes it, whatever is asked for.
    pub is_written: bool,
    /// How many values that are not computed stand on one another below this one, each behind a stand-in.
    pub pending: u32,
    /// The longest path of ops that are not computed, at most.
    pub height: u32,
    /// The cell that holds the gradient.
    pub grad: Option<CellId>,
    /// True if it was made of no other tensor, as random elements are: what is cut out of it is cut out of its elements.
    pub is_source: bool,
    /// The error of a write that was taken back, until somebody is told of it.
    pub failure: Option<Failure>,
    /// True once the value is known to be computed.
    is_settled: bool,
    /// A stand-in for the value, through which no derivative passes.
    cut: Option<Value>,
    /// What it held before the writes that the next commit computes.
    committed: Option<Committed>,
}

/// What a cell goes back to.
#[derive(Debug)]
struct Committed {
    value: Value,
    is_tracked: bool,
    pending: u32,
    height: u32,
}

/// An error of a commit, which all cells share that it took back and which one of them tells.
#[derive(Clone, Debug)]
pub(crate) struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    pub fn new(error: Error) -> Failure {
        Failure(Arc::new(Mutex::new(Some(error))))
    }

    /// The error, the first time.
    pub fn tell(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Cell {
    /// A cell to which nobody refers yet.
    pub fn new(value: Value, is_tracked: bool) -> Cell {
        Cell {
            value,
            references: 0,
            version: 0,
            requires_grad: false,
            is_tracked,
            is_written: false,
            pending: 0,
            height: 0,
            grad: None,
            is_source: false,
            failure: None,
            is_settled: false,
            cut: None,
            committed: None,
        }
    }

    /// Puts another value in its place, that is yet to be computed.
    pub fn rebind(&mut self, value: Value) {
        let old = std::mem::replace(&mut self.value, value);
        let (is_tracked, pending, height) = (self.is_tracked, self.pending, self.height);
        self.committed.get_or_insert(Committed { value: old, is_tracked, pending, height });
        self.is_settled = false;
        self.is_source = false;
        self.cut = None;
    }

    /// Puts a leaf of the same elements in its place.
    pub fn exchange(&mut self, leaf: Value) {
        self.value = leaf;
        self.is_settled = false;
        self.cut = None;
    }

    /// Puts a computed value in its place.
    pub fn replace(&mut self, value: Value) {
        self.rebind(value);
        self.committed = None;
        self.failure = None;
        (self.pending, self.height, self.is_written) = (0, 0, false);
    }

    /// Takes back what was written since the last commit; gives whether anything was.
    pub fn take_back<C: Clone + Send + Sync + 'static>(&mut self) -> Result<bool> {
        self.is_written = false;
        let Some(Committed { value, is_tracked, pending, height }) = self.committed.take() else {
            return Ok(false);
        };
        let is_variable = self.requires_grad;
        let value = if is_variable { slot::stand_in::<C>(&value)? } else { value };
        self.exchange(value);
        (self.is_tracked, self.pending, self.height) = (is_tracked || is_variable, pending, height);
        Ok(true)
    }

    /// The value for a use through which no derivative passes, and how many values are pending below it.
    pub fn cut<C: Clone + Send + Sync + 'static>(&mut self) -> Result<(Value, u32)> {
        if !self.is_tracked {
            return Ok((self.value.clone(), self.pending));
        }
        let cut = match &self.cut {
            Some(cut) => cut.clone(),
            None => self.cut.insert(slot::stand_in::<C>(&self.value)?).clone(),
        };
        // A leaf shares what it waits for with its stand-in.
        let pending = if self.value.is_leaf() { self.pending } else { self.pending.saturating_add(1) };
        Ok((cut, pending))
    }

    /// Lets go of the graph that led to the value, if it has been computed and no gradient may be asked through
    /// it.
    pub fn settle<C: Clone + Send + Sync + 'static>(&mut self) -> Result<()> {
        if self.is_settled || !slot::is_computed::<C>(&self.value)? {
            return Ok(());
        }
        self.is_settled = true;
        // The old stand-in may wait for the graph.
        self.cut = None;
        self.committed = None;
        self.is_written = false;
        self.pending = 0;
        if !self.is_tracked && !self.value.is_leaf() {
            self.value = slot::stand_in::<C>(&self.value)?;
        }
        if !self.is_tracked || self.requires_grad {
            self.height = 0;
        }
        Ok(())
    }
}
