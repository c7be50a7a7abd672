//! Gradients of tensors, by the transforms of the graph.

use std::borrow::Borrow;

use lanthorn_ir::{Error, Result, Value, transform};

use super::Tensor;

/// Gradients of a loss of one element in each of `variables`, which [require](Tensor::requires_grad) them. A
/// variable on which the loss does not depend gets zeros. The gradients are constants to further derivatives;
/// [`differentiable_grad`] gives those that are not.
///
/// ```
/// # fn example(device: lanthorn_runtime::Device) -> lanthorn_ir::Result<()> {
/// use lanthorn_runtime::{Tensor, grad};
/// let w = Tensor::from_slice(&device, &[2], &[1f32, 2.0])?.requires_grad()?;
/// let loss = (&w * &w)?.sum(&[], false)?;
/// assert_eq!(grad(&loss, &[&w])?[0].to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
pub fn grad<T: Borrow<Tensor>>(loss: &Tensor, variables: &[T]) -> Result<Vec<Tensor>> {
    differentiable_grad(loss, variables)?.iter().map(Tensor::detach).collect()
}

/// [`grad`], whose results may be differentiated again.
pub fn differentiable_grad<T: Borrow<Tensor>>(loss: &Tensor, variables: &[T]) -> Result<Vec<Tensor>> {
    let fail = |what: String| Error::unsupported("grad", format!("{what}; call requires_grad first"));
    if !loss.is_tracked() {
        return Err(fail("the loss depends on no tensor that requires gradients".into()));
    }
    let mut pending = loss.pending();
    for (at, variable) in variables.iter().map(Borrow::borrow).enumerate() {
        loss.device().expect("grad", variable.device())?;
        if !variable.is_tracked() {
            return Err(fail(format!("tensor {at} does not require gradients")));
        }
        pending = pending.max(variable.pending());
    }
    let wrt: Vec<Value> = variables.iter().map(|variable| variable.borrow().value()).collect();
    let found = transform::grad(&loss.value(), &wrt)?;
    Ok(found.into_iter().map(|value| Tensor::new(loss.device(), value, true, pending)).collect())
}

/// The loss `f(arguments)` and its gradients in all arguments. Inside another differentiation the results may
/// be differentiated again.
///
/// ```
/// # fn example(device: lanthorn_runtime::Device) -> lanthorn_ir::Result<()> {
/// use lanthorn_runtime::{Tensor, value_and_grad};
/// let w = Tensor::from_slice(&device, &[2], &[3f32, 4.0])?;
/// let (loss, grads) = value_and_grad(|w| w[0].square()?.sum(&[], false), &[&w])?;
/// assert_eq!(loss.item()?, 25.0);
/// assert_eq!(grads[0].to_vec::<f32>()?, [6.0, 8.0]);
/// # Ok(())
/// # }
/// ```
pub fn value_and_grad<T: Borrow<Tensor>>(
    f: impl FnOnce(&[Tensor]) -> Result<Tensor>,
    arguments: &[T],
) -> Result<(Tensor, Vec<Tensor>)> {
    let is_nested = arguments.iter().any(|argument| argument.borrow().is_tracked());
    let variables = arguments
        .iter()
        .map(Borrow::borrow)
        .map(|argument| if argument.is_tracked() { Ok(argument.clone()) } else { argument.requires_grad() })
        .collect::<Result<Vec<_>>>()?;
    let loss = f(&variables)?;
    if is_nested {
        let grads = differentiable_grad(&loss, &variables)?;
        return Ok((loss, grads));
    }
    let grads = grad(&loss, &variables)?;
    Ok((loss.detach()?, grads))
}
