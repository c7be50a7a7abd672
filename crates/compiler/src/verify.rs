//! What is legal in each form, checked after each pass in tests and under `LANTHORN_LOG=verify`.

use lanthorn_ir::expr::{KernelExpr, Step};
use lanthorn_ir::prim::Source;
use lanthorn_ir::{DType, Dims, Layout, Prim, TensorType};

use crate::indexed::Indexed;
use crate::kernel::{Fused, Kernel, KernelKind, Operand, Phase};
use crate::pipeline::Options;
use crate::plan::{Place, Plan};

type Check = Result<(), String>;

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(message()) }
}

/// Operands precede their users, types are what the primitives infer, arguments are leaves.
pub fn indexed(indexed: &Indexed) -> Check {
    let exists = |at: usize, v: &crate::indexed::ValueRef| {
        (v.node as usize) < at && (v.output as usize) < indexed.nodes[v.node as usize].types.len()
    };
    for (at, node) in indexed.nodes.iter().enumerate() {
        ensure(node.inputs.iter().all(|v| exists(at, v)), || {
            format!("node {at} reads what does not precede it")
        })?;
        let types: Vec<&TensorType> = node.inputs.iter().map(|&v| indexed.ty(v)).collect();
        let inferred = node.prim.infer(&types).map_err(|error| format!("node {at}: {error}"))?;
        ensure(inferred == node.types, || format!("node {at} is {:?}, inferred {inferred:?}", node.types))?;
    }
    let leaves = indexed.inputs.iter().all(|&n| {
        matches!(indexed.nodes.get(n as usize).map(|n| &n.prim), Some(Prim::Source(Source::Leaf { .. })))
    });
    ensure(leaves, || "an argument is not a leaf".into())?;
    ensure(indexed.roots.iter().all(|v| exists(indexed.nodes.len(), v)), || "a result does not exist".into())
}

/// Operands lie in their buffers, shapes fit the kernels, and what is read has been written.
pub fn fused(fused: &Fused) -> Check {
    let mut writers = vec![Vec::new(); fused.buffers.len()];
    for (at, kernel) in fused.kernels.iter().enumerate() {
        for output in &kernel.outputs {
            let writers = writers.get_mut(output.buffer as usize);
            writers.ok_or_else(|| format!("kernel {at} writes no buffer"))?.push(at);
        }
    }
    for &argument in &fused.inputs {
        ensure(writers[argument as usize].is_empty(), || format!("argument b{argument} is written"))?;
    }
    for (at, each) in fused.kernels.iter().enumerate() {
        kernel(each, &fused.buffers).map_err(|message| format!("kernel {at}: {message}\n{each}"))?;
        for input in &each.inputs {
            let ready = fused.inputs.contains(&input.buffer) || !writers[input.buffer as usize].is_empty();
            let empty = fused.buffers[input.buffer as usize].numel() == 0;
            ensure(ready || empty, || format!("kernel {at} reads b{}, which nobody writes", input.buffer))?;
            let before = writers[input.buffer as usize].iter().all(|&writer| writer < at);
            ensure(before, || format!("kernel {at} reads b{} before it is written", input.buffer))?;
        }
        ensure(each.after.iter().all(|&k| (k as usize) < at), || {
            format!("kernel {at} runs after a later one")
        })?;
    }
    let mut results = fused.outputs.clone();
    results.sort_unstable();
    results.dedup();
    let own = results.len() == fused.outputs.len() && results.iter().all(|b| !fused.inputs.contains(b));
    ensure(own, || "a result shares the buffer of an argument or another result".into())
}

fn kernel(kernel: &Kernel, buffers: &[TensorType]) -> Check {
    for operand in kernel.inputs.iter().chain(&kernel.outputs) {
        let ty = buffers.get(operand.buffer as usize).ok_or("an operand has no buffer")?;
        let inside = operand.layout.extent().is_none_or(|(_, high)| high < ty.numel());
        ensure(inside && operand.dtype == ty.dtype, || format!("{operand} does not lie in {ty}"))?;
    }
    match &kernel.kind {
        KernelKind::Map { domain, body } => {
            phase(body, kernel, domain, kernel.inputs.len())?;
            let all = kernel.inputs.iter().chain(&kernel.outputs).all(|o| o.layout.shape == *domain);
            ensure(all, || "an operand of a map has another shape".into())
        }
        KernelKind::Reduce { domain, folded, body, folds, epilogue } => {
            ensure(folded.len() == domain.len(), || "axes and domain differ".into())?;
            phase(body, kernel, domain, kernel.inputs.len())?;
            let steps = folds.iter().all(|fold| (fold.step as usize) < body.expr.steps.len());
            ensure(steps, || "a fold of no step".into())?;
            let kept: Dims =
                domain.iter().zip(folded).map(|(&d, &folded)| if folded { 1 } else { d }).collect();
            phase(epilogue, kernel, &kept, kernel.inputs.len() + folds.len())
        }
        KernelKind::MatMul { epilogue } => {
            let [a, b, ..] = &kernel.inputs[..] else { return Err("a product of fewer than two".into()) };
            let product = product_shape(&a.layout, &b.layout).ok_or("operands do not multiply")?;
            phase(epilogue, kernel, &product, kernel.inputs.len() + 1)
        }
        KernelKind::Prim(prim) => {
            let types: Vec<TensorType> = kernel.inputs.iter().map(operand_type).collect();
            let inferred =
                prim.infer(&types.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())?;
            let outputs: Vec<TensorType> = kernel.outputs.iter().map(operand_type).collect();
            ensure(inferred[..] == outputs[..], || "outputs are not what the primitive infers".into())
        }
    }
}

fn operand_type(operand: &Operand) -> TensorType {
    TensorType { dtype: operand.dtype, shape: operand.layout.shape.clone() }
}

fn product_shape(a: &Layout, b: &Layout) -> Option<Dims> {
    let rank = a.rank();
    if rank < 2 || b.rank() != rank || a.shape[..rank - 2] != b.shape[..rank - 2] {
        return None;
    }
    let mut shape = a.shape.clone();
    shape[rank - 1] = b.shape[rank - 1];
    (a.shape[rank - 1] == b.shape[rank - 2]).then_some(shape)
}

fn phase(phase: &Phase, kernel: &Kernel, domain: &[usize], loads: usize) -> Check {
    expression(&phase.expr, loads)?;
    for step in &phase.expr.steps {
        let Step::Load(input) = step else { continue };
        if let Some(operand) = kernel.inputs.get(*input as usize) {
            ensure(operand.layout.shape[..] == *domain, || format!("{operand} is read over another domain"))?;
        }
    }
    for store in &phase.stores {
        ensure((store.step as usize) < phase.expr.steps.len(), || "a store of no step".into())?;
        let output = kernel.outputs.get(store.output as usize).ok_or("a store to no output")?;
        ensure(output.layout.shape[..] == *domain, || format!("{output} is written over another domain"))?;
        let step = phase.expr.dtype(store.step);
        ensure(step == output.dtype.wide(), || format!("a {step} is stored to {output}"))?;
    }
    Ok(())
}

fn expression(expr: &KernelExpr, loads: usize) -> Check {
    ensure(expr.steps.len() == expr.dtypes.len(), || "steps without dtypes".into())?;
    for (at, step) in expr.steps.iter().enumerate() {
        ensure(step.reads().iter().all(|&read| (read as usize) < at), || {
            format!("step {at} reads a later one")
        })?;
        if let Step::Round(read, to) = step {
            let (read, held) = (expr.dtype(*read), expr.dtypes[at]);
            let fits = (read, held) == (DType::F32, DType::F32) && to.is_float() && to.wide() == DType::F32;
            ensure(fits, || format!("step {at} rounds {read} to {to} and holds {held}"))?;
        }
        if let Step::Load(input) = step {
            ensure((*input as usize) < loads, || format!("step {at} loads operand {input} of {loads}"))?;
        }
    }
    Ok(())
}

/// Memory that lives at the same time is apart, and donated arguments are read before they are written.
pub fn plan(plan: &Plan, options: &Options) -> Check {
    let as_fused = Fused {
        kernels: plan.kernels.clone(),
        buffers: plan.buffers.clone(),
        inputs: plan.inputs.clone(),
        outputs: plan.outputs.iter().map(|output| output.buffer).collect(),
    };
    fused(&as_fused)?;
    let lives = crate::planner::lifetimes(&as_fused);
    memory(plan, &lives)?;
    for &(argument, result) in &options.donated {
        let output = plan.outputs.get(result as usize).ok_or("a donation to no result")?;
        // Where a failure could spoil the argument the result lies apart.
        let Some(from) = output.donated else { continue };
        ensure(from == argument, || format!("result {result} is written over argument {from}"))?;
        let from = plan.inputs[argument as usize];
        let written = plan.kernels.iter().position(|k| k.outputs.iter().any(|o| o.buffer == output.buffer));
        let Some(written) = written else { continue };
        ensure(written >= plan.commit, || {
            format!("kernel {written} writes argument {argument} before commit")
        })?;
        let read = lives[from as usize].map_or(0, |(_, last)| last as usize);
        ensure(read <= written, || {
            format!("kernel {read} reads argument {argument} after it was overwritten")
        })?;
    }
    for &result in &plan.finite {
        let buffer = plan.outputs[result as usize].buffer;
        let late = plan.kernels[plan.commit..].iter().any(|k| k.outputs.iter().any(|o| o.buffer == buffer));
        ensure(!late, || format!("result {result} is checked before it is computed"))?;
    }
    Ok(())
}

/// Walks over time with the set of live byte ranges.
fn memory(plan: &Plan, lives: &[Option<(u32, u32)>]) -> Check {
    let mut events: Vec<(u32, bool, usize)> = Vec::new();
    for (buffer, life) in lives.iter().enumerate() {
        let is_workspace = matches!(plan.places[buffer], Place::Workspace(_));
        if let (true, Some((first, last)), true) = (is_workspace, life, plan.buffers[buffer].bytes() > 0) {
            // A buffer ends before the next begins only if the kernel between may write in place.
            events.push((*first, true, buffer));
            events.push((*last, false, buffer));
        }
    }
    events.sort_unstable_by_key(|&(at, begins, _)| (at, !begins));
    let mut live: std::collections::BTreeMap<usize, (usize, usize)> = std::collections::BTreeMap::new();
    let mut kernel = 0;
    let mut at = 0;
    while at < events.len() || kernel < plan.kernels.len() {
        while let Some(&(_, true, buffer)) = events.get(at).filter(|event| event.0 as usize == kernel) {
            let Place::Workspace(offset) = plan.places[buffer] else { return Err("a place moved".into()) };
            let end = offset + plan.buffers[buffer].bytes();
            ensure(end <= plan.workspace_bytes, || format!("b{buffer} lies outside the workspace"))?;
            for (&other, &(other_end, shared)) in
                live.range(..end).rev().take_while(|(_, (e, _))| *e > offset)
            {
                let dies = lives[shared].is_some_and(|(_, last)| last as usize == kernel);
                let same = other == offset && other_end == end;
                ensure(dies && same, || format!("b{buffer} and b{shared} overlap at kernel {kernel}"))?;
            }
            live.insert(offset, (end, buffer));
            at += 1;
        }
        if let Some(&(scratch, bytes)) = plan.scratch.get(kernel).filter(|(_, bytes)| *bytes > 0) {
            let overlap =
                live.range(..scratch + bytes).next_back().is_some_and(|(_, (end, _))| *end > scratch);
            ensure(!overlap, || format!("the scratch of kernel {kernel} overlaps a buffer"))?;
        }
        while let Some(&(_, false, buffer)) = events.get(at).filter(|event| event.0 as usize == kernel) {
            if let Place::Workspace(offset) = plan.places[buffer]
                && live.get(&offset).is_some_and(|(_, owner)| *owner == buffer)
            {
                live.remove(&offset);
            }
            at += 1;
        }
        kernel += 1;
    }
    Ok(())
}
