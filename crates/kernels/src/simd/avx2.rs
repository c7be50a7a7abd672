//! AVX2 with FMA and F16C: eight lanes, masks as vectors, 16 vector registers.
//!
//! SAFETY, for every intrinsic of this file: `Avx2` is reachable only through
//! [`dispatch`](super::dispatch), which has checked for AVX2, FMA and F16C.

use std::arch::x86_64::*;

use half::f16;

use super::{Isa, MAX_LANES, Simd, SimdOp};

#[derive(Clone, Copy)]
pub(super) struct Avx2;

/// A mask of the first `lanes` lanes.
#[inline(always)]
fn first(lanes: usize) -> __m256i {
    static WINDOW: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    debug_assert!(lanes <= 8);
    // SAFETY: `lanes <= 8`, so the eight values read lie inside the table.
    unsafe { _mm256_loadu_si256(WINDOW.as_ptr().add(8 - lanes).cast()) }
}

// The instruction returns its second operand when either is NaN, so only a NaN in the first needs care.
#[inline(always)]
pub(super) fn max(a: __m256, b: __m256) -> __m256 {
    // SAFETY: see the module page.
    unsafe { _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)) }
}

#[inline(always)]
pub(super) fn min(a: __m256, b: __m256) -> __m256 {
    // SAFETY: see the module page.
    unsafe { _mm256_blendv_ps(_mm256_min_ps(a, b), a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)) }
}

/// The halves of `a`, each in the low half of a vector.
#[inline(always)]
fn halves(a: __m256) -> (__m256, __m256) {
    // SAFETY: see the module page.
    unsafe { (a, _mm256_permute2f128_ps::<0x11>(a, a)) }
}

#[inline(always)]
pub(super) fn reduce_add(a: __m256) -> f32 {
    // SAFETY: see the module page.
    unsafe {
        let (low, high) = halves(a);
        let four = _mm256_add_ps(low, high);
        let two = _mm256_add_ps(four, _mm256_permute_ps::<0b1110>(four));
        _mm256_cvtss_f32(_mm256_add_ps(two, _mm256_permute_ps::<1>(two)))
    }
}

/// The four sums grow side by side.
#[inline(always)]
pub(super) fn reduce_add_each([a, b, c, d]: [__m256; 4]) -> [f32; 4] {
    // SAFETY: see the module page.
    unsafe {
        let ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        let four = _mm256_add_ps(_mm256_shuffle_ps::<0x44>(ab, cd), _mm256_shuffle_ps::<0xee>(ab, cd));
        let sums = _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps::<1>(four));
        let mut lanes = [0.0; 4];
        _mm_storeu_ps(lanes.as_mut_ptr(), sums);
        lanes
    }
}

#[inline(always)]
pub(super) fn reduce_max(a: __m256) -> f32 {
    // SAFETY: see the module page.
    unsafe {
        let (low, high) = halves(a);
        let four = max(low, high);
        let two = max(four, _mm256_permute_ps::<0b1110>(four));
        _mm256_cvtss_f32(max(two, _mm256_permute_ps::<1>(two)))
    }
}

#[inline(always)]
pub(super) fn reduce_min(a: __m256) -> f32 {
    // SAFETY: see the module page.
    unsafe {
        let (low, high) = halves(a);
        let four = min(low, high);
        let two = min(four, _mm256_permute_ps::<0b1110>(four));
        _mm256_cvtss_f32(min(two, _mm256_permute_ps::<1>(two)))
    }
}

/// # Safety
/// 16 bytes at `source` are readable.
#[inline(always)]
pub(super) unsafe fn load_nibbles(source: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(source.cast()));
        let halves = _mm256_srlv_epi32(twice, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
        _mm256_and_si256(halves, _mm256_set1_epi8(15))
    }
}

#[inline(always)]
pub(super) fn bits(a: __m256i, right: i32, mask: u8) -> __m256i {
    // SAFETY: see the module page.
    unsafe {
        let shifted = match right {
            0 => a,
            1.. => _mm256_srl_epi16(a, _mm_cvtsi32_si128(right)),
            _ => _mm256_sll_epi16(a, _mm_cvtsi32_si128(-right)),
        };
        _mm256_and_si256(shifted, _mm256_set1_epi8(mask as i8))
    }
}

/// Loads one by one: the instruction for it is slow on many a processor.
///
/// # Safety
/// Four bytes at each of eight places are readable.
#[inline(always)]
pub(super) unsafe fn gather(source: *const u8, stride: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let at = |lane: usize| source.add(lane * stride).cast::<i32>().read_unaligned();
        _mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7))
    }
}

macro_rules! forward {
    ($($name:ident($($arg:ident: $ty:ident),*) -> $out:ident = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name($($arg: Self::$ty),*) -> Self::$out {
            // SAFETY: see the module page.
            unsafe { $body }
        }
    )*};
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    const ISA: Isa = Isa::Avx2;
    const FUSED: bool = true;
    const REGISTERS: usize = 16;

    type F = __m256;
    type I = __m256i;
    type M = __m256;
    type B = __m256i;
    type W = [__m256i; 2];

    #[inline(always)]
    fn apart<O: SimdOp>(op: O) -> O::Output {
        // SAFETY: see the module page.
        unsafe { super::apart_avx2(op) }
    }
    #[inline(always)]
    fn splat(value: f32) -> __m256 {
        // SAFETY: see the module page.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    fn splat_i(value: i32) -> __m256i {
        // SAFETY: see the module page.
        unsafe { _mm256_set1_epi32(value) }
    }
    #[inline(always)]
    unsafe fn load(source: *const f32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_ps(source) }
    }
    #[inline(always)]
    unsafe fn store(target: *mut f32, value: __m256) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(target, value) }
    }
    #[inline(always)]
    unsafe fn load_partial(source: *const f32, lanes: usize) -> __m256 {
        // SAFETY: the caller's promise; masked-off lanes are not touched.
        unsafe { _mm256_maskload_ps(source, first(lanes)) }
    }
    #[inline(always)]
    unsafe fn store_partial(target: *mut f32, lanes: usize, value: __m256) {
        // SAFETY: the caller's promise; masked-off lanes are not touched.
        unsafe { _mm256_maskstore_ps(target, first(lanes), value) }
    }
    #[inline(always)]
    fn prefetch(address: *const f32) {
        // SAFETY: a prefetch may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[inline(always)]
    fn prefetch_far(address: *const f32) {
        // SAFETY: a prefetch may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
    }
    #[inline(always)]
    unsafe fn load_i8(source: *const i8) -> __m256 {
        // SAFETY: the caller's promise: eight bytes.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(source.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_u16(source: *const u16) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(source.cast())) }
    }
    #[inline(always)]
    unsafe fn store_u16(target: *mut u16, value: __m256i) {
        // SAFETY: the caller's promise.
        unsafe {
            let packed =
                _mm_packus_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256::<1>(value));
            _mm_storeu_si128(target.cast(), packed);
        }
    }

    #[inline(always)]
    fn min(a: __m256, b: __m256) -> __m256 {
        min(a, b)
    }
    #[inline(always)]
    fn max(a: __m256, b: __m256) -> __m256 {
        max(a, b)
    }

    forward! {
        add(a: F, b: F) -> F = _mm256_add_ps(a, b);
        sub(a: F, b: F) -> F = _mm256_sub_ps(a, b);
        mul(a: F, b: F) -> F = _mm256_mul_ps(a, b);
        div(a: F, b: F) -> F = _mm256_div_ps(a, b);
        mul_add(a: F, b: F, c: F) -> F = _mm256_fmadd_ps(a, b, c);
        neg_mul_add(a: F, b: F, c: F) -> F = _mm256_fnmadd_ps(a, b, c);
        min_fast(a: F, b: F) -> F = _mm256_min_ps(a, b);
        max_fast(a: F, b: F) -> F = _mm256_max_ps(a, b);
        // Where an operand is NaN, the second passes.
        at_most(x: F, most: F) -> F = _mm256_min_ps(most, x);
        at_least(x: F, least: F) -> F = _mm256_max_ps(least, x);
        sqrt(a: F) -> F = _mm256_sqrt_ps(a);
        round(a: F) -> F = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        floor(a: F) -> F = _mm256_round_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a);
        ceil(a: F) -> F = _mm256_round_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(a);
        trunc(a: F) -> F = _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a);

        lt(a: F, b: F) -> M = _mm256_cmp_ps::<_CMP_LT_OQ>(a, b);
        le(a: F, b: F) -> M = _mm256_cmp_ps::<_CMP_LE_OQ>(a, b);
        eq(a: F, b: F) -> M = _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b);
        ne(a: F, b: F) -> M = _mm256_cmp_ps::<_CMP_NEQ_UQ>(a, b);
        select(mask: M, a: F, b: F) -> F = _mm256_blendv_ps(b, a, mask);
        mask_and(a: M, b: M) -> M = _mm256_and_ps(a, b);
        mask_or(a: M, b: M) -> M = _mm256_or_ps(a, b);
        mask_not(a: M) -> M = _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1)));

        to_bits(a: F) -> I = _mm256_castps_si256(a);
        from_bits(a: I) -> F = _mm256_castsi256_ps(a);
        to_int(a: F) -> I = _mm256_cvtps_epi32(a);
        from_int(a: I) -> F = _mm256_cvtepi32_ps(a);
        add_i(a: I, b: I) -> I = _mm256_add_epi32(a, b);
        sub_i(a: I, b: I) -> I = _mm256_sub_epi32(a, b);
        mul_i(a: I, b: I) -> I = _mm256_mullo_epi32(a, b);
        and_i(a: I, b: I) -> I = _mm256_and_si256(a, b);
        or_i(a: I, b: I) -> I = _mm256_or_si256(a, b);
        xor_i(a: I, b: I) -> I = _mm256_xor_si256(a, b);
        eq_i(a: I, b: I) -> M = _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b));
        or_bytes(a: B, b: B) -> B = _mm256_or_si256(a, b);
        widen_unsigned(a: B) -> W = [
            _mm256_cvtepu8_epi16(_mm256_castsi256_si128(a)),
            _mm256_cvtepu8_epi16(_mm256_extracti128_si256::<1>(a)),
        ];
        widen_signed(a: B) -> W = [
            _mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)),
            _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(a)),
        ];
        gt_i(a: I, b: I) -> M = _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b));
    }

    #[inline(always)]
    fn any(mask: __m256) -> bool {
        // SAFETY: see the module page.
        unsafe { _mm256_movemask_ps(mask) != 0 }
    }
    #[inline(always)]
    fn shl(a: __m256i, bits: u32) -> __m256i {
        // SAFETY: see the module page.
        unsafe { _mm256_sll_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
    }
    #[inline(always)]
    fn shr(a: __m256i, bits: u32) -> __m256i {
        // SAFETY: see the module page.
        unsafe { _mm256_srl_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
    }
    #[inline(always)]
    fn shr_arith(a: __m256i, bits: u32) -> __m256i {
        // SAFETY: see the module page.
        unsafe { _mm256_sra_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
    }

    #[inline(always)]
    fn reduce_add(a: __m256) -> f32 {
        reduce_add(a)
    }
    #[inline(always)]
    fn reduce_add_each(a: [__m256; 4]) -> [f32; 4] {
        reduce_add_each(a)
    }
    #[inline(always)]
    fn reduce_max(a: __m256) -> f32 {
        reduce_max(a)
    }
    #[inline(always)]
    fn reduce_min(a: __m256) -> f32 {
        reduce_min(a)
    }

    #[inline(always)]
    unsafe fn gather(source: *const u8, stride: usize) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { gather(source, stride) }
    }
    #[inline(always)]
    fn from_half(bits: __m256i) -> __m256 {
        // SAFETY: see the module page.
        unsafe {
            let (low, high) = (_mm256_castsi256_si128(bits), _mm256_extracti128_si256::<1>(bits));
            _mm256_cvtph_ps(_mm_packus_epi32(low, high))
        }
    }
    #[inline(always)]
    unsafe fn load_bytes(source: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(source.cast()) }
    }
    #[inline(always)]
    unsafe fn load_nibbles(source: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { load_nibbles(source) }
    }
    #[inline(always)]
    fn spread_bits(places: u32, value: u8) -> __m256i {
        // SAFETY: see the module page.
        unsafe {
            // Each byte gets the eight bits among which its own is, and keeps that one.
            let order =
                _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
            let eight = _mm256_shuffle_epi8(_mm256_set1_epi32(places as i32), order);
            let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(eight, own), own);
            _mm256_and_si256(is_set, _mm256_set1_epi8(value as i8))
        }
    }
    #[inline(always)]
    fn bits(a: __m256i, right: i32, mask: u8) -> __m256i {
        bits(a, right, mask)
    }
    #[inline(always)]
    fn integers(a: [__m256i; 2], part: usize) -> __m256i {
        let two = a[part / 2];
        // SAFETY: see the module page.
        unsafe {
            let one = if part.is_multiple_of(2) {
                _mm256_castsi256_si128(two)
            } else {
                _mm256_extracti128_si256::<1>(two)
            };
            _mm256_cvtepi16_epi32(one)
        }
    }
    #[inline(always)]
    unsafe fn dot_i16(a: [__m256i; 2], other: *const i16) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let first = _mm256_madd_epi16(a[0], _mm256_loadu_si256(other.cast()));
            let second = _mm256_madd_epi16(a[1], _mm256_loadu_si256(other.add(16).cast()));
            _mm256_add_epi32(first, second)
        }
    }
    #[inline(always)]
    unsafe fn add_dots_of_halves(
        a: [__m256i; 2],
        other: *const i16,
        factors: *const f32,
        sum: __m256,
    ) -> __m256 {
        let mut sum = sum;
        for (half, a) in a.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let dots = _mm256_madd_epi16(a, _mm256_loadu_si256(other.add(16 * half).cast()));
                let factor = _mm256_set1_ps(*factors.add(half));
                sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), factor, sum);
            }
        }
        sum
    }

    #[inline(always)]
    fn transpose(rows: &mut [__m256; MAX_LANES]) {
        let r = *rows;
        // SAFETY: see the module page.
        unsafe {
            // Pairs of rows, then quadruples, inside each 128-bit half; then the halves change places.
            let mut four = [r[0]; 8];
            for i in 0..2 {
                let (a, b, c, d) = (r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]);
                let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                four[4 * i] = _mm256_shuffle_ps::<0x44>(ab_low, cd_low);
                four[4 * i + 1] = _mm256_shuffle_ps::<0xee>(ab_low, cd_low);
                four[4 * i + 2] = _mm256_shuffle_ps::<0x44>(ab_high, cd_high);
                four[4 * i + 3] = _mm256_shuffle_ps::<0xee>(ab_high, cd_high);
            }
            for j in 0..4 {
                rows[j] = _mm256_permute2f128_ps::<0x20>(four[j], four[4 + j]);
                rows[4 + j] = _mm256_permute2f128_ps::<0x31>(four[j], four[4 + j]);
            }
        }
    }

    #[inline(always)]
    unsafe fn load_f16(source: *const f16) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(source.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(target: *mut f16, value: __m256) {
        // SAFETY: the caller's promise.
        unsafe {
            _mm_storeu_si128(target.cast(), _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(value));
        }
    }
}
