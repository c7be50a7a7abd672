//! Updates that depend on a parameter as a whole: on its norm, or on its directions as a matrix. Norms, and all of
//! [`lamb`] and [`muon`], are computed in the wide dtype (f32 for half types) and rounded once.

use super::{
    add, add_scalar, cast, div, full_like, global_norm, gt_scalar, logical_and, matmul, maximum_scalar, mul,
    mul_scalar, reshape_to, shape_of, sqrt, square, sub, transpose, where_,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::layout::ShowShape;

/// One LARS step (You, Gitman and Ginsburg 2017, "Large Batch Training of Convolutional Networks"): `[parameter']`, or with
/// a `velocity` `[parameter', velocity']`. The layer's own rate `r` is `trust |parameter| / (|grad| + weight_decay
/// |parameter|)`, or 1 where either norm or `trust` is 0. Then `step = lr r (grad + weight_decay parameter)`,
/// `velocity' = momentum velocity + step`, and `parameter' = parameter - velocity'`, with `nesterov`
/// `parameter - (step + momentum velocity')`. `lr` is of rank 0.
pub fn lars<B: Builder>(
    b: &B,
    parameter: &B::Value,
    grad: &B::Value,
    lr: &B::Value,
    velocity: Option<&B::Value>,
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
    trust: f64,
) -> Result<Vec<B::Value>> {
    expect_pair(b, "lars", parameter, grad)?;
    let decayed = decayed(b, parameter, grad, weight_decay)?;
    let mut step = mul(b, &decayed, lr)?;
    if trust != 0.0 {
        let (own, slope) = (norm(b, parameter)?, norm(b, grad)?);
        let bottom = add(b, &slope, &mul_scalar(b, &own, weight_decay)?)?;
        let rate = ratio(b, &mul_scalar(b, &own, trust)?, &bottom, [&own, &slope])?;
        step = mul(b, &step, &cast(b, &rate, b.ty(parameter).dtype)?)?;
    }
    let Some(velocity) = velocity else {
        if momentum != 0.0 {
            let message = format!("the momentum is {momentum} without a velocity, expected both or neither");
            return Err(Error::shape("lars", message));
        }
        return Ok(vec![sub(b, parameter, &step)?]);
    };
    let velocity = add(b, &mul_scalar(b, velocity, momentum)?, &step)?;
    let direction = match nesterov {
        true => add(b, &step, &mul_scalar(b, &velocity, momentum)?)?,
        false => velocity.clone(),
    };
    Ok(vec![sub(b, parameter, &direction)?, velocity])
}

/// One LAMB step (You et al. 2020, "Large Batch Optimization for Deep Learning", algorithm 2): `[parameter', m', v']`. With
/// `m' = beta1 m + (1 - beta1) grad` and `v' = beta2 v + (1 - beta2) grad^2`, `u = (m' / bias1) / (sqrt(v' / bias2) + eps)
/// + weight_decay parameter` and `parameter' = parameter - lr r u`, where `r` is `|parameter| / |u|`, or 1 where either norm
/// is 0. `lr`, `bias1 = 1 - beta1^t` and `bias2 = 1 - beta2^t` are of rank 0.
pub fn lamb<B: Builder>(
    b: &B,
    parameter: &B::Value,
    grad: &B::Value,
    m: &B::Value,
    v: &B::Value,
    lr: &B::Value,
    bias1: &B::Value,
    bias2: &B::Value,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
) -> Result<Vec<B::Value>> {
    expect_pair(b, "lamb", parameter, grad)?;
    let dtypes = [parameter, m, v].map(|value| b.ty(value).dtype);
    let wide = b.ty(parameter).dtype.wide();
    let [parameter, grad, m, v] = [parameter, grad, m, v].map(|value| cast(b, value, wide));
    let (parameter, grad) = (parameter?, grad?);
    let (m, v) = (mixed(b, &m?, &grad, beta1)?, mixed(b, &v?, &square(b, &grad)?, beta2)?);
    let root = add_scalar(b, &sqrt(b, &div(b, &v, bias2)?)?, eps)?;
    let update = decayed(b, &parameter, &div(b, &div(b, &m, bias1)?, &root)?, weight_decay)?;
    let (own, length) = (norm(b, &parameter)?, norm(b, &update)?);
    let step = mul(b, &mul(b, &update, lr)?, &ratio(b, &own, &length, [&own, &length])?)?;
    let results = [sub(b, &parameter, &step)?, m, v];
    results.iter().zip(dtypes).map(|(value, dtype)| cast(b, value, dtype)).collect()
}

/// The most iterations of a step of [`muon`], as in torch: each is three products of matrices in the program.
const MOST_STEPS: usize = 99;

/// One Muon step (Jordan et al. 2024, "Muon: an optimizer for hidden layers", as in torch): `[parameter', velocity']`.
/// `velocity' = momentum velocity + (1 - momentum) grad`, and the update is the matrix of the same directions with singular
/// values of about 1, by `steps` Newton-Schulz iterations, of `velocity'`, or with `nesterov` of `(1 - momentum) grad +
/// momentum velocity'`. Then `parameter' = (1 - lr weight_decay) parameter - lr s update`, where `s` is
/// `sqrt(max(1, rows / columns))`. A parameter of more than two axes is the matrix of its first and all others. `lr` is of
/// rank 0.
///
/// Errors: a parameter of fewer than two axes, which is no matrix; more than 99 steps.
pub fn muon<B: Builder>(
    b: &B,
    parameter: &B::Value,
    grad: &B::Value,
    velocity: &B::Value,
    lr: &B::Value,
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
    steps: usize,
    eps: f64,
) -> Result<Vec<B::Value>> {
    expect_pair(b, "muon", parameter, grad)?;
    if steps > MOST_STEPS {
        return Err(Error::shape("muon", format!("steps is {steps}, expected 0 to {MOST_STEPS}")));
    }
    let shape = shape_of(b, parameter);
    let (rows, columns) = match &shape[..] {
        [rows, further @ ..] if !further.is_empty() => (*rows, further.iter().product::<usize>()),
        _ => {
            let found = ShowShape(&shape);
            let message = format!(
                "the parameter has the shape {found}, expected two axes or more; give it to another rule"
            );
            return Err(Error::shape("muon", message));
        }
    };
    let dtypes = [parameter, velocity].map(|value| b.ty(value).dtype);
    let wide = b.ty(parameter).dtype.wide();
    let [parameter, grad, velocity] = [parameter, grad, velocity].map(|value| cast(b, value, wide));
    let (parameter, grad) = (parameter?, grad?);
    let velocity = mixed(b, &velocity?, &grad, momentum)?;
    let direction = if nesterov { mixed(b, &velocity, &grad, momentum)? } else { velocity.clone() };
    let matrix = reshape_to(b, &direction, &[rows, columns])?;
    let update = reshape_to(b, &orthogonal(b, &matrix, steps, eps)?, &shape)?;
    let scale = (rows as f64 / columns.max(1) as f64).max(1.0).sqrt();
    let step =
        mul(b, &add(b, &mul_scalar(b, &parameter, weight_decay)?, &mul_scalar(b, &update, scale)?)?, lr)?;
    let results = [sub(b, &parameter, &step)?, velocity];
    results.iter().zip(dtypes).map(|(value, dtype)| cast(b, value, dtype)).collect()
}

/// A matrix of the same singular vectors with singular values of about 1: Newton-Schulz iterations of degree 5, with the
/// coefficients of Jordan et al. 2024.
fn orthogonal<B: Builder>(b: &B, x: &B::Value, steps: usize, eps: f64) -> Result<B::Value> {
    const COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];
    let [first, third, fifth] = COEFFICIENTS;
    let shape = shape_of(b, x);
    // The product of a matrix and its transpose is the smaller one where the matrix is wide.
    let is_tall = shape.first() > shape.last();
    let turned = |x: &B::Value| if is_tall { transpose(b, x, -2, -1) } else { Ok(x.clone()) };
    let length = maximum_scalar(b, &norm(b, x)?, eps)?;
    let mut x = turned(&div(b, x, &length)?)?;
    for _ in 0..steps {
        let gram = matmul(b, &x, &transpose(b, &x, -2, -1)?)?;
        let powers =
            add(b, &mul_scalar(b, &gram, third)?, &mul_scalar(b, &matmul(b, &gram, &gram)?, fifth)?)?;
        x = add(b, &mul_scalar(b, &x, first)?, &matmul(b, &powers, &x)?)?;
    }
    turned(&x)
}

/// `share old + (1 - share) new`.
fn mixed<B: Builder>(b: &B, old: &B::Value, new: &B::Value, share: f64) -> Result<B::Value> {
    add(b, &mul_scalar(b, old, share)?, &mul_scalar(b, new, 1.0 - share)?)
}

/// The Euclidean norm of all elements, of rank 0 and in the wide dtype.
fn norm<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    global_norm(b, std::slice::from_ref(x))
}

/// `top / bottom`, or 1 unless all of `norms` are above 0.
fn ratio<B: Builder>(b: &B, top: &B::Value, bottom: &B::Value, norms: [&B::Value; 2]) -> Result<B::Value> {
    let [first, second] = norms;
    let holds = logical_and(b, &gt_scalar(b, first, 0.0)?, &gt_scalar(b, second, 0.0)?)?;
    let one = full_like(b, top, 1.0)?;
    // Nothing is divided by 0, for the sake of derivatives.
    where_(b, &holds, &div(b, top, &where_(b, &holds, bottom, &one)?)?, &one)
}

/// `direction + decay parameter`.
fn decayed<B: Builder>(b: &B, parameter: &B::Value, direction: &B::Value, decay: f64) -> Result<B::Value> {
    match decay {
        0.0 => Ok(direction.clone()),
        decay => add(b, direction, &mul_scalar(b, parameter, decay)?),
    }
}

/// Refuses a parameter that is no float, and a gradient of another shape: it would be broadcast.
fn expect_pair<B: Builder>(b: &B, op: &str, parameter: &B::Value, grad: &B::Value) -> Result<()> {
    crate::prim::expect_float(op, "the parameter", b.ty(parameter))?;
    crate::prim::expect_shape(op, "the gradient", b.ty(grad), &b.ty(parameter).shape)
}
