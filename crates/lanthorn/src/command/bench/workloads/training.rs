//! Steps of training.

use lanthorn_ir::ops::Reduction;
use lanthorn_ir::{DType, Lazy, TensorType, Value, ops, transform};
use lanthorn_nn::models::gpt::Head;
use lanthorn_nn::trainer::{Trainer, TrainerConfig};
use lanthorn_nn::{Gpt, GptConfig, Optimizer, Schedule, WindowSampler};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};

use super::{Make, f32s, filled};
use crate::bench::Workload;
use crate::bench::peer::Kind;
use crate::failure::Result;

pub const ALL: &[(&str, Make)] = &[("mlp_step", mlp_step), ("gpt_step", gpt_step)];

/// One Adam step of a 784-512-512-10 perceptron on 128 images: forward, mean cross-entropy, backward and update as one
/// program, whose state is donated to it.
fn mlp_step(device: &Device, name: &'static str) -> Result<Workload> {
    const BATCH: usize = 128;
    let sizes = [784, 512, 512, 10];
    let types: Vec<TensorType> =
        sizes.windows(2).flat_map(|w| [f32s(&[w[1], w[0]]), f32s(&[w[1]])]).collect();
    let count = types.len();
    let leaf = |ty: &TensorType| Value::leaf(ty.clone());
    let leaves = |_: usize| types.iter().map(leaf).collect::<lanthorn_ir::Result<Vec<Value>>>();
    let (weights, m, v) = (leaves(0)?, leaves(1)?, leaves(2)?);
    let images = leaf(&f32s(&[BATCH, sizes[0]]))?;
    let labels = leaf(&TensorType::new(DType::I64, [BATCH]))?;
    let controls: Vec<Value> = (0..3).map(|_| leaf(&f32s(&[]))).collect::<lanthorn_ir::Result<_>>()?;

    let mut x = images.clone();
    for (layer, pair) in weights.chunks(2).enumerate() {
        x = ops::linear(&Lazy, &x, &pair[0], Some(&pair[1]))?;
        if layer + 1 < count / 2 {
            x = ops::relu(&Lazy, &x)?;
        }
    }
    let loss = ops::cross_entropy(&Lazy, &x, &labels, Reduction::Mean, None, None, 0.0, -1)?;
    let gradients = transform::grad(&loss, &weights)?;
    let mut updated: [Vec<Value>; 3] = Default::default();
    for at in 0..count {
        let [lr, bias1, bias2] = [0, 1, 2].map(|i| &controls[i]);
        let (p, g) = (&weights[at], &gradients[at]);
        let step = ops::adamw(&Lazy, p, g, &m[at], &v[at], lr, bias1, bias2, 0.9, 0.999, 1e-8, 0.0)?;
        updated.iter_mut().zip(step).for_each(|(all, one)| all.push(one));
    }
    let parameters = [&weights[..], &m, &v, &[images, labels], &controls].concat();
    let roots = [&updated.concat()[..], &[loss]].concat();
    let options =
        Options { donated: (0..3 * count as u32).map(|at| (at, at)).collect(), ..Options::default() };
    let program = Executable::new(device, &parameters, &roots, &options)?;

    let state = (0..3 * count).map(|at| {
        let ty = &types[at % count];
        let seed = if at < count { at } else { 0 };
        let whole = filled(device, ty, seed)?;
        // Moments begin at 0, weights small.
        let scale = if at < count { 0.05 } else { 0.0 };
        Ok(ops::mul_scalar(&lanthorn_runtime::Eager::new(device), &whole, scale)?)
    });
    let mut state = state.collect::<Result<Vec<EagerTensor>>>()?;
    let images = filled(device, &f32s(&[BATCH, sizes[0]]), 1)?;
    let labels = EagerTensor::from_vec(device, &[BATCH], (0..BATCH).map(|i| (i * 7 % 10) as i64).collect())?;
    let (cancel, mut step) = (CancelToken::never(), 0);
    let products: usize = sizes.windows(2).map(|w| w[0] * w[1]).sum();
    let device = device.clone();
    Ok(Workload {
        name,
        peer: Kind::Torch,
        makes: (0.0, ""),
        target: Some(1.5),
        flops: 3.0 * 2.0 * (BATCH * products) as f64,
        bytes: 0.0,
        run: Box::new(move || {
            step += 1;
            let bias = |beta: f64| EagerTensor::scalar(&device, 1.0 - beta.powi(step), DType::F32);
            let controls = [EagerTensor::scalar(&device, 1e-3, DType::F32)?, bias(0.9)?, bias(0.999)?];
            let batch = [&images, &labels];
            let arguments: Vec<&EagerTensor> = state.iter().chain(batch).chain(&controls).collect();
            let mut results = program.call(&arguments, &cancel)?;
            results.truncate(3 * count);
            state = results;
            Ok(())
        }),
    })
}

/// Forward, backward, clipping and AdamW of the GPT that the peer trains: 4 layers, 256 wide, 8 heads, sequence 128,
/// batch 8, vocabulary 2048.
fn gpt_step(device: &Device, name: &'static str) -> Result<Workload> {
    let (vocab, context, batch) = (2048, 128, 8);
    let config = GptConfig {
        vocab,
        context,
        layers: 4,
        width: 256,
        heads: 8,
        dropout: 0.0,
        head: Head::Untied,
        norm_eps: 1e-5,
    };
    let settings = TrainerConfig {
        optimizer: Optimizer::language_model(),
        schedule: Schedule::Constant { lr: 1e-4 },
        seed: 1,
        ..TrainerConfig::default()
    };
    let mut trainer = Trainer::new(device, Gpt::new(config)?, settings)?;
    let tokens: Vec<u32> = (0..100_000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 21).collect();
    let mut sampler = WindowSampler::new(tokens, context, 1)?;
    let cancel = CancelToken::never();
    // Products of the weights, and of scores and values, forward once and backward twice.
    let (tokens, width) = ((batch * context) as f64, 256.0);
    let weights = 4.0 * 12.0 * width * width + vocab as f64 * width;
    let attention = 4.0 * 2.0 * tokens * context as f64 * width;
    Ok(Workload {
        name,
        peer: Kind::Torch,
        makes: (0.0, ""),
        target: Some(1.35),
        flops: 3.0 * 2.0 * (weights * tokens + attention),
        bytes: 0.0,
        run: Box::new(move || {
            let batch = sampler.next_batch(batch)?;
            trainer.step(&batch, &cancel)?;
            Ok(())
        }),
    })
}
