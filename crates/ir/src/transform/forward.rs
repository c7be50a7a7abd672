//! Forward derivative and vectorisation of the lazy graph: each node is visited once, operands first.

use std::collections::HashMap;

use crate::builder::Lazy;
use crate::error::{Error, Result};
use crate::graph::{Node, Value, ValueKey, topological};
use crate::layout::Dims;
use crate::ops;
use crate::prim::Batched;
use crate::prim::derived::{forward, mapped};

/// Tangents of `outputs` from those of `inputs`; `None` is zero.
///
/// Errors: a tangent whose type is not its input's.
pub fn jvp(outputs: &[Value], inputs: &[Value], tangents: &[Value]) -> Result<Vec<Option<Value>>> {
    super::gradient::check_wrt("jvp", &Lazy, inputs)?;
    if inputs.len() != tangents.len() {
        let (n, m) = (inputs.len(), tangents.len());
        return Err(Error::shape("jvp", format!("{m} tangents for {n} inputs")));
    }
    let mut known: HashMap<ValueKey, Value> = HashMap::new();
    for (i, (input, tangent)) in inputs.iter().zip(tangents).enumerate() {
        if input.ty() != tangent.ty() {
            let (expected, found) = (input.ty(), tangent.ty());
            return Err(Error::shape("jvp", format!("tangent {i} is {found}, expected {expected}")));
        }
        known.insert(input.key(), tangent.clone());
    }
    let oldest = inputs.iter().map(|value| value.node().id()).min().unwrap_or(u64::MAX);
    for node in topological(outputs, |node| node.id() < oldest) {
        let incoming: Vec<Option<Value>> =
            node.inputs().iter().map(|input| known.get(&input.key()).cloned()).collect();
        let values = Node::outputs(&node);
        let outgoing = forward(&Lazy, node.prim(), node.inputs(), &values, &incoming)?;
        for (value, tangent) in values.iter().zip(outgoing) {
            if let Some(tangent) = tangent {
                // An input's tangent is the caller's, even where it depends on another input.
                known.entry(value.key()).or_insert(tangent);
            }
        }
    }
    Ok(outputs.iter().map(|output| known.get(&output.key()).cloned()).collect())
}

/// `f` over axis 0 of the mapped arguments, which all have one size there; `false` in `mapped_arguments`
/// passes an argument whole. Results carry the new axis in front.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value, ops, transform};
///
/// let rows = Value::leaf(TensorType::new(DType::F32, [5, 3]))?;
/// let w = Value::leaf(TensorType::new(DType::F32, [3]))?;
/// let dots = transform::vmap(|v| Ok(vec![ops::dot(&Lazy, &v[0], &v[1])?]), &[rows, w], &[true, false])?;
/// assert_eq!(dots[0].ty().shape[..], [5]);
/// # Ok::<(), lanthorn_ir::Error>(())
/// ```
pub fn vmap(
    f: impl FnOnce(&[Value]) -> Result<Vec<Value>>,
    arguments: &[Value],
    mapped_arguments: &[bool],
) -> Result<Vec<Value>> {
    let size = mapped_size(arguments, mapped_arguments)?;
    let mut elements = Vec::with_capacity(arguments.len());
    for (argument, &is_mapped) in arguments.iter().zip(mapped_arguments) {
        let mut element = argument.clone();
        if is_mapped {
            let mut ty = argument.ty().clone();
            ty.shape.remove(0);
            element = Value::leaf(ty)?;
        }
        elements.push(element);
    }
    let outputs = f(&elements)?;
    let pairs = elements.into_iter().zip(arguments).zip(mapped_arguments);
    let replaced: Vec<(Value, Value)> =
        pairs.filter(|(_, m)| **m).map(|((element, argument), _)| (element, argument.clone())).collect();
    vmap_graph(&outputs, &replaced, size)
}

/// [`vmap`] over any axis of each argument and into any axis of each result. `None` in `in_axes` passes an argument
/// whole; axes count from the end where negative; one axis in `out_axes` serves all results.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value, ops, transform};
///
/// let columns = Value::leaf(TensorType::new(DType::F32, [3, 5]))?;
/// let norms = |v: &[Value]| Ok(vec![ops::mul_scalar(&Lazy, &v[0], 2.0)?]);
/// let doubled = transform::vmap_axes(norms, &[columns], &[Some(1)], &[-1])?;
/// assert_eq!(doubled[0].ty().shape[..], [3, 5]);
/// # Ok::<(), lanthorn_ir::Error>(())
/// ```
pub fn vmap_axes(
    f: impl FnOnce(&[Value]) -> Result<Vec<Value>>,
    arguments: &[Value],
    in_axes: &[Option<isize>],
    out_axes: &[isize],
) -> Result<Vec<Value>> {
    let fail = |message: String| Err(Error::shape("vmap", message));
    if arguments.len() != in_axes.len() {
        return fail(format!("{} axes for {} arguments", in_axes.len(), arguments.len()));
    }
    let fits = |axis: isize, rank: usize| axis >= -(rank as isize) && axis < rank as isize;
    let mut turned = Vec::with_capacity(arguments.len());
    for (i, (argument, axis)) in arguments.iter().zip(in_axes).enumerate() {
        let rank = argument.ty().rank();
        turned.push(match *axis {
            Some(axis) if fits(axis, rank) => ops::move_axis(&Lazy, argument, axis, 0)?,
            Some(axis) => {
                let ty = argument.ty();
                return fail(format!("argument {i} has no axis {axis}; {ty} has axes -{rank}..{rank}"));
            }
            None => argument.clone(),
        });
    }
    let mapped: Vec<bool> = in_axes.iter().map(Option::is_some).collect();
    let outputs = vmap(f, &turned, &mapped)?;
    if out_axes.len() != 1 && out_axes.len() != outputs.len() {
        let (n, m) = (outputs.len(), out_axes.len());
        return fail(format!("{m} axes for {n} results, expected 1 or {n}"));
    }
    let mut results = Vec::with_capacity(outputs.len());
    for (i, (output, &axis)) in outputs.iter().zip(out_axes.iter().cycle()).enumerate() {
        let rank = output.ty().rank();
        if !fits(axis, rank) {
            let ty = output.ty();
            return fail(format!("result {i} has no axis {axis}; {ty} has axes -{rank}..{rank}"));
        }
        results.push(ops::move_axis(&Lazy, output, 0, axis)?);
    }
    Ok(results)
}

/// The graph of `outputs` with each first value of `replaced` given by the second, which has a leading axis
/// of that size.
pub fn vmap_graph(outputs: &[Value], replaced: &[(Value, Value)], size: usize) -> Result<Vec<Value>> {
    vmap_graph_by(outputs, replaced, size, |node, inputs| node.prim().batch(&Lazy, size, inputs))
}

/// [`vmap_graph`] in which `rule` says what a node becomes that a replaced value reaches; operands come before their
/// users. [`Prim::batch`](crate::Prim::batch) is what a node is by itself.
pub fn vmap_graph_by(
    outputs: &[Value],
    replaced: &[(Value, Value)],
    size: usize,
    mut rule: impl FnMut(&Node, &[Batched<Value>]) -> Result<Vec<Batched<Value>>>,
) -> Result<Vec<Value>> {
    let mut known: HashMap<ValueKey, Batched<Value>> = HashMap::new();
    for (element, batch) in replaced {
        let mut expected = Dims::from_slice(&[size]);
        expected.extend_from_slice(&element.ty().shape);
        if batch.ty().shape != expected || batch.ty().dtype != element.ty().dtype {
            let (found, expected) = (batch.ty(), element.ty());
            return Err(Error::shape("vmap", format!("{found} does not hold {size} values of {expected}")));
        }
        known.insert(element.key(), Batched { value: batch.clone(), mapped: true });
    }
    let oldest = replaced.iter().map(|(element, _)| element.node().id()).min().unwrap_or(u64::MAX);
    let lookup = |known: &HashMap<ValueKey, Batched<Value>>, value: &Value| {
        known.get(&value.key()).cloned().unwrap_or(Batched { value: value.clone(), mapped: false })
    };
    for node in topological(outputs, |node| node.id() < oldest) {
        // What no replaced value reaches stays as it is.
        if node.inputs().iter().any(|input| known.contains_key(&input.key())) {
            let inputs: Vec<Batched<Value>> =
                node.inputs().iter().map(|input| lookup(&known, input)).collect();
            let batched = rule(&node, &inputs)?;
            for (value, batched) in Node::outputs(&node).iter().zip(batched) {
                known.entry(value.key()).or_insert(batched);
            }
        }
    }
    outputs.iter().map(|output| mapped(&Lazy, size, &lookup(&known, output))).collect()
}

/// The common size of axis 0 of the mapped arguments.
fn mapped_size(arguments: &[Value], mapped_arguments: &[bool]) -> Result<usize> {
    let fail = |message: String| Err(Error::shape("vmap", message));
    if arguments.len() != mapped_arguments.len() {
        let (n, m) = (arguments.len(), mapped_arguments.len());
        return fail(format!("{m} flags for {n} arguments"));
    }
    let mut size = None;
    for (i, (argument, _)) in arguments.iter().zip(mapped_arguments).enumerate().filter(|(_, (_, m))| **m) {
        let Some(&found) = argument.ty().shape.first() else {
            return fail(format!("argument {i} has rank 0 and no axis to map over"));
        };
        match size {
            Some(size) if size != found => {
                return fail(format!("argument {i} has {found} elements on axis 0, others have {size}"));
            }
            _ => size = Some(found),
        }
    }
    size.map_or_else(|| fail("no argument is mapped".into()), Ok)
}
