//! Portable four-lane code: the fallback on any architecture and the reference in tests.

use super::{Isa, Simd, SimdOp};

#[derive(Clone, Copy)]
pub(super) struct Scalar;

const LANES: usize = 4;

macro_rules! lanes {
    ($i:ident => $value:expr) => {{
        let mut out = [Default::default(); LANES];
        let mut $i = 0;
        while $i < LANES {
            out[$i] = $value;
            $i += 1;
        }
        out
    }};
}

impl Simd for Scalar {
    const LANES: usize = LANES;
    const ISA: Isa = Isa::Scalar;
    // `f32::mul_add` is a slow library call where the baseline has no such instruction.
    const FUSED: bool = false;
    const REGISTERS: usize = 16;

    type F = [f32; LANES];
    type I = [i32; LANES];
    type M = [bool; LANES];
    type B = [u8; 32];
    type W = [i16; 32];

    #[inline(never)]
    fn apart<O: SimdOp>(op: O) -> O::Output {
        op.run::<Self>()
    }
    #[inline(always)]
    fn splat(value: f32) -> Self::F {
        [value; LANES]
    }
    #[inline(always)]
    unsafe fn load(source: *const f32) -> Self::F {
        // SAFETY: the caller's promise.
        unsafe { source.cast::<Self::F>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(target: *mut f32, value: Self::F) {
        // SAFETY: the caller's promise.
        unsafe { target.cast::<Self::F>().write_unaligned(value) }
    }
    #[inline(always)]
    unsafe fn load_partial(source: *const f32, lanes: usize) -> Self::F {
        debug_assert!(lanes <= LANES);
        // SAFETY: only the promised lanes are read.
        lanes!(i => if i < lanes { unsafe { *source.add(i) } } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store_partial(target: *mut f32, lanes: usize, value: Self::F) {
        debug_assert!(lanes <= LANES);
        for (i, lane) in value.iter().enumerate().take(lanes) {
            // SAFETY: only the promised lanes are written.
            unsafe { *target.add(i) = *lane };
        }
    }
    #[inline(always)]
    fn splat_i(value: i32) -> Self::I {
        [value; LANES]
    }
    #[inline(always)]
    unsafe fn load_u16(source: *const u16) -> Self::I {
        // SAFETY: the caller's promise.
        lanes!(i => i32::from(unsafe { *source.add(i) }))
    }
    #[inline(always)]
    unsafe fn store_u16(target: *mut u16, value: Self::I) {
        for (i, lane) in value.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *target.add(i) = *lane as u16 };
        }
    }

    #[inline(always)]
    fn add(a: Self::F, b: Self::F) -> Self::F {
        lanes!(i => a[i] + b[i])
    }
    #[inline(always)]
    fn sub(a: Self::F, b: Self::F) -> Self::F {
        lanes!(i => a[i] - b[i])
    }
    #[inline(always)]
    fn mul(a: Self::F, b: Self::F) -> Self::F {
        lanes!(i => a[i] * b[i])
    }
    #[inline(always)]
    fn div(a: Self::F, b: Self::F) -> Self::F {
        lanes!(i => a[i] / b[i])
    }
    #[inline(always)]
    fn mul_add(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        lanes!(i => a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn neg_mul_add(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        lanes!(i => c[i] - a[i] * b[i])
    }
    #[inline(always)]
    fn min(a: Self::F, b: Self::F) -> Self::F {
        lanes!(i => if a[i].is_nan() || a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn max(a: Self::F, b: Self::F) -> Self::F {
        lanes!(i => if a[i].is_nan() || a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn min_fast(a: Self::F, b: Self::F) -> Self::F {
        lanes!(i => if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn max_fast(a: Self::F, b: Self::F) -> Self::F {
        lanes!(i => if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn at_most(x: Self::F, most: Self::F) -> Self::F {
        lanes!(i => if most[i] < x[i] { most[i] } else { x[i] })
    }
    #[inline(always)]
    fn at_least(x: Self::F, least: Self::F) -> Self::F {
        lanes!(i => if least[i] > x[i] { least[i] } else { x[i] })
    }
    #[inline(always)]
    fn sqrt(a: Self::F) -> Self::F {
        lanes!(i => a[i].sqrt())
    }
    #[inline(always)]
    fn round(a: Self::F) -> Self::F {
        lanes!(i => a[i].round_ties_even())
    }
    #[inline(always)]
    fn floor(a: Self::F) -> Self::F {
        lanes!(i => a[i].floor())
    }
    #[inline(always)]
    fn ceil(a: Self::F) -> Self::F {
        lanes!(i => a[i].ceil())
    }
    #[inline(always)]
    fn trunc(a: Self::F) -> Self::F {
        lanes!(i => a[i].trunc())
    }

    #[inline(always)]
    fn lt(a: Self::F, b: Self::F) -> Self::M {
        lanes!(i => a[i] < b[i])
    }
    #[inline(always)]
    fn le(a: Self::F, b: Self::F) -> Self::M {
        lanes!(i => a[i] <= b[i])
    }
    #[inline(always)]
    fn eq(a: Self::F, b: Self::F) -> Self::M {
        lanes!(i => a[i] == b[i])
    }
    #[inline(always)]
    fn select(mask: Self::M, a: Self::F, b: Self::F) -> Self::F {
        lanes!(i => if mask[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn mask_and(a: Self::M, b: Self::M) -> Self::M {
        lanes!(i => a[i] & b[i])
    }
    #[inline(always)]
    fn mask_or(a: Self::M, b: Self::M) -> Self::M {
        lanes!(i => a[i] | b[i])
    }
    #[inline(always)]
    fn mask_not(a: Self::M) -> Self::M {
        lanes!(i => !a[i])
    }
    #[inline(always)]
    fn any(mask: Self::M) -> bool {
        mask.contains(&true)
    }

    #[inline(always)]
    fn to_bits(a: Self::F) -> Self::I {
        lanes!(i => a[i].to_bits() as i32)
    }
    #[inline(always)]
    fn from_bits(a: Self::I) -> Self::F {
        lanes!(i => f32::from_bits(a[i] as u32))
    }
    #[inline(always)]
    fn to_int(a: Self::F) -> Self::I {
        lanes!(i => a[i].round_ties_even() as i32)
    }
    #[inline(always)]
    fn from_int(a: Self::I) -> Self::F {
        lanes!(i => a[i] as f32)
    }
    #[inline(always)]
    fn add_i(a: Self::I, b: Self::I) -> Self::I {
        lanes!(i => a[i].wrapping_add(b[i]))
    }
    #[inline(always)]
    fn sub_i(a: Self::I, b: Self::I) -> Self::I {
        lanes!(i => a[i].wrapping_sub(b[i]))
    }
    #[inline(always)]
    fn mul_i(a: Self::I, b: Self::I) -> Self::I {
        lanes!(i => a[i].wrapping_mul(b[i]))
    }
    #[inline(always)]
    fn and_i(a: Self::I, b: Self::I) -> Self::I {
        lanes!(i => a[i] & b[i])
    }
    #[inline(always)]
    fn or_i(a: Self::I, b: Self::I) -> Self::I {
        lanes!(i => a[i] | b[i])
    }
    #[inline(always)]
    fn xor_i(a: Self::I, b: Self::I) -> Self::I {
        lanes!(i => a[i] ^ b[i])
    }
    #[inline(always)]
    fn shl(a: Self::I, bits: u32) -> Self::I {
        lanes!(i => a[i].wrapping_shl(bits))
    }
    #[inline(always)]
    fn shr(a: Self::I, bits: u32) -> Self::I {
        lanes!(i => (a[i] as u32).wrapping_shr(bits) as i32)
    }
    #[inline(always)]
    fn shr_arith(a: Self::I, bits: u32) -> Self::I {
        lanes!(i => a[i].wrapping_shr(bits))
    }
    #[inline(always)]
    fn eq_i(a: Self::I, b: Self::I) -> Self::M {
        lanes!(i => a[i] == b[i])
    }
    #[inline(always)]
    fn gt_i(a: Self::I, b: Self::I) -> Self::M {
        lanes!(i => a[i] > b[i])
    }

    #[inline(always)]
    unsafe fn gather(source: *const u8, stride: usize) -> Self::I {
        // SAFETY: the caller's promise.
        lanes!(i => unsafe { source.add(i * stride).cast::<i32>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_bytes(source: *const u8) -> [u8; 32] {
        // SAFETY: the caller's promise.
        unsafe { source.cast::<[u8; 32]>().read() }
    }
    #[inline(always)]
    unsafe fn load_nibbles(source: *const u8) -> [u8; 32] {
        // SAFETY: the caller's promise.
        let packed = unsafe { source.cast::<[u8; 16]>().read() };
        let mut out = [0; 32];
        for (i, byte) in packed.iter().enumerate() {
            out[i] = byte & 15;
            out[i + 16] = byte >> 4;
        }
        out
    }
    #[inline(always)]
    fn spread_bits(bits: u32, value: u8) -> [u8; 32] {
        let mut out = [0; 32];
        for (i, out) in out.iter_mut().enumerate() {
            *out = (bits >> i & 1) as u8 * value;
        }
        out
    }
    #[inline(always)]
    fn bits(a: [u8; 32], right: i32, mask: u8) -> [u8; 32] {
        let mut out = [0; 32];
        for (out, byte) in out.iter_mut().zip(a) {
            *out = if right < 0 { byte << -right } else { byte >> right } & mask;
        }
        out
    }
    #[inline(always)]
    fn or_bytes(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        let mut out = a;
        for (out, b) in out.iter_mut().zip(b) {
            *out |= b;
        }
        out
    }
    #[inline(always)]
    fn widen_unsigned(a: [u8; 32]) -> [i16; 32] {
        let mut out = [0; 32];
        for (out, byte) in out.iter_mut().zip(a) {
            *out = i16::from(byte);
        }
        out
    }
    #[inline(always)]
    fn widen_signed(a: [u8; 32]) -> [i16; 32] {
        let mut out = [0; 32];
        for (out, byte) in out.iter_mut().zip(a) {
            *out = i16::from(byte as i8);
        }
        out
    }
    #[inline(always)]
    fn integers(a: [i16; 32], part: usize) -> Self::I {
        lanes!(i => i32::from(a[part * LANES + i]))
    }
    #[inline(always)]
    unsafe fn dot_i16(a: [i16; 32], other: *const i16) -> Self::I {
        // SAFETY: the caller's promise.
        let other = unsafe { other.cast::<[i16; 32]>().read() };
        lanes!(i => {
            let mut sum = 0;
            let mut k = i;
            while k < 32 {
                sum += i32::from(a[k]) * i32::from(other[k]);
                k += LANES;
            }
            sum
        })
    }
    #[inline(always)]
    unsafe fn add_dots_of_halves(
        a: [i16; 32],
        other: *const i16,
        factors: *const f32,
        sum: Self::F,
    ) -> Self::F {
        // SAFETY: the caller's promise.
        let (other, factors) =
            unsafe { (other.cast::<[i16; 32]>().read(), factors.cast::<[f32; 2]>().read()) };
        lanes!(i => {
            let mut dots = [0; 2];
            let mut k = i;
            while k < 32 {
                dots[k / 16] += i32::from(a[k]) * i32::from(other[k]);
                k += LANES;
            }
            sum[i] + dots[0] as f32 * factors[0] + dots[1] as f32 * factors[1]
        })
    }
    #[inline(always)]
    fn reduce_add(a: Self::F) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }
    #[inline(always)]
    fn reduce_max(a: Self::F) -> f32 {
        let halves = Self::max(a, [a[2], a[3], a[2], a[3]]);
        Self::max(halves, [halves[1]; LANES])[0]
    }
    #[inline(always)]
    fn reduce_min(a: Self::F) -> f32 {
        let halves = Self::min(a, [a[2], a[3], a[2], a[3]]);
        Self::min(halves, [halves[1]; LANES])[0]
    }
}
