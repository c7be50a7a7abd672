//! Rules that follow from a composition: what a compound primitive takes where it has no rule of its own.
//!
//! The composition is captured once as a graph over operand types and then interpreted, so no rule is
//! instantiated for yet another builder.

use smallvec::SmallVec;

use super::{Applied, Batched, Optional, Prim};
use crate::builder::{Builder, Lazy};
use crate::error::Result;
use crate::graph::{Subgraph, Value};
use crate::layout::{Dims, TensorType};
use crate::ops;
use crate::transform::record::{Recording, reverse};

/// A composition over operands of the types of `inputs`, as a graph.
pub(crate) fn capture<B: Builder>(
    b: &B,
    inputs: &[B::Value],
    compose: impl FnOnce(&Lazy, &[Value]) -> Result<Vec<Value>>,
) -> Result<Subgraph> {
    let leaves = inputs.iter().map(|x| Value::leaf(b.ty(x).clone())).collect::<Result<Vec<_>>>()?;
    let roots = compose(&Lazy, &leaves)?;
    Ok(Subgraph::capture(&leaves, &roots))
}

/// A compound primitive's decomposition as a graph.
pub(crate) fn decomposition<B: Builder>(b: &B, prim: &Prim, inputs: &[B::Value]) -> Result<Subgraph> {
    capture(b, inputs, |lazy, leaves| Ok(prim.decompose_or_fail(lazy, leaves)?.into_vec()))
}

/// Reverse derivative through a graph; its intermediate values are computed (again) from the operands.
pub(crate) fn vjp_through<B: Builder>(
    b: &B,
    graph: &Subgraph,
    at: &Applied<'_, B::Value>,
    cotangents: &[Option<B::Value>],
) -> Result<Optional<B::Value>> {
    let recording = Recording::of(b, graph, at.inputs)?;
    let seeds = recording.roots.iter().zip(cotangents).filter_map(|(&root, ct)| Some((root, ct.clone()?)));
    let wanted: Vec<usize> = (0..at.inputs.len()).filter(|&i| at.wants(i)).collect();
    let found = reverse(
        b,
        recording.count,
        recording.records.len(),
        |index| recording.records[index].clone(),
        seeds.collect(),
        &wanted,
    )?;
    let mut cotangents = at.no_cotangents();
    for (input, cotangent) in wanted.into_iter().zip(found) {
        cotangents[input] = cotangent;
    }
    Ok(cotangents)
}

/// Forward derivative through a graph.
pub(crate) fn jvp_through<B: Builder>(
    b: &B,
    graph: &Subgraph,
    inputs: &[B::Value],
    tangents: &[Option<B::Value>],
) -> Result<Optional<B::Value>> {
    let arguments: Vec<_> = inputs.iter().cloned().zip(tangents.iter().cloned()).collect();
    let roots = graph.walk(&arguments, |prim, operands| {
        let (values, tangents): (Vec<_>, Vec<_>) = operands.iter().cloned().unzip();
        let outputs = b.apply(prim.clone(), &values)?;
        let tangents = forward(b, prim, &values, &outputs, &tangents)?;
        Ok(outputs.into_iter().zip(tangents).collect())
    })?;
    Ok(roots.into_iter().map(|(_, tangent)| tangent).collect())
}

/// A primitive's `jvp`, skipped where no tangent comes in.
pub(crate) fn forward<B: Builder>(
    b: &B,
    prim: &Prim,
    inputs: &[B::Value],
    outputs: &[B::Value],
    tangents: &[Option<B::Value>],
) -> Result<Optional<B::Value>> {
    if tangents.iter().all(Option::is_none) {
        return Ok(outputs.iter().map(|_| None).collect());
    }
    prim.jvp(b, &Applied { inputs, outputs, wanted: &[] }, tangents)
}

/// Vectorisation through a graph.
pub(crate) fn batch_through<B: Builder>(
    b: &B,
    graph: &Subgraph,
    size: usize,
    inputs: &[Batched<B::Value>],
) -> Result<Vec<Batched<B::Value>>> {
    graph.walk(inputs, |prim, operands| Ok(SmallVec::from_vec(prim.batch(b, size, operands)?)))
}

/// Vectorisation through the decomposition: the last resort. The decomposition is taken over the types that
/// one element of the batch has.
pub(crate) fn batch_decomposed<B: Builder>(
    b: &B,
    prim: &Prim,
    size: usize,
    inputs: &[Batched<B::Value>],
) -> Result<Vec<Batched<B::Value>>> {
    let mut leaves = Vec::with_capacity(inputs.len());
    for input in inputs {
        let mut ty = b.ty(&input.value).clone();
        if input.mapped {
            ty.shape.remove(0);
        }
        leaves.push(Value::leaf(ty)?);
    }
    let roots = prim.decompose_or_fail(&Lazy, &leaves)?;
    batch_through(b, &Subgraph::capture(&leaves, &roots), size, inputs)
}

/// The operand with the new axis in front, repeated as a view if it has none yet.
pub(crate) fn mapped<B: Builder>(b: &B, size: usize, input: &Batched<B::Value>) -> Result<B::Value> {
    if input.mapped {
        return Ok(input.value.clone());
    }
    let mut shape = Dims::from_slice(&[size]);
    shape.extend_from_slice(&b.ty(&input.value).shape);
    ops::broadcast_to(b, &input.value, &shape)
}

/// All operands with the new axis in front.
pub(crate) fn all_mapped<B: Builder>(
    b: &B,
    size: usize,
    inputs: &[Batched<B::Value>],
) -> Result<Vec<B::Value>> {
    inputs.iter().map(|input| mapped(b, size, input)).collect()
}

/// Values as results that carry the new axis.
pub(crate) fn with_axis<V>(values: impl IntoIterator<Item = V>) -> Vec<Batched<V>> {
    values.into_iter().map(|value| Batched { value, mapped: true }).collect()
}

/// Vectorisation by running the primitive once for each element; for operands that no kernel batches.
pub(crate) fn batch_unrolled<B: Builder>(
    b: &B,
    prim: &Prim,
    size: usize,
    inputs: &[Batched<B::Value>],
) -> Result<Vec<Batched<B::Value>>> {
    if size == 0 {
        return unrolled_over_nothing(b, prim, inputs);
    }
    let mut columns: Vec<Vec<B::Value>> = Vec::new();
    for index in 0..size {
        let operands = inputs
            .iter()
            .map(|input| match input.mapped {
                true => ops::select(b, &input.value, 0, index as isize),
                false => Ok(input.value.clone()),
            })
            .collect::<Result<Vec<_>>>()?;
        let outputs = b.apply(prim.clone(), &operands)?;
        columns.resize_with(outputs.len(), Vec::new);
        for (column, output) in columns.iter_mut().zip(outputs) {
            column.push(output);
        }
    }
    Ok(with_axis(columns.iter().map(|column| ops::stack(b, column, 0)).collect::<Result<Vec<_>>>()?))
}

/// The results of a primitive mapped over no elements: none, of the types that one would have.
fn unrolled_over_nothing<B: Builder>(
    b: &B,
    prim: &Prim,
    inputs: &[Batched<B::Value>],
) -> Result<Vec<Batched<B::Value>>> {
    let types: Vec<TensorType> = (inputs.iter())
        .map(|input| {
            let ty = b.ty(&input.value);
            TensorType::new(ty.dtype, &ty.shape[usize::from(input.mapped)..])
        })
        .collect();
    let outputs = prim.infer(&types.iter().collect::<Vec<_>>())?;
    let empty = |ty: &TensorType| {
        let mut shape = Dims::from_slice(&[0]);
        shape.extend_from_slice(&ty.shape);
        ops::zeros(b, &shape, ty.dtype)
    };
    Ok(with_axis(outputs.iter().map(empty).collect::<Result<Vec<_>>>()?))
}

/// Merges the new axis into axis 0 of the operand: `[size, n, ..] -> [size * n, ..]`.
pub(crate) fn fold_axis<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let shape = ops::shape_of(b, x);
    let mut folded = Dims::from_slice(&[shape[0] * shape[1]]);
    folded.extend_from_slice(&shape[2..]);
    ops::reshape_to(b, x, &folded)
}

/// Undoes [`fold_axis`].
pub(crate) fn unfold_axis<B: Builder>(b: &B, x: &B::Value, size: usize, rows: usize) -> Result<B::Value> {
    let mut shape = Dims::from_slice(&[size, rows]);
    shape.extend_from_slice(&b.ty(x).shape[1..]);
    ops::reshape_to(b, x, &shape)
}

/// The sum of two values of which either may be zero.
pub(crate) fn add_optional<B: Builder>(
    b: &B,
    x: Option<B::Value>,
    y: Option<B::Value>,
) -> Result<Option<B::Value>> {
    Ok(match (x, y) {
        (Some(x), Some(y)) => {
            let dtype = b.ty(&x).dtype;
            let [x, y] = [x, y].map(|v| ops::cast(b, &v, dtype.summed()));
            Some(ops::cast(b, &ops::add(b, &x?, &y?)?, dtype)?)
        }
        (x, y) => x.or(y),
    })
}
