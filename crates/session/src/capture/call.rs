//! Calling a captured program.
//!
//! Like a commit, a call has three steps, so that the program may run elsewhere than the session. Until the last
//! nothing has changed but the number of the next draw. A call that has all its steps in one takes the elements that it
//! writes over out of their cells meanwhile, and puts them back if it fails.

use std::sync::Arc;

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::slot::{self, Slot};
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType, Value};
use smallvec::SmallVec;

use super::programs::Memory;
use super::{Body, Captured, Effect, NewGradient, Place, Source};
use crate::apply::Operand;
use crate::arena::Handle;
use crate::cell::{Cell, CellId, Tensor};
use crate::commit::{Aim, Asked, Pending};
use crate::engine::Engine;
use crate::session::Session;

/// A call that has begun.
pub struct Call<E: Engine> {
    captured: Arc<Captured<E>>,
    arguments: Arguments<E::Concrete>,
    inputs: SmallVec<[Tensor; 4]>,
    /// The cells that will be written, with their versions.
    written: SmallVec<[(CellId, u64); 8]>,
    memory: Memory,
    /// Arguments whose elements were taken out of these values.
    lent: Vec<(usize, Value)>,
}

/// The arguments of a call's program.
enum Arguments<C> {
    Ready(Vec<C>),
    /// Some are results of a commit, which runs first.
    Waiting {
        commit: Box<Pending<C>>,
        results: Option<Result<Vec<C>>>,
        arguments: Vec<Asked<C>>,
    },
}

impl<E: Engine> Call<E> {
    /// Runs the program; the session may be used meanwhile.
    pub fn run(&mut self, engine: &E, cancel: &CancelToken) -> Result<Vec<E::Concrete>> {
        let Body::Program { programs, .. } = &self.captured.body else { return Ok(Vec::new()) };
        let program = programs.of(engine, self.memory)?;
        if cancel.is_cancelled() {
            let message = "the call was cancelled by its caller";
            return Err(Error::new(ErrorKind::Cancelled, self.captured.name, message));
        }
        let (commit, results, arguments) = match &mut self.arguments {
            Arguments::Ready(arguments) => return engine.call(program, arguments, cancel),
            Arguments::Waiting { commit, results, arguments } => (commit, results, arguments),
        };
        let ran = commit.run(engine, cancel);
        // A write that has nothing to do with the call may have failed beside it.
        let ready = arguments.iter().map(|argument| match (argument, &ran) {
            (Asked::Known(known), _) => Ok(known.clone()),
            (Asked::Root(at), Ok(computed)) => {
                let lost = || Error::new(ErrorKind::Execute, self.captured.name, "an argument has no value");
                computed.get(*at).cloned().ok_or_else(lost)
            }
            (Asked::Root(at), Err(error)) => commit.salvaged(*at).ok_or_else(|| error.clone()),
        });
        let ready = ready.collect::<Result<Vec<_>>>();
        *results = Some(ran);
        engine.call(program, &ready?, cancel)
    }

    /// How much there is to do: bytes and operations of all kernels.
    pub fn cost(&self) -> u64 {
        let before = match &self.arguments {
            Arguments::Ready(_) => 0,
            Arguments::Waiting { commit, .. } => commit.cost(),
        };
        match &self.captured.body {
            Body::Program { cost, .. } => cost.saturating_add(before),
            Body::Graph(_) => before,
        }
    }
}

impl<E: Engine> Session<E> {
    /// Calls a captured function on tensors of the types with which it was captured; gives a new tensor for each
    /// result. Tensors from outside are read as they are now, and written.
    ///
    /// Errors: arguments of another number or type; one tensor where the function writes to one argument and reads
    /// another; a gradient that was there when the function was captured and is not now, or the reverse; what the
    /// engine reports, after which no tensor has changed.
    pub fn call(&mut self, captured: Handle, inputs: &[Handle]) -> Result<Vec<Handle>> {
        if let Body::Graph(_) = &self.captured(captured)?.body {
            return self.inline(captured, inputs);
        }
        let mut call = self.begin_with(captured, inputs, Memory::Taken)?;
        let results = call.run(&self.engine, &CancelToken::never());
        self.finish_call(call, results)
    }

    /// What a call has to run; [`Session::finish_call`] takes the results.
    ///
    /// Errors: as [`Session::call`].
    pub fn begin_call(&mut self, captured: Handle, inputs: &[Handle]) -> Result<Call<E>> {
        self.begin_with(captured, inputs, Memory::Kept)
    }

    fn begin_with(&mut self, captured: Handle, inputs: &[Handle], memory: Memory) -> Result<Call<E>> {
        let captured = self.captured(captured)?.clone();
        self.expect_no_recording(captured.name)?;
        let given = self.check_inputs(&captured, inputs)?;
        let cells: SmallVec<[CellId; 4]> = given.iter().map(|tensor| tensor.cell).collect();
        for &(place, was_there) in &captured.gradients {
            let is_there = self.cells.get(cell_at(place, &cells)?)?.grad.is_some();
            if is_there != was_there {
                let [then, now] = [was_there, is_there].map(|there| if there { "a" } else { "no" });
                return Err(captured.error(format!(
                    "a tensor had {then} gradient when the function was traced and has {now} gradient now; set \
                     gradients to null in the function, or at each call before it"
                )));
            }
        }
        let arguments = self.arguments_of(&captured, inputs, &given, &cells)?;
        let mut written = SmallVec::new();
        for effect in &captured.effects {
            if let Effect::Write { target, .. } = effect
                && let Some(cell) = self.cell_of(*target, &cells)?
            {
                written.push((cell, self.cells.get(cell)?.version));
            }
        }
        let mut call = Call { captured, arguments, inputs: given, written, memory, lent: Vec::new() };
        if memory == Memory::Taken {
            self.lend(&mut call, &cells)?;
        }
        Ok(call)
    }

    /// Takes what a call writes over out of its cells, where nothing else holds it: only then is its memory the call's.
    fn lend(&self, call: &mut Call<E>, cells: &[CellId]) -> Result<()> {
        let Call { captured, arguments: Arguments::Ready(arguments), inputs, lent, .. } = call else {
            return Ok(());
        };
        let Body::Program { programs, .. } = &captured.body else { return Ok(()) };
        for at in programs.donated() {
            let (Some(&source), Some(argument)) = (captured.sources.get(at), arguments.get_mut(at)) else {
                continue;
            };
            // The elements of a view are a part of its cell's.
            let is_view = |at: usize| inputs.get(at).is_some_and(|input| input.view.is_some());
            if matches!(source, Source::Value(Place::Input(at)) if is_view(at)) {
                continue;
            }
            let Some(cell) = self.cell_of(source, cells)? else { continue };
            let value = &self.cells.get(cell)?.value;
            let is_only = Arc::strong_count(value.node()) == 1
                && value.payload().is_some_and(|payload| Arc::strong_count(payload) == 1);
            if is_only
                && let Some(slot) = Slot::<E::Concrete>::of(value)?
                && let Some(taken) = slot.take()
            {
                *argument = taken;
                lent.push((at, value.clone()));
            }
        }
        Ok(())
    }

    fn check_inputs(&self, captured: &Captured<E>, inputs: &[Handle]) -> Result<SmallVec<[Tensor; 4]>> {
        let expected = captured.inputs.len();
        if inputs.len() != expected {
            let found = inputs.len();
            return Err(captured.error(format!("args mismatch: got {found} tensors, expected {expected}")));
        }
        let mut given: SmallVec<[Tensor; 4]> = SmallVec::with_capacity(inputs.len());
        for (at, (&handle, input)) in inputs.iter().zip(&captured.inputs).enumerate() {
            let tensor = self.tensors.get(handle)?;
            let requires_grad = self.cells.get(tensor.cell)?.requires_grad && !tensor.is_view;
            let ty = self.type_of(tensor)?;
            if *ty != input.ty || requires_grad != input.requires_grad {
                let about = |ty: &TensorType, on: bool| match on {
                    true => format!("{ty} that requires gradients"),
                    false => ty.to_string(),
                };
                let found = about(ty, requires_grad);
                let expected = about(&input.ty, input.requires_grad);
                return Err(captured.error(format!(
                    "args mismatch: argument {at} is {found}, expected {expected} as in the call that was traced"
                )));
            }
            given.push(tensor.clone());
        }
        if captured.effects.is_empty() {
            return Ok(given);
        }
        let changes = |wanted: Place| {
            captured.effects.iter().any(|effect| match *effect {
                Effect::Write { target: Source::Value(place), .. } => place == wanted,
                Effect::Gradient { owner, .. } => owner == wanted,
                Effect::Write { .. } => false,
            })
        };
        for (at, tensor) in given.iter().enumerate() {
            let is_written = changes(Place::Input(at));
            let other = given[..at].iter().position(|other| other.cell == tensor.cell);
            if let Some(other) = other.filter(|&other| is_written || changes(Place::Input(other))) {
                return Err(captured.error(format!(
                    "duplicate inputs: arguments {other} and {at} share their elements, and the function writes to one \
                     of them"
                )));
            }
            let is_outside = captured.pinned.contains(&tensor.cell);
            if is_outside && (is_written || changes(Place::Cell(tensor.cell))) {
                return Err(captured.error(format!(
                    "duplicate inputs: argument {at} is also a tensor that the function reads by itself, and the \
                     function writes to it"
                )));
            }
        }
        Ok(given)
    }

    /// The arguments of the program, with a commit of what is not computed yet.
    fn arguments_of(
        &mut self,
        captured: &Captured<E>,
        handles: &[Handle],
        given: &[Tensor],
        cells: &[CellId],
    ) -> Result<Arguments<E::Concrete>> {
        let Body::Program { bound, .. } = &captured.body else { return Ok(Arguments::Ready(Vec::new())) };
        let mut arguments = Vec::with_capacity(captured.sources.len() + bound.len());
        for tensor in given.iter().filter(|tensor| tensor.view.is_some()) {
            self.compute_source(tensor.cell)?;
        }
        // Inputs come first, then tensors from outside; usually all of them are there.
        for source in &captured.sources {
            if let Some(cell) = self.cell_of(*source, cells)? {
                self.expect_written(cell)?;
            }
            let known = match *source {
                Source::Key => Some(self.next_concrete_key()?),
                Source::Value(Place::Input(at)) if given[at].view.is_some() => {
                    self.part(&self.cells.get(cells[at])?.value, &given[at])?
                }
                other => match self.cell_of(other, cells)? {
                    Some(cell) => slot::concrete(&self.cells.get(cell)?.value)?,
                    None => return Err(captured.error("a gradient that the function reads is gone")),
                },
            };
            arguments.push(known);
        }
        if arguments.iter().all(Option::is_some) {
            return Ok(Arguments::Ready(
                arguments.into_iter().flatten().chain(bound.iter().cloned()).collect(),
            ));
        }
        let mut outside = Vec::new();
        for source in &captured.sources {
            if !matches!(source, Source::Key | Source::Value(Place::Input(_))) {
                outside.extend(self.cell_of(*source, cells)?);
            }
        }
        let commit = self.begin(&outside, handles, Aim::Asked)?;
        let lost = || Error::new(ErrorKind::Execute, captured.name, "an argument has no value");
        let mut waiting = Vec::with_capacity(arguments.len() + bound.len());
        for (source, known) in captured.sources.iter().zip(arguments) {
            waiting.push(match (known, *source) {
                (Some(known), _) => Asked::Known(known),
                (None, Source::Value(Place::Input(at))) => commit.asked(at).ok_or_else(lost)?,
                (None, source) => {
                    let cell = self.cell_of(source, cells)?.ok_or_else(lost)?;
                    let value = &self.cells.get(cell)?.value;
                    match slot::concrete(value)? {
                        Some(known) => Asked::Known(known),
                        None => Asked::Root(commit.root(value).ok_or_else(lost)?),
                    }
                }
            });
        }
        waiting.extend(bound.iter().cloned().map(Asked::Known));
        Ok(Arguments::Waiting { commit: commit.into(), results: None, arguments: waiting })
    }

    /// The elements of tensors and then of cells, computed in one program where they are not yet.
    pub(super) fn concretes(&mut self, tensors: &[Handle], cells: &[CellId]) -> Result<Vec<E::Concrete>> {
        let mut pending = self.begin(cells, tensors, Aim::Asked)?;
        let results = pending.run(&self.engine, &CancelToken::never());
        let mut found = self.finish_commit(pending, results)?;
        let lost = || Error::new(ErrorKind::Execute, "commit", "a result is missing");
        for &cell in cells {
            found.push(slot::concrete(&self.cells.get(cell)?.value)?.ok_or_else(lost)?);
        }
        Ok(found)
    }

    /// The cell of a source, `None` for a gradient that is not there.
    fn cell_of(&self, source: Source, inputs: &[CellId]) -> Result<Option<CellId>> {
        match source {
            Source::Value(place) => cell_at(place, inputs).map(Some),
            Source::Gradient(place) => Ok(self.cells.get(cell_at(place, inputs)?)?.grad),
            Source::Key => Ok(None),
        }
    }

    /// Takes the results of a call: new tensors, and writes.
    ///
    /// Errors: that of the run; a tensor that was written while the call ran and that the call writes too. After
    /// either nothing has changed.
    pub fn finish_call(&mut self, call: Call<E>, results: Result<Vec<E::Concrete>>) -> Result<Vec<Handle>> {
        let Call { captured, arguments, inputs, written, lent, .. } = call;
        if let (Err(_), Arguments::Ready(arguments)) = (&results, &arguments) {
            for (at, value) in &lent {
                if let (Some(slot), Some(argument)) = (Slot::of(value)?, arguments.get(*at)) {
                    slot.restore(argument.clone());
                }
            }
        }
        // What was computed for the call stays, whatever became of it.
        if let Arguments::Waiting { commit, results: Some(computed), .. } = arguments {
            self.finish_commit(*commit, computed)?;
        }
        let results = results?;
        if results.len() != captured.roots.len() {
            let (found, expected) = (results.len(), captured.roots.len());
            let message = format!("the engine gave {found} results, expected {expected}");
            return Err(Error::new(ErrorKind::Execute, captured.name, message));
        }
        for &(cell, version) in &written {
            if self.cells.find(cell).is_some_and(|held| held.version != version) {
                return Err(captured.error(
                    "a tensor that the call writes was written while the call ran; await the call first",
                ));
            }
        }
        let mut outputs = Vec::with_capacity(captured.outputs.len());
        for &root in &captured.outputs {
            let value = slot::leaf(&captured.roots[root], results[root].clone())?;
            outputs.push(self.adopt(Cell::new(value, false))?);
        }
        let cells: SmallVec<[CellId; 4]> = inputs.iter().map(|tensor| tensor.cell).collect();
        let mut written = written.into_iter();
        for effect in &captured.effects {
            match *effect {
                Effect::Write { target, root } => {
                    let Some((cell, _)) = written.next() else { continue };
                    let value = slot::leaf(&captured.roots[root], results[root].clone())?;
                    match target {
                        // Through a view the elements go into its base.
                        Source::Value(Place::Input(at)) if inputs[at].view.is_some() => {
                            if self.cells.find(cell).is_some() {
                                let source = Operand { value, is_tracked: false, pending: 0, height: 0 };
                                self.write(&inputs[at], source)?;
                            }
                        }
                        _ => self.overwrite(cell, value)?,
                    }
                }
                Effect::Gradient { owner, value } => {
                    let owner = cell_at(owner, &cells)?;
                    if self.cells.find(owner).is_none() {
                        continue;
                    }
                    let new = match value {
                        NewGradient::None => None,
                        NewGradient::Cell(cell) => Some(cell),
                        NewGradient::Root(root) => {
                            let value = slot::leaf(&captured.roots[root], results[root].clone())?;
                            Some(self.insert_cell(Cell::new(value, false))?)
                        }
                    };
                    self.replace_gradient(owner, new)?;
                }
            }
        }
        captured.count_call();
        Ok(outputs)
    }

    /// Puts a computed value in the place of a cell's, if the cell is still there.
    fn overwrite(&mut self, cell: CellId, value: Value) -> Result<()> {
        let Ok(held) = self.cells.get_mut(cell) else { return Ok(()) };
        held.replace(value);
        held.version += 1;
        held.is_tracked = held.requires_grad;
        if held.requires_grad { self.register(cell) } else { Ok(()) }
    }

    fn next_concrete_key(&mut self) -> Result<E::Concrete> {
        let key = self.upload_key(self.random)?;
        self.random[1] = self.random[1].wrapping_add(1);
        Ok(key)
    }

    /// Seed and number of a draw as the tensor that ops take.
    pub(crate) fn upload_key(&self, random: [u64; 2]) -> Result<E::Concrete> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random[0].to_ne_bytes());
        bytes[8..].copy_from_slice(&random[1].to_ne_bytes());
        self.engine.upload(&TensorType::new(DType::U64, [2]), &bytes)
    }
}

fn cell_at(place: Place, inputs: &[CellId]) -> Result<CellId> {
    match place {
        Place::Cell(cell) => Ok(cell),
        Place::Input(at) => inputs
            .get(at)
            .copied()
            .ok_or_else(|| Error::new(ErrorKind::Compile, "jit", format!("there is no argument {at}"))),
    }
}
