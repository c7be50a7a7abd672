//! The matrix product with its epilogue: f64 and integers by a plain loop, everything else by packed panels.

use lanthorn_compiler::kernel::{Operand, Phase};
use lanthorn_ir::expr::Step;
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
    Plain(Plain),
}

/// The product by a plain loop: sums go to scratch, then the epilogue runs over them.
struct Plain {
    dtype: DType,
    /// The dtype that the sums have there.
    sums: DType,
    a: Layout,
    b: Layout,
    epilogue: TileLoop,
    inputs: usize,
    elements: usize,
}

/// The type of a packed product's operand.
pub(super) fn element(dtype: DType) -> Option<Element> {
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
        let way = if a.dtype == DType::F64 || a.dtype.is_int() {
            let mut domain: Vec<usize> = batch.to_vec();
            domain.extend([rows, cols]);
            let elements = domain.iter().product();
            let sums = sums_dtype(epilogue, inputs.len() as u32)?;
            let epilogue = TileLoop::new(
                epilogue,
                &[],
                &domain,
                |source| match inputs.get(source as usize) {
                    Some(operand) => Access::new(operand.dtype, &operand.layout),
                    None => Access::dense(sums, elements),
                },
                |output| outputs.get(output as usize).and_then(|o| Access::new(o.dtype, &o.layout)),
            )?;
            let (dtype, inputs) = (a.dtype, inputs.len());
            let (a, b) = (a.layout.clone(), b.layout.clone());
            Way::Plain(Plain { dtype, sums, a, b, epilogue, inputs, elements })
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
            Way::Plain(plain) => (plain.elements * 8).next_multiple_of(64),
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
                Way::Plain(plain) => plain.run(inputs, outputs, scratch),
            }
        }
    }
}

/// The dtype in which the epilogue loads the sums.
fn sums_dtype(epilogue: &Phase, source: u32) -> Option<DType> {
    let expr = &epilogue.expr;
    let at = expr.steps.iter().position(|&step| step == Step::Load(source));
    at.map_or(Some(DType::F64), |at| expr.dtypes.get(at).copied())
}

/// Addresses that tasks share.
struct Shared<T>(*const T, *const T, *mut u8);
// SAFETY: inputs are only read and tasks write distinct rows.
unsafe impl<T> Sync for Shared<T> {}

/// An element of a plain product and what its sums are held in.
trait Factor: Copy {
    type Sum: Copy + Default;
    fn add_product(self, other: Self, sum: Self::Sum) -> Self::Sum;
}

impl Factor for f64 {
    type Sum = f64;
    #[inline(always)]
    fn add_product(self, other: f64, sum: f64) -> f64 {
        sum + self * other
    }
}

macro_rules! factor {
    ($($t:ty),*) => {$(
        impl Factor for $t {
            /// Modulo 2^64, which is right for every narrower result too.
            type Sum = i64;
            #[inline(always)]
            fn add_product(self, other: $t, sum: i64) -> i64 {
                sum.wrapping_add((self as i64).wrapping_mul(other as i64))
            }
        }
    )*};
}
factor!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Plain {
    /// # Safety
    /// As `Prepared::run`; `sums` holds eight bytes for each element of the product.
    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], sums: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.dtype {
                DType::U8 => self.sum::<u8>(inputs, sums),
                DType::U16 => self.sum::<u16>(inputs, sums),
                DType::U32 => self.sum::<u32>(inputs, sums),
                DType::U64 => self.sum::<u64>(inputs, sums),
                DType::I8 => self.sum::<i8>(inputs, sums),
                DType::I16 => self.sum::<i16>(inputs, sums),
                DType::I32 => self.sum::<i32>(inputs, sums),
                DType::I64 => self.sum::<i64>(inputs, sums),
                _ => self.sum::<f64>(inputs, sums),
            }
            self.narrow(sums);
        }
        let mut sources = inputs[..self.inputs].to_vec();
        sources.push(sums as *const u8);
        let bases = Bases::of(&self.epilogue, &sources, outputs);
        // SAFETY: the caller's promise; sums are dense.
        unsafe { run_tiles(&self.epilogue, &bases) };
    }

    /// Integer sums as elements of their dtype, one after the other.
    unsafe fn narrow(&self, sums: *mut u8) {
        macro_rules! narrow {
            ($t:ty) => {
                for i in 0..self.elements {
                    // SAFETY: both lie in the sums, and a narrower element never before one still to be read.
                    unsafe {
                        let sum = (sums as *const i64).add(i).read();
                        (sums as *mut $t).add(i).write(sum as $t);
                    }
                }
            };
        }
        match self.sums {
            DType::U8 | DType::I8 => narrow!(u8),
            DType::U16 | DType::I16 => narrow!(u16),
            DType::U32 | DType::I32 => narrow!(u32),
            _ => {}
        }
    }

    unsafe fn sum<T: Factor>(&self, inputs: &[*const u8], sums: *mut u8) {
        let rank = self.a.rank();
        let (rows, inner, cols) = (self.a.shape[rank - 2], self.a.shape[rank - 1], self.b.shape[rank - 1]);
        let shared = Shared::<T>(inputs[0].cast(), inputs[1].cast(), sums);
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
                let sums = (*sums as *mut T::Sum).add(task * cols);
                for col in 0..cols {
                    *sums.add(col) = T::Sum::default();
                }
                for k in 0..inner as isize {
                    let left = *a.offset(a_at + k * a_step);
                    let b = b.offset(b_at + k * b_row);
                    for col in 0..cols {
                        *sums.add(col) = left.add_product(*b.offset(col as isize * b_col), *sums.add(col));
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
    }
}
