//! Arithmetic beyond the four operations: remainders and whole quotients, bits, interpolation, classes of floats.

use super::pointwise::{binary, in_joint_dtype, in_wide, named, scalar_beside};
use super::{
    abs, add, add_scalar, apply_unary, cast, div, eq, eq_scalar, floor, full_like, ge, gt_scalar, isfinite,
    isnan, le, logical_and, logical_not, logical_or, lt_scalar, mul, mul_scalar, ne, ne_scalar, rem,
    require_float, scalar, softplus_of, sub, trunc, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, Scalar, UnaryOp};

binary! {
    /// The angle of the point with ordinate `x` and abscissa `y`, in `-pi..pi`, of floats. The derivative at the
    /// origin is 0, as in torch.
    atan2 => Atan2;
    /// `sqrt(x^2 + y^2)` without overflow, of floats. The derivative at the origin is 0.
    hypot => Hypot;
    /// The size of `x` with the sign of `y`, that of a zero or NaN included; of floats.
    copysign => CopySign;
    /// `x` times 2 to the `y`, of integers; 0 for a `y` below 0 or from the width on, as in torch.
    shift_left => ShiftLeft;
    /// `x` over 2 to the `y`, rounded down, of integers; for a `y` below 0 or from the width on -1 or 0 by the sign of
    /// `x`, as in torch.
    shift_right => ShiftRight;
}

/// Bitwise and, of integers or `bool`.
pub fn bitwise_and<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    bitwise(b, BinaryOp::BitAnd, BinaryOp::And, x, y)
}

/// Bitwise or, of integers or `bool`.
pub fn bitwise_or<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    bitwise(b, BinaryOp::BitOr, BinaryOp::Or, x, y)
}

/// Bitwise exclusive or, of integers or `bool`.
pub fn bitwise_xor<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    bitwise(b, BinaryOp::BitXor, BinaryOp::Ne, x, y)
}

/// All bits inverted, of integers or `bool`.
pub fn bitwise_not<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    apply_unary(b, if b.ty(x).dtype == DType::Bool { UnaryOp::Not } else { UnaryOp::BitNot }, x)
}

/// The function of integers, or the one of `bool` that it stands for.
fn bitwise<B: Builder>(
    b: &B,
    of_ints: BinaryOp,
    of_bools: BinaryOp,
    x: &B::Value,
    y: &B::Value,
) -> Result<B::Value> {
    let are_bools = b.ty(x).dtype == DType::Bool && b.ty(y).dtype == DType::Bool;
    super::apply_binary(b, if are_bools { of_bools } else { of_ints }, x, y)
}

/// Logical exclusive or, of `bool`.
pub fn logical_xor<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    for (operand, value) in [("x", x), ("y", y)] {
        let found = b.ty(value).dtype;
        if found != DType::Bool {
            return Err(Error::dtype("logical_xor", format!("{operand} is {found}, expected bool")));
        }
    }
    ne(b, x, y)
}

/// True where a remainder has the other sign than the divisor.
fn signs_differ<B: Builder>(b: &B, remainder: &B::Value, y: &B::Value) -> Result<B::Value> {
    let differ = ne(b, &lt_scalar(b, remainder, 0i64)?, &lt_scalar(b, y, 0i64)?)?;
    logical_and(b, &differ, &ne_scalar(b, remainder, 0i64)?)
}

/// The remainder of the quotient rounded down, `x - floor(x / y) y`, with the sign of `y` (torch `remainder`, NumPy
/// `mod`). Integers: 0 where `y` is 0; floats: NaN.
pub fn remainder<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("remainder", || {
        let ([x, y], dtype) = in_joint_dtype(b, "remainder", [x, y])?;
        let (x, y) = (&x, &y);
        let truncated = rem(b, x, y)?;
        let differ = signs_differ(b, &truncated, y)?;
        cast(b, &where_(b, &differ, &add(b, &truncated, y)?, &truncated)?, dtype)
    })
}

/// `x - floor(x / y) y` for a number `y`; see [`remainder`].
pub fn remainder_scalar<B: Builder>(b: &B, x: &B::Value, y: impl Into<Scalar>) -> Result<B::Value> {
    let y = beside(b, "remainder_scalar", x, y.into())?;
    named("remainder_scalar", || remainder(b, x, &y))
}

/// The quotient rounded down. Integers: 0 where `y` is 0; floats: the infinity or NaN of `x / y`. The derivative is 0.
pub fn floor_divide<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("floor_divide", || {
        let ([x, y], rounded) = in_joint_dtype(b, "floor_divide", [x, y])?;
        let (x, y) = (&x, &y);
        let truncated = rem(b, x, y)?;
        let differ = signs_differ(b, &truncated, y)?;
        let dtype = b.ty(&truncated).dtype;
        let one = scalar(b, 1i64, dtype)?;
        let correction = where_(b, &differ, &one, &scalar(b, 0i64, dtype)?)?;
        if !dtype.is_float() {
            return sub(b, &div(b, x, y)?, &correction);
        }
        // x / y rounds, and may round up to a whole number; x less its remainder divides exactly up to one rounding
        // (CPython's float_divmod).
        let exact = sub(b, &div(b, &sub(b, x, &truncated)?, y)?, &correction)?;
        let down = floor(b, &exact)?;
        let missed = gt_scalar(b, &sub(b, &exact, &down)?, 0.5)?;
        let down = where_(b, &missed, &add_scalar(b, &down, 1.0)?, &down)?;
        let plain = floor(b, &div(b, x, y)?)?;
        cast(b, &where_(b, &eq_scalar(b, y, 0.0)?, &plain, &down)?, rounded)
    })
}

/// The quotient by a number, rounded down; see [`floor_divide`].
pub fn floor_divide_scalar<B: Builder>(b: &B, x: &B::Value, y: impl Into<Scalar>) -> Result<B::Value> {
    let y = beside(b, "floor_divide_scalar", x, y.into())?;
    named("floor_divide_scalar", || floor_divide(b, x, &y))
}

/// The quotient rounded towards 0. Integers: 0 where `y` is 0. The derivative is 0.
pub fn trunc_divide<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("trunc_divide", || {
        let quotient = div(b, x, y)?;
        if b.ty(&quotient).dtype.is_float() { trunc(b, &quotient) } else { Ok(quotient) }
    })
}

fn beside<B: Builder>(b: &B, op: &str, x: &B::Value, y: Scalar) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    scalar(b, scalar_beside(op, dtype, y)?, dtype)
}

/// The part after the point, `x - trunc(x)`, with the sign of `x`.
pub fn frac<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    named("frac", || sub(b, x, &trunc(b, x)?))
}

/// Degrees as radians.
pub fn deg2rad<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "deg2rad", x, |x| mul_scalar(b, x, std::f64::consts::PI / 180.0))
}

/// Radians as degrees.
pub fn rad2deg<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "rad2deg", x, |x| mul_scalar(b, x, 180.0 / std::f64::consts::PI))
}

/// `log(e^x + e^y)`, exact for large operands; of floats.
pub fn logaddexp<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("logaddexp", || {
        require_float("logaddexp", "the first operand", b.ty(x))?;
        require_float("logaddexp", "the second operand", b.ty(y))?;
        let ([x, y], dtype) = in_joint_dtype(b, "logaddexp", [x, y])?;
        let (x, y) = (&x, &y);
        // The difference of equal infinities is NaN: there the sum is the operand itself.
        let infinite = logical_and(b, &eq(b, x, y)?, &logical_not(b, &isfinite(b, x)?)?)?;
        let finite = |v: &B::Value| where_(b, &infinite, &scalar(b, 0.0, b.ty(v).dtype)?, v);
        let (finite_x, finite_y) = (finite(x)?, finite(y)?);
        // The larger operand plus a small correction. Each branch is smooth where they meet, which the maximum is not.
        let over = add(b, &finite_x, &softplus_of(b, &sub(b, &finite_y, &finite_x)?)?)?;
        let under = add(b, &finite_y, &softplus_of(b, &sub(b, &finite_x, &finite_y)?)?)?;
        let sum = where_(b, &ge(b, &finite_x, &finite_y)?, &over, &under)?;
        cast(b, &where_(b, &infinite, x, &sum)?, dtype)
    })
}

/// `log2(2^x + 2^y)`; see [`logaddexp`].
pub fn logaddexp2<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("logaddexp2", || {
        require_float("logaddexp2", "the first operand", b.ty(x))?;
        let ([x, y], dtype) = in_joint_dtype(b, "logaddexp2", [x, y])?;
        let natural = |v: &B::Value| mul_scalar(b, v, std::f64::consts::LN_2);
        let sum = logaddexp(b, &natural(&x)?, &natural(&y)?)?;
        cast(b, &mul_scalar(b, &sum, std::f64::consts::LOG2_E)?, dtype)
    })
}

/// `x + weight (y - x)`, computed from the nearer end (torch `lerp`); all three broadcast.
pub fn lerp<B: Builder>(b: &B, x: &B::Value, y: &B::Value, weight: &B::Value) -> Result<B::Value> {
    named("lerp", || {
        for (operand, value) in [("x", x), ("y", y), ("weight", weight)] {
            require_float("lerp", operand, b.ty(value))?;
        }
        let ([x, y, weight], dtype) = in_joint_dtype(b, "lerp", [x, y, weight])?;
        let (x, y, weight) = (&x, &y, &weight);
        let span = sub(b, y, x)?;
        let from_x = add(b, x, &mul(b, weight, &span)?)?;
        let rest = super::rsub_scalar(b, weight, 1.0)?;
        let from_y = sub(b, y, &mul(b, &span, &rest)?)?;
        let near = lt_scalar(b, &abs(b, weight)?, 0.5)?;
        cast(b, &where_(b, &near, &from_x, &from_y)?, dtype)
    })
}

/// `x + value * (y * z)`; all broadcast.
pub fn addcmul<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    z: &B::Value,
    value: impl Into<Scalar>,
) -> Result<B::Value> {
    named("addcmul", || {
        let ([x, y, z], dtype) = in_joint_dtype(b, "addcmul", [x, y, z])?;
        cast(b, &add(b, &x, &mul_scalar(b, &mul(b, &y, &z)?, value)?)?, dtype)
    })
}

/// `x + value * (y / z)`, of floats; all broadcast.
pub fn addcdiv<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    z: &B::Value,
    value: impl Into<Scalar>,
) -> Result<B::Value> {
    named("addcdiv", || {
        require_float("addcdiv", "x", b.ty(x))?;
        let ([x, y, z], dtype) = in_joint_dtype(b, "addcdiv", [x, y, z])?;
        cast(b, &add(b, &x, &mul_scalar(b, &div(b, &y, &z)?, value)?)?, dtype)
    })
}

/// `x` with NaN replaced by `nan` and the infinities by `posinf` and `neginf`, which are the largest and the smallest
/// finite numbers of the dtype where absent. The derivative is 0 where a number was replaced. Integers stay.
pub fn nan_to_num<B: Builder>(
    b: &B,
    x: &B::Value,
    nan: f64,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    if dtype.is_int() || dtype == DType::Bool {
        return Ok(x.clone());
    }
    require_float("nan_to_num", "the operand", b.ty(x))?;
    let largest = match dtype {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F32 => f32::MAX.into(),
        _ => f64::MAX,
    };
    let replace = |y: &B::Value, at: &B::Value, with: f64| where_(b, at, &scalar(b, with, dtype)?, y);
    let y = replace(x, &isnan(b, x)?, nan)?;
    let y = replace(&y, &isposinf(b, x)?, posinf.unwrap_or(largest))?;
    replace(&y, &isneginf(b, x)?, neginf.unwrap_or(-largest))
}

/// True where `x` is plus infinity, of floats.
pub fn isposinf<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_float("isposinf", "the operand", b.ty(x))?;
    eq_scalar(b, x, f64::INFINITY)
}

/// True where `x` is minus infinity, of floats.
pub fn isneginf<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_float("isneginf", "the operand", b.ty(x))?;
    eq_scalar(b, x, f64::NEG_INFINITY)
}

/// True where the sign bit is set: below 0, and at -0 and NaN of negative sign.
pub fn signbit<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    named("signbit", || {
        if !b.ty(x).dtype.is_float() {
            return lt_scalar(b, x, 0i64);
        }
        lt_scalar(b, &copysign(b, &full_like(b, x, 1.0)?, x)?, 0.0)
    })
}

/// True where `|x - y| <= atol + rtol |y|`, or both are the same infinity, or, with `equal_nan`, both are NaN; of
/// floats.
pub fn isclose<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
) -> Result<B::Value> {
    named("isclose", || {
        require_float("isclose", "x", b.ty(x))?;
        let wide = b.ty(x).dtype.wide();
        let same = eq(b, x, y)?;
        let (wide_x, wide_y) = (cast(b, x, wide)?, cast(b, y, b.ty(y).dtype.wide())?);
        let distance = abs(b, &sub(b, &wide_x, &wide_y)?)?;
        let allowed = add_scalar(b, &mul_scalar(b, &abs(b, &wide_y)?, rtol)?, atol)?;
        // An infinite distance is close to nothing, whatever is allowed.
        let near = logical_and(b, &isfinite(b, &distance)?, &le(b, &distance, &allowed)?)?;
        let mut close = logical_or(b, &same, &near)?;
        if equal_nan {
            close = logical_or(b, &close, &logical_and(b, &isnan(b, x)?, &isnan(b, y)?)?)?;
        }
        Ok(close)
    })
}

/// 0 below 0, 1 above, `at_zero` at 0; NaN stays. The derivative in `x` is 0, in `at_zero` 1 where `x` is 0.
pub fn heaviside<B: Builder>(b: &B, x: &B::Value, at_zero: &B::Value) -> Result<B::Value> {
    named("heaviside", || {
        let dtype = b.ty(x).dtype;
        let step = cast(b, &gt_scalar(b, x, 0i64)?, dtype)?;
        let chosen = where_(b, &eq_scalar(b, x, 0i64)?, at_zero, &step)?;
        if dtype.is_float() { where_(b, &isnan(b, x)?, x, &chosen) } else { Ok(chosen) }
    })
}

/// The larger element; where one is NaN, the other (torch `fmax`). At a tie the derivative goes to `x`.
pub fn fmax<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("fmax", || where_(b, &logical_or(b, &ge(b, x, y)?, &isnan(b, y)?)?, x, y))
}

/// The smaller element; where one is NaN, the other (torch `fmin`). At a tie the derivative goes to `x`.
pub fn fmin<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("fmin", || where_(b, &logical_or(b, &le(b, x, y)?, &isnan(b, y)?)?, x, y))
}

/// `x * 2^y`, of floats.
pub fn ldexp<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    named("ldexp", || {
        require_float("ldexp", "x", b.ty(x))?;
        require_float("ldexp", "y", b.ty(y))?;
        let ([x, y], dtype) = in_joint_dtype(b, "ldexp", [x, y])?;
        let (x, y) = (&x, &y);
        let two = full_like(b, y, 2.0)?;
        cast(b, &mul(b, x, &super::pow(b, &two, y)?)?, dtype)
    })
}
