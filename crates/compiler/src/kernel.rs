//! Kernels over buffers: the form between fusion and the memory plan, and the contract of a backend.

use lanthorn_ir::expr::{KernelExpr, Step, StepId};
use lanthorn_ir::prim::ReduceOp;
use lanthorn_ir::{DType, Dims, Layout, Prim, TensorType};

/// A buffer of the program: a contiguous row-major value that lives in memory.
pub type BufferId = u32;

/// A strided view of a buffer; offset and strides count elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    pub buffer: BufferId,
    pub dtype: DType,
    pub layout: Layout,
}

/// A scalar expression with what it stores. `Step::Load(i)` reads the kernel's input `i`, or, for
/// `i >= inputs.len()`, the fold (or matrix-product accumulator) `i - inputs.len()` of the phase before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Phase {
    pub expr: KernelExpr,
    pub stores: Vec<Store>,
}

/// Writes a step's value, narrowed to the output's dtype, to the kernel's output `output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    pub step: StepId,
    pub output: u32,
}

/// The step to store for `step` in an output of `dtype`: a store rounds by itself.
pub(crate) fn stored_by(expr: &KernelExpr, step: StepId, dtype: DType) -> StepId {
    match expr.steps.get(step as usize) {
        Some(&Step::Round(exact, to)) if to == dtype => exact,
        _ => step,
    }
}

/// Combines a step's values over the folded axes. The accumulator has the step's (wide) dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fold {
    pub op: ReduceOp,
    pub step: StepId,
}

/// What a kernel computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KernelKind {
    /// Pointwise over `domain`. Layouts of all inputs and outputs have the shape `domain`.
    Map { domain: Dims, body: Phase },
    /// `body` over `domain` (its stores have the shape `domain`), then `folds` over the axes marked in
    /// `folded`, then `epilogue` over `domain` with the folded axes at size 1. Layouts have the shape of
    /// the phase that uses them; an input that both phases read is listed twice.
    Reduce { domain: Dims, folded: Vec<bool>, body: Phase, folds: Vec<Fold>, epilogue: Phase },
    /// `inputs[0] [batch.., m, k]` times `inputs[1] [batch.., k, n]`; the accumulator (wide type) is load
    /// `inputs.len()` of `epilogue`, whose other operands and outputs have the shape `[batch.., m, n]`.
    MatMul { epilogue: Phase },
    /// Any other primitive that the backend has a kernel for; operands in the primitive's order. Outputs are
    /// contiguous unless [`Backend::writes_views`](crate::backend::Backend::writes_views).
    Prim(Prim),
}

/// One kernel with its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    pub kind: KernelKind,
    pub inputs: Vec<Operand>,
    /// Views too: `concat` is one copy per part, each into its slice of one buffer.
    pub outputs: Vec<Operand>,
    /// Kernels that must have run before, besides those whose buffers this one reads.
    pub after: Vec<u32>,
    /// The names of the ops inside, for people.
    pub ops: Vec<&'static str>,
}

/// The program as kernels in a valid order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fused {
    pub kernels: Vec<Kernel>,
    /// The type of each buffer.
    pub buffers: Vec<TensorType>,
    /// The buffer of each argument.
    pub inputs: Vec<BufferId>,
    /// The buffer of each result. A result that is an argument or a view has been given a copy.
    pub outputs: Vec<BufferId>,
}
