//! Pointwise chains, rows and reductions of 16 million f32.

use lanthorn_ir::{Lazy, Value, ops};
use lanthorn_runtime::{Device, Eager, EagerTensor};

use super::{Program, f32s};
use crate::bench::Workload;
use crate::failure::Result;

const N: usize = 4096;
/// Adds of four elements that are timed together.
const ADDS: usize = 1000;

pub fn all(device: &Device) -> Result<Vec<Workload>> {
    let square = f32s(&[N, N]);
    let row = f32s(&[N]);
    let bytes = square.bytes() as f64;
    let program =
        |name, target, bytes| Program { name, target: Some(target), flops: 0.0, bytes, operands: &[] };
    Ok(vec![
        Program { operands: &[f32s(&[N * N])], ..program("chain_f32_16m", 8.0, 0.0) }.of(device, eight)?,
        Program { operands: &[square.clone()], ..program("softmax_f32_4096", 4.0, 0.0) }
            .of(device, |v| ops::softmax(&Lazy, &v[0], -1))?,
        Program { operands: &[square.clone(), row.clone(), row], ..program("layer_norm_f32_4096", 4.0, 0.0) }
            .of(device, |v| ops::layer_norm(&Lazy, &v[0], Some(&v[1]), Some(&v[2]), 1e-5))?,
        Program { operands: &[f32s(&[N * N])], ..program("sum_f32_16m", 0.9, bytes) }
            .of(device, |v| ops::sum(&Lazy, &v[0], &[], false))?,
        Program { operands: &[square.clone()], ..program("mean_axis0_f32_4096", 1.0, bytes) }
            .of(device, |v| ops::mean(&Lazy, &v[0], &[0], false))?,
        Program { operands: &[square.clone()], ..program("argmax_axis1_f32_4096", 2.0, bytes) }
            .of(device, |v| ops::argmax(&Lazy, &v[0], Some(1), false))?,
        Program { operands: &[square], ..program("argmax_axis0_f32_4096", 5.0, bytes) }
            .of(device, |v| ops::argmax(&Lazy, &v[0], Some(0), false))?,
        small_adds(device)?,
    ])
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
fn small_adds(device: &Device) -> Result<Workload> {
    let eager = Eager::new(device);
    let x = EagerTensor::from_vec(device, &[4], vec![1.0f32, 2.0, 3.0, 4.0])?;
    let y = x.copy()?;
    Ok(Workload {
        name: "eager_add_4_x1000",
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
