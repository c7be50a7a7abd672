//! Views: the same memory read in another way.
//!
//! Every view is a layout, computed by the engine's own rules, and a node whose derivative is a view or its adjoint.

use lanthorn_ir::prim::Movement;
use lanthorn_ir::{Dims, Layout, Prim, TensorType};
use smallvec::{SmallVec, smallvec};

use super::{copy, factory, reduce, resolve_axis, show};
use crate::autograd::history::{is_recorded, record};
use crate::autograd::node::{Formula, Gradients};
use crate::error::{Error, Result};
use crate::tensor::{Data, Tensor};

/// The gradient of an operand from that of the result.
type Derivative = Box<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

/// Makes a view and records it; `derivative` is asked for only then.
fn view(
    name: &'static str,
    a: &Tensor,
    layout: Layout,
    derivative: impl FnOnce() -> Derivative,
) -> Result<Tensor> {
    let result = Tensor::view_of(a, a.data().with_layout(layout)?);
    if is_recorded(&[a]) {
        record(name, &[a], &result, SmallVec::new(), of_one(derivative()));
    }
    Ok(result)
}

/// A formula of one operand from its gradient.
fn of_one(derivative: Derivative) -> Formula {
    Box::new(move |call| {
        let Some(gradient) = call.gradient() else { return Ok(Gradients::new()) };
        Ok(smallvec![Some(derivative(gradient)?)])
    })
}

/// Sizes of which one may be -1, worked out for so many elements.
pub fn infer_size(sizes: &[i64], numel: usize) -> Result<Dims> {
    let invalid = || {
        let shape: Vec<String> = sizes.iter().map(i64::to_string).collect();
        Error::runtime(format!("shape '[{}]' is invalid for input of size {numel}", shape.join(", ")))
    };
    let mut known = 1usize;
    let mut unknown = None;
    for (axis, &size) in sizes.iter().enumerate() {
        match size {
            -1 if unknown.is_none() => unknown = Some(axis),
            -1 => return Err(Error::runtime("only one dimension can be inferred")),
            size if size < 0 => return Err(Error::runtime(format!("invalid shape dimension {size}"))),
            size => known = known.checked_mul(size as usize).ok_or_else(invalid)?,
        }
    }
    let mut shape: Dims = sizes.iter().map(|&size| size.max(0) as usize).collect();
    match unknown {
        Some(_) if known == 0 => {
            return Err(Error::runtime(format!(
                "cannot reshape tensor of {numel} elements into shape {sizes:?} because the unspecified dimension \
                 size -1 can be any value and is ambiguous"
            )));
        }
        Some(axis) if numel.is_multiple_of(known) => shape[axis] = numel / known,
        None if known == numel => {}
        _ => return Err(invalid()),
    }
    Ok(shape)
}

/// The elements under another shape, without a copy.
///
/// Errors: strides that no view of that shape has.
pub fn view_as(a: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let shape = infer_size(sizes, a.numel())?;
    let Some(layout) = a.layout().reshape(&shape) else {
        return Err(Error::runtime(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across \
             two contiguous subspaces). Use .reshape(...) instead.",
        ));
    };
    reshaped("ViewBackward0", a, layout)
}

fn reshaped(name: &'static str, a: &Tensor, layout: Layout) -> Result<Tensor> {
    view(name, a, layout, || {
        let shape = a.ty().shape.clone();
        Box::new(move |gradient| reshape_to(gradient, &shape))
    })
}

/// The elements under another shape; a view where one is possible, else a copy.
pub fn reshape(a: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    reshape_to(a, &infer_size(sizes, a.numel())?)
}

/// As [`reshape`], of known sizes.
pub fn reshape_to(a: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if let Some(layout) = a.layout().reshape(shape) {
        return reshaped("ViewBackward0", a, layout);
    }
    let whole = copy::clone(a)?;
    reshaped("UnsafeViewBackward0", &whole, Layout::contiguous(shape))
}

/// Axes in another order.
pub fn permute(a: &Tensor, axes: &[i64]) -> Result<Tensor> {
    if axes.len() != a.rank() {
        return Err(Error::runtime(format!(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired \
             ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
            a.rank(),
            axes.len()
        )));
    }
    let axes: Dims = axes.iter().map(|&axis| resolve_axis(axis, a.rank())).collect::<Result<_>>()?;
    let mut seen: Dims = axes.clone();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != axes.len() {
        return Err(Error::runtime("permute(): duplicate dims are not allowed."));
    }
    permute_to("PermuteBackward0", a, &axes)
}

fn permute_to(name: &'static str, a: &Tensor, axes: &[usize]) -> Result<Tensor> {
    view(name, a, a.layout().permute(axes), || {
        let mut inverse: Dims = SmallVec::from_elem(0, axes.len());
        for (to, &from) in axes.iter().enumerate() {
            inverse[from] = to;
        }
        Box::new(move |gradient| permute_to("PermuteBackward0", gradient, &inverse))
    })
}

/// Two axes exchanged.
pub fn transpose(a: &Tensor, first: i64, second: i64) -> Result<Tensor> {
    transpose_named("TransposeBackward0", a, first, second)
}

fn transpose_named(name: &'static str, a: &Tensor, first: i64, second: i64) -> Result<Tensor> {
    let (first, second) = (resolve_axis(first, a.rank())?, resolve_axis(second, a.rank())?);
    let mut axes: Dims = (0..a.rank()).collect();
    if !axes.is_empty() {
        axes.swap(first, second);
    }
    permute_to(name, a, &axes)
}

/// A matrix with rows and columns exchanged; a vector as it is.
pub fn t(a: &Tensor) -> Result<Tensor> {
    match a.rank() {
        0 | 1 => permute_to("TBackward0", a, &(0..a.rank()).collect::<Dims>()),
        2 => transpose_named("TBackward0", a, 0, 1),
        rank => {
            Err(Error::runtime(format!("t() expects a tensor with <= 2 dimensions, but self is {rank}D")))
        }
    }
}

/// Repeated to a shape without a copy; -1 keeps a size.
pub fn expand(a: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let (rank, old) = (sizes.len(), a.shape());
    let Some(lead) = rank.checked_sub(old.len()) else {
        return Err(Error::runtime(format!(
            "expand({}, size={sizes:?}): the number of sizes provided ({rank}) must be greater or equal to the number \
             of dimensions in the tensor ({})",
            a.dtype(),
            old.len()
        )));
    };
    let mut shape = Dims::new();
    for (axis, &size) in sizes.iter().enumerate() {
        let own = axis.checked_sub(lead).and_then(|at| old.get(at)).copied();
        shape.push(match (size, own) {
            (-1, Some(own)) => own,
            (-1, None) => {
                return Err(Error::runtime(format!(
                    "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {axis}"
                )));
            }
            (size, own) => {
                let size = super::size_of(size)?;
                if own.is_some_and(|own| own != size && own != 1) {
                    return Err(Error::runtime(format!(
                        "The expanded size of the tensor ({size}) must match the existing size ({}) at non-singleton \
                         dimension {axis}.  Target sizes: {sizes:?}.  Tensor sizes: {}",
                        own.unwrap_or(1),
                        show(old)
                    )));
                }
                size
            }
        });
    }
    expand_to(a, &shape)
}

/// As [`expand`], to a shape that is known to fit.
pub fn expand_to(a: &Tensor, shape: &[usize]) -> Result<Tensor> {
    lanthorn_ir::layout::check_size("expand", &TensorType::new(a.dtype(), shape))?;
    view("ExpandBackward0", a, a.layout().broadcast(shape), || {
        let shape = a.ty().shape.clone();
        Box::new(move |gradient| reduce::sum_to_size(gradient, &shape))
    })
}

/// An axis of size 1 put in.
pub fn unsqueeze(a: &Tensor, axis: i64) -> Result<Tensor> {
    let axis = resolve_axis(axis, a.rank() + 1)?;
    let mut layout = a.layout().clone();
    let stride = match (layout.strides.get(axis), layout.shape.get(axis)) {
        (Some(&stride), Some(&size)) => stride.saturating_mul(size as isize),
        _ => 1,
    };
    layout.shape.insert(axis, 1);
    layout.strides.insert(axis, stride);
    view("UnsqueezeBackward0", a, layout, || {
        Box::new(move |gradient| squeeze(gradient, Some(&[axis as i64])))
    })
}

/// Axes of size 1 taken out: all of them, or those named.
pub fn squeeze(a: &Tensor, axes: Option<&[i64]>) -> Result<Tensor> {
    let mut drop: SmallVec<[bool; 4]> = SmallVec::from_elem(axes.is_none(), a.rank());
    for &axis in axes.unwrap_or_default() {
        let axis = resolve_axis(axis, a.rank())?;
        if let Some(slot) = drop.get_mut(axis) {
            *slot = true;
        }
    }
    let old = a.layout();
    let kept = || (0..a.rank()).filter(|&axis| !(drop[axis] && old.shape[axis] == 1));
    let layout = Layout {
        shape: kept().map(|axis| old.shape[axis]).collect(),
        strides: kept().map(|axis| old.strides[axis]).collect(),
        offset: old.offset,
    };
    let name = if axes.is_some() { "SqueezeBackward1" } else { "SqueezeBackward0" };
    reshaped(name, a, layout)
}

/// One element of an axis, which goes away.
pub fn select(a: &Tensor, axis: i64, index: i64) -> Result<Tensor> {
    if a.rank() == 0 {
        return Err(Error::index("select() cannot be applied to a 0-dim tensor."));
    }
    let axis = resolve_axis(axis, a.rank())?;
    let size = a.shape()[axis] as i64;
    if index < -size || index >= size {
        return Err(Error::index(format!(
            "select(): index {index} out of range for tensor of size {} at dimension {axis}",
            show(a.shape())
        )));
    }
    let index = (if index < 0 { index + size } else { index }) as usize;
    let mut layout = a.layout().clone();
    layout.offset = (layout.offset as isize + index as isize * layout.strides[axis]) as usize;
    layout.shape.remove(axis);
    layout.strides.remove(axis);
    view("SelectBackward0", a, layout, || {
        let shape = a.ty().shape.clone();
        Box::new(move |gradient| {
            let raised = unsqueeze(gradient, axis as i64)?;
            place(&raised, &shape, axis, index, 1)
        })
    })
}

/// Elements `start..stop` by `step` of an axis; bounds are clamped, negative ones count from the end.
pub fn slice(a: &Tensor, axis: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Result<Tensor> {
    if a.rank() == 0 {
        return Err(Error::index("slice() cannot be applied to a 0-dim tensor."));
    }
    let axis = resolve_axis(axis, a.rank())?;
    if step <= 0 {
        return Err(Error::value("step must be greater than zero"));
    }
    let size = a.shape()[axis] as i64;
    let bound = |at: i64| if at < 0 { at.saturating_add(size).max(0) } else { at.min(size) };
    let start = bound(start.unwrap_or(0));
    let stop = bound(stop.unwrap_or(size)).max(start);
    let count = ((stop - start) as usize).div_ceil(step as usize);
    let mut layout = a.layout().clone();
    if count > 0 {
        layout.offset = (layout.offset as isize + start as isize * layout.strides[axis]) as usize;
    }
    layout.shape[axis] = count;
    layout.strides[axis] = layout.strides[axis].saturating_mul(step as isize);
    view("SliceBackward0", a, layout, || {
        let shape = a.ty().shape.clone();
        Box::new(move |gradient| place(gradient, &shape, axis, start as usize, step as usize))
    })
}

/// The adjoint of a slice: zeros of `shape` with `a` at `start, start + step, ..` of an axis.
fn place(a: &Tensor, shape: &[usize], axis: usize, start: usize, step: usize) -> Result<Tensor> {
    let rank = shape.len();
    let (mut low, mut high, mut interior) =
        (Dims::from_elem(0, rank), Dims::from_elem(0, rank), Dims::from_elem(0, rank));
    let count = a.shape().get(axis).copied().unwrap_or(0);
    let data = if count == 0 || a.numel() == 0 {
        factory::full(shape, 0i64.into(), a.dtype(), a.is_meta())?.data().clone()
    } else {
        let last = start + (count - 1) * step;
        (low[axis], high[axis], interior[axis]) = (start, shape[axis] - last - 1, step - 1);
        super::apply(Prim::Movement(Movement::Pad { low, high, interior }), &[a.data()])?
    };
    let result = Tensor::new(data);
    if is_recorded(&[a]) {
        let derivative = move |gradient: &Tensor| {
            let stop = start + count.saturating_sub(1) * step + usize::from(count > 0);
            slice(gradient, axis as i64, Some(start as i64), Some(stop as i64), step as i64)
        };
        record("SliceBackwardBackward0", &[a], &result, SmallVec::new(), of_one(Box::new(derivative)));
    }
    Ok(result)
}

/// Any view of the memory: sizes and strides in elements, from the beginning of the storage.
pub fn as_strided(a: &Tensor, sizes: &[i64], strides: &[i64], offset: Option<i64>) -> Result<Tensor> {
    if sizes.len() != strides.len() {
        return Err(Error::runtime(format!(
            "mismatch in length of strides and shape: {} sizes, {} strides",
            sizes.len(),
            strides.len()
        )));
    }
    if strides.iter().any(|&stride| stride < 0) {
        return Err(Error::runtime(format!(
            "as_strided: Negative strides are not supported at the moment, got strides: {strides:?}"
        )));
    }
    let offset = offset.unwrap_or(a.layout().offset as i64);
    let Ok(offset) = usize::try_from(offset) else {
        return Err(Error::runtime(format!("Tensor: invalid storage offset {offset}")));
    };
    let strides = strides.iter().map(|&stride| stride as isize).collect();
    let layout = Layout { shape: super::sizes_of(sizes)?, strides, offset };
    as_strided_at(a, &layout)
}

/// As [`as_strided`], by a layout.
pub(crate) fn as_strided_at(a: &Tensor, layout: &Layout) -> Result<Tensor> {
    let data = a.data().with_layout(layout.clone()).map_err(|_| {
        let bytes = a.concrete().map(|tensor| tensor.storage().bytes()).unwrap_or(0);
        Error::runtime(format!(
            "setStorage: sizes {}, strides {:?}, storage offset {}, and itemsize {} are out of bounds for storage of \
             size {bytes}",
            show(&layout.shape),
            &layout.strides[..],
            layout.offset,
            a.dtype().size()
        ))
    })?;
    let result = Tensor::view_of(a, data);
    if is_recorded(&[a]) {
        let formula = as_strided_formula(a, layout);
        record("AsStridedBackward0", &[a], &result, SmallVec::new(), formula);
    }
    Ok(result)
}

/// The derivative of a view `view` of the memory of `a`: gradients are added up in memory as the view shows it, then
/// read as `a` shows it.
pub(crate) fn as_strided_formula(a: &Tensor, view: &Layout) -> Formula {
    let (source, view) = (a.layout().clone(), view.clone());
    of_one(Box::new(move |gradient| {
        let span = Span::of(&[&source, &view]);
        let memory = spread(gradient, &span.places(&view), span.len)?;
        let places = span.places(&source);
        let gathered = gather(&memory, &places, &source.shape)?;
        let shares = shares(&places, span.len);
        match shares {
            // Where the operand shows one place several times, each of them has a part.
            Some(counts) => {
                let counts = factory::of_parts(lanthorn_runtime::EagerTensor::from_vec(
                    crate::device(),
                    &source.shape,
                    counts,
                )?);
                super::arithmetic::div(&gathered, &copy::to(&counts, gradient.dtype())?)
            }
            None => Ok(gathered),
        }
    }))
}

/// A stretch of memory that holds all elements of some layouts.
struct Span {
    low: usize,
    len: usize,
}

impl Span {
    fn of(layouts: &[&Layout]) -> Span {
        let extents = layouts.iter().filter_map(|layout| layout.extent());
        let (low, high) = extents.fold((usize::MAX, 0), |(low, high), (a, b)| (low.min(a), high.max(b)));
        if low == usize::MAX { Span { low: 0, len: 1 } } else { Span { low, len: high - low + 1 } }
    }

    /// The place of each element in the stretch, in row-major order.
    fn places(&self, layout: &Layout) -> Vec<i64> {
        let first = layout.offset as i64 - self.low as i64;
        let mut places = vec![first; usize::from(layout.numel() > 0)];
        for (&size, &stride) in layout.shape.iter().zip(&layout.strides) {
            let next = places.iter().flat_map(|&at| (0..size as i64).map(move |i| at + i * stride as i64));
            places = next.collect();
        }
        places
    }
}

/// How often each element's place is shown; `None` if all are shown once.
fn shares(places: &[i64], len: usize) -> Option<Vec<f64>> {
    let mut counts = vec![0u32; len];
    places.iter().for_each(|&at| counts[at as usize] += 1);
    if counts.iter().all(|&count| count <= 1) {
        return None;
    }
    Some(places.iter().map(|&at| f64::from(counts[at as usize])).collect())
}

fn index_data(places: &[i64]) -> Result<Data> {
    let ids = lanthorn_runtime::EagerTensor::from_slice(crate::device(), &[places.len()], places)?;
    Ok(Data::Concrete(ids))
}

/// Adds the elements of `a` up in a vector of `len` elements, each at its place.
fn spread(a: &Tensor, places: &[i64], len: usize) -> Result<Tensor> {
    let column = reshape_to(&a.detach(), &[places.len(), 1])?;
    let prim = Prim::Index(lanthorn_ir::prim::Index::EmbeddingGrad { rows: len });
    let memory = Tensor::new(super::apply(prim, &[column.data(), &index_data(places)?])?);
    let memory = Tensor::new(memory.data().with_layout(Layout::contiguous([len]))?);
    if is_recorded(&[a]) {
        let (places, shape) = (places.to_vec(), a.ty().shape.clone());
        let derivative = move |gradient: &Tensor| gather(gradient, &places, &shape);
        record("AsStridedScatterBackward0", &[a], &memory, SmallVec::new(), of_one(Box::new(derivative)));
    }
    Ok(memory)
}

/// Reads a vector at the given places, as a tensor of `shape`.
fn gather(memory: &Tensor, places: &[i64], shape: &[usize]) -> Result<Tensor> {
    let len = memory.numel();
    let table = reshape_to(&memory.detach(), &[len, 1])?;
    let prim = Prim::Index(lanthorn_ir::prim::Index::Embedding);
    let rows = super::apply(prim, &[table.data(), &index_data(places)?])?;
    let result = Tensor::new(rows.with_layout(Layout::contiguous(shape))?);
    if is_recorded(&[memory]) {
        let places = places.to_vec();
        let derivative = move |gradient: &Tensor| spread(gradient, &places, len);
        record("AsStridedGatherBackward0", &[memory], &result, SmallVec::new(), of_one(Box::new(derivative)));
    }
    Ok(result)
}
