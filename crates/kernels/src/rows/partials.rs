//! Sums down the columns of a matrix, in chunks of rows that depend on the shape alone: each task adds up
//! the rows of one chunk, then the chunks' sums are added in order.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::element::Element;
use super::operands::{Cpu, ELEMENTS_PER_TASK, Shared};
use super::pass::{Span, for_each_vector};
use super::wide::{Vector, Wide};
use crate::simd::{Simd, SimdOp};

/// More would only cost memory: few machines have more threads.
const MOST_CHUNKS: usize = 64;

/// How the rows are cut.
#[derive(Clone, Copy)]
pub(super) struct Chunks {
    rows: usize,
    per_chunk: usize,
}

impl Chunks {
    pub(super) fn new(rows: usize, width: usize) -> Chunks {
        let least = (ELEMENTS_PER_TASK / width.max(1)).max(1);
        Chunks { rows, per_chunk: rows.div_ceil(MOST_CHUNKS).max(least) }
    }

    pub(super) fn count(self) -> usize {
        self.rows.div_ceil(self.per_chunk)
    }

    pub(super) fn range(self, chunk: usize) -> Range<usize> {
        chunk * self.per_chunk..self.rows.min((chunk + 1) * self.per_chunk)
    }
}

/// `out[column] = sum over chunks of partials[chunk * stride + first + column]`; `partials` is initialised as far
/// as it is read.
pub(super) fn add_up<E: Element>(
    cpu: Cpu,
    chunks: usize,
    partials: Shared<'_, MaybeUninit<E::Wide>>,
    first: usize,
    stride: usize,
    out: &mut [E],
) {
    let width = out.len();
    let out = Shared::new(out);
    let columns = (ELEMENTS_PER_TASK / chunks.max(1)).max(64);
    cpu.run(width.div_ceil(columns), |task, _| {
        let range = task * columns..width.min((task + 1) * columns);
        AddUp { chunks, partials, first, stride, out, columns: range }
    });
}

struct AddUp<'a, E: Element> {
    chunks: usize,
    partials: Shared<'a, MaybeUninit<E::Wide>>,
    first: usize,
    stride: usize,
    out: Shared<'a, E>,
    columns: Range<usize>,
}

impl<E: Element> SimdOp for AddUp<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for_each_vector!(E::Wide, S, self.columns.len(), |at, k, span| {
            let column = self.columns.start + at;
            let mut sum = Vector::<E::Wide, S>::zero();
            for chunk in 0..self.chunks {
                let partial = self.partials.at(chunk * self.stride + self.first + column).cast::<E::Wide>();
                // SAFETY: the caller initialised the partial sums of every chunk and column.
                sum = sum + unsafe { span.load::<E::Wide, S>(partial) };
            }
            // SAFETY: columns belong to one task and the span lies inside.
            unsafe { span.store::<E, S>(self.out.at(column), sum) };
        });
    }
}

/// Zeros for `width` partial sums.
///
/// # Safety
/// `width` values at `sums` are writable.
#[inline(always)]
pub(super) unsafe fn clear<W: Wide>(sums: *mut W, width: usize) {
    for at in 0..width {
        // SAFETY: the caller's promise.
        unsafe { sums.add(at).write(W::ZERO) };
    }
}
