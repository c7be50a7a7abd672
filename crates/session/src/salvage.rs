//! What is left of a commit that failed: everything that does not depend on what failed.
//!
//! A failed program says nothing of which of its results can be computed, so smaller ones are tried. What was written
//! falls into groups that share something that is not computed. Of a group the writes are carried out up to the first
//! that fails, in the order in which they were made; that one and those after it are taken back together, so that a
//! training step writes all of a model or nothing of it.

use std::collections::HashMap;

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::slot;
use lanthorn_ir::{Error, ErrorKind, Result, Value};

use crate::cell::Failure;
use crate::engine::Engine;

/// What became of a value.
#[derive(Clone)]
pub(crate) enum Outcome<C> {
    Done(C),
    Failed(Failure),
}

/// Computes what can be computed of `roots`, the first `written` of which are writes in their order.
///
/// Errors: the work was cancelled.
pub(crate) fn salvage<E: Engine>(
    engine: &E,
    cancel: &CancelToken,
    roots: &[Value],
    written: usize,
    error: &Error,
) -> Result<Vec<Outcome<E::Concrete>>> {
    // Until it is known to be computed, a root shares the error of them all.
    let mut outcomes = vec![Outcome::Failed(Failure::new(error.clone())); roots.len()];
    for group in groups::<E::Concrete>(roots)? {
        let (writes, rest): (Vec<usize>, Vec<usize>) =
            group.into_iter().partition(|&number| number < written);
        // What is only read fails of the writes that it sees, so that one error is told of both.
        let mut failure = None;
        for numbers in [writes, rest].into_iter().filter(|numbers| !numbers.is_empty()) {
            // All of the roots have just been tried.
            let known = (numbers.len() == roots.len()).then(|| error.clone());
            let attempt = Attempt { engine, cancel, roots, numbers: &numbers };
            attempt.carry_out(known, &mut failure, &mut outcomes)?;
        }
    }
    Ok(outcomes)
}

/// Some of the roots, by their numbers.
struct Attempt<'a, E: Engine> {
    engine: &'a E,
    cancel: &'a CancelToken,
    roots: &'a [Value],
    numbers: &'a [usize],
}

impl<E: Engine> Attempt<'_, E> {
    /// Computes as many of the first roots as can be; `failed` is the error of all of them together, where it is known.
    fn carry_out(
        &self,
        failed: Option<Error>,
        failure: &mut Option<Failure>,
        outcomes: &mut [Outcome<E::Concrete>],
    ) -> Result<()> {
        let mut error = match failed {
            Some(error) => error,
            None => match self.compute(0, self.numbers.len())? {
                Ok(results) => {
                    self.note(0, results, outcomes);
                    return Ok(());
                }
                Err(error) => error,
            },
        };
        // The first that fails is found by steps that double until one fails, and are halved from there.
        let (mut done, mut step, mut grows) = (0, 1, true);
        while done < self.numbers.len() && self.numbers.len() > 1 {
            step = step.min(self.numbers.len() - done);
            match self.compute(done, done + step)? {
                Ok(results) => {
                    self.note(done, results, outcomes);
                    done += step;
                    step = if grows { 2 * step } else { (step / 2).max(1) };
                }
                Err(found) => {
                    error = found;
                    if step == 1 {
                        break;
                    }
                    (step, grows) = (step / 2, false);
                }
            }
        }
        let failure = failure.get_or_insert_with(|| Failure::new(error));
        for &number in self.numbers.iter().skip(done) {
            if let Some(outcome) = outcomes.get_mut(number) {
                *outcome = Outcome::Failed(failure.clone());
            }
        }
        Ok(())
    }

    /// Computes the roots from one place in the list to another; what is computed stays with its value.
    fn compute(&self, from: usize, to: usize) -> Result<Result<Vec<E::Concrete>>> {
        let values: Vec<Value> =
            self.numbers[from..to].iter().filter_map(|&number| self.roots.get(number).cloned()).collect();
        let results = slot::resolve::<E::Concrete>(&[], &values).and_then(|(program, arguments)| {
            if self.cancel.is_cancelled() {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "commit",
                    "the work was cancelled by its caller",
                ));
            }
            self.engine.run(program, arguments, self.cancel)
        });
        match results {
            Err(error) if error.kind == ErrorKind::Cancelled => Err(error),
            Err(error) => Ok(Err(error)),
            Ok(results) => {
                for (value, result) in values.iter().zip(&results) {
                    slot::fill(value, result)?;
                }
                Ok(Ok(results))
            }
        }
    }

    fn note(&self, from: usize, results: Vec<E::Concrete>, outcomes: &mut [Outcome<E::Concrete>]) {
        for (&number, result) in self.numbers.iter().skip(from).zip(results) {
            if let Some(outcome) = outcomes.get_mut(number) {
                *outcome = Outcome::Done(result);
            }
        }
    }
}

/// The first root of a group, found from one to the one before it.
fn first(before: &[usize], mut number: usize) -> usize {
    while before[number] != number {
        number = before[number];
    }
    number
}

/// The numbers of the roots that share something that is not computed, in the order of their first.
fn groups<C: Clone + Send + Sync + 'static>(roots: &[Value]) -> Result<Vec<Vec<usize>>> {
    // For each root one before it of its group, or itself.
    let mut before: Vec<usize> = (0..roots.len()).collect();
    let mut reached: HashMap<u64, usize> = HashMap::new();
    for (number, root) in roots.iter().enumerate() {
        let mut stack = vec![root.clone()];
        while let Some(value) = stack.pop() {
            if slot::is_computed::<C>(&value)? {
                continue;
            }
            if value.is_leaf() {
                stack.extend(slot::awaited::<C>(&value)?);
                continue;
            }
            let node = value.node();
            // Constants fail nowhere.
            if node.inputs().is_empty() {
                continue;
            }
            match reached.get(&node.id()) {
                Some(&other) => {
                    let (a, b) = (first(&before, number), first(&before, other));
                    before[a.max(b)] = a.min(b);
                }
                None => {
                    reached.insert(node.id(), number);
                    stack.extend(node.inputs().iter().cloned());
                }
            }
        }
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); roots.len()];
    for number in 0..roots.len() {
        groups[first(&before, number)].push(number);
    }
    groups.retain(|group| !group.is_empty());
    Ok(groups)
}
