//! What kernels are handed: operands, scratch, and the means to run.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::wide::Wide;
use crate::pool::pool;
use crate::simd::{self, Isa, SimdOp, dispatch_on};

/// The means to run a kernel: an instruction set and a number of threads.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    pub isa: Isa,
    pub threads: usize,
}

impl Cpu {
    /// The best instruction set and all threads of the pool.
    pub fn host() -> Cpu {
        Cpu { isa: simd::isa(), threads: pool().threads() }
    }

    /// Runs the op that `task` makes of every number below `tasks`, threaded. The second number tells
    /// the worker, below [`Cpu::threads`].
    #[inline]
    pub(crate) fn run<O: SimdOp<Output = ()>>(self, tasks: usize, task: impl Fn(usize, usize) -> O + Sync) {
        pool().run_on(self.threads, tasks, &|number, worker| dispatch_on(self.isa, task(number, worker)));
    }

    /// Runs `task` for every number below `tasks`, threaded, for work that needs no instruction set.
    #[inline]
    pub(crate) fn run_plain(self, tasks: usize, task: impl Fn(usize, usize) + Sync) {
        pool().run_on(self.threads, tasks, &task);
    }

    /// Runs the op that `task` makes of every range of rows; ranges depend on the shape alone.
    #[inline]
    pub(crate) fn run_rows<O: SimdOp<Output = ()>>(
        self,
        rows: usize,
        width: usize,
        task: impl Fn(std::ops::Range<usize>) -> O + Sync,
    ) {
        let chunk = (ELEMENTS_PER_TASK / width.max(1)).max(1);
        self.run(rows.div_ceil(chunk), |number, _| task(number * chunk..rows.min((number + 1) * chunk)));
    }
}

/// A task of this size takes some microseconds: long against handing it out, short against a row of
/// tasks that end unevenly.
pub(crate) const ELEMENTS_PER_TASK: usize = 1 << 14;

/// An operand of `rows` rows, `row_stride` elements apart, each of `width` adjacent elements.
pub struct Rows<'a, E> {
    ptr: *const E,
    rows: usize,
    width: usize,
    row_stride: isize,
    life: PhantomData<&'a [E]>,
}

/// As [`Rows`], written to.
pub struct RowsMut<'a, E> {
    ptr: *mut E,
    rows: usize,
    width: usize,
    row_stride: isize,
    life: PhantomData<&'a mut [E]>,
}

// SAFETY: like `&[E]`, under the promises of `from_raw`.
unsafe impl<E: Sync> Send for Rows<'_, E> {}
// SAFETY: as above.
unsafe impl<E: Sync> Sync for Rows<'_, E> {}
// SAFETY: kernels hand every row to one task.
unsafe impl<E: Send> Send for RowsMut<'_, E> {}
// SAFETY: as above.
unsafe impl<E: Send> Sync for RowsMut<'_, E> {}

impl<E> Clone for Rows<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Rows<'_, E> {}

impl<'a, E> Rows<'a, E> {
    /// # Safety
    /// Every element is readable, aligned and initialised for `'a`, and nothing writes it, save that an output
    /// of the same kernel may have the very same pointer and row stride: all row kernels may
    /// run in place.
    pub unsafe fn from_raw(ptr: *const E, rows: usize, width: usize, row_stride: isize) -> Self {
        Rows { ptr, rows, width, row_stride, life: PhantomData }
    }

    /// Adjacent rows. Panics if the slice does not hold `rows * width` elements.
    pub fn new(elements: &'a [E], rows: usize, width: usize) -> Self {
        assert_eq!(elements.len(), rows * width, "rows of a slice");
        // SAFETY: the slice holds them all and is borrowed for `'a`.
        unsafe { Self::from_raw(elements.as_ptr(), rows, width, width as isize) }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.rows, self.width]
    }

    /// The beginning of a row; readable for `width` elements. `row` is below `rows`.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> *const E {
        debug_assert!(row < self.rows);
        self.ptr.wrapping_offset(row as isize * self.row_stride)
    }
}

impl<'a, E> RowsMut<'a, E> {
    /// # Safety
    /// Every element is writable and aligned for `'a` and rows do not overlap; nothing else accesses them, save an
    /// input of the same kernel that has the very same pointer and row stride.
    pub unsafe fn from_raw(ptr: *mut E, rows: usize, width: usize, row_stride: isize) -> Self {
        RowsMut { ptr, rows, width, row_stride, life: PhantomData }
    }

    /// Adjacent rows. Panics if the slice does not hold `rows * width` elements.
    pub fn new(elements: &'a mut [E], rows: usize, width: usize) -> Self {
        assert_eq!(elements.len(), rows * width, "rows of a slice");
        // SAFETY: the slice holds them all and is borrowed for `'a`.
        unsafe { Self::from_raw(elements.as_mut_ptr(), rows, width, width as isize) }
    }

    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.rows, self.width]
    }

    /// The beginning of a row; writable for `width` elements. `row` is below `rows`, and each row
    /// belongs to one task.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> *mut E {
        debug_assert!(row < self.rows);
        self.ptr.wrapping_offset(row as isize * self.row_stride)
    }
}

/// A slice whose elements several tasks write, each its own.
pub(crate) struct Shared<'a, T> {
    ptr: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: tasks access disjoint elements, as the callers of `at` vouch.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Shared { ptr: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    /// The address of an element; `at` is at most the length.
    #[inline(always)]
    pub(crate) fn at(&self, at: usize) -> *mut T {
        debug_assert!(at <= self.len);
        self.ptr.wrapping_add(at)
    }
}

/// Scratch memory of a kernel; contents are unspecified before and after.
pub struct Scratch<'a> {
    memory: &'a mut [MaybeUninit<u8>],
}

/// Every part of scratch begins at a multiple of this, and so does the whole.
pub const SCRATCH_ALIGN: usize = 64;

impl<'a> Scratch<'a> {
    /// Scratch in `memory`, which begins at a multiple of 64 bytes.
    pub fn new(memory: &'a mut [MaybeUninit<u8>]) -> Self {
        Scratch { memory }
    }

    /// # Safety
    /// `bytes` bytes at `ptr`, a multiple of 64 (or `bytes` is 0), are writable for `'a` and nothing else
    /// accesses them.
    pub unsafe fn from_raw(ptr: *mut u8, bytes: usize) -> Self {
        if bytes == 0 {
            return Scratch { memory: &mut [] };
        }
        // SAFETY: the caller's promise.
        Scratch { memory: unsafe { std::slice::from_raw_parts_mut(ptr.cast(), bytes) } }
    }

    /// The first byte.
    pub fn into_raw(self) -> *mut u8 {
        self.memory.as_mut_ptr().cast()
    }

    /// The bytes that [`Scratch::take`] uses up for `count` values.
    pub const fn bytes_of<T>(count: usize) -> usize {
        (count * size_of::<T>()).next_multiple_of(SCRATCH_ALIGN)
    }

    /// Room for `count` values for each worker. Where the scratch was made for fewer threads than there are now,
    /// fewer take part.
    pub(crate) fn per_worker<T>(&mut self, cpu: Cpu, count: usize) -> (Cpu, Shared<'a, MaybeUninit<T>>) {
        let workers = match Self::bytes_of::<T>(count) {
            0 => cpu.threads,
            bytes => cpu.threads.min(self.memory.len() / bytes).max(1),
        };
        (Cpu { threads: workers, ..cpu }, Shared::new(self.take(count * workers)))
    }

    /// All of it as room for `count` zeros for each worker, and for how many workers that is, at least one.
    ///
    /// Panics where it does not hold one.
    pub fn workers<W: Wide>(mut self, count: usize) -> (usize, &'a mut [W]) {
        let fits = (self.memory.len() / size_of::<W>()).checked_div(count).unwrap_or(usize::MAX);
        let workers = Cpu::host().threads.min(fits).max(1);
        let room = self.take::<W>(count * workers);
        room.iter_mut().for_each(|value| {
            value.write(W::ZERO);
        });
        // SAFETY: every value has been written.
        (workers, unsafe { &mut *(room as *mut [MaybeUninit<W>] as *mut [W]) })
    }

    /// Room for `count` values, uninitialised. Panics where the scratch is too small or ill aligned.
    pub fn take<T>(&mut self, count: usize) -> &'a mut [MaybeUninit<T>] {
        let (part, rest) = std::mem::take(&mut self.memory).split_at_mut(Self::bytes_of::<T>(count));
        self.memory = rest;
        assert!(
            count == 0 || (part.as_ptr() as usize).is_multiple_of(align_of::<T>()),
            "scratch is not aligned"
        );
        // SAFETY: `part` is exclusive, holds `count` values of T, is aligned for T where there are
        // any, and MaybeUninit asks nothing of the bytes.
        unsafe {
            let ptr =
                if count == 0 { std::ptr::NonNull::dangling().as_ptr() } else { part.as_mut_ptr().cast() };
            std::slice::from_raw_parts_mut(ptr, count)
        }
    }
}
