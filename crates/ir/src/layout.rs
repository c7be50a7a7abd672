//! Shapes and strided layouts: how a view reads its storage without moving data.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

use crate::dtype::DType;
use crate::error::{Error, Result};

/// Sizes of the axes, outermost first.
pub type Dims = SmallVec<[usize; 4]>;
/// Strides in elements, one per axis; 0 for a broadcast axis, negative for a flipped one.
pub type Strides = SmallVec<[isize; 4]>;

/// The number of elements of a shape; 1 for rank 0. Saturates; [`check_size`] refuses such shapes.
pub fn numel(shape: &[usize]) -> usize {
    shape.iter().fold(1, |product: usize, &size| product.saturating_mul(size))
}

/// Refuses a shape whose buffer would not fit the address space, whatever its axes of size 0, so that
/// strides, offsets and byte counts of any value never overflow.
pub fn check_size(op: &str, ty: &TensorType) -> Result<()> {
    if ty.fits() {
        return Ok(());
    }
    Err(Error::shape(op, format!("the result {ty} does not fit the address space")))
}

/// A copy of a shape. Most have few axes, and are copied without a call.
fn copy_of(shape: &[usize]) -> Dims {
    let sizes = match *shape {
        [] => [0; 4],
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c] => [a, b, c, 0],
        [a, b, c, d] => [a, b, c, d],
        _ => return Dims::from_slice(shape),
    };
    Dims::from_buf_and_len(sizes, shape.len())
}

/// Row-major strides of `shape`.
pub fn contiguous_strides(shape: &[usize]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(0, shape.len());
    let mut step = 1isize;
    for axis in (0..shape.len()).rev() {
        strides[axis] = step;
        step = step.saturating_mul(shape[axis].max(1) as isize);
    }
    strides
}

/// Prints a shape as `[2, 3]`.
pub struct ShowShape<'a>(pub &'a [usize]);

impl fmt::Display for ShowShape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

/// Dtype and shape of a value.
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorType {
    pub dtype: DType,
    pub shape: Dims,
}

impl Clone for TensorType {
    fn clone(&self) -> TensorType {
        // A list's own `clone` takes the sizes one by one.
        TensorType { dtype: self.dtype, shape: copy_of(&self.shape) }
    }
}

impl TensorType {
    /// A type from its parts.
    pub fn new(dtype: DType, shape: impl AsRef<[usize]>) -> Self {
        TensorType { dtype, shape: Dims::from_slice(shape.as_ref()) }
    }

    /// A rank-0 type.
    pub fn scalar(dtype: DType) -> Self {
        TensorType { dtype, shape: Dims::new() }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        numel(&self.shape)
    }

    /// True if a buffer of this type, whatever its axes of size 0, fits the address space; see [`check_size`].
    #[inline]
    pub(crate) fn fits(&self) -> bool {
        let start = Some(self.dtype.size());
        let bytes = self.shape.iter().fold(start, |bytes, &size| bytes?.checked_mul(size.max(1)));
        bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
    }

    /// Bytes of a contiguous buffer of this type.
    pub fn bytes(&self) -> usize {
        self.numel().saturating_mul(self.dtype.size())
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, ShowShape(&self.shape))
    }
}

/// Shape, strides and offset of a view, all in elements.
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    pub shape: Dims,
    pub strides: Strides,
    pub offset: usize,
}

impl Clone for Layout {
    fn clone(&self) -> Layout {
        // As a type is cloned.
        let (shape, strides) = (Dims::from_slice(&self.shape), Strides::from_slice(&self.strides));
        Layout { shape, strides, offset: self.offset }
    }
}

impl Layout {
    /// The row-major layout of `shape` at offset 0.
    pub fn contiguous(shape: impl AsRef<[usize]>) -> Self {
        let shape = Dims::from_slice(shape.as_ref());
        let strides = contiguous_strides(&shape);
        Layout { shape, strides, offset: 0 }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements that the view shows.
    pub fn numel(&self) -> usize {
        numel(&self.shape)
    }

    /// True if elements lie in row-major order without gaps (axes of size 1 are ignored).
    pub fn is_contiguous(&self) -> bool {
        if self.shape.contains(&0) {
            return true;
        }
        let mut step = 1isize;
        for axis in (0..self.rank()).rev() {
            if self.shape[axis] != 1 {
                if self.strides[axis] != step {
                    return false;
                }
                step *= self.shape[axis] as isize;
            }
        }
        true
    }

    /// Axes in the order `axes` (a permutation, checked by the caller's `infer`).
    pub fn permute(&self, axes: &[usize]) -> Layout {
        Layout {
            shape: axes.iter().map(|&a| self.shape[a]).collect(),
            strides: axes.iter().map(|&a| self.strides[a]).collect(),
            offset: self.offset,
        }
    }

    /// The view repeated along new leading axes and along axes of size 1 to reach `shape`.
    pub fn broadcast(&self, shape: &[usize]) -> Layout {
        let lead = shape.len() - self.rank();
        let strides = (0..shape.len())
            .map(|axis| {
                if axis < lead || (self.shape[axis - lead] == 1 && shape[axis] != 1) {
                    0
                } else {
                    self.strides[axis - lead]
                }
            })
            .collect();
        Layout { shape: Dims::from_slice(shape), strides, offset: self.offset }
    }

    /// `start..stop` by `step` (at least 1) on every axis.
    pub fn slice(&self, starts: &[usize], stops: &[usize], steps: &[usize]) -> Layout {
        let mut out = self.clone();
        for axis in 0..self.rank() {
            out.shape[axis] = stops[axis].saturating_sub(starts[axis]).div_ceil(steps[axis].max(1));
            // Between fewer than two elements there is no step, however long.
            let step = if out.shape[axis] > 1 { steps[axis] } else { 1 };
            out.strides[axis] = self.strides[axis] * step as isize;
        }
        if out.numel() > 0 {
            let shift: isize = (0..self.rank()).map(|a| starts[a] as isize * self.strides[a]).sum();
            out.offset = (self.offset as isize + shift) as usize;
        }
        out
    }

    /// Reverses the given axes.
    pub fn flip(&self, axes: &[usize]) -> Layout {
        let mut out = self.clone();
        // The offset of an empty view must not leave its storage.
        if self.shape.contains(&0) {
            return out;
        }
        for &axis in axes {
            let last = (self.shape[axis] - 1) as isize * self.strides[axis];
            out.offset = (out.offset as isize + last) as usize;
            out.strides[axis] = -self.strides[axis];
        }
        out
    }

    /// Overlapping windows over `axes` (checked by the caller's `infer`): each of these axes becomes the number of
    /// windows, and the places within a window are new last axes, in the order of `axes`.
    pub fn window(&self, axes: &[usize], sizes: &[usize], steps: &[usize], dilations: &[usize]) -> Layout {
        let mut out = self.clone();
        for (at, &axis) in axes.iter().enumerate() {
            let (size, step, dilation) = (sizes[at], steps[at], dilations[at]);
            let count = window_count(self.shape[axis], size, step, dilation);
            let stride = self.strides[axis];
            out.shape[axis] = count;
            out.shape.push(size);
            // A step that is taken stays within the axis, so neither product overflows; any other says nothing.
            out.strides[axis] = if count > 1 { stride * step as isize } else { stride };
            out.strides.push(if count > 0 && size > 1 { stride * dilation as isize } else { stride });
        }
        out
    }

    /// The same elements in row-major order under another shape, if that is a view; `None` if data
    /// would have to move.
    pub fn reshape(&self, shape: &[usize]) -> Option<Layout> {
        if numel(shape) != self.numel() {
            return None;
        }
        if self.numel() == 0 {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(shape) });
        }
        // Merge old axes into maximal runs that are contiguous in themselves, then split the runs.
        let mut runs: SmallVec<[(usize, isize); 4]> = SmallVec::new();
        for axis in 0..self.rank() {
            let (size, stride) = (self.shape[axis], self.strides[axis]);
            if size == 1 {
                continue;
            }
            match runs.last_mut() {
                Some((run, run_stride)) if *run_stride == stride * size as isize => {
                    *run *= size;
                    *run_stride = stride;
                }
                _ => runs.push((size, stride)),
            }
        }
        let mut strides: Strides = SmallVec::from_elem(0, shape.len());
        let mut axis = shape.len();
        for &(run, run_stride) in runs.iter().rev() {
            let (mut left, mut stride) = (run, run_stride);
            while left > 1 {
                axis = axis.checked_sub(1)?;
                let size = shape[axis];
                strides[axis] = stride;
                if size == 1 {
                    continue;
                }
                if left % size != 0 {
                    return None;
                }
                left /= size;
                stride *= size as isize;
            }
        }
        for axis in 0..axis {
            debug_assert_eq!(shape[axis], 1);
            strides[axis] = 1;
        }
        Some(Layout { shape: Dims::from_slice(shape), strides, offset: self.offset })
    }

    /// True if several elements may lie in one place, so that the view must not be written to. Never false where they
    /// do; true as well of strides whose places interleave without meeting.
    pub fn may_overlap_itself(&self) -> bool {
        if self.numel() <= 1 {
            return false;
        }
        let mut axes: SmallVec<[(usize, usize); 4]> = (self.strides.iter().zip(&self.shape))
            .filter(|(_, size)| **size > 1)
            .map(|(stride, &size)| (stride.unsigned_abs(), size))
            .collect();
        axes.sort_unstable();
        let mut reach = 0usize;
        axes.into_iter().any(|(stride, size)| {
            // An axis whose steps do not clear what the smaller ones cover may come back to a place.
            let returns = stride <= reach;
            reach = reach.saturating_add(stride.saturating_mul(size - 1));
            returns
        })
    }

    /// The smallest and largest element index that the view touches, or `None` if it is empty.
    pub fn extent(&self) -> Option<(usize, usize)> {
        if self.numel() == 0 {
            return None;
        }
        let (mut low, mut high) = (self.offset as isize, self.offset as isize);
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = (size as isize - 1) * stride;
            if reach < 0 {
                low += reach;
            } else {
                high += reach;
            }
        }
        Some((low as usize, high as usize))
    }
}

/// How many windows of `size` places, `dilation` apart, fit an axis when each begins `step` after the one before.
pub fn window_count(length: usize, size: usize, step: usize, dilation: usize) -> usize {
    match size.saturating_sub(1).checked_mul(dilation) {
        Some(span) if span < length => (length - 1 - span) / step.max(1) + 1,
        _ => 0,
    }
}

/// The NumPy broadcast of two shapes.
pub fn broadcast_shapes(op: &str, a: &[usize], b: &[usize]) -> Result<Dims> {
    let rank = a.len().max(b.len());
    let mut out: Dims = SmallVec::from_elem(1, rank);
    for i in 0..rank {
        let x = if i + a.len() >= rank { a[i + a.len() - rank] } else { 1 };
        let y = if i + b.len() >= rank { b[i + b.len() - rank] } else { 1 };
        out[i] = match (x, y) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => {
                return Err(Error::shape(
                    op,
                    format!(
                        "shapes {} and {} do not broadcast: axis {} has {x} and {y}; sizes must be equal or 1",
                        ShowShape(a),
                        ShowShape(b),
                        i as isize - rank as isize
                    ),
                ));
            }
        };
    }
    Ok(out)
}

/// Resolves an axis that may be negative; `rank` is the operand's.
pub fn resolve_axis(op: &str, axis: isize, rank: usize) -> Result<usize> {
    if rank == 0 {
        return Err(Error::shape(op, format!("axis {axis} is out of range for rank 0, which has no axes")));
    }
    let resolved = if axis < 0 { axis + rank as isize } else { axis };
    if resolved < 0 || resolved >= rank as isize {
        return Err(Error::shape(
            op,
            format!(
                "axis {axis} is out of range for rank {rank}; it must lie in {}..{rank}",
                -(rank as isize)
            ),
        ));
    }
    Ok(resolved as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(layout: &Layout) -> Vec<usize> {
        let mut out = Vec::new();
        let n = layout.numel();
        for flat in 0..n {
            let mut rest = flat;
            let mut at = layout.offset as isize;
            for axis in (0..layout.rank()).rev() {
                at += (rest % layout.shape[axis]) as isize * layout.strides[axis];
                rest /= layout.shape[axis];
            }
            out.push(at as usize);
        }
        out
    }

    #[test]
    fn reshape_of_views_keeps_row_major_order() {
        let base = Layout::contiguous([4, 6]);
        let halves = base.slice(&[0, 0], &[4, 3], &[1, 1]);
        assert!(halves.reshape(&[12]).is_none());
        let split = halves.reshape(&[2, 2, 3]).unwrap();
        assert_eq!(indices(&split), indices(&halves));
        let flipped = base.flip(&[0, 1]).reshape(&[24]).unwrap();
        assert_eq!(flipped.strides[0], -1);
        assert_eq!(indices(&flipped), (0..24).rev().collect::<Vec<_>>());
        assert!(base.permute(&[1, 0]).reshape(&[24]).is_none());
        let broadcast = Layout::contiguous([1, 3]).broadcast(&[5, 3]);
        assert!(broadcast.reshape(&[15]).is_none());
        assert_eq!(Layout::contiguous([0, 3]).reshape(&[3, 0, 7]).unwrap().numel(), 0);
        assert_eq!(Layout::contiguous([1, 1]).reshape(&[]).unwrap().rank(), 0);
        assert_eq!(Layout::contiguous([6]).reshape(&[1, 6, 1]).unwrap().numel(), 6);
    }

    #[test]
    fn windows_overlap_without_copies() {
        let base = Layout::contiguous([2, 7]);
        let view = base.window(&[1], &[3], &[2], &[1]);
        assert_eq!((&view.shape[..], &view.strides[..]), (&[2, 3, 3][..], &[7, 2, 1][..]));
        assert_eq!(indices(&view)[..9], [0, 1, 2, 2, 3, 4, 4, 5, 6]);
        assert!(!view.is_contiguous());
        assert!(view.may_overlap_itself() && !base.window(&[1], &[2], &[3], &[1]).may_overlap_itself());
        assert!(!base.flip(&[0, 1]).may_overlap_itself());
        assert!(Layout::contiguous([1, 3]).broadcast(&[2, 3]).may_overlap_itself());
        assert_eq!(view.extent(), Some((0, 13)));
        // As a list of windows the view is no view any more.
        assert!(view.reshape(&[2, 9]).is_none());
        let wide = base.flip(&[1]).window(&[0, 1], &[2, 2], &[1, 3], &[1, 3]);
        assert_eq!(indices(&wide), [6, 3, 13, 10, 3, 0, 10, 7]);
        assert_eq!(base.window(&[1], &[8], &[1], &[1]).numel(), 0);
        let hostile = base.window(&[1], &[usize::MAX], &[usize::MAX], &[usize::MAX]);
        assert_eq!(hostile.shape[1], 0);
        assert_eq!(window_count(7, 1, usize::MAX, usize::MAX), 1);
    }

    #[test]
    fn broadcasting_names_the_axis() {
        assert_eq!(&broadcast_shapes("add", &[3, 1], &[4]).unwrap()[..], &[3, 4]);
        let error = broadcast_shapes("add", &[3, 2], &[3]).unwrap_err();
        assert!(error.to_string().contains("axis -1 has 2 and 3"), "{error}");
    }

    #[test]
    fn extent_covers_negative_strides() {
        let flipped = Layout::contiguous([2, 3]).flip(&[1]);
        assert_eq!(flipped.extent(), Some((0, 5)));
        assert_eq!(Layout::contiguous([0]).extent(), None);
    }
}
