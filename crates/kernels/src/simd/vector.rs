//! The vector operations that every instruction set provides.

use half::{bf16, f16};

use super::{Isa, SimdOp, half_bits};

/// An instruction set: a vector of `LANES` f32 values and the operations on it.
///
/// Methods are associated functions, so a kernel reads `S::mul_add(a, b, c)`. Three types go with
/// an instruction set: `F` (f32 lanes), `I` (the same bits as i32 lanes) and `M` (one truth
/// value per lane). Pointers need only the alignment of their element.
///
/// All methods are inlined; their code is right only inside [`dispatch`](super::dispatch).
pub trait Simd: Copy + Send + Sync + 'static {
    /// Lanes per vector.
    const LANES: usize;
    /// Which instruction set this is.
    const ISA: Isa;
    /// Whether [`Simd::mul_add`] rounds once. Where it does not, error bounds in
    /// [`vecmath`](super::vecmath) that say "fused" are wider by what is stated there.
    const FUSED: bool;
    /// Vector registers that a kernel may keep live.
    const REGISTERS: usize;

    /// f32 lanes.
    type F: Copy;
    /// i32 lanes.
    type I: Copy;
    /// One truth value per lane.
    type M: Copy;
    /// 32 bytes.
    type B: Copy;
    /// 32 integers of 16 bits.
    type W: Copy;

    /// Runs `op` as a function of its own, compiled for this instruction set. For what several kernels share, or what is so
    /// large that the compiler would take long for one function of it all; a call costs a few nanoseconds.
    fn apart<O: SimdOp>(op: O) -> O::Output;

    // --- memory -------------------------------------------------------------------------------

    /// All lanes equal to `value`.
    fn splat(value: f32) -> Self::F;
    /// # Safety
    /// `LANES` values at `source` are readable.
    unsafe fn load(source: *const f32) -> Self::F;
    /// # Safety
    /// `LANES` values at `target` are writable.
    unsafe fn store(target: *mut f32, value: Self::F);
    /// The first `lanes` values, zeros in the other lanes. `lanes` is at most `LANES`.
    /// # Safety
    /// `lanes` values at `source` are readable; nothing beyond them is touched.
    unsafe fn load_partial(source: *const f32, lanes: usize) -> Self::F;
    /// Stores the first `lanes` lanes. `lanes` is at most `LANES`.
    /// # Safety
    /// `lanes` values at `target` are writable; nothing beyond them is touched.
    unsafe fn store_partial(target: *mut f32, lanes: usize, value: Self::F);

    /// All lanes equal to `value`.
    fn splat_i(value: i32) -> Self::I;
    /// # Safety
    /// `LANES` values at `source` are readable.
    #[inline(always)]
    unsafe fn load_i(source: *const i32) -> Self::I {
        // SAFETY: the caller's promise; every bit pattern is a valid f32 and loads do not alter bits.
        Self::to_bits(unsafe { Self::load(source.cast()) })
    }
    /// # Safety
    /// `LANES` values at `target` are writable.
    #[inline(always)]
    unsafe fn store_i(target: *mut i32, value: Self::I) {
        // SAFETY: the caller's promise.
        unsafe { Self::store(target.cast(), Self::from_bits(value)) }
    }
    /// Loads 16-bit values, zero-extended.
    /// # Safety
    /// `LANES` values at `source` are readable.
    unsafe fn load_u16(source: *const u16) -> Self::I;
    /// Stores the low 16 bits of every lane. The high bits must be zero.
    /// # Safety
    /// `LANES` values at `target` are writable.
    unsafe fn store_u16(target: *mut u16, value: Self::I);

    /// 32 bits at each of `LANES` places that are `stride` bytes apart.
    /// # Safety
    /// Four bytes at each place are readable, at any alignment; where `stride` is 32 at most, so many at the last.
    unsafe fn gather(source: *const u8, stride: usize) -> Self::I;

    /// Hints that the cache line at `address`, which need not exist, will be wanted in the first-level cache.
    #[inline(always)]
    fn prefetch(address: *const f32) {
        let _ = address;
    }
    /// As [`Simd::prefetch`], in the second-level cache.
    #[inline(always)]
    fn prefetch_far(address: *const f32) {
        let _ = address;
    }

    // --- arithmetic ---------------------------------------------------------------------------

    /// `a + b`
    fn add(a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`
    fn sub(a: Self::F, b: Self::F) -> Self::F;
    /// `a · b`
    fn mul(a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`
    fn div(a: Self::F, b: Self::F) -> Self::F;
    /// `a · b + c`, rounded once where [`Simd::FUSED`].
    fn mul_add(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a · b`, rounded once where [`Simd::FUSED`].
    fn neg_mul_add(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The smaller value; NaN if either is NaN (as `torch.minimum`).
    fn min(a: Self::F, b: Self::F) -> Self::F;
    /// The larger value; NaN if either is NaN (as `torch.maximum`).
    fn max(a: Self::F, b: Self::F) -> Self::F;
    /// The smaller value in one instruction; which operand is returned for NaN is unspecified.
    fn min_fast(a: Self::F, b: Self::F) -> Self::F;
    /// The larger value in one instruction; which operand is returned for NaN is unspecified.
    fn max_fast(a: Self::F, b: Self::F) -> Self::F;
    /// `min(x, most)` for a `most` that is a number, in one instruction where that keeps a NaN in `x`.
    #[inline(always)]
    fn at_most(x: Self::F, most: Self::F) -> Self::F {
        Self::min(x, most)
    }
    /// `max(x, least)` for a `least` that is a number, in one instruction where that keeps a NaN in `x`.
    #[inline(always)]
    fn at_least(x: Self::F, least: Self::F) -> Self::F {
        Self::max(x, least)
    }
    /// Square root, correctly rounded.
    fn sqrt(a: Self::F) -> Self::F;
    /// To the nearest integer, ties to even.
    fn round(a: Self::F) -> Self::F;
    /// Towards negative infinity.
    fn floor(a: Self::F) -> Self::F;
    /// Towards positive infinity.
    fn ceil(a: Self::F) -> Self::F;
    /// Towards zero.
    fn trunc(a: Self::F) -> Self::F;
    /// `|a|`
    #[inline(always)]
    fn abs(a: Self::F) -> Self::F {
        Self::from_bits(Self::and_i(Self::to_bits(a), Self::splat_i(0x7fff_ffff)))
    }
    /// `-a`
    #[inline(always)]
    fn neg(a: Self::F) -> Self::F {
        Self::from_bits(Self::xor_i(Self::to_bits(a), Self::splat_i(i32::MIN)))
    }
    /// The magnitude of `a` with the sign of `sign`.
    #[inline(always)]
    fn copysign(a: Self::F, sign: Self::F) -> Self::F {
        let sign = Self::and_i(Self::to_bits(sign), Self::splat_i(i32::MIN));
        Self::from_bits(Self::or_i(Self::to_bits(Self::abs(a)), sign))
    }
    /// `a · 2^n` for integral `n` in [-250, 250]; right also where the result is subnormal (a
    /// result that two-step scaling rounds twice may be off by one subnormal ulp).
    #[inline(always)]
    fn scale(a: Self::F, n: Self::F) -> Self::F {
        let n = Self::to_int(n);
        let half = Self::shr_arith(n, 1);
        let rest = Self::sub_i(n, half);
        let bias = Self::splat_i(127);
        let first = Self::from_bits(Self::shl(Self::add_i(half, bias), 23));
        let second = Self::from_bits(Self::shl(Self::add_i(rest, bias), 23));
        Self::mul(Self::mul(a, first), second)
    }

    // --- comparison ---------------------------------------------------------------------------

    /// `a < b`; false where either is NaN.
    fn lt(a: Self::F, b: Self::F) -> Self::M;
    /// `a <= b`; false where either is NaN.
    fn le(a: Self::F, b: Self::F) -> Self::M;
    /// `a == b`; false where either is NaN.
    fn eq(a: Self::F, b: Self::F) -> Self::M;
    /// `a > b`; false where either is NaN.
    #[inline(always)]
    fn gt(a: Self::F, b: Self::F) -> Self::M {
        Self::lt(b, a)
    }
    /// `a >= b`; false where either is NaN.
    #[inline(always)]
    fn ge(a: Self::F, b: Self::F) -> Self::M {
        Self::le(b, a)
    }
    /// `a != b`; true where either is NaN.
    #[inline(always)]
    fn ne(a: Self::F, b: Self::F) -> Self::M {
        Self::mask_not(Self::eq(a, b))
    }
    /// Whether a lane is NaN.
    #[inline(always)]
    fn is_nan(a: Self::F) -> Self::M {
        Self::ne(a, a)
    }
    /// `mask ? a : b`
    fn select(mask: Self::M, a: Self::F, b: Self::F) -> Self::F;
    /// `mask ? a : b`
    #[inline(always)]
    fn select_i(mask: Self::M, a: Self::I, b: Self::I) -> Self::I {
        Self::to_bits(Self::select(mask, Self::from_bits(a), Self::from_bits(b)))
    }
    /// Both.
    fn mask_and(a: Self::M, b: Self::M) -> Self::M;
    /// Either.
    fn mask_or(a: Self::M, b: Self::M) -> Self::M;
    /// Not.
    fn mask_not(a: Self::M) -> Self::M;
    /// Whether any lane is true.
    fn any(mask: Self::M) -> bool;
    /// Whether all lanes are true.
    #[inline(always)]
    fn all(mask: Self::M) -> bool {
        !Self::any(Self::mask_not(mask))
    }

    // --- integers (wrapping) ------------------------------------------------------------------

    /// The bits of the f32 lanes.
    fn to_bits(a: Self::F) -> Self::I;
    /// f32 lanes with these bits.
    fn from_bits(a: Self::I) -> Self::F;
    /// The nearest integer, ties to even; unspecified outside of i32.
    fn to_int(a: Self::F) -> Self::I;
    /// The value as f32, rounded to nearest.
    fn from_int(a: Self::I) -> Self::F;
    /// `a + b`
    fn add_i(a: Self::I, b: Self::I) -> Self::I;
    /// `a - b`
    fn sub_i(a: Self::I, b: Self::I) -> Self::I;
    /// The low 32 bits of `a · b`.
    fn mul_i(a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn and_i(a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn or_i(a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or.
    fn xor_i(a: Self::I, b: Self::I) -> Self::I;
    /// Shift left; `bits` below 32.
    fn shl(a: Self::I, bits: u32) -> Self::I;
    /// Shift right, zeros enter; `bits` below 32.
    fn shr(a: Self::I, bits: u32) -> Self::I;
    /// Shift right, the sign enters; `bits` below 32.
    fn shr_arith(a: Self::I, bits: u32) -> Self::I;
    /// `a == b`
    fn eq_i(a: Self::I, b: Self::I) -> Self::M;
    /// `a > b`, signed.
    fn gt_i(a: Self::I, b: Self::I) -> Self::M;

    // --- packed integers: 32 at a time, however many lanes there are --------------------------

    /// # Safety
    /// 32 bytes at `source` are readable.
    unsafe fn load_bytes(source: *const u8) -> Self::B;
    /// 32 integers of 4 bits: the low halves of 16 bytes, then their high halves.
    /// # Safety
    /// 16 bytes at `source` are readable.
    unsafe fn load_nibbles(source: *const u8) -> Self::B;
    /// `value` in the bytes of which the bit is set, the first byte's bit being the lowest; zero in the others.
    fn spread_bits(bits: u32, value: u8) -> Self::B;
    /// Bits of each byte: it is shifted right by `right` (or left by `-right`), less than 8, and the result masked. The
    /// mask is clear where a bit of a neighbour could come in.
    fn bits(a: Self::B, right: i32, mask: u8) -> Self::B;
    /// Bitwise or.
    fn or_bytes(a: Self::B, b: Self::B) -> Self::B;
    /// Unsigned bytes as 16 bits.
    fn widen_unsigned(a: Self::B) -> Self::W;
    /// Signed bytes as 16 bits.
    fn widen_signed(a: Self::B) -> Self::W;
    /// Integers `part · LANES ..` of the 32, as i32.
    fn integers(a: Self::W, part: usize) -> Self::I;
    /// The dot product with 32 other integers, spread over the lanes: their sum is it. No lane adds up more than eight
    /// products.
    /// # Safety
    /// 32 values at `other` are readable.
    unsafe fn dot_i16(a: Self::W, other: *const i16) -> Self::I;
    /// `sum` plus the dot products of the first and of the second 16 integers, as [`Simd::dot_i16`], each times a factor.
    /// # Safety
    /// 32 values at `other` and two at `factors` are readable.
    unsafe fn add_dots_of_halves(a: Self::W, other: *const i16, factors: *const f32, sum: Self::F)
    -> Self::F;

    // --- reductions ---------------------------------------------------------------------------

    /// The sum of all lanes, in a fixed order for a given `LANES`: halves are added until one is left.
    fn reduce_add(a: Self::F) -> f32;
    /// [`Simd::reduce_add`] of each of four vectors, but for the order.
    #[inline(always)]
    fn reduce_add_each(a: [Self::F; 4]) -> [f32; 4] {
        [Self::reduce_add(a[0]), Self::reduce_add(a[1]), Self::reduce_add(a[2]), Self::reduce_add(a[3])]
    }
    /// The largest lane; NaN if any lane is NaN.
    fn reduce_max(a: Self::F) -> f32;
    /// The smallest lane; NaN if any lane is NaN.
    fn reduce_min(a: Self::F) -> f32;

    /// Transposes the `LANES` by `LANES` matrix in the first `LANES` vectors; the others are left alone.
    #[inline(always)]
    fn transpose(rows: &mut [Self::F; MAX_LANES]) {
        let mut lanes = [[0.0f32; MAX_LANES]; MAX_LANES];
        for (row, lanes) in rows.iter().zip(&mut lanes).take(Self::LANES) {
            // SAFETY: every row of the buffer holds MAX_LANES >= LANES values.
            unsafe { Self::store(lanes.as_mut_ptr(), *row) };
        }
        for (j, row) in rows.iter_mut().enumerate().take(Self::LANES) {
            let mut column = [0.0f32; MAX_LANES];
            for (lane, lanes) in column.iter_mut().zip(&lanes) {
                *lane = lanes[j];
            }
            // SAFETY: as above.
            *row = unsafe { Self::load(column.as_ptr()) };
        }
    }

    /// i8 to f32, exact.
    /// # Safety
    /// `LANES` values at `source` are readable.
    #[inline(always)]
    unsafe fn load_i8(source: *const i8) -> Self::F {
        let mut lanes = [0.0f32; MAX_LANES];
        for (at, lane) in lanes.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller's promise.
            *lane = unsafe { *source.add(at) }.into();
        }
        // SAFETY: the buffer holds a vector.
        unsafe { Self::load(lanes.as_ptr()) }
    }

    // --- half types ---------------------------------------------------------------------------

    /// The f16 numbers with these bits, the upper 16 being zero, as f32, exact.
    #[inline(always)]
    fn from_half(bits: Self::I) -> Self::F {
        half_bits::f16_to_f32::<Self>(bits)
    }
    /// bf16 to f32, exact.
    /// # Safety
    /// `LANES` values at `source` are readable.
    #[inline(always)]
    unsafe fn load_bf16(source: *const bf16) -> Self::F {
        // SAFETY: the caller's promise; bf16 is a transparent u16.
        half_bits::bf16_to_f32::<Self>(unsafe { Self::load_u16(source.cast()) })
    }
    /// f32 to bf16, to nearest with ties to even; NaN stays NaN.
    /// # Safety
    /// `LANES` values at `target` are writable.
    #[inline(always)]
    unsafe fn store_bf16(target: *mut bf16, value: Self::F) {
        // SAFETY: the caller's promise.
        unsafe { Self::store_u16(target.cast(), half_bits::f32_to_bf16::<Self>(value)) }
    }
    /// f16 to f32, exact.
    /// # Safety
    /// `LANES` values at `source` are readable.
    #[inline(always)]
    unsafe fn load_f16(source: *const f16) -> Self::F {
        // SAFETY: the caller's promise; f16 is a transparent u16.
        half_bits::f16_to_f32::<Self>(unsafe { Self::load_u16(source.cast()) })
    }
    /// f32 to f16, to nearest with ties to even; too large becomes infinity, NaN stays NaN.
    /// # Safety
    /// `LANES` values at `target` are writable.
    #[inline(always)]
    unsafe fn store_f16(target: *mut f16, value: Self::F) {
        // SAFETY: the caller's promise.
        unsafe { Self::store_u16(target.cast(), half_bits::f32_to_f16::<Self>(value)) }
    }
    /// As [`Simd::load_bf16`] for the first `lanes` values; zeros in the other lanes.
    /// # Safety
    /// `lanes <= LANES` values at `source` are readable.
    #[inline(always)]
    unsafe fn load_bf16_partial(source: *const bf16, lanes: usize) -> Self::F {
        let mut buffer = [bf16::ZERO; MAX_LANES];
        // SAFETY: `lanes <= LANES <= MAX_LANES`; the caller vouches for `source`.
        unsafe {
            std::ptr::copy_nonoverlapping(source, buffer.as_mut_ptr(), lanes);
            Self::load_bf16(buffer.as_ptr())
        }
    }
    /// As [`Simd::store_bf16`] for the first `lanes` lanes.
    /// # Safety
    /// `lanes <= LANES` values at `target` are writable.
    #[inline(always)]
    unsafe fn store_bf16_partial(target: *mut bf16, lanes: usize, value: Self::F) {
        let mut buffer = [bf16::ZERO; MAX_LANES];
        // SAFETY: `lanes <= LANES <= MAX_LANES`; the caller vouches for `target`.
        unsafe {
            Self::store_bf16(buffer.as_mut_ptr(), value);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), target, lanes);
        }
    }
    /// As [`Simd::load_f16`] for the first `lanes` values; zeros in the other lanes.
    /// # Safety
    /// `lanes <= LANES` values at `source` are readable.
    #[inline(always)]
    unsafe fn load_f16_partial(source: *const f16, lanes: usize) -> Self::F {
        let mut buffer = [f16::ZERO; MAX_LANES];
        // SAFETY: `lanes <= LANES <= MAX_LANES`; the caller vouches for `source`.
        unsafe {
            std::ptr::copy_nonoverlapping(source, buffer.as_mut_ptr(), lanes);
            Self::load_f16(buffer.as_ptr())
        }
    }
    /// As [`Simd::store_f16`] for the first `lanes` lanes.
    /// # Safety
    /// `lanes <= LANES` values at `target` are writable.
    #[inline(always)]
    unsafe fn store_f16_partial(target: *mut f16, lanes: usize, value: Self::F) {
        let mut buffer = [f16::ZERO; MAX_LANES];
        // SAFETY: `lanes <= LANES <= MAX_LANES`; the caller vouches for `target`.
        unsafe {
            Self::store_f16(buffer.as_mut_ptr(), value);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), target, lanes);
        }
    }
}

/// The widest `LANES` of any instruction set, for stack buffers.
pub const MAX_LANES: usize = 16;
