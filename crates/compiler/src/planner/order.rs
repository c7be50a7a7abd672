//! The order of kernels: what overwrites donated arguments comes last.
//!
//! A call that fails changes nothing. So no kernel that may fail comes behind one that overwrites an argument: where it
//! would have to, since it reads what that one writes, the result is kept apart from the argument.

use std::collections::HashSet;

use super::reuse::{candidates, may_share};
use super::schedule::schedule;
use crate::backend::{Fails, Requirements};
use crate::kernel::Fused;
use crate::pipeline::Options;

pub(super) struct Ordered {
    /// Kernels in their new order.
    pub kernels: Vec<u32>,
    /// How many of them run before the commit point.
    pub commit: usize,
    /// For each result the argument whose memory receives it. A donation that a failure could spoil is not there.
    pub donated: Vec<Option<u32>>,
    /// Donated results that are computed in the workspace first and copied at the very end.
    pub copied: Vec<u32>,
}

/// Orders the kernels: a valid order in, a valid order out.
pub(super) fn order(fused: &Fused, requirements: &[Requirements], options: &Options) -> Ordered {
    let graph = Edges::new(fused);
    let mut donated = vec![None; fused.outputs.len()];
    for &(argument, result) in &options.donated {
        donated[result as usize] = Some(argument);
    }
    let Split { direct, apart, late } = split(fused, &graph, requirements, options);
    apart.iter().for_each(|&result| donated[result as usize] = None);
    let is_copied = |result: &u32| !direct.contains(result) && !apart.contains(result);
    let copied: Vec<u32> = options.donated.iter().map(|&(_, result)| result).filter(is_copied).collect();
    let mut kernels = schedule(fused, &graph, &late);
    let commit = kernels.len();
    kernels.extend((0..fused.kernels.len() as u32).filter(|&kernel| late[kernel as usize]));
    Ordered { kernels, commit, donated, copied }
}

/// Who writes and reads each buffer, and who must run after whom.
pub(super) struct Edges {
    pub writers: Vec<Vec<u32>>,
    pub readers: Vec<Vec<u32>>,
    /// For each kernel those that need it to have run.
    pub next: Vec<Vec<u32>>,
    /// For each kernel how many it needs to have run.
    pub waits: Vec<u32>,
}

impl Edges {
    pub fn new(fused: &Fused) -> Edges {
        let kernels = fused.kernels.len();
        let mut edges = Edges {
            writers: vec![Vec::new(); fused.buffers.len()],
            readers: vec![Vec::new(); fused.buffers.len()],
            next: vec![Vec::new(); kernels],
            waits: vec![0; kernels],
        };
        let push = |list: &mut Vec<u32>, at: u32| {
            if list.last() != Some(&at) {
                list.push(at);
            }
        };
        for (at, kernel) in fused.kernels.iter().enumerate() {
            for output in &kernel.outputs {
                push(&mut edges.writers[output.buffer as usize], at as u32);
            }
            for input in &kernel.inputs {
                push(&mut edges.readers[input.buffer as usize], at as u32);
            }
        }
        for (at, kernel) in fused.kernels.iter().enumerate() {
            let mut before: Vec<u32> = kernel.after.clone();
            for input in &kernel.inputs {
                before.extend(&edges.writers[input.buffer as usize]);
            }
            before.sort_unstable();
            before.dedup();
            edges.waits[at] = before.len() as u32;
            for earlier in before {
                edges.next[earlier as usize].push(at as u32);
            }
        }
        edges
    }
}

/// How results are donated.
struct Split {
    /// Those that are written straight into their argument.
    direct: HashSet<u32>,
    /// Those that a failure could spoil, which get memory of their own.
    apart: HashSet<u32>,
    /// The kernels that come after the commit point for the direct ones.
    late: Vec<bool>,
}

fn split(fused: &Fused, edges: &Edges, requirements: &[Requirements], options: &Options) -> Split {
    // What the finite check reads has to be computed before it.
    let mut checked = vec![false; fused.kernels.len()];
    for &result in &options.finite {
        for &writer in &edges.writers[fused.outputs[result as usize] as usize] {
            checked[writer as usize] = true;
        }
    }
    for at in (0..fused.kernels.len()).rev() {
        checked[at] |= edges.next[at].iter().any(|&next| checked[next as usize]);
    }
    let mut chosen: Vec<(u32, u32, u32)> = Vec::new();
    for &(argument, result) in &options.donated {
        let (from, to) = (fused.inputs[argument as usize], fused.outputs[result as usize]);
        let &[writer] = &edges.writers[to as usize][..] else { continue };
        let kernel = &fused.kernels[writer as usize];
        let reads_it = kernel.inputs.iter().any(|input| input.buffer == from);
        let in_place = || {
            candidates(kernel, &requirements[writer as usize]).iter().any(|&(input, output)| {
                kernel.inputs.get(input as usize).is_some_and(|operand| operand.buffer == from)
                    && kernel.outputs.get(output as usize).is_some_and(|operand| operand.buffer == to)
                    && may_share(fused, kernel, input, output)
            })
        };
        if !checked[writer as usize] && (!reads_it || in_place()) {
            chosen.push((argument, result, writer));
        }
    }
    let apart = spoilt(edges, requirements, &mut chosen, &options.half_written);
    // Among late kernels the order stays, so whoever reads the argument late must stand before its writer.
    let late = descendants(edges, chosen.iter().map(|&(_, _, writer)| writer));
    chosen.retain(|&(argument, _, writer)| {
        let readers = &edges.readers[fused.inputs[argument as usize] as usize];
        readers.iter().all(|&reader| reader <= writer || !late[reader as usize])
    });
    let late = descendants(edges, chosen.iter().map(|&(_, _, writer)| writer));
    Split { direct: chosen.into_iter().map(|(_, result, _)| result).collect(), apart, late }
}

/// Takes the donations away, `(argument, result, writer)`, after whose writer a kernel may fail, or which a writer that
/// fails may leave half written, but for the arguments that may be; returns their results.
fn spoilt(
    edges: &Edges,
    requirements: &[Requirements],
    chosen: &mut Vec<(u32, u32, u32)>,
    half_written: &[u32],
) -> HashSet<u32> {
    let fails = |kernel: usize| requirements.get(kernel).map_or(Fails::Never, |needs| needs.fails);
    // Whether the kernel, or one that needs it to have run, may fail.
    let mut leads_to_failure: Vec<bool> = (0..edges.next.len()).map(|at| fails(at) != Fails::Never).collect();
    let mut is_followed = vec![false; edges.next.len()];
    for at in (0..edges.next.len()).rev() {
        is_followed[at] = edges.next[at].iter().any(|&next| leads_to_failure[next as usize]);
        leads_to_failure[at] |= is_followed[at];
    }
    let mut apart = HashSet::new();
    let mut keep = |chosen: &mut Vec<(u32, u32, u32)>, is_safe: &dyn Fn(u32) -> bool| {
        chosen.retain(|&(argument, result, writer)| {
            half_written.contains(&argument) || is_safe(writer) || !apart.insert(result)
        });
    };
    keep(chosen, &|writer| !is_followed[writer as usize] && fails(writer as usize) != Fails::HalfWay);
    // Writers run in the order of emission, and only the first has nothing written before it.
    let held = chosen.iter().filter(|(argument, _, _)| !half_written.contains(argument));
    let first = held.map(|&(_, _, writer)| writer).min();
    keep(chosen, &|writer| fails(writer as usize) == Fails::Never || Some(writer) == first);
    // So do those behind writers that may leave their arguments half written.
    let late = descendants(edges, chosen.iter().map(|&(_, _, writer)| writer));
    let last = (0..late.len()).rev().find(|&at| late[at] && fails(at) != Fails::Never);
    keep(chosen, &|writer| last.is_none_or(|last| last <= writer as usize));
    apart
}

fn descendants(edges: &Edges, from: impl Iterator<Item = u32>) -> Vec<bool> {
    let mut reached = vec![false; edges.next.len()];
    for kernel in from {
        reached[kernel as usize] = true;
    }
    for at in 0..reached.len() {
        if reached[at] {
            for &next in &edges.next[at] {
                reached[next as usize] = true;
            }
        }
    }
    reached
}
