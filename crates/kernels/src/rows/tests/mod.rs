//! Row kernels against naive formulas in f64: every storage type and instruction set, shapes with zero, one
//! and ragged tails, strided rows, in place, and one or several threads with the same bits.

mod index;
mod loss;
mod norm;
mod random;
mod slice;
mod softmax;
mod wide;

use std::mem::MaybeUninit;

use half::{bf16, f16};
use proptest::prelude::*;

use super::{Cpu, Element, RandomKey, Rows, RowsMut, Scratch, Wide, uniform};
use crate::simd::Isa;

/// A storage type with its tolerances.
pub(crate) trait Stored: Element + PartialEq + std::fmt::Debug {
    /// Relative to the result, half a step of storage included.
    const RELATIVE: f64;
    /// What a sum of some hundred terms of size one may lose.
    const ABSOLUTE: f64;

    fn to_f64(self) -> f64 {
        self.to_wide().to_f64()
    }

    fn from_f64(value: f64) -> Self {
        Self::from_wide(Self::Wide::from_f64(value))
    }
}

impl Stored for f32 {
    const RELATIVE: f64 = 2e-6;
    const ABSOLUTE: f64 = 2e-5;
}

impl Stored for f64 {
    const RELATIVE: f64 = 1e-13;
    const ABSOLUTE: f64 = 1e-12;
}

impl Stored for bf16 {
    const RELATIVE: f64 = 0.004;
    const ABSOLUTE: f64 = 2e-5;
}

impl Stored for f16 {
    const RELATIVE: f64 = 0.0005;
    const ABSOLUTE: f64 = 2e-5;
}

/// Makes a test of a function generic over the storage type, for each of them.
macro_rules! for_each_dtype {
    ($($test:ident => $function:ident;)*) => {$(
        mod $test {
            #[test]
            fn f32() {
                super::$function::<f32>();
            }
            #[test]
            fn f64() {
                super::$function::<f64>();
            }
            #[test]
            fn bf16() {
                super::$function::<half::bf16>();
            }
            #[test]
            fn f16() {
                super::$function::<half::f16>();
            }
        }
    )*};
}
pub(crate) use for_each_dtype;

/// Every instruction set of this machine, with one thread and with three.
pub(crate) fn every_cpu() -> impl Iterator<Item = Cpu> {
    Isa::supported().flat_map(|isa| [1, 3].map(|threads| Cpu { isa, threads }))
}

/// Runs `kernel` on every machine; results must have the same bits for all thread counts of an instruction
/// set. Returns one result per instruction set.
pub(crate) fn on_every_cpu<T: PartialEq + std::fmt::Debug>(kernel: impl Fn(Cpu) -> T) -> Vec<T> {
    let run = |isa| {
        let single = kernel(Cpu { isa, threads: 1 });
        let several = kernel(Cpu { isa, threads: 3 });
        assert!(single == several, "{isa:?}: {single:?} with one thread, {several:?} with three");
        single
    };
    Isa::supported().map(run).collect()
}

/// Rows with room between them that kernels must not touch.
#[derive(Clone, Debug)]
pub(crate) struct Matrix<E> {
    elements: Vec<E>,
    pub rows: usize,
    pub width: usize,
    gap: usize,
}

const GUARD: f64 = -77.0;

impl<E: Stored> Matrix<E> {
    pub fn filled(rows: usize, width: usize, gap: usize, value: f64) -> Self {
        let mut elements = vec![E::from_f64(GUARD); rows * (width + gap)];
        for row in 0..rows {
            elements[row * (width + gap)..][..width].fill(E::from_f64(value));
        }
        Matrix { elements, rows, width, gap }
    }

    /// Values in `-scale..scale`.
    pub fn random(rows: usize, width: usize, gap: usize, scale: f64, seed: u64) -> Self {
        let mut matrix = Self::filled(rows, width, gap, 0.0);
        let values = random_values(rows * width, scale, seed);
        for row in 0..rows {
            for (at, value) in matrix.row_mut(row).iter_mut().enumerate() {
                *value = E::from_f64(values[row * width + at]);
            }
        }
        matrix
    }

    pub fn row_mut(&mut self, row: usize) -> &mut [E] {
        &mut self.elements[row * (self.width + self.gap)..][..self.width]
    }

    /// A row in f64.
    pub fn row(&self, row: usize) -> Vec<f64> {
        self.elements[row * (self.width + self.gap)..][..self.width].iter().map(|x| x.to_f64()).collect()
    }

    pub fn view(&self) -> Rows<'_, E> {
        let stride = (self.width + self.gap) as isize;
        // SAFETY: the vector holds all rows.
        unsafe { Rows::from_raw(self.elements.as_ptr(), self.rows, self.width, stride) }
    }

    pub fn view_mut(&mut self) -> RowsMut<'_, E> {
        let stride = (self.width + self.gap) as isize;
        // SAFETY: the vector holds all rows and is borrowed exclusively.
        unsafe { RowsMut::from_raw(self.elements.as_mut_ptr(), self.rows, self.width, stride) }
    }

    /// The same memory read and written, for kernels in place.
    pub fn both(&mut self) -> (Rows<'_, E>, RowsMut<'_, E>) {
        let (ptr, stride) = (self.elements.as_mut_ptr(), (self.width + self.gap) as isize);
        // SAFETY: as above; row kernels allow the very same pointer and stride.
        unsafe {
            (
                Rows::from_raw(ptr, self.rows, self.width, stride),
                RowsMut::from_raw(ptr, self.rows, self.width, stride),
            )
        }
    }

    /// All elements as bits of f64, which compare NaN too. Panics if a gap was written.
    pub fn bits(&self) -> Vec<u64> {
        for row in 0..self.rows {
            let gap = &self.elements[row * (self.width + self.gap)..][self.width..][..self.gap];
            assert!(gap.iter().all(|x| *x == E::from_f64(GUARD)), "a gap between rows was written");
        }
        (0..self.rows).flat_map(|row| self.row(row)).map(f64::to_bits).collect()
    }
}

pub(crate) fn random_values(count: usize, scale: f64, seed: u64) -> Vec<f64> {
    let mut values = vec![0.0; count];
    uniform(Cpu::host(), RandomKey { seed, draw: 0, stream: 0 }, &mut values);
    values.iter().map(|u| (f64::from(*u) * 2.0 - 1.0) * scale).collect()
}

pub(crate) fn vector<E: Stored>(values: &[f64]) -> Vec<E> {
    values.iter().map(|x| E::from_f64(*x)).collect()
}

pub(crate) fn widened<E: Stored>(values: &[E]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

pub(crate) fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Memory for scratch, filled with NaN patterns so that reading it is noticed.
pub(crate) struct ScratchMemory {
    memory: Vec<u128>,
    bytes: usize,
}

impl ScratchMemory {
    pub fn new(bytes: usize) -> Self {
        // Four words of 16 bytes to spare, for alignment.
        ScratchMemory { memory: vec![u128::MAX; bytes.div_ceil(16) + 4], bytes }
    }

    pub fn get(&mut self) -> Scratch<'_> {
        let base = self.memory.as_mut_ptr().cast::<u8>();
        let skip = base.align_offset(64);
        // SAFETY: the vector holds `bytes` bytes after at most 63 skipped ones.
        Scratch::new(unsafe {
            std::slice::from_raw_parts_mut(base.add(skip).cast::<MaybeUninit<u8>>(), self.bytes)
        })
    }
}

/// Compares with tolerance; `scale` widens the absolute one for sums of large terms.
#[track_caller]
pub(crate) fn assert_close<E: Stored>(what: &str, got: &[f64], expected: &[f64], scale: f64) {
    assert_eq!(got.len(), expected.len(), "{what}: length");
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        let within = if expected.is_finite() {
            (got - expected).abs() <= E::RELATIVE * expected.abs() + E::ABSOLUTE * scale
        } else {
            got == expected || (got.is_nan() && expected.is_nan())
        };
        assert!(within, "{what}: {got} at {at}, expected {expected}");
    }
}

/// Shapes and gaps of matrices: empty, one, ragged, and several chunks of rows.
pub(crate) fn shapes() -> impl Strategy<Value = (usize, usize, usize, u64)> {
    let small = (0usize..6, 0usize..140);
    let several_tasks = (40usize..70, 900usize..1100);
    let narrow = (17_000usize..18_000, 1usize..4);
    let shape = prop_oneof![12 => small, 1 => several_tasks, 1 => narrow];
    (shape, 0usize..4, any::<u64>()).prop_map(|((rows, width), gap, seed)| (rows, width, gap, seed))
}

pub(crate) fn config() -> ProptestConfig {
    ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() }
}

/// Runs a property over [`shapes`].
pub(crate) fn over_shapes(test: impl Fn(usize, usize, usize, u64)) {
    proptest!(config(), |((rows, width, gap, seed) in shapes())| test(rows, width, gap, seed));
}
