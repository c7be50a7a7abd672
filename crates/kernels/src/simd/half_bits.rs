//! Conversions between f32 and the 16-bit floats by integer arithmetic, for instruction sets without
//! an instruction for it. Values travel as 32-bit lanes whose high half is zero.

use super::Simd;

#[inline(always)]
pub(super) fn bf16_to_f32<S: Simd>(bits: S::I) -> S::F {
    S::from_bits(S::shl(bits, 16))
}

#[inline(always)]
pub(super) fn f32_to_bf16<S: Simd>(value: S::F) -> S::I {
    let bits = S::to_bits(value);
    let odd = S::and_i(S::shr(bits, 16), S::splat_i(1));
    let rounded = S::add_i(bits, S::add_i(odd, S::splat_i(0x7fff)));
    // Adding could carry a NaN into infinity; set the quiet bit instead.
    let quiet = S::or_i(bits, S::splat_i(0x0040_0000));
    S::shr(S::select_i(S::is_nan(value), quiet, rounded), 16)
}

#[inline(always)]
pub(super) fn f16_to_f32<S: Simd>(bits: S::I) -> S::F {
    let sign = S::shl(S::and_i(bits, S::splat_i(0x8000)), 16);
    let magnitude = S::shl(S::and_i(bits, S::splat_i(0x7fff)), 13);
    // The f16 fields, read as f32, are 2^112 too small; the product is exact and normalises subnormals.
    let scaled = S::mul(S::from_bits(magnitude), S::from_bits(S::splat_i((127 + 112) << 23)));
    let special = S::or_i(magnitude, S::splat_i(0x7f80_0000));
    let is_special = S::gt_i(magnitude, S::splat_i((0x7c00 << 13) - 1));
    let result = S::select_i(is_special, special, S::to_bits(scaled));
    S::from_bits(S::or_i(result, sign))
}

/// After Fabian Giesen, "Float to half conversions", variant with ties to even.
#[inline(always)]
pub(super) fn f32_to_f16<S: Simd>(value: S::F) -> S::I {
    let bits = S::to_bits(value);
    let sign = S::shr(S::and_i(bits, S::splat_i(i32::MIN)), 16);
    let magnitude = S::and_i(bits, S::splat_i(0x7fff_ffff));

    // Normal results: rebias the exponent, round the mantissa in the integer domain.
    let odd = S::and_i(S::shr(magnitude, 13), S::splat_i(1));
    let rebias = S::splat_i(((15 - 127) << 23) + 0xfff);
    let normal = S::shr(S::add_i(S::add_i(magnitude, rebias), odd), 13);

    // Subnormal results: adding 0.5 lets the adder align and round the mantissa.
    let magic = S::splat_i(((127 - 15) + (23 - 10) + 1) << 23);
    let aligned = S::add(S::from_bits(magnitude), S::from_bits(magic));
    let subnormal = S::sub_i(S::to_bits(aligned), magic);

    let infinity = S::splat_i(0x7c00);
    let quiet = S::or_i(S::and_i(S::shr(magnitude, 13), S::splat_i(0x3ff)), S::splat_i(0x7e00));
    let is_small = S::gt_i(S::splat_i((127 - 14) << 23), magnitude);
    let is_large = S::gt_i(magnitude, S::splat_i(((127 + 16) << 23) - 1));
    let result = S::select_i(is_small, subnormal, normal);
    let result = S::select_i(is_large, infinity, result);
    let result = S::select_i(S::is_nan(value), quiet, result);
    S::or_i(result, sign)
}
