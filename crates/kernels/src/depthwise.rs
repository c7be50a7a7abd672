//! Convolutions of channels that do not mix: each image of each channel by itself, without a matrix.
//!
//! A strip of the image is copied to scratch memory as f32, with the zeros around it. Columns that a stride apart are
//! adjacent there, so that every place of a kernel is a load of adjacent elements. Sums are one chain of multiply-adds in
//! the order of the kernel's places, as those of a product are.

use smallvec::SmallVec;

use crate::matmul::pack::copy;
use crate::matmul::{Element, Memory, WindowAxis, with_element};
use crate::pool::pool;
use crate::simd::{Simd, SimdOp, dispatch_on, isa};

/// Floats of a strip: well within an L1 cache and its neighbour.
const STRIP: usize = 1 << 13;
/// Multiply-adds of a task at least.
const TASK: usize = 1 << 16;

/// A convolution of `images · channels` planes, each with `each` kernels of its own.
#[derive(Clone, Debug)]
pub struct Depthwise {
    /// Type of all elements; sums are f32.
    pub element: Element,
    pub images: usize,
    pub channels: usize,
    /// Results of a channel.
    pub each: usize,
    /// From one image to the next and from one channel to the next, in elements.
    pub strides: [isize; 2],
    /// Rows and columns of a plane, without gaps.
    pub rows: WindowAxis,
    pub cols: WindowAxis,
    /// Kernels lie `kernel[0]` apart, their rows `kernel[1]`, their columns `kernel[2]`.
    pub kernel: [isize; 3],
    /// The most threads that take part.
    pub threads: usize,
}

/// Floats of a row of the strip beyond which it is no help.
const LONGEST: usize = 1 << 18;

/// What a convolution reads and writes.
#[derive(Clone, Copy)]
struct Places {
    x: *const u8,
    weight: *const u8,
    out: *mut u8,
    scratch: *mut f32,
}

// SAFETY: the operands are only read, tasks write distinct planes, and every worker has scratch of its own.
unsafe impl Sync for Places {}

impl Depthwise {
    /// Columns of a row of the strip that belong to one remainder of the step, with room for a vector behind them.
    fn phase(&self) -> usize {
        self.cols.span(self.cols.count).div_ceil(self.cols.step).next_multiple_of(16) + 4 * 16
    }

    fn row_floats(&self) -> usize {
        self.phase() * self.cols.step
    }

    /// Rows of results of a strip.
    fn strip(&self) -> usize {
        let rows = STRIP / self.row_floats();
        let extra = rows.saturating_sub(self.rows.span(1)) / self.rows.step;
        (extra + 1).min(self.rows.count)
    }

    fn worker_floats(&self) -> usize {
        self.rows.span(self.strip()) * self.row_floats()
    }

    fn is_empty(&self) -> bool {
        self.images * self.channels * self.each * self.rows.count * self.cols.count == 0
    }

    /// False for rows too long to be copied.
    pub fn is_fit(&self) -> bool {
        self.is_empty() || self.row_floats().saturating_mul(self.rows.span(1)) <= LONGEST
    }

    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { self.threads * self.worker_floats() * size_of::<f32>() }
    }

    /// Runs it; results lie one after the other, `[images, channels, each, rows, cols]`.
    ///
    /// # Safety
    /// `x` points at the first plane's element (0, 0), `weight` at the first kernel's; all that they name is readable, and
    /// the results writable by nobody else. `scratch` holds [`Depthwise::scratch_bytes`], aligned to f32.
    pub unsafe fn run(&self, x: *const u8, weight: *const u8, out: *mut u8, scratch: *mut u8) {
        if self.is_empty() {
            return;
        }
        let planes = self.images * self.channels;
        let work = self.each * self.rows.count * self.cols.count * self.rows.kernel * self.cols.kernel;
        let per_task = (TASK / work).max(1);
        let places = Places { x, weight, out, scratch: scratch.cast() };
        pool().run_on(self.threads, planes.div_ceil(per_task), &|task, worker| {
            let planes = task * per_task..planes.min((task + 1) * per_task);
            dispatch_on(isa(), Planes { of: self, places, planes, worker });
        });
    }
}

struct Planes<'a> {
    of: &'a Depthwise,
    places: Places,
    planes: std::ops::Range<usize>,
    worker: usize,
}

impl SimdOp for Planes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        with_element!(self.of.element, T => {
            for plane in self.planes.clone() {
                // SAFETY: the promise of `Depthwise::run`.
                unsafe { self.plane::<S, T>(plane) };
            }
        });
    }
}

impl Planes<'_> {
    #[inline(always)]
    unsafe fn plane<S: Simd, T: Memory>(&self, plane: usize) {
        let (of, places) = (self.of, &self.places);
        let (image, channel) = (plane / of.channels, plane % of.channels);
        let strip = of.strip();
        let row_floats = of.row_floats();
        // SAFETY: the plane, its kernels and its results exist; the strip lies in the worker's scratch memory.
        unsafe {
            let x = places.x.cast::<T>();
            let x = x.offset(image as isize * of.strides[0] + channel as isize * of.strides[1]);
            let buffer = places.scratch.add(self.worker * of.worker_floats());
            for first in (0..of.rows.count).step_by(strip) {
                let results = strip.min(of.rows.count - first);
                for row in 0..of.rows.span(results) {
                    let from = (first * of.rows.step + row) as isize - of.rows.low;
                    self.copy_row::<S, T>(x, from, buffer.add(row * row_floats));
                }
                for kernel in 0..of.each {
                    let at = channel * of.each + kernel;
                    let mut weights = SmallVec::<[f32; 64]>::new();
                    for i in 0..of.rows.kernel {
                        for j in 0..of.cols.kernel {
                            let [apart, down, right] = of.kernel;
                            let place = at as isize * apart + i as isize * down + j as isize * right;
                            weights.push(T::get(places.weight.cast::<T>().offset(place)));
                        }
                    }
                    let out = (image * of.channels * of.each + at) * of.rows.count + first;
                    let out = places.out.cast::<T>().add(out * of.cols.count);
                    for row in 0..results {
                        let source = buffer.add(row * of.rows.step * row_floats);
                        self.row::<S, T>(source, &weights, out.add(row * of.cols.count));
                    }
                }
            }
        }
    }

    /// Row `from` of a plane, or zeros, as the strip has it.
    #[inline(always)]
    unsafe fn copy_row<S: Simd, T: Memory>(&self, x: *const T, from: isize, target: *mut f32) {
        let (of, cols) = (self.of, &self.of.cols);
        // SAFETY: only existing elements are read; the row is written within its length.
        unsafe {
            target.write_bytes(0, of.row_floats());
            if from < 0 || from >= of.rows.length as isize {
                return;
            }
            let x = x.offset(from * of.rows.stride);
            let (phase, step) = (of.phase(), cols.step as isize);
            // The columns of the strip are those of the image, `low` later.
            let width = cols.span(cols.count) as isize;
            let start = cols.low.clamp(0, width);
            let stop = (cols.low + cols.length as isize).clamp(start, width);
            let x = x.offset((start - cols.low) * cols.stride);
            if step == 1 && cols.stride == 1 {
                copy::<S, T>(x, (stop - start) as usize, target.offset(start));
                return;
            }
            for col in start..stop {
                let value = T::get(x.offset((col - start) * cols.stride));
                *target.offset(col % step * phase as isize + col / step) = value;
            }
        }
    }

    /// One row of results; `source` is the row of the strip under the kernel's first.
    #[inline(always)]
    unsafe fn row<S: Simd, T: Memory>(&self, source: *const f32, weights: &[f32], out: *mut T) {
        const WIDE: usize = 4;
        let (of, cols) = (self.of, &self.of.cols);
        let (row_floats, phase) = (of.row_floats() * of.rows.dilation, of.phase());
        for col in (0..cols.count).step_by(WIDE * S::LANES) {
            let mut sums = [S::splat(0.0); WIDE];
            // SAFETY: the row has room for whole vectors behind its last column.
            unsafe {
                for (i, weights) in weights.chunks_exact(cols.kernel).enumerate() {
                    let source = source.add(i * row_floats + col);
                    for (j, weight) in weights.iter().enumerate() {
                        let place = j * cols.dilation;
                        let source = source.add(place % cols.step * phase + place / cols.step);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = S::mul_add(S::load(source.add(v * S::LANES)), S::splat(*weight), *sum);
                        }
                    }
                }
                for (v, sum) in sums.iter().enumerate() {
                    let at = col + v * S::LANES;
                    if at + S::LANES <= cols.count {
                        T::store::<S>(out.add(at), *sum);
                    } else if at < cols.count {
                        T::store_partial::<S>(out.add(at), cols.count - at, *sum);
                    }
                }
            }
        }
    }
}
