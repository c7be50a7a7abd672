//! Rearrangements: reshape, transpose, slice, join. Views wherever the primitive is one.

use smallvec::SmallVec;

use super::shape_of;
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, resolve_axis};
use crate::prim::{Movement, Prim};

/// Applies a movement to one operand.
pub(crate) fn apply_movement<B: Builder>(b: &B, movement: Movement, x: &B::Value) -> Result<B::Value> {
    b.apply1(Prim::Movement(movement), std::slice::from_ref(x))
}

/// Reshape to known sizes; `x` itself if it has that shape.
pub(crate) fn reshape_to<B: Builder>(b: &B, x: &B::Value, shape: &[usize]) -> Result<B::Value> {
    if b.ty(x).shape[..] == *shape {
        return Ok(x.clone());
    }
    apply_movement(b, Movement::Reshape { shape: Dims::from_slice(shape) }, x)
}

/// Permutation by resolved axes; `x` itself if the order stays.
pub(crate) fn permute_to<B: Builder>(b: &B, x: &B::Value, axes: &[usize]) -> Result<B::Value> {
    if axes.len() == b.ty(x).rank() && axes.iter().enumerate().all(|(i, &a)| i == a) {
        return Ok(x.clone());
    }
    apply_movement(b, Movement::Permute { axes: Dims::from_slice(axes) }, x)
}

/// The same elements in row-major order under another shape; one size may be -1 and is worked out.
pub fn reshape<B: Builder>(b: &B, x: &B::Value, shape: &[isize]) -> Result<B::Value> {
    let ty = b.ty(x);
    let fail = |message: String| Err(Error::shape("reshape", message));
    let mut known = 1usize;
    let mut unknown = None;
    for (axis, &size) in shape.iter().enumerate() {
        match size {
            -1 if unknown.is_none() => unknown = Some(axis),
            -1 => return fail("only one size may be -1".into()),
            size if size < 0 => return fail(format!("the size {size} is negative")),
            size => match known.checked_mul(size as usize) {
                Some(product) => known = product,
                None => return fail("the sizes overflow".into()),
            },
        }
    }
    let mut sizes: Dims = shape.iter().map(|&size| size.max(0) as usize).collect();
    if let Some(axis) = unknown {
        let numel = ty.numel();
        if known == 0 || numel % known != 0 {
            return fail(format!(
                "{} has {numel} elements, which the other sizes ({known}) do not divide",
                ShowShape(&ty.shape)
            ));
        }
        sizes[axis] = numel / known;
    }
    reshape_to(b, x, &sizes)
}

/// Axes `start..=end` merged into one.
pub fn flatten<B: Builder>(b: &B, x: &B::Value, start: isize, end: isize) -> Result<B::Value> {
    let shape = shape_of(b, x);
    if shape.is_empty() {
        return reshape_to(b, x, &[1]);
    }
    let (start, end) =
        (resolve_axis("flatten", start, shape.len())?, resolve_axis("flatten", end, shape.len())?);
    if start > end {
        return Err(Error::shape("flatten", format!("the first axis {start} lies after the last {end}")));
    }
    let mut merged = Dims::from_slice(&shape[..start]);
    merged.push(shape[start..=end].iter().product());
    merged.extend_from_slice(&shape[end + 1..]);
    reshape_to(b, x, &merged)
}

/// Output axis `i` is input axis `axes[i]`.
pub fn permute<B: Builder>(b: &B, x: &B::Value, axes: &[isize]) -> Result<B::Value> {
    let rank = b.ty(x).rank();
    let axes: Dims = axes.iter().map(|&a| resolve_axis("permute", a, rank)).collect::<Result<_>>()?;
    permute_to(b, x, &axes)
}

/// Swaps two axes.
pub fn transpose<B: Builder>(b: &B, x: &B::Value, first: isize, second: isize) -> Result<B::Value> {
    let rank = b.ty(x).rank();
    let (first, second) = (resolve_axis("transpose", first, rank)?, resolve_axis("transpose", second, rank)?);
    let mut axes: Dims = (0..rank).collect();
    axes.swap(first, second);
    permute_to(b, x, &axes)
}

/// Moves an axis to another place; the others keep their order.
pub fn move_axis<B: Builder>(b: &B, x: &B::Value, from: isize, to: isize) -> Result<B::Value> {
    let rank = b.ty(x).rank();
    let (from, to) = (resolve_axis("move_axis", from, rank)?, resolve_axis("move_axis", to, rank)?);
    let mut axes: Dims = (0..rank).collect();
    axes.remove(from);
    axes.insert(to, from);
    permute_to(b, x, &axes)
}

/// NumPy broadcasting to `shape`.
pub fn broadcast_to<B: Builder>(b: &B, x: &B::Value, shape: &[usize]) -> Result<B::Value> {
    if b.ty(x).shape[..] == *shape {
        return Ok(x.clone());
    }
    apply_movement(b, Movement::Broadcast { shape: Dims::from_slice(shape) }, x)
}

/// Elements `start..stop` by `step` of one axis. Negative bounds count from the end, bounds are clamped,
/// an absent `stop` is the end.
///
/// Errors: a step below 1 (use [`flip`] for reversal).
pub fn slice<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: isize,
    start: isize,
    stop: Option<isize>,
    step: isize,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axis = resolve_axis("slice", axis, shape.len())?;
    if step < 1 {
        return Err(Error::shape("slice", format!("the step is {step}, expected at least 1; flip reverses")));
    }
    let size = shape[axis] as isize;
    let bound = |at: isize| if at < 0 { at.saturating_add(size).max(0) } else { at.min(size) };
    let start = bound(start);
    let stop = bound(stop.unwrap_or(size)).max(start);
    slice_axis(b, x, axis, start as usize, stop as usize, step as usize)
}

/// One axis cut to resolved bounds.
pub(crate) fn slice_axis<B: Builder>(
    b: &B,
    x: &B::Value,
    axis: usize,
    start: usize,
    stop: usize,
    step: usize,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    if start == 0 && stop == shape[axis] && step == 1 {
        return Ok(x.clone());
    }
    let mut starts: Dims = SmallVec::from_elem(0, shape.len());
    let mut steps: Dims = SmallVec::from_elem(1, shape.len());
    let mut stops = shape;
    (starts[axis], stops[axis], steps[axis]) = (start, stop, step);
    apply_movement(b, Movement::Slice { starts, stops, steps }, x)
}

/// `length` elements of an axis from `start`; unlike [`slice()`] a range that leaves the axis is an error.
pub fn narrow<B: Builder>(b: &B, x: &B::Value, axis: isize, start: isize, length: usize) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axis = resolve_axis("narrow", axis, shape.len())?;
    let size = shape[axis];
    let from = if start < 0 { start.saturating_add(size as isize) } else { start };
    let stop = usize::try_from(from).ok().and_then(|from| from.checked_add(length));
    match stop {
        Some(stop) if stop <= size => slice_axis(b, x, axis, from as usize, stop, 1),
        _ => Err(Error::shape(
            "narrow",
            format!("{length} elements from {start} leave axis {axis} of {}", ShowShape(&shape)),
        )),
    }
}

/// One element of an axis, which goes away.
pub fn select<B: Builder>(b: &B, x: &B::Value, axis: isize, index: isize) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axis = resolve_axis("select", axis, shape.len())?;
    let at = if index < 0 { index.saturating_add(shape[axis] as isize) } else { index };
    if at < 0 || at >= shape[axis] as isize {
        return Err(Error::shape(
            "select",
            format!("index {index} is out of range for axis {axis} of {}", ShowShape(&shape)),
        ));
    }
    squeeze(b, &slice_axis(b, x, axis, at as usize, at as usize + 1, 1)?, &[axis as isize])
}

/// Consecutive pieces of an axis with the given sizes, which must add up to its size.
pub fn split_sizes<B: Builder>(b: &B, x: &B::Value, sizes: &[usize], axis: isize) -> Result<Vec<B::Value>> {
    let shape = shape_of(b, x);
    let axis = resolve_axis("split_sizes", axis, shape.len())?;
    let total = sizes.iter().try_fold(0usize, |total, &size| total.checked_add(size));
    if total != Some(shape[axis]) {
        return Err(Error::shape(
            "split_sizes",
            format!("sizes {} do not add up to axis {axis} of {}", ShowShape(sizes), ShowShape(&shape)),
        ));
    }
    let mut start = 0;
    let mut pieces = Vec::with_capacity(sizes.len());
    for &size in sizes {
        pieces.push(slice_axis(b, x, axis, start, start + size, 1)?);
        start += size;
    }
    Ok(pieces)
}

/// How many pieces one split may give: an axis may be broadcast to any size, and each piece is a value.
const MAX_PIECES: usize = 1 << 20;

/// Pieces of `size` elements of an axis; the last one may be smaller.
pub fn split<B: Builder>(b: &B, x: &B::Value, size: usize, axis: isize) -> Result<Vec<B::Value>> {
    let shape = shape_of(b, x);
    let resolved = resolve_axis("split", axis, shape.len())?;
    if size == 0 {
        return Err(Error::shape("split", "the size of a piece is 0, expected at least 1"));
    }
    let count = shape[resolved] / size;
    if count > MAX_PIECES {
        return Err(Error::shape(
            "split",
            format!("gives {count} pieces, at most {MAX_PIECES} are possible"),
        ));
    }
    let mut sizes = vec![size; count];
    if shape[resolved] % size != 0 || shape[resolved] == 0 {
        sizes.push(shape[resolved] % size);
    }
    split_sizes(b, x, &sizes, axis)
}

/// At most `count` pieces of equal size; the last one may be smaller.
pub fn chunk<B: Builder>(b: &B, x: &B::Value, count: usize, axis: isize) -> Result<Vec<B::Value>> {
    let shape = shape_of(b, x);
    let resolved = resolve_axis("chunk", axis, shape.len())?;
    if count == 0 {
        return Err(Error::shape("chunk", "the number of pieces is 0, expected at least 1"));
    }
    split(b, x, shape[resolved].div_ceil(count).max(1), axis)
}

/// One or more values end to end along an axis.
pub fn concat<B: Builder>(b: &B, values: &[B::Value], axis: isize) -> Result<B::Value> {
    let Some(first) = values.first() else {
        return Err(Error::shape("concat", "takes at least one operand, got none"));
    };
    let axis = resolve_axis("concat", axis, b.ty(first).rank())?;
    if values.len() == 1 {
        return Ok(first.clone());
    }
    b.apply1(Prim::Movement(Movement::Concat { axis }), values)
}

/// One or more values of one shape along a new axis.
pub fn stack<B: Builder>(b: &B, values: &[B::Value], axis: isize) -> Result<B::Value> {
    let Some(first) = values.first() else {
        return Err(Error::shape("stack", "takes at least one operand, got none"));
    };
    let axis = resolve_axis("stack", axis, b.ty(first).rank() + 1)? as isize;
    let raised = values.iter().map(|v| unsqueeze(b, v, axis)).collect::<Result<Vec<_>>>()?;
    concat(b, &raised, axis)
}

/// Drops the given axes where their size is 1; all axes of size 1 if the list is empty.
pub fn squeeze<B: Builder>(b: &B, x: &B::Value, axes: &[isize]) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axes = axes.iter().map(|&a| resolve_axis("squeeze", a, shape.len())).collect::<Result<Vec<_>>>()?;
    let kept: Dims = (0..shape.len())
        .filter(|a| shape[*a] != 1 || !(axes.is_empty() || axes.contains(a)))
        .map(|a| shape[a])
        .collect();
    reshape_to(b, x, &kept)
}

/// A new axis of size 1 at `axis` of the result.
pub fn unsqueeze<B: Builder>(b: &B, x: &B::Value, axis: isize) -> Result<B::Value> {
    let mut shape = shape_of(b, x);
    let axis = resolve_axis("unsqueeze", axis, shape.len() + 1)?;
    shape.insert(axis, 1);
    reshape_to(b, x, &shape)
}

/// Reverses the given axes; all if the list is empty.
pub fn flip<B: Builder>(b: &B, x: &B::Value, axes: &[isize]) -> Result<B::Value> {
    let rank = b.ty(x).rank();
    let resolved = super::reduce::resolve_axes("flip", axes, rank)?;
    if resolved.is_empty() {
        return Ok(x.clone());
    }
    apply_movement(b, Movement::Flip { axes: resolved }, x)
}

/// The value `repeats[i]` times end to end along axis `i`; more repeats than axes add leading axes.
pub fn repeat<B: Builder>(b: &B, x: &B::Value, repeats: &[usize]) -> Result<B::Value> {
    let shape = shape_of(b, x);
    if repeats.len() < shape.len() {
        return Err(Error::shape(
            "repeat",
            format!("{} repeats for the {} axes of {}", repeats.len(), shape.len(), ShowShape(&shape)),
        ));
    }
    let lead = repeats.len() - shape.len();
    let mut split = Dims::new();
    let mut spread = Dims::new();
    let mut merged = Dims::new();
    for (axis, &times) in repeats.iter().enumerate() {
        let size = if axis < lead { 1 } else { shape[axis - lead] };
        split.extend([1, size]);
        spread.extend([times, size]);
        merged.push(times.checked_mul(size).ok_or_else(|| Error::shape("repeat", "the sizes overflow"))?);
    }
    let spread = broadcast_to(b, &reshape_to(b, x, &split)?, &spread)?;
    reshape_to(b, &spread, &merged)
}

/// Each element of an axis `times` times in a row.
pub fn repeat_interleave<B: Builder>(b: &B, x: &B::Value, times: usize, axis: isize) -> Result<B::Value> {
    let mut shape = shape_of(b, x);
    let axis = resolve_axis("repeat_interleave", axis, shape.len())?;
    let raised = unsqueeze(b, x, axis as isize + 1)?;
    let mut spread = shape_of(b, &raised);
    spread[axis + 1] = times;
    shape[axis] = shape[axis]
        .checked_mul(times)
        .ok_or_else(|| Error::shape("repeat_interleave", "the sizes overflow"))?;
    reshape_to(b, &broadcast_to(b, &raised, &spread)?, &shape)
}

/// Elements moved by `shift` places along an axis, those past the end to its start.
pub fn roll<B: Builder>(b: &B, x: &B::Value, shift: isize, axis: isize) -> Result<B::Value> {
    let shape = shape_of(b, x);
    let axis = resolve_axis("roll", axis, shape.len())?;
    let size = shape[axis];
    if size == 0 {
        return Ok(x.clone());
    }
    let cut = size - shift.rem_euclid(size as isize) as usize;
    if cut == size {
        return Ok(x.clone());
    }
    let tail = slice_axis(b, x, axis, cut, size, 1)?;
    let head = slice_axis(b, x, axis, 0, cut, 1)?;
    concat(b, &[tail, head], axis as isize)
}
