//! Attention to blocks against the naive formula in f64: every form of keys and instruction set, sequences of their own
//! lengths, tables that are rings, windows, padding.

use half::{bf16, f16};
use lanthorn_error::ErrorKind;

use super::*;
use crate::rows::tests::{ScratchMemory, Stored, assert_close, bits, on_every_cpu, random_values};
use crate::rows::{Cpu, Wide};

impl Stored for i8 {
    const RELATIVE: f64 = 2e-6;
    const ABSOLUTE: f64 = 2e-5;
}

/// Sequences with `(start, count)` each.
struct Case<'a> {
    sequences: &'a [(usize, usize)],
    seq: usize,
    kv_heads: usize,
    group: usize,
    width: usize,
    size: usize,
    slots: usize,
    window: Option<usize>,
}

impl Case<'_> {
    fn batch(&self) -> usize {
        self.sequences.len()
    }

    fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn room(&self) -> usize {
        self.slots * self.size
    }

    /// Every block once, in no order, and some to spare.
    fn tables(&self) -> (Vec<i32>, usize) {
        let blocks = self.batch() * self.slots + 2;
        let step = (1..).map(|n| n * 7 + 3).find(|step| gcd(*step, blocks) == 1).unwrap();
        ((0..self.batch() * self.slots).map(|at| ((at * step + 1) % blocks) as i32).collect(), blocks)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn check<K: Stored>(case: &Case<'_>)
where
    K::Wide: Stored,
{
    let Case { seq, kv_heads, group, width, size, slots, .. } = *case;
    let (tables, blocks) = case.tables();
    let is_scaled = size_of::<K>() == 1;
    let (row, heads) = (kv_heads * width, case.heads());
    // What is not held must not be read.
    let nan = if is_scaled { K::from_f64(100.0) } else { K::from_f64(f64::NAN) };
    let mut pools = [vec![nan; blocks * size * row], vec![nan; blocks * size * row]];
    let mut scales = [vec![f32::NAN; blocks * size * kv_heads], vec![f32::NAN; blocks * size * kv_heads]];
    let place = |sequence: usize, position: usize| {
        tables[sequence * slots + position / size % slots] as usize * size + position % size
    };
    // Keys and values by sequence, position and head.
    let mut held = vec![];
    for (sequence, &(start, count)) in case.sequences.iter().enumerate() {
        let end = start + count;
        let first = end.saturating_sub(case.room());
        for (which, (pool, scales)) in pools.iter_mut().zip(&mut scales).enumerate() {
            for position in first..end {
                let seed = (sequence * 1000 + position * 2 + which) as u64;
                let (span, at) = (if is_scaled { 127.0 } else { 1.0 }, place(sequence, position));
                let row = &mut pool[at * row..][..row];
                for (element, x) in row.iter_mut().zip(random_values(kv_heads * width, span, seed)) {
                    *element = K::from_f64(x);
                }
                for (head, scale) in scales[at * kv_heads..][..kv_heads].iter_mut().enumerate() {
                    *scale = 0.004 + 0.001 * head as f32 + 1e-5 * position as f32;
                }
            }
        }
        held.push(first);
    }
    let element = |which: usize, at: usize, head: usize, i: usize| {
        let scale = if is_scaled { f64::from(scales[which][at * kv_heads + head]) } else { 1.0 };
        pools[which][at * row + head * width + i].to_f64() * scale
    };
    let q: Vec<K::Wide> = random_values(case.batch() * seq * heads * width, 3.0, 5)
        .into_iter()
        .map(<K::Wide as Wide>::from_f64)
        .collect();
    let scale = 0.3;

    let mut expected = vec![0.0; q.len()];
    for (sequence, &(start, count)) in case.sequences.iter().enumerate() {
        for (query, head) in (0..count).flat_map(|query| (0..heads).map(move |head| (query, head))) {
            let position = start + query;
            let low = (position + 1).saturating_sub(case.window.unwrap_or(usize::MAX)).max(held[sequence]);
            let at = ((sequence * seq + query) * heads + head) * width;
            let scores: Vec<f64> = (low..=position)
                .map(|key| {
                    let key = place(sequence, key);
                    let product = |i: usize| Wide::to_f64(q[at + i]) * element(0, key, head / group, i);
                    scale * (0..width).map(product).sum::<f64>()
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|s| (s - max).exp()).sum();
            for (score, key) in scores.iter().zip(low..) {
                let p = (score - max).exp() / total;
                for i in 0..width {
                    expected[at + i] += p * element(1, place(sequence, key), head / group, i);
                }
            }
        }
    }

    let numbers = |of: fn(&(usize, usize)) -> usize| -> Vec<i32> {
        case.sequences.iter().map(|sequence| of(sequence) as i32).collect()
    };
    let (starts, counts) = (numbers(|s| s.0), numbers(|s| s.1));
    let tables = Tables { tables: &tables, starts: &starts, counts: &counts };
    let pool = |which: usize| Pool { rows: &pools[which], scales: is_scaled.then_some(&scales[which][..]) };
    let (q_shape, shape) = ([case.batch(), seq, heads, width], [blocks, size, kv_heads, width]);
    on_every_cpu(|cpu| {
        let mut o = vec![<K::Wide as Wide>::from_f64(44.0); q.len()];
        let bytes = paged_attention_scratch_bytes::<K::Wide>(q_shape, shape, slots, cpu.threads);
        let mut scratch = ScratchMemory::new(bytes);
        let options = PagedOptions { shape, scale, window: case.window };
        let q = Heads::new(&q, q_shape);
        paged_attention(cpu, q, pool(0), pool(1), tables, &options, &mut o, scratch.get()).unwrap();
        let o: Vec<f64> = o.iter().map(|&x| Wide::to_f64(x)).collect();
        assert_close::<K::Wide>("o", &o, &expected, 1.0);
        bits(&o)
    });
}

fn check_all<K: Stored>()
where
    K::Wide: Stored,
{
    for window in [None, Some(1), Some(5), Some(70)] {
        // One query each, whatever the lengths, and no query at all.
        let sequences = &[(0, 1), (130, 1), (7, 0), (299, 1)];
        check::<K>(&Case {
            sequences,
            seq: 1,
            kv_heads: 2,
            group: 3,
            width: 20,
            size: 3,
            slots: 100,
            window,
        });
        // A few, with padding.
        let sequences = &[(0, 2), (40, 1), (9, 2)];
        check::<K>(&Case { sequences, seq: 2, kv_heads: 1, group: 4, width: 16, size: 16, slots: 3, window });
        // By tiles, with padding; many heads of one key.
        let sequences = &[(0, 70), (90, 33), (5, 0), (64, 64)];
        check::<K>(&Case {
            sequences,
            seq: 70,
            kv_heads: 2,
            group: 2,
            width: 9,
            size: 16,
            slots: 11,
            window,
        });
        // Past the end of a ring, in which the last 24 are left.
        let sequences = &[(50, 1), (23, 1), (24, 1), (1000, 1)];
        check::<K>(&Case { sequences, seq: 1, kv_heads: 2, group: 1, width: 8, size: 4, slots: 6, window });
        let sequences = &[(50, 12), (13, 11), (1000, 10)];
        check::<K>(&Case { sequences, seq: 12, kv_heads: 1, group: 2, width: 8, size: 4, slots: 6, window });
    }
}

#[test]
fn attention_to_f32() {
    check_all::<f32>();
}

#[test]
fn attention_to_f64() {
    check_all::<f64>();
}

#[test]
fn attention_to_half_types() {
    check_all::<bf16>();
    check_all::<f16>();
}

#[test]
fn attention_to_scaled_whole_numbers() {
    check_all::<i8>();
}

#[test]
fn nothing_gives_nothing() {
    for (batch, seq, heads, width) in [(0, 1, 2, 4), (2, 0, 2, 4), (2, 1, 0, 4), (2, 1, 2, 0)] {
        let sequences = &[(3, seq), (0, seq)][..batch];
        check::<f32>(&Case {
            sequences,
            seq,
            kv_heads: heads,
            group: 1,
            width,
            size: 2,
            slots: 3,
            window: None,
        });
    }
}

#[test]
fn rows_are_written_where_the_table_says_and_nowhere_else() {
    let (blocks, size, width, slots, seq) = (9, 4, 3, 4, 150);
    let tables = [3, 1, 8, 5, 0, 2, 7, 4];
    for (starts, counts) in [([0, 0], [1, 0]), ([5, 15], [1, 1]), ([14, 3], [5, 150]), ([0, 30], [16, 7])] {
        let rows: Vec<u8> = (0..2 * seq * width).map(|at| (at % 199) as u8).collect();
        let mut expected = vec![255; blocks * size * width];
        for (sequence, (start, count)) in starts.iter().zip(counts).enumerate() {
            for row in 0..count as usize {
                let position = *start as usize + row;
                let block = tables[sequence * slots + position / size % slots] as usize;
                let at = (block * size + position % size) * width;
                let source = &rows[(sequence * seq + row) * width..][..width];
                expected[at..][..width].copy_from_slice(source);
            }
        }
        for cpu in crate::rows::tests::every_cpu() {
            let of = Tables { tables: &tables, starts: &starts, counts: &counts };
            let mut pool = vec![255; blocks * size * width];
            let ptr = pool.as_mut_ptr();
            // SAFETY: the pool has its blocks, and it is written in place.
            unsafe { paged_update(cpu, [blocks, size, width], ptr, &rows, seq, of, ptr).unwrap() };
            assert_eq!(pool, expected);
            let (old, mut new) = (vec![255; pool.len()], vec![0; pool.len()]);
            // SAFETY: both have their blocks.
            unsafe {
                paged_update(cpu, [blocks, size, width], old.as_ptr(), &rows, seq, of, new.as_mut_ptr())
            }
            .unwrap();
            assert_eq!(new, expected);
        }
    }
}

#[test]
fn what_is_out_of_range_is_an_error() {
    for (tables, starts, counts, words) in [
        ([0, 4], [1], [1], "a table has block 4, the pool 4 blocks"),
        ([-1, 0], [1], [1], "a table has block -1, the pool 4 blocks"),
        ([0, 1], [-1], [1], "a sequence starts at -1 and has 1 rows"),
        ([0, 1], [1], [-1], "a sequence starts at 1 and has -1 rows"),
        ([0, 1], [1], [2], "has 2 rows; expected a start from 0 on and 0 to 1 rows"),
        ([0, 1], [i32::MAX], [1], "a sequence starts at 2147483647"),
    ] {
        let tables = Tables { tables: &tables, starts: &starts, counts: &counts };
        let mut bytes = vec![9; 4 * 2 * 3];
        let ptr = bytes.as_mut_ptr();
        // SAFETY: the pool has its blocks.
        let error =
            unsafe { paged_update(Cpu::host(), [4, 2, 3], ptr, &[1; 3], 1, tables, ptr) }.unwrap_err();
        assert_eq!((error.kind, error.op.as_str()), (ErrorKind::Execute, "paged_update"));
        assert!(error.message.contains(words), "{error}");
        assert_eq!(bytes, vec![9; 24]);
        let rows = vec![0.0f32; 4 * 2 * 3];
        let pool = Pool { rows: &rows, scales: None };
        let (q, mut o) = (vec![0.0f32; 3], vec![9.0; 3]);
        let shape = [4, 2, 1, 3];
        let bytes = paged_attention_scratch_bytes::<f32>([1, 1, 1, 3], shape, 2, 1);
        let mut scratch = ScratchMemory::new(bytes);
        let options = PagedOptions { shape, scale: 1.0, window: None };
        let q = Heads::new(&q, [1, 1, 1, 3]);
        let result = paged_attention(Cpu::host(), q, pool, pool, tables, &options, &mut o, scratch.get());
        let error = result.unwrap_err();
        assert!(error.message.contains(words), "{error}");
        assert_eq!(o, [9.0; 3]);
    }
}
