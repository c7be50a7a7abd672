//! Few rows: dot products of integers, straight from the packed blocks.
//!
//! Bound by reading the weight, which is read once: a block is unpacked to integers of 16 bits, multiplied with those of
//! each row ([`activations`](super::activations)), and the sum of 32 products, which 32 bits hold, goes into the result as
//! f32, times both scales. What a minimum or an offset adds is the same for a whole group, so whole vectors of groups are
//! taken care of at once.
//!
//! A row with a number that is not finite has no such integers. It is multiplied as f32, after the others.

use super::activations::{Layout, Row, quantize};
use super::expand::expand;
use super::formats::{Format, GROUPS, STRETCH, Scales};
use super::{QuantizedPlan, QuantizedShape, row_bytes};
use crate::pool::pool;
use crate::simd::{Simd, SimdOp, dispatch_on};

/// Bytes of the weight that a task reads, about.
const TASK_BYTES: usize = 1 << 15;
/// Tasks that there should be at least.
const TASKS: usize = 16;
/// Rows that are multiplied with a block at once.
const MOST: usize = 4;

pub(super) fn scratch_bytes<F: Format>(shape: &QuantizedShape) -> usize {
    Layout::new::<F>(shape).bytes()
}

/// Rows of the weight that a task takes, from the shape alone.
fn outputs_per_task(outputs: usize, row_bytes: usize) -> usize {
    (TASK_BYTES / row_bytes.max(1)).clamp(1, outputs.div_ceil(TASKS))
}

/// The operands of one run, shared by its tasks.
struct Run<'a> {
    plan: &'a QuantizedPlan,
    x: *const f32,
    blocks: *const u8,
    out: *mut f32,
    scratch: *mut u8,
    layout: Layout,
}

// SAFETY: the operands and the quantised rows are only read, and tasks write distinct results.
unsafe impl Sync for Run<'_> {}

/// # Safety
/// As for [`QuantizedPlan::run`].
pub(super) unsafe fn linear<F: Format>(
    plan: &QuantizedPlan,
    x: *const f32,
    blocks: *const u8,
    out: *mut f32,
    scratch: *mut u8,
) {
    let QuantizedShape { rows, inner, outputs } = plan.shape;
    let run = &Run { plan, x, blocks, out, scratch, layout: Layout::new::<F>(&plan.shape) };
    dispatch_on(plan.isa, QuantizeRows::<F> { run, format: std::marker::PhantomData });
    // SAFETY: the rows exist.
    let has_others = (0..rows).any(|row| unsafe { *run.layout.row(scratch, row).is_finite } == 0);

    let per_task = outputs_per_task(outputs, row_bytes(plan.encoding, inner));
    pool().run_on(plan.threads, outputs.div_ceil(per_task), &|task, _| {
        let first = task * per_task;
        let last = (first + per_task).min(outputs);
        dispatch_on(plan.isa, Outputs::<F> { run, first, last, format: std::marker::PhantomData });
        if has_others {
            dispatch_on(plan.isa, OtherRows::<F> { run, first, last, format: std::marker::PhantomData });
        }
    });
}

struct QuantizeRows<'a, F> {
    run: &'a Run<'a>,
    format: std::marker::PhantomData<F>,
}

impl<F: Format> SimdOp for QuantizeRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Run { plan, x, scratch, layout, .. } = self.run;
        let QuantizedShape { rows, inner, .. } = plan.shape;
        for row in 0..rows {
            // SAFETY: the row exists in x and in scratch memory.
            unsafe { quantize::<S, F>(x.add(row * inner), inner, layout.row(*scratch, row)) };
        }
    }
}

/// Results `first..last` of all rows.
struct Outputs<'a, F> {
    run: &'a Run<'a>,
    first: usize,
    last: usize,
    format: std::marker::PhantomData<F>,
}

impl<F: Format> SimdOp for Outputs<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Outputs { run, first, last, .. } = self;
        let QuantizedShape { rows, inner, outputs } = run.plan.shape;
        let row_bytes = row_bytes(run.plan.encoding, inner);
        let mut scales = Scales::new();
        let mut factors = [[0.0; GROUPS]; MOST];
        for output in first..last {
            // SAFETY: the rows and the results exist; where four are taken of three, the last is taken twice.
            unsafe {
                let blocks = run.blocks.add(output * row_bytes);
                let mut row = 0;
                while row < rows {
                    macro_rules! take {
                        ($count:literal) => {{
                            let at = |i: usize| (row + i).min(rows - 1);
                            let quantized = std::array::from_fn(|i| run.layout.row(run.scratch, at(i)));
                            let sums =
                                dots::<S, F, $count>(blocks, inner, quantized, &mut scales, &mut factors);
                            for (i, sum) in sums.into_iter().enumerate() {
                                *run.out.add(at(i) * outputs + output) = sum;
                            }
                            row += $count;
                        }};
                    }
                    match rows - row {
                        1 => take!(1),
                        2 => take!(2),
                        _ => take!(4),
                    }
                }
            }
        }
    }
}

/// A row of the weight times some rows; `factors` is a place for the products of scales.
///
/// # Safety
/// All have `inner` elements.
#[inline(always)]
unsafe fn dots<S: Simd, F: Format, const ROWS: usize>(
    blocks: *const u8,
    inner: usize,
    rows: [Row; ROWS],
    scales: &mut Scales,
    factors: &mut [[f32; GROUPS]; MOST],
) -> [f32; ROWS] {
    // Two chains of additions, so that one need not wait for the other.
    let mut sums = [[S::splat(0.0); 2]; ROWS];
    for first in (0..inner).step_by(STRETCH) {
        let count = (inner - first).min(STRETCH) / F::BLOCK;
        // SAFETY: the caller's promise; a stretch has no more groups than the arrays.
        unsafe {
            let blocks = blocks.add(first / F::BLOCK * F::BYTES);
            F::scales::<S>(blocks, count, scales);
            for ((row, factors), [sum, _]) in rows.iter().zip(&mut *factors).zip(&mut sums) {
                let groups = count * F::BLOCK / F::GROUP;
                *sum = add_groups::<S, F>(*row, first / F::GROUP, groups, scales, factors, *sum);
            }
            let stretch = Stretch { blocks, first, rows: &rows, factors };
            let mut block = 0;
            if F::BLOCK == 32 {
                while block + 2 <= count {
                    stretch.add_part::<S, F, 0>(block, 0, &mut sums);
                    stretch.add_part::<S, F, 1>(block + 1, 0, &mut sums);
                    block += 2;
                }
            }
            while block < count {
                macro_rules! add_parts {
                    ($($part:literal $chain:literal),*) => {
                        $(if $part < F::BLOCK / 32 {
                            stretch.add_part::<S, F, $chain>(block, $part, &mut sums);
                        })*
                    };
                }
                add_parts!(0 0, 1 1, 2 0, 3 1, 4 0, 5 1, 6 0, 7 1);
                block += 1;
            }
        }
    }
    let mut totals = [0.0; ROWS];
    for (total, [even, odd]) in totals.iter_mut().zip(sums) {
        *total = S::reduce_add(S::add(even, odd));
    }
    totals
}

/// A stretch of a row of the weight and what it is multiplied with.
struct Stretch<'a, const ROWS: usize> {
    blocks: *const u8,
    /// Its first element.
    first: usize,
    rows: &'a [Row; ROWS],
    factors: &'a [[f32; GROUPS]; MOST],
}

impl<const ROWS: usize> Stretch<'_, ROWS> {
    /// Adds the products of a part of a block to one of the chains of each row.
    #[inline(always)]
    unsafe fn add_part<S: Simd, F: Format, const CHAIN: usize>(
        &self,
        block: usize,
        part: usize,
        sums: &mut [[S::F; 2]; ROWS],
    ) {
        let k = block * F::BLOCK + part * 32;
        // SAFETY: the caller's promise.
        unsafe {
            let integers = F::integers::<S>(self.blocks.add(block * F::BYTES), part);
            let wide = if F::SIGNED { S::widen_signed(integers) } else { S::widen_unsigned(integers) };
            for ((row, factors), sums) in self.rows.iter().zip(self.factors).zip(sums) {
                let x = row.integers.cast_const().add(self.first + k);
                sums[CHAIN] = add_dot::<S, F>(wide, x, factors.as_ptr().add(k / F::GROUP), sums[CHAIN]);
            }
        }
    }
}

/// The products of both scales of groups `first ..` of a row, and the sum with what their offsets or minima add.
#[inline(always)]
unsafe fn add_groups<S: Simd, F: Format>(
    row: Row,
    first: usize,
    groups: usize,
    scales: &Scales,
    factors: &mut [f32; GROUPS],
    mut sum: S::F,
) -> S::F {
    for at in (0..groups).step_by(S::LANES) {
        let lanes = (groups - at).min(S::LANES);
        // SAFETY: the caller's promise; the arrays of a stretch hold whole vectors.
        unsafe {
            let of_row = load::<S>(row.scales.add(first + at), lanes);
            let factor = S::mul(load::<S>(scales.scale.as_ptr().add(at), lanes), of_row);
            S::store(factors.as_mut_ptr().add(at), factor);
            if F::OFFSET != 0.0 {
                sum = S::mul_add(factor, load::<S>(row.sums.add(first + at), lanes), sum);
            }
            if F::HAS_MINIMUM {
                let minimum = S::mul(load::<S>(scales.minimum.as_ptr().add(at), lanes), of_row);
                sum = S::mul_add(minimum, load::<S>(row.sums.add(first + at), lanes), sum);
            }
        }
    }
    sum
}

/// The first `lanes` values, zeros in the other lanes.
#[inline(always)]
unsafe fn load<S: Simd>(source: *const f32, lanes: usize) -> S::F {
    // SAFETY: the caller's promise.
    unsafe { if lanes == S::LANES { S::load(source) } else { S::load_partial(source, lanes) } }
}

/// `sum` plus the dot product of 32 integers, times the factor of their group or of each of their two groups.
#[inline(always)]
unsafe fn add_dot<S: Simd, F: Format>(wide: S::W, x: *const i16, factors: *const f32, sum: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        if F::GROUP == 16 {
            return S::add_dots_of_halves(wide, x, factors, sum);
        }
        S::mul_add(S::from_int(S::dot_i16(wide, x)), S::splat(*factors), sum)
    }
}

/// Elements that are unpacked at a time for the rows that are not finite: a block of any encoding.
const UNPACKED: usize = 256;

/// Results `first..last` of the rows that are not finite.
struct OtherRows<'a, F> {
    run: &'a Run<'a>,
    first: usize,
    last: usize,
    format: std::marker::PhantomData<F>,
}

impl<F: Format> SimdOp for OtherRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let OtherRows { run, first, last, .. } = self;
        let QuantizedShape { rows, inner, outputs } = run.plan.shape;
        let row_bytes = row_bytes(run.plan.encoding, inner);
        let mut scales = Scales::new();
        let mut weight = [0.0f32; UNPACKED];
        // SAFETY: the rows, their blocks and the results exist.
        unsafe {
            for row in (0..rows).filter(|row| *run.layout.row(run.scratch, *row).is_finite == 0) {
                let x = run.x.add(row * inner);
                for output in first..last {
                    let mut sum = S::splat(0.0);
                    for at in (0..inner).step_by(UNPACKED) {
                        let count = (inner - at).min(UNPACKED);
                        let blocks = run.blocks.add(output * row_bytes + at / F::BLOCK * F::BYTES);
                        expand::<S, F>(blocks, count / F::BLOCK, &mut scales, weight.as_mut_ptr());
                        for k in (0..count).step_by(S::LANES) {
                            sum = S::mul_add(S::load(x.add(at + k)), S::load(weight.as_ptr().add(k)), sum);
                        }
                    }
                    *run.out.add(row * outputs + output) = S::reduce_add(sum);
                }
            }
        }
    }
}
