//! Commit points: one program for all that was written and what is asked for.
//!
//! A commit has three steps, so that the program may run elsewhere than the session:
//! [`Session::begin_commit`] says what is to be run, [`Pending::run`] runs it, on any thread, and
//! [`Session::finish_commit`] takes the results. Until the last step nothing has changed: after a run that was
//! cancelled every tensor is as it was and can be read again.
//!
//! After a run that failed, what does not depend on what failed is computed, and a write that does is taken back: its
//! tensor has the elements of the last commit. The error is told once: by the commit, if what was asked of it failed,
//! else by the next use of a tensor whose write was taken back.

use std::collections::{HashMap, HashSet};

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::indexed::{Indexed, IndexedNode};
use lanthorn_compiler::slot;
use lanthorn_ir::graph::ValueKey;
use lanthorn_ir::{Error, ErrorKind, Prim, Result, TensorType, Value};

use crate::arena::Handle;
use crate::cell::{Cell, CellId, Failure};
use crate::engine::Engine;
use crate::salvage::{Outcome, salvage};
use crate::session::Session;

/// A commit that has begun: a program with its arguments, and where its results go.
pub struct Pending<C> {
    program: Option<(Indexed, Vec<C>)>,
    roots: Vec<Value>,
    /// How many of the roots are writes; they come first.
    written: usize,
    /// The roots that somebody waits for.
    wanted: HashSet<usize>,
    /// What became of each root in a run that failed.
    salvaged: Option<Vec<Outcome<C>>>,
    /// Cells that the program computes, with what they held when it began.
    cells: Vec<(CellId, Value)>,
    asked: Vec<Asked<C>>,
}

/// What a commit is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// The tensors that are asked for; that others are written is no concern of the caller's.
    Asked,
    /// Everything that was written.
    All,
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

    /// A result of a run that failed, if it could be computed after all.
    pub(crate) fn salvaged(&self, root: usize) -> Option<C> {
        match self.salvaged.as_ref()?.get(root)? {
            Outcome::Done(result) => Some(result.clone()),
            Outcome::Failed(_) => None,
        }
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
        let error = match engine.run(program, arguments, cancel) {
            Err(error) if error.kind != ErrorKind::Cancelled => error,
            other => return other,
        };
        let outcomes = salvage(engine, cancel, &self.roots, self.written, &error)?;
        let results = outcomes.iter().map(|outcome| match outcome {
            Outcome::Done(result) => Some(result.clone()),
            Outcome::Failed(_) => None,
        });
        let all = results.collect::<Option<Vec<C>>>();
        self.salvaged = Some(outcomes);
        all.ok_or(error)
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
        let mut pending = self.begin(&cells, &[], aim_of(tensors))?;
        let results = pending.run(&self.engine, &CancelToken::never());
        self.finish_commit(pending, results).map(drop)
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
        self.begin(&[], tensors, aim_of(tensors))
    }

    fn cells_of(&self, tensors: &[Handle]) -> Result<Vec<CellId>> {
        tensors.iter().map(|&tensor| Ok(self.tensors.get(tensor)?.cell)).collect()
    }

    /// Takes the results of a commit; gives the tensors that it was asked for.
    ///
    /// Errors: that of a run after which nothing has changed, or of what was asked for.
    pub fn finish_commit(
        &mut self,
        pending: Pending<E::Concrete>,
        results: Result<Vec<E::Concrete>>,
    ) -> Result<Vec<E::Concrete>> {
        let Pending { roots, wanted, salvaged, cells, asked, .. } = pending;
        let outcomes = outcomes_of(&roots, results, salvaged)?;
        let mut places: HashMap<ValueKey, usize> = HashMap::with_capacity(roots.len());
        for (at, (root, outcome)) in roots.iter().zip(&outcomes).enumerate() {
            places.insert(root.key(), at);
            if let Outcome::Done(result) = outcome {
                slot::fill(root, result)?;
            }
        }
        let failure_of = |at: usize| match outcomes.get(at) {
            Some(Outcome::Failed(failure)) => Some(failure),
            _ => None,
        };
        // What is told here is told nowhere else.
        let mut wanted: Vec<usize> = wanted.into_iter().collect();
        wanted.sort_unstable();
        let told: Vec<Error> = wanted.into_iter().filter_map(failure_of).filter_map(Failure::tell).collect();
        let mut lost: HashMap<CellId, Failure> = HashMap::new();
        for (cell, value) in cells {
            // What was written meanwhile waits for the next commit.
            let Ok(held) = self.cells.get_mut(cell) else { continue };
            if held.value != value {
                continue;
            }
            match places.get(&value.key()).and_then(|&at| failure_of(at)) {
                None => held.settle::<E::Concrete>()?,
                Some(failure) => {
                    self.take_back(cell, failure)?;
                    if !self.is_computed(cell)? {
                        lost.insert(cell, failure.clone());
                    }
                }
            }
        }
        self.drop_gradients(&lost)?;
        self.forget_computed();
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Done(_))) {
            self.commits += 1;
            self.programs += 1;
        }
        if let Some(error) = told.into_iter().next() {
            return Err(error);
        }
        let missing = || Error::new(ErrorKind::Execute, "commit", "a result is missing");
        asked
            .into_iter()
            .map(|asked| match asked {
                Asked::Known(tensor) => Ok(tensor),
                Asked::Root(at) => match outcomes.get(at) {
                    Some(Outcome::Done(result)) => Ok(result.clone()),
                    _ => Err(missing()),
                },
            })
            .collect()
    }

    /// Takes back what was written to a cell since the last commit.
    fn take_back(&mut self, cell: CellId, failure: &Failure) -> Result<()> {
        let held = self.cells.get_mut(cell)?;
        if !held.take_back::<E::Concrete>()? {
            return Ok(());
        }
        held.failure = Some(failure.clone());
        if held.requires_grad { self.register(cell) } else { Ok(()) }
    }

    fn is_computed(&self, cell: CellId) -> Result<bool> {
        slot::is_computed::<E::Concrete>(&self.cells.get(cell)?.value)
    }

    /// Takes gradients away that were never computed and cannot be: what is added to one would fail as well. The next use
    /// of the tensor tells, where nobody else has.
    fn drop_gradients(&mut self, lost: &HashMap<CellId, Failure>) -> Result<()> {
        if lost.is_empty() {
            return Ok(());
        }
        let lost_of = |(id, cell): (CellId, &Cell)| Some((id, lost.get(&cell.grad?)?.clone()));
        let owners: Vec<(CellId, Failure)> = self.cells.entries().filter_map(lost_of).collect();
        for (owner, failure) in owners {
            self.cells.get_mut(owner)?.failure.get_or_insert(failure);
            self.replace_gradient(owner, None)?;
        }
        Ok(())
    }

    /// Computes cells, and everything that was written, in one program; while a function is recorded, nothing.
    ///
    /// Errors: of the cells alone. The next use of another tells that its write failed.
    pub(crate) fn compute(&mut self, cells: &[CellId]) -> Result<()> {
        if self.is_recording() {
            return Ok(());
        }
        let mut pending = self.begin(cells, &[], Aim::Asked)?;
        let results = pending.run(&self.engine, &CancelToken::never());
        self.finish_commit(pending, results).map(drop)
    }

    pub(crate) fn begin(
        &mut self,
        cells: &[CellId],
        tensors: &[Handle],
        aim: Aim,
    ) -> Result<Pending<E::Concrete>> {
        for &cell in cells {
            self.expect_written(cell)?;
        }
        for &tensor in tensors {
            self.expect_written(self.tensors.get(tensor)?.cell)?;
        }
        let mut roots = Roots { values: Vec::new(), places: HashMap::new() };
        let mut computed: Vec<(CellId, Value)> = Vec::new();
        let written: Vec<CellId> = self.written.clone();
        let writes = written.len();
        let mut wanted = HashSet::new();
        let mut written_roots = 0;
        let mut asked = Vec::with_capacity(tensors.len());
        // What was written comes first: it is the same from step to step, whatever is read.
        for (number, cell) in written.into_iter().chain(cells.iter().copied()).enumerate() {
            let Ok(held) = self.cells.get_mut(cell) else { continue };
            held.settle::<E::Concrete>()?;
            if !slot::is_computed::<E::Concrete>(&held.value)? {
                let root = roots.place(&held.value);
                if number >= writes || aim == Aim::All {
                    wanted.insert(root);
                }
                if number < writes {
                    written_roots = roots.values.len();
                }
                computed.push((cell, held.value.clone()));
            }
        }
        for &handle in tensors {
            let tensor = self.tensors.get(handle)?;
            let cell = tensor.cell;
            let value = self.cells.get(cell)?.value.clone();
            if tensor.view.is_none() {
                asked.push(match slot::concrete::<E::Concrete>(&value)? {
                    Some(known) => Asked::Known(known),
                    None => {
                        computed.push((cell, value.clone()));
                        Asked::Root(roots.place(&value))
                    }
                });
                continue;
            }
            asked.push(match self.part(&value, tensor)? {
                Some(part) => Asked::Known(part),
                None => Asked::Root(roots.place(&self.derive(&value, tensor, true)?)),
            });
        }
        wanted.extend(asked.iter().filter_map(|asked| match asked {
            Asked::Root(at) => Some(*at),
            Asked::Known(_) => None,
        }));
        let program = match roots.values.is_empty() {
            true => None,
            false => Some(slot::resolve::<E::Concrete>(&[], &roots.values)?),
        };
        let (roots, written) = (roots.values, written_roots);
        Ok(Pending { program, roots, written, wanted, salvaged: None, cells: computed, asked })
    }
}

/// A commit of no tensors is one of everything.
fn aim_of(tensors: &[Handle]) -> Aim {
    if tensors.is_empty() { Aim::All } else { Aim::Asked }
}

/// What became of each root.
///
/// Errors: a run that was cancelled, or gave another number of results.
fn outcomes_of<C>(
    roots: &[Value],
    results: Result<Vec<C>>,
    salvaged: Option<Vec<Outcome<C>>>,
) -> Result<Vec<Outcome<C>>> {
    match (results, salvaged) {
        (Ok(results), _) if results.len() == roots.len() => {
            Ok(results.into_iter().map(Outcome::Done).collect())
        }
        (Ok(results), _) => {
            let (found, expected) = (results.len(), roots.len());
            let message = format!("the engine gave {found} results, expected {expected}");
            Err(Error::new(ErrorKind::Execute, "commit", message))
        }
        (Err(error), _) if error.kind == ErrorKind::Cancelled || roots.is_empty() => Err(error),
        (Err(_), Some(outcomes)) => Ok(outcomes),
        // A run that did not come to an end, as by a fault of the engine.
        (Err(error), None) => {
            let failure = Failure::new(error);
            Ok(roots.iter().map(|_| Outcome::Failed(failure.clone())).collect())
        }
    }
}
