//! What is known of an executable before it runs.

use std::collections::{BTreeMap, HashSet};

use lanthorn_compiler::kernel::{Kernel, KernelKind, Operand};
use lanthorn_compiler::plan::{Place, Plan};
use lanthorn_ir::TensorType;
use lanthorn_runtime::Executable;
use serde_json::{Value as Json, json};

/// Bytes that the plan of a program does not tell apart.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Of what a call brings.
    pub external: usize,
    /// Of what the program keeps.
    pub persistent: usize,
    /// Of the cache over which it runs.
    pub state: usize,
    pub output: usize,
    /// Of the cache that a call may write before it commits.
    pub transaction: usize,
}

/// The part of a report that all programs have.
pub(crate) fn of_program(program: &Executable, memory: &Memory) -> Json {
    let (report, plan) = (program.report(), program.plan());
    let instructions: Vec<Json> =
        instructions(plan).into_iter().map(|(kind, count)| json!({ "kind": kind, "count": count })).collect();
    let phases: Vec<Json> = (report.times.iter())
        .map(|(phase, time)| json!({ "phase": phase, "nanoseconds": time.as_nanos() as u64 }))
        .collect();
    json!({
        "semanticNodesBeforeOptimization": report.nodes,
        "semanticNodesAfterOptimization": report.simple_nodes,
        "instructions": instructions,
        "pipelineCount": pipelines(plan),
        "commandCount": plan.kernels.len(),
        "synchronizationCount": waits(plan),
        "memory": {
            "externalBytes": memory.external,
            "persistentBytes": memory.persistent,
            "stateBytes": memory.state,
            "outputBytes": memory.output,
            "workspaceBytes": plan.workspace_bytes,
            "transactionBytes": memory.transaction,
            "peakLiveBytes": plan.peak_bytes(),
            "packingOverheadBytes": plan.workspace_bytes.saturating_sub(workspace_needed(plan)),
        },
        "compilePhases": phases,
    })
}

/// A type as JSON.
pub(crate) fn type_of(ty: &TensorType) -> Json {
    json!({ "shape": ty.shape[..], "dtype": ty.dtype.to_string() })
}

/// How many kernels there are of each kind.
fn instructions(plan: &Plan) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for kernel in &plan.kernels {
        let kind = match &kernel.kind {
            KernelKind::Map { .. } => "map",
            KernelKind::Reduce { .. } => "reduce",
            KernelKind::MatMul { .. } => "matmul",
            KernelKind::Prim(prim) => prim.name(),
        };
        *counts.entry(kind).or_insert(0) += 1;
    }
    counts
}

/// How many kernels differ in more than which buffers they work on.
fn pipelines(plan: &Plan) -> usize {
    let form = |operands: &[Operand]| -> Vec<_> {
        operands.iter().map(|operand| (operand.dtype, operand.layout.clone())).collect()
    };
    let forms: HashSet<_> = (plan.kernels.iter())
        .map(|kernel| (&kernel.kind, form(&kernel.inputs), form(&kernel.outputs)))
        .collect();
    forms.len()
}

/// How many kernels wait for an earlier one.
fn waits(plan: &Plan) -> usize {
    let mut written = HashSet::new();
    let mut count = 0;
    for kernel in &plan.kernels {
        let reads = kernel.inputs.iter().any(|input| written.contains(&input.buffer));
        count += usize::from(reads || !kernel.after.is_empty());
        written.extend(kernel.outputs.iter().map(|output| output.buffer));
    }
    count
}

/// The most bytes of the workspace that hold values, or serve a kernel, at one time.
fn workspace_needed(plan: &Plan) -> usize {
    let mut last = vec![0; plan.buffers.len()];
    for (at, kernel) in plan.kernels.iter().enumerate() {
        for buffer in buffers(kernel) {
            if let Some(last) = last.get_mut(buffer) {
                *last = at;
            }
        }
    }
    let (mut live, mut most) = (0, 0);
    let mut held = HashSet::new();
    for (at, kernel) in plan.kernels.iter().enumerate() {
        for buffer in buffers(kernel) {
            if matches!(plan.places.get(buffer), Some(Place::Workspace(_))) && held.insert(buffer) {
                live += plan.buffers.get(buffer).map_or(0, TensorType::bytes);
            }
        }
        let scratch = plan.scratch.get(at).map_or(0, |(_, bytes)| *bytes);
        most = most.max(live + scratch);
        for buffer in buffers(kernel) {
            if last.get(buffer) == Some(&at) && held.remove(&buffer) {
                live -= plan.buffers.get(buffer).map_or(0, TensorType::bytes);
            }
        }
    }
    most
}

/// The buffers on which a kernel works.
fn buffers(kernel: &Kernel) -> impl Iterator<Item = usize> + '_ {
    kernel.inputs.iter().chain(&kernel.outputs).map(|operand| operand.buffer as usize)
}
