//! The left operand as integers of 16 bits.
//!
//! Each 32 elements of a row share a scale, their largest magnitude over 32767, so that no element is further than
//! `2⁻¹⁶` of that magnitude from its integer. Beside the integers stand their sums, by which an offset or a minimum of the
//! weight's elements counts.

use super::QuantizedShape;
use super::formats::Format;
use crate::simd::{MAX_LANES, Simd};

/// Elements that share a scale.
const SHARING: usize = 32;

/// Where the parts of the quantised rows lie in scratch memory. All begin at multiples of a cache line from its start.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    rows: usize,
    inner: usize,
    /// Scales, and sums, of a row.
    groups: usize,
}

impl Layout {
    pub(super) fn new<F: Format>(shape: &QuantizedShape) -> Layout {
        Layout { rows: shape.rows, inner: shape.inner, groups: shape.inner / F::GROUP }
    }

    fn scales_at(&self) -> usize {
        self.rows * self.inner * size_of::<i16>()
    }

    fn sums_at(&self) -> usize {
        self.scales_at() + (self.rows * self.groups * size_of::<f32>()).next_multiple_of(64)
    }

    fn flags_at(&self) -> usize {
        self.sums_at() + (self.rows * self.groups * size_of::<f32>()).next_multiple_of(64)
    }

    pub(super) fn bytes(&self) -> usize {
        self.flags_at() + self.rows * size_of::<u32>()
    }

    /// Row `row` in scratch memory.
    ///
    /// # Safety
    /// The row exists and `scratch` holds [`Layout::bytes`].
    #[inline(always)]
    pub(super) unsafe fn row(&self, scratch: *mut u8, row: usize) -> Row {
        // SAFETY: the caller's promise.
        unsafe {
            Row {
                integers: scratch.cast::<i16>().add(row * self.inner),
                scales: scratch.add(self.scales_at()).cast::<f32>().add(row * self.groups),
                sums: scratch.add(self.sums_at()).cast::<f32>().add(row * self.groups),
                is_finite: scratch.add(self.flags_at()).cast::<u32>().add(row),
            }
        }
    }
}

/// A quantised row.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub integers: *mut i16,
    /// For each group of the weight's elements the scale of the integers.
    pub scales: *mut f32,
    /// For each group the sum of its integers, less what the weight's offset makes of it: times `-OFFSET`, if there is one.
    pub sums: *mut f32,
    /// Not 0 if all elements of the row are. The integers of another are zeros.
    pub is_finite: *mut u32,
}

impl Row {
    /// The row from a group on, its integers apart.
    ///
    /// # Safety
    /// The group exists.
    #[inline(always)]
    pub(super) unsafe fn at_group(self, group: usize) -> Row {
        // SAFETY: the caller's promise.
        unsafe { Row { scales: self.scales.add(group), sums: self.sums.add(group), ..self } }
    }
}

/// Quantises `inner` elements.
///
/// # Safety
/// `x` is readable and the row writable.
#[inline(always)]
pub(super) unsafe fn quantize<S: Simd, F: Format>(x: *const f32, inner: usize, row: Row) {
    let mut is_finite = true;
    // SAFETY: the caller's promise.
    unsafe {
        for first in (0..inner).step_by(SHARING) {
            is_finite &= quantize_sharing::<S, F>(x.add(first), first, row);
        }
        *row.is_finite = u32::from(is_finite);
        if !is_finite {
            row.integers.write_bytes(0, inner);
            row.sums.write_bytes(0, inner / F::GROUP);
            row.scales.write_bytes(0, inner / F::GROUP);
        }
    }
}

/// Quantises the 32 elements from `first` on; false if one of them is not finite.
#[inline(always)]
unsafe fn quantize_sharing<S: Simd, F: Format>(x: *const f32, first: usize, row: Row) -> bool {
    let vectors = SHARING / S::LANES;
    let mut values = [S::splat(0.0); SHARING / 4];
    let mut largest = S::splat(0.0);
    for (at, value) in values.iter_mut().enumerate().take(vectors) {
        // SAFETY: the caller's promise.
        *value = unsafe { S::load(x.add(at * S::LANES)) };
        largest = S::max(largest, S::abs(*value));
    }
    let mut largest = S::reduce_max(largest);
    if largest.is_nan() || largest == f32::INFINITY {
        return false;
    }
    // Numbers so small that their reciprocals are not finite are brought up first, which is exact.
    let raise = if largest < 1e-30 { RAISE } else { 1.0 };
    largest *= raise;
    let scale = largest * (1.0 / LARGEST) / raise;
    let factor = if largest == 0.0 { 0.0 } else { LARGEST / largest };
    let (raise, factor) = (S::splat(raise), S::splat(factor));

    let mut sums = [S::splat(0.0); 2];
    for (at, value) in values.iter().enumerate().take(vectors) {
        let integer = S::to_int(S::mul(S::mul(*value, raise), factor));
        // SAFETY: the caller's promise.
        unsafe {
            let target = row.integers.add(first + at * S::LANES);
            S::store_u16(target.cast(), S::and_i(integer, S::splat_i(0xffff)));
        }
        let half = at * S::LANES / F::GROUP;
        sums[half] = S::add(sums[half], S::from_int(integer));
    }
    for (half, sum) in sums.iter().enumerate().take(SHARING / F::GROUP) {
        let group = first / F::GROUP + half;
        let offset = if F::OFFSET == 0.0 { 1.0 } else { -F::OFFSET };
        // SAFETY: the caller's promise.
        unsafe {
            *row.scales.add(group) = scale;
            // Sums of integers are exact.
            *row.sums.add(group) = S::reduce_add(*sum) * offset;
        }
    }
    true
}

/// The largest integer.
const LARGEST: f32 = 32767.0;

/// 2⁶⁴
const RAISE: f32 = 18_446_744_073_709_551_616.0;

const _: () = assert!(MAX_LANES <= 16, "a vector lies within a group");
