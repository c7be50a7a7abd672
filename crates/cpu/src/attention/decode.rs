//! The forward pass for a few query rows per key head, as when tokens are generated one by one.
//!
//! Nothing is reused often enough to be worth packing: keys and values are read where they lie, once, with vectors along the
//! head dimension. A long cache is cut into ranges of keys, so that few heads still feed many threads;
//! each range leaves its maximum, sum and output, which are then merged (as in flash-decoding, Dao et al. 2023).

use std::mem::MaybeUninit;

use super::operands::{AttentionOptions, Geometry, Heads, HeadsMut};
use super::tile::{dim_vectors, load_vector, padded_dim, store_vector};
use crate::rows::element::Element;
use crate::rows::operands::{Cpu, Scratch, Shared};
use crate::rows::wide::{Vector, Wide};
use crate::simd::{MAX_LANES, Simd, SimdOp};

/// The most query rows of a key head that this path takes.
pub(super) const MOST_ROWS: usize = 8;
/// Keys whose scores are held at a time.
const TILE_KEYS: usize = 128;
/// Keys of a range.
const RANGE_KEYS: usize = 512;

/// Values of scratch for the partial results of `heads` key heads with room for so many keys.
fn partials_len(heads: usize, rows: usize, room: usize, head_dim: usize) -> usize {
    heads * room.div_ceil(RANGE_KEYS).max(1) * rows * partial_stride(head_dim)
}

/// A partial result: the output, then a maximum and a sum.
fn partial_stride(head_dim: usize) -> usize {
    padded_dim(head_dim) + MAX_LANES
}

/// Values of scratch per worker: queries and scores.
fn workspace_len(head_dim: usize) -> usize {
    MOST_ROWS * (padded_dim(head_dim) + TILE_KEYS)
}

pub(super) fn scratch_bytes<E: Element>(q: [usize; 4], k: [usize; 4], rows: usize, threads: usize) -> usize {
    Scratch::bytes_of::<E::Wide>(partials_len(k[0] * k[2], rows, k[1], q[3]))
        + Scratch::bytes_of::<E::Wide>(workspace_len(q[3])) * threads.max(1)
}

pub(super) fn decode<E: Element>(
    cpu: Cpu,
    geometry: Geometry,
    q: Heads<'_, E>,
    k: Heads<'_, E>,
    v: Heads<'_, E>,
    options: &AttentionOptions,
    o: HeadsMut<'_, E>,
    lse: Shared<'_, E::Wide>,
    mut scratch: Scratch<'_>,
) {
    let heads = geometry.batch * geometry.kv_heads;
    let rows = geometry.rows();
    let room = k.shape()[1];
    let ranges = geometry.keys.div_ceil(RANGE_KEYS).max(1);
    let stride = partial_stride(geometry.head_dim);
    let partials = Shared::new(scratch.take::<E::Wide>(partials_len(heads, rows, room, geometry.head_dim)));
    let length = workspace_len(geometry.head_dim);
    let (workers, workspaces) = scratch.per_worker::<E::Wide>(cpu, length);
    workers.run(heads * ranges, |task, worker| {
        let queries = workspaces.at(worker * length).cast::<E::Wide>();
        let (head, range) = (task % heads, task / heads);
        Range {
            geometry,
            factor: E::Wide::from_f64(options.scale * std::f64::consts::LOG2_E),
            q,
            k,
            v,
            queries,
            scores: queries.wrapping_add(MOST_ROWS * padded_dim(geometry.head_dim)),
            partials: partials.at((head * ranges + range) * rows * stride).cast(),
            batch: head / geometry.kv_heads,
            kv_head: head % geometry.kv_heads,
            first_key: range * RANGE_KEYS,
            end_key: geometry.keys.min((range + 1) * RANGE_KEYS),
        }
    });
    cpu.run(heads, |head, _| Merge { geometry, ranges, partials, o: &o, lse, head });
}

/// One range of keys for the rows of one key head.
struct Range<'a, E: Element> {
    geometry: Geometry,
    factor: E::Wide,
    q: Heads<'a, E>,
    k: Heads<'a, E>,
    v: Heads<'a, E>,
    /// `[rows, padded_dim]`
    queries: *mut E::Wide,
    /// `[rows, TILE_KEYS]`
    scores: *mut E::Wide,
    /// `[rows, partial_stride]`
    partials: *mut E::Wide,
    batch: usize,
    kv_head: usize,
    first_key: usize,
    end_key: usize,
}

impl<E: Element> SimdOp for Range<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let rows = self.geometry.rows();
        // SAFETY: workspace and partial results belong to this task and hold at most MOST_ROWS rows; keys are
        // valid.
        unsafe {
            self.begin::<S>(rows);
            let mut key = self.first_key;
            while key < self.end_key {
                let keys = TILE_KEYS.min(self.end_key - key);
                let mut row = 0;
                while row + 4 <= rows {
                    self.score::<S, 4>(row, key, keys);
                    row += 4;
                }
                while row < rows {
                    self.score::<S, 1>(row, key, keys);
                    row += 1;
                }
                for row in 0..rows {
                    self.probabilities::<S>(row, keys);
                }
                row = 0;
                while row + 4 <= rows {
                    self.add_values::<S, 4>(row, key, keys);
                    row += 4;
                }
                while row < rows {
                    self.add_values::<S, 1>(row, key, keys);
                    row += 1;
                }
                key += keys;
            }
        }
    }
}

impl<E: Element> Range<'_, E> {
    /// The partial result of a row: output, and the address of maximum and sum.
    #[inline(always)]
    fn partial(&self, row: usize) -> (*mut E::Wide, *mut E::Wide) {
        let output = self.partials.wrapping_add(row * partial_stride(self.geometry.head_dim));
        (output, output.wrapping_add(padded_dim(self.geometry.head_dim)))
    }

    /// Packs the queries, scaled so that scores are in base 2, and starts the partial results.
    #[inline(always)]
    unsafe fn begin<S: Simd>(&self, rows: usize) {
        let width = self.geometry.head_dim;
        let factor = Vector::<E::Wide, S>::splat(self.factor);
        for row in 0..rows {
            let place = self.geometry.place(self.kv_head, row);
            let source = self.q.at(self.batch, place.query, place.head);
            let target = self.queries.wrapping_add(row * padded_dim(width));
            let (output, statistics) = self.partial(row);
            // SAFETY: the row holds `width` elements; workspace and partial results hold it padded.
            unsafe {
                for at in 0..dim_vectors::<E::Wide, S>(width) {
                    let offset = at * E::Wide::lanes::<S>();
                    (load_vector::<E, S>(source, width, at) * factor).store(target.add(offset));
                    Vector::<E::Wide, S>::zero().store(output.add(offset));
                }
                statistics.write(E::Wide::NEG_INFINITY);
                statistics.add(1).write(E::Wide::ZERO);
            }
        }
    }

    /// The scores of `ROWS` rows, -inf where hidden and up to a whole vector.
    #[inline(always)]
    unsafe fn score<S: Simd, const ROWS: usize>(&self, row: usize, key: usize, keys: usize) {
        let (lanes, width) = (E::Wide::lanes::<S>(), self.geometry.head_dim);
        let padded = padded_dim(width);
        let queries = self.queries.wrapping_add(row * padded);
        let scores = self.scores.wrapping_add(row * TILE_KEYS);
        // SAFETY: keys are valid; the workspace holds the rows.
        unsafe {
            for at in 0..keys {
                let k = self.k.at(self.batch, key + at, self.kv_head);
                let mut sums = [Vector::<E::Wide, S>::zero(); ROWS];
                for vector in 0..dim_vectors::<E::Wide, S>(width) {
                    let k = load_vector::<E, S>(k, width, vector);
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let q = Vector::load(queries.add(r * padded + vector * lanes));
                        *sum = k.mul_add(q, *sum);
                    }
                }
                for (r, sum) in sums.iter().enumerate() {
                    scores.add(r * TILE_KEYS + at).write(sum.sum());
                }
            }
            for r in 0..ROWS {
                let visible = self.geometry.visible(row + r).saturating_sub(key).min(keys);
                for at in visible..keys.next_multiple_of(lanes) {
                    scores.add(r * TILE_KEYS + at).write(E::Wide::NEG_INFINITY);
                }
            }
        }
    }

    /// Turns the scores of a row into probabilities relative to the running maximum, and rescales what was summed.
    #[inline(always)]
    unsafe fn probabilities<S: Simd>(&self, row: usize, keys: usize) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        let lanes = E::Wide::lanes::<S>();
        let scores = self.scores.wrapping_add(row * TILE_KEYS);
        let (output, statistics) = self.partial(row);
        // SAFETY: the row's scores are filled to whole vectors.
        unsafe {
            let old = *statistics;
            let mut largest = V::<E, S>::splat(old);
            for at in (0..keys).step_by(lanes) {
                largest = largest.max_fast(V::<E, S>::load(scores.add(at)));
            }
            let largest = largest.largest();
            let shift = if largest == E::Wide::NEG_INFINITY { E::Wide::ZERO } else { largest };
            let shift = V::<E, S>::splat(shift);
            let mut sum = V::<E, S>::zero();
            for at in (0..keys).step_by(lanes) {
                let p = (V::<E, S>::load(scores.add(at)) - shift).exp2();
                p.store(scores.add(at));
                sum = sum + p;
            }
            let shrink = (V::<E, S>::splat(old) - shift).exp2();
            let total = V::<E, S>::splat(*statistics.add(1)) * shrink;
            // One lane of equal ones.
            statistics.add(1).write(total.largest() + sum.sum());
            statistics.write(largest);
            for at in 0..dim_vectors::<E::Wide, S>(self.geometry.head_dim) {
                let output = output.add(at * lanes);
                (V::<E, S>::load(output) * shrink).store(output);
            }
        }
    }

    /// Adds the values of a tile, weighted, to the outputs of `ROWS` rows.
    #[inline(always)]
    unsafe fn add_values<S: Simd, const ROWS: usize>(&self, row: usize, key: usize, keys: usize) {
        let vectors = dim_vectors::<E::Wide, S>(self.geometry.head_dim);
        let mut at = 0;
        // SAFETY: as the parts'.
        unsafe {
            while at + 2 <= vectors {
                self.add_vectors::<S, ROWS, 2>(row, key, keys, at);
                at += 2;
            }
            if at < vectors {
                self.add_vectors::<S, ROWS, 1>(row, key, keys, at);
            }
        }
    }

    #[inline(always)]
    unsafe fn add_vectors<S: Simd, const ROWS: usize, const WIDTH: usize>(
        &self,
        row: usize,
        key: usize,
        keys: usize,
        first: usize,
    ) {
        let (lanes, width) = (E::Wide::lanes::<S>(), self.geometry.head_dim);
        let scores = self.scores.wrapping_add(row * TILE_KEYS);
        let mut sums = [[Vector::<E::Wide, S>::zero(); WIDTH]; ROWS];
        // SAFETY: keys are valid; workspace and partial results hold the rows.
        unsafe {
            for (r, sums) in sums.iter_mut().enumerate() {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = Vector::load(self.partial(row + r).0.add((first + i) * lanes));
                }
            }
            for at in 0..keys {
                let v = self.v.at(self.batch, key + at, self.kv_head);
                let mut values = [Vector::<E::Wide, S>::zero(); WIDTH];
                for (i, value) in values.iter_mut().enumerate() {
                    *value = load_vector::<E, S>(v, width, first + i);
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let p = Vector::splat(*scores.add(r * TILE_KEYS + at));
                    for (sum, value) in sums.iter_mut().zip(&values) {
                        *sum = p.mul_add(*value, *sum);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                for (i, sum) in sums.iter().enumerate() {
                    sum.store(self.partial(row + r).0.add((first + i) * lanes));
                }
            }
        }
    }
}

/// Merges the ranges of one key head, in order.
struct Merge<'a, E: Element> {
    geometry: Geometry,
    ranges: usize,
    partials: Shared<'a, MaybeUninit<E::Wide>>,
    o: &'a HeadsMut<'a, E>,
    lse: Shared<'a, E::Wide>,
    head: usize,
}

impl<E: Element> SimdOp for Merge<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        let Geometry { kv_heads, head_dim: width, .. } = self.geometry;
        let (rows, lanes) = (self.geometry.rows(), E::Wide::lanes::<S>());
        let (batch, kv_head) = (self.head / kv_heads, self.head % kv_heads);
        let log_of_2 = E::Wide::from_f64(std::f64::consts::LN_2);
        for row in 0..rows {
            let place = self.geometry.place(kv_head, row);
            let o = self.o.at(batch, place.query, place.head);
            let partial = |range: usize| {
                let at = ((self.head * self.ranges + range) * rows + row) * partial_stride(width);
                self.partials.at(at).cast::<E::Wide>().cast_const()
            };
            let statistics = |range: usize| partial(range).wrapping_add(padded_dim(width));
            // SAFETY: every range has left its partial results; the row belongs to this task.
            unsafe {
                let mut max = E::Wide::NEG_INFINITY;
                for range in 0..self.ranges {
                    let of_range = *statistics(range);
                    max = if of_range > max { of_range } else { max };
                }
                let shift = if max == E::Wide::NEG_INFINITY { E::Wide::ZERO } else { max };
                let weight = |range: usize| ((*statistics(range) - shift) * log_of_2).exp();
                let mut sum = E::Wide::ZERO;
                for range in 0..self.ranges {
                    sum = sum + *statistics(range).add(1) * weight(range);
                }
                // A sum of zero means that nothing was seen. NaN is not zero.
                let empty = sum == E::Wide::ZERO;
                let lse = if empty { E::Wide::NEG_INFINITY } else { max * log_of_2 + sum.ln() };
                self.lse.at(self.geometry.statistic(batch, place)).write(lse);
                let factor = if empty { E::Wide::ZERO } else { E::Wide::ONE / sum };
                for at in 0..dim_vectors::<E::Wide, S>(width) {
                    let mut total = V::<E, S>::zero();
                    for range in 0..self.ranges {
                        let factor = V::<E, S>::splat(weight(range) * factor);
                        let part = V::<E, S>::load(partial(range).add(at * lanes));
                        total = part.mul_add(factor, total);
                    }
                    store_vector::<E, S>(o, width, at, if empty { V::<E, S>::zero() } else { total });
                }
            }
        }
    }
}
