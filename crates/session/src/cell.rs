//! What a handle stands for.

use lanthorn_compiler::slot;
use lanthorn_ir::prim::Movement;
use lanthorn_ir::{Result, TensorType, Value};

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
    /// True once the value is known to be computed.
    is_settled: bool,
    /// A stand-in for the value, through which no derivative passes.
    cut: Option<Value>,
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
            is_settled: false,
            cut: None,
        }
    }

    /// Puts another value in its place.
    pub fn rebind(&mut self, value: Value) {
        self.value = value;
        self.is_settled = false;
        self.cut = None;
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
