//! The element types that matrix products read and write; sums are always f32.

use half::{bf16, f16};

use crate::simd::Simd;

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE single precision.
    F32,
    /// Brain floating point.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl Element {
    /// Bytes per element.
    pub const fn bytes(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::Bf16 | Element::F16 => 2,
        }
    }
}

/// Vector access to memory of one element type.
pub trait Memory: Copy + 'static {
    /// # Safety
    /// One element at `source` is readable.
    unsafe fn get(source: *const Self) -> f32;
    /// # Safety
    /// One element at `target` is writable.
    unsafe fn put(target: *mut Self, value: f32);
    /// # Safety
    /// `LANES` elements at `source` are readable.
    unsafe fn load<S: Simd>(source: *const Self) -> S::F;
    /// # Safety
    /// `lanes <= LANES` elements at `source` are readable.
    unsafe fn load_partial<S: Simd>(source: *const Self, lanes: usize) -> S::F;
    /// # Safety
    /// `LANES` elements at `target` are writable.
    unsafe fn store<S: Simd>(target: *mut Self, value: S::F);
    /// # Safety
    /// `lanes <= LANES` elements at `target` are writable.
    unsafe fn store_partial<S: Simd>(target: *mut Self, lanes: usize, value: S::F);
}

macro_rules! memory {
    ($ty:ty, $to:expr, $from:expr, $load:ident, $load_partial:ident, $store:ident, $store_partial:ident) => {
        // SAFETY, for every block: the caller's promise.
        impl Memory for $ty {
            #[inline(always)]
            unsafe fn get(source: *const Self) -> f32 {
                $to(unsafe { *source })
            }
            #[inline(always)]
            unsafe fn put(target: *mut Self, value: f32) {
                unsafe { *target = $from(value) }
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(source: *const Self) -> S::F {
                unsafe { S::$load(source) }
            }
            #[inline(always)]
            unsafe fn load_partial<S: Simd>(source: *const Self, lanes: usize) -> S::F {
                unsafe { S::$load_partial(source, lanes) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(target: *mut Self, value: S::F) {
                unsafe { S::$store(target, value) }
            }
            #[inline(always)]
            unsafe fn store_partial<S: Simd>(target: *mut Self, lanes: usize, value: S::F) {
                unsafe { S::$store_partial(target, lanes, value) }
            }
        }
    };
}

memory!(f32, std::convert::identity, std::convert::identity, load, load_partial, store, store_partial);
memory!(bf16, bf16::to_f32, bf16::from_f32, load_bf16, load_bf16_partial, store_bf16, store_bf16_partial);
memory!(f16, f16::to_f32, f16::from_f32, load_f16, load_f16_partial, store_f16, store_f16_partial);

/// Evaluates an expression with `$ty` standing for the Rust type of an [`Element`].
macro_rules! with_element {
    ($element:expr, $ty:ident => $body:expr) => {
        match $element {
            $crate::matmul::Element::F32 => {
                type $ty = f32;
                $body
            }
            $crate::matmul::Element::Bf16 => {
                type $ty = ::half::bf16;
                $body
            }
            $crate::matmul::Element::F16 => {
                type $ty = ::half::f16;
                $body
            }
        }
    };
}
pub(crate) use with_element;
