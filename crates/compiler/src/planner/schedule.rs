//! The order of the kernels before the commit point, chosen for a low peak.
//!
//! The order of emission follows the roots depth first, which leaves side branches (the gradient of each
//! weight) for last and keeps their operands alive. So a kernel that frees as much as it takes runs as
//! soon as it can; otherwise the order of emission stays.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::order::Edges;
use crate::kernel::Fused;

/// The kernels that are not `late`, in an order that respects `edges`.
pub(super) fn schedule(fused: &Fused, edges: &Edges, late: &[bool]) -> Vec<u32> {
    let mut kept = vec![false; fused.buffers.len()];
    for &buffer in fused.inputs.iter().chain(&fused.outputs) {
        kept[buffer as usize] = true;
    }
    let mut state = State {
        fused,
        edges,
        kept,
        unread: edges.readers.iter().map(|readers| readers.len() as u32).collect(),
        waits: edges.waits.clone(),
        done: late.to_vec(),
    };
    let mut order = Vec::with_capacity(fused.kernels.len());
    let mut ready: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
    let mut eager: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
    for kernel in 0..fused.kernels.len() as u32 {
        if state.waits[kernel as usize] == 0 && !late[kernel as usize] {
            ready.push(Reverse(kernel));
        }
    }
    while let Some(Reverse(kernel)) = eager.pop().or_else(|| ready.pop()) {
        if std::mem::replace(&mut state.done[kernel as usize], true) {
            continue;
        }
        order.push(kernel);
        state.run(kernel, &mut ready, &mut eager);
    }
    order
}

struct State<'a> {
    fused: &'a Fused,
    edges: &'a Edges,
    /// Arguments and results, whose memory is not the workspace's.
    kept: Vec<bool>,
    /// How many kernels still read each buffer.
    unread: Vec<u32>,
    waits: Vec<u32>,
    done: Vec<bool>,
}

impl State<'_> {
    fn run(
        &mut self,
        kernel: u32,
        ready: &mut BinaryHeap<Reverse<u32>>,
        eager: &mut BinaryHeap<Reverse<u32>>,
    ) {
        for &next in &self.edges.next[kernel as usize] {
            self.waits[next as usize] -= 1;
            if self.waits[next as usize] == 0 && !self.done[next as usize] {
                ready.push(Reverse(next));
                if self.pays(next) {
                    eager.push(Reverse(next));
                }
            }
        }
        let mut read: Vec<u32> =
            self.fused.kernels[kernel as usize].inputs.iter().map(|operand| operand.buffer).collect();
        read.sort_unstable();
        read.dedup();
        for buffer in read {
            self.unread[buffer as usize] -= 1;
            if self.unread[buffer as usize] != 1 {
                continue;
            }
            // The last reader frees it; looked for once in the life of a buffer.
            let last = self.edges.readers[buffer as usize].iter().find(|&&k| !self.done[k as usize]);
            if let Some(&last) = last
                && self.waits[last as usize] == 0
                && self.pays(last)
            {
                eager.push(Reverse(last));
            }
        }
    }

    /// Whether running the kernel now frees at least as much as it takes.
    fn pays(&self, kernel: u32) -> bool {
        let kernel = &self.fused.kernels[kernel as usize];
        let bytes = |buffer: u32| match self.kept[buffer as usize] {
            true => 0,
            false => self.fused.buffers[buffer as usize].bytes(),
        };
        let mut freed: Vec<u32> = (kernel.inputs.iter().map(|operand| operand.buffer))
            .filter(|&buffer| self.unread[buffer as usize] == 1)
            .collect();
        freed.sort_unstable();
        freed.dedup();
        let freed: usize = freed.into_iter().map(bytes).sum();
        let taken: usize = kernel.outputs.iter().map(|operand| bytes(operand.buffer)).sum();
        freed > 0 && freed >= taken
    }
}
