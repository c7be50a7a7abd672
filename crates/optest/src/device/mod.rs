//! A device held against the reference: its memory, compiled programs and eager kernels on strided operands.

mod eager;
pub mod fuzz;
mod memory;
mod program;
pub mod suite;
mod view;

use lanthorn_compiler::backend::Backend;
use lanthorn_ir::DType;

pub use eager::Eager;
pub use memory::{from_bytes, memory, read, to_bytes};
pub use program::{Memories, Runner};
pub use view::{Lie, Strided};

/// A device under test.
#[derive(Clone, Copy)]
pub struct Device {
    pub backend: &'static dyn Backend,
    /// Float types that it computes in.
    pub floats: &'static [DType],
    /// Integer types that it computes in.
    pub ints: &'static [DType],
    /// True if it may refuse what the reference runs, by name. The refused ops are listed in `docs/ops.md`.
    pub may_refuse: bool,
    /// True if its kernels do not look at indices, positions and lengths, so that one out of range is no error.
    pub is_unchecked: bool,
}

impl Device {
    /// A device that runs all that the reference runs.
    pub fn whole(backend: &'static dyn Backend) -> Device {
        use DType::*;
        Device {
            backend,
            floats: &[F64, F32, F16, BF16],
            ints: &[U8, U16, U32, U64, I8, I16, I32, I64],
            may_refuse: false,
            is_unchecked: false,
        }
    }
}
