//! The loops of a tile over f64, integers and conversions.
//!
//! Plain loops, inlined into the dispatched call, so that the compiler vectorises them for the instruction set
//! at hand. Every function takes slots that hold a tile of its operands' bodies.

use lanthorn_ir::DType;
use lanthorn_ir::expr::{BinaryOp, UnaryOp};
use lanthorn_ir::float8::{F8E4M3, F8E5M2};

use super::program::Body;

/// `t[i] = f(a[i])` over plain elements.
macro_rules! plain1 {
    ($n:expr, $a:expr, $t:expr, |$x:ident| $e:expr) => {
        for i in 0..$n {
            let $x = *$a.add(i);
            *$t.add(i) = $e;
        }
    };
}

macro_rules! plain2 {
    ($n:expr, $a:expr, $b:expr, $t:expr, |$x:ident, $y:ident| $e:expr) => {
        for i in 0..$n {
            let ($x, $y) = (*$a.add(i), *$b.add(i));
            *$t.add(i) = $e;
        }
    };
}

#[inline(always)]
pub(super) unsafe fn unary_f64(op: UnaryOp, a: *const f64, t: *mut u8, n: usize) {
    let (d, f) = (t as *mut f64, t as *mut f32);
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        match op {
            UnaryOp::Neg => plain1!(n, a, d, |x| -x),
            UnaryOp::Abs => plain1!(n, a, d, |x| x.abs()),
            UnaryOp::Sign => plain1!(n, a, d, |x| if x == 0.0 { 0.0 } else { x.signum() }),
            UnaryOp::Floor => plain1!(n, a, d, |x| x.floor()),
            UnaryOp::Ceil => plain1!(n, a, d, |x| x.ceil()),
            UnaryOp::Round => plain1!(n, a, d, |x| x.round_ties_even()),
            UnaryOp::Trunc => plain1!(n, a, d, |x| x.trunc()),
            UnaryOp::Exp => plain1!(n, a, d, |x| x.exp()),
            UnaryOp::Expm1 => plain1!(n, a, d, |x| x.exp_m1()),
            UnaryOp::Log => plain1!(n, a, d, |x| x.ln()),
            UnaryOp::Log1p => plain1!(n, a, d, |x| x.ln_1p()),
            UnaryOp::Sqrt => plain1!(n, a, d, |x| x.sqrt()),
            UnaryOp::Rsqrt => plain1!(n, a, d, |x| 1.0 / x.sqrt()),
            UnaryOp::Recip => plain1!(n, a, d, |x| 1.0 / x),
            UnaryOp::Sin => plain1!(n, a, d, |x| x.sin()),
            UnaryOp::Cos => plain1!(n, a, d, |x| x.cos()),
            UnaryOp::Tanh => plain1!(n, a, d, |x| x.tanh()),
            UnaryOp::Sigmoid => plain1!(n, a, d, |x| 1.0 / (1.0 + (-x).exp())),
            UnaryOp::Erf => plain1!(n, a, d, |x| libm::erf(x)),
            UnaryOp::Relu => plain1!(n, a, d, |x| if x > 0.0 || x.is_nan() { x } else { 0.0 }),
            UnaryOp::Gelu => {
                plain1!(n, a, d, |x| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2))
            }
            UnaryOp::GeluTanh => plain1!(n, a, d, |x| {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }),
            UnaryOp::Silu => plain1!(n, a, d, |x| x / (1.0 + (-x).exp())),
            UnaryOp::Not => plain1!(n, a, d, |x| (x == 0.0) as u8 as f64),
            UnaryOp::IsFinite => plain1!(n, a, f, |x| x.is_finite() as u8 as f32),
            rare => match lanthorn_special::unary(rare) {
                Some(function) => plain1!(n, a, d, |x| function(x)),
                None => debug_assert!(false, "{} is of integers", rare.name()),
            },
        }
    }
}

#[inline(always)]
pub(super) unsafe fn binary_f64(op: BinaryOp, a: *const f64, b: *const f64, t: *mut u8, n: usize) {
    let (d, f) = (t as *mut f64, t as *mut f32);
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        match op {
            BinaryOp::Add => plain2!(n, a, b, d, |x, y| x + y),
            BinaryOp::Sub => plain2!(n, a, b, d, |x, y| x - y),
            BinaryOp::Mul => plain2!(n, a, b, d, |x, y| x * y),
            BinaryOp::Div => plain2!(n, a, b, d, |x, y| x / y),
            BinaryOp::Rem => plain2!(n, a, b, d, |x, y| x % y),
            BinaryOp::Pow => plain2!(n, a, b, d, |x, y| x.powf(y)),
            BinaryOp::Max => plain2!(n, a, b, d, |x, y| if x > y || x.is_nan() { x } else { y }),
            BinaryOp::Min => plain2!(n, a, b, d, |x, y| if x < y || x.is_nan() { x } else { y }),
            BinaryOp::Eq => plain2!(n, a, b, f, |x, y| (x == y) as u8 as f32),
            BinaryOp::Ne => plain2!(n, a, b, f, |x, y| (x != y) as u8 as f32),
            BinaryOp::Lt => plain2!(n, a, b, f, |x, y| (x < y) as u8 as f32),
            BinaryOp::Le => plain2!(n, a, b, f, |x, y| (x <= y) as u8 as f32),
            BinaryOp::Gt => plain2!(n, a, b, f, |x, y| (x > y) as u8 as f32),
            BinaryOp::Ge => plain2!(n, a, b, f, |x, y| (x >= y) as u8 as f32),
            BinaryOp::And => plain2!(n, a, b, f, |x, y| (x != 0.0 && y != 0.0) as u8 as f32),
            BinaryOp::Or => plain2!(n, a, b, f, |x, y| (x != 0.0 || y != 0.0) as u8 as f32),
            rare => match lanthorn_special::binary(rare) {
                Some(function) => plain2!(n, a, b, d, |x, y| function(x, y)),
                None => debug_assert!(false, "{} is of integers", rare.name()),
            },
        }
    }
}

/// The integer arithmetic of the bodies: wrapping, division by zero gives 0.
pub(super) trait Int: Copy + Ord + Default {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    fn not(self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// 0 for a shift by less than 0 or by the width or more. Narrow types wrap afterwards.
    fn shift_left(self, by: Self) -> Self;
    /// Only copies of the sign bit for such a shift.
    fn shift_right(self, by: Self) -> Self;
}

macro_rules! int {
    ($t:ty) => {
        impl Int for $t {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn pow(self, other: Self) -> Self {
                #[allow(unused_comparisons)]
                if other < 0 {
                    // 1 / self^n rounds to 0 unless self is 1 or -1.
                    return if self == 1 {
                        1
                    } else if self.wrapping_add(1) == 0 {
                        if other % 2 == 0 { 1 } else { self }
                    } else {
                        0
                    };
                }
                let (mut base, mut exponent, mut result): ($t, $t, $t) = (self, other, 1);
                while exponent != 0 {
                    if exponent & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    exponent >>= 1;
                }
                result
            }
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn shift_left(self, by: Self) -> Self {
                // A negative shift is a huge one of the unsigned type.
                if (by as u64) < <$t>::BITS as u64 { self << by } else { 0 }
            }
            #[inline(always)]
            fn shift_right(self, by: Self) -> Self {
                if (by as u64) < <$t>::BITS as u64 {
                    self >> by
                } else {
                    // Twice, since one shift by the whole width is none.
                    (self >> (<$t>::BITS - 1)) >> 1
                }
            }
        }
    };
}
int!(i32);
int!(i64);
int!(u64);

#[inline(always)]
pub(super) unsafe fn binary_int<T: Int>(op: BinaryOp, a: *const T, b: *const T, t: *mut u8, n: usize) {
    let (d, f) = (t as *mut T, t as *mut f32);
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        match op {
            BinaryOp::Add => plain2!(n, a, b, d, |x, y| x.add(y)),
            BinaryOp::Sub => plain2!(n, a, b, d, |x, y| x.sub(y)),
            BinaryOp::Mul => plain2!(n, a, b, d, |x, y| x.mul(y)),
            BinaryOp::Div => plain2!(n, a, b, d, |x, y| x.div(y)),
            BinaryOp::Rem => plain2!(n, a, b, d, |x, y| x.rem(y)),
            BinaryOp::Pow => plain2!(n, a, b, d, |x, y| x.pow(y)),
            BinaryOp::Max => plain2!(n, a, b, d, |x, y| x.max(y)),
            BinaryOp::Min => plain2!(n, a, b, d, |x, y| x.min(y)),
            BinaryOp::Eq => plain2!(n, a, b, f, |x, y| (x == y) as u8 as f32),
            BinaryOp::Ne => plain2!(n, a, b, f, |x, y| (x != y) as u8 as f32),
            BinaryOp::Lt => plain2!(n, a, b, f, |x, y| (x < y) as u8 as f32),
            BinaryOp::Le => plain2!(n, a, b, f, |x, y| (x <= y) as u8 as f32),
            BinaryOp::Gt => plain2!(n, a, b, f, |x, y| (x > y) as u8 as f32),
            BinaryOp::Ge => plain2!(n, a, b, f, |x, y| (x >= y) as u8 as f32),
            BinaryOp::BitAnd => plain2!(n, a, b, d, |x, y| x.and(y)),
            BinaryOp::BitOr => plain2!(n, a, b, d, |x, y| x.or(y)),
            BinaryOp::BitXor => plain2!(n, a, b, d, |x, y| x.xor(y)),
            BinaryOp::ShiftLeft => plain2!(n, a, b, d, |x, y| x.shift_left(y)),
            BinaryOp::ShiftRight => plain2!(n, a, b, d, |x, y| x.shift_right(y)),
            _ => debug_assert!(false, "{} is not of integers", op.name()),
        }
    }
}

#[inline(always)]
pub(super) unsafe fn unary_int<T: Int>(op: UnaryOp, a: *const T, t: *mut T, n: usize) {
    let zero = T::default();
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        match op {
            UnaryOp::Neg => plain1!(n, a, t, |x| zero.sub(x)),
            UnaryOp::Abs => plain1!(n, a, t, |x| if x < zero { zero.sub(x) } else { x }),
            UnaryOp::Sign => plain1!(n, a, t, |x| {
                // `x / x` is the one of the type.
                let one = x.div(x);
                if x < zero { zero.sub(one) } else { one }
            }),
            UnaryOp::Relu => plain1!(n, a, t, |x| x.max(zero)),
            UnaryOp::BitNot => plain1!(n, a, t, |x| x.not()),
            _ => debug_assert!(false, "{} is of floats", op.name()),
        }
    }
}

/// The values a dtype can hold, for saturating conversions from floats; `None` for 64-bit types, for
/// which Rust's own conversion saturates.
fn limits(dtype: DType) -> Option<(f64, f64)> {
    Some(match dtype {
        DType::U8 => (0.0, u8::MAX as f64),
        DType::I8 => (i8::MIN as f64, i8::MAX as f64),
        DType::U16 => (0.0, u16::MAX as f64),
        DType::I16 => (i16::MIN as f64, i16::MAX as f64),
        DType::U32 => (0.0, u32::MAX as f64),
        DType::I32 => (i32::MIN as f64, i32::MAX as f64),
        _ => return None,
    })
}

macro_rules! cast_loop {
    ($n:expr, $a:expr, $from:ty, $t:expr, $to:ty) => {{
        let (a, t) = ($a as *const $from, $t as *mut $to);
        for i in 0..$n {
            *t.add(i) = *a.add(i) as $to;
        }
    }};
}

#[inline(always)]
pub(super) unsafe fn cast(from: Body, to: DType, a: *const u8, t: *mut u8, n: usize) {
    let Some(target) = Body::of(to) else { return };
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        match (from, target) {
            (Body::F32, Body::F32) | (Body::Bool, Body::F32 | Body::Bool) => {
                // The target may be the operand's own slot.
                std::ptr::copy(a as *const u32, t as *mut u32, n)
            }
            (Body::F32, Body::F64) => cast_loop!(n, a, f32, t, f64),
            (Body::F64, Body::F32) => cast_loop!(n, a, f64, t, f32),
            (Body::F64, Body::F64) => cast_loop!(n, a, f64, t, f64),
            (Body::Bool, Body::F64) => cast_loop!(n, a, f32, t, f64),
            (Body::Bool, Body::I32) => cast_loop!(n, a, f32, t, i32),
            (Body::Bool, Body::I64) => cast_loop!(n, a, f32, t, i64),
            (Body::Bool, Body::U64) => cast_loop!(n, a, f32, t, u64),
            (Body::F32 | Body::F64, Body::I32 | Body::I64 | Body::U64) => {
                float_to_int(from, to, target, a, t, n)
            }
            (Body::I32, Body::F32) => cast_loop!(n, a, i32, t, f32),
            (Body::I32, Body::F64) => cast_loop!(n, a, i32, t, f64),
            (Body::I32, Body::I32) => cast_loop!(n, a, i32, t, i32),
            (Body::I32, Body::I64) => cast_loop!(n, a, i32, t, i64),
            (Body::I32, Body::U64) => cast_loop!(n, a, i32, t, u64),
            (Body::I64, Body::F32) => cast_loop!(n, a, i64, t, f32),
            (Body::I64, Body::F64) => cast_loop!(n, a, i64, t, f64),
            (Body::I64, Body::I32) => cast_loop!(n, a, i64, t, i32),
            (Body::I64, Body::I64) => cast_loop!(n, a, i64, t, i64),
            (Body::I64, Body::U64) => cast_loop!(n, a, i64, t, u64),
            (Body::U64, Body::F32) => cast_loop!(n, a, u64, t, f32),
            (Body::U64, Body::F64) => cast_loop!(n, a, u64, t, f64),
            (Body::U64, Body::I32) => cast_loop!(n, a, u64, t, i32),
            (Body::U64, Body::I64) => cast_loop!(n, a, u64, t, i64),
            (Body::U64, Body::U64) => cast_loop!(n, a, u64, t, u64),
            (from, Body::Bool) => to_bool(from, a, t as *mut f32, n),
        }
        if !matches!(from, Body::F32 | Body::F64) {
            wrap(to, t, n);
        }
    }
}

/// f32 to the nearest numbers of an f8 dtype; half types go by vectors.
#[inline(always)]
pub(super) unsafe fn round(to: DType, a: *const f32, t: *mut f32, n: usize) {
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        match to {
            DType::F8E4M3 => plain1!(n, a, t, |x| F8E4M3::from_f32(x).to_f32()),
            DType::F8E5M2 => plain1!(n, a, t, |x| F8E5M2::from_f32(x).to_f32()),
            _ => plain1!(n, a, t, |x| x),
        }
    }
}

#[inline(always)]
unsafe fn float_to_int(from: Body, to: DType, target: Body, a: *const u8, t: *mut u8, n: usize) {
    let bounds = limits(to);
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        for i in 0..n {
            let x =
                if from == Body::F32 { *(a as *const f32).add(i) as f64 } else { *(a as *const f64).add(i) };
            let x = match bounds {
                Some((low, high)) => x.clamp(low, high),
                None => x,
            };
            match target {
                Body::I32 => *(t as *mut i32).add(i) = x as i32,
                Body::U64 => *(t as *mut u64).add(i) = x as u64,
                _ => *(t as *mut i64).add(i) = x as i64,
            }
        }
    }
}

#[inline(always)]
unsafe fn to_bool(from: Body, a: *const u8, t: *mut f32, n: usize) {
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        for i in 0..n {
            let is_set = match from {
                Body::F32 | Body::Bool => *(a as *const f32).add(i) != 0.0,
                Body::F64 => *(a as *const f64).add(i) != 0.0,
                Body::I32 => *(a as *const i32).add(i) != 0,
                Body::I64 | Body::U64 => *(a as *const u64).add(i) != 0,
            };
            *t.add(i) = is_set as u8 as f32;
        }
    }
}

/// Wraps the body elements of narrow integers to their dtype.
///
/// # Safety
/// `t` holds `n` elements of the dtype's body.
#[inline(always)]
pub(super) unsafe fn wrap(dtype: DType, t: *mut u8, n: usize) {
    let (x32, x64) = (t as *mut i32, t as *mut i64);
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        match dtype {
            DType::U8 => plain1!(n, x32, x32, |x| x as u8 as i32),
            DType::I8 => plain1!(n, x32, x32, |x| x as i8 as i32),
            DType::U16 => plain1!(n, x32, x32, |x| x as u16 as i32),
            DType::I16 => plain1!(n, x32, x32, |x| x as i16 as i32),
            DType::U32 => plain1!(n, x64, x64, |x| x as u32 as i64),
            _ => {}
        }
    }
}
