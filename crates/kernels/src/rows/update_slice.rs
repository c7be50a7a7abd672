//! Writing a block over part of a tensor.

use std::marker::PhantomData;

use lanthorn_error::{Error, ErrorKind, Result};
use smallvec::SmallVec;

use super::operands::{Cpu, ELEMENTS_PER_TASK};

/// A strided operand of any dtype. Strides are in elements.
#[derive(Clone, Copy)]
pub struct Strided<'a> {
    ptr: *const u8,
    shape: &'a [usize],
    strides: &'a [isize],
    life: PhantomData<&'a [u8]>,
}

/// As [`Strided`], written to.
pub struct StridedMut<'a> {
    ptr: *mut u8,
    shape: &'a [usize],
    strides: &'a [isize],
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> Strided<'a> {
    /// # Safety
    /// Every element that shape and strides reach is readable for `'a` and nothing writes it, save an output that
    /// is this very operand.
    pub unsafe fn from_raw(ptr: *const u8, shape: &'a [usize], strides: &'a [isize]) -> Self {
        assert_eq!(shape.len(), strides.len(), "shape and strides");
        Strided { ptr, shape, strides, life: PhantomData }
    }
}

impl<'a> StridedMut<'a> {
    /// # Safety
    /// Every element that shape and strides reach is writable for `'a`, no two are the same, and nothing else
    /// accesses them, save an input that is this very operand.
    pub unsafe fn from_raw(ptr: *mut u8, shape: &'a [usize], strides: &'a [isize]) -> Self {
        assert_eq!(shape.len(), strides.len(), "shape and strides");
        StridedMut { ptr, shape, strides, life: PhantomData }
    }
}

/// `out = base` with `source` written over `start..` along `axis`; elements are `element` bytes. In place where
/// `out` is `base`: the rest is then left alone.
///
/// # Errors
/// A range that leaves the base; nothing is written then.
pub fn update_slice(
    cpu: Cpu,
    base: Strided<'_>,
    source: Strided<'_>,
    start: i64,
    axis: usize,
    element: usize,
    out: StridedMut<'_>,
) -> Result<()> {
    let shape = out.shape;
    let fits = base.shape == shape
        && source.shape.len() == shape.len()
        && axis < shape.len()
        && (0..shape.len()).all(|a| if a == axis { true } else { source.shape[a] == shape[a] });
    assert!(fits, "update_slice: base {:?}, source {:?}, result {shape:?}", base.shape, source.shape);
    let (size, length) = (shape[axis], source.shape[axis]);
    let start = match usize::try_from(start) {
        Ok(start) if start <= size && length <= size - start => start,
        _ => {
            let message = format!(
                "{length} from start {start} leaves axis {axis} of size {size}, expected a start in 0..={}",
                size as i128 - length as i128
            );
            return Err(Error::new(ErrorKind::Execute, "update_slice", message));
        }
    };

    let place = |part: usize| out.ptr.wrapping_offset(part as isize * out.strides[axis] * element as isize);
    let in_place = base.ptr == out.ptr.cast_const() && base.strides == out.strides;
    if !in_place {
        let end = start + length;
        for (begin, count) in [(0, start), (end, size - end)] {
            let from = base.ptr.wrapping_offset(begin as isize * base.strides[axis] * element as isize);
            let mut part = SmallVec::<[usize; 8]>::from_slice(shape);
            part[axis] = count;
            copy(cpu, &part, from, base.strides, place(begin), out.strides, element);
        }
    }
    copy(cpu, source.shape, source.ptr, source.strides, place(start), out.strides, element);
    Ok(())
}

/// One axis of a copy, strides in bytes.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    from: isize,
    to: isize,
}

/// Source and target of a copy.
#[derive(Clone, Copy)]
struct Ends {
    from: *const u8,
    to: *mut u8,
}

// SAFETY: tasks write disjoint elements of the target; the operands' promises cover the rest.
unsafe impl Send for Ends {}
// SAFETY: as above.
unsafe impl Sync for Ends {}

impl Ends {
    fn offset(self, axis: Axis, index: usize) -> Ends {
        let index = index as isize;
        Ends {
            from: self.from.wrapping_offset(index * axis.from),
            to: self.to.wrapping_offset(index * axis.to),
        }
    }
}

/// Copies a strided block; what the operands of [`update_slice`] promise makes it sound.
fn copy(
    cpu: Cpu,
    shape: &[usize],
    from: *const u8,
    from_strides: &[isize],
    to: *mut u8,
    to_strides: &[isize],
    element: usize,
) {
    if shape.contains(&0) {
        return;
    }
    let mut axes = coalesce(shape, from_strides, to_strides, element);
    let inner = axes.pop().unwrap_or(Axis { size: 1, from: element as isize, to: element as isize });
    let outer: usize = axes.iter().map(|axis| axis.size).product();
    // An item is a piece of the inner axis at one place of the outer axes.
    let piece = inner.size.min(ELEMENTS_PER_TASK);
    let pieces = inner.size.div_ceil(piece);
    let (items, items_per_task) = (outer * pieces, ELEMENTS_PER_TASK / piece);
    let ends = Ends { from, to };
    let axes = &axes;
    cpu.run_plain(items.div_ceil(items_per_task), |task, _| {
        for item in task * items_per_task..items.min((task + 1) * items_per_task) {
            let (mut place, begin) = (item / pieces, item % pieces * piece);
            let mut ends = ends.offset(inner, begin);
            for axis in axes.iter().rev() {
                ends = ends.offset(*axis, place % axis.size);
                place /= axis.size;
            }
            // SAFETY: indices are inside the shape, whose elements the operands vouch for.
            unsafe { copy_run(ends, Axis { size: piece.min(inner.size - begin), ..inner }, element) };
        }
    });
}

/// The axes of a copy, without those of size 1, adjacent ones merged where both sides allow it.
fn coalesce(shape: &[usize], from: &[isize], to: &[isize], element: usize) -> SmallVec<[Axis; 8]> {
    let mut axes = SmallVec::<[Axis; 8]>::new();
    for ((size, from), to) in shape.iter().zip(from).zip(to) {
        let axis = Axis { size: *size, from: from * element as isize, to: to * element as isize };
        if axis.size == 1 {
            continue;
        }
        let size = axis.size as isize;
        match axes.last_mut() {
            Some(last) if last.from == axis.from * size && last.to == axis.to * size => {
                *last = Axis { size: last.size * axis.size, ..axis };
            }
            _ => axes.push(axis),
        }
    }
    axes
}

/// # Safety
/// The elements along the axis are readable and writable at both ends.
unsafe fn copy_run(ends: Ends, axis: Axis, element: usize) {
    if axis.from == element as isize && axis.to == element as isize {
        // SAFETY: the caller's promise; a source that is not the target does not overlap it.
        unsafe { std::ptr::copy_nonoverlapping(ends.from, ends.to, axis.size * element) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match element {
            1 => copy_elements::<u8>(ends, axis),
            2 => copy_elements::<u16>(ends, axis),
            4 => copy_elements::<u32>(ends, axis),
            8 => copy_elements::<u64>(ends, axis),
            _ => {
                for index in 0..axis.size {
                    let ends = ends.offset(axis, index);
                    std::ptr::copy_nonoverlapping(ends.from, ends.to, element);
                }
            }
        }
    }
}

/// # Safety
/// As [`copy_run`].
unsafe fn copy_elements<T>(ends: Ends, axis: Axis) {
    for index in 0..axis.size {
        let ends = ends.offset(axis, index);
        // SAFETY: the caller's promise.
        unsafe { ends.to.cast::<T>().write_unaligned(ends.from.cast::<T>().read_unaligned()) };
    }
}
