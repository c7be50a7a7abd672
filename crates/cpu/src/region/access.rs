//! How a tile reads and writes strided operands: run by run, with conversion between storage and body.

use std::ops::Range;

use half::{bf16, f16};
use lanthorn_ir::float8::{F8E4M3, F8E5M2};
use lanthorn_ir::{DType, Layout};
use smallvec::SmallVec;

use super::program::Body;
use crate::simd::{Simd, SimdOp, dispatch};

/// An operand over a flat iteration range, its axes merged as far as its own strides allow.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub dtype: DType,
    pub body: Body,
    /// In elements, from the buffer's beginning.
    offset: usize,
    /// Merged axes without those of size 1, outermost first: size and stride.
    axes: SmallVec<[(usize, isize); 4]>,
}

impl Access {
    /// `layout` read in row-major order. `None` if the dtype has no body.
    pub(crate) fn new(dtype: DType, layout: &Layout) -> Option<Access> {
        let mut axes: SmallVec<[(usize, isize); 4]> = SmallVec::new();
        for (&size, &stride) in layout.shape.iter().zip(&layout.strides) {
            if size == 1 {
                continue;
            }
            match axes.last_mut() {
                Some((outer, outer_stride)) if *outer_stride == stride * size as isize => {
                    *outer *= size;
                    *outer_stride = stride;
                }
                _ => axes.push((size, stride)),
            }
        }
        Some(Access { dtype, body: Body::of(dtype)?, offset: layout.offset, axes })
    }

    /// A contiguous array that holds body elements (a fold's results).
    pub(crate) fn dense(body_dtype: DType, count: usize) -> Option<Access> {
        Access::new(body_dtype, &Layout::contiguous([count]))
    }

    /// True if every element is the same one.
    pub(crate) fn is_splat(&self) -> bool {
        self.axes.iter().all(|&(_, stride)| stride == 0)
    }

    /// Elements that are read a fixed step apart before the next run begins somewhere else.
    pub(crate) fn run_length(&self) -> usize {
        self.axes.last().map_or(usize::MAX, |&(size, _)| size)
    }

    /// True if a body element is stored as it is.
    pub(crate) fn is_verbatim(&self) -> bool {
        matches!(self.dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64 | DType::U64)
    }

    /// The address of elements `start..start + count`, if they lie one after the other.
    ///
    /// # Safety
    /// `base` is the beginning of a buffer that holds the access, and the range lies in it.
    #[inline]
    pub(crate) unsafe fn span(&self, base: *mut u8, start: usize, count: usize) -> Option<*mut u8> {
        let at = match self.axes.split_last() {
            None => (count == 1).then_some(self.offset as isize)?,
            Some((&(_, 1), [])) => (self.offset + start) as isize,
            Some((&(inner, 1), _)) if start % inner + count <= inner => self.runs(start, count).next()?.at,
            Some(_) => return None,
        };
        // SAFETY: the caller's promise.
        Some(unsafe { base.offset(at * self.dtype.size() as isize) })
    }

    /// The bytes from a buffer's beginning that the access touches.
    pub(crate) fn extent(&self) -> Range<usize> {
        let (mut low, mut high) = (self.offset as isize, self.offset as isize);
        for &(size, stride) in &self.axes {
            let reach = (size as isize - 1).max(0) * stride;
            (low, high) = (low + reach.min(0), high + reach.max(0));
        }
        let size = self.dtype.size();
        low as usize * size..(high as usize + 1) * size
    }

    /// The runs of `start..start + count`.
    ///
    /// An iterator and no closure: a closure is a function of its own, which is not compiled for the
    /// instruction set of the loop that calls it.
    #[inline(always)]
    fn runs(&self, start: usize, count: usize) -> Runs<'_> {
        let (inner, stride, outer) = match self.axes.split_last() {
            Some((&(inner, stride), outer)) => (inner, stride, outer),
            None => (start + count, 0, &[][..]),
        };
        let row = start.checked_div(inner).unwrap_or(0);
        let column = start - row * inner;
        Runs { offset: self.offset as isize, inner, stride, outer, row, column, done: 0, count }
    }

    /// Brings elements `start..start + count` into a slot.
    ///
    /// # Safety
    /// `base` is the beginning of a buffer that holds the access, the range lies in it, and the slot
    /// holds a tile.
    pub(crate) unsafe fn load(&self, base: *const u8, start: usize, count: usize, slot: *mut u8) {
        // SAFETY: the caller's promise; bodies of verbatim types have their size.
        unsafe {
            match self.span(base as *mut u8, start, count) {
                Some(source) if self.is_verbatim() => {
                    std::ptr::copy_nonoverlapping(source as *const u8, slot, count * self.dtype.size())
                }
                _ => dispatch(Load { access: self, base, start, count, slot }),
            }
        }
    }

    /// Writes `count` body elements to `start..`.
    ///
    /// # Safety
    /// As [`Access::load`]; the buffer is writable and no other task writes the range.
    pub(crate) unsafe fn store(&self, base: *mut u8, start: usize, count: usize, slot: *const u8) {
        // SAFETY: the caller's promise; bodies of verbatim types have their size. A copy in place has the
        // operand for its slot.
        unsafe {
            match self.span(base, start, count) {
                Some(target) if self.is_verbatim() => {
                    if !std::ptr::eq(target, slot) {
                        std::ptr::copy(slot, target, count * self.dtype.size());
                    }
                }
                _ => dispatch(Store { access: self, base, start, count, slot }),
            }
        }
    }
}

struct Load<'a> {
    access: &'a Access,
    base: *const u8,
    start: usize,
    count: usize,
    slot: *mut u8,
}

impl SimdOp for Load<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let (dtype, width) = (self.access.dtype, self.access.body.size());
        for Run { at, stride, position, length } in self.access.runs(self.start, self.count) {
            // SAFETY: `Access::load`: runs lie in the access, positions in the tile.
            unsafe {
                let source = self.base.offset(at * dtype.size() as isize);
                load_run::<S>(dtype, source, stride, self.slot.add(position * width), length);
            }
        }
    }
}

struct Store<'a> {
    access: &'a Access,
    base: *mut u8,
    start: usize,
    count: usize,
    slot: *const u8,
}

impl SimdOp for Store<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let (dtype, width) = (self.access.dtype, self.access.body.size());
        for Run { at, stride, position, length } in self.access.runs(self.start, self.count) {
            // SAFETY: `Access::store`: runs lie in the access, positions in the tile.
            unsafe {
                let target = self.base.offset(at * dtype.size() as isize);
                store_run::<S>(dtype, target, stride, self.slot.add(position * width), length);
            }
        }
    }
}

/// Rows of a matrix in memory, and the dense ones in a slot that they are brought to or from.
pub(crate) struct Block {
    pub dtype: DType,
    pub body: Body,
    /// The first element.
    pub memory: *mut u8,
    /// In bytes, and in elements.
    pub row_step: isize,
    pub col_stride: isize,
    pub slot: *mut u8,
    pub rows: usize,
    pub cols: usize,
}

impl Block {
    /// # Safety
    /// The memory holds the rows, and the slot a tile.
    pub(crate) unsafe fn load(&self) {
        dispatch(LoadBlock(self));
    }

    /// # Safety
    /// As [`Block::load`]; the memory is writable and nobody else writes the rows.
    pub(crate) unsafe fn store(&self) {
        dispatch(StoreBlock(self));
    }
}

struct LoadBlock<'a>(&'a Block);

impl SimdOp for LoadBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let block = self.0;
        let width = block.cols * block.body.size();
        for row in 0..block.rows {
            // SAFETY: `Block::load`.
            unsafe {
                let source = block.memory.offset(row as isize * block.row_step);
                load_run::<S>(block.dtype, source, block.col_stride, block.slot.add(row * width), block.cols);
            }
        }
    }
}

struct StoreBlock<'a>(&'a Block);

impl SimdOp for StoreBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let block = self.0;
        let width = block.cols * block.body.size();
        for row in 0..block.rows {
            // SAFETY: `Block::store`.
            unsafe {
                let target = block.memory.offset(row as isize * block.row_step);
                store_run::<S>(
                    block.dtype,
                    target,
                    block.col_stride,
                    block.slot.add(row * width),
                    block.cols,
                );
            }
        }
    }
}

/// A part of a tile along an operand's innermost axis.
struct Run {
    /// The element offset from the buffer's beginning.
    at: isize,
    stride: isize,
    /// Where in the tile it begins.
    position: usize,
    length: usize,
}

struct Runs<'a> {
    offset: isize,
    inner: usize,
    stride: isize,
    outer: &'a [(usize, isize)],
    row: usize,
    column: usize,
    done: usize,
    count: usize,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline(always)]
    fn next(&mut self) -> Option<Run> {
        if self.done >= self.count {
            return None;
        }
        let mut at = self.offset;
        let mut rest = self.row;
        for &(size, stride) in self.outer.iter().rev() {
            at += (rest % size) as isize * stride;
            rest /= size;
        }
        let length = (self.inner - self.column).min(self.count - self.done);
        let run = Run {
            at: at + self.column as isize * self.stride,
            stride: self.stride,
            position: self.done,
            length,
        };
        self.done += length;
        self.column = 0;
        self.row += 1;
        Some(run)
    }
}

/// Copies a strided run of `T` into a dense one through `convert`.
macro_rules! gather {
    ($from:ty, $to:ty, $source:expr, $stride:expr, $slot:expr, $length:expr, |$x:ident| $convert:expr) => {{
        let (source, slot) = ($source as *const $from, $slot as *mut $to);
        if $stride == 1 {
            for i in 0..$length {
                let $x = source.add(i).read_unaligned();
                slot.add(i).write($convert);
            }
        } else if $stride == 0 {
            let $x = source.read_unaligned();
            let value: $to = $convert;
            for i in 0..$length {
                slot.add(i).write(value);
            }
        } else if $stride == 2 {
            // A known step becomes loads of vectors and a shuffle: the windows of a pooling, parts of complex numbers.
            for i in 0..$length {
                let $x = source.add(2 * i).read_unaligned();
                slot.add(i).write($convert);
            }
        } else {
            for i in 0..$length {
                let $x = source.offset(i as isize * $stride).read_unaligned();
                slot.add(i).write($convert);
            }
        }
    }};
}

macro_rules! scatter {
    ($from:ty, $to:ty, $slot:expr, $target:expr, $stride:expr, $length:expr, |$x:ident| $convert:expr) => {{
        let (slot, target) = ($slot as *const $from, $target as *mut $to);
        if $stride == 1 {
            for i in 0..$length {
                let $x = slot.add(i).read();
                target.add(i).write_unaligned($convert);
            }
        } else {
            for i in 0..$length {
                let $x = slot.add(i).read();
                target.offset(i as isize * $stride).write_unaligned($convert);
            }
        }
    }};
}

/// Widens a dense run of a 16-bit float, vector by vector.
macro_rules! widen {
    ($S:ident, $half:ty, $load:ident, $load_partial:ident, $source:expr, $slot:expr, $length:expr) => {{
        let (source, slot) = ($source as *const $half, $slot as *mut f32);
        let mut i = 0;
        while i + $S::LANES <= $length {
            $S::store(slot.add(i), $S::$load(source.add(i)));
            i += $S::LANES;
        }
        if i < $length {
            let rest = $length - i;
            $S::store_partial(slot.add(i), rest, $S::$load_partial(source.add(i), rest));
        }
    }};
}

/// Narrows a dense run to a 16-bit float, vector by vector.
macro_rules! narrow {
    ($S:ident, $half:ty, $store:ident, $store_partial:ident, $slot:expr, $target:expr, $length:expr) => {{
        let (slot, target) = ($slot as *const f32, $target as *mut $half);
        let mut i = 0;
        while i + $S::LANES <= $length {
            $S::$store(target.add(i), $S::load(slot.add(i)));
            i += $S::LANES;
        }
        if i < $length {
            let rest = $length - i;
            $S::$store_partial(target.add(i), rest, $S::load_partial(slot.add(i), rest));
        }
    }};
}

/// Brings one run into a slot, widened to its body.
///
/// # Safety
/// The run is readable and `slot` holds `length` body elements (and whole vectors for 16-bit floats).
#[inline(always)]
unsafe fn load_run<S: Simd>(dtype: DType, source: *const u8, stride: isize, slot: *mut u8, length: usize) {
    // SAFETY: the caller's promise for every arm.
    unsafe {
        match dtype {
            DType::F32 | DType::I32 if stride == 1 => {
                std::ptr::copy_nonoverlapping(source as *const u32, slot as *mut u32, length)
            }
            DType::F64 | DType::I64 | DType::U64 if stride == 1 => {
                std::ptr::copy_nonoverlapping(source as *const u64, slot as *mut u64, length)
            }
            DType::BF16 if stride == 1 => {
                widen!(S, bf16, load_bf16, load_bf16_partial, source, slot, length)
            }
            DType::F16 if stride == 1 => widen!(S, f16, load_f16, load_f16_partial, source, slot, length),
            DType::F32 | DType::I32 => gather!(u32, u32, source, stride, slot, length, |x| x),
            DType::F64 | DType::I64 | DType::U64 => gather!(u64, u64, source, stride, slot, length, |x| x),
            DType::BF16 => gather!(bf16, f32, source, stride, slot, length, |x| x.to_f32()),
            DType::F16 => gather!(f16, f32, source, stride, slot, length, |x| x.to_f32()),
            DType::Bool => gather!(u8, f32, source, stride, slot, length, |x| (x != 0) as u8 as f32),
            DType::U8 => gather!(u8, i32, source, stride, slot, length, |x| x as i32),
            DType::I8 => gather!(i8, i32, source, stride, slot, length, |x| x as i32),
            DType::U16 => gather!(u16, i32, source, stride, slot, length, |x| x as i32),
            DType::I16 => gather!(i16, i32, source, stride, slot, length, |x| x as i32),
            DType::U32 => gather!(u32, i64, source, stride, slot, length, |x| x as i64),
            DType::F8E4M3 => gather!(F8E4M3, f32, source, stride, slot, length, |x| x.to_f32()),
            DType::F8E5M2 => gather!(F8E5M2, f32, source, stride, slot, length, |x| x.to_f32()),
            DType::C64 | DType::C128 => debug_assert!(false, "no body for {dtype}"),
        }
    }
}

/// Writes one run out of a slot, narrowed to its storage type.
///
/// # Safety
/// The run is writable and `slot` holds `length` body elements (and whole vectors for 16-bit floats).
#[inline(always)]
unsafe fn store_run<S: Simd>(dtype: DType, target: *mut u8, stride: isize, slot: *const u8, length: usize) {
    // SAFETY: the caller's promise for every arm.
    unsafe {
        match dtype {
            // A copy in place has the operand for its slot.
            DType::F32 | DType::I32 if stride == 1 => {
                std::ptr::copy(slot as *const u32, target as *mut u32, length)
            }
            DType::F64 | DType::I64 | DType::U64 if stride == 1 => {
                std::ptr::copy(slot as *const u64, target as *mut u64, length)
            }
            DType::BF16 if stride == 1 => {
                narrow!(S, bf16, store_bf16, store_bf16_partial, slot, target, length)
            }
            DType::F16 if stride == 1 => {
                narrow!(S, f16, store_f16, store_f16_partial, slot, target, length)
            }
            DType::F32 | DType::I32 => scatter!(u32, u32, slot, target, stride, length, |x| x),
            DType::F64 | DType::I64 | DType::U64 => scatter!(u64, u64, slot, target, stride, length, |x| x),
            DType::BF16 => scatter!(f32, bf16, slot, target, stride, length, |x| bf16::from_f32(x)),
            DType::F16 => scatter!(f32, f16, slot, target, stride, length, |x| f16::from_f32(x)),
            DType::Bool => scatter!(f32, u8, slot, target, stride, length, |x| (x != 0.0) as u8),
            DType::U8 | DType::I8 => scatter!(i32, u8, slot, target, stride, length, |x| x as u8),
            DType::U16 | DType::I16 => scatter!(i32, u16, slot, target, stride, length, |x| x as u16),
            DType::U32 => scatter!(i64, u32, slot, target, stride, length, |x| x as u32),
            DType::F8E4M3 => scatter!(f32, F8E4M3, slot, target, stride, length, |x| F8E4M3::from_f32(x)),
            DType::F8E5M2 => scatter!(f32, F8E5M2, slot, target, stride, length, |x| F8E5M2::from_f32(x)),
            DType::C64 | DType::C128 => debug_assert!(false, "no body for {dtype}"),
        }
    }
}
