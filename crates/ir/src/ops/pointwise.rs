//! Functions of single elements, with NumPy broadcasting.

use super::{broadcast_to, complex, constant, inner, shape_of};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, Scalar, UnaryOp};
use crate::layout::broadcast_shapes;
use crate::prim::{Elementwise, Prim};

/// Ops that are one unary function each; the table finds them in `UNARY`.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        pub(super) const UNARY: &[(&str, $crate::expr::UnaryOp)] =
            &[$((stringify!($name), $crate::expr::UnaryOp::$op)),*];
        $(
            $(#[$doc])*
            pub fn $name<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
                $crate::ops::apply_unary(b, $crate::expr::UnaryOp::$op, x)
            }
        )*
    };
}
pub(super) use unary;

unary! {
    /// `-x`.
    neg => Neg;
    /// `|x|`.
    abs => Abs;
    /// -1, 0 or 1 by sign.
    sign => Sign;
    /// The largest whole number not above `x`.
    floor => Floor;
    /// The smallest whole number not below `x`.
    ceil => Ceil;
    /// The nearest whole number, halves to even.
    round => Round;
    /// The whole part, towards zero.
    trunc => Trunc;
    /// `e^x`.
    exp => Exp;
    /// `e^x - 1`, exact near 0.
    expm1 => Expm1;
    /// The natural logarithm.
    log => Log;
    /// `log(1 + x)`, exact near 0.
    log1p => Log1p;
    /// The square root.
    sqrt => Sqrt;
    /// `1 / sqrt(x)`.
    rsqrt => Rsqrt;
    /// `1 / x`.
    reciprocal => Recip;
    /// The sine, of radians.
    sin => Sin;
    /// The cosine, of radians.
    cos => Cos;
    /// The hyperbolic tangent.
    tanh => Tanh;
    /// The hyperbolic sine.
    sinh => Sinh;
    /// The hyperbolic cosine.
    cosh => Cosh;
    /// The angle in `-pi/2..pi/2` of that sine; NaN outside of `-1..1`.
    asin => Asin;
    /// The angle in `0..pi` of that cosine; NaN outside of `-1..1`.
    acos => Acos;
    /// The angle in `-pi/2..pi/2` of that tangent.
    atan => Atan;
    /// The inverse of the hyperbolic sine.
    asinh => Asinh;
    /// The inverse of the hyperbolic cosine; NaN below 1.
    acosh => Acosh;
    /// The inverse of the hyperbolic tangent; infinite at -1 and 1, NaN beyond.
    atanh => Atanh;
    /// `1 / (1 + e^-x)`.
    sigmoid => Sigmoid;
    /// The error function.
    erf => Erf;
    /// `max(x, 0)`.
    relu => Relu;
    /// `x * sigmoid(x)`.
    silu => Silu;
    /// Logical not, of `bool`.
    logical_not => Not;
    /// True where `x` is neither NaN nor infinite.
    isfinite => IsFinite;
}

/// Ops that are one binary function each; the table finds them in `BINARY`.
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        pub(super) const BINARY: &[(&str, $crate::expr::BinaryOp)] =
            &[$((stringify!($name), $crate::expr::BinaryOp::$op)),*];
        $(
            $(#[$doc])*
            pub fn $name<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
                $crate::ops::apply_binary(b, $crate::expr::BinaryOp::$op, x, y)
            }
        )*
    };
}
pub(super) use binary;

binary! {
    /// `x + y`.
    add => Add;
    /// `x - y`.
    sub => Sub;
    /// `x * y`.
    mul => Mul;
    /// `x / y`; integers truncate towards zero.
    div => Div;
    /// The remainder with the sign of `x` (torch `fmod`); [`remainder`](super::remainder) has that of `y`.
    rem => Rem;
    /// `x^y`.
    pow => Pow;
    /// The larger element; NaN propagates.
    maximum => Max;
    /// The smaller element; NaN propagates.
    minimum => Min;
    /// `x == y` as `bool`.
    eq => Eq;
    /// `x != y` as `bool`.
    ne => Ne;
    /// `x < y` as `bool`.
    lt => Lt;
    /// `x <= y` as `bool`.
    le => Le;
    /// `x > y` as `bool`.
    gt => Gt;
    /// `x >= y` as `bool`.
    ge => Ge;
    /// Logical and, of `bool`.
    logical_and => And;
    /// Logical or, of `bool`.
    logical_or => Or;
}

macro_rules! with_scalar {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<B: Builder>(b: &B, x: &B::Value, y: impl Into<Scalar>) -> Result<B::Value> {
            let y = y.into();
            if complex::is_complex(b, x) && matches!(BinaryOp::$op, BinaryOp::Mul | BinaryOp::Div) {
                return complex::on_pairs(b, x, |pairs| $name(b, pairs, y));
            }
            let y = operand_scalar(b, stringify!($name), x, y)?;
            apply_binary(b, BinaryOp::$op, x, &y)
        }
    )*};
}

with_scalar! {
    /// `x + y`.
    add_scalar => Add;
    /// `x - y`.
    sub_scalar => Sub;
    /// `x * y`.
    mul_scalar => Mul;
    /// `x / y`.
    div_scalar => Div;
    /// The remainder of `x / y` with the sign of `x`.
    rem_scalar => Rem;
    /// The larger of `x` and `y`.
    maximum_scalar => Max;
    /// The smaller of `x` and `y`.
    minimum_scalar => Min;
    /// `x == y` as `bool`.
    eq_scalar => Eq;
    /// `x != y` as `bool`.
    ne_scalar => Ne;
    /// `x < y` as `bool`.
    lt_scalar => Lt;
    /// `x <= y` as `bool`.
    le_scalar => Le;
    /// `x > y` as `bool`.
    gt_scalar => Gt;
    /// `x >= y` as `bool`.
    ge_scalar => Ge;
}

/// `x^y`; the square is a product.
pub fn pow_scalar<B: Builder>(b: &B, x: &B::Value, y: impl Into<Scalar>) -> Result<B::Value> {
    let y = y.into();
    match y.as_f64() {
        1.0 => Ok(x.clone()),
        2.0 => square(b, x),
        _ => {
            let y = operand_scalar(b, "pow_scalar", x, y)?;
            pow(b, x, &y)
        }
    }
}

/// `y - x`.
pub fn rsub_scalar<B: Builder>(b: &B, x: &B::Value, y: impl Into<Scalar>) -> Result<B::Value> {
    let y = operand_scalar(b, "rsub_scalar", x, y.into())?;
    sub(b, &y, x)
}

/// `x * x`.
pub fn square<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    mul(b, x, x)
}

/// The tangent, of radians.
pub fn tan<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    if complex::is_complex(b, x) {
        return complex::tangent(b, x);
    }
    in_wide(b, "tan", x, |x| div(b, &sin(b, x)?, &cos(b, x)?))
}

/// `2^x`.
pub fn exp2<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "exp2", x, |x| exp(b, &mul_scalar(b, x, std::f64::consts::LN_2)?))
}

/// The logarithm to base 2.
pub fn log2<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "log2", x, |x| mul_scalar(b, &log(b, x)?, std::f64::consts::LOG2_E))
}

/// The logarithm to base 10.
pub fn log10<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    in_wide(b, "log10", x, |x| mul_scalar(b, &log(b, x)?, std::f64::consts::LOG10_E))
}

/// True where `x` is NaN.
pub fn isnan<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    ne(b, x, x)
}

/// True where `x` is infinite.
pub fn isinf<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    eq_scalar(b, &abs(b, x)?, f64::INFINITY)
}

/// `x` where `condition`, else `y`; all three broadcast.
pub fn where_<B: Builder>(b: &B, condition: &B::Value, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    if complex::is_complex(b, x) || complex::is_complex(b, y) {
        return complex::choose(b, condition, x, y);
    }
    let (x, y) = unify_dtypes(b, x, y)?;
    let branches = broadcast_shapes("where", &b.ty(&x).shape, &b.ty(&y).shape)?;
    let shape = broadcast_shapes("where", &b.ty(condition).shape, &branches)?;
    let condition = broadcast_to(b, condition, &shape)?;
    let (x, y) = (broadcast_to(b, &x, &shape)?, broadcast_to(b, &y, &shape)?);
    b.apply1(Prim::Elementwise(Elementwise::Select), &[condition, x, y])
}

/// `x` converted to `dtype`; `x` itself if it has that dtype already.
pub fn cast<B: Builder>(b: &B, x: &B::Value, dtype: DType) -> Result<B::Value> {
    if b.ty(x).dtype == dtype {
        return Ok(x.clone());
    }
    if complex::is_complex(b, x) || dtype.is_complex() {
        return complex::convert(b, x, dtype);
    }
    b.apply1(Prim::Elementwise(Elementwise::Cast(dtype)), std::slice::from_ref(x))
}

/// `min(max(x, low), high)`; a bound that is absent does not bind, and one that is NaN makes all NaN. At a bound the
/// whole gradient passes.
pub fn clamp<B: Builder>(b: &B, x: &B::Value, low: Option<Scalar>, high: Option<Scalar>) -> Result<B::Value> {
    let bounds = [low, high];
    if let Some(nan) = bounds.into_iter().flatten().find(|bound| bound.as_f64().is_nan()) {
        return full_like(b, x, nan);
    }
    let value = |bound: Option<Scalar>| bound.map(|bound| operand_scalar(b, "clamp", x, bound)).transpose();
    inner::clamp_between(b, x, value(low)?.as_ref(), value(high)?.as_ref())
}

/// A composition on a float operand in its wide type, so that half types round once.
pub(crate) fn in_wide<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    f: impl FnOnce(&B::Value) -> Result<B::Value>,
) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    if dtype.is_complex() {
        return f(x);
    }
    super::require_float(op, "the operand", b.ty(x))?;
    cast(b, &f(&cast(b, x, dtype.wide())?)?, dtype)
}

/// What `f` gives, with the op that the user called in its error instead of the one that failed inside.
pub(crate) fn named<T>(op: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    f().map_err(|error| Error::new(error.kind, op, error.message))
}

/// Operands that broadcast, in the wide type, and the dtype of their result: that of all tensors, which a float of rank
/// 0 takes too.
pub(crate) fn in_joint_dtype<B: Builder, const N: usize>(
    b: &B,
    op: &str,
    operands: [&B::Value; N],
) -> Result<([B::Value; N], DType)> {
    let leading = operands.iter().find(|x| b.ty(x).rank() > 0).unwrap_or(&operands[0]);
    let ty = b.ty(leading).clone();
    let mut wide = operands.map(B::Value::clone);
    for value in &mut wide {
        let found = b.ty(value);
        let follows = found.rank() == 0 && ty.rank() > 0 && found.dtype.is_float() && ty.dtype.is_float();
        if found.dtype != ty.dtype && !follows {
            return Err(Error::dtype(
                op,
                format!("operands are {} and {}; cast one of them", ty.dtype, found.dtype),
            ));
        }
        *value = cast(b, value, ty.dtype.wide())?;
    }
    Ok((wide, ty.dtype))
}

/// Applies a unary function.
pub(crate) fn apply_unary<B: Builder>(b: &B, op: UnaryOp, x: &B::Value) -> Result<B::Value> {
    if complex::is_complex(b, x) {
        return complex::unary(b, op, x);
    }
    b.elementwise(Elementwise::Unary(op), &[x])
}

/// Applies a binary function to operands that broadcast.
pub(crate) fn apply_binary<B: Builder>(b: &B, op: BinaryOp, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    if complex::is_complex(b, x) || complex::is_complex(b, y) {
        return complex::binary(b, op, x, y);
    }
    let function = Elementwise::Binary(op);
    if b.ty(x) == b.ty(y) {
        return b.elementwise(function, &[x, y]);
    }
    let (x, y) = unify_dtypes(b, x, y)?;
    let shape = broadcast_shapes(op.name(), &b.ty(&x).shape, &b.ty(&y).shape)?;
    let (x, y) = (broadcast_to(b, &x, &shape)?, broadcast_to(b, &y, &shape)?);
    b.elementwise(function, &[&x, &y])
}

/// Lets a float of rank 0 take the dtype of the other float operand; `infer` refuses any other mix.
fn unify_dtypes<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<(B::Value, B::Value)> {
    let (tx, ty) = (b.ty(x), b.ty(y));
    if tx.dtype != ty.dtype && tx.dtype.is_float() && ty.dtype.is_float() {
        match (tx.rank(), ty.rank()) {
            (0, 1..) => return Ok((cast(b, x, ty.dtype)?, y.clone())),
            (1.., 0) => return Ok((x.clone(), cast(b, y, tx.dtype)?)),
            _ => {}
        }
    }
    Ok((x.clone(), y.clone()))
}

/// A scalar as an operand beside `x`: of its dtype, refused where that cannot hold it.
fn operand_scalar<B: Builder>(b: &B, op: &str, x: &B::Value, value: Scalar) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    constant(b, op, value, dtype)
}

/// The number that stands beside an operand of `dtype`: a whole one beside integers.
///
/// Errors: a number that the dtype cannot hold.
pub fn scalar_beside(op: &str, dtype: DType, value: Scalar) -> Result<Scalar> {
    value.fit(op, dtype)
}

/// A constant of the shape and dtype of `x`.
pub fn full_like<B: Builder>(b: &B, x: &B::Value, value: impl Into<Scalar>) -> Result<B::Value> {
    let value = operand_scalar(b, "full_like", x, value.into())?;
    broadcast_to(b, &value, &shape_of(b, x))
}

/// Zeros of the shape and dtype of `x`.
pub fn zeros_like<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    full_like(b, x, 0i64)
}

/// Ones of the shape and dtype of `x`.
pub fn ones_like<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    full_like(b, x, 1i64)
}
