//! AArch64 Advanced SIMD: four lanes, fused multiply-add, 32 vector registers. Part of the baseline of
//! every AArch64 target, which is what makes its intrinsics sound here.

use std::arch::aarch64::*;

use super::{Isa, Simd};

#[derive(Clone, Copy)]
pub(super) struct Neon;

macro_rules! forward {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name($($arg: $ty),*) -> $out {
            // SAFETY: Advanced SIMD is in the baseline.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )*};
}

impl Simd for Neon {
    const LANES: usize = 4;
    const ISA: Isa = Isa::Neon;
    const FUSED: bool = true;
    const REGISTERS: usize = 32;

    type F = float32x4_t;
    type I = int32x4_t;
    type M = uint32x4_t;

    #[inline(always)]
    unsafe fn load(source: *const f32) -> float32x4_t {
        // SAFETY: the caller's promise.
        unsafe { vld1q_f32(source) }
    }
    #[inline(always)]
    unsafe fn store(target: *mut f32, value: float32x4_t) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_f32(target, value) }
    }
    #[inline(always)]
    unsafe fn load_partial(source: *const f32, lanes: usize) -> float32x4_t {
        debug_assert!(lanes <= 4);
        let mut buffer = [0.0f32; 4];
        // SAFETY: the caller's promise; the buffer holds four lanes.
        unsafe {
            std::ptr::copy_nonoverlapping(source, buffer.as_mut_ptr(), lanes);
            vld1q_f32(buffer.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn store_partial(target: *mut f32, lanes: usize, value: float32x4_t) {
        debug_assert!(lanes <= 4);
        let mut buffer = [0.0f32; 4];
        // SAFETY: the caller's promise; the buffer holds four lanes.
        unsafe {
            vst1q_f32(buffer.as_mut_ptr(), value);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), target, lanes);
        }
    }
    #[inline(always)]
    unsafe fn load_u16(source: *const u16) -> int32x4_t {
        // SAFETY: the caller's promise.
        unsafe { vreinterpretq_s32_u32(vmovl_u16(vld1_u16(source))) }
    }
    #[inline(always)]
    unsafe fn store_u16(target: *mut u16, value: int32x4_t) {
        // SAFETY: the caller's promise.
        unsafe { vst1_u16(target, vmovn_u32(vreinterpretq_u32_s32(value))) }
    }

    forward! {
        splat(value: f32) -> float32x4_t = vdupq_n_f32(value);
        splat_i(value: i32) -> int32x4_t = vdupq_n_s32(value);

        add(a: float32x4_t, b: float32x4_t) -> float32x4_t = vaddq_f32(a, b);
        sub(a: float32x4_t, b: float32x4_t) -> float32x4_t = vsubq_f32(a, b);
        mul(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmulq_f32(a, b);
        div(a: float32x4_t, b: float32x4_t) -> float32x4_t = vdivq_f32(a, b);
        mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
        neg_mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmsq_f32(c, a, b);
        // These propagate NaN.
        min(a: float32x4_t, b: float32x4_t) -> float32x4_t = vminq_f32(a, b);
        max(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmaxq_f32(a, b);
        min_fast(a: float32x4_t, b: float32x4_t) -> float32x4_t = vminq_f32(a, b);
        max_fast(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmaxq_f32(a, b);
        sqrt(a: float32x4_t) -> float32x4_t = vsqrtq_f32(a);
        round(a: float32x4_t) -> float32x4_t = vrndnq_f32(a);
        floor(a: float32x4_t) -> float32x4_t = vrndmq_f32(a);
        ceil(a: float32x4_t) -> float32x4_t = vrndpq_f32(a);
        trunc(a: float32x4_t) -> float32x4_t = vrndq_f32(a);

        lt(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vcltq_f32(a, b);
        le(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vcleq_f32(a, b);
        eq(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vceqq_f32(a, b);
        select(mask: uint32x4_t, a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(mask, a, b);
        mask_and(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vandq_u32(a, b);
        mask_or(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vorrq_u32(a, b);
        mask_not(a: uint32x4_t) -> uint32x4_t = vmvnq_u32(a);
        any(mask: uint32x4_t) -> bool = vmaxvq_u32(mask) != 0;

        to_bits(a: float32x4_t) -> int32x4_t = vreinterpretq_s32_f32(a);
        from_bits(a: int32x4_t) -> float32x4_t = vreinterpretq_f32_s32(a);
        to_int(a: float32x4_t) -> int32x4_t = vcvtnq_s32_f32(a);
        from_int(a: int32x4_t) -> float32x4_t = vcvtq_f32_s32(a);
        add_i(a: int32x4_t, b: int32x4_t) -> int32x4_t = vaddq_s32(a, b);
        sub_i(a: int32x4_t, b: int32x4_t) -> int32x4_t = vsubq_s32(a, b);
        mul_i(a: int32x4_t, b: int32x4_t) -> int32x4_t = vmulq_s32(a, b);
        and_i(a: int32x4_t, b: int32x4_t) -> int32x4_t = vandq_s32(a, b);
        or_i(a: int32x4_t, b: int32x4_t) -> int32x4_t = vorrq_s32(a, b);
        xor_i(a: int32x4_t, b: int32x4_t) -> int32x4_t = veorq_s32(a, b);
        shl(a: int32x4_t, bits: u32) -> int32x4_t = vshlq_s32(a, vdupq_n_s32(bits as i32));
        // A shift left by a negative count is a shift right.
        shr(a: int32x4_t, bits: u32) -> int32x4_t =
            vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(-(bits as i32))));
        shr_arith(a: int32x4_t, bits: u32) -> int32x4_t = vshlq_s32(a, vdupq_n_s32(-(bits as i32)));
        eq_i(a: int32x4_t, b: int32x4_t) -> uint32x4_t = vceqq_s32(a, b);
        gt_i(a: int32x4_t, b: int32x4_t) -> uint32x4_t = vcgtq_s32(a, b);

        reduce_add(a: float32x4_t) -> f32 = {
            let two = vadd_f32(vget_low_f32(a), vget_high_f32(a));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        };
        reduce_max(a: float32x4_t) -> f32 = vmaxvq_f32(a);
        reduce_min(a: float32x4_t) -> f32 = vminvq_f32(a);
    }
}
