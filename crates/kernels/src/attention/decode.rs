//! The forward pass for a few query rows per key head, as when tokens are generated one by one.
//!
//! Nothing is reused often enough to be worth packing: keys and values are read where they lie, once, with vectors along the
//! head dimension. A long cache is cut into ranges of keys, so that few heads still feed many threads;
//! each range leaves its maximum, sum and output, which are then merged (as in flash-decoding, Dao et al. 2023).

use std::mem::MaybeUninit;

use super::operands::{Geometry, Heads, HeadsMut};
use super::source::{Sequences, Source};
use super::tile::{dim_vectors, load_vector, padded_dim, store_vector};
use crate::rows::element::Element;
use crate::rows::operands::{Cpu, Scratch, Shared};
use crate::rows::pass::prefetch_row;
use crate::rows::wide::{Vector, Wide};
use crate::simd::{MAX_LANES, Simd, SimdOp};

/// The most query rows of a key head that this path takes.
pub(super) const MOST_ROWS: usize = 8;
/// Keys of a range.
const RANGE_KEYS: usize = 128;
/// How many keys ahead memory is asked for, where the cache does not fit into the processor's.
const AHEAD: usize = 40;
/// Keys of more bytes than this are not in the processor's cache.
const PREFETCH_BYTES: usize = 4 << 20;
/// Where there are fewer ranges than this, heads are divided too.
const FEWEST_TASKS: usize = 16;

/// Values of scratch for the partial results of `heads` key heads with room for so many keys.
fn partials_len(heads: usize, rows: usize, room: usize, head_dim: usize) -> usize {
    heads * room.div_ceil(RANGE_KEYS).max(1) * rows * partial_stride(head_dim)
}

/// A partial result: the output, then maximum, sum and weight.
fn partial_stride(head_dim: usize) -> usize {
    padded_dim(head_dim) + MAX_LANES
}

/// Values of scratch per worker: queries and scores.
fn workspace_len(head_dim: usize) -> usize {
    MOST_ROWS * (padded_dim(head_dim) + RANGE_KEYS)
}

pub(super) fn scratch_bytes<E: Element>(q: [usize; 4], k: [usize; 4], rows: usize, threads: usize) -> usize {
    Scratch::bytes_of::<E::Wide>(partials_len(k[0] * k[2], rows, k[1], q[3]))
        + Scratch::bytes_of::<E::Wide>(workspace_len(q[3])) * threads.max(1)
}

/// Ranges of the keys that the rows see.
fn ranges_of(geometry: &Geometry) -> usize {
    geometry.keys.saturating_sub(geometry.begin()).div_ceil(RANGE_KEYS).max(1)
}

pub(super) fn decode<E: Element, K: Element<Wide = E::Wide>>(
    cpu: Cpu,
    sequences: Sequences<'_>,
    q: Heads<'_, E>,
    k: Source<'_, K>,
    v: Source<'_, K>,
    scale: f64,
    o: HeadsMut<'_, E>,
    lse: Option<Shared<'_, E::Wide>>,
    mut scratch: Scratch<'_>,
) {
    let Geometry { batch, kv_heads, head_dim, .. } = sequences.most;
    let rows = sequences.most.rows();
    let ranges = (0..batch).map(|sequence| ranges_of(&sequences.of(sequence))).max().unwrap_or(1);
    let stride = partial_stride(head_dim);
    let length = batch * kv_heads * ranges * rows * stride;
    let partials = Shared::new(scratch.take::<E::Wide>(length));
    let length = workspace_len(head_dim);
    let (workers, workspaces) = scratch.per_worker::<E::Wide>(cpu, length);
    // Heads are neighbours in memory, mostly, so a task takes as many as it may.
    let divisions = FEWEST_TASKS.div_ceil((batch * ranges).max(1)).min(kv_heads.max(1));
    let heads = kv_heads.div_ceil(divisions);
    let keys: usize = (0..batch).map(|sequence| sequences.of(sequence).keys).sum();
    let is_far = keys * kv_heads * head_dim * size_of::<K>() > PREFETCH_BYTES;
    workers.run(batch * ranges * divisions, |task, worker| {
        let queries = workspaces.at(worker * length).cast::<E::Wide>();
        let (division, range, batch) =
            (task % divisions, task / divisions % ranges, task / divisions / ranges);
        let geometry = sequences.of(batch);
        let key = geometry.begin() + range * RANGE_KEYS;
        Range {
            geometry,
            factor: E::Wide::from_f64(scale * std::f64::consts::LOG2_E),
            q,
            k,
            v,
            queries,
            scores: queries.wrapping_add(MOST_ROWS * padded_dim(head_dim)),
            partials,
            first_partial: (batch * kv_heads * ranges + range) * rows * stride,
            head_partials: ranges * rows * stride,
            prefetch: is_far,
            batch,
            heads: (kv_heads.min(division * heads), kv_heads.min((division + 1) * heads)),
            key,
            keys: geometry.keys.saturating_sub(key).min(RANGE_KEYS),
        }
    });
    cpu.run(batch * kv_heads, |head, _| {
        let geometry = sequences.of(head / kv_heads);
        let first_partial = head * ranges * rows * stride;
        Merge { geometry, ranges: ranges_of(&geometry), rows, partials, first_partial, o: &o, lse, head }
    });
}

/// One range of keys for the rows of some key heads.
struct Range<'a, E: Element, K> {
    geometry: Geometry,
    factor: E::Wide,
    q: Heads<'a, E>,
    k: Source<'a, K>,
    v: Source<'a, K>,
    /// `[rows, padded_dim]`
    queries: *mut E::Wide,
    /// `[rows, RANGE_KEYS]`
    scores: *mut E::Wide,
    /// `[batch, kv_heads, ranges, rows, partial_stride]`
    partials: Shared<'a, MaybeUninit<E::Wide>>,
    /// Where this range of head 0 begins.
    first_partial: usize,
    /// From one head to the next.
    head_partials: usize,
    batch: usize,
    prefetch: bool,
    /// First and end.
    heads: (usize, usize),
    key: usize,
    keys: usize,
}

impl<E: Element, K: Element<Wide = E::Wide>> SimdOp for Range<'_, E, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let rows = self.geometry.rows();
        if self.keys == 0 && self.key > self.geometry.begin() {
            // A range of longer sequences only.
            return;
        }
        let mut keys = [0; RANGE_KEYS + AHEAD];
        let ahead = self.geometry.keys.saturating_sub(self.key).min(RANGE_KEYS + AHEAD);
        self.k.rows(self.batch, self.key, &mut keys[..ahead]);
        for head in self.heads.0..self.heads.1 {
            // SAFETY: the workspace belongs to this worker and the partial results to this task; both hold all
            // rows, of which there are at most MOST_ROWS, and keys are valid.
            unsafe {
                self.pack_queries::<S>(head, rows);
                let mut row = 0;
                while row + 4 <= rows {
                    self.score::<S, 4>(&keys, head, row);
                    row += 4;
                }
                while row < rows {
                    self.score::<S, 1>(&keys, head, row);
                    row += 1;
                }
                for row in 0..rows {
                    self.probabilities::<S>(head, row);
                }
                row = 0;
                while row + 4 <= rows {
                    self.sum_values::<S, 4>(&keys, head, row);
                    row += 4;
                }
                while row < rows {
                    self.sum_values::<S, 1>(&keys, head, row);
                    row += 1;
                }
            }
        }
    }
}

/// The numbers of the rows of a range, and of some behind it.
type KeyRows = [usize; RANGE_KEYS + AHEAD];

impl<E: Element, K: Element<Wide = E::Wide>> Range<'_, E, K> {
    /// The partial result of a row.
    #[inline(always)]
    fn partial(&self, head: usize, row: usize) -> *mut E::Wide {
        let at =
            self.first_partial + head * self.head_partials + row * partial_stride(self.geometry.head_dim);
        self.partials.at(at).cast()
    }

    /// Packs the queries, scaled so that scores are in base 2.
    #[inline(always)]
    unsafe fn pack_queries<S: Simd>(&self, head: usize, rows: usize) {
        let width = self.geometry.head_dim;
        let factor = Vector::<E::Wide, S>::splat(self.factor);
        for row in 0..rows {
            let place = self.geometry.place(head, row);
            let source = self.q.at(self.batch, place.query, place.head);
            let target = self.queries.wrapping_add(row * padded_dim(width));
            for at in 0..dim_vectors::<E::Wide, S>(width) {
                // SAFETY: the row holds `width` elements, the workspace holds it padded.
                unsafe {
                    let q = load_vector::<E, S>(source, width, at) * factor;
                    q.store(target.add(at * E::Wide::lanes::<S>()));
                }
            }
        }
    }

    /// The scores of `ROWS` rows, -inf where hidden and up to a whole vector.
    #[inline(always)]
    unsafe fn score<S: Simd, const ROWS: usize>(&self, keys: &KeyRows, head: usize, row: usize) {
        let (lanes, width) = (E::Wide::lanes::<S>(), self.geometry.head_dim);
        let padded = padded_dim(width);
        let queries = self.queries.wrapping_add(row * padded);
        let scores = self.scores.wrapping_add(row * RANGE_KEYS);
        // SAFETY: keys are valid; the workspace holds the rows.
        unsafe {
            for at in 0..self.keys {
                let k = self.k.at(self.batch, keys[at], head);
                if self.prefetch {
                    prefetch_row(self.k.at(self.batch, keys[at + AHEAD], head), width);
                }
                let mut sums = [Vector::<E::Wide, S>::zero(); ROWS];
                for vector in 0..width / lanes {
                    let k = K::load::<S>(k.add(vector * lanes));
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let q = Vector::load(queries.add(r * padded + vector * lanes));
                        *sum = k.mul_add(q, *sum);
                    }
                }
                if !width.is_multiple_of(lanes) {
                    let vector = width / lanes;
                    let k = load_vector::<K, S>(k, width, vector);
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let q = Vector::load(queries.add(r * padded + vector * lanes));
                        *sum = k.mul_add(q, *sum);
                    }
                }
                let scale = self.k.scale(keys[at], head).map(|scale| E::Wide::from_f64(scale.into()));
                for (r, sum) in sums.iter().enumerate() {
                    let sum = sum.sum();
                    let score = scale.map_or(sum, |scale| sum * scale);
                    scores.add(r * RANGE_KEYS + at).write(score);
                }
            }
            for r in 0..ROWS {
                let visible = self.geometry.visible(row + r).saturating_sub(self.key).min(self.keys);
                for at in visible..self.keys.next_multiple_of(lanes) {
                    scores.add(r * RANGE_KEYS + at).write(E::Wide::NEG_INFINITY);
                }
                let unseen = self.geometry.first(row + r).saturating_sub(self.key).min(self.keys);
                for at in 0..unseen {
                    scores.add(r * RANGE_KEYS + at).write(E::Wide::NEG_INFINITY);
                }
            }
        }
    }

    /// Turns the scores of a row into probabilities relative to their maximum.
    #[inline(always)]
    unsafe fn probabilities<S: Simd>(&self, head: usize, row: usize) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        let lanes = E::Wide::lanes::<S>();
        let scores = self.scores.wrapping_add(row * RANGE_KEYS);
        let statistics = self.partial(head, row).wrapping_add(padded_dim(self.geometry.head_dim));
        // SAFETY: the row's scores are filled to whole vectors.
        unsafe {
            let mut largest = V::<E, S>::splat(E::Wide::NEG_INFINITY);
            for at in (0..self.keys).step_by(lanes) {
                largest = largest.max_fast(V::<E, S>::load(scores.add(at)));
            }
            let largest = largest.largest();
            // Where all is hidden, subtracting the maximum would give NaN.
            let shift = if largest == E::Wide::NEG_INFINITY { E::Wide::ZERO } else { largest };
            let shift = V::<E, S>::splat(shift);
            let mut sum = V::<E, S>::zero();
            for at in (0..self.keys).step_by(lanes) {
                let p = (V::<E, S>::load(scores.add(at)) - shift).exp2_to_zero();
                p.store(scores.add(at));
                sum = sum + p;
            }
            statistics.write(largest);
            statistics.add(1).write(sum.sum());
        }
    }

    /// The sums of the values, weighted, for `ROWS` rows.
    #[inline(always)]
    unsafe fn sum_values<S: Simd, const ROWS: usize>(&self, keys: &KeyRows, head: usize, row: usize) {
        let vectors = dim_vectors::<E::Wide, S>(self.geometry.head_dim);
        let mut at = 0;
        // SAFETY: as the parts'.
        unsafe {
            while at + 4 <= vectors {
                self.sum_vectors::<S, ROWS, 4>(keys, head, row, at);
                at += 4;
            }
            while at < vectors {
                self.sum_vectors::<S, ROWS, 1>(keys, head, row, at);
                at += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn sum_vectors<S: Simd, const ROWS: usize, const WIDTH: usize>(
        &self,
        keys: &KeyRows,
        head: usize,
        row: usize,
        first: usize,
    ) {
        let (lanes, width) = (E::Wide::lanes::<S>(), self.geometry.head_dim);
        let scores = self.scores.wrapping_add(row * RANGE_KEYS);
        let whole = (first + WIDTH) * lanes <= width;
        let mut sums = [[Vector::<E::Wide, S>::zero(); WIDTH]; ROWS];
        // SAFETY: keys are valid; workspace and partial results hold the rows.
        unsafe {
            for at in 0..self.keys {
                let v = self.v.at(self.batch, keys[at], head);
                if self.prefetch && first == 0 && row == 0 {
                    prefetch_row(self.v.at(self.batch, keys[at + AHEAD], head), width);
                }
                let scale = self.v.scale(keys[at], head).map(|scale| E::Wide::from_f64(scale.into()));
                let mut values = [Vector::<E::Wide, S>::zero(); WIDTH];
                for (i, value) in values.iter_mut().enumerate() {
                    *value = if whole {
                        K::load::<S>(v.add((first + i) * lanes))
                    } else {
                        load_vector::<K, S>(v, width, first + i)
                    };
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let p = *scores.add(r * RANGE_KEYS + at);
                    let p = Vector::splat(scale.map_or(p, |scale| p * scale));
                    for (sum, value) in sums.iter_mut().zip(&values) {
                        *sum = p.mul_add(*value, *sum);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                for (i, sum) in sums.iter().enumerate() {
                    sum.store(self.partial(head, row + r).add((first + i) * lanes));
                }
            }
        }
    }
}

/// Merges the ranges of one key head, in order.
struct Merge<'a, E: Element> {
    geometry: Geometry,
    ranges: usize,
    /// Rows of a partial result.
    rows: usize,
    partials: Shared<'a, MaybeUninit<E::Wide>>,
    first_partial: usize,
    o: &'a HeadsMut<'a, E>,
    lse: Option<Shared<'a, E::Wide>>,
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
                let at = self.first_partial + (range * self.rows + row) * partial_stride(width);
                self.partials.at(at).cast::<E::Wide>()
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
                let mut sum = E::Wide::ZERO;
                for range in 0..self.ranges {
                    let weight = ((*statistics(range) - shift) * log_of_2).exp();
                    sum = sum + *statistics(range).add(1) * weight;
                    statistics(range).add(2).write(weight);
                }
                // A sum of zero means that nothing was seen. NaN is not zero.
                let empty = sum == E::Wide::ZERO;
                let lse = if empty { E::Wide::NEG_INFINITY } else { max * log_of_2 + sum.ln() };
                if let Some(all) = &self.lse {
                    all.at(self.geometry.statistic(batch, place)).write(lse);
                }
                let factor = if empty { E::Wide::ZERO } else { E::Wide::ONE / sum };
                for at in 0..dim_vectors::<E::Wide, S>(width) {
                    let mut total = V::<E, S>::zero();
                    for range in 0..self.ranges {
                        let factor = V::<E, S>::splat(*statistics(range).add(2) * factor);
                        let part = V::<E, S>::load(partial(range).add(at * lanes));
                        total = part.mul_add(factor, total);
                    }
                    store_vector::<E, S>(o, width, at, if empty { V::<E, S>::zero() } else { total });
                }
            }
        }
    }
}
