//! Functions of matrices: determinants, norms, powers, the exponential; and matrices from parts. Matrices lie in the
//! last two axes, leading axes are a batch.

use super::linalg::{identity_like, inverse_for, require_matrix, require_square, require_tolerance};
use super::{
    abs, add, cast, concat, div, eq_scalar, full_like, gt, lt_scalar, matmul, max, maximum, min, mul,
    mul_scalar, pad, pow, require_float, reshape_to, scalar, shape_of, square, sum, svdvals, unsqueeze,
    where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, resolve_axis};
use crate::prim::linalg::{Asker, apply1, epsilon};
use crate::prim::{Linalg, Prim};

/// The determinant `[..]` of `x [.., n, n]`. Its gradient is the matrix of cofactors, of singular matrices too.
pub fn det<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_square(b, "det", "the operand", x)?;
    apply1(b, Linalg::Det, std::slice::from_ref(x))
}

/// `[sign, log |det|]`, both `[..]`, of the determinant of `x [.., n, n]`; `[0, -inf]` if it is zero, where the
/// gradient is not finite.
pub fn slogdet<B: Builder>(b: &B, x: &B::Value) -> Result<Vec<B::Value>> {
    require_square(b, "slogdet", "the operand", x)?;
    Ok(b.apply(Prim::Linalg(Linalg::SlogDet), std::slice::from_ref(x))?.into_vec())
}

/// The logarithm `[..]` of the determinant of `x [.., n, n]`: `-inf` if that is zero, NaN if negative.
pub fn logdet<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_square(b, "logdet", "the operand", x)?;
    let parts = b.apply(Prim::Linalg(Linalg::SlogDet), std::slice::from_ref(x))?;
    let dtype = b.ty(x).dtype;
    let negative = lt_scalar(b, &parts[0], 0.0)?;
    let nan = where_(b, &negative, &scalar(b, f64::NAN, dtype)?, &scalar(b, 0.0, dtype)?)?;
    add(b, &parts[1], &nan)
}

/// The i64 rank `[..]` of `x [.., m, n]`: how many singular values exceed both `atol` and `rtol` times the largest. By
/// default `rtol` is `max(m, n)` times the dtype's epsilon where no `atol` is given, else 0.
///
/// Errors: a negative tolerance.
pub fn matrix_rank<B: Builder>(
    b: &B,
    x: &B::Value,
    atol: Option<f64>,
    rtol: Option<f64>,
) -> Result<B::Value> {
    let (m, n) = require_matrix(b, "matrix_rank", "the operand", x)?;
    require_tolerance("matrix_rank", "atol", atol)?;
    require_tolerance("matrix_rank", "rtol", rtol)?;
    let values = svdvals(b, x)?;
    let mut above = full_like(b, &values, 0i64)?;
    if m > 0 && n > 0 {
        let dtype = b.ty(x).dtype;
        let default = if atol.is_none() { m.max(n) as f64 * epsilon(dtype) } else { 0.0 };
        let relative = mul_scalar(b, &max(b, &values, &[-1], true)?, rtol.unwrap_or(default))?;
        let cutoff = maximum(b, &relative, &scalar(b, atol.unwrap_or(0.0), dtype)?)?;
        above = gt(b, &values, &cutoff)?;
    }
    sum(b, &cast(b, &above, DType::I64)?, &[-1], false)
}

/// `x [.., n, n]` to a whole power by repeated squaring; a negative one inverts first.
///
/// Errors: a negative power of a singular matrix, when the op runs.
pub fn matrix_power<B: Builder>(b: &B, x: &B::Value, exponent: isize) -> Result<B::Value> {
    let op = "matrix_power";
    let shape = shape_of(b, x);
    if shape.len() < 2 || shape[shape.len() - 1] != shape[shape.len() - 2] {
        return Err(Error::shape(
            op,
            format!("the operand is {}, expected square matrices [.., n, n]", b.ty(x)),
        ));
    }
    let mut square = x.clone();
    if exponent < 0 {
        require_square(b, op, "the operand", x)?;
        square = inverse_for(b, x, Some(Asker::MatrixPower))?;
    }
    let mut left = exponent.unsigned_abs();
    let mut power = None;
    while left > 0 {
        if left & 1 == 1 {
            power = Some(match power {
                Some(power) => matmul(b, &power, &square)?,
                None => square.clone(),
            });
        }
        left >>= 1;
        if left > 0 {
            square = matmul(b, &square, &square)?;
        }
    }
    power.map_or_else(|| identity_like(b, x), Ok)
}

/// `e^x`, the exponential series of `x [.., n, n]`, by scaling and squaring.
pub fn matrix_exp<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_square(b, "matrix_exp", "the operand", x)?;
    apply1(b, Linalg::MatrixExp, std::slice::from_ref(x))
}

/// Which norm of matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatrixNorm {
    /// Frobenius: the root of the sum of squares.
    #[default]
    Frobenius,
    /// Nuclear: the sum of singular values.
    Nuclear,
    /// The largest sum of a column's absolute values.
    One,
    /// The smallest such sum.
    MinusOne,
    /// The largest singular value.
    Two,
    /// The smallest singular value.
    MinusTwo,
    /// The largest sum of a row's absolute values.
    Infinity,
    /// The smallest such sum.
    MinusInfinity,
}

impl MatrixNorm {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "fro" => MatrixNorm::Frobenius,
            "nuc" => MatrixNorm::Nuclear,
            "1" => MatrixNorm::One,
            "-1" => MatrixNorm::MinusOne,
            "2" => MatrixNorm::Two,
            "-2" => MatrixNorm::MinusTwo,
            "inf" => MatrixNorm::Infinity,
            "-inf" => MatrixNorm::MinusInfinity,
            _ => return None,
        })
    }

    /// Of how many numbers of an `[m, n]` matrix it takes an extreme.
    fn candidates(self, m: usize, n: usize) -> Option<usize> {
        match self {
            MatrixNorm::Frobenius | MatrixNorm::Nuclear => None,
            MatrixNorm::One | MatrixNorm::MinusOne => Some(n),
            MatrixNorm::Infinity | MatrixNorm::MinusInfinity => Some(m),
            MatrixNorm::Two | MatrixNorm::MinusTwo => Some(m.min(n)),
        }
    }
}

/// A norm of the matrices in two `axes`, by default the last: `"fro"`, `"nuc"` (the sum of singular values), `"2"` and `"-2"` (the largest
/// and smallest of them), `"1"` and `"-1"` (the largest and smallest sum of a column's absolute values), `"inf"` and
/// `"-inf"` (of a row's). The gradient of the Frobenius norm at zero is 0, as in torch; half types compute in f32,
/// norms of singular values take f32 and f64 only.
///
/// Errors: the smallest of no numbers; the largest of none is 0, as in torch.
pub fn matrix_norm<B: Builder>(
    b: &B,
    x: &B::Value,
    ord: MatrixNorm,
    axes: &[isize],
    keepdim: bool,
) -> Result<B::Value> {
    norm_for(b, "matrix_norm", x, ord, axes, keepdim)
}

fn norm_for<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    ord: MatrixNorm,
    axes: &[isize],
    keepdim: bool,
) -> Result<B::Value> {
    require_float(op, "the operand", b.ty(x))?;
    let shape = shape_of(b, x);
    let rank = shape.len();
    let (first, second) = match *axes {
        [] => (-2, -1),
        [first, second] => (first, second),
        _ => return Err(Error::shape(op, format!("takes two axes, got {}", axes.len()))),
    };
    let (row, column) = (resolve_axis(op, first, rank)?, resolve_axis(op, second, rank)?);
    if row == column {
        return Err(Error::shape(op, format!("the axes {first} and {second} are one")));
    }
    let order: Dims = (0..rank).filter(|a| *a != row && *a != column).chain([row, column]).collect();
    let matrices = super::permute_to(b, x, &order)?;
    let (m, n) = (shape[row], shape[column]);
    let dtype = b.ty(x).dtype;
    let is_void = ord.candidates(m, n) == Some(0);
    if is_void && matches!(ord, MatrixNorm::MinusOne | MatrixNorm::MinusTwo | MatrixNorm::MinusInfinity) {
        return Err(Error::shape(op, format!("{} has no numbers of which to take the smallest", b.ty(x))));
    }
    let wide = cast(b, &matrices, dtype.wide())?;
    let values = || {
        require_matrix(b, op, "the operand", &matrices)?;
        svdvals(b, &matrices)
    };
    let sums = |axis: isize| sum(b, &abs(b, &wide)?, &[axis], false);
    let norm = match ord {
        _ if is_void => super::zeros(b, &b.ty(&matrices).shape[..rank - 2], dtype.wide())?,
        MatrixNorm::Frobenius => safe_sqrt(b, &sum(b, &square(b, &wide)?, &[-2, -1], false)?)?,
        MatrixNorm::Nuclear => sum(b, &values()?, &[-1], false)?,
        MatrixNorm::One => max(b, &sums(-2)?, &[-1], false)?,
        MatrixNorm::MinusOne => min(b, &sums(-2)?, &[-1], false)?,
        MatrixNorm::Two => max(b, &values()?, &[-1], false)?,
        MatrixNorm::MinusTwo => min(b, &values()?, &[-1], false)?,
        MatrixNorm::Infinity => max(b, &sums(-1)?, &[-1], false)?,
        MatrixNorm::MinusInfinity => min(b, &sums(-1)?, &[-1], false)?,
    };
    let norm = cast(b, &norm, dtype)?;
    if !keepdim {
        return Ok(norm);
    }
    let mut kept = shape;
    (kept[row], kept[column]) = (1, 1);
    reshape_to(b, &norm, &kept)
}

/// The square root with the derivative 0 at 0.
pub(super) fn safe_sqrt<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let is_zero = eq_scalar(b, x, 0.0)?;
    let dtype = b.ty(x).dtype;
    let safe = where_(b, &is_zero, &scalar(b, 1.0, dtype)?, x)?;
    where_(b, &is_zero, &scalar(b, 0.0, dtype)?, &super::sqrt(b, &safe)?)
}

/// The condition number `[..]` of `x` in a norm: `"2"` (the default: the largest singular value by the smallest, of
/// `x [.., m, n]`) or `"-2"`; any other of [`matrix_norm`] is the norm of `x [.., n, n]` times that of its inverse,
/// infinite if there is none.
pub fn cond<B: Builder>(b: &B, x: &B::Value, ord: Option<MatrixNorm>) -> Result<B::Value> {
    let op = "cond";
    let ord = ord.unwrap_or(MatrixNorm::Two);
    let norm = |x: &B::Value, ord| norm_for(b, op, x, ord, &[], false);
    require_matrix(b, op, "the operand", x)?;
    match ord {
        MatrixNorm::Two => div(b, &norm(x, ord)?, &norm(x, MatrixNorm::MinusTwo)?),
        MatrixNorm::MinusTwo => div(b, &norm(x, ord)?, &norm(x, MatrixNorm::Two)?),
        _ => {
            require_square(b, op, "the operand", x)?;
            let dtype = b.ty(x).dtype;
            let singular = eq_scalar(b, &slogdet(b, x)?[0], 0.0)?;
            let masked = unsqueeze(b, &unsqueeze(b, &singular, -1)?, -1)?;
            let regular = where_(b, &masked, &identity_like(b, x)?, x)?;
            let product = mul(b, &norm(x, ord)?, &norm(&inverse_for(b, &regular, None)?, ord)?)?;
            where_(b, &singular, &scalar(b, f64::INFINITY, dtype)?, &product)
        }
    }
}

/// The Vandermonde matrix `[.., n, columns]` of `x [.., n]`: powers `0, 1, ..` along rows, or falling ones if not
/// `increasing`; square by default.
pub fn vander<B: Builder>(b: &B, x: &B::Value, columns: Option<isize>, increasing: bool) -> Result<B::Value> {
    let op = "vander";
    let Some(&n) = b.ty(x).shape.last() else {
        return Err(Error::shape(op, "the operand has rank 0, expected [.., n]"));
    };
    let columns = match columns {
        Some(count) => usize::try_from(count)
            .map_err(|_| Error::shape(op, format!("{count} columns, expected 0 or more")))?,
        None => n,
    };
    let dtype = b.ty(x).dtype;
    if dtype == DType::Bool {
        return Err(Error::dtype(op, "the operand is bool, expected numbers; cast it first"));
    }
    let mut powers = super::iota(b, columns, dtype)?;
    if !increasing {
        powers = super::flip(b, &powers, &[])?;
    }
    pow(b, &unsqueeze(b, x, -1)?, &powers)
}

/// Matrices along the diagonal of one, zeros elsewhere: `[m1, n1], [m2, n2], .. -> [sum m, sum n]`. A vector counts as a
/// row, a value of rank 0 as one element.
pub fn block_diag<B: Builder>(b: &B, matrices: &[B::Value]) -> Result<B::Value> {
    let op = "block_diag";
    if matrices.is_empty() {
        return Err(Error::shape(op, "takes at least one operand, got none"));
    }
    let raised = matrices
        .iter()
        .enumerate()
        .map(|(i, x)| match b.ty(x).shape[..] {
            [] => reshape_to(b, x, &[1, 1]),
            [n] => reshape_to(b, x, &[1, n]),
            [_, _] => Ok(x.clone()),
            _ => Err(Error::shape(op, format!("operand {i} is {}, expected at most two axes", b.ty(x)))),
        })
        .collect::<Result<Vec<_>>>()?;
    let widths: Vec<usize> = raised.iter().map(|x| b.ty(x).shape[1]).collect();
    let overflow = || Error::shape(op, "the sizes overflow");
    let total = widths.iter().try_fold(0usize, |total, &width| total.checked_add(width));
    let total = isize::try_from(total.ok_or_else(overflow)?).map_err(|_| overflow())?;
    let mut before = 0;
    let mut rows = Vec::with_capacity(raised.len());
    for (x, &width) in raised.iter().zip(&widths) {
        // Not above the total, which fits.
        let width = width as isize;
        rows.push(pad(b, x, &[0, before], &[0, total - before - width], 0i64)?);
        before += width;
    }
    concat(b, &rows, 0)
}
