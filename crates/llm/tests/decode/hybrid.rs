//! Small language models of recurrent layers as plain functions of a builder, and the same by loops over steps.

use lanthorn_ir::philox::Philox;
use lanthorn_ir::{Builder, DType, Lazy, Result, ops, transform};
use lanthorn_llm::{DecodeRequest, Pool};
use lanthorn_runtime::{Device, Eager, EagerTensor};

use crate::models::{Engine, Trace, VOCAB, leaf};

const WIDTH: usize = 12;
pub const HEADS: usize = 2;
pub const HEAD_DIM: usize = 6;
pub const VALUE_DIM: usize = 5;
const KEYS: usize = HEADS * HEAD_DIM;
pub const VALUES: usize = HEADS * VALUE_DIM;
pub const KERNEL: usize = 4;

/// A layer whose output is added to its input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layer {
    /// Kimi Delta Attention without gates: projections, short convolutions, a delta rule with a decay for each channel.
    Delta,
    /// A short convolution of so many taps.
    Convolution(usize),
    /// Causal attention with rotations.
    Attention,
}

/// Layers between an embedding and a head.
pub type Hybrid = &'static [Layer];

pub const DELTA: Hybrid = &[Layer::Delta];
pub const CONVOLUTIONS: Hybrid =
    &[Layer::Convolution(2), Layer::Convolution(1), Layer::Convolution(3), Layer::Convolution(7)];
pub const MIXED: Hybrid =
    &[Layer::Delta, Layer::Attention, Layer::Convolution(3), Layer::Delta, Layer::Attention];

fn shapes_of(layer: Layer) -> Vec<[usize; 2]> {
    match layer {
        Layer::Delta => vec![
            [KEYS, WIDTH],
            [KEYS, WIDTH],
            [VALUES, WIDTH],
            [KEYS, KERNEL],
            [KEYS, KERNEL],
            [VALUES, KERNEL],
            [KEYS, WIDTH],
            [HEADS, WIDTH],
            [WIDTH, VALUES],
        ],
        Layer::Convolution(taps) => vec![[WIDTH, taps]],
        Layer::Attention => vec![[KEYS, WIDTH]; 3].into_iter().chain([[WIDTH, KEYS]]).collect(),
    }
}

pub fn shapes(model: Hybrid) -> Vec<[usize; 2]> {
    [[VOCAB, WIDTH]; 2].into_iter().chain(model.iter().flat_map(|&layer| shapes_of(layer))).collect()
}

/// Parameters in f32 of which a seed decides.
pub fn numbers(model: Hybrid, seed: u64) -> Vec<Vec<f32>> {
    let one = |(at, shape): (usize, [usize; 2])| {
        let words = Philox::new(seed, at as u64, 11);
        (0..(shape[0] * shape[1]) as u64).map(|i| (2.0 * words.unit(i) - 1.0) as f32).collect()
    };
    shapes(model).into_iter().enumerate().map(one).collect()
}

pub fn tensors(device: &Device, model: Hybrid, numbers: &[Vec<f32>]) -> Vec<EagerTensor> {
    let pairs = shapes(model).into_iter().zip(numbers);
    pairs.map(|(shape, numbers)| EagerTensor::from_slice(device, &shape, numbers).unwrap()).collect()
}

/// Logits `[1, length, vocab]` of `ids [1, length]` at `positions [length]`.
pub fn forward<B: Builder>(
    model: Hybrid,
    b: &B,
    parameters: &[B::Value],
    ids: &B::Value,
    positions: &B::Value,
) -> Result<B::Value> {
    let mut x = ops::embedding(b, &parameters[0], ids)?;
    let mut rest = &parameters[2..];
    for &layer in model {
        let (weights, after) = rest.split_at(shapes_of(layer).len());
        rest = after;
        let y = match layer {
            Layer::Delta => delta(b, weights, &x)?,
            Layer::Convolution(_) => ops::short_conv1d(b, &x, &weights[0], None)?.swap_remove(0),
            Layer::Attention => attention(b, weights, &x, positions)?,
        };
        x = ops::add(b, &x, &y)?;
    }
    ops::linear(b, &x, &parameters[1], None)
}

fn heads<B: Builder>(b: &B, x: &B::Value, heads: usize) -> Result<B::Value> {
    let [batch, length, width] = b.ty(x).shape[..] else { panic!("of rank 3") };
    ops::reshape(b, x, &[batch, length, heads, width / heads].map(|size| size as isize))
}

fn delta<B: Builder>(b: &B, weights: &[B::Value], x: &B::Value) -> Result<B::Value> {
    let [wq, wk, wv, cq, ck, cv, decay, beta, wo] = weights else { panic!("nine weights") };
    let mixed = |weight, taps| -> Result<B::Value> {
        let near = ops::short_conv1d(b, &ops::linear(b, x, weight, None)?, taps, None)?.swap_remove(0);
        heads(b, &near, HEADS)
    };
    let (q, v) = (mixed(wq, cq)?, mixed(wv, cv)?);
    // Keys of length 1.
    let k = ops::rms_norm(b, &mixed(wk, ck)?, None, 1e-3)?;
    let k = ops::mul_scalar(b, &k, 1.0 / (HEAD_DIM as f64).sqrt())?;
    let decay = ops::square(b, &heads(b, &ops::linear(b, x, decay, None)?, HEADS)?)?;
    let decay = ops::mul_scalar(b, &decay, -0.1)?;
    let beta = ops::sigmoid(b, &ops::linear(b, x, beta, None)?)?;
    let o = ops::gated_delta_rule(b, &q, &k, &v, &decay, &beta, None, None, 64)?.swap_remove(0);
    let [batch, length] = [0, 1].map(|axis| b.ty(x).shape[axis] as isize);
    ops::linear(b, &ops::reshape(b, &o, &[batch, length, VALUES as isize])?, wo, None)
}

fn attention<B: Builder>(
    b: &B,
    weights: &[B::Value],
    x: &B::Value,
    positions: &B::Value,
) -> Result<B::Value> {
    let [wq, wk, wv, wo] = weights else { panic!("four weights") };
    let split = |weight| heads(b, &ops::linear(b, x, weight, None)?, HEADS);
    let turned = |x: B::Value| {
        ops::rotary_embedding(b, &x, Some(positions), 100.0, false, 1, None, None, 1.0, 4.0, 8192, false)
    };
    let o = ops::attention(b, &turned(split(wq)?)?, &turned(split(wk)?)?, &split(wv)?, true, None, None)?;
    let [batch, length] = [0, 1].map(|axis| b.ty(x).shape[axis] as isize);
    ops::linear(b, &ops::reshape(b, &o, &[batch, length, KEYS as isize])?, wo, None)
}

/// Logits after each of `tokens`, by a whole forward.
pub fn whole(device: &Device, model: Hybrid, parameters: &[EagerTensor], tokens: &[u32]) -> Vec<Vec<f32>> {
    let ids = EagerTensor::from_slice(device, &[1, tokens.len()], tokens).unwrap();
    let positions: Vec<i32> = (0..tokens.len() as i32).collect();
    let positions = EagerTensor::from_slice(device, &[tokens.len()], &positions).unwrap();
    let logits = forward(model, &Eager::new(device), parameters, &ids, &positions).unwrap();
    logits.to_vec::<f32>().unwrap().chunks(VOCAB).map(<[f32]>::to_vec).collect()
}

pub fn trace(model: Hybrid, length: usize) -> Trace {
    let tokens = leaf(DType::U32, &[1, length]);
    let bindings: Vec<_> = shapes(model).iter().map(|shape| leaf(DType::F32, shape)).collect();
    let positions = leaf(DType::I32, &[length]);
    let roots = vec![forward(model, &Lazy, &bindings, &tokens, &positions).unwrap()];
    Trace { roots, tokens, positions: vec![positions], bindings }
}

/// As [`trace`], of a model whose backward would compute everything anew.
pub fn checkpointed(model: Hybrid, length: usize) -> Trace {
    let mut trace = trace(model, length);
    let mut operands = trace.bindings.clone();
    operands.extend([trace.tokens.clone(), trace.positions[0].clone()]);
    let count = trace.bindings.len();
    trace.roots = transform::checkpoint(
        |v| Ok(vec![forward(model, &Lazy, &v[..count], &v[count], &v[count + 1])?]),
        &operands,
    )
    .unwrap();
    trace
}

/// Programs for pieces of `chunk` tokens of one sequence, and for single tokens of a batch.
pub fn engine(device: &Device, model: Hybrid, chunk: usize, request: &DecodeRequest) -> Engine {
    let single = DecodeRequest { batch: 1, ..request.clone() };
    let prefill = trace(model, chunk).program(device, &single).unwrap();
    let step = trace(model, 1).program(device, request).unwrap();
    assert_eq!(prefill.pool(), step.pool());
    let pool = Pool::new(device, step.pool().clone()).unwrap();
    Engine { pool, parameters: tensors(device, model, &numbers(model, 3)), prefill, step }
}

/// Logits after each of `tokens` in f64, one step after the other, of a model without attention.
pub fn by_loops(model: Hybrid, parameters: &[Vec<f32>], tokens: &[u32]) -> Vec<Vec<f64>> {
    let wide = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let row = |table: &[f32], at: usize| wide(&table[at * WIDTH..][..WIDTH]);
    let mut rows: Vec<Vec<f64>> = tokens.iter().map(|&token| row(&parameters[0], token as usize)).collect();
    let mut rest = &parameters[2..];
    for &layer in model {
        let (weights, after) = rest.split_at(shapes_of(layer).len());
        rest = after;
        let weights: Vec<Vec<f64>> = weights.iter().map(|weight| wide(weight)).collect();
        let added = match layer {
            Layer::Delta => delta_by_loops(&weights, &rows),
            Layer::Convolution(_) => convolved(&weights[0], &rows),
            Layer::Attention => panic!("attention is no recurrence"),
        };
        for (row, added) in rows.iter_mut().zip(added) {
            row.iter_mut().zip(added).for_each(|(x, y)| *x += y);
        }
    }
    rows.iter().map(|row| product(&wide(&parameters[1]), row)).collect()
}

/// A matrix of rows as long as `x`, times `x`.
fn product(matrix: &[f64], x: &[f64]) -> Vec<f64> {
    matrix.chunks(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
}

fn convolved(weight: &[f64], rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let channels = rows[0].len();
    let taps = weight.len() / channels;
    let one = |at: usize, channel: usize| -> f64 {
        let term = |tap: usize| {
            (at + tap + 1)
                .checked_sub(taps)
                .map_or(0.0, |from| weight[channel * taps + tap] * rows[from][channel])
        };
        (0..taps).map(term).sum()
    };
    (0..rows.len()).map(|at| (0..channels).map(|channel| one(at, channel)).collect()).collect()
}

fn delta_by_loops(weights: &[Vec<f64>], rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let [wq, wk, wv, cq, ck, cv, decay, beta, wo] = weights else { panic!("nine weights") };
    let projected = |weight: &[f64]| rows.iter().map(|row| product(weight, row)).collect::<Vec<_>>();
    let [q, k, v] = [(wq, cq), (wk, ck), (wv, cv)].map(|(weight, taps)| convolved(taps, &projected(weight)));
    let (decays, betas) = (projected(decay), projected(beta));
    let mut states = vec![[[0.0; VALUE_DIM]; HEAD_DIM]; HEADS];
    let mut outputs = Vec::new();
    for at in 0..rows.len() {
        let mut o = Vec::new();
        for (head, state) in states.iter_mut().enumerate() {
            let keys = head * HEAD_DIM..(head + 1) * HEAD_DIM;
            let (q, k, v) = (&q[at][keys.clone()], &k[at][keys.clone()], &v[at][head * VALUE_DIM..]);
            let mean = k.iter().map(|x| x * x).sum::<f64>() / HEAD_DIM as f64;
            let k: Vec<f64> = k.iter().map(|x| x / ((mean + 1e-3) * HEAD_DIM as f64).sqrt()).collect();
            for (line, x) in state.iter_mut().zip(&decays[at][keys]) {
                line.iter_mut().for_each(|s| *s *= (-0.1 * x * x).exp());
            }
            let beta = 1.0 / (1.0 + (-betas[at][head]).exp());
            for column in 0..VALUE_DIM {
                let known: f64 = state.iter().zip(&k).map(|(line, k)| line[column] * k).sum();
                let error = beta * (v[column] - known);
                state.iter_mut().zip(&k).for_each(|(line, k)| line[column] += k * error);
                let read: f64 = state.iter().zip(q).map(|(line, q)| line[column] * q).sum();
                o.push(read / (HEAD_DIM as f64).sqrt());
            }
        }
        outputs.push(product(wo, &o));
    }
    outputs
}
