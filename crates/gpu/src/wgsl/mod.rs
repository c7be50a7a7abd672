//! Kernels as WGSL text.
//!
//! The text holds structure: ranks after merging of axes, which strides are 0 or 1, the steps of the expression,
//! dtypes, and which operands share memory. Sizes, other strides and places in memory are parameters in a uniform
//! buffer, so that kernels of many shapes have one pipeline. Nothing here talks to a device.

mod domain;
mod expr;
mod functions;
mod map;
mod matmul;
mod prims;
mod reduce;
mod writer;

use lanthorn_compiler::kernel::{Kernel, KernelKind};
use lanthorn_ir::Result;

use crate::driver::Access;
use writer::Operands;
pub(crate) use writer::Slot;

/// A kernel's text and what its dispatch needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shader {
    pub text: String,
    /// The uniform buffer, word by word; bases are those of memories that begin at 0.
    pub params: Vec<u32>,
    pub bases: Vec<Base>,
    /// The storage buffers, from binding 1 on.
    pub bindings: Vec<Binding>,
    /// In all; 0: there is nothing to do.
    pub workgroups: usize,
}

/// A parameter to which the place of an operand's memory is to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub word: usize,
    /// Outputs are counted after inputs.
    pub operand: usize,
    /// Bytes of an element.
    pub element: u32,
}

/// A storage buffer of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub slot: Slot,
    pub access: Access,
}

/// The text of a kernel whose operands lie in the memories `slots` (inputs, then outputs).
///
/// Errors: a dtype or a primitive without a shader.
pub(crate) fn shader(kernel: &Kernel, slots: &[Slot]) -> Result<Shader> {
    let operands = Operands { inputs: &kernel.inputs, outputs: &kernel.outputs, slots };
    match &kernel.kind {
        KernelKind::Map { domain, body } => map::map(operands, domain, body),
        KernelKind::Reduce { domain, folded, body, folds, epilogue } => {
            reduce::reduce(operands, domain, folded, body, folds, epilogue)
        }
        KernelKind::MatMul { epilogue } => matmul::matmul(operands, epilogue),
        KernelKind::Prim(prim) => prims::prim(operands, prim),
    }
}

/// Invocations of a workgroup where each has one element: within WebGPU's promise of 256.
const INVOCATIONS: usize = 256;

/// The head of an entry point whose workgroups are numbered through x and y.
fn entry(size: &str, local: bool) -> String {
    let local = if local { ", @builtin(local_invocation_index) local: u32" } else { "" };
    format!(
        "@workgroup_size({size})\nfn main(@builtin(workgroup_id) group: vec3<u32>, \
         @builtin(num_workgroups) groups: vec3<u32>{local})"
    )
}

/// The number of this workgroup.
const GROUP: &str = "group.x + group.y * groups.x";

#[cfg(test)]
mod tests {
    use lanthorn_compiler::kernel::{Operand, Phase, Store};
    use lanthorn_ir::expr::{BinaryOp, KernelExpr, Scalar, Step, UnaryOp};
    use lanthorn_ir::{DType, Dims, Layout};

    use super::*;

    fn operand(buffer: u32, layout: Layout) -> Operand {
        Operand { buffer, dtype: DType::F32, layout }
    }

    /// `relu(x * row) - 1` of `x [rows, columns]`.
    fn region(rows: usize, columns: usize) -> Kernel {
        let mut expr = KernelExpr::default();
        let (x, row) = (expr.push(Step::Load(0), DType::F32), expr.push(Step::Load(1), DType::F32));
        let product = expr.binary(BinaryOp::Mul, x, row);
        let relu = expr.unary(UnaryOp::Relu, product);
        let one = expr.constant(Scalar::float(1.0), DType::F32);
        let step = expr.binary(BinaryOp::Sub, relu, one);
        let body = Phase { expr, stores: vec![Store { step, output: 0 }] };
        let whole = Layout::contiguous([rows, columns]);
        let row = Layout::contiguous([columns]).broadcast(&[rows, columns]);
        Kernel {
            kind: KernelKind::Map { domain: Dims::from_slice(&[rows, columns]), body },
            inputs: vec![operand(0, whole.clone()), operand(1, row)],
            outputs: vec![operand(2, whole)],
            after: Vec::new(),
            ops: Vec::new(),
        }
    }

    #[test]
    fn the_text_is_the_one_that_the_documentation_shows() {
        let found = shader(&region(4, 3), &[0, 1, 2]).unwrap();
        let page = include_str!("../../../../docs/gpu.md");
        assert!(page.contains(&found.text), "docs/gpu.md shows another text than\n{}", found.text);
        assert_eq!(found.params, [12, 3, 3, 0, 0, 3, 0]);
    }

    #[test]
    fn sizes_are_parameters_and_shared_memory_is_one_binding() {
        let (small, large) = (shader(&region(4, 3), &[0, 1, 2]), shader(&region(700, 50), &[0, 1, 2]));
        let (small, large) = (small.unwrap(), large.unwrap());
        assert_eq!(small.text, large.text);
        assert_ne!(small.params, large.params);
        let in_place = shader(&region(4, 3), &[7, 1, 7]).unwrap();
        let expected = [(7, Access::ReadWrite), (1, Access::Read)];
        assert_eq!(in_place.bindings, expected.map(|(slot, access)| Binding { slot, access }));
    }
}
