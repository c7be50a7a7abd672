//! Distances between vectors, and how variables vary together.

use super::matrix::safe_sqrt;
use super::{
    abs, cast, clamp, div, eq_scalar, max, mul, mul_scalar, ne_scalar, outer, pow, require_float,
    require_int, reshape_to, scalar, shape_of, sqrt, square, sub, sum, unsqueeze, where_, zeros,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::Scalar;
use crate::layout::{ShowShape, broadcast_shapes};

/// The `p`-norm of the last axis, which goes away: `p = 0` counts what is not zero, infinity takes the largest. The
/// derivative is 0 where the norm is, and where a difference is (the powers below 2 have none there).
pub(super) fn norm_of_last<B: Builder>(b: &B, op: &str, x: &B::Value, p: f64) -> Result<B::Value> {
    if p.is_nan() || p < 0.0 {
        return Err(Error::shape(op, format!("p is {p}, expected 0 or more")));
    }
    let dtype = b.ty(x).dtype;
    let last = b.ty(x).shape.last().copied().unwrap_or(1);
    if p == f64::INFINITY && last == 0 {
        let shape = shape_of(b, x);
        return zeros(b, &shape[..shape.len() - 1], dtype);
    }
    let total = |x: &B::Value| sum(b, x, &[-1], false);
    if p == 0.0 {
        return total(&cast(b, &ne_scalar(b, x, 0.0)?, dtype)?);
    }
    if p == 1.0 {
        return total(&abs(b, x)?);
    }
    if p == 2.0 {
        return safe_sqrt(b, &total(&square(b, x)?)?);
    }
    if p == f64::INFINITY {
        return max(b, &abs(b, x)?, &[-1], false);
    }
    let sum = total(&safe_power(b, &abs(b, x)?, p)?)?;
    safe_power(b, &sum, 1.0 / p)
}

/// `x^p` for `x` not negative, with the derivative 0 at 0.
fn safe_power<B: Builder>(b: &B, x: &B::Value, p: f64) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let is_zero = eq_scalar(b, x, 0.0)?;
    let safe = where_(b, &is_zero, &scalar(b, 1.0, dtype)?, x)?;
    let power = pow(b, &safe, &scalar(b, p, dtype)?)?;
    where_(b, &is_zero, &scalar(b, 0.0, dtype)?, &power)
}

/// Distances `[.., m, n]` in the `p`-norm between the rows of `x [.., m, d]` and of `y [.., n, d]`; batches broadcast.
/// Differences are taken before they are squared, so that near rows lose no digits; half types compute in f32. The
/// gradient at distance 0 is 0, as in torch.
pub fn cdist<B: Builder>(b: &B, x: &B::Value, y: &B::Value, p: f64) -> Result<B::Value> {
    let op = "cdist";
    require_float(op, "the first operand", b.ty(x))?;
    let (sx, sy) = (shape_of(b, x), shape_of(b, y));
    let dtype = b.ty(x).dtype;
    if dtype != b.ty(y).dtype {
        let found = b.ty(y).dtype;
        return Err(Error::dtype(op, format!("the second operand is {found}, the first {dtype}; cast one")));
    }
    let fits = sx.len() >= 2 && sy.len() >= 2 && sx[sx.len() - 1] == sy[sy.len() - 1];
    if !fits {
        return Err(Error::shape(
            op,
            format!("shapes {} and {}, expected [.., m, d] and [.., n, d]", ShowShape(&sx), ShowShape(&sy)),
        ));
    }
    broadcast_shapes(op, &sx[..sx.len() - 2], &sy[..sy.len() - 2])?;
    let (x, y) = (cast(b, x, dtype.wide())?, cast(b, y, dtype.wide())?);
    let difference = sub(b, &unsqueeze(b, &x, -2)?, &unsqueeze(b, &y, -3)?)?;
    cast(b, &norm_of_last(b, op, &difference, p)?, dtype)
}

/// The covariance matrix `[v, v]` of `v` variables in rows of observations, `x [v, n]`; of one variable, `x [n]`, its
/// variance. `fweights` (integers `[n]`) say how often an observation was made, `aweights` (floats `[n]`) how much it
/// counts; the divisor is the number of observations less `correction`, as in NumPy and torch. Half types compute in
/// f32.
pub fn cov<B: Builder>(
    b: &B,
    x: &B::Value,
    correction: isize,
    fweights: Option<&B::Value>,
    aweights: Option<&B::Value>,
) -> Result<B::Value> {
    let op = "cov";
    require_float(op, "the operand", b.ty(x))?;
    let (dtype, shape) = (b.ty(x).dtype, shape_of(b, x));
    let (v, n) = match shape[..] {
        [] => (1, 1),
        [n] => (1, n),
        [v, n] => (v, n),
        _ => return Err(Error::shape(op, format!("the operand is {}, expected at most two axes", b.ty(x)))),
    };
    let wide = dtype.wide();
    let x = reshape_to(b, &cast(b, x, wide)?, &[v, n])?;
    for (what, weight) in [("fweights", fweights), ("aweights", aweights)] {
        if let Some(weight) = weight {
            crate::prim::expect_shape(op, what, b.ty(weight), &[n])?;
        }
    }
    if let Some(weights) = fweights {
        require_int(op, "fweights", b.ty(weights))?;
    }
    let fweights = fweights.map(|w| cast(b, w, wide)).transpose()?;
    let aweights = match aweights {
        Some(w) => {
            require_float(op, "aweights", b.ty(w))?;
            Some(cast(b, w, wide)?)
        }
        None => None,
    };
    let weights = match (&fweights, &aweights) {
        (Some(f), Some(a)) => Some(mul(b, f, a)?),
        (f, a) => f.clone().or(a.clone()),
    };
    let correction = correction as f64;
    let total = |x: &B::Value| sum(b, x, &[-1], true);
    let (mean, divisor) = match &weights {
        None => {
            let mean = mul_scalar(b, &total(&x)?, 1.0 / n as f64)?;
            (mean, scalar(b, (n as f64 - correction).max(0.0), wide)?)
        }
        Some(w) => {
            let count = total(w)?;
            let mean = div(b, &total(&mul(b, &x, w)?)?, &count)?;
            let less = match &aweights {
                Some(a) => mul_scalar(b, &div(b, &total(&mul(b, w, a)?)?, &count)?, correction)?,
                None => scalar(b, correction, wide)?,
            };
            (mean, super::relu(b, &sub(b, &count, &less)?)?)
        }
    };
    let centred = sub(b, &x, &mean)?;
    let weighted = match &weights {
        Some(w) => mul(b, &centred, w)?,
        None => centred.clone(),
    };
    let product = super::matmul(b, &centred, &super::transpose(b, &weighted, 0, 1)?)?;
    let covariance = cast(b, &div(b, &product, &divisor)?, dtype)?;
    if shape.len() < 2 { reshape_to(b, &covariance, &[]) } else { Ok(covariance) }
}

/// The correlation coefficients `[v, v]` of `v` variables in rows, `x [v, n]`, clipped to `-1..=1`; 1 for one variable
/// `x [n]`.
pub fn corrcoef<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_float("corrcoef", "the operand", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let covariance = cov(b, &cast(b, x, dtype.wide())?, 1, None, None)?;
    let n = b.ty(&covariance).shape.first().copied();
    let ratio = match n {
        None => div(b, &covariance, &covariance)?,
        Some(_) => {
            let deviation = sqrt(b, &crate::prim::linalg::diagonal_of(b, &covariance)?)?;
            div(b, &covariance, &outer(b, &deviation, &deviation)?)?
        }
    };
    let bound = |v: f64| Some(Scalar::float(v));
    cast(b, &clamp(b, &ratio, bound(-1.0), bound(1.0))?, dtype)
}
