//! The engine of `backward` and `grad`: nodes from the newest to the oldest, gradients summed where they meet.
//!
//! It runs in the thread that asks, any number of them at once. No lock is held while a derivative, a hook or an
//! addition runs, so hooks may do what they like.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_ir::TensorType;
use lanthorn_ir::layout::ShowShape;
use smallvec::SmallVec;

use super::grad_mode;
use super::history::{gradient_edge, requires_grad};
use super::hook;
use super::node::{Call, CopySlices, Edge, Gradients, Kind, Node};
use crate::error::{Error, Result};
use crate::ops;
use crate::tensor::Tensor;

/// How to run backward.
#[derive(Clone, Copy)]
pub struct Backward<'a> {
    /// Keep saved tensors for another run.
    pub retain_graph: bool,
    /// Record the derivatives themselves.
    pub create_graph: bool,
    /// Asked between nodes; an error stops the run, for example an interrupt by the user.
    pub poll: Option<&'a dyn Fn() -> Result<()>>,
}

/// Accumulates gradients of `outputs` into the leaves they depend on, or only into `inputs`.
/// `gradients` are those of the outputs; `None` is 1, for outputs with one element.
pub fn backward(
    outputs: &[Tensor],
    gradients: &[Option<Tensor>],
    inputs: Option<&[Tensor]>,
    options: &Backward<'_>,
) -> Result<()> {
    let roots = roots(outputs, gradients, options.create_graph)?;
    let captures = match inputs {
        None => None,
        Some(inputs) => {
            let found = capture_edges(inputs)?;
            if found.is_empty() {
                return Err(Error::runtime("'inputs' argument to backward cannot be empty."));
            }
            Some(found)
        }
    };
    let mut run = Run::new(&roots, captures.as_deref().unwrap_or_default(), captures.is_some(), options);
    let results = run.execute(roots)?;
    if let Some(inputs) = inputs {
        for (input, gradient) in inputs.iter().zip(results) {
            if let Some(gradient) = gradient {
                accumulate(input, gradient, options.create_graph)?;
            }
        }
    }
    Ok(())
}

/// The gradients of `outputs` with respect to `inputs`; `None` for an input on which they do not depend.
pub fn grad(
    outputs: &[Tensor],
    gradients: &[Option<Tensor>],
    inputs: &[Tensor],
    allow_unused: bool,
    options: &Backward<'_>,
) -> Result<Vec<Option<Tensor>>> {
    if inputs.is_empty() {
        return Err(Error::value("grad requires non-empty inputs."));
    }
    let roots = roots(outputs, gradients, options.create_graph)?;
    let captures = capture_edges(inputs)?;
    let results = Run::new(&roots, &captures, true, options).execute(roots)?;
    if !allow_unused && results.iter().any(Option::is_none) {
        return Err(Error::runtime(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if \
             this is the desired behavior.",
        ));
    }
    Ok(results)
}

fn capture_edges(inputs: &[Tensor]) -> Result<Vec<Edge>> {
    let edge = |input: &Tensor| {
        gradient_edge(input)
            .ok_or_else(|| Error::runtime("One of the differentiated Tensors does not require grad"))
    };
    inputs.iter().map(edge).collect()
}

/// Where the run begins, with a gradient for each output.
fn roots(
    outputs: &[Tensor],
    gradients: &[Option<Tensor>],
    create_graph: bool,
) -> Result<Vec<(Edge, Tensor)>> {
    let mut roots = Vec::with_capacity(outputs.len());
    for (at, output) in outputs.iter().enumerate() {
        let Some(edge) = gradient_edge(output) else {
            return Err(Error::runtime(format!(
                "element {at} of tensors does not require grad and does not have a grad_fn"
            )));
        };
        let gradient = match gradients.get(at).and_then(Option::as_ref) {
            Some(gradient) => {
                if gradient.shape() != output.shape() {
                    return Err(Error::runtime(format!(
                        "Mismatch in shape: grad_output[{at}] has a shape of torch.Size({}) and output[{at}] has a \
                         shape of torch.Size({}).",
                        ShowShape(gradient.shape()),
                        ShowShape(output.shape())
                    )));
                }
                if create_graph || !requires_grad(gradient) { gradient.clone() } else { gradient.detach() }
            }
            None => {
                if output.numel() != 1 {
                    return Err(Error::runtime("grad can be implicitly created only for scalar outputs"));
                }
                if !output.dtype().is_float() {
                    return Err(Error::runtime(format!(
                        "grad can be implicitly created only for real scalar outputs but got {}",
                        output.dtype()
                    )));
                }
                ops::factory::full(output.shape(), 1.0.into(), output.dtype(), output.is_meta())?
            }
        };
        roots.push((edge, gradient));
    }
    Ok(roots)
}

/// A node that waits for its turn: the newest first.
struct Ready(Arc<Node>);

impl PartialEq for Ready {
    fn eq(&self, other: &Ready) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Ready {}
impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Ready) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ready {
    fn cmp(&self, other: &Ready) -> Ordering {
        self.0.sequence().cmp(&other.0.sequence())
    }
}

/// One backward pass.
struct Run<'a> {
    options: &'a Backward<'a>,
    /// How many edges into each node have not delivered yet.
    dependencies: HashMap<usize, usize>,
    /// What has reached each node, by input.
    buffers: HashMap<usize, Gradients>,
    captures: HashMap<usize, Vec<(usize, usize)>>,
    /// The nodes that lead to captures; `None`: all run.
    needed: Option<HashSet<usize>>,
    results: Vec<Option<Tensor>>,
}

impl<'a> Run<'a> {
    fn new(
        roots: &[(Edge, Tensor)],
        captured: &[Edge],
        only_captures: bool,
        options: &'a Backward<'a>,
    ) -> Run<'a> {
        let mut captures: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
        for (at, edge) in captured.iter().enumerate() {
            captures.entry(edge.node.id()).or_default().push((edge.input, at));
        }
        let mut dependencies: HashMap<usize, usize> = HashMap::new();
        // Depth first, children before parents in `order`, by a stack of our own.
        let mut seen: HashSet<usize> = HashSet::new();
        let mut order: Vec<Arc<Node>> = Vec::new();
        let mut stack: Vec<(Arc<Node>, usize)> = Vec::new();
        for (edge, _) in roots {
            if seen.insert(edge.node.id()) {
                stack.push((edge.node.clone(), 0));
            }
            while let Some((node, at)) = stack.last_mut() {
                let Some(next) = node.edges().get(*at) else {
                    let (node, _) = stack.swap_remove(stack.len() - 1);
                    order.push(node);
                    continue;
                };
                *at += 1;
                if let Some(edge) = next {
                    *dependencies.entry(edge.node.id()).or_default() += 1;
                    if seen.insert(edge.node.id()) {
                        let child = edge.node.clone();
                        stack.push((child, 0));
                    }
                }
            }
        }
        let needed = only_captures.then(|| {
            let mut needed: HashSet<usize> = HashSet::new();
            for node in &order {
                let leads = |edge: &Edge| needed.contains(&edge.node.id());
                if captures.contains_key(&node.id()) || node.edges().iter().flatten().any(leads) {
                    needed.insert(node.id());
                }
            }
            needed
        });
        let results = vec![None; captured.len()];
        Run { options, dependencies, buffers: HashMap::new(), captures, needed, results }
    }

    fn execute(&mut self, roots: Vec<(Edge, Tensor)>) -> Result<Vec<Option<Tensor>>> {
        let _mode = grad_mode::Guard::new(self.options.create_graph);
        let mut queue: BinaryHeap<Ready> = BinaryHeap::new();
        let mut waiting: HashSet<usize> = HashSet::new();
        for (edge, gradient) in roots {
            self.deliver(&edge, gradient)?;
            let id = edge.node.id();
            if self.dependencies.get(&id).copied().unwrap_or(0) == 0 && waiting.insert(id) {
                queue.push(Ready(edge.node));
            }
        }
        while let Some(Ready(node)) = queue.pop() {
            if let Some(poll) = self.options.poll {
                poll()?;
            }
            let gradients = self.run_node(&node)?;
            for (at, edge) in node.edges().iter().enumerate() {
                let Some(edge) = edge else { continue };
                if let Some(gradient) = gradients.as_ref().and_then(|g| g.get(at)).cloned().flatten() {
                    self.deliver(edge, gradient)?;
                }
                let id = edge.node.id();
                let left = self.dependencies.entry(id).or_insert(1);
                *left -= 1;
                if *left == 0 && waiting.insert(id) {
                    queue.push(Ready(edge.node.clone()));
                }
            }
        }
        Ok(std::mem::take(&mut self.results))
    }

    /// Adds a gradient to what has reached an input of a node.
    fn deliver(&mut self, edge: &Edge, gradient: Tensor) -> Result<()> {
        let buffer = self.buffers.entry(edge.node.id()).or_default();
        if buffer.len() <= edge.input {
            buffer.resize(edge.input + 1, None);
        }
        let sum = match buffer[edge.input].take() {
            Some(before) => ops::arithmetic::add(&before, &gradient)?,
            None => gradient,
        };
        buffer[edge.input] = Some(sum);
        Ok(())
    }

    /// Runs one node; `None` if nobody needs what it gives.
    fn run_node(&mut self, node: &Arc<Node>) -> Result<Option<Gradients>> {
        let mut gradients = self.buffers.remove(&node.id()).unwrap_or_default();
        for (output, slot) in gradients.iter_mut().enumerate() {
            let Some(gradient) = slot.take() else { continue };
            let gradient = match node.kind() {
                Kind::Accumulate(leaf) => {
                    let hooks = leaf.peek_meta(|meta| meta.hooks.snapshot()).unwrap_or_default();
                    hook::through(&hooks, gradient)?
                }
                _ => hook::through(&node.hooks_of(output), gradient)?,
            };
            for tensor in node.retained(output) {
                let sum = match tensor.peek_meta(|meta| meta.grad.clone()).flatten() {
                    Some(before) => ops::arithmetic::add(&before, &gradient)?,
                    None => ops::copy::clone(&gradient)?,
                };
                let old = tensor.with_meta(|meta| meta.grad.replace(sum));
                drop(old);
            }
            *slot = Some(gradient);
        }
        if let Some(captured) = self.captures.get(&node.id()) {
            for &(input, result) in captured {
                self.results[result] = gradients.get(input).cloned().flatten();
            }
        }
        if self.needed.is_some() {
            let leads = |edge: &Edge| self.needed.as_ref().is_some_and(|n| n.contains(&edge.node.id()));
            if !node.edges().iter().flatten().any(leads) {
                return Ok(None);
            }
        }
        if gradients.iter().all(Option::is_none) {
            return Ok(None);
        }
        let wanted: SmallVec<[bool; 2]> = node.edges().iter().map(|edge| self.is_wanted(edge)).collect();
        let results = match node.kind() {
            Kind::Accumulate(leaf) => {
                // It may have been frozen since the graph was built.
                if let Some(gradient) = gradients.first_mut().and_then(Option::take)
                    && requires_grad(leaf)
                {
                    accumulate(leaf, gradient, self.options.create_graph)?;
                }
                return Ok(None);
            }
            Kind::Function(_) => call(node, &gradients, &wanted)?,
            Kind::CopySlices(slices) => {
                copy_slices(slices, gradients.first().and_then(Option::as_ref), &wanted)?
            }
        };
        if !self.options.retain_graph {
            node.release();
        }
        validate(node, results).map(Some)
    }

    fn is_wanted(&self, edge: &Option<Edge>) -> bool {
        match (edge, &self.needed) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(edge), Some(needed)) => needed.contains(&edge.node.id()),
        }
    }
}

fn call(node: &Arc<Node>, gradients: &[Option<Tensor>], wanted: &[bool]) -> Result<Gradients> {
    let Kind::Function(formula) = node.kind() else { return Ok(Gradients::new()) };
    let saved = node.unpack()?;
    formula(&Call { gradients, saved: &saved, wanted })
}

/// The derivative of a write over a part of a base: that of the op for the part, the identity for the rest.
fn copy_slices(slices: &CopySlices, gradient: Option<&Tensor>, wanted: &[bool]) -> Result<Gradients> {
    let Some(gradient) = gradient else { return Ok(Gradients::new()) };
    let CopySlices { base, view, inner, .. } = slices;
    // The gradient in the base's own geometry, so that the view's strides mean the same elements.
    let whole = ops::copy::copy_with_layout(gradient, base)?;
    let offset = view.offset.saturating_sub(base.offset);
    let at = lanthorn_ir::Layout { offset: whole.layout().offset + offset, ..view.clone() };
    let part = ops::views::as_strided_at(&whole, &at)?;
    let mut inner_wanted: SmallVec<[bool; 2]> = SmallVec::from_slice(wanted);
    if let Some(first) = inner_wanted.first_mut() {
        *first = true;
    }
    let results = call(inner, &[Some(ops::copy::clone(&part)?)], &inner_wanted)?;
    let mut results = validate(inner, results)?;
    match results.first_mut().and_then(Option::take) {
        Some(result) => ops::in_place::copy_(&part, &result)?,
        None => ops::in_place::zero_(&part)?,
    }
    if let Some(first) = results.first_mut() {
        *first = Some(whole);
    }
    Ok(results)
}

/// Brings each gradient to the type of the output that it is a gradient of.
fn validate(node: &Node, mut gradients: Gradients) -> Result<Gradients> {
    for (at, edge) in node.edges().iter().enumerate() {
        let (Some(edge), Some(slot)) = (edge, gradients.get_mut(at)) else { continue };
        let Some(gradient) = slot.take() else { continue };
        let Some(ty) = edge.node.outputs().get(edge.input) else { continue };
        *slot = Some(fit(node, at, gradient, ty)?);
    }
    Ok(gradients)
}

fn fit(node: &Node, at: usize, gradient: Tensor, ty: &TensorType) -> Result<Tensor> {
    let mut gradient = gradient;
    if gradient.shape() != &ty.shape[..] {
        if !ops::broadcasts(&ty.shape, gradient.shape()) {
            return Err(Error::runtime(format!(
                "Function {} returned an invalid gradient at index {at} - got {} but expected shape compatible with {}",
                node.name(),
                ShowShape(gradient.shape()),
                ShowShape(&ty.shape)
            )));
        }
        gradient = ops::reduce::sum_to_size(&gradient, &ty.shape)?;
    }
    if gradient.dtype() != ty.dtype {
        gradient = ops::copy::to(&gradient, ty.dtype)?;
    }
    Ok(gradient)
}

/// Adds to the gradient of a leaf, then calls its hooks.
fn accumulate(leaf: &Tensor, gradient: Tensor, create_graph: bool) -> Result<()> {
    /// Two threads that add to one leaf take turns; one lock for all, since additions are short and rarely meet.
    static TURN: Mutex<()> = Mutex::new(());
    let old = {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = leaf.peek_meta(|meta| meta.grad.clone()).flatten();
        let sum = match before {
            // As upstream does: who holds the gradient sees the sum.
            Some(before)
                if !create_graph && before.ty() == gradient.ty() && before.layout().is_contiguous() =>
            {
                let _mode = grad_mode::Guard::new(false);
                ops::in_place::add_(&before, &gradient)?;
                before
            }
            Some(before) => {
                let _mode = grad_mode::Guard::new(create_graph);
                ops::arithmetic::add(&before, &gradient)?
            }
            None if create_graph && requires_grad(&gradient) => ops::copy::clone(&gradient)?,
            // Nobody else sees it: it may be the leaf's own.
            None if gradient.is_unique()
                && gradient.layout().is_contiguous()
                && gradient.base().is_none() =>
            {
                if requires_grad(&gradient) {
                    gradient.detach()
                } else {
                    gradient
                }
            }
            None => {
                let _mode = grad_mode::Guard::new(false);
                ops::copy::clone(&gradient)?
            }
        };
        leaf.with_meta(|meta| meta.grad.replace(sum))
    };
    drop(old);
    let hooks = leaf.peek_meta(|meta| meta.post_accumulate.snapshot()).unwrap_or_default();
    for hook in &hooks {
        hook.call(leaf)?;
    }
    Ok(())
}
