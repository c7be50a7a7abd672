//! Tensors: what Rust users hold.
//!
//! An op on tensors computes nothing: it appends to a graph. Reading a tensor ([`Tensor::to_vec`],
//! [`Tensor::item`], printing) or [`realise`] is a commit: one program computes all that was asked for. A
//! tensor that has been computed lets go of the graph that led to it, so step `n` and step `n + 1` of a loop
//! build graphs of one structure, run one executable and keep memory flat. Tensors that depend on one that
//! [requires gradients](Tensor::requires_grad) keep their graph until they are dropped or
//! [detached](Tensor::detach), so that reading a loss before [`grad`] changes nothing.

mod counting;
mod create;
mod gradient;
mod operators;
mod ops;
mod read;
mod show;

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_ir::builder::Outputs;
use lanthorn_ir::prim::Prim;
use lanthorn_ir::{DType, Lazy, Result, TensorType, Value};
use smallvec::{SmallVec, smallvec};

pub use gradient::{differentiable_grad, grad, value_and_grad};
pub use read::realise;

use crate::device::Device;
use crate::eager::EagerTensor;
use crate::slot;

/// How many detached values may stand on one another before they are computed.
const MAX_PENDING: u32 = 64;

/// A tensor of one device, computed when it is read. Cloning is cheap and gives another handle to the same
/// tensor.
///
/// Every op is a method that returns a [`Result`]: shapes and dtypes are checked when it is called. Operators
/// on references do the same: `(&a + &b)?`.
#[derive(Clone)]
pub struct Tensor {
    cell: Arc<Cell>,
}

struct Cell {
    device: Device,
    ty: TensorType,
    /// True if the tensor depends on one that requires gradients.
    is_tracked: bool,
    /// How many detached values stand on one another below this one; 0 once computed.
    pending: AtomicU32,
    value: Mutex<Value>,
}

impl Tensor {
    fn new(device: &Device, value: Value, is_tracked: bool, pending: u32) -> Tensor {
        let ty = value.ty().clone();
        let pending = AtomicU32::new(pending);
        Tensor {
            cell: Arc::new(Cell {
                device: device.clone(),
                ty,
                is_tracked,
                pending,
                value: Mutex::new(value),
            }),
        }
    }

    /// A graph value as a tensor of `device`. Its leaves must be bound to tensors of that device before it is
    /// read.
    pub fn from_value(device: &Device, value: Value) -> Tensor {
        Tensor::new(device, value, false, 0)
    }

    /// A concrete tensor; shares its storage.
    pub fn from_eager(tensor: &EagerTensor) -> Result<Tensor> {
        Ok(Tensor::new(tensor.device(), slot::leaf(tensor.clone())?, false, 0))
    }

    /// The graph value that the tensor stands for now.
    pub fn value(&self) -> Value {
        self.cell.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn rebind(&self, value: Value) {
        let mut held = self.cell.value.lock().unwrap_or_else(PoisonError::into_inner);
        let released = std::mem::replace(&mut *held, value);
        drop(held);
        drop(released);
        self.cell.pending.store(0, Ordering::Relaxed);
    }

    /// True if this is the only handle to the tensor.
    pub(crate) fn is_only_handle(&self) -> bool {
        Arc::strong_count(&self.cell) == 1
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.cell.device
    }

    /// Dtype and shape.
    pub fn ty(&self) -> &TensorType {
        &self.cell.ty
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.cell.ty.dtype
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.cell.ty.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.cell.ty.rank()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.cell.ty.numel()
    }

    /// True if the tensor requires gradients, or depends on one that does.
    pub fn is_tracked(&self) -> bool {
        self.cell.is_tracked
    }

    fn pending(&self) -> u32 {
        self.cell.pending.load(Ordering::Relaxed)
    }

    /// The same elements, through which no gradient passes. Computes nothing.
    pub fn detach(&self) -> Result<Tensor> {
        self.stand_in(false)
    }

    /// The same elements as a variable: [`grad`] may differentiate in it. Gradients do not pass on to what it
    /// was computed from.
    ///
    /// Errors: a dtype that is not a floating-point or complex one.
    pub fn requires_grad(&self) -> Result<Tensor> {
        if !(self.dtype().is_float() || self.dtype().is_complex()) {
            let message = format!("the tensor is {}, expected a floating-point dtype", self.ty());
            return Err(lanthorn_ir::Error::dtype("requires_grad", message));
        }
        self.stand_in(true)
    }

    fn stand_in(&self, is_tracked: bool) -> Result<Tensor> {
        if self.pending() >= MAX_PENDING {
            realise(std::slice::from_ref(self))?;
        }
        let value = self.value();
        let pending = if slot::concrete(&value)?.is_some() { 0 } else { self.pending() + 1 };
        Ok(Tensor::new(self.device(), slot::stand_in(&value)?, is_tracked, pending))
    }

    /// Applies `op`, which builds a value from those of `inputs`.
    fn apply<const N: usize>(
        name: &str,
        inputs: [&Tensor; N],
        op: impl FnOnce(&Lazy, &[Value; N]) -> Result<Value>,
    ) -> Result<Tensor> {
        let values = inputs.map(Tensor::value);
        let mut outputs = Tensor::outputs(name, &inputs, |lazy| Ok(smallvec![op(lazy, &values)?]))?;
        outputs.pop().ok_or_else(|| lanthorn_ir::Error::unsupported(name, "gave no result"))
    }

    /// Applies an op that gives several values.
    fn outputs<T: Borrow<Tensor>>(
        name: &str,
        inputs: &[T],
        op: impl FnOnce(&Lazy) -> Result<Outputs<Value>>,
    ) -> Result<Vec<Tensor>> {
        let Some(first) = inputs.first().map(Borrow::borrow) else {
            return Err(lanthorn_ir::Error::shape(name, "takes at least one tensor"));
        };
        let (mut is_tracked, mut pending) = (false, 0);
        for input in inputs.iter().map(Borrow::borrow) {
            first.device().expect(name, input.device())?;
            is_tracked |= input.is_tracked();
            pending = pending.max(input.pending());
        }
        op(&Lazy)?
            .into_iter()
            .map(|value| match contiguous_view(&value)? {
                Some(view) if !is_tracked => Tensor::from_eager(&view),
                _ => Ok(Tensor::new(first.device(), value, is_tracked, pending)),
            })
            .collect()
    }
}

/// The concrete tensor that a chain of movements over one shows, if it is a view of it.
fn concrete_view(value: &Value) -> Result<Option<EagerTensor>> {
    let mut movements: SmallVec<[Value; 4]> = SmallVec::new();
    let mut base = value.clone();
    let mut tensor = loop {
        if let Some(tensor) = slot::concrete(&base)? {
            break tensor;
        }
        match (base.node().prim(), base.node().inputs()) {
            (Prim::Movement(_), [operand]) => {
                let operand = operand.clone();
                movements.push(std::mem::replace(&mut base, operand));
            }
            _ => return Ok(None),
        }
    };
    for moved in movements.iter().rev() {
        let Prim::Movement(movement) = moved.node().prim() else { return Ok(None) };
        let Some(layout) = movement.view(tensor.layout()) else { return Ok(None) };
        tensor = tensor.with_layout(layout)?;
    }
    Ok(Some(tensor))
}

/// A view that kernels read like a tensor of its own becomes one at once, so that a slice that moves from step
/// to step is an argument and no new structure. Other movements stay in the graph, where kernels absorb them.
fn contiguous_view(value: &Value) -> Result<Option<EagerTensor>> {
    if !matches!(value.node().prim(), Prim::Movement(_)) || slot::concrete(value)?.is_some() {
        return Ok(None);
    }
    Ok(concrete_view(value)?.filter(|view| view.layout().is_contiguous()))
}
