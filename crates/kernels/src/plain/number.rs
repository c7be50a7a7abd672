//! Elements of every real dtype, for plain kernels.

use half::{bf16, f16};

/// A number: its order, and how it accumulates.
pub trait Number: Copy + Send + Sync + 'static {
    /// What sums and products of many are kept in: f64 for floats; integers wrap in their own type.
    type Wide: Copy;

    fn widen(self) -> Self::Wide;
    /// Rounded once.
    fn narrow(wide: Self::Wide) -> Self;
    fn plus(x: Self::Wide, y: Self::Wide) -> Self::Wide;
    fn times(x: Self::Wide, y: Self::Wide) -> Self::Wide;
    fn is_nan(self) -> bool;
    /// `self < other`; false where either is NaN.
    fn below(self, other: Self) -> bool;
    /// A number of 64 bits that orders as the elements do: NaN is largest, -0 equals 0. Elements of at most 32 bits
    /// keep to 32.
    fn key(self) -> u64;
    /// Whether keys keep to 32 bits.
    const SHORT: bool = size_of::<Self>() <= 4;

    /// The larger; NaN propagates.
    fn larger(self, other: Self) -> Self {
        if self.is_nan() || other.below(self) { self } else { other }
    }

    /// The smaller; NaN propagates.
    fn smaller(self, other: Self) -> Self {
        if self.is_nan() || self.below(other) { self } else { other }
    }
}

macro_rules! int {
    ($($t:ty, $flip:expr);*) => {$(
        impl Number for $t {
            type Wide = $t;

            fn widen(self) -> $t {
                self
            }
            fn narrow(wide: $t) -> $t {
                wide
            }
            fn plus(x: $t, y: $t) -> $t {
                x.wrapping_add(y)
            }
            fn times(x: $t, y: $t) -> $t {
                x.wrapping_mul(y)
            }
            fn is_nan(self) -> bool {
                false
            }
            fn below(self, other: $t) -> bool {
                self < other
            }
            fn key(self) -> u64 {
                $flip(self)
            }
        }
    )*};
}

int! {
    u8, u64::from;
    u16, u64::from;
    u32, u64::from;
    u64, u64::from;
    // The sign bit turned over orders negative numbers first.
    i8, |x: i8| u64::from(x as u8 ^ 0x80);
    i16, |x: i16| u64::from(x as u16 ^ 0x8000);
    i32, |x: i32| u64::from(x as u32 ^ 0x8000_0000);
    i64, |x: i64| x as u64 ^ (1 << 63)
}

macro_rules! float {
    ($($t:ty, $bits:ty, $zero:expr, $wide:expr, $narrow:expr);*) => {$(
        impl Number for $t {
            type Wide = f64;

            fn widen(self) -> f64 {
                $wide(self)
            }
            fn narrow(wide: f64) -> $t {
                $narrow(wide)
            }
            fn plus(x: f64, y: f64) -> f64 {
                x + y
            }
            fn times(x: f64, y: f64) -> f64 {
                x * y
            }
            fn is_nan(self) -> bool {
                <$t>::is_nan(self)
            }
            fn below(self, other: $t) -> bool {
                self < other
            }
            fn key(self) -> u64 {
                if <$t>::is_nan(self) {
                    return u64::from(<$bits>::MAX);
                }
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = if self == $zero { 0 } else { self.to_bits() };
                // Of negative numbers the larger magnitude is the smaller number.
                u64::from(if bits & SIGN == 0 { bits | SIGN } else { !bits })
            }
        }
    )*};
}

float! {
    f16, u16, f16::ZERO, f16::to_f64, f16::from_f64;
    bf16, u16, bf16::ZERO, bf16::to_f64, bf16::from_f64;
    f32, u32, 0.0, f64::from, |x: f64| x as f32;
    f64, u64, 0.0, |x: f64| x, |x: f64| x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_the_elements_do() {
        let floats = [f32::NEG_INFINITY, -2.5, -1e-40, 0.0, 1e-40, 1.0, f32::MAX, f32::INFINITY, f32::NAN];
        assert!(floats.windows(2).all(|pair| pair[0].key() < pair[1].key()));
        assert_eq!((-0.0f32).key(), 0.0f32.key());
        assert_eq!((-f64::NAN).key(), u64::MAX);
        assert!([i64::MIN, -1, 0, 1, i64::MAX].windows(2).all(|pair| pair[0].key() < pair[1].key()));
        assert!([i8::MIN, -1, 0, 1, i8::MAX].windows(2).all(|pair| pair[0].key() < pair[1].key()));
        let halves = [-65504.0, -1.0, 0.0, 6e-8, 1.0].map(f16::from_f64);
        assert!(halves.windows(2).all(|pair| pair[0].key() < pair[1].key()));
    }

    #[test]
    fn nan_wins_both_ways() {
        for (x, y) in [(f64::NAN, 1.0), (1.0, f64::NAN)] {
            assert!(x.larger(y).is_nan() && x.smaller(y).is_nan());
        }
        assert_eq!((2f32.larger(3.0), 2f32.smaller(3.0), 5u8.larger(4), 5u8.smaller(4)), (3.0, 2.0, 5, 4));
    }
}
