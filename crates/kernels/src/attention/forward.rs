//! The forward pass over tiles.

use lanthorn_error::Result;

use super::TILE;
use super::decode::{self, MOST_ROWS, decode};
use super::masked::Masked;
use super::operands::{AttentionOptions, Block, GROUP, Geometry, Heads, HeadsMut, Part};
use super::product::{Product, SCORES, Start, TO_QUERIES};
use super::source::{Sequences, Source};
use super::tile::{blocked, dim_vectors, pack_row, pack_row_times, pack_square, padded_dim, store_vector};
use crate::rows::element::Element;
use crate::rows::operands::{Cpu, Scratch, Shared};
use crate::rows::wide::{Vector, Wide};
use crate::simd::{MAX_LANES, Simd, SimdOp};

/// Bytes of scratch of [`attention`] for operands of these shapes and so many threads, with a mask or without.
pub fn attention_scratch_bytes<E: Element>(
    q: [usize; 4],
    k: [usize; 4],
    is_masked: bool,
    threads: usize,
) -> usize {
    let rows = q[1] * q[2].checked_div(k[2]).unwrap_or(0);
    if rows <= MOST_ROWS && !is_masked {
        return decode::scratch_bytes::<E>(q, k, rows, threads);
    }
    Scratch::bytes_of::<E::Wide>(Workspace::<E::Wide>::len(q[3])) * threads.max(1)
}

/// `o = softmax(scale * q k^T + mask) v`, masked as `options` say, and `lse` `[batch, queries, heads]`, the log-sum-exp of the
/// scaled scores. A query that sees no key gives 0 and -inf.
///
/// # Errors
/// A `past` that does not fit; nothing is written then.
pub fn attention<E: Element>(
    cpu: Cpu,
    q: Heads<'_, E>,
    k: Heads<'_, E>,
    v: Heads<'_, E>,
    mask: Option<Masked<'_, E>>,
    options: &AttentionOptions,
    o: HeadsMut<'_, E>,
    lse: &mut [E::Wide],
    scratch: Scratch<'_>,
) -> Result<()> {
    let geometry = Geometry::new("attention", q.shape(), k.shape(), v.shape(), options)?;
    assert_eq!(o.shape(), q.shape(), "attention: o");
    assert_eq!(lse.len(), q.shape()[..3].iter().product::<usize>(), "attention: lse");
    let sequences = Sequences { most: geometry, ragged: None };
    let (k, v) = (Source::whole(k), Source::whole(v));
    attend(cpu, sequences, q, k, v, mask, options.scale, o, Some(Shared::new(lse)), scratch);
    Ok(())
}

/// The forward pass over keys and values wherever they lie, operands checked.
pub(super) fn attend<E: Element, K: Element<Wide = E::Wide>>(
    cpu: Cpu,
    sequences: Sequences<'_>,
    q: Heads<'_, E>,
    k: Source<'_, K>,
    v: Source<'_, K>,
    mask: Option<Masked<'_, E>>,
    scale: f64,
    o: HeadsMut<'_, E>,
    lse: Option<Shared<'_, E::Wide>>,
    mut scratch: Scratch<'_>,
) {
    let geometry = sequences.most;
    if geometry.rows() <= MOST_ROWS && mask.is_none() {
        decode(cpu, sequences, q, k, v, scale, o, lse, scratch);
        return;
    }
    let length = Workspace::<E::Wide>::len(geometry.head_dim);
    let (cpu, workspaces) = scratch.per_worker::<E::Wide>(cpu, length);
    let blocks = geometry.rows().div_ceil(TILE);
    let tasks = geometry.batch * geometry.kv_heads * blocks;
    cpu.run(tasks, |task, worker| {
        // The last blocks of a causal mask are the longest; they go first.
        let (head, block) =
            (task % (geometry.batch * geometry.kv_heads), task / (geometry.batch * geometry.kv_heads));
        let batch = head / geometry.kv_heads;
        Forward {
            geometry: sequences.of(batch),
            scale,
            q,
            k,
            v,
            mask,
            o: &o,
            lse,
            workspace: Workspace::new(workspaces.at(worker * length).cast(), geometry.head_dim),
            batch,
            kv_head: head % geometry.kv_heads,
            first: (blocks - 1 - block) * TILE,
        }
    });
}

/// The tiles of one worker.
#[derive(Clone, Copy)]
struct Workspace<W> {
    /// By query.
    queries: *mut W,
    /// Blocked.
    keys: *mut W,
    /// Blocked.
    values: *mut W,
    /// By query: scores, then probabilities.
    scores: *mut W,
    /// Blocked: the running sum of values.
    output: *mut W,
    /// Running maximum of each query.
    max: *mut W,
    /// Running sum of each query.
    sum: *mut W,
    /// What the last tile does to the running sums.
    factor: *mut W,
    /// Keys that each query sees of this tile.
    visible: *mut W,
    /// How many of them, from the first on, it does not see yet.
    unseen: *mut W,
}

impl<W: Wide> Workspace<W> {
    fn len(head_dim: usize) -> usize {
        4 * TILE * padded_dim(head_dim) + TILE * TILE + 5 * TILE
    }

    fn new(memory: *mut W, head_dim: usize) -> Self {
        let mut next = memory;
        let mut take = |count: usize| {
            let part = next;
            next = next.wrapping_add(count);
            part
        };
        let tile = TILE * padded_dim(head_dim);
        Workspace {
            queries: take(tile),
            keys: take(tile),
            values: take(tile),
            output: take(tile),
            scores: take(TILE * TILE),
            max: take(TILE),
            sum: take(TILE),
            factor: take(TILE),
            visible: take(TILE),
            unseen: take(TILE),
        }
    }
}

struct Forward<'a, E: Element, K> {
    geometry: Geometry,
    scale: f64,
    q: Heads<'a, E>,
    k: Source<'a, K>,
    v: Source<'a, K>,
    mask: Option<Masked<'a, E>>,
    o: &'a HeadsMut<'a, E>,
    lse: Option<Shared<'a, E::Wide>>,
    workspace: Workspace<E::Wide>,
    batch: usize,
    kv_head: usize,
    /// The first row of the block.
    first: usize,
}

impl<E: Element, K: Element<Wide = E::Wide>> SimdOp for Forward<'_, E, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        if self.first >= self.geometry.rows() {
            return;
        }
        let block = Block::new(&self.geometry, self.first);
        // SAFETY: the workspace belongs to this worker and holds tiles of the head dimension; rows and
        // tiles of keys stay inside the operands.
        unsafe {
            self.begin::<S>(block.rows);
            let mut key = block.begin();
            while key < block.most() {
                let keys = TILE.min(block.most() - key);
                self.tile::<S>(&block, key, keys);
                key += keys;
            }
            self.finish::<S>(block.rows, block.most() > block.begin());
        }
    }
}

impl<E: Element, K: Element<Wide = E::Wide>> Forward<'_, E, K> {
    /// Packs the queries, scaled so that scores are in base 2, and starts the running values.
    #[inline(always)]
    unsafe fn begin<S: Simd>(&self, rows: usize) {
        let lanes = E::Wide::lanes::<S>();
        let factor = E::Wide::from_f64(self.scale * std::f64::consts::LOG2_E);
        let width = self.geometry.head_dim;
        let mut column = 0;
        while column < rows {
            let count = lanes.min(rows - column);
            let mut pointers = [std::ptr::null(); MAX_LANES];
            for (row, pointer) in pointers.iter_mut().enumerate().take(count) {
                let place = self.geometry.place(self.kv_head, self.first + column + row);
                *pointer = self.q.at(self.batch, place.query, place.head);
            }
            // SAFETY: the rows hold `width` elements; the tile holds `column + lanes` columns.
            unsafe {
                for at in 0..dim_vectors::<E::Wide, S>(width) {
                    pack_square::<E, S>(&pointers, count, width, at, factor, self.workspace.queries, column);
                }
                Vector::<E::Wide, S>::splat(E::Wide::NEG_INFINITY).store(self.workspace.max.add(column));
                Vector::<E::Wide, S>::zero().store(self.workspace.sum.add(column));
            }
            column += lanes;
        }
    }

    /// Takes one tile of keys into the running values.
    #[inline(always)]
    unsafe fn tile<S: Simd>(&self, block: &Block, key: usize, keys: usize) {
        let width = self.geometry.head_dim;
        // SAFETY: keys are valid, tiles hold them, and parts stay inside the tiles.
        unsafe {
            let mut rows = [0; TILE];
            self.k.rows(self.batch, key, &mut rows[..keys]);
            for (at, &row) in rows[..keys].iter().enumerate() {
                let k = self.k.at(self.batch, row, self.kv_head);
                let v = self.v.at(self.batch, row, self.kv_head);
                match (self.k.scale(row, self.kv_head), self.v.scale(row, self.kv_head)) {
                    (Some(by_k), Some(by_v)) => {
                        pack_row_times::<K, S>(k, width, by_k, self.workspace.keys, at);
                        pack_row_times::<K, S>(v, width, by_v, self.workspace.values, at);
                    }
                    _ => {
                        pack_row::<K, S>(k, width, self.workspace.keys, at);
                        pack_row::<K, S>(v, width, self.workspace.values, at);
                    }
                }
            }
            let is_first = key == block.begin();
            match block.seen(key, keys) {
                None => {
                    let part = Part { row: 0, rows: block.rows, keys };
                    self.scores::<S>(part);
                    self.add_mask::<S>(part, key);
                    self.accumulate::<S>(part, is_first);
                }
                Some(seen) => {
                    for group in 0..block.groups() {
                        let row = group * GROUP;
                        let (rows, keys) = (GROUP.min(block.rows - row), seen.by_any[group]);
                        let part = Part { row, rows, keys };
                        self.scores::<S>(part);
                        self.hide::<S>(block, part, seen.by_all[group], key);
                        self.add_mask::<S>(part, key);
                        self.accumulate::<S>(part, is_first);
                    }
                }
            }
        }
    }

    /// Some queries against the first keys of the tile.
    #[inline(always)]
    unsafe fn scores<S: Simd>(&self, Part { row, rows, keys }: Part) {
        let lanes = E::Wide::lanes::<S>();
        let tiles = self.workspace;
        // SAFETY: the caller's promise.
        unsafe {
            Product::<_, SCORES> {
                rows: keys,
                vectors: rows.div_ceil(lanes),
                depth: dim_vectors::<E::Wide, S>(self.geometry.head_dim) * lanes,
                left: tiles.keys,
                right: tiles.queries.add(row),
                result: tiles.scores.add(row),
                start: Start::Zero,
            }
            .compute::<S>();
        }
    }

    /// Sets the scores of keys that a query does not see to -inf, from key `least` of the tile on.
    #[inline(always)]
    unsafe fn hide<S: Simd>(&self, block: &Block, part: Part, least: usize, key: usize) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        let lanes = E::Wide::lanes::<S>();
        let tiles = self.workspace;
        let hidden = V::<E, S>::splat(E::Wide::NEG_INFINITY);
        // SAFETY: the caller's promise; groups are whole vectors.
        unsafe {
            for row in part.row..part.row + GROUP {
                *tiles.visible.add(row) = E::Wide::from_f64(block.visible(row, key, part.keys) as f64);
                *tiles.unseen.add(row) = E::Wide::from_f64(block.unseen(row, key, part.keys) as f64);
            }
            for column in (part.row..part.row + part.rows).step_by(lanes) {
                let visible = V::<E, S>::load(tiles.visible.add(column));
                let unseen = V::<E, S>::load(tiles.unseen.add(column));
                for at in least..part.keys {
                    let position = V::<E, S>::splat(E::Wide::from_f64(at as f64));
                    let score = tiles.scores.add(at * TILE + column);
                    let shown = visible.select_greater(position, V::<E, S>::load(score), hidden);
                    unseen.select_greater(position, hidden, shown).store(score);
                }
            }
        }
    }

    /// Adds the mask's entries for the first keys of the tile, which begins at key `key`.
    #[inline(always)]
    unsafe fn add_mask<S: Simd>(&self, part: Part, key: usize) {
        let Some(mask) = &self.mask else { return };
        let scores = self.workspace.scores;
        // SAFETY: the tile holds the part, columns in whole vectors.
        unsafe { mask.add_to::<S>(scores, part, key, &self.geometry, self.batch, self.kv_head, self.first) };
    }

    /// Turns scores into probabilities and adds the values.
    #[inline(always)]
    unsafe fn accumulate<S: Simd>(&self, part: Part, is_first: bool) {
        let lanes = E::Wide::lanes::<S>();
        let tiles = self.workspace;
        // SAFETY: the caller's promise.
        unsafe {
            for column in (part.row..part.row + part.rows).step_by(lanes) {
                self.probabilities::<S>(column, part.keys);
            }
            Product::<_, TO_QUERIES> {
                rows: part.rows,
                vectors: dim_vectors::<E::Wide, S>(self.geometry.head_dim),
                depth: part.keys,
                left: tiles.scores.add(part.row),
                right: tiles.values,
                result: tiles.output.add(part.row * lanes),
                start: if is_first { Start::Zero } else { Start::Scaled(tiles.factor.add(part.row)) },
            }
            .compute::<S>();
        }
    }

    /// Turns the scores of one vector of queries into probabilities relative to the running maximum, and
    /// brings the running values up to date.
    #[inline(always)]
    unsafe fn probabilities<S: Simd>(&self, column: usize, keys: usize) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        let tiles = self.workspace;
        let scores = tiles.scores.wrapping_add(column);
        // SAFETY: the tile holds `keys` rows of TILE queries, the running values TILE.
        unsafe {
            let old = V::<E, S>::load(tiles.max.add(column));
            let mut largest = [old; 4];
            for key in (0..keys / 4 * 4).step_by(4) {
                for (i, largest) in largest.iter_mut().enumerate() {
                    *largest = largest.max_fast(V::<E, S>::load(scores.add((key + i) * TILE)));
                }
            }
            for key in keys / 4 * 4..keys {
                largest[0] = largest[0].max_fast(V::<E, S>::load(scores.add(key * TILE)));
            }
            let largest = largest[0].max_fast(largest[1]).max_fast(largest[2].max_fast(largest[3]));
            largest.store(tiles.max.add(column));
            // Where all is hidden so far, subtracting the maximum would give NaN.
            let hidden = V::<E, S>::splat(E::Wide::NEG_INFINITY);
            let shift = largest.select_greater(hidden, largest, V::<E, S>::zero());
            let shrink = (old - shift).exp2_to_zero();
            shrink.store(tiles.factor.add(column));

            let mut sums = [V::<E, S>::zero(); 4];
            for key in (0..keys / 4 * 4).step_by(4) {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let score = scores.add((key + i) * TILE);
                    let p = (V::<E, S>::load(score) - shift).exp2_to_zero();
                    p.store(score);
                    *sum = *sum + p;
                }
            }
            for key in keys / 4 * 4..keys {
                let score = scores.add(key * TILE);
                let p = (V::<E, S>::load(score) - shift).exp2_to_zero();
                p.store(score);
                sums[0] = sums[0] + p;
            }
            let total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
            let sum = tiles.sum.add(column);
            V::<E, S>::load(sum).mul_add(shrink, total).store(sum);
        }
    }

    /// Divides by the sums and writes the results.
    #[inline(always)]
    unsafe fn finish<S: Simd>(&self, rows: usize, any: bool) {
        let width = self.geometry.head_dim;
        let Workspace { output, max, sum, .. } = self.workspace;
        for row in 0..rows {
            let place = self.geometry.place(self.kv_head, self.first + row);
            let o = self.o.at(self.batch, place.query, place.head);
            // SAFETY: the row belongs to this task; the tile holds it.
            unsafe {
                let (max, sum) = (*max.add(row), *sum.add(row));
                // A sum of zero means that nothing was seen. NaN is not zero.
                let empty = !any || sum == E::Wide::ZERO;
                let factor = if empty { E::Wide::ZERO } else { E::Wide::ONE / sum };
                let lse = if empty {
                    E::Wide::NEG_INFINITY
                } else {
                    max * E::Wide::from_f64(std::f64::consts::LN_2) + sum.ln()
                };
                if let Some(all) = &self.lse {
                    all.at(self.geometry.statistic(self.batch, place)).write(lse);
                }
                let factor = Vector::<E::Wide, S>::splat(factor);
                for at in 0..dim_vectors::<E::Wide, S>(width) {
                    let value = if empty {
                        Vector::zero()
                    } else {
                        Vector::load(output.add(blocked::<E::Wide, S>(row, at))) * factor
                    };
                    store_vector::<E, S>(o, width, at, value);
                }
            }
        }
    }
}
