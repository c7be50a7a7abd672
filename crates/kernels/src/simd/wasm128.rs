//! WebAssembly SIMD128: four lanes. The module is built with the feature or without it; there is no
//! detection at run time. Multiply-add is two roundings unless relaxed SIMD is compiled in, which this
//! file does not use: its result may differ from machine to machine.

use std::arch::wasm32::*;

use super::{Isa, Simd, SimdOp};

#[derive(Clone, Copy)]
pub(super) struct Wasm128;

#[inline(always)]
fn bits(a: v128, right: i32, mask: u8) -> v128 {
    let shifted = if right < 0 { i8x16_shl(a, -right as u32) } else { u8x16_shr(a, right as u32) };
    v128_and(shifted, u8x16_splat(mask))
}

/// # Safety
/// 16 values at `other` are readable.
#[inline(always)]
unsafe fn dot_16(low: v128, high: v128, other: *const i16) -> v128 {
    // SAFETY: the caller's promise.
    unsafe {
        let low = i32x4_dot_i16x8(low, v128_load(other.cast()));
        i32x4_add(low, i32x4_dot_i16x8(high, v128_load(other.add(8).cast())))
    }
}

macro_rules! forward {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name($($arg: $ty),*) -> $out {
            $body
        }
    )*};
}

impl Simd for Wasm128 {
    const LANES: usize = 4;
    const ISA: Isa = Isa::Wasm128;
    const FUSED: bool = false;
    // What engines have on x86-64; on AArch64 they have 32.
    const REGISTERS: usize = 16;

    type F = v128;
    type I = v128;
    type M = v128;
    type B = [v128; 2];
    type W = [v128; 4];

    #[inline(never)]
    fn apart<O: SimdOp>(op: O) -> O::Output {
        op.run::<Self>()
    }
    #[inline(always)]
    unsafe fn load(source: *const f32) -> v128 {
        // SAFETY: the caller's promise.
        unsafe { v128_load(source.cast()) }
    }
    #[inline(always)]
    unsafe fn store(target: *mut f32, value: v128) {
        // SAFETY: the caller's promise.
        unsafe { v128_store(target.cast(), value) }
    }
    #[inline(always)]
    unsafe fn load_partial(source: *const f32, lanes: usize) -> v128 {
        debug_assert!(lanes <= 4);
        let mut buffer = [0.0f32; 4];
        // SAFETY: the caller's promise; the buffer holds four lanes.
        unsafe {
            std::ptr::copy_nonoverlapping(source, buffer.as_mut_ptr(), lanes);
            v128_load(buffer.as_ptr().cast())
        }
    }
    #[inline(always)]
    unsafe fn store_partial(target: *mut f32, lanes: usize, value: v128) {
        debug_assert!(lanes <= 4);
        let mut buffer = [0.0f32; 4];
        // SAFETY: the caller's promise; the buffer holds four lanes.
        unsafe {
            v128_store(buffer.as_mut_ptr().cast(), value);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), target, lanes);
        }
    }
    #[inline(always)]
    unsafe fn load_u16(source: *const u16) -> v128 {
        // SAFETY: the caller's promise.
        unsafe { u32x4_load_extend_u16x4(source) }
    }
    #[inline(always)]
    unsafe fn store_u16(target: *mut u16, value: v128) {
        let packed = u16x8_narrow_i32x4(value, value);
        // SAFETY: the caller's promise: four values are the low 64 bits.
        unsafe { v128_store64_lane::<0>(packed, target.cast()) }
    }

    #[inline(always)]
    unsafe fn gather(source: *const u8, stride: usize) -> v128 {
        // SAFETY: the caller's promise.
        unsafe {
            let first = v128_load32_zero(source.cast());
            let two = v128_load32_lane::<1>(first, source.add(stride).cast());
            let three = v128_load32_lane::<2>(two, source.add(2 * stride).cast());
            v128_load32_lane::<3>(three, source.add(3 * stride).cast())
        }
    }
    #[inline(always)]
    unsafe fn load_bytes(source: *const u8) -> [v128; 2] {
        // SAFETY: the caller's promise.
        unsafe { [v128_load(source.cast()), v128_load(source.add(16).cast())] }
    }
    #[inline(always)]
    unsafe fn load_nibbles(source: *const u8) -> [v128; 2] {
        // SAFETY: the caller's promise.
        let packed = unsafe { v128_load(source.cast()) };
        [v128_and(packed, u8x16_splat(15)), u8x16_shr(packed, 4)]
    }
    #[inline(always)]
    fn spread_bits(bits: u32, value: u8) -> [v128; 2] {
        // Each byte gets the eight bits among which its own is, and keeps that one.
        let all = u32x4_splat(bits);
        let own = u64x2_splat(0x8040_2010_0804_0201);
        let first = i8x16_shuffle::<0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1>(all, all);
        let second = i8x16_shuffle::<2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3>(all, all);
        [first, second].map(|eight| v128_and(i8x16_eq(v128_and(eight, own), own), u8x16_splat(value)))
    }
    #[inline(always)]
    unsafe fn dot_i16(a: [v128; 4], other: *const i16) -> v128 {
        // SAFETY: the caller's promise.
        unsafe { i32x4_add(dot_16(a[0], a[1], other), dot_16(a[2], a[3], other.add(16))) }
    }
    #[inline(always)]
    unsafe fn add_dots_of_halves(a: [v128; 4], other: *const i16, factors: *const f32, sum: v128) -> v128 {
        // SAFETY: the caller's promise.
        unsafe {
            let first = f32x4_convert_i32x4(dot_16(a[0], a[1], other));
            let second = f32x4_convert_i32x4(dot_16(a[2], a[3], other.add(16)));
            let sum = f32x4_add(sum, f32x4_mul(first, f32x4_splat(*factors)));
            f32x4_add(sum, f32x4_mul(second, f32x4_splat(*factors.add(1))))
        }
    }

    forward! {
        bits(a: [v128; 2], right: i32, mask: u8) -> [v128; 2] = [bits(a[0], right, mask), bits(a[1], right, mask)];
        or_bytes(a: [v128; 2], b: [v128; 2]) -> [v128; 2] = [v128_or(a[0], b[0]), v128_or(a[1], b[1])];
        widen_unsigned(a: [v128; 2]) -> [v128; 4] = [
            u16x8_extend_low_u8x16(a[0]),
            u16x8_extend_high_u8x16(a[0]),
            u16x8_extend_low_u8x16(a[1]),
            u16x8_extend_high_u8x16(a[1]),
        ];
        widen_signed(a: [v128; 2]) -> [v128; 4] = [
            i16x8_extend_low_i8x16(a[0]),
            i16x8_extend_high_i8x16(a[0]),
            i16x8_extend_low_i8x16(a[1]),
            i16x8_extend_high_i8x16(a[1]),
        ];
        integers(a: [v128; 4], part: usize) -> v128 = match part % 2 {
            0 => i32x4_extend_low_i16x8(a[part / 2]),
            _ => i32x4_extend_high_i16x8(a[part / 2]),
        };

        splat(value: f32) -> v128 = f32x4_splat(value);
        splat_i(value: i32) -> v128 = i32x4_splat(value);

        add(a: v128, b: v128) -> v128 = f32x4_add(a, b);
        sub(a: v128, b: v128) -> v128 = f32x4_sub(a, b);
        mul(a: v128, b: v128) -> v128 = f32x4_mul(a, b);
        div(a: v128, b: v128) -> v128 = f32x4_div(a, b);
        mul_add(a: v128, b: v128, c: v128) -> v128 = f32x4_add(f32x4_mul(a, b), c);
        neg_mul_add(a: v128, b: v128, c: v128) -> v128 = f32x4_sub(c, f32x4_mul(a, b));
        // These propagate NaN.
        min(a: v128, b: v128) -> v128 = f32x4_min(a, b);
        max(a: v128, b: v128) -> v128 = f32x4_max(a, b);
        min_fast(a: v128, b: v128) -> v128 = f32x4_pmin(a, b);
        max_fast(a: v128, b: v128) -> v128 = f32x4_pmax(a, b);
        // Where an operand is NaN, the first passes.
        at_most(x: v128, most: v128) -> v128 = f32x4_pmin(x, most);
        at_least(x: v128, least: v128) -> v128 = f32x4_pmax(x, least);
        sqrt(a: v128) -> v128 = f32x4_sqrt(a);
        round(a: v128) -> v128 = f32x4_nearest(a);
        floor(a: v128) -> v128 = f32x4_floor(a);
        ceil(a: v128) -> v128 = f32x4_ceil(a);
        trunc(a: v128) -> v128 = f32x4_trunc(a);

        lt(a: v128, b: v128) -> v128 = f32x4_lt(a, b);
        le(a: v128, b: v128) -> v128 = f32x4_le(a, b);
        eq(a: v128, b: v128) -> v128 = f32x4_eq(a, b);
        select(mask: v128, a: v128, b: v128) -> v128 = v128_bitselect(a, b, mask);
        mask_and(a: v128, b: v128) -> v128 = v128_and(a, b);
        mask_or(a: v128, b: v128) -> v128 = v128_or(a, b);
        mask_not(a: v128) -> v128 = v128_not(a);
        any(mask: v128) -> bool = v128_any_true(mask);

        to_bits(a: v128) -> v128 = a;
        from_bits(a: v128) -> v128 = a;
        to_int(a: v128) -> v128 = i32x4_trunc_sat_f32x4(f32x4_nearest(a));
        from_int(a: v128) -> v128 = f32x4_convert_i32x4(a);
        add_i(a: v128, b: v128) -> v128 = i32x4_add(a, b);
        sub_i(a: v128, b: v128) -> v128 = i32x4_sub(a, b);
        mul_i(a: v128, b: v128) -> v128 = i32x4_mul(a, b);
        and_i(a: v128, b: v128) -> v128 = v128_and(a, b);
        or_i(a: v128, b: v128) -> v128 = v128_or(a, b);
        xor_i(a: v128, b: v128) -> v128 = v128_xor(a, b);
        shl(a: v128, bits: u32) -> v128 = i32x4_shl(a, bits);
        shr(a: v128, bits: u32) -> v128 = u32x4_shr(a, bits);
        shr_arith(a: v128, bits: u32) -> v128 = i32x4_shr(a, bits);
        eq_i(a: v128, b: v128) -> v128 = i32x4_eq(a, b);
        gt_i(a: v128, b: v128) -> v128 = i32x4_gt(a, b);

        reduce_add(a: v128) -> f32 = {
            let two = f32x4_add(a, i32x4_shuffle::<2, 3, 0, 1>(a, a));
            f32x4_extract_lane::<0>(two) + f32x4_extract_lane::<1>(two)
        };
        reduce_max(a: v128) -> f32 = {
            let two = f32x4_max(a, i32x4_shuffle::<2, 3, 0, 1>(a, a));
            f32x4_extract_lane::<0>(f32x4_max(two, i32x4_shuffle::<1, 0, 3, 2>(two, two)))
        };
        reduce_min(a: v128) -> f32 = {
            let two = f32x4_min(a, i32x4_shuffle::<2, 3, 0, 1>(a, a));
            f32x4_extract_lane::<0>(f32x4_min(two, i32x4_shuffle::<1, 0, 3, 2>(two, two)))
        };
    }
}
