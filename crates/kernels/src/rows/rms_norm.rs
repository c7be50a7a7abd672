//! Root-mean-square normalisation over rows (Zhang and Sennrich 2019) and its backward.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::element::Element;
use super::operands::{Cpu, Rows, RowsMut, Scratch, Shared};
use super::partials::{Chunks, add_up, clear};
use super::pass::{Span, UNROLL, for_each_vector, total};
use super::wide::{Vector, Wide};
use crate::simd::{Simd, SimdOp};

/// `y = x * rstd * weight` with `rstd = 1 / sqrt(mean(x^2) + eps)`. `weight` is `[width]`, `rstd` `[rows]`.
pub fn rms_norm<E: Element>(
    cpu: Cpu,
    x: Rows<'_, E>,
    weight: &[E],
    eps: f64,
    y: RowsMut<'_, E>,
    rstd: &mut [E::Wide],
) {
    let [rows, width] = x.shape();
    assert_eq!(y.shape(), [rows, width], "rms_norm: x and y");
    assert_eq!([weight.len(), rstd.len()], [width, rows], "rms_norm: weight and rstd");
    let rstd = Shared::new(rstd);
    let eps = E::Wide::from_f64(eps);
    cpu.run_rows(rows, width, |rows| RmsNorm { x, weight, eps, y: &y, rstd, rows });
}

struct RmsNorm<'a, E: Element> {
    x: Rows<'a, E>,
    weight: &'a [E],
    eps: E::Wide,
    y: &'a RowsMut<'a, E>,
    rstd: Shared<'a, E::Wide>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for RmsNorm<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.x.width();
        let count = E::Wide::from_f64(width as f64);
        let weight = self.weight.as_ptr();
        for row in self.rows {
            let (x, y) = (self.x.row(row), self.y.row(row));
            // SAFETY: rows and weight hold `width` elements and every span lies inside; an element is read
            // before it is written; the statistic of a row belongs to its task.
            unsafe {
                let mut squares = [Vector::<E::Wide, S>::zero(); UNROLL];
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let x = span.load::<E, S>(x.add(at));
                    squares[k] = x.mul_add(x, squares[k]);
                });
                let rstd = E::Wide::ONE / (total(squares) / count + self.eps).sqrt();
                self.rstd.at(row).write(rstd);

                let rstd = Vector::splat(rstd);
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let (x, w) = (span.load::<E, S>(x.add(at)), span.load::<E, S>(weight.add(at)));
                    span.store(y.add(at), x * rstd * w);
                });
            }
        }
    }
}

/// Bytes of scratch of [`rms_norm_grad`].
pub fn rms_norm_grad_scratch_bytes<E: Element>(rows: usize, width: usize) -> usize {
    Scratch::bytes_of::<E::Wide>(Chunks::new(rows, width).count() * width)
}

/// With `normal = x * rstd` and `g = dy * weight`: `dx = rstd * (g - normal * mean(g * normal))` and
/// `dweight = sum(dy * normal)` over rows.
pub fn rms_norm_grad<E: Element>(
    cpu: Cpu,
    x: Rows<'_, E>,
    weight: &[E],
    rstd: &[E::Wide],
    dy: Rows<'_, E>,
    dx: RowsMut<'_, E>,
    dweight: &mut [E],
    mut scratch: Scratch<'_>,
) {
    let [rows, width] = x.shape();
    assert_eq!([dy.shape(), dx.shape()], [[rows, width]; 2], "rms_norm_grad: x, dy and dx");
    assert_eq!([weight.len(), dweight.len()], [width; 2], "rms_norm_grad: weight and dweight");
    assert_eq!(rstd.len(), rows, "rms_norm_grad: rstd");
    let chunks = Chunks::new(rows, width);
    let partials = Shared::new(scratch.take::<E::Wide>(chunks.count() * width));
    cpu.run(chunks.count(), |chunk, _| {
        let partials = partials.at(chunk * width);
        RmsNormGrad { x, weight, rstd, dy, dx: &dx, partials, rows: chunks.range(chunk) }
    });
    add_up(cpu, chunks.count(), partials, 0, width, dweight);
}

struct RmsNormGrad<'a, E: Element> {
    x: Rows<'a, E>,
    weight: &'a [E],
    rstd: &'a [E::Wide],
    dy: Rows<'a, E>,
    dx: &'a RowsMut<'a, E>,
    /// `[width]`: this chunk's sums.
    partials: *mut MaybeUninit<E::Wide>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for RmsNormGrad<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        let width = self.x.width();
        let count = E::Wide::from_f64(width as f64);
        let weight = self.weight.as_ptr();
        let dweight = self.partials.cast::<E::Wide>();
        // SAFETY: the partial sums of a chunk, `width` values, belong to its task.
        unsafe { clear(dweight, width) };
        for row in self.rows {
            let (x, dy, dx) = (self.x.row(row), self.dy.row(row), self.dx.row(row));
            let rstd = V::<E, S>::splat(self.rstd[row]);
            let mut products = [V::<E, S>::zero(); UNROLL];
            // SAFETY: rows, weight and partial sums hold `width` elements and every span lies inside; an
            // element is read before it is written.
            unsafe {
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let dy_normal = span.load::<E, S>(dy.add(at)) * (span.load::<E, S>(x.add(at)) * rstd);
                    products[k] = dy_normal.mul_add(span.load::<E, S>(weight.add(at)), products[k]);
                    let sum = span.load::<E::Wide, S>(dweight.add(at));
                    span.store::<E::Wide, S>(dweight.add(at), sum + dy_normal);
                });
                let product = V::<E, S>::splat(-(total(products) / count));
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let normal = span.load::<E, S>(x.add(at)) * rstd;
                    let g = span.load::<E, S>(dy.add(at)) * span.load::<E, S>(weight.add(at));
                    span.store(dx.add(at), normal.mul_add(product, g) * rstd);
                });
            }
        }
    }
}
