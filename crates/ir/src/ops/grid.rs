//! Reading images at any place: grids of places, and what is sampled there.

use smallvec::SmallVec;

use super::pointwise::named;
use super::{
    Interpolation, abs, add, add_scalar, broadcast_to, cast, clamp, eq_scalar, floor, full, gather,
    ge_scalar, iota, le_scalar, logical_and, matmul, mul, mul_scalar, reshape_to, round, rsub_scalar, scalar,
    select, shape_of, stack, sub, transpose, unsqueeze, where_, zeros,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, numel};
use crate::prim::{Index, Prim, ScatterOp};

/// What [`grid_sample`] reads beyond the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridPadding {
    #[default]
    Zeros,
    /// The edge.
    Border,
    /// The image mirrored, at the middle of the edge's elements with `align_corners`, else at their outer side.
    Reflection,
}

impl GridPadding {
    /// By the name that torch gives it.
    pub fn of(name: &str) -> Option<GridPadding> {
        Some(match name {
            "zeros" => GridPadding::Zeros,
            "border" => GridPadding::Border,
            "reflection" => GridPadding::Reflection,
            _ => return None,
        })
    }
}

/// A grid for [`grid_sample`]: every place of an image of `size [n, c, h, w]` (or `[n, c, d, h, w]`) mapped by
/// `theta [n, 2, 3]` (`[n, 3, 4]`), `[n, h, w, 2]`. Places run from -1 to 1 along each axis, between the middles of the
/// first and last element with `align_corners`, else between their outer sides; the last axis of the image comes
/// first (torch `affine_grid`).
///
/// Errors: a size that does not fit `theta`.
pub fn affine_grid<B: Builder>(
    b: &B,
    theta: &B::Value,
    size: &[usize],
    align_corners: bool,
) -> Result<B::Value> {
    let op = "affine_grid";
    crate::prim::expect_float(op, "theta", b.ty(theta))?;
    let axes = size.len().saturating_sub(2);
    let dtype = b.ty(theta).dtype;
    let fits = (axes == 2 || axes == 3) && b.ty(theta).shape[..] == [size[0], axes, axes + 1];
    if !fits {
        return Err(Error::shape(
            op,
            format!(
                "theta {} and size {} do not fit; expected [n, 2, 3] and [n, c, h, w], or [n, 3, 4] and [n, c, d, h, w]",
                b.ty(theta),
                ShowShape(size)
            ),
        ));
    }
    let (image, wide) = (&size[2..], dtype.wide());
    // The coordinates of every place, the last axis first, and 1.
    let mut columns = Vec::with_capacity(axes + 1);
    for a in (0..axes).rev() {
        let n = image[a] as f64;
        let place = iota(b, image[a], wide)?;
        let place = match (align_corners, image[a]) {
            (true, 0 | 1) => mul_scalar(b, &place, 0.0)?,
            (true, _) => add_scalar(b, &mul_scalar(b, &place, 2.0 / (n - 1.0))?, -1.0)?,
            (false, _) => add_scalar(b, &mul_scalar(b, &place, 2.0 / n)?, 1.0 / n - 1.0)?,
        };
        let mut along: Dims = SmallVec::from_elem(1, axes);
        along[a] = image[a];
        columns.push(broadcast_to(b, &reshape_to(b, &place, &along)?, image)?);
    }
    columns.push(full(b, image, 1.0, wide)?);
    let places = reshape_to(b, &stack(b, &columns, -1)?, &[numel(image), axes + 1])?;
    let mapped = matmul(b, &places, &transpose(b, &cast(b, theta, wide)?, 1, 2)?)?;
    let mut shape = Dims::from_slice(&[size[0]]);
    shape.extend_from_slice(image);
    shape.push(axes);
    cast(b, &reshape_to(b, &mapped, &shape)?, dtype)
}

/// One spatial axis of the image that is sampled, with its coordinates, `[n, places]`.
struct Axis<'a, B> {
    b: &'a B,
    size: usize,
    padding: GridPadding,
    align_corners: bool,
}

/// A whole coordinate of an axis, whether the image has it, and its weight.
struct Tap<V> {
    at: V,
    weight: Option<V>,
}

impl<B: Builder> Axis<'_, B> {
    /// From -1 to 1 to elements of the axis.
    fn elements(&self, coordinate: &B::Value) -> Result<B::Value> {
        let (b, size) = (self.b, self.size as f64);
        let (scale, shift) = if self.align_corners {
            ((size - 1.0) / 2.0, (size - 1.0) / 2.0)
        } else {
            (size / 2.0, (size - 1.0) / 2.0)
        };
        add_scalar(b, &mul_scalar(b, coordinate, scale)?, shift)
    }

    fn within(&self, at: &B::Value) -> Result<B::Value> {
        clamp(self.b, at, Some(0.0.into()), Some((self.size as f64 - 1.0).into()))
    }

    /// A coordinate as it is after padding.
    fn padded(&self, at: &B::Value) -> Result<B::Value> {
        let (b, size) = (self.b, self.size as f64);
        match self.padding {
            GridPadding::Zeros => Ok(at.clone()),
            GridPadding::Border => self.within(at),
            GridPadding::Reflection => {
                let (low, span) = if self.align_corners { (0.0, size - 1.0) } else { (-0.5, size) };
                if span == 0.0 {
                    return mul_scalar(b, at, 0.0);
                }
                let away = abs(b, &add_scalar(b, at, -low)?)?;
                let turns = floor(b, &mul_scalar(b, &away, 1.0 / span)?)?;
                let rest = sub(b, &away, &mul_scalar(b, &turns, span)?)?;
                let half = mul_scalar(b, &turns, 0.5)?;
                let is_even = eq_scalar(b, &sub(b, &half, &floor(b, &half)?)?, 0.0)?;
                let mirrored = where_(b, &is_even, &rest, &rsub_scalar(b, &rest, span)?)?;
                self.within(&add_scalar(b, &mirrored, low)?)
            }
        }
    }

    fn taps(&self, coordinate: &B::Value, mode: Interpolation) -> Result<Vec<Tap<B::Value>>> {
        let b = self.b;
        let at = self.elements(coordinate)?;
        if mode == Interpolation::Nearest {
            return Ok(vec![Tap { at: round(b, &self.padded(&at)?)?, weight: None }]);
        }
        // Cubic taps are padded one by one, as in torch.
        let at = if mode == Interpolation::Cubic { at } else { self.padded(&at)? };
        let below = floor(b, &at)?;
        let share = sub(b, &at, &below)?;
        let rest = rsub_scalar(b, &share, 1.0)?;
        if mode == Interpolation::Linear {
            let above = add_scalar(b, &below, 1.0)?;
            return Ok(vec![Tap { at: below, weight: Some(rest) }, Tap { at: above, weight: Some(share) }]);
        }
        let weights = super::resample::cubic_weights(b, &share, &rest)?;
        let taps = weights.into_iter().enumerate().map(|(number, weight)| {
            let at = self.padded(&add_scalar(b, &below, number as f64 - 1.0)?)?;
            Ok(Tap { at, weight: Some(weight) })
        });
        taps.collect()
    }

    /// The coordinate as an index, and where the image has it (`None`: everywhere).
    fn index(&self, tap: &Tap<B::Value>) -> Result<(B::Value, Option<B::Value>)> {
        let b = self.b;
        let index = cast(b, &self.within(&tap.at)?, DType::I64)?;
        if self.padding != GridPadding::Zeros {
            return Ok((index, None));
        }
        let last = self.size as f64 - 1.0;
        let inside = logical_and(b, &ge_scalar(b, &tap.at, 0.0)?, &le_scalar(b, &tap.at, last)?)?;
        Ok((index, Some(inside)))
    }
}

/// `x [n, c, h, w]` read at the places of `grid [n, out.., 2]`, `[n, c, out..]` (or `x [n, c, d, h, w]` and
/// `grid [n, out.., 3]`). Places are as in [`affine_grid`]. `mode` is `nearest` (halves to even), `bilinear` (also
/// `linear`, `trilinear`) or `bicubic` (images); `padding` is `zeros`, `border` or `reflection`. Half types compute in
/// f32 (Jaderberg et al. 2015; torch `grid_sample`).
///
/// Errors: empty images, or a grid that does not fit.
pub fn grid_sample<B: Builder>(
    b: &B,
    x: &B::Value,
    grid: &B::Value,
    mode: Interpolation,
    padding: GridPadding,
    align_corners: bool,
) -> Result<B::Value> {
    let op = "grid_sample";
    crate::prim::expect_float(op, "x", b.ty(x))?;
    crate::prim::expect_same_dtype(op, b.ty(x), "grid", b.ty(grid))?;
    let (sx, sg, dtype) = (shape_of(b, x), shape_of(b, grid), b.ty(x).dtype);
    let axes = sx.len().saturating_sub(2);
    let known = matches!(mode, Interpolation::Nearest | Interpolation::Linear)
        || (mode == Interpolation::Cubic && axes == 2);
    if !(known && (axes == 2 || axes == 3)) {
        return Err(Error::shape(op, format!("x is {} and the mode {mode:?}, which is for images", b.ty(x))));
    }
    let fits = sg.len() == axes + 2 && sg[0] == sx[0] && sg[axes + 1] == axes && !sx[2..].contains(&0);
    if !fits {
        return Err(Error::shape(
            op,
            format!(
                "x {} and grid {} do not fit; expected [n, c, sizes that are not 0] and [n, out.., {axes}]",
                ShowShape(&sx),
                ShowShape(&sg)
            ),
        ));
    }
    let (batch, channels, places) = (sx[0], sx[1], numel(&sg[1..=axes]));
    let elements = reshape_to(b, x, &[batch, channels, numel(&sx[2..])])?;
    let grid = reshape_to(b, &cast(b, grid, dtype.wide())?, &[batch, places, axes])?;
    // Corners: the flat index so far, where all of its axes lie inside, and the product of weights.
    type Corner<V> = (Option<V>, Option<V>, Option<V>);
    let mut corners: Vec<Corner<B::Value>> = vec![(None, None, None)];
    for (a, &size) in sx[2..].iter().enumerate() {
        let axis = Axis { b, size, padding, align_corners };
        let coordinate = select(b, &grid, 2, (axes - 1 - a) as isize)?;
        let mut found = Vec::new();
        for tap in axis.taps(&coordinate, mode)? {
            let (index, inside) = axis.index(&tap)?;
            for (flat, all_inside, weight) in &corners {
                let flat = match flat {
                    Some(flat) => add(b, &mul_scalar(b, flat, size as i64)?, &index)?,
                    None => index.clone(),
                };
                let inside = match (all_inside, &inside) {
                    (Some(one), Some(other)) => Some(logical_and(b, one, other)?),
                    (one, other) => one.clone().or(other.clone()),
                };
                let weight = match (weight, &tap.weight) {
                    (Some(one), Some(other)) => Some(mul(b, one, other)?),
                    (one, other) => one.clone().or(other.clone()),
                };
                found.push((Some(flat), inside, weight));
            }
        }
        corners = found;
    }
    let zero = scalar(b, 0.0, dtype.wide())?;
    let mut total: Option<B::Value> = None;
    for (flat, inside, weight) in corners {
        let Some(flat) = flat else { continue };
        let ids = broadcast_to(b, &unsqueeze(b, &flat, 1)?, &[batch, channels, places])?;
        let mut term = cast(b, &gather(b, &elements, 2, &ids)?, dtype.wide())?;
        if let Some(inside) = inside {
            term = where_(b, &unsqueeze(b, &inside, 1)?, &term, &zero)?;
        }
        if let Some(weight) = weight {
            term = mul(b, &term, &unsqueeze(b, &weight, 1)?)?;
        }
        total = Some(match total {
            Some(total) => add(b, &total, &term)?,
            None => term,
        });
    }
    let total = total.ok_or_else(|| Error::shape(op, "there is no axis to sample"))?;
    let mut shape = Dims::from_slice(&[batch, channels]);
    shape.extend_from_slice(&sg[1..=axes]);
    cast(b, &reshape_to(b, &total, &shape)?, dtype)
}

macro_rules! max_unpools {
    ($($(#[$doc:meta])* $name:ident => $axes:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<B: Builder>(b: &B, x: &B::Value, indices: &B::Value, size: &[usize]) -> Result<B::Value> {
            unpooled(b, stringify!($name), $axes, x, indices, size)
        }
    )*};
}

max_unpools! {
    /// Puts the elements of `x [n, c, l]` (or `[c, l]`) where `max_pool1d_with_indices` found them, in zeros of `size`:
    /// `[n, c, size]`. Of elements with one index the sum is put (torch `max_unpool1d`).
    ///
    /// Errors: an index outside the result, when the op runs.
    max_unpool1d => 1;
    /// [`max_unpool1d`] of images, `x [n, c, h, w]` (torch `max_unpool2d`).
    max_unpool2d => 2;
    /// [`max_unpool1d`] of volumes, `x [n, c, d, h, w]` (torch `max_unpool3d`).
    max_unpool3d => 3;
}

fn unpooled<B: Builder>(
    b: &B,
    op: &str,
    axes: usize,
    x: &B::Value,
    indices: &B::Value,
    size: &[usize],
) -> Result<B::Value> {
    crate::prim::expect_float(op, "x", b.ty(x))?;
    super::require_int(op, "indices", b.ty(indices))?;
    let shape = shape_of(b, x);
    let fits = (shape.len() == axes + 1 || shape.len() == axes + 2)
        && b.ty(indices).shape == shape
        && size.len() == axes;
    if !fits {
        return Err(Error::shape(
            op,
            format!(
                "x {}, indices {} and size {} do not fit; expected [n, c, {axes} sizes] twice and {axes} sizes",
                ShowShape(&shape),
                ShowShape(&b.ty(indices).shape),
                ShowShape(size)
            ),
        ));
    }
    let lead = &shape[..shape.len() - axes];
    let (planes, places) = (numel(lead), numel(&shape[lead.len()..]));
    let (ids, x) = (reshape_to(b, indices, &[planes, places])?, reshape_to(b, x, &[planes, places])?);
    let base = zeros(b, &[planes, numel(size)], b.ty(&x).dtype)?;
    let scatter = Prim::Index(Index::Scatter { axis: 1, op: ScatterOp::Add });
    let put = named(op, || b.apply1(scatter, &[base, ids, x]))?;
    let whole: Dims = lead.iter().chain(size).copied().collect();
    reshape_to(b, &put, &whole)
}
