//! Elementary functions over vectors of f32, written once for every instruction set.
//!
//! Each function states its largest error in units in the last place (ulp) of the exact result, as
//! verified by `simd/tests.rs` against f64 for the fused and the two-rounding multiply-add. NaN goes in, NaN
//! comes out; limits are those of the exact function. Subnormal arguments and results are honoured.
//!
//! Coefficients are minimax polynomials from the literature: `exp` and `log` after Cephes (S. Moshier),
//! `erf`, `sin` and `cos` after N. Juffa's single-precision implementations.

// Coefficients keep the digits of their sources.
#![allow(clippy::excessive_precision)]

use super::{MAX_LANES, Simd};

const LOG2_E: f32 = std::f32::consts::LOG2_E;
const LN_2: f64 = std::f64::consts::LN_2;

/// `x` with all but its leading `bits` mantissa bits cleared, so that products with small
/// integers are exact.
const fn leading(x: f64, bits: u32) -> f64 {
    f64::from_bits(x.to_bits() & !((1u64 << (53 - bits)) - 1))
}

/// ln 2 in two parts; the first has 14 bits, so `n · LN_2_HIGH` is exact for |n| < 1024.
const LN_2_HIGH: f32 = leading(LN_2, 14) as f32;
const LN_2_LOW: f32 = (LN_2 - leading(LN_2, 14)) as f32;

/// `c[0] + c[1]·x + c[2]·x² ...` by Horner's rule.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(x: S::F, c: [f32; N]) -> S::F {
    let mut sum = S::splat(c[N - 1]);
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = S::mul_add(sum, x, S::splat(c[i]));
    }
    sum
}

/// `(e^r - 1 - r) / r²` on |r| <= ln 2 / 2.
#[inline(always)]
fn exp_tail<S: Simd>(r: S::F) -> S::F {
    polynomial::<S, 6>(
        r,
        [
            0.5,
            1.666_666_545_9e-1,
            4.166_579_589_4e-2,
            8.333_451_907_3e-3,
            1.398_199_950_7e-3,
            1.987_569_15e-4,
        ],
    )
}

/// `x = n · ln 2 + r` with integral `n`.
#[inline(always)]
fn split_by_ln_2<S: Simd>(x: S::F) -> (S::F, S::F) {
    let n = S::round(S::mul(x, S::splat(LOG2_E)));
    let r = S::neg_mul_add(n, S::splat(LN_2_HIGH), x);
    (n, S::neg_mul_add(n, S::splat(LN_2_LOW), r))
}

/// `e^x`. At most 1.5 ulp.
#[inline(always)]
pub fn exp<S: Simd>(x: S::F) -> S::F {
    // Beyond these the result is zero or infinity; inside them `n` stays in the range of `scale`.
    exp_up_to_90::<S>(S::at_most(x, S::splat(90.0)))
}

/// `e^x` for `x <= 90`.
#[inline(always)]
fn exp_up_to_90<S: Simd>(x: S::F) -> S::F {
    let (n, r) = split_by_ln_2::<S>(S::at_least(x, S::splat(-106.0)));
    let p = S::mul_add(S::mul(r, r), exp_tail::<S>(r), r);
    S::scale(S::add(p, S::splat(1.0)), n)
}

/// `2^x`. At most 1.5 ulp.
#[inline(always)]
pub fn exp2<S: Simd>(x: S::F) -> S::F {
    let x = S::at_least(S::at_most(x, S::splat(130.0)), S::splat(-155.0));
    let n = S::round(x);
    let f = S::sub(x, n);
    let r = S::mul(f, S::splat(LN_2 as f32));
    // What rounding `ln 2` and the product lost, to first order.
    let low = S::mul(f, S::splat((LN_2 - LN_2 as f32 as f64) as f32));
    let p = S::mul_add(S::mul(r, r), exp_tail::<S>(r), S::add(r, low));
    S::scale(S::add(p, S::splat(1.0)), n)
}

/// `e^x - 1`, accurate near zero. At most 2 ulp.
#[inline(always)]
pub fn expm1<S: Simd>(x: S::F) -> S::F {
    // 88.8 overflows, yet keeps `n` at 128 and so the half power finite.
    let clamped = S::at_least(S::at_most(x, S::splat(88.8)), S::splat(-20.0));
    // Keeps subnormals, which the halving would round, and the sign of zero.
    S::select(S::lt(S::abs(x), S::splat(1e-30)), x, expm1_of_normal::<S>(clamped))
}

/// `e^x - 1` for x between -20 and 88.8 and not subnormal.
#[inline(always)]
fn expm1_of_normal<S: Simd>(x: S::F) -> S::F {
    let (n, r) = split_by_ln_2::<S>(x);
    let p = S::mul_add(S::mul(r, r), exp_tail::<S>(r), r);
    // 2^n·p + (2^n - 1), computed at half size because 2^128 overflows.
    let half_power = S::scale(S::splat(0.5), n);
    let half = S::mul_add(half_power, p, S::sub(half_power, S::splat(0.5)));
    S::add(half, half)
}

/// Natural logarithm: `log(0) = -inf`, NaN below zero. At most 2 ulp.
#[inline(always)]
pub fn log<S: Simd>(x: S::F) -> S::F {
    let subnormal = S::lt(x, S::splat(f32::MIN_POSITIVE));
    let normal = S::select(subnormal, S::mul(x, S::splat(8_388_608.0)), x);
    // Split into m·2^e with m in [√½, √2): the offset moves the break from 1 to √½.
    let offset = S::splat_i(std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32);
    let shifted = S::sub_i(S::to_bits(normal), offset);
    let e = S::from_int(S::shr_arith(shifted, 23));
    let e = S::sub(e, S::select(subnormal, S::splat(23.0), S::splat(0.0)));
    let mantissa = S::add_i(S::and_i(shifted, S::splat_i(0x007f_ffff)), offset);
    let f = S::sub(S::from_bits(mantissa), S::splat(1.0));

    let tail = polynomial::<S, 9>(
        f,
        [
            3.333_333_117_4e-1,
            -2.499_999_399_3e-1,
            2.000_071_476_5e-1,
            -1.666_805_766_5e-1,
            1.424_932_278_7e-1,
            -1.242_014_084_6e-1,
            1.167_699_874e-1,
            -1.151_461_031e-1,
            7.037_683_629_2e-2,
        ],
    );
    let square = S::mul(f, f);
    let low = S::mul_add(S::mul(f, square), tail, S::mul(e, S::splat(LN_2_LOW)));
    let low = S::neg_mul_add(S::splat(0.5), square, low);
    let result = S::mul_add(e, S::splat(LN_2_HIGH), S::add(f, low));

    let result = S::select(S::eq(x, S::splat(f32::INFINITY)), x, result);
    let result = S::select(S::eq(x, S::splat(0.0)), S::splat(f32::NEG_INFINITY), result);
    // False for NaN as well as for negative arguments.
    S::select(S::ge(x, S::splat(0.0)), result, S::splat(f32::NAN))
}

/// `log(1 + x)`, accurate near zero. At most 3 ulp.
#[inline(always)]
pub fn log1p<S: Simd>(x: S::F) -> S::F {
    let one = S::splat(1.0);
    let u = S::add(one, x);
    // `1 + x` was rounded; to first order the loss moves the logarithm by loss / u.
    let loss = S::sub(x, S::sub(u, one));
    let corrected = S::add(log::<S>(u), S::div(loss, u));
    // At -1 and infinity the correction is not a number; below 2^-30 the result is `x` itself, sign of zero included.
    let limit = S::mask_or(S::eq(u, S::splat(0.0)), S::eq(u, S::splat(f32::INFINITY)));
    let result = S::select(limit, log::<S>(u), corrected);
    S::select(S::lt(S::abs(x), S::splat(1e-9)), x, result)
}

/// Hyperbolic tangent. At most 3 ulp.
#[inline(always)]
pub fn tanh<S: Simd>(x: S::F) -> S::F {
    // (e^2t - 1) / (e^2t + 1); at t = 10 the quotient is 1 to the last bit.
    let t = S::at_most(S::abs(x), S::splat(10.0));
    let e = expm1_of_normal::<S>(S::add(t, t));
    let result = S::div(e, S::add(e, S::splat(2.0)));
    // Keeps subnormals, whose double loses nothing but whose quotient could.
    S::copysign(S::select(S::lt(t, S::splat(1e-30)), t, result), x)
}

/// Logistic function `1 / (1 + e^-x)`. At most 3 ulp, also where the result is subnormal.
#[inline(always)]
pub fn sigmoid<S: Simd>(x: S::F) -> S::F {
    let one = S::splat(1.0);
    // e^-|x| never overflows, so neither side loses range.
    let e = exp_up_to_90::<S>(S::neg(S::abs(x)));
    let numerator = S::select(S::lt(x, S::splat(0.0)), e, one);
    S::div(numerator, S::add(one, e))
}

/// `x · sigmoid(x)`. At most 4 ulp for x >= -87; below, where the factor is subnormal, at most 1e-42 absolute.
#[inline(always)]
pub fn silu<S: Simd>(x: S::F) -> S::F {
    S::mul(x, sigmoid::<S>(x))
}

/// Error function. At most 2 ulp.
#[inline(always)]
pub fn erf<S: Simd>(x: S::F) -> S::F {
    let (one, t) = (S::splat(1.0), S::abs(x));
    let square = S::mul(x, x);
    let near = polynomial::<S, 6>(
        square,
        [
            1.283_791_66e-1,
            -3.761_253_36e-1,
            1.128_199_25e-1,
            -2.676_813_49e-2,
            4.991_194_23e-3,
            -5.967_617_03e-4,
        ],
    );
    let near = S::mul_add(near, x, x);

    // erf is 1 to the last bit from 3.92 on.
    let t = S::at_most(t, S::splat(4.0));
    let far = polynomial::<S, 7>(
        t,
        [
            -1.287_175_12e-1,
            -6.348_466_87e-1,
            -1.067_778_77e-1,
            2.425_462_19e-2,
            -3.883_964_38e-3,
            3.831_971_26e-4,
            -1.728_534_7e-5,
        ],
    );
    let far = S::mul_add(far, t, S::neg(t));
    let far = S::copysign(S::sub(one, exp::<S>(far)), x);
    S::select(S::gt(t, S::splat(0.927_734_4)), far, near)
}

/// `x · ½(1 + erf(x / √2))`, torch's default. Absolute error at most `1.5e-7 · max(|x|, 1)`; the
/// relative error grows where `1 + erf` cancels (x below about -2), as it does upstream.
#[inline(always)]
pub fn gelu_erf<S: Simd>(x: S::F) -> S::F {
    let half = S::mul(x, S::splat(0.5));
    let e = erf::<S>(S::mul(x, S::splat(std::f32::consts::FRAC_1_SQRT_2)));
    S::mul_add(half, e, half)
}

/// `x · ½(1 + tanh(√(2/π)(x + 0.044715 x³)))`, written as `x · sigmoid(2u)` so that the negative
/// tail does not cancel. At most 32 ulp for |x| <= 4 (the rounding of `u` is magnified by 2|u|), and
/// absolute error at most 1e-6.
#[inline(always)]
pub fn gelu_tanh<S: Simd>(x: S::F) -> S::F {
    const TWICE_ROOT_2_OVER_PI: f32 = 1.595_769_1;
    let cubic =
        S::mul_add(S::mul(x, x), S::splat(0.044_715 * TWICE_ROOT_2_OVER_PI), S::splat(TWICE_ROOT_2_OVER_PI));
    S::mul(x, sigmoid::<S>(S::mul(x, cubic)))
}

/// Sine of radians; NaN at infinity. At most 2 ulp for any argument.
#[inline(always)]
pub fn sin<S: Simd>(x: S::F) -> S::F {
    sin_cos_quadrant::<S>(x, 0, f64::sin)
}

/// Cosine of radians; NaN at infinity. At most 2 ulp for any argument.
#[inline(always)]
pub fn cos<S: Simd>(x: S::F) -> S::F {
    sin_cos_quadrant::<S>(x, 1, f64::cos)
}

/// π/2 in parts of 11 bits, so that their products with quadrant numbers below 2^13 are exact even
/// with two roundings, and a remainder.
const PI_2: [f32; 4] = {
    let first = leading(std::f64::consts::FRAC_PI_2, 11);
    let second = leading(std::f64::consts::FRAC_PI_2 - first, 11);
    let third = leading(std::f64::consts::FRAC_PI_2 - first - second, 11);
    // f64 holds π/2 to 53 bits; what lies beyond is part of the remainder.
    let rest = std::f64::consts::FRAC_PI_2 - first - second - third + 6.123_233_995_736_766e-17;
    [first as f32, second as f32, third as f32, rest as f32]
};

/// Largest argument that the reduction by [`PI_2`] serves.
const REDUCTION_LIMIT: f32 = 8192.0;

/// sin(x + quadrant · π/2).
#[inline(always)]
fn sin_cos_quadrant<S: Simd>(x: S::F, quadrant: i32, exact: fn(f64) -> f64) -> S::F {
    let n = S::round(S::mul(x, S::splat(std::f32::consts::FRAC_2_PI)));
    let r = S::neg_mul_add(n, S::splat(PI_2[0]), x);
    let r = S::neg_mul_add(n, S::splat(PI_2[1]), r);
    let r = S::neg_mul_add(n, S::splat(PI_2[2]), r);
    let r = S::neg_mul_add(n, S::splat(PI_2[3]), r);
    let q = S::add_i(S::to_int(n), S::splat_i(quadrant));

    let s = S::mul(r, r);
    let sine = polynomial::<S, 4>(s, [-1.666_666_7e-1, 8.333_386e-3, -1.985_599_2e-4, 2.865_679_6e-6]);
    let sine = S::mul_add(S::mul(sine, s), r, r);
    let cosine = polynomial::<S, 5>(s, [1.0, -0.5, 4.166_665_7e-2, -1.388_773e-3, 2.446_770_7e-5]);
    let odd = S::eq_i(S::and_i(q, S::splat_i(1)), S::splat_i(1));
    let sign = S::shl(S::and_i(q, S::splat_i(2)), 30);
    let result = S::from_bits(S::xor_i(S::to_bits(S::select(odd, cosine, sine)), sign));

    // Written so that NaN and infinity take the slow way too, where they become NaN.
    let small = S::le(S::abs(x), S::splat(REDUCTION_LIMIT));
    if S::all(small) { result } else { large_arguments::<S>(x, result, exact) }
}

/// Replaces the lanes whose argument is beyond [`REDUCTION_LIMIT`] by a scalar evaluation in f64.
#[inline(never)]
fn replace_large(x: &[f32; MAX_LANES], result: &mut [f32; MAX_LANES], exact: fn(f64) -> f64) {
    for (x, result) in x.iter().zip(result) {
        if x.is_nan() || x.abs() > REDUCTION_LIMIT {
            *result = exact(f64::from(*x)) as f32;
        }
    }
}

#[inline(always)]
fn large_arguments<S: Simd>(x: S::F, result: S::F, exact: fn(f64) -> f64) -> S::F {
    let (mut arguments, mut results) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
    // SAFETY: the buffers hold MAX_LANES >= LANES values.
    unsafe {
        S::store(arguments.as_mut_ptr(), x);
        S::store(results.as_mut_ptr(), result);
        replace_large(&arguments, &mut results, exact);
        S::load(results.as_ptr())
    }
}
