//! AVX-512: sixteen lanes, mask registers, 32 vector registers.
//!
//! SAFETY, for every intrinsic of this file: `Avx512` is reachable only through
//! [`dispatch`](super::dispatch), which has checked for F, BW, DQ, VL, AVX2, FMA and F16C.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Isa, MAX_LANES, Simd, SimdOp};

#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// A mask of the first `lanes` lanes.
#[inline(always)]
fn first(lanes: usize) -> __mmask16 {
    debug_assert!(lanes <= 16);
    ((1u32 << lanes) - 1) as __mmask16
}

/// 32 bits at each of 16 places a few words apart: whole vectors are read and permuted. For a constant stride, the places
/// are constants too.
///
/// # Safety
/// `16 · stride` bytes are readable; the stride is a multiple of 4.
#[inline(always)]
unsafe fn gather_near(source: *const u8, stride: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let words = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(stride as i32 / 4));
        let mut gathered = _mm512_setzero_si512();
        // Two vectors are permuted at once.
        for pair in 0..stride.div_ceil(8) {
            let low = _mm512_loadu_si512(source.add(128 * pair).cast());
            let has_two = 128 * pair + 64 < 16 * stride;
            let high = if has_two { _mm512_loadu_si512(source.add(128 * pair + 64).cast()) } else { low };
            let is_there =
                _mm512_cmpeq_epi32_mask(_mm512_srli_epi32::<5>(words), _mm512_set1_epi32(pair as i32));
            let permuted = _mm512_permutex2var_epi32(low, words, high);
            gathered = _mm512_mask_mov_epi32(gathered, is_there, permuted);
        }
        gathered
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

impl Simd for Avx512 {
    const LANES: usize = 16;
    const ISA: Isa = Isa::Avx512;
    const FUSED: bool = true;
    const REGISTERS: usize = 32;

    type F = __m512;
    type I = __m512i;
    type M = __mmask16;
    type B = __m256i;
    type W = __m512i;

    #[inline(always)]
    fn apart<O: SimdOp>(op: O) -> O::Output {
        // SAFETY: see the module page.
        unsafe { super::apart_avx512(op) }
    }
    #[inline(always)]
    fn splat(value: f32) -> __m512 {
        // SAFETY: see the module page.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    fn splat_i(value: i32) -> __m512i {
        // SAFETY: see the module page.
        unsafe { _mm512_set1_epi32(value) }
    }
    #[inline(always)]
    unsafe fn load(source: *const f32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(source) }
    }
    #[inline(always)]
    unsafe fn store(target: *mut f32, value: __m512) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(target, value) }
    }
    #[inline(always)]
    unsafe fn load_partial(source: *const f32, lanes: usize) -> __m512 {
        // SAFETY: the caller's promise; masked-off lanes are not touched.
        unsafe { _mm512_maskz_loadu_ps(first(lanes), source) }
    }
    #[inline(always)]
    unsafe fn store_partial(target: *mut f32, lanes: usize, value: __m512) {
        // SAFETY: the caller's promise; masked-off lanes are not touched.
        unsafe { _mm512_mask_storeu_ps(target, first(lanes), value) }
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
    unsafe fn load_i8(source: *const i8) -> __m512 {
        // SAFETY: the caller's promise: sixteen bytes.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(source.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_u16(source: *const u16) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(source.cast())) }
    }
    #[inline(always)]
    unsafe fn store_u16(target: *mut u16, value: __m512i) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(target.cast(), _mm512_cvtepi32_epi16(value)) }
    }

    forward! {
        add(a: F, b: F) -> F = _mm512_add_ps(a, b);
        sub(a: F, b: F) -> F = _mm512_sub_ps(a, b);
        mul(a: F, b: F) -> F = _mm512_mul_ps(a, b);
        div(a: F, b: F) -> F = _mm512_div_ps(a, b);
        mul_add(a: F, b: F, c: F) -> F = _mm512_fmadd_ps(a, b, c);
        neg_mul_add(a: F, b: F, c: F) -> F = _mm512_fnmadd_ps(a, b, c);
        // The instruction returns its second operand when either is NaN, so only a NaN in the first needs care.
        min(a: F, b: F) -> F = _mm512_mask_mov_ps(
            _mm512_min_ps(a, b), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a);
        max(a: F, b: F) -> F = _mm512_mask_mov_ps(
            _mm512_max_ps(a, b), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a);
        min_fast(a: F, b: F) -> F = _mm512_min_ps(a, b);
        max_fast(a: F, b: F) -> F = _mm512_max_ps(a, b);
        // Where an operand is NaN, the second passes.
        at_most(x: F, most: F) -> F = _mm512_min_ps(most, x);
        at_least(x: F, least: F) -> F = _mm512_max_ps(least, x);
        sqrt(a: F) -> F = _mm512_sqrt_ps(a);
        round(a: F) -> F = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        floor(a: F) -> F = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a);
        ceil(a: F) -> F = _mm512_roundscale_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(a);
        trunc(a: F) -> F = _mm512_roundscale_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a);
        scale(a: F, n: F) -> F = _mm512_scalef_ps(a, n);

        lt(a: F, b: F) -> M = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
        le(a: F, b: F) -> M = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b);
        eq(a: F, b: F) -> M = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
        ne(a: F, b: F) -> M = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(a, b);
        select(mask: M, a: F, b: F) -> F = _mm512_mask_blend_ps(mask, b, a);
        select_i(mask: M, a: I, b: I) -> I = _mm512_mask_blend_epi32(mask, b, a);

        to_bits(a: F) -> I = _mm512_castps_si512(a);
        from_bits(a: I) -> F = _mm512_castsi512_ps(a);
        to_int(a: F) -> I = _mm512_cvtps_epi32(a);
        from_int(a: I) -> F = _mm512_cvtepi32_ps(a);
        add_i(a: I, b: I) -> I = _mm512_add_epi32(a, b);
        sub_i(a: I, b: I) -> I = _mm512_sub_epi32(a, b);
        mul_i(a: I, b: I) -> I = _mm512_mullo_epi32(a, b);
        and_i(a: I, b: I) -> I = _mm512_and_si512(a, b);
        or_i(a: I, b: I) -> I = _mm512_or_si512(a, b);
        xor_i(a: I, b: I) -> I = _mm512_xor_si512(a, b);
        eq_i(a: I, b: I) -> M = _mm512_cmpeq_epi32_mask(a, b);
        or_bytes(a: B, b: B) -> B = _mm256_or_si256(a, b);
        widen_unsigned(a: B) -> W = _mm512_cvtepu8_epi16(a);
        widen_signed(a: B) -> W = _mm512_cvtepi8_epi16(a);
        gt_i(a: I, b: I) -> M = _mm512_cmpgt_epi32_mask(a, b);
    }

    #[inline(always)]
    fn mask_and(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }
    #[inline(always)]
    fn mask_or(a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }
    #[inline(always)]
    fn mask_not(a: __mmask16) -> __mmask16 {
        !a
    }
    #[inline(always)]
    fn any(mask: __mmask16) -> bool {
        mask != 0
    }
    #[inline(always)]
    fn shl(a: __m512i, bits: u32) -> __m512i {
        // SAFETY: see the module page.
        unsafe { _mm512_sll_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
    }
    #[inline(always)]
    fn shr(a: __m512i, bits: u32) -> __m512i {
        // SAFETY: see the module page.
        unsafe { _mm512_srl_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
    }
    #[inline(always)]
    fn shr_arith(a: __m512i, bits: u32) -> __m512i {
        // SAFETY: see the module page.
        unsafe { _mm512_sra_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
    }

    #[inline(always)]
    fn reduce_add(a: __m512) -> f32 {
        // SAFETY: see the module page.
        unsafe {
            super::avx2::reduce_add(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a)))
        }
    }
    #[inline(always)]
    fn reduce_add_each(a: [__m512; 4]) -> [f32; 4] {
        // SAFETY: see the module page.
        unsafe {
            let half = |a| _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            super::avx2::reduce_add_each([half(a[0]), half(a[1]), half(a[2]), half(a[3])])
        }
    }
    #[inline(always)]
    fn reduce_max(a: __m512) -> f32 {
        // SAFETY: see the module page.
        unsafe {
            let (low, high) = (_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            super::avx2::reduce_max(super::avx2::max(low, high))
        }
    }
    #[inline(always)]
    fn reduce_min(a: __m512) -> f32 {
        // SAFETY: see the module page.
        unsafe {
            let (low, high) = (_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            super::avx2::reduce_min(super::avx2::min(low, high))
        }
    }

    #[inline(always)]
    unsafe fn gather(source: *const u8, stride: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            if stride.is_multiple_of(4) && stride <= 32 {
                return gather_near(source, stride);
            }
            let (low, high) =
                (super::avx2::gather(source, stride), super::avx2::gather(source.add(8 * stride), stride));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    }
    #[inline(always)]
    fn from_half(bits: __m512i) -> __m512 {
        // SAFETY: see the module page.
        unsafe { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits)) }
    }
    #[inline(always)]
    unsafe fn load_bytes(source: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(source.cast()) }
    }
    #[inline(always)]
    unsafe fn load_nibbles(source: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { super::avx2::load_nibbles(source) }
    }
    #[inline(always)]
    fn spread_bits(bits: u32, value: u8) -> __m256i {
        // SAFETY: see the module page.
        unsafe { _mm256_maskz_set1_epi8(bits, value as i8) }
    }
    #[inline(always)]
    fn bits(a: __m256i, right: i32, mask: u8) -> __m256i {
        super::avx2::bits(a, right, mask)
    }
    #[inline(always)]
    unsafe fn dot_i16(a: __m512i, other: *const i16) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_madd_epi16(a, _mm512_loadu_si512(other.cast())) }
    }
    #[inline(always)]
    fn integers(a: __m512i, part: usize) -> __m512i {
        // SAFETY: see the module page.
        unsafe {
            let half = if part == 0 { _mm512_castsi512_si256(a) } else { _mm512_extracti64x4_epi64::<1>(a) };
            _mm512_cvtepi16_epi32(half)
        }
    }
    #[inline(always)]
    unsafe fn add_dots_of_halves(a: __m512i, other: *const i16, factors: *const f32, sum: __m512) -> __m512 {
        // SAFETY: the caller's promise. The lower lanes belong to the first 16 integers.
        unsafe {
            let dots = _mm512_cvtepi32_ps(Self::dot_i16(a, other));
            let second = _mm_load_ss(factors.add(1));
            let factors = _mm512_mask_broadcastss_ps(_mm512_set1_ps(*factors), 0xff00, second);
            _mm512_fmadd_ps(dots, factors, sum)
        }
    }

    #[inline(always)]
    fn transpose(rows: &mut [__m512; MAX_LANES]) {
        let r = *rows;
        // SAFETY: see the module page.
        unsafe {
            // Quadruples of rows inside each 128-bit quarter; then the quarters change places, in
            // two steps.
            let mut four = [r[0]; 16];
            for i in 0..4 {
                let (a, b, c, d) = (r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]);
                let (ab_low, ab_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let (cd_low, cd_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                four[4 * i] = _mm512_shuffle_ps::<0x44>(ab_low, cd_low);
                four[4 * i + 1] = _mm512_shuffle_ps::<0xee>(ab_low, cd_low);
                four[4 * i + 2] = _mm512_shuffle_ps::<0x44>(ab_high, cd_high);
                four[4 * i + 3] = _mm512_shuffle_ps::<0xee>(ab_high, cd_high);
            }
            for j in 0..4 {
                let (a, b, c, d) = (four[j], four[4 + j], four[8 + j], four[12 + j]);
                let (ab_even, ab_odd) =
                    (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
                let (cd_even, cd_odd) =
                    (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
                rows[j] = _mm512_shuffle_f32x4::<0x88>(ab_even, cd_even);
                rows[8 + j] = _mm512_shuffle_f32x4::<0xdd>(ab_even, cd_even);
                rows[4 + j] = _mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd);
                rows[12 + j] = _mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd);
            }
        }
    }

    #[inline(always)]
    unsafe fn load_f16(source: *const f16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(source.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(target: *mut f16, value: __m512) {
        // SAFETY: the caller's promise.
        unsafe {
            _mm256_storeu_si256(target.cast(), _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(value));
        }
    }
    #[inline(always)]
    unsafe fn load_bf16_partial(source: *const bf16, lanes: usize) -> __m512 {
        // SAFETY: the caller's promise; masked-off lanes are not touched.
        unsafe {
            let bits = _mm256_maskz_loadu_epi16(first(lanes), source.cast());
            super::half_bits::bf16_to_f32::<Self>(_mm512_cvtepu16_epi32(bits))
        }
    }
    #[inline(always)]
    unsafe fn load_f16_partial(source: *const f16, lanes: usize) -> __m512 {
        // SAFETY: the caller's promise; masked-off lanes are not touched.
        unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(lanes), source.cast())) }
    }
    #[inline(always)]
    unsafe fn store_bf16_partial(target: *mut bf16, lanes: usize, value: __m512) {
        // SAFETY: the caller's promise; masked-off lanes are not touched.
        unsafe {
            let bits = _mm512_cvtepi32_epi16(super::half_bits::f32_to_bf16::<Self>(value));
            _mm256_mask_storeu_epi16(target.cast(), first(lanes), bits);
        }
    }
    #[inline(always)]
    unsafe fn store_f16_partial(target: *mut f16, lanes: usize, value: __m512) {
        // SAFETY: the caller's promise; masked-off lanes are not touched.
        unsafe {
            let bits = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(value);
            _mm256_mask_storeu_epi16(target.cast(), first(lanes), bits);
        }
    }
}
