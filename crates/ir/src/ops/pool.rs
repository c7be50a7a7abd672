//! Pooling: the largest element or the mean of sliding windows over the last axes.
//!
//! Lists take one number for all spatial axes, one for each, or none for the default; an absent stride is the kernel.

use smallvec::SmallVec;

use super::window::{each_axis, expect_positive, windows_of};
use super::{
    add, add_scalar, cast, div, div_scalar, eq, eq_scalar, fold, full, iota, isnan, logical_and, logical_or,
    maximum_scalar, minimum_scalar, mul_scalar, pad, pad_or_cut, pow_scalar, rem_scalar, reshape_to, scalar,
    shape_of, sub, where_,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, Strides, numel};
use crate::prim::ReduceOp;

/// The windows of one pooling over the last axes of `shape`.
struct Pooling {
    op: &'static str,
    /// The first spatial axis.
    first: usize,
    shape: Dims,
    kernel: Dims,
    stride: Dims,
    dilation: Dims,
    /// Before each axis, and after it; what `ceil_mode` adds stands after.
    low: Strides,
    high: Strides,
    /// The padding that was asked for after each axis.
    padding: Strides,
    out: Dims,
}

impl Pooling {
    /// As in torch: padding of at most half the kernel, and in `ceil_mode` a last window that begins within the
    /// operand or the padding before it.
    fn new(
        op: &'static str,
        axes: usize,
        shape: &[usize],
        kernel: &[usize],
        stride: &[usize],
        padding: &[usize],
        dilation: &[usize],
        ceil_mode: bool,
    ) -> Result<Pooling> {
        let fail = |message: String| Err(Error::shape(op, message));
        if shape.len() != axes + 1 && shape.len() != axes + 2 {
            return fail(format!(
                "x is of shape {}, expected [n, c, {axes} sizes] or [c, {axes} sizes]",
                ShowShape(shape)
            ));
        }
        if kernel.is_empty() {
            return fail("kernel is empty, expected the size of a window".into());
        }
        let kernel = each_axis(op, "kernel", kernel, axes, 1)?;
        let stride =
            if stride.is_empty() { kernel.clone() } else { each_axis(op, "stride", stride, axes, 1)? };
        let padding = each_axis(op, "padding", padding, axes, 0)?;
        let dilation = each_axis(op, "dilation", dilation, axes, 1)?;
        expect_positive(op, &[("kernel", &kernel), ("stride", &stride), ("dilation", &dilation)])?;
        let first = shape.len() - axes;
        let mut pooling = Pooling {
            op,
            first,
            shape: Dims::from_slice(shape),
            kernel,
            stride,
            dilation,
            low: Strides::new(),
            high: Strides::new(),
            padding: Strides::new(),
            out: Dims::new(),
        };
        for a in 0..axes {
            let (size, k, s, d) =
                (shape[first + a], pooling.kernel[a], pooling.stride[a], pooling.dilation[a]);
            // In 128 bits, where no product of two sizes overflows.
            let [size, k, s, d, pad] = [size, k, s, d, padding[a]].map(|number| number as u128);
            let span = (k - 1) * d + 1;
            if 2 * pad > span {
                return fail(format!("padding {pad} exceeds half of the {span} places that a window spans"));
            }
            let padded = size + 2 * pad;
            let rounding = if ceil_mode { s - 1 } else { 0 };
            let mut count = (padded + rounding).checked_sub(span).map_or(0, |left| left / s + 1);
            if ceil_mode && count > 0 && (count - 1) * s >= size + pad {
                count -= 1;
            }
            let needed = count.saturating_sub(1) * s + span;
            if size == 0 || count == 0 || needed > isize::MAX as u128 / 8 {
                return fail(format!(
                    "a window that spans {span} places does not fit axis {} of {} with padding {pad}",
                    first + a,
                    ShowShape(shape)
                ));
            }
            pooling.low.push(pad as isize);
            pooling.high.push((pad + needed.saturating_sub(padded)) as isize);
            pooling.padding.push(pad as isize);
            pooling.out.push(count as usize);
        }
        Ok(pooling)
    }

    fn axes(&self) -> usize {
        self.kernel.len()
    }

    /// The axes of the places within windows: `[.., out.., kernel..]`.
    fn places(&self) -> Dims {
        (self.shape.len()..self.shape.len() + self.axes()).collect()
    }

    fn is_padded(&self) -> bool {
        self.low.iter().chain(&self.high).any(|&end| end > 0)
    }

    /// The paddings of all axes.
    fn ends(&self) -> [Strides; 2] {
        [&self.low, &self.high].map(|ends| std::iter::repeat_n(&0, self.first).chain(ends).copied().collect())
    }

    fn out_shape(&self) -> Dims {
        self.shape[..self.first].iter().chain(&self.out).copied().collect()
    }

    /// The windows of a padded value, `[.., out.., kernel..]`.
    fn windows<B: Builder>(&self, b: &B, padded: &B::Value) -> Result<B::Value> {
        let axes: Dims = (self.first..self.shape.len()).collect();
        windows_of(b, padded, &axes, &self.kernel, &self.stride, &self.dilation)
    }

    /// The largest element of each window and its place in it (row-major; the number of places for a window of
    /// padding alone), both `[.., out..]`.
    fn largest<B: Builder>(&self, b: &B, x: &B::Value) -> Result<(B::Value, B::Value)> {
        crate::prim::expect_float(self.op, "x", b.ty(x))?;
        let [low, high] = self.ends();
        let windows = self.windows(b, &pad(b, x, &low, &high, f64::NEG_INFINITY)?)?;
        let inside = if self.is_padded() {
            let inside = full(b, &self.shape, true, DType::Bool)?;
            Some(self.windows(b, &pad(b, &inside, &low, &high, false)?)?)
        } else {
            None
        };
        let (y, place) = first_largest(b, &windows, inside.as_ref(), &self.places())?;
        let out = self.out_shape();
        Ok((reshape_to(b, &y, &out)?, reshape_to(b, &place, &out)?))
    }

    /// Places in windows as places in the flattened spatial axes of the operand, i64.
    fn flat_places<B: Builder>(&self, b: &B, place: &B::Value) -> Result<B::Value> {
        let mut flat = None;
        let mut place = cast(b, place, DType::I64)?;
        let mut weight = 1i64;
        for a in (0..self.axes()).rev() {
            let within = rem_scalar(b, &place, self.kernel[a] as i64)?;
            place = div_scalar(b, &place, self.kernel[a] as i64)?;
            let window = mul_scalar(b, &iota(b, self.out[a], DType::I64)?, self.stride[a] as i64)?;
            let mut along: Dims = SmallVec::from_elem(1, self.axes() - a);
            along[0] = self.out[a];
            let start = add_scalar(b, &reshape_to(b, &window, &along)?, -(self.low[a] as i64))?;
            let at = add(b, &mul_scalar(b, &within, self.dilation[a] as i64)?, &start)?;
            let term = mul_scalar(b, &at, weight)?;
            weight = weight.saturating_mul(self.shape[self.first + a] as i64);
            flat = Some(match flat {
                Some(flat) => add(b, &flat, &term)?,
                None => term,
            });
        }
        flat.ok_or_else(|| Error::shape(self.op, "there is no axis to pool"))
    }

    /// The sum of each window, in the wide type, `[.., out..]`; padding counts as 0.
    fn sums<B: Builder>(&self, b: &B, x: &B::Value) -> Result<B::Value> {
        crate::prim::expect_float(self.op, "x", b.ty(x))?;
        let [low, high] = self.ends();
        let interior: Dims = SmallVec::from_elem(0, self.shape.len());
        let padded = pad_or_cut(b, &cast(b, x, b.ty(x).dtype.wide())?, &low, &high, &interior)?;
        let sums = fold(b, ReduceOp::Sum, &self.windows(b, &padded)?, &self.places())?;
        reshape_to(b, &sums, &self.out_shape())
    }

    /// The places along a spatial axis that count: those of the operand, or with its padding.
    fn counted(&self, a: usize, include_pad: bool) -> (isize, isize) {
        let size = self.shape[self.first + a] as isize;
        if include_pad { (-self.low[a], size + self.padding[a]) } else { (0, size) }
    }

    /// The number of places of every window along a spatial axis, if it is one: only windows at the ends have fewer
    /// than the kernel.
    fn uniform_count(&self, a: usize, include_pad: bool) -> Option<usize> {
        let (begin, end) = self.counted(a, include_pad);
        let count = |window: usize| {
            let start = (window * self.stride[a]) as isize - self.low[a];
            ((start + self.kernel[a] as isize).min(end) - start.max(begin)).max(0) as usize
        };
        let (first, last) = (count(0), count(self.out[a] - 1));
        (first == last && (first == self.kernel[a] || self.out[a] <= 2)).then_some(first)
    }

    /// The sum of each window divided by the number of its places, in the wide type.
    fn means<B: Builder>(&self, b: &B, x: &B::Value, include_pad: bool) -> Result<B::Value> {
        let mut y = self.sums(b, x)?;
        let wide = b.ty(&y).dtype;
        let mut uniform = 1.0;
        for a in 0..self.axes() {
            if let Some(count) = self.uniform_count(a, include_pad) {
                uniform *= count as f64;
                continue;
            }
            // The same as `uniform_count` finds, for all windows at once.
            let (begin, end) = self.counted(a, include_pad);
            let start = mul_scalar(b, &iota(b, self.out[a], wide)?, self.stride[a] as f64)?;
            let start = add_scalar(b, &start, -self.low[a] as f64)?;
            let stop = minimum_scalar(b, &add_scalar(b, &start, self.kernel[a] as f64)?, end as f64)?;
            let count = sub(b, &stop, &maximum_scalar(b, &start, begin as f64)?)?;
            let mut along: Dims = SmallVec::from_elem(1, self.axes() - a);
            along[0] = self.out[a];
            y = div(b, &y, &reshape_to(b, &count, &along)?)?;
        }
        if uniform == 1.0 { Ok(y) } else { mul_scalar(b, &y, 1.0 / uniform) }
    }
}

/// The largest element over the last axes `places` (which stay, with size 1) of those that are `inside`, and the
/// row-major number of the first place that holds it, in an integer dtype. NaN is larger than any number. Where
/// nothing is inside, -inf and the number of places. The element is picked by its place, so that the derivative goes
/// to one of several equal ones, the first, as in torch.
pub(super) fn first_largest<B: Builder>(
    b: &B,
    windows: &B::Value,
    inside: Option<&B::Value>,
    places: &[usize],
) -> Result<(B::Value, B::Value)> {
    let shape = shape_of(b, windows);
    let kernel: Dims = places.iter().map(|&axis| shape[axis]).collect();
    let count = numel(&kernel);
    let dtype = index_dtype(count);
    let most = fold(b, ReduceOp::Max, windows, places)?;
    let mut hit = logical_or(b, &eq(b, windows, &most)?, &isnan(b, windows)?)?;
    if let Some(inside) = inside {
        hit = logical_and(b, &hit, inside)?;
    }
    let number = reshape_to(b, &iota(b, count, dtype)?, &kernel)?;
    let none = scalar(b, count as i64, dtype)?;
    let first = fold(b, ReduceOp::Min, &where_(b, &hit, &number, &none)?, places)?;
    let zero = scalar(b, 0.0, b.ty(windows).dtype)?;
    let picked = where_(b, &eq(b, &number, &first)?, windows, &zero)?;
    let mut y = fold(b, ReduceOp::Sum, &picked, places)?;
    if inside.is_some() {
        let empty = scalar(b, f64::NEG_INFINITY, b.ty(windows).dtype)?;
        y = where_(b, &eq_scalar(b, &first, count as i64)?, &empty, &y)?;
    }
    Ok((y, first))
}

/// An integer dtype that holds numbers up to `most`.
fn index_dtype(most: usize) -> DType {
    if most <= i32::MAX as usize { DType::I32 } else { DType::I64 }
}

macro_rules! max_pools {
    ($($(#[$doc:meta])* $name:ident => $axes:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<B: Builder>(
            b: &B,
            x: &B::Value,
            kernel: &[usize],
            stride: &[usize],
            padding: &[usize],
            dilation: &[usize],
            ceil_mode: bool,
        ) -> Result<B::Value> {
            let shape = shape_of(b, x);
            let op = stringify!($name);
            let pooling = Pooling::new(op, $axes, &shape, kernel, stride, padding, dilation, ceil_mode)?;
            Ok(pooling.largest(b, x)?.0)
        }
    )*};
}

max_pools! {
    /// The largest element of each window of `x [n, c, l]` (or `[c, l]`), `[n, c, out]`; padding is -inf, of at most
    /// half the window. `out = (l + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded up with `ceil_mode`.
    /// NaN is larger than any number; of equal elements the first gets the derivative (torch `max_pool1d`).
    ///
    /// Errors: windows that do not fit.
    max_pool1d => 1;
    /// [`max_pool1d`] over the last two axes, `x [n, c, h, w]` (torch `max_pool2d`).
    max_pool2d => 2;
    /// [`max_pool1d`] over the last three axes, `x [n, c, d, h, w]` (torch `max_pool3d`).
    max_pool3d => 3;
}

macro_rules! max_pools_with_indices {
    ($($(#[$doc:meta])* $name:ident => $axes:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<B: Builder>(
            b: &B,
            x: &B::Value,
            kernel: &[usize],
            stride: &[usize],
            padding: &[usize],
            dilation: &[usize],
            ceil_mode: bool,
        ) -> Result<Vec<B::Value>> {
            let shape = shape_of(b, x);
            let op = stringify!($name);
            let pooling = Pooling::new(op, $axes, &shape, kernel, stride, padding, dilation, ceil_mode)?;
            let (y, place) = pooling.largest(b, x)?;
            Ok(vec![y, pooling.flat_places(b, &place)?])
        }
    )*};
}

max_pools_with_indices! {
    /// [`max_pool1d`] and where each element was found: its i64 place along the spatial axis.
    max_pool1d_with_indices => 1;
    /// [`max_pool2d`] and where each element was found: its i64 place in the row-major image.
    max_pool2d_with_indices => 2;
    /// [`max_pool3d`] and where each element was found: its i64 place in the row-major volume.
    max_pool3d_with_indices => 3;
}

macro_rules! avg_pools {
    ($($(#[$doc:meta])* $name:ident => $axes:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<B: Builder>(
            b: &B,
            x: &B::Value,
            kernel: &[usize],
            stride: &[usize],
            padding: &[usize],
            ceil_mode: bool,
            count_include_pad: bool,
            divisor: Option<isize>,
        ) -> Result<B::Value> {
            let shape = shape_of(b, x);
            let op = stringify!($name);
            let pooling = Pooling::new(op, $axes, &shape, kernel, stride, padding, &[], ceil_mode)?;
            let y = match divisor {
                None => pooling.means(b, x, count_include_pad)?,
                Some(0) => return Err(Error::shape(op, "the divisor is 0")),
                Some(divisor) => mul_scalar(b, &pooling.sums(b, x)?, 1.0 / divisor as f64)?,
            };
            cast(b, &y, b.ty(x).dtype)
        }
    )*};
}

avg_pools! {
    /// The mean of each window of `x [n, c, l]` (or `[c, l]`), `[n, c, out]`; sizes as in [`max_pool1d`]. Padding
    /// counts as zeros, or not at all without `count_include_pad`; `divisor` takes the place of the number of
    /// elements. Half types compute in f32 (torch `avg_pool1d`).
    ///
    /// Errors: windows that do not fit.
    avg_pool1d => 1;
    /// [`avg_pool1d`] over the last two axes, `x [n, c, h, w]` (torch `avg_pool2d`).
    avg_pool2d => 2;
    /// [`avg_pool1d`] over the last three axes, `x [n, c, d, h, w]` (torch `avg_pool3d`).
    avg_pool3d => 3;
}

macro_rules! lp_pools {
    ($($(#[$doc:meta])* $name:ident => $axes:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name<B: Builder>(
            b: &B,
            x: &B::Value,
            p: f64,
            kernel: &[usize],
            stride: &[usize],
            ceil_mode: bool,
        ) -> Result<B::Value> {
            let shape = shape_of(b, x);
            let op = stringify!($name);
            let pooling = Pooling::new(op, $axes, &shape, kernel, stride, &[], &[], ceil_mode)?;
            if p == 0.0 || !p.is_finite() {
                return Err(Error::shape(op, format!("p is {p}, expected a finite number other than 0")));
            }
            crate::prim::expect_float(op, "x", b.ty(x))?;
            let dtype = b.ty(x).dtype;
            let powers = pow_scalar(b, &cast(b, x, dtype.wide())?, p)?;
            let mean = pooling.means(b, &powers, true)?;
            let total = mul_scalar(b, &mean, numel(&pooling.kernel) as f64)?;
            // The root has no derivative at 0; the window of zeros gets 0.
            let is_zero = eq_scalar(b, &total, 0.0)?;
            let safe = where_(b, &is_zero, &scalar(b, 1.0, dtype.wide())?, &total)?;
            let root = pow_scalar(b, &safe, 1.0 / p)?;
            cast(b, &where_(b, &is_zero, &total, &root)?, dtype)
        }
    )*};
}

lp_pools! {
    /// `(sum x^p)^(1/p)` of each window of `x [n, c, l]` (or `[c, l]`), `[n, c, out]`; a window that `ceil_mode` cuts
    /// short counts as if its mean went on. An odd `p` of negative sums gives NaN (torch `lp_pool1d`).
    lp_pool1d => 1;
    /// [`lp_pool1d`] over the last two axes, `x [n, c, h, w]` (torch `lp_pool2d`).
    lp_pool2d => 2;
    /// [`lp_pool1d`] over the last three axes, `x [n, c, d, h, w]` (torch `lp_pool3d`).
    lp_pool3d => 3;
}
