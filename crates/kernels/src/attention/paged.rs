//! Attention to keys and values in blocks, and writing them, with the semantics of `lanthorn_ir::prim::Paged`. The paths
//! are those of [`attention`](super::attention), which find rows by way of a table.

use lanthorn_error::{Error, ErrorKind, Result};

use super::forward::{attend, attention_scratch_bytes};
use super::operands::{Geometry, Heads, HeadsMut};
use super::source::{Blocks, Ragged, Sequences, Source};
use crate::rows::element::Element;
use crate::rows::operands::{Cpu, Scratch, Shared};

/// Which rows of a pool belong to whom: `tables [batch, slots]`, `starts [batch]`, `counts [batch]`.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    pub tables: &'a [i32],
    pub starts: &'a [i32],
    pub counts: &'a [i32],
}

impl Tables<'_> {
    /// Refuses what is out of range. Panics if the lengths do not fit a batch.
    fn check(&self, op: &str, batch: usize, seq: usize, blocks: usize) -> Result<()> {
        let slots = self.tables.len().checked_div(batch).unwrap_or(0);
        let fits = self.tables.len() == batch * slots && self.starts.len() == batch;
        assert!(fits && self.counts.len() == batch, "{op}: tables of a batch of {batch}");
        let fail = |message: String| Err(Error::new(ErrorKind::Execute, op, message));
        if let Some(block) = self.tables.iter().find(|&&block| block < 0 || block as usize >= blocks) {
            return fail(format!("a table has block {block}, the pool {blocks} blocks"));
        }
        for (start, count) in self.starts.iter().zip(self.counts) {
            if *start < 0 || *count < 0 || *count as usize > seq || start.checked_add(*count).is_none() {
                return fail(format!(
                    "a sequence starts at {start} and has {count} rows; expected a start from 0 on and 0 to {seq} rows"
                ));
            }
        }
        Ok(())
    }
}

/// A pool of keys or of values, dense `[blocks, size, kv_heads, head_dim]`, and the factors of their rows, dense
/// `[blocks, size, kv_heads]`.
#[derive(Clone, Copy)]
pub struct Pool<'a, K> {
    pub rows: &'a [K],
    pub scales: Option<&'a [f32]>,
}

/// What a call of [`paged_attention`] computes, apart from its operands.
#[derive(Clone, Copy, Debug)]
pub struct PagedOptions {
    /// Of the pools.
    pub shape: [usize; 4],
    pub scale: f64,
    /// A query sees the last so many keys.
    pub window: Option<usize>,
}

/// Bytes of scratch of [`paged_attention`] for queries of this shape, tables of so many slots and so many threads.
pub fn paged_attention_scratch_bytes<E: Element>(
    q: [usize; 4],
    pool: [usize; 4],
    slots: usize,
    threads: usize,
) -> usize {
    attention_scratch_bytes::<E>(q, [q[0], slots * pool[1], pool[2], pool[3]], false, threads)
}

/// `o = softmax(scale * q k^T) v` for each sequence, causal. Queries of padding give 0.
///
/// Panics if shapes do not fit.
///
/// # Errors
/// A table, start or count that is out of range; nothing is written then.
pub fn paged_attention<E: Element, K: Element<Wide = E::Wide>>(
    cpu: Cpu,
    q: Heads<'_, E>,
    keys: Pool<'_, K>,
    values: Pool<'_, K>,
    tables: Tables<'_>,
    options: &PagedOptions,
    o: &mut [E],
    scratch: Scratch<'_>,
) -> Result<()> {
    let [batch, seq, heads, head_dim] = q.shape();
    let [blocks, size, kv_heads, _] = options.shape;
    tables.check("paged_attention", batch, seq, blocks)?;
    let rows = blocks * size * kv_heads;
    let fits = [keys, values].iter().all(|pool| {
        pool.rows.len() == rows * head_dim && pool.scales.is_none_or(|scales| scales.len() == rows)
    });
    assert!(fits && size > 0 && o.len() == batch * seq * heads * head_dim, "paged_attention: pools or o");
    if o.is_empty() {
        return Ok(());
    }
    for (sequence, &count) in tables.counts.iter().enumerate() {
        let row = heads * head_dim;
        let padding = (sequence * seq + count as usize) * row..(sequence + 1) * seq * row;
        o.get_mut(padding).unwrap_or_default().fill(E::from_wide(<E::Wide as crate::rows::Wide>::ZERO));
    }
    let slots = tables.tables.len() / batch;
    let places = Blocks { tables: tables.tables, slots, size };
    let most = Geometry {
        batch,
        kv_heads,
        group: heads.checked_div(kv_heads).unwrap_or(0),
        queries: seq,
        keys: slots * size,
        head_dim,
        causal: true,
        window: options.window.unwrap_or(usize::MAX),
        oldest: 0,
    };
    let ragged = Ragged { starts: tables.starts, counts: tables.counts, room: slots * size };
    let sequences = Sequences { most, ragged: Some(ragged) };
    let o = HeadsMut::new(o, q.shape());
    let k = Source::blocks(keys.rows, kv_heads, head_dim, keys.scales, places);
    let v = Source::blocks(values.rows, kv_heads, head_dim, values.scales, places);
    attend(cpu, sequences, q, k, v, None, options.scale, o, None, scratch);
    Ok(())
}

/// `out`, a pool of `blocks` blocks of `size` rows of `width` bytes, is `pool` with the new of `rows [batch, seq, width]`
/// written. In place where `out` is `pool`.
///
/// # Safety
/// `pool` is readable and `out` writable for all blocks, `out` is `pool` or apart from it, and `rows` is apart from both.
///
/// # Errors
/// A table, start or count that is out of range; nothing is written then.
pub unsafe fn paged_update(
    cpu: Cpu,
    [blocks, size, width]: [usize; 3],
    pool: *const u8,
    rows: &[u8],
    seq: usize,
    tables: Tables<'_>,
    out: *mut u8,
) -> Result<()> {
    let batch = tables.starts.len();
    assert!(rows.len() == batch * seq * width && size > 0, "paged_update: rows");
    tables.check("paged_update", batch, seq, blocks)?;
    if pool != out.cast_const() {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(pool, out, blocks * size * width) };
    }
    if rows.is_empty() {
        return Ok(());
    }
    let slots = tables.tables.len() / batch;
    let places = Blocks { tables: tables.tables, slots, size };
    // SAFETY: as above.
    let out = Shared::new(unsafe { std::slice::from_raw_parts_mut(out, blocks * size * width) });
    let write = |sequence: usize, row: usize| {
        let position = tables.starts.get(sequence).map_or(0, |&start| start as usize) + row;
        let (slot, within) = places.place(position);
        let from = (sequence * seq + row) * width;
        let target = out.at(places.row(sequence, slot, within) * width);
        // SAFETY: the table has been checked, and so both rows are inside.
        unsafe { std::ptr::copy_nonoverlapping(rows.as_ptr().wrapping_add(from), target, width) };
    };
    // What a later row of the same sequence overwrites is left out, so that the order does not matter.
    let new = |sequence: usize| {
        let count = tables.counts.get(sequence).map_or(0, |&count| count as usize);
        count.saturating_sub(slots * size)..count
    };
    const ROWS: usize = 64;
    let chunks = seq.div_ceil(ROWS);
    if chunks == 1 {
        (0..batch).for_each(|sequence| new(sequence).for_each(|row| write(sequence, row)));
        return Ok(());
    }
    cpu.run_plain(batch * chunks, |task, _| {
        let (sequence, first) = (task / chunks, task % chunks * ROWS);
        let new = new(sequence);
        (new.start.max(first)..new.end.min(first + ROWS)).for_each(|row| write(sequence, row));
    });
    Ok(())
}
