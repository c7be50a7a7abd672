//! Sliding windows: as views, as columns of a matrix, added up again.
//!
//! Lists of numbers for the spatial axes take one number for all of them, one for each, or none for the default.

use smallvec::SmallVec;

use super::{
    add, apply_movement, cast, pad_or_cut, permute_to, reshape_to, shape_of, slice_axis, squeeze, unsqueeze,
    zeros,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, Strides, numel, resolve_axis, window_count};
use crate::prim::window::padded_size;
use crate::prim::{Movement, Windows};

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
    apply_movement(b, Movement::Window(Box::new(Windows { axes, sizes, steps, dilations })), x)
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

/// `x` with a leading axis of size 1 if it has none, and whether that was added.
pub(super) fn with_images<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    axes: usize,
) -> Result<(B::Value, bool)> {
    match b.ty(x).rank() {
        rank if rank == axes + 2 => Ok((x.clone(), false)),
        rank if rank == axes + 1 => Ok((unsqueeze(b, x, 0)?, true)),
        _ => Err(Error::shape(
            op,
            format!("x is {}, expected [n, c, {axes} sizes] or [c, {axes} sizes]", b.ty(x)),
        )),
    }
}

/// Padding before and after each axis: of one number, one for each axis, or one for each end (all of them before,
/// then all after, as in ONNX).
pub(super) fn ends(op: &str, padding: &[usize], axes: usize) -> Result<(Strides, Strides)> {
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
