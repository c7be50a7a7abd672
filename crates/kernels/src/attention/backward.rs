//! The backward pass over tiles.
//!
//! With `P = exp(scale * q k^T - lse)` and `delta = sum(do * o)`: `dv = P^T do`, `dS = P * (do v^T - delta)`,
//! `dq = scale * dS k` and `dk = scale * dS^T q` (Dao et al. 2022, appendix B.4).
//!
//! A task owns a chunk of the keys of one key head, all its query rows included, so `dk` and `dv` are
//! summed in one place, over the heads of a group too. Where there are fewer key heads than a machine
//! may have threads, keys are cut into several chunks, whose shares of `dq` are added afterwards.

use std::mem::MaybeUninit;

use lanthorn_error::Result;

use super::TILE;
use super::masked::Masked;
use super::operands::{AttentionOptions, Block, GROUP, Geometry, Heads, HeadsMut, Part};
use super::product::{Product, SCORES, Start, TO_KEYS, TO_QUERIES};
use super::tile::{blocked, dim_vectors, pack_row, pack_square, padded_dim, store_vector};
use crate::interrupt::stretches;
use crate::rows::element::Element;
use crate::rows::operands::{Cpu, Scratch, Shared};
use crate::rows::wide::{Vector, Wide};
use crate::simd::{MAX_LANES, Simd, SimdOp};

/// Tasks that there should be at least, keys permitting.
const FEWEST_TASKS: usize = 16;
/// A chunk of keys is not made smaller than this.
const FEWEST_TILES: usize = 4;

/// How keys are cut; depends on shapes alone.
#[derive(Clone, Copy)]
struct Chunks {
    count: usize,
    /// Keys per chunk, whole tiles.
    keys: usize,
}

impl Chunks {
    fn new(batch: usize, kv_heads: usize, room: usize) -> Chunks {
        let tiles = room.div_ceil(TILE).max(1);
        let wanted = FEWEST_TASKS.div_ceil((batch * kv_heads).max(1));
        let per_chunk = tiles.div_ceil(wanted).max(FEWEST_TILES).min(tiles);
        Chunks { count: tiles.div_ceil(per_chunk), keys: per_chunk * TILE }
    }
}

/// How many values the shares of `dq` take.
fn shares_len(chunks: Chunks, q: [usize; 4]) -> usize {
    if chunks.count > 1 { chunks.count * q[0] * q[1] * q[2] * padded_dim(q[3]) } else { 0 }
}

/// Bytes of scratch of [`attention_grad`] for operands of these shapes and so many threads.
pub fn attention_grad_scratch_bytes<E: Element>(q: [usize; 4], k: [usize; 4], threads: usize) -> usize {
    let chunks = Chunks::new(k[0], k[2], k[1]);
    Scratch::bytes_of::<E::Wide>(shares_len(chunks, q))
        + Scratch::bytes_of::<E::Wide>(Workspace::<E::Wide>::len(q[3], chunks.keys)) * threads.max(1)
}

/// The gradients of [`attention`](super::attention) from its results `o` and `lse` and the cotangent `d_o` of `o`, under the mask
/// of the forward pass. Keys that a `past` leaves invalid get zeros.
///
/// # Errors
/// A `past` that does not fit; nothing is written then.
pub fn attention_grad<E: Element>(
    cpu: Cpu,
    q: Heads<'_, E>,
    k: Heads<'_, E>,
    v: Heads<'_, E>,
    mask: Option<Masked<'_, E>>,
    o: Heads<'_, E>,
    lse: &[E::Wide],
    d_o: Heads<'_, E>,
    options: &AttentionOptions,
    dq: HeadsMut<'_, E>,
    dk: HeadsMut<'_, E>,
    dv: HeadsMut<'_, E>,
    mut scratch: Scratch<'_>,
) -> Result<()> {
    let geometry = Geometry::new("attention_grad", q.shape(), k.shape(), v.shape(), options)?;
    assert_eq!(
        [o.shape(), d_o.shape(), dq.shape()],
        [q.shape(); 3],
        "attention_grad: o, its cotangent and dq"
    );
    assert_eq!([dk.shape(), dv.shape()], [k.shape(); 2], "attention_grad: dk and dv");
    assert_eq!(lse.len(), q.shape()[..3].iter().product::<usize>(), "attention_grad: lse");
    let room = k.shape()[1];
    let chunks = Chunks::new(geometry.batch, geometry.kv_heads, room);
    let shares = Shared::new(scratch.take::<E::Wide>(shares_len(chunks, q.shape())));
    let length = Workspace::<E::Wide>::len(geometry.head_dim, chunks.keys);
    let (workers, workspaces) = scratch.per_worker::<E::Wide>(cpu, length);
    let heads = geometry.batch * geometry.kv_heads;
    let (dq, dk, dv) = (&dq, &dk, &dv);
    workers.run(heads * chunks.count, |task, worker| {
        let (head, chunk) = (task % heads, task / heads);
        let first_key = chunk * chunks.keys;
        let share = (chunks.count > 1).then(|| {
            shares.at((head * chunks.count + chunk) * geometry.rows() * padded_dim(geometry.head_dim))
        });
        Backward {
            geometry,
            scale: options.scale,
            q,
            k,
            v,
            mask,
            o,
            lse,
            d_o,
            dq,
            dk,
            dv,
            share,
            workspace: Workspace::new(workspaces.at(worker * length).cast(), geometry.head_dim, chunks.keys),
            batch: head / geometry.kv_heads,
            kv_head: head % geometry.kv_heads,
            first_key,
            end_key: room.min(first_key + chunks.keys),
        }
    });
    if chunks.count > 1 {
        let blocks = geometry.rows().div_ceil(TILE);
        cpu.run(heads * blocks, |task, _| AddShares {
            geometry,
            scale: options.scale,
            chunks: chunks.count,
            shares,
            dq,
            head: task % heads,
            first: task / heads * TILE,
        });
    }
    Ok(())
}

/// The tiles of one worker.
#[derive(Clone, Copy)]
struct Workspace<W> {
    /// By query: the queries, scaled for scores in base 2.
    queries: *mut W,
    /// By query: the cotangent.
    cotangents: *mut W,
    /// Blocked.
    query_rows: *mut W,
    /// Blocked.
    cotangent_rows: *mut W,
    /// Blocked.
    keys: *mut W,
    /// Blocked.
    values: *mut W,
    /// Blocked.
    dqueries: *mut W,
    /// By query: scores, then probabilities.
    scores: *mut W,
    /// By query.
    dscores: *mut W,
    /// The log-sum-exp of each query in base 2.
    lse: *mut W,
    /// `sum(do * o)` of each query.
    delta: *mut W,
    /// Keys that each query sees of this tile.
    visible: *mut W,
    /// Blocked tiles, as many as a chunk has.
    dkeys: *mut W,
    /// As `dkeys`.
    dvalues: *mut W,
}

impl<W: Wide> Workspace<W> {
    fn len(head_dim: usize, chunk_keys: usize) -> usize {
        (7 * TILE + 2 * chunk_keys) * padded_dim(head_dim) + 2 * TILE * TILE + 3 * TILE
    }

    fn new(memory: *mut W, head_dim: usize, chunk_keys: usize) -> Self {
        let mut next = memory;
        let mut take = |count: usize| {
            let part = next;
            next = next.wrapping_add(count);
            part
        };
        let tile = TILE * padded_dim(head_dim);
        Workspace {
            queries: take(tile),
            cotangents: take(tile),
            query_rows: take(tile),
            cotangent_rows: take(tile),
            keys: take(tile),
            values: take(tile),
            dqueries: take(tile),
            scores: take(TILE * TILE),
            dscores: take(TILE * TILE),
            lse: take(TILE),
            delta: take(TILE),
            visible: take(TILE),
            dkeys: take(chunk_keys * padded_dim(head_dim)),
            dvalues: take(chunk_keys * padded_dim(head_dim)),
        }
    }
}

struct Backward<'a, E: Element> {
    geometry: Geometry,
    scale: f64,
    q: Heads<'a, E>,
    k: Heads<'a, E>,
    v: Heads<'a, E>,
    mask: Option<Masked<'a, E>>,
    o: Heads<'a, E>,
    lse: &'a [E::Wide],
    d_o: Heads<'a, E>,
    dq: &'a HeadsMut<'a, E>,
    dk: &'a HeadsMut<'a, E>,
    dv: &'a HeadsMut<'a, E>,
    /// This chunk's share of `dq`, `[rows, padded_dim]`; `None` where it is all of it.
    share: Option<*mut MaybeUninit<E::Wide>>,
    workspace: Workspace<E::Wide>,
    batch: usize,
    kv_head: usize,
    first_key: usize,
    end_key: usize,
}

impl<E: Element> SimdOp for Backward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let tile = TILE * padded_dim(self.geometry.head_dim);
        // SAFETY: the workspace belongs to this worker and holds tiles of the head dimension and the chunk;
        // rows and keys stay inside the operands.
        unsafe {
            for at in 0..(self.end_key - self.first_key).div_ceil(TILE) * tile {
                self.workspace.dkeys.add(at).write(E::Wide::ZERO);
                self.workspace.dvalues.add(at).write(E::Wide::ZERO);
            }
            for rows in stretches(self.geometry.rows(), TILE) {
                let block = Block::new(&self.geometry, rows.start);
                let end = block.most().min(self.end_key);
                if self.first_key < end {
                    self.begin::<S>(&block);
                }
                for key in (self.first_key..end).step_by(TILE) {
                    self.tile::<S>(&block, key, TILE.min(end - key));
                }
                self.write_dq::<S>(&block, self.first_key < end);
            }
            self.write_dk_dv::<S>();
        }
    }
}

impl<E: Element> Backward<'_, E> {
    /// Packs queries and cotangents.
    #[inline(always)]
    unsafe fn begin<S: Simd>(&self, block: &Block) {
        let lanes = E::Wide::lanes::<S>();
        let log2_e = E::Wide::from_f64(std::f64::consts::LOG2_E);
        let factor = E::Wide::from_f64(self.scale * std::f64::consts::LOG2_E);
        let width = self.geometry.head_dim;
        let tiles = self.workspace;
        let mut column = 0;
        while column < block.rows {
            let count = lanes.min(block.rows - column);
            let mut queries = [std::ptr::null(); MAX_LANES];
            let mut cotangents = [std::ptr::null(); MAX_LANES];
            // SAFETY: the rows hold `width` elements; the tiles hold `column + lanes` rows or columns.
            unsafe {
                for row in 0..count {
                    let place = self.geometry.place(self.kv_head, block.first + column + row);
                    let q = self.q.at(self.batch, place.query, place.head);
                    let o = self.o.at(self.batch, place.query, place.head);
                    let d_o = self.d_o.at(self.batch, place.query, place.head);
                    (queries[row], cotangents[row]) = (q, d_o);
                    pack_row::<E, S>(q, width, tiles.query_rows, column + row);
                    pack_row::<E, S>(d_o, width, tiles.cotangent_rows, column + row);
                    tiles.delta.add(column + row).write(dot::<E, S>(o, d_o, width));
                    let lse = self.lse[self.geometry.statistic(self.batch, place)];
                    // All scores of a query without a finite one are -inf; less zero they stay so.
                    let lse = if lse == E::Wide::NEG_INFINITY { E::Wide::ZERO } else { lse * log2_e };
                    tiles.lse.add(column + row).write(lse);
                }
                for row in count..lanes {
                    tiles.delta.add(column + row).write(E::Wide::ZERO);
                    tiles.lse.add(column + row).write(E::Wide::ZERO);
                }
                for at in 0..dim_vectors::<E::Wide, S>(width) {
                    pack_square::<E, S>(&queries, count, width, at, factor, tiles.queries, column);
                    pack_square::<E, S>(
                        &cotangents,
                        count,
                        width,
                        at,
                        E::Wide::ONE,
                        tiles.cotangents,
                        column,
                    );
                }
            }
            column += lanes;
        }
    }

    /// Adds what one tile of keys has to do with a block of queries.
    #[inline(always)]
    unsafe fn tile<S: Simd>(&self, block: &Block, key: usize, keys: usize) {
        let tiles = self.workspace;
        let width = self.geometry.head_dim;
        let in_chunk = (key - self.first_key) / TILE * TILE * padded_dim(width);
        let is_first = key == self.first_key;
        // SAFETY: keys are valid, tiles hold them, and parts stay inside the tiles.
        unsafe {
            for row in 0..keys {
                pack_row::<E, S>(self.k.at(self.batch, key + row, self.kv_head), width, tiles.keys, row);
                pack_row::<E, S>(self.v.at(self.batch, key + row, self.kv_head), width, tiles.values, row);
            }
            let Some(seen) = block.seen(key, keys) else {
                let part = Part { row: 0, rows: block.rows, keys };
                self.scores::<S>(part);
                self.add_mask::<S>(block, part, key);
                self.differentiate::<S>(part);
                self.to_keys::<S>(part, 0, in_chunk);
                self.to_queries::<S>(part, is_first);
                return;
            };
            for group in 0..block.groups() {
                let row = group * GROUP;
                let part = Part { row, rows: GROUP.min(block.rows - row), keys: seen.by_any[group] };
                self.scores::<S>(part);
                self.add_mask::<S>(block, part, key);
                self.differentiate::<S>(part);
                self.hide::<S>(block, part, seen.by_all[group], key, keys);
                self.to_queries::<S>(part, is_first);
            }
            for first in (0..keys).step_by(GROUP) {
                // Rows before the first group that sees a key of these have nothing to add.
                if let Some(group) = (0..block.groups()).find(|group| seen.by_any[*group] > first) {
                    let row = group * GROUP;
                    let part = Part { row, rows: block.rows - row, keys: GROUP.min(keys - first) };
                    self.to_keys::<S>(part, first, in_chunk);
                }
            }
        }
    }

    /// Scores of some queries against the first keys of the tile, and the cotangents of their probabilities.
    #[inline(always)]
    unsafe fn scores<S: Simd>(&self, Part { row, rows, keys }: Part) {
        let tiles = self.workspace;
        let lanes = E::Wide::lanes::<S>();
        let product = |left: *mut E::Wide, right: *mut E::Wide, result: *mut E::Wide| Product::<_, SCORES> {
            rows: keys,
            vectors: rows.div_ceil(lanes),
            depth: dim_vectors::<E::Wide, S>(self.geometry.head_dim) * lanes,
            left,
            right: right.wrapping_add(row),
            result: result.wrapping_add(row),
            start: Start::Zero,
        };
        // SAFETY: the caller's promise.
        unsafe {
            product(tiles.keys, tiles.queries, tiles.scores).compute::<S>();
            product(tiles.values, tiles.cotangents, tiles.dscores).compute::<S>();
        }
    }

    /// Adds the mask's entries for the first keys of the tile, which begins at key `key`.
    #[inline(always)]
    unsafe fn add_mask<S: Simd>(&self, block: &Block, part: Part, key: usize) {
        let Some(mask) = &self.mask else { return };
        let scores = self.workspace.scores;
        // SAFETY: the tile holds the part, columns in whole vectors.
        unsafe { mask.add_to::<S>(scores, part, key, &self.geometry, self.batch, self.kv_head, block.first) };
    }

    /// Adds to `dk` and `dv` of the part's keys, counted from `first_key` of the tile that lies at `in_chunk`.
    #[inline(always)]
    unsafe fn to_keys<S: Simd>(&self, Part { row, rows, keys }: Part, first_key: usize, in_chunk: usize) {
        let tiles = self.workspace;
        let lanes = E::Wide::lanes::<S>();
        let product = |left: *mut E::Wide, right: *mut E::Wide, result: *mut E::Wide| Product::<_, TO_KEYS> {
            rows: keys,
            vectors: dim_vectors::<E::Wide, S>(self.geometry.head_dim),
            depth: rows,
            left: left.wrapping_add(first_key * TILE + row),
            right: right.wrapping_add(row * lanes),
            result: result.wrapping_add(in_chunk + first_key * lanes),
            start: Start::Sum,
        };
        // SAFETY: the caller's promise.
        unsafe {
            product(tiles.scores, tiles.cotangent_rows, tiles.dvalues).compute::<S>();
            product(tiles.dscores, tiles.query_rows, tiles.dkeys).compute::<S>();
        }
    }

    /// Adds to `dq`.
    #[inline(always)]
    unsafe fn to_queries<S: Simd>(&self, part: Part, is_first: bool) {
        let tiles = self.workspace;
        // SAFETY: the caller's promise.
        unsafe {
            Product::<_, TO_QUERIES> {
                rows: part.rows,
                vectors: dim_vectors::<E::Wide, S>(self.geometry.head_dim),
                depth: part.keys,
                left: tiles.dscores.add(part.row),
                right: tiles.keys,
                result: tiles.dqueries.add(part.row * E::Wide::lanes::<S>()),
                start: if is_first { Start::Zero } else { Start::Sum },
            }
            .compute::<S>();
        }
    }

    /// Turns scores into probabilities and the cotangents of these into those of the scores.
    #[inline(always)]
    unsafe fn differentiate<S: Simd>(&self, part: Part) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        let tiles = self.workspace;
        for column in (part.row..part.row + part.rows).step_by(E::Wide::lanes::<S>()) {
            // SAFETY: the tiles hold `keys` rows of TILE queries, the values per query TILE.
            unsafe {
                let lse = V::<E, S>::load(tiles.lse.add(column));
                let delta = V::<E, S>::load(tiles.delta.add(column));
                for at in 0..part.keys {
                    let score = tiles.scores.add(at * TILE + column);
                    let dscore = tiles.dscores.add(at * TILE + column);
                    let p = (V::<E, S>::load(score) - lse).exp2_to_zero();
                    p.store(score);
                    (p * (V::<E, S>::load(dscore) - delta)).store(dscore);
                }
            }
        }
    }

    /// Zeros for keys that a query does not see, from key `least` of the tile on and to its end.
    #[inline(always)]
    unsafe fn hide<S: Simd>(&self, block: &Block, part: Part, least: usize, key: usize, keys: usize) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        let lanes = E::Wide::lanes::<S>();
        let tiles = self.workspace;
        let zero = V::<E, S>::zero();
        // SAFETY: the caller's promise; groups are whole vectors.
        unsafe {
            for row in part.row..part.row + GROUP {
                *tiles.visible.add(row) = E::Wide::from_f64(block.visible(row, key, keys) as f64);
            }
            for column in (part.row..part.row + part.rows).step_by(lanes) {
                let visible = V::<E, S>::load(tiles.visible.add(column));
                for at in least..part.keys {
                    let position = V::<E, S>::splat(E::Wide::from_f64(at as f64));
                    for tile in [tiles.scores, tiles.dscores] {
                        let value = tile.add(at * TILE + column);
                        visible.select_greater(position, V::<E, S>::load(value), zero).store(value);
                    }
                }
                for at in part.keys..keys {
                    zero.store(tiles.scores.add(at * TILE + column));
                    zero.store(tiles.dscores.add(at * TILE + column));
                }
            }
        }
    }

    /// Writes `dq`, or this chunk's share of it; `any` says whether a key was seen.
    #[inline(always)]
    unsafe fn write_dq<S: Simd>(&self, block: &Block, any: bool) {
        let (lanes, width) = (E::Wide::lanes::<S>(), self.geometry.head_dim);
        let scale = Vector::<E::Wide, S>::splat(E::Wide::from_f64(self.scale));
        for row in 0..block.rows {
            let place = self.geometry.place(self.kv_head, block.first + row);
            for at in 0..dim_vectors::<E::Wide, S>(width) {
                // SAFETY: rows of `dq` and of the share belong to this task; the tile holds the row.
                unsafe {
                    let sum = if any {
                        Vector::<E::Wide, S>::load(
                            self.workspace.dqueries.add(blocked::<E::Wide, S>(row, at)),
                        )
                    } else {
                        Vector::zero()
                    };
                    match self.share {
                        Some(share) => {
                            let row = share.add((block.first + row) * padded_dim(width) + at * lanes);
                            sum.store(row.cast());
                        }
                        None => {
                            let dq = self.dq.at(self.batch, place.query, place.head);
                            store_vector::<E, S>(dq, width, at, sum * scale);
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn write_dk_dv<S: Simd>(&self) {
        let width = self.geometry.head_dim;
        let scale = Vector::<E::Wide, S>::splat(E::Wide::from_f64(self.scale));
        for key in self.first_key..self.end_key {
            let (dk, dv) =
                (self.dk.at(self.batch, key, self.kv_head), self.dv.at(self.batch, key, self.kv_head));
            let in_chunk = key - self.first_key;
            let tile = in_chunk / TILE * TILE * padded_dim(width);
            for at in 0..dim_vectors::<E::Wide, S>(width) {
                let place = tile + blocked::<E::Wide, S>(in_chunk % TILE, at);
                // SAFETY: the keys of the chunk belong to this task; its tiles hold them.
                unsafe {
                    let dkey = Vector::<E::Wide, S>::load(self.workspace.dkeys.add(place));
                    store_vector::<E, S>(dk, width, at, dkey * scale);
                    let dvalue = Vector::<E::Wide, S>::load(self.workspace.dvalues.add(place));
                    store_vector::<E, S>(dv, width, at, dvalue);
                }
            }
        }
    }
}

/// `sum(a * b)`
///
/// # Safety
/// `width` elements at both are readable.
#[inline(always)]
unsafe fn dot<E: Element, S: Simd>(a: *const E, b: *const E, width: usize) -> E::Wide {
    let mut sum = Vector::<E::Wide, S>::zero();
    for at in 0..dim_vectors::<E::Wide, S>(width) {
        // SAFETY: the caller's promise; lanes beyond the row are zeros.
        unsafe {
            let (a, b) = (
                super::tile::load_vector::<E, S>(a, width, at),
                super::tile::load_vector::<E, S>(b, width, at),
            );
            sum = a.mul_add(b, sum);
        }
    }
    sum.sum()
}

/// Adds up the chunks' shares of `dq` for a block of rows of one key head.
struct AddShares<'a, E: Element> {
    geometry: Geometry,
    scale: f64,
    chunks: usize,
    shares: Shared<'a, MaybeUninit<E::Wide>>,
    dq: &'a HeadsMut<'a, E>,
    head: usize,
    first: usize,
}

impl<E: Element> SimdOp for AddShares<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Geometry { kv_heads, head_dim: width, .. } = self.geometry;
        let rows = self.geometry.rows();
        let scale = Vector::<E::Wide, S>::splat(E::Wide::from_f64(self.scale));
        for row in self.first..rows.min(self.first + TILE) {
            let place = self.geometry.place(self.head % kv_heads, row);
            let dq = self.dq.at(self.head / kv_heads, place.query, place.head);
            for at in 0..dim_vectors::<E::Wide, S>(width) {
                let mut sum = Vector::<E::Wide, S>::zero();
                for chunk in 0..self.chunks {
                    let share = (self.head * self.chunks + chunk) * rows + row;
                    let share = self.shares.at(share * padded_dim(width) + at * E::Wide::lanes::<S>());
                    // SAFETY: every chunk has written its share of every row.
                    sum = sum + unsafe { Vector::load(share.cast::<E::Wide>()) };
                }
                // SAFETY: the row belongs to this task.
                unsafe { store_vector::<E, S>(dq, width, at, sum * scale) };
            }
        }
    }
}
