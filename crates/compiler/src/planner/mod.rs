//! The memory plan: in which order kernels run, and where each buffer lies.
//!
//! `order` puts what overwrites donated arguments last and keeps the peak low before that; `reuse` finds
//! outputs that may take over the memory of an operand which dies; `offsets` packs what is left.

mod offsets;
mod order;
mod reuse;
mod schedule;
#[cfg(test)]
mod tests;

use lanthorn_ir::{Error, ErrorKind, Layout, Result};

use crate::backend::{Backend, Requirements};
use crate::kernel::{BufferId, Fused, Kernel, Operand};
use crate::pipeline::Options;
use crate::plan::{Place, Plan, PlannedOutput};
use offsets::{Interval, pack};

/// Alignment of every buffer in the workspace.
pub(crate) const ALIGNMENT: usize = 64;

/// Orders the kernels and places the buffers.
pub fn plan(backend: &dyn Backend, fused: Fused, options: &Options) -> Result<Plan> {
    check_options(&fused, options)?;
    let requirements: Vec<Requirements> = fused.kernels.iter().map(|k| backend.requirements(k)).collect();
    let ordered = order::order(&fused, &requirements, options);
    let (fused, requirements, donated, commit) = apply_order(fused, requirements, ordered, backend);

    let mut places: Vec<Option<Place>> = vec![None; fused.buffers.len()];
    for (argument, &buffer) in fused.inputs.iter().enumerate() {
        places[buffer as usize] = Some(Place::Input(argument as u32));
    }
    for (result, &buffer) in fused.outputs.iter().enumerate() {
        places[buffer as usize] = Some(Place::Output(result as u32));
    }
    let lives = lifetimes(&fused);
    let owners = reuse::owners(&fused, &requirements, &places, &lives);

    // One interval for each chain of buffers that share memory, then one for each kernel's scratch.
    let mut intervals: Vec<Interval> = Vec::new();
    let mut interval_of = vec![usize::MAX; fused.buffers.len()];
    for buffer in 0..fused.buffers.len() {
        let Some((first, last)) = lives[buffer].filter(|_| places[buffer].is_none()) else { continue };
        let owner = owners[buffer] as usize;
        if interval_of[owner] == usize::MAX {
            interval_of[owner] = intervals.len();
            intervals.push(Interval { bytes: 0, first, last });
        }
        let interval = &mut intervals[interval_of[owner]];
        interval.bytes = interval.bytes.max(fused.buffers[buffer].bytes());
        interval.first = interval.first.min(first);
        interval.last = interval.last.max(last);
    }
    let buffers = intervals.len();
    for (at, each) in requirements.iter().enumerate() {
        intervals.push(Interval { bytes: each.scratch, first: at as u32, last: at as u32 });
    }
    let (offsets, workspace_bytes) = pack(&intervals);

    let places = (0..fused.buffers.len())
        .map(|buffer| {
            places[buffer].unwrap_or_else(|| {
                let interval = interval_of[owners[buffer] as usize];
                Place::Workspace(offsets.get(interval).copied().unwrap_or(0))
            })
        })
        .collect();
    let outputs = (fused.outputs.iter().zip(donated))
        .map(|(&buffer, donated)| PlannedOutput { buffer, donated })
        .collect();
    Ok(Plan {
        scratch: (offsets[buffers..].iter().zip(&requirements))
            .map(|(&at, each)| (at, each.scratch))
            .collect(),
        kernels: fused.kernels,
        buffers: fused.buffers,
        places,
        inputs: fused.inputs,
        outputs,
        commit,
        finite: options.finite.clone(),
        workspace_bytes,
    })
}

fn check_options(fused: &Fused, options: &Options) -> Result<()> {
    let fail = |message: String| Err(Error::new(ErrorKind::Compile, "compile", message));
    let mut arguments = vec![false; fused.inputs.len()];
    let mut results = vec![false; fused.outputs.len()];
    for &(argument, result) in &options.donated {
        let (Some(from), Some(to)) =
            (fused.inputs.get(argument as usize), fused.outputs.get(result as usize))
        else {
            return fail(format!(
                "donation of argument {argument} to result {result}: there is no such pair"
            ));
        };
        let (from, to) = (&fused.buffers[*from as usize], &fused.buffers[*to as usize]);
        if from != to {
            return fail(format!(
                "argument {argument} is {from} and cannot be donated to result {result}, {to}"
            ));
        }
        if arguments[argument as usize] || results[result as usize] {
            return fail(format!("argument {argument} or result {result} is donated twice"));
        }
        arguments[argument as usize] = true;
        results[result as usize] = true;
    }
    for &result in &options.finite {
        let ty = fused.outputs.get(result as usize).map(|&buffer| &fused.buffers[buffer as usize]);
        if !ty.is_some_and(|ty| ty.rank() == 0 && ty.dtype.is_float()) {
            return fail(format!(
                "result {result} cannot be checked for finiteness; it must be a rank-0 float"
            ));
        }
        // Its memory holds the argument until after the check.
        if results[result as usize] {
            return fail(format!("result {result} is donated memory and cannot be checked for finiteness"));
        }
    }
    Ok(())
}

/// The program in its new order; results that could not be written in place get their copies after the
/// commit point.
fn apply_order(
    mut fused: Fused,
    requirements: Vec<Requirements>,
    ordered: order::Ordered,
    backend: &dyn Backend,
) -> (Fused, Vec<Requirements>, Vec<Option<u32>>, usize) {
    let mut position = vec![0u32; fused.kernels.len()];
    for (at, &kernel) in ordered.kernels.iter().enumerate() {
        position[kernel as usize] = at as u32;
    }
    let mut kernels: Vec<Option<Kernel>> = fused.kernels.drain(..).map(Some).collect();
    let mut needs: Vec<Option<Requirements>> = requirements.into_iter().map(Some).collect();
    let mut requirements = Vec::with_capacity(kernels.len());
    for &at in &ordered.kernels {
        let (Some(mut kernel), Some(need)) = (kernels[at as usize].take(), needs[at as usize].take()) else {
            continue;
        };
        for after in &mut kernel.after {
            *after = position[*after as usize];
        }
        fused.kernels.push(kernel);
        requirements.push(need);
    }
    for &result in &ordered.copied {
        let computed = fused.outputs[result as usize];
        let ty = fused.buffers[computed as usize].clone();
        let whole =
            |buffer: BufferId| Operand { buffer, dtype: ty.dtype, layout: Layout::contiguous(&ty.shape) };
        let last = fused.buffers.len() as BufferId;
        let kernel = crate::regions::emit::copy(whole(computed), whole(last));
        requirements.push(backend.requirements(&kernel));
        fused.kernels.push(kernel);
        fused.buffers.push(ty);
        fused.outputs[result as usize] = last;
    }
    (fused, requirements, ordered.donated, ordered.commit)
}

/// The first and last kernel that touch each buffer; `None` for one that no kernel does.
pub(crate) fn lifetimes(fused: &Fused) -> Vec<Option<(u32, u32)>> {
    let mut lives: Vec<Option<(u32, u32)>> = vec![None; fused.buffers.len()];
    for (at, kernel) in fused.kernels.iter().enumerate() {
        for operand in kernel.inputs.iter().chain(&kernel.outputs) {
            let life = lives[operand.buffer as usize].get_or_insert((at as u32, at as u32));
            life.1 = at as u32;
        }
    }
    lives
}
