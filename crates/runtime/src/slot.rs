//! What the run-time attaches to graph values: where their elements are, or how they will come to be.
//!
//! A computed value carries a slot with its concrete tensor. A leaf may also stand for another value, computed
//! when it is needed: a detached tensor is such a leaf, so that no derivative passes while nothing runs yet.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_compiler::indexed::{Indexed, ValueRef};
use lanthorn_compiler::pipeline::index;
use lanthorn_ir::graph::ValueKey;
use lanthorn_ir::{Error, ErrorKind, Result, Value};

use crate::device::Device;
use crate::eager::{EagerTensor, foreign};
use crate::storage::gone;

/// The payload of a value.
pub(crate) struct Slot {
    state: Mutex<State>,
}

enum State {
    Ready(EagerTensor),
    /// The elements of this value.
    Pending(Value),
    /// A compiled call has taken the memory.
    Donated,
}

impl Slot {
    fn new(state: State) -> Arc<Slot> {
        Arc::new(Slot { state: Mutex::new(state) })
    }

    /// The slot of a value, if it has one.
    pub fn of(value: &Value) -> Result<Option<&Slot>> {
        match value.payload() {
            None => Ok(None),
            Some(payload) => payload.downcast_ref().map(Some).ok_or_else(|| foreign("tensor")),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The concrete tensor, if it has been computed.
    fn ready(&self) -> Result<Option<EagerTensor>> {
        match &*self.lock() {
            State::Ready(tensor) => Ok(Some(tensor.clone())),
            State::Pending(_) => Ok(None),
            State::Donated => Err(gone()),
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
    pub fn take(&self) -> Option<EagerTensor> {
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
    pub fn restore(&self, tensor: EagerTensor) {
        *self.lock() = State::Ready(tensor);
    }

    /// Attaches a computed tensor; the first one stays. The graph that led here is let go.
    fn fill(&self, tensor: EagerTensor) {
        let mut state = self.lock();
        if let State::Pending(_) = &*state {
            let released = std::mem::replace(&mut *state, State::Ready(tensor));
            drop(state);
            drop(released);
        }
    }
}

/// A leaf that holds a concrete tensor.
pub(crate) fn leaf(tensor: EagerTensor) -> Result<Value> {
    let value = Value::leaf(tensor.ty().clone())?;
    value.set_payload(Slot::new(State::Ready(tensor)));
    Ok(value)
}

/// A leaf with the elements of `value`, through which no derivative passes.
pub(crate) fn stand_in(value: &Value) -> Result<Value> {
    let leaf = Value::leaf(value.ty().clone())?;
    let payload = match Slot::of(value)? {
        Some(slot) if slot.is_settled() => value.payload().cloned(),
        _ => None,
    };
    leaf.set_payload(payload.unwrap_or_else(|| Slot::new(State::Pending(value.clone()))));
    Ok(leaf)
}

/// The concrete tensor of a value, if it has been computed.
pub(crate) fn concrete(value: &Value) -> Result<Option<EagerTensor>> {
    Slot::of(value)?.map_or(Ok(None), Slot::ready)
}

/// Attaches what has been computed to a value.
pub(crate) fn fill(value: &Value, tensor: &EagerTensor) -> Result<()> {
    match Slot::of(value)? {
        Some(slot) => slot.fill(tensor.clone()),
        None => {
            value.set_payload(Slot::new(State::Ready(tensor.clone())));
        }
    }
    Ok(())
}

/// The program from `parameters` to `roots` in dense tables, with the tensors that it takes after the
/// parameters. What has been computed is not computed again.
pub(crate) fn resolve(
    device: &Device,
    parameters: &[Value],
    roots: &[Value],
) -> Result<(Indexed, Vec<EagerTensor>)> {
    let is_settled = |value: &Value| Slot::of(value).is_ok_and(|slot| slot.is_some_and(Slot::is_settled));
    // Another thread may compute a value meanwhile. A node of several outputs is asked about more than once, and
    // must get one answer.
    let answers: RefCell<HashMap<ValueKey, bool>> = RefCell::default();
    let is_leaf = |value: &Value| match value.node().types().len() {
        1 => is_settled(value),
        _ => *answers.borrow_mut().entry(value.key()).or_insert_with(|| is_settled(value)),
    };
    // Pending leaves and what they stand for. A leaf is younger than its value, so in order of age whatever one
    // of them reads has been numbered before.
    let mut pending: Vec<(Value, Value)> = Vec::new();
    let mut known: HashSet<ValueKey> = HashSet::new();
    loop {
        let mut all: Vec<Value> = pending.iter().map(|(_, value)| value.clone()).collect();
        all.extend_from_slice(roots);
        let (indexed, further) = index(parameters, &all, is_leaf);
        let before = pending.len();
        for leaf in &further {
            let Some(value) = Slot::of(leaf)?.and_then(Slot::pending) else { continue };
            if known.insert(leaf.key()) {
                pending.push((leaf.clone(), value));
            }
        }
        if pending.len() > before {
            pending.sort_by_key(|(leaf, _)| leaf.key());
            continue;
        }
        let bound = further.iter().filter(|leaf| !known.contains(&leaf.key()));
        let bound = bound.map(|leaf| bind(device, leaf)).collect::<Result<Vec<_>>>()?;
        let indexed = match pending.is_empty() {
            true => indexed,
            false => splice(indexed, parameters.len(), &further, &pending),
        };
        return Ok((indexed, bound));
    }
}

fn bind(device: &Device, leaf: &Value) -> Result<EagerTensor> {
    let tensor = concrete(leaf)?.ok_or_else(|| {
        let message = format!(
            "a leaf of {} has no value: it is an argument of a function that is being traced, or of no call",
            leaf.ty()
        );
        Error::new(ErrorKind::InvalidHandle, "tensor", message)
    })?;
    device.expect("tensor", tensor.device())?;
    Ok(tensor)
}

/// Lets every pending leaf give way to the value for which it stands. The first roots of `indexed` are those
/// values, in the order of `pending`; they leave the list of roots.
fn splice(indexed: Indexed, parameters: usize, further: &[Value], pending: &[(Value, Value)]) -> Indexed {
    let place: HashMap<ValueKey, usize> =
        pending.iter().enumerate().map(|(at, (leaf, _))| (leaf.key(), at)).collect();
    // The node of a pending leaf, and what takes its place.
    let mut replaced: HashMap<u32, ValueRef> = HashMap::new();
    let mut inputs = Vec::with_capacity(indexed.inputs.len());
    for (at, &input) in indexed.inputs.iter().enumerate() {
        let leaf = at.checked_sub(parameters).and_then(|at| further.get(at));
        match leaf.and_then(|leaf| place.get(&leaf.key())) {
            Some(&at) => {
                replaced.insert(input, indexed.roots[at]);
            }
            None => inputs.push(input),
        }
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
    Indexed { nodes, inputs, roots }.prune()
}
