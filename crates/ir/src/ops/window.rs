//! Sliding windows and convolutions.
//!
//! Lists of numbers for the spatial axes take one number for all of them, one for each, or none for the default.

use smallvec::SmallVec;

use super::{
    add, apply_movement, cast, concat, mul, pad_or_cut, permute_to, reshape_to, shape_of, slice_axis,
    squeeze, sum, unsqueeze, zeros,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, Strides, TensorType, numel, resolve_axis, window_count};
use crate::prim::window::{exchange_channels, padded_size};
use crate::prim::{Convolution, Movement};

/// One number for each of `axes` axes: `default` where none is given, one number for all, or one each.
pub(crate) fn each_axis(op: &str, what: &str, given: &[usize], axes: usize, default: usize) -> Result<Dims> {
    match given {
        [] => Ok(SmallVec::from_elem(default, axes)),
        [all] => Ok(SmallVec::from_elem(*all, axes)),
        each if each.len() == axes => Ok(Dims::from_slice(each)),
        _ => Err(Error::shape(op, format!("{what} is {}, expected one size or {axes}", ShowShape(given)))),
    }
}

/// Refuses a 0 among numbers that must be at least 1.
pub(crate) fn expect_positive(op: &str, lists: &[(&str, &[usize])]) -> Result<()> {
    match lists.iter().find(|(_, list)| list.contains(&0)) {
        Some((what, list)) => {
            Err(Error::shape(op, format!("{what} is {}, expected sizes of at least 1", ShowShape(list))))
        }
        None => Ok(()),
    }
}

/// All windows of `size` places, `dilation` apart, along one axis, each beginning `step` after the one before, as a
/// view: the axis becomes the number of windows, the places within them are a new last axis, `[.., n, .., size]`
/// (torch `Tensor.unfold`, NumPy `sliding_window_view`).
///
/// Errors: a window that spans more than the axis, or numbers of 0.
pub fn sliding_window<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: isize,
    size: usize,
    step: usize,
    dilation: usize,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axis = resolve_axis("sliding_window", axis, shape.len())?;
    expect_positive(
        "sliding_window",
        &[("the size", &[size]), ("the step", &[step]), ("the dilation", &[dilation])],
    )?;
    if window_count(shape[axis], size, step, dilation) == 0 {
        return Err(Error::shape(
            "sliding_window",
            format!("{size} places, {dilation} apart, span more than axis {axis} of {}", ShowShape(&shape)),
        ));
    }
    windows_of(b, x, &[axis], &[size], &[step], &[dilation])
}

/// [`Movement::Window`].
pub(crate) fn windows_of<B: Builder>(
    b: &B,
    x: &B::Value,
    axes: &[usize],
    sizes: &[usize],
    steps: &[usize],
    dilations: &[usize],
) -> Result<B::Value> {
    let [axes, sizes, steps, dilations] = [axes, sizes, steps, dilations].map(Dims::from_slice);
    apply_movement(b, Movement::Window { axes, sizes, steps, dilations }, x)
}

/// The transpose of [`Movement::Window`]: windows added up where they overlap, `[.., n.., size..]` to `shape`. Sums
/// are in the wide type.
pub(crate) fn overlap_add<B: Builder>(
    b: &B,
    windows: &B::Value,
    shape: &[usize],
    axes: &[usize],
    sizes: &[usize],
    steps: &[usize],
    dilations: &[usize],
) -> Result<B::Value> {
    let dtype = b.ty(windows).dtype;
    if b.ty(windows).numel() == 0 {
        return zeros(b, shape, dtype);
    }
    let mut y = cast(b, windows, dtype.wide())?;
    for at in (0..axes.len()).rev() {
        y = overlap_add_axis(b, &y, axes[at], shape[axes[at]], sizes[at], steps[at], dilations[at])?;
    }
    cast(b, &y, dtype)
}

/// [`overlap_add`] of the last axis into `axis`, which has `length` places in the end.
///
/// A window is cut into pieces as long as the step: pieces of one number lie end to end, so each number is one term.
/// With a dilation each place of the window is a term.
fn overlap_add_axis<B: Builder>(
    b: &B,
    windows: &B::Value,
    axis: usize,
    length: usize,
    size: usize,
    step: usize,
    dilation: usize,
) -> Result<B::Value> {
    let shape = shape_of(b, windows);
    let (rank, last, count) = (shape.len(), shape.len() - 1, shape[axis]);
    // `infer` of the windows has seen that `(count - 1) * step + (size - 1) * dilation < length`.
    let step = if count > 1 { step } else { size };
    let (pieces, width) = if dilation == 1 { (size.div_ceil(step), step) } else { (size, 1) };
    let mut whole = windows.clone();
    if pieces * width > size {
        let mut high: Strides = SmallVec::from_elem(0, rank);
        high[last] = (pieces * width - size) as isize;
        whole = pad_or_cut(
            b,
            &whole,
            &SmallVec::<[isize; 4]>::from_elem(0, rank),
            &high,
            &Dims::from_elem(0, rank),
        )?;
    }
    let mut order: Dims = (0..last).collect();
    order.insert(axis + 1, last);
    let mut merged = Dims::from_slice(&shape[..last]);
    merged[axis] = count * width;
    let mut total: Option<B::Value> = None;
    for piece in 0..pieces {
        let part = slice_axis(b, &whole, last, piece * width, (piece + 1) * width, 1)?;
        let part = reshape_to(b, &permute_to(b, &part, &order)?, &merged)?;
        let (start, gap) = if dilation == 1 { (piece * width, 0) } else { (piece * dilation, step - 1) };
        let stop = start + (merged[axis] - 1) * (gap + 1) + 1;
        let (mut low, mut high): (Strides, Strides) =
            (SmallVec::from_elem(0, last), SmallVec::from_elem(0, last));
        let mut interior: Dims = SmallVec::from_elem(0, last);
        (low[axis], high[axis], interior[axis]) = (start as isize, length as isize - stop as isize, gap);
        let term = pad_or_cut(b, &part, &low, &high, &interior)?;
        total = Some(match total {
            Some(total) => add(b, &total, &term)?,
            None => term,
        });
    }
    total.ok_or_else(|| Error::shape("window", "a window has no places"))
}

/// The sizes that a convolution of `axes` spatial axes was given.
struct Sizes<'a> {
    stride: &'a [usize],
    padding: &'a [usize],
    dilation: &'a [usize],
    groups: usize,
}

/// `x` with a leading axis of size 1 if it has none, and whether that was added.
fn with_images<B: Builder>(b: &B, op: &str, x: &B::Value, axes: usize) -> Result<(B::Value, bool)> {
    match b.ty(x).rank() {
        rank if rank == axes + 2 => Ok((x.clone(), false)),
        rank if rank == axes + 1 => Ok((unsqueeze(b, x, 0)?, true)),
        _ => Err(Error::shape(
            op,
            format!("x is {}, expected [n, c, {axes} sizes] or [c, {axes} sizes]", b.ty(x)),
        )),
    }
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

/// Padding before and after each axis: of one number, one for each axis, or one for each end (all of them before,
/// then all after, as in ONNX).
fn ends(op: &str, padding: &[usize], axes: usize) -> Result<(Strides, Strides)> {
    let signed = |list: &[usize]| -> Result<Strides> {
        let too_large =
            |_| Error::shape(op, format!("padding is {}, which does not fit", ShowShape(padding)));
        list.iter().map(|&size| isize::try_from(size).map_err(too_large)).collect()
    };
    if axes > 0 && padding.len() == 2 * axes {
        return Ok((signed(&padding[..axes])?, signed(&padding[axes..])?));
    }
    let both = signed(&each_axis(op, "padding", padding, axes, 0)?)?;
    Ok((both.clone(), both))
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

/// The sizes of windows over the last two axes, and how many there are along each of a padded image.
struct Patches {
    kernel: Dims,
    stride: Dims,
    padding: Strides,
    dilation: Dims,
    padded: Dims,
    counts: Dims,
}

impl Patches {
    fn new(
        op: &str,
        image: &[usize],
        kernel: &[usize],
        stride: &[usize],
        padding: &[usize],
        dilation: &[usize],
    ) -> Result<Patches> {
        let kernel = each_axis(op, "kernel", kernel, 2, 1)?;
        let stride = each_axis(op, "stride", stride, 2, 1)?;
        let dilation = each_axis(op, "dilation", dilation, 2, 1)?;
        let (padding, _) = ends(op, &each_axis(op, "padding", padding, 2, 0)?, 2)?;
        expect_positive(op, &[("kernel", &kernel), ("stride", &stride), ("dilation", &dilation)])?;
        let (mut padded, mut counts) = (Dims::new(), Dims::new());
        for a in 0..2 {
            let size = padded_size(image[a], 0, padding[a], padding[a])
                .ok_or_else(|| Error::shape(op, format!("the padding {} does not fit", padding[a])))?;
            padded.push(size);
            counts.push(window_count(size, kernel[a], stride[a], dilation[a]));
        }
        if counts.contains(&0) {
            return Err(Error::shape(
                op,
                format!(
                    "the kernel {} spans more than {} with its padding",
                    ShowShape(&kernel),
                    ShowShape(image)
                ),
            ));
        }
        Ok(Patches { kernel, stride, padding, dilation, padded, counts })
    }
}

/// Windows of an image as columns (im2col): `x [n, c, h, w]` to `[n, c kh kw, windows]`, windows in row-major order;
/// `x [c, h, w]` is one image (torch `unfold`).
///
/// Errors: a kernel that spans more than the padded image.
pub fn unfold<B: Builder>(
    b: &B,
    x: &B::Value,
    kernel: &[usize],
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
) -> Result<B::Value> {
    let (x, is_single) = with_images(b, "unfold", x, 2)?;
    let shape = shape_of(b, &x);
    let p = Patches::new("unfold", &shape[2..], kernel, stride, padding, dilation)?;
    let ends = [0, 0, p.padding[0], p.padding[1]];
    let padded = pad_or_cut(b, &x, &ends, &ends, &[0; 4])?;
    let windows = windows_of(b, &padded, &[2, 3], &p.kernel, &p.stride, &p.dilation)?;
    let rows =
        shape[1].checked_mul(numel(&p.kernel)).ok_or_else(|| Error::shape("unfold", "the sizes overflow"))?;
    let columns = permute_to(b, &windows, &[0, 1, 4, 5, 2, 3])?;
    let columns = reshape_to(b, &columns, &[shape[0], rows, numel(&p.counts)])?;
    if is_single { squeeze(b, &columns, &[0]) } else { Ok(columns) }
}

/// Columns added up to an image of `size [h, w]` (col2im): `[n, c kh kw, windows]` to `[n, c, h, w]`, the transpose
/// of [`unfold`]; `[c kh kw, windows]` is one image. Half types accumulate in f32 (torch `fold`).
///
/// Errors: columns whose sizes are not those that `unfold` gives.
pub fn fold_<B: Builder>(
    b: &B,
    x: &B::Value,
    size: &[usize],
    kernel: &[usize],
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
) -> Result<B::Value> {
    crate::prim::expect_float("fold", "x", b.ty(x))?;
    let size = each_axis("fold", "size", size, 2, 1)?;
    let is_single = b.ty(x).rank() == 2;
    let x = if is_single { unsqueeze(b, x, 0)? } else { x.clone() };
    let shape = shape_of(b, &x);
    let p = Patches::new("fold", &size, kernel, stride, padding, dilation)?;
    let (places, windows) = (numel(&p.kernel), numel(&p.counts));
    if shape.len() != 3 || shape[1] % places != 0 || shape[2] != windows {
        return Err(Error::shape(
            "fold",
            format!(
                "x is {}, expected [n, c * {places}, {windows}] for an image of {}",
                b.ty(&x),
                ShowShape(&size)
            ),
        ));
    }
    let channels = shape[1] / places;
    let [h, w, kh, kw] = [p.counts[0], p.counts[1], p.kernel[0], p.kernel[1]];
    let windows = reshape_to(b, &x, &[shape[0], channels, kh, kw, h, w])?;
    let windows = permute_to(b, &windows, &[0, 1, 4, 5, 2, 3])?;
    let padded = [shape[0], channels, p.padded[0], p.padded[1]];
    let image = overlap_add(b, &windows, &padded, &[2, 3], &p.kernel, &p.stride, &p.dilation)?;
    let ends = [0, 0, -p.padding[0], -p.padding[1]];
    let image = pad_or_cut(b, &image, &ends, &ends, &[0; 4])?;
    if is_single { squeeze(b, &image, &[0]) } else { Ok(image) }
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
    let op = "short_conv1d";
    let (sx, sw) = (shape_of(b, x), shape_of(b, weight));
    crate::prim::expect_float(op, "x", b.ty(x))?;
    crate::prim::expect_same_dtype(op, b.ty(x), "weight", b.ty(weight))?;
    if sx.len() != 3 || sw.len() != 2 || sw[0] != sx[2] || sw[1] == 0 {
        return Err(Error::shape(
            op,
            format!(
                "x {} and weight {} do not fit; expected [n, t, c] and [c, k] with k of at least 1",
                ShowShape(&sx),
                ShowShape(&sw)
            ),
        ));
    }
    let (time, taps) = (sx[1], sw[1]);
    let before = [sx[0], taps - 1, sx[2]];
    let state = match state {
        Some(state) => {
            crate::prim::expect_same_dtype(op, b.ty(x), "state", b.ty(state))?;
            crate::prim::expect_shape(op, "state", b.ty(state), &before)?;
            state.clone()
        }
        None => zeros(b, &before, b.ty(x).dtype)?,
    };
    let all = if taps == 1 { x.clone() } else { concat(b, &[state, x.clone()], 1)? };
    let dtype = b.ty(x).dtype;
    // [n, t, c, k]
    let windows = windows_of(b, &all, &[1], &[taps], &[1], &[1])?;
    let terms = mul(b, &cast(b, &windows, dtype.wide())?, &cast(b, weight, dtype.wide())?)?;
    let y = cast(b, &sum(b, &terms, &[-1], false)?, dtype)?;
    Ok(vec![y, slice_axis(b, &all, 1, time, time + taps - 1, 1)?])
}
