//! Linear systems, the pseudoinverse and the exponential: decompositions and derivatives.

use super::factors;
use super::linalg::{
    Asker, Linalg, adjoint, apply1, columns, diagonal_matrix, rows, safe_reciprocal, sizes, triangular,
};
use crate::builder::Builder;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops;
use crate::prim::{Applied, Batched, Optional, Prim, derived};

/// `g_b = a^-T g`, `g_a = -triangle(g_b x^T)`.
pub(super) fn triangular_vjp<B: Builder>(
    b: &B,
    upper: bool,
    unit: bool,
    at: &Applied<'_, B::Value>,
    t: &B::Value,
) -> Result<Optional<B::Value>> {
    let g_b = triangular(b, &adjoint(b, &at.inputs[0])?, t, !upper, unit)?;
    let mut found = at.no_cotangents();
    if at.wants(0) {
        let product = ops::neg(b, &ops::matmul(b, &g_b, &adjoint(b, &at.outputs[0])?)?)?;
        found[0] = Some(triangle(b, &product, upper, unit)?);
    }
    if at.wants(1) {
        found[1] = Some(g_b);
    }
    Ok(found)
}

/// `d_x = a^-1 (d_b - triangle(d_a) x)`.
pub(super) fn triangular_jvp<B: Builder>(
    b: &B,
    upper: bool,
    unit: bool,
    at: &Applied<'_, B::Value>,
    d_a: &Option<B::Value>,
    d_b: &Option<B::Value>,
) -> Result<Optional<B::Value>> {
    let d_a = d_a.as_ref().map(|t| triangle(b, t, upper, unit)).transpose()?;
    let Some(right) = right_tangent(b, &at.outputs[0], &d_a, d_b)? else { return Ok(vec![None]) };
    Ok(vec![Some(triangular(b, &at.inputs[0], &right, upper, unit)?)])
}

/// The elements that a triangular solve reads.
fn triangle<B: Builder>(b: &B, x: &B::Value, upper: bool, unit: bool) -> Result<B::Value> {
    if upper { ops::triu(b, x, isize::from(unit)) } else { ops::tril(b, x, -isize::from(unit)) }
}

/// `d_b - d_a x`.
fn right_tangent<B: Builder>(
    b: &B,
    x: &B::Value,
    d_a: &Option<B::Value>,
    d_b: &Option<B::Value>,
) -> Result<Option<B::Value>> {
    let moved = match d_a {
        Some(t) => Some(ops::neg(b, &ops::matmul(b, t, x)?)?),
        None => None,
    };
    derived::add_optional(b, d_b.clone(), moved)
}

/// By way of LU: `x = u^-1 l^-1 p b`.
pub(super) fn solve<B: Builder>(
    b: &B,
    regular: Option<Asker>,
    a: &B::Value,
    right: &B::Value,
) -> Result<B::Value> {
    let factors = b.apply(Prim::Linalg(Linalg::Lu { regular }), std::slice::from_ref(a))?;
    solve_factored(b, &factors[0], &factors[1], right)
}

/// `a^-1 right` from the packed LU of `a`.
pub(crate) fn solve_factored<B: Builder>(
    b: &B,
    lu: &B::Value,
    pivots: &B::Value,
    right: &B::Value,
) -> Result<B::Value> {
    let ordered = factors::permute_rows(b, right, pivots, false)?;
    triangular(b, lu, &triangular(b, lu, &ordered, false, true)?, true, false)
}

/// Giles 2008, section 2.3.1: `g_b = a^-T g`, `g_a = -g_b x^T`.
pub(super) fn solve_vjp<B: Builder>(
    b: &B,
    regular: Option<Asker>,
    at: &Applied<'_, B::Value>,
    t: &B::Value,
) -> Result<Optional<B::Value>> {
    let transposed = adjoint(b, &at.inputs[0])?;
    let g_b = apply1(b, Linalg::Solve { regular }, &[transposed, t.clone()])?;
    let mut found = at.no_cotangents();
    if at.wants(0) {
        found[0] = Some(ops::neg(b, &ops::matmul(b, &g_b, &adjoint(b, &at.outputs[0])?)?)?);
    }
    if at.wants(1) {
        found[1] = Some(g_b);
    }
    Ok(found)
}

/// `d_x = a^-1 (d_b - d_a x)`.
pub(super) fn solve_jvp<B: Builder>(
    b: &B,
    regular: Option<Asker>,
    at: &Applied<'_, B::Value>,
    d_a: &Option<B::Value>,
    d_b: &Option<B::Value>,
) -> Result<Optional<B::Value>> {
    let Some(right) = right_tangent(b, &at.outputs[0], d_a, d_b)? else { return Ok(vec![None]) };
    Ok(vec![Some(apply1(b, Linalg::Solve { regular }, &[at.inputs[0].clone(), right])?)])
}

/// One matrix and `size` right sides `[size, .., n, k]`: their columns stand side by side, `[.., n, size * k]`.
pub(super) fn batch_of_right_sides<B: Builder>(
    b: &B,
    prim: Prim,
    size: usize,
    matrix: &B::Value,
    right: &B::Value,
) -> Result<Vec<Batched<B::Value>>> {
    let shape = ops::shape_of(b, right);
    let (last, k) = (shape.len() - 1, shape[shape.len() - 1]);
    let aside = ops::move_axis(b, right, 0, last as isize - 1)?;
    let mut merged = Dims::from_slice(&shape[1..]);
    merged[last - 1] = size.saturating_mul(k);
    let solved = b.apply1(prim, &[matrix.clone(), ops::reshape_to(b, &aside, &merged)?])?;
    let mut split = Dims::from_slice(&shape[1..last]);
    split.extend([size, k]);
    let front = ops::move_axis(b, &ops::reshape_to(b, &solved, &split)?, last as isize - 1, 0)?;
    Ok(derived::with_axis([front]))
}

/// `v diag(1 / s) u^T` over the singular values above `rtol` of the largest.
pub(super) fn pinv<B: Builder>(b: &B, a: &B::Value, rtol: f64) -> Result<B::Value> {
    let (m, n) = sizes(b, a);
    if m == 0 || n == 0 {
        return ops::zeros_like(b, &adjoint(b, a)?);
    }
    let factors = b.apply(Prim::Linalg(Linalg::Svd), std::slice::from_ref(a))?;
    let (u, s, vt) = (&factors[0], &factors[1], &factors[2]);
    let cutoff = ops::mul_scalar(b, &ops::max(b, s, &[-1], true)?, rtol)?;
    let zero = ops::scalar(b, 0i64, b.ty(s).dtype)?;
    let kept = ops::where_(b, &ops::gt(b, s, &cutoff)?, s, &zero)?;
    let inverse = ops::unsqueeze(b, &safe_reciprocal(b, &kept)?, -2)?;
    ops::matmul(b, &ops::mul(b, &adjoint(b, vt)?, &inverse)?, &adjoint(b, u)?)
}

/// Golub and Pereyra 1973, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
/// variables separate", equation 4.12, at constant rank:
/// `d_p = -p d_a p + p p^T d_a^T (1 - a p) + (1 - p a) d_a^T p^T p`.
pub(super) fn pinv_jvp<B: Builder>(b: &B, a: &B::Value, p: &B::Value, t: &B::Value) -> Result<B::Value> {
    let (p_adjoint, t_adjoint) = (adjoint(b, p)?, adjoint(b, t)?);
    let product = |x: &B::Value, y: &B::Value| ops::matmul(b, x, y);
    let first = product(&product(p, t)?, p)?;
    let rows = product(p, &product(&p_adjoint, &t_adjoint)?)?;
    let second = ops::sub(b, &rows, &product(&product(&rows, a)?, p)?)?;
    let columns = product(&product(&t_adjoint, &p_adjoint)?, p)?;
    let third = ops::sub(b, &columns, &product(p, &product(a, &columns)?)?)?;
    ops::sub(b, &ops::add(b, &second, &third)?, &first)
}

/// The transpose of [`pinv_jvp`]: `-p^T g p^T + (1 - a p) g^T p p^T + p^T p g^T (1 - p a)`.
pub(super) fn pinv_vjp<B: Builder>(b: &B, a: &B::Value, p: &B::Value, t: &B::Value) -> Result<B::Value> {
    let (p_adjoint, t_adjoint) = (adjoint(b, p)?, adjoint(b, t)?);
    let product = |x: &B::Value, y: &B::Value| ops::matmul(b, x, y);
    let first = product(&product(&p_adjoint, t)?, &p_adjoint)?;
    let columns = product(&product(&t_adjoint, p)?, &p_adjoint)?;
    let second = ops::sub(b, &columns, &product(a, &product(p, &columns)?)?)?;
    let rows = product(&p_adjoint, &product(p, &t_adjoint)?)?;
    let third = ops::sub(b, &rows, &product(&product(&rows, p)?, a)?)?;
    ops::sub(b, &ops::add(b, &second, &third)?, &first)
}

/// The Frechet derivative of the exponential at `a` in direction `t`: the upper right block of
/// `exp [[a, t], [0, a]]` (Higham 2008, "Functions of Matrices", theorem 3.6).
pub(super) fn exp_slope<B: Builder>(b: &B, a: &B::Value, t: &B::Value) -> Result<B::Value> {
    let (n, _) = sizes(b, a);
    let above = ops::concat(b, &[a.clone(), t.clone()], -1)?;
    let below = ops::concat(b, &[ops::zeros_like(b, a)?, a.clone()], -1)?;
    let whole = apply1(b, Linalg::MatrixExp, &[ops::concat(b, &[above, below], -2)?])?;
    columns(b, &rows(b, &whole, 0, n)?, n, 2 * n)
}

/// The singular value decomposition's parts scaled: `u diag(x) vt`.
pub(super) fn composed<B: Builder>(b: &B, u: &B::Value, x: &B::Value, vt: &B::Value) -> Result<B::Value> {
    ops::matmul(b, &ops::matmul(b, u, &diagonal_matrix(b, x)?)?, vt)
}
