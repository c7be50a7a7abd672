//! The two 8-bit floats, as storage: conversion to and from f32. Nothing computes in them.
//!
//! Micikevicius et al. 2022, "FP8 formats for deep learning", table 1. Rounding is to nearest, ties to even. What
//! overflows, infinity too, becomes the largest number of e4m3, which has no infinity (as in torch 2.13), and infinity
//! in e5m2.

/// 4 bits of exponent and 3 of mantissa: up to 448, no infinity, NaN where all bits but the sign are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct F8E4M3(pub u8);

/// 5 bits of exponent and 2 of mantissa, the upper byte of an f16: up to 57344, with infinities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct F8E5M2(pub u8);

impl F8E4M3 {
    const MANTISSA: u32 = 3;
    const BIAS: i32 = 7;
    const LARGEST: u8 = 0x7e;
    const NAN: u8 = 0x7f;

    /// The nearest number, 448 for all beyond it.
    pub fn from_f32(x: f32) -> F8E4M3 {
        let magnitude = match x {
            x if x.is_nan() => u32::from(Self::NAN),
            x if x.is_infinite() => u32::from(Self::LARGEST),
            x => encode(x, Self::MANTISSA, Self::BIAS).min(u32::from(Self::LARGEST)),
        };
        F8E4M3(signed(x, magnitude as u8))
    }

    /// The number, exactly.
    pub fn to_f32(self) -> f32 {
        match self.0 & 0x7f {
            Self::NAN => f32::NAN.copysign(sign_of(self.0)),
            _ => decode(self.0, Self::MANTISSA, Self::BIAS),
        }
    }
}

impl F8E5M2 {
    const MANTISSA: u32 = 2;
    const BIAS: i32 = 15;
    const INFINITY: u8 = 0x7c;
    const NAN: u8 = 0x7f;

    /// The nearest number, infinity from 61440 on (half way from the largest, 57344, to what would follow it).
    pub fn from_f32(x: f32) -> F8E5M2 {
        let magnitude = match x {
            x if x.is_nan() => u32::from(Self::NAN),
            x if x.is_infinite() => u32::from(Self::INFINITY),
            x => encode(x, Self::MANTISSA, Self::BIAS).min(u32::from(Self::INFINITY)),
        };
        F8E5M2(signed(x, magnitude as u8))
    }

    /// The number, exactly.
    pub fn to_f32(self) -> f32 {
        match self.0 & 0x7f {
            Self::INFINITY => f32::INFINITY.copysign(sign_of(self.0)),
            code if code > Self::INFINITY => f32::NAN.copysign(sign_of(self.0)),
            _ => decode(self.0, Self::MANTISSA, Self::BIAS),
        }
    }
}

fn sign_of(code: u8) -> f32 {
    if code & 0x80 == 0 { 1.0 } else { -1.0 }
}

fn signed(x: f32, magnitude: u8) -> u8 {
    magnitude | if x.is_sign_negative() { 0x80 } else { 0 }
}

/// The code of `|x|`, finite, as if exponents went on without end.
fn encode(x: f32, mantissa: u32, bias: i32) -> u32 {
    let bits = x.to_bits() & 0x7fff_ffff;
    let exponent = (bits >> 23) as i32 - 127;
    if exponent < 1 - bias {
        // Below the normal numbers: whole multiples of the least one, which is the last place of this number.
        let ruler = f32::from_bits(((1 - bias - mantissa as i32 + 23 + 127) as u32) << 23);
        return (x.abs() + ruler).to_bits() - ruler.to_bits();
    }
    let dropped = 23 - mantissa;
    let is_odd = bits >> dropped & 1;
    let rounded = bits + (1 << (dropped - 1)) - 1 + is_odd;
    (rounded >> dropped) - (((127 - bias) as u32) << mantissa)
}

fn decode(code: u8, mantissa: u32, bias: i32) -> f32 {
    let exponent = u32::from(code & 0x7f) >> mantissa;
    let fraction = u32::from(code) & ((1 << mantissa) - 1);
    let magnitude = if exponent == 0 {
        let least = f32::from_bits(((1 - bias - mantissa as i32 + 127) as u32) << 23);
        fraction as f32 * least
    } else {
        f32::from_bits((exponent + (127 - bias) as u32) << 23 | fraction << (23 - mantissa))
    };
    magnitude.copysign(sign_of(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nearest finite code by search, the even one of two; `largest` is the code of the largest number.
    fn nearest(x: f32, largest: u8, to_f32: impl Fn(u8) -> f32) -> Option<u8> {
        let step = to_f32(largest) - to_f32(largest - 1);
        let end = to_f32(largest) + step;
        if x.abs() >= end {
            return None;
        }
        let mut best = (0u8, f64::from(x.abs()));
        for code in 1..=largest + 1 {
            let value = if code > largest { end } else { to_f32(code) };
            let gap = (f64::from(x.abs()) - f64::from(value)).abs();
            if gap < best.1 || gap == best.1 && code % 2 == 0 {
                best = (code, gap);
            }
        }
        (best.0 <= largest).then_some(best.0)
    }

    #[test]
    fn codes_round_trip() {
        for code in 0..=255u8 {
            let (a, b) = (F8E4M3(code).to_f32(), F8E5M2(code).to_f32());
            assert_eq!(a.is_nan(), code & 0x7f == 0x7f, "{code:02x}");
            assert_eq!(b.is_nan(), code & 0x7f > 0x7c, "{code:02x}");
            if !a.is_nan() {
                assert_eq!(F8E4M3::from_f32(a).0, code);
            }
            if !b.is_nan() {
                assert_eq!(F8E5M2::from_f32(b).0, code);
            }
        }
        assert_eq!((F8E4M3(0x7e).to_f32(), F8E5M2(0x7b).to_f32()), (448.0, 57344.0));
        assert_eq!((F8E4M3(1).to_f32(), F8E5M2(1).to_f32()), (2f32.powi(-9), 2f32.powi(-16)));
    }

    #[test]
    fn every_number_goes_to_the_nearest_code() {
        // All signs and exponents, and of the mantissa what lies at, beside and between ties.
        for high in 0..=0xffffu32 {
            for low in [0, 1, 0x8000, 0xffff] {
                let x = f32::from_bits(high << 16 | low);
                if !x.is_finite() {
                    continue;
                }
                let sign = if x.is_sign_negative() { 0x80 } else { 0 };
                let expected = nearest(x, 0x7e, |code| F8E4M3(code).to_f32()).unwrap_or(0x7e);
                assert_eq!(F8E4M3::from_f32(x).0, expected | sign, "{x:e}");
                let expected = nearest(x, 0x7b, |code| F8E5M2(code).to_f32()).unwrap_or(0x7c);
                assert_eq!(F8E5M2::from_f32(x).0, expected | sign, "{x:e}");
            }
        }
        assert_eq!(F8E4M3::from_f32(f32::INFINITY).0, 0x7e);
        assert_eq!(F8E4M3::from_f32(f32::NEG_INFINITY).0, 0xfe);
        assert_eq!(F8E4M3::from_f32(f32::NAN).0, 0x7f);
        assert_eq!(F8E5M2::from_f32(f32::NEG_INFINITY).0, 0xfc);
        assert_eq!(F8E5M2::from_f32(f32::NAN).0, 0x7f);
    }
}
