//! Embedding: rows of a table by id, and its backward, a sum of gradient rows by id.

use std::mem::MaybeUninit;
use std::ops::Range;

use lanthorn_error::{Error, ErrorKind, Result};

use super::element::Element;
use super::indices::Indices;
use super::operands::{Cpu, ELEMENTS_PER_TASK, Rows, RowsMut, Scratch};
use super::pass::{Span, UNROLL, for_each_vector};
use super::wide::{Vector, Wide};
use crate::simd::{Simd, SimdOp};

/// `out[i] = table[ids[i]]`, by bytes: widths and strides are in bytes, so any dtype will do.
///
/// # Errors
/// An id out of range; nothing is written then.
pub fn embedding(cpu: Cpu, table: Rows<'_, u8>, ids: Indices<'_>, out: RowsMut<'_, u8>) -> Result<()> {
    let (count, bytes) = (ids.len(), table.width());
    assert_eq!(out.shape(), [count, bytes], "embedding: the result");
    ids.check("embedding", "id", table.rows(), None)?;
    let per_task = (ELEMENTS_PER_TASK / bytes.max(1)).max(1);
    cpu.run_plain(count.div_ceil(per_task), |task, _| {
        for at in task * per_task..count.min((task + 1) * per_task) {
            let row = table.row(ids.value(at) as usize);
            // SAFETY: ids were checked, rows hold `bytes` bytes, and the result overlaps no input.
            unsafe { std::ptr::copy_nonoverlapping(row, out.row(at), bytes) };
        }
    });
    Ok(())
}

/// Bytes of scratch of [`embedding_grad`] for a table of `rows` rows and `count` ids.
pub fn embedding_grad_scratch_bytes(rows: usize, count: usize) -> usize {
    Scratch::bytes_of::<u32>(rows) + Scratch::bytes_of::<u32>(count)
}

/// `dtable[id] = sum of grad[i] over all i with ids[i] = id`, in the order of `i` and in the wide type; zeros where
/// an id does not occur.
///
/// Positions are sorted by id first, so that each row of the table is written once, by one task.
///
/// # Errors
/// An id out of range, or more ids than a `u32` can count; nothing is written then.
pub fn embedding_grad<E: Element>(
    cpu: Cpu,
    grad: Rows<'_, E>,
    ids: Indices<'_>,
    dtable: RowsMut<'_, E>,
    mut scratch: Scratch<'_>,
) -> Result<()> {
    let [rows, width] = dtable.shape();
    assert_eq!(grad.shape(), [ids.len(), width], "embedding_grad: the gradient");
    ids.check("embedding_grad", "id", rows, None)?;
    if u32::try_from(ids.len()).is_err() {
        let message = format!("{} ids, expected at most {}", ids.len(), u32::MAX);
        return Err(Error::new(ErrorKind::Execute, "embedding_grad", message));
    }
    let ends = fill_zero(scratch.take::<u32>(rows));
    let positions = fill_zero(scratch.take::<u32>(ids.len()));
    sort_by_id(ids, ends, positions);

    let columns_per_task = COLUMNS_PER_TASK.min(width.max(1));
    let rows_per_task = ELEMENTS_PER_TASK / columns_per_task;
    let column_tasks = width.div_ceil(columns_per_task);
    let (ends, positions) = (&*ends, &*positions);
    cpu.run(rows.div_ceil(rows_per_task) * column_tasks, |task, _| {
        let (row, column) = (task / column_tasks * rows_per_task, task % column_tasks * columns_per_task);
        EmbeddingGrad {
            grad,
            ends,
            positions,
            dtable: &dtable,
            rows: row..rows.min(row + rows_per_task),
            columns: column..width.min(column + columns_per_task),
        }
    });
    Ok(())
}

/// Columns are split too, so that a frequent id does not keep one thread busy while others wait.
const COLUMNS_PER_TASK: usize = 256;

fn fill_zero(memory: &mut [MaybeUninit<u32>]) -> &mut [u32] {
    for value in memory.iter_mut() {
        value.write(0);
    }
    // SAFETY: every value was just written.
    unsafe { &mut *(memory as *mut [MaybeUninit<u32>] as *mut [u32]) }
}

/// A counting sort: afterwards the positions of id `r` are `positions[ends[r - 1]..ends[r]]` (from 0 for the first),
/// ascending. Both are zero at first.
fn sort_by_id(ids: Indices<'_>, ends: &mut [u32], positions: &mut [u32]) {
    for at in 0..ids.len() {
        ends[ids.value(at) as usize] += 1;
    }
    let mut begin = 0;
    for end in ends.iter_mut() {
        (*end, begin) = (begin, begin + *end);
    }
    for at in 0..ids.len() {
        let end = &mut ends[ids.value(at) as usize];
        positions[*end as usize] = at as u32;
        *end += 1;
    }
}

struct EmbeddingGrad<'a, E> {
    grad: Rows<'a, E>,
    ends: &'a [u32],
    positions: &'a [u32],
    dtable: &'a RowsMut<'a, E>,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl<E: Element> SimdOp for EmbeddingGrad<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let lanes = E::Wide::lanes::<S>();
        let (column, width) = (self.columns.start, self.columns.len());
        for row in self.rows {
            let begin = if row == 0 { 0 } else { self.ends[row - 1] };
            let positions = &self.positions[begin as usize..self.ends[row] as usize];
            let target = self.dtable.row(row).wrapping_add(column);
            let mut at = 0;
            // SAFETY: positions are below the number of gradient rows, all rows hold the columns, and a row's
            // columns belong to one task.
            unsafe {
                while at + UNROLL * lanes <= width {
                    let mut sums = [Vector::<E::Wide, S>::zero(); UNROLL];
                    for position in positions {
                        let grad = self.grad.row(*position as usize).add(column + at);
                        for (k, sum) in sums.iter_mut().enumerate() {
                            *sum = *sum + E::load::<S>(grad.add(k * lanes));
                        }
                    }
                    for (k, sum) in sums.iter().enumerate() {
                        E::store::<S>(target.add(at + k * lanes), *sum);
                    }
                    at += UNROLL * lanes;
                }
                for_each_vector!(E::Wide, S, width - at, |offset, k, span| {
                    let mut sum = Vector::<E::Wide, S>::zero();
                    for position in positions {
                        let grad = self.grad.row(*position as usize).add(column + at + offset);
                        sum = sum + span.load::<E, S>(grad);
                    }
                    span.store(target.add(at + offset), sum);
                });
            }
        }
    }
}
