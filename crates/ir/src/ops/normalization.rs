//! Normalisations: layer, root mean square, group, instance, batch, local response, and vectors of length 1.
//!
//! Variances are taken about the mean in a second pass. Half types compute in f32 and are rounded once.

use smallvec::SmallVec;

use super::window::windows_of;
use super::{
    abs, add, add_scalar, broadcast_to, cast, div, fold, gt_scalar, le_scalar, max, mul, mul_scalar, ones,
    pad_or_cut, pow_scalar, require_float, reshape_to, rsqrt, scalar, shape_of, sqrt, square, sub, sum,
    where_, zeros,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::F64;
use crate::layout::{Dims, ShowShape, numel, resolve_axis};
use crate::prim::{Norm, Prim, ReduceOp, expect_same_dtype, expect_shape};

/// The first output of a primitive that also returns its statistics.
fn first<V>(outputs: impl IntoIterator<Item = V>) -> Result<V> {
    let missing = || Error::unsupported("apply", "the primitive returned no value");
    outputs.into_iter().next().ok_or_else(missing)
}

/// The shape over which `x` is normalised: that of the parameters, which must be one, or the last axis.
fn normalized_shape<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    parameters: &[Option<&B::Value>],
) -> Result<Dims> {
    let shape = &b.ty(x).shape;
    let Some(last) = shape.last() else {
        return Err(Error::shape(op, "the operand has rank 0, expected at least one axis"));
    };
    let mut given = parameters.iter().flatten();
    let own = match given.next() {
        Some(parameter) => shape_of(b, parameter),
        None => Dims::from_slice(&[*last]),
    };
    if own.is_empty() || !shape.ends_with(&own) {
        return Err(Error::shape(
            op,
            format!(
                "weight or bias is of shape {}, expected the last axes of {}",
                ShowShape(&own),
                ShowShape(shape)
            ),
        ));
    }
    given.try_for_each(|parameter| expect_shape(op, "bias", b.ty(parameter), &own))?;
    Ok(own)
}

/// `x` with its last axes, of shape `own`, as one.
fn flat_rows<B: Builder>(b: &B, x: &B::Value, own: &[usize]) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let mut rows = Dims::from_slice(&shape[..shape.len() - own.len()]);
    rows.push(numel(own));
    reshape_to(b, x, &rows)
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axes, with the biased variance. `weight` and `bias`
/// have the shape of the axes that are normalised, and are 1 and 0 where absent; without both, that is the last axis
/// (Ba et al. 2016; torch `layer_norm`).
///
/// Errors: a weight or bias whose shape is not that of the last axes.
pub fn layer_norm<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: Option<&B::Value>,
    bias: Option<&B::Value>,
    eps: f64,
) -> Result<B::Value> {
    let own = normalized_shape(b, "layer_norm", x, &[weight, bias])?;
    let (width, dtype) = (numel(&own), b.ty(x).dtype);
    let parameter = |given: Option<&B::Value>, absent: fn(&B, &[usize], crate::DType) -> Result<B::Value>| {
        given.map_or_else(|| absent(b, &[width], dtype), |given| reshape_to(b, given, &[width]))
    };
    let operands = [flat_rows(b, x, &own)?, parameter(weight, ones)?, parameter(bias, zeros)?];
    let y = first(b.apply(Prim::Norm(Norm::LayerNorm { eps: F64(eps) }), &operands)?)?;
    reshape_to(b, &y, &shape_of(b, x))
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axes; `weight` has the shape of the axes that are normalised
/// and is 1 where absent, and then that is the last axis (Zhang and Sennrich 2019; torch `rms_norm`).
///
/// Errors: a weight whose shape is not that of the last axes.
pub fn rms_norm<B: Builder>(b: &B, x: &B::Value, weight: Option<&B::Value>, eps: f64) -> Result<B::Value> {
    let own = normalized_shape(b, "rms_norm", x, &[weight])?;
    let (width, dtype) = (numel(&own), b.ty(x).dtype);
    let weight = weight.map_or_else(|| ones(b, &[width], dtype), |given| reshape_to(b, given, &[width]))?;
    let operands = [flat_rows(b, x, &own)?, weight];
    let y = first(b.apply(Prim::Norm(Norm::RmsNorm { eps: F64(eps) }), &operands)?)?;
    reshape_to(b, &y, &shape_of(b, x))
}

/// The number of channels of `x [n, c, ..]`.
fn channels<B: Builder>(b: &B, op: &str, x: &B::Value) -> Result<usize> {
    require_float(op, "x", b.ty(x))?;
    match b.ty(x).shape[..] {
        [_, channels, ..] => Ok(channels),
        _ => Err(Error::shape(op, format!("x is {}, expected [n, c, ..]", b.ty(x)))),
    }
}

/// A parameter `[c]` in the wide type, along axis 1 of `x`.
fn along_channels<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    name: &str,
    parameter: &B::Value,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    expect_same_dtype(op, b.ty(x), name, b.ty(parameter))?;
    expect_shape(op, name, b.ty(parameter), &shape[1..2])?;
    let mut along: Dims = SmallVec::from_elem(1, shape.len() - 1);
    along[0] = shape[1];
    reshape_to(b, &cast(b, parameter, b.ty(x).dtype.wide())?, &along)
}

/// `y * weight + bias` along the channels of `x`, rounded to its dtype; `y` is wide.
fn scaled<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    mut y: B::Value,
    weight: Option<&B::Value>,
    bias: Option<&B::Value>,
) -> Result<B::Value> {
    if let Some(weight) = weight {
        y = mul(b, &y, &along_channels(b, op, x, "weight", weight)?)?;
    }
    if let Some(bias) = bias {
        y = add(b, &y, &along_channels(b, op, x, "bias", bias)?)?;
    }
    cast(b, &y, b.ty(x).dtype)
}

fn normalized_groups<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    groups: usize,
    weight: Option<&B::Value>,
    bias: Option<&B::Value>,
    eps: f64,
) -> Result<B::Value> {
    let channels = channels(b, op, x)?;
    let shape = shape_of(b, x);
    if groups == 0 || channels % groups != 0 {
        return Err(Error::shape(op, format!("{groups} groups do not divide the {channels} channels")));
    }
    let own: Dims = std::iter::once(channels / groups).chain(shape[2..].iter().copied()).collect();
    let rows = reshape_to(b, &cast(b, x, b.ty(x).dtype.wide())?, &[shape[0], groups, numel(&own)])?;
    let y = reshape_to(b, &layer_norm(b, &rows, None, None, eps)?, &shape)?;
    scaled(b, op, x, y, weight, bias)
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` of `x [n, c, ..]` over each of `groups` groups of channels with all
/// further axes, with the biased variance; `weight` and `bias` are `[c]` and 1 and 0 where absent (Wu and He 2018;
/// torch `group_norm`).
///
/// Errors: groups that do not divide the channels.
pub fn group_norm<B: Builder>(
    b: &B,
    x: &B::Value,
    groups: usize,
    weight: Option<&B::Value>,
    bias: Option<&B::Value>,
    eps: f64,
) -> Result<B::Value> {
    normalized_groups(b, "group_norm", x, groups, weight, bias, eps)
}

/// [`group_norm`] with one channel a group: each channel of each image by itself (Ulyanov et al. 2016; torch
/// `instance_norm`).
///
/// Errors: `x` without a further axis, over which to normalise.
pub fn instance_norm<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: Option<&B::Value>,
    bias: Option<&B::Value>,
    eps: f64,
) -> Result<B::Value> {
    let channels = channels(b, "instance_norm", x)?;
    if b.ty(x).rank() < 3 {
        return Err(Error::shape("instance_norm", format!("x is {}, expected [n, c, ..]", b.ty(x))));
    }
    normalized_groups(b, "instance_norm", x, channels.max(1), weight, bias, eps)
}

/// `[y, running_mean', running_var']` where `y = (x - mean) / sqrt(var + eps) * weight + bias` of `x [n, c, ..]` along
/// the channels; all other operands are `[c]`. In training, mean and biased variance are those of `x`, and the running
/// ones move towards the mean and the unbiased variance: `(1 - momentum) running + momentum new`. Otherwise the
/// running ones are used and returned (Ioffe and Szegedy 2015; torch `batch_norm`). The derivative passes through all
/// three results; stop it where running statistics are state.
///
/// Errors: training with a single value a channel.
pub fn batch_norm<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: Option<&B::Value>,
    bias: Option<&B::Value>,
    running_mean: &B::Value,
    running_var: &B::Value,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Vec<B::Value>> {
    let op = "batch_norm";
    let channels = channels(b, op, x)?;
    let (shape, dtype) = (shape_of(b, x), b.ty(x).dtype);
    let running = [("running_mean", running_mean), ("running_var", running_var)]
        .map(|(name, value)| along_channels(b, op, x, name, value));
    let [old_mean, old_var] = running;
    let (old_mean, old_var) = (old_mean?, old_var?);
    let wide = cast(b, x, dtype.wide())?;
    if !training {
        let rstd = rsqrt(b, &add_scalar(b, &old_var, eps)?)?;
        let y = mul(b, &sub(b, &wide, &old_mean)?, &rstd)?;
        let y = scaled(b, op, x, y, weight, bias)?;
        return Ok(vec![y, running_mean.clone(), running_var.clone()]);
    }
    let axes: Dims = (0..shape.len()).filter(|&axis| axis != 1).collect();
    let count: usize = axes.iter().map(|&axis| shape[axis]).product();
    if count < 2 {
        return Err(Error::shape(
            op,
            format!("training needs more than {count} values a channel, x is {}", b.ty(x)),
        ));
    }
    let mean = mul_scalar(b, &fold(b, ReduceOp::Sum, &wide, &axes)?, 1.0 / count as f64)?;
    let centred = sub(b, &wide, &mean)?;
    let squares = fold(b, ReduceOp::Sum, &square(b, &centred)?, &axes)?;
    let rstd = rsqrt(b, &add_scalar(b, &mul_scalar(b, &squares, 1.0 / count as f64)?, eps)?)?;
    let y = scaled(b, op, x, mul(b, &centred, &rstd)?, weight, bias)?;
    let moved = |old: &B::Value, new: &B::Value, scale: f64| -> Result<B::Value> {
        let new = mul_scalar(b, &reshape_to(b, new, &b.ty(old).shape)?, momentum * scale)?;
        let sum = add(b, &mul_scalar(b, old, 1.0 - momentum)?, &new)?;
        cast(b, &reshape_to(b, &sum, &[channels])?, dtype)
    };
    Ok(vec![y, moved(&old_mean, &mean, 1.0)?, moved(&old_var, &squares, 1.0 / (count - 1) as f64)?])
}

/// `x / (k + alpha mean)^beta` of `x [n, c, ..]`, where `mean` is that of the squares of `size` neighbouring channels,
/// those beyond the ends being 0 (Krizhevsky et al. 2012, section 3.3; torch `local_response_norm`).
///
/// Errors: a size of 0.
pub fn local_response_norm<B: Builder>(
    b: &B,
    x: &B::Value,
    size: usize,
    alpha: f64,
    beta: f64,
    k: f64,
) -> Result<B::Value> {
    let op = "local_response_norm";
    let channels = channels(b, op, x)?;
    let (rank, dtype) = (b.ty(x).rank(), b.ty(x).dtype);
    if size == 0 || size > isize::MAX as usize / 8 {
        return Err(Error::shape(op, format!("size is {size}, expected at least 1 and no more than fits")));
    }
    let wide = cast(b, x, dtype.wide())?;
    let mut ends: [SmallVec<[isize; 4]>; 2] = [SmallVec::from_elem(0, rank), SmallVec::from_elem(0, rank)];
    // More neighbours than there are channels are zeros on either side.
    (ends[0][1], ends[1][1]) = ((size / 2).min(channels) as isize, ((size - 1) / 2).min(channels) as isize);
    let span = (ends[0][1] + ends[1][1] + 1) as usize;
    let interior: Dims = SmallVec::from_elem(0, rank);
    let squares = pad_or_cut(b, &square(b, &wide)?, &ends[0], &ends[1], &interior)?;
    let windows = windows_of(b, &squares, &[1], &[span], &[1], &[1])?;
    let total = sum(b, &windows, &[-1], false)?;
    let base = add_scalar(b, &mul_scalar(b, &total, alpha / size as f64)?, k)?;
    cast(b, &div(b, &wide, &pow_scalar(b, &base, beta)?)?, dtype)
}

/// The `p`-norm over one axis, in the wide type and with the axis kept, but never below `eps`: where it would be, it
/// is the constant `eps`, so that its derivative there is 0.
fn bounded_norm<B: Builder>(b: &B, wide: &B::Value, axes: &[isize], p: f64, eps: f64) -> Result<B::Value> {
    let dtype = b.ty(wide).dtype;
    let least = scalar(b, eps, dtype)?;
    let bounded = |norm: &B::Value| where_(b, &gt_scalar(b, norm, eps)?, norm, &least);
    if p == 1.0 {
        return bounded(&sum(b, &abs(b, wide)?, axes, true)?);
    }
    if p.is_infinite() {
        return bounded(&max(b, &abs(b, wide)?, axes, true)?);
    }
    let is_two = p == 2.0;
    // The root has no derivative at 0, so it is taken of 1 where the bound holds.
    let one = scalar(b, 1.0, dtype)?;
    let powers = if is_two { square(b, wide)? } else { positive_power(b, &abs(b, wide)?, p)? };
    let total = sum(b, &powers, axes, true)?;
    let is_small = le_scalar(b, &total, eps.powf(p))?;
    let safe = where_(b, &is_small, &one, &total)?;
    let root = if is_two { sqrt(b, &safe)? } else { pow_scalar(b, &safe, 1.0 / p)? };
    where_(b, &is_small, &least, &root)
}

/// `x^p` of `x` that is not negative; 0 and its derivative 0 at 0.
fn positive_power<B: Builder>(b: &B, x: &B::Value, p: f64) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let is_zero = le_scalar(b, x, 0.0)?;
    let safe = where_(b, &is_zero, &scalar(b, 1.0, dtype)?, x)?;
    where_(b, &is_zero, &scalar(b, 0.0, dtype)?, &pow_scalar(b, &safe, p)?)
}

/// `x / max(norm, eps)` where `norm` is the `p`-norm along an axis (torch `normalize`).
///
/// Errors: a `p` that is not above 0.
pub fn normalize<B: Builder>(b: &B, x: &B::Value, p: f64, axis: isize, eps: f64) -> Result<B::Value> {
    require_float("normalize", "x", b.ty(x))?;
    let axis = resolve_axis("normalize", axis, b.ty(x).rank())?;
    if p.is_nan() || p <= 0.0 {
        return Err(Error::shape("normalize", format!("p is {p}, expected above 0")));
    }
    if b.ty(x).numel() == 0 {
        return Ok(x.clone());
    }
    let wide = cast(b, x, b.ty(x).dtype.wide())?;
    let norm = bounded_norm(b, &wide, &[axis as isize], p, eps)?;
    cast(b, &div(b, &wide, &norm)?, b.ty(x).dtype)
}

/// `g * v / |v|`, with the Euclidean norm of `v` over all axes but one, along which `g` is given: `[size]` or with the
/// other axes of size 1 (Salimans and Kingma 2016; torch `_weight_norm`).
///
/// Errors: a `g` of another shape.
pub fn weight_norm<B: Builder>(b: &B, v: &B::Value, g: &B::Value, axis: isize) -> Result<B::Value> {
    let op = "weight_norm";
    require_float(op, "v", b.ty(v))?;
    expect_same_dtype(op, b.ty(v), "g", b.ty(g))?;
    let (shape, dtype) = (shape_of(b, v), b.ty(v).dtype);
    let axis = resolve_axis(op, axis, shape.len())?;
    let mut along: Dims = SmallVec::from_elem(1, shape.len());
    along[axis] = shape[axis];
    let found = &b.ty(g).shape;
    if found[..] != along[..] && found[..] != shape[axis..axis + 1] {
        return Err(Error::shape(
            op,
            format!("g is of shape {}, expected {}", ShowShape(found), ShowShape(&along)),
        ));
    }
    let wide = cast(b, v, dtype.wide())?;
    let axes: Dims = (0..shape.len()).filter(|&other| other != axis).collect();
    let squares = fold(b, ReduceOp::Sum, &square(b, &wide)?, &axes)?;
    let scale = mul(b, &reshape_to(b, &cast(b, g, dtype.wide())?, &along)?, &rsqrt(b, &squares)?)?;
    cast(b, &mul(b, &wide, &broadcast_to(b, &scale, &shape)?)?, dtype)
}
