//! What is drawn from scores, and the counter-based bits that other libraries draw by.

use super::{
    add, argmax, bitwise_and, bitwise_or, bitwise_xor, cast, categorical, div_scalar, full_like, ge, narrow,
    require_float, scalar, shape_of, shift_left, shift_right, topk, unsqueeze, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Scalar;

/// A class for each row of `logits [.., classes]`, drawn with the probabilities `softmax(logits / temperature)`: i32 `[..]`, or
/// `[.., 1]` with `keepdim`. With a `top_k` above 0 only the `top_k` largest logits take part, and all that equal the last of
/// them. A temperature of 0 takes the first largest. Logits that are not finite draw no more than [`categorical`] does.
///
/// Errors: no classes; a temperature below 0 or not finite.
pub fn sample_logits<B: Builder>(
    b: &B,
    logits: &B::Value,
    key: &B::Value,
    temperature: f64,
    top_k: usize,
    keepdim: bool,
    stream: u64,
) -> Result<B::Value> {
    let op = "sample_logits";
    require_float(op, "the logits", b.ty(logits))?;
    if !(0.0..f64::INFINITY).contains(&temperature) {
        let message = format!("the temperature is {temperature}, expected a finite number of at least 0");
        return Err(Error::shape(op, message));
    }
    let Some(&classes) = shape_of(b, logits).last() else {
        return Err(Error::shape(op, "the logits have rank 0, expected [.., classes]"));
    };
    let place = if temperature == 0.0 {
        argmax(b, logits, Some(-1), false)?
    } else {
        let mut scores = div_scalar(b, logits, temperature)?;
        if top_k > 0 && top_k < classes {
            let largest = topk(b, &scores, top_k, -1, true, true)?;
            let Some(largest) = largest.first() else {
                return Err(Error::unsupported(op, "expected values and places"));
            };
            let least = narrow(b, largest, -1, top_k as isize - 1, 1)?;
            let none = scalar(b, f64::NEG_INFINITY, b.ty(&scores).dtype)?;
            scores = where_(b, &ge(b, &scores, &least)?, &scores, &none)?;
        }
        categorical(b, key, &scores, None, stream)?
    };
    let place = cast(b, &place, DType::I32)?;
    if keepdim { unsqueeze(b, &place, -1) } else { Ok(place) }
}

/// 64 bits for each counter of `x` under a `key`, both u64, by Threefry-2x32 of 20 rounds (Salmon et al. 2011). The lower half
/// of a word is the first of its two; the shapes broadcast.
pub fn threefry<B: Builder>(b: &B, x: &B::Value, key: &B::Value) -> Result<B::Value> {
    const ROTATIONS: [[i64; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    const PARITY: i64 = 0x1BD1_1BDA;
    for (what, value) in [("the counters", x), ("the key", key)] {
        let dtype = b.ty(value).dtype;
        if dtype != DType::U64 {
            return Err(Error::dtype("threefry", format!("{what} are {dtype}, expected u64")));
        }
    }
    let like = |x: &B::Value, number: i64| full_like(b, x, Scalar::Int(number));
    let halves = |x: &B::Value| -> Result<[B::Value; 2]> {
        let low = bitwise_and(b, x, &like(x, 0xFFFF_FFFF)?)?;
        let high = shift_right(b, x, &like(x, 32)?)?;
        Ok([cast(b, &low, DType::U32)?, cast(b, &high, DType::U32)?])
    };
    let [mut first, mut second] = halves(x)?;
    let [key0, key1] = halves(key)?;
    let mixed = bitwise_xor(b, &key0, &key1)?;
    let keys = [key0.clone(), key1.clone(), bitwise_xor(b, &mixed, &like(&mixed, PARITY)?)?];
    first = add(b, &first, &key0)?;
    second = add(b, &second, &key1)?;
    for group in 0..5 {
        for by in ROTATIONS[group % 2] {
            first = add(b, &first, &second)?;
            let left = shift_left(b, &second, &like(&second, by)?)?;
            let right = shift_right(b, &second, &like(&second, 32 - by)?)?;
            second = bitwise_xor(b, &bitwise_or(b, &left, &right)?, &first)?;
        }
        first = add(b, &first, &keys[(group + 1) % 3])?;
        let injected = &keys[(group + 2) % 3];
        second = add(b, &add(b, &second, injected)?, &like(injected, group as i64 + 1)?)?;
    }
    let high = cast(b, &second, DType::U64)?;
    bitwise_or(b, &shift_left(b, &high, &like(&high, 32)?)?, &cast(b, &first, DType::U64)?)
}
