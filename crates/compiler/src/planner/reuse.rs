//! Which outputs take over the memory of an operand that dies.

use crate::backend::Requirements;
use crate::kernel::{BufferId, Fused, Kernel, KernelKind};
use crate::plan::Place;

/// For each buffer the one whose memory it shares: itself, or the first of a chain of buffers of which each
/// dies in the kernel that writes the next. Only buffers of the workspace are in chains.
pub(super) fn owners(
    fused: &Fused,
    requirements: &[Requirements],
    places: &[Option<Place>],
    lives: &[Option<(u32, u32)>],
) -> Vec<BufferId> {
    let mut owners: Vec<BufferId> = (0..fused.buffers.len() as BufferId).collect();
    for (at, kernel) in fused.kernels.iter().enumerate() {
        for (input, output) in candidates(kernel, &requirements[at]) {
            let (from, to) = (kernel.inputs[input as usize].buffer, kernel.outputs[output as usize].buffer);
            let free = places[from as usize].is_none() && places[to as usize].is_none();
            let dies = lives[from as usize].is_some_and(|(first, last)| last == at as u32 && first < last);
            let starts = lives[to as usize].is_some_and(|(first, _)| first == at as u32);
            let fresh = owners[to as usize] == to;
            let owner = owners[from as usize];
            let taken = kernel.outputs.iter().any(|o| o.buffer != to && owners[o.buffer as usize] == owner);
            if free && dies && starts && fresh && !taken && may_share(fused, kernel, input, output) {
                owners[to as usize] = owner;
            }
        }
    }
    owners
}

/// The pairs for which the kernel allows it, whatever the operands.
pub(super) fn candidates(kernel: &Kernel, requirements: &Requirements) -> Vec<(u32, u32)> {
    let mut pairs = requirements.in_place.clone();
    // A map reads each element before it writes the same, and so does the epilogue of a product.
    let from = match kernel.kind {
        KernelKind::Map { .. } => 0,
        KernelKind::MatMul { .. } => 2,
        _ => return pairs,
    };
    for input in from..kernel.inputs.len() as u32 {
        pairs.extend((0..kernel.outputs.len() as u32).map(|output| (input, output)));
    }
    pairs
}

/// Whether operands and layouts allow `output` to be written over `input`.
pub(super) fn may_share(fused: &Fused, kernel: &Kernel, input: u32, output: u32) -> bool {
    let (Some(from), Some(to)) = (kernel.inputs.get(input as usize), kernel.outputs.get(output as usize))
    else {
        return false;
    };
    let touching = |buffer| {
        (kernel.inputs.iter().chain(&kernel.outputs)).filter(move |operand| operand.buffer == buffer).count()
    };
    from.layout == to.layout
        && from.layout.offset == 0
        && from.layout.is_contiguous()
        && from.dtype.size() == to.dtype.size()
        && fused.buffers[from.buffer as usize].bytes() == fused.buffers[to.buffer as usize].bytes()
        && from.layout.numel() == fused.buffers[from.buffer as usize].numel()
        && touching(from.buffer) == 1
        && touching(to.buffer) == 1
}
