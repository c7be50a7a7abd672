//! How values are stored: f32, f64, the half types and i8, which are converted as they are loaded and stored.

use half::{bf16, f16};

use super::wide::{Vector, Wide};
use crate::simd::{MAX_LANES, Simd};

/// A storage type of row kernels and attention.
pub trait Element: Copy + Send + Sync + 'static {
    /// What kernels compute in, and the type of statistics.
    type Wide: Wide + Element<Wide = Self::Wide>;
    /// Whether this is the wide type itself, so that storing loses nothing.
    const IS_WIDE: bool;

    fn to_wide(self) -> Self::Wide;
    /// Rounded to nearest, ties to even.
    fn from_wide(value: Self::Wide) -> Self;

    /// # Safety
    /// `lanes` values at `source` are readable.
    unsafe fn load<S: Simd>(source: *const Self) -> Vector<Self::Wide, S>;
    /// # Safety
    /// `lanes` values at `target` are writable.
    unsafe fn store<S: Simd>(target: *mut Self, value: Vector<Self::Wide, S>);
    /// The first `count` values, zeros in the other lanes.
    /// # Safety
    /// `count <= lanes` values at `source` are readable.
    unsafe fn load_first<S: Simd>(source: *const Self, count: usize) -> Vector<Self::Wide, S>;
    /// # Safety
    /// `count <= lanes` values at `target` are writable.
    unsafe fn store_first<S: Simd>(target: *mut Self, count: usize, value: Vector<Self::Wide, S>);
}

macro_rules! wide_element {
    ($ty:ty) => {
        impl Element for $ty {
            type Wide = $ty;
            const IS_WIDE: bool = true;

            #[inline(always)]
            fn to_wide(self) -> $ty {
                self
            }
            #[inline(always)]
            fn from_wide(value: $ty) -> $ty {
                value
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(source: *const $ty) -> Vector<$ty, S> {
                // SAFETY: the caller's promise.
                Vector::new(unsafe { <$ty as Wide>::load::<S>(source) })
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(target: *mut $ty, value: Vector<$ty, S>) {
                // SAFETY: the caller's promise.
                unsafe { <$ty as Wide>::store::<S>(target, value.0) }
            }
            #[inline(always)]
            unsafe fn load_first<S: Simd>(source: *const $ty, count: usize) -> Vector<$ty, S> {
                // SAFETY: the caller's promise.
                Vector::new(unsafe { <$ty as Wide>::load_first::<S>(source, count) })
            }
            #[inline(always)]
            unsafe fn store_first<S: Simd>(target: *mut $ty, count: usize, value: Vector<$ty, S>) {
                // SAFETY: the caller's promise.
                unsafe { <$ty as Wide>::store_first::<S>(target, count, value.0) }
            }
        }
    };
}

macro_rules! half_element {
    ($ty:ty, $load:ident, $store:ident, $load_first:ident, $store_first:ident) => {
        impl Element for $ty {
            type Wide = f32;
            const IS_WIDE: bool = false;

            #[inline(always)]
            fn to_wide(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn from_wide(value: f32) -> $ty {
                <$ty>::from_f32(value)
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(source: *const $ty) -> Vector<f32, S> {
                // SAFETY: the caller's promise.
                Vector::new(unsafe { S::$load(source) })
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(target: *mut $ty, value: Vector<f32, S>) {
                // SAFETY: the caller's promise.
                unsafe { S::$store(target, value.0) }
            }
            #[inline(always)]
            unsafe fn load_first<S: Simd>(source: *const $ty, count: usize) -> Vector<f32, S> {
                // SAFETY: the caller's promise.
                Vector::new(unsafe { S::$load_first(source, count) })
            }
            #[inline(always)]
            unsafe fn store_first<S: Simd>(target: *mut $ty, count: usize, value: Vector<f32, S>) {
                // SAFETY: the caller's promise.
                unsafe { S::$store_first(target, count, value.0) }
            }
        }
    };
}

wide_element!(f32);
wide_element!(f64);
half_element!(bf16, load_bf16, store_bf16, load_bf16_partial, store_bf16_partial);
half_element!(f16, load_f16, store_f16, load_f16_partial, store_f16_partial);

/// Whole numbers of a quantised row; what scales them is the kernel's business.
impl Element for i8 {
    type Wide = f32;
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn to_wide(self) -> f32 {
        self.into()
    }
    /// The nearest whole number, ties to even, in range.
    #[inline(always)]
    fn from_wide(value: f32) -> i8 {
        value.round_ties_even() as i8
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(source: *const i8) -> Vector<f32, S> {
        // SAFETY: the caller's promise.
        Vector::new(unsafe { S::load_i8(source) })
    }
    #[inline(always)]
    unsafe fn store<S: Simd>(target: *mut i8, value: Vector<f32, S>) {
        // SAFETY: the caller's promise.
        unsafe { Self::store_first::<S>(target, S::LANES, value) }
    }
    #[inline(always)]
    unsafe fn load_first<S: Simd>(source: *const i8, count: usize) -> Vector<f32, S> {
        let mut buffer = [0i8; MAX_LANES];
        // SAFETY: `count <= LANES <= MAX_LANES`; the caller vouches for `source`.
        Vector::new(unsafe {
            std::ptr::copy_nonoverlapping(source, buffer.as_mut_ptr(), count);
            S::load_i8(buffer.as_ptr())
        })
    }
    #[inline(always)]
    unsafe fn store_first<S: Simd>(target: *mut i8, count: usize, value: Vector<f32, S>) {
        let mut lanes = [0.0f32; MAX_LANES];
        // SAFETY: the buffer holds a vector; the caller vouches for `target`.
        unsafe {
            S::store(lanes.as_mut_ptr(), value.0);
            for (at, lane) in lanes.iter().enumerate().take(count) {
                target.add(at).write(Self::from_wide(*lane));
            }
        }
    }
}
