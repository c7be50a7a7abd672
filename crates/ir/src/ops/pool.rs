//! Pooling: the largest element or the mean of sliding windows over the last axes.
//!
//! Lists take one number for all spatial axes, one for each, or none for the default; an absent stride is the kernel.

use smallvec::SmallVec;

use super::window::{each_axis, expect_positive, windows_of};
use super::{
    add, add_scalar, cast, div, div_scalar, eq, eq_scalar, fold, full, index_select, iota, isnan,
    logical_and, logical_or, lt, maximum_scalar, minimum_scalar, mul_scalar, pad, pad_or_cut, permute_to,
    pow_scalar, rem_scalar, reshape_to, scalar, shape_of, sub, unsqueeze, where_,
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
fn first_largest<B: Builder>(
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
    /// as in [`adaptive_avg_pool1d`], equal elements and NaN as in [`max_pool1d`] (torch `adaptive_max_pool1d`).
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
