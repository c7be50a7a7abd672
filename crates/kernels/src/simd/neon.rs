//! AArch64 Advanced SIMD: four lanes, fused multiply-add, 32 vector registers. Part of the baseline of
//! every AArch64 target, which is what makes its intrinsics sound here.

use std::arch::aarch64::*;

use super::{Isa, Simd, SimdOp};

#[derive(Clone, Copy)]
pub(super) struct Neon;

/// # Safety
/// 16 values at `other` are readable.
#[inline(always)]
unsafe fn dot_16(low: int16x8_t, high: int16x8_t, other: *const i16) -> int32x4_t {
    // SAFETY: the caller's promise.
    unsafe {
        let (first, second) = (vld1q_s16(other), vld1q_s16(other.add(8)));
        let sum = vmull_s16(vget_low_s16(low), vget_low_s16(first));
        let sum = vmlal_high_s16(sum, low, first);
        let sum = vmlal_s16(sum, vget_low_s16(high), vget_low_s16(second));
        vmlal_high_s16(sum, high, second)
    }
}

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
    type B = [uint8x16_t; 2];
    type W = [int16x8_t; 4];

    #[inline(never)]
    fn apart<O: SimdOp>(op: O) -> O::Output {
        op.run::<Self>()
    }
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

    #[inline(always)]
    unsafe fn gather(source: *const u8, stride: usize) -> int32x4_t {
        // SAFETY: the caller's promise; these loads take any alignment.
        unsafe {
            let at = |lane: usize| source.add(lane * stride).cast::<i32>();
            let one = vld1q_lane_s32::<0>(at(0), vdupq_n_s32(0));
            let two = vld1q_lane_s32::<1>(at(1), one);
            let three = vld1q_lane_s32::<2>(at(2), two);
            vld1q_lane_s32::<3>(at(3), three)
        }
    }
    #[inline(always)]
    unsafe fn load_bytes(source: *const u8) -> [uint8x16_t; 2] {
        // SAFETY: the caller's promise.
        unsafe { [vld1q_u8(source), vld1q_u8(source.add(16))] }
    }
    #[inline(always)]
    unsafe fn load_nibbles(source: *const u8) -> [uint8x16_t; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let packed = vld1q_u8(source);
            [vandq_u8(packed, vdupq_n_u8(15)), vshrq_n_u8::<4>(packed)]
        }
    }
    #[inline(always)]
    unsafe fn dot_i16(a: [int16x8_t; 4], other: *const i16) -> int32x4_t {
        // SAFETY: the caller's promise.
        unsafe { vaddq_s32(dot_16(a[0], a[1], other), dot_16(a[2], a[3], other.add(16))) }
    }
    #[inline(always)]
    unsafe fn add_dots_of_halves(
        a: [int16x8_t; 4],
        other: *const i16,
        factors: *const f32,
        sum: float32x4_t,
    ) -> float32x4_t {
        // SAFETY: the caller's promise.
        unsafe {
            let first = vcvtq_f32_s32(dot_16(a[0], a[1], other));
            let second = vcvtq_f32_s32(dot_16(a[2], a[3], other.add(16)));
            let sum = vfmaq_f32(sum, first, vdupq_n_f32(*factors));
            vfmaq_f32(sum, second, vdupq_n_f32(*factors.add(1)))
        }
    }

    forward! {
        spread_bits(bits: u32, value: u8) -> [uint8x16_t; 2] = {
            // Each byte gets the eight bits among which its own is, and keeps that one.
            let [a, b, c, d] = bits.to_le_bytes().map(|eight| vdup_n_u8(eight));
            let own = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
            let value = vdupq_n_u8(value);
            [
                vandq_u8(vtstq_u8(vcombine_u8(a, b), own), value),
                vandq_u8(vtstq_u8(vcombine_u8(c, d), own), value),
            ]
        };
        bits(a: [uint8x16_t; 2], right: i32, mask: u8) -> [uint8x16_t; 2] = {
            // A shift left by a negative count is a shift right.
            let (left, mask) = (vdupq_n_s8(-right as i8), vdupq_n_u8(mask));
            [vandq_u8(vshlq_u8(a[0], left), mask), vandq_u8(vshlq_u8(a[1], left), mask)]
        };
        or_bytes(a: [uint8x16_t; 2], b: [uint8x16_t; 2]) -> [uint8x16_t; 2] =
            [vorrq_u8(a[0], b[0]), vorrq_u8(a[1], b[1])];
        widen_unsigned(a: [uint8x16_t; 2]) -> [int16x8_t; 4] = [
            vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(a[0]))),
            vreinterpretq_s16_u16(vmovl_high_u8(a[0])),
            vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(a[1]))),
            vreinterpretq_s16_u16(vmovl_high_u8(a[1])),
        ];
        widen_signed(a: [uint8x16_t; 2]) -> [int16x8_t; 4] = {
            let (first, second) = (vreinterpretq_s8_u8(a[0]), vreinterpretq_s8_u8(a[1]));
            [
                vmovl_s8(vget_low_s8(first)),
                vmovl_high_s8(first),
                vmovl_s8(vget_low_s8(second)),
                vmovl_high_s8(second),
            ]
        };
        integers(a: [int16x8_t; 4], part: usize) -> int32x4_t = match part % 2 {
            0 => vmovl_s16(vget_low_s16(a[part / 2])),
            _ => vmovl_high_s16(a[part / 2]),
        };

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
        reduce_add_each(a: [float32x4_t; 4]) -> [f32; 4] = {
            let sums = vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3]));
            [
                vgetq_lane_f32::<0>(sums),
                vgetq_lane_f32::<1>(sums),
                vgetq_lane_f32::<2>(sums),
                vgetq_lane_f32::<3>(sums),
            ]
        };
        reduce_max(a: float32x4_t) -> f32 = vmaxvq_f32(a);
        reduce_min(a: float32x4_t) -> f32 = vminvq_f32(a);
    }
}
