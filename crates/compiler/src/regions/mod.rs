//! Fusion: nodes to kernels over buffers.
//!
//! `views` says which values have memory of their own; `grow` walks the nodes once and puts each into a
//! group (`join` for pointwise nodes, `assemble` for concatenations and padding); `emit` writes each group as one kernel. Movements cost nothing unless no view can show them.

mod assemble;
pub(crate) mod emit;
mod group;
mod grow;
mod join;
mod outlook;
mod views;

use crate::backend::Backend;
use crate::indexed::Indexed;
use crate::kernel::Fused;

/// Whether nodes may share kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// As many as possible in one kernel.
    On,
    /// Each in its own.
    Off,
}

/// The kernels of a program.
pub fn regions(indexed: &Indexed, backend: &dyn Backend, fusion: Fusion) -> Fused {
    let mut grower = grow::Grower::new(indexed, backend, fusion == Fusion::On);
    grower.grow();
    emit::emit(grower)
}

#[cfg(test)]
mod tests;
