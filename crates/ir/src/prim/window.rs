//! Convolution: sums of products over sliding windows.
//!
//! One primitive is closed under its derivatives. Its operand may have zeros between neighbours (`interior`), so the
//! gradient of the operand and the transposed convolution are convolutions too, and padding may be negative, which
//! cuts the operand (XLA's `ConvGeneralDilated` and its transposes). Pooling is composed of the view
//! [`Movement::Window`] and reductions.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Movement, Optional, Prim, Rules, Types, Windows, derived, expect_arity, expect_float,
    expect_same_dtype,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, Strides, TensorType, check_size, numel, window_count};
use crate::ops;

/// Compound primitives over sliding windows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Window {
    /// `(x [n, c, spatial..], weight [o, c / groups, kernel..]) -> [n, o, out..]`; see [`Convolution`].
    /// In a box, since it would make every node larger.
    Conv(Box<Convolution>),
}

/// The attributes of a convolution, one number for each spatial axis (at least one), which computes
///
/// `out[n, o, p..] = sum over i, j.. of padded[n, g c / groups + i, p s + j d ..] * weight[o, i, j..]`
///
/// where `g = o / (o_total / groups)` is the group of `o`, `s` the stride, `d` the dilation. It is a correlation, as
/// in torch: the kernel is not turned over. Sums accumulate in the wide type and are rounded once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Convolution {
    /// Places from one window to the next, at least 1.
    pub strides: Dims,
    /// Zeros before the operand; a negative number cuts.
    pub low: Strides,
    /// Zeros after the operand; a negative number cuts.
    pub high: Strides,
    /// Zeros between neighbours of the operand.
    pub interior: Dims,
    /// Places from one element of the kernel to the next, at least 1.
    pub dilations: Dims,
    /// Groups of channels that do not mix; at least 1.
    pub groups: usize,
}

/// Bound of paddings, spread sizes and spans, so that sums of a few of them do not overflow.
const FARTHEST: usize = isize::MAX as usize / 8;

/// The size of an axis after `interior` zeros between neighbours and `low` and `high` zeros at its ends; 0 where more
/// is cut than is there. `None` if that is beyond the address space.
pub(crate) fn padded_size(length: usize, interior: usize, low: isize, high: isize) -> Option<usize> {
    let spread = span(length, interior.checked_add(1)?)?;
    let near = low.unsigned_abs() <= FARTHEST && high.unsigned_abs() <= FARTHEST;
    near.then(|| (spread as isize + low + high).max(0) as usize)
}

/// From the first of `size` places to the last, both included, `step` apart; `None` if that is beyond the address space.
fn span(size: usize, step: usize) -> Option<usize> {
    let Some(gaps) = size.checked_sub(1) else { return Some(0) };
    gaps.checked_mul(step)?.checked_add(1).filter(|&span| span <= FARTHEST)
}

impl Convolution {
    /// The result's shape for operands of these types, or an error that names `op`.
    pub(crate) fn output(&self, op: &str, x: &TensorType, weight: &TensorType) -> Result<Dims> {
        expect_float(op, "x", x)?;
        expect_same_dtype(op, x, "weight", weight)?;
        let axes = self.strides.len();
        let fail = |message: String| Err(Error::shape(op, message));
        let lists = [self.low.len(), self.high.len(), self.interior.len(), self.dilations.len()];
        if axes == 0 || lists.iter().any(|&len| len != axes) {
            return fail(format!(
                "strides are for {axes} axes, padding, gaps and dilations for {}; expected equal numbers",
                ShowShape(&lists)
            ));
        }
        if self.strides.contains(&0) || self.dilations.contains(&0) || self.groups == 0 {
            return fail(format!(
                "strides {}, dilations {} and groups {} must be at least 1",
                ShowShape(&self.strides),
                ShowShape(&self.dilations),
                self.groups
            ));
        }
        let (sx, sw) = (&x.shape, &weight.shape);
        let fits = sx.len() == axes + 2
            && sw.len() == axes + 2
            && sw[1].checked_mul(self.groups) == Some(sx[1])
            && sw[0].is_multiple_of(self.groups)
            && self.groups <= sx[1].max(sw[0]).max(1)
            && !sw[2..].contains(&0);
        if !fits {
            return fail(format!(
                "x {} and weight {} do not fit with {} groups; expected [n, c, {axes} sizes] and [o, c / groups, {axes} \
                 sizes of at least 1], and groups that divide o",
                ShowShape(sx),
                ShowShape(sw),
                self.groups
            ));
        }
        let mut padded = Dims::from_slice(&sx[..2]);
        let mut windows = Dims::from_slice(&sx[..2]);
        let mut shape = Dims::from_slice(&[sx[0], sw[0]]);
        for a in 0..axes {
            let size = padded_size(sx[a + 2], self.interior[a], self.low[a], self.high[a]);
            let (Some(size), Some(_)) = (size, span(sw[a + 2], self.dilations[a])) else {
                return fail(format!("axis {} of x {} with its padding overflows", a + 2, ShowShape(sx)));
            };
            let count = window_count(size, sw[a + 2], self.strides[a], self.dilations[a]);
            padded.push(size);
            windows.extend([count, sw[a + 2]]);
            shape.push(count);
        }
        // What the decomposition forms on the way must fit as well.
        check_size(op, &TensorType { dtype: x.dtype, shape: padded })?;
        check_size(op, &TensorType { dtype: x.dtype, shape: windows })?;
        Ok(shape)
    }

    /// The convolution of these operands.
    pub(crate) fn apply<B: Builder>(self, b: &B, x: &B::Value, weight: &B::Value) -> Result<B::Value> {
        b.apply1(Prim::Window(Window::Conv(Box::new(self))), &[x.clone(), weight.clone()])
    }

    /// The cotangent of `x`: a convolution of the cotangent, spread by the stride, with the kernel turned over and
    /// its channels exchanged. Where `x` was spread, the stride picks its own places from the result.
    fn transpose_x<B: Builder>(
        &self,
        b: &B,
        x: &[usize],
        weight: &B::Value,
        t: &B::Value,
    ) -> Result<B::Value> {
        let (kernel, out) = (ops::shape_of(b, weight), ops::shape_of(b, t));
        let axes = self.strides.len();
        let (mut low, mut high) = (Strides::new(), Strides::new());
        let (mut strides, mut interior, mut dilations) = (Dims::new(), Dims::new(), Dims::new());
        for a in 0..axes {
            // `infer` has bounded every size and span below; a gap that lies nowhere is left out.
            let (length, k, n) = (x[a + 2], kernel[a + 2], out[a + 2]);
            let dilation = if k > 1 { self.dilations[a] } else { 1 };
            let step = if n > 1 { self.strides[a] } else { 1 };
            let gap = if length > 1 { self.interior[a] } else { 0 };
            let spread = if length > 0 { (length - 1) * (gap + 1) + 1 } else { 0 };
            let reach = ((k - 1) * dilation) as isize;
            low.push(reach - self.low[a]);
            high.push(spread as isize + self.low[a] - ((n - 1) * step + 1) as isize);
            strides.push(gap + 1);
            interior.push(step - 1);
            dilations.push(dilation);
        }
        let flipped = Movement::Flip { axes: (2..axes + 2).collect() };
        let weight = ops::apply_movement(b, flipped, &exchange_channels(b, weight, self.groups)?)?;
        Convolution { strides, low, high, interior, dilations, groups: self.groups }.apply(b, t, &weight)
    }

    /// The cotangent of `weight`: a convolution of `x` with the cotangent, in which batch and channels have changed
    /// places, so that it sums over the batch; stride and dilation change places too.
    fn transpose_weight<B: Builder>(
        &self,
        b: &B,
        x: &B::Value,
        weight: &[usize],
        t: &B::Value,
    ) -> Result<B::Value> {
        let (sx, out) = (ops::shape_of(b, x), ops::shape_of(b, t));
        let (batch, groups, inner) = (sx[0], self.groups, weight[1]);
        let mut folded = self.clone();
        for a in 0..self.strides.len() {
            let (length, k, n) = (sx[a + 2], weight[a + 2], out[a + 2]);
            folded.strides[a] = if k > 1 { self.dilations[a] } else { 1 };
            folded.dilations[a] = if n > 1 { self.strides[a] } else { 1 };
            folded.interior[a] = if length > 1 { self.interior[a] } else { 0 };
            let spread = if length > 0 { (length - 1) * (folded.interior[a] + 1) + 1 } else { 0 };
            let needed = (k - 1) * folded.strides[a] + (n - 1) * folded.dilations[a] + 1;
            folded.high[a] = needed as isize - self.low[a] - spread as isize;
        }
        // `x` to [c / groups, groups n, ..] and the cotangent to [o, n, ..].
        let merged = groups * batch;
        let x = regroup(b, x, &[batch, groups, inner], &[2, 1, 0], &[inner, merged], 2)?;
        let t = exchange(b, t)?;
        exchange(b, &folded.apply(b, &x, &t)?)
    }
}

/// The first `axes` axes as `split`, in the order `order`, merged to `merged`; the others stay.
fn regroup<B: Builder>(
    b: &B,
    x: &B::Value,
    split: &[usize],
    order: &[usize],
    merged: &[usize],
    axes: usize,
) -> Result<B::Value> {
    let shape = ops::shape_of(b, x);
    let rest = &shape[axes..];
    let joined = |front: &[usize]| front.iter().chain(rest).copied().collect::<Dims>();
    let order: Dims = order.iter().copied().chain(split.len()..split.len() + rest.len()).collect();
    let parts = ops::permute_to(b, &ops::reshape_to(b, x, &joined(split))?, &order)?;
    ops::reshape_to(b, &parts, &joined(merged))
}

/// Swaps the first two axes.
fn exchange<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    ops::transpose(b, x, 0, 1)
}

/// A weight `[groups o, c, kernel..]` as `[groups c, o, kernel..]`: within each group, inputs and outputs change places.
pub(crate) fn exchange_channels<B: Builder>(b: &B, weight: &B::Value, groups: usize) -> Result<B::Value> {
    let shape = ops::shape_of(b, weight);
    let (outer, inner) = (shape[0] / groups, shape[1]);
    regroup(b, weight, &[groups, outer, inner], &[0, 2, 1], &[groups * inner, outer], 2)
}

impl Rules for Window {
    fn name(&self) -> &'static str {
        match self {
            Window::Conv(_) => "conv",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let Window::Conv(conv) = self;
        expect_arity("conv", inputs, 2)?;
        let shape = conv.output("conv", inputs[0], inputs[1])?;
        Ok(smallvec![TensorType { dtype: inputs[0].dtype, shape }])
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Window::Conv(conv) = self;
        let Some(t) = cotangents[0].as_ref().filter(|t| b.ty(t).numel() > 0) else {
            return Ok(at.no_cotangents());
        };
        let (x, weight) = (&at.inputs[0], &at.inputs[1]);
        let (sx, sw) = (ops::shape_of(b, x), ops::shape_of(b, weight));
        let dx = if at.wants(0) { Some(conv.transpose_x(b, &sx, weight, t)?) } else { None };
        let dw = if at.wants(1) { Some(conv.transpose_weight(b, x, &sw, t)?) } else { None };
        Ok(vec![dx, dw])
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Window::Conv(conv) = self;
        let apply = |x: &B::Value, weight: &B::Value| (**conv).clone().apply(b, x, weight).map(Some);
        let left = tangents[0].as_ref().map_or(Ok(None), |t| apply(t, &at.inputs[1]))?;
        let right = tangents[1].as_ref().map_or(Ok(None), |t| apply(&at.inputs[0], t))?;
        Ok(vec![derived::add_optional(b, left, right)?])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let Window::Conv(conv) = self;
        let (x, weight) = (&inputs[0], &inputs[1]);
        if size == 0 {
            let one = |input: &Batched<B::Value>| {
                let ty = b.ty(&input.value);
                TensorType::new(ty.dtype, &ty.shape[usize::from(input.mapped)..])
            };
            let mut shape = conv.output("conv", &one(x), &one(weight))?;
            shape.insert(0, 0);
            return Ok(derived::with_axis([ops::zeros(b, &shape, b.ty(&x.value).dtype)?]));
        }
        let y = match (x.mapped, weight.mapped) {
            // The new axis is one of images.
            (_, false) => {
                let batch = b.ty(&x.value).shape[1];
                let y = conv.clone().apply(b, &derived::fold_axis(b, &x.value)?, &weight.value)?;
                derived::unfold_axis(b, &y, size, batch)?
            }
            // The new axis is one of output channels, within each group.
            (false, true) => {
                let shape = ops::shape_of(b, &weight.value);
                let (groups, outer, inner) = (conv.groups, shape[1] / conv.groups, shape[2]);
                let (split, channels) = ([size, groups, outer, inner], size * shape[1]);
                let w = regroup(b, &weight.value, &split, &[1, 0, 2, 3], &[channels, inner], 3)?;
                let y = conv.clone().apply(b, &x.value, &w)?;
                let batch = b.ty(&y).shape[0];
                let (split, merged) = ([batch, groups, size, outer], [size, batch, shape[1]]);
                regroup(b, &y, &split, &[2, 0, 1, 3], &merged, 2)?
            }
            // The new axis is one of groups.
            (true, true) => {
                let (sx, sw) = (ops::shape_of(b, &x.value), ops::shape_of(b, &weight.value));
                let (batch, channels, outer) = (sx[1], sx[2], sw[1]);
                // Groups of no channels at all are one group, for a group needs a channel.
                let groups = if channels.max(outer) == 0 { 1 } else { conv.groups.saturating_mul(size) };
                let grouped = Convolution { groups, ..(**conv).clone() };
                let x =
                    regroup(b, &x.value, &[size, batch, channels], &[1, 0, 2], &[batch, size * channels], 3)?;
                let y = grouped.apply(b, &x, &derived::fold_axis(b, &weight.value)?)?;
                regroup(b, &y, &[batch, size, outer], &[1, 0, 2], &[size, batch, outer], 2)?
            }
        };
        Ok(derived::with_axis([y]))
    }

    /// Padding, the view of all windows, and one matrix product for each image and group.
    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let Window::Conv(conv) = self;
        let (x, weight) = (&inputs[0], &inputs[1]);
        let (sw, out) = (ops::shape_of(b, weight), conv.output("conv", b.ty(x), b.ty(weight))?);
        let axes = conv.strides.len();
        let (batch, groups, outer, inner) = (out[0], conv.groups, sw[0] / conv.groups, sw[1]);
        let edge = |ends: &Strides| [0, 0].iter().chain(ends).copied().collect::<Strides>();
        let interior: Dims = [0, 0].iter().chain(&conv.interior).copied().collect();
        let padded = ops::pad_or_cut(b, x, &edge(&conv.low), &edge(&conv.high), &interior)?;
        let places = ops::shape_of(b, &padded);
        let mut grouped = Dims::from_slice(&[batch, groups, inner]);
        grouped.extend_from_slice(&places[2..]);
        let windows = Movement::Window(Box::new(Windows {
            axes: (3..axes + 3).collect(),
            sizes: Dims::from_slice(&sw[2..]),
            steps: conv.strides.clone(),
            dilations: conv.dilations.clone(),
        }));
        let windows = ops::apply_movement(b, windows, &ops::reshape_to(b, &padded, &grouped)?)?;
        // [n, groups, c, out.., kernel..] to columns [n, groups, c kernel, out].
        let order: Dims = (0..3).chain(axes + 3..2 * axes + 3).chain(3..axes + 3).collect();
        let (terms, count) = (inner * numel(&sw[2..]), numel(&out[2..]));
        let columns = ops::permute_to(b, &windows, &order)?;
        let columns = ops::reshape_to(b, &columns, &[batch, groups, terms, count])?;
        let weight = ops::reshape_to(b, weight, &[groups, outer, terms])?;
        let y = ops::matmul(b, &weight, &columns)?;
        Ok(Some(vec![ops::reshape_to(b, &y, &out)?]))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
