//! Pointwise chains, rows and reductions of 16 million f32.

use lanthorn_ir::{Lazy, TensorType, Value, ops};
use lanthorn_runtime::{Device, Eager, EagerTensor};

use super::{Make, Program, f32s};
use crate::bench::Workload;
use crate::bench::peer::Kind;
use crate::failure::Result;

const N: usize = 4096;
/// Adds of four elements that are timed together.
const ADDS: usize = 1000;

pub const ALL: &[(&str, Make)] = &[
    ("chain_f32_16m", |device, name| program(name, 8.0, &[f32s(&[N * N])]).of(device, eight)),
    ("softmax_f32_4096", |device, name| {
        program(name, 4.0, &[f32s(&[N, N])]).of(device, |v| ops::softmax(&Lazy, &v[0], -1))
    }),
    ("layer_norm_f32_4096", |device, name| {
        program(name, 4.0, &[f32s(&[N, N]), f32s(&[N]), f32s(&[N])])
            .of(device, |v| ops::layer_norm(&Lazy, &v[0], Some(&v[1]), Some(&v[2]), 1e-5))
    }),
    ("sum_f32_16m", |device, name| {
        reading(name, 0.9, &[f32s(&[N * N])]).of(device, |v| ops::sum(&Lazy, &v[0], &[], false))
    }),
    ("mean_axis0_f32_4096", |device, name| {
        reading(name, 1.0, &[f32s(&[N, N])]).of(device, |v| ops::mean(&Lazy, &v[0], &[0], false))
    }),
    ("argmax_axis1_f32_4096", |device, name| {
        reading(name, 2.0, &[f32s(&[N, N])]).of(device, |v| ops::argmax(&Lazy, &v[0], Some(1), false))
    }),
    ("argmax_axis0_f32_4096", |device, name| {
        reading(name, 5.0, &[f32s(&[N, N])]).of(device, |v| ops::argmax(&Lazy, &v[0], Some(0), false))
    }),
    ("eager_add_4_x1000", small_adds),
];

fn program<'a>(name: &'static str, target: f64, operands: &'a [TensorType]) -> Program<'a> {
    Program { name, target: Some(target), flops: 0.0, bytes: 0.0, operands }
}

/// One that reads its operand and writes little.
fn reading<'a>(name: &'static str, target: f64, operands: &'a [TensorType]) -> Program<'a> {
    Program { bytes: operands[0].bytes() as f64, ..program(name, target, operands) }
}

/// Eight operations, three of them transcendental.
fn eight(v: &[Value]) -> lanthorn_ir::Result<Value> {
    let (b, x) = (&Lazy, &v[0]);
    let y = ops::tanh(b, &ops::mul_scalar(b, x, 0.5)?)?;
    let y = ops::exp(b, &ops::add(b, &y, x)?)?;
    let y = ops::sigmoid(b, &ops::mul_scalar(b, &y, 0.1)?)?;
    let y = ops::sub(b, &y, x)?;
    ops::mul(b, &y, &y)
}

/// Adds of four elements, eagerly: what a call costs.
fn small_adds(device: &Device, name: &'static str) -> Result<Workload> {
    let eager = Eager::new(device);
    let x = EagerTensor::from_vec(device, &[4], vec![1.0f32, 2.0, 3.0, 4.0])?;
    let y = x.copy()?;
    Ok(Workload {
        name,
        peer: Kind::Torch,
        makes: (0.0, ""),
        target: None,
        flops: 0.0,
        bytes: 0.0,
        run: Box::new(move || {
            for _ in 0..ADDS {
                ops::add(&eager, &x, &y)?;
            }
            Ok(())
        }),
    })
}
