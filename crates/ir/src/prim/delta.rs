//! The gated delta rule in simpler primitives: many steps at once by the WY form (Yang et al. 2024, "Parallelizing
//! Linear Transformers with the Delta Rule", section 3, and "Gated Delta Networks", section 3.3).
//!
//! Inside one chunk of `c` steps, with `G_i` the sum of the log decays up to and including step `i` and `S` the state
//! before the chunk, the state after step `i` is `exp(G_i) S + sum_(j <= i) exp(G_i - G_j) k_j u_j^T`, where the rows
//! `u_i = beta_i (v_i - (state before, decayed)^T k_i)` solve one unit lower triangular system:
//!
//! `(1 + A) U = beta V - beta (exp(G) K) S`, `A_ij = beta_i k_i^T exp(G_i - G_j) k_j` for `j < i`.
//!
//! Every exponent is a sum of log decays from `j + 1` to `i`, taken as such and never as a difference: at most 0,
//! exact after strong decays, and -inf rather than NaN after a reset.

use super::recurrent::running_sum;
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::ops;
use crate::prim::ReduceOp;

/// The sizes of one decomposition. Chunks of all heads are the matrices of one batch, heads outermost.
pub(super) struct Chunks<'a, B> {
    b: &'a B,
    wide: DType,
    batch: usize,
    steps: usize,
    heads: usize,
    /// Steps of a chunk.
    size: usize,
    /// Chunks of a head.
    count: usize,
}

/// What a chunk needs to know of the decays: `x [m, c, c, 1 or d]`, `[m, c, 1 or d]`, `[m, 1 or d, 1]`.
struct Decays<V> {
    /// `exp(G_i - G_j)`, 0 where `j > i`.
    between: V,
    /// `exp(G_i)`.
    since_start: V,
    /// `exp(G_c - G_j)`.
    until_end: V,
    /// `exp(G_c)`, as a factor of the state's rows.
    whole: V,
}

impl<'a, B: Builder> Chunks<'a, B> {
    /// `[o, state]` of `(q, k, v, log_decay, beta, state?)`.
    pub fn run(b: &'a B, scale: f64, chunk: usize, inputs: &[B::Value]) -> Result<Vec<B::Value>> {
        let (shape, value_width) = (ops::shape_of(b, &inputs[0]), b.ty(&inputs[2]).shape[3]);
        let dtype = b.ty(&inputs[2]).dtype;
        let size = chunk.min(shape[1]).max(1);
        let chunks = Chunks {
            b,
            wide: dtype.wide(),
            batch: shape[0],
            steps: shape[1],
            heads: shape[2],
            size,
            count: shape[1].div_ceil(size),
        };
        let first = match inputs.get(5) {
            Some(state) => state.clone(),
            None => ops::zeros(b, &[shape[0], shape[2], shape[3], value_width], chunks.wide)?,
        };
        if chunks.count == 0 {
            return Ok(vec![ops::zeros_like(b, &inputs[2])?, first]);
        }
        let state = ops::reshape_to(b, &first, &[chunks.matrices(), shape[3], value_width])?;
        let (rows, state) = chunks.solve(scale, inputs, state)?;
        Ok(vec![
            chunks.rows_back(&rows, value_width, dtype)?,
            ops::reshape_to(b, &state, &[shape[0], shape[2], shape[3], value_width])?,
        ])
    }

    fn matrices(&self) -> usize {
        self.batch * self.heads
    }

    /// `[b, t, h, ..]` to `[b h chunks, c, width]`, wide, with zeros behind the last step: these leave the state as
    /// it is.
    fn rows(&self, x: &B::Value) -> Result<B::Value> {
        let shape = ops::shape_of(self.b, x);
        let width = shape.get(3).copied().unwrap_or(1);
        let x = ops::reshape_to(self.b, x, &[self.batch, self.steps, self.heads, width])?;
        let x = ops::cast(self.b, &ops::permute_to(self.b, &x, &[0, 2, 1, 3])?, self.wide)?;
        let missing = self.count * self.size - self.steps;
        let x = match missing {
            0 => x,
            _ => ops::pad(self.b, &x, &[0; 4], &[0, 0, missing as isize, 0], 0.0)?,
        };
        ops::reshape_to(self.b, &x, &[self.matrices() * self.count, self.size, width])
    }

    /// `[b h, t and more, width]` to `[b, t, h, width]`.
    fn rows_back(&self, x: &B::Value, width: usize, dtype: DType) -> Result<B::Value> {
        let x = ops::slice_axis(self.b, x, 1, 0, self.steps, 1)?;
        let x = ops::reshape_to(self.b, &x, &[self.batch, self.heads, self.steps, width])?;
        ops::cast(self.b, &ops::permute_to(self.b, &x, &[0, 2, 1, 3])?, dtype)
    }

    /// Chunk `at` of each head: `[b h chunks, ..]` to `[b h, ..]`.
    fn chunk(&self, x: &B::Value, at: usize) -> Result<B::Value> {
        let mut shape = ops::shape_of(self.b, x);
        shape[0] = self.matrices();
        let mut split = shape.clone();
        split.insert(1, self.count);
        let x = ops::slice_axis(self.b, &ops::reshape_to(self.b, x, &split)?, 1, at, at + 1, 1)?;
        ops::reshape_to(self.b, &x, &shape)
    }

    /// A mask `[c, c]` of what `keep` says of row and column numbers.
    fn pairs(&self, keep: impl Fn(&B::Value, &B::Value) -> Result<B::Value>) -> Result<B::Value> {
        let column = ops::iota(self.b, self.size, DType::I32)?;
        keep(&ops::unsqueeze(self.b, &column, -1)?, &column)
    }

    /// From `log_decay` as rows `[m, c, 1 or d]`.
    fn decays(&self, log_decay: &B::Value) -> Result<Decays<B::Value>> {
        let b = self.b;
        let shape = ops::shape_of(b, log_decay);
        let width = shape[2];
        let full = [shape[0], self.size, self.size, width];
        let as_pairs = |mask: B::Value| ops::reshape_to(b, &mask, &[self.size, self.size, 1]);
        let later = as_pairs(self.pairs(|row, column| ops::gt(b, row, column))?)?;
        let seen = as_pairs(self.pairs(|row, column| ops::ge(b, row, column))?)?;
        let zero = ops::scalar(b, 0.0, self.wide)?;
        let hidden = ops::scalar(b, f64::NEG_INFINITY, self.wide)?;
        let rows = ops::broadcast_to(b, &ops::unsqueeze(b, log_decay, 2)?, &full)?;
        let sums = running_sum(b, &ops::where_(b, &later, &rows, &zero)?, 1)?;
        let between = ops::exp(b, &ops::where_(b, &seen, &sums, &hidden)?)?;
        let until_end = ops::slice_axis(b, &between, 1, self.size - 1, self.size, 1)?;
        let since_start = ops::exp(b, &running_sum(b, log_decay, 1)?)?;
        let whole = ops::slice_axis(b, &since_start, 1, self.size - 1, self.size, 1)?;
        Ok(Decays {
            between,
            since_start,
            until_end: ops::reshape_to(b, &until_end, &[shape[0], self.size, width])?,
            whole: ops::reshape_to(b, &whole, &[shape[0], width, 1])?,
        })
    }

    /// `x_i^T exp(G_i - G_j) y_j` for all `j <= i`, else 0: `[m, c, c]`.
    fn decayed_products(&self, x: &B::Value, y: &B::Value, between: &B::Value) -> Result<B::Value> {
        let b = self.b;
        let mut square = ops::shape_of(b, between);
        let width = square.pop();
        if width == Some(1) {
            let products = ops::matmul(b, x, &ops::transpose(b, y, 1, 2)?)?;
            return ops::mul(b, &products, &ops::reshape_to(b, between, &square)?);
        }
        let x = ops::mul(b, &ops::unsqueeze(b, x, 2)?, between)?;
        let products = ops::mul(b, &x, &ops::unsqueeze(b, y, 1)?)?;
        ops::reshape_to(b, &ops::fold(b, ReduceOp::Sum, &products, &[3])?, &square)
    }

    /// `(1 + a)^-1` for strictly lower triangular `a [m, c, c]`, by the inverses of ever larger blocks on the
    /// diagonal: `[[X, 0], [-Y a X, Y]]` from `X` and `Y`. This is as stable as substitution; powers of `a` are not.
    fn unit_lower_inverse(&self, a: &B::Value) -> Result<B::Value> {
        let b = self.b;
        let zero = ops::scalar(b, 0.0, self.wide)?;
        let one = ops::scalar(b, 1.0, self.wide)?;
        let diagonal = self.pairs(|row, column| ops::eq(b, row, column))?;
        let mut inverse =
            ops::broadcast_to(b, &ops::where_(b, &diagonal, &one, &zero)?, &ops::shape_of(b, a))?;
        let mut block = 1;
        while block < self.size {
            // Blocks below the diagonal: an odd row of blocks, and the column of blocks before it.
            let below = self.pairs(|row, column| {
                let width = block as i64;
                let (row, column) = (ops::div_scalar(b, row, width)?, ops::div_scalar(b, column, width)?);
                let is_odd = ops::eq_scalar(b, &ops::rem_scalar(b, &row, 2i64)?, 1i64)?;
                ops::logical_and(b, &is_odd, &ops::eq(b, &row, &ops::add_scalar(b, &column, 1i64)?)?)
            })?;
            let below = ops::where_(b, &below, a, &zero)?;
            let update = if block == 1 {
                below
            } else {
                ops::matmul(b, &inverse, &ops::matmul(b, &below, &inverse)?)?
            };
            inverse = ops::sub(b, &inverse, &update)?;
            block *= 2;
        }
        Ok(inverse)
    }

    /// The outputs as rows `[b h, chunks c, dv]` and the last state.
    fn solve(&self, scale: f64, inputs: &[B::Value], mut state: B::Value) -> Result<(B::Value, B::Value)> {
        let b = self.b;
        let q = ops::mul_scalar(b, &self.rows(&inputs[0])?, scale)?;
        let (k, v) = (self.rows(&inputs[1])?, self.rows(&inputs[2])?);
        let beta = self.rows(&inputs[4])?;
        let decays = self.decays(&self.rows(&inputs[3])?)?;

        let products = ops::mul(b, &self.decayed_products(&k, &k, &decays.between)?, &beta)?;
        let strict = self.pairs(|row, column| ops::gt(b, row, column))?;
        let a = ops::where_(b, &strict, &products, &ops::scalar(b, 0.0, self.wide)?)?;
        let inverse = self.unit_lower_inverse(&a)?;
        let values = ops::matmul(b, &inverse, &ops::mul(b, &v, &beta)?)?;
        let seen = ops::mul(b, &ops::mul(b, &k, &decays.since_start)?, &beta)?;
        let seen = ops::matmul(b, &inverse, &seen)?;
        let inside = self.decayed_products(&q, &k, &decays.between)?;
        let from_state = ops::mul(b, &q, &decays.since_start)?;
        let into_state = ops::transpose(b, &ops::mul(b, &k, &decays.until_end)?, 1, 2)?;

        let mut outputs = Vec::with_capacity(self.count);
        for at in 0..self.count {
            let chunk = |x: &B::Value| self.chunk(x, at);
            let u = ops::sub(b, &chunk(&values)?, &ops::matmul(b, &chunk(&seen)?, &state)?)?;
            let old = ops::matmul(b, &chunk(&from_state)?, &state)?;
            outputs.push(ops::add(b, &old, &ops::matmul(b, &chunk(&inside)?, &u)?)?);
            let kept = ops::mul(b, &state, &chunk(&decays.whole)?)?;
            state = ops::add(b, &kept, &ops::matmul(b, &chunk(&into_state)?, &u)?)?;
        }
        Ok((ops::concat(b, &outputs, 1)?, state))
    }
}
