//! Complex numbers, composed of their real parts: what the pointwise ops, sums and products do with a complex operand.
//!
//! Formulas that neither overflow on the way nor lose the sign of a zero at a branch cut: Kahan 1987, "Branch cuts for
//! complex elementary functions, or much ado about nothing's sign bit". Derivatives are those of the parts; where a
//! formula turns on a sign, that sign is a constant beside the part, so that the derivative at 0 is right too.

use super::{
    abs, add, add_scalar, atan2, broadcast_to, cast, copysign, cos, cosh, div, eq, eq_scalar, exp, expm1, ge,
    gt_scalar, hypot, isfinite, log, logical_and, logical_not, mul, mul_scalar, neg, ones_like, reshape_to,
    scalar, shape_of, sin, sinh, slice_axis, sqrt, stack, sub, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, UnaryOp};
use crate::layout::broadcast_shapes;
use crate::prim::{Complex, Prim};

/// `c64[..]` as `f32[.., 2]` (c128 as f64), real and imaginary part along a new last axis; a view, which costs no copy. (To
/// sessions it is a tensor of its own: writing to one does not change the other.)
pub fn as_real<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    b.apply1(Prim::Complex(Complex::AsReal), std::slice::from_ref(x))
}

/// `f32[.., 2]` as `c64[..]` (f64 as c128); a view where the parts lie side by side.
pub fn as_complex<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    b.apply1(Prim::Complex(Complex::AsComplex), std::slice::from_ref(x))
}

/// `re + i im` of two f32 or two f64 tensors, which broadcast.
pub fn complex<B: Builder>(b: &B, re: &B::Value, im: &B::Value) -> Result<B::Value> {
    let (found, other) = (b.ty(re).dtype, b.ty(im).dtype);
    if found != other || found.complex().is_none() {
        return Err(Error::dtype(
            "complex",
            format!("the parts are {found} and {other}, expected both f32 or f64"),
        ));
    }
    let shape = broadcast_shapes("complex", &b.ty(re).shape, &b.ty(im).shape)?;
    join(b, &broadcast_to(b, re, &shape)?, &broadcast_to(b, im, &shape)?)
}

/// The number of that magnitude and angle in radians; f32 or f64, which broadcast.
pub fn polar<B: Builder>(b: &B, magnitude: &B::Value, angle: &B::Value) -> Result<B::Value> {
    let (found, other) = (b.ty(magnitude).dtype, b.ty(angle).dtype);
    if found != other || found.complex().is_none() {
        return Err(Error::dtype(
            "polar",
            format!("the operands are {found} and {other}, expected both f32 or f64"),
        ));
    }
    complex(b, &mul(b, magnitude, &cos(b, angle)?)?, &mul(b, magnitude, &sin(b, angle)?)?)
}

/// The real part; `x` itself if it is real.
pub fn real<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    if is_complex(b, x) { part(b, &as_real(b, x)?, 0) } else { Ok(x.clone()) }
}

/// The imaginary part of a complex tensor.
pub fn imag<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    if !is_complex(b, x) {
        return Err(Error::dtype("imag", format!("the operand is {}, expected c64 or c128", b.ty(x).dtype)));
    }
    part(b, &as_real(b, x)?, 1)
}

/// The complex conjugate; `x` itself if it is real.
pub fn conj<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    if !is_complex(b, x) {
        return Ok(x.clone());
    }
    let (re, im) = parts(b, x)?;
    join(b, &re, &neg(b, &im)?)
}

/// The angle in radians, in `[-pi, pi]`; of a real float 0, pi where negative, NaN where NaN.
pub fn angle<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    if is_complex(b, x) {
        let (re, im) = parts(b, x)?;
        return atan2(b, &im, &re);
    }
    super::require_float("angle", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let (zero, pi) = (scalar(b, 0.0, dtype)?, scalar(b, std::f64::consts::PI, dtype)?);
    let angle = where_(b, &super::lt_scalar(b, x, 0.0)?, &pi, &zero)?;
    where_(b, &super::isnan(b, x)?, &scalar(b, f64::NAN, dtype)?, &angle)
}

/// True if the value is of a complex dtype.
pub(crate) fn is_complex<B: Builder>(b: &B, x: &B::Value) -> bool {
    b.ty(x).dtype.is_complex()
}

/// `op` on the pairs of parts, for what does the same to both.
pub(crate) fn on_pairs<B: Builder>(
    b: &B,
    x: &B::Value,
    op: impl FnOnce(&B::Value) -> Result<B::Value>,
) -> Result<B::Value> {
    as_complex(b, &op(&as_real(b, x)?)?)
}

fn part<B: Builder>(b: &B, pairs: &B::Value, at: usize) -> Result<B::Value> {
    let mut shape = shape_of(b, pairs);
    let last = shape.len().saturating_sub(1);
    shape.pop();
    reshape_to(b, &slice_axis(b, pairs, last, at, at + 1, 1)?, &shape)
}

fn parts<B: Builder>(b: &B, x: &B::Value) -> Result<(B::Value, B::Value)> {
    let pairs = as_real(b, x)?;
    Ok((part(b, &pairs, 0)?, part(b, &pairs, 1)?))
}

fn join<B: Builder>(b: &B, re: &B::Value, im: &B::Value) -> Result<B::Value> {
    as_complex(b, &stack(b, &[re.clone(), im.clone()], -1)?)
}

fn same_dtype<B: Builder>(b: &B, op: &str, x: &B::Value, y: &B::Value) -> Result<()> {
    crate::prim::expect_same_dtype(op, b.ty(x), "the second operand", b.ty(y))
}

fn lacks(op: &str, dtype: DType) -> Error {
    Error::dtype(
        op,
        format!("the operand is {dtype}, for which the function is not defined; use real() or abs()"),
    )
}

/// A unary function of a complex value.
pub(crate) fn unary<B: Builder>(b: &B, op: UnaryOp, x: &B::Value) -> Result<B::Value> {
    if op == UnaryOp::Neg {
        return on_pairs(b, x, |pairs| neg(b, pairs));
    }
    let (re, im) = parts(b, x)?;
    let z = (&re, &im);
    let (re, im) = match op {
        UnaryOp::Abs => return hypot(b, &re, &im),
        UnaryOp::IsFinite => return logical_and(b, &isfinite(b, &re)?, &isfinite(b, &im)?),
        UnaryOp::Exp => exponential(b, z)?,
        UnaryOp::Log => (log(b, &hypot(b, &re, &im)?)?, atan2(b, &im, &re)?),
        UnaryOp::Sqrt => root(b, z)?,
        UnaryOp::Rsqrt => {
            let (re, im) = root(b, z)?;
            reciprocal(b, (&re, &im))?
        }
        UnaryOp::Recip => reciprocal(b, z)?,
        UnaryOp::Sin => (mul(b, &sin(b, &re)?, &cosh(b, &im)?)?, mul(b, &cos(b, &re)?, &sinh(b, &im)?)?),
        UnaryOp::Cos => {
            let product = mul(b, &sin(b, &re)?, &sinh(b, &im)?)?;
            (mul(b, &cos(b, &re)?, &cosh(b, &im)?)?, neg(b, &product)?)
        }
        UnaryOp::Sinh => (mul(b, &sinh(b, &re)?, &cos(b, &im)?)?, mul(b, &cosh(b, &re)?, &sin(b, &im)?)?),
        UnaryOp::Cosh => (mul(b, &cosh(b, &re)?, &cos(b, &im)?)?, mul(b, &sinh(b, &re)?, &sin(b, &im)?)?),
        UnaryOp::Tanh => hyperbolic_tangent(b, z)?,
        UnaryOp::Sigmoid => {
            let (re, im) = exponential(b, (&neg(b, &re)?, &neg(b, &im)?))?;
            reciprocal(b, (&add_scalar(b, &re, 1.0)?, &im))?
        }
        _ => return Err(lacks(op.name(), b.ty(x).dtype)),
    };
    join(b, &re, &im)
}

/// `-i tanh(i x)`.
pub(crate) fn tangent<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let (re, im) = parts(b, x)?;
    let (re, im) = hyperbolic_tangent(b, (&neg(b, &im)?, &re))?;
    join(b, &im, &neg(b, &re)?)
}

/// A binary function of two complex values of one dtype, which broadcast.
pub(crate) fn binary<B: Builder>(b: &B, op: BinaryOp, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    let name = op.name();
    same_dtype(b, name, x, y)?;
    let shape = broadcast_shapes(name, &b.ty(x).shape, &b.ty(y).shape)?;
    let (x, y) = (&broadcast_to(b, x, &shape)?, &broadcast_to(b, y, &shape)?);
    match op {
        BinaryOp::Add => return as_complex(b, &add(b, &as_real(b, x)?, &as_real(b, y)?)?),
        BinaryOp::Sub => return as_complex(b, &sub(b, &as_real(b, x)?, &as_real(b, y)?)?),
        _ => {}
    }
    let ((xr, xi), (yr, yi)) = (parts(b, x)?, parts(b, y)?);
    let (v, w) = ((&xr, &xi), (&yr, &yi));
    let (re, im) = match op {
        BinaryOp::Mul => product(b, v, w)?,
        BinaryOp::Div => quotient(b, v, w)?,
        BinaryOp::Pow => power(b, v, w)?,
        BinaryOp::Eq | BinaryOp::Ne => {
            let equal = logical_and(b, &eq(b, &xr, &yr)?, &eq(b, &xi, &yi)?)?;
            return if op == BinaryOp::Eq { Ok(equal) } else { logical_not(b, &equal) };
        }
        _ => return Err(lacks(name, b.ty(x).dtype)),
    };
    join(b, &re, &im)
}

/// Real and imaginary part of a value at hand.
type Pair<'a, V> = (&'a V, &'a V);

fn product<B: Builder>(
    b: &B,
    (a, c): Pair<'_, B::Value>,
    (d, e): Pair<'_, B::Value>,
) -> Result<(B::Value, B::Value)> {
    let re = sub(b, &mul(b, a, d)?, &mul(b, c, e)?)?;
    let im = add(b, &mul(b, a, e)?, &mul(b, c, d)?)?;
    Ok((re, im))
}

/// Smith 1962, "Algorithm 116: complex division": both are divided by the larger part of the divisor first.
fn quotient<B: Builder>(
    b: &B,
    (a, c): Pair<'_, B::Value>,
    (d, e): Pair<'_, B::Value>,
) -> Result<(B::Value, B::Value)> {
    let real_is_larger = ge(b, &abs(b, d)?, &abs(b, e)?)?;
    let pick = |x: &B::Value, y: &B::Value| where_(b, &real_is_larger, x, y);
    let (large, small) = (pick(d, e)?, pick(e, d)?);
    // By 0 each part is divided for itself.
    let vanishes = eq_scalar(b, &large, 0.0)?;
    let zero = scalar(b, 0.0, b.ty(d).dtype)?;
    let safe = where_(b, &vanishes, &ones_like(b, &large)?, &large)?;
    let ratio = where_(b, &vanishes, &zero, &div(b, &small, &safe)?)?;
    let divisor = add(b, &large, &mul(b, &small, &ratio)?)?;
    let (first, second) = (pick(a, c)?, pick(c, a)?);
    let re = div(b, &add(b, &first, &mul(b, &second, &ratio)?)?, &divisor)?;
    let turned = sub(b, &second, &mul(b, &first, &ratio)?)?;
    let im = div(b, &pick(&turned, &neg(b, &turned)?)?, &divisor)?;
    Ok((re, im))
}

fn reciprocal<B: Builder>(b: &B, z: Pair<'_, B::Value>) -> Result<(B::Value, B::Value)> {
    let one = ones_like(b, z.0)?;
    let zero = super::zeros_like(b, z.0)?;
    quotient(b, (&one, &zero), z)
}

fn exponential<B: Builder>(b: &B, (re, im): Pair<'_, B::Value>) -> Result<(B::Value, B::Value)> {
    let size = exp(b, re)?;
    let height = mul(b, &size, &sin(b, im)?)?;
    // A real number stays one where its exponential overflows.
    let is_real = logical_and(b, &eq_scalar(b, im, 0.0)?, &logical_not(b, &isfinite(b, &size)?)?)?;
    Ok((mul(b, &size, &cos(b, im)?)?, where_(b, &is_real, im, &height)?))
}

/// 1 or -1 by the sign bit, through which no derivative passes.
fn sign_of<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    copysign(b, &ones_like(b, x)?, x)
}

/// The root in the right half plane, its imaginary part of the operand's sign.
fn root<B: Builder>(b: &B, (re, im): Pair<'_, B::Value>) -> Result<(B::Value, B::Value)> {
    let dtype = b.ty(re).dtype;
    let (re_sign, im_sign) = (sign_of(b, re)?, sign_of(b, im)?);
    let magnitude = hypot(b, re, im)?;
    let vanishes = eq_scalar(b, &magnitude, 0.0)?;
    let half = |v: &B::Value| mul_scalar(b, v, 0.5);
    let square = add(b, &half(&magnitude)?, &half(&mul(b, re, &re_sign)?)?)?;
    // The larger part; where it is 0, so is the other.
    let large = sqrt(b, &where_(b, &vanishes, &ones_like(b, &square)?, &square)?)?;
    let small = half(&div(b, &mul(b, im, &im_sign)?, &large)?)?;
    let is_right = gt_scalar(b, &re_sign, 0.0)?;
    let zero = scalar(b, 0.0, dtype)?;
    let root_re = where_(b, &vanishes, &zero, &where_(b, &is_right, &large, &small)?)?;
    let root_im = mul(b, &where_(b, &is_right, &small, &large)?, &im_sign)?;
    Ok((root_re, where_(b, &vanishes, im, &root_im)?))
}

/// `(sinh 2a + i sin 2b) / (cosh 2a + cos 2b)` with `e^(-2|a|)` taken out, so that nothing overflows.
fn hyperbolic_tangent<B: Builder>(b: &B, (re, im): Pair<'_, B::Value>) -> Result<(B::Value, B::Value)> {
    let sign = sign_of(b, re)?;
    let size = mul(b, re, &sign)?;
    let decay = exp(b, &mul_scalar(b, &size, -2.0)?)?;
    let twice = mul_scalar(b, im, 2.0)?;
    let swing = mul_scalar(b, &mul(b, &decay, &cos(b, &twice)?)?, 2.0)?;
    let divisor = add(b, &add_scalar(b, &mul(b, &decay, &decay)?, 1.0)?, &swing)?;
    let rise = mul(b, &neg(b, &expm1(b, &mul_scalar(b, &size, -4.0)?)?)?, &sign)?;
    let turn = mul_scalar(b, &mul(b, &decay, &sin(b, &twice)?)?, 2.0)?;
    Ok((div(b, &rise, &divisor)?, div(b, &turn, &divisor)?))
}

/// `e^(y log x)`; `0^0` is 1 and 0 to any other power 0, as in torch.
fn power<B: Builder>(b: &B, x: Pair<'_, B::Value>, y: Pair<'_, B::Value>) -> Result<(B::Value, B::Value)> {
    let dtype = b.ty(x.0).dtype;
    let is_zero =
        |(re, im): Pair<'_, B::Value>| logical_and(b, &eq_scalar(b, re, 0.0)?, &eq_scalar(b, im, 0.0)?);
    let (no_base, no_exponent) = (is_zero(x)?, is_zero(y)?);
    let (zero, one) = (scalar(b, 0.0, dtype)?, scalar(b, 1.0, dtype)?);
    let safe = where_(b, &no_base, &one, x.0)?;
    let logarithm = (log(b, &hypot(b, &safe, x.1)?)?, atan2(b, x.1, &safe)?);
    let exponent = product(b, y, (&logarithm.0, &logarithm.1))?;
    let (re, im) = exponential(b, (&exponent.0, &exponent.1))?;
    let at_zero = where_(b, &no_exponent, &one, &zero)?;
    Ok((where_(b, &no_base, &at_zero, &re)?, where_(b, &no_base, &zero, &im)?))
}

/// `condition ? x : y` of complex values.
pub(crate) fn choose<B: Builder>(
    b: &B,
    condition: &B::Value,
    x: &B::Value,
    y: &B::Value,
) -> Result<B::Value> {
    same_dtype(b, "where", x, y)?;
    let condition = super::unsqueeze(b, condition, -1)?;
    as_complex(b, &where_(b, &condition, &as_real(b, x)?, &as_real(b, y)?)?)
}

/// To a complex dtype: parts convert, and what is real gets the imaginary part 0. To `bool`: whether it is not 0.
pub(crate) fn convert<B: Builder>(b: &B, x: &B::Value, dtype: DType) -> Result<B::Value> {
    match dtype.part() {
        Some(part) if is_complex(b, x) => as_complex(b, &cast(b, &as_real(b, x)?, part)?),
        Some(part) => {
            let re = cast(b, x, part)?;
            let im = super::zeros_like(b, &re)?;
            join(b, &re, &im)
        }
        None if dtype == DType::Bool => super::ne_scalar(b, x, 0i64),
        None => {
            let found = b.ty(x).dtype;
            Err(Error::dtype("cast", format!("{found} has no {dtype}; use real(), imag() or abs() first")))
        }
    }
}

/// The product over axes, which stay with size 1, as a tree of pairwise products.
pub(crate) fn product_over<B: Builder>(b: &B, x: &B::Value, axes: &[usize]) -> Result<B::Value> {
    let mut x = x.clone();
    for &axis in axes {
        let mut size = b.ty(&x).shape.get(axis).copied().unwrap_or(1);
        if size == 0 {
            let mut shape = shape_of(b, &x);
            shape[axis] = 1;
            x = super::ones(b, &shape, b.ty(&x).dtype)?;
        }
        while size > 1 {
            let half = size / 2;
            let low = slice_axis(b, &x, axis, 0, half, 1)?;
            let high = slice_axis(b, &x, axis, half, 2 * half, 1)?;
            let mut folded = mul(b, &low, &high)?;
            if size % 2 == 1 {
                let odd = slice_axis(b, &x, axis, size - 1, size, 1)?;
                folded = super::concat(b, &[folded, odd], axis as isize)?;
            }
            x = folded;
            size = half + size % 2;
        }
    }
    Ok(x)
}

/// `[.., m, k] x [.., k, n]` of equal batch axes by four real products.
pub(crate) fn matrix_product<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    real: impl Fn(&B::Value, &B::Value) -> Result<B::Value>,
) -> Result<B::Value> {
    same_dtype(b, "matmul", x, y)?;
    let ((xr, xi), (yr, yi)) = (parts(b, x)?, parts(b, y)?);
    let re = sub(b, &real(&xr, &yr)?, &real(&xi, &yi)?)?;
    let im = add(b, &real(&xr, &yi)?, &real(&xi, &yr)?)?;
    join(b, &re, &im)
}
