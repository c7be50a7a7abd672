//! Softmax and log-softmax over rows, and their backwards.
//!
//! The row is shifted by its largest value, so no finite input overflows. A row of -inf gives NaN, as upstream:
//! it has no distribution.

use std::ops::Range;

use super::element::Element;
use super::operands::{Cpu, Rows, RowsMut};
use super::pass::{Span, UNROLL, for_each_vector, largest, sum_of_exp, total};
use super::wide::{Vector, Wide};
use crate::simd::{Simd, SimdOp};

/// `y = exp(x - max) / sum(exp(x - max))`.
pub fn softmax<E: Element>(cpu: Cpu, x: Rows<'_, E>, y: RowsMut<'_, E>) {
    assert_eq!(x.shape(), y.shape(), "softmax: x and y");
    cpu.run_rows(x.rows(), x.width(), |rows| Softmax { x, y: &y, rows });
}

/// `y = x - max - log(sum(exp(x - max)))`.
pub fn log_softmax<E: Element>(cpu: Cpu, x: Rows<'_, E>, y: RowsMut<'_, E>) {
    assert_eq!(x.shape(), y.shape(), "log_softmax: x and y");
    cpu.run_rows(x.rows(), x.width(), |rows| LogSoftmax { x, y: &y, rows });
}

/// `dx = y * (dy - sum(dy * y))`.
pub fn softmax_grad<E: Element>(cpu: Cpu, y: Rows<'_, E>, dy: Rows<'_, E>, dx: RowsMut<'_, E>) {
    assert_eq!(y.shape(), dy.shape(), "softmax_grad: y and dy");
    assert_eq!(y.shape(), dx.shape(), "softmax_grad: y and dx");
    cpu.run_rows(y.rows(), y.width(), |rows| SoftmaxGrad { y, dy, dx: &dx, rows });
}

/// `dx = dy - exp(y) * sum(dy)`.
pub fn log_softmax_grad<E: Element>(cpu: Cpu, y: Rows<'_, E>, dy: Rows<'_, E>, dx: RowsMut<'_, E>) {
    assert_eq!(y.shape(), dy.shape(), "log_softmax_grad: y and dy");
    assert_eq!(y.shape(), dx.shape(), "log_softmax_grad: y and dx");
    cpu.run_rows(y.rows(), y.width(), |rows| LogSoftmaxGrad { y, dy, dx: &dx, rows });
}

struct Softmax<'a, E> {
    x: Rows<'a, E>,
    y: &'a RowsMut<'a, E>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for Softmax<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.x.width();
        for row in self.rows {
            let (x, y) = (self.x.row(row), self.y.row(row));
            // SAFETY: both rows hold `width` elements and every span lies inside; an element is read before it is written.
            unsafe {
                let shift = largest::<E, S>(x, width);
                // A half type would round the exponentials, so they are computed twice instead.
                if E::IS_WIDE {
                    let sum = store_exp::<E, S>(x, y, width, shift);
                    let factor = Vector::<E::Wide, S>::splat(E::Wide::ONE / sum);
                    for_each_vector!(E::Wide, S, width, |at, k, span| {
                        span.store(y.add(at), span.load::<E, S>(y.add(at)) * factor);
                    });
                } else {
                    let sum = sum_of_exp::<E, S>(x, width, shift);
                    let factor = Vector::<E::Wide, S>::splat(E::Wide::ONE / sum);
                    let shift = Vector::splat(shift);
                    for_each_vector!(E::Wide, S, width, |at, k, span| {
                        let x = span.load::<E, S>(x.add(at));
                        span.store(y.add(at), (x - shift).exp_to_zero() * factor);
                    });
                }
            }
        }
    }
}

/// `y = exp(x - shift)`; returns the sum.
///
/// # Safety
/// `width` elements at `x` are readable, at `y` writable.
#[inline(always)]
unsafe fn store_exp<E: Element, S: Simd>(x: *const E, y: *mut E, width: usize, shift: E::Wide) -> E::Wide {
    let shift = Vector::<E::Wide, S>::splat(shift);
    let mut sums = [Vector::<E::Wide, S>::zero(); UNROLL];
    for_each_vector!(E::Wide, S, width, |at, k, span| {
        // SAFETY: the span lies inside the rows.
        unsafe {
            let e = (span.load::<E, S>(x.add(at)) - shift).exp_to_zero();
            span.store(y.add(at), e);
            sums[k] = sums[k] + span.keep(e, E::Wide::ZERO);
        }
    });
    total(sums)
}

struct LogSoftmax<'a, E> {
    x: Rows<'a, E>,
    y: &'a RowsMut<'a, E>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for LogSoftmax<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.x.width();
        for row in self.rows {
            let (x, y) = (self.x.row(row), self.y.row(row));
            // SAFETY: both rows hold `width` elements and every span lies inside; an element is read before it is written.
            unsafe {
                let shift = largest::<E, S>(x, width);
                let log_sum = Vector::<E::Wide, S>::splat(sum_of_exp::<E, S>(x, width, shift).ln());
                let shift = Vector::splat(shift);
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    // In this order: the difference is exact near the largest value.
                    span.store(y.add(at), span.load::<E, S>(x.add(at)) - shift - log_sum);
                });
            }
        }
    }
}

struct SoftmaxGrad<'a, E> {
    y: Rows<'a, E>,
    dy: Rows<'a, E>,
    dx: &'a RowsMut<'a, E>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for SoftmaxGrad<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.y.width();
        for row in self.rows {
            let (y, dy, dx) = (self.y.row(row), self.dy.row(row), self.dx.row(row));
            let mut sums = [Vector::<E::Wide, S>::zero(); UNROLL];
            // SAFETY: the rows hold `width` elements and every span lies inside; an element is read before it is written.
            unsafe {
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let (y, dy) = (span.load::<E, S>(y.add(at)), span.load::<E, S>(dy.add(at)));
                    sums[k] = y.mul_add(dy, sums[k]);
                });
                let sum = Vector::<E::Wide, S>::splat(total(sums));
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let (y, dy) = (span.load::<E, S>(y.add(at)), span.load::<E, S>(dy.add(at)));
                    span.store(dx.add(at), y * (dy - sum));
                });
            }
        }
    }
}

struct LogSoftmaxGrad<'a, E> {
    y: Rows<'a, E>,
    dy: Rows<'a, E>,
    dx: &'a RowsMut<'a, E>,
    rows: Range<usize>,
}

impl<E: Element> SimdOp for LogSoftmaxGrad<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.y.width();
        for row in self.rows {
            let (y, dy, dx) = (self.y.row(row), self.dy.row(row), self.dx.row(row));
            let mut sums = [Vector::<E::Wide, S>::zero(); UNROLL];
            // SAFETY: the rows hold `width` elements and every span lies inside; an element is read before it is written.
            unsafe {
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    sums[k] = sums[k] + span.load::<E, S>(dy.add(at));
                });
                let negative = Vector::<E::Wide, S>::splat(-total(sums));
                for_each_vector!(E::Wide, S, width, |at, k, span| {
                    let (y, dy) = (span.load::<E, S>(y.add(at)), span.load::<E, S>(dy.add(at)));
                    span.store(dx.add(at), y.exp().mul_add(negative, dy));
                });
            }
        }
    }
}
