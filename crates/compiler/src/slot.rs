//! What a lazy front end attaches to graph values: where their elements are, or how they will come to be.
//!
//! A computed value carries a slot with its concrete tensor, of whatever type `T` the engine has for one. A leaf
//! may also stand for another value, computed when it is needed: a detached tensor is such a leaf, so that no
//! derivative passes while nothing runs yet.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_ir::graph::ValueKey;
use lanthorn_ir::{Error, ErrorKind, Result, TensorType, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::indexed::{Indexed, ValueRef};
use crate::pipeline::index;

/// The payload of a value.
pub struct Slot<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    Ready(T),
    /// The elements of this value.
    Pending(Value),
    /// A compiled call has taken the memory.
    Donated,
}

impl<T: Clone + Send + Sync + 'static> Slot<T> {
    fn new(state: State<T>) -> Arc<Slot<T>> {
        Arc::new(Slot { state: Mutex::new(state) })
    }

    /// The slot of a value, if it has one.
    ///
    /// Errors: a value of an engine with another type of tensors.
    pub fn of(value: &Value) -> Result<Option<&Slot<T>>> {
        match value.payload() {
            None => Ok(None),
            Some(payload) => payload.downcast_ref().map(Some).ok_or_else(|| {
                let message = "a value's storage does not belong to this engine";
                Error::new(ErrorKind::ForeignHandle, "tensor", message)
            }),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The concrete tensor, if it has been computed.
    fn ready(&self) -> Result<Option<T>> {
        match &*self.lock() {
            State::Ready(tensor) => Ok(Some(tensor.clone())),
            State::Pending(_) => Ok(None),
            State::Donated => Err(Error::new(
                ErrorKind::InvalidHandle,
                "tensor",
                "its memory was donated to a compiled call; use the call's result instead",
            )),
        }
    }

    /// True if nothing is left to compute.
    fn is_settled(&self) -> bool {
        !matches!(&*self.lock(), State::Pending(_))
    }

    fn pending(&self) -> Option<Value> {
        match &*self.lock() {
            State::Pending(value) => Some(value.clone()),
            _ => None,
        }
    }

    /// Takes the tensor out for a call that is to reuse its memory.
    pub fn take(&self) -> Option<T> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Donated) {
            State::Ready(tensor) => Some(tensor),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Puts back what [`Slot::take`] gave, after a call that failed.
    pub fn restore(&self, tensor: T) {
        *self.lock() = State::Ready(tensor);
    }

    /// Attaches a computed tensor; the first one stays. The graph that led here is let go.
    fn fill(&self, tensor: T) {
        let mut state = self.lock();
        if let State::Pending(_) = &*state {
            let released = std::mem::replace(&mut *state, State::Ready(tensor));
            drop(state);
            drop(released);
        }
    }
}

/// A leaf that holds a concrete tensor of that type.
pub fn leaf<T: Clone + Send + Sync + 'static>(ty: &TensorType, tensor: T) -> Result<Value> {
    let value = Value::leaf(ty.clone())?;
    value.set_payload(Slot::new(State::Ready(tensor)));
    Ok(value)
}

/// A leaf with the elements of `value`, through which no derivative passes.
pub fn stand_in<T: Clone + Send + Sync + 'static>(value: &Value) -> Result<Value> {
    let leaf = Value::leaf(value.ty().clone())?;
    // A slot says what the elements are, and that is true of both. The slot of a value that is computed by a
    // node of its own waits to be filled by that value, so only a leaf's is shared before it is.
    let payload = match Slot::<T>::of(value)? {
        Some(slot) if value.is_leaf() || slot.is_settled() => value.payload().cloned(),
        _ => None,
    };
    leaf.set_payload(payload.unwrap_or_else(|| Slot::<T>::new(State::Pending(value.clone()))));
    Ok(leaf)
}

/// The concrete tensor of a value, if it has been computed.
pub fn concrete<T: Clone + Send + Sync + 'static>(value: &Value) -> Result<Option<T>> {
    Slot::of(value)?.map_or(Ok(None), Slot::ready)
}

/// True if a value has been computed.
pub fn is_computed<T: Clone + Send + Sync + 'static>(value: &Value) -> Result<bool> {
    Ok(Slot::<T>::of(value)?.is_some_and(Slot::is_settled))
}

/// The value for which a leaf stands, if that is not computed yet.
pub fn awaited<T: Clone + Send + Sync + 'static>(value: &Value) -> Result<Option<Value>> {
    Ok(Slot::<T>::of(value)?.and_then(Slot::pending))
}

/// Attaches what has been computed to a value.
pub fn fill<T: Clone + Send + Sync + 'static>(value: &Value, tensor: &T) -> Result<()> {
    match Slot::of(value)? {
        Some(slot) => slot.fill(tensor.clone()),
        None => {
            value.set_payload(Slot::new(State::Ready(tensor.clone())));
        }
    }
    Ok(())
}

/// The program from `parameters` to `roots` in dense tables, with the tensors that it takes after the
/// parameters. What has been computed is not computed again; leaves of one tensor are one argument.
///
/// Errors: a leaf that is no parameter and has no tensor.
pub fn resolve<T: Clone + Send + Sync + 'static>(
    parameters: &[Value],
    roots: &[Value],
) -> Result<(Indexed, Vec<T>)> {
    let slot = Slot::<T>::of;
    let is_settled = |value: &Value| slot(value).is_ok_and(|slot| slot.is_some_and(Slot::is_settled));
    // Another thread may compute a value meanwhile. A node of several outputs is asked about more than once, and
    // must get one answer.
    let answers: RefCell<FxHashMap<ValueKey, bool>> = RefCell::default();
    let is_leaf = |value: &Value| match value.node().types().len() {
        1 => is_settled(value),
        _ => *answers.borrow_mut().entry(value.key()).or_insert_with(|| is_settled(value)),
    };
    // Pending leaves and what they stand for. A leaf is younger than its value, so in order of age whatever one
    // of them reads has been numbered before.
    let mut pending: Vec<(Value, Value)> = Vec::new();
    let mut known: FxHashSet<ValueKey> = FxHashSet::default();
    loop {
        let mut all: Vec<Value> = pending.iter().map(|(_, value)| value.clone()).collect();
        all.extend_from_slice(roots);
        let (indexed, further) = index(parameters, &all, is_leaf);
        let before = pending.len();
        for leaf in &further {
            let Some(value) = slot(leaf)?.and_then(Slot::pending) else { continue };
            if known.insert(leaf.key()) {
                pending.push((leaf.clone(), value));
            }
        }
        if pending.len() > before {
            pending.sort_by_key(|(leaf, _)| leaf.key());
            continue;
        }
        return splice(indexed, parameters.len(), &further, &pending);
    }
}

fn bind<T: Clone + Send + Sync + 'static>(leaf: &Value) -> Result<T> {
    concrete(leaf)?.ok_or_else(|| {
        let message = format!(
            "a leaf of {} has no value: it is an argument of a function that is being traced, or of no call",
            leaf.ty()
        );
        Error::new(ErrorKind::InvalidHandle, "tensor", message)
    })
}

/// Binds the `further` inputs to their tensors, each tensor once, and lets every pending leaf give way to the
/// value for which it stands. The first roots of `indexed` are those values, in the order of `pending`; they
/// leave the list of roots.
fn splice<T: Clone + Send + Sync + 'static>(
    indexed: Indexed,
    parameters: usize,
    further: &[Value],
    pending: &[(Value, Value)],
) -> Result<(Indexed, Vec<T>)> {
    let place: FxHashMap<ValueKey, usize> =
        pending.iter().enumerate().map(|(at, (leaf, _))| (leaf.key(), at)).collect();
    // The node of a leaf that goes, and what takes its place.
    let mut replaced: FxHashMap<u32, ValueRef> = FxHashMap::default();
    let mut inputs = Vec::with_capacity(indexed.inputs.len());
    let mut bound = Vec::with_capacity(further.len());
    let mut arguments: FxHashMap<*const (), u32> = FxHashMap::default();
    for (at, &input) in indexed.inputs.iter().enumerate() {
        let Some(leaf) = at.checked_sub(parameters).and_then(|at| further.get(at)) else {
            inputs.push(input);
            continue;
        };
        if let Some(&at) = place.get(&leaf.key()) {
            replaced.insert(input, indexed.roots[at]);
            continue;
        }
        if let Some(payload) = leaf.payload() {
            let first = *arguments.entry(Arc::as_ptr(payload).cast()).or_insert(input);
            if first != input {
                replaced.insert(input, ValueRef { node: first, output: 0 });
                continue;
            }
        }
        inputs.push(input);
        bound.push(bind(leaf)?);
    }
    if replaced.is_empty() {
        return Ok((indexed, bound));
    }
    let follow = |mut value: ValueRef| {
        while let Some(&next) = replaced.get(&value.node) {
            value = next;
        }
        value
    };
    let mut nodes = indexed.nodes;
    for node in &mut nodes {
        for input in &mut node.inputs {
            *input = follow(*input);
        }
    }
    let roots = indexed.roots[pending.len()..].iter().map(|&root| follow(root)).collect();
    // The leaves that gave way are read by nobody now, and are no inputs: they go.
    Ok((Indexed { nodes, inputs, roots }.prune(), bound))
}

#[cfg(test)]
mod tests {
    use lanthorn_ir::{DType, Lazy, ops};

    use super::*;

    fn bound(elements: u32) -> Value {
        leaf(&TensorType::new(DType::F32, [2]), elements).unwrap()
    }

    #[test]
    fn leaves_of_one_tensor_are_one_argument() {
        let x = bound(7);
        let (cut, other) = (stand_in::<u32>(&x).unwrap(), bound(7));
        let sum = ops::add(&Lazy, &x, &cut).unwrap();
        let sum = ops::add(&Lazy, &sum, &other).unwrap();
        let (indexed, arguments) = resolve::<u32>(&[], &[sum, cut]).unwrap();
        assert_eq!(arguments, [7, 7]);
        assert_eq!(indexed.inputs.len(), 2);
        assert_eq!(indexed.nodes[1].inputs[..], [indexed.roots[1]; 2]);
    }

    #[test]
    fn a_stand_in_gives_way_to_what_it_waits_for() {
        let x = bound(7);
        let square = ops::square(&Lazy, &x).unwrap();
        let cut = stand_in::<u32>(&square).unwrap();
        // A stand-in for a leaf that waits shares what that waits for.
        let again = stand_in::<u32>(&cut).unwrap();
        let root = ops::add(&Lazy, &cut, &again).unwrap();
        let (indexed, arguments) = resolve::<u32>(&[], &[root.clone(), cut.clone()]).unwrap();
        assert_eq!(arguments, [7]);
        let names: Vec<&str> = indexed.nodes.iter().map(|node| node.prim.name()).collect();
        assert_eq!(names, ["leaf", "mul", "add"]);
        assert_eq!(indexed.nodes[2].inputs[..], [indexed.roots[1]; 2]);
        fill(&cut, &8u32).unwrap();
        assert_eq!(concrete::<u32>(&again).unwrap(), Some(8));
        assert_eq!(resolve::<u32>(&[], &[root]).unwrap().1, [8]);
    }

    #[test]
    fn tensors_of_another_engine_and_leaves_without_one_are_refused() {
        let foreign = leaf(&TensorType::new(DType::F32, [2]), "elsewhere").unwrap();
        assert_eq!(resolve::<u32>(&[], &[foreign]).unwrap_err().kind, ErrorKind::ForeignHandle);
        let unbound = Value::leaf(TensorType::new(DType::F32, [2])).unwrap();
        assert_eq!(resolve::<u32>(&[], &[unbound]).unwrap_err().kind, ErrorKind::InvalidHandle);
        let (x, value) = (bound(7), Value::leaf(TensorType::new(DType::F32, [2])).unwrap());
        Slot::<u32>::of(&x).unwrap().unwrap().take();
        assert!(concrete::<u32>(&x).unwrap_err().message.contains("donated"));
        assert_eq!(concrete::<u32>(&value).unwrap(), None);
    }
}
