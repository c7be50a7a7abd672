//! Products of tiles, blocked for registers.
//!
//! The three that attention consists of, each with its strides as constants:
//!
//! | kind | product | left | right | result |
//! |---|---|---|---|---|
//! | [`SCORES`] | `S^T[key, query] = K[key, c] Q^T[c, query]` | blocked | by query | by query |
//! | [`TO_QUERIES`] | `O[query, c] = P[key, query] V[key, c]` | by query | blocked | blocked |
//! | [`TO_KEYS`] | `dV[key, c] = P[key, query] dO[query, c]` | by query | blocked | blocked |
//!
//! A product is an op of its own, dispatched from within kernels, so that its code exists once per
//! instruction set and not once per place of use.

use super::TILE;
use crate::rows::wide::{Vector, Wide};
use crate::simd::{Simd, SimdOp, dispatch_on};

pub(super) const SCORES: u8 = 0;
pub(super) const TO_QUERIES: u8 = 1;
pub(super) const TO_KEYS: u8 = 2;

/// What the result begins with.
#[derive(Clone, Copy)]
pub(super) enum Start<W> {
    Zero,
    /// What is there.
    Sum,
    /// What is there, row `m` times the factor at `m`.
    Scaled(*const W),
}

/// A product of `rows x depth` by `depth x columns`, columns in whole vectors. The pointers are to the first elements.
pub(super) struct Product<W, const KIND: u8> {
    pub rows: usize,
    pub vectors: usize,
    pub depth: usize,
    pub left: *const W,
    pub right: *const W,
    pub result: *mut W,
    pub start: Start<W>,
}

impl<W: Wide, const KIND: u8> Product<W, KIND> {
    /// # Safety
    /// The operands are tiles of the kind's forms, for the instruction set `S`, that hold the rows, vectors and
    /// depth. For [`SCORES`] the depth is whole vectors.
    #[inline(always)]
    pub unsafe fn compute<S: Simd>(self) {
        dispatch_on(S::ISA, self);
    }
}

/// Distances in a product, in elements.
#[derive(Clone, Copy)]
struct Strides {
    left_row: usize,
    left_step: usize,
    /// After so many steps...
    run: usize,
    /// ... the left operand goes on so far from where the run began.
    left_run: usize,
    right_row: usize,
    right_vector: usize,
    result_row: usize,
    result_vector: usize,
}

#[inline(always)]
fn strides<W: Wide, S: Simd, const KIND: u8>() -> Strides {
    let lanes = W::lanes::<S>();
    let (row, vector) = (lanes, TILE * lanes);
    match KIND {
        SCORES => Strides {
            left_row: row,
            left_step: 1,
            run: lanes,
            left_run: vector,
            right_row: TILE,
            right_vector: lanes,
            result_row: TILE,
            result_vector: lanes,
        },
        _ => Strides {
            left_row: if KIND == TO_KEYS { TILE } else { 1 },
            left_step: if KIND == TO_KEYS { 1 } else { TILE },
            run: usize::MAX,
            left_run: 0,
            right_row: row,
            right_vector: vector,
            result_row: row,
            result_vector: vector,
        },
    }
}

impl<W: Wide, const KIND: u8> SimdOp for Product<W, KIND> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let strides = strides::<W, S, KIND>();
        // Accumulators, a row of the right operand and a factor must fit into the registers, and
        // accumulators must be enough to hide the latency of multiply-add, 8 on most machines.
        // SAFETY: the promise of `compute`; the blocks walk over the result.
        unsafe {
            if S::REGISTERS >= 32 {
                while self.vectors >= 4 {
                    columns::<W, S, KIND, 6, 4>(&self);
                    self.advance(strides, 4);
                }
            }
            while self.vectors >= 2 {
                if S::REGISTERS >= 32 {
                    columns::<W, S, KIND, 12, 2>(&self);
                } else {
                    columns::<W, S, KIND, 6, 2>(&self);
                }
                self.advance(strides, 2);
            }
            if self.vectors == 1 {
                columns::<W, S, KIND, 12, 1>(&self);
            }
        }
    }
}

impl<W: Wide, const KIND: u8> Product<W, KIND> {
    #[inline(always)]
    fn advance(&mut self, strides: Strides, vectors: usize) {
        self.vectors -= vectors;
        self.right = self.right.wrapping_add(vectors * strides.right_vector);
        self.result = self.result.wrapping_add(vectors * strides.result_vector);
    }
}

/// `WIDTH` vectors of columns, all rows.
#[inline(always)]
unsafe fn columns<W: Wide, S: Simd, const KIND: u8, const HEIGHT: usize, const WIDTH: usize>(
    product: &Product<W, KIND>,
) {
    let mut row = 0;
    // SAFETY: the promise of `compute`; the blocks walk over the rows.
    unsafe {
        while row + HEIGHT <= product.rows {
            block::<W, S, KIND, HEIGHT, WIDTH>(product, row);
            row += HEIGHT;
        }
        while row + 4 <= product.rows {
            block::<W, S, KIND, 4, WIDTH>(product, row);
            row += 4;
        }
        while row < product.rows {
            block::<W, S, KIND, 1, WIDTH>(product, row);
            row += 1;
        }
    }
}

/// One block of the result in registers.
#[inline(always)]
unsafe fn block<W: Wide, S: Simd, const KIND: u8, const HEIGHT: usize, const WIDTH: usize>(
    product: &Product<W, KIND>,
    row: usize,
) {
    let strides = strides::<W, S, KIND>();
    let mut sums = [[Vector::<W, S>::zero(); WIDTH]; HEIGHT];
    let result = product.result.wrapping_add(row * strides.result_row);
    // SAFETY: the promise of `compute`.
    unsafe {
        match product.start {
            Start::Zero => {}
            Start::Sum => {
                for (i, sums) in sums.iter_mut().enumerate() {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = Vector::load(result.add(i * strides.result_row + j * strides.result_vector));
                    }
                }
            }
            Start::Scaled(factors) => {
                for (i, sums) in sums.iter_mut().enumerate() {
                    let factor = Vector::splat(*factors.add(row + i));
                    for (j, sum) in sums.iter_mut().enumerate() {
                        let old = result.add(i * strides.result_row + j * strides.result_vector);
                        *sum = Vector::load(old) * factor;
                    }
                }
            }
        }
        let mut left = product.left.wrapping_add(row * strides.left_row);
        let mut right = product.right;
        let mut rest = product.depth;
        while rest > 0 {
            let steps = rest.min(strides.run);
            let mut step = left;
            for _ in 0..steps {
                let mut vectors = [Vector::<W, S>::zero(); WIDTH];
                for (j, vector) in vectors.iter_mut().enumerate() {
                    *vector = Vector::load(right.add(j * strides.right_vector));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let factor = Vector::splat(*step.add(i * strides.left_row));
                    for (sum, vector) in sums.iter_mut().zip(&vectors) {
                        *sum = factor.mul_add(*vector, *sum);
                    }
                }
                step = step.wrapping_add(strides.left_step);
                right = right.wrapping_add(strides.right_row);
            }
            left = left.wrapping_add(strides.left_run);
            rest -= steps;
        }
        for (i, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                sum.store(result.add(i * strides.result_row + j * strides.result_vector));
            }
        }
    }
}
