//! The loops that fold a tile: along it to one value, or element by element into a tile of accumulators.

use lanthorn_ir::DType;
use lanthorn_ir::prim::ReduceOp;

use super::plain::wrap;
use super::program::Body;
use crate::simd::{MAX_LANES, Simd, SimdOp, dispatch};

/// A fold of a reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub op: ReduceOp,
    /// The slot that is folded.
    pub slot: u16,
    pub body: Body,
    /// Of the results.
    pub dtype: DType,
}

/// An accumulator between tiles: floats in f64, integers in i64 (u64 by its bits).
#[derive(Clone, Copy)]
pub(super) enum Wide {
    Float(f64),
    Int(i64),
}

/// Calls `$f::<T, C>($arguments)` for the fold's body, f32 aside, and op.
macro_rules! each_plain {
    ($fold:expr, $f:ident($($argument:expr),*)) => {
        match $fold.body {
            Body::F32 | Body::Bool => each_plain!($fold, f32, $f($($argument),*)),
            Body::F64 => each_plain!($fold, f64, $f($($argument),*)),
            Body::I32 => each_plain!($fold, i32, $f($($argument),*)),
            Body::I64 => each_plain!($fold, i64, $f($($argument),*)),
            Body::U64 => each_plain!($fold, u64, $f($($argument),*)),
        }
    };
    ($fold:expr, $t:ty, $f:ident($($argument:expr),*)) => {
        match $fold.op {
            ReduceOp::Sum => $f::<$t, Sum>($($argument),*),
            ReduceOp::Prod => $f::<$t, Prod>($($argument),*),
            ReduceOp::Max => $f::<$t, Max>($($argument),*),
            ReduceOp::Min => $f::<$t, Min>($($argument),*),
        }
    };
}

impl Fold {
    /// The dtype whose elements are the body's.
    pub(super) fn result_dtype(&self) -> DType {
        match self.body {
            Body::F32 | Body::Bool => DType::F32,
            Body::F64 => DType::F64,
            Body::I32 => DType::I32,
            Body::I64 => DType::I64,
            Body::U64 => DType::U64,
        }
    }

    /// What a fold of nothing is.
    pub(super) fn identity(&self) -> Wide {
        match (self.body, self.op) {
            (Body::F32 | Body::F64 | Body::Bool, op) => Wide::Float(match op {
                ReduceOp::Sum => 0.0,
                ReduceOp::Prod => 1.0,
                ReduceOp::Max => f64::NEG_INFINITY,
                ReduceOp::Min => f64::INFINITY,
            }),
            (Body::U64, ReduceOp::Max) => Wide::Int(0),
            (Body::U64, ReduceOp::Min) => Wide::Int(-1),
            (_, op) => Wide::Int(match op {
                ReduceOp::Sum => 0,
                ReduceOp::Prod => 1,
                ReduceOp::Max => i64::MIN,
                ReduceOp::Min => i64::MAX,
            }),
        }
    }

    pub(super) fn combine(&self, a: Wide, b: Wide) -> Wide {
        match (a, b) {
            (Wide::Float(a), Wide::Float(b)) => Wide::Float(match self.op {
                ReduceOp::Sum => Sum::of(a, b),
                ReduceOp::Prod => Prod::of(a, b),
                ReduceOp::Max => Max::of(a, b),
                ReduceOp::Min => Min::of(a, b),
            }),
            (Wide::Int(a), Wide::Int(b)) => Wide::Int(match self.op {
                ReduceOp::Sum => Sum::of(a, b),
                ReduceOp::Prod => Prod::of(a, b),
                ReduceOp::Max if self.body == Body::U64 => Max::of(a as u64, b as u64) as i64,
                ReduceOp::Min if self.body == Body::U64 => Min::of(a as u64, b as u64) as i64,
                ReduceOp::Max => Max::of(a, b),
                ReduceOp::Min => Min::of(a, b),
            }),
            (a, _) => a,
        }
    }

    /// # Safety
    /// `base` holds body elements up to `index`.
    pub(super) unsafe fn write(&self, base: *mut u8, index: usize, value: Wide) {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.body, value) {
                (Body::F32 | Body::Bool, Wide::Float(x)) => (base as *mut f32).add(index).write(x as f32),
                (Body::F64, Wide::Float(x)) => (base as *mut f64).add(index).write(x),
                (Body::I32, Wide::Int(x)) => (base as *mut i32).add(index).write(x as i32),
                (_, Wide::Int(x)) => (base as *mut i64).add(index).write(x),
                (_, Wide::Float(_)) => debug_assert!(false, "a float in an integer fold"),
            }
        }
    }

    /// # Safety
    /// `base` holds body elements up to `index`.
    pub(super) unsafe fn read(&self, base: *const u8, index: usize) -> Wide {
        // SAFETY: the caller's promise.
        unsafe {
            match self.body {
                Body::F32 | Body::Bool => Wide::Float((base as *const f32).add(index).read() as f64),
                Body::F64 => Wide::Float((base as *const f64).add(index).read()),
                Body::I32 => Wide::Int((base as *const i32).add(index).read() as i64),
                Body::I64 | Body::U64 => Wide::Int((base as *const i64).add(index).read()),
            }
        }
    }

    /// Sums of narrow integers as numbers of their dtype.
    ///
    /// # Safety
    /// `results` holds `count` body elements.
    pub(super) unsafe fn wrap(&self, results: *mut u8, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { wrap(self.dtype, results, count) };
    }

    /// Folds `n` dense elements.
    ///
    /// # Safety
    /// `source` holds them.
    pub(super) unsafe fn row(&self, source: *const u8, n: usize) -> Wide {
        let mut result = [0u8; 8];
        let result = result.as_mut_ptr();
        dispatch(FoldRows { fold: self, source, rows: 1, width: n, target: result, first: 0 });
        // SAFETY: the one result has been written.
        unsafe { self.read_unaligned(result) }
    }

    /// # Safety
    /// `at` holds a body element, aligned or not.
    unsafe fn read_unaligned(&self, at: *const u8) -> Wide {
        let mut element = 0u64;
        // SAFETY: the caller's promise; an element is no wider than the u64.
        unsafe {
            std::ptr::copy_nonoverlapping(at, (&raw mut element).cast(), self.body.size());
            self.read((&raw const element).cast(), 0)
        }
    }

    /// Folds `rows` dense rows, each to the element of `target` from `first` on.
    ///
    /// # Safety
    /// `source` and `target` hold what is read and written; nobody else writes these results.
    pub(super) unsafe fn rows(
        &self,
        source: *const u8,
        rows: usize,
        width: usize,
        target: *mut u8,
        first: usize,
    ) {
        dispatch(FoldRows { fold: self, source, rows, width, target, first });
    }

    /// `accumulator[i] = combine(accumulator[i], source[i])` for `n` elements.
    ///
    /// # Safety
    /// Both hold them, and do not overlap.
    pub(super) unsafe fn into(&self, source: *const u8, accumulator: *mut u8, n: usize) {
        dispatch(FoldInto { fold: self, source, accumulator, n });
    }
}

struct FoldRows<'a> {
    fold: &'a Fold,
    source: *const u8,
    rows: usize,
    width: usize,
    target: *mut u8,
    first: usize,
}

impl SimdOp for FoldRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let (source, target) = (self.source, self.target);
        // SAFETY: the promises of `Fold::rows` and `Fold::row`.
        unsafe {
            match (self.fold.body, self.fold.op) {
                (Body::F32 | Body::Bool, op) => {
                    for row in 0..self.rows {
                        let source = (source as *const f32).add(row * self.width);
                        let total = fold_vectors::<S>(op, source, self.width);
                        (target as *mut f32).add(self.first + row).write_unaligned(total);
                    }
                }
                _ => each_plain!(self.fold, fold_rows(source, self.rows, self.width, target, self.first)),
            }
        }
    }
}

struct FoldInto<'a> {
    fold: &'a Fold,
    source: *const u8,
    accumulator: *mut u8,
    n: usize,
}

impl SimdOp for FoldInto<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: the promise of `Fold::into`.
        unsafe { each_plain!(self.fold, fold_into(self.source, self.accumulator, self.n)) }
    }
}

/// How two elements combine.
trait Combine<T> {
    fn start() -> T;
    fn of(a: T, b: T) -> T;
}

struct Sum;
struct Prod;
struct Max;
struct Min;

macro_rules! combine {
    ($($t:ty: $least:expr, $most:expr, |$a:ident, $b:ident| $sum:expr, $prod:expr, $max:expr, $min:expr;)*) => {$(
        combine!($t, Sum, 0 as $t, |$a, $b| $sum);
        combine!($t, Prod, 1 as $t, |$a, $b| $prod);
        combine!($t, Max, $least, |$a, $b| $max);
        combine!($t, Min, $most, |$a, $b| $min);
    )*};
    ($t:ty, $op:ident, $start:expr, |$a:ident, $b:ident| $of:expr) => {
        impl Combine<$t> for $op {
            #[inline(always)]
            fn start() -> $t {
                $start
            }
            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn of($a: $t, $b: $t) -> $t {
                $of
            }
        }
    };
}

// NaN is the largest and the smallest of floats.
combine! {
    f32: f32::NEG_INFINITY, f32::INFINITY, |a, b| a + b, a * b,
        if a > b || a.is_nan() { a } else { b }, if a < b || a.is_nan() { a } else { b };
    f64: f64::NEG_INFINITY, f64::INFINITY, |a, b| a + b, a * b,
        if a > b || a.is_nan() { a } else { b }, if a < b || a.is_nan() { a } else { b };
    i32: i32::MIN, i32::MAX, |a, b| a.wrapping_add(b), a.wrapping_mul(b), a.max(b), a.min(b);
    i64: i64::MIN, i64::MAX, |a, b| a.wrapping_add(b), a.wrapping_mul(b), a.max(b), a.min(b);
    u64: u64::MIN, u64::MAX, |a, b| a.wrapping_add(b), a.wrapping_mul(b), a.max(b), a.min(b);
}

/// Independent chains of a plain fold, which the compiler makes vectors of.
const CHAINS: usize = 16;

#[inline(always)]
unsafe fn fold_rows<T: Copy, C: Combine<T>>(
    source: *const u8,
    rows: usize,
    width: usize,
    target: *mut u8,
    first: usize,
) {
    let (source, target) = (source as *const T, target as *mut T);
    // SAFETY: the caller's promise: rows of `width` elements, and a result for each.
    unsafe {
        for row in 0..rows {
            let source = source.add(row * width);
            let mut total = C::start();
            let mut i = 0;
            if width >= CHAINS {
                let mut chains = [C::start(); CHAINS];
                while i + CHAINS <= width {
                    for (chain, x) in chains.iter_mut().enumerate() {
                        *x = C::of(*x, *source.add(i + chain));
                    }
                    i += CHAINS;
                }
                for x in chains {
                    total = C::of(total, x);
                }
            }
            while i < width {
                total = C::of(total, *source.add(i));
                i += 1;
            }
            target.add(first + row).write_unaligned(total);
        }
    }
}

#[inline(always)]
unsafe fn fold_into<T: Copy, C: Combine<T>>(source: *const u8, accumulator: *mut u8, n: usize) {
    // SAFETY: the caller's promise: distinct arrays of `n` elements.
    unsafe {
        let source = std::slice::from_raw_parts(source as *const T, n);
        let accumulator = std::slice::from_raw_parts_mut(accumulator as *mut T, n);
        for (total, &x) in accumulator.iter_mut().zip(source) {
            *total = C::of(*total, x);
        }
    }
}

/// Vectors of a chain that a fold of f32 adds up before it adds them to the rest.
const BLOCK: usize = 32;

/// A fold of f32.
///
/// # Safety
/// `source` holds `n` elements.
#[inline(always)]
unsafe fn fold_vectors<S: Simd>(op: ReduceOp, source: *const f32, n: usize) -> f32 {
    // Macros and no closures, which would not be compiled for the instruction set.
    macro_rules! fold {
        ($op:ident, $combine:path, $finish:path) => {{
            // Four chains hide the latency of the addition; blocks of them keep the rounding error of a long sum small.
            let mut lanes = [S::splat(<$op as Combine<f32>>::start()); 4];
            let mut i = 0;
            while i + 4 * S::LANES <= n {
                let mut block = [S::splat(<$op as Combine<f32>>::start()); 4];
                let stop = n.min(i + BLOCK * 4 * S::LANES);
                while i + 4 * S::LANES <= stop {
                    for (chain, lane) in block.iter_mut().enumerate() {
                        *lane = $combine(*lane, S::load(source.add(i + chain * S::LANES)));
                    }
                    i += 4 * S::LANES;
                }
                for (lane, block) in lanes.iter_mut().zip(block) {
                    *lane = $combine(*lane, block);
                }
            }
            while i + S::LANES <= n {
                lanes[0] = $combine(lanes[0], S::load(source.add(i)));
                i += S::LANES;
            }
            let pair = $combine($combine(lanes[0], lanes[1]), $combine(lanes[2], lanes[3]));
            let mut total = $finish(pair);
            while i < n {
                total = $op::of(total, *source.add(i));
                i += 1;
            }
            total
        }};
    }
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            ReduceOp::Sum => fold!(Sum, S::add, S::reduce_add),
            ReduceOp::Max => fold!(Max, S::max, S::reduce_max),
            ReduceOp::Min => fold!(Min, S::min, S::reduce_min),
            ReduceOp::Prod => fold!(Prod, S::mul, product::<S>),
        }
    }
}

#[inline(always)]
fn product<S: Simd>(lanes: S::F) -> f32 {
    let mut parts = [1.0f32; MAX_LANES];
    // SAFETY: no vector is longer.
    unsafe { S::store(parts.as_mut_ptr(), lanes) };
    let mut total = 1.0;
    for part in parts {
        total *= part;
    }
    total
}
