//! Convolutions.
//!
//! Lists of numbers for the spatial axes take one number for all of them, one for each, or none for the default.

use smallvec::SmallVec;

use super::window::{each_axis, ends, expect_positive, with_images};
use super::{add, apply_movement, reshape_to, shape_of, squeeze};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, Strides, TensorType};
use crate::prim::recurrent::short_conv;
use crate::prim::window::exchange_channels;
use crate::prim::{Convolution, Movement, Prim, Recurrent, Rules};

/// The sizes that a convolution of `axes` spatial axes was given.
struct Sizes<'a> {
    stride: &'a [usize],
    padding: &'a [usize],
    dilation: &'a [usize],
    groups: usize,
}

/// Adds `bias [channels]` to axis 1 and takes an added leading axis away.
fn with_bias<B: Builder>(
    b: &B,
    op: &str,
    mut y: B::Value,
    bias: Option<&B::Value>,
    is_single: bool,
) -> Result<B::Value> {
    if let Some(bias) = bias {
        let shape = shape_of(b, &y);
        crate::prim::expect_same_dtype(op, b.ty(&y), "bias", b.ty(bias))?;
        crate::prim::expect_shape(op, "bias", b.ty(bias), &shape[1..2])?;
        let mut along: Dims = SmallVec::from_elem(1, shape.len() - 1);
        along[0] = shape[1];
        y = add(b, &y, &reshape_to(b, bias, &along)?)?;
    }
    if is_single { squeeze(b, &y, &[0]) } else { Ok(y) }
}

/// Refuses windows that fit nowhere, as torch does. `out` is the convolution's result.
fn expect_windows(op: &str, x: &TensorType, weight: &TensorType, out: &[usize]) -> Result<()> {
    if !out[2..].contains(&0) {
        return Ok(());
    }
    Err(Error::shape(
        op,
        format!(
            "the kernel of {} spans more than x {} with its padding",
            ShowShape(&weight.shape),
            ShowShape(&x.shape)
        ),
    ))
}

fn convolution<B: Builder>(
    b: &B,
    op: &str,
    axes: usize,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
    sizes: Sizes<'_>,
    same: bool,
) -> Result<B::Value> {
    let (x, is_single) = with_images(b, op, x, axes)?;
    let strides = each_axis(op, "stride", sizes.stride, axes, 1)?;
    let dilations = each_axis(op, "dilation", sizes.dilation, axes, 1)?;
    let (mut low, mut high) = ends(op, sizes.padding, axes)?;
    let kernel = shape_of(b, weight);
    if same && kernel.len() == axes + 2 {
        if strides.iter().any(|&stride| stride != 1) || !sizes.padding.is_empty() {
            return Err(Error::shape(
                op,
                "padding to the same size takes a stride of 1 and no other padding",
            ));
        }
        for a in 0..axes {
            let total = kernel[a + 2].saturating_sub(1).saturating_mul(dilations[a]);
            let total = isize::try_from(total).unwrap_or(isize::MAX);
            (low[a], high[a]) = (total / 2, total - total / 2);
        }
    }
    let interior = SmallVec::from_elem(0, axes);
    let conv = Convolution { strides, low, high, interior, dilations, groups: sizes.groups };
    let out = conv.output(op, b.ty(&x), b.ty(weight))?;
    expect_windows(op, b.ty(&x), b.ty(weight), &out)?;
    with_bias(b, op, conv.apply(b, &x, weight)?, bias, is_single)
}

/// The correlation of `x [n, c, l]` with `weight [o, c / groups, k]`, plus `bias [o]`: `[n, o, out]`, where
/// `out = (l + padding before and after - dilation (k - 1) - 1) / stride + 1`; `x [c, l]` is one image. `padding` is
/// one number, or one before and one after; `same` pads to the size of `x`, the odd one after. Sums accumulate in
/// the wide type (torch `conv1d`).
///
/// Errors: a kernel that spans more than the padded `x`, or groups that do not divide `c` and `o`.
pub fn conv1d<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
    groups: usize,
    same: bool,
) -> Result<B::Value> {
    convolution(b, "conv1d", 1, x, weight, bias, Sizes { stride, padding, dilation, groups }, same)
}

/// [`conv1d`] over two axes: `x [n, c, h, w]`, `weight [o, c / groups, kh, kw]`; numbers for one axis count for both,
/// and `padding` may also be of all four ends: before each axis, then after (torch `conv2d`).
pub fn conv2d<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
    groups: usize,
    same: bool,
) -> Result<B::Value> {
    convolution(b, "conv2d", 2, x, weight, bias, Sizes { stride, padding, dilation, groups }, same)
}

/// [`conv1d`] over three axes: `x [n, c, d, h, w]`, `weight [o, c / groups, kd, kh, kw]` (torch `conv3d`).
pub fn conv3d<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
    groups: usize,
    same: bool,
) -> Result<B::Value> {
    convolution(b, "conv3d", 3, x, weight, bias, Sizes { stride, padding, dilation, groups }, same)
}

fn transposed<B: Builder>(
    b: &B,
    op: &str,
    axes: usize,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
    sizes: Sizes<'_>,
    output_padding: &[usize],
) -> Result<B::Value> {
    let (x, is_single) = with_images(b, op, x, axes)?;
    let strides = each_axis(op, "stride", sizes.stride, axes, 1)?;
    let dilations = each_axis(op, "dilation", sizes.dilation, axes, 1)?;
    let further = each_axis(op, "output_padding", output_padding, axes, 0)?;
    let (low, high) = ends(op, sizes.padding, axes)?;
    let (sx, sw, groups) = (shape_of(b, &x), shape_of(b, weight), sizes.groups);
    expect_positive(op, &[("stride", &strides), ("dilation", &dilations), ("groups", &[groups])])?;
    let fits = sw.len() == axes + 2
        && sw[0] == sx[1]
        && sw[0].is_multiple_of(groups)
        && groups <= sw[0].max(1)
        && !sw[2..].contains(&0);
    if !fits {
        return Err(Error::shape(
            op,
            format!(
                "x {} and weight {} do not fit with {groups} groups; expected [n, c, {axes} sizes] and [c, o / groups, \
                 {axes} sizes of at least 1], and groups that divide c",
                ShowShape(&sx),
                ShowShape(&sw)
            ),
        ));
    }
    let too_large = || Error::shape(op, "kernel, dilation and padding overflow");
    let mut conv = Convolution {
        strides: SmallVec::from_elem(1, axes),
        low: Strides::new(),
        high: Strides::new(),
        interior: strides.iter().map(|stride| stride - 1).collect(),
        dilations,
        groups,
    };
    for a in 0..axes {
        if further[a] >= strides[a].max(conv.dilations[a]) {
            return Err(Error::shape(
                op,
                format!(
                    "output_padding {} is not below the stride {} or the dilation {}",
                    further[a], strides[a], conv.dilations[a]
                ),
            ));
        }
        let reach = (sw[a + 2] - 1).checked_mul(conv.dilations[a]).ok_or_else(too_large)?;
        let reach = isize::try_from(reach).map_err(|_| too_large())?;
        let more = isize::try_from(further[a]).map_err(|_| too_large())?;
        conv.low.push(reach.checked_sub(low[a]).ok_or_else(too_large)?);
        let after = reach.checked_sub(high[a]).and_then(|after| after.checked_add(more));
        conv.high.push(after.ok_or_else(too_large)?);
    }
    // The kernel of the convolution whose transpose this is, turned over.
    let flipped = Movement::Flip { axes: (2..axes + 2).collect() };
    let kernel = apply_movement(b, flipped, &exchange_channels(b, weight, groups)?)?;
    let out = conv.output(op, b.ty(&x), b.ty(&kernel))?;
    if out[2..].contains(&0) {
        return Err(Error::shape(
            op,
            format!("the padding of x {} leaves no result with weight {}", ShowShape(&sx), ShowShape(&sw)),
        ));
    }
    with_bias(b, op, conv.apply(b, &x, &kernel)?, bias, is_single)
}

/// The transpose of [`conv1d`] in its operand, plus `bias [o]`: `x [n, c, l]` with `weight [c, o / groups, k]` to
/// `[n, o, out]`, where `out = (l - 1) stride - padding before and after + dilation (k - 1) + output_padding + 1`
/// (torch `conv_transpose1d`).
///
/// Errors: an `output_padding` that is not below the stride or the dilation, padding that leaves nothing.
pub fn conv_transpose1d<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
    stride: &[usize],
    padding: &[usize],
    output_padding: &[usize],
    dilation: &[usize],
    groups: usize,
) -> Result<B::Value> {
    let sizes = Sizes { stride, padding, dilation, groups };
    transposed(b, "conv_transpose1d", 1, x, weight, bias, sizes, output_padding)
}

/// [`conv_transpose1d`] over two axes: `x [n, c, h, w]`, `weight [c, o / groups, kh, kw]` (torch `conv_transpose2d`).
pub fn conv_transpose2d<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
    stride: &[usize],
    padding: &[usize],
    output_padding: &[usize],
    dilation: &[usize],
    groups: usize,
) -> Result<B::Value> {
    let sizes = Sizes { stride, padding, dilation, groups };
    transposed(b, "conv_transpose2d", 2, x, weight, bias, sizes, output_padding)
}

/// [`conv_transpose1d`] over three axes: `x [n, c, d, h, w]`, `weight [c, o / groups, kd, kh, kw]` (torch
/// `conv_transpose3d`).
pub fn conv_transpose3d<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
    stride: &[usize],
    padding: &[usize],
    output_padding: &[usize],
    dilation: &[usize],
    groups: usize,
) -> Result<B::Value> {
    let sizes = Sizes { stride, padding, dilation, groups };
    transposed(b, "conv_transpose3d", 3, x, weight, bias, sizes, output_padding)
}

/// A causal convolution of each channel by itself, with what came before carried on: `x [n, t, c]` with
/// `weight [c, k]` to `[n, t, c]`, where `out[i] = sum over j of weight[j] x[i - k + 1 + j]`, and the last `k - 1`
/// places as the next `state [n, k - 1, c]`. Without a state, zeros come before. Half types compute in f32 (the short
/// convolution of Kimi Linear and Mamba).
pub fn short_conv1d<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: &B::Value,
    state: Option<&B::Value>,
) -> Result<Vec<B::Value>> {
    let mut operands = vec![x.clone(), weight.clone()];
    operands.extend(state.cloned());
    let rule = Recurrent::ShortConv { state: state.is_some() };
    if b.ty(x).dtype.is_f8() {
        // Primitives compute nothing in storage types, and a composition may pass through a wider one.
        let types: Vec<&TensorType> = operands.iter().map(|operand| b.ty(operand)).collect();
        rule.infer(&types)?;
        return short_conv(b, &operands);
    }
    Ok(b.apply(Prim::Recurrent(rule), &operands)?.into_vec())
}
