//! Pointwise regions.

use std::cell::RefCell;

use lanthorn_compiler::kernel::{Operand, Phase};
use lanthorn_ir::DType;
use lanthorn_ir::expr::Scalar;
use lanthorn_ir::layout::numel;
use smallvec::SmallVec;

use super::access::Access;
use super::program::{SLOT_BYTES, TileProgram, assign};
use super::steps::Ahead;
use super::{GROUP, TILE, TILES_PER_TASK, steps};
use crate::pool::pool;

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
    pub loads: SmallVec<[*const u8; 8]>,
    pub stores: SmallVec<[*mut u8; 4]>,
    /// For each store whether its step may be computed where it goes: nothing that is read later lies there.
    in_output: SmallVec<[bool; 4]>,
}

// SAFETY: tasks write disjoint ranges of the outputs, and inputs are only read.
unsafe impl Sync for Bases {}

impl Bases {
    pub(crate) fn of(tiles: &TileLoop, inputs: &[*const u8], outputs: &[*mut u8]) -> Bases {
        let program = &tiles.program;
        let (mut loads, mut stores) = (SmallVec::<[*const u8; 8]>::new(), SmallVec::<[*mut u8; 4]>::new());
        for load in &program.loads {
            loads.push(inputs[load.source as usize]);
        }
        for store in &program.stores {
            stores.push(outputs[store.output as usize]);
        }
        let range = |access: &Access, base: usize| {
            let extent = access.extent();
            base + extent.start..base + extent.end
        };
        let mut in_output = SmallVec::<[bool; 4]>::new();
        for ((store, access), &base) in program.stores.iter().zip(&tiles.stores).zip(&stores) {
            let is_apart = || {
                let output = range(access, base as usize);
                tiles.loads.iter().zip(&loads).all(|(access, &base)| {
                    let input = range(access, base as usize);
                    input.end <= output.start || output.end <= input.start
                })
            };
            let is_direct = access.is_verbatim() && store.direct == Some(access.dtype);
            in_output.push(is_direct && (store.is_last || is_apart()));
        }
        Bases { loads, stores, in_output }
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
pub(crate) struct Slots<'a> {
    tiles: &'a TileLoop,
    bases: &'a Bases,
    memory: *mut u8,
    /// The address of each slot for the tile at hand: its own memory, or an operand's.
    pub at: SmallVec<[*mut u8; 24]>,
}

impl<'a> Slots<'a> {
    /// # Safety
    /// `memory` holds the program's slots, and the bases are those of the loop's operands. Constants and
    /// splats are written into their slots.
    pub(crate) unsafe fn new(tiles: &'a TileLoop, bases: &'a Bases, memory: *mut u8) -> Self {
        let program = &tiles.program;
        let mut at = SmallVec::<[*mut u8; 24]>::new();
        for slot in 0..program.slots {
            at.push(memory.wrapping_add(slot * SLOT_BYTES));
        }
        let filled = TILE.min(tiles.count.next_multiple_of(GROUP));
        for &(slot, dtype, value) in &program.constants {
            // SAFETY: a slot holds a tile of any body.
            unsafe { fill_constant(at[slot as usize], dtype, value, filled) };
        }
        for ((load, access), &base) in program.loads.iter().zip(&tiles.loads).zip(&bases.loads) {
            if access.is_splat() && tiles.count > 0 {
                // SAFETY: the operand has an element, which all of the range shows.
                unsafe { access.load(base, 0, filled, at[load.slot as usize]) };
            }
        }
        Slots { tiles, bases, memory, at }
    }

    /// Points the slots at elements `start..start + n` of the operands, however many they are; false where the
    /// program computes or stores something, or an operand does not lie there as it is read.
    ///
    /// # Safety
    /// The range lies in the iteration range.
    pub(crate) unsafe fn point(&mut self, start: usize, n: usize) -> bool {
        let program = &self.tiles.program;
        if !program.instructions.is_empty() || !program.stores.is_empty() || !program.constants.is_empty() {
            return false;
        }
        for ((load, access), &base) in program.loads.iter().zip(&self.tiles.loads).zip(&self.bases.loads) {
            // SAFETY: the caller's promise.
            let place = unsafe { access.span(base as *mut u8, start, n) };
            match place {
                Some(place) if access.is_verbatim() => self.at[load.slot as usize] = place,
                _ => return false,
            }
        }
        true
    }

    /// Runs the program over elements `start..start + n`: brings operands in (or points at them where they
    /// lie), computes, and writes what is stored.
    ///
    /// # Safety
    /// The range lies in the iteration range, and no other task writes it.
    pub(crate) unsafe fn run(&mut self, start: usize, n: usize) {
        let (program, bases) = (&self.tiles.program, self.bases);
        let is_whole = n.is_multiple_of(GROUP);
        let own = |slot: u16| self.memory.wrapping_add(slot as usize * SLOT_BYTES);
        let mut ahead = SmallVec::<[Ahead; 8]>::new();
        // SAFETY: the range lies in all accesses. What is read or written in place is so by whole groups.
        unsafe {
            for ((load, access), &base) in program.loads.iter().zip(&self.tiles.loads).zip(&bases.loads) {
                if access.is_splat() {
                    continue;
                }
                let is_usable = is_whole && access.is_verbatim() && !load.outlives_stores;
                let in_place = if is_usable { access.span(base as *mut u8, start, n) } else { None };
                if let Some(place) = in_place {
                    // The next tile lies behind this one, unless a row ends here.
                    let bytes = n * access.dtype.size();
                    ahead.push(Ahead { at: place.wrapping_add(bytes), bytes });
                }
                self.at[load.slot as usize] = in_place.unwrap_or_else(|| {
                    access.load(base, start, n, own(load.slot));
                    own(load.slot)
                });
            }
            for (at, (store, access)) in program.stores.iter().zip(&self.tiles.stores).enumerate() {
                if bases.in_output[at] {
                    let in_place = if is_whole { access.span(bases.stores[at], start, n) } else { None };
                    self.at[store.slot as usize] = in_place.unwrap_or(own(store.slot));
                }
            }
            if program.instructions.len() >= MANY_INSTRUCTIONS {
                steps::compute_ahead(&program.instructions, &self.at, n, &ahead);
            } else if !program.instructions.is_empty() {
                steps::compute(&program.instructions, &self.at, n);
            }
            for ((store, access), &base) in program.stores.iter().zip(&self.tiles.stores).zip(&bases.stores) {
                access.store(base, start, n, self.at[store.slot as usize]);
            }
        }
    }
}

/// Fills a slot with a constant; integers wrap and floats saturate to the dtype as in a cast.
///
/// # Safety
/// The slot holds `count` elements.
pub(crate) unsafe fn fill_constant(slot: *mut u8, dtype: DType, value: Scalar, count: usize) {
    macro_rules! narrowed {
        ($dtype:ty, $body:ty) => {{
            let value = match value {
                Scalar::Float(x) => x.0 as $dtype,
                other => other.as_i64() as $dtype,
            };
            fill(slot as *mut $body, value as $body, count)
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
                fill(slot as *mut f32, is_set as u8 as f32, count)
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

unsafe fn fill<T: Copy>(slot: *mut T, value: T, count: usize) {
    for i in 0..count {
        // SAFETY: the slot holds as many.
        unsafe { slot.add(i).write(value) };
    }
}

/// Instructions from which on the next tile is asked for while they run; in fewer, the requests would be in the way of
/// what is read and written.
const MANY_INSTRUCTIONS: usize = 4;

/// Runs a tile loop over its whole range, threaded.
///
/// # Safety
/// Bases are the beginnings of buffers that hold the accesses; outputs overlap no input but one of equal
/// layout.
pub(crate) unsafe fn run_tiles(tiles: &TileLoop, bases: &Bases) {
    let per_task = TILE * TILES_PER_TASK;
    let tasks = tiles.count.div_ceil(per_task);
    let run = |task: usize| {
        let stop = tiles.count.min((task + 1) * per_task);
        with_slots(tiles.program.slot_bytes(), |memory| {
            // SAFETY: the slots are as large as the program says; tasks own their ranges.
            unsafe {
                let mut slots = Slots::new(tiles, bases, memory);
                for start in (task * per_task..stop).step_by(TILE) {
                    slots.run(start, TILE.min(stop - start));
                }
            }
        });
    };
    if tasks <= 2 {
        (0..tasks).for_each(run);
    } else {
        pool().run(tasks, &|task, _| run(task));
    }
}

/// Slots of a region that is small enough for the stack.
const FEW_SLOTS: usize = 4;

/// As [`run_tiles`] for up to [`GROUP`] elements and [`FEW_SLOTS`] slots without constants: every operand goes through
/// a slot on the stack, for to find out where it could stay would take longer.
///
/// # Safety
/// As [`run_tiles`].
unsafe fn run_few(tiles: &TileLoop, inputs: &[*const u8], outputs: &[*mut u8]) {
    let program = &tiles.program;
    #[repr(align(64))]
    struct Slot([u64; GROUP]);
    let mut memory = [const { Slot([0; GROUP]) }; FEW_SLOTS];
    let at = memory.each_mut().map(|slot| slot.0.as_mut_ptr().cast::<u8>());
    // SAFETY: a slot holds a group of any body; the range is that of the accesses.
    unsafe {
        for (load, access) in program.loads.iter().zip(&tiles.loads) {
            let n = if access.is_splat() { GROUP } else { tiles.count };
            access.load(inputs[load.source as usize], 0, n, at[load.slot as usize]);
        }
        steps::compute(&program.instructions, &at, tiles.count);
        for (store, access) in program.stores.iter().zip(&tiles.stores) {
            access.store(outputs[store.output as usize], 0, tiles.count, at[store.slot as usize]);
        }
    }
}

/// A pointwise kernel.
#[derive(Debug)]
pub(crate) struct MapKernel {
    tiles: TileLoop,
    /// True if every step runs on whole groups of the operands where they lie: one step, and no conversion.
    is_direct: bool,
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
        let program = &tiles.program;
        let is_direct = program.constants.is_empty()
            && program.instructions.len() == 1
            && program.slots <= FEW_SLOTS
            && tiles.loads.iter().all(Access::is_verbatim)
            && matches!((&program.stores[..], &tiles.stores[..]), ([store], [access])
                if access.is_verbatim() && store.direct == Some(access.dtype));
        Some(MapKernel { tiles, is_direct })
    }

    /// Elements of the iteration range.
    pub(crate) fn count(&self) -> usize {
        self.tiles.count
    }

    /// Runs the kernel on the first `count` elements only, at most a tile, in this thread.
    ///
    /// # Safety
    /// As [`run_tiles`], of contiguous operands of which each has an address in `inputs` or is the one output. Where
    /// they are said to be `roomy`, whole groups of them can be read and written.
    pub(crate) unsafe fn run_first(&self, count: usize, roomy: bool, inputs: &[*const u8], output: *mut u8) {
        let program = &self.tiles.program;
        if self.is_direct && roomy {
            let mut at = [std::ptr::null_mut(); FEW_SLOTS];
            for load in &program.loads {
                at[load.slot as usize] = inputs[load.source as usize].cast_mut();
            }
            for store in &program.stores {
                at[store.slot as usize] = output;
            }
            // SAFETY: the one instruction reads loads and writes the store, in groups that the operands hold.
            return unsafe { steps::compute(&program.instructions, &at, count) };
        }
        let bases = Bases::of(&self.tiles, inputs, &[output]);
        with_slots(program.slot_bytes(), |memory| {
            // SAFETY: the slots are as large as the program says; the range is the caller's.
            unsafe { Slots::new(&self.tiles, &bases, memory).run(0, count) }
        });
    }

    /// # Safety
    /// As [`run_tiles`].
    pub(crate) unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8]) {
        let (tiles, program) = (&self.tiles, &self.tiles.program);
        if (1..=GROUP).contains(&tiles.count)
            && program.slots <= FEW_SLOTS
            && program.constants.is_empty()
            && !program.instructions.is_empty()
        {
            // SAFETY: the caller's promise.
            return unsafe { run_few(tiles, inputs, outputs) };
        }
        let bases = Bases::of(tiles, inputs, outputs);
        // SAFETY: the caller's promise.
        unsafe { run_tiles(tiles, &bases) };
    }
}
