//! Stable sorts along an axis of dense values.

use std::ops::Range;

use super::number::Number;
use super::scan::Lines;
use crate::rows::Cpu;
use crate::rows::operands::Shared;

/// A line of so many elements is sorted by all threads; shorter ones are each a task's.
const LONG: usize = 1 << 20;
/// Elements of a part of a long line: some milliseconds.
const PART: usize = 1 << 19;
/// The most parts of a line, so that the number of one is a byte.
const PARTS: usize = 256;
/// Elements that stand for a part when buckets are chosen.
const SAMPLES: usize = 32;

/// The elements of each line in order and their places in it; equal elements keep their order.
pub fn sort<T: Number>(
    cpu: Cpu,
    lines: Lines,
    descending: bool,
    x: &[T],
    values: &mut [T],
    places: &mut [i64],
) {
    assert!(x.len() == values.len() && x.len() == places.len(), "a sort keeps the shape");
    let (values, places) = (Shared::new(values), Shared::new(places));
    let key = |first: usize, place: usize| {
        let key = x[first + place * lines.inner].key();
        // Turned over, the order of keys runs down; that of places stays.
        match (descending, T::SHORT) {
            (false, _) => key,
            (true, true) => u64::from(!(key as u32)),
            (true, false) => !key,
        }
    };
    let put = |first: usize, at: usize, place: usize| {
        // SAFETY: both places lie in the line, of which this task alone writes the element.
        unsafe {
            values.at(first + at * lines.inner).write(x[first + place * lines.inner]);
            places.at(first + at * lines.inner).write(place as i64);
        }
    };
    // No two entries are equal, for places differ: any sort of them is stable.
    if T::SHORT && u32::try_from(lines.size).is_ok() {
        let entry = |first, place| key(first, place) << 32 | place as u64;
        each_line(cpu, lines, entry, |first, at, entry| put(first, at, entry as u32 as usize));
    } else {
        let entry = |first, place| (key(first, place), place);
        each_line(cpu, lines, entry, |first, at, (_, place)| put(first, at, place));
    }
}

/// Puts the entries of each line in order: `entry(first, place)` makes them, `put(first, at, entry)` takes them.
fn each_line<K: Ord + Copy + Send + Sync>(
    cpu: Cpu,
    lines: Lines,
    entry: impl Fn(usize, usize) -> K + Sync,
    put: impl Fn(usize, usize, K) + Sync,
) {
    if lines.size < LONG {
        return lines.run(cpu, |first| {
            let mut order: Vec<K> = (0..lines.size).map(|place| entry(first, place)).collect();
            order.sort_unstable();
            order.iter().enumerate().for_each(|(at, &entry)| put(first, at, entry));
        });
    }
    for first in (0..lines.count()).map(|line| lines.first(line)) {
        let parts = Parts::new(lines.size);
        let order = in_order(cpu, parts, |place| entry(first, place));
        cpu.run_plain(parts.count, |part, _| {
            parts.range(part).for_each(|at| put(first, at, order[at]));
        });
    }
}

/// How a long line is cut; depends on its length alone.
#[derive(Clone, Copy)]
struct Parts {
    size: usize,
    count: usize,
}

impl Parts {
    fn new(size: usize) -> Parts {
        Parts { size, count: size.div_ceil(PART).min(PARTS) }
    }

    fn range(self, part: usize) -> Range<usize> {
        let length = self.size.div_ceil(self.count);
        self.size.min(part * length)..self.size.min((part + 1) * length)
    }
}

/// The entries of all places in order, no two of which are equal.
///
/// A sample of them bounds as many buckets as there are parts; the parts deal their entries out to the buckets, and then
/// every bucket is sorted by itself.
fn in_order<K: Ord + Copy + Send + Sync>(
    cpu: Cpu,
    parts: Parts,
    entry: impl Fn(usize) -> K + Sync,
) -> Vec<K> {
    let (size, count) = (parts.size, parts.count);
    // Not evenly apart, for what is evenly apart may be the first column of a matrix.
    let apart = size / (count * SAMPLES);
    let place = |i: usize| i * apart + (i.wrapping_mul(0x9E37_79B9) >> 8) % apart;
    let mut sample: Vec<K> = (0..count * SAMPLES).map(|i| entry(place(i))).collect();
    sample.sort_unstable();
    let bounds: Vec<K> = sample.into_iter().step_by(SAMPLES).skip(1).collect();

    let mut bucket_of = vec![0u8; size];
    // `[bucket, part]`: how many entries of the part are the bucket's, then where they begin.
    let mut begins = vec![0usize; count * count];
    {
        let (bucket_of, counts) = (Shared::new(&mut bucket_of), Shared::new(&mut begins));
        cpu.run_plain(count, |part, _| {
            let mut own = [0usize; PARTS];
            for place in parts.range(part) {
                let entry = entry(place);
                let bucket = bounds.partition_point(|bound| *bound <= entry);
                own[bucket] += 1;
                // SAFETY: the places of a part are its task's.
                unsafe { bucket_of.at(place).write(bucket as u8) };
            }
            for (bucket, &own) in own[..count].iter().enumerate() {
                // SAFETY: as above.
                unsafe { counts.at(bucket * count + part).write(own) };
            }
        });
    }
    let mut begin = 0;
    for count in &mut begins {
        (*count, begin) = (begin, begin + *count);
    }
    let mut order = vec![entry(0); size];
    let shared = Shared::new(&mut order);
    cpu.run_plain(count, |part, _| {
        let mut next = [0usize; PARTS];
        (0..count).for_each(|bucket| next[bucket] = begins[bucket * count + part]);
        for place in parts.range(part) {
            let next = &mut next[usize::from(bucket_of[place])];
            // SAFETY: every part was counted, or this does not run, so its entries have these places to themselves.
            unsafe { shared.at(*next).write(entry(place)) };
            *next += 1;
        }
    });
    cpu.run_plain(count, |bucket, _| {
        let begin = begins[bucket * count];
        let end = begins.get((bucket + 1) * count).copied().unwrap_or(size);
        // SAFETY: buckets do not overlap.
        unsafe { std::slice::from_raw_parts_mut(shared.at(begin), end - begin) }.sort_unstable();
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, below `limit`.
    fn numbers(count: usize, limit: u64) -> Vec<u64> {
        let mut state = 1u64;
        let next = |state: &mut u64| {
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (*state >> 33) % limit
        };
        (0..count).map(|_| next(&mut state)).collect()
    }

    #[test]
    fn buckets_hold_everything_in_order() {
        for (size, limit) in [(9000, u64::MAX), (9000, 3), (8192 + 1, 1), (20_000, 500)] {
            for count in [1, 2, 7, PARTS] {
                let keys = numbers(size, limit);
                let found = in_order(Cpu::host(), Parts { size, count }, |place| (keys[place], place));
                let mut expected: Vec<(u64, usize)> = keys.iter().copied().zip(0..).collect();
                expected.sort();
                assert!(found == expected, "{size} below {limit} in {count} parts");
            }
        }
    }

    #[cfg_attr(miri, ignore = "a long line takes Miri hours")]
    #[test]
    fn a_long_line_is_sorted_as_short_ones_are() {
        // Two lines side by side, and keys of both widths.
        let lines = Lines { outer: 1, size: LONG + 77, inner: 2 };
        let keys = numbers(2 * lines.size, 1000);
        let short: Vec<i32> = keys.iter().map(|&key| key as i32 - 500).collect();
        for descending in [false, true] {
            let (mut values, mut places) = (vec![0; keys.len()], vec![0; keys.len()]);
            let (mut wide_values, mut wide_places) = (vec![0; keys.len()], vec![0; keys.len()]);
            sort(Cpu::host(), lines, descending, &short, &mut values, &mut places);
            sort(Cpu::host(), lines, descending, &keys, &mut wide_values, &mut wide_places);
            assert!(places == wide_places);
            for line in 0..2 {
                let key = |place: i64| keys[line + 2 * place as usize];
                let mut expected: Vec<i64> = (0..lines.size as i64).collect();
                expected.sort_by_key(|&place| if descending { u64::MAX - key(place) } else { key(place) });
                for (at, place) in expected.into_iter().enumerate() {
                    let found = line + 2 * at;
                    assert_eq!((places[found], wide_values[found]), (place, key(place)), "{descending} {at}");
                    assert_eq!(values[found], key(place) as i32 - 500);
                }
            }
        }
    }
}
