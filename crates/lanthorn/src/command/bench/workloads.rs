//! What is measured.

use lanthorn_ir::{DType, Lazy, TensorType, Value, ops};
use lanthorn_nn::models::gpt::Head;
use lanthorn_nn::trainer::{Trainer, TrainerConfig};
use lanthorn_nn::{AdamWConfig, Gpt, GptConfig, Schedule, WindowSampler};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};

use super::Workload;
use crate::failure::Result;

/// Every workload; names are those of `benches/peers/torch_peer.py`.
pub fn all() -> Result<Vec<Workload>> {
    let device = crate::device();
    Ok(vec![
        matmul(&device, "matmul_f32_256", 256, DType::F32)?,
        matmul(&device, "matmul_f32_512", 512, DType::F32)?,
        matmul(&device, "matmul_f32_1024", 1024, DType::F32)?,
        matmul(&device, "matmul_f32_2048", 2048, DType::F32)?,
        matmul(&device, "matmul_bf16_1024", 1024, DType::BF16)?,
        gpt_step(&device)?,
    ])
}

/// `[n, n] x [n, n]` into fresh memory, as a compiled program.
fn matmul(device: &Device, name: &'static str, n: usize, dtype: DType) -> Result<Workload> {
    let ty = TensorType::new(dtype, [n, n]);
    let (a, b) = (Value::leaf(ty.clone())?, Value::leaf(ty)?);
    let product = ops::matmul(&Lazy, &a, &b)?;
    let program = Executable::new(device, &[a, b], &[product], &Options::default())?;
    let filled = |seed: usize| -> Result<EagerTensor> {
        let values: Vec<f32> = (0..n * n).map(|i| ((i * 31 + seed) % 1009) as f32 / 1009.0 - 0.5).collect();
        let wide = EagerTensor::from_vec(device, &[n, n], values)?;
        Ok(ops::cast(&lanthorn_runtime::Eager::new(device), &wide, dtype)?)
    };
    let (a, b) = (filled(1)?, filled(2)?);
    let cancel = CancelToken::never();
    Ok(Workload {
        name,
        // The peer has bf16 instructions on some processors and emulates them on others.
        target: (dtype == DType::F32).then_some(1.0),
        flops: 2.0 * (n as f64).powi(3),
        run: Box::new(move || {
            program.call(&[&a, &b], &cancel)?;
            Ok(())
        }),
    })
}

/// Forward, backward, clipping and AdamW of the GPT that the peer trains: 4 layers, 256 wide, 8 heads, sequence 128,
/// batch 8, vocabulary 2048.
fn gpt_step(device: &Device) -> Result<Workload> {
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
        optimizer: AdamWConfig::default(),
        schedule: Schedule::Constant { lr: 1e-4 },
        seed: 1,
        dtype: DType::F32,
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
        name: "gpt_step",
        target: Some(1.0),
        flops: 3.0 * 2.0 * (weights * tokens + attention),
        run: Box::new(move || {
            let batch = sampler.next_batch(batch)?;
            trainer.step(&batch, &cancel)?;
            Ok(())
        }),
    })
}
