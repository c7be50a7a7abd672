//! A captured function as part of the caller's graph.

use std::collections::HashMap;

use lanthorn_compiler::slot;
use lanthorn_ir::prim::Prim;
use lanthorn_ir::{Error, ErrorKind, Node, Result, Value};
use smallvec::SmallVec;

use super::{Body, Place, Source};
use crate::arena::Handle;
use crate::engine::Engine;
use crate::session::Session;

/// A graph to be applied to other values: steps in an order in which operands come first.
pub(super) struct Graph {
    steps: Vec<Step>,
    roots: Vec<Output>,
    /// The longest path.
    height: u32,
}

/// One output of a step.
#[derive(Clone, Copy)]
struct Output {
    step: usize,
    output: usize,
}

enum Step {
    Parameter(usize),
    /// A leaf with a tensor of its own.
    Leaf(Value),
    /// Stands for the value; no derivative passes.
    StandIn(Output),
    Apply(Box<Prim>, SmallVec<[Output; 3]>),
}

impl Graph {
    /// The graph from `parameters` to `roots`.
    ///
    /// Errors: a leaf that is no parameter and has no tensor.
    pub fn new<C: Clone + Send + Sync + 'static>(parameters: &[Value], roots: &[Value]) -> Result<Graph> {
        let mut steps: Vec<Step> = (0..parameters.len()).map(Step::Parameter).collect();
        let mut places: HashMap<u64, usize> =
            parameters.iter().enumerate().map(|(at, value)| (value.node().id(), at)).collect();
        // A value that awaits another waits for the walk to come to that one.
        let mut stack: Vec<Value> = roots.iter().rev().cloned().collect();
        while let Some(value) = stack.last().cloned() {
            let node = value.node();
            if places.contains_key(&node.id()) {
                stack.pop();
                continue;
            }
            let step = match value.is_leaf() {
                true => match slot::awaited::<C>(&value)? {
                    Some(awaited) => match places.get(&awaited.node().id()) {
                        Some(&step) => Step::StandIn(Output { step, output: awaited.index() }),
                        None => {
                            stack.push(awaited);
                            continue;
                        }
                    },
                    None if slot::is_computed::<C>(&value)? => Step::Leaf(value.clone()),
                    None => return Err(unbound(&value)),
                },
                false => {
                    let missing = node.inputs().iter().find(|input| !places.contains_key(&input.node().id()));
                    if let Some(missing) = missing {
                        stack.push(missing.clone());
                        continue;
                    }
                    let operand =
                        |input: &Value| Output { step: places[&input.node().id()], output: input.index() };
                    Step::Apply(Box::new(node.prim().clone()), node.inputs().iter().map(operand).collect())
                }
            };
            places.insert(node.id(), steps.len());
            steps.push(step);
            stack.pop();
        }
        let place = |value: &Value| Output { step: places[&value.node().id()], output: value.index() };
        let roots = roots.iter().map(place).collect();
        let mut heights: Vec<u32> = Vec::with_capacity(steps.len());
        for step in &steps {
            heights.push(match step {
                Step::Parameter(_) | Step::Leaf(_) => 0,
                Step::StandIn(of) => heights[of.step],
                Step::Apply(_, inputs) => {
                    inputs.iter().map(|input| heights[input.step]).max().map_or(0, |height| height + 1)
                }
            });
        }
        Ok(Graph { steps, roots, height: heights.into_iter().max().unwrap_or(0) })
    }

    /// The roots for these values of the parameters.
    fn apply<C: Clone + Send + Sync + 'static>(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        let mut values: Vec<SmallVec<[Value; 1]>> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let at = |output: &Output| values[output.step][output.output].clone();
            let outputs = match step {
                Step::Parameter(number) => SmallVec::from_iter([arguments[*number].clone()]),
                Step::Leaf(value) => SmallVec::from_iter([value.clone()]),
                Step::StandIn(of) => SmallVec::from_iter([slot::stand_in::<C>(&at(of))?]),
                Step::Apply(prim, inputs) => {
                    let inputs = inputs.iter().map(at).collect();
                    Node::outputs(&Node::new(Prim::clone(prim), inputs)?)
                }
            };
            values.push(outputs);
        }
        Ok(self.roots.iter().map(|root| values[root.step][root.output].clone()).collect())
    }
}

fn unbound(value: &Value) -> Error {
    let message = format!(
        "the function reads a tensor of {} that another trace has made and that has no value; make it outside",
        value.ty()
    );
    Error::new(ErrorKind::InvalidHandle, "func", message)
}

impl<E: Engine> Session<E> {
    /// Adds a captured function to the graph of `inputs`; derivatives pass through it.
    pub(super) fn inline(&mut self, captured: Handle, inputs: &[Handle]) -> Result<Vec<Handle>> {
        let captured = self.captured(captured)?.clone();
        let Body::Graph(graph) = &captured.body else { return Ok(Vec::new()) };
        let (expected, found) = (captured.inputs.len(), inputs.len());
        if expected != found {
            return Err(captured.error(format!("args mismatch: got {found} tensors, expected {expected}")));
        }
        let (mut is_tracked, mut pending, mut height) = (false, 0, 0);
        let mut arguments = Vec::with_capacity(captured.sources.len());
        for source in &captured.sources {
            let operand = match *source {
                Source::Value(Place::Input(at)) => {
                    let (operand, input) = (self.operand(inputs[at])?, &captured.inputs[at]);
                    if *operand.value.ty() != input.ty {
                        let (found, expected) = (operand.value.ty(), &input.ty);
                        return Err(captured.error(format!(
                            "args mismatch: argument {at} is {found}, expected {expected} as in the call that was traced"
                        )));
                    }
                    operand
                }
                Source::Value(Place::Cell(cell)) => self.operand_of_cell(cell)?,
                Source::Key => {
                    arguments.push(self.next_key()?);
                    continue;
                }
                Source::Gradient(_) => return Err(captured.error("such a function reads no gradients")),
            };
            is_tracked |= operand.is_tracked;
            pending = pending.max(operand.pending);
            height = height.max(operand.height);
            arguments.push(operand.value);
        }
        let values = graph.apply::<E::Concrete>(&arguments)?;
        // A stand-in inside of the graph waits as one outside does.
        let waits = graph.steps.iter().any(|step| matches!(step, Step::StandIn(_)));
        let pending = if waits { pending.saturating_add(1) } else { pending };
        let height = height.saturating_add(graph.height).saturating_add(1);
        let mut handles = Vec::with_capacity(captured.outputs.len());
        for &root in &captured.outputs {
            match self.new_result(values[root].clone(), is_tracked, pending, height) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    handles.into_iter().try_for_each(|handle| self.release(handle))?;
                    return Err(error);
                }
            }
        }
        captured.count_call();
        Ok(handles)
    }
}
