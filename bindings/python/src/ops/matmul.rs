//! Matrix products.

use lanthorn_ir::prim::Contract;
use lanthorn_ir::{DType, Dims, Prim};
use smallvec::smallvec;

use super::arithmetic::Pair;
use super::{broadcast_shapes, views};
use crate::autograd::history::{is_recorded, record};
use crate::autograd::node::{Formula, Gradients};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::tensor::promote::scalar_type_name;

fn check_dtypes(a: &Tensor, b: &Tensor) -> Result<()> {
    if a.dtype() == b.dtype() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        upstream_ctype(a.dtype()),
        upstream_ctype(b.dtype())
    )))
}

fn upstream_ctype(dtype: DType) -> String {
    match dtype {
        DType::F32 => "float".into(),
        DType::F64 => "double".into(),
        DType::I32 => "int".into(),
        DType::I64 => "long int".into(),
        DType::BF16 => "c10::BFloat16".into(),
        DType::F16 => "c10::Half".into(),
        other => scalar_type_name(other).to_lowercase(),
    }
}

/// The product of equally batched matrices of floats.
fn product(name: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    check_dtypes(a, b)?;
    let dtype = a.dtype();
    if !dtype.is_float() {
        return Err(Error::not_implemented(format!(
            "\"addmm_impl_cpu_\" not implemented for '{}'",
            scalar_type_name(dtype)
        )));
    }
    let prim = Prim::Contract(Contract::MatMul { out: dtype });
    let result = Tensor::new(super::apply(prim, &[a.data(), b.data()])?);
    if is_recorded(&[a, b]) {
        let (saved, pair) = Pair::save(a, b, true);
        let formula: Formula = Box::new(move |call| {
            let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
            let (a, b) = pair.unpack(call);
            let da = match b.filter(|_| call.wants(0)) {
                Some(b) => Some(product(name, gradient, &views::transpose(b, -2, -1)?)?),
                None => None,
            };
            let db = match a.filter(|_| call.wants(1)) {
                Some(a) => Some(product(name, &views::transpose(a, -2, -1)?, gradient)?),
                None => None,
            };
            Ok(smallvec![da, db])
        });
        record(name, &[a, b], &result, saved, formula);
    }
    Ok(result)
}

/// `[m, k]` times `[k, n]`.
pub fn mm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let ([m, k], [rows, n]) = (a.shape(), b.shape()) else {
        let at = if a.rank() == 2 { "mat2" } else { "self" };
        return Err(Error::runtime(format!("{at} must be a matrix")));
    };
    if k != rows {
        return Err(Error::runtime(format!(
            "mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {rows}x{n})"
        )));
    }
    product("MmBackward0", a, b)
}

/// `[batch, m, k]` times `[batch, k, n]`.
pub fn bmm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let ([batch, _, k], [other, rows, n]) = (a.shape(), b.shape()) else {
        let at = if a.rank() == 3 { "batch2" } else { "batch1" };
        return Err(Error::runtime(format!("{at} must be a 3D tensor")));
    };
    if batch != other || k != rows {
        return Err(Error::runtime(format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{batch}, {k}] but got: [{other}, {rows}]. \
             The last is {n}."
        )));
    }
    product("BmmBackward0", a, b)
}

/// The product as `@` has it: vectors count as a row on the left and a column on the right, batch axes broadcast.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.rank(), b.rank()) {
        (0, _) | (_, 0) => Err(Error::runtime(format!(
            "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
            a.rank(),
            b.rank()
        ))),
        (1, 1) => {
            if a.shape() != b.shape() {
                return Err(Error::runtime(format!(
                    "inconsistent tensor size, expected tensor {} and src {} to have the same number of elements, but \
                     got {} and {} elements respectively",
                    super::show(a.shape()),
                    super::show(b.shape()),
                    a.numel(),
                    b.numel()
                )));
            }
            let product = mm(&views::unsqueeze(a, 0)?, &views::unsqueeze(b, 1)?)?;
            views::reshape_to(&product, &[])
        }
        (2, 2) => mm(a, b),
        (1, 2) => views::squeeze(&mm(&views::unsqueeze(a, 0)?, b)?, Some(&[0])),
        (2, 1) => views::squeeze(&mm(a, &views::unsqueeze(b, 1)?)?, Some(&[1])),
        (1, _) => {
            let product = batched(&views::unsqueeze(a, 0)?, b)?;
            views::squeeze(&product, Some(&[-2]))
        }
        (_, 1) => {
            let product = batched(a, &views::unsqueeze(b, 1)?)?;
            views::squeeze(&product, Some(&[-1]))
        }
        _ => batched(a, b),
    }
}

fn batched(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (sa, sb) = (a.shape(), b.shape());
    let (lead_a, lead_b) = (&sa[..sa.len() - 2], &sb[..sb.len() - 2]);
    let (m, k, n) = (sa[sa.len() - 2], sa[sa.len() - 1], sb[sb.len() - 1]);
    if lead_b.is_empty() {
        // One matrix on the right: the batch folds into rows.
        let rows = lead_a.iter().product::<usize>() * m;
        let folded = mm(&views::reshape_to(a, &[rows, k])?, b)?;
        let mut shape = Dims::from_slice(lead_a);
        shape.extend([m, n]);
        return views::reshape_to(&folded, &shape);
    }
    let lead = broadcast_shapes(lead_a, lead_b)?;
    let count: usize = lead.iter().product();
    let flat = |x: &Tensor, rows: usize, columns: usize| {
        let mut shape = lead.clone();
        shape.extend([rows, columns]);
        views::reshape_to(&views::expand_to(x, &shape)?, &[count, rows, columns])
    };
    let (left, right) = (flat(a, m, k)?, flat(b, sb[sb.len() - 2], n)?);
    let folded = bmm(&left, &right)?;
    let mut shape = lead.clone();
    shape.extend([m, n]);
    views::reshape_to(&folded, &shape)
}

/// How many multiplications a product of these takes.
pub fn work(a: &Tensor, b: &Tensor) -> usize {
    let columns = if b.rank() > 1 { b.shape()[b.rank() - 1] } else { 1 };
    a.numel().saturating_mul(columns)
}
