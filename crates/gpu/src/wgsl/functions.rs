//! The library that kernels call: elementary functions of known accuracy, and Philox.
//!
//! WGSL promises little (`sin` to 2^-11, `tanh` nothing near zero, NaN and infinity not at all), so what the engine
//! specifies is written out. The polynomials are those of the CPU's vector functions: `exp` and `log` after Cephes
//! (S. Moshier), `erf`, `sin` and `cos` after N. Juffa's single-precision implementations.

macro_rules! functions {
    ($($variant:ident $name:literal [$($needs:ident),*] $text:literal)*) => {
        /// A function of the library.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Function {
            $($variant),*
        }

        impl Function {
            /// Its name in the text.
            pub fn name(self) -> &'static str {
                match self { $(Function::$variant => $name),* }
            }

            /// Its declaration.
            pub fn text(self) -> &'static str {
                match self { $(Function::$variant => $text),* }
            }

            /// What it calls.
            pub fn needs(self) -> &'static [Function] {
                match self { $(Function::$variant => &[$(Function::$needs),*]),* }
            }
        }
    };
}

functions! {
    // A call is no constant expression, and so may give what a constant may not be.
    FromBits "from_bits" [] "\
fn from_bits(bits: u32) -> f32 {
  return bitcast<f32>(bits);
}
"
    IsNan "is_nan" [] "\
fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
"
    IsFinite "is_finite" [] "\
fn is_finite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}
"
    Copysign "copysign" [] "\
fn copysign(x: f32, signed: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(signed) & 0x80000000u));
}
"
    Sign "sign_of" [IsNan, Copysign] "\
fn sign_of(x: f32) -> f32 {
  if (x == 0.0f) { return 0.0f; }
  return select(copysign(1.0f, x), x, is_nan(x));
}
"
    Maximum "maximum" [IsNan] "\
fn maximum(x: f32, y: f32) -> f32 {
  return select(select(y, x, x > y), x, is_nan(x));
}
"
    Minimum "minimum" [IsNan] "\
fn minimum(x: f32, y: f32) -> f32 {
  return select(select(y, x, x < y), x, is_nan(x));
}
"
    ToI32 "to_i32" [IsNan] "\
fn to_i32(x: f32) -> i32 {
  if (is_nan(x)) { return 0i; }
  if (x >= 2147483648.0f) { return 2147483647i; }
  if (x <= -2147483648.0f) { return -2147483647i - 1i; }
  return i32(x);
}
"
    ToU32 "to_u32" [IsNan] "\
fn to_u32(x: f32) -> u32 {
  if (is_nan(x) || x <= 0.0f) { return 0u; }
  if (x >= 4294967296.0f) { return 4294967295u; }
  return u32(x);
}
"
    // x * 2^n in two steps, each of which is a normal number.
    Scale "scale" [] "\
fn scale(x: f32, n: f32) -> f32 {
  let whole = i32(n);
  let half = whole / 2i;
  return x * bitcast<f32>((half + 127i) << 23u) * bitcast<f32>((whole - half + 127i) << 23u);
}
"
    // (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2.
    ExpTail "exp_tail" [] "\
fn exp_tail(r: f32) -> f32 {
  var sum = fma(1.98756915e-4f, r, 1.3981999507e-3f);
  sum = fma(sum, r, 8.3334519073e-3f);
  sum = fma(sum, r, 4.1665795894e-2f);
  sum = fma(sum, r, 1.6666665459e-1f);
  return fma(sum, r, 0.5f);
}
"
    // x = n ln 2 + r; the high part of ln 2 has 14 bits, so its products with n are exact.
    SplitByLn2 "split_by_ln2" [] "\
fn split_by_ln2(x: f32) -> vec2<f32> {
  let n = round(x * 1.44269504f);
  let r = fma(-n, 0.693115234375f, x);
  return vec2<f32>(n, fma(-n, 3.1946183e-5f, r));
}
"
    Exp "exp_of" [IsNan, SplitByLn2, ExpTail, Scale] "\
fn exp_of(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let s = split_by_ln2(clamp(x, -106.0f, 90.0f));
  return scale(fma(s.y * s.y, exp_tail(s.y), s.y) + 1.0f, s.x);
}
"
    Expm1 "expm1_of" [IsNan, SplitByLn2, ExpTail, Scale] "\
fn expm1_of(x: f32) -> f32 {
  if (is_nan(x) || abs(x) < 1e-30f) { return x; }
  let s = split_by_ln2(clamp(x, -20.0f, 88.8f));
  let p = fma(s.y * s.y, exp_tail(s.y), s.y);
  let half_power = scale(0.5f, s.x);
  let half = fma(half_power, p, half_power - 0.5f);
  return half + half;
}
"
    Log "log_of" [IsNan, FromBits] "\
fn log_of(x: f32) -> f32 {
  if (is_nan(x) || x < 0.0f) { return from_bits(0x7fc00000u); }
  if (x == 0.0f) { return from_bits(0xff800000u); }
  if (bitcast<u32>(x) == 0x7f800000u) { return x; }
  let subnormal = x < 1.17549435e-38f;
  let normal = select(x, x * 8388608.0f, subnormal);
  let shifted = bitcast<i32>(normal) - 0x3f3504f3i;
  let e = f32(shifted >> 23u) - select(0.0f, 23.0f, subnormal);
  let f = bitcast<f32>((shifted & 0x007fffffi) + 0x3f3504f3i) - 1.0f;
  var tail = fma(7.0376836292e-2f, f, -1.151461031e-1f);
  tail = fma(tail, f, 1.167699874e-1f);
  tail = fma(tail, f, -1.2420140846e-1f);
  tail = fma(tail, f, 1.4249322787e-1f);
  tail = fma(tail, f, -1.6668057665e-1f);
  tail = fma(tail, f, 2.0000714765e-1f);
  tail = fma(tail, f, -2.4999993993e-1f);
  tail = fma(tail, f, 3.3333331174e-1f);
  let square = f * f;
  var low = fma(f * square, tail, e * 3.1946183e-5f);
  low = fma(-0.5f, square, low);
  return fma(e, 0.693115234375f, f + low);
}
"
    Log1p "log1p_of" [Log, FromBits] "\
fn log1p_of(x: f32) -> f32 {
  if (abs(x) < 1e-9f) { return x; }
  let u = 1.0f + x;
  if (u == 0.0f || bitcast<u32>(u) == 0x7f800000u) { return log_of(u); }
  let loss = x - (u - 1.0f);
  return log_of(u) + loss / u;
}
"
    Tanh "tanh_of" [IsNan, Expm1, Copysign] "\
fn tanh_of(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let t = min(abs(x), 10.0f);
  let e = expm1_of(t + t);
  return copysign(select(e / (e + 2.0f), t, t < 1e-30f), x);
}
"
    Sigmoid "sigmoid_of" [Exp] "\
fn sigmoid_of(x: f32) -> f32 {
  let e = exp_of(-abs(x));
  return select(1.0f, e, x < 0.0f) / (1.0f + e);
}
"
    Silu "silu_of" [Sigmoid] "\
fn silu_of(x: f32) -> f32 {
  return x * sigmoid_of(x);
}
"
    Softplus "softplus_of" [Exp, Log1p] "\
fn softplus_of(x: f32) -> f32 {
  return max(x, 0.0f) + log1p_of(exp_of(-abs(x)));
}
"
    // Beyond 44 by the square of a half power, since the whole one overflows first.
    Sinh "sinh_of" [IsNan, Exp, Expm1, Copysign] "\
fn sinh_of(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let t = abs(x);
  if (t > 44.0f) {
    let half = exp_of(0.5f * t);
    return copysign(0.5f * half * half, x);
  }
  let e = expm1_of(t);
  return copysign(0.5f * (e + e / (e + 1.0f)), x);
}
"
    Cosh "cosh_of" [Exp] "\
fn cosh_of(x: f32) -> f32 {
  let t = abs(x);
  if (t > 44.0f) {
    let half = exp_of(0.5f * t);
    return 0.5f * half * half;
  }
  let e = exp_of(t);
  return 0.5f * (e + 1.0f / e);
}
"
    // The arc tangent of a number that is not negative, after Cephes.
    AtanOf "atan_positive" [] "\
fn atan_positive(t: f32) -> f32 {
  var base = 0.0f;
  var x = t;
  if (t > 2.4142135f) {
    base = 1.5707963f;
    x = -1.0f / t;
  } else if (t > 0.41421357f) {
    base = 0.78539816f;
    x = (t - 1.0f) / (t + 1.0f);
  }
  let s = x * x;
  var p = fma(8.05374449538e-2f, s, -1.38776856032e-1f);
  p = fma(p, s, 1.99777106478e-1f);
  p = fma(p, s, -3.33329491539e-1f);
  return base + fma(p * s, x, x);
}
"
    Atan "atan_of" [IsNan, IsFinite, AtanOf, Copysign] "\
fn atan_of(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (!is_finite(x)) { return copysign(1.5707963f, x); }
  return copysign(atan_positive(abs(x)), x);
}
"
    // The arc sine on 0..1/2, after Cephes.
    AsinOf "asin_small" [] "\
fn asin_small(x: f32) -> f32 {
  let s = x * x;
  var p = fma(4.2163199048e-2f, s, 2.4181311049e-2f);
  p = fma(p, s, 4.5470025998e-2f);
  p = fma(p, s, 7.4953002686e-2f);
  p = fma(p, s, 1.6666752422e-1f);
  return fma(p * s, x, x);
}
"
    Asin "asin_of" [IsNan, AsinOf, Copysign, FromBits] "\
fn asin_of(x: f32) -> f32 {
  let t = abs(x);
  if (is_nan(x) || t > 1.0f) { return from_bits(0x7fc00000u); }
  if (t <= 0.5f) { return copysign(asin_small(t), x); }
  return copysign(1.5707963f - 2.0f * asin_small(sqrt(0.5f - 0.5f * t)), x);
}
"
    Acos "acos_of" [IsNan, AsinOf, FromBits] "\
fn acos_of(x: f32) -> f32 {
  let t = abs(x);
  if (is_nan(x) || t > 1.0f) { return from_bits(0x7fc00000u); }
  if (t <= 0.5f) {
    let small = asin_small(t);
    return 1.5707963f - select(small, -small, x < 0.0f);
  }
  let from_end = 2.0f * asin_small(sqrt(0.5f - 0.5f * t));
  return select(from_end, 3.1415927f - from_end, x < 0.0f);
}
"
    Asinh "asinh_of" [IsNan, Log, Log1p, Copysign] "\
fn asinh_of(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let t = abs(x);
  if (t > 1e9f) { return copysign(log_of(t) + 0.6931472f, x); }
  let s = t * t;
  return copysign(log1p_of(t + s / (1.0f + sqrt(1.0f + s))), x);
}
"
    Acosh "acosh_of" [IsNan, Log, Log1p, FromBits] "\
fn acosh_of(x: f32) -> f32 {
  if (is_nan(x) || x < 1.0f) { return from_bits(0x7fc00000u); }
  if (x > 1e9f) { return log_of(x) + 0.6931472f; }
  let u = x - 1.0f;
  return log1p_of(u + sqrt(fma(u, u, u + u)));
}
"
    Atanh "atanh_of" [IsNan, Log1p, Copysign, FromBits] "\
fn atanh_of(x: f32) -> f32 {
  let t = abs(x);
  if (is_nan(x) || t > 1.0f) { return from_bits(0x7fc00000u); }
  if (t == 1.0f) { return copysign(from_bits(0x7f800000u), x); }
  return copysign(0.5f * log1p_of((t + t) / (1.0f - t)), x);
}
"
    Hypot "hypot_of" [IsNan, IsFinite, FromBits] "\
fn hypot_of(x: f32, y: f32) -> f32 {
  let infinite = (!is_finite(x) && !is_nan(x)) || (!is_finite(y) && !is_nan(y));
  if (infinite) { return from_bits(0x7f800000u); }
  if (is_nan(x) || is_nan(y)) { return from_bits(0x7fc00000u); }
  let large = max(abs(x), abs(y));
  if (large == 0.0f) { return 0.0f; }
  let ratio = min(abs(x), abs(y)) / large;
  return large * sqrt(fma(ratio, ratio, 1.0f));
}
"
    Atan2 "atan2_of" [IsNan, IsFinite, AtanOf, Copysign, FromBits] "\
fn atan2_of(y: f32, x: f32) -> f32 {
  if (is_nan(x) || is_nan(y)) { return from_bits(0x7fc00000u); }
  let large = max(abs(x), abs(y));
  let small = min(abs(x), abs(y));
  var ratio = 0.0f;
  if (!is_finite(small)) {
    ratio = 1.0f;
  } else if (is_finite(large) && large > 0.0f) {
    ratio = small / large;
  }
  var angle = atan_positive(ratio);
  if (abs(y) > abs(x)) { angle = 1.5707963f - angle; }
  if ((bitcast<u32>(x) >> 31u) == 1u) { angle = 3.1415927f - angle; }
  return copysign(angle, y);
}
"
    Erf "erf_of" [IsNan, Exp, Copysign] "\
fn erf_of(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (abs(x) <= 0.9277344f) {
    let s = x * x;
    var near = fma(-5.96761703e-4f, s, 4.99119423e-3f);
    near = fma(near, s, -2.67681349e-2f);
    near = fma(near, s, 1.12819925e-1f);
    near = fma(near, s, -3.76125336e-1f);
    near = fma(near, s, 1.28379166e-1f);
    return fma(near, x, x);
  }
  let t = min(abs(x), 4.0f);
  var far = fma(-1.7285347e-5f, t, 3.83197126e-4f);
  far = fma(far, t, -3.88396438e-3f);
  far = fma(far, t, 2.42546219e-2f);
  far = fma(far, t, -1.06777877e-1f);
  far = fma(far, t, -6.34846687e-1f);
  far = fma(far, t, -1.28717512e-1f);
  far = fma(far, t, -t);
  return copysign(1.0f - exp_of(far), x);
}
"
    Gelu "gelu_of" [Erf] "\
fn gelu_of(x: f32) -> f32 {
  let half = x * 0.5f;
  return fma(half, erf_of(x * 0.70710678f), half);
}
"
    // x * sigmoid(2u), so that the negative tail does not cancel.
    GeluTanh "gelu_tanh_of" [Sigmoid] "\
fn gelu_tanh_of(x: f32) -> f32 {
  return x * sigmoid_of(x * fma(x * x, 0.071354814f, 1.5957691f));
}
"
    // x less a multiple of pi / 2, and that multiple modulo 4 as a float. Below 8192 by pi / 2 in parts of 11 bits,
    // whose products with n are exact; beyond by as many bits of 2 / pi as the exponent asks for (Payne and Hanek 1983).
    ReduceQuadrant "reduce_quadrant" [MultiplyHigh] "\
fn reduce_quadrant(x: f32) -> vec2<f32> {
  if (abs(x) <= 8192.0f) {
    let n = round(x * 0.63661977f);
    var r = fma(-n, 1.5703125f, x);
    r = fma(-n, 0.0004837512969970703f, r);
    r = fma(-n, 7.549533620476723e-8f, r);
    return vec2<f32>(fma(-n, 2.5633441e-12f, r), n);
  }
  var digits = array<u32, 7>(
    0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u);
  let bits = bitcast<u32>(x);
  let mantissa = (bits << 8u) | 0x80000000u;
  let exponent = ((bits >> 23u) & 0xffu) - 126u;
  let first = exponent >> 5u;
  let shift = exponent & 31u;
  var high = digits[first];
  var middle = digits[first + 1u];
  var low = digits[first + 2u];
  if (shift > 0u) {
    high = (high << shift) | (middle >> (32u - shift));
    middle = (middle << shift) | (low >> (32u - shift));
    low = (low << shift) | (digits[min(first + 3u, 6u)] >> (32u - shift));
  }
  // The fraction of x * 2 / pi / 4 in 64 bits.
  let carry = multiply_high(mantissa, low);
  let bottom = mantissa * middle + carry;
  var top = mantissa * high + multiply_high(mantissa, middle) + select(0u, 1u, bottom < carry);
  var quadrant = i32(top >> 30u);
  top = top & 0x3fffffffu;
  var whole = i32(top);
  if ((top & 0x20000000u) != 0u) {
    whole = whole - 0x40000000i;
    quadrant = quadrant + 1i;
  }
  // 2^-62 pi / 2, in units of the words.
  let r = fma(f32(whole), 1.4629181e-9f, f32(bottom) * 3.4061216e-19f);
  let value = vec2<f32>(r, f32(quadrant));
  return select(value, -value, x < 0.0f);
}
"
    // sin(x + quadrant * pi / 2).
    SinQuadrant "sin_quadrant" [ReduceQuadrant, IsFinite, FromBits] "\
fn sin_quadrant(x: f32, quadrant: i32) -> f32 {
  if (!is_finite(x)) { return from_bits(0x7fc00000u); }
  let reduced = reduce_quadrant(x);
  let r = reduced.x;
  let q = i32(reduced.y) + quadrant;
  let s = r * r;
  var sine = fma(2.8656796e-6f, s, -1.9855992e-4f);
  sine = fma(sine, s, 8.333386e-3f);
  sine = fma(sine, s, -1.6666667e-1f);
  sine = fma(sine * s, r, r);
  var cosine = fma(2.4467707e-5f, s, -1.388773e-3f);
  cosine = fma(cosine, s, 4.1666657e-2f);
  cosine = fma(cosine, s, -0.5f);
  cosine = fma(cosine, s, 1.0f);
  let value = select(sine, cosine, (q & 1i) == 1i);
  return select(value, -value, (q & 2i) == 2i);
}
"
    Sin "sin_of" [SinQuadrant] "\
fn sin_of(x: f32) -> f32 {
  return sin_quadrant(x, 0i);
}
"
    Cos "cos_of" [SinQuadrant] "\
fn cos_of(x: f32) -> f32 {
  return sin_quadrant(x, 1i);
}
"
    // Exact: takes away ever smaller multiples of the divisor by powers of two.
    Remainder "remainder" [IsNan, IsFinite, FromBits] "\
fn remainder(x: f32, y: f32) -> f32 {
  if (is_nan(x) || is_nan(y) || !is_finite(x) || y == 0.0f) { return from_bits(0x7fc00000u); }
  if (!is_finite(y)) { return x; }
  let divisor = abs(y);
  var rest = abs(x);
  for (var turn = 0; turn < 300; turn++) {
    if (rest < divisor) { break; }
    let apart = (bitcast<i32>(rest) >> 23u) - (bitcast<i32>(divisor) >> 23u);
    var multiple = divisor;
    for (var power = 1; power < apart; power++) { multiple = multiple + multiple; }
    if (multiple + multiple <= rest) { multiple = multiple + multiple; }
    rest = rest - multiple;
  }
  return select(rest, -rest, x < 0.0f);
}
"
    Power "power" [IsNan, IsFinite, Exp, Log, FromBits] "\
fn power(x: f32, y: f32) -> f32 {
  if (y == 0.0f || x == 1.0f) { return 1.0f; }
  if (is_nan(x) || is_nan(y)) { return from_bits(0x7fc00000u); }
  if (y == 1.0f) { return x; }
  if (y == 2.0f) { return x * x; }
  let whole = trunc(y) == y;
  if (x < 0.0f && !whole && is_finite(x)) { return from_bits(0x7fc00000u); }
  let odd = whole && abs(y) < 16777216.0f && (i32(clamp(y, -16777216.0f, 16777216.0f)) & 1i) == 1i;
  var size = 1.0f;
  if (abs(x) != 1.0f) {
    // e^(y ln x) with the rounding of the product put back.
    let l = log_of(abs(x));
    let exponent = y * l;
    let loss = fma(y, l, -exponent);
    size = exp_of(exponent);
    if (abs(exponent) < 80.0f) { size = fma(size, loss, size); }
  }
  return select(size, -size, odd && (bitcast<u32>(x) >> 31u) == 1u);
}
"
    PowerI32 "power_i32" [] "\
fn power_i32(base: i32, exponent: i32) -> i32 {
  if (exponent < 0i) {
    if (base == 1i) { return 1i; }
    if (base == -1i) { return 1i - 2i * (exponent & 1i); }
    return 0i;
  }
  var product = 1i;
  var square = base;
  for (var left = exponent; left > 0i; left = left >> 1u) {
    if ((left & 1i) == 1i) { product = product * square; }
    square = square * square;
  }
  return product;
}
"
    PowerU32 "power_u32" [] "\
fn power_u32(base: u32, exponent: u32) -> u32 {
  var product = 1u;
  var square = base;
  for (var left = exponent; left > 0u; left = left >> 1u) {
    if ((left & 1u) == 1u) { product = product * square; }
    square = square * square;
  }
  return product;
}
"
    // The high word of a product, by halves.
    MultiplyHigh "multiply_high" [] "\
fn multiply_high(a: u32, b: u32) -> u32 {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let middle = ah * bl + ((al * bl) >> 16u);
  let other = al * bh + (middle & 0xffffu);
  return ah * bh + (middle >> 16u) + (other >> 16u);
}
"
    Philox "philox" [MultiplyHigh] "\
fn philox(first: vec4<u32>, first_key: vec2<u32>) -> vec4<u32> {
  var c = first;
  var key = first_key;
  for (var turn = 0; turn < 10; turn++) {
    let even = vec2<u32>(multiply_high(c.x, 0xd2511f53u), c.x * 0xd2511f53u);
    let odd = vec2<u32>(multiply_high(c.z, 0xcd9e8d57u), c.z * 0xcd9e8d57u);
    c = vec4<u32>(odd.x ^ c.y ^ key.x, odd.y, even.x ^ c.w ^ key.y, even.y);
    key = key + vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
  }
  return c;
}
"
}
