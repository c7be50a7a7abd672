//! Packs intervals of memory: who lives at the same time must not overlap.

use std::collections::{BTreeMap, BTreeSet};

use super::ALIGNMENT;

/// Memory that is needed from one kernel to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub bytes: usize,
    pub first: u32,
    pub last: u32,
}

/// Above this many intervals only the near-linear packing is tried.
const THOROUGH: usize = 2048;

/// An offset for each interval and the bytes needed in all.
pub(super) fn pack(intervals: &[Interval]) -> (Vec<usize>, usize) {
    let by_time = pack_by_time(intervals);
    let used = intervals.iter().filter(|interval| interval.bytes > 0).count();
    if used > THOROUGH || by_time.1 == most_alive(intervals) {
        return by_time;
    }
    let by_size = pack_by_size(intervals);
    if by_size.1 < by_time.1 { by_size } else { by_time }
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Bytes that are alive at once: no packing needs less.
fn most_alive(intervals: &[Interval]) -> usize {
    let mut changes: BTreeMap<u32, isize> = BTreeMap::new();
    for interval in intervals {
        *changes.entry(interval.first).or_default() += aligned(interval.bytes) as isize;
        *changes.entry(interval.last + 1).or_default() -= aligned(interval.bytes) as isize;
    }
    let (mut alive, mut most) = (0, 0);
    for change in changes.values() {
        alive += change;
        most = most.max(alive);
    }
    most as usize
}

/// Best fit in the order of time, with coalescing of free ranges.
fn pack_by_time(intervals: &[Interval]) -> (Vec<usize>, usize) {
    let mut offsets = vec![0; intervals.len()];
    let mut starts: Vec<usize> = (0..intervals.len()).filter(|&at| intervals[at].bytes > 0).collect();
    let mut ends = starts.clone();
    starts.sort_by_key(|&at| (intervals[at].first, std::cmp::Reverse(intervals[at].bytes)));
    ends.sort_by_key(|&at| intervals[at].last);
    let mut heap = Heap::default();
    let mut ended = ends.into_iter().peekable();
    for at in starts {
        while let Some(end) = ended.next_if(|&end| intervals[end].last < intervals[at].first) {
            heap.give_back(offsets[end], aligned(intervals[end].bytes));
        }
        offsets[at] = heap.take(aligned(intervals[at].bytes));
    }
    (offsets, heap.top)
}

/// Free ranges below `top`, by size and by place.
#[derive(Default)]
struct Heap {
    top: usize,
    by_offset: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
}

impl Heap {
    fn take(&mut self, bytes: usize) -> usize {
        if let Some(&(size, offset)) = self.by_size.range((bytes, 0)..).next() {
            self.remove(offset, size);
            if size > bytes {
                self.insert(offset + bytes, size - bytes);
            }
            return offset;
        }
        // A free range at the top grows.
        let offset = match self.by_offset.last_key_value() {
            Some((&offset, &size)) if offset + size == self.top => {
                self.remove(offset, size);
                offset
            }
            _ => self.top,
        };
        self.top = offset + bytes;
        offset
    }

    fn give_back(&mut self, mut offset: usize, mut bytes: usize) {
        if let Some((&before, &size)) = self.by_offset.range(..offset).next_back()
            && before + size == offset
        {
            self.remove(before, size);
            (offset, bytes) = (before, bytes + size);
        }
        if let Some(&size) = self.by_offset.get(&(offset + bytes)) {
            self.remove(offset + bytes, size);
            bytes += size;
        }
        self.insert(offset, bytes);
    }

    fn insert(&mut self, offset: usize, bytes: usize) {
        self.by_offset.insert(offset, bytes);
        self.by_size.insert((bytes, offset));
    }

    fn remove(&mut self, offset: usize, bytes: usize) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(bytes, offset));
    }
}

/// Largest first, each at the lowest place where it overlaps nobody of its time.
fn pack_by_size(intervals: &[Interval]) -> (Vec<usize>, usize) {
    let mut offsets = vec![0; intervals.len()];
    let mut order: Vec<usize> = (0..intervals.len()).filter(|&at| intervals[at].bytes > 0).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(intervals[at].bytes), intervals[at].first));
    // Those placed, by offset.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    let mut top = 0;
    for at in order {
        let this = intervals[at];
        let bytes = aligned(this.bytes);
        let mut offset = 0;
        let mut best: Option<(usize, usize)> = None;
        for &other in &placed {
            let that = intervals[other];
            if that.last < this.first || this.last < that.first {
                continue;
            }
            if offsets[other] >= offset + bytes {
                let gap = offsets[other] - offset;
                if best.is_none_or(|(size, _)| gap < size) {
                    best = Some((gap, offset));
                }
            }
            offset = offset.max(offsets[other] + aligned(that.bytes));
        }
        offsets[at] = best.map_or(offset, |(_, offset)| offset);
        top = top.max(offsets[at] + bytes);
        let position = placed.partition_point(|&other| offsets[other] <= offsets[at]);
        placed.insert(position, at);
    }
    (offsets, top)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(intervals: &[Interval], packed: &(Vec<usize>, usize)) {
        for (i, a) in intervals.iter().enumerate() {
            assert_eq!(packed.0[i] % ALIGNMENT, 0);
            if a.bytes == 0 {
                continue;
            }
            assert!(packed.0[i] + a.bytes <= packed.1);
            for (j, b) in intervals.iter().enumerate().take(i) {
                let apart = a.last < b.first || b.last < a.first || b.bytes == 0;
                let (x, y) = (packed.0[i], packed.0[j]);
                assert!(apart || x + a.bytes <= y || y + b.bytes <= x, "{a:?} at {x}, {b:?} at {y}");
            }
        }
    }

    #[test]
    fn packings_never_overlap_and_a_chain_needs_two_buffers() {
        let chain: Vec<Interval> =
            (0..50).map(|at| Interval { bytes: 1000, first: at, last: at + 1 }).collect();
        let packed = pack(&chain);
        check(&chain, &packed);
        assert_eq!(packed.1, 2 * 1024);

        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..50 {
            let intervals: Vec<Interval> = (0..60)
                .map(|_| {
                    let first = random(40) as u32;
                    let last = first + random(12) as u32;
                    Interval { bytes: random(5000) as usize, first, last }
                })
                .collect();
            check(&intervals, &pack_by_time(&intervals));
            check(&intervals, &pack_by_size(&intervals));
            let packed = pack(&intervals);
            check(&intervals, &packed);
            assert!(packed.1 >= most_alive(&intervals));
            assert!(packed.1 <= 2 * most_alive(&intervals));
        }
    }
}
