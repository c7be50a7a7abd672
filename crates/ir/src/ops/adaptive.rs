//! Pooling to a given size, whatever the operand's.

use smallvec::SmallVec;

use super::pool::first_largest;
use super::window::each_axis;
use super::{
    add, add_scalar, cast, div, div_scalar, eq, index_select, iota, lt, minimum_scalar, mul_scalar,
    permute_to, reshape_to, scalar, shape_of, sub, unsqueeze, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape};

/// The pieces of one axis for adaptive pooling to `out` sizes: piece `i` is `i n / out .. ceil((i + 1) n / out)`.
struct Pieces {
    length: usize,
    out: usize,
    /// The size of the largest piece.
    most: usize,
}

impl Pieces {
    fn new(op: &str, length: usize, out: usize) -> Result<Pieces> {
        // In 128 bits: a product of two sizes.
        let bound = |piece: usize| piece as u128 * length as u128;
        let fits = length > 0 && bound(out) + out as u128 <= i64::MAX as u128;
        if !fits {
            return Err(Error::shape(op, format!("an axis of size {length} gives no {out} pieces")));
        }
        // A piece begins up to `(out - gcd) / out` behind a whole place.
        let most = match out {
            0 => 0,
            _ => (length + (out - greatest_common_divisor(length, out))).div_ceil(out),
        };
        Ok(Pieces { length, out, most })
    }

    fn is_even(&self) -> bool {
        self.out * self.most == self.length
    }

    /// `0 .. out + 1` times `length / out`, rounded down or up, from `first`; i64 `[out]`.
    fn bounds<B: Builder>(&self, b: &B, first: i64, rounding: i64) -> Result<B::Value> {
        let piece = add_scalar(b, &iota(b, self.out, DType::I64)?, first)?;
        let scaled = add_scalar(b, &mul_scalar(b, &piece, self.length as i64)?, rounding)?;
        div_scalar(b, &scaled, self.out as i64)
    }

    fn starts<B: Builder>(&self, b: &B) -> Result<B::Value> {
        self.bounds(b, 0, 0)
    }

    fn stops<B: Builder>(&self, b: &B) -> Result<B::Value> {
        self.bounds(b, 1, self.out as i64 - 1)
    }

    /// The pieces along `axis`, `[.., out, .., most]`, and which of their places count where not all do, of a shape
    /// that broadcasts to that.
    fn windows<B: Builder>(&self, b: &B, x: &B::Value, axis: usize) -> Result<(B::Value, Option<B::Value>)> {
        let mut split = shape_of(b, x);
        let rank = split.len();
        (split[axis], _) = (self.out, split.insert(axis + 1, self.most));
        let mut last: Dims = (0..rank + 1).collect();
        last.remove(axis + 1);
        last.push(axis + 1);
        if self.is_even() {
            return Ok((permute_to(b, &reshape_to(b, x, &split)?, &last)?, None));
        }
        let place = iota(b, self.most, DType::I64)?;
        let place = add(b, &unsqueeze(b, &self.starts(b)?, -1)?, &place)?;
        let mut inside = lt(b, &place, &unsqueeze(b, &self.stops(b)?, -1)?)?;
        // Places beyond a piece read some element, which does not count.
        let ids = minimum_scalar(b, &place, self.length as i64 - 1)?;
        let ids = reshape_to(b, &ids, &[self.out * self.most])?;
        let taken = index_select(b, x, axis as isize, &ids)?;
        let windows = permute_to(b, &reshape_to(b, &taken, &split)?, &last)?;
        let mut along: Dims = SmallVec::from_elem(1, rank + 1 - axis);
        (along[0], along[rank - axis]) = (self.out, self.most);
        inside = reshape_to(b, &inside, &along)?;
        Ok((windows, Some(inside)))
    }

    /// The result where no piece is asked for.
    fn nothing<B: Builder>(&self, b: &B, x: &B::Value, axis: usize) -> Result<B::Value> {
        super::slice_axis(b, x, axis, 0, 0, 1)
    }

    /// `values [out]` along `axis` of a value of `rank` axes.
    fn along<B: Builder>(&self, b: &B, values: &B::Value, axis: usize, rank: usize) -> Result<B::Value> {
        let mut along: Dims = SmallVec::from_elem(1, rank - axis);
        along[0] = self.out;
        reshape_to(b, values, &along)
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The spatial axes of an adaptive pooling and the sizes that they get.
fn adaptive_sizes(op: &str, axes: usize, shape: &[usize], size: &[usize]) -> Result<(usize, Vec<Pieces>)> {
    if size.is_empty() || (shape.len() != axes + 1 && shape.len() != axes + 2) {
        return Err(Error::shape(
            op,
            format!(
                "x {} and size {}; expected [n, c, {axes} sizes] or [c, {axes} sizes], and one size or {axes}",
                ShowShape(shape),
                ShowShape(size)
            ),
        ));
    }
    let first = shape.len() - axes;
    let size = each_axis(op, "size", size, axes, 1)?;
    let pieces = (0..axes).map(|a| Pieces::new(op, shape[first + a], size[a]));
    Ok((first, pieces.collect::<Result<_>>()?))
}

fn adaptive_mean<B: Builder>(b: &B, op: &str, axes: usize, x: &B::Value, size: &[usize]) -> Result<B::Value> {
    crate::prim::expect_float(op, "x", b.ty(x))?;
    let dtype = b.ty(x).dtype;
    let (first, pieces) = adaptive_sizes(op, axes, &b.ty(x).shape, size)?;
    let mut y = cast(b, x, dtype.wide())?;
    for (a, pieces) in pieces.iter().enumerate() {
        let rank = b.ty(&y).rank();
        if pieces.most == 0 {
            y = pieces.nothing(b, &y, first + a)?;
            continue;
        }
        let (mut windows, inside) = pieces.windows(b, &y, first + a)?;
        if let Some(inside) = &inside {
            windows = where_(b, inside, &windows, &scalar(b, 0.0, dtype.wide())?)?;
        }
        let sums = super::sum(b, &windows, &[-1], false)?;
        y = if inside.is_none() {
            mul_scalar(b, &sums, 1.0 / pieces.most as f64)?
        } else {
            let counts = cast(b, &sub(b, &pieces.stops(b)?, &pieces.starts(b)?)?, dtype.wide())?;
            div(b, &sums, &pieces.along(b, &counts, first + a, rank)?)?
        };
    }
    cast(b, &y, dtype)
}

/// The largest elements and their places in the flattened spatial axes, i64. One axis after another, the last one
/// first, so that of equal elements the first in row-major order is chosen.
fn adaptive_largest<B: Builder>(
    b: &B,
    op: &str,
    axes: usize,
    x: &B::Value,
    size: &[usize],
) -> Result<[B::Value; 2]> {
    crate::prim::expect_float(op, "x", b.ty(x))?;
    let (first, pieces) = adaptive_sizes(op, axes, &b.ty(x).shape, size)?;
    let dtype = b.ty(x).dtype;
    let mut y = x.clone();
    let mut flat: Option<B::Value> = None;
    let mut weight = 1i64;
    for (a, pieces) in pieces.iter().enumerate().rev() {
        let (rank, axis) = (b.ty(&y).rank(), first + a);
        if pieces.most == 0 {
            y = pieces.nothing(b, &y, axis)?;
            flat = Some(super::zeros(b, &shape_of(b, &y), DType::I64)?);
            continue;
        }
        let (mut windows, inside) = pieces.windows(b, &y, axis)?;
        let mut all = None;
        if let Some(inside) = &inside {
            let lowest = scalar(b, f64::NEG_INFINITY, dtype)?;
            windows = where_(b, inside, &windows, &lowest)?;
            all = Some(inside.clone());
        }
        let (largest, place) = first_largest(b, &windows, all.as_ref(), &[rank])?;
        let mut reduced = shape_of(b, &y);
        reduced[axis] = pieces.out;
        y = reshape_to(b, &largest, &reduced)?;
        let at = reshape_to(b, &cast(b, &place, DType::I64)?, &reduced)?;
        let at = add(b, &at, &pieces.along(b, &pieces.starts(b)?, axis, rank)?)?;
        let at = mul_scalar(b, &at, weight)?;
        weight = weight.saturating_mul(pieces.length as i64);
        flat = Some(match flat {
            None => at,
            Some(flat) => {
                // The place along the later axes that the chosen element has.
                let (carried, _) = pieces.windows(b, &flat, axis)?;
                let number = iota(b, pieces.most, b.ty(&place).dtype)?;
                let zero = scalar(b, 0i64, DType::I64)?;
                let chosen = where_(b, &eq(b, &number, &place)?, &carried, &zero)?;
                add(b, &at, &super::sum(b, &chosen, &[-1], false)?)?
            }
        });
    }
    let flat = flat.ok_or_else(|| Error::shape(op, "there is no axis to pool"))?;
    Ok([y, flat])
}

macro_rules! adaptive_avg_pools {
    ($($(#[$doc:meta])* $name:ident => $axes:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<B: Builder>(b: &B, x: &B::Value, size: &[usize]) -> Result<B::Value> {
            adaptive_mean(b, stringify!($name), $axes, x, size)
        }
    )*};
}

adaptive_avg_pools! {
    /// The means of `size` pieces of the last axis of `x [n, c, l]` (or `[c, l]`), `[n, c, size]`; piece `i` is
    /// `i l / size .. ceil((i + 1) l / size)`. Half types compute in f32 (torch `adaptive_avg_pool1d`).
    ///
    /// Errors: an empty axis.
    adaptive_avg_pool1d => 1;
    /// [`adaptive_avg_pool1d`] over the last two axes, `x [n, c, h, w]` (torch `adaptive_avg_pool2d`).
    adaptive_avg_pool2d => 2;
    /// [`adaptive_avg_pool1d`] over the last three axes, `x [n, c, d, h, w]` (torch `adaptive_avg_pool3d`).
    adaptive_avg_pool3d => 3;
}

macro_rules! adaptive_max_pools {
    ($($(#[$doc:meta])* $name:ident => $axes:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<B: Builder>(b: &B, x: &B::Value, size: &[usize]) -> Result<B::Value> {
            let [y, _] = adaptive_largest(b, stringify!($name), $axes, x, size)?;
            Ok(y)
        }
    )*};
}

adaptive_max_pools! {
    /// The largest elements of `size` pieces of the last axis of `x [n, c, l]` (or `[c, l]`), `[n, c, size]`; pieces
    /// as in [`adaptive_avg_pool1d`], equal elements and NaN as in `max_pool1d` (torch `adaptive_max_pool1d`).
    ///
    /// Errors: an empty axis.
    adaptive_max_pool1d => 1;
    /// [`adaptive_max_pool1d`] over the last two axes, `x [n, c, h, w]` (torch `adaptive_max_pool2d`).
    adaptive_max_pool2d => 2;
    /// [`adaptive_max_pool1d`] over the last three axes, `x [n, c, d, h, w]` (torch `adaptive_max_pool3d`).
    adaptive_max_pool3d => 3;
}

macro_rules! adaptive_max_pools_with_indices {
    ($($(#[$doc:meta])* $name:ident => $axes:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<B: Builder>(b: &B, x: &B::Value, size: &[usize]) -> Result<Vec<B::Value>> {
            Ok(adaptive_largest(b, stringify!($name), $axes, x, size)?.into())
        }
    )*};
}

adaptive_max_pools_with_indices! {
    /// [`adaptive_max_pool1d`] and where each element was found: its i64 place along the spatial axis.
    adaptive_max_pool1d_with_indices => 1;
    /// [`adaptive_max_pool2d`] and where each element was found: its i64 place in the row-major image.
    adaptive_max_pool2d_with_indices => 2;
    /// [`adaptive_max_pool3d`] and where each element was found: its i64 place in the row-major volume.
    adaptive_max_pool3d_with_indices => 3;
}

/// The mean over all spatial axes, `[n, c, ..]` to `[n, c, 1..]`; half types compute in f32 (ONNX
/// `GlobalAveragePool`).
pub fn global_avg_pool<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    super::mean(b, x, &spatial_axes("global_avg_pool", &b.ty(x).shape)?, true)
}

/// The largest element over all spatial axes, `[n, c, ..]` to `[n, c, 1..]`; equal elements share the derivative
/// (ONNX `GlobalMaxPool`).
pub fn global_max_pool<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    super::max(b, x, &spatial_axes("global_max_pool", &b.ty(x).shape)?, true)
}

fn spatial_axes(op: &str, shape: &[usize]) -> Result<Vec<isize>> {
    if shape.len() < 3 || shape[2..].contains(&0) {
        return Err(Error::shape(
            op,
            format!(
                "x is of shape {}, expected [n, c, ..] with spatial axes that are not empty",
                ShowShape(shape)
            ),
        ));
    }
    Ok((2..shape.len() as isize).collect())
}
