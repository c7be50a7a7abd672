//! Gather and scatter along an axis.

use std::ops::Range;

use half::{bf16, f16};
use lanthorn_error::Result;
use smallvec::SmallVec;

use super::number::Number;
use crate::interrupt::stretches;
use crate::rows::operands::{ELEMENTS_PER_TASK, Shared};
use crate::rows::{Cpu, Indices};

/// Calls `visit` with the row-major number and the offset by `strides` of each place of `range` in `shape`.
fn walk(shape: &[usize], strides: &[isize], range: Range<usize>, mut visit: impl FnMut(usize, isize)) {
    let mut place: SmallVec<[usize; 8]> = SmallVec::from_elem(0, shape.len());
    let (mut rest, mut offset) = (range.start, 0isize);
    for axis in (0..shape.len()).rev() {
        let size = shape[axis].max(1);
        place[axis] = rest % size;
        rest /= size;
        offset += place[axis] as isize * strides[axis];
    }
    for flat in range {
        visit(flat, offset);
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            offset += strides[axis];
            if place[axis] < shape[axis] {
                break;
            }
            offset -= strides[axis] * shape[axis] as isize;
            place[axis] = 0;
        }
    }
}

struct Source<T>(*const T);
// SAFETY: only read.
unsafe impl<T: Sync> Sync for Source<T> {}

impl<T: Copy> Source<T> {
    /// # Safety
    /// The element exists.
    unsafe fn at(&self, offset: isize) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.0.offset(offset).read() }
    }
}

/// `out[place] = source[place, with ids[place] on the axis]`, for each place of `shape`.
///
/// Errors: an id outside `0..limit`, found before anything is written.
///
/// # Safety
/// `source` holds the elements at `strides` of every place of `shape` with `0..limit` on `axis`; `ids` and `out` have as
/// many elements as `shape`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn gather<T: Copy + Send + Sync>(
    cpu: Cpu,
    source: *const T,
    strides: &[isize],
    axis: usize,
    limit: usize,
    ids: Indices<'_>,
    shape: &[usize],
    out: &mut [T],
) -> Result<()> {
    ids.check("gather", "id", limit, None)?;
    let (count, source) = (out.len(), Source(source));
    let step = strides[axis];
    let mut off_axis: SmallVec<[isize; 8]> = SmallVec::from_slice(strides);
    off_axis[axis] = 0;
    let out = Shared::new(out);
    cpu.run_plain(count.div_ceil(ELEMENTS_PER_TASK), |task, _| {
        let range = task * ELEMENTS_PER_TASK..count.min((task + 1) * ELEMENTS_PER_TASK);
        walk(shape, &off_axis, range, |flat, offset| {
            let at = offset + ids.value(flat) as isize * step;
            // SAFETY: ids were checked, so the element exists; the result belongs to this task.
            unsafe { out.at(flat).write(source.at(at)) };
        });
    });
    Ok(())
}

/// How an element meets what is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    Add,
    Mul,
    Min,
    Max,
}

/// Where a scatter writes: each place of `shape`, with its id on `axis`, in row-major elements of `target`.
pub struct Places<'a> {
    pub op: &'a str,
    pub axis: usize,
    pub ids: Indices<'a>,
    pub shape: &'a [usize],
    pub target: &'a [usize],
}

impl Places<'_> {
    /// Calls `visit` with the number of each element of the source and that of its place in the target.
    ///
    /// Errors: an id outside the axis, found before the first call.
    fn visit(&self, mut visit: impl FnMut(usize, usize)) -> Result<()> {
        self.ids.check(self.op, "id", self.target[self.axis], None)?;
        let mut strides: SmallVec<[isize; 8]> = SmallVec::from_elem(0, self.target.len());
        let mut step = 1isize;
        for axis in (0..self.target.len()).rev() {
            strides[axis] = step;
            step *= self.target[axis].max(1) as isize;
        }
        let along = strides[self.axis];
        strides[self.axis] = 0;
        for range in stretches(self.shape.iter().product(), ELEMENTS_PER_TASK) {
            walk(self.shape, &strides, range, |flat, offset| {
                visit(flat, (offset + self.ids.value(flat) as isize * along) as usize);
            });
        }
        Ok(())
    }
}

/// Writes elements over `out`, which holds the base; of several for one place the last stays.
pub fn scatter_set<T: Copy>(places: &Places<'_>, source: &[T], out: &mut [T]) -> Result<()> {
    places.visit(|from, to| out[to] = source[from])
}

/// Combines elements with those of `out`, which holds the base.
pub fn scatter_into<T: Number>(
    places: &Places<'_>,
    meeting: Meeting,
    source: &[T],
    out: &mut [T],
) -> Result<()> {
    match meeting {
        Meeting::Add => {
            places.visit(|from, to| out[to] = T::narrow(T::plus(out[to].widen(), source[from].widen())))
        }
        Meeting::Mul => {
            places.visit(|from, to| out[to] = T::narrow(T::times(out[to].widen(), source[from].widen())))
        }
        Meeting::Min => places.visit(|from, to| out[to] = out[to].smaller(source[from])),
        Meeting::Max => places.visit(|from, to| out[to] = out[to].larger(source[from])),
    }
}

/// A half type, whose sums and products are kept in f32.
pub trait Half: Number {
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;
}

impl Half for f16 {
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
    fn from_f32(value: f32) -> f16 {
        f16::from_f32(value)
    }
}

impl Half for bf16 {
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }
    fn from_f32(value: f32) -> bf16 {
        bf16::from_f32(value)
    }
}

/// As [`scatter_into`] by sums and products, kept in `wide`, of the size of `out`, and rounded once.
pub fn scatter_wide<T: Half>(
    places: &Places<'_>,
    meeting: Meeting,
    source: &[T],
    wide: &mut [f32],
    out: &mut [T],
) -> Result<()> {
    for (wide, base) in wide.iter_mut().zip(out.iter()) {
        *wide = base.to_f32();
    }
    let product = meeting == Meeting::Mul;
    places.visit(|from, to| {
        let element = source[from].to_f32();
        wide[to] = if product { wide[to] * element } else { wide[to] + element };
    })?;
    for (wide, out) in wide.iter().zip(out.iter_mut()) {
        *out = T::from_f32(*wide);
    }
    Ok(())
}
