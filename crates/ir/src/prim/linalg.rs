//! Linear algebra: factorisations and what is computed from them, of matrices in the last two axes.
//!
//! Leading axes are a batch, equal in all operands; f32 and f64. What fails for one matrix fails for the call, with
//! an error that names the op which was called and the matrix's place in the batch. Signs that mathematics leaves
//! open are settled, so that devices agree; see each variant.

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

pub(crate) use super::determinant::epsilon;
pub(crate) use super::factors::{diagonal_of, permute_rows, unit_lower};
pub(crate) use super::inverse::solve_factored;
use super::{
    Applied, Batched, Optional, Prim, Rules, Types, derived, determinant, expect_arity, expect_same_dtype,
    factors, inverse,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::{F64, KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, TensorType};
use crate::ops;

/// The op that wants a regular matrix, so that the error of a singular one names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Asker {
    Solve,
    Inverse,
    LuFactor,
    MatrixPower,
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Asker::Solve => "solve",
            Asker::Inverse => "inverse",
            Asker::LuFactor => "lu_factor",
            Asker::MatrixPower => "matrix_power",
        })
    }
}

/// What can be wrong with one matrix of a batch when a primitive runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The leading minor of that order is not positive definite.
    NotPositiveDefinite {
        order: usize,
    },
    /// Element `place` of the diagonal of `u` is zero.
    Singular {
        asker: Asker,
        place: usize,
    },
    /// A column depends on those before it.
    RankDeficient {
        column: usize,
    },
    NotFinite {
        op: &'static str,
    },
    NotConverged {
        op: &'static str,
    },
    PivotOutOfRange {
        pivot: i64,
    },
}

/// The error of a matrix at place `at` of its batch, in the words that every device uses.
pub fn failed(at: usize, what: Failed) -> Error {
    let (op, message) = match what {
        Failed::NotPositiveDefinite { order } => (
            "cholesky".to_string(),
            format!(
                "the factorization could not be completed because the input is not positive-definite (the leading \
                 minor of order {order} is not positive-definite)"
            ),
        ),
        Failed::Singular { asker, place } => (
            asker.to_string(),
            format!("the input is singular: element {} of the diagonal of u is zero", place + 1),
        ),
        Failed::RankDeficient { column } => (
            "lstsq".to_string(),
            format!(
                "the least squares solution could not be computed because the input matrix does not have full rank \
                 (column {} depends on those before it); pinv takes such matrices",
                column + 1
            ),
        ),
        Failed::NotFinite { op } => (
            op.to_string(),
            "the algorithm cannot converge because the input contains non-finite values".to_string(),
        ),
        Failed::NotConverged { op } => (op.to_string(), "the algorithm did not converge".to_string()),
        Failed::PivotOutOfRange { pivot } => (
            "permutation".to_string(),
            format!("the pivot {pivot} is out of range; pivots are rows, counted from 1"),
        ),
    };
    Error::new(ErrorKind::Execute, op, format!("(batch element {at}): {message}"))
}

/// Factorisations and their like; `k` is the smaller of `m` and `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Linalg {
    /// `a [.., n, n]`, symmetric, to the lower triangular `l` with `a = l l^T`. The upper triangle of `a` is not read;
    /// the rules take it to mirror the lower one. A matrix that is not positive definite is an error.
    Cholesky,
    /// `a [.., m, n] -> (lu [.., m, n], pivots i32 [.., k])` with partial pivoting: `lu` holds the unit lower triangle
    /// `l [m, k]` and the upper triangle `u [k, n]`; row `i` was swapped with row `pivots[i] - 1`, in this order, as in
    /// LAPACK's getrf. A zero on the diagonal of `u` is an error if somebody asks for a regular matrix.
    Lu { regular: Option<Asker> },
    /// `pivots i32 [.., k] -> p i32 [.., rows]`, the order of rows to which the swaps lead: row `i` of `l u` is row
    /// `p[i]` of `a`. `inverse` gives the order that leads back.
    Permutation { rows: usize, inverse: bool },
    /// `(a [.., n, n], b [.., n, k]) -> x` with `a x = b`. Only the named triangle of `a` is read, and not its diagonal
    /// if that is `unit`. A zero on the diagonal gives infinities; with `full_rank`, a diagonal element up to
    /// `4 n eps` of the triangle's Frobenius norm is an error of `lstsq`.
    TriangularSolve { upper: bool, unit: bool, full_rank: bool },
    /// `a [.., m, n] -> (q [.., m, k], r [.., k, n])`, or `(q [.., m, m], r [.., m, n])` if `complete`; by Householder
    /// reflections with the signs of LAPACK: the diagonal element of `r` has the sign opposite to the element it
    /// replaces, which stays as it is where nothing lies below it. NaN throughout if an element is not finite.
    Qr { complete: bool },
    /// `a [.., n, n]`, symmetric, to `(values [.., n], vectors [.., n, n])`, ascending, vectors in columns. The upper
    /// triangle is not read. In each vector the first component whose magnitude exceeds 7/8 of the largest is positive.
    Eigh,
    /// `a [.., m, n] -> (u [.., m, k], s [.., k], vt [.., k, n])` with `a = u diag(s) vt`, `s` descending. Signs are
    /// settled in the columns of `u` as for `Eigh`. Vectors of values up to `max(m, n) * eps` (of f64) of the largest, any
    /// basis of their space, are the columns that complete the others in Householder's QR, each of settled sign.
    Svd,
    /// `q [.., m, k]`, orthonormal columns, to `[.., m, m - k]`, which completes them to a basis: the last columns of
    /// the complete QR factorisation. They are any such columns, so no derivative flows through them.
    Completion,
    /// `(a [.., n, n], b [.., n, k]) -> x` with `a x = b`, by way of LU.
    Solve { regular: Option<Asker> },
    /// `a [.., n, n] -> [..]`, the determinant.
    Det,
    /// `a [.., n, n] -> [.., n, n]`, the derivative of the determinant: `det(a) a^-T`, defined for singular matrices
    /// too.
    Cofactor,
    /// `a [.., n, n] -> (sign [..], log of the absolute value [..])` of the determinant; `(0, -inf)` if it is zero.
    SlogDet,
    /// `a [.., m, n] -> [.., n, m]`, the Moore-Penrose inverse: singular values up to `rtol` of the largest are zero.
    Pinv { rtol: F64 },
    /// `a [.., n, n] -> e^a [.., n, n]`.
    MatrixExp,
}

/// What `infer` found out about a matrix operand.
struct Matrix<'a> {
    lead: &'a [usize],
    rows: usize,
    columns: usize,
}

impl<'a> Matrix<'a> {
    fn of(op: &str, operand: &str, ty: &'a TensorType) -> Result<Self> {
        expect_matrix_dtype(op, operand, ty.dtype)?;
        match &ty.shape[..] {
            [lead @ .., rows, columns] => Ok(Matrix { lead, rows: *rows, columns: *columns }),
            _ => Err(Error::shape(op, format!("{operand} is {ty}, expected matrices [.., m, n]"))),
        }
    }

    fn square(op: &str, operand: &str, ty: &'a TensorType) -> Result<Self> {
        let matrix = Matrix::of(op, operand, ty)?;
        if matrix.rows == matrix.columns {
            return Ok(matrix);
        }
        Err(Error::shape(op, format!("{operand} is {ty}, expected square matrices [.., n, n]")))
    }

    fn smaller(&self) -> usize {
        self.rows.min(self.columns)
    }

    /// A type of the same batch with other last axes.
    fn with(&self, dtype: DType, last: &[usize]) -> TensorType {
        let mut shape = Dims::from_slice(self.lead);
        shape.extend_from_slice(last);
        TensorType { dtype, shape }
    }
}

/// Checks that an operand has a dtype in which factorisations are computed.
pub(crate) fn expect_matrix_dtype(op: &str, operand: &str, dtype: DType) -> Result<()> {
    let hint = match dtype {
        DType::F32 | DType::F64 => return Ok(()),
        DType::C64 | DType::C128 => "complex matrices are not supported yet",
        _ => "expected f32 or f64; cast to f32 first",
    };
    Err(Error::dtype(op, format!("{operand} is {dtype}, {hint}")))
}

impl Rules for Linalg {
    fn name(&self) -> &'static str {
        match self {
            Linalg::Cholesky => "cholesky",
            Linalg::Lu { .. } => "lu",
            Linalg::Permutation { .. } => "permutation",
            Linalg::TriangularSolve { .. } => "triangular_solve",
            Linalg::Qr { .. } => "qr",
            Linalg::Eigh => "eigh",
            Linalg::Svd => "svd",
            Linalg::Completion => "completion",
            Linalg::Solve { .. } => "solve",
            Linalg::Det => "det",
            Linalg::Cofactor => "cofactor",
            Linalg::SlogDet => "slogdet",
            Linalg::Pinv { .. } => "pinv",
            Linalg::MatrixExp => "matrix_exp",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        let arity = if matches!(self, Linalg::TriangularSolve { .. } | Linalg::Solve { .. }) { 2 } else { 1 };
        expect_arity(name, inputs, arity)?;
        let a = inputs[0];
        let any = || Matrix::of(name, "the operand", a);
        let square = || Matrix::square(name, "the operand", a);
        Ok(match *self {
            Linalg::Cholesky | Linalg::MatrixExp | Linalg::Cofactor => {
                square()?;
                smallvec![a.clone()]
            }
            Linalg::Lu { .. } => {
                let matrix = any()?;
                smallvec![a.clone(), matrix.with(DType::I32, &[matrix.smaller()])]
            }
            Linalg::Permutation { rows, .. } => permutation_type(a, rows)?,
            Linalg::TriangularSolve { .. } | Linalg::Solve { .. } => {
                let matrix = square()?;
                let right = inputs[1];
                expect_same_dtype(name, a, "the right side", right)?;
                let fits = right.rank() == a.rank()
                    && right.shape[..matrix.lead.len()] == *matrix.lead
                    && right.shape[matrix.lead.len()] == matrix.rows;
                if !fits {
                    return Err(Error::shape(
                        name,
                        format!(
                            "the matrix {} and the right side {} do not fit; expected [.., n, n] and [.., n, k]",
                            ShowShape(&a.shape),
                            ShowShape(&right.shape)
                        ),
                    ));
                }
                smallvec![right.clone()]
            }
            Linalg::Qr { complete } => {
                let matrix = any()?;
                let inner = if complete { matrix.rows } else { matrix.smaller() };
                let (q, r) = ([matrix.rows, inner], [inner, matrix.columns]);
                smallvec![matrix.with(a.dtype, &q), matrix.with(a.dtype, &r)]
            }
            Linalg::Eigh => {
                let matrix = square()?;
                smallvec![matrix.with(a.dtype, &[matrix.rows]), a.clone()]
            }
            Linalg::Svd => {
                let matrix = any()?;
                let k = matrix.smaller();
                smallvec![
                    matrix.with(a.dtype, &[matrix.rows, k]),
                    matrix.with(a.dtype, &[k]),
                    matrix.with(a.dtype, &[k, matrix.columns]),
                ]
            }
            Linalg::Completion => {
                let matrix = any()?;
                let Some(missing) = matrix.rows.checked_sub(matrix.columns) else {
                    return Err(Error::shape(name, format!("{a} has more columns than rows")));
                };
                smallvec![matrix.with(a.dtype, &[matrix.rows, missing])]
            }
            Linalg::Det => smallvec![square()?.with(a.dtype, &[])],
            Linalg::SlogDet => {
                let ty = square()?.with(a.dtype, &[]);
                smallvec![ty.clone(), ty]
            }
            Linalg::Pinv { .. } => {
                let matrix = any()?;
                smallvec![matrix.with(a.dtype, &[matrix.columns, matrix.rows])]
            }
        })
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        if cotangents.iter().all(Option::is_none) {
            return Ok(at.no_cotangents());
        }
        let one = |found: Option<B::Value>| Ok(vec![found]);
        match (self, cotangents) {
            (Linalg::Permutation { .. } | Linalg::Completion, _) => Ok(at.no_cotangents()),
            (Linalg::Cholesky, [Some(t)]) => one(Some(factors::cholesky_vjp(b, &at.outputs[0], t)?)),
            (Linalg::Lu { .. }, [Some(t), _]) => one(Some(factors::lu_vjp(b, at.outputs, t)?)),
            (Linalg::Qr { complete }, [q, r]) => one(factors::qr_vjp(b, *complete, at, q, r)?),
            (Linalg::Eigh, [values, vectors]) => one(factors::eigh_vjp(b, at.outputs, values, vectors)?),
            (Linalg::Svd, [u, s, vt]) => one(factors::svd_vjp(b, at.outputs, u, s, vt)?),
            (&Linalg::TriangularSolve { upper, unit, .. }, [Some(t)]) => {
                inverse::triangular_vjp(b, upper, unit, at, t)
            }
            (&Linalg::Solve { regular }, [Some(t)]) => inverse::solve_vjp(b, regular, at, t),
            (Linalg::Det, [Some(t)]) => one(Some(determinant::det_vjp(b, &at.inputs[0], t)?)),
            (Linalg::Cofactor, [Some(t)]) => one(Some(determinant::cofactor_slope(b, &at.inputs[0], t)?)),
            (Linalg::SlogDet, [_, Some(t)]) => one(Some(determinant::slogdet_vjp(b, &at.inputs[0], t)?)),
            (Linalg::Pinv { .. }, [Some(t)]) => {
                one(Some(inverse::pinv_vjp(b, &at.inputs[0], &at.outputs[0], t)?))
            }
            // The transpose of the Frechet derivative at `a` is that at `a^T` (Higham 2008, section 3.2).
            (Linalg::MatrixExp, [Some(t)]) => {
                let transposed = ops::transpose(b, &at.inputs[0], -1, -2)?;
                one(Some(inverse::exp_slope(b, &transposed, t)?))
            }
            _ => Ok(at.no_cotangents()),
        }
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        match (self, tangents) {
            (Linalg::Permutation { .. } | Linalg::Completion, _) => Ok(vec![None]),
            (&Linalg::TriangularSolve { upper, unit, .. }, [da, db]) => {
                inverse::triangular_jvp(b, upper, unit, at, da, db)
            }
            (&Linalg::Solve { regular }, [da, db]) => inverse::solve_jvp(b, regular, at, da, db),
            (Linalg::Cholesky, [Some(t)]) => Ok(vec![Some(factors::cholesky_jvp(b, &at.outputs[0], t)?)]),
            (Linalg::Lu { .. }, [Some(t)]) => Ok(vec![Some(factors::lu_jvp(b, at.outputs, t)?), None]),
            (Linalg::Qr { complete }, [Some(t)]) => factors::qr_jvp(b, *complete, at, t),
            (Linalg::Eigh, [Some(t)]) => factors::eigh_jvp(b, at.outputs, t),
            (Linalg::Svd, [Some(t)]) => factors::svd_jvp(b, at.outputs, t),
            (Linalg::Det, [Some(t)]) => Ok(vec![Some(determinant::det_jvp(b, &at.inputs[0], t)?)]),
            (Linalg::Cofactor, [Some(t)]) => {
                Ok(vec![Some(determinant::cofactor_slope(b, &at.inputs[0], t)?)])
            }
            (Linalg::SlogDet, [Some(t)]) => {
                Ok(vec![None, Some(determinant::slogdet_jvp(b, &at.inputs[0], t)?)])
            }
            (Linalg::Pinv { .. }, [Some(t)]) => {
                Ok(vec![Some(inverse::pinv_jvp(b, &at.inputs[0], &at.outputs[0], t)?)])
            }
            (Linalg::MatrixExp, [Some(t)]) => Ok(vec![Some(inverse::exp_slope(b, &at.inputs[0], t)?)]),
            _ => Ok(at.outputs.iter().map(|_| None).collect()),
        }
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let prim = Prim::Linalg(*self);
        if let [matrix, right] = inputs
            && !matrix.mapped
        {
            // One matrix for all: the new axis folds into the columns of the right side.
            return inverse::batch_of_right_sides(b, prim, size, &matrix.value, &right.value);
        }
        let operands = derived::all_mapped(b, size, inputs)?;
        Ok(derived::with_axis(b.apply(prim, &operands)?))
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(match *self {
            Linalg::Solve { regular } => Some(vec![inverse::solve(b, regular, &inputs[0], &inputs[1])?]),
            Linalg::Completion => {
                let factors = b.apply(Prim::Linalg(Linalg::Qr { complete: true }), inputs)?;
                let (m, k) = sizes(b, &inputs[0]);
                Some(vec![columns(b, &factors[0], k, m)?])
            }
            Linalg::Det => Some(vec![determinant::det(b, &inputs[0])?]),
            Linalg::Cofactor => Some(vec![determinant::cofactor(b, &inputs[0])?]),
            Linalg::SlogDet => Some(determinant::slogdet(b, &inputs[0])?),
            Linalg::Pinv { rtol } => Some(vec![inverse::pinv(b, &inputs[0], rtol.0)?]),
            Linalg::Cholesky
            | Linalg::Lu { .. }
            | Linalg::Permutation { .. }
            | Linalg::TriangularSolve { .. }
            | Linalg::Qr { .. }
            | Linalg::Eigh
            | Linalg::Svd
            | Linalg::MatrixExp => None,
        })
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

fn permutation_type(pivots: &TensorType, rows: usize) -> Result<Types> {
    let op = "permutation";
    if pivots.dtype != DType::I32 {
        return Err(Error::dtype(op, format!("the pivots are {}, expected i32", pivots.dtype)));
    }
    let Some((&count, lead)) = pivots.shape.split_last() else {
        return Err(Error::shape(op, "the pivots have rank 0, expected [.., k]"));
    };
    if count > rows || rows > i32::MAX as usize {
        return Err(Error::shape(op, format!("{count} pivots do not fit {rows} rows")));
    }
    let mut shape = Dims::from_slice(lead);
    shape.push(rows);
    Ok(smallvec![TensorType { dtype: DType::I32, shape }])
}

/// Applies a primitive that has one output.
pub(crate) fn apply1<B: Builder>(b: &B, prim: Linalg, operands: &[B::Value]) -> Result<B::Value> {
    b.apply1(Prim::Linalg(prim), operands)
}

/// The transpose of matrices, as a view.
pub(crate) fn adjoint<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    ops::transpose(b, x, -1, -2)
}

/// `a^-1 right` for a triangular `a`, of which that triangle alone is read.
pub(crate) fn triangular<B: Builder>(
    b: &B,
    a: &B::Value,
    right: &B::Value,
    upper: bool,
    unit: bool,
) -> Result<B::Value> {
    let prim = Linalg::TriangularSolve { upper, unit, full_rank: false };
    apply1(b, prim, &[a.clone(), right.clone()])
}

/// `left a^-1` for a triangular `a`: the transpose of `a^-T left^T`.
pub(crate) fn triangular_right<B: Builder>(
    b: &B,
    left: &B::Value,
    a: &B::Value,
    upper: bool,
    unit: bool,
) -> Result<B::Value> {
    let solved = triangular(b, &adjoint(b, a)?, &adjoint(b, left)?, !upper, unit)?;
    adjoint(b, &solved)
}

/// The vectors of the last axis as diagonal matrices.
pub(crate) fn diagonal_matrix<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let n = b.ty(x).shape.last().copied().unwrap_or(1);
    let zero = ops::scalar(b, 0i64, b.ty(x).dtype)?;
    ops::where_(b, &ops::eye(b, n, DType::Bool)?, &ops::unsqueeze(b, x, -1)?, &zero)
}

/// `1 / x` where `x` is not zero, else 0; its derivative is as finite.
pub(crate) fn safe_reciprocal<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let is_zero = ops::eq_scalar(b, x, 0.0)?;
    let (zero, one) = (ops::scalar(b, 0i64, b.ty(x).dtype)?, ops::scalar(b, 1i64, b.ty(x).dtype)?);
    let safe = ops::where_(b, &is_zero, &one, x)?;
    ops::where_(b, &is_zero, &zero, &ops::reciprocal(b, &safe)?)
}

/// Columns `start..stop` of matrices.
pub(super) fn columns<B: Builder>(b: &B, x: &B::Value, start: usize, stop: usize) -> Result<B::Value> {
    let axis = b.ty(x).rank() - 1;
    ops::slice_axis(b, x, axis, start, stop, 1)
}

/// Rows `start..stop` of matrices.
pub(super) fn rows<B: Builder>(b: &B, x: &B::Value, start: usize, stop: usize) -> Result<B::Value> {
    let axis = b.ty(x).rank() - 2;
    ops::slice_axis(b, x, axis, start, stop, 1)
}

/// The sizes of the last two axes.
pub(super) fn sizes<B: Builder>(b: &B, x: &B::Value) -> (usize, usize) {
    match b.ty(x).shape[..] {
        [.., m, n] => (m, n),
        _ => (0, 0),
    }
}
