//! The memory plan: where each buffer lies, in which order kernels run, and how much it all takes.

use lanthorn_ir::TensorType;

use crate::kernel::{BufferId, Kernel};

/// Where a buffer lies during a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The caller's argument.
    Input(u32),
    /// The storage of a result; the plan's `outputs` says whether it is a donated argument's.
    Output(u32),
    /// The call's workspace, at this byte offset (a multiple of 64).
    Workspace(usize),
}

/// A result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlannedOutput {
    pub buffer: BufferId,
    /// The donated argument whose memory receives this result; `None`: fresh storage.
    pub donated: Option<u32>,
}

/// Everything a backend needs to make a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Plan {
    /// In the order of execution.
    pub kernels: Vec<Kernel>,
    pub buffers: Vec<TensorType>,
    /// The place of each buffer.
    pub places: Vec<Place>,
    pub inputs: Vec<BufferId>,
    pub outputs: Vec<PlannedOutput>,
    /// Kernels before this index write no donated argument: here cancellation and the finite check are
    /// decided, and after it no kernel fails once one of them has written, unless the options allow it.
    pub commit: usize,
    /// Results that must be finite (rank-0 floats) for the call to commit.
    pub finite: Vec<u32>,
    /// Bytes of workspace, kernels' scratch included; known before running.
    pub workspace_bytes: usize,
    /// The byte offset in the workspace and the length of each kernel's scratch.
    pub scratch: Vec<(usize, usize)>,
}

impl Plan {
    /// Bytes of workspace, arguments and fresh results together.
    pub fn peak_bytes(&self) -> usize {
        let bytes = |buffer: &BufferId| self.buffers[*buffer as usize].bytes();
        let arguments: usize = self.inputs.iter().map(bytes).sum();
        let fresh = self.outputs.iter().filter(|output| output.donated.is_none());
        self.workspace_bytes + arguments + fresh.map(|output| bytes(&output.buffer)).sum::<usize>()
    }
}
