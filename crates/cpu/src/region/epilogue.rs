//! The tail of a matrix product: a pointwise phase over each finished block while it is in cache.

use lanthorn_compiler::kernel::{Operand, Phase};
use lanthorn_ir::{DType, Layout};

use super::access::{load_run, store_run};
use super::map::with_slots;
use super::program::{Body, SLOT_BYTES, TileProgram, assign};
use super::{GROUP, TILE, steps};
use crate::matmul::Epilogue;
use crate::simd::{Simd, SimdOp, dispatch};

/// An operand over `[batch.., rows, cols]`.
#[derive(Clone, Debug)]
struct Plane {
    dtype: DType,
    size: usize,
    body: Body,
    offset: isize,
    row_stride: isize,
    col_stride: isize,
    batch: Vec<(usize, isize)>,
}

impl Plane {
    fn new(operand: &Operand) -> Option<Plane> {
        let Layout { shape, strides, offset } = &operand.layout;
        let rank = shape.len();
        if rank < 2 {
            return None;
        }
        Some(Plane {
            dtype: operand.dtype,
            size: operand.dtype.size(),
            body: Body::of(operand.dtype)?,
            offset: *offset as isize,
            row_stride: strides[rank - 2],
            col_stride: strides[rank - 1],
            batch: (0..rank - 2).map(|a| (shape[a], strides[a])).collect(),
        })
    }

    /// The byte offset of an element.
    #[inline(always)]
    fn at(&self, mut batch: usize, row: usize, col: usize) -> isize {
        let mut at = self.offset + row as isize * self.row_stride + col as isize * self.col_stride;
        for &(size, stride) in self.batch.iter().rev() {
            at += (batch % size) as isize * stride;
            batch /= size;
        }
        at * self.size as isize
    }
}

/// A compiled epilogue.
#[derive(Debug)]
pub(crate) struct EpilogueKernel {
    program: TileProgram,
    /// One for each load; `None` is the accumulator.
    loads: Vec<Option<Plane>>,
    stores: Vec<Plane>,
    /// The only output is f32, is the accumulator itself or in-place-safe, and can hold growing sums.
    direct: bool,
    /// Nothing but a store of the accumulator.
    plain: bool,
}

impl EpilogueKernel {
    /// `None` where a dtype has no body.
    pub(crate) fn new(phase: &Phase, inputs: &[Operand], outputs: &[Operand]) -> Option<Self> {
        let program = assign(phase, &[])?;
        let loads = program
            .loads
            .iter()
            .map(|load| match inputs.get(load.source as usize) {
                Some(operand) => Plane::new(operand).map(Some),
                None => Some(None),
            })
            .collect::<Option<Vec<_>>>()?;
        let stores = program
            .stores
            .iter()
            .map(|store| outputs.get(store.output as usize).and_then(Plane::new))
            .collect::<Option<Vec<_>>>()?;
        let is_accumulator_only = loads.iter().all(Option::is_none);
        let plain = program.instructions.is_empty() && is_accumulator_only && stores.len() == 1;
        // Sums may grow in the output where no operand of the epilogue is read, which might be that memory.
        let direct = is_accumulator_only
            && stores.len() == 1
            && stores[0].dtype == DType::F32
            && stores[0].col_stride == 1
            && stores[0].row_stride > 0;
        Some(EpilogueKernel { program, loads, stores, direct, plain })
    }

    /// The epilogue over operands at these addresses.
    ///
    /// # Safety
    /// Addresses are the beginnings of buffers that hold the operands; an output overlaps an input only
    /// where both have one layout.
    pub(crate) unsafe fn bind<'a>(
        &'a self,
        inputs: &'a [*const u8],
        outputs: &'a [*mut u8],
    ) -> BoundEpilogue<'a> {
        BoundEpilogue { kernel: self, inputs, outputs }
    }
}

/// An epilogue with the addresses of one call.
pub(crate) struct BoundEpilogue<'a> {
    kernel: &'a EpilogueKernel,
    inputs: &'a [*const u8],
    outputs: &'a [*mut u8],
}

// SAFETY: blocks are disjoint, and inputs are only read.
unsafe impl Sync for BoundEpilogue<'_> {}

impl Epilogue for BoundEpilogue<'_> {
    fn target(&self, batch: usize, row: usize, col: usize) -> Option<(*mut f32, usize)> {
        if !self.kernel.direct {
            return None;
        }
        let plane = &self.kernel.stores[0];
        let base = self.outputs[self.kernel.program.stores[0].output as usize];
        // SAFETY: the element lies in the output.
        let at = unsafe { base.offset(plane.at(batch, row, col)) };
        Some((at as *mut f32, plane.row_stride as usize))
    }

    fn tile(
        &self,
        batch: usize,
        row: usize,
        col: usize,
        rows: usize,
        cols: usize,
        acc: *mut f32,
        ld: usize,
        _worker: usize,
    ) {
        if self.kernel.plain && self.target(batch, row, col).is_some_and(|(target, _)| target == acc) {
            return;
        }
        with_slots(self.kernel.program.slot_bytes(), |memory| {
            dispatch(RunBlock { bound: self, batch, row, col, rows, cols, acc, ld, memory });
        });
    }
}

struct RunBlock<'a> {
    bound: &'a BoundEpilogue<'a>,
    batch: usize,
    row: usize,
    col: usize,
    rows: usize,
    cols: usize,
    acc: *mut f32,
    ld: usize,
    /// Slot memory of this thread.
    memory: *mut u8,
}

impl SimdOp for RunBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: memory holds the slots; the block lies in every operand.
        unsafe { self.run_in::<S>(self.memory) }
    }
}

impl RunBlock<'_> {
    #[inline(always)]
    unsafe fn run_in<S: Simd>(&self, memory: *mut u8) {
        let kernel = self.bound.kernel;
        let program = &kernel.program;
        // SAFETY: `memory` holds all slots.
        let mut slots: smallvec::SmallVec<[*mut u8; 24]> =
            (0..program.slots).map(|slot| unsafe { memory.add(slot * SLOT_BYTES) }).collect();
        for &(slot, dtype, value) in &program.constants {
            // SAFETY: a slot holds a tile of any body.
            unsafe { super::map::fill_constant(slots[slot as usize], dtype, value) };
        }
        // Narrow blocks take several rows to a tile.
        let width = self.cols.min(TILE);
        let rows_per_tile = if self.cols <= TILE { (TILE / width).max(1) } else { 1 };
        let mut row = 0;
        while row < self.rows {
            let rows = rows_per_tile.min(self.rows - row);
            let mut col = 0;
            while col < self.cols {
                let cols = width.min(self.cols - col);
                // SAFETY: the part lies in the block.
                unsafe { self.part::<S>(memory, &mut slots, row, col, rows, cols) };
                col += cols;
            }
            row += rows;
        }
    }

    /// One tile: `rows` by `cols` elements at (`row`, `col`) of the block.
    #[inline(always)]
    unsafe fn part<S: Simd>(
        &self,
        memory: *mut u8,
        slots: &mut [*mut u8],
        row: usize,
        col: usize,
        rows: usize,
        cols: usize,
    ) {
        let (kernel, n) = (self.bound.kernel, rows * cols);
        let program = &kernel.program;
        let whole_groups = n.is_multiple_of(GROUP);
        let (first_row, first_col) = (self.row + row, self.col + col);
        // SAFETY: every run lies in its operand and in a tile.
        unsafe {
            for (load, plane) in program.loads.iter().zip(&kernel.loads) {
                let own = memory.add(load.slot as usize * SLOT_BYTES);
                let slot = &mut slots[load.slot as usize];
                match plane {
                    None => {
                        let source = self.acc.add(row * self.ld + col);
                        if whole_groups && (rows == 1 || self.ld == cols) {
                            *slot = source as *mut u8;
                            continue;
                        }
                        *slot = own;
                        for r in 0..rows {
                            let target = (own as *mut f32).add(r * cols);
                            std::ptr::copy_nonoverlapping(source.add(r * self.ld), target, cols);
                        }
                    }
                    Some(plane) => {
                        let base = self.bound.inputs[load.source as usize];
                        let start = base.offset(plane.at(self.batch, first_row, first_col));
                        let is_dense = plane.col_stride == 1
                            && (rows == 1 || plane.row_stride == cols as isize)
                            && plane.dtype == DType::F32;
                        if whole_groups && is_dense && !load.outlives_stores {
                            *slot = start as *mut u8;
                            continue;
                        }
                        *slot = own;
                        let step = plane.row_stride * plane.size as isize;
                        for r in 0..rows {
                            load_run::<S>(
                                plane.dtype,
                                start.offset(r as isize * step),
                                plane.col_stride,
                                own.add(r * cols * plane.body.size()),
                                cols,
                            );
                        }
                    }
                }
            }
            for instruction in &program.instructions {
                steps::run::<S>(instruction, slots, n);
            }
            for (store, plane) in program.stores.iter().zip(&kernel.stores) {
                let base = self.bound.outputs[store.output as usize];
                let start = base.offset(plane.at(self.batch, first_row, first_col));
                let slot = slots[store.slot as usize];
                let step = plane.row_stride * plane.size as isize;
                for r in 0..rows {
                    let source = slot.add(r * cols * plane.body.size());
                    let target = start.offset(r as isize * step);
                    if source != target {
                        store_run::<S>(plane.dtype, target, plane.col_stride, source, cols);
                    }
                }
            }
        }
    }
}
