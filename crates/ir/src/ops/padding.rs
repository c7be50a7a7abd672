//! Padding: constants, reflections, repetitions of the edge, and the other end.

use smallvec::SmallVec;

use super::{apply_movement, broadcast_to, concat, flip, full, scalar, shape_of, slice_axis, where_};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Scalar;
use crate::layout::{Dims, ShowShape};
use crate::prim::Movement;
use crate::prim::window::padded_size;

/// `low[i]` elements of `value` before and `high[i]` after axis `i`; a negative number cuts that many elements (torch
/// `pad`).
///
/// Errors: more cut than there is, or other numbers of sizes than axes.
pub fn pad<B: Builder>(
    b: &B,
    x: &B::Value,
    low: &[isize],
    high: &[isize],
    value: impl Into<Scalar>,
) -> Result<B::Value> {
    let shape = shape_of(b, x);
    check_ends("pad", &shape, low, high)?;
    let interior: Dims = SmallVec::from_elem(0, shape.len());
    let value = value.into();
    let padded = pad_or_cut(b, x, low, high, &interior)?;
    let fills = low.iter().chain(high).any(|&end| end > 0);
    if value.is_plain_zero() || !fills {
        return Ok(padded);
    }
    let inside = pad_or_cut(b, &full(b, &shape, true, DType::Bool)?, low, high, &interior)?;
    where_(b, &inside, &padded, &scalar(b, value, b.ty(x).dtype)?)
}

/// Zeros at both ends and between neighbours; negative ends cut. Ends and gaps have been checked.
pub(crate) fn pad_or_cut<B: Builder>(
    b: &B,
    x: &B::Value,
    low: &[isize],
    high: &[isize],
    interior: &[usize],
) -> Result<B::Value> {
    let mut padded = x.clone();
    if low.iter().chain(high).any(|&end| end > 0) || interior.iter().any(|&gap| gap > 0) {
        let added = |ends: &[isize]| ends.iter().map(|&end| end.max(0) as usize).collect::<Dims>();
        let pad = Movement::Pad { low: added(low), high: added(high), interior: Dims::from_slice(interior) };
        padded = apply_movement(b, pad, x)?;
    }
    if low.iter().chain(high).all(|&end| end >= 0) {
        return Ok(padded);
    }
    let cut = |end: isize| end.min(0).unsigned_abs();
    let shape = shape_of(b, &padded);
    let starts: Dims = shape.iter().zip(low).map(|(&size, &end)| cut(end).min(size)).collect();
    let kept = shape.iter().zip(high).map(|(&size, &end)| size.saturating_sub(cut(end)));
    let stops = kept.zip(&starts).map(|(stop, &start)| stop.max(start)).collect();
    let steps = SmallVec::from_elem(1, shape.len());
    apply_movement(b, Movement::Slice { starts, stops, steps }, &padded)
}

/// Checks that there is an end for each axis and that no more is cut than there is.
fn check_ends(op: &str, shape: &[usize], low: &[isize], high: &[isize]) -> Result<()> {
    if low.len() != shape.len() || high.len() != shape.len() {
        return Err(Error::shape(
            op,
            format!(
                "{} sizes before and {} after for the {} axes of {}; expected one each",
                low.len(),
                high.len(),
                shape.len(),
                ShowShape(shape)
            ),
        ));
    }
    for (axis, &size) in shape.iter().enumerate() {
        let cut = low[axis].min(0).unsigned_abs().saturating_add(high[axis].min(0).unsigned_abs());
        if cut > size || padded_size(size, 0, low[axis], high[axis]).is_none() {
            return Err(Error::shape(
                op,
                format!(
                    "{} before and {} after axis {axis} of {} do not fit it",
                    low[axis],
                    high[axis],
                    ShowShape(shape)
                ),
            ));
        }
    }
    Ok(())
}

/// Where the elements beyond an edge come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    /// Mirrored, without the edge itself.
    Reflect,
    /// The edge again and again.
    Replicate,
    /// The other end.
    Circular,
}

fn pad_beyond<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    low: &[isize],
    high: &[isize],
    beyond: Beyond,
) -> Result<B::Value> {
    check_ends(op, &b.ty(x).shape, low, high)?;
    let cut = |ends: &[isize]| ends.iter().map(|&end| end.min(0)).collect::<SmallVec<[isize; 4]>>();
    let interior: Dims = SmallVec::from_elem(0, low.len());
    let cut = |y: &B::Value| pad_or_cut(b, y, &cut(low), &cut(high), &interior);
    // torch joins the ends of what is left, but mirrors and repeats the whole.
    let mut y = if beyond == Beyond::Circular { cut(x)? } else { x.clone() };
    let shape = shape_of(b, &y);
    for axis in 0..shape.len() {
        let size = shape[axis];
        let (before, after) = (low[axis].max(0) as usize, high[axis].max(0) as usize);
        let most = match beyond {
            Beyond::Reflect => size.saturating_sub(1),
            Beyond::Replicate => {
                if size == 0 {
                    0
                } else {
                    usize::MAX
                }
            }
            Beyond::Circular => size,
        };
        if before.max(after) > most {
            return Err(Error::shape(
                op,
                format!(
                    "{before} before and {after} after axis {axis} of {}; at most {most} can be taken from it",
                    ShowShape(&shape)
                ),
            ));
        }
        let part = |start: usize, stop: usize| slice_axis(b, &y, axis, start, stop, 1);
        let edge = |start: usize, count: usize| {
            let mut repeated = shape_of(b, &y);
            repeated[axis] = count;
            broadcast_to(b, &part(start, start + 1)?, &repeated)
        };
        let mirrored = |start: usize, stop: usize| flip(b, &part(start, stop)?, &[axis as isize]);
        let mut parts = Vec::with_capacity(3);
        if before > 0 {
            parts.push(match beyond {
                Beyond::Reflect => mirrored(1, before + 1)?,
                Beyond::Replicate => edge(0, before)?,
                Beyond::Circular => part(size - before, size)?,
            });
        }
        parts.push(y.clone());
        if after > 0 {
            parts.push(match beyond {
                Beyond::Reflect => mirrored(size - 1 - after, size - 1)?,
                Beyond::Replicate => edge(size - 1, after)?,
                Beyond::Circular => part(0, after)?,
            });
        }
        y = concat(b, &parts, axis as isize)?;
    }
    if beyond == Beyond::Circular { Ok(y) } else { cut(&y) }
}

/// `low[i]` elements before and `high[i]` after axis `i`, mirrored at the edge, which is not repeated; a negative
/// number cuts (torch `pad` with `reflect`, of any axes).
///
/// Errors: more elements than the axis has besides its edge.
pub fn reflection_pad<B: Builder>(b: &B, x: &B::Value, low: &[isize], high: &[isize]) -> Result<B::Value> {
    pad_beyond(b, "reflection_pad", x, low, high, Beyond::Reflect)
}

/// The edge `low[i]` times before and `high[i]` times after axis `i`; a negative number cuts (torch `pad` with
/// `replicate`, of any axes).
///
/// Errors: padding of an empty axis.
pub fn replication_pad<B: Builder>(b: &B, x: &B::Value, low: &[isize], high: &[isize]) -> Result<B::Value> {
    pad_beyond(b, "replication_pad", x, low, high, Beyond::Replicate)
}

/// `low[i]` elements of the end before and `high[i]` of the beginning after axis `i`; a negative number cuts (torch
/// `pad` with `circular`, of any axes).
///
/// Errors: more elements than the axis has.
pub fn circular_pad<B: Builder>(b: &B, x: &B::Value, low: &[isize], high: &[isize]) -> Result<B::Value> {
    pad_beyond(b, "circular_pad", x, low, high, Beyond::Circular)
}
