//! Attention with windows and soft caps, and the backward pass under masks, with the semantics of `lanthorn_ir::prim::Attention`, one row of
//! scores at a time: what the tiled kernels do not know. No score matrix is kept.

use std::ops::Range;

use lanthorn_error::{Error, ErrorKind, Result};

use crate::interrupt::stretches;
use crate::pool::pool;
use crate::rows::operands::Shared;
use crate::rows::{Element, Wide};

/// What hides keys or is added to scores: `[batch, heads, queries, keys]`, axes of size 1 standing for all.
#[derive(Clone, Copy)]
pub enum Mask<'a, E: Element> {
    /// Not 0 where the query sees the key.
    Visible(&'a [u8]),
    Same(&'a [E]),
    Wide(&'a [E::Wide]),
}

/// The operands and attributes of one attention; tensors are dense.
pub struct Attention<'a, E: Element> {
    /// `[batch, queries, heads, width]`
    pub q: &'a [E],
    /// `[batch, keys, key_heads, width]`
    pub k: &'a [E],
    /// `[batch, keys, key_heads, value_width]`
    pub v: &'a [E],
    pub mask: Option<(Mask<'a, E>, [usize; 4])>,
    pub batch: usize,
    pub queries: usize,
    pub keys: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub width: usize,
    pub value_width: usize,
    pub scale: f64,
    pub softcap: Option<f64>,
    /// Query `i` stands at key `first + i`.
    pub first: i64,
    /// Keys from here on are not read.
    pub valid: usize,
    /// How far back and ahead of its place a query sees.
    pub left: Option<usize>,
    pub right: Option<usize>,
}

/// How many keys are valid and where the first query stands behind `past` others.
///
/// # Errors
/// A `past` that with the queries leaves no room.
pub fn places(op: &str, past: i64, queries: usize, room: usize) -> Result<(i64, usize)> {
    match usize::try_from(past).ok().and_then(|past| past.checked_add(queries)) {
        Some(valid) if valid <= room => Ok((past, valid)),
        _ => {
            let message = format!(
                "past is {past} with {queries} queries and room for {room} keys; past + queries must fit"
            );
            Err(Error::new(ErrorKind::Execute, op, message))
        }
    }
}

/// One query of one head.
#[derive(Clone, Copy)]
struct Row {
    item: usize,
    query: usize,
    head: usize,
}

impl<E: Element> Attention<'_, E> {
    /// Values of the wide type that each worker needs in `scratch`, forward or backward.
    pub fn scratch_len(&self, backward: bool) -> usize {
        Self::scratch_of(self.keys, self.width, self.value_width, backward)
    }

    /// [`Attention::scratch_len`] from sizes alone.
    pub fn scratch_of(keys: usize, width: usize, value_width: usize, backward: bool) -> usize {
        if backward { keys * (width + value_width) + width } else { keys + value_width }
    }

    fn group(&self) -> usize {
        self.heads.checked_div(self.key_heads).unwrap_or(0)
    }

    fn check(&self, op: &str, o: usize, lse: usize) {
        let rows = self.batch * self.queries * self.heads;
        let keys = self.batch * self.keys * self.key_heads;
        assert_eq!(self.q.len(), rows * self.width, "{op}: q");
        assert_eq!(self.k.len(), keys * self.width, "{op}: k");
        assert_eq!(self.v.len(), keys * self.value_width, "{op}: v");
        assert_eq!([o, lse], [rows * self.value_width, rows], "{op}: o and lse");
        assert!(self.valid <= self.keys, "{op}: valid keys");
        if let Some((mask, shape)) = self.mask {
            let len = match mask {
                Mask::Visible(mask) => mask.len(),
                Mask::Same(mask) => mask.len(),
                Mask::Wide(mask) => mask.len(),
            };
            let full = [self.batch, self.heads, self.queries, self.keys];
            let fits = shape.iter().zip(full).all(|(&size, full)| size == full || size == 1);
            assert!(fits && len == shape.iter().product::<usize>(), "{op}: mask {shape:?}");
        }
    }

    /// The keys that a query may see by where it stands.
    fn range(&self, query: usize) -> Range<usize> {
        let at = self.first as i128 + query as i128;
        let clamped = |key: i128| key.clamp(0, self.valid as i128) as usize;
        let start = self.left.map_or(0, |left| clamped(at - left as i128));
        let stop = self.right.map_or(self.valid, |right| clamped(at + right as i128 + 1));
        start..stop.max(start)
    }

    /// What the mask adds: -inf where it hides.
    fn added(&self, row: Row, key: usize) -> E::Wide {
        let Some((mask, shape)) = self.mask else { return E::Wide::ZERO };
        let place = [row.item, row.head, row.query, key];
        let at = place.iter().zip(shape).fold(0, |at, (&i, size)| at * size + if size == 1 { 0 } else { i });
        match mask {
            Mask::Visible(mask) if mask[at] == 0 => E::Wide::NEG_INFINITY,
            Mask::Visible(_) => E::Wide::ZERO,
            Mask::Same(mask) => mask[at].to_wide(),
            Mask::Wide(mask) => mask[at],
        }
    }

    fn row(&self, row: Row) -> usize {
        (row.item * self.queries + row.query) * self.heads + row.head
    }

    fn query(&self, row: Row) -> &[E] {
        &self.q[self.row(row) * self.width..][..self.width]
    }

    fn key_row(&self, row: Row, key: usize) -> usize {
        (row.item * self.keys + key) * self.key_heads + row.head / self.group().max(1)
    }

    fn key(&self, row: Row, key: usize) -> &[E] {
        &self.k[self.key_row(row, key) * self.width..][..self.width]
    }

    fn value(&self, row: Row, key: usize) -> &[E] {
        &self.v[self.key_row(row, key) * self.value_width..][..self.value_width]
    }

    /// The score of a key before any mask, and the slope of the soft cap there.
    fn score(&self, row: Row, key: usize) -> (E::Wide, E::Wide) {
        let score = E::Wide::from_f64(self.scale) * dot(self.query(row), self.key(row, key));
        match self.softcap {
            None => (score, E::Wide::ONE),
            Some(cap) => {
                let bent = (score.to_f64() / cap).tanh();
                (E::Wide::from_f64(cap * bent), E::Wide::from_f64(1.0 - bent * bent))
            }
        }
    }

    /// `o [batch, queries, heads, value_width]` and `lse [batch, queries, heads]`. `scratch` holds
    /// [`Attention::scratch_len`] values for each of `workers`.
    pub fn forward(&self, o: &mut [E], lse: &mut [E::Wide], scratch: &mut [E::Wide], workers: usize) {
        self.check("attention", o.len(), lse.len());
        let each = self.scratch_len(false);
        assert!(scratch.len() >= each * workers, "attention: scratch");
        let (o, lse, scratch) = (Shared::new(o), Shared::new(lse), Shared::new(scratch));
        pool().run_on(workers, self.batch * self.queries * self.heads, &|task, worker| {
            let (head, rest) = (task % self.heads, task / self.heads);
            let row = Row { item: rest / self.queries, query: rest % self.queries, head };
            // SAFETY: scratch is the worker's, and the row's results the task's.
            let (own, o, lse) = unsafe {
                (
                    part(&scratch, worker * each, each),
                    part(&o, task * self.value_width, self.value_width),
                    part(&lse, task, 1),
                )
            };
            let (scores, sums) = own.split_at_mut(self.keys);
            lse[0] = self.forward_row(row, scores, sums, o);
        });
    }

    /// One row's log-sum-exp, after writing its output.
    fn forward_row(&self, row: Row, scores: &mut [E::Wide], sums: &mut [E::Wide], o: &mut [E]) -> E::Wide {
        let range = self.range(row.query);
        let mut peak = E::Wide::NEG_INFINITY;
        for key in range.clone() {
            let score = self.score(row, key).0 + self.added(row, key);
            scores[key] = score;
            // NaN stays: a NaN score is no hidden one.
            peak = if score > peak || is_nan(score) { score } else { peak };
            if is_nan(peak) {
                o.fill(E::from_wide(peak));
                return peak;
            }
        }
        // Where the peak is infinite, subtracting it would give NaN.
        let shift = if peak.to_f64().is_infinite() { E::Wide::ZERO } else { peak };
        let mut total = E::Wide::ZERO;
        for score in &mut scores[range.clone()] {
            *score = (*score - shift).exp();
            total = total + *score;
        }
        if total == E::Wide::ZERO {
            o.fill(E::from_wide(E::Wide::ZERO));
            return E::Wide::NEG_INFINITY;
        }
        sums.fill(E::Wide::ZERO);
        for key in range {
            let p = scores[key] / total;
            if p != E::Wide::ZERO {
                sums.iter_mut().zip(self.value(row, key)).for_each(|(sum, v)| *sum = *sum + p * v.to_wide());
            }
        }
        o.iter_mut().zip(sums).for_each(|(o, sum)| *o = E::from_wide(*sum));
        total.ln() + shift
    }

    /// The cotangents of `q`, `k` and `v` from those of `o`, `t`, all dense. Scratch as for [`Attention::forward`].
    pub fn backward(
        &self,
        [o, t]: [&[E]; 2],
        lse: &[E::Wide],
        [dq, dk, dv]: [&mut [E]; 3],
        scratch: &mut [E::Wide],
        workers: usize,
    ) {
        self.check("attention_grad", o.len(), lse.len());
        assert_eq!(t.len(), o.len(), "attention_grad: the cotangent");
        assert_eq!(
            [dq.len(), dk.len(), dv.len()],
            [self.q.len(), self.k.len(), self.v.len()],
            "attention_grad: results"
        );
        let each = self.scratch_len(true);
        assert!(scratch.len() >= each * workers, "attention_grad: scratch");
        let (dq, dk, dv, scratch) = (Shared::new(dq), Shared::new(dk), Shared::new(dv), Shared::new(scratch));
        pool().run_on(workers, self.batch * self.key_heads, &|task, worker| {
            let (item, key_head) = (task / self.key_heads, task % self.key_heads);
            // SAFETY: scratch is the worker's.
            let own = unsafe { part(&scratch, worker * each, each) };
            let (dks, own) = own.split_at_mut(self.keys * self.width);
            let (dvs, dq_row) = own.split_at_mut(self.keys * self.value_width);
            dks.fill(E::Wide::ZERO);
            dvs.fill(E::Wide::ZERO);
            for head in key_head * self.group()..(key_head + 1) * self.group() {
                for query in stretches(self.queries, 8).flatten() {
                    let row = Row { item, query, head };
                    let at = self.row(row);
                    let [o, t] = [o, t].map(|x| &x[at * self.value_width..][..self.value_width]);
                    self.backward_row(row, [o, t], lse[at], dq_row, dks, dvs);
                    // SAFETY: the row is the task's.
                    let out = unsafe { part(&dq, at * self.width, self.width) };
                    out.iter_mut().zip(&*dq_row).for_each(|(out, sum)| *out = E::from_wide(*sum));
                }
            }
            for key in 0..self.keys {
                let at = (item * self.keys + key) * self.key_heads + key_head;
                // SAFETY: the key's rows of this head are the task's.
                let (dk, dv) = unsafe {
                    (
                        part(&dk, at * self.width, self.width),
                        part(&dv, at * self.value_width, self.value_width),
                    )
                };
                dk.iter_mut().zip(&dks[key * self.width..]).for_each(|(out, sum)| *out = E::from_wide(*sum));
                dv.iter_mut()
                    .zip(&dvs[key * self.value_width..])
                    .for_each(|(out, sum)| *out = E::from_wide(*sum));
            }
        });
    }

    /// Adds what one row gives to the cotangents of keys and values, and writes that of the query.
    fn backward_row(
        &self,
        row: Row,
        [o, t]: [&[E]; 2],
        lse: E::Wide,
        dq: &mut [E::Wide],
        dks: &mut [E::Wide],
        dvs: &mut [E::Wide],
    ) {
        dq.fill(E::Wide::ZERO);
        let shift = if lse.to_f64().is_infinite() { E::Wide::ZERO } else { lse };
        let mean = dot(t, o);
        let (scale, range) = (E::Wide::from_f64(self.scale), self.range(row.query));
        for key in range {
            let (score, slope) = self.score(row, key);
            let p = (score + self.added(row, key) - shift).exp();
            if p == E::Wide::ZERO {
                continue;
            }
            let dv = &mut dvs[key * self.value_width..][..self.value_width];
            dv.iter_mut().zip(t).for_each(|(dv, t)| *dv = *dv + p * t.to_wide());
            let ds = p * (dot(t, self.value(row, key)) - mean) * slope * scale;
            dq.iter_mut().zip(self.key(row, key)).for_each(|(dq, k)| *dq = *dq + ds * k.to_wide());
            let dk = &mut dks[key * self.width..][..self.width];
            dk.iter_mut().zip(self.query(row)).for_each(|(dk, q)| *dk = *dk + ds * q.to_wide());
        }
    }
}

fn dot<E: Element>(x: &[E], y: &[E]) -> E::Wide {
    x.iter().zip(y).fold(E::Wide::ZERO, |sum, (x, y)| sum + x.to_wide() * y.to_wide())
}

fn is_nan<W: Wide>(x: W) -> bool {
    x.to_f64().is_nan()
}

/// Elements of what several tasks write, each its own.
///
/// # Safety
/// They lie in the slice, and no other task holds any of them.
unsafe fn part<'a, T>(shared: &Shared<'a, T>, start: usize, len: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(shared.at(start), len) }
}
