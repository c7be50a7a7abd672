//! Passes over a row, vector by vector.

use super::element::Element;
use super::wide::{Vector, Wide};
use crate::simd::Simd;

/// How much of a vector lies inside the row.
pub(crate) trait Span: Copy {
    /// # Safety
    /// The span's elements at `source` are readable.
    unsafe fn load<E: Element, S: Simd>(self, source: *const E) -> Vector<E::Wide, S>;
    /// # Safety
    /// The span's elements at `target` are writable.
    unsafe fn store<E: Element, S: Simd>(self, target: *mut E, value: Vector<E::Wide, S>);
    /// `value` with `fill` in the lanes outside.
    fn keep<W: Wide, S: Simd>(self, value: Vector<W, S>, fill: W) -> Vector<W, S>;
}

/// All lanes.
#[derive(Clone, Copy)]
pub(crate) struct Full;

/// The first lanes, fewer than a vector has.
#[derive(Clone, Copy)]
pub(crate) struct First(pub usize);

impl Span for Full {
    #[inline(always)]
    unsafe fn load<E: Element, S: Simd>(self, source: *const E) -> Vector<E::Wide, S> {
        // SAFETY: the caller's promise.
        unsafe { E::load::<S>(source) }
    }
    #[inline(always)]
    unsafe fn store<E: Element, S: Simd>(self, target: *mut E, value: Vector<E::Wide, S>) {
        // SAFETY: the caller's promise.
        unsafe { E::store::<S>(target, value) }
    }
    #[inline(always)]
    fn keep<W: Wide, S: Simd>(self, value: Vector<W, S>, _: W) -> Vector<W, S> {
        value
    }
}

impl Span for First {
    #[inline(always)]
    unsafe fn load<E: Element, S: Simd>(self, source: *const E) -> Vector<E::Wide, S> {
        // SAFETY: the caller's promise.
        unsafe { E::load_first::<S>(source, self.0) }
    }
    #[inline(always)]
    unsafe fn store<E: Element, S: Simd>(self, target: *mut E, value: Vector<E::Wide, S>) {
        // SAFETY: the caller's promise.
        unsafe { E::store_first::<S>(target, self.0, value) }
    }
    #[inline(always)]
    fn keep<W: Wide, S: Simd>(self, value: Vector<W, S>, fill: W) -> Vector<W, S> {
        Vector::new(W::keep_first::<S>(value.0, self.0, fill))
    }
}

/// How many accumulators a reduction keeps, to hide the latency of adding.
pub(crate) const UNROLL: usize = 4;

/// `for_each_vector!(W, S, width, |at, k, span| body)`: the body for every vector of a row of `width` elements of a
/// type with wide type `W`: `at` is the first element, `k < UNROLL` an accumulator to use, `span` how
/// much of the vector lies inside. A macro and no closure, because a closure is compiled for the
/// baseline instruction set.
macro_rules! for_each_vector {
    ($wide:ty, $simd:ty, $width:expr, |$at:ident, $k:ident, $span:ident| $body:block) => {{
        let (lanes, width) = (<$wide as $crate::rows::wide::Wide>::lanes::<$simd>(), $width);
        let mut begin = 0;
        while begin + $crate::rows::pass::UNROLL * lanes <= width {
            let mut unrolled = 0;
            while unrolled < $crate::rows::pass::UNROLL {
                #[allow(unused_variables)]
                let ($at, $k, $span) = (begin + unrolled * lanes, unrolled, $crate::rows::pass::Full);
                $body
                unrolled += 1;
            }
            begin += $crate::rows::pass::UNROLL * lanes;
        }
        while begin + lanes <= width {
            #[allow(unused_variables)]
            let ($at, $k, $span) = (begin, 0, $crate::rows::pass::Full);
            $body
            begin += lanes;
        }
        if begin < width {
            #[allow(unused_variables)]
            let ($at, $k, $span) = (begin, 0, $crate::rows::pass::First(width - begin));
            $body
        }
    }};
}
pub(crate) use for_each_vector;

/// The sum of accumulators, lanes included.
#[inline(always)]
pub(crate) fn total<W: Wide, S: Simd>(sums: [Vector<W, S>; UNROLL]) -> W {
    ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum()
}

/// The largest of a row; -inf for an empty one. Unspecified if there is a NaN, which the caller's next
/// pass meets anyhow.
///
/// # Safety
/// `width` elements at `row` are readable.
#[inline(always)]
pub(crate) unsafe fn largest<E: Element, S: Simd>(row: *const E, width: usize) -> E::Wide {
    let mut max = [Vector::<E::Wide, S>::splat(E::Wide::NEG_INFINITY); UNROLL];
    for_each_vector!(E::Wide, S, width, |at, k, span| {
        // SAFETY: the span lies inside the row.
        let x = unsafe { span.load::<E, S>(row.add(at)) };
        max[k] = max[k].max_fast(span.keep(x, E::Wide::NEG_INFINITY));
    });
    max[0].max_fast(max[1]).max_fast(max[2].max_fast(max[3])).largest()
}

/// `sum(exp(row - shift))`.
///
/// # Safety
/// `width` elements at `row` are readable.
#[inline(always)]
pub(crate) unsafe fn sum_of_exp<E: Element, S: Simd>(row: *const E, width: usize, shift: E::Wide) -> E::Wide {
    let shift = Vector::<E::Wide, S>::splat(shift);
    let mut sums = [Vector::<E::Wide, S>::zero(); UNROLL];
    for_each_vector!(E::Wide, S, width, |at, k, span| {
        // SAFETY: the span lies inside the row.
        let x = unsafe { span.load::<E, S>(row.add(at)) };
        sums[k] = sums[k] + span.keep((x - shift).exp_to_zero(), E::Wide::ZERO);
    });
    total(sums)
}

/// Asks for the cache line at an address that will soon be read. The address may be anything.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    // SAFETY: a prefetch never faults.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for the lines of `width` elements that will soon be read.
#[inline(always)]
pub(crate) fn prefetch_row<T>(row: *const T, width: usize) {
    for byte in (0..width * size_of::<T>()).step_by(64) {
        prefetch(row.cast::<u8>().wrapping_add(byte));
    }
}
