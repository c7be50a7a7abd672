//! Basic indices: integers, slices, new axes and the ellipsis, as a chain of views.

use smallvec::SmallVec;

use super::Tensor;
use crate::error::{Error, Result};
use crate::ops::views;

/// One part of `x[a, b:c, None, ...]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// One element; the axis goes away.
    At(i64),
    /// A part of an axis.
    Slice { start: Option<i64>, stop: Option<i64>, step: i64 },
    /// A new axis of size 1.
    NewAxis,
    /// As many whole axes as are left.
    Ellipsis,
}

/// The part of a tensor that the indices name: a view of it.
pub fn apply(tensor: &Tensor, indices: &[Index]) -> Result<Tensor> {
    if let (0, [Index::At(_)]) = (tensor.rank(), indices) {
        return Err(Error::index(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a \
             0-dim tensor to a number",
        ));
    }
    let specified =
        indices.iter().filter(|index| matches!(index, Index::At(_) | Index::Slice { .. })).count();
    if specified > tensor.rank() {
        return Err(Error::index(format!("too many indices for tensor of dimension {}", tensor.rank())));
    }
    if indices.iter().filter(|index| matches!(index, Index::Ellipsis)).count() > 1 {
        return Err(Error::index("an index can only have a single ellipsis ('...')"));
    }
    let mut result: Option<Tensor> = None;
    let mut axis = 0i64;
    for index in indices {
        let of = result.as_ref().unwrap_or(tensor);
        match *index {
            Index::At(at) => {
                let size = of.shape()[axis as usize] as i64;
                if at < -size || at >= size {
                    return Err(Error::index(format!(
                        "index {at} is out of bounds for dimension {axis} with size {size}"
                    )));
                }
                result = Some(views::select(of, axis, at)?);
            }
            Index::Slice { start: None, stop: None, step: 1 } => axis += 1,
            Index::Slice { start, stop, step } => {
                result = Some(views::slice(of, axis, start, stop, step)?);
                axis += 1;
            }
            Index::NewAxis => {
                result = Some(views::unsqueeze(of, axis)?);
                axis += 1;
            }
            Index::Ellipsis => axis += (tensor.rank() - specified) as i64,
        }
    }
    match result {
        Some(result) => Ok(result),
        // `x[...]` and `x[:]` are views too.
        None => {
            let sizes: SmallVec<[i64; 4]> = tensor.shape().iter().map(|&size| size as i64).collect();
            let strides: SmallVec<[i64; 4]> =
                tensor.layout().strides.iter().map(|&stride| stride as i64).collect();
            if strides.iter().any(|&stride| stride < 0) {
                return views::slice(tensor, 0, None, None, 1);
            }
            views::as_strided(tensor, &sizes, &strides, None)
        }
    }
}
