//! Factorisations of matrices and linear systems. Matrices lie in the last two axes, leading axes are a batch; f32 and
//! f64. What fails for one matrix fails for the call.

use super::{
    add, broadcast_to, concat, eye, matmul, mul_scalar, reshape_to, shape_of, transpose, tril, triu,
    unsqueeze,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::F64;
use crate::layout::{Dims, ShowShape, broadcast_shapes, numel};
use crate::prim::linalg::{
    Asker, adjoint, apply1, epsilon, expect_matrix_dtype, permute_rows, triangular, unit_lower,
};
use crate::prim::{Linalg, Prim};

/// Checks that `x` holds matrices of a dtype in which they are factored; gives rows and columns.
pub(super) fn require_matrix<B: Builder>(
    b: &B,
    op: &str,
    operand: &str,
    x: &B::Value,
) -> Result<(usize, usize)> {
    let ty = b.ty(x);
    expect_matrix_dtype(op, operand, ty.dtype)?;
    match ty.shape[..] {
        [.., rows, columns] => Ok((rows, columns)),
        _ => Err(Error::shape(op, format!("{operand} is {ty}, expected matrices [.., m, n]"))),
    }
}

/// Checks that `x` holds square matrices; gives their size.
pub(super) fn require_square<B: Builder>(b: &B, op: &str, operand: &str, x: &B::Value) -> Result<usize> {
    let (rows, columns) = require_matrix(b, op, operand, x)?;
    if rows == columns {
        return Ok(rows);
    }
    Err(Error::shape(op, format!("{operand} is {}, expected square matrices [.., n, n]", b.ty(x))))
}

/// `(x + x^T) / 2`, exactly `x` where that is symmetric.
fn symmetric<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let half = mul_scalar(b, x, 0.5)?;
    add(b, &half, &adjoint(b, &half)?)
}

/// Identity matrices beside `x`, a batch of square ones.
pub(super) fn identity_like<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let n = shape.last().copied().unwrap_or(1);
    broadcast_to(b, &eye(b, n, b.ty(x).dtype)?, &shape)
}

/// The right side of a system as matrices, and whether it was a vector (or a batch of them).
fn as_columns<B: Builder>(b: &B, op: &str, x: &B::Value, right: &B::Value) -> Result<(B::Value, bool)> {
    let (sx, sr) = (&b.ty(x).shape, &b.ty(right).shape);
    if b.ty(right).dtype != b.ty(x).dtype {
        let (found, expected) = (b.ty(right).dtype, b.ty(x).dtype);
        return Err(Error::dtype(
            op,
            format!("the right side is {found} but the matrix {expected}; cast one"),
        ));
    }
    let is_vector = sr.len() == 1 || (sr.len() + 1 == sx.len() && sr[..] == sx[..sx.len() - 1]);
    if is_vector {
        return Ok((unsqueeze(b, right, -1)?, true));
    }
    if sr.is_empty() {
        return Err(Error::shape(op, "the right side has rank 0, expected [.., n, k] or [.., n]"));
    }
    Ok((right.clone(), false))
}

/// A two-operand primitive over `x [.., n, n]` and `right [.., n, k]`, whose batches broadcast. Right sides that share
/// one matrix become columns of one, so that it is read once.
fn apply_to_right<B: Builder>(
    b: &B,
    op: &str,
    prim: Linalg,
    x: &B::Value,
    right: &B::Value,
) -> Result<B::Value> {
    let (sx, sr) = (shape_of(b, x), shape_of(b, right));
    let (n, rank) = (sx[sx.len() - 1], sr.len());
    if sr[rank - 2] != n {
        return Err(Error::shape(
            op,
            format!(
                "the matrix {} and the right side {} do not fit; expected [.., n, n] and [.., n, k]",
                ShowShape(&sx),
                ShowShape(&sr)
            ),
        ));
    }
    if sx.len() == 2 && rank > 2 {
        let columns = numel(&sr[..rank - 2])
            .checked_mul(sr[rank - 1])
            .ok_or_else(|| Error::shape(op, "the sizes overflow"))?;
        let front = super::move_axis(b, right, -2, 0)?;
        let moved = shape_of(b, &front);
        let solved = apply1(b, prim, &[x.clone(), reshape_to(b, &front, &[n, columns])?])?;
        return super::move_axis(b, &reshape_to(b, &solved, &moved)?, 0, -2);
    }
    let batch = broadcast_shapes(op, &sx[..sx.len() - 2], &sr[..rank - 2])?;
    let whole = |value: &B::Value, shape: &[usize]| {
        let mut full = batch.clone();
        full.extend_from_slice(&shape[shape.len() - 2..]);
        broadcast_to(b, value, &full)
    };
    apply1(b, prim, &[whole(x, &sx)?, whole(right, &sr)?])
}

/// `l` with `x = l l^T`, or the upper `u` with `x = u^T u`, of `x [.., n, n]`. Of a matrix that is not symmetric the
/// symmetric part is taken, so the gradient is symmetric, as in torch.
///
/// Errors: a matrix that is not positive definite, when the op runs.
pub fn cholesky<B: Builder>(b: &B, x: &B::Value, upper: bool) -> Result<B::Value> {
    require_square(b, "cholesky", "the operand", x)?;
    let lower = apply1(b, Linalg::Cholesky, &[symmetric(b, x)?])?;
    if upper { adjoint(b, &lower) } else { Ok(lower) }
}

/// `a^-1 right` from the Cholesky factor of `a`, with `right [.., n, k]` and `factor [.., n, n]`; batches broadcast.
pub fn cholesky_solve<B: Builder>(
    b: &B,
    right: &B::Value,
    factor: &B::Value,
    upper: bool,
) -> Result<B::Value> {
    require_square(b, "cholesky_solve", "the factor", factor)?;
    let (right, is_vector) = as_columns(b, "cholesky_solve", factor, right)?;
    let lower = if upper { adjoint(b, factor)? } else { factor.clone() };
    let solve = |factor: &B::Value, right: &B::Value, upper: bool| {
        let prim = Linalg::TriangularSolve { upper, unit: false, full_rank: false };
        apply_to_right(b, "cholesky_solve", prim, factor, right)
    };
    let solved = solve(&adjoint(b, &lower)?, &solve(&lower, &right, false)?, true)?;
    if is_vector { super::squeeze(b, &solved, &[-1]) } else { Ok(solved) }
}

/// `a^-1` from the Cholesky factor of `a`, `[.., n, n]`.
pub fn cholesky_inverse<B: Builder>(b: &B, factor: &B::Value, upper: bool) -> Result<B::Value> {
    require_square(b, "cholesky_inverse", "the factor", factor)?;
    cholesky_solve(b, &identity_like(b, factor)?, factor, upper)
}

fn factored<B: Builder>(b: &B, x: &B::Value, regular: Option<Asker>) -> Result<Vec<B::Value>> {
    Ok(b.apply(Prim::Linalg(Linalg::Lu { regular }), std::slice::from_ref(x))?.into_vec())
}

/// `[p, l, u]` with `x = p l u` for `x [.., m, n]`: a permutation `p [.., m, m]`, the unit lower triangle
/// `l [.., m, k]` and the upper triangle `u [.., k, n]`, where `k = min(m, n)`; partial pivoting.
pub fn lu<B: Builder>(b: &B, x: &B::Value) -> Result<Vec<B::Value>> {
    require_matrix(b, "lu", "the operand", x)?;
    let factors = factored(b, x, None)?;
    lu_unpack(b, &factors[0], &factors[1])
}

/// `[lu, pivots]` of `x [.., m, n]`, packed as LAPACK's getrf does: the unit lower triangle below the diagonal, the
/// upper one on and above it; i32 pivots `[.., min(m, n)]` count from 1.
///
/// Errors: a zero on the diagonal of the upper triangle, when the op runs; [`lu`] takes such a matrix.
pub fn lu_factor<B: Builder>(b: &B, x: &B::Value) -> Result<Vec<B::Value>> {
    require_matrix(b, "lu_factor", "the operand", x)?;
    factored(b, x, Some(Asker::LuFactor))
}

/// `[p, l, u]` from what [`lu_factor`] gives, as [`lu`] gives them.
pub fn lu_unpack<B: Builder>(b: &B, lu: &B::Value, pivots: &B::Value) -> Result<Vec<B::Value>> {
    let (m, n) = require_matrix(b, "lu_unpack", "the factorisation", lu)?;
    require_pivots(b, "lu_unpack", lu, pivots)?;
    let k = m.min(n);
    let rank = b.ty(lu).rank();
    let left = super::slice_axis(b, lu, rank - 1, 0, k, 1)?;
    let lower = match m > n {
        true => {
            let square = unit_lower(b, &super::slice_axis(b, &left, rank - 2, 0, k, 1)?)?;
            concat(b, &[square, super::slice_axis(b, &left, rank - 2, k, m, 1)?], -2)?
        }
        false => unit_lower(b, &left)?,
    };
    let upper = triu(b, &super::slice_axis(b, lu, rank - 2, 0, k, 1)?, 0)?;
    let mut shape = Dims::from_slice(&b.ty(lu).shape[..rank - 2]);
    shape.extend([m, m]);
    let identity = broadcast_to(b, &eye(b, m, b.ty(lu).dtype)?, &shape)?;
    Ok(vec![permute_rows(b, &identity, pivots, true)?, lower, upper])
}

fn require_pivots<B: Builder>(b: &B, op: &str, lu: &B::Value, pivots: &B::Value) -> Result<()> {
    let (tl, tp) = (b.ty(lu), b.ty(pivots));
    if tp.dtype != DType::I32 {
        return Err(Error::dtype(op, format!("the pivots are {}, expected i32", tp.dtype)));
    }
    let lead = &tl.shape[..tl.rank() - 2];
    let k = tl.shape[tl.rank() - 2].min(tl.shape[tl.rank() - 1]);
    let fits = tp.rank() == lead.len() + 1 && tp.shape[..lead.len()] == *lead && tp.shape[lead.len()] == k;
    if fits {
        return Ok(());
    }
    Err(Error::shape(op, format!("the pivots {tp} do not belong to {tl}; expected {k} a matrix")))
}

/// `a^-1 right` from what [`lu_factor`] gives for square `a`, with `right [.., n, k]`. `left = false` solves
/// `x a = right`, `adjoint` takes `a^T` for `a`.
pub fn lu_solve<B: Builder>(
    b: &B,
    lu: &B::Value,
    pivots: &B::Value,
    right: &B::Value,
    left: bool,
    adjoint: bool,
) -> Result<B::Value> {
    let op = "lu_solve";
    require_square(b, op, "the factorisation", lu)?;
    require_pivots(b, op, lu, pivots)?;
    if !left {
        let turned = transpose_matrices(b, op, right)?;
        let solved = lu_solve(b, lu, pivots, &turned, true, !adjoint)?;
        return transpose(b, &solved, -1, -2);
    }
    let (right, is_vector) = as_columns(b, op, lu, right)?;
    let (sl, sr) = (shape_of(b, lu), shape_of(b, &right));
    let batch = broadcast_shapes(op, &sl[..sl.len() - 2], &sr[..sr.len() - 2])?;
    let whole = |value: &B::Value, last: &[usize]| {
        let mut full = batch.clone();
        full.extend_from_slice(last);
        broadcast_to(b, value, &full)
    };
    let n = sl[sl.len() - 1];
    if sr[sr.len() - 2] != n {
        return Err(Error::shape(op, format!("the right side is {}, expected [.., {n}, k]", b.ty(&right))));
    }
    let (lu, pivots) = (whole(lu, &[n, n])?, whole(pivots, &[n])?);
    let right = whole(&right, &sr[sr.len() - 2..])?;
    let solved = if adjoint {
        let turned = transpose(b, &lu, -1, -2)?;
        let inner = triangular(b, &turned, &right, false, false)?;
        permute_rows(b, &triangular(b, &turned, &inner, true, true)?, &pivots, true)?
    } else {
        crate::prim::linalg::solve_factored(b, &lu, &pivots, &right)?
    };
    if is_vector { super::squeeze(b, &solved, &[-1]) } else { Ok(solved) }
}

fn transpose_matrices<B: Builder>(b: &B, op: &str, x: &B::Value) -> Result<B::Value> {
    if b.ty(x).rank() < 2 {
        return Err(Error::shape(op, format!("the right side is {}, expected [.., k, n]", b.ty(x))));
    }
    transpose(b, x, -1, -2)
}

/// Which factors [`qr`] gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QrMode {
    /// As many columns of `q` as the smaller side has.
    #[default]
    Reduced,
    /// A square `q`.
    Complete,
}

impl QrMode {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        match word {
            "reduced" => Some(QrMode::Reduced),
            "complete" => Some(QrMode::Complete),
            _ => None,
        }
    }
}

/// `[q, r]` with `x = q r` for `x [.., m, n]`: `q [.., m, k]` with orthonormal columns and `r [.., k, n]` upper
/// triangular, `k = min(m, n)`, or `k = m` in the mode `complete`. Signs are LAPACK's.
///
/// Differentiable where the first `k` columns are independent; not `q` of the complete mode if `m > n`.
pub fn qr<B: Builder>(b: &B, x: &B::Value, mode: QrMode) -> Result<Vec<B::Value>> {
    require_matrix(b, "qr", "the operand", x)?;
    let prim = Linalg::Qr { complete: mode == QrMode::Complete };
    Ok(b.apply(Prim::Linalg(prim), std::slice::from_ref(x))?.into_vec())
}

/// What of a symmetric matrix is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Triangle {
    /// The symmetric part, so that the gradient is symmetric.
    #[default]
    Both,
    Lower,
    Upper,
}

impl Triangle {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        match word {
            "both" => Some(Triangle::Both),
            "lower" => Some(Triangle::Lower),
            "upper" => Some(Triangle::Upper),
            _ => None,
        }
    }

    fn mirrored<B: Builder>(self, b: &B, x: &B::Value) -> Result<B::Value> {
        match self {
            Triangle::Both => symmetric(b, x),
            Triangle::Lower => add(b, &tril(b, x, 0)?, &adjoint(b, &tril(b, x, -1)?)?),
            Triangle::Upper => add(b, &triu(b, x, 0)?, &adjoint(b, &triu(b, x, 1)?)?),
        }
    }
}

/// `[values, vectors]` of the symmetric `x [.., n, n]`: ascending eigenvalues `[.., n]` and eigenvectors in columns.
/// In each vector the first component whose magnitude exceeds 7/8 of the largest is positive. With a `triangle` named,
/// only that one is read and has a gradient; else the symmetric part counts, and of a symmetric matrix that is torch's.
///
/// Vectors of equal eigenvalues are any basis of their space; a derivative within it counts as 0. The vectors'
/// derivative is as large as the gap between eigenvalues is small.
pub fn eigh<B: Builder>(b: &B, x: &B::Value, triangle: Triangle) -> Result<Vec<B::Value>> {
    require_square(b, "eigh", "the operand", x)?;
    Ok(b.apply(Prim::Linalg(Linalg::Eigh), &[triangle.mirrored(b, x)?])?.into_vec())
}

/// The ascending eigenvalues `[.., n]` of the symmetric `x [.., n, n]`; see [`eigh`].
pub fn eigvalsh<B: Builder>(b: &B, x: &B::Value, triangle: Triangle) -> Result<B::Value> {
    require_square(b, "eigvalsh", "the operand", x)?;
    Ok(b.apply(Prim::Linalg(Linalg::Eigh), &[triangle.mirrored(b, x)?])?.swap_remove(0))
}

fn reduced_svd<B: Builder>(b: &B, x: &B::Value) -> Result<Vec<B::Value>> {
    Ok(b.apply(Prim::Linalg(Linalg::Svd), std::slice::from_ref(x))?.into_vec())
}

/// `[u, s, vt]` with `x = u diag(s) vt` for `x [.., m, n]`: descending singular values `s [.., k]`, `k = min(m, n)`,
/// and orthonormal columns of `u [.., m, k]` and rows of `vt [.., k, n]`; with `full_matrices` both are completed to
/// bases, `[.., m, m]` and `[.., n, n]`. Signs are settled in the columns of `u` as in [`eigh`].
///
/// Vectors of equal singular values are any basis of their space; a derivative within it counts as 0, as does that of
/// the completed part.
pub fn svd<B: Builder>(b: &B, x: &B::Value, full_matrices: bool) -> Result<Vec<B::Value>> {
    let (m, n) = require_matrix(b, "svd", "the operand", x)?;
    let mut factors = reduced_svd(b, x)?;
    if full_matrices && m > n {
        let rest = apply1(b, Linalg::Completion, &factors[..1])?;
        factors[0] = concat(b, &[factors[0].clone(), rest], -1)?;
    }
    if full_matrices && n > m {
        let rest = apply1(b, Linalg::Completion, &[adjoint(b, &factors[2])?])?;
        factors[2] = concat(b, &[factors[2].clone(), adjoint(b, &rest)?], -2)?;
    }
    Ok(factors)
}

/// The descending singular values `[.., min(m, n)]` of `x [.., m, n]`; the gradient is finite at equal ones too.
pub fn svdvals<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_matrix(b, "svdvals", "the operand", x)?;
    Ok(reduced_svd(b, x)?.swap_remove(1))
}

/// `y` with `x y = right`, or `y x = right` if not `left`, for `x [.., n, n]` and `right [.., n, k]`; batches
/// broadcast. A `right` of rank 1, or of the shape of `x` without its last axis, holds vectors.
///
/// Errors: a singular matrix, when the op runs.
pub fn solve<B: Builder>(b: &B, x: &B::Value, right: &B::Value, left: bool) -> Result<B::Value> {
    require_square(b, "solve", "the matrix", x)?;
    let prim = Linalg::Solve { regular: Some(Asker::Solve) };
    system(b, "solve", prim, x, right, left)
}

fn system<B: Builder>(
    b: &B,
    op: &str,
    prim: Linalg,
    x: &B::Value,
    right: &B::Value,
    left: bool,
) -> Result<B::Value> {
    let (right, is_vector) = as_columns(b, op, x, right)?;
    match (left, is_vector) {
        (true, false) => apply_to_right(b, op, prim, x, &right),
        (true, true) => super::squeeze(b, &apply_to_right(b, op, prim, x, &right)?, &[-1]),
        (false, false) => {
            let turned = transpose_matrices(b, op, &right)?;
            let prim = match prim {
                Linalg::TriangularSolve { upper, unit, full_rank } => {
                    Linalg::TriangularSolve { upper: !upper, unit, full_rank }
                }
                other => other,
            };
            adjoint(b, &apply_to_right(b, op, prim, &adjoint(b, x)?, &turned)?)
        }
        (false, true) => {
            Err(Error::shape(op, "a right side of vectors stands on the right; left=false takes [.., k, n]"))
        }
    }
}

/// As [`solve`] for a triangular `x`, of which only that triangle is read, and not its diagonal if `unitriangular`.
/// A zero on the diagonal gives infinities, as in torch.
pub fn solve_triangular<B: Builder>(
    b: &B,
    x: &B::Value,
    right: &B::Value,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<B::Value> {
    require_square(b, "solve_triangular", "the matrix", x)?;
    let prim = Linalg::TriangularSolve { upper, unit: unitriangular, full_rank: false };
    system(b, "solve_triangular", prim, x, right, left)
}

/// [`solve_triangular`] with the operands of torch's older function; `transpose` takes `x^T` for `x`.
pub fn triangular_solve<B: Builder>(
    b: &B,
    right: &B::Value,
    x: &B::Value,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> Result<B::Value> {
    require_square(b, "triangular_solve", "the matrix", x)?;
    let (x, upper) = if transpose { (adjoint(b, x)?, !upper) } else { (x.clone(), upper) };
    let prim = Linalg::TriangularSolve { upper, unit: unitriangular, full_rank: false };
    system(b, "triangular_solve", prim, &x, right, true)
}

/// `x^-1` of `x [.., n, n]`; [`solve`] is better where the inverse would be multiplied.
///
/// Errors: a singular matrix, when the op runs.
pub fn inverse<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    require_square(b, "inverse", "the operand", x)?;
    inverse_for(b, x, Some(Asker::Inverse))
}

/// [`inverse`] on behalf of another op, or of one that takes what a singular matrix gives.
pub(super) fn inverse_for<B: Builder>(b: &B, x: &B::Value, regular: Option<Asker>) -> Result<B::Value> {
    apply1(b, Linalg::Solve { regular }, &[x.clone(), identity_like(b, x)?])
}

/// The `y` of least `|x y - right|` for `x [.., m, n]` of full rank and `right [.., m, k]` (or vectors, as in
/// [`solve`]), by QR; of many such, if `m < n`, the shortest. [`pinv`] takes matrices of any rank.
///
/// Errors: a matrix without full rank, when the op runs.
pub fn lstsq<B: Builder>(b: &B, x: &B::Value, right: &B::Value) -> Result<B::Value> {
    let op = "lstsq";
    let (m, n) = require_matrix(b, op, "the matrix", x)?;
    let (right, is_vector) = as_columns(b, op, x, right)?;
    let sr = shape_of(b, &right);
    if sr[sr.len() - 2] != m {
        return Err(Error::shape(op, format!("the right side is {}, expected [.., {m}, k]", b.ty(&right))));
    }
    let checked = |upper: bool| Linalg::TriangularSolve { upper, unit: false, full_rank: true };
    let solution = if m >= n {
        let factors = qr(b, x, QrMode::Reduced)?;
        let turned = matmul(b, &adjoint(b, &factors[0])?, &right)?;
        apply_to_right(b, op, checked(true), &factors[1], &turned)?
    } else {
        let factors = qr(b, &adjoint(b, x)?, QrMode::Reduced)?;
        let inner = apply_to_right(b, op, checked(false), &adjoint(b, &factors[1])?, &right)?;
        matmul(b, &factors[0], &inner)?
    };
    if is_vector { super::squeeze(b, &solution, &[-1]) } else { Ok(solution) }
}

/// A tolerance that can be exceeded.
pub(super) fn require_tolerance(op: &str, name: &str, given: Option<f64>) -> Result<()> {
    match given {
        Some(value) if value.is_nan() || value < 0.0 => {
            Err(Error::shape(op, format!("{name} is {value}, expected at least 0")))
        }
        _ => Ok(()),
    }
}

/// The Moore-Penrose inverse `[.., n, m]` of `x [.., m, n]`: singular values up to `rtol` of the largest count as 0; by
/// default `max(m, n)` times the dtype's epsilon. Differentiable at constant rank.
///
/// Errors: a negative `rtol`.
pub fn pinv<B: Builder>(b: &B, x: &B::Value, rtol: Option<f64>) -> Result<B::Value> {
    let (m, n) = require_matrix(b, "pinv", "the operand", x)?;
    require_tolerance("pinv", "rtol", rtol)?;
    let rtol = rtol.unwrap_or_else(|| m.max(n) as f64 * epsilon(b.ty(x).dtype));
    apply1(b, Linalg::Pinv { rtol: F64(rtol) }, std::slice::from_ref(x))
}
