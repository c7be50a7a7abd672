//! The matrix product with its epilogue; f64 by a plain blocked loop, everything else by packed panels.

use lanthorn_compiler::kernel::{Operand, Phase};
use lanthorn_ir::{DType, Layout};
use smallvec::SmallVec;

use crate::matmul::{Element, MatmulPlan, MatmulShape, OperandLayout};
use crate::pool::pool;
use crate::region::access::Access;
use crate::region::epilogue::EpilogueKernel;
use crate::region::map::{Bases, TileLoop, run_tiles};

/// A matrix product ready to run.
pub(super) struct MatMulKernel {
    a_offset: usize,
    b_offset: usize,
    way: Way,
}

enum Way {
    Packed { plan: MatmulPlan, epilogue: EpilogueKernel },
    Double(Double),
}

/// The f64 product: sums go to scratch, then the epilogue runs over them.
struct Double {
    a: Layout,
    b: Layout,
    epilogue: TileLoop,
    inputs: usize,
    elements: usize,
}

fn element(dtype: DType) -> Option<Element> {
    match dtype {
        DType::F32 => Some(Element::F32),
        DType::BF16 => Some(Element::Bf16),
        DType::F16 => Some(Element::F16),
        _ => None,
    }
}

fn operand_layout(operand: &Operand) -> Option<OperandLayout> {
    let strides = &operand.layout.strides;
    let rank = strides.len();
    Some(OperandLayout {
        element: element(operand.dtype)?,
        row_stride: strides[rank - 2],
        col_stride: strides[rank - 1],
        batch_strides: strides[..rank - 2].iter().copied().collect(),
    })
}

impl MatMulKernel {
    pub(super) fn new(epilogue: &Phase, inputs: &[Operand], outputs: &[Operand]) -> Option<MatMulKernel> {
        let [a, b, ..] = inputs else { return None };
        let rank = a.layout.rank();
        if rank < 2 || b.layout.rank() != rank {
            return None;
        }
        let batch: SmallVec<[usize; 4]> = a.layout.shape[..rank - 2].iter().copied().collect();
        let (rows, inner, cols) =
            (a.layout.shape[rank - 2], a.layout.shape[rank - 1], b.layout.shape[rank - 1]);
        let offset = |operand: &Operand| operand.layout.offset * operand.dtype.size();
        let way = if a.dtype == DType::F64 {
            let mut domain: Vec<usize> = batch.to_vec();
            domain.extend([rows, cols]);
            let elements = domain.iter().product();
            let epilogue = TileLoop::new(
                epilogue,
                &[],
                &domain,
                |source| match inputs.get(source as usize) {
                    Some(operand) => Access::new(operand.dtype, &operand.layout),
                    None => Access::dense(DType::F64, elements),
                },
                |output| outputs.get(output as usize).and_then(|o| Access::new(o.dtype, &o.layout)),
            )?;
            let (a, b) = (a.layout.clone(), b.layout.clone());
            Way::Double(Double { a, b, epilogue, inputs: inputs.len(), elements })
        } else {
            let shape =
                MatmulShape { batch, rows, cols, inner, a: operand_layout(a)?, b: operand_layout(b)? };
            let epilogue = EpilogueKernel::new(epilogue, inputs, outputs)?;
            Way::Packed { plan: MatmulPlan::new(shape), epilogue }
        };
        Some(MatMulKernel { a_offset: offset(a), b_offset: offset(b), way })
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        match &self.way {
            Way::Packed { plan, .. } => plan.scratch_bytes().next_multiple_of(64),
            Way::Double(double) => (double.elements * 8).next_multiple_of(64),
        }
    }

    /// # Safety
    /// As `Prepared::run`.
    pub(super) unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], scratch: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.way {
                Way::Packed { plan, epilogue } => {
                    let bound = epilogue.bind(inputs, outputs);
                    let (a, b) = (inputs[0].add(self.a_offset), inputs[1].add(self.b_offset));
                    plan.run(a, b, scratch, &bound);
                }
                Way::Double(double) => double.run(inputs, outputs, scratch as *mut f64),
            }
        }
    }
}

/// Addresses that tasks share.
struct Shared(*const f64, *const f64, *mut f64);
// SAFETY: inputs are only read and tasks write distinct rows.
unsafe impl Sync for Shared {}

impl Double {
    /// # Safety
    /// As `Prepared::run`; `sums` holds the product.
    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], sums: *mut f64) {
        let rank = self.a.rank();
        let (rows, inner, cols) = (self.a.shape[rank - 2], self.a.shape[rank - 1], self.b.shape[rank - 1]);
        let shared = Shared(inputs[0].cast(), inputs[1].cast(), sums);
        let batches: usize = self.a.shape[..rank - 2].iter().product();
        let run_row = |task: usize| {
            // The whole struct is captured, not its pointers.
            let Shared(a, b, sums) = &shared;
            let (batch, row) = (task / rows, task % rows);
            let start = |layout: &Layout| {
                let mut at = layout.offset as isize;
                let mut rest = batch;
                for axis in (0..rank - 2).rev() {
                    at += (rest % layout.shape[axis]) as isize * layout.strides[axis];
                    rest /= layout.shape[axis];
                }
                at
            };
            let (a_at, b_at) = (start(&self.a) + row as isize * self.a.strides[rank - 2], start(&self.b));
            let (a_step, b_row, b_col) =
                (self.a.strides[rank - 1], self.b.strides[rank - 2], self.b.strides[rank - 1]);
            // SAFETY: indices lie in the layouts, and this task alone writes the row.
            unsafe {
                let sums = sums.add(task * cols);
                for col in 0..cols {
                    *sums.add(col) = 0.0;
                }
                for k in 0..inner as isize {
                    let left = *a.offset(a_at + k * a_step);
                    let b = b.offset(b_at + k * b_row);
                    for col in 0..cols {
                        *sums.add(col) += left * *b.offset(col as isize * b_col);
                    }
                }
            }
        };
        let tasks = batches * rows;
        if tasks * inner * cols < 1 << 16 {
            (0..tasks).for_each(run_row);
        } else {
            pool().run(tasks, &|task, _| run_row(task));
        }
        let mut sources = inputs[..self.inputs].to_vec();
        sources.push(sums as *const u8);
        let bases = Bases::of(&self.epilogue, &sources, outputs);
        // SAFETY: the caller's promise; sums are dense.
        unsafe { run_tiles(&self.epilogue, &bases) };
    }
}
