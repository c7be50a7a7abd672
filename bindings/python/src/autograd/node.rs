//! Nodes of the tape.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lanthorn_ir::TensorType;
use smallvec::SmallVec;

use super::hook::{Hook, HookList};
use super::saved::SavedTensor;
use crate::error::{Error, Result};
use crate::tensor::{Tensor, WeakTensor};

/// Gradients, one for each operand or output; `None` is zero.
pub type Gradients = SmallVec<[Option<Tensor>; 2]>;
/// Saved tensors as a derivative sees them.
pub type Unpacked = SmallVec<[Tensor; 3]>;

/// What a derivative may look at.
pub struct Call<'a> {
    /// Gradients of the outputs.
    pub gradients: &'a [Option<Tensor>],
    /// The tensors that were saved, in the order in which they were.
    pub saved: &'a [Tensor],
    /// Which operands' gradients somebody needs.
    pub wanted: &'a [bool],
}

impl Call<'_> {
    /// The gradient of the only output.
    pub fn gradient(&self) -> Option<&Tensor> {
        self.gradients.first().and_then(Option::as_ref)
    }

    /// True if the gradient of that operand is needed.
    pub fn wants(&self, operand: usize) -> bool {
        self.wanted.get(operand).copied().unwrap_or(false)
    }
}

/// The derivative of one op: gradients of the operands from those of the outputs.
pub type Formula = Box<dyn Fn(&Call<'_>) -> Result<Gradients> + Send + Sync>;

/// Where a gradient goes: an input of a node, that is an output of the op that the node stands for.
#[derive(Clone)]
pub struct Edge {
    pub node: Arc<Node>,
    pub input: usize,
}

/// What a node does with the gradients that reach it.
pub enum Kind {
    /// The derivative of an op.
    Function(Formula),
    /// Adds to the `grad` of a leaf.
    Accumulate(Tensor),
    /// The derivative of an op that was written over a part of `base`.
    CopySlices(Box<CopySlices>),
}

/// Where a view that was written lies in its base.
pub struct CopySlices {
    pub base: lanthorn_ir::Layout,
    pub base_type: TensorType,
    pub view: lanthorn_ir::Layout,
    /// The node of the op that was written; operand 0 is the view as it was.
    pub inner: Arc<Node>,
}

/// One op that has run.
pub struct Node {
    name: &'static str,
    /// Greater than that of every node that it depends on.
    sequence: u64,
    /// One for each operand.
    edges: SmallVec<[Option<Edge>; 2]>,
    /// The types of the outputs, which its gradients have.
    outputs: SmallVec<[TensorType; 1]>,
    kind: Kind,
    /// `None` once it has been released; empty nodes are never released.
    saved: Mutex<Option<SmallVec<[SavedTensor; 2]>>>,
    hooks: Mutex<NodeHooks>,
}

/// Hooks on gradients that reach a node.
#[derive(Default)]
struct NodeHooks {
    /// By output.
    before: Vec<(usize, HookList)>,
    /// Outputs whose gradient is to be kept in their tensor.
    retained: Vec<(usize, WeakTensor)>,
}

fn next_sequence() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Node {
    /// A node of an op.
    pub fn function(
        name: &'static str,
        edges: SmallVec<[Option<Edge>; 2]>,
        outputs: SmallVec<[TensorType; 1]>,
        saved: SmallVec<[SavedTensor; 2]>,
        formula: Formula,
    ) -> Arc<Node> {
        Node::new(name, next_sequence(), edges, outputs, saved, Kind::Function(formula))
    }

    /// A node that accumulates into a leaf. It is run as soon as it may.
    pub fn accumulate(leaf: &Tensor) -> Arc<Node> {
        let outputs = SmallVec::from_iter([leaf.ty().clone()]);
        let kind = Kind::Accumulate(leaf.clone());
        Node::new(
            "torch::autograd::AccumulateGrad",
            u64::MAX,
            SmallVec::new(),
            outputs,
            SmallVec::new(),
            kind,
        )
    }

    /// A node of an op that was written over a view.
    pub fn copy_slices(edges: SmallVec<[Option<Edge>; 2]>, slices: CopySlices) -> Arc<Node> {
        let outputs = SmallVec::from_iter([slices.base_type.clone()]);
        let kind = Kind::CopySlices(Box::new(slices));
        Node::new("torch::autograd::CopySlices", next_sequence(), edges, outputs, SmallVec::new(), kind)
    }

    fn new(
        name: &'static str,
        sequence: u64,
        edges: SmallVec<[Option<Edge>; 2]>,
        outputs: SmallVec<[TensorType; 1]>,
        saved: SmallVec<[SavedTensor; 2]>,
        kind: Kind,
    ) -> Arc<Node> {
        let (saved, hooks) = (Mutex::new(Some(saved)), Mutex::default());
        Arc::new(Node { name, sequence, edges, outputs, kind, saved, hooks })
    }

    /// Its name, such as `MulBackward0`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The name without namespaces, as upstream prints it.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit("::").next().unwrap_or(self.name)
    }

    /// When it was made, compared with others.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Where gradients of the operands go.
    pub fn edges(&self) -> &[Option<Edge>] {
        &self.edges
    }

    /// The types of the outputs.
    pub fn outputs(&self) -> &[TensorType] {
        &self.outputs
    }

    /// What it does.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// A number that tells this node from every other that lives.
    pub fn id(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }

    /// The saved tensors.
    ///
    /// Errors: they have been released, or one has been written since.
    pub fn unpack(self: &Arc<Self>) -> Result<Unpacked> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(saved) = saved.as_ref() else {
            return Err(Error::runtime(
                "Trying to backward through the graph a second time (or directly access saved tensors after they \
                 have already been freed). Saved intermediate values of the graph are freed when you call \
                 .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the \
                 graph a second time or if you need to access saved tensors after calling backward.",
            ));
        };
        saved.iter().map(|tensor| tensor.unpack(self)).collect()
    }

    /// Gives the saved tensors up. A node without any can still run again.
    pub fn release(&self) {
        let released = {
            let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
            if saved.as_ref().is_none_or(|saved| saved.is_empty()) { None } else { saved.take() }
        };
        drop(released);
        if let Kind::CopySlices(slices) = &self.kind {
            slices.inner.release();
        }
    }

    fn hooks(&self) -> MutexGuard<'_, NodeHooks> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a hook on the gradient of an output; returns its number.
    pub fn add_hook(&self, output: usize, hook: Arc<dyn Hook>) -> u64 {
        let mut hooks = self.hooks();
        match hooks.before.iter_mut().find(|(of, _)| *of == output) {
            Some((_, list)) => list.add(hook),
            None => {
                let mut list = HookList::default();
                let id = list.add(hook);
                hooks.before.push((output, list));
                id
            }
        }
    }

    /// Takes a hook out.
    #[must_use]
    pub fn remove_hook(&self, id: u64) -> Option<Arc<dyn Hook>> {
        self.hooks().before.iter_mut().find_map(|(_, list)| list.remove(id))
    }

    /// The hooks on the gradient of an output.
    pub fn hooks_of(&self, output: usize) -> Vec<Arc<dyn Hook>> {
        let hooks = self.hooks();
        let of = hooks.before.iter().find(|(of, _)| *of == output);
        of.map_or_else(Vec::new, |(_, list)| list.snapshot())
    }

    /// Keeps the gradient of an output in its tensor.
    pub fn retain(&self, output: usize, tensor: WeakTensor) {
        self.hooks().retained.push((output, tensor));
    }

    /// No longer keeps the gradient of an output, whose tensor has another node now.
    pub fn stop_retaining(&self, output: usize) {
        self.hooks().retained.retain(|(of, _)| *of != output);
    }

    /// The tensors that keep the gradient of an output.
    pub fn retained(&self, output: usize) -> Vec<Tensor> {
        let hooks = self.hooks();
        hooks.retained.iter().filter(|(of, _)| *of == output).filter_map(|(_, t)| t.upgrade()).collect()
    }
}

thread_local! {
    /// What dying nodes held, to be dropped by the outermost of them; `None` while nobody drops.
    static DYING: RefCell<Option<Vec<Remains>>> = const { RefCell::new(None) };
}

/// What keeps other nodes alive.
struct Remains {
    _edges: SmallVec<[Option<Edge>; 2]>,
    _saved: Option<SmallVec<[SavedTensor; 2]>>,
    _kind: Kind,
}

impl Drop for Node {
    /// A chain of nodes is as long as the program that made it: each hands what it holds to a list, which is emptied
    /// in a loop.
    fn drop(&mut self) {
        let nothing: Formula = Box::new(|_| Ok(Gradients::new()));
        let remains = Remains {
            _edges: std::mem::take(&mut self.edges),
            _saved: self.saved.get_mut().unwrap_or_else(PoisonError::into_inner).take(),
            _kind: std::mem::replace(&mut self.kind, Kind::Function(nothing)),
        };
        let mut remains = Some(remains);
        let is_outermost = DYING.try_with(|dying| {
            let mut dying = dying.borrow_mut();
            match dying.as_mut() {
                Some(list) => {
                    list.extend(remains.take());
                    false
                }
                None => {
                    *dying = Some(Vec::new());
                    true
                }
            }
        });
        if !matches!(is_outermost, Ok(true)) {
            // In the list, or the thread is ending and the stack must do.
            return;
        }
        drop(remains.take());
        loop {
            let next = DYING.with(|dying| {
                let mut dying = dying.borrow_mut();
                let next = dying.as_mut().and_then(Vec::pop);
                if next.is_none() {
                    *dying = None;
                }
                next
            });
            match next {
                Some(remains) => drop(remains),
                None => break,
            }
        }
    }
}
