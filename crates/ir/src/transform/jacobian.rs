//! Whole matrices of derivatives: one direction after another, all in one vectorised pass.

use super::forward::{jvp, vmap_graph};
use super::gradient::{check_wrt, grad_of, vjp};
use super::record::is_differentiable;
use crate::builder::Lazy;
use crate::error::{Error, Result};
use crate::graph::Value;
use crate::layout::{Dims, TensorType, numel};
use crate::ops;

/// The Jacobian of `output` in each value of `wrt`, of shape `[output's axes.., value's axes..]`, by reverse mode: one pass
/// for each element of the output, as one vectorised pass. Cheap where the output is small. Zeros where the output
/// does not depend on the value.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value, ops, transform};
///
/// let x = Value::leaf(TensorType::new(DType::F32, [3]))?;
/// let y = ops::sin(&Lazy, &x)?;
/// assert_eq!(transform::jacrev(&y, &[x])?[0].ty().shape[..], [3, 3]);
/// # Ok::<(), lanthorn_ir::Error>(())
/// ```
///
/// Errors: an output or a `wrt` that is not of a floating-point dtype.
pub fn jacrev(output: &Value, wrt: &[Value]) -> Result<Vec<Value>> {
    check("jacrev", output, wrt)?;
    let cotangent = Value::leaf(output.ty().clone())?;
    let rows = vjp(std::slice::from_ref(output), std::slice::from_ref(&cotangent), wrt)?;
    let mut jacobians = Vec::with_capacity(wrt.len());
    for (row, x) in rows.into_iter().zip(wrt) {
        let shape = joined(&output.ty().shape, &x.ty().shape);
        jacobians.push(match row {
            Some(row) if numel(&shape) > 0 => {
                let directions = directions(output.ty())?;
                let size = directions.ty().shape[0];
                let rows = vmap_graph(&[row], &[(cotangent.clone(), directions)], size)?;
                ops::reshape_to(&Lazy, &rows[0], &shape)?
            }
            _ => ops::zeros(&Lazy, &shape, x.ty().dtype)?,
        });
    }
    Ok(jacobians)
}

/// The Jacobian of `output` in each value of `wrt`, of shape `[output's axes.., value's axes..]`, by forward mode: one pass
/// for each element of the values, as one vectorised pass. Cheap where the values are small. Zeros where the output
/// does not depend on the value.
///
/// Errors: an output or a `wrt` that is not of a floating-point dtype.
pub fn jacfwd(output: &Value, wrt: &[Value]) -> Result<Vec<Value>> {
    check("jacfwd", output, wrt)?;
    let mut jacobians = Vec::with_capacity(wrt.len());
    for x in wrt {
        let shape = joined(&output.ty().shape, &x.ty().shape);
        let tangent = Value::leaf(x.ty().clone())?;
        let column =
            jvp(std::slice::from_ref(output), std::slice::from_ref(x), std::slice::from_ref(&tangent))?;
        jacobians.push(match column.into_iter().next().flatten() {
            Some(column) if numel(&shape) > 0 => {
                let directions = directions(x.ty())?;
                let size = directions.ty().shape[0];
                let columns = vmap_graph(&[column], &[(tangent, directions)], size)?;
                let flat = ops::reshape_to(&Lazy, &columns[0], &[size, output.ty().numel()])?;
                ops::reshape_to(&Lazy, &ops::transpose(&Lazy, &flat, 0, 1)?, &shape)?
            }
            _ => ops::zeros(&Lazy, &shape, output.ty().dtype)?,
        });
    }
    Ok(jacobians)
}

/// The second derivatives of a loss of one element: row `i`, column `j` is that in `wrt[i]` and `wrt[j]`, of shape
/// `[axes of wrt[i].., axes of wrt[j]..]`; forward mode over reverse mode.
///
/// Errors: a loss of more than one element or not of a floating-point dtype; a `wrt` that is not of one.
pub fn hessian(loss: &Value, wrt: &[Value]) -> Result<Vec<Vec<Value>>> {
    grad_of("hessian", loss, wrt)?.iter().map(|gradient| jacfwd(gradient, wrt)).collect()
}

fn check(op: &str, output: &Value, wrt: &[Value]) -> Result<()> {
    if !is_differentiable(&Lazy, output) {
        let ty = output.ty();
        return Err(Error::dtype(op, format!("the output is {ty}, expected a floating-point dtype")));
    }
    check_wrt(op, &Lazy, wrt)
}

fn joined(outer: &[usize], inner: &[usize]) -> Dims {
    outer.iter().chain(inner).copied().collect()
}

/// Every unit direction of a type, along a leading axis.
fn directions(ty: &TensorType) -> Result<Value> {
    let size = ty.numel();
    ops::reshape_to(&Lazy, &ops::eye(&Lazy, size, ty.dtype)?, &joined(&[size], &ty.shape))
}
