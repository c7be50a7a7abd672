//! Operations of the primitives that have kernels of their own, by formula.

use lanthorn_ir::Prim;
use lanthorn_ir::layout::numel;
use lanthorn_ir::prim::attention::{Attend, Position};
use lanthorn_ir::prim::{
    Attention, Index, Linalg, Loss, Norm, Paged, Quantized, Random, Recurrent, Reduce, Scan, ScanOp,
    ScatterOp, State, Window,
};

use super::{product, times, touched};
use crate::kernel::Operand;

/// Operations of `prim` on operands and results of these shapes.
pub(super) fn flops(prim: &Prim, inputs: &[Vec<usize>], outputs: &[Vec<usize>]) -> u64 {
    let shape = |at: usize| inputs.get(at).map_or(&[][..], Vec::as_slice);
    let input = |at: usize| inputs.get(at).map_or(0, |shape| numel(shape) as u64);
    let output = outputs.first().map_or(0, |shape| numel(shape) as u64);
    let each = |operations: u64| times(&[operations, input(0)]);
    match prim {
        Prim::Source(_) | Prim::Movement(_) | Prim::Control(_) | Prim::Complex(_) => 0,
        Prim::Elementwise(_) => output,
        Prim::Reduce(Reduce::Fold { .. } | Reduce::ArgMax { .. } | Reduce::ArgMin { .. }) => each(1),
        Prim::Contract(_) => {
            let (m, k, n, batch) = product(shape(0), shape(1));
            times(&[2, batch, m, n, k])
        }
        Prim::Index(index) => match index {
            Index::Embedding | Index::Gather { .. } | Index::Scatter { op: ScatterOp::Set, .. } => 0,
            Index::EmbeddingGrad { .. } => each(1),
            Index::Scatter { .. } => input(2),
        },
        // Of floats; the rounds of Philox are integer arithmetic and not counted.
        Prim::Random(random) => match random {
            Random::Uniform { .. } => output,
            // Logarithm, root, turn and two products.
            Random::Normal { .. } => times(&[5, output]),
            Random::Bits { .. } => 0,
        },
        Prim::Norm(norm) => each(match norm {
            // Maximum, difference, exponential, sum, and a quotient or difference.
            Norm::Softmax | Norm::LogSoftmax => 5,
            Norm::SoftmaxGrad | Norm::LogSoftmaxGrad => 4,
            // Sum; difference, square, sum; difference, factor, weight, bias.
            Norm::LayerNorm { .. } => 8,
            // The normalised value 2, times the weight 1, two sums 3, the result 4, weight 2 and bias 1.
            Norm::LayerNormGrad => 13,
            // Square, sum; factor, weight.
            Norm::RmsNorm { .. } => 4,
            Norm::RmsNormGrad => 9,
        }),
        Prim::Attention(attention) => attended(attention, shape(0), shape(1), shape(2)),
        Prim::Recurrent(recurrent) => match recurrent {
            Recurrent::LinearScan { .. } => each(2),
            // For each element of the state and step: decay, read by the key, update, read by the query.
            Recurrent::DeltaRule { .. } => {
                let value = shape(2).last().map_or(0, |&size| size as u64);
                times(&[7, input(0), value])
            }
            // Product and sum for each tap.
            Recurrent::ShortConv { .. } => {
                times(&[2, input(0), shape(1).last().map_or(0, |&taps| taps as u64)])
            }
        },
        // Maximum, difference, exponential, sum; difference, exponential, one-hot, factor.
        Prim::Loss(Loss::CrossEntropy { .. } | Loss::CrossEntropyGrad { .. }) => each(4),
        Prim::State(state) => match state {
            State::UpdateSlice { .. } => 0,
            // As its formula is written.
            State::AdamW { .. } => each(16),
        },
        // Each result sums products over the kernel's places and its group's channels.
        Prim::Window(Window::Conv(_)) => {
            let channels = shape(1).first().map_or(1, |&size| size.max(1) as u64);
            times(&[2, output, input(1) / channels])
        }
        // Two products and a sum for each element that turns; angles are not counted.
        Prim::Position(lanthorn_ir::prim::Position::Rotary(rotary)) => {
            let width = shape(0).last().map_or(1, |&size| size.max(1) as u64);
            times(&[3, input(0) / width, rotary.width as u64])
        }
        // A factor and a minimum each.
        Prim::Quantized(Quantized::Dequantize(_)) => times(&[2, output]),
        Prim::Quantized(Quantized::Linear(_)) => {
            let rows = shape(1).first().map_or(0, |&size| size as u64);
            times(&[2, input(0), rows])
        }
        Prim::Scan(Scan::Cumulative { op, .. }) => each(if *op == ScanOp::LogSumExp { 4 } else { 1 }),
        // Comparisons of a merge sort.
        Prim::Sort(lanthorn_ir::prim::Sort::Stable { axis, .. }) => {
            let length = shape(0).get(*axis).map_or(1, |&size| size.max(1));
            each(u64::from(length.next_power_of_two().trailing_zeros()))
        }
        Prim::Linalg(linalg) => factored(linalg, shape(0), shape(1)),
        Prim::Paged(Paged::Update) => 0,
        // All of the room counts, as for a cache above.
        Prim::Paged(Paged::Attention(_)) => {
            let slots =
                inputs.iter().rev().nth(2).and_then(|tables| tables.get(1)).map_or(0, |&slots| slots as u64);
            let (size, width) = match shape(1) {
                &[_, size, _, width] => (size as u64, width as u64),
                _ => (0, 0),
            };
            let rows = input(0).checked_div(width).unwrap_or(0);
            times(&[rows, slots, size, 4 * width + 5])
        }
    }
}

/// Bytes read and written where that is not all of every operand.
pub(super) fn bytes(prim: &Prim, inputs: &[Operand], outputs: &[Operand]) -> (Option<u64>, Option<u64>) {
    let of = |operands: &[Operand], at: usize| operands.get(at).map_or(0, touched);
    match prim {
        // Of the table only what is asked for.
        Prim::Index(Index::Embedding | Index::Gather { .. }) => {
            (Some(of(outputs, 0).saturating_add(of(inputs, 1))), None)
        }
        // In place, which is how it is planned where nothing else reads the base.
        Prim::State(State::UpdateSlice { .. }) => {
            (Some(of(inputs, 1).saturating_add(of(inputs, 2))), Some(of(inputs, 1)))
        }
        Prim::Paged(Paged::Update) => (Some(of(inputs, 1)), Some(of(inputs, 1))),
        _ => (None, None),
    }
}

/// For each pair of a query and a key that it sees: forward, products with `k` and `v` (`2 d + 2 dv`) and 5 for the
/// softmax; backward, five products (`6 d + 4 dv`) and 8. Where an operand says how much of the cache is valid,
/// all of it counts.
fn attended(attention: &Attention, q: &[usize], k: &[usize], v: &[usize]) -> u64 {
    let (&[batch, queries, heads, d], &[_, keys, _, _], &[_, _, _, dv]) = (q, k, v) else { return 0 };
    let pairs = times(&[batch as u64, heads as u64, visible(attention.attend(), queries, keys)]);
    let (d, dv) = (d as u64, dv as u64);
    match attention {
        Attention::Forward(_) => times(&[pairs, 2 * d + 2 * dv + 5]),
        Attention::Grad { .. } => times(&[pairs, 6 * d + 4 * dv + 8]),
    }
}

/// Pairs of a query and a key that it sees by position.
fn visible(attend: &Attend, queries: usize, keys: usize) -> u64 {
    let is_whole = !attend.causal && attend.left.is_none() && attend.right.is_none();
    if is_whole || attend.position == Position::Past {
        return times(&[queries as u64, keys as u64]);
    }
    let (keys, start) = match attend.position {
        Position::Last => (keys as i64, keys as i64 - queries as i64),
        _ => (keys as i64, 0),
    };
    let seen = |query: i64| {
        let at = query + start;
        let low = attend.left.map_or(0, |left| at.saturating_sub(left as i64)).max(0);
        let causal = if attend.causal { at } else { i64::MAX };
        let right = attend.right.map_or(i64::MAX, |right| at.saturating_add(right as i64));
        let high = causal.min(right).min(keys - 1);
        (high - low + 1).max(0) as u64
    };
    (0..queries as i64).map(seen).sum()
}

/// Golub and Van Loan, "Matrix Computations", 4th edition: Cholesky 4.2, LU 3.4, QR 5.2, eigenvalues 8.3, singular
/// values 8.6. `a` is the first operand, `b` the second.
fn factored(linalg: &Linalg, a: &[usize], b: &[usize]) -> u64 {
    let [batch @ .., m, n] = a else { return 0 };
    let (m, n, batch) = (*m as f64, *n as f64, numel(batch) as f64);
    let columns = b.last().map_or(0.0, |&size| size as f64);
    let (long, short) = (m.max(n), m.min(n));
    let lu = short * short * (long - short / 3.0);
    let qr = 2.0 * short * short * (long - short / 3.0);
    let svd = 14.0 * long * short * short + 8.0 * short.powi(3);
    let one = match linalg {
        Linalg::Cholesky => n.powi(3) / 3.0,
        Linalg::Lu { .. } | Linalg::Det | Linalg::SlogDet => lu,
        Linalg::Permutation { .. } => 0.0,
        Linalg::TriangularSolve { .. } => n * n * columns,
        // Reflections, then their product.
        Linalg::Qr { .. } => 2.0 * qr,
        Linalg::Completion => 2.0 * qr,
        Linalg::Eigh => 9.0 * n.powi(3),
        Linalg::Svd => svd,
        Linalg::Solve { .. } => lu + 2.0 * n * n * columns,
        Linalg::Cofactor => svd + 2.0 * n.powi(3),
        Linalg::Pinv { .. } => svd + 2.0 * long * short * short,
        // Five products and a solve; squarings depend on the norm and are not counted.
        Linalg::MatrixExp => (10.0 + 8.0 / 3.0) * n.powi(3),
    };
    // Saturates.
    (batch * one).round() as u64
}
