//! The index of the largest or smallest element along an axis.
//!
//! Elements are compared as integers: a [`Ranked`] type has a key that grows with the element, in which NaN exceeds
//! all numbers and both zeros are one. So every type takes the same loops, and they become vector instructions.

use std::ops::Range;

use half::{bf16, f16};

use super::operands::Shared;
use crate::pool::pool;
use crate::simd::{Simd, SimdOp, dispatch};

/// A type that can be ranked.
pub trait Ranked: Copy + Send + Sync + 'static {
    /// An integer.
    type Key: Copy + Ord + Send + Sync;
    /// Less than every key, or equal to the least.
    const LEAST: Self::Key;

    /// Grows with the element; NaN has the largest.
    fn rising(self) -> Self::Key;
    /// Falls as the element grows; NaN has the largest.
    fn falling(self) -> Self::Key;
}

macro_rules! ranked_int {
    ($($t:ty),*) => {$(
        impl Ranked for $t {
            type Key = $t;
            const LEAST: $t = <$t>::MIN;
            #[inline(always)]
            fn rising(self) -> $t {
                self
            }
            #[inline(always)]
            fn falling(self) -> $t {
                !self
            }
        }
    )*};
}
ranked_int!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! ranked_float {
    ($($t:ty, $int:ty, $infinity:expr;)*) => {$(
        impl Ranked for $t {
            type Key = $int;
            const LEAST: $int = <$int>::MIN;
            #[inline(always)]
            fn rising(self) -> $int {
                let bits = self.to_bits() as $int;
                let magnitude = bits & <$int>::MAX;
                // Both zeros are 0, and a NaN of either sign is the largest.
                let key = if bits < 0 { -magnitude } else { magnitude };
                if magnitude > $infinity { <$int>::MAX } else { key }
            }
            #[inline(always)]
            fn falling(self) -> $int {
                let bits = self.to_bits() as $int;
                let magnitude = bits & <$int>::MAX;
                let key = if bits < 0 { magnitude } else { -magnitude };
                if magnitude > $infinity { <$int>::MAX } else { key }
            }
        }
    )*};
}
ranked_float! {
    f16, i16, 0x7c00;
    bf16, i16, 0x7f80;
    f32, i32, 0x7f80_0000;
    f64, i64, 0x7ff0_0000_0000_0000;
}

/// Elements of a row that are searched at once.
const BLOCK: usize = 512;
/// Columns that are searched at once.
const COLUMNS: usize = 512;
/// Rows up to so many, of at least so many elements, are cut into pieces for the threads.
const FEW: usize = 8;
const LONG: usize = 1 << 16;
/// The most pieces of a row.
const PIECES: usize = 64;

/// The first largest element along the middle axis of `[outer, length, inner]`, or the first smallest; NaN wins over
/// all numbers. `out` is `[outer, inner]`.
pub fn arg_extreme<T: Ranked>(x: &[T], sizes: [usize; 3], largest: bool, out: &mut [i64]) {
    let [outer, length, inner] = sizes;
    assert_eq!([x.len(), out.len()], [outer * length * inner, outer * inner], "argmax: x and out");
    if out.is_empty() || length == 0 {
        return;
    }
    if largest { search::<T, true>(x, sizes, out) } else { search::<T, false>(x, sizes, out) }
}

fn search<T: Ranked, const LARGEST: bool>(x: &[T], [outer, length, inner]: [usize; 3], out: &mut [i64]) {
    if inner == 1 && outer <= FEW && length >= LONG {
        for (row, out) in x.chunks_exact(length).zip(out) {
            *out = in_pieces::<T, LARGEST>(row) as i64;
        }
        return;
    }
    let out = Shared::new(out);
    // Tasks are cut by shape alone.
    if inner == 1 {
        let per_task = (1 << 14) / length + 1;
        pool().run(outer.div_ceil(per_task), &|task, _| {
            for row in task * per_task..outer.min((task + 1) * per_task) {
                let (_, at) = dispatch(Row::<T, LARGEST>(&x[row * length..(row + 1) * length]));
                // SAFETY: the result lies in `out`, and this task alone writes it.
                unsafe { out.at(row).write(at as i64) };
            }
        });
        return;
    }
    let blocks = inner.div_ceil(COLUMNS);
    let per_task = (1 << 14) / (length * inner.min(COLUMNS)) + 1;
    let parts = outer * blocks;
    pool().run(parts.div_ceil(per_task), &|task, _| {
        for part in task * per_task..parts.min((task + 1) * per_task) {
            let (slice, start) = (part / blocks, part % blocks * COLUMNS);
            let columns = start..inner.min(start + COLUMNS);
            let width = columns.len();
            let mut found = [0u64; COLUMNS];
            let x = &x[slice * length * inner..(slice + 1) * length * inner];
            dispatch(Columns::<T, LARGEST> { x, inner, columns, found: &mut found });
            for (i, &at) in found[..width].iter().enumerate() {
                // SAFETY: as above.
                unsafe { out.at(slice * inner + start + i).write(at as i64) };
            }
        }
    });
}

/// One long row, by all threads.
fn in_pieces<T: Ranked, const LARGEST: bool>(row: &[T]) -> usize {
    let width = row.len().div_ceil(PIECES).next_multiple_of(BLOCK);
    let mut best = [(T::LEAST, 0); PIECES];
    let pieces = row.len().div_ceil(width);
    {
        let best = Shared::new(&mut best);
        pool().run(pieces, &|piece, _| {
            let start = piece * width;
            let (key, at) = dispatch(Row::<T, LARGEST>(&row[start..row.len().min(start + width)]));
            // SAFETY: there are at most as many pieces as places, and this task alone writes its own.
            unsafe { best.at(piece).write((key, start + at)) };
        });
    }
    let mut first = best[0];
    for &other in &best[1..pieces] {
        if other.0 > first.0 {
            first = other;
        }
    }
    first.1
}

#[inline(always)]
fn key<T: Ranked, const LARGEST: bool>(x: T) -> T::Key {
    if LARGEST { x.rising() } else { x.falling() }
}

/// The largest key of a row that is not empty, and where it is first.
struct Row<'a, T, const LARGEST: bool>(&'a [T]);

impl<T: Ranked, const LARGEST: bool> SimdOp for Row<'_, T, LARGEST> {
    type Output = (T::Key, usize);

    #[inline(always)]
    fn run<S: Simd>(self) -> (T::Key, usize) {
        let row = self.0;
        let (mut best, mut block_of) = (T::LEAST, None);
        let mut start = 0;
        while start < row.len() {
            let block = &row[start..row.len().min(start + BLOCK)];
            let mut most = T::LEAST;
            for &x in block {
                most = most.max(key::<T, LARGEST>(x));
            }
            if most > best || block_of.is_none() {
                (best, block_of) = (most, Some(start));
            }
            start += BLOCK;
        }
        let mut at = block_of.unwrap_or(0);
        while at + 1 < row.len() && key::<T, LARGEST>(row[at]) != best {
            at += 1;
        }
        (best, at)
    }
}

/// Where the largest key of some columns of `[length, inner]` is first.
struct Columns<'a, T, const LARGEST: bool> {
    x: &'a [T],
    inner: usize,
    columns: Range<usize>,
    found: &'a mut [u64; COLUMNS],
}

impl<T: Ranked, const LARGEST: bool> SimdOp for Columns<'_, T, LARGEST> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Columns { x, inner, columns, found } = self;
        let width = columns.len();
        let mut best = [T::LEAST; COLUMNS];
        let best = &mut best[..width];
        let length = x.len() / inner;
        let line = |row: usize| &x[row * inner + columns.start..][..width];
        for (best, &x) in best.iter_mut().zip(line(0)) {
            *best = key::<T, LARGEST>(x);
        }
        // Positions within a span fit 32 bits; 0 is none.
        for begin in (0..length).step_by(u32::MAX as usize) {
            let mut after = [0u32; COLUMNS];
            let after = &mut after[..width];
            for row in begin..length.min(begin.saturating_add(u32::MAX as usize)) {
                let next = (row - begin + 1) as u32;
                for ((best, after), &x) in best.iter_mut().zip(after.iter_mut()).zip(line(row)) {
                    let key = key::<T, LARGEST>(x);
                    let exceeds = key > *best;
                    *best = if exceeds { key } else { *best };
                    *after = if exceeds { next } else { *after };
                }
            }
            for (found, &after) in found.iter_mut().zip(after.iter()) {
                if after > 0 {
                    *found = begin as u64 + u64::from(after) - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain<T: Copy>(
        x: &[T],
        [outer, length, inner]: [usize; 3],
        exceeds: impl Fn(T, T) -> bool,
    ) -> Vec<i64> {
        let one = |result: usize| {
            let at = |i: usize| x[(result / inner * length + i) * inner + result % inner];
            (1..length).fold(0, |best, i| if exceeds(at(i), at(best)) { i } else { best }) as i64
        };
        (0..outer * inner).map(one).collect()
    }

    const SIZES: [[usize; 3]; 9] = [
        [1, 1, 1],
        [3, 513, 1],
        [2, LONG + 77, 1],
        [1, 3 * LONG, 1],
        [40, 100, 1],
        [2, 7, 3],
        [1, 900, 513],
        [3, 5, 1024],
        [2, 0, 4],
    ];

    /// Few different numbers, so that there are ties; NaN of both signs, infinities and both zeros among them.
    fn floats(n: usize, nan: bool) -> Vec<f32> {
        let mut state = 1u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        (0..n)
            .map(|_| match next() % 1000 {
                0 if nan => f32::NAN,
                1 if nan => -f32::NAN,
                2 => f32::INFINITY,
                3 => f32::NEG_INFINITY,
                4 | 5 => -0.0,
                6 | 7 => 0.0,
                _ => (next() % 64) as f32 - 32.0,
            })
            .collect()
    }

    #[test]
    fn floats_of_every_width_agree_with_one_comparison_after_the_other() {
        for sizes @ [outer, length, inner] in SIZES {
            for nan in [false, true] {
                let x = floats(outer * length * inner, nan);
                let mut found = vec![0; outer * inner];
                for largest in [true, false] {
                    let exceeds = |x: f32, best: f32| {
                        !best.is_nan() && (x.is_nan() || if largest { x > best } else { x < best })
                    };
                    let expected =
                        if length == 0 { vec![0; outer * inner] } else { plain(&x, sizes, exceeds) };
                    let what = format!("{sizes:?}, largest {largest}, NaN {nan}");
                    arg_extreme(&x, sizes, largest, &mut found);
                    assert_eq!(found, expected, "f32 {what}");
                    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                    arg_extreme(&wide, sizes, largest, &mut found);
                    assert_eq!(found, expected, "f64 {what}");
                    let half: Vec<f16> = x.iter().map(|&x| f16::from_f32(x)).collect();
                    arg_extreme(&half, sizes, largest, &mut found);
                    assert_eq!(found, expected, "f16 {what}");
                    let half: Vec<bf16> = x.iter().map(|&x| bf16::from_f32(x)).collect();
                    arg_extreme(&half, sizes, largest, &mut found);
                    assert_eq!(found, expected, "bf16 {what}");
                }
            }
        }
    }

    #[test]
    fn integers_at_the_ends_of_their_types() {
        let x = [3u64, u64::MAX, 0, u64::MAX, 0];
        let mut out = [0];
        arg_extreme(&x, [1, 5, 1], true, &mut out);
        assert_eq!(out, [1]);
        arg_extreme(&x, [1, 5, 1], false, &mut out);
        assert_eq!(out, [2]);
        let x = [i8::MAX, i8::MIN, 0, i8::MIN];
        arg_extreme(&x, [1, 4, 1], false, &mut out);
        assert_eq!(out, [1]);
        arg_extreme(&[i8::MIN; 700], [1, 700, 1], true, &mut out);
        assert_eq!(out, [0]);
    }
}
