//! Rearrangements composed of the movements in [`super::movement`].

use super::{
    broadcast_to, concat, flip, mul, permute_to, reshape, reshape_to, roll, select, shape_of, slice_axis,
    split_sizes, stack, sub, unsqueeze,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, broadcast_shapes, resolve_axis};

/// As `repeat`, but fewer repeats than axes repeat the last axes (NumPy and torch `tile`).
pub fn tile<B: Builder>(b: &B, x: &B::Value, repeats: &[usize]) -> Result<B::Value> {
    let missing = b.ty(x).rank().saturating_sub(repeats.len());
    let repeats: Vec<usize> = std::iter::repeat_n(1, missing).chain(repeats.iter().copied()).collect();
    super::repeat(b, x, &repeats)
}

/// Swaps two axes (NumPy `swapaxes`); the same as `transpose`.
pub fn swap_axes<B: Builder>(b: &B, x: &B::Value, first: isize, second: isize) -> Result<B::Value> {
    super::transpose(b, x, first, second)
}

/// Moves axes `from[i]` to `to[i]`; the others keep their order (torch `movedim`, NumPy `moveaxis`).
pub fn move_axes<B: Builder>(b: &B, x: &B::Value, from: &[isize], to: &[isize]) -> Result<B::Value> {
    let name = "move_axes";
    let rank = b.ty(x).rank();
    let resolve =
        |axes: &[isize]| axes.iter().map(|&a| resolve_axis(name, a, rank)).collect::<Result<Dims>>();
    let (from, to) = (resolve(from)?, resolve(to)?);
    let repeats = |axes: &Dims| axes.iter().enumerate().any(|(i, a)| axes[..i].contains(a));
    if from.len() != to.len() || repeats(&from) || repeats(&to) {
        return Err(Error::shape(
            name,
            format!("axes {} do not move to as many different places {}", ShowShape(&from), ShowShape(&to)),
        ));
    }
    let mut others = (0..rank).filter(|a| !from.contains(a));
    let place = |at: usize| to.iter().position(|&t| t == at).map(|i| from[i]);
    let order: Dims = (0..rank).filter_map(|at| place(at).or_else(|| others.next())).collect();
    permute_to(b, x, &order)
}

/// NumPy broadcasting to `shape`, of which -1 keeps the size of an axis (torch `expand`).
pub fn expand<B: Builder>(b: &B, x: &B::Value, shape: &[isize]) -> Result<B::Value> {
    let own = shape_of(b, x);
    let mut sizes = Dims::new();
    for (axis, &size) in shape.iter().enumerate() {
        let mine = (axis + own.len()).checked_sub(shape.len()).and_then(|a| own.get(a));
        sizes.push(match (size, mine) {
            (-1, Some(&mine)) => mine,
            (size, _) if size >= 0 => size as usize,
            _ => {
                return Err(Error::shape(
                    "expand",
                    format!("the size {size} at axis {axis} keeps nothing of {}", ShowShape(&own)),
                ));
            }
        });
    }
    broadcast_to(b, x, &sizes)
}

/// An axis split into several of the given sizes, of which one may be -1 and is worked out (torch `unflatten`).
pub fn unflatten<B: Builder>(b: &B, x: &B::Value, axis: isize, sizes: &[isize]) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axis = resolve_axis("unflatten", axis, shape.len())?;
    let size = shape[axis];
    let known = sizes
        .iter()
        .filter(|&&s| s != -1)
        .try_fold(1usize, |product, &s| usize::try_from(s).ok().and_then(|s| product.checked_mul(s)));
    let unknown = sizes.iter().filter(|&&s| s == -1).count();
    let fits = match (known, unknown) {
        (Some(known), 0) => known == size,
        (Some(known), 1) => known > 0 && size % known == 0,
        _ => false,
    };
    let (Some(known), true) = (known, fits) else {
        return Err(Error::shape(
            "unflatten",
            format!(
                "axis {axis} of {} has {size} elements, which are not sizes {sizes:?}",
                ShowShape(&shape)
            ),
        ));
    };
    let mut split = Dims::from_slice(&shape[..axis]);
    split.extend(sizes.iter().map(|&s| if s == -1 { size / known.max(1) } else { s as usize }));
    split.extend_from_slice(&shape[axis + 1..]);
    reshape_to(b, x, &split)
}

/// `x` with at least one axis.
pub fn atleast_1d<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    if b.ty(x).rank() == 0 { reshape_to(b, x, &[1]) } else { Ok(x.clone()) }
}

/// `x` with at least two axes; a new one goes in front.
pub fn atleast_2d<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let x = atleast_1d(b, x)?;
    if b.ty(&x).rank() == 1 { unsqueeze(b, &x, 0) } else { Ok(x) }
}

/// `x` with at least three axes: `[n]` becomes `[1, n, 1]` and `[m, n]` becomes `[m, n, 1]` (NumPy, torch).
pub fn atleast_3d<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    let x = atleast_2d(b, x)?;
    if b.ty(&x).rank() == 2 { unsqueeze(b, &x, -1) } else { Ok(x) }
}

fn raised<B: Builder>(
    b: &B,
    values: &[B::Value],
    raise: impl Fn(&B, &B::Value) -> Result<B::Value>,
) -> Result<Vec<B::Value>> {
    values.iter().map(|value| raise(b, value)).collect()
}

/// Values side by side: along axis 1, or axis 0 for values of rank 1 (NumPy, torch).
pub fn hstack<B: Builder>(b: &B, values: &[B::Value]) -> Result<B::Value> {
    let values = raised(b, values, atleast_1d)?;
    let axis = values.first().map_or(0, |first| (b.ty(first).rank() > 1) as isize);
    concat(b, &values, axis)
}

/// Values of at least two axes one below another, along axis 0 (NumPy, torch).
pub fn vstack<B: Builder>(b: &B, values: &[B::Value]) -> Result<B::Value> {
    concat(b, &raised(b, values, atleast_2d)?, 0)
}

/// Values of at least three axes one behind another, along axis 2 (NumPy, torch).
pub fn dstack<B: Builder>(b: &B, values: &[B::Value]) -> Result<B::Value> {
    concat(b, &raised(b, values, atleast_3d)?, 2)
}

/// Exactly `count` pieces of an axis, of which the first ones are one element longer where it does not divide (torch
/// `tensor_split`, NumPy `array_split`).
pub fn tensor_split<B: Builder>(b: &B, x: &B::Value, count: usize, axis: isize) -> Result<Vec<B::Value>> {
    let shape = shape_of(b, x);
    let resolved = resolve_axis("tensor_split", axis, shape.len())?;
    let size = shape[resolved];
    if count == 0 || count > MAX_PIECES {
        return Err(Error::shape(
            "tensor_split",
            format!("the number of pieces is {count}, expected 1 to {MAX_PIECES}"),
        ));
    }
    let sizes: Vec<usize> = (0..count).map(|at| size / count + (at < size % count) as usize).collect();
    split_sizes(b, x, &sizes, axis)
}

/// Every element of an axis, which goes away: as many values as its size, none where that is 0 (torch `unbind`, NumPy
/// `unstack`).
///
/// Errors: an axis of more than 2^20 elements.
pub fn unbind<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<Vec<B::Value>> {
    let shape = shape_of(b, x);
    let resolved = resolve_axis("unbind", axis, shape.len())?;
    let size = shape[resolved];
    if size > MAX_PIECES {
        return Err(Error::shape(
            "unbind",
            format!("gives {size} pieces of {}, at most {MAX_PIECES} are possible", ShowShape(&shape)),
        ));
    }
    (0..size).map(|at| select(b, x, axis, at as isize)).collect()
}

/// How many pieces one split may give.
const MAX_PIECES: usize = 1 << 20;

/// The pieces of an axis between `places`, which count from the end where negative and are clamped: one more than there
/// are places (torch `tensor_split` and NumPy `split` with indices).
pub fn split_at<B: Builder>(b: &B, x: &B::Value, places: &[isize], axis: isize) -> Result<Vec<B::Value>> {
    let shape = shape_of(b, x);
    let axis = resolve_axis("split_at", axis, shape.len())?;
    let size = shape[axis];
    let bound = |at: isize| match usize::try_from(at) {
        Ok(at) => at.min(size),
        Err(_) => size.saturating_sub(at.unsigned_abs()),
    };
    let bounds: Vec<usize> =
        std::iter::once(0).chain(places.iter().map(|&at| bound(at))).chain([size]).collect();
    bounds.windows(2).map(|pair| slice_axis(b, x, axis, pair[0], pair[1].max(pair[0]), 1)).collect()
}

/// Turns the plane of two axes by `turns` quarters from `first` towards `second` (NumPy, torch `rot90`).
pub fn rot90<B: Builder>(b: &B, x: &B::Value, turns: isize, first: isize, second: isize) -> Result<B::Value> {
    let rank = b.ty(x).rank();
    let (from, to) = (resolve_axis("rot90", first, rank)?, resolve_axis("rot90", second, rank)?);
    if from == to {
        return Err(Error::shape(
            "rot90",
            format!("the axes {first} and {second} are one axis, expected two"),
        ));
    }
    match turns.rem_euclid(4) {
        0 => Ok(x.clone()),
        1 => super::transpose(b, &flip(b, x, &[second])?, first, second),
        2 => flip(b, x, &[first, second]),
        _ => flip(b, &super::transpose(b, x, first, second)?, &[second]),
    }
}

/// Elements moved by `shifts[i]` places along `axes[i]`, those past the end to its start; by one shift in row-major order
/// where no axes are given (torch, NumPy `roll`).
pub fn roll_axes<B: Builder>(b: &B, x: &B::Value, shifts: &[isize], axes: &[isize]) -> Result<B::Value> {
    if axes.is_empty() && shifts.len() == 1 {
        let shape = shape_of(b, x);
        let flat = reshape(b, x, &[-1])?;
        return reshape_to(b, &roll(b, &flat, shifts[0], 0)?, &shape);
    }
    if shifts.len() != axes.len() {
        return Err(Error::shape(
            "roll_axes",
            format!("{} shifts for {} axes, expected one for each", shifts.len(), axes.len()),
        ));
    }
    shifts.iter().zip(axes).try_fold(x.clone(), |x, (&shift, &axis)| roll(b, &x, shift, axis))
}

/// Each of `values`, of rank 0 or 1, spread over the grid of all: value `i` varies along axis `i`, or, if `xy`, the first
/// two axes are swapped (torch `meshgrid` with `indexing` "ij" or "xy").
pub fn meshgrid<B: Builder>(b: &B, values: &[B::Value], xy: bool) -> Result<Vec<B::Value>> {
    let lines = raised(b, values, atleast_1d)?;
    if let Some(wrong) = lines.iter().find(|line| b.ty(line).rank() != 1) {
        return Err(Error::shape("meshgrid", format!("an operand is {}, expected rank 0 or 1", b.ty(wrong))));
    }
    let sizes: Dims = lines.iter().map(|line| b.ty(line).shape[0]).collect();
    let swaps = xy && lines.len() >= 2;
    let spread = |(at, line): (usize, &B::Value)| {
        let mut shape: Dims = sizes.iter().map(|_| 1).collect();
        shape[at] = sizes[at];
        let grid = broadcast_to(b, &reshape_to(b, line, &shape)?, &sizes)?;
        if swaps { super::transpose(b, &grid, 0, 1) } else { Ok(grid) }
    };
    lines.iter().enumerate().map(spread).collect()
}

/// The cross product along an axis of size 3; the operands broadcast (torch `linalg.cross`, NumPy `cross`).
pub fn cross<B: Builder>(b: &B, x: &B::Value, y: &B::Value, axis: isize) -> Result<B::Value> {
    let shape = broadcast_shapes("cross", &b.ty(x).shape, &b.ty(y).shape)?;
    let rank = shape.len();
    let resolved = resolve_axis("cross", axis, rank)?;
    // A shorter operand has no axis of its own there, and one of size 1 is no vector.
    for operand in [x, y] {
        let own = b.ty(operand);
        let size = (resolved + own.rank()).checked_sub(rank).and_then(|a| own.shape.get(a));
        if size != Some(&3) {
            return Err(Error::shape(
                "cross",
                format!("an operand is {own}, expected size 3 on axis {axis}"),
            ));
        }
    }
    let (x, y) = (broadcast_to(b, x, &shape)?, broadcast_to(b, y, &shape)?);
    let part = |v: &B::Value, at: isize| select(b, v, resolved as isize, at);
    let component = |i: isize, j: isize| {
        sub(b, &mul(b, &part(&x, i)?, &part(&y, j)?)?, &mul(b, &part(&x, j)?, &part(&y, i)?)?)
    };
    stack(b, &[component(1, 2)?, component(2, 0)?, component(0, 1)?], resolved as isize)
}

/// The Kronecker product: `x` with each element replaced by its product with all of `y`; a shorter operand gets leading
/// axes of size 1 (NumPy, torch `kron`).
pub fn kron<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    let (sx, sy) = (shape_of(b, x), shape_of(b, y));
    let rank = sx.len().max(sy.len());
    let padded = |shape: &Dims| -> Dims {
        std::iter::repeat_n(1, rank - shape.len()).chain(shape.iter().copied()).collect()
    };
    let (sx, sy) = (padded(&sx), padded(&sy));
    let (mut wide, mut narrow, mut merged) = (Dims::new(), Dims::new(), Dims::new());
    for (&m, &n) in sx.iter().zip(&sy) {
        wide.extend([m, 1]);
        narrow.extend([1, n]);
        merged.push(m.checked_mul(n).ok_or_else(|| Error::shape("kron", "the sizes overflow"))?);
    }
    let product = mul(b, &reshape_to(b, x, &wide)?, &reshape_to(b, y, &narrow)?)?;
    reshape_to(b, &product, &merged)
}
