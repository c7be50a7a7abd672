//! The determinant and its logarithm: decompositions and derivatives.

use super::factors::diagonal_of;
use super::inverse;
use super::linalg::{Linalg, adjoint, apply1, diagonal_matrix, safe_reciprocal, sizes};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::ops;
use crate::prim::Prim;

/// The diagonal of `u` and the sign of the permutation, from the LU factorisation.
fn diagonal_and_sign<B: Builder>(b: &B, a: &B::Value) -> Result<(B::Value, B::Value)> {
    let factors = b.apply(Prim::Linalg(Linalg::Lu { regular: None }), std::slice::from_ref(a))?;
    let (n, _) = sizes(b, a);
    let stay = ops::add_scalar(b, &ops::iota(b, n, DType::I32)?, 1i64)?;
    let swaps = ops::cast(b, &ops::ne(b, &factors[1], &stay)?, b.ty(a).dtype)?;
    let odd = ops::rem_scalar(b, &ops::sum(b, &swaps, &[-1], false)?, 2.0)?;
    let sign = ops::rsub_scalar(b, &ops::mul_scalar(b, &odd, 2.0)?, 1.0)?;
    Ok((diagonal_of(b, &factors[0])?, sign))
}

/// The product of the diagonal of `u`, with the sign of the permutation.
pub(super) fn det<B: Builder>(b: &B, a: &B::Value) -> Result<B::Value> {
    let (diagonal, sign) = diagonal_and_sign(b, a)?;
    ops::mul(b, &ops::prod(b, &diagonal, &[-1], false)?, &sign)
}

pub(super) fn slogdet<B: Builder>(b: &B, a: &B::Value) -> Result<Vec<B::Value>> {
    let (diagonal, sign) = diagonal_and_sign(b, a)?;
    let signs = ops::prod(b, &ops::sign(b, &diagonal)?, &[-1], false)?;
    let logs = ops::sum(b, &ops::log(b, &ops::abs(b, &diagonal)?)?, &[-1], false)?;
    Ok(vec![ops::mul(b, &signs, &sign)?, logs])
}

/// One number a matrix, beside matrices.
fn beside<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    ops::unsqueeze(b, &ops::unsqueeze(b, x, -1)?, -1)
}

/// The sum over elements of a product of matrices.
fn inner<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    ops::sum(b, &ops::mul(b, x, y)?, &[-2, -1], false)
}

pub(super) fn det_vjp<B: Builder>(b: &B, a: &B::Value, t: &B::Value) -> Result<B::Value> {
    ops::mul(b, &beside(b, t)?, &apply1(b, Linalg::Cofactor, std::slice::from_ref(a))?)
}

pub(super) fn det_jvp<B: Builder>(b: &B, a: &B::Value, t: &B::Value) -> Result<B::Value> {
    inner(b, &apply1(b, Linalg::Cofactor, std::slice::from_ref(a))?, t)
}

/// `a^-T`; not finite where `a` is singular, for the logarithm's derivative is not.
fn inverse_adjoint<B: Builder>(b: &B, a: &B::Value) -> Result<B::Value> {
    let (n, _) = sizes(b, a);
    let identity = ops::broadcast_to(b, &ops::eye(b, n, b.ty(a).dtype)?, &b.ty(a).shape)?;
    apply1(b, Linalg::Solve { regular: None }, &[adjoint(b, a)?, identity])
}

pub(super) fn slogdet_vjp<B: Builder>(b: &B, a: &B::Value, t: &B::Value) -> Result<B::Value> {
    ops::mul(b, &beside(b, t)?, &inverse_adjoint(b, a)?)
}

pub(super) fn slogdet_jvp<B: Builder>(b: &B, a: &B::Value, t: &B::Value) -> Result<B::Value> {
    inner(b, &inverse_adjoint(b, a)?, t)
}

/// The parts of `a = u diag(s) vt`, and `det(u) det(v)`.
struct Parts<V> {
    u: V,
    s: V,
    vt: V,
    sign: V,
}

impl<V: Clone> Parts<V> {
    fn of<B: Builder<Value = V>>(b: &B, a: &V) -> Result<Self> {
        let factors = b.apply(Prim::Linalg(Linalg::Svd), std::slice::from_ref(a))?;
        let (u, s, vt) = (factors[0].clone(), factors[1].clone(), factors[2].clone());
        let det = |x: &V| apply1(b, Linalg::Det, std::slice::from_ref(x));
        let sign = ops::sign(b, &ops::mul(b, &det(&u)?, &det(&vt)?)?)?;
        Ok(Parts { u, s, vt, sign })
    }

    /// `det(u) det(v) u x vt`.
    fn around<B: Builder<Value = V>>(&self, b: &B, x: &V) -> Result<V> {
        let whole = ops::matmul(b, &ops::matmul(b, &self.u, x)?, &self.vt)?;
        ops::mul(b, &beside(b, &self.sign)?, &whole)
    }
}

/// `det(u) det(v) u diag(p) vt`, `p_i` the product of all singular values but the `i`-th: no division, so it holds for
/// any rank.
pub(super) fn cofactor<B: Builder>(b: &B, a: &B::Value) -> Result<B::Value> {
    let parts = Parts::of(b, a)?;
    let (n, _) = sizes(b, a);
    let one = ops::scalar(b, 1i64, b.ty(a).dtype)?;
    let others = ops::where_(b, &ops::eye(b, n, DType::Bool)?, &one, &ops::unsqueeze(b, &parts.s, -2)?)?;
    let products = ops::prod(b, &others, &[-1], false)?;
    let whole = inverse::composed(b, &parts.u, &products, &parts.vt)?;
    ops::mul(b, &beside(b, &parts.sign)?, &whole)
}

/// The derivative of the cofactor matrix in direction `x`, a symmetric map and so its own transpose. With `w = a^-T` it
/// is `det(a) (<w, x> w - w x^T w)`. A matrix that is singular to rounding takes the same expression in its singular
/// basis, where what cancels is left out: there `n_ij = -m_ji p_ij` and `n_ii = sum_j m_jj p_ij` over `j != i`, with
/// `m = u^T x v` and `p_ij` the product of all singular values but two.
pub(super) fn cofactor_slope<B: Builder>(b: &B, a: &B::Value, x: &B::Value) -> Result<B::Value> {
    let (n, _) = sizes(b, a);
    if n == 0 {
        return Ok(x.clone());
    }
    let dtype = b.ty(a).dtype;
    let epsilon = n as f64 * epsilon(dtype);
    let parts = Parts::of(b, a)?;
    let largest = ops::max(b, &parts.s, &[-1], true)?;
    let smallest = ops::min(b, &parts.s, &[-1], true)?;
    let floor = ops::mul_scalar(b, &largest, epsilon)?;
    let singular = ops::unsqueeze(b, &ops::le(b, &smallest, &floor)?, -1)?;

    let identity = ops::eye(b, n, dtype)?;
    let regular = ops::where_(b, &singular, &identity, a)?;
    let w = inverse_adjoint(b, &regular)?;
    let det = beside(b, &apply1(b, Linalg::Det, std::slice::from_ref(&regular))?)?;
    let along = ops::mul(b, &beside(b, &inner(b, &w, x)?)?, &w)?;
    let across = ops::matmul(b, &ops::matmul(b, &w, &adjoint(b, x)?)?, &w)?;
    let from_inverse = ops::mul(b, &det, &ops::sub(b, &along, &across)?)?;

    // A floor under the values errs by rounding, and lets products of all but two be quotients.
    let tiny = ops::scalar(b, tiny(dtype), dtype)?;
    let floored = ops::maximum(b, &ops::maximum(b, &parts.s, &floor)?, &tiny)?;
    let shares = safe_reciprocal(b, &floored)?;
    let pairs = ops::mul(b, &ops::unsqueeze(b, &shares, -1)?, &ops::unsqueeze(b, &shares, -2)?)?;
    let pairs = ops::mul(b, &beside(b, &ops::prod(b, &floored, &[-1], false)?)?, &pairs)?;
    let zero = ops::scalar(b, 0i64, dtype)?;
    let pairs = ops::where_(b, &ops::eye(b, n, DType::Bool)?, &zero, &pairs)?;
    let turned = ops::matmul(b, &ops::matmul(b, &adjoint(b, &parts.u)?, x)?, &adjoint(b, &parts.vt)?)?;
    let diagonal = ops::unsqueeze(b, &diagonal_of(b, &turned)?, -1)?;
    let on = diagonal_matrix(b, &ops::squeeze(b, &ops::matmul(b, &pairs, &diagonal)?, &[-1])?)?;
    let off = ops::mul(b, &pairs, &adjoint(b, &turned)?)?;
    let from_parts = parts.around(b, &ops::sub(b, &on, &off)?)?;

    ops::where_(b, &singular, &from_parts, &from_inverse)
}

/// The spacing of numbers at 1.
pub(crate) fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

/// A number whose square is still far from underflow.
fn tiny(dtype: DType) -> f64 {
    if dtype == DType::F32 { 1e-15 } else { 1e-100 }
}
