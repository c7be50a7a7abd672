//! Commit points: one program for all that was written and what is asked for.
//!
//! A commit has three steps, so that the program may run elsewhere than the session:
//! [`Session::begin_commit`] says what is to be run, [`Pending::run`] runs it, on any thread, and
//! [`Session::finish_commit`] takes the results. Until the last step nothing has changed: after a run that failed
//! or was cancelled every tensor is as it was and can be read again.

use std::collections::HashMap;

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::indexed::{Indexed, IndexedNode};
use lanthorn_compiler::slot;
use lanthorn_ir::graph::ValueKey;
use lanthorn_ir::{Error, ErrorKind, Prim, Result, TensorType, Value};

use crate::arena::Handle;
use crate::cell::CellId;
use crate::engine::Engine;
use crate::session::Session;

/// A commit that has begun: a program with its arguments, and where its results go.
pub struct Pending<C> {
    program: Option<(Indexed, Vec<C>)>,
    roots: Vec<Value>,
    /// Cells that the program computes, with what they held when it began.
    cells: Vec<(CellId, Value)>,
    asked: Vec<Asked<C>>,
}

/// A tensor that was asked for.
#[derive(Clone)]
pub(crate) enum Asked<C> {
    Known(C),
    Root(usize),
}

impl<C: Clone + Send + Sync + 'static> Pending<C> {
    /// True if all is computed already, and there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.program.is_none()
    }

    /// The tensor of that number among those that were asked for.
    pub(crate) fn asked(&self, at: usize) -> Option<Asked<C>> {
        self.asked.get(at).cloned()
    }

    /// Which result a value is.
    pub(crate) fn root(&self, value: &Value) -> Option<usize> {
        self.roots.iter().position(|root| root == value)
    }

    /// How much there is to do at most, in bytes that are written and operations, before anything is planned.
    pub fn cost(&self) -> u64 {
        self.program.as_ref().map_or(0, |(program, _)| cost_bound(program))
    }

    /// Runs the program; the session may be used meanwhile. The second call of a commit runs nothing.
    pub fn run<E: Engine<Concrete = C>>(&mut self, engine: &E, cancel: &CancelToken) -> Result<Vec<C>> {
        let Some((program, arguments)) = self.program.take() else { return Ok(Vec::new()) };
        if cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "commit", "the work was cancelled by its caller"));
        }
        engine.run(program, arguments, cancel)
    }
}

/// How much there is to do at most in a run of a program, in bytes that are written and operations.
pub fn cost_bound(program: &Indexed) -> u64 {
    let numel = |ty: Option<&TensorType>| ty.map_or(0, |ty| ty.numel() as u64);
    let node = |node: &IndexedNode| {
        let written: u64 = node.types.iter().map(|ty| ty.bytes() as u64).sum();
        let per_element = match node.prim {
            Prim::Source(_) | Prim::Movement(_) | Prim::Elementwise(_) => 1,
            // A product reads no more for each result than its first operand has.
            _ => numel(node.inputs.first().map(|&input| program.ty(input))),
        };
        written.saturating_mul(per_element.max(1))
    };
    program.nodes.iter().map(node).fold(0, u64::saturating_add)
}

/// The values that a commit computes, each once.
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

impl<E: Engine> Session<E> {
    /// Computes the tensors, and everything that was written, in one program.
    pub fn commit(&mut self, tensors: &[Handle]) -> Result<()> {
        self.expect_no_recording("commit")?;
        let cells = self.cells_of(tensors)?;
        self.compute(&cells)
    }

    /// The elements of a tensor, after a commit.
    pub fn read(&mut self, tensor: Handle) -> Result<(TensorType, E::Concrete)> {
        let ty = self.type_of(self.tensors.get(tensor)?)?.clone();
        let mut pending = self.begin_commit(&[tensor])?;
        let results = pending.run(&self.engine, &CancelToken::never());
        let read = self.finish_commit(pending, results)?.pop();
        let read = read.ok_or_else(|| Error::new(ErrorKind::Execute, "read", "the commit gave no result"))?;
        Ok((ty, read))
    }

    /// What a commit that reads `tensors` has to run.
    pub fn begin_commit(&mut self, tensors: &[Handle]) -> Result<Pending<E::Concrete>> {
        self.expect_no_recording("reading")?;
        self.begin(&[], tensors)
    }

    fn cells_of(&self, tensors: &[Handle]) -> Result<Vec<CellId>> {
        tensors.iter().map(|&tensor| Ok(self.tensors.get(tensor)?.cell)).collect()
    }

    /// Takes the results of a commit; gives the tensors that it was asked for.
    ///
    /// Errors: that of the run, after which nothing has changed.
    pub fn finish_commit(
        &mut self,
        pending: Pending<E::Concrete>,
        results: Result<Vec<E::Concrete>>,
    ) -> Result<Vec<E::Concrete>> {
        let results = results?;
        let Pending { roots, cells, asked, .. } = pending;
        if results.len() != roots.len() {
            let (found, expected) = (results.len(), roots.len());
            let message = format!("the engine gave {found} results, expected {expected}");
            return Err(Error::new(ErrorKind::Execute, "commit", message));
        }
        for (root, result) in roots.iter().zip(&results) {
            slot::fill(root, result)?;
        }
        for (cell, value) in cells {
            // What was written meanwhile waits for the next commit.
            if let Ok(held) = self.cells.get_mut(cell)
                && held.value == value
            {
                held.settle::<E::Concrete>()?;
            }
        }
        self.forget_computed();
        if !roots.is_empty() {
            self.commits += 1;
            self.programs += 1;
        }
        let lost = || Error::new(ErrorKind::Execute, "commit", "a result is missing");
        asked
            .into_iter()
            .map(|asked| match asked {
                Asked::Known(tensor) => Ok(tensor),
                Asked::Root(at) => results.get(at).cloned().ok_or_else(lost),
            })
            .collect()
    }

    /// Computes cells, and everything that was written, in one program; while a function is recorded, nothing.
    pub(crate) fn compute(&mut self, cells: &[CellId]) -> Result<()> {
        if self.is_recording() {
            return Ok(());
        }
        let mut pending = self.begin(cells, &[])?;
        let results = pending.run(&self.engine, &CancelToken::never());
        self.finish_commit(pending, results).map(drop)
    }

    pub(crate) fn begin(&mut self, cells: &[CellId], tensors: &[Handle]) -> Result<Pending<E::Concrete>> {
        let mut roots = Roots { values: Vec::new(), places: HashMap::new() };
        let mut computed: Vec<(CellId, Value)> = Vec::new();
        let written: Vec<CellId> = self.written.clone();
        let mut asked = Vec::with_capacity(tensors.len());
        // What was written comes first: it is the same from step to step, whatever is read.
        for cell in written.into_iter().chain(cells.iter().copied()) {
            let Ok(held) = self.cells.get_mut(cell) else { continue };
            held.settle::<E::Concrete>()?;
            if !slot::is_computed::<E::Concrete>(&held.value)? {
                roots.place(&held.value);
                computed.push((cell, held.value.clone()));
            }
        }
        for &handle in tensors {
            let tensor = self.tensors.get(handle)?;
            let cell = tensor.cell;
            let value = self.cells.get(cell)?.value.clone();
            let Some(view) = &tensor.view else {
                asked.push(match slot::concrete::<E::Concrete>(&value)? {
                    Some(known) => Asked::Known(known),
                    None => {
                        computed.push((cell, value.clone()));
                        Asked::Root(roots.place(&value))
                    }
                });
                continue;
            };
            asked.push(match self.part(&value, view)? {
                Some(part) => Asked::Known(part),
                None => Asked::Root(roots.place(&self.derive(&value, tensor, true)?)),
            });
        }
        let program = match roots.values.is_empty() {
            true => None,
            false => Some(slot::resolve::<E::Concrete>(&[], &roots.values)?),
        };
        Ok(Pending { program, roots: roots.values, cells: computed, asked })
    }
}
