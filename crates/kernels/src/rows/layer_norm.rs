//! Layer normalisation over rows (Ba, Kiros and Hinton 2016) and its backward.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::element::Element;
use super::operands::{Cpu, Rows, RowsMut, Scratch, Shared};
use super::partials::{Chunks, add_up, clear};
use super::pass::{Span, UNROLL, for_each_vector, total};
use super::wide::{Vector, Wide};
use crate::simd::{Simd, SimdOp};

/// `y = (x - mean) * rstd * weight + bias` with `rstd = 1 / sqrt(variance + eps)`, biased variance, in two
/// passes over a row that is in cache. `weight` and `bias` are `[width]`, `mean` and `rstd` `[rows]`.
pub fn layer_norm<E: Element>(
    cpu: Cpu,
    x: Rows<'_, E>,
    weight: &[E],
    bias: &[E],
    eps: f64,
    y: RowsMut<'_, E>,
    mean: &mut [E::Wide],
    rstd: &mut [E::Wide],
) {
    let [rows, width] = x.shape();
    assert_eq!(y.shape(), [rows, width], "layer_norm: x and y");
    assert_eq!([weight.len(), bias.len()], [width; 2], "layer_norm: weight and bias");
    assert_eq!([mean.len(), rstd.len()], [rows; 2], "layer_norm: mean and rstd");
    let (mean, rstd) = (Shared::new(mean), Shared::new(rstd));
    let eps = E::Wide::from_f64(eps);
    cpu.run_rows(rows, width, |rows| LayerNorm { x, weight, bias, eps, y: &y, mean, rstd, rows });
}

struct LayerNorm<'a, E: Element> {
    x: Rows<'a, E>,
    weight: &'a [E],
    bias: &'a [E],
    eps: E::Wide,
    y: &'a RowsMut<'a, E>,
    mean: Shared<'a, E::Wide>,
    rstd: Shared<'a, E::Wide>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for LayerNorm<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.x.width();
        let count = E::Wide::from_f64(width as f64);
        let (weight, bias) = (self.weight.as_ptr(), self.bias.as_ptr());
        for row in self.rows {
            let (x, y) = (self.x.row(row), self.y.row(row));
            // SAFETY: rows, weight and bias hold `width` elements and every span lies inside; an element is
            // read before it is written; the statistics of a row belong to its task.
            unsafe {
                let mut sums = [Vector::<E::Wide, S>::zero(); UNROLL];
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    sums[k] = sums[k] + span.load::<E, S>(x.add(at));
                });
                let mean = total(sums) / count;
                self.mean.at(row).write(mean);

                let mean = Vector::splat(mean);
                let mut squares = [Vector::<E::Wide, S>::zero(); UNROLL];
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let centred = span.keep(span.load::<E, S>(x.add(at)) - mean, E::Wide::ZERO);
                    squares[k] = centred.mul_add(centred, squares[k]);
                });
                let rstd = E::Wide::ONE / (total(squares) / count + self.eps).sqrt();
                self.rstd.at(row).write(rstd);

                let rstd = Vector::splat(rstd);
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let normal = (span.load::<E, S>(x.add(at)) - mean) * rstd;
                    let (w, b) = (span.load::<E, S>(weight.add(at)), span.load::<E, S>(bias.add(at)));
                    span.store(y.add(at), normal.mul_add(w, b));
                });
            }
        }
    }
}

/// Bytes of scratch of [`layer_norm_grad`].
pub fn layer_norm_grad_scratch_bytes<E: Element>(rows: usize, width: usize) -> usize {
    Scratch::bytes_of::<E::Wide>(Chunks::new(rows, width).count() * 2 * width)
}

/// With `normal = (x - mean) * rstd` and `g = dy * weight`:
/// `dx = rstd * (g - mean(g) - normal * mean(g * normal))`, `dweight = sum(dy * normal)` and `dbias = sum(dy)` over
/// rows.
pub fn layer_norm_grad<E: Element>(
    cpu: Cpu,
    x: Rows<'_, E>,
    weight: &[E],
    mean: &[E::Wide],
    rstd: &[E::Wide],
    dy: Rows<'_, E>,
    dx: RowsMut<'_, E>,
    dweight: &mut [E],
    dbias: &mut [E],
    mut scratch: Scratch<'_>,
) {
    let [rows, width] = x.shape();
    assert_eq!([dy.shape(), dx.shape()], [[rows, width]; 2], "layer_norm_grad: x, dy and dx");
    assert_eq!([weight.len(), dweight.len(), dbias.len()], [width; 3], "layer_norm_grad: weight and its kin");
    assert_eq!([mean.len(), rstd.len()], [rows; 2], "layer_norm_grad: mean and rstd");
    let chunks = Chunks::new(rows, width);
    let partials = Shared::new(scratch.take::<E::Wide>(chunks.count() * 2 * width));
    cpu.run(chunks.count(), |chunk, _| {
        let partials = partials.at(chunk * 2 * width);
        LayerNormGrad { x, weight, mean, rstd, dy, dx: &dx, partials, rows: chunks.range(chunk) }
    });
    add_up(cpu, chunks.count(), partials, 0, 2 * width, dweight);
    add_up(cpu, chunks.count(), partials, width, 2 * width, dbias);
}

struct LayerNormGrad<'a, E: Element> {
    x: Rows<'a, E>,
    weight: &'a [E],
    mean: &'a [E::Wide],
    rstd: &'a [E::Wide],
    dy: Rows<'a, E>,
    dx: &'a RowsMut<'a, E>,
    /// `[2, width]`: this chunk's sums for weight and bias.
    partials: *mut MaybeUninit<E::Wide>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for LayerNormGrad<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        let width = self.x.width();
        let count = E::Wide::from_f64(width as f64);
        let weight = self.weight.as_ptr();
        let dweight = self.partials.cast::<E::Wide>();
        let dbias = dweight.wrapping_add(width);
        // SAFETY: the partial sums of a chunk, `2 * width` values, belong to its task.
        unsafe { clear(dweight, 2 * width) };
        for row in self.rows {
            let (x, dy, dx) = (self.x.row(row), self.dy.row(row), self.dx.row(row));
            let (mean, rstd) = (V::<E, S>::splat(self.mean[row]), V::<E, S>::splat(self.rstd[row]));
            let (mut sums, mut products) = ([V::<E, S>::zero(); UNROLL], [V::<E, S>::zero(); UNROLL]);
            // SAFETY: rows, weight and partial sums hold `width` elements and every span lies inside; an
            // element is read before it is written.
            unsafe {
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let normal = (span.load::<E, S>(x.add(at)) - mean) * rstd;
                    let dy = span.load::<E, S>(dy.add(at));
                    let g = dy * span.load::<E, S>(weight.add(at));
                    sums[k] = sums[k] + g;
                    products[k] = g.mul_add(normal, products[k]);
                    let (dweight, dbias) = (dweight.add(at), dbias.add(at));
                    let sum = span.load::<E::Wide, S>(dweight);
                    span.store::<E::Wide, S>(dweight, dy.mul_add(normal, sum));
                    let sum = span.load::<E::Wide, S>(dbias);
                    span.store::<E::Wide, S>(dbias, dy + sum);
                });
                let sum = V::<E, S>::splat(total(sums) / count);
                let product = V::<E, S>::splat(-(total(products) / count));
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let normal = (span.load::<E, S>(x.add(at)) - mean) * rstd;
                    let g = span.load::<E, S>(dy.add(at)) * span.load::<E, S>(weight.add(at));
                    span.store(dx.add(at), normal.mul_add(product, g - sum) * rstd);
                });
            }
        }
    }
}
