//! Derivatives of the factorisations. Letters: `d_` a tangent, `g_` a cotangent.

use super::linalg::{
    Linalg, adjoint, apply1, columns, diagonal_matrix, rows, safe_reciprocal, sizes, triangular,
    triangular_right,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::resolve_axis;
use crate::ops;
use crate::prim::{Applied, Optional, derived};

/// `X -> X + X^T`.
fn plus_adjoint<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    ops::add(b, x, &adjoint(b, x)?)
}

/// The lower triangle with half the diagonal: Murray's `Phi`.
fn half_lower<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let both = ops::add(b, &ops::tril(b, x, 0)?, &ops::tril(b, x, -1)?)?;
    ops::mul_scalar(b, &both, 0.5)
}

/// Murray 2016, "Differentiation of the Cholesky decomposition", equation 8: `g_a = l^-T Phi(l^T g_l) l^-1`.
pub(super) fn cholesky_vjp<B: Builder>(b: &B, l: &B::Value, t: &B::Value) -> Result<B::Value> {
    let inner = half_lower(b, &ops::matmul(b, &adjoint(b, l)?, &ops::tril(b, t, 0)?)?)?;
    let left = triangular(b, &adjoint(b, l)?, &inner, true, false)?;
    triangular_right(b, &left, l, false, false)
}

/// Murray 2016, equation 6: `d_l = l Phi(l^-1 d_a l^-T)`.
pub(super) fn cholesky_jvp<B: Builder>(b: &B, l: &B::Value, t: &B::Value) -> Result<B::Value> {
    let left = triangular(b, l, t, false, false)?;
    let inner = triangular_right(b, &left, &adjoint(b, l)?, true, false)?;
    ops::matmul(b, l, &half_lower(b, &inner)?)
}

/// The square part of a packed LU, and what the longer side has beyond it.
struct Packed<V> {
    k: usize,
    square: V,
    /// Columns of `u` beyond `k`.
    right: Option<V>,
    /// Rows of `l` beyond `k`.
    below: Option<V>,
}

impl<V: Clone> Packed<V> {
    fn of<B: Builder<Value = V>>(b: &B, x: &V) -> Result<Self> {
        let (m, n) = sizes(b, x);
        let k = m.min(n);
        let right = if n > k { Some(columns(b, x, k, n)?) } else { None };
        let below = if m > k { Some(rows(b, x, k, m)?) } else { None };
        Ok(Packed { k, square: columns(b, &rows(b, x, 0, k)?, 0, k)?, right, below })
    }

    /// The whole from its parts.
    fn join<B: Builder<Value = V>>(b: &B, square: V, right: Option<V>, below: Option<V>) -> Result<V> {
        match (right, below) {
            (Some(right), _) => ops::concat(b, &[square, right], -1),
            (None, Some(below)) => ops::concat(b, &[square, below], -2),
            (None, None) => Ok(square),
        }
    }
}

/// `x` with its rows in the order of the pivots, or back.
pub(crate) fn permute_rows<B: Builder>(
    b: &B,
    x: &B::Value,
    pivots: &B::Value,
    inverse: bool,
) -> Result<B::Value> {
    let shape = ops::shape_of(b, x);
    let axis = resolve_axis("lu", -2, shape.len())?;
    let order = apply1(b, Linalg::Permutation { rows: shape[axis], inverse }, &[pivots.clone()])?;
    let order = ops::broadcast_to(b, &ops::unsqueeze(b, &order, -1)?, &shape)?;
    ops::gather(b, x, -2, &order)
}

/// With `p a = l u` square, `l^-1 p d_a u^-1` splits into `l^-1 d_l` below the diagonal and `d_u u^-1` on and above it
/// (de Hoog, Anderssen and Lukas 2011, "Differentiation of matrix functionals using triangular factorization",
/// section 3). This is the transpose of that map; for the longer side, `u_2 = l^-1 p a_2` and `l_2 = p a_2 u^-1` are
/// differentiated beside it.
pub(super) fn lu_vjp<B: Builder>(b: &B, outputs: &[B::Value], t: &B::Value) -> Result<B::Value> {
    let (lu, g) = (Packed::of(b, &outputs[0])?, Packed::of(b, t)?);
    let (l_adjoint, u_adjoint) = (adjoint(b, &lu.square)?, adjoint(b, &lu.square)?);
    let mut g_l = ops::tril(b, &g.square, -1)?;
    let mut g_u = ops::triu(b, &g.square, 0)?;
    let (mut right, mut below) = (None, None);
    if let (Some(u), Some(g)) = (&lu.right, &g.right) {
        let solved = triangular(b, &l_adjoint, g, true, true)?;
        let share = ops::matmul(b, &solved, &adjoint(b, u)?)?;
        g_l = ops::sub(b, &g_l, &ops::tril(b, &share, -1)?)?;
        right = Some(solved);
    }
    if let (Some(l), Some(g)) = (&lu.below, &g.below) {
        let solved = triangular_right(b, g, &u_adjoint, false, false)?;
        let share = ops::matmul(b, &adjoint(b, l)?, &solved)?;
        g_u = ops::sub(b, &g_u, &ops::triu(b, &share, 0)?)?;
        below = Some(solved);
    }
    let (l, u) = (unit_lower(b, &lu.square)?, ops::triu(b, &lu.square, 0)?);
    let from_l = ops::tril(b, &ops::matmul(b, &adjoint(b, &l)?, &g_l)?, -1)?;
    let from_u = ops::triu(b, &ops::matmul(b, &g_u, &adjoint(b, &u)?)?, 0)?;
    let inner = triangular(b, &l_adjoint, &ops::add(b, &from_l, &from_u)?, true, true)?;
    let square = triangular_right(b, &inner, &u_adjoint, false, false)?;
    permute_rows(b, &Packed::join(b, square, right, below)?, &outputs[1], true)
}

pub(super) fn lu_jvp<B: Builder>(b: &B, outputs: &[B::Value], t: &B::Value) -> Result<B::Value> {
    let lu = Packed::of(b, &outputs[0])?;
    let d = Packed::of(b, &permute_rows(b, t, &outputs[1], false)?)?;
    let left = triangular(b, &lu.square, &d.square, false, true)?;
    let inner = triangular_right(b, &left, &lu.square, true, false)?;
    let (l, u) = (unit_lower(b, &lu.square)?, ops::triu(b, &lu.square, 0)?);
    let d_l = ops::matmul(b, &l, &ops::tril(b, &inner, -1)?)?;
    let d_u = ops::matmul(b, &ops::triu(b, &inner, 0)?, &u)?;
    let (mut right, mut below) = (None, None);
    if let (Some(u), Some(d)) = (&lu.right, &d.right) {
        let rest = ops::sub(b, d, &ops::matmul(b, &d_l, u)?)?;
        right = Some(triangular(b, &lu.square, &rest, false, true)?);
    }
    if let (Some(l), Some(d)) = (&lu.below, &d.below) {
        let rest = ops::sub(b, d, &ops::matmul(b, l, &d_u)?)?;
        below = Some(triangular_right(b, &rest, &lu.square, true, false)?);
    }
    debug_assert_eq!(sizes(b, &d_l).0, lu.k);
    Packed::join(b, ops::add(b, &d_l, &d_u)?, right, below)
}

/// The unit lower triangle of a packed square LU.
pub(crate) fn unit_lower<B: Builder>(b: &B, lu: &B::Value) -> Result<B::Value> {
    let (n, _) = sizes(b, lu);
    ops::add(b, &ops::tril(b, lu, -1)?, &ops::eye(b, n, b.ty(lu).dtype)?)
}

fn complete_is_not_smooth(m: usize, n: usize) -> Error {
    Error::unsupported(
        "qr",
        format!(
            "the complete q of matrices with more rows ({m}) than columns ({n}) has no derivative: its last columns \
             are any basis; use the reduced mode"
        ),
    )
}

/// Roberts and Roberts 2020, "QR and LQ decomposition matrix backpropagation algorithms for square, wide, and deep
/// matrices": with `m = g_r r^T - q^T g_q` and its upper triangle mirrored,
/// `g_a = (g_q + q mirror(m)) r^-T`. Where there are more columns than rows, the first square block fixes `q` and the
/// rest is `q^T a`.
pub(super) fn qr_vjp<B: Builder>(
    b: &B,
    complete: bool,
    at: &Applied<'_, B::Value>,
    g_q: &Option<B::Value>,
    g_r: &Option<B::Value>,
) -> Result<Option<B::Value>> {
    let (m, n) = sizes(b, &at.inputs[0]);
    let k = m.min(n);
    let (mut q, mut r, mut g_r) = (at.outputs[0].clone(), at.outputs[1].clone(), g_r.clone());
    if complete && m > n {
        if g_q.is_some() {
            return Err(complete_is_not_smooth(m, n));
        }
        (q, r) = (columns(b, &q, 0, k)?, rows(b, &r, 0, k)?);
        g_r = g_r.map(|g| rows(b, &g, 0, k)).transpose()?;
    }
    let mut g_q = g_q.clone();
    let mut right = None;
    let mut square = r.clone();
    if n > m {
        square = columns(b, &r, 0, m)?;
        if let Some(g) = &g_r {
            let g_rest = columns(b, g, m, n)?;
            let rest = columns(b, &at.inputs[0], m, n)?;
            let share = ops::matmul(b, &rest, &adjoint(b, &g_rest)?)?;
            g_q = derived::add_optional(b, g_q, Some(share))?;
            right = Some(ops::matmul(b, &q, &g_rest)?);
            g_r = Some(columns(b, g, 0, m)?);
        }
    }
    let from_r = match &g_r {
        Some(g) => Some(ops::matmul(b, &ops::triu(b, g, 0)?, &adjoint(b, &square)?)?),
        None => None,
    };
    let from_q = match &g_q {
        Some(g) => Some(ops::neg(b, &ops::matmul(b, &adjoint(b, &q)?, g)?)?),
        None => None,
    };
    let Some(inner) = derived::add_optional(b, from_r, from_q)? else { return Ok(None) };
    let mirrored = ops::add(b, &ops::triu(b, &inner, 0)?, &adjoint(b, &ops::triu(b, &inner, 1)?)?)?;
    let mut g = ops::matmul(b, &q, &mirrored)?;
    if let Some(g_q) = &g_q {
        g = ops::add(b, g_q, &g)?;
    }
    let mut g_a = triangular_right(b, &g, &adjoint(b, &square)?, false, false)?;
    if n > m {
        let rest = match right {
            Some(right) => right,
            None => ops::zeros_like(b, &columns(b, &at.inputs[0], m, n)?)?,
        };
        g_a = ops::concat(b, &[g_a, rest], -1)?;
    }
    Ok(Some(g_a))
}

/// With `c = q^T d_a r^-1`, the part of `c` below the diagonal is that of the skew `q^T d_q`; the rest is `d_r r^-1`.
pub(super) fn qr_jvp<B: Builder>(
    b: &B,
    complete: bool,
    at: &Applied<'_, B::Value>,
    t: &B::Value,
) -> Result<Optional<B::Value>> {
    let (m, n) = sizes(b, &at.inputs[0]);
    if complete && m > n {
        return Err(complete_is_not_smooth(m, n));
    }
    let (q, r) = (&at.outputs[0], &at.outputs[1]);
    let k = m.min(n);
    let (square, d_square) = (columns(b, r, 0, k)?, columns(b, t, 0, k)?);
    let scaled = triangular_right(b, &d_square, &square, true, false)?;
    let inner = ops::matmul(b, &adjoint(b, q)?, &scaled)?;
    let upper = ops::add(b, &ops::triu(b, &inner, 0)?, &adjoint(b, &ops::tril(b, &inner, -1)?)?)?;
    let d_q = ops::sub(b, &scaled, &ops::matmul(b, q, &upper)?)?;
    let mut d_r = ops::matmul(b, &upper, &ops::triu(b, &square, 0)?)?;
    if n > m {
        let (rest, d_rest) = (columns(b, &at.inputs[0], m, n)?, columns(b, t, m, n)?);
        let fixed = ops::matmul(b, &adjoint(b, q)?, &d_rest)?;
        let turned = ops::matmul(b, &adjoint(b, &d_q)?, &rest)?;
        d_r = ops::concat(b, &[d_r, ops::add(b, &fixed, &turned)?], -1)?;
    }
    Ok(vec![Some(d_q), Some(d_r)])
}

/// `1 / (x_j - x_i)`, 0 where they are equal: vectors of one value are determined up to a rotation among themselves,
/// of which no derivative exists; it counts as none.
fn gaps<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let gap = ops::sub(b, &ops::unsqueeze(b, x, -2)?, &ops::unsqueeze(b, x, -1)?)?;
    safe_reciprocal(b, &gap)
}

/// Giles 2008, "An extended collection of matrix derivative results", section 3.1:
/// `g_a = v (diag(g_l) + f * (v^T g_v)) v^T` with `f_ij = 1 / (l_j - l_i)`.
pub(super) fn eigh_vjp<B: Builder>(
    b: &B,
    outputs: &[B::Value],
    g_values: &Option<B::Value>,
    g_vectors: &Option<B::Value>,
) -> Result<Option<B::Value>> {
    let (values, vectors) = (&outputs[0], &outputs[1]);
    let on_diagonal = g_values.as_ref().map(|g| diagonal_matrix(b, g)).transpose()?;
    let beside = match g_vectors {
        Some(g) => Some(ops::mul(b, &gaps(b, values)?, &ops::matmul(b, &adjoint(b, vectors)?, g)?)?),
        None => None,
    };
    let Some(inner) = derived::add_optional(b, on_diagonal, beside)? else { return Ok(None) };
    ops::matmul(b, &ops::matmul(b, vectors, &inner)?, &adjoint(b, vectors)?).map(Some)
}

pub(super) fn eigh_jvp<B: Builder>(b: &B, outputs: &[B::Value], t: &B::Value) -> Result<Optional<B::Value>> {
    let (values, vectors) = (&outputs[0], &outputs[1]);
    let inner = ops::matmul(b, &ops::matmul(b, &adjoint(b, vectors)?, t)?, vectors)?;
    let d_values = diagonal_of(b, &inner)?;
    let d_vectors = ops::matmul(b, vectors, &ops::mul(b, &gaps(b, values)?, &inner)?)?;
    Ok(vec![Some(d_values), Some(d_vectors)])
}

/// The diagonal of square matrices as a sum over masked columns.
pub(crate) fn diagonal_of<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let (n, _) = sizes(b, x);
    let zero = ops::scalar(b, 0i64, b.ty(x).dtype)?;
    let kept = ops::where_(b, &ops::eye(b, n, DType::Bool)?, x, &zero)?;
    ops::sum(b, &kept, &[-1], false)
}

/// `1 / (s_j^2 - s_i^2)`, 0 where equal, factored so that near values lose no digits; see [`gaps`].
fn square_gaps<B: Builder>(b: &B, s: &B::Value) -> Result<B::Value> {
    let (row, column) = (ops::unsqueeze(b, s, -2)?, ops::unsqueeze(b, s, -1)?);
    let product = ops::mul(b, &ops::sub(b, &row, &column)?, &ops::add(b, &row, &column)?)?;
    safe_reciprocal(b, &product)
}

/// `x - q (q^T x)`: what the columns of `q` do not span.
fn outside<B: Builder>(b: &B, q: &B::Value, x: &B::Value) -> Result<B::Value> {
    let inside = ops::matmul(b, q, &ops::matmul(b, &adjoint(b, q)?, x)?)?;
    ops::sub(b, x, &inside)
}

/// Townsend 2016, "Differentiating the singular value decomposition", section 3. Factors of `1 / s` are 0 where `s` is.
pub(super) fn svd_vjp<B: Builder>(
    b: &B,
    outputs: &[B::Value],
    g_u: &Option<B::Value>,
    g_s: &Option<B::Value>,
    g_vt: &Option<B::Value>,
) -> Result<Option<B::Value>> {
    let (u, s, vt) = (&outputs[0], &outputs[1], &outputs[2]);
    let (m, n, k) = (sizes(b, u).0, sizes(b, vt).1, sizes(b, u).1);
    let v = adjoint(b, vt)?;
    let (row, column) = (ops::unsqueeze(b, s, -2)?, ops::unsqueeze(b, s, -1)?);
    // f * (x - x^T) for x = u^T g_u or v^T g_v.
    let turned = |q: &B::Value, g: &B::Value| -> Result<B::Value> {
        let x = ops::matmul(b, &adjoint(b, q)?, g)?;
        ops::mul(b, &square_gaps(b, s)?, &ops::sub(b, &x, &adjoint(b, &x)?)?)
    };
    let mut inner = g_s.as_ref().map(|g| diagonal_matrix(b, g)).transpose()?;
    let inverse = safe_reciprocal(b, &row)?;
    let mut beyond = None;
    if let Some(g) = g_u {
        inner = derived::add_optional(b, inner, Some(ops::mul(b, &turned(u, g)?, &row)?))?;
        if m > k {
            let part = ops::mul(b, &outside(b, u, g)?, &inverse)?;
            beyond = Some(ops::matmul(b, &part, vt)?);
        }
    }
    if let Some(g) = g_vt {
        let g = adjoint(b, g)?;
        inner = derived::add_optional(b, inner, Some(ops::mul(b, &column, &turned(&v, &g)?)?))?;
        if n > k {
            let part = ops::mul(b, &outside(b, &v, &g)?, &inverse)?;
            let part = ops::matmul(b, u, &adjoint(b, &part)?)?;
            beyond = derived::add_optional(b, beyond, Some(part))?;
        }
    }
    let Some(inner) = inner else { return Ok(beyond) };
    let within = ops::matmul(b, &ops::matmul(b, u, &inner)?, vt)?;
    derived::add_optional(b, Some(within), beyond)
}

pub(super) fn svd_jvp<B: Builder>(b: &B, outputs: &[B::Value], t: &B::Value) -> Result<Optional<B::Value>> {
    let (u, s, vt) = (&outputs[0], &outputs[1], &outputs[2]);
    let (m, n, k) = (sizes(b, u).0, sizes(b, vt).1, sizes(b, u).1);
    let v = adjoint(b, vt)?;
    let (row, column) = (ops::unsqueeze(b, s, -2)?, ops::unsqueeze(b, s, -1)?);
    let d_v_image = ops::matmul(b, t, &v)?;
    let inner = ops::matmul(b, &adjoint(b, u)?, &d_v_image)?;
    let (gaps, inverse) = (square_gaps(b, s)?, safe_reciprocal(b, &row)?);
    let turn = |scaled: B::Value| ops::mul(b, &gaps, &plus_adjoint(b, &scaled)?);
    let mut d_u = ops::matmul(b, u, &turn(ops::mul(b, &inner, &row)?)?)?;
    let mut d_v = ops::matmul(b, &v, &turn(ops::mul(b, &column, &inner)?)?)?;
    if m > k {
        d_u = ops::add(b, &d_u, &ops::mul(b, &outside(b, u, &d_v_image)?, &inverse)?)?;
    }
    if n > k {
        let d_u_image = ops::matmul(b, &adjoint(b, t)?, u)?;
        d_v = ops::add(b, &d_v, &ops::mul(b, &outside(b, &v, &d_u_image)?, &inverse)?)?;
    }
    Ok(vec![Some(d_u), Some(diagonal_of(b, &inner)?), Some(adjoint(b, &d_v)?)])
}
