//! Few rows: dot products of integers, straight from the packed blocks.
//!
//! Bound by reading the weight, which is read once: a block is unpacked to integers of 16 bits, multiplied with those of
//! each row ([`activations`](super::activations)), and the sum of 32 products, which 32 bits hold, goes into the result as
//! f32, times both scales. What a minimum or an offset adds is the same for a whole group, so whole vectors of groups are
//! taken care of at once.
//!
//! A row with a number that is not finite has no such integers. It is multiplied as f32, after the others.

use super::activations::{Layout, Row, quantize};
use super::expand::{Scales, expand};
use super::formats::{Format, GROUPS, Places, STRETCH, TOGETHER};
use super::{QuantizedPlan, QuantizedShape, row_bytes};
use crate::pool::pool;
use crate::simd::{Simd, SimdOp, dispatch_on};

/// Bytes of the weight that a task reads, about.
const TASK_BYTES: usize = 1 << 15;
/// Tasks that there should be at least.
const TASKS: usize = 16;
/// Bytes ahead of those that are read at which memory is asked for: beyond the page in which the processor does that itself.
const AHEAD: usize = 4096;
/// Pairs of rows that are multiplied at once.
const MOST: usize = TOGETHER;

pub(super) fn scratch_bytes<F: Format>(shape: &QuantizedShape) -> usize {
    Layout::new::<F>(shape).bytes()
}

/// Rows of the weight that a task takes, from the shape alone.
fn outputs_per_task(outputs: usize, row_bytes: usize) -> usize {
    (TASK_BYTES / row_bytes.max(1)).clamp(1, outputs.div_ceil(TASKS).max(1)).next_multiple_of(MOST)
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
        let mut places = Workplace { scale: PLACES, minimum: PLACES, factors: PLACES };
        let is_short = inner <= STRETCH;
        for output in (first..last).step_by(MOST) {
            let width = MOST.min(last - output);
            if is_short {
                // SAFETY: these rows follow each other in memory, and have no more groups than there are places.
                unsafe {
                    let blocks = run.blocks.add(output * row_bytes);
                    let count = width * inner / F::BLOCK;
                    F::scales::<S>(blocks, count, &mut places.scale, &mut places.minimum);
                }
            }
            // A multiplication takes four pairs of a row of x and one of the weight. Where there are fewer, the last is
            // taken again.
            macro_rules! multiply {
                ($row:ident, $rows:literal, $width:literal) => {{
                    for part in (0..width).step_by($width) {
                        let row = |i: usize| ($row + i).min(rows - 1);
                        let column = |j: usize| (part + j).min(width - 1);
                        // SAFETY: the rows and the results exist.
                        unsafe {
                            let quantized = std::array::from_fn(|i| run.layout.row(run.scratch, row(i)));
                            let weight = std::array::from_fn(|j| Weight {
                                blocks: run.blocks.add((output + column(j)) * row_bytes),
                                groups: is_short.then_some(column(j) * (inner / F::GROUP)),
                            });
                            let sums = dots::<S, F, $rows, $width>(inner, weight, quantized, &mut places);
                            for (j, sums) in sums.as_chunks::<$rows>().0.iter().enumerate() {
                                for (i, sum) in sums.iter().enumerate() {
                                    *run.out.add(row(i) * outputs + output + column(j)) = *sum;
                                }
                            }
                        }
                    }
                    $row += $rows;
                }};
            }
            let mut row = 0;
            while row < rows {
                match rows - row {
                    1 => multiply!(row, 1, 4),
                    2 => multiply!(row, 2, 2),
                    _ => multiply!(row, 4, 1),
                }
            }
        }
    }
}

const PLACES: Places = [0.0; TOGETHER * GROUPS];

/// Places for the scales of some rows of the weight, and for the products of those with the scales of rows of x.
struct Workplace {
    scale: Places,
    minimum: Places,
    factors: Places,
}

/// A row of the weight.
#[derive(Clone, Copy)]
struct Weight {
    blocks: *const u8,
    /// Its first group among the scales that have been read, if they have.
    groups: Option<usize>,
}

/// Rows of the weight times rows of x: `ROWS · WIDTH` are [`MOST`]. The result of row `i` and `j` of the weight is at
/// `j · ROWS + i`.
///
/// # Safety
/// All have `inner` elements.
#[inline(always)]
unsafe fn dots<S: Simd, F: Format, const ROWS: usize, const WIDTH: usize>(
    inner: usize,
    weight: [Weight; WIDTH],
    rows: [Row; ROWS],
    places: &mut Workplace,
) -> [f32; MOST] {
    let Workplace { scale, minimum, factors } = places;
    let mut sums = [S::splat(0.0); MOST];
    for first in (0..inner).step_by(STRETCH) {
        let count = (inner - first).min(STRETCH) / F::BLOCK;
        let skipped = first / F::BLOCK * F::BYTES;
        // SAFETY: the caller's promise; a stretch has no more groups than the places of one.
        unsafe {
            for (j, weight) in weight.iter().enumerate() {
                let groups = weight.groups.unwrap_or(j * GROUPS);
                if weight.groups.is_none() {
                    let (scale, minimum) = (&mut scale[groups..], &mut minimum[groups..]);
                    F::scales::<S>(weight.blocks.add(skipped), count, scale, minimum);
                }
                for (i, row) in rows.iter().enumerate() {
                    let at = j * ROWS + i;
                    let groups = Groups {
                        count: count * F::BLOCK / F::GROUP,
                        row: row.at_group(first / F::GROUP),
                        scale: scale.as_ptr().add(groups),
                        minimum: minimum.as_ptr().add(groups),
                        factors: factors.as_mut_ptr().add(at * GROUPS),
                    };
                    sums[at] = groups.add::<S, F>(sums[at]);
                }
            }
            for block in 0..count {
                macro_rules! add_parts {
                    ($($part:literal)*) => {
                        $(if $part < F::BLOCK / 32 {
                            let k = block * F::BLOCK + $part * 32;
                            for (j, weight) in weight.iter().enumerate() {
                                let block = weight.blocks.add(skipped + block * F::BYTES);
                                S::prefetch(block.wrapping_add(AHEAD).cast());
                                let integers = F::integers::<S>(block, $part);
                                let wide =
                                    if F::SIGNED { S::widen_signed(integers) } else { S::widen_unsigned(integers) };
                                for (i, row) in rows.iter().enumerate() {
                                    let at = j * ROWS + i;
                                    let x = row.integers.cast_const().add(first + k);
                                    let factor = factors.as_ptr().add(at * GROUPS + k / F::GROUP);
                                    sums[at] = add_dot::<S, F>(wide, x, factor, sums[at]);
                                }
                            }
                        })*
                    };
                }
                add_parts!(0 1 2 3 4 5 6 7);
            }
        }
    }
    S::reduce_add_each(sums)
}

/// The groups of a stretch of a row of x and of one of the weight.
struct Groups {
    count: usize,
    row: Row,
    scale: *const f32,
    minimum: *const f32,
    factors: *mut f32,
}

impl Groups {
    /// Multiplies the scales, and adds to the sum what the offset or the minima of the groups add.
    #[inline(always)]
    unsafe fn add<S: Simd, F: Format>(self, mut sum: S::F) -> S::F {
        let Groups { count, row, scale, minimum, factors } = self;
        for at in (0..count).step_by(S::LANES) {
            let lanes = (count - at).min(S::LANES);
            // SAFETY: the caller's promise; the factors have places for whole vectors.
            unsafe {
                let of_row = load::<S>(row.scales.add(at), lanes);
                let factor = S::mul(load::<S>(scale.add(at), lanes), of_row);
                S::store(factors.add(at), factor);
                if F::OFFSET != 0.0 {
                    sum = S::mul_add(factor, load::<S>(row.sums.add(at), lanes), sum);
                }
                if F::MINIMUM {
                    let minimum = S::mul(load::<S>(minimum.add(at), lanes), of_row);
                    sum = S::mul_add(minimum, load::<S>(row.sums.add(at), lanes), sum);
                }
            }
        }
        sum
    }
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
        let mut weight = [0.0f32; UNPACKED];
        let mut scales = Scales::new();
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
