//! Pointwise regions.

use std::cell::RefCell;

use lanthorn_compiler::kernel::{Operand, Phase};
use lanthorn_ir::DType;
use lanthorn_ir::expr::Scalar;
use lanthorn_ir::layout::numel;

use super::access::Access;
use super::program::{SLOT_BYTES, TileProgram, assign};
use super::{GROUP, TILE, TILES_PER_TASK, steps};
use crate::pool::pool;
use crate::simd::{Simd, SimdOp, dispatch};

/// A phase over a flat iteration range, with its operands' accesses.
#[derive(Clone, Debug)]
pub(crate) struct TileLoop {
    pub program: TileProgram,
    /// One for each load of the program.
    pub loads: Vec<Access>,
    /// One for each store of the program.
    pub stores: Vec<Access>,
    /// Elements of the iteration range.
    pub count: usize,
}

impl TileLoop {
    /// `source(i)` gives the operand behind `Step::Load(i)`, `kept` are steps that folds read. `None` where a
    /// dtype has no body.
    pub(crate) fn new(
        phase: &Phase,
        kept: &[u32],
        domain: &[usize],
        source: impl Fn(u32) -> Option<Access>,
        output: impl Fn(u32) -> Option<Access>,
    ) -> Option<TileLoop> {
        let program = assign(phase, kept)?;
        let loads = program.loads.iter().map(|load| source(load.source)).collect::<Option<_>>()?;
        let stores = program.stores.iter().map(|store| output(store.output)).collect::<Option<_>>()?;
        Some(TileLoop { program, loads, stores, count: numel(domain) })
    }
}

/// The addresses that a tile loop works on, in the order of its loads and stores.
pub(crate) struct Bases {
    pub loads: Vec<*const u8>,
    pub stores: Vec<*mut u8>,
}

// SAFETY: tasks write disjoint ranges of the outputs, and inputs are only read.
unsafe impl Sync for Bases {}

impl Bases {
    pub(crate) fn of(tiles: &TileLoop, inputs: &[*const u8], outputs: &[*mut u8]) -> Bases {
        Bases {
            loads: tiles.program.loads.iter().map(|load| inputs[load.source as usize]).collect(),
            stores: tiles.program.stores.iter().map(|store| outputs[store.output as usize]).collect(),
        }
    }
}

/// Slot memory of a thread; grows to the largest region run on it.
struct SlotMemory {
    bytes: Vec<u8>,
}

thread_local! {
    static SLOTS: RefCell<SlotMemory> = const { RefCell::new(SlotMemory { bytes: Vec::new() }) };
}

/// Lends this thread's slot memory, 64-byte aligned. To be called outside of [`dispatch`]: what a closure
/// contains is not compiled for the instruction set.
pub(crate) fn with_slots<R>(bytes: usize, run: impl FnOnce(*mut u8) -> R) -> R {
    SLOTS.with(|slots| match slots.try_borrow_mut() {
        Ok(mut slots) => {
            if slots.bytes.len() < bytes + 64 {
                slots.bytes = vec![0; bytes + 64];
            }
            let start = slots.bytes.as_mut_ptr();
            run(start.wrapping_add(start.align_offset(64)))
        }
        // A region inside a region's task: memory of its own.
        Err(_) => {
            let mut own = vec![0u8; bytes + 64];
            let start = own.as_mut_ptr();
            run(start.wrapping_add(start.align_offset(64)))
        }
    })
}

/// The slots of a tile as the instructions see them.
pub(crate) struct Slots {
    memory: *mut u8,
    /// The address of each slot for the tile at hand: its own memory, or an operand's.
    pub at: Vec<*mut u8>,
}

impl Slots {
    /// # Safety
    /// `memory` holds the program's slots. Constants and splats are written into theirs.
    #[inline(always)]
    pub(crate) unsafe fn new<S: Simd>(tiles: &TileLoop, bases: &Bases, memory: *mut u8) -> Slots {
        let program = &tiles.program;
        // SAFETY: `memory` holds all slots.
        let at = (0..program.slots).map(|slot| unsafe { memory.add(slot * SLOT_BYTES) }).collect::<Vec<_>>();
        for &(slot, dtype, value) in &program.constants {
            // SAFETY: a slot holds a tile of any body.
            unsafe { fill_constant(at[slot as usize], dtype, value) };
        }
        for ((load, access), &base) in program.loads.iter().zip(&tiles.loads).zip(&bases.loads) {
            if access.is_splat() && tiles.count > 0 {
                // SAFETY: the operand has an element, which all of the range shows.
                unsafe { access.load::<S>(base, 0, TILE, at[load.slot as usize]) };
            }
        }
        Slots { memory, at }
    }

    /// Brings the operands of `start..start + n` in, or points at them where they lie.
    ///
    /// # Safety
    /// The range lies in the iteration range; the bases are valid.
    #[inline(always)]
    pub(crate) unsafe fn fetch<S: Simd>(&mut self, tiles: &TileLoop, bases: &Bases, start: usize, n: usize) {
        for ((load, access), &base) in tiles.program.loads.iter().zip(&tiles.loads).zip(&bases.loads) {
            if access.is_splat() {
                continue;
            }
            let slot = load.slot as usize;
            // SAFETY: the range lies in the access. An operand used in place is read by whole groups only.
            unsafe {
                let is_usable = access.is_contiguous() && access.is_verbatim() && !load.outlives_stores;
                if is_usable && n.is_multiple_of(GROUP) {
                    self.at[slot] = access.at(base as *mut u8, start);
                } else {
                    self.at[slot] = self.memory.add(slot * SLOT_BYTES);
                    access.load::<S>(base, start, n, self.at[slot]);
                }
            }
        }
    }

    /// Runs all instructions over `n` elements.
    ///
    /// # Safety
    /// The operands have been fetched.
    #[inline(always)]
    pub(crate) unsafe fn compute<S: Simd>(&self, program: &TileProgram, n: usize) {
        for instruction in &program.instructions {
            // SAFETY: slots hold a tile.
            unsafe { steps::run::<S>(instruction, &self.at, n) };
        }
    }

    /// Writes the stored steps to `start..start + n`.
    ///
    /// # Safety
    /// As [`Slots::fetch`], and no other task writes the range.
    #[inline(always)]
    pub(crate) unsafe fn write<S: Simd>(&self, tiles: &TileLoop, bases: &Bases, start: usize, n: usize) {
        for ((store, access), &base) in tiles.program.stores.iter().zip(&tiles.stores).zip(&bases.stores) {
            // SAFETY: the caller's promise.
            unsafe { access.store::<S>(base, start, n, self.at[store.slot as usize]) };
        }
    }
}

/// Fills a slot with a constant; integers wrap and floats saturate to the dtype as in a cast.
///
/// # Safety
/// The slot holds a tile.
pub(crate) unsafe fn fill_constant(slot: *mut u8, dtype: DType, value: Scalar) {
    macro_rules! narrowed {
        ($dtype:ty, $body:ty) => {{
            let value = match value {
                Scalar::Float(x) => x.0 as $dtype,
                other => other.as_i64() as $dtype,
            };
            fill(slot as *mut $body, value as $body)
        }};
    }
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::Bool => {
                let is_set = match value {
                    Scalar::Float(x) => x.0 != 0.0,
                    other => other.as_i64() != 0,
                };
                fill(slot as *mut f32, is_set as u8 as f32)
            }
            DType::U8 => narrowed!(u8, i32),
            DType::I8 => narrowed!(i8, i32),
            DType::U16 => narrowed!(u16, i32),
            DType::I16 => narrowed!(i16, i32),
            DType::I32 => narrowed!(i32, i32),
            DType::U32 => narrowed!(u32, i64),
            DType::I64 => narrowed!(i64, i64),
            DType::U64 => narrowed!(u64, u64),
            DType::F64 => narrowed!(f64, f64),
            _ => narrowed!(f32, f32),
        }
    }
}

unsafe fn fill<T: Copy>(slot: *mut T, value: T) {
    for i in 0..TILE {
        // SAFETY: a slot holds a tile.
        unsafe { slot.add(i).write(value) };
    }
}

/// Runs the tiles of one range.
struct RunTiles<'a> {
    tiles: &'a TileLoop,
    bases: &'a Bases,
    start: usize,
    stop: usize,
    /// Slot memory of this thread.
    memory: *mut u8,
}

impl SimdOp for RunTiles<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: the slots are as large as the program says; ranges lie in the iteration range, and
        // tasks own theirs.
        unsafe {
            let mut slots = Slots::new::<S>(self.tiles, self.bases, self.memory);
            run_range::<S>(self.tiles, self.bases, &mut slots, self.start, self.stop);
        }
    }
}

#[inline(always)]
unsafe fn run_range<S: Simd>(tiles: &TileLoop, bases: &Bases, slots: &mut Slots, start: usize, stop: usize) {
    let mut at = start;
    while at < stop {
        let n = TILE.min(stop - at);
        // SAFETY: the caller's promise.
        unsafe {
            slots.fetch::<S>(tiles, bases, at, n);
            slots.compute::<S>(&tiles.program, n);
            slots.write::<S>(tiles, bases, at, n);
        }
        at += n;
    }
}

/// Runs a tile loop over its whole range, threaded.
///
/// # Safety
/// Bases are the beginnings of buffers that hold the accesses; outputs overlap no input but one of equal
/// layout.
pub(crate) unsafe fn run_tiles(tiles: &TileLoop, bases: &Bases) {
    let per_task = TILE * TILES_PER_TASK;
    let tasks = tiles.count.div_ceil(per_task);
    let run = |task: usize| {
        let start = task * per_task;
        let stop = tiles.count.min(start + per_task);
        with_slots(tiles.program.slot_bytes(), |memory| {
            dispatch(RunTiles { tiles, bases, start, stop, memory });
        });
    };
    if tasks <= 2 {
        (0..tasks).for_each(run);
    } else {
        pool().run(tasks, &|task, _| run(task));
    }
}

/// A pointwise kernel.
#[derive(Debug)]
pub(crate) struct MapKernel {
    tiles: TileLoop,
}

impl MapKernel {
    pub(crate) fn new(
        domain: &[usize],
        body: &Phase,
        inputs: &[Operand],
        outputs: &[Operand],
    ) -> Option<Self> {
        let tiles = TileLoop::new(
            body,
            &[],
            domain,
            |source| inputs.get(source as usize).and_then(|o| Access::new(o.dtype, &o.layout)),
            |output| outputs.get(output as usize).and_then(|o| Access::new(o.dtype, &o.layout)),
        )?;
        Some(MapKernel { tiles })
    }

    /// # Safety
    /// As [`run_tiles`].
    pub(crate) unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8]) {
        let bases = Bases::of(&self.tiles, inputs, outputs);
        // SAFETY: the caller's promise.
        unsafe { run_tiles(&self.tiles, &bases) };
    }
}
