//! Tensors: a strided view of a storage with what dispatch and autograd need to know of it.
//!
//! What must never happen here: a lock held while a kernel, a hook or Python runs.

pub mod index;
pub mod keys;
pub mod promote;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lanthorn_ir::{DType, Layout, TensorType};
use lanthorn_runtime::EagerTensor;

use crate::autograd::hook::HookList;
use crate::autograd::node::Node;
use crate::error::{Error, Result};
use keys::DispatchKeySet;

/// Where the elements are.
#[derive(Clone, Debug)]
pub enum Data {
    /// In memory.
    Concrete(EagerTensor),
    /// Nowhere: only shape, strides and dtype are known.
    Meta { layout: Layout, ty: TensorType },
}

impl Data {
    /// Dtype and shape.
    pub fn ty(&self) -> &TensorType {
        match self {
            Data::Concrete(tensor) => tensor.ty(),
            Data::Meta { ty, .. } => ty,
        }
    }

    /// Strides and offset.
    pub fn layout(&self) -> &Layout {
        match self {
            Data::Concrete(tensor) => tensor.layout(),
            Data::Meta { layout, .. } => layout,
        }
    }

    /// A tensor without memory, in row-major order.
    pub fn meta(ty: TensorType) -> Data {
        Data::Meta { layout: Layout::contiguous(&ty.shape), ty }
    }

    /// The same memory read in another way.
    ///
    /// Errors: a view that leaves the memory.
    pub fn with_layout(&self, layout: Layout) -> Result<Data> {
        Ok(match self {
            Data::Concrete(tensor) => Data::Concrete(tensor.with_layout(layout)?),
            Data::Meta { ty, .. } => {
                let ty = TensorType { dtype: ty.dtype, shape: layout.shape.clone() };
                Data::Meta { layout, ty }
            }
        })
    }
}

/// A handle to a tensor; clones are the same tensor.
#[derive(Clone)]
pub struct Tensor(Arc<TensorImpl>);

/// The tensor itself.
pub struct TensorImpl {
    data: Data,
    keys: DispatchKeySet,
    /// A Python number in the place of a tensor, which gives way in type promotion.
    is_wrapped_number: bool,
    /// The version of the storage when the tensor's family of views began: versions count from 0.
    version_base: u64,
    /// Set once something in `autograd` may require a gradient, so that the common case reads one flag.
    may_require_grad: AtomicBool,
    autograd: Mutex<Option<Box<AutogradMeta>>>,
    /// For a differentiable view, the tensor at the root of its family.
    base: Option<Tensor>,
    /// The view was made while gradients were off.
    is_view_of_no_grad: bool,
    /// The version at which the gradient function of a view was last worked out.
    view_version: AtomicU64,
    /// The front end's object for this tensor, not owned; only the front end reads or writes through it.
    object: AtomicPtr<c_void>,
}

/// What the tape knows of a tensor.
#[derive(Default)]
pub struct AutogradMeta {
    pub requires_grad: bool,
    pub grad: Option<Tensor>,
    pub grad_fn: Option<Arc<Node>>,
    pub output_nr: usize,
    /// The node that accumulates into `grad`; alive while a graph refers to it.
    pub accumulator: Weak<Node>,
    /// Hooks of a leaf; those of other tensors are their node's.
    pub hooks: HookList,
    pub post_accumulate: HookList,
    pub retains_grad: bool,
}

impl Tensor {
    fn build(data: Data, version_base: u64, base: Option<Tensor>, is_view_of_no_grad: bool) -> Tensor {
        let keys = DispatchKeySet::of(matches!(data, Data::Meta { .. }));
        Tensor(Arc::new(TensorImpl {
            data,
            keys,
            is_wrapped_number: false,
            version_base,
            may_require_grad: AtomicBool::new(false),
            autograd: Mutex::new(None),
            base,
            is_view_of_no_grad,
            view_version: AtomicU64::new(version_base),
            object: AtomicPtr::new(std::ptr::null_mut()),
        }))
    }

    /// A tensor of its own family.
    pub fn new(data: Data) -> Tensor {
        let version = match &data {
            Data::Concrete(tensor) => tensor.storage().version(),
            Data::Meta { .. } => 0,
        };
        Tensor::build(data, version, None, false)
    }

    /// A view of `of`, through which gradients flow.
    pub fn view_of(of: &Tensor, data: Data) -> Tensor {
        let base = of.0.base.as_ref().unwrap_or(of).clone();
        let without_grad = !crate::autograd::grad_mode::is_enabled();
        let view = Tensor::build(data, of.0.version_base, Some(base), without_grad);
        // Its gradient function is worked out by the op that made it, for the contents of now.
        view.0.view_version.store(view.storage_version(), Ordering::Release);
        view
    }

    /// The same elements and versions, without history.
    pub fn detach(&self) -> Tensor {
        Tensor::build(self.0.data.clone(), self.0.version_base, None, false)
    }

    /// A Python number as a tensor of rank 0.
    pub fn wrapped(data: Data) -> Tensor {
        let mut tensor = Tensor::new(data);
        if let Some(inner) = Arc::get_mut(&mut tensor.0) {
            inner.is_wrapped_number = true;
        }
        tensor
    }

    /// The elements.
    pub fn data(&self) -> &Data {
        &self.0.data
    }

    /// The elements in memory.
    ///
    /// Errors: a tensor that has none.
    pub fn concrete(&self) -> Result<&EagerTensor> {
        match &self.0.data {
            Data::Concrete(tensor) => Ok(tensor),
            Data::Meta { .. } => Err(Error::not_implemented("Cannot copy out of meta tensor; no data!")),
        }
    }

    /// True for a tensor without memory.
    pub fn is_meta(&self) -> bool {
        matches!(self.0.data, Data::Meta { .. })
    }

    /// Dtype and shape.
    pub fn ty(&self) -> &TensorType {
        self.0.data.ty()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.ty().dtype
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.ty().shape
    }

    /// How many axes.
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// How many elements.
    pub fn numel(&self) -> usize {
        self.ty().numel()
    }

    /// How the storage is read.
    pub fn layout(&self) -> &Layout {
        self.0.data.layout()
    }

    /// The dispatch keys.
    pub fn keys(&self) -> DispatchKeySet {
        self.0.keys
    }

    /// True for a Python number in the place of a tensor.
    pub fn is_wrapped_number(&self) -> bool {
        self.0.is_wrapped_number
    }

    /// The root of the family of views, if this is a differentiable view.
    pub fn base(&self) -> Option<&Tensor> {
        self.0.base.as_ref()
    }

    /// True for a view that was made while gradients were off.
    pub fn is_view_of_no_grad(&self) -> bool {
        self.0.is_view_of_no_grad
    }

    fn storage_version(&self) -> u64 {
        match &self.0.data {
            Data::Concrete(tensor) => tensor.storage().version(),
            Data::Meta { .. } => self.0.version_base,
        }
    }

    /// How many in-place writes the family of views has seen.
    pub fn version(&self) -> u64 {
        self.storage_version().wrapping_sub(self.0.version_base)
    }

    /// True if both are one tensor.
    pub fn is(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A number that tells this tensor from every other that lives.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// True if this handle is the only one, and no other tensor sees the memory.
    pub fn is_unique(&self) -> bool {
        let handles = match &self.0.data {
            Data::Concrete(tensor) => tensor.storage().handles(),
            Data::Meta { .. } => 1,
        };
        Arc::strong_count(&self.0) == 1 && handles == 1
    }

    /// How many handles there are.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// A handle that does not keep the tensor alive.
    pub fn downgrade(&self) -> WeakTensor {
        WeakTensor(Arc::downgrade(&self.0))
    }

    /// The place of the front end's object.
    pub fn object(&self) -> &AtomicPtr<c_void> {
        &self.0.object
    }

    /// The tape's part, made when it is first asked for. Held for short: no kernel, hook or drop of a tensor runs
    /// under it.
    pub fn with_meta<R>(&self, read: impl FnOnce(&mut AutogradMeta) -> R) -> R {
        let mut meta = self.lock_meta();
        read(meta.get_or_insert_default())
    }

    /// The tape's part, if there is one.
    pub fn peek_meta<R>(&self, read: impl FnOnce(&AutogradMeta) -> R) -> Option<R> {
        self.lock_meta().as_deref().map(read)
    }

    fn lock_meta(&self) -> MutexGuard<'_, Option<Box<AutogradMeta>>> {
        self.0.autograd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the tape's part may ask for gradients.
    pub fn mark_may_require_grad(&self) {
        self.0.may_require_grad.store(true, Ordering::Release);
    }

    /// False if surely no gradient is asked for.
    pub fn may_require_grad(&self) -> bool {
        self.0.may_require_grad.load(Ordering::Acquire)
            || self.0.base.as_ref().is_some_and(Tensor::may_require_grad)
    }

    /// True if the family was written since the gradient function of this view was worked out; the next question
    /// says false.
    pub fn take_view_is_stale(&self) -> bool {
        let now = self.storage_version();
        self.0.view_version.swap(now, Ordering::AcqRel) != now
    }

    /// Says that the gradient function must be worked out anew.
    pub fn mark_view_stale(&self) {
        self.0.view_version.store(u64::MAX, Ordering::Release);
    }

    /// Says that the gradient function is that of the contents of now.
    pub fn mark_view_fresh(&self) {
        self.0.view_version.store(self.storage_version(), Ordering::Release);
    }
}

impl Drop for TensorImpl {
    /// A gradient may have a gradient, and so on: the chain is taken apart in a loop.
    fn drop(&mut self) {
        let gradient_of = |tensor: &mut TensorImpl| {
            let meta = tensor.autograd.get_mut().unwrap_or_else(PoisonError::into_inner);
            meta.as_mut().and_then(|meta| meta.grad.take())
        };
        let mut next = gradient_of(self);
        while let Some(tensor) = next {
            next = Arc::into_inner(tensor.0).and_then(|mut last| gradient_of(&mut last));
        }
    }
}

/// A handle that does not keep its tensor alive.
#[derive(Clone)]
pub struct WeakTensor(Weak<TensorImpl>);

impl WeakTensor {
    /// The tensor, if it lives.
    pub fn upgrade(&self) -> Option<Tensor> {
        self.0.upgrade().map(Tensor)
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.ty())
    }
}
