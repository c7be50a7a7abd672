//! Images of another size: interpolation, and channels traded for pixels.

use smallvec::SmallVec;

use super::window::each_axis;
use super::{
    add, add_scalar, cast, clamp, div_scalar, floor, index_select, iota, mul, mul_scalar, permute_to,
    reshape_to, shape_of, sub,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape};

/// How [`interpolate`] finds elements between those that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// The element at `floor(i n / out)`.
    #[default]
    Nearest,
    /// The element at `floor((i + 1/2) n / out)`, as in PIL and scikit-image.
    NearestExact,
    /// A mean of two elements along each axis.
    Linear,
    /// Of four elements along each axis, Keys 1981 with `a = -3/4`.
    Cubic,
    /// The mean of pieces, as `adaptive_avg_pool`.
    Area,
}

impl Interpolation {
    /// By the name that torch gives it; linear has one for each number of axes.
    pub fn of(name: &str) -> Option<Interpolation> {
        Some(match name {
            "nearest" => Interpolation::Nearest,
            "nearest-exact" => Interpolation::NearestExact,
            "linear" | "bilinear" | "trilinear" => Interpolation::Linear,
            "bicubic" => Interpolation::Cubic,
            "area" => Interpolation::Area,
            _ => return None,
        })
    }
}

/// `x [n, c, spatial..]` with spatial axes of `size` (one number for all, or one each), or `scale` times as long,
/// rounded down. `mode` is `nearest`, `nearest-exact`, `linear` (also `bilinear`, `trilinear`), `bicubic` (two axes) or
/// `area`. Element `i` of `out` stands at `(i + 1/2) n / out - 1/2` of the `n` elements, or at `i (n - 1) / (out - 1)`
/// with `align_corners`, which `linear` and `bicubic` take; the edge goes on beyond the ends. Half types compute in
/// f32 (torch `interpolate` with `recompute_scale_factor`).
///
/// Errors: empty spatial axes, neither or both of `size` and `scale`, a mode that does not take what is asked.
pub fn interpolate<B: Builder>(
    b: &B,
    x: &B::Value,
    size: &[usize],
    scale: Option<f64>,
    mode: Interpolation,
    align_corners: bool,
) -> Result<B::Value> {
    let op = "interpolate";
    crate::prim::expect_float(op, "x", b.ty(x))?;
    let fail = |message: String| Err(Error::shape(op, message));
    let (shape, dtype) = (shape_of(b, x), b.ty(x).dtype);
    if shape.len() < 3 || shape[2..].contains(&0) {
        return fail(format!(
            "x is {}, expected [n, c, ..] with spatial axes that are not empty",
            ShowShape(&shape)
        ));
    }
    let axes = shape.len() - 2;
    let sizes: Dims = match (size, scale) {
        ([], Some(scale)) => {
            if !(scale > 0.0 && scale.is_finite()) {
                return fail(format!("the scale is {scale}, expected a positive number"));
            }
            shape[2..].iter().map(|&n| (n as f64 * scale).floor() as usize).collect()
        }
        ([_, ..], None) => each_axis(op, "size", size, axes, 1)?,
        ([], None) => return fail("neither size nor scale is given, expected one of them".to_owned()),
        (_, Some(scale)) => {
            return fail(format!("size is {} and scale {scale}, expected one of them", ShowShape(size)));
        }
    };
    let smooth = matches!(mode, Interpolation::Linear | Interpolation::Cubic);
    if (align_corners && !smooth) || (mode == Interpolation::Cubic && axes != 2) {
        return fail(format!("{mode:?} of {axes} axes with align_corners {align_corners} is not defined"));
    }
    if let Some(&out) = sizes.iter().find(|&&out| out == 0 || out > isize::MAX as usize / 8) {
        return fail(format!("an axis of size {out} cannot be made"));
    }
    if mode == Interpolation::Area {
        return match axes {
            1 => super::adaptive_avg_pool1d(b, x, &sizes),
            2 => super::adaptive_avg_pool2d(b, x, &sizes),
            3 => super::adaptive_avg_pool3d(b, x, &sizes),
            _ => fail(format!("area is for one to three spatial axes, x has {axes}")),
        };
    }
    let mut y = if smooth { cast(b, x, dtype.wide())? } else { x.clone() };
    for a in 0..axes {
        let line = Line { b, axis: a + 2, length: shape[a + 2], out: sizes[a], align_corners };
        y = match mode {
            Interpolation::Nearest | Interpolation::NearestExact if line.length == line.out => y,
            Interpolation::Nearest => line.nearest(&y, 0)?,
            Interpolation::NearestExact => line.nearest(&y, 1)?,
            Interpolation::Linear => line.linear(&y)?,
            Interpolation::Cubic | Interpolation::Area => line.cubic(&y)?,
        };
    }
    cast(b, &y, dtype)
}

/// One axis that gets another size.
struct Line<'a, B> {
    b: &'a B,
    axis: usize,
    length: usize,
    out: usize,
    align_corners: bool,
}

impl<B: Builder> Line<'_, B> {
    /// The elements at `floor((i + halves / 2) n / out)`, in whole numbers.
    fn nearest(&self, x: &B::Value, halves: i64) -> Result<B::Value> {
        let b = self.b;
        let twice = add_scalar(b, &mul_scalar(b, &iota(b, self.out, DType::I64)?, 2i64)?, halves)?;
        let ids = div_scalar(b, &mul_scalar(b, &twice, self.length as i64)?, 2 * self.out as i64)?;
        index_select(b, x, self.axis as isize, &ids)
    }

    /// Where each element stands among the old ones.
    fn places(&self, dtype: DType) -> Result<B::Value> {
        let b = self.b;
        let element = iota(b, self.out, dtype)?;
        if self.align_corners {
            let step = if self.out > 1 { (self.length - 1) as f64 / (self.out - 1) as f64 } else { 0.0 };
            return mul_scalar(b, &element, step);
        }
        let step = self.length as f64 / self.out as f64;
        add_scalar(b, &mul_scalar(b, &add_scalar(b, &element, 0.5)?, step)?, -0.5)
    }

    /// The elements `offset` after `whole`, or at the edge, times `weight`.
    fn term(&self, x: &B::Value, whole: &B::Value, offset: i64, weight: &B::Value) -> Result<B::Value> {
        let b = self.b;
        let at = if offset == 0 { whole.clone() } else { add_scalar(b, whole, offset)? };
        let ids = clamp(b, &at, Some(0i64.into()), Some((self.length as i64 - 1).into()))?;
        let taken = index_select(b, x, self.axis as isize, &ids)?;
        let mut along: Dims = SmallVec::from_elem(1, b.ty(x).rank() - self.axis);
        along[0] = self.out;
        mul(b, &taken, &reshape_to(b, weight, &along)?)
    }

    fn linear(&self, x: &B::Value) -> Result<B::Value> {
        let b = self.b;
        let dtype = b.ty(x).dtype;
        let places =
            clamp(b, &self.places(dtype)?, Some(0.0.into()), Some((self.length as f64 - 1.0).into()))?;
        let below = floor(b, &places)?;
        let share = sub(b, &places, &below)?;
        let whole = cast(b, &below, DType::I64)?;
        let first = self.term(x, &whole, 0, &super::rsub_scalar(b, &share, 1.0)?)?;
        add(b, &first, &self.term(x, &whole, 1, &share)?)
    }

    fn cubic(&self, x: &B::Value) -> Result<B::Value> {
        let b = self.b;
        let places = self.places(b.ty(x).dtype)?;
        let below = floor(b, &places)?;
        let share = sub(b, &places, &below)?;
        let whole = cast(b, &below, DType::I64)?;
        let rest = super::rsub_scalar(b, &share, 1.0)?;
        let mut total: Option<B::Value> = None;
        for (offset, weight) in (-1..).zip(&cubic_weights(b, &share, &rest)?) {
            let term = self.term(x, &whole, offset, weight)?;
            total = Some(match total {
                Some(total) => add(b, &total, &term)?,
                None => term,
            });
        }
        total.ok_or_else(|| Error::shape("interpolate", "there are no weights"))
    }
}

/// The weights of four neighbours, for a place `share` after the second and `rest` before the third: Keys 1981,
/// equation 15, with `a = -3/4`, for distances below 1 and between 1 and 2.
pub(super) fn cubic_weights<B: Builder>(b: &B, share: &B::Value, rest: &B::Value) -> Result<[B::Value; 4]> {
    const A: f64 = -0.75;
    let horner = |t: &B::Value, [c3, c2, c1, c0]: [f64; 4]| -> Result<B::Value> {
        let y = add_scalar(b, &mul_scalar(b, t, c3)?, c2)?;
        let y = add_scalar(b, &mul(b, &y, t)?, c1)?;
        add_scalar(b, &mul(b, &y, t)?, c0)
    };
    let near = |t: &B::Value| horner(t, [A + 2.0, -A - 3.0, 0.0, 1.0]);
    let far = |t: &B::Value| horner(&add_scalar(b, t, 1.0)?, [A, -5.0 * A, 8.0 * A, -4.0 * A]);
    Ok([far(share)?, near(share)?, near(rest)?, far(rest)?])
}

/// The sizes of `x [.., c, h, w]` before and from its third-last axis on.
fn image<'a>(op: &str, shape: &'a [usize], factor: usize) -> Result<(&'a [usize], [usize; 3])> {
    match shape {
        [lead @ .., c, h, w] if factor > 0 => Ok((lead, [*c, *h, *w])),
        _ => Err(Error::shape(
            op,
            format!(
                "x is of shape {} and the factor {factor}, expected [.., c, h, w] and at least 1",
                ShowShape(shape)
            ),
        )),
    }
}

fn joined(lead: &[usize], rest: &[usize]) -> Dims {
    lead.iter().chain(rest).copied().collect()
}

/// The axes of a value of `lead` leading ones, of which those behind are reordered by `order`.
fn reordered(lead: usize, order: &[usize]) -> Dims {
    (0..lead).chain(order.iter().map(|&axis| lead + axis)).collect()
}

/// `x [.., c f^2, h, w]` to `[.., c, f h, f w]`: channels become pixels (Shi et al. 2016; torch `pixel_shuffle`).
///
/// Errors: channels that `f^2` does not divide.
pub fn pixel_shuffle<B: Builder>(b: &B, x: &B::Value, factor: usize) -> Result<B::Value> {
    let op = "pixel_shuffle";
    let shape = shape_of(b, x);
    let (lead, [channels, h, w]) = image(op, &shape, factor)?;
    let divided = factor.checked_mul(factor).filter(|&square| channels % square == 0);
    let sizes =
        divided.and_then(|square| Some((channels / square, h.checked_mul(factor)?, w.checked_mul(factor)?)));
    let Some((c, tall, wide)) = sizes else {
        return Err(Error::shape(op, format!("{factor} squared does not divide the {channels} channels")));
    };
    let split = reshape_to(b, x, &joined(lead, &[c, factor, factor, h, w]))?;
    let moved = permute_to(b, &split, &reordered(lead.len(), &[0, 3, 1, 4, 2]))?;
    reshape_to(b, &moved, &joined(lead, &[c, tall, wide]))
}

/// `x [.., c, f h, f w]` to `[.., c f^2, h, w]`: undoes [`pixel_shuffle`] (torch `pixel_unshuffle`).
///
/// Errors: heights or widths that `f` does not divide.
pub fn pixel_unshuffle<B: Builder>(b: &B, x: &B::Value, factor: usize) -> Result<B::Value> {
    let op = "pixel_unshuffle";
    let shape = shape_of(b, x);
    let (lead, [c, tall, wide]) = image(op, &shape, factor)?;
    let channels = factor.checked_mul(factor).and_then(|square| square.checked_mul(c));
    let Some(channels) = channels.filter(|_| tall % factor == 0 && wide % factor == 0) else {
        return Err(Error::shape(op, format!("{factor} does not divide {tall} and {wide}")));
    };
    let (h, w) = (tall / factor, wide / factor);
    let split = reshape_to(b, x, &joined(lead, &[c, h, factor, w, factor]))?;
    let moved = permute_to(b, &split, &reordered(lead.len(), &[0, 2, 4, 1, 3]))?;
    reshape_to(b, &moved, &joined(lead, &[channels, h, w]))
}

/// `x [n, c, ..]` with the channels of `groups` groups in turn: channel `i` of group `g` becomes channel
/// `i groups + g` (Zhang et al. 2018, "ShuffleNet"; torch `channel_shuffle`).
///
/// Errors: groups that do not divide the channels.
pub fn channel_shuffle<B: Builder>(b: &B, x: &B::Value, groups: usize) -> Result<B::Value> {
    let shape = shape_of(b, x);
    if shape.len() < 2 || groups == 0 || shape[1] % groups != 0 {
        return Err(Error::shape(
            "channel_shuffle",
            format!(
                "{groups} groups do not divide the channels of x {}, which is [n, c, ..]",
                ShowShape(&shape)
            ),
        ));
    }
    let split: Dims =
        [shape[0], groups, shape[1] / groups].into_iter().chain(shape[2..].iter().copied()).collect();
    let order: Dims = [0, 2, 1].into_iter().chain(3..split.len()).collect();
    reshape_to(b, &permute_to(b, &reshape_to(b, x, &split)?, &order)?, &shape)
}
