//! Recording a function.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use lanthorn_compiler::slot;
use lanthorn_ir::graph::ValueKey;
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType, Value};

use super::inline::Graph;
use super::programs::{Memory, Programs};
use super::{Body, Captured, Effect, Input, NewGradient, Place, Purpose, Source};
use crate::arena::Handle;
use crate::cell::{Cell, CellId};
use crate::engine::Engine;
use crate::session::Session;

/// A recording that goes on.
pub(crate) struct Recording {
    pub name: &'static str,
    purpose: Purpose,
    inputs: Vec<RecordedInput>,
    /// Placeholders in the order in which they came, inputs first.
    parameters: Vec<(Value, Source)>,
    /// Tensors from outside, with what they were before.
    outside: Vec<Outside>,
    outside_places: HashMap<CellId, usize>,
    /// Cells that were made meanwhile.
    pub locals: HashSet<CellId>,
    /// Cells that were made meanwhile and written, with what they held before the first write.
    written: Vec<(CellId, FirstValue)>,
    /// Tensors whose gradient was looked at, or replaced.
    known_gradients: HashSet<CellId>,
    presence: Vec<(Place, bool)>,
    /// Whose gradient a cell is.
    gradients: HashMap<CellId, Place>,
    /// How many scopes without gradients were open.
    no_grad: u32,
}

struct RecordedInput {
    /// The caller's tensor.
    given: Handle,
    cell: CellId,
    placeholder: Value,
    ty: TensorType,
    requires_grad: bool,
    grad: Option<CellId>,
}

struct Outside {
    cell: CellId,
    saved: Cell,
    placeholder: Value,
}

struct FirstValue {
    value: Value,
    is_tracked: bool,
}

impl Recording {
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Compile, self.name, message)
    }

    fn expect_gradients(&self) -> Result<()> {
        let message = "the function uses gradients of tensors; such a function is pure, use jit for one that calls \
                       backward";
        match self.purpose {
            Purpose::Program => Ok(()),
            Purpose::Function { .. } => Err(self.error(message)),
        }
    }

    fn place_of(&self, cell: CellId) -> Option<Place> {
        if self.outside_places.contains_key(&cell) {
            return Some(Place::Cell(cell));
        }
        self.inputs.iter().position(|input| input.cell == cell).map(Place::Input)
    }
}

impl<E: Engine> Session<E> {
    /// Starts to record a function; gives placeholders for `inputs`, which are the caller's to release.
    ///
    /// Nothing may be computed until [`Session::end_capture`] or [`Session::abort_capture`].
    ///
    /// Errors: a recording that goes on; an input that is there twice.
    pub fn begin_capture(
        &mut self,
        name: &'static str,
        purpose: Purpose,
        inputs: &[Handle],
    ) -> Result<Vec<Handle>> {
        self.expect_no_recording(name)?;
        let mut recorded: Vec<RecordedInput> = Vec::with_capacity(inputs.len());
        for (at, &given) in inputs.iter().enumerate() {
            if let Some(first) = inputs[..at].iter().position(|&other| other == given) {
                let message = format!(
                    "duplicate inputs: arguments {first} and {at} are one tensor, so it cannot be told which of them \
                     the function reads; pass it once"
                );
                return Err(Error::new(ErrorKind::Compile, name, message));
            }
            let about = self.describe(given)?;
            recorded.push(RecordedInput {
                given,
                cell: given,
                placeholder: Value::leaf(about.ty.clone())?,
                requires_grad: about.requires_grad,
                ty: about.ty,
                grad: None,
            });
        }
        // What was written before is none of the function's writes.
        self.compute(&[])?;
        let mut placeholders = Vec::with_capacity(inputs.len());
        for input in &mut recorded {
            let grad = self.cells.get(self.tensors.get(input.given)?.cell)?.grad;
            let is_tracked = match purpose {
                Purpose::Program => input.requires_grad,
                Purpose::Function { .. } => input.ty.dtype.is_float(),
            };
            let mut cell = Cell::new(input.placeholder.clone(), is_tracked);
            cell.requires_grad = input.requires_grad && purpose == Purpose::Program;
            if let Some(grad) = grad.filter(|_| cell.requires_grad) {
                self.cells.get_mut(grad)?.references += 1;
                cell.grad = Some(grad);
                input.grad = Some(grad);
            }
            let is_variable = cell.requires_grad;
            let handle = self.adopt(cell)?;
            input.cell = self.tensors.get(handle)?.cell;
            if is_variable {
                self.register(input.cell)?;
            }
            placeholders.push(handle);
        }
        let parameters = recorded.iter().enumerate();
        self.recording = Some(Box::new(Recording {
            name,
            purpose,
            parameters: parameters
                .map(|(at, input)| (input.placeholder.clone(), Source::Value(Place::Input(at))))
                .collect(),
            locals: recorded.iter().map(|input| input.cell).collect(),
            inputs: recorded,
            outside: Vec::new(),
            outside_places: HashMap::new(),
            written: Vec::new(),
            known_gradients: HashSet::new(),
            presence: Vec::new(),
            gradients: HashMap::new(),
            no_grad: self.no_grad,
        }));
        // Whether gradients pass through a graph is decided by each call, not by the first.
        if let Purpose::Function { .. } = purpose {
            self.no_grad = 0;
        }
        Ok(placeholders)
    }

    /// True while a function is recorded.
    pub fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Refuses what may not happen while a function is recorded.
    pub(crate) fn expect_no_recording(&self, call: &str) -> Result<()> {
        let Some(recording) = &self.recording else { return Ok(()) };
        let name = recording.name;
        Err(recording.error(match call == name {
            true => format!("another function is being traced by {name}; only one can be at a time"),
            false => format!(
                "{call} needs values, and there are none while {name} traces the function; return the tensor and read \
                 it after the call"
            ),
        }))
    }

    /// Ends a recording without a result; nothing outside has changed.
    pub fn abort_capture(&mut self) -> Result<()> {
        let Some(recording) = self.restore()? else { return Ok(()) };
        let undone = self.undo_writes(&recording);
        self.unpin(&recording)?;
        undone
    }

    /// What a function wrote that failed, of what it made, must not depend on placeholders for ever.
    fn undo_writes(&mut self, recording: &Recording) -> Result<()> {
        if recording.written.is_empty() { Ok(()) } else { self.forget(recording) }
    }

    /// Ends a recording: the function gave `outputs`.
    ///
    /// `None` if the function has written to tensors that it made itself, and `is_final` is not set: they may be its
    /// memory (an optimizer's state, made in the first call) or made anew in each call, and only a second recording
    /// tells: what was made in the first comes from outside then. They have their first values again.
    ///
    /// Errors: what the function did that no call could repeat; then, too, the recording is over.
    pub fn end_capture(&mut self, outputs: &[Handle], is_final: bool) -> Result<Option<Handle>> {
        let captured = self.finish_recording(outputs, is_final);
        let Some(recording) = self.restore()? else {
            return Err(Error::new(ErrorKind::Compile, "jit", "no function is being traced"));
        };
        match captured {
            Ok(Some(mut captured)) => {
                captured.pinned = recording.outside.iter().map(|outside| outside.cell).collect();
                Ok(Some(self.captures.insert(Arc::new(captured))?))
            }
            Ok(None) => {
                let forgotten = self.forget(&recording);
                self.unpin(&recording)?;
                forgotten.map(|()| None)
            }
            Err(error) => {
                // The function's own error comes first.
                let _ = self.undo_writes(&recording);
                self.unpin(&recording)?;
                Err(error)
            }
        }
    }

    fn finish_recording(&mut self, outputs: &[Handle], is_final: bool) -> Result<Option<Captured<E>>> {
        let mut roots = Roots::default();
        let mut results = Vec::with_capacity(outputs.len());
        for &output in outputs {
            let cell = self.tensors.get(output)?.cell;
            self.touch(cell)?;
            let base = self.cells.get(cell)?.value.clone();
            let value = self.derive(&base, self.tensors.get(output)?, true)?;
            results.push(roots.place(&value));
        }
        let Some(recording) = &self.recording else { return Ok(None) };
        if !is_final && recording.written.iter().any(|(cell, _)| self.cells.find(*cell).is_some()) {
            return Ok(None);
        }
        let mut effects = Vec::new();
        let mut owners: Vec<(Place, CellId, Option<CellId>)> = Vec::new();
        for (at, input) in recording.inputs.iter().enumerate() {
            // Its handle may have been released; then nobody has written to it since.
            let Some(cell) = self.cells.find(input.cell) else { continue };
            let place = Place::Input(at);
            if cell.value != input.placeholder {
                effects.push(Effect::Write { target: Source::Value(place), root: roots.place(&cell.value) });
            }
            owners.push((place, input.cell, input.grad));
        }
        for outside in &recording.outside {
            let cell = self.cells.get(outside.cell)?;
            let source = recording.parameters.iter().find(|(value, _)| *value == outside.placeholder);
            let target = source.map_or(Source::Value(Place::Cell(outside.cell)), |(_, source)| *source);
            if cell.value != outside.placeholder {
                effects.push(Effect::Write { target, root: roots.place(&cell.value) });
            }
            owners.push((Place::Cell(outside.cell), outside.cell, outside.saved.grad));
        }
        for (owner, cell, before) in owners {
            let now = self.cells.get(cell)?.grad;
            if now == before {
                continue;
            }
            let value = match now {
                None => NewGradient::None,
                Some(grad) if recording.locals.contains(&grad) => {
                    NewGradient::Root(roots.place(&self.cells.get(grad)?.value))
                }
                Some(grad) => NewGradient::Cell(grad),
            };
            effects.push(Effect::Gradient { owner, value });
        }
        let parameters: Vec<Value> = recording.parameters.iter().map(|(value, _)| value.clone()).collect();
        let types: Vec<TensorType> = roots.values.iter().map(|root| root.ty().clone()).collect();
        let sources: Vec<Source> = recording.parameters.iter().map(|(_, source)| *source).collect();
        let body = match recording.purpose {
            Purpose::Function { .. } => Body::Graph(Graph::new::<E::Concrete>(&parameters, &roots.values)?),
            Purpose::Program => {
                let (program, bound) = slot::resolve::<E::Concrete>(&parameters, &roots.values)?;
                let programs = Programs::new(&self.engine, program, &sources, &effects, &types)?;
                let program = programs.of(&self.engine, Memory::Taken)?;
                let (kernels, cost) = (self.engine.kernels(program), self.engine.cost(program));
                Body::Program { programs, bound, kernels, cost }
            }
        };
        let input =
            |input: &RecordedInput| Input { ty: input.ty.clone(), requires_grad: input.requires_grad };
        Ok(Some(Captured {
            name: recording.name,
            inputs: recording.inputs.iter().map(input).collect(),
            sources,
            outputs: results,
            roots: types,
            effects,
            gradients: recording.presence.clone(),
            pinned: Vec::new(),
            body,
            calls: AtomicU64::new(0),
        }))
    }

    /// Puts everything outside back. Each cell in `outside` stays pinned once.
    fn restore(&mut self) -> Result<Option<Box<Recording>>> {
        let Some(mut recording) = self.recording.take() else { return Ok(None) };
        self.no_grad = recording.no_grad;
        for outside in &mut recording.outside {
            let held = self.cells.get_mut(outside.cell)?;
            let mut saved = Cell::new(outside.placeholder.clone(), false);
            std::mem::swap(&mut saved, &mut outside.saved);
            saved.references = held.references;
            let worked = std::mem::replace(held, saved);
            if let Some(grad) = worked.grad {
                self.drop_reference(grad)?;
            }
        }
        // What the function made and did not give is computed only if it is read.
        for cell in std::mem::take(&mut self.written) {
            if let Ok(held) = self.cells.get_mut(cell) {
                held.is_written = false;
            }
        }
        Ok(Some(recording))
    }

    fn unpin(&mut self, recording: &Recording) -> Result<()> {
        recording.outside.iter().try_for_each(|outside| self.drop_reference(outside.cell))
    }

    /// Makes ordinary tensors of what the function made, as if it had written to none of them.
    fn forget(&mut self, recording: &Recording) -> Result<()> {
        for (cell, first) in recording.written.iter().rev() {
            let Ok(held) = self.cells.get_mut(*cell) else { continue };
            held.rebind(first.value.clone());
            (held.pending, held.is_tracked) = (1, first.is_tracked || held.requires_grad);
            if held.requires_grad {
                self.register(*cell)?;
            }
        }
        // Placeholders become the tensors for which they stood, as those are now.
        let cells: Vec<CellId> = recording.outside.iter().map(|outside| outside.cell).collect();
        let given: Vec<Handle> = recording.inputs.iter().map(|input| input.given).collect();
        let found = self.concretes(&given, &cells)?;
        let inputs = recording.inputs.iter().map(|input| &input.placeholder);
        let outside = recording.outside.iter().map(|outside| &outside.placeholder);
        for (placeholder, tensor) in inputs.chain(outside).zip(&found) {
            slot::fill(placeholder, tensor)?;
        }
        for (placeholder, source) in &recording.parameters {
            if *source == Source::Key {
                slot::fill(placeholder, &self.upload_key(self.random)?)?;
            }
        }
        Ok(())
    }

    /// Before a cell's value is used or written: while a function is recorded, a cell from outside holds a
    /// placeholder.
    pub(crate) fn touch(&mut self, cell: CellId) -> Result<()> {
        match self.recording {
            None => Ok(()),
            Some(_) => self.touch_recorded(cell),
        }
    }

    fn touch_recorded(&mut self, cell: CellId) -> Result<()> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        if recording.locals.contains(&cell) || recording.outside_places.contains_key(&cell) {
            return Ok(());
        }
        if recording.purpose == (Purpose::Function { reads_outside: false }) {
            return Err(recording.error(format!(
                "the function reads a tensor of {} that is no argument; pass it, or set allowImplicit",
                self.cells.get(cell)?.value.ty()
            )));
        }
        self.expect_written(cell)?;
        let Some(recording) = &mut self.recording else { return Ok(()) };
        let held = self.cells.get_mut(cell)?;
        let placeholder = Value::leaf(held.value.ty().clone())?;
        let is_tracked = match recording.purpose {
            Purpose::Program => held.requires_grad,
            Purpose::Function { .. } => placeholder.ty().dtype.is_float(),
        };
        let mut working = Cell::new(placeholder.clone(), is_tracked);
        // One more: the recording keeps the tensor, and later the captured function.
        working.references = held.references + 1;
        (working.version, working.grad) = (held.version, held.grad);
        working.requires_grad = held.requires_grad && recording.purpose == Purpose::Program;
        let is_variable = working.requires_grad;
        let saved = std::mem::replace(held, working);
        let source = match recording.gradients.get(&cell) {
            Some(&owner) => Source::Gradient(owner),
            None => Source::Value(Place::Cell(cell)),
        };
        recording.parameters.push((placeholder.clone(), source));
        recording.outside_places.insert(cell, recording.outside.len());
        let grad = saved.grad;
        recording.outside.push(Outside { cell, saved, placeholder });
        if let Some(grad) = grad {
            self.cells.get_mut(grad)?.references += 1;
        }
        if is_variable { self.register(cell) } else { Ok(()) }
    }

    /// Before a cell is written in place.
    pub(crate) fn touch_to_write(&mut self, cell: CellId) -> Result<()> {
        self.touch(cell)?;
        let Some(recording) = &mut self.recording else { return Ok(()) };
        if let Some(place) = recording.place_of(cell) {
            return match recording.purpose {
                Purpose::Program => Ok(()),
                Purpose::Function { .. } => {
                    let which = match place {
                        Place::Input(at) => format!("its argument {at}"),
                        Place::Cell(_) => "a tensor from outside".into(),
                    };
                    Err(recording.error(format!(
                        "the function writes to {which}; such a function is pure, use jit for one that writes"
                    )))
                }
            };
        }
        if !recording.written.iter().any(|(known, _)| *known == cell) {
            let held = self.cells.get(cell)?;
            let first = FirstValue { value: held.value.clone(), is_tracked: held.is_tracked };
            recording.written.push((cell, first));
        }
        Ok(())
    }

    /// Before the gradient of a cell is looked at; its absence is noted too.
    pub(crate) fn touch_gradient(&mut self, owner: CellId) -> Result<()> {
        self.note_gradient(owner, true)
    }

    /// Before the gradient of a cell is replaced, whatever it was.
    pub(crate) fn touch_to_replace_gradient(&mut self, owner: CellId) -> Result<()> {
        self.note_gradient(owner, false)
    }

    fn note_gradient(&mut self, owner: CellId, is_read: bool) -> Result<()> {
        self.touch(owner)?;
        let Some(recording) = &mut self.recording else { return Ok(()) };
        let Some(place) = recording.place_of(owner) else { return Ok(()) };
        recording.expect_gradients()?;
        if !recording.known_gradients.insert(owner) || !is_read {
            return Ok(());
        }
        let grad = self.cells.get(owner)?.grad;
        recording.presence.push((place, grad.is_some()));
        if let Some(grad) = grad {
            recording.gradients.entry(grad).or_insert(place);
        }
        Ok(())
    }

    /// Refuses to change what a tensor from outside is while a function is recorded.
    pub(crate) fn expect_local(&self, call: &str, cell: CellId) -> Result<()> {
        match &self.recording {
            Some(recording) if recording.place_of(cell).is_some() => Err(recording.error(format!(
                "{call} changes a tensor that is there before the call; do so before the function is traced"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses `backward` in a function whose graph is the caller's.
    pub(crate) fn expect_gradients(&self) -> Result<()> {
        self.recording.as_ref().map_or(Ok(()), |recording| recording.expect_gradients())
    }

    /// A placeholder for the key of a draw, if a function is being recorded.
    pub(crate) fn recorded_key(&mut self) -> Result<Option<Value>> {
        let Some(recording) = &mut self.recording else { return Ok(None) };
        let placeholder = Value::leaf(TensorType::new(DType::U64, [2]))?;
        recording.parameters.push((placeholder.clone(), Source::Key));
        Ok(Some(placeholder))
    }
}

/// Values that a call gives or writes, each once.
#[derive(Default)]
struct Roots {
    values: Vec<Value>,
    places: HashMap<ValueKey, usize>,
}

impl Roots {
    fn place(&mut self, value: &Value) -> usize {
        *self.places.entry(value.key()).or_insert_with(|| {
            self.values.push(value.clone());
            self.values.len() - 1
        })
    }
}
