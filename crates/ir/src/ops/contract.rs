//! Matrix products.

use super::{add, broadcast_to, cast, complex, mul, reshape_to, shape_of, sum, transpose, unsqueeze};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, broadcast_shapes, numel};
use crate::prim::{Contract, Prim};

/// The matrix product `[batch.., m, k] x [batch.., k, n]`; batch axes broadcast, an operand of rank 1 is a
/// row on the left and a column on the right and its axis goes away, as in NumPy and torch.
pub fn matmul<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    let out = b.ty(x).dtype;
    matmul_as(b, x, y, out)
}

/// [`matmul`] with the accumulated result rounded once to `out`.
pub fn matmul_as<B: Builder>(b: &B, x: &B::Value, y: &B::Value, out: DType) -> Result<B::Value> {
    let (sx, sy) = (shape_of(b, x), shape_of(b, y));
    if sx.is_empty() || sy.is_empty() {
        return Err(Error::shape(
            "matmul",
            format!("shapes {} and {}: each operand needs at least one axis", ShowShape(&sx), ShowShape(&sy)),
        ));
    }
    if sx.len() == 1 {
        let product = matmul_as(b, &unsqueeze(b, x, 0)?, y, out)?;
        let mut shape = shape_of(b, &product);
        // With a column on the right, the inner call has dropped its axis already.
        shape.remove(if sy.len() == 1 { shape.len() - 1 } else { shape.len() - 2 });
        return reshape_to(b, &product, &shape);
    }
    if sy.len() == 1 {
        let product = matmul_as(b, x, &unsqueeze(b, y, -1)?, out)?;
        let shape = shape_of(b, &product);
        return reshape_to(b, &product, &shape[..shape.len() - 1]);
    }
    let (mut x, mut y) = (x.clone(), y.clone());
    let (lead, m, k) = (&sx[..sx.len() - 2], sx[sx.len() - 2], sx[sx.len() - 1]);
    if sy.len() == 2 && !lead.is_empty() && k == sy[0] {
        // One matrix on the right: the batch folds into the rows of one product.
        let rows = rows_of("matmul", lead, m)?;
        let product = product(b, reshape_to(b, &x, &[rows, k])?, y, out)?;
        let mut shape = Dims::from_slice(lead);
        shape.extend([m, sy[1]]);
        return reshape_to(b, &product, &shape);
    }
    let batch = broadcast_shapes("matmul", lead, &sy[..sy.len() - 2])?;
    for (operand, shape) in [(&mut x, &sx), (&mut y, &sy)] {
        let mut full = batch.clone();
        full.extend_from_slice(&shape[shape.len() - 2..]);
        *operand = broadcast_to(b, operand, &full)?;
    }
    product(b, x, y, out)
}

fn product<B: Builder>(b: &B, x: B::Value, y: B::Value, out: DType) -> Result<B::Value> {
    if let (Some(part), true) = (b.ty(&x).dtype.part(), b.ty(&x).dtype == out) {
        return complex::matrix_product(b, &x, &y, |x, y| product(b, x.clone(), y.clone(), part));
    }
    b.apply1(Prim::Contract(Contract::MatMul { out }), &[x, y])
}

fn rows_of(op: &str, lead: &[usize], rows: usize) -> Result<usize> {
    numel(lead).checked_mul(rows).ok_or_else(|| Error::shape(op, "the sizes overflow"))
}

/// `x [.., in]` times `weight [out, in]` transposed, plus `bias [out]`: `[.., out]`. Leading axes fold into
/// the rows of one product.
pub fn linear<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
) -> Result<B::Value> {
    let (sx, sw) = (shape_of(b, x), shape_of(b, weight));
    let fits = !sx.is_empty() && sw.len() == 2 && sx[sx.len() - 1] == sw[1];
    if !fits {
        return Err(Error::shape(
            "linear",
            format!(
                "x {} and weight {} do not fit; expected [.., in] and [out, in]",
                ShowShape(&sx),
                ShowShape(&sw)
            ),
        ));
    }
    if let Some(bias) = bias {
        crate::prim::expect_shape("linear", "bias", b.ty(bias), &sw[..1])?;
    }
    let rows = numel(&sx[..sx.len() - 1]);
    let flat = reshape_to(b, x, &[rows, sw[1]])?;
    let dtype = b.ty(x).dtype;
    let mut y = product(b, flat, transpose(b, weight, 0, 1)?, dtype)?;
    if let Some(bias) = bias {
        y = add(b, &y, bias)?;
    }
    let mut shape = sx;
    let last = shape.len() - 1;
    shape[last] = sw[0];
    reshape_to(b, &y, &shape)
}

/// The inner product of the last axes, `[.., n] x [.., n] -> [..]`; half types accumulate in f32.
pub fn dot<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let wide = mul(b, &cast(b, x, dtype.wide())?, &cast(b, y, dtype.wide())?)?;
    cast(b, &sum(b, &wide, &[-1], false)?, dtype)
}

/// The outer product `[m] x [n] -> [m, n]`.
pub fn outer<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    mul(b, &unsqueeze(b, x, -1)?, &unsqueeze(b, y, 0)?)
}
