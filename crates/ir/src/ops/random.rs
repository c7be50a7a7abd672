//! Random values. The `key` (`u64[2]`: seed and draw number) is an argument; `stream` tells several random
//! nodes of one graph apart. See [`crate::prim::random`].

use super::{
    add, add_scalar, argmax, argsort, cast, div_scalar, floor, ge_scalar, index_select, log, lt, lt_scalar,
    mul_scalar, neg, require_float, scalar, select, shape_of, topk, unsqueeze, where_, zeros_like,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Scalar;
use crate::layout::{Dims, resolve_axis};
use crate::prim::{Prim, Random};

/// Refuses a dtype that holds no fractions.
fn expect_real(op: &str, dtype: DType) -> Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(Error::dtype(op, format!("the dtype is {dtype}, expected a floating-point dtype")))
}

fn expect_probability(op: &str, p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(Error::shape(op, format!("the probability is {p}, expected 0 to 1")))
}

/// Uniform values in `[low, high)`, of a float dtype; `low` itself where both are equal.
///
/// Errors: a range that is empty or not finite.
pub fn uniform<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    low: f64,
    high: f64,
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    uniform_of(b, "uniform", key, shape, [low, high], dtype, stream)
}

fn uniform_of<B: Builder>(
    b: &B,
    op: &str,
    key: &B::Value,
    shape: &[usize],
    [low, high]: [f64; 2],
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    expect_real(op, dtype)?;
    if !(low <= high && (high - low).is_finite()) {
        return Err(Error::shape(op, format!("{low}..{high} is no range of finite length from low to high")));
    }
    let unit = Random::Uniform { shape: Dims::from_slice(shape), stream };
    let mut unit = b.apply1(Prim::Random(unit), std::slice::from_ref(key))?;
    // 24 bits would round up to 1 in a half type: only as many are kept as it holds.
    let bits = match dtype {
        DType::F16 => Some(11),
        DType::BF16 => Some(8),
        _ => None,
    };
    if let Some(bits) = bits {
        let parts = f64::from(1 << bits);
        unit = mul_scalar(b, &floor(b, &mul_scalar(b, &unit, parts)?)?, 1.0 / parts)?;
    }
    let x = scaled(b, unit, high - low, low, dtype)?;
    if (low, high) == (0.0, 1.0) {
        return Ok(x);
    }
    // The product may round up to the excluded end.
    let is_end = ge_scalar(b, &x, high)?;
    where_(b, &is_end, &scalar(b, low, dtype)?, &x)
}

/// Normal values of that mean and standard deviation, of a float dtype.
///
/// Errors: a deviation that is negative or not finite, a mean that is not finite.
pub fn normal<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    mean: f64,
    std: f64,
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    normal_of(b, "normal", key, shape, [mean, std], dtype, stream)
}

fn normal_of<B: Builder>(
    b: &B,
    op: &str,
    key: &B::Value,
    shape: &[usize],
    [mean, std]: [f64; 2],
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    expect_real(op, dtype)?;
    if !(std >= 0.0 && std.is_finite() && mean.is_finite()) {
        return Err(Error::shape(
            op,
            format!(
                "the mean is {mean} and the deviation {std}, expected numbers, the deviation not negative"
            ),
        ));
    }
    let unit = Random::Normal { shape: Dims::from_slice(shape), stream };
    scaled(b, b.apply1(Prim::Random(unit), std::slice::from_ref(key))?, std, mean, dtype)
}

fn scaled<B: Builder>(b: &B, unit: B::Value, scale: f64, shift: f64, dtype: DType) -> Result<B::Value> {
    let mut x = unit;
    if scale != 1.0 {
        x = mul_scalar(b, &x, scale)?;
    }
    if shift != 0.0 {
        x = add_scalar(b, &x, shift)?;
    }
    cast(b, &x, dtype)
}

/// `bool` values, true with probability `p`.
pub fn bernoulli<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    p: f64,
    stream: u64,
) -> Result<B::Value> {
    expect_probability("bernoulli", p)?;
    let unit = uniform(b, key, shape, 0.0, 1.0, DType::F32, stream)?;
    lt_scalar(b, &unit, p)
}

/// `bool` values, each true with the probability that `p` holds at its place: never for one of 0 or below or NaN, always
/// from 1 on.
pub fn bernoulli_like<B: Builder>(b: &B, key: &B::Value, p: &B::Value, stream: u64) -> Result<B::Value> {
    require_float("bernoulli_like", "the probability", b.ty(p))?;
    let wide = b.ty(p).dtype.wide();
    let unit = uniform(b, key, &shape_of(b, p), 0.0, 1.0, wide, stream)?;
    lt(b, &unit, &cast(b, p, wide)?)
}

/// Uniform values in `[low, high)`, of the shape and dtype of `x`.
pub fn uniform_like<B: Builder>(
    b: &B,
    key: &B::Value,
    x: &B::Value,
    low: f64,
    high: f64,
    stream: u64,
) -> Result<B::Value> {
    uniform_of(b, "uniform_like", key, &shape_of(b, x), [low, high], b.ty(x).dtype, stream)
}

/// Normal values of that mean and standard deviation, of the shape and dtype of `x`.
pub fn normal_like<B: Builder>(
    b: &B,
    key: &B::Value,
    x: &B::Value,
    mean: f64,
    std: f64,
    stream: u64,
) -> Result<B::Value> {
    normal_of(b, "normal_like", key, &shape_of(b, x), [mean, std], b.ty(x).dtype, stream)
}

/// Random words, `u32` or `u64`: those of Philox 4x32-10 (Salmon et al. 2011), the same on every device.
pub fn random_bits<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    let bits = Random::Bits { shape: Dims::from_slice(shape), dtype, stream };
    b.apply1(Prim::Random(bits), std::slice::from_ref(key))
}

/// The `count` words behind each element, as i64 in `0..2^bits`.
fn words<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    count: usize,
    bits: u32,
    stream: u64,
) -> Result<Vec<B::Value>> {
    let mut shape = Dims::from_slice(shape);
    shape.push(count);
    let words = cast(b, &random_bits(b, key, &shape, DType::U32, stream)?, DType::I64)?;
    let words = div_scalar(b, &words, 1i64 << (32 - bits))?;
    (0..count).map(|at| select(b, &words, -1, at as isize)).collect()
}

/// Whole numbers in `low..high`, of an integer dtype. A number's probability is off by less than 2^-64 for ranges up to
/// 2^31, else by less than 2^-90 (a product in place of a rejection: Lemire 2019, "Fast random integer generation in an
/// interval"), and the numbers are the same on every device.
pub fn randint<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    low: impl Into<Scalar>,
    high: impl Into<Scalar>,
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    let name = "randint";
    let whole = |what: &str, value: Scalar| match super::scalar_beside(name, DType::I64, value)? {
        Scalar::Int(v) => Ok(v),
        other => Err(Error::dtype(name, format!("{what} is {other:?}, expected a whole number"))),
    };
    let (low, high) = (whole("low", low.into())?, whole("high", high.into())?);
    if !dtype.is_int() {
        return Err(Error::dtype(name, format!("the dtype is {dtype}, expected an integer dtype")));
    }
    if low >= high || !dtype.holds(low) || !dtype.holds(high - 1) {
        return Err(Error::shape(name, format!("{low}..{high} is no range of {dtype} with an element")));
    }
    // Up to 2^64 - 1, so modulo 2^64 a sum with `low` is right.
    let range = high.wrapping_sub(low) as u64;
    let draw = if range <= 1 << 31 {
        // floor(word * range / 2^64), with the word in halves of 32 bits; all products stay below 2^63.
        let halves = words(b, key, shape, 2, 32, stream)?;
        let carry = div_scalar(b, &mul_scalar(b, &halves[1], range as i64)?, 1i64 << 32)?;
        div_scalar(b, &add(b, &mul_scalar(b, &halves[0], range as i64)?, &carry)?, 1i64 << 32)?
    } else {
        // floor(word * range / 2^90), with word and range in limbs of 30 bits, the lowest first.
        let limbs = words(b, key, shape, 3, 30, stream)?;
        let mask = (1u64 << 30) - 1;
        let ranges = [range & mask, range >> 30 & mask, range >> 60].map(|limb| limb as i64);
        let product = |word: usize, limb: usize| mul_scalar(b, &limbs[word], ranges[limb]);
        let shifted = |x: &B::Value| div_scalar(b, x, 1i64 << 30);
        let first = shifted(&product(0, 0)?)?;
        let second = shifted(&add(b, &add(b, &product(1, 0)?, &product(0, 1)?)?, &first)?)?;
        let third = add(b, &add(b, &product(2, 0)?, &product(1, 1)?)?, &add(b, &product(0, 2)?, &second)?)?;
        let fourth = add(b, &add(b, &product(2, 1)?, &product(1, 2)?)?, &shifted(&third)?)?;
        add(b, &fourth, &mul_scalar(b, &product(2, 2)?, 1i64 << 30)?)?
    };
    cast(b, &add_scalar(b, &draw, low)?, dtype)
}

/// Uniform values strictly between 0 and 1, f64 of 52 bits for `dtype` f64, else f32 of 23 bits: `(word + 1/2) 2^-bits`,
/// exact.
fn open_unit<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    let (words, wide, bits) = match dtype {
        DType::F64 => (DType::U64, DType::F64, 52),
        _ => (DType::U32, DType::F32, 23),
    };
    let spare = 8 * words.size() as u32 - bits;
    let word = div_scalar(b, &random_bits(b, key, shape, words, stream)?, 1i64 << spare)?;
    let middle = add_scalar(b, &cast(b, &word, wide)?, 0.5)?;
    mul_scalar(b, &middle, (-f64::from(bits)).exp2())
}

/// Exponential values of that rate, of a floating-point dtype; none is 0.
pub fn exponential<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    rate: f64,
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    expect_real("exponential", dtype)?;
    if !(rate > 0.0 && rate.is_finite()) {
        return Err(Error::shape("exponential", format!("the rate is {rate}, expected a positive number")));
    }
    let unit = log(b, &open_unit(b, key, shape, dtype, stream)?)?;
    cast(b, &mul_scalar(b, &unit, -1.0 / rate)?, dtype)
}

/// Values of the standard Gumbel distribution, `-log(-log(u))`, of a floating-point dtype.
pub fn gumbel<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    expect_real("gumbel", dtype)?;
    let exponential = neg(b, &log(b, &open_unit(b, key, shape, dtype, stream)?)?)?;
    cast(b, &neg(b, &log(b, &exponential)?)?, dtype)
}

/// Normal values of that mean and standard deviation, given that they lie in `low..=high`, of a floating-point dtype: the
/// quantile of a uniform probability between those of the bounds (torch `nn.init.trunc_normal_`). Bounds may be infinite.
/// Where both lie on one side, the tail of the other side is drawn and turned over, and probabilities are logarithms, which
/// keeps the digits of a far tail.
pub fn truncated_normal<B: Builder>(
    b: &B,
    key: &B::Value,
    shape: &[usize],
    mean: f64,
    std: f64,
    low: f64,
    high: f64,
    dtype: DType,
    stream: u64,
) -> Result<B::Value> {
    let name = "truncated_normal";
    expect_real(name, dtype)?;
    if !(std > 0.0 && std.is_finite() && mean.is_finite() && low < high) {
        return Err(Error::shape(
            name,
            format!(
                "a mean of {mean}, a deviation of {std} and {low}..={high} are no normal distribution in a range"
            ),
        ));
    }
    let wide = dtype.wide();
    let (from, to) = ((low - mean) / std, (high - mean) / std);
    let (from, to, scale) = if from > 0.0 { (-to, -from, -std) } else { (from, to, std) };
    let log_probability = |bound: f64| super::log_ndtr(b, &scalar(b, bound, wide)?);
    let (first, last) = (log_probability(from)?, log_probability(to)?);
    // log(first + unit (last - first)) of the probabilities, which may be too small to be numbers themselves.
    let below = super::expm1(b, &super::sub(b, &first, &last)?)?;
    let rest = super::rsub_scalar(b, &open_unit(b, key, shape, dtype, stream)?, 1.0)?;
    let place = add(b, &super::log1p(b, &super::mul(b, &rest, &below)?)?, &last)?;
    let x = add_scalar(b, &mul_scalar(b, &super::ndtri_exp(b, &place)?, scale)?, mean)?;
    // Rounding may lead out of the range by the last place.
    let x = super::clamp(b, &x, Some(Scalar::float(low)), Some(Scalar::float(high)))?;
    cast(b, &x, dtype)
}

/// `logits [.., n]` with Gumbel noise of their own for each of `samples`: `[.., samples, n]`.
fn perturbed<B: Builder>(
    b: &B,
    op: &str,
    key: &B::Value,
    logits: &B::Value,
    samples: usize,
    stream: u64,
) -> Result<B::Value> {
    require_float(op, "the operand", b.ty(logits))?;
    let wide = b.ty(logits).dtype.wide();
    let mut shape = shape_of(b, logits);
    match shape.last() {
        None | Some(0) => {
            return Err(Error::shape(op, format!("the operand is {}, expected [.., classes]", b.ty(logits))));
        }
        Some(_) => shape.insert(shape.len() - 1, samples),
    }
    let noise = gumbel(b, key, &shape, wide, stream)?;
    add(b, &unsqueeze(b, &cast(b, logits, wide)?, -2)?, &noise)
}

/// Classes drawn with probabilities `softmax(logits)`, of `logits [.., n]`: i64 `[..]`, or `[.., samples]` (the Gumbel-max
/// trick; Maddison, Tarlow and Minka 2014, "A* sampling"). Devices may differ where two classes are within rounding.
pub fn categorical<B: Builder>(
    b: &B,
    key: &B::Value,
    logits: &B::Value,
    samples: Option<usize>,
    stream: u64,
) -> Result<B::Value> {
    let scores = perturbed(b, "categorical", key, logits, samples.unwrap_or(1), stream)?;
    let drawn = argmax(b, &scores, Some(-1), false)?;
    if samples.is_some() { Ok(drawn) } else { select(b, &drawn, -1, 0) }
}

/// Classes drawn with probabilities in proportion to `weights [.., n]`, which are not negative: i64 `[.., samples]`. Without
/// `replacement` they are different, in the order of being drawn (Gumbel top-k; Kool, van Hoof and Welling 2019), and at
/// least `samples` weights must not be 0 (torch `multinomial`). Values are not checked: a class of weight 0 is drawn only
/// where no other is left, and the first class where all weights are 0; a negative weight or NaN wins over every other.
///
/// Errors: no classes; without `replacement`, more samples than classes.
pub fn multinomial<B: Builder>(
    b: &B,
    key: &B::Value,
    weights: &B::Value,
    samples: usize,
    replacement: bool,
    stream: u64,
) -> Result<B::Value> {
    let name = "multinomial";
    require_float(name, "the weights", b.ty(weights))?;
    let logits = log(b, &cast(b, weights, b.ty(weights).dtype.wide())?)?;
    if replacement {
        return argmax(b, &perturbed(b, name, key, &logits, samples, stream)?, Some(-1), false);
    }
    let classes = b.ty(weights).shape.last().copied().unwrap_or(0);
    if samples > classes {
        return Err(Error::shape(
            name,
            format!("{samples} different samples of {classes} classes; draw with replacement"),
        ));
    }
    let scores = select(b, &perturbed(b, name, key, &logits, 1, stream)?, -2, 0)?;
    let mut drawn = topk(b, &scores, samples, -1, true, true)?;
    drawn.pop().ok_or_else(|| Error::unsupported(name, "expected values and places"))
}

/// The numbers `0..n` in random order, i64; the same on every device. They are sorted by 64 random bits each.
pub fn randperm<B: Builder>(b: &B, key: &B::Value, n: usize, stream: u64) -> Result<B::Value> {
    argsort(b, &random_bits(b, key, &[n], DType::U64, stream)?, -1, false)
}

/// The slices of `x` along an axis in random order; see [`randperm`].
pub fn permutation<B: Builder>(
    b: &B,
    key: &B::Value,
    x: &B::Value,
    axis: isize,
    stream: u64,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let at = resolve_axis("permutation", axis, shape.len())?;
    index_select(b, x, axis, &randperm(b, key, shape[at], stream)?)
}

/// Each element 0 with probability `p`, else divided by `1 - p` (Srivastava et al. 2014).
pub fn dropout<B: Builder>(b: &B, x: &B::Value, p: f64, key: &B::Value, stream: u64) -> Result<B::Value> {
    expect_probability("dropout", p)?;
    if p == 0.0 {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return zeros_like(b, x);
    }
    let unit = uniform(b, key, &shape_of(b, x), 0.0, 1.0, DType::F32, stream)?;
    let kept = ge_scalar(b, &unit, p)?;
    let scaled = mul_scalar(b, x, 1.0 / (1.0 - p))?;
    where_(b, &kept, &scaled, &scalar(b, 0.0, b.ty(x).dtype)?)
}
