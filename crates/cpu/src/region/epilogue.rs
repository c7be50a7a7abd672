//! The tail of a matrix product: a pointwise phase over each finished block while it is in cache.

use lanthorn_compiler::kernel::{Operand, Phase};
use lanthorn_ir::{DType, Layout};
use smallvec::SmallVec;

use super::access::Block;
use super::map::{fill_constant, with_slots};
use super::program::{Body, SLOT_BYTES, TileProgram, assign};
use super::{GROUP, TILE, steps};
use crate::matmul::Epilogue;

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
            let block = RunBlock { bound: self, batch, row, col, rows, cols, acc, ld, memory };
            // SAFETY: memory holds the slots; the block lies in every operand.
            unsafe { block.run() };
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

impl RunBlock<'_> {
    /// # Safety
    /// The memory holds the program's slots, and the block lies in every operand.
    unsafe fn run(&self) {
        let program = &self.bound.kernel.program;
        let mut slots: SmallVec<[*mut u8; 24]> =
            (0..program.slots).map(|slot| self.memory.wrapping_add(slot * SLOT_BYTES)).collect();
        let filled = TILE.min((self.rows * self.cols).next_multiple_of(GROUP));
        for &(slot, dtype, value) in &program.constants {
            // SAFETY: a slot holds a tile of any body.
            unsafe { fill_constant(slots[slot as usize], dtype, value, filled) };
        }
        // Narrow blocks take several rows to a tile.
        let width = self.cols.clamp(1, TILE);
        let rows_per_tile = if self.cols <= TILE { TILE / width } else { 1 };
        for row in (0..self.rows).step_by(rows_per_tile) {
            let rows = rows_per_tile.min(self.rows - row);
            for col in (0..self.cols).step_by(width) {
                // SAFETY: the part lies in the block.
                unsafe { self.part(&mut slots, row, col, rows, width.min(self.cols - col)) };
            }
        }
    }

    /// One tile: `rows` by `cols` elements at (`row`, `col`) of the block.
    unsafe fn part(&self, slots: &mut [*mut u8], row: usize, col: usize, rows: usize, cols: usize) {
        let (kernel, n) = (self.bound.kernel, rows * cols);
        let program = &kernel.program;
        let is_whole = n.is_multiple_of(GROUP);
        let block = |plane: &Plane, base: *mut u8, slot: *mut u8| Block {
            dtype: plane.dtype,
            body: plane.body,
            memory: base.wrapping_offset(plane.at(self.batch, self.row + row, self.col + col)),
            row_step: plane.row_stride * plane.size as isize,
            col_stride: plane.col_stride,
            slot,
            rows,
            cols,
        };
        // The sums as an operand like the others.
        let sums = Block {
            dtype: DType::F32,
            body: Body::F32,
            memory: self.acc.wrapping_add(row * self.ld + col) as *mut u8,
            row_step: (self.ld * size_of::<f32>()) as isize,
            col_stride: 1,
            slot: self.memory,
            rows,
            cols,
        };
        // SAFETY: the part lies in every operand and in a tile. What is read in place is so by whole groups.
        unsafe {
            for (load, plane) in program.loads.iter().zip(&kernel.loads) {
                let own = self.memory.wrapping_add(load.slot as usize * SLOT_BYTES);
                let block = match plane {
                    Some(plane) => block(plane, self.bound.inputs[load.source as usize] as *mut u8, own),
                    None => Block { slot: own, ..sums },
                };
                let is_dense = block.dtype == DType::F32
                    && block.col_stride == 1
                    && (rows == 1 || block.row_step == (cols * size_of::<f32>()) as isize);
                slots[load.slot as usize] = if is_whole && is_dense && !load.outlives_stores {
                    block.memory
                } else {
                    block.load();
                    own
                };
            }
            if !program.instructions.is_empty() {
                steps::compute(&program.instructions, slots, n);
            }
            for (store, plane) in program.stores.iter().zip(&kernel.stores) {
                let block =
                    block(plane, self.bound.outputs[store.output as usize], slots[store.slot as usize]);
                if block.memory != block.slot {
                    block.store();
                }
            }
        }
    }
}
