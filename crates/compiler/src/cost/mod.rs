//! What a kernel costs: bytes read, bytes written and floating-point operations, from its form alone.
//!
//! Costs are a model to hold times against, not a count of instructions. **Bytes** are the distinct elements that the
//! operands' views touch, each once: a broadcast operand counts once, one that two phases read counts once, and what
//! caches or tiles read again does not. **Operations**:
//!
//! | kernel | operations |
//! |---|---|
//! | map | steps x domain; a step is one function, comparison or selection, be it an addition or an `exp` |
//! | reduction | steps of the body x domain + one for each fold and element + steps of the epilogue x results |
//! | matrix product | `2 m n k` for each of the batch + steps of the epilogue x results |
//! | movements, constants, casts, copies | 0 |
//! | any other primitive | the formula in [`prims`](self) beside its name |

mod prims;

use lanthorn_ir::expr::{KernelExpr, Step};
use lanthorn_ir::layout::numel;
use lanthorn_ir::{DType, Layout, Prim, Result};

use crate::kernel::{Kernel, KernelKind, Operand};
use crate::plan::Plan;
use crate::single::single;

/// What one run of a kernel costs; see [the module](self) for how it is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Floating-point operations; of integers too.
    pub flops: u64,
}

/// A kernel for people: what it is called and what one run of it costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelInfo {
    /// The ops inside in the order of the graph, such as `matmul + add + gelu`; each once.
    pub name: String,
    /// Bytes that the operands' views touch, each once.
    pub bytes_read: u64,
    /// Bytes of the results.
    pub bytes_written: u64,
    /// Floating-point operations; a transcendental function counts as one.
    pub flops: u64,
}

impl KernelInfo {
    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.bytes_read.saturating_add(self.bytes_written)
    }
}

/// How many ops a name lists.
const NAMED: usize = 6;

impl Kernel {
    /// The ops inside, each once, such as `matmul + add + gelu`; beyond six, how many more.
    pub fn name(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for name in &self.ops {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let listed = names.join(" + ");
        match (listed.is_empty(), more) {
            (true, _) => self.kind.name().to_string(),
            (_, 0) => listed,
            (_, more) => format!("{listed} + {more} more"),
        }
    }

    /// What a run costs.
    pub fn cost(&self) -> Cost {
        let bytes = |operands: &[Operand]| {
            let is_first = |(at, operand): &(usize, &Operand)| !operands[..*at].contains(operand);
            let each = operands.iter().enumerate().filter(is_first).map(|(_, operand)| touched(operand));
            each.fold(0u64, u64::saturating_add)
        };
        let (bytes_read, bytes_written) = (bytes(&self.inputs), bytes(&self.outputs));
        let results = self.outputs.first().map_or(0, |output| output.layout.numel() as u64);
        let flops = match &self.kind {
            KernelKind::Map { domain, body } => times(&[operations(&body.expr), numel(domain) as u64]),
            KernelKind::Reduce { domain, folded, body, folds, epilogue } => {
                let kept = domain.iter().zip(folded).map(|(&size, &folded)| if folded { 1 } else { size });
                let kept: Vec<usize> = kept.collect();
                let inner = times(&[operations(&body.expr) + folds.len() as u64, numel(domain) as u64]);
                inner.saturating_add(times(&[operations(&epilogue.expr), numel(&kept) as u64]))
            }
            KernelKind::MatMul { epilogue } => {
                let (m, k, n, batch) = match &self.inputs[..] {
                    [a, b, ..] => product(&a.layout.shape, &b.layout.shape),
                    _ => (0, 0, 0, 0),
                };
                times(&[2, batch, m, n, k]).saturating_add(times(&[operations(&epilogue.expr), results]))
            }
            KernelKind::Prim(prim) => {
                let shapes = |operands: &[Operand]| -> Vec<Vec<usize>> {
                    operands.iter().map(|operand| operand.layout.shape.to_vec()).collect()
                };
                let (inputs, outputs) = (shapes(&self.inputs), shapes(&self.outputs));
                let flops = prims::flops(prim, &inputs, &outputs);
                let partly = prims::bytes(prim, &self.inputs, &self.outputs);
                return Cost {
                    bytes_read: partly.0.unwrap_or(bytes_read),
                    bytes_written: partly.1.unwrap_or(bytes_written),
                    flops,
                };
            }
        };
        Cost { bytes_read, bytes_written, flops }
    }

    /// Name and cost.
    pub fn info(&self) -> KernelInfo {
        let Cost { bytes_read, bytes_written, flops } = self.cost();
        KernelInfo { name: self.name(), bytes_read, bytes_written, flops }
    }
}

/// Name and cost of a primitive on operands of these layouts, all of its kernels together: what eager execution runs.
pub fn single_info(prim: &Prim, inputs: &[(DType, Layout)]) -> Result<KernelInfo> {
    let mut info = KernelInfo { name: prim.name().to_string(), ..KernelInfo::default() };
    for kernel in single(prim, inputs)? {
        let cost = kernel.cost();
        info.bytes_read = info.bytes_read.saturating_add(cost.bytes_read);
        info.bytes_written = info.bytes_written.saturating_add(cost.bytes_written);
        info.flops = info.flops.saturating_add(cost.flops);
    }
    Ok(info)
}

impl KernelKind {
    fn name(&self) -> &'static str {
        match self {
            KernelKind::Map { .. } => "map",
            KernelKind::Reduce { .. } => "reduce",
            KernelKind::MatMul { .. } => "matmul",
            KernelKind::Prim(prim) => prim.name(),
        }
    }
}

impl Plan {
    /// Every kernel in the order of execution.
    pub fn kernel_infos(&self) -> Vec<KernelInfo> {
        self.kernels.iter().map(Kernel::info).collect()
    }
}

/// A product that saturates.
fn times(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product: u64, &factor| product.saturating_mul(factor))
}

/// Bytes of the distinct elements of a view: at most what its extent spans.
fn touched(operand: &Operand) -> u64 {
    let layout = &operand.layout;
    let Some((low, high)) = layout.extent() else { return 0 };
    let moving = layout.shape.iter().zip(&layout.strides).filter(|(_, stride)| **stride != 0);
    let elements = times(&moving.map(|(&size, _)| size as u64).collect::<Vec<_>>());
    times(&[elements.min((high - low + 1) as u64), operand.dtype.size() as u64])
}

/// Steps that compute.
fn operations(expr: &KernelExpr) -> u64 {
    let computes = |step: &&Step| matches!(step, Step::Unary(..) | Step::Binary(..) | Step::Select(..));
    expr.steps.iter().filter(computes).count() as u64
}

/// `(m, k, n, batch)` of `[batch.., m, k] x [batch.., k, n]`.
fn product(a: &[usize], b: &[usize]) -> (u64, u64, u64, u64) {
    match (a, b) {
        ([batch @ .., m, k], [.., n]) => (*m as u64, *k as u64, *n as u64, numel(batch) as u64),
        _ => (0, 0, 0, 0),
    }
}

#[cfg(test)]
mod tests;
