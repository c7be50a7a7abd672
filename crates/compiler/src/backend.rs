//! What a device must offer. The run-time and the passes know backends only by these traits.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use lanthorn_ir::{Prim, Result, TensorType};

use crate::kernel::Kernel;
use crate::plan::Plan;

/// Memory of one device.
pub trait Memory: Send + Sync + 'static {
    /// Its length.
    fn bytes(&self) -> usize;
    /// Its address, where the host can reach it.
    fn host(&self) -> Option<NonNull<u8>>;
    /// The backend's own type.
    fn as_any(&self) -> &dyn Any;
}

/// A place in memory.
#[derive(Clone, Copy)]
pub struct MemRef<'a> {
    pub memory: &'a dyn Memory,
    /// In bytes; a multiple of the element size.
    pub offset: usize,
}

/// How a backend runs a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// By a kernel of its own.
    Kernel,
    /// By its decomposition.
    Decompose,
}

/// What one kernel needs besides its operands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Bytes of scratch, 64-byte aligned.
    pub scratch: usize,
    /// `(input, output)` pairs for which the output may be the very memory of the input, provided that both
    /// have one layout and no other operand of the kernel touches it.
    pub in_place: Vec<(u32, u32)>,
}

/// Limits of a backend.
#[derive(Clone, Copy, Debug)]
pub struct BackendCaps {
    /// How many operands (inputs and outputs) a fused region may have.
    pub region_operands: usize,
    /// How many steps a fused region may have.
    pub region_steps: usize,
}

/// Asked between kernels; true stops the call if it has not committed.
pub type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// The operands of one call of a program.
pub struct Call<'a> {
    pub inputs: &'a [MemRef<'a>],
    /// For a donated result this is the argument's own memory.
    pub outputs: &'a [MemRef<'a>],
    pub workspace: MemRef<'a>,
    pub cancelled: Cancelled<'a>,
}

/// A program that a backend made of a plan; holds structure only and may run in several threads at once.
pub trait Program: Send + Sync {
    /// Runs all kernels. An error before the commit point leaves donated arguments as they were.
    fn run(&self, call: &Call<'_>) -> Result<()>;
}

/// A kernel whose operands have been analysed: what is left to a run is addresses. It holds structure only, may be
/// kept, and may run in several threads at once.
pub trait PreparedKernel: Send + Sync {
    /// Bytes of scratch of a run, 64-byte aligned; they do not change.
    fn scratch(&self) -> usize;

    /// Runs the kernel now. `inputs` and `outputs` are the operands' buffers at their beginning (an operand's own
    /// layout offset comes on top).
    fn run(&self, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>], scratch: MemRef<'_>) -> Result<()>;
}

/// A device's kernels and memory.
pub trait Backend: Send + Sync + 'static {
    /// The device name, such as `cpu`.
    fn name(&self) -> &'static str;

    /// Limits for fusion.
    fn caps(&self) -> BackendCaps;

    /// How the primitive runs on operands of these types; an error names a dtype that the backend lacks.
    fn support(&self, prim: &Prim, inputs: &[&TensorType]) -> Result<Support>;

    /// Scratch and in-place permission of a kernel, exactly as `lower` and `prepare` will use them.
    fn requirements(&self, kernel: &Kernel) -> Requirements;

    /// Whether its kernel of the primitive writes outputs of any layout, so that a part of a concatenation needs
    /// no copy. The kernels of regions do.
    fn writes_views(&self, _prim: &Prim) -> bool {
        false
    }

    /// Memory of at least `bytes`, 64-byte aligned, contents unspecified.
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Memory>>;

    /// Makes a program.
    fn lower(&self, plan: &Arc<Plan>) -> Result<Box<dyn Program>>;

    /// Makes one kernel ready to run by itself: the eager path.
    fn prepare(&self, kernel: &Kernel) -> Result<Arc<dyn PreparedKernel>>;
}
