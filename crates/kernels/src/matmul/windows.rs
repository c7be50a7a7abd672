//! Columns that are windows: the right operand of a convolution, packed from where the image lies, so that no matrix of
//! windows is ever in memory.
//!
//! Element (k, col) is read at channel and kernel place `k` (row-major) of the window at image and place `col`
//! (row-major). Along each axis the window at `p` has its kernel place `j` at `p · step + j · dilation - low` of an
//! operand whose neighbours are `gap` apart; between and around them are zeros.

use smallvec::SmallVec;

use super::element::Memory;
use super::kernel::tile_cols;
use super::pack::{Matrix, copy, pack_b_transposed, pack_row};
use crate::simd::{MAX_LANES, Simd};

/// One spatial axis.
#[derive(Clone, Copy, Debug)]
pub struct WindowAxis {
    /// Windows.
    pub count: usize,
    /// Places of a window.
    pub kernel: usize,
    /// From one window to the next.
    pub step: usize,
    /// From one place of a window to the next.
    pub dilation: usize,
    /// Zeros before the operand; a negative number cuts.
    pub low: isize,
    /// Elements of the operand.
    pub length: usize,
    /// From one element of the operand to the next, at least 1: zeros lie between.
    pub gap: usize,
    /// The same in memory, in elements.
    pub stride: isize,
}

/// The windows of some images, as the columns of a matrix.
#[derive(Clone, Debug)]
pub struct Windows {
    /// From one image to the next, in elements.
    image_stride: isize,
    /// From one channel to the next, in elements.
    channel_stride: isize,
    axes: SmallVec<[WindowAxis; 3]>,
    /// Where the first indices lie of the side of which one at a time is read.
    table: Vec<Place>,
}

/// Indices of which the place is kept.
const TABLE: usize = 1 << 15;

/// What an index adds.
#[derive(Clone, Debug)]
struct Place {
    /// To the address but for the last axis, in elements.
    base: isize,
    /// To the places on the other axes.
    outer: SmallVec<[isize; 2]>,
    /// Its number on the last axis.
    last: usize,
}

/// An index of the matrix: a column is an image and a window on each axis, a row a channel and a place on each axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Columns,
    Rows,
}

impl WindowAxis {
    /// From the first place of the first of `windows` windows, at least one, to the last of the last, both included.
    pub(crate) fn span(&self, windows: usize) -> usize {
        (windows - 1) * self.step + (self.kernel - 1) * self.dilation + 1
    }

    /// How many values the index has on the axis, and how far apart they read.
    fn along(&self, side: Side) -> (usize, usize) {
        match side {
            Side::Columns => (self.count, self.step),
            Side::Rows => (self.kernel, self.dilation),
        }
    }
}

/// Consecutive indices that differ on the last axis alone: `at..at + len` of those that are packed.
struct Run {
    at: usize,
    len: usize,
    /// The first of them.
    place: Place,
}

impl Windows {
    /// The windows of `images` images with `channels` channels each, on at least one axis.
    pub fn new(
        images: usize,
        image_stride: isize,
        channels: usize,
        channel_stride: isize,
        axes: SmallVec<[WindowAxis; 3]>,
    ) -> Windows {
        let mut windows = Windows { image_stride, channel_stride, axes, table: Vec::new() };
        let fixed = windows.fixed();
        let lead = if fixed == Side::Rows { channels } else { images };
        let count = windows.axes.iter().fold(lead, |count, axis| count.saturating_mul(axis.along(fixed).0));
        windows.table = (0..count.min(TABLE)).map(|index| windows.locate(fixed, index)).collect();
        windows
    }

    /// The side of which one index at a time is read; what is read of the other comes in the longer runs.
    fn fixed(&self) -> Side {
        match self.axes.last() {
            Some(last) if last.count < last.kernel => Side::Columns,
            _ => Side::Rows,
        }
    }

    /// What an index adds; the zeros before the operand are taken off with the rows.
    fn locate(&self, side: Side, mut index: usize) -> Place {
        let mut places = SmallVec::from_elem(0, self.axes.len().saturating_sub(1));
        let (mut base, mut on_last) = (0, 0);
        for (a, axis) in self.axes.iter().enumerate().rev() {
            let (count, step) = axis.along(side);
            let at = index % count;
            index /= count;
            match places.get_mut(a) {
                None => on_last = at,
                Some(place) => {
                    *place = (at * step) as isize - if side == Side::Rows { axis.low } else { 0 };
                    if axis.gap == 1 {
                        base += *place * axis.stride;
                    }
                }
            }
        }
        let lead = if side == Side::Columns { self.image_stride } else { self.channel_stride };
        Place { base: base + index as isize * lead, outer: places, last: on_last }
    }

    /// Indices `first..first + count` as runs.
    fn runs(&self, side: Side, first: usize, count: usize) -> SmallVec<[Run; 16]> {
        let Some((along, _)) = self.axes.last().map(|axis| axis.along(side)) else { return SmallVec::new() };
        let (mut runs, mut done) = (SmallVec::new(), 0);
        while done < count {
            let place = self.locate(side, first + done);
            let len = (along - place.last).min(count - done);
            runs.push(Run { at: done, len, place });
            done += len;
        }
        runs
    }

    /// Packs rows `k..k + depth` of columns `first..first + cols` as [`pack_b`](super::pack::pack_b) does.
    ///
    /// # Safety
    /// `data` points at the element of the first image and channel in which all axes are 0; rows and columns exist,
    /// and `target` holds their panels.
    #[inline(always)]
    pub(super) unsafe fn pack<S: Simd, T: Memory>(
        &self,
        data: *const T,
        k: usize,
        depth: usize,
        first: usize,
        cols: usize,
        target: *mut f32,
    ) {
        if self.fixed() == Side::Rows {
            let mut row = [0.0f32; ROW];
            for part in (0..cols).step_by(ROW) {
                let width = (cols - part).min(ROW);
                let runs = self.runs(Side::Columns, first + part, width);
                for step in 0..depth {
                    // SAFETY: the caller's promise; the row holds the runs.
                    unsafe {
                        self.read::<S, T>(Side::Rows, k + step, &runs, data, row.as_mut_ptr());
                        pack_row::<S, f32>(row.as_ptr(), width, part, depth, step, target);
                    }
                }
            }
            return;
        }
        let mut columns = [0.0f32; MAX_COLS * LONG];
        for part in (0..depth).step_by(LONG) {
            let long = (depth - part).min(LONG);
            let runs = self.runs(Side::Rows, k + part, long);
            for col in (0..cols).step_by(tile_cols::<S>()) {
                let width = (cols - col).min(tile_cols::<S>());
                // SAFETY: the caller's promise; the panel of column `col` lies at `col · depth`.
                unsafe {
                    for j in 0..width {
                        let column = columns.as_mut_ptr().add(j * LONG);
                        self.read::<S, T>(Side::Columns, first + col + j, &runs, data, column);
                    }
                    let columns = Matrix { data: columns.as_ptr(), row_stride: 1, col_stride: LONG as isize };
                    let panel = target.add(col * depth + part * tile_cols::<S>());
                    pack_b_transposed::<S, f32>(columns, long, width, panel);
                }
            }
        }
    }

    /// Reads what index `fixed` of one side has at the runs of the other.
    ///
    /// # Safety
    /// `data` as for [`Windows::pack`]; `target` holds the runs.
    #[inline(always)]
    unsafe fn read<S: Simd, T: Memory>(
        &self,
        side: Side,
        fixed: usize,
        runs: &[Run],
        data: *const T,
        target: *mut f32,
    ) {
        let Some((last, outer)) = self.axes.split_last() else { return };
        let located;
        let place = match self.table.get(fixed) {
            Some(place) => place,
            None => {
                located = self.locate(side, fixed);
                &located
            }
        };
        let shift = (place.last * last.along(side).1) as isize - last.low;
        let step = last.along(if side == Side::Rows { Side::Columns } else { Side::Rows }).1;
        for run in runs {
            let mut at = run.place.base + place.base;
            let mut is_inside = true;
            for ((axis, one), other) in outer.iter().zip(&run.place.outer).zip(&place.outer) {
                let place = one + other;
                is_inside &= place >= 0 && place < (axis.length * axis.gap) as isize;
                if axis.gap > 1 {
                    is_inside &= place % axis.gap as isize == 0;
                    at += place / axis.gap as isize * axis.stride;
                }
            }
            // SAFETY: the target holds the run, which is read where it lies inside of the operand.
            unsafe {
                let target = target.add(run.at);
                if is_inside {
                    read_run::<S, T>(last, data.wrapping_offset(at), step as isize, shift, run, target);
                } else {
                    target.write_bytes(0, run.len);
                }
            }
        }
    }
}

/// Columns that go through one row of memory: a multiple of every panel's width.
const ROW: usize = 256;

/// The widest panel.
const MAX_COLS: usize = 2 * MAX_LANES;

/// Rows that are read at once where columns are.
const LONG: usize = 128;

/// `row[i] = data[(first + i) · step + shift]` where the operand has that place, else 0.
#[inline(always)]
unsafe fn read_run<S: Simd, T: Memory>(
    axis: &WindowAxis,
    data: *const T,
    step: isize,
    shift: isize,
    run: &Run,
    row: *mut f32,
) {
    let (gap, length, first) = (axis.gap as isize, axis.length as isize, run.place.last as isize);
    let len = run.len as isize;
    // SAFETY: only places inside of the operand are read, and `len` values written.
    unsafe {
        if gap > 1 {
            for i in 0..len {
                let place = (first + i) * step + shift;
                let is_there = place >= 0 && place % gap == 0 && place / gap < length;
                *row.offset(i) = if is_there { T::get(data.offset(place / gap * axis.stride)) } else { 0.0 };
            }
            return;
        }
        // The first that is not before the operand, and the first that is behind it.
        let ceil = |places: isize| if places <= 0 { 0 } else { (places + step - 1) / step };
        let start = (ceil(-shift) - first).clamp(0, len);
        let stop = (ceil(length - shift) - first).clamp(start, len);
        row.write_bytes(0, start as usize);
        let place = (first + start) * step + shift;
        let source = data.wrapping_offset(place * axis.stride);
        let stride = step * axis.stride;
        if stride == 1 {
            copy::<S, T>(source, (stop - start) as usize, row.offset(start));
        } else {
            for i in 0..stop - start {
                *row.offset(start + i) = T::get(source.offset(i * stride));
            }
        }
        row.offset(stop).write_bytes(0, (len - stop) as usize);
    }
}
