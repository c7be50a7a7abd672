//! Records of applied primitives and the one reverse pass over them.

use smallvec::SmallVec;

use crate::builder::{Builder, Outputs};
use crate::error::Result;
use crate::graph::Subgraph;
use crate::prim::{Applied, Prim, derived};

/// Stands for an operand on which nothing that is differentiated depends.
pub(crate) const UNTRACKED: usize = usize::MAX;

/// One application: its values, and the numbers under which cotangents are collected.
#[derive(Clone, Debug)]
pub(crate) struct Record<V> {
    pub prim: Prim,
    pub inputs: SmallVec<[V; 3]>,
    pub input_ids: SmallVec<[usize; 3]>,
    pub outputs: Outputs<V>,
    /// Outputs are numbered from here on.
    pub first_output: usize,
}

/// A graph applied to arguments, with every step kept.
pub(crate) struct Recording<V> {
    pub records: Vec<Record<V>>,
    /// The numbers of the roots; argument `i` has number `i`.
    pub roots: Vec<usize>,
    /// How many numbers are in use.
    pub count: usize,
}

impl<V: Clone> Recording<V> {
    /// Runs `graph` on `arguments`.
    pub fn of<B: Builder<Value = V>>(b: &B, graph: &Subgraph, arguments: &[V]) -> Result<Self> {
        let mut records = Vec::new();
        let mut count = arguments.len();
        let numbered: Vec<(V, usize)> = arguments.iter().cloned().zip(0..).collect();
        let roots = graph.walk(&numbered, |prim, operands| {
            let inputs: SmallVec<[V; 3]> = operands.iter().map(|(value, _)| value.clone()).collect();
            let outputs = b.apply(prim.clone(), &inputs)?;
            let first_output = count;
            count += outputs.len();
            let numbered = outputs.iter().cloned().zip(first_output..).collect();
            let input_ids = operands.iter().map(|(_, id)| *id).collect();
            records.push(Record { prim: prim.clone(), inputs, input_ids, outputs, first_output });
            Ok(numbered)
        })?;
        let roots = roots.into_iter().map(|(_, id)| id).collect();
        Ok(Recording { records, roots, count })
    }
}

/// Cotangents of `wrt` from those of `seeds`, going back over the records `0..len`. Only records between
/// `wrt` and the seeds are differentiated. `None` is zero.
pub(crate) fn reverse<B: Builder>(
    b: &B,
    count: usize,
    len: usize,
    record: impl Fn(usize) -> Record<B::Value>,
    seeds: Vec<(usize, B::Value)>,
    wrt: &[usize],
) -> Result<Vec<Option<B::Value>>> {
    let mut active = vec![false; count];
    let mut kept = vec![false; count];
    for &id in wrt {
        active[id] = true;
        kept[id] = true;
    }
    for index in 0..len {
        let record = record(index);
        if !record.input_ids.iter().any(|&id| id != UNTRACKED && active[id]) {
            continue;
        }
        for (output, id) in record.outputs.iter().zip(record.first_output..) {
            active[id] |= is_differentiable(b, output);
        }
    }
    let mut cotangents: Vec<Option<B::Value>> = vec![None; count];
    for (id, seed) in seeds {
        if active[id] {
            accumulate(b, &mut cotangents[id], seed)?;
        }
    }
    for index in (0..len).rev() {
        let record = record(index);
        let ids = record.first_output..record.first_output + record.outputs.len();
        if ids.clone().all(|id| cotangents[id].is_none()) {
            continue;
        }
        let wanted: SmallVec<[bool; 8]> =
            record.input_ids.iter().map(|&id| id != UNTRACKED && active[id]).collect();
        if !wanted.contains(&true) {
            continue;
        }
        let incoming: Vec<Option<B::Value>> =
            ids.map(|id| if kept[id] { cotangents[id].clone() } else { cotangents[id].take() }).collect();
        let at = Applied { inputs: &record.inputs, outputs: &record.outputs, wanted: &wanted };
        let outgoing = record.prim.vjp(b, &at, &incoming)?;
        for ((cotangent, &id), wanted) in outgoing.into_iter().zip(&record.input_ids).zip(&wanted) {
            if let (Some(cotangent), true) = (cotangent, wanted) {
                accumulate(b, &mut cotangents[id], cotangent)?;
            }
        }
    }
    Ok(wrt.iter().map(|&id| cotangents[id].clone()).collect())
}

/// True for values through which derivatives flow.
pub(crate) fn is_differentiable<B: Builder>(b: &B, value: &B::Value) -> bool {
    let dtype = b.ty(value).dtype;
    dtype.is_float() || dtype.is_complex()
}

fn accumulate<B: Builder>(b: &B, sum: &mut Option<B::Value>, cotangent: B::Value) -> Result<()> {
    *sum = derived::add_optional(b, sum.take(), Some(cotangent))?;
    Ok(())
}
