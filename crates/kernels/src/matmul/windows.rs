//! Columns that are windows: the right operand of a convolution, packed from where the image lies, so that no matrix of
//! windows is ever in memory.
//!
//! Element (k, col) is read at channel and kernel place `k` (row-major) of the window at image and place `col`
//! (row-major). Along each axis the window at `p` has its kernel place `j` at `p · step + j · dilation - low` of an
//! operand whose neighbours are `gap` apart; between and around them are zeros.

use smallvec::SmallVec;

use super::element::{Element, Memory};
use super::pack::{copy, pack_row};
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
    /// Type of the elements.
    pub element: Element,
    /// Images side by side in one matrix.
    pub images: usize,
    /// From one of them to the next, in elements.
    pub image_stride: isize,
    /// From one channel to the next, in elements.
    pub channel_stride: isize,
    /// At least one.
    pub axes: SmallVec<[WindowAxis; 3]>,
}

/// Windows of a row of the last axis: columns `at..at + len` of those that are packed.
struct Run {
    at: usize,
    len: usize,
    /// The first window on the last axis.
    first: isize,
    /// The windows on the other axes.
    outer: SmallVec<[isize; 2]>,
    /// Where their first places lie, in elements.
    base: isize,
}

impl Windows {
    /// Columns of one image.
    fn places(&self) -> usize {
        self.axes.iter().map(|axis| axis.count).product()
    }

    /// Columns `first..first + cols` as runs.
    fn runs(&self, first: usize, cols: usize) -> SmallVec<[Run; 16]> {
        let Some((last, outer)) = self.axes.split_last() else { return SmallVec::new() };
        let (mut runs, mut done) = (SmallVec::new(), 0);
        while done < cols {
            let (image, place) = ((first + done) / self.places(), (first + done) % self.places());
            let (mut row, start) = (place / last.count, place % last.count);
            let mut base = image as isize * self.image_stride;
            let mut windows = SmallVec::from_elem(0, outer.len());
            for (axis, window) in outer.iter().zip(&mut windows).rev() {
                *window = ((row % axis.count) * axis.step) as isize;
                row /= axis.count;
                if axis.gap == 1 {
                    base += *window * axis.stride;
                }
            }
            let len = (last.count - start).min(cols - done);
            runs.push(Run { at: done, len, first: start as isize, outer: windows, base });
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
        let Some((last, outer)) = self.axes.split_last() else { return };
        let kernel: usize = self.axes.iter().map(|axis| axis.kernel).product();
        let mut row = [0.0f32; ROW];
        for part in (0..cols).step_by(ROW - MAX_LANES) {
            let width = (cols - part).min(ROW - MAX_LANES);
            let runs = self.runs(first + part, width);
            for step in 0..depth {
                // Which channel, and which place of the window.
                let (channel, mut place) = ((k + step) / kernel, (k + step) % kernel);
                let shift = (place % last.kernel * last.dilation) as isize - last.low;
                place /= last.kernel;
                let mut shifts = SmallVec::<[isize; 2]>::from_elem(0, outer.len());
                let mut offset = channel as isize * self.channel_stride;
                for (axis, shift) in outer.iter().zip(&mut shifts).rev() {
                    *shift = (place % axis.kernel * axis.dilation) as isize - axis.low;
                    place /= axis.kernel;
                    if axis.gap == 1 {
                        offset += *shift * axis.stride;
                    }
                }
                for run in &runs {
                    let mut at = run.base + offset;
                    let mut is_inside = true;
                    for ((axis, window), shift) in outer.iter().zip(&run.outer).zip(&shifts) {
                        let place = window + shift;
                        is_inside &= place >= 0 && place < (axis.length * axis.gap) as isize;
                        if axis.gap > 1 {
                            is_inside &= place % axis.gap as isize == 0;
                            at += place / axis.gap as isize * axis.stride;
                        }
                    }
                    // SAFETY: the row holds the run, which is read where it lies inside of the operand.
                    unsafe {
                        let row = row.as_mut_ptr().add(run.at);
                        if is_inside {
                            read_run::<S, T>(last, data.wrapping_offset(at), shift, run, row);
                        } else {
                            row.write_bytes(0, run.len);
                        }
                    }
                }
                // SAFETY: the caller's promise; the panel of column `c` lies at `c · depth`.
                unsafe { pack_row::<S, f32>(row.as_ptr(), width, part, depth, step, target) };
            }
        }
    }
}

/// Columns that go through one row of memory, with room for a whole vector behind them. A multiple of every panel's
/// width besides.
const ROW: usize = 256 + MAX_LANES;

/// `row[i] = data[(first + i) · step + shift]` where the operand has that place, else 0.
#[inline(always)]
unsafe fn read_run<S: Simd, T: Memory>(
    axis: &WindowAxis,
    data: *const T,
    shift: isize,
    run: &Run,
    row: *mut f32,
) {
    let (step, gap, length) = (axis.step as isize, axis.gap as isize, axis.length as isize);
    let len = run.len as isize;
    // SAFETY: only places inside of the operand are read, and `len` values written.
    unsafe {
        if gap > 1 {
            for i in 0..len {
                let place = (run.first + i) * step + shift;
                let is_there = place >= 0 && place % gap == 0 && place / gap < length;
                *row.offset(i) = if is_there { T::get(data.offset(place / gap * axis.stride)) } else { 0.0 };
            }
            return;
        }
        // The first window whose place is not before the operand, and the first whose place is behind it.
        let ceil = |places: isize| if places <= 0 { 0 } else { (places + step - 1) / step };
        let start = (ceil(-shift) - run.first).clamp(0, len);
        let stop = (ceil(length - shift) - run.first).clamp(start, len);
        row.write_bytes(0, start as usize);
        let place = (run.first + start) * step + shift;
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
